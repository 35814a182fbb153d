"""Normal form of a graph: the same text for the same program, whatever its order and names.

* Nodes are in the topological order that their terms' digests define (`form`): of the nodes whose operands are defined, the
  one with the smallest digest is next. Ordered nodes (those that write, draw random numbers or are unknown) keep their order.
* The operands of a commutative op are in the order of their digests, unless the result would be laid out differently. Where no
  strides are declared that is not known: the elements are the same, the strides of a result may not be.
* A constant is directly in front of its first user, once per block.
* Results of nodes have no names, so that they are numbered in order.

Nodes that no needed node depends on are removed. Equal nodes stay two, as their results are two tensors: `cse` is another pass.
A node stays in its block. Of two nodes with equal digests, the one whose users' digests are smaller comes first; remaining ties
lead to the same text either way, except in programs with a symmetry that the users' digests do not distinguish.

Running it twice changes nothing: the order depends on digests, and these do not depend on the order.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from graphlib import TopologicalSorter
from heapq import heappop, heappush
from time import perf_counter

from irscope._base.nested import Call, run
from irscope._base.words import plural
from irscope.ir import Block, Edit, Erased, Graph, Moved, Node, Replaced, TensorData, Type, Value, make_block, make_node, make_value, new_id
from irscope.transforms.base import PassRecord, Remark
from irscope.transforms.dedup.encoding import digest
from irscope.transforms.dedup.form import Colors
from irscope.transforms.dedup.piece import Body
from irscope.transforms.dedup.terms import Ref, flow_of

_ROUNDS = 3


def normal_form(graph: Graph) -> PassRecord:
    """Bring a graph into its normal form; the record's edits say what moved, and what was renamed.

    >>> import irscope as irs
    >>> def program(first, second):
    ...     lines = {"e": "  %e : Float(4) = aten::exp(%x)", "t": "  %t : Float(4) = aten::tanh(%x)"}
    ...     last = f"  %r : Float(4) = aten::mul(%{first}, %{second})\\n  return (%r)"
    ...     return irs.parse(f"graph(%x : Float(4)):\\n{lines[first]}\\n{lines[second]}\\n{last}")
    >>> str(normal_form(program("e", "t")).after) == str(normal_form(program("t", "e")).after)
    True
    """
    started = perf_counter()
    made = _Normal(graph)
    body = run(made.block(graph.body))
    same = _is_same(graph.body, body)
    after = graph if same else replace(graph, body=body)
    erased = [Erased(node, "no needed node depends on it") for node in graph.nodes() if node not in made.kept]
    edits: tuple[Edit, ...] = () if same else (*made.edits, *erased)
    remarks = []
    changed = list(dict.fromkeys((*made.moved, *made.exchanged)))
    if changed:
        because = f"{plural(len(made.moved), 'node')} moved, {plural(len(made.exchanged), 'pair')} of operands exchanged"
        remarks.append(Remark("passed", "normal-form", changed[0], because, tuple(changed[1:8])))
    return PassRecord("normal-form", graph, after, edits, tuple(remarks), perf_counter() - started)


@dataclass(eq=False)
class _Normal:
    graph: Graph
    env: dict[Value, Value] = field(default_factory=dict)
    edits: list[Edit] = field(default_factory=list)
    moved: list[Node] = field(default_factory=list)
    exchanged: list[Node] = field(default_factory=list)
    """The nodes whose first two operands were exchanged."""
    kept: set[Node] = field(default_factory=set)

    def __post_init__(self) -> None:
        body = Body(self.graph.body, self.graph)
        self.flow = flow_of(body, merged=False)
        self.colors = Colors(body, "order", permuted=False, symbols=None, merged=False)
        self.number = {self.flow.terms[n].node: n for n in self.flow.needed if self.flow.terms[n].node is not None}
        self.rank = self._ranks()
        self.read = _read_with_blocks(self.graph)
        self.constants = {v: n for n in self.graph.nodes() if n.op == "prim::Constant" for v in n.outputs}

    def _ranks(self) -> dict[int, bytes]:
        """The digest of each term, followed by a digest of its uses, to distinguish equal terms."""
        first = self.colors.of
        behind = dict.fromkeys(self.flow.needed, b"")
        for _ in range(_ROUNDS):
            readers: dict[int, list[bytes]] = {number: [] for number in self.flow.needed}
            for number in self.flow.needed:
                term = self.flow.terms[number]
                for place, operand in enumerate(term.operands):
                    place = 0 if place == 1 and term.exchanges else place  # which of the two comes first follows from the ranks
                    if isinstance(operand, Ref):
                        readers[operand.term].append(digest(first[number], behind[number], b"%d" % place))
            for place, operand in enumerate(self.flow.top.returns):
                if isinstance(operand, Ref):
                    readers[operand.term].append(b"r%d" % place)
            behind = {number: digest(*sorted(found)) for number, found in readers.items()}
        return {number: first[number] + behind[number] for number in self.flow.needed}

    def block(self, block: Block) -> Call:
        made: list[Node] = []
        constants: dict[tuple[object, ...], Value] = {}

        def read(value: Value) -> Value:
            """The value that stands for one; a constant is listed in front of its first user."""
            node = self.constants.get(value)
            if node is None:
                return self.env.get(value, value)
            key = _constant_key(node.attrs.get("value"), value.type)
            if key not in constants:
                output = self.drop_name(value)
                if node in self.kept:  # in a block before this one
                    output = make_value(new_id(), value.type, "")
                self.kept.add(node)
                if output is not value:
                    node = make_node(new_id(), node.op, (), (output,), node.attrs, (), node.location, node.scope)
                made.append(node)
                constants[key] = output
            return constants[key]

        before = [node for node in block.nodes if node in self.number]
        for old, node in zip(before, self.order(before), strict=True):
            if old is not node:
                self.moved.append(node)
                self.edits.append(Moved(node, "its place in the normal form"))
            inner = []
            for nested in node.blocks:
                inner += [(yield self.block(nested))]
            made.append(self.node(node, tuple(inner), read))
        returns = tuple(map(read, block.returns))
        return make_block(block.id, block.params, tuple(made), returns)

    def order(self, nodes: Sequence[Node]) -> list[Node]:
        """The topological order that the ranks define."""
        here = {value: node for node in nodes for value in node.outputs}
        waiting = TopologicalSorter[Node]()
        last: Node | None = None
        for node in nodes:
            needs = {here[value] for value in self.read.get(node, node.inputs) if value in here}
            if self.flow.terms[self.number[node]].ordered:
                needs |= {last} if last is not None else set()
                last = node
            waiting.add(node, *needs)
        waiting.prepare()
        ready: list[tuple[bytes, int, Node]] = []
        found: list[Node] = []
        while waiting.is_active():
            for node in waiting.get_ready():
                heappush(ready, (self.rank[self.number[node]], self.number[node], node))
            found.append(heappop(ready)[2])
            waiting.done(found[-1])
        return found

    def node(self, node: Node, blocks: tuple[Block, ...], read: Callable[[Value], Value]) -> Node:
        term = self.flow.terms[self.number[node]]
        inputs = list(node.inputs)
        if term.exchanges:
            first, second = [
                self.rank[operand.term] + b"%d" % operand.output if isinstance(operand, Ref) else self.colors.operand(operand)
                for operand in term.operands[:2]
            ]
            if second < first:
                inputs[:2] = inputs[1::-1]
                self.exchanged.append(node)
        operands = tuple(map(read, inputs))
        outputs = tuple(map(self.drop_name, node.outputs))
        self.kept.add(node)
        if operands == node.inputs and outputs == node.outputs and all(map(_is_same, blocks, node.blocks)):
            return node
        return make_node(node.id, node.op, operands, outputs, node.attrs, blocks, node.location, node.scope)

    def drop_name(self, value: Value) -> Value:
        if not value.name:
            return value
        made = self.env[value] = make_value(new_id(), value.type, "")
        self.edits.append(Replaced(value, made, "names do not count: it is numbered in order"))
        return made


def _constant_key(payload: object, type: Type) -> tuple[object, ...]:
    """A key that equal constants share; a constant of unknown content has its identity as key."""
    if isinstance(payload, int | float | complex | str | tuple | None):
        return (type, repr(payload))
    return (type, payload) if isinstance(payload, TensorData) and payload.array is not None else (type, id(payload))


def _read_with_blocks(graph: Graph) -> dict[Node, set[Value]]:
    """What each node with blocks reads, itself or in them, of the values outside of it; each node is visited once, however deep it is."""
    found: dict[Node, set[Value]] = {}
    for node in reversed(list(graph.nodes())):  # the nodes of its blocks are before it
        for block in node.blocks:
            made = {*block.params, *(value for inner in block.nodes for value in inner.outputs)}
            used = set(block.returns).union(*(found.get(inner, inner.inputs) for inner in block.nodes))
            found[node] = found.get(node, set(node.inputs)) | (used - made)
    return found


def _is_same(a: Block, b: Block) -> bool:
    """Whether nothing changed: the nodes are the same objects."""
    nodes = len(a.nodes) == len(b.nodes) and all(x is y for x, y in zip(a.nodes, b.nodes, strict=True))
    return nodes and a.returns == b.returns
