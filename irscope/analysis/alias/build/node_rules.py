"""What single nodes add to a points-to graph by rules of their own: constructors and accessors, objects, calls, tasks.

Ops without a rule here go by their schema (`irscope.analysis.alias.build.schema_rules`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from irscope.analysis.alias.build.call import apply
from irscope.analysis.alias.build.callee_summary import Summaries
from irscope.analysis.alias.build.schema_rules import SchemaRules
from irscope.analysis.alias.points_to import MIXED, TENSOR, PointsToBuilder, class_name
from irscope.analysis.effects import CALLS, Signatures, callee_of, operands_of
from irscope.ir import ClassType, Graph, ListType, Node, TensorType, Type, constant_of

__all__ = ["LIST_RULES", "RULES", "NodeRules", "Rule"]

_PASS_ON: Final = frozenset(
    f"prim::{name}" for name in "unchecked_cast profile profile_ivalue Guard ConstantChunk".split()
)
_PAIRWISE: Final = frozenset(f"prim::{name}" for name in "TypeCheck RequiresGradCheck BroadcastMKLDNNTensors".split())


class NodeRules(SchemaRules):
    """Adds the elements, edges and writes of single nodes without blocks to a builder."""

    def __init__(self, graph: Graph, builder: PointsToBuilder, signatures: Signatures, callees: Summaries) -> None:
        super().__init__(graph, builder, signatures)
        self.callees = callees
        self.calls_back: Callable[[Node], bool] = lambda node: False
        """What a call does of a program that is being walked itself: whether it is such a call."""
        self._list_of_tensors: Type | None = None

    # Constructors and accessors

    def constant(self, node: Node) -> None:
        """A None of an optional type is not memory; other constants are their own."""
        if all(payload is None for payload in node.attrs.values()):
            self.elements.nones.update(node.outputs)

    def uninitialized(self, node: Node) -> None:
        """What no branch that is taken reads is not memory."""
        self.elements.nones.update(node.outputs)

    def fused_concat(self, node: Node) -> None:
        """One without a block, as it stands inside a group: it writes its parts into new memory."""

    def list_construct(self, node: Node) -> None:
        elements = self.elements
        value = node.outputs[0]
        if value.type is self._list_of_tensors and value not in elements.element_of:
            elements.list_of_tensors(value, node.inputs)
            return
        structure = elements.structures.of(value.type)
        if structure is None or (structure.kind == "box" and structure.content is None):
            return  # numbers and strings
        if structure.content is TENSOR and value not in elements.element_of:
            self._list_of_tensors = value.type  # equal types are mostly one object
            elements.list_of_tensors(value, node.inputs)
            return
        held = [element for element in dict.fromkeys(map(elements.element, node.inputs)) if element is not None]
        container = elements.element(value)
        assert container is not None
        elements.hold(container, held, node)

    def get_item(self, node: Node) -> None:
        """An element of a list of tensors shares the list's cell."""
        elements, holder, value = self.elements, node.inputs[0], node.outputs[0]
        if value.type.__class__ is TensorType and holder.type.__class__ is ListType:
            element = elements.element_of.get(holder)
            if element is None:
                element = elements.element(holder)
            cell = elements.cells.get(element)  # type: ignore[arg-type]
            if cell is not None:
                elements.element_of[value] = cell
                return
        self.by_signature(node)

    def tuple_construct(self, node: Node) -> None:
        elements = self.elements
        made = node.outputs[0]
        structure = elements.structures.of(made.type)
        if structure is None:
            return
        if structure.kind != "tuple" or len(structure.fields) != len(node.inputs):
            self.list_construct(node)
            return
        element_of, labels, fields = elements.element_of, elements.labels, []
        for value in node.inputs:
            field = element_of.get(value)
            if field is None:
                if value.type.__class__ is not TensorType or value in elements.nones:
                    field = elements.element(value)
                else:
                    field = element_of[value] = len(labels)
                    labels.append(value)
            fields.append(field)
        element = element_of[made] = len(labels)
        labels.append(made)
        elements.fields[element] = tuple(fields)

    def tuple_unpack(self, node: Node) -> None:
        elements = self.elements
        packed = elements.element_of.get(node.inputs[0])
        if packed is None:
            packed = elements.element(node.inputs[0])
        fields = elements.fields.get(packed)  # type: ignore[arg-type]
        if fields is None or len(fields) != len(node.outputs):
            for value in node.outputs:
                self.bind_inside(value, [packed], node)
            return
        for value, field in zip(node.outputs, fields, strict=True):
            if field is not None and value.type.__class__ is TensorType:
                elements.element_of[value] = field
            else:
                elements.bind_any(value, [field], node)

    def tuple_index(self, node: Node) -> None:
        packed = self.elements.element(node.inputs[0])
        fields = self.elements.fields.get(packed) if packed is not None else None
        self.elements.consulted.update(node.inputs[1:])
        index = constant_of(self.graph, node.inputs[1]) if len(node.inputs) > 1 else None
        if fields is not None and isinstance(index, int) and -len(fields) <= index < len(fields):
            self.elements.bind_any(node.outputs[0], [fields[index]], node)
        else:
            self.bind_inside(node.outputs[0], [packed], node)

    def tuple_slice(self, node: Node) -> None:
        elements, value = self.elements, node.outputs[0]
        packed = elements.element(node.inputs[0])
        fields = elements.fields.get(packed) if packed is not None else None
        first, last = node.attrs.get("beg"), node.attrs.get("end")
        structure = elements.structures.of(value.type)
        if structure is None:
            return
        if fields is not None and isinstance(first, int) and isinstance(last, int):
            element = elements.element_of[value] = elements.new(value)
            elements.fields[element] = fields[first:last]
        elif packed is not None:
            whole = elements.element(value)
            assert whole is not None
            elements.hold(whole, [packed, *self.cell_of([packed])], node)

    def list_unpack(self, node: Node) -> None:
        packed = self.elements.element(node.inputs[0])
        for value in node.outputs:
            self.bind_inside(value, [packed], node)

    def pass_on(self, node: Node) -> None:
        source = self.elements.element(node.inputs[0])
        for value in node.outputs:
            self.elements.bind_any(value, [source], node)

    def pass_on_second(self, node: Node) -> None:
        source = self.elements.element(node.inputs[1]) if len(node.inputs) > 1 else None
        for value in node.outputs:
            self.elements.bind_any(value, [source], node)

    def pass_on_any(self, node: Node) -> None:
        sources = [self.elements.element(value) for value in node.inputs]
        for value in node.outputs:
            self.elements.bind_any(value, sources, node)

    def pass_on_pairwise(self, node: Node) -> None:
        for value, source in zip(node.outputs, node.inputs, strict=False):
            self.elements.bind_any(value, [self.elements.element(source)], node)

    def broadcasting_chunk(self, node: Node) -> None:
        each = max(1, len(node.outputs) // max(1, len(node.inputs)))
        for index, value in enumerate(node.outputs):
            source = node.inputs[min(index // each, len(node.inputs) - 1)]
            self.elements.bind_any(value, [self.elements.element(source)], node)

    # Objects

    def get_attr(self, node: Node) -> None:
        value, holder = node.outputs[0], node.inputs[0]
        structure = self.elements.structures.of(value.type)
        if structure is None:
            return
        if isinstance(holder.type, ClassType) and "name" in node.attrs:
            self.elements.bind_any(
                value, [self.outside.attribute(class_name(holder.type), node.attrs["name"], structure)], node
            )
        else:
            self.bind_inside(value, [self.elements.element(holder)], node)

    def set_attr(self, node: Node) -> None:
        elements, (holder, stored) = self.elements, node.inputs
        holder_element, stored_element = elements.element(holder), elements.element(stored)
        if holder_element is not None:
            self.builder.write(node, holder_element)
        name = node.attrs.get("name")
        if isinstance(holder.type, ClassType) and isinstance(name, str):
            owner = class_name(holder.type)
            self.builder.write(node, self.outside.slot(owner, name))
            structure = elements.structures.of(stored.type)
            if stored_element is not None and structure is not None:
                elements.flow(self.outside.attribute(owner, name, structure), stored_element, node)
        elif stored_element is not None:
            elements.flow(elements.bag_of_objects(), stored_element, node)

    # Calls

    def call(self, node: Node) -> None:
        """A call of a program that is known does what that does; another is unseen code."""
        if node.op == "prim::CallFunction":
            self.elements.consulted.update(node.inputs[:1])
        if not (self.calls_back(node) or self._descend(node)):
            self.by_signature(node)

    def _descend(self, node: Node) -> bool:
        """Add what the callee does, if it is known."""
        summary = self.callees.get(callee_of(self.graph, node) or "") if self.callees else None
        if summary is not None:
            apply(self.builder, summary, node, operands_of(node))
        return summary is not None

    def hand_out(self, node: Node) -> None:
        """Code that unseen code runs, later or in another process: it has what it was given, and what comes back may be anything."""
        for value in node.inputs:
            self.escape(value, node)
        for value in node.outputs:
            self.bind_unknown(value)

    # Tasks

    def wait(self, node: Node) -> None:
        """A task that the graph does not start may have written any input by now."""
        maker = self.graph.producer.get(node.inputs[0])
        if maker is None or maker.op != "prim::fork":
            self.builder.write(node, self.outside.of("input", MIXED), to_shape=True)
        for value in node.outputs:
            self.bind_inside(value, [self.elements.element(node.inputs[0])], node)


Rule = Callable[[NodeRules, Node], None]
LIST_RULES: Final[Mapping[tuple[str, int], Rule]] = {
    ("aten::__getitem__", 2): NodeRules.get_item,
    ("aten::select", 2): NodeRules.get_item,
}

RULES: Final[Mapping[str, Callable[[NodeRules, Node], None]]] = {
    "prim::Constant": NodeRules.constant,
    "prim::Uninitialized": NodeRules.uninitialized,
    "prim::FusedConcat": NodeRules.fused_concat,
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
    "prim::Closure": NodeRules.hand_out,
    "prim::BailOut": NodeRules.pass_on_second,
    "prim::AutogradAdd": NodeRules.pass_on_any,
    "prim::BroadcastingChunk": NodeRules.broadcasting_chunk,
    "aten::wait": NodeRules.wait,
    "prim::awaitable_wait": NodeRules.wait,
    "prim::rpc_async": NodeRules.hand_out,
    "prim::rpc_sync": NodeRules.hand_out,
    "prim::rpc_remote": NodeRules.hand_out,
    "prim::ModuleContainerIndex": NodeRules.list_unpack,
    **dict.fromkeys(_PASS_ON, NodeRules.pass_on),
    **dict.fromkeys(_PAIRWISE, NodeRules.pass_on_pairwise),
}
