"""Matches the nodes and values of two programs.

Programs that passes derived from one program share ids: a node matches itself. Others are matched by what they compute from the
inputs (op, attributes, types, operands) where both have as many of them, then by op and given name, then by their neighbours: nodes
whose results matched nodes read, nodes that read matched values, nodes after the same matched one; in the end also nodes of other
ops. A fusion group matches the group with which it shares most nodes.

A value corresponds to another by its origin, so that neither numbering nor grouping matters: an argument by its name, otherwise its
position; a constant by its value; a result by its node; what passes the border of a group is what it is outside.
Everything is linear. A match is for display only; no pass relies on it.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Literal

from irscope._base.nested import grouped
from irscope.ir import Graph, Node, TensorData, Value
from irscope.ir.core import GROUPS
from irscope.ir.structural import same_payload
from irscope.report.repeats import maker_sides

By = Literal["ids", "structure"]


def is_group(node: Node) -> bool:
    """Whether a node only runs its block: what it computes, the nodes inside it do."""
    return node.op in GROUPS and bool(node.blocks)


class Match:
    """The corresponding nodes of two programs, and the criterion used."""

    def __init__(self, first: Graph, second: Graph) -> None:
        self.first, self.second = first, second
        self.nodes: dict[Node, Node] = {}
        self._argument = _arguments(first, second)
        left, right = list(first.nodes()), list(second.nodes())
        self.by: By = "ids" if {node.id for node in left} & {node.id for node in right} else "structure"
        if self.by == "ids":
            self._pair(left, right, lambda node: node.id)
        else:
            self._by_structure([node for node in left if not is_group(node)], [node for node in right if not is_group(node)])
        self._pair_groups(filter(is_group, left), filter(is_group, right))

    def are_same(self, value: Value, other: Value) -> bool:
        """Whether a value of the first program is one of the second."""
        value, other = origin(self.first, value), origin(self.second, other)
        maker, made = self.first.producer.get(value), self.second.producer.get(other)
        if maker is None or made is None:
            return maker is made and self._place(self.first, value) == self._place(self.second, other)  # both are None
        if maker.op == made.op == "prim::Constant":
            return (
                maker.attrs.keys() == made.attrs.keys()
                and str(maker.output.type) == str(made.output.type)
                and all(same_payload(value, made.attrs[key]) for key, value in maker.attrs.items())
            )
        return self.nodes.get(maker) is made and maker.outputs.index(value) == made.outputs.index(other)

    def _place(self, graph: Graph, value: Value) -> Hashable:
        """An argument, or a parameter of a block: by the matched node that has the block."""
        if value in self._argument:
            return self._argument[value]
        block = graph.block_of[value]
        owner = graph.owner[block]
        return self._image(graph, owner), owner.blocks.index(block), block.params.index(value)

    def _image(self, graph: Graph, node: Node) -> Node:
        """The node of the second program that corresponds to one of a graph, if there is one, else the node itself."""
        return self.nodes.get(node, node) if graph is self.first else node

    def _by_structure(self, left: list[Node], right: list[Node]) -> None:
        keys = self._computed(self.first) | self._computed(self.second)
        count = Counter(keys[node] for node in left)
        count.subtract(keys[node] for node in right)
        self._pair(left, right, lambda node: keys[node] if not count[keys[node]] else None)
        names = {**self.first.names, **self.second.names}
        self._pair(left, right, lambda node: given_name(node, names))
        # first nodes of one op, then those whose op was replaced: by another with as many results, but no constant by a node
        for key, is_any_op in ((lambda node: node.op, False), (lambda node: (len(node.outputs), node.op == "prim::Constant"), True)):
            self._pair_makers(left, key)
            self._pair_readers(left, right)
            self._pair_in_gaps(left, right, key, only_if_as_many=is_any_op)
            self._pair_readers(left, right)

    def _pair(self, left: Iterable[Node], right: Iterable[Node], key: Callable[[Node], Hashable]) -> None:
        """Pair unpaired nodes with equal keys, in order; nodes with the key None stay unpaired."""
        taken = set(self.nodes.values())
        waiting = grouped((key(node), node) for node in reversed([*right]) if node not in taken)
        for node in left:
            if node not in self.nodes and (found := key(node)) is not None and waiting.get(found):
                self.nodes[node] = waiting[found].pop()

    def _pair_readers(self, left: list[Node], right: list[Node]) -> None:
        """Pair nodes of one op that read corresponding values, in the order of the text, so that a pair makes others."""
        taken = set(self.nodes.values())
        waiting = grouped((self._reading_key(self.second, node), node) for node in reversed(right) if node not in taken)
        for node in left:
            if node not in self.nodes and node.inputs and (same := waiting.get(self._reading_key(self.first, node))):
                self.nodes[node] = same.pop()

    def _reading_key(self, graph: Graph, node: Node) -> Hashable:
        """A key that nodes share whose operands correspond."""
        key: list[Hashable] = [node.op]
        for value in (origin(graph, value) for value in node.inputs):
            maker = graph.producer.get(value)
            if maker is None:
                key.append(self._place(graph, value))
            elif maker.op == "prim::Constant":
                key.append((_content(maker.attrs), str(value.type)))
            else:
                key.append((self._image(graph, maker), maker.outputs.index(value)))
        return tuple(key)

    def _pair_makers(self, left: list[Node], key: Callable[[Node], Hashable]) -> None:
        """Pair nodes with equal keys whose results matched nodes read or blocks return at one place, from the end of the text."""
        taken = set(self.nodes.values())
        self._pair_producers(self.first.outputs, self.second.outputs, key, taken)
        for node in reversed(left):
            if (other := self.nodes.get(node)) is not None:
                self._pair_producers(node.inputs, other.inputs, key, taken)
                for block, its in zip(node.blocks, other.blocks, strict=False):
                    self._pair_producers(block.returns, its.returns, key, taken)

    def _pair_producers(self, values: Sequence[Value], others: Sequence[Value], key: Callable[[Node], Hashable], taken: set[Node]) -> None:
        for value, other in zip(values, others, strict=False) if len(values) == len(others) else ():
            maker = self.first.producer.get(origin(self.first, value))
            made = self.second.producer.get(origin(self.second, other))
            if maker is None or made is None or maker in self.nodes or made in taken or key(maker) != key(made):
                continue
            self.nodes[maker] = made
            taken.add(made)

    def _pair_in_gaps(self, left: list[Node], right: list[Node], key: Callable[[Node], Hashable], *, only_if_as_many: bool) -> None:
        """Pair nodes with equal keys that come after the same matched node; perhaps only where both sides have as many."""
        image = {**self.nodes, **{other: other for other in self.nodes.values()}}
        gap: dict[Node, Hashable] = {}
        for nodes in (left, right):
            last = None
            for node in nodes:
                gap[node] = key(node), last
                last = image.get(node, last) if node.op != "prim::Constant" else last  # which may stand anywhere
        count = Counter(gap[node] for node in left if node not in image)
        count.subtract(gap[node] for node in right if node not in image)
        self._pair(left, right, lambda node: None if only_if_as_many and count[gap[node]] else gap[node])

    def _pair_groups(self, left: Iterable[Node], right: Iterable[Node]) -> None:
        """Pair groups from those that share most nodes down; constants, which are copied into groups, do not count."""
        right = list(right)
        home = {inner: group for group in right for inner in group.blocks[0].nodes if inner.op != "prim::Constant"}
        shared: Counter[tuple[Node, Node]] = Counter()
        for group in left:
            for inner in group.blocks[0].nodes:
                if (other := home.get(self.nodes.get(inner, inner))) is not None:
                    shared[group, other] += 1
        taken: set[Node] = set()
        for (group, other), _ in shared.most_common():
            if group not in self.nodes and other not in taken:
                self.nodes[group] = other
                taken.add(other)

    def _computed(self, graph: Graph) -> dict[Node, Hashable]:
        """A number per node that is equal for equal computations, within this process."""
        of: dict[Value, Hashable] = {value: ("input", self._argument[value]) for value in graph.inputs}
        found: dict[Node, Hashable] = {}
        for node in graph.nodes():
            if is_group(node):
                continue
            for depth, block in enumerate(node.blocks):
                of.update((value, ("parameter", depth, k, node.op)) for k, value in enumerate(block.params))
            reads = tuple(of.get(origin(graph, value), "later") for value in node.inputs)
            types = tuple(str(value.type) for value in node.outputs)
            key = found[node] = hash((node.op, _content(node.attrs), reads, types))
            of.update((value, (key, k)) for k, value in enumerate(node.outputs))
        return found


def _results(node: Node) -> Hashable:
    """How many results it has: a node may take the place of another that has as many, but no constant that of a node."""
    return len(node.outputs), node.op == "prim::Constant"


def origin(graph: Graph, value: Value) -> Value:
    """The value outside that a parameter of a group stands for, and the value inside that a result of one is."""
    return maker_sides(graph).get(value, value)


def _arguments(first: Graph, second: Graph) -> dict[Value, int]:
    """A number for each argument that the corresponding one has, too: by name, the rest in order."""
    place = {value.name: k for k, value in enumerate(first.inputs)}
    found: dict[Value, int] = {value: k for k, value in enumerate(first.inputs)}
    named = {value: place[value.name] for value in second.inputs if value.name in place}
    free = iter([k for k in range(len(first.inputs)) if k not in named.values()])
    fresh = len(first.inputs)
    for k, value in enumerate(second.inputs):
        found[value] = named[value] if value in named else next(free, fresh + k)
    return found


def given_name(node: Node, names: Mapping[Value, str]) -> Hashable:
    """Op and name; None for a node whose name is a number that the printer gave it."""
    name = names[node.outputs[0]] if node.outputs else ""
    return (node.op, name) if name and not name.isdecimal() else None


def _content(value: Any) -> Hashable:
    """A hash of attributes that is equal for equal ones, a tensor's by its elements."""
    if isinstance(value, TensorData):
        return hash(value)
    if isinstance(value, Mapping):
        return tuple((key, _content(value[key])) for key in sorted(value))
    if isinstance(value, tuple):
        return tuple(map(_content, value))
    return repr(value)
