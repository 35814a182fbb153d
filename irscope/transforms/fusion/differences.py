"""Where another compiler and irscope decided differently about one program: the values that one of them keeps out of memory.

A value that one op makes and another reads costs a write and a read of memory, unless one kernel computes both. Each pair of ops that is
in one kernel of one side and apart on the other is a difference; its price is the bytes of the value, and its reason that of the side
that keeps them apart.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple

from irscope._base.nested import grouped
from irscope._base.results import Verdict
from irscope.errors import ArgumentError
from irscope.ir import Node, TensorType, Value
from irscope.ops.view_steps import Num, typical
from irscope.transforms.fusion.explain import memory_of
from irscope.transforms.fusion.fusion_result import Fusion
from irscope.transforms.fusion.given import GivenFusion

_Pair = tuple[Any, Any]


class Difference(NamedTuple):
    """Two ops that one side computes in one kernel, and the other does not."""

    producer: Node
    consumer: Node
    together_in: str
    """The side that computes both in one kernel: the compiler's name, or `irscope`."""
    apart_in: str
    bytes: Num
    """The bytes that the value between them takes in memory; a formula where extents are unknown."""
    reason: Verdict
    """Why the other side keeps them apart."""


def differences(theirs: GivenFusion, ours: Fusion) -> list[Difference]:
    """The differences between a compiler's groups and those of a fusion of the same program, the most bytes first.

    Raises ArgumentError if the two are not of one program.
    """
    if theirs.original is not ours.original:
        raise ArgumentError("the two fusions are of different programs", hint="fuse the compiler's own: irs.fuse(d.graph)")
    memory, found = memory_of(theirs.rules), list[Difference]()
    for producer, value, consumer in pairs_of(theirs):
        kernels = [[kernels_of(side, node) for node in (producer, consumer)] for side in (theirs, ours)]
        there, here = (one is not None and other is not None and not one.isdisjoint(other) for one, other in kernels)
        if there == here or any(None in of_side for of_side in kernels):
            continue
        names = theirs.policy, "irscope"
        apart = ours if there else theirs
        together_in, apart_in = names if there else names[::-1]
        found.append(Difference(producer, consumer, together_in, apart_in, memory.size(value), apart.why_not(producer, consumer)))
    return sorted(found, key=lambda each: -typical(each.bytes))


def pairs_of(fusion: Fusion) -> Iterator[tuple[Node, Value, Node]]:
    """Each op of the program as written, a tensor that it makes, and each op that reads it, itself or through views, which make nothing."""
    for node in filter(lambda node: _computes(fusion, node), fusion.original.nodes()):
        for value in node.outputs:
            if isinstance(value.type, TensorType):
                yield from ((node, value, reader) for reader in _readers(fusion, value))


def nearest_pair(fusion: GivenFusion, one: Sequence[Any], other: Sequence[Any]) -> tuple[_Pair, list[_Pair]]:
    """Of two sets of nodes or inputs, one of each to tell of: two in one kernel, or two of which one reads the other, or else the
    nearest. And the pairs of which one reads the other, and that no kernel computes together."""
    groups = {node: {*fusion.groups_of(node)} for node in {*one, *other}}
    is_one = len(groups) == 1
    held = grouped((group, node) for node in other for group in groups[node])
    shared = (
        (node, mate)
        for node in one
        for group in sorted(groups[node] & held.keys(), key=lambda group: group.id)
        for mate in held[group][-1:] + held[group][:1]
        if is_one or mate is not node
    )
    first, second, place = {*one}, {*other}, fusion.original.position
    read = [(producer, consumer) for producer, _, consumer in pairs_of(fusion)]
    linked = [(a, b) for a, b in read if a in first and b in second] + [(b, a) for a, b in read if a in second and b in first]
    pairs = linked or _neighbours(one, other, place)
    apart = min(pairs, key=lambda pair: abs(place.get(pair[0], 0) - place.get(pair[1], 0)), default=(one[0], other[0]))
    found = next(shared, apart)
    return found, [pair for pair in linked if groups[pair[0]].isdisjoint(groups[pair[1]])]


def _neighbours(one: Sequence[Any], other: Sequence[Any], place: Mapping[Any, int]) -> Iterator[_Pair]:
    """Each of the first with those of the second that are next to it in the program, but not itself."""
    ordered = sorted(other, key=lambda node: place.get(node, 0))
    at = [place.get(node, 0) for node in ordered]
    for node in one:
        k = bisect_left(at, place.get(node, 0))
        near = ordered[max(0, k - 1) : k + 2]
        yield from ((node, mate) for mate in near if mate is not node)


def _readers(fusion: Fusion, value: Value) -> dict[Node, None]:
    users, rules, waiting, found = fusion.original.users, fusion.rules, [value], dict[Node, None]()
    while waiting:
        for use in users.get(waiting.pop(), ()):
            if isinstance(use.user, Node) and rules.is_view(use.user):
                waiting += use.user.outputs
            elif isinstance(use.user, Node) and _computes(fusion, use.user):
                found[use.user] = None
    return found


def _computes(fusion: Fusion, node: Node) -> bool:
    return not node.blocks and not node.op.startswith("prim::") and not fusion.rules.is_view(node)


def kernels_of(fusion: Fusion, node: Node) -> Set[Node] | None:
    """The groups that compute a node of the program as written, or the node itself; None if a pass before grouping replaced it."""
    if not isinstance(fusion, GivenFusion):
        return None if isinstance(fusion._find(node), Verdict) else {fusion.group_of(node) or node}
    if node not in fusion.known_kernels:
        makers, parts = fusion.original.producer, list[Node]()
        for made in (makers[value] for value in node.inputs if value in makers) if node in fusion.assembled else ():
            parts += [makers[value] for value in made.inputs if value in makers] if made.op == "prim::ListConstruct" else [made]
        found = {group for part in parts for group in fusion.groups_of(part)} or {*fusion.groups_of(node)} or {node}
        fusion.known_kernels[node] = found
    return fusion.known_kernels[node]
