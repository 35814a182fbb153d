"""What one node without blocks adds to a points-to graph: constructors and accessors, objects, tasks, and ops by their schema.

An op that no rule and no schema covers gives all it has to unseen code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from irscope.analysis.alias.points_to import PointsToBuilder
from irscope.analysis.alias.structure import TENSOR, Structures, class_name
from irscope.analysis.alias.summary import Summaries, apply
from irscope.analysis.call_sites import CALLS, callee_of, operands_of
from irscope.analysis.effects import OBJECT, MemorySignature, Signatures, Source, is_type_variable
from irscope.ir.core import Graph, Node, Value
from irscope.ir.payload import constant_of
from irscope.ir.types import ANY, ClassType, DictType, ListType, OptionalType, TensorType, TupleType, Type
from irscope.ops.registry import schema_of

__all__ = ["LIST_RULES", "REBINDING", "RULES", "STATISTICS", "NodeRules", "Rule", "written_statistics"]

STATISTICS: Final[Mapping[str, tuple[int, int, int]]] = {
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
REBINDING: Final = frozenset({"aten::set_", "aten::set_data"})
"""Ops that exchange a tensor's storage."""


def written_statistics(graph: Graph, node: Node) -> tuple[Value, ...]:
    """The running statistics that a normalisation updates: none if its training flag is known to be off."""
    positions = STATISTICS.get(node.op)
    if positions is None or len(node.inputs) <= positions[2] or constant_of(graph, node.inputs[positions[2]]) is False:
        return ()
    return node.inputs[positions[0]], node.inputs[positions[1]]


class NodeRules:
    """Adds the elements, edges and writes of single nodes to a builder."""

    def __init__(self, graph: Graph, structures: Structures, callees: Summaries) -> None:
        self.graph = graph
        self.builder = PointsToBuilder(structures)
        self.signatures = Signatures()
        self.callees = callees
        self._list_of_tensors: Type | None = None

    # Constructors and accessors

    def constant(self, node: Node) -> None:
        """A None of an optional type is not memory; other constants are their own."""
        if all(payload is None for payload in node.attrs.values()):
            self.builder.nones.update(node.outputs)

    def uninitialized(self, node: Node) -> None:
        """What no branch that is taken reads is not memory."""
        self.builder.nones.update(node.outputs)

    def list_construct(self, node: Node) -> None:
        builder = self.builder
        value = node.outputs[0]
        if value.type is self._list_of_tensors and value not in builder.element_of:
            builder.list_of_tensors(value, node.inputs)
            return
        structure = builder.structures.of(value.type)
        if structure is None or (structure.kind == "box" and structure.content is None):
            return  # numbers and strings
        if structure.content is TENSOR and value not in builder.element_of:
            self._list_of_tensors = value.type  # equal types are mostly one object
            builder.list_of_tensors(value, node.inputs)
            return
        held = [element for element in dict.fromkeys(map(builder.element, node.inputs)) if element is not None]
        container = builder.element(value)
        assert container is not None
        builder.hold(container, held, node)

    def get_item(self, node: Node) -> None:
        """An element of a list of tensors shares the list's cell."""
        builder, holder, value = self.builder, node.inputs[0], node.outputs[0]
        if value.type.__class__ is TensorType and holder.type.__class__ is ListType:
            element = builder.element_of.get(holder)
            if element is None:
                element = builder.element(holder)
            cell = builder.cells.get(element)  # type: ignore[arg-type]
            if cell is not None:
                builder.element_of[value] = cell
                return
        self.by_signature(node)

    def tuple_construct(self, node: Node) -> None:
        builder = self.builder
        made = node.outputs[0]
        structure = builder.structures.of(made.type)
        if structure is None:
            return
        if structure.kind != "tuple" or len(structure.fields) != len(node.inputs):
            self.list_construct(node)
            return
        element_of, labels, fields = builder.element_of, builder.labels, []
        for value in node.inputs:
            field = element_of.get(value)
            if field is None:
                if value.type.__class__ is not TensorType or value in builder.nones:
                    field = builder.element(value)
                else:
                    field = element_of[value] = len(labels)
                    labels.append(value)
            fields.append(field)
        element = element_of[made] = len(labels)
        labels.append(made)
        builder.fields[element] = tuple(fields)

    def tuple_unpack(self, node: Node) -> None:
        builder = self.builder
        packed = builder.element_of.get(node.inputs[0])
        if packed is None:
            packed = builder.element(node.inputs[0])
        fields = builder.fields.get(packed)  # type: ignore[arg-type]
        if fields is None or len(fields) != len(node.outputs):
            for value in node.outputs:
                self.bind_inside(value, [packed], node)
            return
        for value, field in zip(node.outputs, fields, strict=True):
            if field is not None and value.type.__class__ is TensorType:
                builder.element_of[value] = field
            else:
                builder.bind_any(value, [field], node)

    def tuple_index(self, node: Node) -> None:
        packed = self.builder.element(node.inputs[0])
        fields = self.builder.fields.get(packed) if packed is not None else None
        self.builder.consulted.update(node.inputs[1:])
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
                value, [self.builder.attribute(class_name(holder.type), node.attrs["name"], structure)], node
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
            owner = class_name(holder.type)
            builder.write(node, builder.slot(owner, name))
            structure = builder.structures.of(stored.type)
            if stored_element is not None and structure is not None:
                builder.flow(builder.attribute(owner, name, structure), stored_element, node)
        elif stored_element is not None:
            builder.flow(builder.bag_of_objects(), stored_element, node)

    # Calls

    def call(self, node: Node) -> None:
        """A call of a program that is known does what that does; another is unseen code."""
        if node.op == "prim::CallFunction":
            self.builder.consulted.update(node.inputs[:1])
        if not self.descend(node):
            self.by_signature(node)

    def descend(self, node: Node) -> bool:
        """Add what the callee does, if it is known."""
        summary = self.callees.get(callee_of(self.graph, node) or "") if self.callees else None
        if summary is not None:
            apply(self.builder, summary, node, operands_of(node))
        return summary is not None

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
        if node.op in STATISTICS:
            self.builder.consulted.update(node.inputs[STATISTICS[node.op][2] :][:1])
            for value in written_statistics(self.graph, node):
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
        if node.op in REBINDING and len(node.inputs) > 1:
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
                if target is not None:
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


Rule = Callable[[NodeRules, Node], None]
LIST_RULES: Final[Mapping[tuple[str, int], Rule]] = {
    ("aten::__getitem__", 2): NodeRules.get_item,
    ("aten::select", 2): NodeRules.get_item,
}

RULES: Final[Mapping[str, Callable[[NodeRules, Node], None]]] = {
    "prim::Constant": NodeRules.constant,
    "prim::Uninitialized": NodeRules.uninitialized,
    "prim::ListConstruct": NodeRules.list_construct,
    "prim::DictConstruct": NodeRules.list_construct,
    "prim::TupleConstruct": NodeRules.tuple_construct,
    "prim::TupleUnpack": NodeRules.tuple_unpack,
    "prim::TupleIndex": NodeRules.tuple_index,
    "prim::TupleSlice": NodeRules.tuple_slice,
    "prim::ListUnpack": NodeRules.list_unpack,
    "prim::GetAttr": NodeRules.get_attr,
    "prim::SetAttr": NodeRules.set_attr,
    **dict.fromkeys(CALLS, NodeRules.call),
    "prim::BailOut": NodeRules.pass_on_second,
    "prim::AutogradAdd": NodeRules.pass_on_any,
    "prim::BroadcastingChunk": NodeRules.broadcasting_chunk,
    "aten::wait": NodeRules.wait,
    "prim::awaitable_wait": NodeRules.wait,
    "prim::rpc_async": NodeRules.remote_call,
    "prim::rpc_sync": NodeRules.remote_call,
    "prim::rpc_remote": NodeRules.remote_call,
    "prim::ModuleContainerIndex": NodeRules.list_unpack,
    **dict.fromkeys(_PASS_ON, NodeRules.pass_on),
    **dict.fromkeys(_PAIRWISE, NodeRules.pass_on_pairwise),
}
