"""One program in two groupings: which ops of one are which ops of the other, and which pairs only one of them computes in one kernel.

Two groupings of one graph have its nodes in common. Two compilers have not: each rewrote the program before it formed kernels. Their ops
are matched by what both kept of the user's source, the surest first: the line, the module and the op; then all that is left of a line,
where one compiler has an op that the other took apart; then the name and the op, where one side has no lines; then `report.matching`. A
line that runs several times, as in a loop over layers, is split into its rounds. What is matched by nothing is named.

A pair is an op and one that reads its result, itself or through views. What is not matched on both sides is compared with nothing.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import gcd
from typing import Final, Literal, NamedTuple

from irscope._base.nested import grouped
from irscope._base.words import listed
from irscope.errors import ArgumentError
from irscope.ir import Graph, Node
from irscope.report.box_tree import BoxTree
from irscope.report.matching import Match, given_name
from irscope.report.view_models import ComparedKind, ComparedView, PairKind, PairMark
from irscope.transforms.fusion import Fusion, kernels_of, pairs_of

How = Literal["id", "line and op", "line", "name", "structure"]
_WAYS: Final[tuple[How, ...]] = ("id", "line and op", "line", "name", "structure")
_MOST_NAMED: Final = 5


class Correspondence:
    """For each op of one program, those of another that compute the same, how they were found, and which have none."""

    def __init__(self, first: Graph, second: Graph) -> None:
        self.first, self.second = first, second
        self.images: dict[Node, tuple[Node, ...]] = {}
        self.how: dict[Node, How] = {}
        left, right = _ops(first), _ops(second)
        there = {node.id: node for node in right}
        if any(node.id in there for node in left):
            for node in left:
                if node.id in there:
                    self._pair(node, (there[node.id],), "id")
        else:
            for key in (lambda node: (_line(node), node.scope), _line):
                self._by_line(left, right, key)
            self._by_name(left, right)
            self._by_structure()
        met = {node for several in self.images.values() for node in several}
        self.left_out = tuple(node for node in left if node not in self.images)
        self.left_out_there = tuple(node for node in right if node not in met)

    def _pair(self, node: Node, others: tuple[Node, ...], how: How) -> None:
        self.images[node] = others
        self.how[node] = how

    def _by_line(self, left: Sequence[Node], right: Sequence[Node], key: Callable[[Node], Hashable]) -> None:
        met = {node for several in self.images.values() for node in several}
        sides = [_gathered([node for node in left if node not in self.images], key), _gathered([n for n in right if n not in met], key)]
        places = []
        for where in sides[0].keys() & sides[1].keys():
            one, other = sides[0][where], sides[1][where]
            times = gcd(_rounds(one), _rounds(other))
            cuts = [(k * len(one) // times, k * len(other) // times) for k in range(times + 1)]
            places += [_Place(one[a:b], other[c:d]) for (a, c), (b, d) in pairwise(cuts)]
        for place in places:
            for node, other_node in place.take_alike():
                self._pair(node, (other_node,), "line and op")
        for is_last in (False, True):  # where one op is left on a side, all others are that; then ops that read the same; then the rest
            for place in places:
                if is_last or 1 in (len(place.left), len(place.right)):
                    rest = tuple(place.right) or place.all_right
                    for node in place.left:
                        self._pair(node, rest, "line")
                    place.left, place.right = [], []
            for place in places if not is_last else ():
                self._by_reading(place)

    def _by_reading(self, place: "_Place") -> None:
        """Pairs what is left in a place by op and by what it reads from outside of it, where that is one node on each side."""
        here: dict[Hashable, list[Node]] = {}
        for node in place.left:
            made = [self.first.producer.get(value) for value in node.inputs]
            outside = [each for each in made if each is not None and each not in place.left]
            here.setdefault((node.op, frozenset(image for each in outside for image in self.images.get(each, ()))), []).append(node)
        there: dict[Hashable, list[Node]] = {}
        for node in place.right:
            made = [self.second.producer.get(value) for value in node.inputs]
            outside = [each for each in made if each is not None and each not in place.right and _is_op(each)]
            there.setdefault((node.op, frozenset(outside)), []).append(node)
        for read, nodes in here.items():
            others = there.get(read, [])
            if len(nodes) == len(others) == 1:
                self._pair(nodes[0], (others[0],), "line and op")
                place.left.remove(nodes[0])
                place.right.remove(others[0])

    def _by_name(self, left: Sequence[Node], right: Sequence[Node]) -> None:
        met = {node for several in self.images.values() for node in several}
        named = _gathered([node for node in right if node not in met], lambda node: given_name(node, self.second.names))
        unnamed = [node for node in left if node not in self.images]
        for name, nodes in _gathered(unnamed, lambda node: given_name(node, self.first.names)).items():
            others = named.get(name, ())
            if len(nodes) == len(others) == 1 and None in (nodes[0].location, others[0].location):
                self._pair(nodes[0], (others[0],), "name")

    def _by_structure(self) -> None:
        met = {node for several in self.images.values() for node in several}
        for node, other in Match(self.first, self.second).nodes.items():
            if node not in self.images and other not in met and node.op == other.op and _is_op(node):
                self._pair(node, (other,), "structure")

    def ids(self, ids: Iterable[int]) -> list[int]:
        """The ids of what corresponds to some nodes."""
        known = {node.id: others for node, others in self.images.items()}
        return list(dict.fromkeys(other.id for id in ids for other in known.get(id, ())))

    @cached_property
    def words(self) -> str:
        """How many ops are matched."""
        return f"{len(self.images)} of {len(self.images) + len(self.left_out)} ops"

    def __str__(self) -> str:
        counts = Counter(self.how.values())
        ways = ", ".join(f"{counts[way]} by {way}" for way in _WAYS if counts[way])
        sides = (self.first, "here", self.left_out), (self.second, "there", self.left_out_there)
        named = [(where, [_called(graph, node) for node in nodes]) for graph, where, nodes in sides if nodes]
        lost = [f"not matched {where}: {listed(names, most=_MOST_NAMED)}" for where, names in named]
        return "; ".join([f"{self.words} matched{f' ({ways})' if ways else ''}", *lost])


class _Place:
    """The ops of one line and module on both sides, of which those are taken out that are paired."""

    def __init__(self, left: Sequence[Node], right: Sequence[Node]) -> None:
        self.left, self.right = list(left), list(right)
        self.all_right = tuple(right)

    def take_alike(self) -> Iterator[tuple[Node, Node]]:
        """Takes out the ops of which both sides have as many."""
        here, there = (Counter(node.op for node in nodes) for nodes in (self.left, self.right))
        for op in (op for op in here if here[op] == there[op]):
            yield from zip(*([node for node in nodes if node.op == op] for nodes in (self.left, self.right)), strict=True)
        self.left, self.right = ([node for node in nodes if here[node.op] != there[node.op]] for nodes in (self.left, self.right))


def _is_op(node: Node) -> bool:
    return not node.blocks and not node.op.startswith("prim::")


def _ops(graph: Graph) -> list[Node]:
    return [node for node in graph.nodes() if _is_op(node)]


def _line(node: Node) -> Hashable:
    return (node.location.file, node.location.line) if node.location is not None else None


def _called(graph: Graph, node: Node) -> str:
    return f"{node.op.partition('::')[2]} %{graph.names[node.outputs[0]]}" if node.outputs else node.op


def _gathered(nodes: Iterable[Node], key: Callable[[Node], Hashable]) -> dict[Hashable, list[Node]]:
    """The nodes by a key; those without one are left out."""
    places = ((key(node), node) for node in nodes)
    return grouped((place, node) for place, node in places if place is not None and place != (None, node.scope))


def _rounds(nodes: Sequence[Node]) -> int:
    """How many times a sequence of ops repeats itself."""
    ops = [node.op for node in nodes]
    lengths = (length for length in range(1, len(ops) + 1) if len(ops) % length == 0)
    return next(len(ops) // length for length in lengths if ops[:length] * (len(ops) // length) == ops)


# Which pairs of ops two groupings compute in one kernel.


class Pair(NamedTuple):
    producer: Node
    consumer: Node
    kind: PairKind  # In one kernel on both sides or on neither; only here; only there; or not matched on both sides.


@dataclass(frozen=True, eq=False)
class Compared:
    """Each pair of ops of one grouping, and whether another one has it, too."""

    here: str
    there: str
    pairs: tuple[Pair, ...]
    match: Correspondence

    @cached_property
    def counts(self) -> Mapping[str, int]:
        return Counter(pair.kind for pair in self.pairs)

    def view(self, tree: BoxTree) -> ComparedView:
        """The comparison as colours of boxes: an op is as its pairs are, and a box as what is in it."""
        seen: dict[int, set[PairKind]] = {}
        for producer, consumer, kind in self.pairs:
            for node in (producer, consumer):
                seen.setdefault(node.id, set()).add(kind)
        for number in range(len(tree) - 1, -1, -1):  # children before those around them
            around = int(tree.parent[number])
            if around >= 0 and tree.ids[number] in seen:
                seen.setdefault(tree.ids[around], set()).update(seen[tree.ids[number]])
        marks = [PairMark(producer=pair.producer.id, consumer=pair.consumer.id, kind=pair.kind) for pair in self.pairs]
        kinds = {id: _summed(found) for id, found in seen.items()}
        return ComparedView(here=self.here, there=self.there, matched=str(self.match), kinds=kinds, pairs=marks, counts=dict(self.counts))


def _summed(kinds: set[PairKind]) -> ComparedKind:
    if "here" in kinds or "there" in kinds:
        return "both" if {"here", "there"} <= kinds else "here" if "here" in kinds else "there"
    return "same" if "same" in kinds else "unmatched"


def side_by_side(here: Fusion, there: Fusion, names: tuple[str, str] | None = None, match: Correspondence | None = None) -> Compared:
    """Compare two groupings, of one program or of two that are matched first."""
    found = Correspondence(here.original, there.original) if match is None else match
    if found.first is not here.original or found.second is not there.original:
        raise ArgumentError("the ops are matched for two other programs", hint="leave the match out")
    return Compared(*(names or (here.policy, there.policy)), tuple(_pairs(here, there, found)), found)


def _pairs(here: Fusion, there: Fusion, match: Correspondence) -> Iterator[Pair]:
    adjacent = {(producer, consumer) for producer, _, consumer in pairs_of(there)}
    told: dict[tuple[int, int], bool | None] = {}  # the ops of a line have one and the same tuple of images
    for producer, _, consumer in pairs_of(here):
        mine = _share(here, producer, consumer)
        images = match.images.get(producer, ()), match.images.get(consumer, ())
        key = id(images[0]), id(images[1])
        if key not in told:
            told[key] = _images_share(there, *images, adjacent)
        other = told[key]
        kind: PairKind = "unmatched" if mine is None or other is None else "same" if mine == other else "here" if mine else "there"
        yield Pair(producer, consumer, kind)


def _images_share(fusion: Fusion, first: Sequence[Node], second: Sequence[Node], adjacent: Set[tuple[Node, Node]]) -> bool | None:
    """Whether a kernel computes what two ops became: of the pairs among these that hand a value on, all or none; None if that differs,
    or if both may be the same ops."""
    if len({*first, *second}) == 1:
        return True if first and second else None
    pairs = [(one, other) for one in first for other in second]
    told = {_share(fusion, *pair) for pair in [pair for pair in pairs if pair in adjacent] or ([] if {*first} & {*second} else pairs)}
    return told.pop() if len(told) == 1 else None


def _share(fusion: Fusion, one: Node, other: Node) -> bool | None:
    """Whether a kernel computes both nodes; None if that cannot be said."""
    kernels, others = (kernels_of(fusion, node) for node in (one, other))
    return None if kernels is None or others is None else not kernels.isdisjoint(others)
