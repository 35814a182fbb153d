"""Warnings that point at the caller's line, however deep in this package they are raised."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

__all__ = ["warn_caller"]

_OURS = f"{Path(__file__).parents[1]}{os.sep}"


def warn_caller(message: str) -> None:
    """Emit a UserWarning at the innermost line outside this package.

    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     warn_caller("look out")
    >>> str(told[0].message)
    'look out'
    """
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, UserWarning, stacklevel=level)
