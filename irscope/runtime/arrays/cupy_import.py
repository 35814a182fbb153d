"""The import of CuPy, or an error that says how to install it."""

from __future__ import annotations

from typing import Any

from irscope.errors import MissingExtra

__all__ = ["imported_cupy"]


def imported_cupy() -> Any:
    """Imports CuPy. Raises MissingExtra."""
    try:
        import cupy
    except ImportError:
        raise MissingExtra("cupy", extra="cuda13", purpose="to compile and run kernels of a GPU") from None
    return cupy
