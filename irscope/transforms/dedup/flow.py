"""A block as what depends on what: terms, in place of a list of nodes.

A term is one node with its operands: results of other terms, or constants, which belong to the operand that they are and
not to the block. Nodes that nothing needed depends on are no terms. Two blocks with the same terms compute the same, in
whatever order they list them, because

* a node whose op is pure, or makes a view, may stand anywhere behind its operands, in a program in which no tensor is written;
* every other node is *ordered*: it takes the state that the ordered node before it left, as one operand more, and leaves
  another. In a block that writes tensors, or may, all nodes are ordered, for any of them may read what is written.
  MLIR's tensors are values, so an op of a dialect of MLIR is ordered but does not write tensors
  (`irscope.ops.functional.has_value_tensors`);
* a node with blocks is ordered if a node inside is.

Where values are moreover determined by their terms (`Body.is_free`: straight-line code on tensors and numbers in which no
two values share memory), equal terms can be taken for one. Elsewhere two nodes that compute the same make two tensors, and a
caller may tell them apart by writing one of them.

Commutative are ops for which exchanging two tensors changes no bit (additions and multiplications are; `minimum` is not,
because of signed zeros).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple, cast

from irscope._base.trampoline import Call, run
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
)  # fmt: skip
from irscope.ops.functional import functional_source, has_value_tensors
from irscope.ops.registry import effect_of, schema_of
from irscope.ops.schema import draws_random_numbers
from irscope.ops.traits import COMMUTES, DECIDES, PACKS_SEQUENCE
from irscope.ops.typing import iterator_strides, static_shape
from irscope.transforms.dedup.encoding import Role, prefixed, spell_attrs, spell_payload, spell_type
from irscope.transforms.dedup.piece import Body, inner_blocks, known_arguments

__all__ = ["Flow", "Leaf", "Operand", "Ref", "Region", "Term", "flow_of"]

STATE: Final = -1
"""The output of an ordered term that is the state after it."""


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
    """Of a parameter, or a value from outside."""
    place: int = -1
    """Of a parameter, its place; -1 for a value from outside and for the state at the beginning."""
    top: bool = False
    """Whether it is a parameter of the piece itself."""
    operands: tuple[Operand, ...] = ()
    exchanges: bool = False
    """Whether the first two operands may change places."""
    ordered: bool = False
    """Whether the last operand is the state before it."""
    regions: tuple[Region, ...] = ()


@dataclass(slots=True)
class Region:
    """A block inside."""

    block: Block
    params: tuple[int, ...]
    returns: tuple[Operand, ...]
    end: Ref | None
    """The state at the end, if a node inside is ordered."""


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
    """Whether equal terms are one."""


def _has_strides(graph: Graph) -> bool:
    """Whether it is written down how any input lies; without that nothing can be known of the rest."""
    return any(isinstance(value.type, TensorType) and value.type.strides is not None for value in graph.inputs)


def _with_strides(value: Value, graph: Graph) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Extents and strides of a tensor, as they are written or follow from what is; None where they are not known."""
    type = value.type
    if isinstance(type, TensorType) and (type.strides is None or static_shape(type) is None):
        type = shapes_of(graph).type(value)
    shape = static_shape(type) if isinstance(type, TensorType) else None
    return None if shape is None or not isinstance(type, TensorType) or type.strides is None else (shape, type.strides)


@lru_cache(maxsize=2048)
def flow_of(body: Body, *, merged: bool) -> Flow:
    """The terms of a body; `merged` takes equal ones for one where that is allowed."""
    return _Builder(body, merged and body.is_free).run()


class _Builder:
    def __init__(self, body: Body, merged: bool) -> None:
        self.flow = Flow(body, merged=merged)
        self.terms, self.of = self.flow.terms, self.flow.of
        self.known: dict[object, int] = {}
        self.constants: dict[Value, Any] = {}
        self.all_ordered = not body.graph.functional and not body.is_free and _may_write(body)
        self._list_uses: dict[Value, list[tuple[Node, int]]] | None = None

    def run(self) -> Flow:
        flow = self.flow
        flow.top = run(self.region(flow.body.block, top=True))
        flow.needed = _needed(flow)
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
        number = self.merged(term) if self.flow.merged else self.add(term)
        self.of.update({value: Ref(number, output) for output, value in enumerate(node.outputs)})
        return number

    def merged(self, term: Term) -> int:
        """The number of an equal term, or of this one."""
        node = term.node
        assert node is not None
        operands: list[object] = [
            operand if isinstance(operand, Ref) else (spell_payload(operand.payload), operand.type)
            for operand in term.operands
        ]
        if term.exchanges:
            operands[:2] = sorted(operands[:2], key=repr)
        types = tuple([spell_type(value.type, "order") for value in node.outputs])
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
        """Whether both operands are tensors and neither is scaled (`aten::add(a, b, alpha)` is a + alpha·b)."""
        tensors = len(node.inputs) >= 2 and all(isinstance(value.type, TensorType) for value in node.inputs[:2])
        return tensors and all(self.constants.get(value) == 1 for value in node.inputs[2:]) and self._lies_alike(node)

    def _lies_alike(self, node: Node) -> bool:
        """Whether the result lies the same with the operands exchanged, as far as it is known how they lie: elementwise ops order
        the dimensions of a result as the first operand has them, before the second."""
        graph, (first, second) = self.flow.body.graph, node.inputs[:2]
        if first.type == second.type or not _has_strides(graph):
            return True
        known = [_with_strides(value, graph) for value in (first, second, node.outputs[0])]
        if None in known:
            return True
        (a, b, (shape, _)) = cast("list[tuple[tuple[int, ...], tuple[int, ...]]]", known)
        if any(len(sizes) > len(shape) for sizes, _ in (a, b)):  # a type that a text declares and no run gives: nothing is known
            return False
        return iterator_strides(shape, [a, b]) == iterator_strides(shape, [b, a])

    def is_ordered(self, node: Node) -> bool:
        """Whether a node does something that others may notice, apart from what is in its blocks."""
        if node.blocks or inner_blocks(node):
            return not _only_runs_blocks(node)
        known = known_arguments(node, self.constants)
        return effect_of(node, known) not in ("pure", "view") or draws_random_numbers(node.op, known)

    # -- what a constant is to its reader

    def role(self, payload: Any, user: Node | None, place: int) -> Role:
        if user is None:
            return "data" if isinstance(payload, float | TensorData) else "structure"
        if user.op in PACKS_SEQUENCE:
            roles = {_role_at(node, index, payload) for node, index in self.list_uses.get(user.output, ())}
            return roles.pop() if len(roles) == 1 else "structure"
        return _role_at(user, place, payload)

    @property
    def list_uses(self) -> dict[Value, list[tuple[Node, int]]]:
        """The readers of each list that the body packs; the results of a block are none."""
        if self._list_uses is None:
            packed = {n.output for n in _all_nodes(self.flow.body.block) if n.op in PACKS_SEQUENCE}
            self._list_uses = {value: [] for value in packed}
            for node in _all_nodes(self.flow.body.block):
                for index, value in enumerate(node.inputs):
                    if value in packed:
                        self._list_uses[value].append((node, index))
        return self._list_uses


def _role_at(node: Node, place: int, payload: Any) -> Role:
    """What a constant is to an op, by the op's schema; see `irscope.transforms.dedup.steps`."""
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
    """Whether a node with blocks does nothing but what its blocks do."""
    if node.op in CONTROL_FLOW or node.op in GROUPS or functional_source(node.op):
        return True
    values = (*node.inputs, *node.outputs)
    return node.op.startswith("linalg::") and all(isinstance(value.type, TensorType) for value in values)


def _may_write(body: Body) -> bool:
    """Whether a node of the body may write a tensor."""
    constants = body.constants
    for node in _all_nodes(body.block):
        if node.op == "prim::Constant" or has_value_tensors(node.op) or _runs_blocks(node):
            continue
        if effect_of(node, known_arguments(node, constants)) not in ("pure", "view"):
            return True
    return False


def _runs_blocks(node: Node) -> bool:
    return bool(node.blocks) and _only_runs_blocks(node)


def _all_nodes(block: Block) -> Iterator[Node]:
    stack = [iter(block.nodes)]
    while stack:
        for node in stack[-1]:
            yield node
            inner = inner_blocks(node)
            if inner:
                stack.extend(iter(nested.nodes) for nested in reversed(inner))
                break
        else:
            stack.pop()


def _needed(flow: Flow) -> list[int]:
    """The terms that are needed, in order."""
    found: set[int] = set()
    todo = [flow.top]
    pending: list[int] = []
    while todo or pending:
        if todo:
            region = todo.pop()
            ends = () if region.end is None else (region.end,)
            pending.extend(o.term for o in (*region.returns, *ends) if isinstance(o, Ref))
            continue
        number = pending.pop()
        if number in found:
            continue
        found.add(number)
        term = flow.terms[number]
        pending.extend(operand.term for operand in term.operands if isinstance(operand, Ref))
        todo.extend(term.regions)
    return sorted(found)


def types_of(term: Term) -> Sequence[Type]:
    """The types of what a term gives: a node's results, or the value itself."""
    if term.node is not None:
        return [value.type for value in term.node.outputs]
    return [] if term.value is None else [term.value.type]


def head_of(term: Term, types: Mapping[Type, bytes], attrs: bytes) -> bytes:
    """What a term is by itself, apart from its operands."""
    assert term.node is not None
    spelled = b"".join([types[value.type] for value in term.node.outputs])
    flags = b"%d:%d:%d:%d:" % (len(term.operands), len(term.node.outputs), term.ordered, len(term.regions))
    return prefixed(term.node.op) + attrs + flags + spelled
