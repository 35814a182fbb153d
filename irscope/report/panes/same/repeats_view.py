"""Repeated layers once, with how often they stand there and what differs between the places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import takewhile

from irscope._base.escaping import shortened
from irscope.ir import Graph, Value
from irscope.ir.text import print_node
from irscope.report.view_models import PlaceView, RepeatView, VaryingView
from irscope.report.words import plural
from irscope.transforms.dedup.regions import RegionHole, Repeat, find_regions

__all__ = ["repeat_sentence", "repeat_views"]

_MOST_LINES = 60
_KINDS = {"parameter": "value", "constant": "constant", "type": "type"}


def repeat_views(graph: Graph, names: Mapping[Value, str], *, min_nodes: int = 3) -> list[RepeatView]:
    """One view for each repeated region of a graph, plain or fused, what saves most first.

    >>> import irscope as irs
    >>> g = irs.parse('''graph(%x : Float(4), %v : Float(4), %w : Float(4)):
    ...   %a : Float(4) = aten::mul(%x, %v)
    ...   %b : Float(4) = aten::tanh(%a)
    ...   %c : Float(4) = aten::exp(%b)
    ...   %d : Float(4) = aten::mul(%c, %w)
    ...   %e : Float(4) = aten::tanh(%d)
    ...   %f : Float(4) = aten::exp(%e)
    ...   return (%f)''')
    >>> [view] = repeat_views(g, g.names)
    >>> view["label"], view["sentence"]
    ('3 nodes ×2', '2 places are the same but for 2 values that they use')
    """
    return [_view(repeat, names) for repeat in find_regions(graph, min_nodes=min_nodes)]


def _view(repeat: Repeat, names: Mapping[Value, str]) -> RepeatView:
    first = repeat.places[0]
    lines = [print_node(node, names) for node in first]
    more = [f"… and {len(lines) - _MOST_LINES} more"] if len(lines) > _MOST_LINES else []
    places = [
        PlaceView(
            label=label, nodes=[node.id for node in nodes],
            inputs=[values[at].id for values in repeat.inputs],
            outputs=[nodes[column].outputs[number].id for column, number in repeat.outputs],
        ) for at, (label, nodes) in enumerate(zip(repeat.labels, repeat.places, strict=True))
    ]  # fmt: skip
    return RepeatView(
        label=f"{plural(repeat.size, 'node')} ×{len(repeat)}", sentence=repeat_sentence(repeat), places=places,
        text=[*map(shortened, lines[:_MOST_LINES]), *more], varying=[_varying(hole, repeat.labels) for hole in repeat.holes],
        nodes_saved=repeat.nodes_saved,
    )  # fmt: skip


def repeat_sentence(repeat: Repeat) -> str:
    """What differs between the places, in a sentence."""
    kinds = Counter(hole.kind for hole in repeat.holes)
    told = [plural(kinds[kind], noun) + (" that they use" if kind == "parameter" else "") for kind, noun in _KINDS.items() if kinds[kind]]
    differ = " and ".join(filter(None, [", ".join(told[:-1]), *told[-1:]]))
    return f"{plural(len(repeat), 'place')} are the same" + (f" but for {differ}" if differ else "")


def _varying(hole: RegionHole, labels: Sequence[str]) -> VaryingView:
    return VaryingView(kind=hole.kind, where=hole.place, name=_shared_name(hole, labels), values=list(map(shortened, hole.values)))


def _shared_name(hole: RegionHole, labels: Sequence[str]) -> str:
    """What the values are called in every place, behind the name of the place: `query.weight` of twelve layers' weights."""
    if hole.kind != "parameter":
        return ""
    reversed_parts = [value.removeprefix("%").split(".")[::-1] for value in hole.values]
    shared = [parts[0] for parts in takewhile(lambda parts: len(set(parts)) == 1, zip(*reversed_parts, strict=False))]
    return ".".join(reversed(shared))
