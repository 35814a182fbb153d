"""A place for each memory that a program makes, the most bytes needed at once, and what would need fewer.

Sharing by plan is a relation of its own, beside "is a view of" and "may alias": two values in one place at different times
are never needed together (`irscope.analysis.memory.live_ranges`), so that no access can tell. A plan says nothing of the
values, and changes no answer of the alias db.

Arguments, parameters and constants are there before, and are not counted; nor is what a library takes while one of its
ops runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from irscope._base.concurrency.cached import cached_property
from irscope._base.concurrency.restored import without_collector
from irscope._base.verdict import Verdict, no, yes
from irscope._base.words import plural
from irscope.analysis.memory.in_place import Offers, written_in_place
from irscope.analysis.memory.live_ranges import Buffer, Lifetimes, lifetimes
from irscope.analysis.memory.placement import Block, Place, live_sums, placed
from irscope.analysis.memory.savings import in_place_of, reordered_bound
from irscope.errors import loading
from irscope.ir import Graph, Node, Value, graph_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["MemoryPlan", "memory_plan"]

_MOST_CUTS: Final = 12
"""Lengths of lives beyond which buffers get memory of their own, tried for the smallest peak."""


@dataclass(frozen=True, eq=False, repr=False)
class MemoryPlan:
    """Where the memories of one program lie, and when."""

    graph: Graph
    lifetimes: Lifetimes
    places: tuple[Place, ...]
    """Of all buffers but `own`, in the order in which they are made."""
    blocks: tuple[Block, ...]
    """The arenas, and the memories of results."""
    own: tuple[Buffer, ...]
    """Buffers that have no place: carried from one round of a loop to the next, made by who cannot be told where, or needed for
    so long that an arena would be kept for them."""
    in_place: Mapping[Value, Value] = field(default_factory=dict)
    """For each result that a kernel writes in place of an operand that nobody needs afterwards, that operand."""

    @cached_property
    def peak(self) -> int:
        """Bytes: the most that is allocated at one moment of a run by this plan."""
        return int(self.allocated.max(initial=0))

    @cached_property
    def lower_bound(self) -> int:
        """Bytes: the most that is needed at one moment, below which no placement gets in this order of the nodes."""
        return int(self.needed.max(initial=0))

    @property
    def gap(self) -> int:
        """Bytes of the peak above the lower bound: alignment, and what the placement could not fill."""
        return self.peak - self.lower_bound

    @cached_property
    def allocated(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Bytes at each moment."""
        lives = [(block.bytes, block.birth, block.death) for block in self.blocks]
        return live_sums([*lives, *((b.bytes, b.birth, b.death) for b in self.own)], self._moments)

    @cached_property
    def needed(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Bytes at each moment of what is still to be read, or to be given back."""
        return live_sums([(b.bytes, b.birth, b.death) for b in self.lifetimes.buffers], self._moments)

    @property
    def _moments(self) -> int:
        return len(self.lifetimes.moments) + 1

    @cached_property
    def peak_moment(self) -> int:
        """The first moment at which the most is needed."""
        return int(self.needed.argmax()) if self.needed.size else 0

    @property
    def peak_node(self) -> Node | None:
        """The node that runs then; None where the program ends."""
        moments = self.lifetimes.moments
        return moments[self.peak_moment] if self.peak_moment < len(moments) else None

    @cached_property
    def at_peak(self) -> tuple[Buffer, ...]:
        """What makes the peak: all that is needed at `peak_moment`, the largest first."""
        now = self.peak_moment
        found = [buffer for buffer in self.lifetimes.buffers if buffer.birth <= now <= buffer.death]
        return tuple(sorted(found, key=lambda buffer: (-buffer.bytes, buffer.birth)))

    @property
    def unknown(self) -> tuple[Value, ...]:
        """Values in memories of unknown size, which nothing here counts."""
        return self.lifetimes.unknown

    # One value

    @cached_property
    def _place_of(self) -> Mapping[Buffer, Place]:
        return {place.buffer: place for place in self.places}

    def place(self, value: Value | str) -> Place | None:
        """Where a value lies; None for one that has no place, or may be one of several memories. Raises UnknownName."""
        buffer = self._buffer(value)
        return None if buffer is None else self._place_of.get(buffer)

    def _buffer(self, value: Value | str) -> Buffer | None:
        return self.lifetimes.buffer_of(self.graph.value(value))

    def same_storage(self, a: Value | str, b: Value | str) -> Verdict:
        """Whether two values have a byte in common by plan, and when each of them has it.

        A view and its root do, too: they are one memory. Raises UnknownName for what is no value of the graph.
        """
        left, right = self._buffer(a), self._buffer(b)
        names = [f"%{self.graph.names[self.graph.value(value)]}" for value in (a, b)]
        if left is None or right is None:
            other = names[0] if left is None else names[1]
            return no(
                f"{other} has no memory of known size that the program makes", self.graph.value(a), self.graph.value(b)
            )
        for result, operand in ((a, b), (b, a)):
            if self.in_place.get(self.graph.value(result)) is self.graph.value(operand):
                name, of = self.graph.names[self.graph.value(result)], self.graph.names[self.graph.value(operand)]
                return yes(f"%{name} is written in place of %{of}, whose last use that is", left.value)
        if left is right:
            return yes(f"both lie in the memory of %{self.graph.names[left.value]}", left.value)
        one, two = self._place_of.get(left), self._place_of.get(right)
        if one is None or two is None:
            return no(f"{names[0] if one is None else names[1]} has memory of its own", left.value, right.value)
        start, end = max(one.offset, two.offset), min(one.end, two.end)
        if one.block is not two.block or start >= end:
            return no(f"{self._where(one)}, {self._where(two)}", left.value, right.value)
        first, then = sorted((left, right), key=lambda buffer: buffer.birth)
        until = self._moment_words(first.death)
        told = (
            f"%{self.graph.names[then.value]} is made after the last use of %{self.graph.names[first.value]}, {until}"
        )
        return yes(
            f"they share bytes {start}–{end - 1} of {self._block_words(one.block)}: {told}", left.value, right.value
        )

    def _where(self, place: Place) -> str:
        name = self.graph.names[place.buffer.value]
        return f"%{name} lies in bytes {place.offset}–{place.end - 1} of {self._block_words(place.block)}"

    def _block_words(self, block: Block) -> str:
        if block.result is not None:
            return f"the result %{self.graph.names[block.result.value]}"
        arenas = sum(other.result is None for other in self.blocks)
        return "the arena" if arenas == 1 else f"arena {block.index}"

    def _moment_words(self, moment: int) -> str:
        if moment >= len(self.lifetimes.moments):
            return "the end of the program"
        node = self.lifetimes.moments[moment]
        made = ", ".join(f"%{self.graph.names[value]}" for value in node.outputs)
        return f"{node.op} ({made})" if made else node.op

    # What would need less

    @cached_property
    def in_place_peak(self) -> int:
        """Bytes: the lower bound if elementwise ops and kernels wrote into an operand of the same size that nobody needs any
        more."""
        return in_place_of(self.lifetimes)

    @cached_property
    def reordered_peak(self) -> int:
        """Bytes: the lower bound if the nodes of the top block came in an order, within their dependences, that frees memory
        early; that of the program's own order where none was found that needs less. n log n."""
        return min(self.lower_bound, reordered_bound(self.lifetimes))

    # Tables

    def table(self) -> pd.DataFrame:
        """One row a memory, in the order in which they are made: where and when it lies, and what lay there before.

        >>> import irscope as irs
        >>> g = irs.parse('''graph(%x : Float(256)):
        ...   %a : Float(256) = aten::neg(%x)
        ...   %b : Float(256) = aten::exp(%a)
        ...   %c : Float(256) = aten::tanh(%b)
        ...   %d : Float(256) = aten::relu(%c)
        ...   return (%d)''')
        >>> mp = irs.memory_plan(g)
        >>> mp.table()[["value", "bytes", "place", "offset (bytes)", "memory of"]].values.tolist()[1:3]
        [['%b', 1024, 'arena', 1024, ''], ['%c', 1024, 'arena', 0, '%a']]
        """
        with loading("pandas"):
            import pandas as pd

        peak, names = set(self.at_peak), self.graph.names
        before = self._before()
        rows = []
        for buffer in self.lifetimes.buffers:
            place = self._place_of.get(buffer)
            rows.append({
                "value": f"%{names[buffer.value]}",
                "bytes": buffer.bytes,
                "made by": buffer.maker.op,
                "from": buffer.birth,
                "to": buffer.death,
                "place": "own" if place is None else self._place_words(place.block),
                "offset (bytes)": None if place is None else place.offset,
                "memory of": ", ".join(f"%{names[value]}" for value in before.get(buffer, ())),
                "at peak": buffer in peak,
                "line": str(buffer.maker.location or ""),
            })  # fmt: skip
        columns = ["value", "bytes", "made by", "from", "to", "place", "offset (bytes)", "memory of", "at peak", "line"]
        return pd.DataFrame(rows, columns=columns).astype({"offset (bytes)": "Int64"})

    def peak_table(self) -> pd.DataFrame:
        """What makes the peak: one row a memory that is needed at that moment, the largest first."""
        with loading("pandas"):
            import pandas as pd

        names, total = self.graph.names, self.lower_bound or 1
        rows = [
            {
                "value": f"%{names[buffer.value]}",
                "type": str(buffer.value.type),
                "bytes": buffer.bytes,
                "share (%)": round(100 * buffer.bytes / total, 1),
                "made by": buffer.maker.op,
                "needed until": self._moment_words(buffer.death),
                "line": str(buffer.maker.location or ""),
            }
            for buffer in self.at_peak
        ]
        return pd.DataFrame(rows, columns=["value", "type", "bytes", "share (%)", "made by", "needed until", "line"])

    def _place_words(self, block: Block) -> str:
        return self._block_words(block).removeprefix("the ")

    def _before(self) -> Mapping[Buffer, Sequence[Value]]:
        """For each buffer, the values that had the most recent turn at some of its bytes: all whose life ended last before."""
        by_block: dict[Block, list[Place]] = {}
        for place in self.places:
            by_block.setdefault(place.block, []).append(place)
        found: dict[Buffer, list[Value]] = {}
        for places in by_block.values():
            starts: list[tuple[int, int, Buffer]] = []  # stretches of addresses with who had them last, in order
            for place in sorted(places, key=lambda place: place.buffer.birth):
                starts, earlier = _taken(starts, place)
                found[place.buffer] = [buffer.value for buffer in earlier]
        return found

    def __repr__(self) -> str:
        arenas = [block.bytes for block in self.blocks if block.result is None]
        return (
            f"<MemoryPlan of {self.graph.name!r}: peak {self.peak:,} bytes, {self.gap:,} above the lower bound; "
            f"{plural(len(self.lifetimes.buffers), 'memory', 'memories')}, {plural(len(arenas), 'arena')}>"
        )


    def _repr_html_(self) -> str:
        """What makes the peak, in a notebook; with `%load_ext irscope` there is a picture of all in its place."""
        return f"<p>{escape(repr(self))}</p>{self.peak_table().to_html(index=False)}"


def _taken(
    stretches: list[tuple[int, int, Buffer]], place: Place
) -> tuple[list[tuple[int, int, Buffer]], list[Buffer]]:
    """The stretches after a place has changed hands, and who had a part of it before."""
    start, end = place.offset, place.end
    kept: list[tuple[int, int, Buffer]] = []
    earlier: list[Buffer] = []
    for low, high, buffer in stretches:
        if high <= start or low >= end:
            kept.append((low, high, buffer))
            continue
        earlier.append(buffer)
        if low < start:
            kept.append((low, start, buffer))
        if high > end:
            kept.append((end, high, buffer))
    return [*kept, (start, end, place.buffer)], earlier


def memory_plan(program: Any, *, is_told: Callable[[Node], bool] | None = None, offers: Offers | None = None) -> MemoryPlan:
    """Plan the memory of a Graph, or of what `fuse` gave: live ranges, places, the peak and what makes it.

    `is_told` says of a node whether it can be told where to put what it makes; without it all can. Then the plan is one to run
    by: it keeps apart what may be one memory even where the declared layouts say that it is not. `offers` says of a node and one
    of its results over which operands it can write it (`irscope.analysis.memory.in_place`).

    >>> import irscope as irs
    >>> g = irs.parse('''graph(%x : Float(1024)):
    ...   %a : Float(1024) = aten::neg(%x)
    ...   %b : Float(1024) = aten::exp(%a)
    ...   %c : Float(1024) = aten::tanh(%b)
    ...   %d : Float() = aten::sum(%c)
    ...   return (%d)''')
    >>> mp = irs.memory_plan(g)
    >>> mp.peak, mp.lower_bound, [buffer.value.name for buffer in mp.at_peak]
    (8256, 8192, ['a', 'b'])
    >>> print(mp.same_storage("a", "c"))
    yes, because they share bytes 0–4095 of the arena: %c is made after the last use of %a, aten::exp (%b)
    """
    return without_collector(_plan, graph_of(program, "memory_plan"), is_told, offers)


def _plan(graph: Graph, is_told: Callable[[Node], bool] | None, offers: Offers | None) -> MemoryPlan:
    found = lifetimes(graph, is_told=is_told)
    if is_told is None:
        return _planned(graph, found, [b for b in found.buffers if not b.is_carried])
    plans = []
    for lives, in_place in (written_in_place(found, offers), (found, {})) if offers is not None else ((found, {}),):
        told = [b for b in lives.buffers if not b.is_carried and is_told(b.maker)]
        plans.append(replace(_with_least_peak(graph, lives, told), in_place=in_place))
    return min(plans, key=lambda plan: plan.peak)


def _planned(graph: Graph, found: Lifetimes, told: Sequence[Buffer]) -> MemoryPlan:
    """The plan in which these buffers have places."""
    results = [buffer for buffer in told if buffer.is_result]
    places, blocks = placed([buffer for buffer in told if not buffer.is_result], results)
    in_order = sorted(places, key=lambda place: place.buffer.birth)
    with_place = set(told)
    own = tuple(buffer for buffer in found.buffers if buffer not in with_place)
    return MemoryPlan(graph, found, tuple(in_order), tuple(blocks), own)


def _with_least_peak(graph: Graph, found: Lifetimes, told: Sequence[Buffer]) -> MemoryPlan:
    """The plan with the smallest peak among those that give long lives memory of their own, the one with most places first.

    An arena stays allocated while anything in it is needed. Where others make large memories of their own meanwhile, one
    small value that lives long would keep all of it.
    """
    best = _planned(graph, found, told)
    lengths = sorted({buffer.death - buffer.birth for buffer in told if not buffer.is_result}, reverse=True)
    step = max(1, len(lengths) // _MOST_CUTS)
    for longest in (*lengths[step::step], -1):
        if best.peak <= best.lower_bound:
            break
        rest = [b for b in told if b.is_result or b.death - b.birth <= longest]
        best = min(best, _planned(graph, found, rest), key=lambda plan: plan.peak)
    return best
