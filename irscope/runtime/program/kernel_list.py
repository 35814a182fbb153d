"""The kernels of a program as a tuple that says why it has no such kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, SupportsIndex, overload

from irscope.errors import UnknownNumber
from irscope.runtime.executor import CompiledKernel

__all__ = ["KernelList"]


class KernelList(tuple[CompiledKernel, ...]):
    """Kernels in the order in which they were compiled. Raises UnknownNumber for an index that none has."""

    _why_none: Callable[[], str]

    def __new__(cls, kernels: Iterable[CompiledKernel], why_none: Callable[[], str]) -> KernelList:
        """`why_none` says why there are none, and is asked when somebody wants one."""
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
