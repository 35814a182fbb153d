"""Infers facts about every value before the program runs: element types, shapes, strides, devices, and numbers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import is_
from typing import Any, Final

from irscope._base.nested import Call, run
from irscope.analysis.shapes.lattice import BOTTOM, Fact, KnownList, join, payload_of, settled
from irscope.analysis.shapes.transfer import NO_LISTS, AbstractNodes, NodeSignature, stands_for_its_block
from irscope.ir import (
    NOT_CONSTANT,
    Block,
    Graph,
    Node,
    OptionalType,
    TensorType,
    Type,
    Value,
    argument_type,
    make_block,
    make_node,
    make_value,
)
from irscope.ops.type_rules import Unknown

# An abstract interpreter: one run of a program over facts about its values instead of the values.
#
# It is sound for these reasons:
#
# * **Branches.** If the condition is known, one branch runs. Otherwise both run, and the results are joined. A branch that
#   always raises contributes nothing to the join.
# * **Loops.** While trip count and condition are known, the body runs as often as it would. Otherwise the carried facts are
#   joined with the initial ones until a fixpoint; after three rounds only types are kept.
# * **Lists** are followed as objects: `append` changes the one `KnownList` that every name of the list holds. If a
#   write is not certain to happen (an unknown branch or loop), or the written list is not known, every list of
#   that type is forgotten, before and after. TorchScript's lists are invariant: a list of another type is another list.
# * **Tensors** keep type and shape under in-place ops. The few ops that change them (`resize_`, `t_`, `out=`) make every
#   value that may be the same tensor object unknown from the start.
# * **A value visited again** in a later round of a loop gets the join of all its facts; the join is reported.
#
# The work is bounded by a few visits per node: when the budget is spent, loops are no longer unrolled or refined.
#
# The effect of one node is in `irscope.analysis.shapes.transfer`.

_UNROLL: Final = 1024
"""The longest loop that is unrolled."""

_ROUNDS: Final = 3
"""How often a loop's carried facts are joined before only types are kept."""


class AbstractRun(AbstractNodes):
    """One run of a program, with its branches and loops: the current facts, and their join over all visits."""

    def start(self, input_types: Mapping[Value, Type]) -> None:
        for value in self.graph.inputs:
            if value not in self.facts:
                self._set(value, self._input_fact(value, input_types))
        run(self._block(self.graph.body))

    def starts_from_its_types(self) -> bool:
        """Whether the facts about the inputs are those that a run starts with if it gets only their declared types."""
        facts = self.facts
        return all(facts[v] == settled(self._input_fact(v, {}), v.type) for v in self.graph.free_inputs)

    def _input_fact(self, value: Value, input_types: Mapping[Value, Type]) -> Fact:
        bound = self.graph.bound.get(value)
        type = input_types.get(value)
        if type is None and bound is not None:
            type = argument_type(bound)
        if isinstance(type, TensorType):
            return type
        return bound if isinstance(bound, bool | int | float | str) else Unknown(value.type)

    def _block(self, block: Block) -> Call:
        """Run a block; returns whether it always raises."""
        self.reached.add(block)
        self._budget -= len(block.nodes)
        for node in block.nodes:
            if node.blocks:
                run_node = self._if if node.op == "prim::If" else self._loop if node.op == "prim::Loop" else self._group
                raises = yield run_node(node)
                if raises:
                    return True
            elif node.op == "prim::RaiseException":
                return True
            else:
                self._node(node)
        return False

    def _group(self, node: Node) -> Call:
        """Run a fusion group or another node with blocks; those not understood make its results unknown."""
        if stands_for_its_block(node):
            block = node.blocks[0]
            for param, value in zip(block.params, node.inputs, strict=True):
                self._set(param, self._get(value))
            raises = yield self._block(block)
            for output, value in zip(node.outputs, block.returns, strict=True):
                self._set(output, self._get(value))
            return raises
        for block in node.blocks:
            self._enter(node)
            for param in block.params:
                self._set(param, Unknown(param.type))
            yield self._uncertain(block)
        self.lists.forget(None)
        self._give_up(node)
        return False

    def _if(self, node: Node) -> Call:
        condition = self._get(node.inputs[0])
        if isinstance(condition, bool):
            taken, other = node.blocks if condition else node.blocks[::-1]
            self.unreached.add(other)
            raises = yield self._block(taken)
            return self._leave(node, [self._get_raw(value) for value in taken.returns], raises)
        sure = [any(inner.op == "prim::RaiseException" for inner in block.nodes) for block in node.blocks]
        if sure[0] != sure[1]:  # after this node, the branch that does not raise has run
            raising, other = node.blocks if sure[0] else node.blocks[::-1]
            self._enter(node)
            yield self._uncertain(raising)
            raises = yield self._block(other)
            return self._leave(node, [self._get_raw(value) for value in other.returns], raises)
        self._enter(node)
        results: list[Fact] = [BOTTOM] * len(node.outputs)
        all_raise = True
        for block in node.blocks:
            raises = yield self._uncertain(block)
            all_raise = all_raise and raises
            if not raises:
                found = [self._get_raw(value) for value in block.returns]
                results = [join(a, b, output.type) for a, b, output in zip(results, found, node.outputs, strict=True)]
            self._enter(node)
        return self._leave(node, results, all_raise)

    def _uncertain(self, block: Block) -> Call:
        before, self._certain = self._certain, False
        raises = yield self._block(block)
        self._certain = before
        return raises

    def _enter(self, node: Node) -> None:
        """Forget the lists that a node's blocks write; called before and after blocks that may or may not run."""
        written = self._writes.get(node, NO_LISTS)
        if written is None or written:
            self.lists.forget(written)

    def _leave(self, node: Node, results: Sequence[Fact], raises: bool) -> bool:
        if not raises:
            for output, fact in zip(node.outputs, results, strict=True):
                self._set(output, fact)
        return raises

    def _loop(self, node: Node) -> Call:
        """Run a `prim::Loop(limit, condition, *carried)`, whose block maps `(i, *carried)` to `(condition, *carried)`."""
        (block,) = node.blocks
        limit, condition = self._get(node.inputs[0]), self._get(node.inputs[1])
        carried = [self._get_raw(value) for value in node.inputs[2:]]
        trip = 0
        while condition is True and isinstance(limit, int) and trip < limit and self._may_unroll(block, trip, limit):
            self._begin_round(block, trip, carried)
            raises = yield self._block(block)
            if raises:
                return True
            condition = self._get(block.returns[0])
            carried = [self._get_raw(value) for value in block.returns[1:]]
            trip += 1
        if (isinstance(limit, int) and trip >= limit) or condition is False:
            if trip == 0:
                self.unreached.add(block)
            return self._leave(node, carried, False)
        self._enter(node)
        yield self._fixpoint(node, block, trip, carried)
        self._enter(node)
        return False

    def _may_unroll(self, block: Block, trip: int, limit: int) -> bool:
        return trip < _UNROLL and (trip > 0 or min(limit, _UNROLL) * (len(block.nodes) + 1) <= self._budget) and self._budget > 0

    def _begin_round(self, block: Block, trip: Fact, carried: Sequence[Fact]) -> None:
        self._set(block.params[0], trip)
        for param, fact in zip(block.params[1:], carried, strict=True):
            if fact is BOTTOM:
                self._now[param] = BOTTOM
            else:
                self._set(param, fact)

    def _fixpoint(self, node: Node, block: Block, trip: int, carried: list[Fact]) -> Call:
        """Join the carried facts until a fixpoint: they then hold after any number of further rounds, including none."""
        trip_fact = Unknown(block.params[0].type)
        rounds = _ROUNDS if self._budget > 0 else 0
        while True:
            if rounds == 0:
                types = [(isinstance(fact, TensorType), param.type) for fact, param in zip(carried, block.params[1:], strict=True)]
                carried = [type if is_tensor and isinstance(type, TensorType) else Unknown(type) for is_tensor, type in types]
            self._begin_round(block, trip_fact, carried)
            raises = yield self._uncertain(block)
            if raises or rounds == 0:
                break
            found = [self._get_raw(value) for value in block.returns[1:]]
            joined = [join(a, b, p.type) for a, b, p in zip(carried, found, block.params[1:], strict=True)]
            if all(map(_is_same_fact, joined, carried)):
                break
            carried = joined
            rounds -= 1
            self._enter(node)
        self._leave(node, carried, False)
        return False


def _is_same_fact(a: Fact, b: Fact) -> bool:
    return a is b or (type(a) is type(b) and not isinstance(a, KnownList) and repr(a) == repr(b))


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

    def is_made(self, value: Value) -> bool:
        """Whether a run makes a result of a node: not a gradient that the mask of its op leaves out, which is None."""
        node = self.graph.producer.get(value)
        if node is None or not node.op.endswith("_backward") or len(node.outputs) == 1 or not node.inputs:
            return True
        mask = self.known(node.inputs[-1])
        return not (isinstance(mask, tuple) and len(mask) == len(node.outputs) and mask[node.outputs.index(value)] is False)

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


def infer(graph: Graph, input_types: Mapping[Value, Type] | None = None, *, strict: bool = False) -> Shapes:
    """Infer everything that follows from the types of the inputs, by default their declared or bound types.

    With `strict` a shape error that occurs in every such run raises ArgumentError; without it the result is unknown.
    Never raises otherwise: anything that cannot be inferred is unknown, with a reason.
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


def retyped(graph: Graph, types: Mapping[Value, Type]) -> Graph:
    """The graph with these types written in; ids, names, locations and bound values stay."""
    return _retyped(graph, lambda value: types.get(value, value.type))[0]


def refined(graph: Graph, shapes: Shapes) -> tuple[Graph, Shapes | None]:
    """The graph with the inferred types written into its tensors, as `retyped`, and with its facts; None if these do not follow from its
    types, as for an input that may be None and was not.
    """
    after, values, nodes, blocks = _retyped(graph, shapes.type)
    if after is graph:
        return graph, shapes
    run = shapes._run.renewed(after, values, nodes, blocks)
    if not run.starts_from_its_types():
        return after, None
    unreached = frozenset(blocks.get(block, block) for block in shapes.unreached)
    return after, Shapes(after, unreached, run.facts, run)


def _retyped(graph: Graph, type_of: Callable[[Value], Type]) -> tuple[Graph, dict[Value, Value], dict[Node, Node], dict[Block, Block]]:
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


def _renewed_block(block: Block, values: Mapping[Value, Value], nodes: dict[Node, Node], blocks: Mapping[Block, Block]) -> Block:
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
