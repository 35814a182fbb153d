"""A library that counts how many of its results are alive, each time that it is called."""

from __future__ import annotations

import weakref
from typing import Any

from irscope.ir.core import Node
from irscope.runtime.arrays.numpy import NumpyLibrary


class CountingLibrary(NumpyLibrary):
    def __init__(self) -> None:
        super().__init__()
        self.alive: list[int] = []
        """At each op, the earlier results that are still there."""
        self._results: list[weakref.ref[object]] = []

    def forget(self) -> None:
        self.alive.clear()
        self._results.clear()

    def function(self, node: Node) -> Any:
        inner = super().function(node)

        def counted(*operands: object) -> object:
            self.alive.append(sum(ref() is not None for ref in self._results))
            result = inner(*operands)
            self._results.append(weakref.ref(result))
            return result

        return counted
