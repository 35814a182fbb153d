"""Module paths for programs that name none: what repeats in them, by the regions that deduplication finds unmarked.

Hand-unrolled layers, an exported graph without scopes, a pasted text: their equal parts get paths `region0.0`, `region0.1`, …, and
from there on stand as the layers of a model do. A region counts if it occurs as often as modules must to be drawn once, and if each
place of it reads only what was made before it began, for a box that takes part in a circle says nothing.
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
"""Of a larger program the first picture would wait for the search, which takes some 30 µs a node."""

_FEWEST_OPS: Final = 3
"""In one place, those in fusion groups too."""


def unmarked_repeats(graph: Graph) -> Mapping[Node, str]:
    """The path of each node that is in a repeated region, in an order in which nodes of the places correspond; empty for a program
    with scopes of its own.

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
    """Whether all that a place reads from outside was made before its first node, in every place."""
    position = graph.position
    for at, place in enumerate(repeat.places):
        first = min(position[node] for node in place)
        makers = (graph.producer.get(values[at]) for values in repeat.inputs)
        if any(maker is not None and maker.op != "prim::Constant" and position[maker] > first for maker in makers):
            return False
    return True


def _with_inner(place: tuple[Node, ...]) -> Iterator[Node]:
    """The nodes of a place, each before those of its blocks."""
    waiting = list(reversed(place))
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(inner for block in reversed(node.blocks) for inner in reversed(block.nodes))
