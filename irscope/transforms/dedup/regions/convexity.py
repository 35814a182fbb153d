"""Makes regions convex, so that each can run as one step: no path leaves one and comes back, and no two wait for each other.

*One region.* A region can be one step of the program if no path of dependences (data, memory, effects, random numbers) leads out
of it and back in. One walk from its first node to its last finds the nodes outside that depend on it, and the nodes inside that
depend on these: either they are cut off, or all nodes where such paths begin, whichever are fewer. A column cut in one place is
cut in all. The remaining nodes depend on no node that was cut (or no node that was cut depends on them), so a cut makes the place
convex for good, but may break another; the walk is repeated until all places pass, at most `_ROUNDS` times.

*All regions together.* Convex regions may still wait for each other (A's second half for B's first, B's second for A's first). The
dependences with each region contracted to a point have an order exactly when there is no cycle, as for fusion groups
(`irscope.transforms.grouping.partition`). One topological sort finds the regions on cycles.

*Order inside.* Places have the same data edges, but a place may have more memory edges. Nodes are listed in the order of the
first place, so each place must allow that order (`keeps_order`).

A walk costs the span of a place. Interleaved places (attention heads written side by side) are walked over once each; where the
spans add up to more than `_SPANS` times the program, the region is given up.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import lt
from typing import Final

from irscope.transforms.dedup.regions.block_index import BlockIndex

__all__ = ["convex_columns", "keeps_order", "waiting_regions"]

_ROUNDS: Final = 6
_SPANS: Final = 32

Columns = list[list[int]]


def convex_columns(index: BlockIndex, columns: Columns) -> Columns:
    """Returns as many of the columns as can be a region in every place; an empty list if none can."""
    for _ in range(_ROUNDS):
        whole = len(columns)
        places = list(zip(*columns, strict=True))
        if sum(max(place) - min(place) for place in places) > _SPANS * len(index.nodes):
            return []
        for place in range(len(places)):
            lost = _lost(index, [column[place] for column in columns])
            if lost:
                columns = [column for number, column in enumerate(columns) if number not in lost]
        if len(columns) == whole or not columns:
            return columns
    return []


def _lost(index: BlockIndex, nodes: Sequence[int]) -> set[int]:
    """The columns to cut off so that no path leaves the nodes and comes back."""
    inside = set(nodes)
    span = range(min(nodes), max(nodes) + 1)
    if len(span) == len(inside):
        return set()
    before = index.before
    follows: set[int] = set()
    late: set[int] = set()
    for node in span:
        row = before[node]
        if node in inside:
            if not follows.isdisjoint(row) or not late.isdisjoint(row):
                late.add(node)
        elif not inside.isdisjoint(row) or not follows.isdisjoint(row):
            follows.add(node)
    if not late:
        return set()
    early = _early(before, inside, span)
    cut = late if len(late) <= len(early) else early
    return {column for column, node in enumerate(nodes) if node in cut}


def _early(before: Sequence[Sequence[int]], inside: set[int], span: range) -> set[int]:
    """The nodes inside from which a path leaves and comes back."""
    leads: set[int] = set()
    returns: set[int] = set()
    for node in reversed(span):
        if node in inside or node in leads:
            for earlier in before[node]:
                if earlier < span.start:
                    continue
                if earlier not in inside:
                    leads.add(earlier)
                elif node in leads or node in returns:
                    returns.add(earlier)
    return returns


def keeps_order(index: BlockIndex, leader: Sequence[int], nodes: Sequence[int]) -> bool:
    """Whether the nodes of a place may run in the program order of those of the first place."""
    if _is_ascending(nodes) and _is_ascending(leader):
        return True  # both are in program order
    rank = {node: leader[column] for column, node in enumerate(nodes)}
    return all(rank[earlier] < rank[node] for node in nodes for earlier in index.before[node] if earlier in rank)


def _is_ascending(nodes: Sequence[int]) -> bool:
    return all(map(lt, nodes, nodes[1:]))


def waiting_regions(index: BlockIndex, regions: Sequence[Sequence[int]]) -> set[int]:
    """Returns the numbers of regions on cycles, through other regions or through nodes between."""
    if all(max(nodes) - min(nodes) < len(nodes) for nodes in regions):
        return set()  # without nodes in between, program order is also an order of the regions
    unit = list(range(len(index.nodes)))
    point_of: dict[int, int] = {}
    for number, nodes in enumerate(regions):
        for node in nodes:
            unit[node] = nodes[0]
        point_of[nodes[0]] = number
    after: dict[int, set[int]] = {}
    open_edges: dict[int, int] = dict.fromkeys(unit, 0)
    for node, row in enumerate(index.before):
        for earlier in row:
            a, b = unit[earlier], unit[node]
            if a != b and b not in after.setdefault(a, set()):
                after[a].add(b)
                open_edges[b] += 1
    ready = [one for one, count in open_edges.items() if not count]
    while ready:
        one = ready.pop()
        del open_edges[one]
        for other in after.get(one, ()):
            open_edges[other] -= 1
            if not open_edges[other]:
                ready.append(other)
    return {point_of[one] for one in open_edges if one in point_of}
