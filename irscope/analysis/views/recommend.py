"""Which buffers had better be laid out otherwise, so that what is copied today were views.

For each buffer that the program allocates, and of which some copy is made only because of the order of its axes, every order is
tried: the views and copies that lead on from it are gone through again, and the bytes that are copied are counted. All orders of
up to five axes; of more, rows, and the orders of the operands of the copies. What a buffer must look like (`demands`) is left as it is, and
so are inputs, which are the caller's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations
from math import factorial
from typing import Final

from irscope.analysis.views.demand import as_demand
from irscope.analysis.views.layout import Layout
from irscope.analysis.views.placement import Placement
from irscope.analysis.views.placements import Placements
from irscope.ir import Graph, Node, Value

__all__ = ["Recommendation", "recommendations"]

_MOST_AXES: Final = 5
_MOST_VALUES: Final = 200
"""Buffers with more views and copies than this are not gone through: 120 times."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """Another order of the axes for one buffer."""

    value: Value
    """The value whose buffer it is."""
    order: tuple[int, ...]
    """Its axes in memory order, the slowest first."""
    saves: int
    """How many bytes are no longer copied, less those that are copied then and are not now."""
    views: tuple[Value, ...]
    """The copies that become views."""
    copies: tuple[Value, ...]
    """The views that become copies."""


def recommendations(placements: Placements, demanded: Mapping[Value, object]) -> list[Recommendation]:
    """The best order for each buffer that has a better one, the most bytes first."""
    graph, of = placements.graph, placements.of
    after = _led_to(placements)
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


def _led_to(placements: Placements) -> Mapping[Value, list[Value]]:
    """What view ops, copying or not, make of each value."""
    found: dict[Value, list[Value]] = {}
    for value, placement in placements.of.items():
        if placement.source is not None and not placement.in_place:
            found.setdefault(placement.source, []).append(value)
    return found


def _best(
    placements: Placements, root: Value, after: Mapping[Value, list[Value]], demanded: Mapping[Value, object]
) -> Recommendation | None:
    layout = placements.of[root].layout
    assert layout is not None
    now = dict(_copied(placements, root, layout, after))
    if len(now) > _MOST_VALUES or any(value in demanded for value in now):
        return None
    best: Recommendation | None = None
    for order in _orders(layout):
        then = dict(_copied(placements, root, as_demand(order, len(layout.shape)).layout(layout), after))
        saves = sum(now.values()) - sum(then.values())
        if saves > (best.saves if best else 0):
            views = tuple(value for value in now if now[value] and not then.get(value, 0))
            copies = tuple(value for value in then if then[value] and not now.get(value, 0))
            best = Recommendation(root, order, saves, views, copies)
    return best


def _orders(layout: Layout) -> Iterator[tuple[int, ...]]:
    rank = len(layout.shape)
    if rank <= _MOST_AXES:
        assert factorial(rank) <= 120
        yield from permutations(range(rank))
    else:
        yield tuple(range(rank))
        yield (0, *range(2, rank), 1)


def _copied(placements: Placements, root: Value, layout: Layout, after: Mapping[Value, list[Value]]) -> Iterator[tuple[Value, int]]:
    """How many bytes each view op on the way copies if the root lies so: 0 of a view."""
    pending = [(root, layout)]
    while pending:
        here, lies = pending.pop()
        for value in after.get(here, ()):
            node, index = _view_op(placements.graph, value)
            if node is None:
                continue
            seen, is_view = placements.view_ops.outcome(node, lies, index)
            if seen is None or seen.item_size is None:
                continue
            count = 1
            for size in seen.shape:
                count *= size if isinstance(size, int) else 0
            yield value, 0 if is_view else count * seen.item_size
            pending.append((value, seen))


def _view_op(graph: Graph, value: Value) -> tuple[Node | None, int]:
    """The node that cuts or views, through the unpacking of its list, and which of its results the value is."""
    node = graph.producer.get(value)
    if node is None or node.op != "prim::ListUnpack":
        return node, 0
    return graph.producer.get(node.inputs[0]), node.outputs.index(value)
