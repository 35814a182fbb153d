"""What a node adds to a points-to graph by the schema of its op: results, writes and stores as the annotations say.

An op that moves things between containers goes by its operands' own types as well. An op without a schema gives all it has
to unseen code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from irscope.analysis.alias.points_to import PointsToBuilder, Structures
from irscope.analysis.effects import OBJECT, MemorySignature, Signatures, Source, is_type_variable
from irscope.ir import ANY, DictType, Graph, ListType, Node, OptionalType, TupleType, Value, constant_of
from irscope.ops.registry import schema_of
from irscope.ops.traits import REBINDS_STORAGE

__all__ = ["STATISTICS", "SchemaRules", "written_statistics"]

STATISTICS: Final[Mapping[str, tuple[int, int, int]]] = {
    "aten::batch_norm": (3, 4, 5),
    "aten::instance_norm": (3, 4, 5),
    "aten::native_batch_norm": (3, 4, 5),
    "aten::cudnn_batch_norm": (3, 4, 5),
    "aten::miopen_batch_norm": (3, 4, 5),
    "aten::_batch_norm_impl_index": (3, 4, 5),
}
"""Positions of the running mean, the running variance, and the flag without which they are left alone."""

def written_statistics(graph: Graph, node: Node) -> tuple[Value, ...]:
    """The running statistics that a normalisation updates: none if its training flag is known to be off."""
    positions = STATISTICS.get(node.op)
    if positions is None or len(node.inputs) <= positions[2] or constant_of(graph, node.inputs[positions[2]]) is False:
        return ()
    return node.inputs[positions[0]], node.inputs[positions[1]]


class SchemaRules:
    """Adds what schemas say of single nodes to a builder.

    >>> from irscope.ir.text.parser import parse
    >>> g = parse("graph(%x : Tensor):\\n  %a : Tensor = aten::t(%x)\\n  return (%a)")
    >>> rules = SchemaRules(g, Structures())
    >>> rules.by_signature(g.node("a"))
    >>> rules.builder.element_of[g.value("a")] == rules.builder.element_of[g.value("x")]
    True
    """

    def __init__(self, graph: Graph, structures: Structures) -> None:
        self.graph = graph
        self.builder = PointsToBuilder(structures)
        self.signatures = Signatures()

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
        if node.op in REBINDS_STORAGE and len(node.inputs) > 1:
            target, source = builder.element(node.inputs[0]), builder.element(node.inputs[1])
            if target is not None and source is not None:
                builder.rebind_storage(target, source, node)

    def container(self, node: Node, signature: MemorySignature) -> None:
        """Move things between containers, and between containers and results, as the operands' own types allow."""
        builder, schema = self.builder, schema_of(node)
        if schema is None:  # no overload takes operands of these types
            self.opaque(node)
            return
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
