"""Whether memory lies as a program assumes when it is called: no argument in a parameter, no two parameters become one.

The alias db tells the parameters that `irs.load` bound from each other and from arguments (`Graph.storages`), and passes
reorder by what it says. That makes a difference only where one of two names is written. So a program that writes no memory
from outside is never checked. In one that does, an argument must not lie in a storage that the program writes, nor, if
the argument itself is written, in any; and since `p.data = ...` gives a parameter other memory, those that have moved are
numbered again. A call pays one address for each parameter, and a search among their ranges for each argument.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from irscope._base.leaves import leaves
from irscope._base.storages import address_range, by_storage
from irscope.analysis.per_graph import alias_db_of
from irscope.errors import ArgumentError
from irscope.ir import Graph, Value
from irscope.runtime.executor.gradients import may_write

__all__ = ["StorageCheck", "storage_check"]


def storage_check(graph: Graph) -> StorageCheck | None:
    """What looks at the addresses of a program's arguments and parameters; None where they make no difference."""
    if not graph.storages or not may_write(graph):
        return None
    db = alias_db_of(graph)
    written = frozenset(value for value in graph.inputs if db.has_writers(value))
    return StorageCheck(graph, written) if written else None


class StorageCheck:
    """What one program assumes of memory, and writes.

    >>> import irscope as irs, numpy as np
    >>> from dataclasses import replace
    >>> g = irs.parse("graph(%x : Tensor, %w : Tensor):\\n  %y : Tensor = aten::add_(%x, %w)\\n  return (%y)")
    >>> w = np.zeros(3, np.float32)
    >>> g = replace(g, bound={g.value("w"): w}, storages={g.value("w"): 0})
    >>> check = storage_check(g)
    >>> check([np.ones(3, np.float32)])
    >>> check([w[1:]])
    Traceback (most recent call last):
    irscope.errors.ArgumentError: the argument for %x lies in the memory of the parameter %w, and the program writes it...
    """

    def __init__(self, graph: Graph, written: frozenset[Value]) -> None:
        self.graph = graph
        self.written = written
        self._numbers = {graph.storages[value] for value in written if value in graph.storages}
        bound = {value: graph.bound[value] for value in graph.storages if value in graph.bound}
        self._movable = [tensor for tensor in bound.values() if hasattr(tensor, "data_ptr")]
        self._bound = bound
        self._addresses: list[int] = []
        self._look()

    def __call__(self, arguments: Sequence[Any]) -> None:
        """Raises ArgumentError where memory lies otherwise than was assumed."""
        if [tensor.data_ptr() for tensor in self._movable] != self._addresses:
            self._look()
        for value, argument in zip(self.graph.free_inputs, arguments, strict=False):
            for leaf in leaves(argument):
                if hasattr(leaf, "shape"):
                    self._check(value, leaf)

    def _look(self) -> None:
        """Find out where the parameters lie. Raises ArgumentError if two have become one that were not."""
        assumed, first = self.graph.storages, dict[int, Value]()
        for value, number in by_storage(self._bound).items():
            other = first.setdefault(number, value)
            if assumed[other] != assumed[value]:
                names = self.graph.names
                raise ArgumentError(
                    f"the parameters %{names[other]} and %{names[value]} share memory now, and did not when the program was loaded",
                    rule="storages",
                    hint="load the model again, as it is now",
                )
        ranges = [(*found, value) for value, tensor in self._bound.items() if (found := address_range(tensor))]
        self._ranges = _Ranges(ranges)
        self._written_ranges = _Ranges([at for at in ranges if assumed[at[2]] in self._numbers])
        self._addresses = [tensor.data_ptr() for tensor in self._movable]

    def _check(self, value: Value, leaf: Any) -> None:
        given = address_range(leaf)
        ranges = self._ranges if value in self.written else self._written_ranges
        other = None if given is None else ranges.meeting(*given)
        if other is not None:
            names = self.graph.names
            raise ArgumentError(
                f"the argument for %{names[value]} lies in the memory of the parameter %{names[other]}, and the program writes it",
                rule="storages",
                hint="it was compiled for arguments outside of the parameters: pass a copy of this one",
            )


class _Ranges:
    """Ranges of addresses to be searched; those with an address in common are one."""

    def __init__(self, ranges: Sequence[tuple[int, int, Value]]) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.values: list[Value] = []
        for start, end, value in sorted(ranges, key=lambda found: found[:2]):
            if start == end:
                continue
            if self.ends and start < self.ends[-1]:
                self.ends[-1] = max(self.ends[-1], end)
                continue
            self.starts.append(start)
            self.ends.append(end)
            self.values.append(value)

    def meeting(self, start: int, end: int) -> Value | None:
        """Whose range has a byte in common with this one."""
        index = bisect_right(self.ends, start)  # the first that ends after the start
        meets = start < end and index < len(self.starts) and self.starts[index] < end
        return self.values[index] if meets else None
