"""The kernels of a program as a tuple whose errors explain why a kernel is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, SupportsIndex, overload

from irscope.errors import UnknownNumber
from irscope.runtime.executor import CompiledKernel

__all__ = ["KernelList"]


class KernelList(tuple[CompiledKernel, ...]):
    """Kernels in the order in which they were compiled. Raises UnknownNumber for an index out of range."""

    _why_none: Callable[[], str]

    def __new__(cls, kernels: Iterable[CompiledKernel], why_none: Callable[[], str]) -> KernelList:
        """`why_none` returns the reason why there are none; it is called only when the reason is shown."""
        made = super().__new__(cls, kernels)
        made._why_none = why_none
        return made

    @overload
    def __getitem__(self, index: SupportsIndex) -> CompiledKernel: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[CompiledKernel, ...]: ...
    def __getitem__(self, index: Any) -> Any:
        try:
            return super().__getitem__(index)
        except (IndexError, TypeError):
            there = "there is 1, number 0" if len(self) == 1 else f"there are {len(self)}, counted from 0"
            raise UnknownNumber(f"there is no kernel {index!r}", hint=there if self else self._why_none()) from None

    def __repr__(self) -> str:
        return (
            "\n".join(f"{number}: {kernel!r}" for number, kernel in enumerate(self))
            or f"no kernels: {self._why_none()}"
        )
