"""Points-to rules of nodes: those that follow from op schemas, and those of ops that need their own."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Final

from irscope.analysis.alias.points_to.builder import PointsToBuilder
from irscope.analysis.alias.points_to.callee_summary import Summaries, apply
from irscope.analysis.alias.points_to.elements import MIXED, TENSOR, class_name
from irscope.analysis.effects import CALLS, OBJECT, MemorySignature, Signatures, Source, callee_of, is_type_variable, operands_of
from irscope.analysis.views import ViewAliases
from irscope.ir import ANY, ClassType, DictType, Graph, ListType, Node, OptionalType, TensorType, TupleType, Type, Value, constant_of
from irscope.ops.registry import bind, schema_of
from irscope.ops.traits import MOVES_STATISTICS, REBINDS_STORAGE, RESHAPES
from irscope.ops.type_rules import is_contiguous, static_shape, view_strides

# Decides which results of ops that may copy are certainly copies, by the types of the program.
#
# `to`, `contiguous`, `reshape` and their like return their operand, a view of it, or a copy (`MAY_COPY`). Their schemas must say that
# the result may share memory; the types often say that it does not.
#
# **Why a "copy" is sound.** Such an op returns either a fresh tensor or a tensor in the operand's memory, and it is known what the latter
# would look like: `to`, `type_as` and `contiguous` return the operand itself, so element type, extents and strides are those of the
# operand; `ravel` returns what is contiguous already; the others return all elements in row-major order with other extents, which
# strides permit or not (`view_strides`, torch's own rule, in which the strides of axes of extent 1 do not matter). If the types exclude
# that, the result is fresh. The types are those that the program declares, of which every run is one: arguments are checked when the
# program is called. Where the declared types leave it open, `ViewAliases` follows the layouts from the types of the inputs.
#
# **A type holds when a value is made.** `t_`, `set_data` and unseen code may change it later. So the decisions are dropped if an operand
# of one may be reshaped according to the points-to graph that was built with them. That suffices: consider the first wrong decision of a
# run. The graph describes everything before it, and so the write that changed the operand's type.
#
# **After edits** a decision stays what it was as long as the operand's declared type does: `PointsTo.typed` has those operands. If types
# were inferred, or if shapes may be written, the db is rebuilt.


def types_suffice(node: Node) -> bool:
    """Whether nothing more could be found out about the operand and the result than their types declare."""
    old, new = node.inputs[0].type, node.outputs[0].type
    if not isinstance(old, TensorType) or not isinstance(new, TensorType) or old.dtype is None or new.dtype is None:
        return False
    if old.dtype != new.dtype:
        return True
    if old.shape is None or new.shape is None or 0 in old.shape:
        return False
    is_static = static_shape(old) is not None and static_shape(new) is not None
    return not is_static or (old.strides is not None and (new.strides is not None or node.op in RESHAPES))


def is_copy_by_types(node: Node) -> bool:
    """Whether a node with an op of `MAY_COPY` copies in every run, by the declared types of its operand and its result."""
    old, new = node.inputs[0].type, node.outputs[0].type
    if not isinstance(old, TensorType) or not isinstance(new, TensorType):
        return False
    if old.dtype is not None and new.dtype is not None and old.dtype != new.dtype:
        return True
    shape, result = static_shape(old), static_shape(new)
    if shape is None or result is None or old.strides is None or 0 in shape:
        return False
    if node.op not in RESHAPES:
        strides = new.strides
        return strides is not None and any(size > 1 and a != b for size, a, b in zip(shape, old.strides, strides, strict=True))
    return not is_contiguous(shape, old.strides) if node.op == "aten::ravel" else view_strides(shape, old.strides, result) is None


def copy_flag(node: Node) -> Value | None:
    """The operand of a `to` that says whether it copies anyway; None for other ops, and where it is left out."""
    flag = bind(node).get("copy") if node.op == "aten::to" else None
    return flag if isinstance(flag, Value) else None


class Copies:
    """Decides for the nodes of one program."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.infers = any(isinstance(value.type, TensorType) and value.type.dtype is not None for value in graph.inputs)
        """Whether layouts may be inferred: nothing follows from inputs of unknown type."""
        self.has_inferred = False
        """Whether a decision needed more than the declared types."""
        self.made: list[Node] = []
        """The nodes that copy."""

    def __call__(self, node: Node) -> bool:
        flag = copy_flag(node)
        found = is_copy_by_types(node) or (flag is not None and constant_of(self._graph, flag) is True)
        if not found and self.infers and not types_suffice(node):
            placement = self._views.placement(node.outputs[0]) if isinstance(node.outputs[0].type, TensorType) else None
            found = placement is not None and placement.kind == "copy" and placement.is_decided
            self.has_inferred = self.has_inferred or found
        if found:
            self.made.append(node)
        return found

    @cached_property
    def _views(self) -> ViewAliases:
        return ViewAliases(self._graph)


# Points-to rules: of ops that need their own (constructors and accessors, objects, calls, tasks), and for all others by their schemas:
# results, writes and stores as the annotations say.
#
# For an op that moves elements between containers, the operands' own types matter as well. An op without a schema is treated
# as unseen code, to which all its operands escape.

STATISTICS: Final[Mapping[str, tuple[int, int, int]]] = dict.fromkeys(MOVES_STATISTICS, (3, 4, 5))
"""Positions of the running mean, the running variance, and the flag without which neither is updated."""


def written_statistics(graph: Graph, node: Node) -> tuple[Value, ...]:
    """The running statistics that a normalisation updates: none if its training flag is known to be off."""
    positions = STATISTICS.get(node.op)
    if positions is None or len(node.inputs) <= positions[2] or constant_of(graph, node.inputs[positions[2]]) is False:
        return ()
    return node.inputs[positions[0]], node.inputs[positions[1]]


class NodeRules:
    """Adds the elements, edges and writes of single nodes without blocks to a builder."""

    def __init__(self, graph: Graph, builder: PointsToBuilder, signatures: Signatures, callees: Summaries) -> None:
        self.graph, self.callees = graph, callees
        self.copies: Callable[[Node], bool] = lambda node: False
        """Decides whether a node that may copy does so in every run."""
        self.builder, self.elements, self.outside = builder, builder.elements, builder.outside
        self.signatures = signatures
        self.calls_back: Callable[[Node], bool] = lambda node: False
        """Handles a recursive call of a program that is being walked; returns whether the node is such a call."""
        self._list_of_tensors: Type | None = None

    # What op schemas imply

    def by_signature(self, node: Node) -> None:
        if node.op in STATISTICS:
            self.elements.consulted.update(dict.fromkeys(node.inputs[STATISTICS[node.op][2] :][:1]))
            for value in written_statistics(self.graph, node):
                element = self.elements.element(value)
                if element is not None:
                    self.builder.write(node, element)
        signature = self.signatures.of(node)
        if signature.is_opaque:
            self.opaque(node)
        elif signature.is_container:
            self.container(node, signature)
        elif not signature.is_pure:
            self.annotated(node, signature)

    def unless_copied(self, node: Node) -> None:
        """Add what the schema says, unless the node certainly copies."""
        if not self.is_copied(node):
            self.by_signature(node)

    def is_copied(self, node: Node) -> bool:
        """Whether a node that may copy does so in every run; its operand's type is then recorded as relied on."""
        self.elements.typed[node.inputs[0]] = None
        flag = copy_flag(node)
        if flag is not None:
            self.elements.consulted[flag] = None
        return self.copies(node)

    def annotated(self, node: Node, signature: MemorySignature) -> None:
        """Add results, writes and stores as the annotations say."""
        elements = self.elements
        for index, part in signature.writes:
            if index < len(node.inputs):
                for element in self.part_of(node.inputs[index], part):
                    self.builder.write(node, element, to_shape=signature.writes_shape)
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
                elements.bind_any(value, shared, node)
            if held:
                container = elements.element(value)
                if container is not None:
                    elements.hold(container, held, node)
        if node.op in REBINDS_STORAGE and len(node.inputs) > 1:
            target, source = elements.element(node.inputs[0]), elements.element(node.inputs[1])
            if target is not None and source is not None:
                self.builder.rebound.append((target, source, node))

    def container(self, node: Node, signature: MemorySignature) -> None:
        """Move elements between containers, and between containers and results, as the operands' own types allow."""
        elements, schema = self.elements, schema_of(node)
        if schema is None:  # no overload takes operands of these types
            self.opaque(node)
            return
        written = {index for index, _ in signature.writes}
        boxes = [i for i, v in enumerate(node.inputs) if self.holds(v)]
        loose = [i for i, a in enumerate(schema.arguments[: len(node.inputs)]) if i in signature.stores or is_type_variable(a.type)]
        things = [e for i in boxes if i not in loose for e in self.cell_of([elements.element(node.inputs[i])])]
        things += [e for i in loose for e in [elements.element(node.inputs[i])] if e is not None]
        for index, part in signature.writes:
            for element in self.part_of(node.inputs[index], part):
                self.builder.write(node, element, to_shape=signature.writes_shape)
        for index in boxes:
            if index in written and index not in loose:
                target = elements.element(node.inputs[index])
                if target is not None:
                    elements.hold(target, [thing for thing in things if thing != elements.cells.get(target)], node)
        if not any(index in written for index in boxes):
            for index in signature.stores:
                self.escape(node.inputs[index], node)
        for position, value in enumerate(node.outputs):
            self.container_result(
                node, signature, position, value, things, schema.returns[position].type if position < len(schema.returns) else ANY
            )

    def container_result(
        self, node: Node, signature: MemorySignature, position: int, value: Value, things: list[int], declared: object
    ) -> None:
        elements = self.elements
        if elements.structures.of(value.type) is None:
            return
        shared = self.parts(node, signature.results[position]) if position < len(signature.results) else []
        while isinstance(declared, OptionalType):
            declared = declared.element
        if shared:
            elements.bind_any(value, shared, node)
        elif isinstance(declared, ListType | DictType | TupleType):
            same = [self.elements.element(v) for i, v in enumerate(node.inputs) if (i, OBJECT) in signature.writes and v.type == value.type]
            if same:  # `add_` on lists returns its list, though its schema does not say so
                elements.bind_any(value, same, node)
            container = elements.element(value)
            assert container is not None
            elements.hold(container, [*things, *self.parts(node, signature.held[position])], node)
        elif things:
            elements.bind_any(value, things, node)
        else:
            self.bind_unknown(value)

    def opaque(self, node: Node) -> None:
        """Unseen code receives all operands, may write everything that ever escaped, and may return anything unknown."""
        for value in node.inputs:
            self.escape(value, node)
        self.builder.write(node, self.outside.opaque(), to_shape=True)
        for value in node.outputs:
            self.bind_unknown(value)

    def escape(self, value: Value, node: Node) -> None:
        element, structure = self.elements.element(value), self.elements.structures.of(value.type)
        if element is not None and structure is not None:
            self.outside.escape(element, structure, node)

    def bind_unknown(self, value: Value) -> None:
        structure = self.elements.structures.of(value.type)
        if structure is not None:
            self.elements.element_of[value] = self.outside.of("unknown", structure)

    def bind_inside(self, value: Value, containers: list[int | None], node: Node) -> None:
        """Let a value be anything that the containers hold."""
        inside = self.cell_of(containers)
        self.elements.bind_any(value, inside, node) if inside else self.bind_unknown(value)

    def cell_of(self, containers: list[int | None]) -> list[int]:
        found: list[int] = []
        for element in containers:
            if element is None:
                continue
            if element in self.elements.cells:
                found.append(self.elements.cells[element])
            found.extend(field for field in self.elements.fields.get(element, ()) if field is not None)
        return found

    def holds(self, value: Value) -> bool:
        structure = self.elements.structures.of(value.type)
        return structure is not None and structure.kind in ("box", "tuple", "mixed", "object")

    def part_of(self, value: Value, part: int) -> list[int]:
        element = self.elements.element(value)
        if element is None:
            return []
        return [element] if part == OBJECT else self.cell_of([element])

    def parts(self, node: Node, sources: tuple[Source, ...]) -> list[int]:
        return [e for index, part in sources if index < len(node.inputs) for e in self.part_of(node.inputs[index], part)]

    # Constructors and accessors

    def constant(self, node: Node) -> None:
        """A None of an optional type is not memory; every other constant is its own memory."""
        if all(payload is None for payload in node.attrs.values()):
            self.elements.nones.update(dict.fromkeys(node.outputs))

    def uninitialized(self, node: Node) -> None:
        """A value that no taken branch reads is not memory."""
        self.elements.nones.update(dict.fromkeys(node.outputs))

    def fused_concat(self, node: Node) -> None:
        """A `prim::FusedConcat` without a block, as inside a group: it writes its parts into new memory."""

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
        self.elements.consulted.update(dict.fromkeys(node.inputs[1:]))
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

    # Objects

    def get_attr(self, node: Node) -> None:
        value, holder = node.outputs[0], node.inputs[0]
        structure = self.elements.structures.of(value.type)
        if structure is None:
            return
        if isinstance(holder.type, ClassType) and "name" in node.attrs:
            self.elements.bind_any(value, [self.outside.attribute(class_name(holder.type), node.attrs["name"], structure)], node)
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
        """A call of a known program has the effects of that program; any other call is unseen code."""
        if node.op == "prim::CallFunction":
            self.elements.consulted.update(dict.fromkeys(node.inputs[:1]))
        if self.calls_back(node):
            return
        summary = self.callees.get(callee_of(self.graph, node) or "") if self.callees else None
        if summary is not None:
            apply(self.builder, summary, node, operands_of(node))
        else:
            self.by_signature(node)

    def hand_out(self, node: Node) -> None:
        """A call that unseen code runs later or in another process: its operands escape, and its results are of unknown origin."""
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


def _any_of(sources: Callable[[Node, int], Sequence[Value]]) -> Rule:
    """The rule of an op of which each result, given by its position, may be any of some operands."""

    def rule(rules: NodeRules, node: Node) -> None:
        for position, value in enumerate(node.outputs):
            rules.elements.bind_any(value, list(map(rules.elements.element, sources(node, position))), node)

    return rule


def _chunked(node: Node, position: int) -> Sequence[Value]:
    """The operand of a `prim::BroadcastingChunk` that a result is a part of."""
    each = max(1, len(node.outputs) // max(1, len(node.inputs)))
    return node.inputs[min(position // each, len(node.inputs) - 1) :][:1]


_PASS_ON: Final = frozenset(f"prim::{name}" for name in "unchecked_cast profile profile_ivalue Guard ConstantChunk".split())
_PAIRWISE: Final = frozenset(f"prim::{name}" for name in "TypeCheck RequiresGradCheck BroadcastMKLDNNTensors".split())
LIST_RULES: Final[Mapping[tuple[str, int], Rule]] = {("aten::__getitem__", 2): NodeRules.get_item, ("aten::select", 2): NodeRules.get_item}

RULES: Final[Mapping[str, Rule]] = {
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
    "prim::BailOut": _any_of(lambda node, _: node.inputs[1:2]),
    "prim::AutogradAdd": _any_of(lambda node, _: node.inputs),
    "prim::BroadcastingChunk": _any_of(_chunked),
    "aten::wait": NodeRules.wait,
    "prim::awaitable_wait": NodeRules.wait,
    "prim::rpc_async": NodeRules.hand_out,
    "prim::rpc_sync": NodeRules.hand_out,
    "prim::rpc_remote": NodeRules.hand_out,
    "prim::ModuleContainerIndex": NodeRules.list_unpack,
    **dict.fromkeys(_PASS_ON, _any_of(lambda node, _: node.inputs[:1])),
    **dict.fromkeys(_PAIRWISE, _any_of(lambda node, position: node.inputs[position : position + 1])),
}
