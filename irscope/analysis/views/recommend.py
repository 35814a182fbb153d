"""Recommends other layouts for buffers, so that copies become views.

For each buffer that the program allocates, and from which some copy exists only because of the order of its axes, other orders are
tried: the views and copies derived from it are computed again, and the copied bytes are counted. Up to five axes, all orders are
tried; for more, row by row and channels last. Demanded layouts (`demands`) are kept, and
so are inputs, which belong to the caller.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise, permutations
from math import prod
from typing import Final, NamedTuple

from irscope._base.nested import grouped
from irscope.analysis.views.assumed import as_demand
from irscope.analysis.views.facts import Failure, Placement
from irscope.analysis.views.placements import Placements
from irscope.ir import Value
from irscope.ops.view_steps import Dense, Failed, Layout, Num, Regroup, gap_between, groups_of, memory_order

# Explains why a step copies, and the least change of the operand's strides that would make the copy a view.


class StrideDemand(NamedTuple):
    """One axis of the operand whose stride would have to be another."""

    axis: int
    stride: Num
    needed: Num

    def __str__(self) -> str:
        return f"stride({self.axis}) is {self.stride} and would have to be {self.needed}"


def stride_demands(failure: Failure) -> tuple[StrideDemand, ...]:
    """The strides that would make the step a view, the innermost axis first; outer ones assume the inner ones changed.

    >>> failure = Failure(Regroup((12,), True), Layout((3, 4), (5, 1), 0, None), Failed(""))
    >>> print(*stride_demands(failure))
    stride(0) is 5 and would have to be 4
    """
    layout = failure.before
    if layout.strides is None:
        return ()
    wanted = list(layout.strides)
    if isinstance(failure.step, Regroup):
        pairs = _merged(layout, failure.step)
    elif isinstance(failure.step, Dense):
        pairs = _dense(layout, failure.step, wanted)
    else:
        return ()
    for outer, inner in pairs:
        wanted[outer] = wanted[inner] * layout.shape[inner]
    order = sorted(range(len(wanted)), key=lambda axis: -axis)
    return tuple(StrideDemand(axis, layout.strides[axis], wanted[axis]) for axis in order if wanted[axis] != layout.strides[axis])


def _merged(layout: Layout, step: Regroup) -> list[tuple[int, int]]:
    """The axes that must follow each other, outer and inner, the innermost pair first."""
    groups = groups_of(layout.shape, step.shape)
    return [pair for old, _ in reversed(groups) for pair in reversed(list(pairwise(old)))]


def _dense(layout: Layout, step: Dense, wanted: list[Num]) -> list[tuple[int, int]]:
    order = [axis for axis in memory_order(step.memory_format, len(layout.shape)) if layout.shape[axis] != 1]
    if order:
        wanted[order[-1]] = 1
    return list(pairwise(order))[::-1]


def failure_words(failure: Failure, operand: str, op: str) -> str:
    """Why the step is not a view of the operand, as the end of a sentence."""
    layout, step = failure.before, failure.step
    if isinstance(failure.outcome, Failed):
        return f"{op} fails on {operand}: {failure.outcome.because}"
    if layout.strides is None:
        return f"the layout of {operand} is known only at run time"
    demands = stride_demands(failure)
    needs = "; ".join(map(str, demands))
    if isinstance(step, Regroup):
        pairs = [pair for pair in _merged(layout, step) if gap_between(layout.shape, layout.strides, *pair)]
        axes = _axes(sorted({axis for pair in pairs for axis in pair}))
        still = [axis for axis in {axis for pair in pairs for axis in pair} if layout.strides[axis] == 0]
        repeated = f", and axis {still[0]} repeats what it has" if still else ""
        return f"{op} puts {axes} of {operand} together, which lie apart in memory{repeated}: {needs}"
    if isinstance(step, Dense):
        what = "row by row" if step.memory_format == 0 else "channels last"
        return f"{operand} is not laid out {what}: {needs}" if needs else f"torch does not regard {operand} as laid out {what}"
    return f"{op} makes a copy of {operand}"


def _axes(axes: list[int]) -> str:
    if len(axes) == 1:
        return f"axis {axes[0]}"
    return f"axes {', '.join(map(str, axes[:-1]))} and {axes[-1]}"


_MOST_AXES: Final = 5
_MOST_VALUES: Final = 200
"""Buffers with more views and copies than this are skipped, since these are computed up to 120 times."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """Another order of the axes for one buffer."""

    value: Value
    """The value whose buffer it is."""
    order: tuple[int, ...]
    """Its axes in memory order, the slowest first."""
    saves: int
    """The number of bytes no longer copied, less those newly copied."""
    views: tuple[Value, ...]
    """The copies that become views."""
    copies: tuple[Value, ...]
    """The views that become copies."""


def recommendations(placements: Placements, demanded: Mapping[Value, object]) -> list[Recommendation]:
    """The best order for each buffer that has a better one, the most bytes first."""
    graph, of = placements.graph, placements.of
    after = grouped((placement.source, value) for value, placement in of.items() if placement.source is not None and not placement.in_place)
    """The results of view ops, copying or not, on each value."""
    roots: dict[Value, None] = {}
    for placement in of.values():
        if placement.kind == "copy" and placement.failure is not None and placement.is_decided and placement.source is not None:
            source = of[placement.source]
            if source.root is not None and source.origin == "made" and source.root not in demanded:
                roots[source.root] = None
    found = [_best(placements, root, after, demanded) for root in roots if _is_plain(of[root])]
    position = {value: index for index, value in enumerate(graph.values())}
    better = [each for each in found if each is not None]
    return sorted(better, key=lambda each: (-each.saves, position[each.value]))


def _is_plain(placement: Placement) -> bool:
    return placement.layout is not None and placement.layout.is_known and placement.layout.item_size is not None


def _best(
    placements: Placements, root: Value, after: Mapping[Value, list[Value]], demanded: Mapping[Value, object]
) -> Recommendation | None:
    layout = placements.of[root].layout
    assert layout is not None
    now = dict(_copied(placements, root, layout, after))
    if len(now) > _MOST_VALUES or any(value in demanded for value in now):
        return None
    best: Recommendation | None = None
    rank = len(layout.shape)
    orders = permutations(range(rank)) if rank <= _MOST_AXES else iter([tuple(range(rank)), (0, *range(2, rank), 1)])
    for order in orders:
        then = dict(_copied(placements, root, as_demand(order, rank).layout(layout), after))
        saves = sum(now.values()) - sum(then.values())
        if saves > (best.saves if best else 0):
            views = tuple(value for value in now if now[value] and not then.get(value, 0))
            copies = tuple(value for value in then if then[value] and not now.get(value, 0))
            best = Recommendation(root, order, saves, views, copies)
    return best


def _copied(placements: Placements, root: Value, layout: Layout, after: Mapping[Value, list[Value]]) -> Iterator[tuple[Value, int]]:
    """The bytes that each view op derived from the root copies for this layout of the root: 0 for a view."""
    producer, pending = placements.graph.producer, [(root, layout)]
    while pending:
        here, lies = pending.pop()
        for value in after.get(here, ()):
            node = producer.get(value)
            is_item = node is not None and node.op == "prim::ListUnpack"  # of the list that the view op makes
            index = node.outputs.index(value) if node is not None and is_item else 0
            node = producer.get(node.inputs[0]) if node is not None and is_item else node
            if node is None:
                continue
            seen, is_view = placements.view_ops.outcome(node, lies, index)
            if seen is None or seen.item_size is None:
                continue
            count = prod(size if isinstance(size, int) else 0 for size in seen.shape)
            yield value, 0 if is_view else count * seen.item_size
            pending.append((value, seen))
