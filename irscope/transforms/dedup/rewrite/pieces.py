"""Builds pieces from repeated regions, to compare them: each is a block over parameters."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from irscope._base.running import counted
from irscope._base.words import each, plural
from irscope.ir import Graph, Node
from irscope.transforms.dedup.piece import Piece
from irscope.transforms.dedup.rewrite.finding import find_regions
from irscope.transforms.dedup.rewrite.repeat import Repeat, region_body


@dataclass(frozen=True, eq=False)
class RegionPieces:
    """The places of all regions of a graph, by name: the module path where each place has one of its own, else
    `region0.3` (the fourth place of the region that saves most)."""

    repeats: tuple[Repeat, ...]
    place_of: Mapping[str, tuple[Repeat, int]]
    """Maps the name of each piece to its region and place."""
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
            by_class: dict[int, list[int]] = {}
            for place, nodes in enumerate(repeat.places):
                if nodes in number_of:
                    by_class.setdefault(number_of[nodes], []).append(place)
            found += [repeat.at(places) for places in by_class.values() if len(places) > 1]
        return found

    @cached_property
    def name_of(self) -> Mapping[Node, str]:
        return {node: name for name, (repeat, place) in self.place_of.items() for node in repeat.places[place]}


def region_pieces(graph: Graph) -> RegionPieces:
    """Find the repeated regions of a graph, and name their places."""
    repeats = find_regions(graph)
    places = dict(zip(_names(repeats), _places(repeats), strict=True))
    what = f"{each(len(places), 'place')} of {plural(len(repeats), 'repeated region')} is a piece"
    return RegionPieces(repeats, places, what if places else "no region of the graph occurs twice")


def _places(repeats: Sequence[Repeat]) -> list[tuple[Repeat, int]]:
    return [(repeat, place) for repeat in repeats for place in range(len(repeat))]


def _names(repeats: Sequence[Repeat]) -> list[str]:
    scopes = Counter(repeat.scope(place) for repeat, place in _places(repeats))
    names = []
    for number, repeat in enumerate(repeats):
        own = [repeat.scope(place) for place in range(len(repeat))]
        named = all(scope and scopes[scope] == 1 for scope in own)
        names += own if named else [f"region{number}.{place}" for place in range(len(repeat))]
    return names
