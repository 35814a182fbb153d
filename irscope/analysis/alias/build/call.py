"""Applies a callee's summary to its caller's points-to graph, with the operands in place of the parameters.

The argument is in `irscope.analysis.alias.build.callee_summary`.
"""

from __future__ import annotations

from collections.abc import Sequence

from irscope.analysis.alias.build.callee_summary import Summary
from irscope.analysis.alias.points_to import Called, Label, Place, PointsToBuilder, Structure
from irscope.ir import Node, Value

__all__ = ["apply"]


def apply(builder: PointsToBuilder, summary: Summary, node: Node, operands: Sequence[Value]) -> None:
    """Add the effects of a call: a node that passes these operands to the callee."""
    elements = builder.elements
    of = _Roots(builder, summary, node, operands).of
    for source, targets in summary.edges.items():
        if source in summary.shared and not builder.is_first((summary, source)):
            targets = [target for target in targets if target not in summary.shared]
        here = of[source]
        for target in targets:
            there = of[target]
            if here is not None and there is not None:
                elements.flow(here, there, node)
    for memory, to_shape in summary.writes:
        written = of[memory]
        if written is not None:
            builder.write(node, written, to_shape=to_shape)
    builder.outside.give_away(*(given for bag in summary.given_away if (given := of[bag]) is not None))
    for tensor, source in summary.rebound:
        rebound, storage = of[tensor], of[source]
        if rebound is not None and storage is not None:
            builder.rebind_storage(rebound, storage, node)
    for value, result in zip(node.outputs, summary.results, strict=True):
        if result is not None:
            elements.bind_any(value, [of[result]], node)
    reads = tuple(element for root in summary.shared if (element := of[root]) is not None)
    effects = summary.effects
    builder.calls[node.id] = Called(
        summary.name,
        effects.has_side_effect,
        effects.is_random,
        effects.stops,
        effects.waits,
        effects.starts,
        effects.is_unseen,
        reads,
    )


class _Roots:
    """The caller's element for each root and memory of a summary; None for a parameter whose operand is None."""

    def __init__(self, builder: PointsToBuilder, summary: Summary, node: Node, operands: Sequence[Value]) -> None:
        self._builder, self._elements, self._summary, self._node = builder, builder.elements, summary, node
        self.of: dict[int, int | None] = {}
        for root, how in summary.shared.items():
            self._same(root, builder.shared_element(how))
        for param, operand in zip(summary.params, operands, strict=True):
            if param is not None:
                self._same(param[0], self._passed(operand, param[1]))
        self._make_inner()

    def _passed(self, operand: Value, structure: Structure) -> int | None:
        """The element of an operand, converted to the parameter's structure."""
        elements = self._elements
        element = elements.element(operand)
        if element is None or (elements.structures.of(operand.type) is structure and self._has(element, structure)):
            return element
        own = elements.fresh(structure, Place("called", name=f"{self._summary.name}'s parameter"))
        elements.flow(own, element, self._node)
        return own

    def _has(self, element: int, structure: Structure) -> bool:
        """Whether an element has all parts of a structure, none of them mixed."""
        elements, todo = self._elements, [(element, structure)]
        while todo:
            here, built = todo.pop()
            if built.kind == "mixed":
                return False
            if built.kind == "box" and built.content is not None:
                if here not in elements.cells:
                    return False
                todo.append((elements.cells[here], built.content))
            elif built.kind == "tuple":
                fields = elements.fields.get(here, ())
                if len(fields) != len(built.fields):
                    return False
                for field, inside in zip(fields, built.fields, strict=True):
                    if (field is None) != (inside is None):
                        return False
                    if field is not None and inside is not None:
                        todo.append((field, inside))
        return True

    def _same(self, root: int, element: int | None) -> None:
        """Map a root to an element, and the root's contents to the element's contents."""
        elements, summary = self._elements, self._summary
        todo: list[tuple[int, int | None]] = [(root, element)]
        while todo:
            here, there = todo.pop()
            if here in self.of:
                continue
            self.of[here] = there
            if here in summary.cells:
                todo.append((summary.cells[here], None if there is None else elements.cells[there]))
            inside = summary.fields.get(here, ())
            fields = elements.fields.get(there, ()) if there is not None else ()
            assert there is None or len(fields) == len(inside), "an operand is not as its parameter"
            todo.extend(
                (field, fields[index] if there is not None else None)
                for index, field in enumerate(inside)
                if field is not None
            )

    def _make_inner(self) -> None:
        elements, summary = self._elements, self._summary
        labels = self._labels()
        label = Place("called", name=summary.name)
        every = dict.fromkeys([*summary.inner, *summary.cells, *summary.fields])
        made = [element for element in every if element not in self.of]
        for element in made:
            self.of[element] = elements.new(labels.get(element, label))
        for element in made:
            here = self.of[element]
            assert here is not None
            if element in summary.cells:
                cell = self.of.get(summary.cells[element])
                if cell is not None:
                    elements.cells[here] = cell
            if element in summary.fields:
                elements.fields[here] = tuple(
                    None if field is None else self.of.get(field) for field in summary.fields[element]
                )

    def _labels(self) -> dict[int | None, Label]:
        """The labels of the results and their contents in the caller."""
        summary, found = self._summary, dict[int | None, Label]()
        for result, value in zip(summary.results, self._node.outputs, strict=True):
            if result is not None:
                found[result] = value
                found.setdefault(summary.cells.get(result), Place("contents", value))
                for index, field in enumerate(summary.fields.get(result, ())):
                    found.setdefault(field, Place("field", value, str(index)))
        return found
