"""Innermost loops and the dearest way through one: of random nests whose loops are known, and of random graphs, whose
components and paths networkx finds.
"""

from __future__ import annotations

import random

import pytest

from irscope.codegen.profile.control_flow import dearest_path, innermost_loops

networkx = pytest.importorskip("networkx", reason="networkx comes with torch")


class Nest:
    """Blocks in which loops and branches are nested at random."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.following: list[list[int]] = []
        self.innermost: set[frozenset[int]] = set()
        self.statements(depth=0)
        self.block()

    def block(self) -> int:
        if self.following:
            self.following[-1].append(len(self.following))
        self.following.append([])
        return len(self.following) - 1

    def statements(self, depth: int) -> bool:
        """A few statements; says whether there is a loop among them."""
        loops = False
        self.block()
        for _ in range(self.random.randrange(4)):
            choice = self.random.random() if depth < 4 else 1.0
            if choice < 0.4:
                loops = True
                head = self.block()
                inner = self.statements(depth + 1)
                last = self.block()
                self.following[last].append(head)
                if not inner:
                    self.innermost.add(frozenset(range(head, last + 1)))
            elif choice < 0.6:
                branch = self.block()
                loops |= self.statements(depth + 1)
                self.following[branch].append(self.block())
            else:
                self.block()
        return loops


@pytest.mark.parametrize("seed", range(60))
def test_the_innermost_loops_of_a_nest(seed: int) -> None:
    nest = Nest(seed)
    found = innermost_loops(nest.following)
    assert {loop for _, loop in found} == nest.innermost
    assert all(header == min(loop) for header, loop in found)


@pytest.mark.parametrize("seed", range(60))
def test_a_loop_is_connected_and_falls_apart_without_its_header(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randrange(2, 14)
    following = [[rng.randrange(count) for _ in range(rng.randrange(3))] for _ in range(count)]
    graph = networkx.DiGraph([(block, after) for block, each in enumerate(following) for after in each])
    graph.add_nodes_from(range(count))
    found = innermost_loops(following)
    for header, loop in found:
        inside = graph.subgraph(loop)
        assert networkx.is_strongly_connected(inside)
        assert inside.number_of_edges(), "one block is a loop only if it leads to itself"
        assert networkx.is_directed_acyclic_graph(graph.subgraph(loop - {header}))
    assert bool(found) == (not networkx.is_directed_acyclic_graph(graph))


@pytest.mark.parametrize("seed", range(40))
def test_no_way_through_a_loop_is_dearer(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randrange(2, 9)
    following = [[after for after in range(block + 1, count) if rng.random() < 0.4] for block in range(count)]
    following[-1].append(0)
    graph = networkx.DiGraph([(block, after) for block, each in enumerate(following) for after in each if after])
    graph.add_nodes_from(range(count))
    costs = [float(rng.randrange(1, 9)) for _ in range(count)]
    reached = {0} | networkx.descendants(graph, 0)
    paths = [path for end in reached - {0} for path in networkx.all_simple_paths(graph, 0, end)] + [[0]]
    path = dearest_path(following, 0, frozenset(range(count)), costs)
    assert path in paths
    assert sum(costs[block] for block in path) == max(sum(costs[block] for block in path) for path in paths)


def test_a_long_chain_of_blocks_needs_no_deep_stack() -> None:
    count = 20_000
    following = [[block + 1] for block in range(count - 1)] + [[1]]
    ((header, loop),) = innermost_loops(following)
    assert (header, len(loop)) == (1, count - 1)
    assert len(dearest_path(following, header, loop, [1.0] * count)) == count - 1
