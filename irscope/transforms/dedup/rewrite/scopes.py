"""Builds pieces from the modules of the model, to compare them: each is a block over parameters.

The piece of a *module path*, which exporters record on nodes, is all nodes of one block whose scope is at or below a path, so
pieces nest: a layer, and its attention. They are compared like any others. To be outlined as a function, the places of a class
must also be regions in the sense of `finding`, with the nodes in one order; the outermost classes for which that holds are the
repeated regions.
"""

from collections.abc import Mapping

from irscope._base.nested import grouped
from irscope._base.words import each
from irscope.ir import Graph
from irscope.ops.op import PYTHON_CATEGORIES
from irscope.ops.registry import category_of
from irscope.transforms.dedup.rewrite.block_index import OUTSIDE, BlockIndex
from irscope.transforms.dedup.rewrite.finding import convex_columns, is_place, waiting_regions
from irscope.transforms.dedup.rewrite.outline import RegionPieces
from irscope.transforms.dedup.rewrite.repeat import Repeat
from irscope.transforms.grouping import common_scope

_LEAST = 2
"""The fewest nodes of a module; with fewer it is an op."""


def scope_pieces(graph: Graph) -> RegionPieces:
    """Returns each module path with its nodes, outer paths first; linear in the nodes times the depth of the paths.

    >>> import irscope as irs
    >>> g = irs.parse('''graph(%x : Float(4)):
    ...   %p : Float(4) = aten::tanh(%x), scope: net.0
    ...   %q : Float(4) = aten::relu(%p), scope: net.0
    ...   %r : Float(4) = aten::tanh(%q), scope: net.1
    ...   %s : Float(4) = aten::relu(%r), scope: net.1
    ...   return (%s)''')
    >>> scope_pieces(g).place_of.keys()
    dict_keys(['net', 'net.0', 'net.1'])
    """
    place_of: dict[str, tuple[Repeat, int]] = {}
    repeats: list[Repeat] = []
    for block in graph.blocks():
        index = BlockIndex(graph, block)
        found = {path: nodes for path, nodes in _by_path(index).items() if len(nodes) >= _LEAST and path not in place_of}
        place_of.update((path, (Repeat.of(index, [nodes]), 0)) for path, nodes in found.items())
        repeats += [Repeat.of(index, places) for places in _find_repeated(index, found)]
    what = f"{each(len(place_of), 'module')} of the model is a piece, with the nodes that belong to it or to modules inside it"
    note = what if place_of else "no two nodes of the graph belong to one module of the model"
    return RegionPieces(tuple(repeats), place_of, lambda inner: scope_pieces(inner).repeats, note)


def _by_path(index: BlockIndex) -> dict[str, list[int]]:
    """The nodes of each path; outer paths first, then in program order. A list of operands, or a number, without one gets the common
    path of its producers and users; an op without one belongs to the whole model."""
    scopes = [node.scope for node in index.nodes]
    found: dict[str, list[int]] = {}
    for place, scope in enumerate(scopes):
        if not scope and category_of(index.nodes[place]) in PYTHON_CATEGORIES:
            producers = [producer for producer, _ in index.producers[place] if producer != OUTSIDE]
            near = [scopes[other] for other in (*producers, *(reader for _, _, reader in index.users[place])) if scopes[other]]
            scopes[place] = common_scope(near) if near else ""
        parts = scopes[place].split(".") if scopes[place] else []
        for depth in range(1, len(parts) + 1):
            found.setdefault(".".join(parts[:depth]), []).append(place)
    return dict(sorted(found.items(), key=lambda entry: entry[0].count(".")))


def _find_repeated(index: BlockIndex, found: Mapping[str, list[int]]) -> list[list[list[int]]]:
    """The places of each repeated region: outer regions first, and no further regions within them."""
    taken: set[int] = set()
    looks = grouped((tuple([index.looks[node] for node in nodes]), nodes) for nodes in found.values())
    chosen: list[list[list[int]]] = []
    for places in looks.values():
        held, free = set(taken), list[list[int]]()
        for nodes in places:  # a module that contains only another has the same nodes
            if held.isdisjoint(nodes):
                free.append(nodes)
                held.update(nodes)
        same = [nodes for nodes in free if is_place(index, free[0], nodes)]
        if len(same) < 2:
            continue
        regions = [place for region in (*chosen, same) for place in region]
        if len(convex_columns(index, list(map(list, zip(*same, strict=True))))) == len(same[0]) and not waiting_regions(index, regions):
            chosen.append(same)
            taken.update(node for nodes in same for node in nodes)
    return chosen
