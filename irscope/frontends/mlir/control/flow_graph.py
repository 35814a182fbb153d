"""Control-flow analysis on numbered blocks: dominators, post-dominators and loops, near-linear.

Dominators are computed by Cooper, Harvey and Kennedy's iteration over blocks in reverse post-order. A loop is the set
of blocks from which a back edge to its header is reached without passing the header.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

__all__ = ["FlowGraph"]


class FlowGraph:
    """The jumps between numbered blocks; block 0 is the entry.

    >>> flow = FlowGraph([[1], [2, 3], [1], []])
    >>> flow.loops, flow.exit_of(1), flow.dominates(1, 3)
    ({1: frozenset({1, 2})}, (1, 1), True)
    """

    def __init__(self, successors: Sequence[Sequence[int]]) -> None:
        self.successors = successors
        self.predecessors: list[list[int]] = [[] for _ in successors]
        for source, targets in enumerate(successors):
            for target in targets:
                self.predecessors[target].append(source)
        self._parent = _dominators(successors, 0)

    def dominates(self, above: int, below: int) -> bool:
        """Checks whether every path to `below` passes `above`."""
        at: int | None = below
        while at is not None and at != above:
            at = self._parent.get(at)
        return at == above

    @cached_property
    def loops(self) -> dict[int, frozenset[int]]:
        """The blocks of each loop, by its header."""
        found: dict[int, set[int]] = {}
        for source, targets in enumerate(self.successors):
            for target in targets:
                if source in self._parent and self.dominates(target, source):
                    inside = found.setdefault(target, {target})
                    todo = [source]
                    while todo:
                        block = todo.pop()
                        if block not in inside:
                            inside.add(block)
                            todo.extend(self.predecessors[block])
        return {header: frozenset(inside) for header, inside in found.items()}

    def exit_of(self, header: int) -> tuple[int, int] | None:
        """Returns the one block that leaves a loop, and the index of its successor; None if there are several or
        none."""
        inside = self.loops[header]
        ways = [
            (block, way)
            for block in sorted(inside)
            for way, target in enumerate(self.successors[block])
            if target not in inside
        ]
        return ways[0] if len(ways) == 1 else None

    @cached_property
    def _meetings(self) -> dict[int, int | None]:
        """The immediate post-dominators, with a virtual exit after all blocks without jumps."""
        end = len(self.successors)
        backwards: list[list[int]] = [list(sources) for sources in self.predecessors]
        backwards.append([block for block, targets in enumerate(self.successors) if not targets])
        parent = _dominators(backwards, end)
        return {block: (None if above == end else above) for block, above in parent.items()}

    def meeting(self, block: int) -> int | None:
        """Returns where all paths from a block meet again; None if only after the returns."""
        return self._meetings.get(block)


def _dominators(successors: Sequence[Sequence[int]], root: int) -> dict[int, int | None]:
    """Returns the immediate dominator of each block that is reachable from the root; the root's is None."""
    order = _post_order(successors, root)
    rank = {block: index for index, block in enumerate(order)}
    sources: dict[int, list[int]] = {block: [] for block in order}
    for block in order:
        for target in successors[block]:
            sources[target].append(block)
    parent: dict[int, int] = {root: root}
    changed = True
    while changed:
        changed = False
        for block in reversed(order[:-1]):
            known = [source for source in sources[block] if source in parent]
            above = known[0]
            for other in known[1:]:
                while above != other:
                    if rank[above] < rank[other]:
                        above = parent[above]
                    else:
                        other = parent[other]
            if parent.get(block) != above:
                parent[block] = above
                changed = True
    return {block: (None if block == root else above) for block, above in parent.items()}


def _post_order(successors: Sequence[Sequence[int]], root: int) -> list[int]:
    order, seen = [], {root}
    stack = [(root, iter(successors[root]))]
    while stack:
        block, targets = stack[-1]
        for target in targets:
            if target not in seen:
                seen.add(target)
                stack.append((target, iter(successors[target])))
                break
        else:
            order.append(block)
            stack.pop()
    return order
