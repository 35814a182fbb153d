"""The innermost loops of a control-flow graph, and the most expensive path through one.

A function is a list of blocks, each with the numbers of its successors. A loop is a strongly connected set of
blocks. Any strongly connected set that remains after removing its header, the block through which control enters, is a nested
loop. So a loop is innermost if nothing in it stays strongly connected without its header; its body is then acyclic.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["Loops", "dearest_path", "innermost_loops"]

Loops = list[tuple[int, frozenset[int]]]
"""Header and blocks of each loop."""


def innermost_loops(following: Sequence[Sequence[int]]) -> Loops:
    """Return the loops that contain no other loop, ordered by their first block.

    >>> innermost_loops([[1], [2, 4], [2, 3], [1], []])
    [(2, frozenset({2}))]
    """
    found: Loops = []
    waiting = [frozenset(range(len(following)))]
    while waiting:
        inside = waiting.pop()
        for loop in _components(following, inside):
            if len(loop) == 1 and not loop & set(following[min(loop)]):
                continue
            header = _header(following, loop)
            rest = loop - {header}
            inner = [part for part in _components(following, rest) if _cycles(following, part)]
            if inner:
                waiting += inner
            else:
                found.append((header, loop))
    return sorted(found, key=lambda loop: min(loop[1]))


def dearest_path(
    following: Sequence[Sequence[int]], header: int, loop: frozenset[int], costs: Sequence[float]
) -> list[int]:
    """Return the most expensive path through an innermost loop, starting at its header: of a branch, only one side.

    >>> dearest_path([[1, 2], [3], [3], [0]], 0, frozenset({0, 1, 2, 3}), [1, 5, 2, 1])
    [0, 1, 3]
    """
    best = {header: costs[header]}
    predecessor: dict[int, int] = {}
    for block in _in_order(following, header, loop):
        for after in following[block]:
            if after in loop and after != header and best[block] + costs[after] > best.get(after, -1.0):
                best[after] = best[block] + costs[after]
                predecessor[after] = block
    last = max(best, key=lambda block: best[block])
    path = [last]
    while path[-1] in predecessor:
        path.append(predecessor[path[-1]])
    return path[::-1]


def _in_order(following: Sequence[Sequence[int]], header: int, loop: frozenset[int]) -> list[int]:
    """Return the blocks of a loop in topological order, ignoring back edges."""
    order: list[int] = []
    seen = {header}
    stack = [(header, iter(following[header]))]
    while stack:
        block, after = stack[-1]
        for each in after:
            if each in loop and each not in seen:
                seen.add(each)
                stack.append((each, iter(following[each])))
                break
        else:
            order.append(block)
            stack.pop()
    return order[::-1]


def _header(following: Sequence[Sequence[int]], loop: frozenset[int]) -> int:
    """Return the block through which control enters a loop, or the first of several."""
    entered = {
        after for block, each in enumerate(following) if block not in loop for after in each if after in loop
    }  # fmt: skip
    return min(entered or loop)


def _cycles(following: Sequence[Sequence[int]], part: frozenset[int]) -> bool:
    return len(part) > 1 or bool(part & set(following[min(part)]))


def _components(following: Sequence[Sequence[int]], inside: frozenset[int]) -> list[frozenset[int]]:
    """Return the strongly connected components of some blocks (Tarjan's algorithm, with an explicit stack)."""
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    """For the blocks whose component is not finished."""
    place: dict[int, int] = {}
    unfinished: list[int] = []
    found = []
    for root in sorted(inside):
        stack = [] if root in number else [(root, iter(following[root]))]
        while stack:
            block, after = stack[-1]
            if block not in number:
                number[block] = low[block] = len(number)
                place[block] = len(unfinished)
                unfinished.append(block)
            for each in after:
                if each not in inside:
                    continue
                if each not in number:
                    stack.append((each, iter(following[each])))
                    break
                if each in low:
                    low[block] = min(low[block], low[each])
            else:
                stack.pop()
                if stack:
                    low[stack[-1][0]] = min(low[stack[-1][0]], low[block])
                if low[block] == number[block]:
                    component = unfinished[place[block] :]
                    found.append(frozenset(component))
                    for each in component:
                        del low[each]
                    del unfinished[place[block] :]
    return found
