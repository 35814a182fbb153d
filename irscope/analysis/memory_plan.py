"""The memory plan of a program: a place for each memory it allocates, the peak of bytes, and what would lower it."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from typing import Any, Final

import numpy as np
import pandas as pd

from irscope._base.nested import grouped
from irscope._base.results import Drawn
from irscope._base.running import without_collector
from irscope._base.words import listed, plural
from irscope.analysis.live_ranges import Buffer, Lifetimes, Offers, lifetimes, written_in_place
from irscope.analysis.memory_placement import Block, Place, live_sums, placed
from irscope.analysis.per_graph import shapes_of
from irscope.errors import new_table, public
from irscope.ir import NOT_CONSTANT, Graph, Node, TensorType, Value, constant_of, graph_of, has_kernel
from irscope.ops.registry import bind, category_of
from irscope.ops.traits import LAYS_OUT
from irscope.ops.view_steps import Num, byte_words, is_unknown, tensor_bytes

# The lower bound of a program's peak if results were written in place of operands.


def in_place_of(lives: Lifetimes) -> int:
    """The most bytes live at one moment if elementwise results took over an operand's memory."""
    ends = {buffer: buffer.death for buffer in lives.buffers}
    for buffer in lives.buffers:
        nodes = buffer.maker.blocks[0].nodes if has_kernel(buffer.maker) else (buffer.maker,)
        is_elementwise = all(category_of(inner) in ("pointwise", "scalar", "control") for inner in nodes)
        if buffer.is_result or buffer.is_carried or not is_elementwise:
            continue
        for operand in dict.fromkeys(buffer.maker.inputs):
            taken = lives.buffer_of(operand)
            if taken is not None and ends[taken] == buffer.birth > taken.birth and _alike(operand, buffer.value, taken, buffer):
                ends[taken] -= 1
                break
    return int(live_sums([(b.bytes, b.birth, ends[b]) for b in lives.buffers], len(lives.moments) + 1).max(initial=0))


def _alike(operand: Value, result: Value, taken: Buffer, made: Buffer) -> bool:
    """Whether each element of the result can take the place of the operand's element, with equal sizes of memory."""
    a, b = operand.type, result.type
    same = isinstance(a, TensorType) and isinstance(b, TensorType) and a.shape == b.shape and a.strides == b.strides
    return same and taken.bytes == made.bytes and not taken.is_carried


# Sharing by plan is a relation of its own, beside "is a view of" and "may alias": two values in one place at different times
# are never live together (`irscope.analysis.live_ranges`), so that no access can observe it. A plan says nothing about
# values, and changes no answer of the alias db.
#
# Arguments, parameters and constants exist before the run, and are not counted; nor is the workspace of a library while one of
# its ops runs.

_MOST_CUTS: Final = 12
"""How many thresholds are tried for the smallest peak; buffers with longer live ranges get memory of their own."""


@dataclass(frozen=True, eq=False, repr=False)
class MemoryPlan(Drawn):
    """The places and live ranges of one program's memories."""

    graph: Graph
    lifetimes: Lifetimes
    places: tuple[Place, ...]
    """The places of all buffers except `own`, in the order of their creation."""
    blocks: tuple[Block, ...]
    """The arenas, and the memories of results."""
    own: tuple[Buffer, ...]
    """Buffers without a place: carried from one round of a loop to the next, created by nodes that cannot be told where, or
    live for so long that they would keep an arena allocated."""
    in_place: Mapping[Value, Value] = field(default_factory=dict)
    """Maps each result that a kernel writes in place of an operand, which is dead afterwards, to that operand."""
    held: Mapping[Value, int] = field(default_factory=dict)
    """The bytes that a compiled program holds of weights as its kernels read them."""

    @cached_property
    def peak(self) -> int:
        """Bytes: the most that is allocated at one moment of a run by this plan."""
        return int(self.allocated.max(initial=0))

    @cached_property
    def lower_bound(self) -> int:
        """Bytes: the most that is live at one moment, a lower bound for any placement in this order of the nodes."""
        return int(self.needed.max(initial=0))

    @property
    def gap(self) -> int:
        """Bytes of the peak above the lower bound: alignment, gaps that stayed, and results with memory of their own."""
        return self.peak - self.lower_bound

    @cached_property
    def allocated(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Allocated bytes at each moment."""
        lives = [(block.bytes, block.birth, block.death) for block in self.blocks]
        return live_sums([*lives, *((b.bytes, b.birth, b.death) for b in self.own)], self._moments)

    @cached_property
    def needed(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Live bytes at each moment: memory still to be read or returned."""
        return live_sums([(b.bytes, b.birth, b.death) for b in self.lifetimes.buffers], self._moments)

    @property
    def _moments(self) -> int:
        return len(self.lifetimes.moments) + 1

    @cached_property
    def peak_moment(self) -> int:
        """The first moment at which the most bytes are live."""
        return int(self.needed.argmax()) if self.needed.size else 0

    @property
    def peak_node(self) -> Node | None:
        """The node that runs at `peak_moment`; None if that is the end of the program."""
        moments = self.lifetimes.moments
        return moments[self.peak_moment] if self.peak_moment < len(moments) else None

    @cached_property
    def at_peak(self) -> tuple[Buffer, ...]:
        """The memories that make up the peak: all that are live at `peak_moment`, the largest first."""
        now = self.peak_moment
        found = [buffer for buffer in self.lifetimes.buffers if buffer.birth <= now <= buffer.death]
        return tuple(sorted(found, key=lambda buffer: (-buffer.bytes, buffer.birth)))

    @property
    def unknown(self) -> tuple[Value, ...]:
        """Values that nothing here counts: those in memories of unknown size, and those that may be a copy or not."""
        return self.lifetimes.unknown

    @cached_property
    def uncounted(self) -> Num:
        """The bytes of these values together, as a formula of their extents; 0 if there are none."""
        return self._bytes_of(self.unknown)

    def _bytes_of(self, values: Sequence[Value]) -> Num:
        types = map(shapes_of(self.graph).type, values)
        return sum(tensor_bytes(type) for type in types if isinstance(type, TensorType))

    def uncounted_words(self) -> str:
        """Which values the peak does not count, and how to have them counted; empty if it counts all."""
        if not self.unknown:
            return ""
        of_known_size = [value for value in self.unknown if isinstance(self._bytes_of([value]), int)]
        kinds = ("of unknown size", [value for value in self.unknown if value not in of_known_size]), ("", of_known_size)
        found = []
        for kind, values in ((kind, values) for kind, values in kinds if values):
            names, amount = listed([f"%{self.graph.names[value]}" for value in values], most=4), self._bytes_of(values)
            kind = kind or f"that may be {'a copy' if len(values) == 1 else 'copies'}"
            size = "" if is_unknown(amount) else f", {byte_words(amount)}{' together' if len(values) > 1 else ''}"
            found.append(f"{plural(len(values), 'value')} {kind} ({names}){size}")
        given = [value for value in self.graph.free_inputs if value not in shapes_of(self.graph).reshaped]
        types = [value.type for value in given if isinstance(value.type, TensorType)]
        depends_on_data = all(type.is_static and type.strides is not None for type in types)
        return f"not counted: {' and '.join(found)}{'' if depends_on_data else '; load the program with example arguments'}"

    @cached_property
    def laid_out(self) -> Mapping[Value, int]:
        """The bytes of each weight of which the program holds a copy in the order that its reader wants, made once before the first run.

        They are no part of the peak, as weights are not: they stay from one run to the next. Of a compiled program,
        `irs.memory_plan(run)`, they count those that kernels of our own read, products too, with the padding and the tables beside them."""
        shapes, graph = shapes_of(self.graph), self.graph
        layers = (node for node in graph.nodes() if node.op in LAYS_OUT)
        weights = [given["W"] for node in layers if (given := bind(node))]
        held = [weight for weight in weights if weight in graph.bound or constant_of(graph, weight) is not NOT_CONSTANT]
        types = {weight: shapes.type(weight) for weight in held}
        return {**{weight: type.nbytes or 0 for weight, type in types.items() if isinstance(type, TensorType)}, **self.held}

    def laid_out_words(self) -> str:
        """Which weights the program holds twice; empty if none."""
        if not self.laid_out:
            return ""
        names = listed([f"%{self.graph.names[value]}" for value in self.laid_out], most=4)
        return f"beside the peak: {byte_words(sum(self.laid_out.values()))} for weights laid out once as layers read them ({names})"

    # One value

    @cached_property
    def _place_of(self) -> Mapping[Buffer, Place]:
        return {place.buffer: place for place in self.places}

    def place(self, value: Value | str) -> Place | None:
        """The place of a value; None if it has none, or may be one of several memories. Raises UnknownName."""
        buffer = self.lifetimes.buffer_of(self.graph.value(value))
        return None if buffer is None else self._place_of.get(buffer)

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

    @cached_property
    def in_place_peak(self) -> int:
        """Bytes: the lower bound if elementwise ops and kernels wrote into a dead operand of the same size."""
        return in_place_of(self.lifetimes)

    # Tables

    def table(self) -> pd.DataFrame:
        """One row per memory, in order of creation: its place, its live range, and the values that had the place before.

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
                "place": "own" if place is None else self._block_words(place.block).removeprefix("the "),
                "offset (bytes)": None if place is None else place.offset,
                "memory of": ", ".join(f"%{names[value]}" for value in before.get(buffer, ())),
                "at peak": buffer in peak,
                "line": str(buffer.maker.location or ""),
            })  # fmt: skip
        columns = ["value", "bytes", "made by", "from", "to", "place", "offset (bytes)", "memory of", "at peak", "line"]
        return new_table(rows, columns=columns).astype({"offset (bytes)": "Int64"})

    def peak_table(self) -> pd.DataFrame:
        """The contributions to the peak: one row per memory that is live at that moment, the largest first."""
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
        return new_table(rows, columns=["value", "type", "bytes", "share (%)", "made by", "needed until", "line"])

    def _before(self) -> Mapping[Buffer, Sequence[Value]]:
        """For each buffer, the values that most recently used some of its bytes before it."""
        by_block = grouped((place.block, place) for place in self.places)
        found: dict[Buffer, list[Value]] = {}
        for places in by_block.values():
            starts: list[tuple[int, int, Buffer]] = []  # address ranges with their last buffers, in order
            for place in sorted(places, key=lambda place: place.buffer.birth):
                starts, earlier = _taken(starts, place)
                found[place.buffer] = [buffer.value for buffer in earlier]
        return found

    def __repr__(self) -> str:
        arenas = [block.bytes for block in self.blocks if block.result is None]
        least = "at least " if self.unknown else ""
        missing = "".join(f"; {words}" for words in (self.uncounted_words(), self.laid_out_words()) if words)
        return (
            f"<MemoryPlan of {self.graph.name!r}: peak {least}{self.peak:,} bytes, {self.gap:,} above the lower bound; "
            f"{plural(len(self.lifetimes.buffers), 'memory', 'memories')}, {plural(len(arenas), 'arena')}{missing}>"
        )

    def _repr_html_(self) -> str:
        """The peak table for a notebook; with `%load_ext irscope` a picture of the whole plan is shown instead."""
        return f"<p>{escape(repr(self))}</p>{self.peak_table().to_html(index=False)}"


def _taken(stretches: list[tuple[int, int, Buffer]], place: Place) -> tuple[list[tuple[int, int, Buffer]], list[Buffer]]:
    """The address ranges after a buffer took its place, and the buffers that had a part of it before."""
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


@public
def memory_plan(program: Any, *, is_told: Callable[[Node], bool] | None = None, offers: Offers | None = None) -> MemoryPlan:
    """Plan the memory of a Graph, of the result of `fuse` or of a compiled program: live ranges, places, the peak with its contributions.

    `is_told` says whether a node can be told where to put its results; by default all can. With it, the plan can be run by:
    it keeps apart values that may alias even if the declared layouts say that they do not. `offers` returns the operands
    over which a node can write one of its results (`irscope.analysis.live_ranges`).

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
    """
    with without_collector():
        plan = _plan(graph_of(program, "memory_plan"), is_told, offers)
    return replace(plan, held=program.laid_out) if hasattr(program, "laid_out") else plan


def _plan(graph: Graph, is_told: Callable[[Node], bool] | None, offers: Offers | None) -> MemoryPlan:
    found = lifetimes(graph, is_told=is_told)
    if is_told is None:
        return _planned(graph, found, [b for b in found.buffers if not b.is_carried])
    plans = []
    for lives, in_place in (written_in_place(found, offers), (found, {})) if offers is not None else ((found, {}),):
        placeable = [b for b in lives.buffers if not b.is_carried and is_told(b.maker)]
        plans.append(replace(_with_least_peak(graph, lives, placeable), in_place=in_place))
    return min(plans, key=lambda plan: plan.peak)


def _planned(graph: Graph, found: Lifetimes, placeable: Sequence[Buffer]) -> MemoryPlan:
    results = [buffer for buffer in placeable if buffer.is_result]
    places, blocks = placed([buffer for buffer in placeable if not buffer.is_result], results)
    in_order = sorted(places, key=lambda place: place.buffer.birth)
    with_place = set(placeable)
    own = tuple(buffer for buffer in found.buffers if buffer not in with_place)
    return MemoryPlan(graph, found, tuple(in_order), tuple(blocks), own)


def _with_least_peak(graph: Graph, found: Lifetimes, placeable: Sequence[Buffer]) -> MemoryPlan:
    """The plan with the smallest peak among those that give long live ranges memory of their own, most places first.

    An arena stays allocated while anything in it is live. While other nodes allocate large memories of their own, one
    small value with a long live range would keep all of the arena.
    """
    best = _planned(graph, found, placeable)
    lengths = sorted({buffer.death - buffer.birth for buffer in placeable if not buffer.is_result}, reverse=True)
    step = max(1, len(lengths) // _MOST_CUTS)
    for longest in (*lengths[step::step], -1):
        if best.peak <= best.lower_bound:
            break
        rest = [b for b in placeable if b.is_result or b.death - b.birth <= longest]
        best = min(best, _planned(graph, found, rest), key=lambda plan: plan.peak)
    return best


# What another compiler's program allocates, to be laid beside a plan.


@dataclass(frozen=True, slots=True, eq=False)
class Allocation:
    """A piece of memory that a compiler's program holds for a while."""

    name: str
    """The name of what is in it, in that compiler's words."""
    bytes: int | None
    """None where the compiler does not say."""
    first: int
    """The number of the kernel before which it is there."""
    last: int
    """The number of the last kernel during which it is there."""
    how: str = "allocated"
    """Where it comes from: allocated, by a library, or the memory of another."""
    block: int = 0
    """Allocations of one number lie in the same memory: where several are there at once, it counts once, as large as the largest."""
    nodes: tuple[Node, ...] = ()
    """The nodes whose results it holds, if that is known."""


@dataclass(frozen=True, eq=False)
class OwnMemory:
    """What a compiler's program allocates, kernel by kernel; the memory of its arguments is its caller's."""

    where: str
    """What it was read from."""
    moments: tuple[str, ...]
    """What runs, in order."""
    allocations: tuple[Allocation, ...] = ()
    held: tuple[int, ...] = ()
    """The bytes that it holds while each runs, where the compiler says so itself."""
    total: int | None = None
    """The bytes that it allocates for a whole run, where it allocates once."""

    @property
    def curve(self) -> list[int]:
        """The bytes held while each kernel runs; memory under several names counts once, and what has no known size not at all."""
        if self.held:
            return list(self.held)
        changes = grouped(
            (at, (each.block, each.bytes or 0, by))
            for each in (self.allocations if self.moments else ()) if each.first <= each.last
            for at, by in ((each.first, 1), (each.last + 1, -1))
        )  # fmt: skip
        there, total, found = dict[int, Counter[int]](), 0, list[int]()
        for moment in range(len(self.moments)):
            for block, size, by in changes.get(moment, ()):
                sizes = there.setdefault(block, Counter())
                total -= max(sizes, default=0)
                sizes[size] += by
                if not sizes[size]:
                    del sizes[size]
                total += max(sizes, default=0)
            found.append(total)
        return found

    @property
    def peak(self) -> int:
        return max(self.curve, default=0)

    @property
    def unknown(self) -> int:
        """How many allocations have no known size: the peak is at least what is said."""
        return sum(each.bytes is None for each in self.allocations)
