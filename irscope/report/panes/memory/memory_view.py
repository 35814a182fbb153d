"""A memory plan as rectangles of addresses over time, with the peak and the bytes live at each moment."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Any, Final

from irscope.analysis.memory import stacked
from irscope.ir import Location, Node, has_kernel
from irscope.ops.registry import category_of
from irscope.report.view_models import MemoryBar, MemorySection, MemoryView
from irscope.report.words import byte_count, plural

if TYPE_CHECKING:
    from irscope.analysis.memory import Block, Buffer, MemoryPlan

__all__ = ["memory_view"]

_MOST_BARS: Final = 1500
"""The most rectangles drawn, largest first; more would be indistinguishable."""


def memory_view(plan: MemoryPlan, known: Container[int] | None = None) -> MemoryView:
    """The view of a plan. Arenas are at the bottom, each from the same address; above them results, then separate allocations,
    as an allocator might place them. Values that are not among `known` ids get the id 0."""
    low_of, sections = _addresses(plan)
    peak = set(plan.at_peak)
    drawn = sorted(plan.lifetimes.buffers, key=lambda buffer: -buffer.bytes)[:_MOST_BARS]
    bars = [_bar(plan, buffer, low_of[buffer], buffer in peak) for buffer in drawn if buffer.bytes]
    for bar in bars:
        bar["id"] = bar["id"] if known is None or bar["id"] in known else 0
    return MemoryView(
        title=f"{plan.graph.name}: memory by plan",
        caption=_caption(plan, len(plan.lifetimes.buffers) - len(drawn)),
        bars=sorted(bars, key=lambda bar: (bar["start"], bar["low"])),
        sections=sections,
        moments=len(plan.lifetimes.moments) + 1,
        peak_moment=plan.peak_moment,
        peak=plan.peak,
        lower_bound=plan.lower_bound,
        needed=_changes(plan.needed),
        allocated=_changes(plan.allocated),
    )


def _caption(plan: MemoryPlan, left_out: int) -> str:
    node = plan.peak_node
    when = node.op if node is not None else "the end"
    line = f", {_place(node.location)}" if node is not None and node.location is not None else ""
    caption = (
        f"The plan peaks at {'at least ' if plan.unknown else ''}{byte_count(plan.peak)}, "
        f"{f'{byte_count(plan.gap)} more than' if plan.gap else 'no more than'} the program needs "
        f"at its widest moment: {when}{line}, with {plural(len(plan.at_peak), 'value')} alive."
    )
    saved = plan.lower_bound - plan.in_place_peak
    caption += f" Writing elementwise results over their operands would save {byte_count(saved)}." if saved > 0 else ""
    caption += f" Not drawn: {plural(left_out, 'smaller memory', 'smaller memories')}." if left_out > 0 else ""
    return caption + (f" {uncounted[0].upper()}{uncounted[1:]}." if (uncounted := plan.uncounted_words()) else "")


def _place(location: Location) -> str:
    """File and line, without the folders."""
    *folders, file = location.file.split("/")
    return f"{'…/' if folders else ''}{file}:{location.line}"


def _bar(plan: MemoryPlan, buffer: Buffer, low: int, at_peak: bool) -> MemoryBar:
    name = plan.graph.names[buffer.value]
    place = buffer.maker.location
    kind = "result" if buffer.is_result else "carried from round to round" if buffer.is_carried else ""
    words = [f"%{name}", str(buffer.value.type), byte_count(buffer.bytes), f"made by {buffer.maker.op}", kind, str(place or "")]
    return MemoryBar(
        id=buffer.value.id,
        label=f"%{name}",
        title=" · ".join(word for word in words if word),
        category=_category(buffer.maker),
        start=buffer.birth,
        end=buffer.death,
        low=low,
        bytes=buffer.bytes,
        at_peak=at_peak,
        line=f"{place.file}:{place.line}" if place is not None else "",
    )


def _category(maker: Node) -> str:
    """The op category of the producer; for a kernel, that of its last op."""
    inside = maker.blocks[0].nodes if has_kernel(maker) else ()
    return category_of(inside[-1] if inside else maker)


def _addresses(plan: MemoryPlan) -> tuple[dict[Buffer, int], list[MemorySection]]:
    """The address of each memory in the picture, and the sections of the picture."""
    base: dict[Block, int] = {}
    arenas = [block for block in plan.blocks if block.result is None]
    results = [block for block in plan.blocks if block.result is not None]
    height = max((block.bytes for block in arenas), default=0)
    sections = [MemorySection(label="arena" if len(arenas) == 1 else "arenas", low=0, bytes=height)] if arenas else []
    base.update(dict.fromkeys(arenas, 0))
    for block in results:
        base[block] = height
        height += block.bytes
    if results:
        low = min(base[block] for block in results)
        sections.append(MemorySection(label="results", low=low, bytes=height - low))
    found = {place.buffer: base[place.block] + place.offset for place in plan.places}
    own = stacked(plan.own)
    found.update({buffer: height + offset for buffer, offset in own.items()})
    if own:
        top = max(offset + buffer.bytes for buffer, offset in own.items())
        sections.append(MemorySection(label="of their own", low=height, bytes=top))
    return found, sections


def _changes(sums: Any) -> list[list[int]]:
    """The pairs (moment, bytes) at which the bytes change."""
    values: Sequence[int] = sums.tolist()
    return [[at, value] for at, value in enumerate(values) if at == 0 or value != values[at - 1]]
