"""Infers facts about every value before the program runs: element types, shapes, strides, devices, and numbers.

One abstract run of the program (`irscope.analysis.shapes.abstract_interpreter`) over the ops' type rules computes the facts; this
module has the queries, and writes the facts into a graph's types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from operator import is_
from typing import Any

from irscope.analysis.shapes.abstract_interpreter import AbstractRun, NodeSignature
from irscope.analysis.shapes.lattice import Fact, payload_of
from irscope.ir import (
    NOT_CONSTANT,
    Block,
    Graph,
    Node,
    OptionalType,
    TensorType,
    Type,
    Value,
    make_block,
    make_node,
    make_value,
)
from irscope.ops.typing import Unknown

__all__ = ["NodeSignature", "Shapes", "infer", "infer_after", "refine", "refined", "retyped"]


@dataclass(frozen=True, eq=False)
class Shapes:
    """The facts about one graph. They hold in every run with arguments of the given types."""

    graph: Graph
    unreached: frozenset[Block]
    """Branches that never run, because their condition is known; only the declared types of their values are known."""
    _facts: Mapping[Value, Fact] = field(repr=False)
    _run: AbstractRun = field(repr=False)

    def type(self, value: Value | str) -> Type:
        """The value's type, refined as far as is known; the contents of containers are not refined."""
        value = self.graph.value(value) if isinstance(value, str) else value
        fact = self._facts.get(value)
        if not isinstance(fact, TensorType):
            return value.type
        if isinstance(value.type, OptionalType):
            return OptionalType(fact) if isinstance(value.type.element, TensorType) else value.type
        return fact if isinstance(value.type, TensorType) else value.type

    def known(self, value: Value | str) -> Any:
        """The constant that a number, string, None, or list or tuple of these always is, lists as tuples; or `NOT_CONSTANT`."""
        value = self.graph.value(value) if isinstance(value, str) else value
        fact = self._facts.get(value, NOT_CONSTANT)
        return fact if fact is NOT_CONSTANT else payload_of(fact, self._run.lists.is_current)

    @property
    def reshaped(self) -> frozenset[Value]:
        """The values whose shape and strides may differ from those their producer gave them (`reshaped_objects`)."""
        return self._run.reshaped

    @property
    def written_lists(self) -> frozenset[Type] | None:
        """The types of list that some node may write; None: any. A list of another type never changes."""
        return self._run.written

    def form(self, node: Node) -> NodeSignature | None:
        """A key shared by all nodes with the same op, operand types, known operands and result types; None if the facts
        depend on more. A query that depends on nothing else needs to run only once per form."""
        return self._run.form_of.get(node)

    @property
    def unknown(self) -> tuple[tuple[Value, str], ...]:
        """The tensors without a full type, and other values unknown for a recorded reason, in textual order."""
        found: dict[Value, str] = {}
        for value in self.graph.values():
            fact = self._facts.get(value)
            if isinstance(fact, TensorType) and not fact.is_static:
                found[value] = self._run.reasons.get(value) or self._follows_from(value, found)
            elif isinstance(fact, Unknown) and (fact.because or value in self._run.reasons):
                found[value] = fact.because or self._run.reasons[value]
        return tuple(found.items())

    def _follows_from(self, value: Value, unknown: Mapping[Value, str]) -> str:
        producer = self.graph.producer.get(value)
        if producer is None:
            return "its declared type is incomplete"
        source = next((operand for operand in producer.inputs if operand in unknown), None)
        return (
            "it differs between runs"
            if producer.blocks
            else f"%{self.graph.names[source]} is not known"
            if source
            else f"{producer.op} does not determine it"
        )


def infer(graph: Graph, input_types: Mapping[Value, Type] | None = None, *, strict: bool = False) -> Shapes:
    """Infer everything that follows from the types of the inputs, by default their declared or bound types.

    With `strict` a shape error that occurs in every such run raises ArgumentError; without it the result is unknown.
    Never raises otherwise: anything that cannot be inferred is unknown, with a reason.

    >>> import irscope as irs
    >>> g = irs.parse('''graph(%x : Float(2, 3, strides=[3, 1])):
    ...   %n : int = prim::Constant[value=1]()
    ...   %y : Tensor = aten::unsqueeze(%x, %n)
    ...   %r : int = aten::dim(%y)
    ...   return (%y, %r)''')
    >>> shapes = infer(g)
    >>> str(shapes.type("y")), shapes.known("r")
    ('Float(2, 1, 3, strides=[3, 3, 1])', 3)
    """
    return _ran(AbstractRun(graph, strict=strict), input_types or {})


def infer_after(before: Shapes, graph: Graph) -> Shapes:
    """`infer(graph)` for a graph derived from another one, with less work for nodes that did not change."""
    run = AbstractRun(graph, strict=False)
    run.take_over(before._run, before.graph)
    return _ran(run, {})


def _ran(run: AbstractRun, input_types: Mapping[Value, Type]) -> Shapes:
    run.start(input_types)
    return Shapes(run.graph, frozenset(run.unreached - run.reached), run.facts, run)


def refine(graph: Graph, shapes: Shapes) -> Graph:
    """The graph with the inferred types written into its tensors; ids, names, locations and bound values stay.

    >>> import irscope as irs
    >>> g = irs.parse("graph(%x : Float(2, 3)):\\n  %y : Tensor = aten::relu(%x)\\n  return (%y)")
    >>> print(refine(g, infer(g)))
    graph(%x : Float(2, 3)):
      %y : Float(2, 3) = aten::relu(%x)
      return (%y)
    """
    return _retyped(graph, shapes.type)[0]


def retyped(graph: Graph, types: Mapping[Value, Type]) -> Graph:
    """The graph with these types written in; ids, names, locations and bound values stay.

    >>> import irscope as irs
    >>> g = irs.parse("graph(%x : Float(2, 3)):\\n  return (%x)")
    >>> print(retyped(g, {g.value("x"): TensorType("float32", (2, None))}))
    graph(%x : Float(2, *)):
      return (%x)
    """
    return _retyped(graph, lambda value: types.get(value, value.type))[0]


def refined(graph: Graph, shapes: Shapes) -> tuple[Graph, Shapes | None]:
    """The refined graph with its facts; None if these do not follow from its types, as for an input that may be None
    and was not."""
    after, values, nodes, blocks = _retyped(graph, shapes.type)
    if after is graph:
        return graph, shapes
    run = shapes._run.renewed(after, values, nodes, blocks)
    if not run.starts_from_its_types():
        return after, None
    unreached = frozenset(blocks.get(block, block) for block in shapes.unreached)
    return after, Shapes(after, unreached, run.facts, run)


def _retyped(
    graph: Graph, type_of: Callable[[Value], Type]
) -> tuple[Graph, dict[Value, Value], dict[Node, Node], dict[Block, Block]]:
    """The graph with these types, and maps from the old values, nodes and blocks to the new ones."""
    values: dict[Value, Value] = {}
    for value in graph.values():
        type = type_of(value)
        if type != value.type:
            values[value] = make_value(value.id, type, value.name)
    nodes: dict[Node, Node] = {}
    blocks: dict[Block, Block] = {}
    if not values:
        return graph, values, nodes, blocks
    for block in reversed(list(graph.blocks())):
        blocks[block] = _renewed_block(block, values, nodes, blocks)
    bound = {values.get(value, value): tensor for value, tensor in graph.bound.items()}
    storages = {values.get(value, value): number for value, number in graph.storages.items()}
    return replace(graph, body=blocks[graph.body], bound=bound, storages=storages), values, nodes, blocks


def _renewed_block(
    block: Block, values: Mapping[Value, Value], nodes: dict[Node, Node], blocks: Mapping[Block, Block]
) -> Block:
    """The block over the new values; unchanged blocks and nodes are returned as they are."""

    def new(old: tuple[Value, ...]) -> tuple[Value, ...]:
        return old if values.keys().isdisjoint(old) else tuple(values.get(value, value) for value in old)

    for node in block.nodes:
        inputs, outputs = new(node.inputs), new(node.outputs)
        inner = tuple(blocks[block] for block in node.blocks)
        if inputs is not node.inputs or outputs is not node.outputs or not all(map(is_, inner, node.blocks)):
            nodes[node] = make_node(
                node.id, node.op, inputs, outputs, node.attrs, inner, node.location, node.scope
            )  # fmt: skip
    params, returns = new(block.params), new(block.returns)
    if params is block.params and returns is block.returns and nodes.keys().isdisjoint(block.nodes):
        return block
    return make_block(block.id, params, tuple(nodes.get(node, node) for node in block.nodes), returns)
