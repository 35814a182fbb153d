"""The partition of a block against brute force: merges are refused exactly when a cycle would close."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from irscope.transforms.grouping import OrderedList, Partition

EDGES = st.integers(2, 12).flatmap(
    lambda n: st.tuples(
        st.just(n),
        st.sets(st.tuples(st.integers(0, n - 2), st.integers(1, n - 1)).filter(lambda e: e[0] < e[1]), max_size=24),
        st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=24),
    )
)


def closes_cycle(group_of: dict[int, int], edges: set[tuple[int, int]], a: int, b: int) -> bool:
    """Contract for real and look for a cycle by removing sources until none is left."""
    merged = {node: group_of[a] if group == group_of[b] else group for node, group in group_of.items()}
    arcs = {(merged[u], merged[v]) for u, v in edges if merged[u] != merged[v]}
    left = set(merged.values())
    while left:
        sources = {g for g in left if not any(v == g and u in left for u, v in arcs)}
        if not sources:
            return True
        left -= sources
    return False


@settings(max_examples=300, deadline=None)
@given(EDGES)
def test_merges_are_refused_exactly_when_a_cycle_would_close(case: tuple[int, set[tuple[int, int]], list[tuple[int, int]]]) -> None:
    n, edges, requests = case
    parts = Partition([sorted(u for u, v in edges if v == node) for node in range(n)])
    group_of = {node: node for node in range(n)}
    for a, b in requests:
        expected = closes_cycle(group_of, edges, a, b)
        assert bool(parts.obstacle(a, b)) == expected
        path = parts.merge(a, b)
        assert bool(path) == expected
        if expected:
            assert_is_path(path, group_of, edges, {group_of[a], group_of[b]})
        else:
            group_of = {node: group_of[a] if group == group_of[b] else group for node, group in group_of.items()}
    for node in range(n):
        assert sorted(parts.members(node)) == [other for other in range(n) if group_of[other] == group_of[node]]
    place = {node: index for index, group in enumerate(parts.schedule()) for node in group}
    assert len(place) == n and all(place[u] <= place[v] for u, v in edges)


def assert_is_path(path: list[int], group_of: dict[int, int], edges: set[tuple[int, int]], ends: set[int]) -> None:
    """The witness really leads from one end to the other through something else."""
    groups = [group_of[node] for node in path]
    assert {groups[0], groups[-1]} == ends and len(groups) > 2
    assert not ends & set(groups[1:-1])
    arcs = {(group_of[u], group_of[v]) for u, v in edges}
    assert all(arc in arcs for arc in pairwise(groups))


def test_without_merges_the_schedule_is_program_order() -> None:
    assert Partition([[], [], [], [0, 2]]).schedule() == [[0], [1], [2], [3]]


def test_a_group_stands_behind_what_its_last_node_needs() -> None:
    parts = Partition([[], [], [1], [0, 2]])
    assert parts.merge(0, 3) == [] and parts.schedule() == [[1], [2], [0, 3]]


@settings(max_examples=200, deadline=None)
@given(st.integers(2, 9), st.lists(st.tuples(st.booleans(), st.integers(0, 8), st.integers(0, 8)), max_size=200))
def test_a_line_keeps_the_order_of_a_list(size: int, moves: list[tuple[bool, int, int]]) -> None:
    line, expected = OrderedList(size), list(range(size))
    for after, item, anchor in moves:
        item, anchor = item % size, anchor % size
        if item == anchor:
            continue
        (line.move_after if after else line.move_before)(item, anchor)
        expected.remove(item)
        expected.insert(expected.index(anchor) + after, item)
    assert sorted(range(size), key=line.label.__getitem__) == expected


def test_a_line_survives_a_million_moves_to_one_place() -> None:
    line = OrderedList(1000)
    for round_ in range(100):
        for item in range(2, 1000):
            line.move_after(item, 0 if round_ % 2 else 1)
    assert sorted(range(1000), key=line.label.__getitem__)[:2] == [0, 999]
    assert max(line.label) < 1 << 64
