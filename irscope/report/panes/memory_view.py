"""Memory: the bytes of tensors and the views of a buffer, the layout of each tensor and the effect of another, and the plan over time."""

from collections import Counter
from collections.abc import Collection, Container, Iterator, Sequence
from functools import cached_property
from typing import Final

import numpy as np

from irscope._base.words import byte_count, plural, shortened
from irscope.analysis.live_ranges import Buffer
from irscope.analysis.memory_placement import Block, stacked
from irscope.analysis.memory_plan import MemoryPlan, OwnMemory, memory_plan
from irscope.analysis.views import ViewAliases, as_demand
from irscope.compilers.record import Program
from irscope.errors import UnknownName
from irscope.ir import GROUPS, Graph, Value, has_kernel
from irscope.ops.registry import category_of
from irscope.ops.traits import MAY_COPY
from irscope.ops.view_steps import ByteSet
from irscope.report import view_models as vm
from irscope.report.panes.compiler_view import table_view

# A buffer and its views as a map of bytes: which value covers which bytes, and where unrelated views overlap.

_CELLS: Final = 560
_MOST_ROWS: Final = 40
_FINE: Final = 16  # Cells of the map that one repetition needs to be distinguishable.
_MOST_RUNS: Final = 50_000  # Sets with more runs than this are drawn as the interval around them.


def buffers_with_views(views: ViewAliases, most: int = 6) -> list[Value]:
    """The roots of the buffers with the most views, in textual order."""
    roots = (views.root(value) for value in views.tensors() if views.kind(value) == "view")
    counts = Counter(root for root in roots if root is not None)
    sizes = {root: covered.stop for root in counts if isinstance(covered := views.bytes(root), ByteSet)}
    best = [root for root, _ in counts.most_common() if sizes.get(root)][:most]
    return [value for value in views.graph.values() if value in best]


def buffer_view(views: ViewAliases, root: Value | str) -> vm.BufferView:
    """The map of one buffer, without values whose bytes are known only at run time."""
    root = views.graph.value(root)
    names = views.graph.names
    sets = {value: covered for value in views.tensors() if views.root(value) is root and isinstance(covered := views.bytes(value), ByteSet)}
    shown = list(sets)[:_MOST_ROWS]
    length = max((sets[value].stop for value in shown), default=0)
    window = _window([sets[value] for value in shown], length)
    cells = {value: _cells(sets[value], window, length) for value in shown}
    order = {value: k for k, value in enumerate(shown)}
    paths = {value: views.chain(value) for value in shown}
    shown.sort(key=lambda value: [order.get(around, -1) for around in paths[value]])  # each below what it is a view of
    chains = {value: set(path) for value, path in paths.items()}
    parts = [value for value in shown if sets[value] != sets.get(root)]  # a view of all bytes is the buffer under another name
    rows: list[vm.BufferRow] = []
    for value in shown:
        met = np.zeros(_CELLS, bool)
        for other in parts if value in parts else ():
            if other not in chains[value] and value not in chains[other] and views.overlaps(value, other):
                met |= cells[value] & cells[other]
        producer = views.graph.producer.get(value)
        rows.append({
            "id": value.id, "name": f"%{names[value]}", "depth": len(chains[value]) - 1,
            "op": "" if producer is None else producer.op, "told": str(views.layout(value)),
            "runs": _runs(cells[value]), "shared": _runs(met),
        })  # fmt: skip
    return {"root": f"%{names[root]}", "bytes": length, "window": window, "rows": rows, "left_out": len(sets) - len(shown)}


def _window(sets: Sequence[ByteSet], length: int) -> int:
    """The number of bytes to draw: only the first period if all sets repeat periodically, too often to be visible."""
    steps = {covered.steps[0] for covered in sets if covered.counts}
    step = steps.pop() if len(steps) == 1 else 0
    if not step or length % step or length // step * _FINE < _CELLS:
        return length
    return step if all(_repeats(covered, step, length) for covered in sets) else length


def _repeats(covered: ByteSet, step: int, length: int) -> bool:
    if covered.is_interval:
        return covered.is_empty or (covered.start == 0 and covered.stop == length)
    return covered.counts[0] == length // step and covered.stop - (covered.counts[0] - 1) * step <= step


def _cells(covered: ByteSet, window: int, length: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """The cells of the map, of the first bytes of a buffer, that contain a byte of the set."""
    found = np.zeros(_CELLS, bool)
    if window != length:
        covered = ByteSet(covered.start, min(covered.width, window), covered.counts[1:], covered.steps[1:])
    if covered.is_empty or not window:
        return found
    size = covered.size
    many = size is None or size // covered.width > _MOST_RUNS
    for start, stop in [(covered.start, covered.stop)] if many else covered.runs():
        found[start * _CELLS // window : -(-stop * _CELLS // window)] = True
    return found


def _runs(cells: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> list[list[float]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], cells, [False]]).astype(np.int8)))
    return [[int(a) / _CELLS, int(b) / _CELLS] for a, b in edges.reshape(-1, 2)]


# The layout and buffer of each tensor, and the nodes that only copy one.

_COPYING: Final = MAY_COPY | {"aten::clone", "aten::_to_copy"}  # Ops that return their operand, in new memory if needed.
_FORMATS: Final = {"rows": range(2, 64), "columns": range(2, 4), "channels_last": (4, 5)}
"""Layouts to ask about for an argument, with the ranks they apply to."""
_FORMAT_WORDS: Final = {"rows": "row by row", "columns": "column by column", "channels_last": "channels last"}
_MOST_BUFFERS: Final = 12
_MOST_COPIES: Final = 500


class LayoutViews:
    """The layouts of one graph, computed at the first request."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._buffers: dict[Value, vm.BufferView | None] = {}

    @cached_property
    def _views(self) -> ViewAliases:
        return ViewAliases(self._graph)

    @cached_property
    def _tensors(self) -> dict[int, Value]:
        return {value.id: value for value in self._views.tensors()}

    @cached_property
    def _holding(self) -> frozenset[Value]:
        views = self._views
        found = (views.root(value) for value in self._tensors.values() if views.kind(value) == "view")
        return frozenset(root for root in found if root is not None)

    def layout(self, value: Value) -> vm.LayoutView:
        """The layout of a tensor. Raises UnknownName for other values."""
        views = self._views
        if value.id not in self._tensors:
            raise UnknownName(f"%{self._graph.names.get(value, value.name)} is not a tensor", hint="tensors have layouts")
        layout, root = views.layout(value), views.root(value)
        axes: list[vm.AxisView] = []
        if layout is not None:  # in memory order, slowest first
            strides, flags = layout.strides or ("?",) * len(layout.shape), layout.flags or ("gap",) * len(layout.shape)
            axes = [
                {"axis": axis, "extent": str(layout.shape[axis]), "stride": str(strides[axis]), "flag": flag}
                for axis, flag in zip(layout.order, flags, strict=True)
            ]
        return vm.LayoutView(
            id=value.id, kind=views.kind(value), decided=views.is_decided(value), because=shortened(views.explain(value).because, 600),
            axes=axes, root=root.id if root is not None else 0, buffer=self._buffer(root), others=self._others(value),
        )  # fmt: skip

    def _others(self, value: Value) -> list[str]:
        layout = self._views.layout(value)
        if value not in self._graph.free_inputs or layout is None:
            return []
        rank = len(layout.shape)
        return [name for name, ranks in _FORMATS.items() if rank in ranks and not as_demand(name, rank).is_met(layout)]

    def assumed(self, value: Value, layout: str) -> vm.AssumedLayout:
        """The effect of an argument in the layout `rows`, `columns` or `channels_last`: the nodes that copy then, and the planned peak."""
        graph, name = self._graph, f"%{self._graph.names[value]}"
        then = ViewAliases(graph, layouts={value: layout})
        now_copied = {copy["value"]: copy for copy in self._copies(graph, self._views)}
        then_copied = {copy["value"]: copy for copy in self._copies(then.graph, then)}
        is_view = {value.id: then.is_decided(value) and then.kind(value) == "view" for value in then.tensors()}
        views = [copy for id, copy in now_copied.items() if is_view.get(id)]
        copies = [copy for id, copy in then_copied.items() if id not in now_copied]
        open_ = sum(id not in then_copied and not is_view.get(id) for id in now_copied)
        would, do = _amount(then_copied.values(), "would copy"), _amount(now_copied.values(), "copying")
        undecided = f", and whether {open_} more would copy is known only at run time" if open_ else ""
        sentence = (
            f"with {name} {_FORMAT_WORDS[layout]}, {would} (now {do}){undecided}; "
            f"the peak by plan would be {byte_count(memory_plan(then.graph).peak)} (now {byte_count(memory_plan(graph).peak)})"
        )
        return vm.AssumedLayout(told=sentence, views=views[:_MOST_COPIES], copies=copies[:_MOST_COPIES])

    def _buffer(self, root: Value | None) -> vm.BufferView | None:
        if root is None or root not in self._holding:
            return None
        if root not in self._buffers:
            found = buffer_view(self._views, root)
            self._buffers[root] = found if found["bytes"] else None
        return self._buffers[root]

    def stored(self) -> tuple[dict[int, vm.LayoutView], dict[int, vm.BufferView]]:
        """Every layout, without its buffer, and the buffers with the most views."""
        largest = {root.id: buffer_view(self._views, root) for root in buffers_with_views(self._views, _MOST_BUFFERS)}
        self._buffers.update(dict.fromkeys(self._holding))
        return {id: self.layout(value) for id, value in self._tensors.items()}, largest

    def copies(self) -> list[vm.CopyView]:
        """The nodes that copy a tensor in every run, most bytes first; kernels copy as part of other work and are left out."""
        found = sorted(self._copies(self._graph, self._views), key=lambda copy: -copy["bytes"])
        return found[:_MOST_COPIES]

    def _copies(self, graph: Graph, views: ViewAliases) -> Iterator[vm.CopyView]:
        for node in graph.nodes():
            if len(node.outputs) != 1 or node.output.id not in self._tensors:
                continue
            if node.op not in _COPYING and category_of(node) != "view":
                continue
            value, owner = node.output, graph.owner.get(graph.block_of[node])
            if views.kind(value) != "copy" or not views.is_decided(value) or (owner is not None and owner.op in GROUPS):
                continue
            covered = views.bytes(value)
            yield vm.CopyView(
                id=node.id, value=value.id, label=f"%{graph.names[value]} = {node.op.partition('::')[2]}",
                bytes=covered.size if isinstance(covered, ByteSet) and covered.size is not None else -1,
                because=shortened(views.explain(value).because, 400),
            )  # fmt: skip


def _amount(copies: Collection[vm.CopyView], verb: str) -> str:
    """A sentence with the number of copying nodes and their bytes."""
    size = sum(max(copy["bytes"], 0) for copy in copies)
    return f"{len(copies) or 'no'} node{'s' * (len(copies) != 1)} {verb}{f' {byte_count(size)}' if copies else ''}"


# A memory plan as rectangles of addresses over time, with the peak and the bytes live at each moment.

_MOST_BARS: Final = 1500  # The most rectangles drawn, largest first; more would be indistinguishable.


def memory_view(plan: MemoryPlan, known: Container[int] | None = None) -> vm.MemoryView:
    """The view of a plan. Arenas are at the bottom, each from the same address; above them results, then separate allocations, as an
    allocator might place them. Values that are not among `known` ids get the id 0."""
    low_of, sections = _addresses(plan)
    peak = set(plan.at_peak)
    drawn = sorted(plan.lifetimes.buffers, key=lambda buffer: -buffer.bytes)[:_MOST_BARS]
    bars = [_bar(plan, buffer, low_of[buffer], buffer in peak) for buffer in drawn if buffer.bytes]
    for bar in bars:
        bar["id"] = bar["id"] if known is None or bar["id"] in known else 0
    return vm.MemoryView(
        title=f"{plan.graph.name}: memory by plan", caption=_caption(plan, len(plan.lifetimes.buffers) - len(drawn)),
        bars=sorted(bars, key=lambda bar: (bar["start"], bar["low"])), sections=sections, moments=len(plan.lifetimes.moments) + 1,
        peak_moment=plan.peak_moment, peak=plan.peak, lower_bound=plan.lower_bound, needed=_changes(plan.needed.tolist()),
        allocated=_changes(plan.allocated.tolist()),
    )  # fmt: skip


def own_memory_view(program: Program, memory: OwnMemory, plan: MemoryPlan) -> vm.OwnMemoryView:
    """The view of what a compiler's program allocates itself, beside a plan for the same program."""
    curve, peak = memory.curve, memory.peak
    told = f"{program.compiler}'s own program holds {'at least ' if memory.unknown else ''}{byte_count(peak)} at its peak"
    told += f" (by plan: {'at least ' if plan.unknown else ''}{byte_count(plan.peak)})"
    told += f"; it allocates {byte_count(memory.total)} for a whole run" if memory.total is not None else ""
    told += f"; {plural(memory.unknown, 'allocation')} without a known size" if memory.unknown else ""
    rows: list[list[str | float | None]] = [
        [each.name, each.bytes, _moment(memory, each.first), _moment(memory, each.last), each.how] for each in memory.allocations
    ]
    selects = [[node.id for node in each.nodes] for each in memory.allocations]
    table = table_view(("name", "bytes", "from", "to", "how"), rows, selects, numbers=("bytes",))
    return vm.OwnMemoryView(
        compiler=program.compiler, told=f"{told}. Read from {memory.where}.", moments=list(memory.moments),
        curve=_changes(curve), peak=peak,
        peak_moment=curve.index(peak) if curve else 0, allocations=table,
    )  # fmt: skip


def _moment(memory: OwnMemory, number: int) -> str:
    return f"{number}: {memory.moments[number]}" if 0 <= number < len(memory.moments) else ""


def _caption(plan: MemoryPlan, left_out: int) -> str:
    node = plan.peak_node
    when = "at the end"
    if node is not None:
        made = ", ".join(f"%{plan.graph.names[value]}" for value in node.outputs)
        when = f"while {f'the kernel of {made}' if has_kernel(node) else f'{made} = {node.op}' if made else node.op} runs"
        if node.location is not None:  # without the folders
            *folders, file = node.location.file.split("/")
            when += f" ({'…/' if folders else ''}{file}:{node.location.line})"
    least = f"{'at least ' if plan.unknown else ''}{byte_count(plan.lower_bound)} {when}, with {plural(len(plan.at_peak), 'value')} alive"
    takes = (
        f"takes {byte_count(plan.peak)}: {byte_count(plan.gap)} are alignment, gaps, and results beside the arena"
        if plan.gap
        else "takes no more"
    )
    caption = f"The program needs {least}; the plan {takes}."
    saved = plan.lower_bound - plan.in_place_peak
    caption += f" Writing elementwise results over their operands would save {byte_count(saved)}." if saved > 0 else ""
    caption += f" Not drawn: {plural(left_out, 'smaller memory', 'smaller memories')}." if left_out > 0 else ""
    return caption + "".join(f" {words[0].upper()}{words[1:]}." for words in (plan.uncounted_words(), plan.laid_out_words()) if words)


def _bar(plan: MemoryPlan, buffer: Buffer, low: int, at_peak: bool) -> vm.MemoryBar:
    name = plan.graph.names[buffer.value]
    place = buffer.maker.location
    inside = buffer.maker.blocks[0].nodes if has_kernel(buffer.maker) else ()  # a kernel has the colour of its last op
    kind = "result" if buffer.is_result else "carried from round to round" if buffer.is_carried else ""
    words = [f"%{name}", str(buffer.value.type), byte_count(buffer.bytes), f"made by {buffer.maker.op}", kind, str(place or "")]
    category = category_of(inside[-1] if inside else buffer.maker)
    return vm.MemoryBar(
        id=buffer.value.id, label=f"%{name}", title=" · ".join(word for word in words if word),
        category="memory" if category == "view" else category,  # a view that has memory copies
        start=buffer.birth, end=buffer.death, low=low, bytes=buffer.bytes,
        at_peak=at_peak,
    )  # fmt: skip


def _addresses(plan: MemoryPlan) -> tuple[dict[Buffer, int], list[vm.MemorySection]]:
    """The address of each memory in the picture, and the sections of the picture."""
    base: dict[Block, int] = {}
    arenas = [block for block in plan.blocks if block.result is None]
    results = [block for block in plan.blocks if block.result is not None]
    height = max((block.bytes for block in arenas), default=0)
    sections = [vm.MemorySection(label="arena" if len(arenas) == 1 else "arenas", low=0, bytes=height)] if arenas else []
    base.update(dict.fromkeys(arenas, 0))
    for block in results:
        base[block] = height
        height += block.bytes
    if results:
        low = min(base[block] for block in results)
        sections.append(vm.MemorySection(label="results", low=low, bytes=height - low))
    found = {place.buffer: base[place.block] + place.offset for place in plan.places}
    own = stacked(plan.own)
    found.update({buffer: height + offset for buffer, offset in own.items()})
    if own:
        top = max(offset + buffer.bytes for buffer, offset in own.items())
        sections.append(vm.MemorySection(label="of their own", low=height, bytes=top))
    return found, sections


def _changes(values: Sequence[int]) -> list[list[int]]:
    """The pairs (moment, bytes) at which the bytes change."""
    return [[at, value] for at, value in enumerate(values) if at == 0 or value != values[at - 1]]
