"""What each node adds to a points-to graph: one walk over a program, in textual order, with an explicit stack.

Ordinary ops follow their signature (`irscope.analysis.effects`); constructors, control flow and a few `prim` ops have
a rule here. An op that no rule and no schema covers gives all it has to unseen code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from irscope.analysis.alias.points_to import PointsTo, PointsToBuilder, Write
from irscope.analysis.alias.structure import TENSOR
from irscope.analysis.effects import OBJECT, MemorySignature, Signatures, Source, fits, is_type_variable
from irscope.ir.core import Block, Graph, Node, Value
from irscope.ir.payload import constant_of
from irscope.ir.types import ANY, ClassType, DictType, ListType, OptionalType, TensorType, TupleType
from irscope.ops.registry import overloads, schema_of

__all__ = ["GROUPS", "build", "written_statistics"]

GROUPS: Final = frozenset(
    f"prim::{name}"
    for name in """
    FusionGroup CudaFusionGroup oneDNNFusionGroup FunctionalGraph DifferentiableGraph FallbackGraph TensorExprGroup
    TensorExprDynamicGroup MKLDNNGroup StaticSubgraph FusedConcat""".split()
)
"""Nodes whose block is the program that they run, its parameters the node's inputs one to one."""

_STATISTICS: Final[Mapping[str, tuple[int, int, int]]] = {
    "aten::batch_norm": (3, 4, 5),
    "aten::instance_norm": (3, 4, 5),
    "aten::native_batch_norm": (3, 4, 5),
    "aten::cudnn_batch_norm": (3, 4, 5),
    "aten::miopen_batch_norm": (3, 4, 5),
    "aten::_batch_norm_impl_index": (3, 4, 5),
}
"""Positions of the running mean, the running variance, and the flag without which they are left alone."""

_PASS_ON: Final = frozenset(
    f"prim::{name}" for name in "unchecked_cast profile profile_ivalue Guard ConstantChunk".split()
)
_PAIRWISE: Final = frozenset(f"prim::{name}" for name in "TypeCheck RequiresGradCheck BroadcastMKLDNNTensors".split())
_REBINDING: Final = frozenset({"aten::set_", "aten::set_data"})
"""Ops that exchange a tensor's storage."""

_FRESH: Final = frozenset(
    f"prim::{name}"
    for name in """
    Constant Uninitialized CreateObject AutogradZero MMTreeReduce MMBatchSide BroadcastSizes ChunkSizes
    ReductionSizes EmptyListLiteral tolist isinstance EnumName EnumValue NumToTensor device dtype
    TensorExprDynamicGuard AutogradAnyNonZero AutogradAllNonZero AutogradAllZero StringIndex VarConcat VarStack Print""".split()
)


def _nothing(walk: _Walk, node: Node) -> None:
    """The plan of nodes that share nothing and write nothing."""


_NOTHING: Final = _nothing


def build(graph: Graph, *, distinct_inputs: bool = False) -> PointsTo:
    """The points-to graph of a program; with `distinct_inputs`, inputs are promised to share no memory."""
    return _Walk(graph, distinct_inputs).run()


def written_statistics(graph: Graph, node: Node) -> tuple[Value, ...]:
    """The running statistics that a normalisation updates: none if its training flag is known to be off."""
    positions = _STATISTICS.get(node.op)
    if positions is None or len(node.inputs) <= positions[2] or constant_of(graph, node.inputs[positions[2]]) is False:
        return ()
    return node.inputs[positions[0]], node.inputs[positions[1]]


class _Walk:
    """The walk over one graph."""

    def __init__(self, graph: Graph, distinct_inputs: bool) -> None:
        self.graph = graph
        self.builder = PointsToBuilder()
        self.signatures = Signatures()
        for value in graph.inputs:
            structure = self.builder.structures.of(value.type)
            if structure is not None:
                shared = not distinct_inputs or structure.kind in ("mixed", "object")
                element = self.builder.outside("input", structure) if shared else self.builder.fresh(structure, value)
                self.builder.element_of[value] = element

    def run(self) -> PointsTo:
        """Visit every node once; a structured node before its blocks, between them, and after them.

        The three plans of `_Plan` are spelt out here: nearly all nodes have one, and a call would cost more than the
        work.
        """
        plans: dict[tuple[str, int], Any] = {}  # of _Plan | dict[type, _Plan]: the checker cannot follow `__class__ is`
        known = plans.get
        element_of, labels, writes = self.builder.element_of, self.builder.labels, self.builder.writes
        stack: list[Iterator[Node]] = [iter(self.graph.body.nodes)]
        open_nodes: list[tuple[Node, Iterator[Block]]] = []
        while stack:
            for node in stack[-1]:
                inputs = node.inputs
                key = (node.op, len(inputs))
                plan: Any = known(key)
                if plan is None:
                    plan = plans[key] = self.plan(node)
                if plan.__class__ is dict:  # the first operand's type decides
                    kind = inputs[0].type.__class__
                    chosen = plan.get(kind)
                    if chosen is None:
                        chosen = plan[kind] = self.plan(node, kind)
                    plan = chosen
                if plan is _NOTHING:
                    continue
                if plan.__class__ is tuple:
                    index, does_write, to_shape = plan
                    shared = inputs[index]
                    element = element_of.get(shared)
                    if element is None:
                        element = element_of[shared] = len(labels)
                        labels.append(shared)
                    if does_write:
                        writes.append(Write(node, element, to_shape))
                    for value in node.outputs:
                        element_of[value] = element
                elif node.blocks:
                    self.enter(node)
                    blocks = iter(node.blocks)
                    open_nodes.append((node, blocks))
                    stack.append(iter(next(blocks).nodes))
                    break
                else:
                    plan(self, node)
            else:
                stack.pop()
                if open_nodes:
                    following = next(open_nodes[-1][1], None)
                    if following is not None:
                        stack.append(iter(following.nodes))
                    else:
                        self.leave(open_nodes.pop()[0])
        return self.builder.seal()

    def plan(self, node: Node, first: type | None = None) -> _Plan | dict[type, _Plan]:
        """What to do with this node and all others of its op and number of operands (and class of the first one's
        type)."""
        op, count = node.op, len(node.inputs)
        if op in _FRESH:
            return _NOTHING
        if op in _RULES or (op, count) in _LIST_RULES:
            return _RULES.get(op) or _LIST_RULES[op, count]
        candidates = () if op in _STATISTICS else self.signatures.candidates(op, count, first)
        if candidates and all(signature.is_pure for signature in candidates):
            return _NOTHING
        if len(candidates) > 1 and first is None and count:
            return {}
        tensors = count and node.outputs and all(value.type.__class__ is TensorType for value in node.outputs)
        simple = _simple(candidates[0]) if len(candidates) == 1 and tensors and op not in _REBINDING else None
        return simple if simple is not None and _takes_tensor(op, count, first, simple[0]) else _Walk.by_signature

    # Nodes with blocks

    def enter(self, node: Node) -> None:
        """Bind the parameters of a node's blocks."""
        builder = self.builder
        if node.op == "prim::Loop":
            body = node.blocks[0]
            for param, start, end in zip(body.params[1:], node.inputs[2:], body.returns[1:], strict=False):
                structure = builder.structures.of(param.type)
                if structure is None:
                    continue
                start_element = builder.element(start)
                if end is param:  # carried round unchanged
                    builder.bind(param, start_element)
                elif structure is TENSOR and start_element is not None:
                    builder.carry_tensor(param, start_element)
                else:
                    element = builder.element_of[param] = builder.fresh(structure, param)
                    if start_element is not None:
                        builder.flow(element, start_element, node)
        elif _is_inlined(node):
            for param, operand in zip(node.blocks[0].params, node.inputs, strict=True):
                builder.bind_any(param, [builder.element(operand)], node)
        elif node.op not in ("prim::If", "prim::GradOf"):
            for block in node.blocks:
                for param in block.params:
                    self.bind_unknown(param)

    def leave(self, node: Node) -> None:
        """Bind the outputs of a node whose blocks have been visited."""
        builder = self.builder
        if node.op == "prim::If" or node.op == "prim::GradOf":
            for index, value in enumerate(node.outputs):
                found = [builder.element(block.returns[index]) for block in node.blocks]
                one, other = found if len(found) == 2 else (None, None)
                if value.type.__class__ is TensorType and one is not None and other is not None:
                    builder.merge_tensors(value, one, other)
                else:
                    builder.bind_any(value, found, node)
        elif node.op == "prim::Loop":
            self.leave_loop(node)
        elif _is_inlined(node):
            self.leave_group(node)
        else:
            self.opaque(node)
            for block in node.blocks:
                for value in block.returns:
                    self.escape(value, node)

    def leave_loop(self, node: Node) -> None:
        builder, body = self.builder, node.blocks[0]
        for value, param, end in zip(node.outputs, body.params[1:], body.returns[1:], strict=False):
            element, end_element = builder.element(param), builder.element(end)
            if element is None or builder.structures.of(value.type) is None:
                continue
            if end is not param and end_element is not None:
                builder.flow(element, end_element, node)
            if value.type.__class__ is TensorType:
                builder.element_of[value] = element
            else:
                builder.bind_any(value, [element], node)

    def leave_group(self, node: Node) -> None:
        builder = self.builder
        returned = [builder.element(value) for value in node.blocks[0].returns]
        if node.op == "prim::fork":
            for value in node.outputs:
                future = builder.element(value)
                if future is not None:
                    builder.hold(future, [element for element in returned if element is not None], node)
            return
        for index, value in enumerate(node.outputs):
            builder.bind_any(value, returned[index : index + 1], node)

    # Constructors and accessors

    def list_construct(self, node: Node) -> None:
        builder = self.builder
        value = node.outputs[0]
        structure = builder.structures.of(value.type)
        if structure is None or (structure.kind == "box" and structure.content is None):
            return  # numbers and strings
        held = [element for element in dict.fromkeys(map(builder.element, node.inputs)) if element is not None]
        container = builder.element(value)  # after what it holds, so that edges go down
        assert container is not None
        if structure.content is TENSOR:
            builder.fill(container, held, node)
        else:
            builder.hold(container, held, node)

    def get_item(self, node: Node) -> None:
        """An element of a list of tensors shares the list's cell."""
        holder, value = node.inputs[0], node.outputs[0]
        if value.type.__class__ is TensorType and holder.type.__class__ is ListType:
            element = self.builder.element(holder)
            assert element is not None
            if element in self.builder.cells:
                self.builder.element_of[value] = self.builder.cells[element]
                return
        self.by_signature(node)

    def tuple_construct(self, node: Node) -> None:
        builder = self.builder
        structure = builder.structures.of(node.outputs[0].type)
        if structure is None:
            return
        if structure.kind != "tuple" or len(structure.fields) != len(node.inputs):
            self.list_construct(node)
            return
        element = builder.element_of[node.outputs[0]] = builder.new(node.outputs[0])
        builder.fields[element] = tuple(map(builder.element, node.inputs))

    def tuple_unpack(self, node: Node) -> None:
        packed = self.builder.element(node.inputs[0])
        fields = self.builder.fields.get(packed) if packed is not None else None
        for index, value in enumerate(node.outputs):
            if fields is not None and len(fields) == len(node.outputs):
                self.builder.bind_any(value, [fields[index]], node)
            else:
                self.bind_inside(value, [packed], node)

    def tuple_index(self, node: Node) -> None:
        packed = self.builder.element(node.inputs[0])
        fields = self.builder.fields.get(packed) if packed is not None else None
        index = constant_of(self.graph, node.inputs[1]) if len(node.inputs) > 1 else None
        if fields is not None and isinstance(index, int) and -len(fields) <= index < len(fields):
            self.builder.bind_any(node.outputs[0], [fields[index]], node)
        else:
            self.bind_inside(node.outputs[0], [packed], node)

    def tuple_slice(self, node: Node) -> None:
        builder, value = self.builder, node.outputs[0]
        packed = builder.element(node.inputs[0])
        fields = builder.fields.get(packed) if packed is not None else None
        first, last = node.attrs.get("beg"), node.attrs.get("end")
        structure = builder.structures.of(value.type)
        if structure is None:
            return
        if fields is not None and isinstance(first, int) and isinstance(last, int):
            element = builder.element_of[value] = builder.new(value)
            builder.fields[element] = fields[first:last]
        elif packed is not None:
            whole = builder.element(value)
            assert whole is not None
            builder.hold(whole, [packed, *self.cell_of([packed])], node)

    def list_unpack(self, node: Node) -> None:
        packed = self.builder.element(node.inputs[0])
        for value in node.outputs:
            self.bind_inside(value, [packed], node)

    def pass_on(self, node: Node) -> None:
        source = self.builder.element(node.inputs[0])
        for value in node.outputs:
            self.builder.bind_any(value, [source], node)

    def pass_on_second(self, node: Node) -> None:
        source = self.builder.element(node.inputs[1]) if len(node.inputs) > 1 else None
        for value in node.outputs:
            self.builder.bind_any(value, [source], node)

    def pass_on_any(self, node: Node) -> None:
        sources = [self.builder.element(value) for value in node.inputs]
        for value in node.outputs:
            self.builder.bind_any(value, sources, node)

    def pass_on_pairwise(self, node: Node) -> None:
        for value, source in zip(node.outputs, node.inputs, strict=False):
            self.builder.bind_any(value, [self.builder.element(source)], node)

    def broadcasting_chunk(self, node: Node) -> None:
        each = max(1, len(node.outputs) // max(1, len(node.inputs)))
        for index, value in enumerate(node.outputs):
            source = node.inputs[min(index // each, len(node.inputs) - 1)]
            self.builder.bind_any(value, [self.builder.element(source)], node)

    # Objects

    def get_attr(self, node: Node) -> None:
        value, holder = node.outputs[0], node.inputs[0]
        structure = self.builder.structures.of(value.type)
        if structure is None:
            return
        if isinstance(holder.type, ClassType) and "name" in node.attrs:
            self.builder.bind_any(
                value, [self.builder.attribute(holder.type.name, node.attrs["name"], structure)], node
            )
        else:
            self.bind_inside(value, [self.builder.element(holder)], node)

    def set_attr(self, node: Node) -> None:
        builder, (holder, stored) = self.builder, node.inputs
        holder_element, stored_element = builder.element(holder), builder.element(stored)
        if holder_element is not None:
            builder.write(node, holder_element)
        name = node.attrs.get("name")
        if isinstance(holder.type, ClassType) and isinstance(name, str):
            builder.write(node, builder.slot(holder.type.name, name))
            structure = builder.structures.of(stored.type)
            if stored_element is not None and structure is not None:
                builder.flow(builder.attribute(holder.type.name, name, structure), stored_element, node)
        elif stored_element is not None:
            builder.flow(builder.bag_of_objects(), stored_element, node)

    # Tasks

    def wait(self, node: Node) -> None:
        for value in node.outputs:
            self.bind_inside(value, [self.builder.element(node.inputs[0])], node)

    def remote_call(self, node: Node) -> None:
        """Another process gets copies, so nothing is written; what comes back is of unknown origin."""
        for value in node.inputs:
            self.escape(value, node)
        for value in node.outputs:
            self.bind_unknown(value)

    # Everything else

    def by_signature(self, node: Node) -> None:
        statistics = written_statistics(self.graph, node)
        for value in statistics:
            element = self.builder.element(value)
            if element is not None:
                self.builder.write(node, element)
        signature = self.signatures.of(node)
        if signature.is_opaque:
            self.opaque(node)
        elif signature.is_container:
            self.container(node, signature)
        elif not signature.is_pure:
            self.annotated(node, signature)

    def annotated(self, node: Node, signature: MemorySignature) -> None:
        """Results, writes and stores as the annotations say."""
        builder = self.builder
        for index, part in signature.writes:
            if index < len(node.inputs):
                for element in self.part_of(node.inputs[index], part):
                    builder.write(node, element, to_shape=signature.writes_shape)
        for index in signature.stores:
            if index < len(node.inputs):
                self.escape(node.inputs[index], node)
        for position, value in enumerate(node.outputs):
            if position >= len(signature.results):
                self.bind_unknown(value)
                continue
            shared = self.parts(node, signature.results[position])
            held = self.parts(node, signature.held[position])
            if shared:
                builder.bind_any(value, shared, node)
            if held:
                container = builder.element(value)
                if container is not None:
                    builder.hold(container, held, node)
        if node.op in _REBINDING and len(node.inputs) > 1:
            target, source = builder.element(node.inputs[0]), builder.element(node.inputs[1])
            if target is not None and source is not None:
                builder.rebind_storage(target, source, node)

    def container(self, node: Node, signature: MemorySignature) -> None:
        """Move things between containers, and between containers and results, as the operands' own types allow."""
        builder, schema = self.builder, schema_of(node)
        assert schema is not None
        written = {index for index, _ in signature.writes}
        boxes = [i for i, v in enumerate(node.inputs) if self.holds(v)]
        loose = [
            i
            for i, a in enumerate(schema.arguments[: len(node.inputs)])
            if i in signature.stores or is_type_variable(a.type)
        ]
        things = [e for i in boxes if i not in loose for e in self.cell_of([builder.element(node.inputs[i])])]
        things += [e for i in loose for e in [builder.element(node.inputs[i])] if e is not None]
        for index, part in signature.writes:
            for element in self.part_of(node.inputs[index], part):
                builder.write(node, element, to_shape=signature.writes_shape)
        for index in boxes:
            if index in written and index not in loose:
                target = builder.element(node.inputs[index])
                assert target is not None
                builder.hold(target, [thing for thing in things if thing != builder.cells.get(target)], node)
        if not any(index in written for index in boxes):
            for index in signature.stores:
                self.escape(node.inputs[index], node)
        for position, value in enumerate(node.outputs):
            self.container_result(
                node,
                signature,
                position,
                value,
                things,
                schema.returns[position].type if position < len(schema.returns) else ANY,
            )

    def container_result(
        self, node: Node, signature: MemorySignature, position: int, value: Value, things: list[int], declared: object
    ) -> None:
        builder = self.builder
        if builder.structures.of(value.type) is None:
            return
        shared = self.parts(node, signature.results[position]) if position < len(signature.results) else []
        while isinstance(declared, OptionalType):
            declared = declared.element
        if shared:
            builder.bind_any(value, shared, node)
        elif isinstance(declared, ListType | DictType | TupleType):
            same = [
                self.builder.element(v)
                for i, v in enumerate(node.inputs)
                if (i, OBJECT) in signature.writes and v.type == value.type
            ]
            if same:  # `add_` on lists gives its list back, though its schema does not say so
                builder.bind_any(value, same, node)
            container = builder.element(value)
            assert container is not None
            builder.hold(container, [*things, *self.parts(node, signature.held[position])], node)
        elif things:
            builder.bind_any(value, things, node)
        else:
            self.bind_unknown(value)

    def opaque(self, node: Node) -> None:
        """Unseen code gets all operands, may write whatever was ever given away, and may give back anything unknown."""
        for value in node.inputs:
            self.escape(value, node)
        self.builder.write(node, self.builder.opaque(), to_shape=True)
        for value in node.outputs:
            self.bind_unknown(value)

    def escape(self, value: Value, node: Node) -> None:
        element, structure = self.builder.element(value), self.builder.structures.of(value.type)
        if element is not None and structure is not None:
            self.builder.escape(element, structure, node)

    def bind_unknown(self, value: Value) -> None:
        structure = self.builder.structures.of(value.type)
        if structure is not None:
            self.builder.element_of[value] = self.builder.outside("unknown", structure)

    def bind_inside(self, value: Value, containers: list[int | None], node: Node) -> None:
        """Let a value be anything that the containers hold."""
        inside = self.cell_of(containers)
        self.builder.bind_any(value, inside, node) if inside else self.bind_unknown(value)

    def cell_of(self, containers: list[int | None]) -> list[int]:
        found: list[int] = []
        for element in containers:
            if element is None:
                continue
            if element in self.builder.cells:
                found.append(self.builder.cells[element])
            found.extend(field for field in self.builder.fields.get(element, ()) if field is not None)
        return found

    def holds(self, value: Value) -> bool:
        structure = self.builder.structures.of(value.type)
        return structure is not None and structure.kind in ("box", "tuple", "mixed", "object")

    def part_of(self, value: Value, part: int) -> list[int]:
        element = self.builder.element(value)
        if element is None:
            return []
        return [element] if part == OBJECT else self.cell_of([element])

    def parts(self, node: Node, sources: tuple[Source, ...]) -> list[int]:
        return [
            e for index, part in sources if index < len(node.inputs) for e in self.part_of(node.inputs[index], part)
        ]


def _is_inlined(node: Node) -> bool:
    """Whether a node's block is read as if it stood in the node's place."""
    known = node.op in GROUPS or node.op == "prim::fork"
    return known and len(node.blocks) == 1 and len(node.blocks[0].params) == len(node.inputs)


def _simple(signature: MemorySignature) -> tuple[int, bool, bool] | None:
    """The operand that all results share and whether it is written, if that is all there is to an op."""
    shared = set(signature.results)
    if signature.is_container or signature.is_opaque or signature.stores or any(signature.held) or len(shared) != 1:
        return None
    (sources,) = shared
    if len(sources) != 1 or sources[0][1] != OBJECT or signature.writes not in ((), sources):
        return None
    return sources[0][0], bool(signature.writes), signature.writes_shape


def _takes_tensor(op: str, count: int, first: type | None, index: int) -> bool:
    """Whether every overload that fits takes a tensor at a position."""
    schemas = [schema for schema in overloads(op) if fits(schema, count, first) and index < len(schema.arguments)]
    return bool(schemas) and all(isinstance(schema.arguments[index].type, TensorType) for schema in schemas)


_Rule = Callable[[_Walk, Node], None]
_Plan = _Rule | tuple[int, bool, bool]
"""A rule to call, or: the operand that all results share, whether it is written, whether its shape may be."""

_LIST_RULES: Final[Mapping[tuple[str, int], _Rule]] = {
    ("aten::__getitem__", 2): _Walk.get_item,
    ("aten::select", 2): _Walk.get_item,
}

_RULES: Final[Mapping[str, Callable[[_Walk, Node], None]]] = {
    "prim::ListConstruct": _Walk.list_construct,
    "prim::DictConstruct": _Walk.list_construct,
    "prim::TupleConstruct": _Walk.tuple_construct,
    "prim::TupleUnpack": _Walk.tuple_unpack,
    "prim::TupleIndex": _Walk.tuple_index,
    "prim::TupleSlice": _Walk.tuple_slice,
    "prim::ListUnpack": _Walk.list_unpack,
    "prim::GetAttr": _Walk.get_attr,
    "prim::SetAttr": _Walk.set_attr,
    "prim::BailOut": _Walk.pass_on_second,
    "prim::AutogradAdd": _Walk.pass_on_any,
    "prim::BroadcastingChunk": _Walk.broadcasting_chunk,
    "aten::wait": _Walk.wait,
    "prim::awaitable_wait": _Walk.wait,
    "prim::rpc_async": _Walk.remote_call,
    "prim::rpc_sync": _Walk.remote_call,
    "prim::rpc_remote": _Walk.remote_call,
    "prim::ModuleContainerIndex": _Walk.list_unpack,
    **dict.fromkeys(_PASS_ON, _Walk.pass_on),
    **dict.fromkeys(_PAIRWISE, _Walk.pass_on_pairwise),
}
