"""The three linear passes that prepare a points-to graph for queries: collapse cycles, find regions, propagate writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

__all__ = ["collapse_cycles", "partition", "spread_writes"]


def collapse_cycles(count: int, edges: Mapping[int, Sequence[int]]) -> tuple[Sequence[int], dict[int, tuple[int, ...]]]:
    """Each element's class, and the classes that each class points to; edges go from higher class numbers to lower.

    >>> class_of, targets = collapse_cycles(3, {1: [2, 0], 2: [1]})
    >>> class_of[1] == class_of[2], targets
    (True, {1: (0,)})
    """
    class_of = _strong_components(count, edges)
    joined: dict[int, dict[int, None]] = {}
    for source, found in edges.items():
        here = class_of[source]
        others = joined.setdefault(here, {})
        for target in found:
            if class_of[target] != here:
                others[class_of[target]] = None
    return class_of, {here: tuple(others) for here, others in joined.items() if others}


def _strong_components(count: int, out: Mapping[int, Sequence[int]]) -> list[int]:
    """Tarjan's algorithm with an explicit stack. Components are numbered targets first."""
    order = [-1] * count
    lowest = [0] * count
    class_of = [-1] * count
    clock = classes = 0
    for element in range(count):  # locations are components by themselves, below all others
        if element not in out:
            order[element] = 0
            class_of[element] = classes
            classes += 1
    pending: list[int] = []
    for root in out:
        if order[root] >= 0:
            continue
        order[root] = lowest[root] = clock
        clock += 1
        pending.append(root)
        path = [(root, iter(out[root]))]
        while path:
            here, rest = path[-1]
            for target in rest:
                if order[target] < 0:
                    order[target] = lowest[target] = clock
                    clock += 1
                    pending.append(target)
                    path.append((target, iter(out[target])))
                    break
                if class_of[target] < 0 and order[target] < lowest[here]:
                    lowest[here] = order[target]
            else:
                path.pop()
                if path and lowest[here] < lowest[path[-1][0]]:
                    lowest[path[-1][0]] = lowest[here]
                if lowest[here] == order[here]:
                    member = -1
                    while member != here:
                        member = pending.pop()
                        class_of[member] = classes
                    classes += 1
    return class_of


def partition(count: int, edges: Mapping[int, Sequence[int]]) -> Sequence[int]:
    """Each class's region: its connected component of the graph, named by one of its classes.

    >>> list(partition(4, {1: (0,), 3: (0,)}))
    [0, 0, 2, 0]
    """
    if not edges:
        return range(count)
    root = list(range(count))
    for source, found in edges.items():
        here = source
        while root[here] != here:
            root[here] = here = root[root[here]]
        for there in found:
            while root[there] != there:
                root[there] = there = root[root[there]]
            if there < here:
                root[here] = here = there
            else:
                root[there] = here
    for index in range(count):  # roots are smaller than their descendants, so one step is enough
        root[index] = root[root[index]]
    return root


def spread_writes(count: int, edges: Mapping[int, Sequence[int]], written: Iterable[int]) -> bytearray:
    """Marks the classes that share a location with one of the written classes.

    >>> list(spread_writes(4, {1: (0,), 2: (0,)}, [2]))
    [1, 1, 1, 0]
    """
    marks, seen = bytearray(count), bytearray(count)
    todo = list(written)
    if not todo:
        return marks
    while todo:
        here = todo.pop()
        if not seen[here]:
            seen[here] = 1
            found = edges.get(here)
            if found is None:
                marks[here] = 1
            else:
                todo.extend(found)
    for here in sorted(edges):  # targets before sources
        for there in edges[here]:
            if marks[there]:
                marks[here] = 1
                break
    return marks
