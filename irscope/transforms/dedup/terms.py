"""Represents a block by its data flow: terms, instead of a list of nodes.

A term is one node with its operands: results of other terms, or constants, which belong to the operand and not to the block.
Nodes that no needed node depends on are left out of the form. Two blocks with the same terms compute the same, in whatever order
they list them, because

* a node whose op is pure, or a view, may be anywhere behind its operands, in a program in which no tensor is written;
* every other node is *ordered*: it takes the state that the previous ordered node left as an additional operand, and leaves
  another. In a block that writes tensors, or may, all nodes are ordered, as any of them may read the written memory.
  MLIR's tensors are values, so an op of an MLIR dialect is ordered but does not write tensors
  (`irscope.ops.registry.has_value_tensors`);
* a node with blocks is ordered if a node inside is.

Where, in addition, values are determined by their terms (`Body.is_free`: straight-line code on tensors and numbers in which no
two values share memory), equal terms can be merged. Elsewhere two nodes that compute the same produce two tensors, which a
caller may distinguish by writing one of them.

An op is commutative if exchanging two tensors changes no bit (additions and multiplications are; `minimum` is not, because of
signed zeros).
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple, cast

from irscope._base.nested import Call, run
from irscope.analysis.per_graph import shapes_of
from irscope.ir import (
    COMPLEX,
    CONTROL_FLOW,
    FLOAT,
    GROUPS,
    INT,
    NUMBER,
    Block,
    Graph,
    ListType,
    Node,
    OptionalType,
    TensorData,
    TensorType,
    Type,
    Value,
    constant_value,
)
from irscope.ir.structural import inner_blocks
from irscope.ops.op import draws_random_numbers
from irscope.ops.registry import effect_of, functional_source, has_value_tensors, schema_of
from irscope.ops.traits import COMMUTES, DECIDES, PACKS_SEQUENCE
from irscope.ops.type_rules import iterator_strides, static_shape
from irscope.transforms.dedup.encoding import Role, spell_attrs, spell_payload, split_type
from irscope.transforms.dedup.piece import Body, all_nodes, kept_in, known_arguments

STATE: Final = -1
"""The output number of an ordered term for the state after it."""


class Leaf(NamedTuple):
    """A constant operand."""

    payload: Any
    type: Type
    role: Role


class Ref(NamedTuple):
    """A result of a term, or the state after it."""

    term: int
    output: int


Operand = Leaf | Ref


@dataclass(slots=True)
class Term:
    """One node, a parameter, a value from outside, or the state at the beginning of a block."""

    node: Node | None
    value: Value | None = None
    """The value of a parameter, or the value from outside."""
    place: int = -1
    """The place of a parameter; -1 for a value from outside and for the state at the beginning."""
    top: bool = False
    """Whether it is a parameter of the piece itself."""
    operands: tuple[Operand, ...] = ()
    exchanges: bool = False
    """Whether the first two operands may be exchanged."""
    ordered: bool = False
    """Whether the last operand is the state before it."""
    regions: "tuple[Region, ...]" = ()


@dataclass(slots=True)
class Region:
    """A block as a region of terms: the body's own block, or one inside a node."""

    block: Block
    params: tuple[int, ...]
    returns: tuple[Operand, ...]
    end: Ref | None
    """The state at the end, if a node in the block is ordered."""


@dataclass(eq=False)
class Flow:
    """The terms of a body, each behind its operands."""

    body: Body
    terms: list[Term] = field(default_factory=list)
    top: Region = None  # type: ignore[assignment]  # set by `flow_of`
    needed: list[int] = field(default_factory=list)
    """The terms on which a result or the state at the end depends, in order."""
    of: dict[Value, Operand] = field(default_factory=dict)
    merged: bool = False
    """Whether equal terms are merged."""


def _with_strides(value: Value, graph: Graph) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The declared or inferred extents and strides of a tensor; None where they are unknown."""
    type = value.type
    if isinstance(type, TensorType) and (type.strides is None or static_shape(type) is None):
        type = shapes_of(graph).type(value)
    shape = static_shape(type)
    return None if shape is None or not isinstance(type, TensorType) or type.strides is None else (shape, type.strides)


@kept_in(2048)
def flow_of(body: Body, *, merged: bool) -> Flow:
    """Returns the terms of a body; `merged` merges equal ones where that is allowed."""
    return _Builder(body, merged and body.is_free).run()


class _Builder:
    def __init__(self, body: Body, merged: bool) -> None:
        self.flow = Flow(body, merged=merged)
        self.terms, self.of = self.flow.terms, self.flow.of
        self.known: dict[object, int] = {}
        self.constants: dict[Value, Any] = {}
        self.all_ordered = not body.graph.functional and not body.is_free and _may_write(body)

    def run(self) -> Flow:
        flow = self.flow
        flow.top = run(self.region(flow.body.block, top=True))
        flow.needed = _needed_terms(flow)
        return flow

    def region(self, block: Block, *, top: bool) -> Call:
        params = []
        for place, value in enumerate(block.params):
            params.append(self.add(Term(None, value, place, top)))
            self.of[value] = Ref(params[-1], 0)
        state: Ref | None = None
        for node in block.nodes:
            if node.op == "prim::Constant":
                self.constants[node.output] = constant_value(node)
                continue
            regions: list[Region] = []
            for inner in inner_blocks(node):
                regions += [(yield self.region(inner, top=False))]
            ordered = self.all_ordered or any(region.end for region in regions) or self.is_ordered(node)
            if ordered and state is None:
                state = Ref(self.add(Term(None)), STATE)
            number = self.node(node, tuple(regions), state if ordered else None)
            if ordered:
                state = Ref(number, STATE)
        returns = tuple([self.operand(value, None, place) for place, value in enumerate(block.returns)])
        return Region(block, tuple(params), returns, state)

    def add(self, term: Term) -> int:
        self.terms.append(term)
        return len(self.terms) - 1

    def node(self, node: Node, regions: tuple[Region, ...], state: Ref | None) -> int:
        operands: list[Operand] = [self.operand(value, node, place) for place, value in enumerate(node.inputs)]
        if state is not None:
            operands.append(state)
        exchanges = node.op in COMMUTES and self.may_exchange(node)
        term = Term(node, operands=tuple(operands), exchanges=exchanges, ordered=state is not None, regions=regions)
        number = self.find_or_add(term) if self.flow.merged else self.add(term)
        self.of.update({value: Ref(number, output) for output, value in enumerate(node.outputs)})
        return number

    def find_or_add(self, term: Term) -> int:
        """The number of an equal term, or of this one if it is new."""
        node = term.node
        assert node is not None
        operands: list[object] = [
            operand if isinstance(operand, Ref) else (spell_payload(operand.payload), operand.type) for operand in term.operands
        ]
        if term.exchanges:
            operands[:2] = sorted(operands[:2], key=repr)
        types = tuple([split_type(value.type, "order")[0] for value in node.outputs])
        key = (node.op, spell_attrs(node.attrs), types, tuple(operands))
        if key not in self.known:
            self.known[key] = self.add(term)
        return self.known[key]

    def operand(self, value: Value, user: Node | None, place: int) -> Operand:
        if value in self.constants:
            payload = self.constants[value]
            return Leaf(payload, value.type, self.role(payload, user, place))
        found = self.of.get(value)
        if found is None:
            found = self.of[value] = Ref(self.add(Term(None, value)), 0)
        return found

    def may_exchange(self, node: Node) -> bool:
        """Whether both operands are tensors, neither is scaled (`aten::add(a, b, alpha)` is a + alpha·b), and the result has the same
        layout with the operands exchanged, as far as layouts are known: elementwise ops order the dimensions of a result by the strides
        of the first operand, then of the second."""
        tensors = len(node.inputs) >= 2 and all(isinstance(value.type, TensorType) for value in node.inputs[:2])
        if not tensors or not all(self.constants.get(value) == 1 for value in node.inputs[2:]):
            return False
        graph, (first, second) = self.flow.body.graph, node.inputs[:2]
        if first.type == second.type or all(getattr(value.type, "strides", None) is None for value in graph.inputs):
            return True  # of one type, or no strides are declared from which others could be inferred
        known = [_with_strides(value, graph) for value in (first, second, node.outputs[0])]
        if None in known:
            return True
        (a, b, (shape, _)) = cast("list[tuple[tuple[int, ...], tuple[int, ...]]]", known)
        if any(len(sizes) > len(shape) for sizes, _ in (a, b)):  # a declared type that no run has: nothing is known
            return False
        return iterator_strides(shape, [a, b]) == iterator_strides(shape, [b, a])

    def is_ordered(self, node: Node) -> bool:
        """Whether a node has an effect, apart from those of the nodes in its blocks."""
        if node.blocks or inner_blocks(node):
            return not _only_runs_blocks(node)
        known = known_arguments(node, self.constants)
        return effect_of(node, known) not in ("pure", "view") or draws_random_numbers(node.op, known)

    # -- the role of a constant for its user

    def role(self, payload: Any, user: Node | None, place: int) -> Role:
        if user is None:
            return "data" if isinstance(payload, float | TensorData) else "structure"
        if user.op in PACKS_SEQUENCE:
            roles = {_role_at(node, index, payload) for node, index in self.list_uses.get(user.output, ())}
            return roles.pop() if len(roles) == 1 else "structure"
        return _role_at(user, place, payload)

    @cached_property
    def list_uses(self) -> dict[Value, list[tuple[Node, int]]]:
        """The users of each list that the body packs, not counting the results of blocks."""
        found: dict[Value, list[tuple[Node, int]]] = {n.output: [] for n in all_nodes(self.flow.body.block) if n.op in PACKS_SEQUENCE}
        for node in all_nodes(self.flow.body.block):
            for index, value in enumerate(node.inputs):
                if value in found:
                    found[value].append((node, index))
        return found


def _role_at(node: Node, place: int, payload: Any) -> Role:
    """Returns the role of a constant for an op, by the op's schema; see `irscope.transforms.dedup.piece`."""
    schema = schema_of(node)
    if schema is None:
        is_data = isinstance(payload, TensorData) or (has_value_tensors(node.op) and isinstance(payload, int | float))
        return "data" if is_data and not isinstance(payload, bool) else "structure"
    if place >= len(schema.arguments):
        return "structure"
    argument = schema.arguments[place]
    type = argument.type
    while isinstance(type, OptionalType | ListType):
        type = type.element
    if argument.word == "SymInt":
        return "size"
    if argument.name in DECIDES.get(node.op, ()):
        return "structure"
    if type == INT and argument.name == "dtype":
        return "dtype"
    return "data" if isinstance(type, TensorType) or type in (FLOAT, NUMBER, COMPLEX) else "structure"


def _only_runs_blocks(node: Node) -> bool:
    """Whether a node with blocks only runs its blocks, without an effect of its own."""
    if node.op in CONTROL_FLOW or node.op in GROUPS or functional_source(node.op):
        return True
    values = (*node.inputs, *node.outputs)
    return node.op.startswith("linalg::") and all(isinstance(value.type, TensorType) for value in values)


def _may_write(body: Body) -> bool:
    constants = body.constants
    for node in all_nodes(body.block):
        if node.op == "prim::Constant" or has_value_tensors(node.op) or (node.blocks and _only_runs_blocks(node)):
            continue
        if effect_of(node, known_arguments(node, constants)) not in ("pure", "view"):
            return True
    return False


def _needed_terms(flow: Flow) -> list[int]:
    """The terms that a result or the state at the end depends on, in order."""
    found: set[int] = set()
    pending: list[Operand | None] = [*flow.top.returns, flow.top.end]
    while pending:
        operand = pending.pop()
        if isinstance(operand, Ref) and operand.term not in found:
            found.add(operand.term)
            term = flow.terms[operand.term]
            pending += term.operands
            for region in term.regions:
                pending += (*region.returns, region.end)
    return sorted(found)
