"""Which blocks of a function are its innermost loops, and which way through one is the dearest.

A function is a list of blocks, each with the numbers of those that may follow it. A loop is a strongly connected set of
blocks; without its header, the block through which control comes in, what is still connected is a loop inside. So an
innermost loop is one that falls apart without its header, and its body is then free of cycles.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["Loops", "dearest_path", "innermost_loops"]

Loops = list[tuple[int, frozenset[int]]]
"""Header and blocks of each loop."""


def innermost_loops(following: Sequence[Sequence[int]]) -> Loops:
    """The loops that have no other inside, by the number of their first block.

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
    """The way through an innermost loop that costs most, from its header on: one of several branches, not all.

    >>> dearest_path([[1, 2], [3], [3], [0]], 0, frozenset({0, 1, 2, 3}), [1, 5, 2, 1])
    [0, 1, 3]
    """
    best = {header: costs[header]}
    came: dict[int, int] = {}
    for block in _in_order(following, header, loop):
        for after in following[block]:
            if after in loop and after != header and best[block] + costs[after] > best.get(after, -1.0):
                best[after] = best[block] + costs[after]
                came[after] = block
    last = max(best, key=lambda block: best[block])
    path = [last]
    while path[-1] in came:
        path.append(came[path[-1]])
    return path[::-1]


def _in_order(following: Sequence[Sequence[int]], header: int, loop: frozenset[int]) -> list[int]:
    """The blocks of a loop, each behind all that lead to it but for the way back."""
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
    """Where control comes in; the first block of those where it may."""
    entered = {
        after for block, each in enumerate(following) if block not in loop for after in each if after in loop
    }  # fmt: skip
    return min(entered or loop)


def _cycles(following: Sequence[Sequence[int]], part: frozenset[int]) -> bool:
    return len(part) > 1 or bool(part & set(following[min(part)]))


def _components(following: Sequence[Sequence[int]], inside: frozenset[int]) -> list[frozenset[int]]:
    """The strongly connected components of some blocks (Tarjan's algorithm, with a stack of its own)."""
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    """Of blocks whose component is not finished."""
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
