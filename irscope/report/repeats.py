"""What shares a box: calls of modules, those that are alike, repeats that no module marks, the passes of a joint graph; what has none."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby, takewhile
from operator import attrgetter
from typing import Final

import numpy as np

from irscope.analysis.per_graph import per_graph
from irscope.ir import ANY, GROUPS, ClassType, Graph, Node, TensorData, TensorType, Type, Value, walk, with_inner
from irscope.ops.registry import category_of, effect_of
from irscope.ops.traits import PACKS_SEQUENCE
from irscope.transforms.dedup.rewrite import Repeat, find_regions

# Assigns each node to a call of a module of the user's model, by its scope and its operands.
#
# A module that is called again on its own output gets a box per call: in one box the calls would form a cycle. A node may join a
# call if all its operands were produced inside it or before it began. A fusion group is placed where its last node is, and counts
# as part of every module that one of its nodes is from, so fusion across modules does not split them.

DEEPEST = 100  # The deepest nesting of modules that gets boxes.


def scope_of(node: Node) -> str:
    """The scope of a node's box; for a group, that of its last node that has one."""
    if node.blocks and node.op.endswith("Group"):
        for inner in reversed(node.blocks[0].nodes):
            if inner.scope and inner.op != "prim::Constant":
                return inner.scope
    return node.scope


def paths_of(scope: str) -> list[str]:
    """The paths of a scope and its enclosing modules, outermost first.

    >>> paths_of("net.layers.0")
    ['net', 'net.layers', 'net.layers.0']
    """
    parts = scope.split(".", DEEPEST) if scope else []
    return [".".join(parts[: k + 1]) for k in range(len(parts))]


class ModuleCalls:
    """Finds the box of each node's module, and creates one with `make(path, around)` when a call begins."""

    def __init__(self, make: Callable[[str, int], int], parent: list[int], one_each: bool = False) -> None:
        """With `one_each`, each outermost path has one box, whatever reads it: those may form cycles, which split nothing inside them."""
        self._make = make
        self._one_each = one_each
        self._parent = parent  # The parent of each box, by number; grows as boxes are created, with increasing numbers.
        self._latest: dict[tuple[int, str], int] = {}
        self._paths_of = cache(paths_of)
        self._spans: dict[int, set[str]] = {}  # The scopes of groups whose nodes are from several modules.
        self._paths_spanned: dict[int, set[str]] = {}
        self._path_of: dict[int, str] = {}
        self._before = "", -1, -1  # The previous scope, with its outermost and innermost call.

    def box_of(self, scope: str, sources: Iterable[int]) -> int:
        """The box of a scope for a node that uses values of the boxes `sources`; -1 for the top."""
        box = -1
        if not scope:
            return box
        read = list(sources)
        before, outermost, innermost = self._before
        if scope == before and all(source < outermost or self._parent[source] == innermost for source in read):
            return innermost  # most nodes follow a node of the same module and use its values
        latest, newest = self._latest, max(read, default=-1)
        for path in self._paths_of(scope):
            call = latest.get((box, path))
            joins = self._one_each and box < 0
            if call is None or not (joins or newest < call or all(source < call or self._is_in(source, call) for source in read)):
                call = latest[box, path] = self._make(path, box)
                self._path_of[call] = path
            if box < 0:
                outermost = call
                if self._one_each:
                    read = [source for source in read if self._outermost(source) == call]
                    newest = max(read, default=-1)
            box = call
        self._before = scope, outermost, box
        return box

    def _outermost(self, box: int) -> int:
        while self._parent[box] >= 0:
            box = self._parent[box]
        return box

    def spans(self, box: int, scopes: set[str]) -> None:
        """Record the modules that the nodes of a group are from."""
        if len(scopes) > 1:
            self._spans[box] = scopes

    def _is_in(self, box: int, call: int) -> bool:
        """Whether a box is in a call, or, as that of a group, has nodes from its module."""
        if box in self._spans:
            if box not in self._paths_spanned:
                self._paths_spanned[box] = {path for scope in self._spans[box] for path in self._paths_of(scope)}
            if self._path_of[call] in self._paths_spanned[box]:
                return True
        while box > call:
            box = self._parent[box]
        return box == call


# Finds nodes without a box, shown by the text alone: constants, number arithmetic, and lists that their only user unpacks.

CONSTANT = "prim::Constant"


def quiet_nodes(graph: Graph) -> set[Node]:
    """The nodes of a graph that touch no tensor or object, the lists and tuples with a single user, and numbers stretched over a shape.

    A list whose elements are read or changed by position keeps its box.
    """
    quiet: set[Node] = set()
    numbers = folded_numbers(graph)
    known: dict[int, tuple[Type, bool]] = {}

    def hold_data(values: Iterable[Value]) -> bool:
        """Whether some may be or contain tensors or objects."""
        for value in values:
            if id(value.type) not in known:
                parts = walk(value.type)
                known[id(value.type)] = value.type, any(isinstance(part, TensorType | ClassType) or part == ANY for part in parts)
            if known[id(value.type)][1]:
                return True
        return False

    for node in reversed(list(graph.nodes())):  # the contents of a block come before the node that holds it
        is_number_work = not hold_data(node.outputs) and not hold_data(node.inputs)
        if node.blocks:
            is_number_work = is_number_work and all(inner in quiet for block in node.blocks for inner in block.nodes)
        readers = graph.users.get(node.outputs[0], ()) if node.op in PACKS_SEQUENCE else ()
        is_link = (
            node.op in PACKS_SEQUENCE
            and len(readers) <= 1
            and not any(
                isinstance(use.user, Node) and use.user.op not in PACKS_SEQUENCE and category_of(use.user) == "container" for use in readers
            )
        )
        is_number = node.op in _STRETCHES and node.outputs[0] in numbers
        if node.op == CONSTANT or is_link or is_number or (is_number_work and node.op != "prim::Print"):
            quiet.add(node)
    return quiet


# Finds tensors that are one number: a constant, and what repeats it over a shape. The label of their reader names them.

_STRETCHES: Final = frozenset({"aten::expand", "aten::broadcast_to"})


@per_graph
def folded_numbers(graph: Graph) -> Mapping[Value, str]:
    """The number that is in each element of a tensor, as text, for constants of one element and what stretches them.

    A stretched one is in it only if pointwise ops alone read it, groups among them: their labels can name the number, and no write
    reaches it.
    """
    found: dict[Value, str] = {}
    producer = graph.producer
    for node in graph.nodes():
        if node.op == CONSTANT:
            data = node.attrs.get("value")
            if isinstance(data, TensorData) and data.array is not None and data.array.size == 1 and data.dtype != "bfloat16":
                found[node.outputs[0]] = f"{data.array.item():.6g}"
        elif node.op in _STRETCHES and node.inputs[0] in found and _are_read_pointwise(graph, node):
            sizes = [producer.get(value) for value in node.inputs[1:]]
            if all(maker is not None and (maker.op == CONSTANT or maker.op in PACKS_SEQUENCE) for maker in sizes):
                found[node.outputs[0]] = found[node.inputs[0]]
        elif found and node.op.endswith("Group") and node.blocks:
            found.update((param, found[value]) for param, value in zip(node.blocks[0].params, node.inputs, strict=True) if value in found)
    return found


def _are_read_pointwise(graph: Graph, node: Node) -> bool:
    """Whether pure pointwise ops, and groups, alone read what a node makes."""
    readers = [use.user for use in graph.users.get(node.outputs[0], ())]
    return bool(readers) and all(
        isinstance(reader, Node) and (reader.op.endswith("Group") or (category_of(reader) == "pointwise" and effect_of(reader) == "pure"))
        for reader in readers
    )  # fmt: skip


# Finds repeated modules of a program: the layers of a transformer, the blocks of a residual network.
#
# Two modules are equal if their nodes, sorted by age (program order, whatever passes moved), correspond one to one: same op,
# same enclosing block, and operands that are corresponding nodes, the same outside value at the same positions, or constants at
# the same positions. That correspondence is the proof: encodings are compared in full, not only by hash. Fusion groups are
# transparent: a layer whose first op was fused with the previous layer is still a layer. Constants and types are encoded
# separately, as they may differ between members; the differing positions are counted and reported.

FEWEST = 3  # The fewest members of a run that gets a box.
_NUMBER = re.compile(r"\d+")


Encoding = tuple[tuple[object, ...], tuple[object, ...]]
"""The part that equal modules share, and the part that may differ between them, position by position."""


@dataclass(frozen=True)
class Run:
    """Equal sibling modules."""

    members: tuple[int, ...]  # Positions among the siblings.
    holes: int  # The number of positions where constants or types differ between them.
    fused_alike: bool
    """Whether each has its nodes in the same fusion groups as the others; otherwise the boxes that are drawn in them differ."""


class ModuleText:
    """Encodes the nodes of modules, given by path, such that equal encodings mean equal modules.

    `scopes` replaces the nodes' own scopes, and its order says how nodes of equal modules correspond.
    """

    def __init__(self, graph: Graph, scopes: Mapping[Node, str] | None = None) -> None:
        self._graph = graph
        self._scopes = scopes or None
        self._age = {node: age for age, node in enumerate(scopes)} if scopes else None
        self._owners: dict[Node, Node] = {}  # The If or Loop around each node that is inside one.
        self._groups: dict[Node, Node] = {}  # The fusion group of each node that is in one.
        self._types: dict[int, tuple[Type, int]] = {}
        self._numbers: dict[str, int] = {}

    def _nodes(self) -> Iterator[Node]:
        owners = self._owners
        for node in self._graph.nodes():
            if node.blocks:
                is_group = node.op.endswith("Group")
                owner = owners.get(node) if is_group else node
                if owner is not None:
                    owners.update((inner, owner) for block in node.blocks for inner in block.nodes)
                if is_group:
                    self._groups.update(dict.fromkeys(node.blocks[0].nodes, node))
                    continue
            if node.op != CONSTANT and self._scope(node):
                yield node

    def _scope(self, node: Node) -> str:
        return node.scope if self._scopes is None else self._scopes.get(node, "")

    def by_path(self) -> dict[str, list[Node]]:
        """The nodes of each module, including those of its submodules; nodes of equal modules correspond by position."""
        age = self._age
        found: dict[str, list[Node]] = {}
        around: dict[str, list[list[Node]]] = {}
        for node in sorted(self._nodes(), key=attrgetter("id") if age is None else age.__getitem__):
            scope = self._scope(node)
            lists = around.get(scope)
            if lists is None:
                lists = around[scope] = [found.setdefault(path, []) for path in paths_of(scope)]
            for nodes in lists:
                nodes.append(node)
        return found

    def encode(self, nodes: Sequence[Node]) -> Encoding:
        """What makes modules alike, and what may differ between those that are, place by place."""
        place = {node: k for k, node in enumerate(nodes)}
        owners, meant, producer, types = self._owners, maker_sides(self._graph), self._graph.producer, self._types
        outsiders: dict[Value, int] = {}
        shape: list[object] = []
        holes: list[object] = []
        for node in nodes:
            inputs, outputs = node.inputs, node.outputs
            shape += node.op, place.get(owners[node], -1) if node in owners else -1, len(inputs)
            for value in inputs:
                value = meant.get(value, value)
                maker = producer.get(value)
                at = None if maker is None else place.get(maker)
                if at is not None and maker is not None:
                    shape.append((at, 0 if len(maker.outputs) == 1 else maker.outputs.index(value)))
                elif maker is not None and maker.op == CONSTANT:
                    shape.append("c")
                    holes.append(self._constant(maker))
                else:
                    shape.append(~outsiders.setdefault(value, len(outsiders)))
            for value in outputs:
                known = types.get(id(value.type))
                if known is None:
                    known = types[id(value.type)] = value.type, self._number(str(value.type))
                holes.append(known[1])
            if node.attrs or len(outputs) != 1:
                shape.append(~len(outputs) if node.attrs else len(outputs))
            if node.attrs:
                holes.append(self._constant(node))
        return tuple(shape), tuple(holes)

    def maker_side(self, value: Value) -> Value:
        return maker_sides(self._graph).get(value, value)

    def fusion(self, nodes: Sequence[Node]) -> tuple[object, ...]:
        """How the nodes of a module are fused: the place of each in a group, and of the first of these in it, or the ops of the group."""
        first: dict[Node, int] = {}
        found: list[object] = []
        for k, node in enumerate(nodes):
            group = self._groups.get(node)
            if group in first:
                found.append((k, first[group]))
            elif group is not None:
                first[group] = k
                found.append((k, *sorted(inner.op for inner in group.blocks[0].nodes if inner.op != CONSTANT)))
        return tuple(found)

    def _constant(self, node: Node) -> int:
        return self._number(repr(sorted(node.attrs.items(), key=lambda item: item[0]))[:400])

    def _number(self, text: str) -> int:
        return self._numbers.setdefault(text, len(self._numbers))


@per_graph
def maker_sides(graph: Graph) -> Mapping[Value, Value]:
    """For each value at the border of a group, the same value on the side of its producer."""
    found: dict[Value, Value] = {}
    for node in graph.nodes():
        if node.op in GROUPS and node.blocks:
            found.update(zip(node.blocks[0].params, node.inputs, strict=True))
            found.update(zip(node.outputs, node.blocks[0].returns, strict=True))
    for value in found:  # across several borders
        while found[value] in found:
            found[value] = found[found[value]]
    return found


def runs_of(paths: Sequence[str], nodes: Mapping[str, Sequence[Node]], text: ModuleText) -> list[Run]:
    """The runs among sibling modules, given by path in program order, each path once."""
    runs: list[Run] = []
    for (_, count), places in groupby(range(len(paths)), lambda k: (_NUMBER.sub("#", paths[k]), len(nodes.get(paths[k], ())))):
        similar = list(places)
        texts = {k: text.encode(nodes[paths[k]]) for k in similar} if count and len(similar) >= FEWEST else {}
        for _, alike in groupby(texts.items(), lambda item: item[1][0]):
            members = dict(alike)
            if len(members) >= FEWEST:
                holes = sum(len(set(column)) > 1 for column in zip(*(own for _, own in members.values()), strict=True))
                fusions = {text.fusion(nodes[paths[k]]) for k in members}
                runs.append(Run(tuple(members), holes, len(fusions) == 1))
    return runs


def told_range(paths: Sequence[str]) -> str:
    """One label for the paths of a run.

    >>> told_range(["net.layers.0", "net.layers.1", "net.layers.2"])
    'net.layers.0–2'
    >>> told_range(["net.3.norm", "net.2.norm", "net.1.norm"])
    'net.3.norm … 1.norm'
    """
    first, last = paths[0].split("."), paths[-1].split(".")
    same = next((k for k, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(last) - 1)
    own = ".".join(last[same:])
    return f"{paths[0]}–{own}" if own.isdigit() and len(first) == len(last) else f"{paths[0]} … {own}"


def told_apart(paths: Sequence[str]) -> list[str]:
    """Paths without what all of them begin with, but the last part of that: names of layers that nobody has to cut at their ends.

    >>> told_apart(["model.layers.0.norm", "model.layers.1.norm"]), told_apart(["model.norm"])
    (['layers.0.norm', 'layers.1.norm'], ['model.norm'])
    """
    parts = [path.split(".") for path in paths]
    same = sum(1 for _ in takewhile(lambda each: len(set(each)) == 1, zip(*parts, strict=False))) if len(set(paths)) > 1 else 0
    return [".".join(each[max(0, same - 1) :]) for each in parts]


# Module paths for programs without scopes, derived from the repeated regions that deduplication finds.
#
# Hand-unrolled layers, an exported graph without scopes, a pasted text: their equal parts get paths `region0.0`, `region0.1`, …,
# and are then treated like the layers of a model. A region counts if it occurs as often as modules must to be folded, and if each
# occurrence uses only values produced before it began, because a box in a cycle explains nothing.

_MOST_NODES: Final = 10_000  # The largest program searched: the first picture waits for the search, at about 30 µs per node.
_MOST_IN_A_ROW: Final = 30_000
"""The largest program in which a body that is written again and again is looked for: that takes a look at each op."""
_LONGEST_BODY: Final = 2_000

_FEWEST_OPS: Final = 3  # The fewest ops in one occurrence, including those in fusion groups.


@per_graph
def unmarked_repeats(graph: Graph) -> Mapping[Node, str]:
    """The path of each node in a repeated region, ordered such that nodes of the occurrences correspond; empty for a program that
    has scopes.
    """
    found: dict[Node, str] = {}
    if len(graph.body.nodes) > _MOST_NODES:
        return _written_again(graph) if len(graph.position) <= _MOST_IN_A_ROW else found
    for count, node in enumerate(graph.nodes()):
        if node.scope or count >= _MOST_NODES:
            return found
    repeats = [
        repeat for repeat in find_regions(graph, min_nodes=2)
        if repeat.block is graph.body and len(repeat) >= FEWEST
        and sum(node.op != CONSTANT for node in with_inner(*repeat.places[0])) >= _FEWEST_OPS and _follows_what_it_reads(graph, repeat)
    ]  # fmt: skip
    for number, repeat in enumerate(repeats):
        for at, place in enumerate(repeat.places):
            found.update(dict.fromkeys(with_inner(*place), f"region{number}.{at}"))
    return found


def _written_again(graph: Graph) -> dict[Node, str]:
    """A body that is most of a long flat program, each time with the same ops, and with operands as far back."""
    nodes = [node for node in graph.body.nodes if node.op != CONSTANT]
    if any(node.scope or node.blocks for node in nodes):
        return {}
    place = {value: k for k, node in enumerate(nodes) for value in node.outputs}
    numbers: dict[object, int] = {}
    keys = []
    for k, node in enumerate(nodes):
        back = tuple(distance if 0 < (distance := k - place.get(value, k)) < _LONGEST_BODY else 0 for value in node.inputs)
        keys.append(numbers.setdefault((node.op, back), len(numbers)))
    ops = np.array(keys)
    counts = Counter(keys)
    rarest = min((op for op, count in counts.items() if count > len(keys) // _LONGEST_BODY), key=counts.__getitem__, default=-1)
    gaps = np.diff(np.flatnonzero(ops == rarest))
    if not len(gaps):
        return {}
    body = int(np.bincount(gaps).argmax())
    ends = np.flatnonzero(np.concatenate([[True], ops[body:] != ops[:-body], [True]]))  # between them each op is that of the body before
    longest = int(np.diff(ends).argmax())
    first, count = int(ends[longest]), (int(np.diff(ends)[longest]) - 1) // body + 1
    if count < FEWEST or body < _FEWEST_OPS or count * body < len(nodes) // 2:
        return {}
    return {nodes[first + k]: f"region0.{k // body}" for k in range(count * body)}


def _follows_what_it_reads(graph: Graph, repeat: Repeat) -> bool:
    """Whether every occurrence uses only outside values that were produced before its first node."""
    position = graph.position
    for at, place in enumerate(repeat.places):
        first = min(position[node] for node in place)
        makers = (graph.producer.get(values[at]) for values in repeat.inputs)
        if any(maker is not None and maker.op != "prim::Constant" and position[maker] > first for maker in makers):
            return False
    return True


# The two passes of a joint graph, forward and backward.
#
# A program whose inputs are gradients of its results (`%grad_output`, AOTAutograd's `%tangents_1`) runs its backward pass where these
# arrive. One that returns gradients of a loss has no such input: what the loss needs is forward, and so is what is as old (masks and
# statistics that are kept for the backward pass); passes may have rewritten some of either, so the age that tells most right decides.

_COTANGENT: Final = re.compile(r"(tangents|grad_output)(_\d+)*")
LANES: Final = ("forward", "backward")


@per_graph
def lanes_of(graph: Graph) -> Mapping[Node, str]:
    """The pass of each node of a joint graph, by age; empty for any other program."""
    given = {value for value in graph.inputs if _COTANGENT.fullmatch(value.name or "")}
    if not given and not graph.gradients:
        return {}
    ops = _Ops(graph)
    late = _reached(ops, given) if given else _after_loss(ops)
    if not 0 < len(late) < len(ops.nodes):
        return {}
    lanes: dict[Node, str] = {}
    for node in graph.body.nodes:
        inner = list(with_inner(node))
        if node.op in GROUPS:
            lanes.update((each, LANES[each in late]) for each in inner[1:])
            lanes[node] = LANES[any(each in late for each in inner)]
        else:
            lanes.update(dict.fromkeys(inner, LANES[node in late]))
    return dict(sorted(lanes.items(), key=lambda item: item[0].id))


class _Ops:
    """The outermost nodes, those of a fusion group in its place: a group may have nodes of both passes."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[Node] = []
        self._sides = maker_sides(graph)
        for node in graph.body.nodes:
            self.nodes += node.blocks[0].nodes if node.op in GROUPS else [node]

    def made(self, value: Value) -> Value:
        """The value on the side of its producer."""
        return self._sides.get(value, value)

    def reads(self, node: Node) -> set[Value]:
        return {self.made(value) for inner in with_inner(node) for value in inner.inputs}


def _reached(ops: _Ops, given: set[Value]) -> set[Node]:
    """The nodes that need one of these values, and what is made for them alone since the first."""
    known, late = set(given), set[Node]()
    others = {ops.made(value) for value in ops.graph.outputs}  # What something else than these nodes reads.
    for node in ops.nodes:
        if not known.isdisjoint(ops.reads(node)):
            late.add(node)
            known.update(node.outputs)
    first = min(map(_age, late), default=0)
    read = set[Value]()
    for node in reversed(ops.nodes):
        if node not in late and not read.isdisjoint(node.outputs) and _age(node) > first and others.isdisjoint(node.outputs):
            late.add(node)
        (read if node in late else others).update(ops.reads(node))
    return late


def _after_loss(ops: _Ops) -> set[Node]:
    """The nodes that no other result than a gradient needs, and that are younger than those that one does."""
    gradients = {*ops.graph.gradients.values()}
    needed = {ops.made(value) for index, value in enumerate(ops.graph.outputs) if index not in gradients}
    early: set[Node] = set()
    for node in reversed(ops.nodes):
        if not needed.isdisjoint(node.outputs):
            early.add(node)
            needed |= ops.reads(node)
    ages = {node: _age(node) for node in ops.nodes if node.op != CONSTANT}
    wrong = fewest = 0
    border = -1
    for node in sorted(ages, key=ages.__getitem__):
        wrong += -1 if node in early else 1
        if wrong < fewest:
            fewest, border = wrong, ages[node]
    return {node for node, age in ages.items() if node not in early and age > border}


def _age(node: Node) -> int:
    """The id of a node, or that of the youngest in its blocks, which passes keep."""
    return max((inner.id for inner in with_inner(node) if inner is not node and inner.op != CONSTANT), default=node.id)


def places_of(graph: Graph) -> Mapping[Node, str]:
    """A path for each node that replaces its scope, ordered such that nodes of equal parts correspond; empty if the scopes do.

    That of a repeated region for a program without scopes; in a joint graph, its pass and then the module, whose backward nodes have
    the scope of the forward ones.
    """
    lanes, regions = lanes_of(graph), unmarked_repeats(graph)
    if not lanes:
        return regions
    scopes = regions or _scopes_in(graph, lanes)
    order = [*regions, *(node for node in lanes if node not in regions)]
    return {node: f"{lanes[node]}.{scopes.get(node, '')}".rstrip(".") for node in order}


def _scopes_in(graph: Graph, lanes: Mapping[Node, str]) -> Mapping[Node, str]:
    """The module of each node. A sum of gradients, which autograd makes at no place of the user's, is where its last summand is."""
    scopes: dict[Node, str] = {}
    position, producer, sides = graph.position, graph.producer, maker_sides(graph)
    for node in graph.nodes():
        is_group = bool(node.blocks) and node.op.endswith("Group")
        scopes[node] = node.scope
        if not (is_group or node.scope) and node.location is None and node.op != CONSTANT and lanes[node] == LANES[1]:
            makers = [producer[made] for value in node.inputs if (made := sides.get(value, value)) in producer]
            scopes[node] = max(((position[maker], scopes.get(maker, "")) for maker in makers), default=(0, ""))[1]
    for node in lanes:
        if node.blocks and node.op.endswith("Group"):
            scopes[node] = next((scopes[inner] for inner in reversed(node.blocks[0].nodes) if scopes[inner] and inner.op != CONSTANT), "")
    return scopes
