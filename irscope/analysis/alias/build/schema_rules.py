"""Points-to rules derived from op schemas: results, writes and stores as the annotations say.

For an op that moves elements between containers, the operands' own types matter as well. An op without a schema is treated
as unseen code, to which all its operands escape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from irscope.analysis.alias.build.copies import copy_flag
from irscope.analysis.alias.points_to import PointsToBuilder
from irscope.analysis.effects import OBJECT, MemorySignature, Signatures, Source, is_type_variable
from irscope.ir import ANY, DictType, Graph, ListType, Node, OptionalType, TupleType, Value, constant_of
from irscope.ops.registry import schema_of
from irscope.ops.traits import MOVES_STATISTICS, REBINDS_STORAGE

__all__ = ["STATISTICS", "SchemaRules", "written_statistics"]

STATISTICS: Final[Mapping[str, tuple[int, int, int]]] = dict.fromkeys(MOVES_STATISTICS, (3, 4, 5))
"""Positions of the running mean, the running variance, and the flag without which neither is updated."""

def written_statistics(graph: Graph, node: Node) -> tuple[Value, ...]:
    """The running statistics that a normalisation updates: none if its training flag is known to be off."""
    positions = STATISTICS.get(node.op)
    if positions is None or len(node.inputs) <= positions[2] or constant_of(graph, node.inputs[positions[2]]) is False:
        return ()
    return node.inputs[positions[0]], node.inputs[positions[1]]


class SchemaRules:
    """Adds the elements, edges and writes that schemas imply for single nodes to a builder.

    >>> from irscope.ir.text.parser import parse
    >>> g = parse("graph(%x : Tensor):\\n  %a : Tensor = aten::t(%x)\\n  return (%a)")
    >>> rules = SchemaRules(g, PointsToBuilder(), Signatures())
    >>> rules.by_signature(g.node("a"))
    >>> rules.elements.element_of[g.value("a")] == rules.elements.element_of[g.value("x")]
    True
    """

    def __init__(self, graph: Graph, builder: PointsToBuilder, signatures: Signatures) -> None:
        self.graph = graph
        self.copies: Callable[[Node], bool] = lambda node: False
        """Decides whether a node that may copy does so in every run."""
        self.builder, self.elements, self.outside = builder, builder.elements, builder.outside
        self.signatures = signatures

    def by_signature(self, node: Node) -> None:
        if node.op in STATISTICS:
            self.elements.consulted.update(node.inputs[STATISTICS[node.op][2] :][:1])
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
        self.elements.typed.add(node.inputs[0])
        flag = copy_flag(node)
        if flag is not None:
            self.elements.consulted.add(flag)
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
                self.builder.rebind_storage(target, source, node)

    def container(self, node: Node, signature: MemorySignature) -> None:
        """Move elements between containers, and between containers and results, as the operands' own types allow."""
        elements, schema = self.elements, schema_of(node)
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
        elements = self.elements
        if elements.structures.of(value.type) is None:
            return
        shared = self.parts(node, signature.results[position]) if position < len(signature.results) else []
        while isinstance(declared, OptionalType):
            declared = declared.element
        if shared:
            elements.bind_any(value, shared, node)
        elif isinstance(declared, ListType | DictType | TupleType):
            same = [
                self.elements.element(v)
                for i, v in enumerate(node.inputs)
                if (i, OBJECT) in signature.writes and v.type == value.type
            ]
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
        return [
            e for index, part in sources if index < len(node.inputs) for e in self.part_of(node.inputs[index], part)
        ]
