"""Outlines repeated regions to any depth: the heads of a layer as well as the layers.

Regions of one search do not overlap, so repetitions within a region are found only when it is a function, and repetitions around
regions only when they are calls. Both are searched again until nothing is left. Each further region makes the module smaller, so
this terminates; every step is an `outline`, which preserves the meaning of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import Final

from irscope._base.words import plural
from irscope.ir import Graph, Module
from irscope.transforms.dedup.regions.outline import module_of, outlined, why_left
from irscope.transforms.dedup.regions.repeat import Repeat

__all__ = ["outline_nested"]

_ROUNDS: Final = 8
"""The most searches of one graph; each sees a smaller one, and three levels of nesting are rare."""


def outline_nested(
    graph: Graph, repeats: Sequence[Repeat], find: Callable[[Graph], Iterable[Repeat]]
) -> tuple[Module, tuple[str, ...]]:
    """Returns the module as `outline_regions` does, but with functions that call functions; and a line for each region, done or not.

    >>> import irscope as irs
    >>> from irscope.transforms.dedup.regions import find_regions
    >>> part = "  %{0}a : Float(4) = aten::tanh(%{0})\\n  %{0}b : Float(4) = aten::exp(%{0}a)\\n"
    >>> part += "  %{0}c : Float(4) = aten::add(%{0}b, %{0})\\n"
    >>> body = "".join(map(part.format, "pqr"))
    >>> g = irs.parse("graph(%p : Float(4), %q : Float(4), %r : Float(4)):\\n" + body + "  return (%pc, %qc, %rc)")
    >>> module, remarks = outline_nested(g, find_regions(g), find_regions)
    >>> remarks
    ('passed @region0: 3 places of 3 nodes in @graph call it',)
    """
    names = (name for name in (f"region{number}" for number in count()) if name != graph.name)
    graphs: dict[str, Graph] = {graph.name: graph}
    remarks: dict[str, None] = {}
    pending = [(graph, list(repeats), 1)]
    while pending:
        here, found, turn = pending.pop(0)
        named = {next(names): repeat for repeat in _fitting(here, found, remarks)}
        if not named:
            continue
        graphs[here.name], functions = outlined(here, named)
        for name, repeat in named.items():
            remarks[f"passed @{name}: {plural(len(repeat), 'place')} of {plural(repeat.size, 'node')} in @{here.name} call it"] = None
        for body in (graphs[here.name], *functions.values()):
            graphs[body.name] = body
            again = turn + 1 if body is graphs[here.name] else 1
            if again <= _ROUNDS:
                pending.append((body, [repeat for repeat in find(body) if repeat.nodes_saved > 0], again))
    return module_of(graphs), tuple(remarks)


def _fitting(graph: Graph, repeats: Sequence[Repeat], remarks: dict[str, None]) -> Iterator[Repeat]:
    """Yields the regions that can be functions, and adds a remark for each of the others."""
    for repeat in repeats:
        why = why_left(repeat)
        if not why:
            yield repeat
        else:
            label = f"{plural(repeat.size, 'node')} ×{len(repeat)} in @{graph.name}"
            remarks[f"missed {label} ({', '.join(repeat.labels[:3])}{', …' * (len(repeat) > 3)}): {why}"] = None
