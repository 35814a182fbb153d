"""Module paths for programs without scopes, derived from the repeated regions that deduplication finds.

Hand-unrolled layers, an exported graph without scopes, a pasted text: their equal parts get paths `region0.0`, `region0.1`, …,
and are then treated like the layers of a model. A region counts if it occurs as often as modules must to be folded, and if each
occurrence uses only values produced before it began, because a box in a cycle explains nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from irscope.analysis.per_graph import once
from irscope.ir import Graph, Node
from irscope.report.boxes.repeated_modules import FEWEST
from irscope.transforms.dedup.regions import Repeat, find_regions

__all__ = ["unmarked_repeats"]

_MOST_NODES: Final = 10_000
"""The largest program searched: the first picture waits for the search, at about 30 µs per node."""

_FEWEST_OPS: Final = 3
"""The fewest ops in one occurrence, including those in fusion groups."""


def unmarked_repeats(graph: Graph) -> Mapping[Node, str]:
    """The path of each node in a repeated region, ordered such that nodes of the occurrences correspond; empty for a program that
    has scopes.

    >>> import irscope as irs
    >>> lines = "".join(f"  %t{k} : Float(4) = aten::tanh(%x{k})\\n  %e{k} : Float(4) = aten::exp(%t{k})\\n"
    ...                 f"  %x{k + 1} : Float(4) = aten::neg(%e{k})\\n" for k in range(3))
    >>> g = irs.parse(f"graph(%x0 : Float(4)):\\n{lines}  return (%x3)")
    >>> list(unmarked_repeats(g).values())[::3]
    ['region0.0', 'region0.1', 'region0.2']
    """
    return once(graph, unmarked_repeats, lambda: _unmarked_repeats(graph))


def _unmarked_repeats(graph: Graph) -> Mapping[Node, str]:
    found: dict[Node, str] = {}
    if len(graph.body.nodes) > _MOST_NODES:
        return found
    for count, node in enumerate(graph.nodes()):
        if node.scope or count >= _MOST_NODES:
            return found
    repeats = [
        repeat for repeat in find_regions(graph, min_nodes=2)
        if repeat.block is graph.body and len(repeat) >= FEWEST and _ops(repeat) >= _FEWEST_OPS and _follows_what_it_reads(graph, repeat)
    ]  # fmt: skip
    for number, repeat in enumerate(repeats):
        for at, place in enumerate(repeat.places):
            found.update(dict.fromkeys(_with_inner(place), f"region{number}.{at}"))
    return found


def _ops(repeat: Repeat) -> int:
    return sum(node.op != "prim::Constant" for node in _with_inner(repeat.places[0]))


def _follows_what_it_reads(graph: Graph, repeat: Repeat) -> bool:
    """Whether every occurrence uses only outside values that were produced before its first node."""
    position = graph.position
    for at, place in enumerate(repeat.places):
        first = min(position[node] for node in place)
        makers = (graph.producer.get(values[at]) for values in repeat.inputs)
        if any(maker is not None and maker.op != "prim::Constant" and position[maker] > first for maker in makers):
            return False
    return True


def _with_inner(place: tuple[Node, ...]) -> Iterator[Node]:
    """The nodes of an occurrence, each before those of its blocks."""
    waiting = list(reversed(place))
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(inner for block in reversed(node.blocks) for inner in reversed(block.nodes))
