"""Outlines the repeated regions of a graph: a module in which each region is a function that is called from every place.

*Soundness.* A call runs the nodes of a place, on the values that the place read, in an order that it allows
(`is_place`). The nodes of a place can be adjacent, and all calls have an order together with the other nodes, since
the dependences with regions contracted to points have no cycle (`waiting_regions`); dependences include memory, effects
and random numbers. So the result is a reordering of the program that keeps all dependences, with names for parts of it.

*Limits.* The types in the function are those that hold in every place: an extent or a stride that differs is unknown in it. A
region with blocks inside that differ between places is left as it is.

*Depth.* Regions are outlined to any depth: the heads of a layer as well as the layers. Those of one search do not overlap, so
repetitions within a region are found only when it is a function, and repetitions around regions only when they are calls. Both
are searched again until nothing is left. Each further region makes the module smaller, so this terminates; every step is an
`outline`, which preserves the meaning of the program.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import TopologicalSorter
from heapq import heappop, heappush
from itertools import count
from typing import Final

from irscope._base.frozen import FrozenDict
from irscope._base.nested import grouped
from irscope._base.running import counted
from irscope._base.words import each, plural
from irscope.ir import Erased, Graph, Merged, Module, Node, Rewriter, Symbol, Value, make_node, make_value, new_id
from irscope.ir.module import reference_to
from irscope.transforms.dedup.matching import differences, match
from irscope.transforms.dedup.piece import Piece, format_holes
from irscope.transforms.dedup.rewrite.block_index import BlockIndex, inner_piece
from irscope.transforms.dedup.rewrite.finding import find_regions
from irscope.transforms.dedup.rewrite.parameters import common_type
from irscope.transforms.dedup.rewrite.repeat import Repeat, region_body

# --- the places of all regions as pieces, to compare them --------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RegionPieces:
    """The places of all regions of a graph, by name: the module path where each place has one of its own, else
    `region0.3` (the fourth place of the region that saves most)."""

    repeats: tuple[Repeat, ...]
    place_of: Mapping[str, tuple[Repeat, int]]
    """Maps the name of each piece to its region and place."""
    find: Callable[[Graph], Iterable[Repeat]]
    """The function that found the regions, to find repetitions within them."""
    note: str
    """One sentence that says what the pieces are."""

    @cached_property
    def pieces(self) -> dict[Node | str, Piece]:
        """Each place as a graph of its own."""
        found: dict[Node | str, Piece] = {}
        for name, (repeat, place) in counted(self.place_of.items(), "repeated regions"):
            found[name] = Piece(name, region_body(repeat, place), repeat.graph, {}, kind="region")
        return found

    def nodes(self, name: Node | str) -> tuple[Node, ...]:
        repeat, place = self.place_of[str(name)]
        return repeat.places[place]

    def chosen(self, classes: Iterable[Sequence[Node | str]]) -> list[Repeat]:
        """The repeated regions, split by class: for each region, one for each class of its places that has several."""
        class_of = {name: number for number, members in enumerate(classes) for name in members}
        number_of = {repeat.places[place]: class_of[name] for name, (repeat, place) in self.place_of.items() if name in class_of}
        found: list[Repeat] = []
        for repeat in self.repeats:
            by_class = grouped((number_of[nodes], place) for place, nodes in enumerate(repeat.places) if nodes in number_of)
            found += [repeat.at(places) for places in by_class.values() if len(places) > 1]
        return found

    @cached_property
    def name_of(self) -> Mapping[Node, str]:
        return {node: name for name, (repeat, place) in self.place_of.items() for node in repeat.places[place]}


def region_pieces(graph: Graph) -> RegionPieces:
    """Find the repeated regions of a graph, and name their places."""
    repeats = find_regions(graph)
    scopes = [[repeat.scope(place) for place in range(len(repeat))] for repeat in repeats]
    count_of = Counter(scope for own in scopes for scope in own)
    places: dict[str, tuple[Repeat, int]] = {}
    for number, (repeat, own) in enumerate(zip(repeats, scopes, strict=True)):
        has_names = all(scope and count_of[scope] == 1 for scope in own)
        places.update((scope if has_names else f"region{number}.{place}", (repeat, place)) for place, scope in enumerate(own))
    what = f"{each(len(places), 'place')} of {plural(len(repeats), 'repeated region')} is a piece"
    return RegionPieces(repeats, places, find_regions, what if places else "no region of the graph occurs twice")


# --- one step of outlining --------------------------------------------------------------------------------------------


def why_left(repeat: Repeat) -> str:
    """Returns why a region cannot be a function: it has blocks inside that differ, which no parameter can express. Empty if it can."""
    graph, first = repeat.graph, repeat.places[0]
    for column, node in enumerate(first):
        for number, block in enumerate(node.blocks):
            leader = inner_piece(graph, node, block)
            for nodes in repeat.places[1:]:
                other = inner_piece(graph, nodes[column], nodes[column].blocks[number])
                if match(leader, other, "alpha") is None:
                    holes = differences(leader, other, "alpha").holes
                    return f"the blocks of {node.op} differ, and a function has no parameter for that: {format_holes(holes)}"
    return ""


def _calling(graph: Graph, named: Mapping[str, Repeat]) -> Graph:
    """The graph with calls in place of the regions, and without the constants that only they read."""
    rewriter = Rewriter(graph)
    by_block = grouped((repeat.block, (name, repeat)) for name, repeat in named.items())
    for block, called in by_block.items():
        calls = {place[0]: _call(name, repeat, at) for name, repeat in called for at, place in enumerate(repeat.places)}
        inside = {node for _, repeat in called for place in repeat.places for node in place}
        edits = [
            Merged(place, calls[place[0]], f"occurrence {at + 1} of {len(repeat)} of one region", rule="region")
            for _, repeat in called for at, place in enumerate(repeat.places)
        ]  # fmt: skip
        unread = _unread(graph, inside, calls.values())
        nodes = [node for node in _schedule(BlockIndex(graph, block), called, calls) if node not in unread]
        rewriter.set_nodes(block, nodes, [*edits, *(Erased(node, "only regions read it, and have their own copy") for node in unread)])
    return rewriter.finish()


def _unread(graph: Graph, inside: set[Node], calls: Iterable[Node]) -> dict[Node, None]:
    """The constants whose only users are nodes of regions."""
    handed_in = {value for call in calls for value in call.inputs}
    held = set(inside)
    for node in graph.nodes():  # a node before the nodes of its blocks
        owner = graph.owner.get(graph.block_of[node])
        if owner in held:
            held.add(node)
    return {
        node: None
        for node in graph.nodes()
        if node.op == "prim::Constant" and node not in held and node.output not in handed_in
        and all((use.user if isinstance(use.user, Node) else graph.owner.get(use.user)) in held for use in graph.users.get(node.output, ()))
        and node.output in graph.users
    }  # fmt: skip


def _call(name: str, repeat: Repeat, at: int) -> Node:
    place = repeat.places[at]
    outputs = tuple([place[column].outputs[number] for column, number in repeat.outputs])
    inputs = tuple([values[at] for values in repeat.inputs])
    attrs: FrozenDict[str, str] = FrozenDict(callee=reference_to(name))
    return make_node(new_id(), "func::call", inputs, outputs, attrs, (), place[0].location, repeat.scope(at))


def _schedule(index: BlockIndex, called: Sequence[tuple[str, Repeat]], calls: Mapping[Node, Node]) -> list[Node]:
    """The nodes of the block with calls, in an order that keeps all dependences and is as close to the old one as possible."""
    place_of = {node: at for at, node in enumerate(index.nodes)}
    unit = list(range(len(index.nodes)))
    for _, repeat in called:
        for place in repeat.places:
            for node in place:
                unit[place_of[node]] = place_of[place[0]]
    waiting = TopologicalSorter[int]()
    for here, row in enumerate(index.before):
        waiting.add(unit[here], *(unit[earlier] for earlier in row if unit[earlier] != unit[here]))
    waiting.prepare()  # raises an error if there were a cycle of regions
    order: list[Node] = [node for node in index.block.nodes if node.op == "prim::Constant"]
    ready: list[int] = []
    while waiting.is_active():
        for one in waiting.get_ready():
            heappush(ready, one)
        first = heappop(ready)
        waiting.done(first)
        order.append(calls.get(index.nodes[first], index.nodes[first]))
    return order


def _function(name: str, repeat: Repeat) -> Graph:
    """Build the function of a region over parameters, with the types that hold in every place."""

    def result(value: Value, column: int, number: int) -> Value:
        type = common_type([nodes[column].outputs[number].type for nodes in repeat.places])
        return value if type == value.type else make_value(new_id(), type, value.name)

    return Graph(region_body(repeat, 0, lift=True, results=result), name, functional=repeat.graph.functional)


# --- to any depth -----------------------------------------------------------------------------------------------------

_ROUNDS: Final = 8
"""The most searches of one graph; each sees a smaller one, and three levels of nesting are rare."""


def outline_nested(graph: Graph, repeats: Sequence[Repeat], find: Callable[[Graph], Iterable[Repeat]]) -> tuple[Module, tuple[str, ...]]:
    """Returns a module of the graph under its own name, with calls, and of the called functions `region0`, `region1`, …, which call
    functions themselves; and a line for each region, done or not.

    The regions must be all or some from one search of this graph; `find` searches the bodies that result. Constants that differ
    between places become arguments.
    """
    names = (name for name in (f"region{number}" for number in count()) if name != graph.name)
    graphs: dict[str, Graph] = {graph.name: graph}
    remarks: dict[str, None] = {}
    pending = [(graph, list(repeats), 1)]
    while pending:
        here, found, turn = pending.pop(0)
        named: dict[str, Repeat] = {}
        for repeat in found:
            if why := why_left(repeat):
                label = f"{plural(repeat.size, 'node')} ×{len(repeat)} in @{here.name}"
                remarks[f"missed {label} ({', '.join(repeat.labels[:3])}{', …' * (len(repeat) > 3)}): {why}"] = None
            else:
                named[next(names)] = repeat
        if not named:
            continue
        graphs[here.name] = _calling(here, named)
        functions = {name: _function(name, repeat) for name, repeat in named.items()}
        for name, repeat in named.items():
            remarks[f"passed @{name}: {plural(len(repeat), 'place')} of {plural(repeat.size, 'node')} in @{here.name} call it"] = None
        for body in (graphs[here.name], *functions.values()):
            graphs[body.name] = body
            again = turn + 1 if body is graphs[here.name] else 1
            if again <= _ROUNDS:
                pending.append((body, [repeat for repeat in find(body) if repeat.nodes_saved > 0], again))
    symbols = [Symbol(name, "func::func", visibility="public" if name == graph.name else "private") for name in graphs]
    return Module(graphs, symbols=tuple(symbols)), tuple(remarks)
