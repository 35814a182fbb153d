"""Summarises the callees of a program, each walked once, callees before callers.

Mutually recursive programs are walked together, with one element for each parameter and result, shared by all
their own calls: as with a loop, what one round passes to the next becomes an edge, and cycles collapse. A
call from outside the cycle enters by elements of its own, so that two such calls are still distinguished.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from irscope.analysis.alias.build.callee_summary import NO_CALLEES, Effects, Summaries, Summary, summarize
from irscope.analysis.alias.build.mod_ref import TASKS, WAITS, may_draw
from irscope.analysis.alias.build.node_rules import NodeRules
from irscope.analysis.alias.build.walk import Walk
from irscope.analysis.alias.points_to import Elements, PointsToBuilder, Structure, Structures, collapse_cycles
from irscope.analysis.effects import Signatures, callee_of, calls_in, is_stopping, operands_of
from irscope.errors import ArgumentError
from irscope.ir import Graph, Module, Node, Value
from irscope.ops.schema import has_side_effects

__all__ = ["callees_of", "summaries"]


def callees_of(given: Any) -> Mapping[str, Graph]:
    """The callees that a user passed as a Module or a mapping, by name. Raises ArgumentError for anything else."""
    found = given.graphs if isinstance(given, Module) else {} if given is None else given
    if not isinstance(found, Mapping) or not all(isinstance(graph, Graph) for graph in found.values()):
        hint = "pass a Module, or a dict such as {'helper': irs.parse(text)}"
        raise ArgumentError(f"callees are graphs by their names, not {type(given).__name__}", hint=hint)
    return found


def summaries(graph: Graph, callees: Mapping[str, Graph], structures: Structures) -> Summaries:
    """The summary of each program that `graph` calls, directly or through others.

    Raises ArgumentError for a call that does not fit its callee.
    """
    if not callees:
        return NO_CALLEES
    names: dict[str, int] = {}
    edges: dict[int, list[int]] = {}
    todo = list(_note_calls(graph, callees, names))
    for name in todo:  # grows
        numbered = len(names)
        called = _note_calls(callees[name], callees, names)
        todo.extend(other for other in called if names[other] >= numbered)
        if called:
            edges[names[name]] = [names[other] for other in called]
    class_of, _ = collapse_cycles(len(names), edges)
    circles: dict[int, dict[str, Graph]] = {}
    for name, index in names.items():
        circles.setdefault(class_of[index], {})[name] = callees[name]
    found: dict[str, Summary] = {}
    for circle in sorted(circles):
        members = circles[circle]
        found.update(_Circle(members, found, structures).summaries())
    return found


def _note_calls(graph: Graph, callees: Mapping[str, Graph], names: dict[str, int]) -> dict[str, None]:
    """The known callees of one program; each gets a number at its first call."""
    found: dict[str, None] = {}
    for node, name in calls_in(graph):
        callee = callees.get(name)
        if callee is None:
            continue
        given, wanted = (len(operands_of(node)), len(node.outputs)), (len(callee.free_inputs), len(callee.outputs))
        if given != wanted:
            what = f"{node!r} passes {given[0]} operands to {name!r} for {given[1]} results"
            raise ArgumentError(f"{what}; {name!r} takes {wanted[0]} and returns {wanted[1]}", hint="check callees")
        names.setdefault(name, len(names))
        found[name] = None
    return found


class _Circle:
    """Mutually recursive programs (usually a single program), walked with one builder."""

    def __init__(self, members: Mapping[str, Graph], callees: Summaries, structures: Structures) -> None:
        first = next(iter(members.values()))
        self.builder = PointsToBuilder(Elements(structures))
        self.elements, self.outside = self.builder.elements, self.builder.outside
        self._rules = NodeRules(first, self.builder, Signatures(), callees)
        self._rules.calls_back = self._call_back
        self._members = members
        self._calls: list[tuple[Node, str]] = []
        self._entered: dict[str, list[tuple[int, Structure] | None]] = {}
        self._called: dict[str, list[int | None]] = {}

    def summaries(self) -> dict[str, Summary]:
        """Walk the members, and reduce each of them to its summary."""
        for name, graph in self._members.items():
            self._enter_program(name, graph)
        walk = Walk(self._rules)
        for graph in self._members.values():
            self._rules.graph = graph
            walk.visit(graph)
        for node, name in self._calls:
            for value, result in zip(node.outputs, self._members[name].outputs, strict=True):
                self._flow(self.elements.element(value), self.elements.element(result), node)
        effects = self._effects()
        constants = [
            v for g in self._members.values() for n in g.nodes() if n.op == "prim::Constant" for v in n.outputs
        ]
        return {
            name: summarize(self.builder, name, self._entered[name], graph.outputs, constants, effects)
            for name, graph in self._members.items()
        }

    def _enter_program(self, name: str, graph: Graph) -> None:
        """Create elements for the parameters: as an outside caller passes them, and as the program sees them."""
        elements = self.elements
        is_recursive = any(called in self._members for _, called in calls_in(graph)) or len(self._members) > 1
        entered, called = self._entered.setdefault(name, []), self._called.setdefault(name, [])
        for value in graph.inputs:
            structure = elements.structures.of(value.type)
            element = None
            if structure is not None and value in graph.bound:
                elements.element_of[value] = self.outside.of("input", structure)
            elif structure is not None:
                passed = element = elements.fresh(structure, value)
                if is_recursive:
                    element = elements.fresh(structure, value)
                    elements.flow(element, passed)
                elements.element_of[value] = element
                entered.append((passed, structure))
            if value not in graph.bound:
                called.append(element)
                if structure is None:
                    entered.append(None)

    def _call_back(self, node: Node) -> bool:
        """Handle a call of a member; returns whether it is one."""
        name = callee_of(self._rules.graph, node)
        if name is None or name not in self._members:
            return False
        for operand, param in zip(operands_of(node), self._called[name], strict=True):
            self._flow(param, self.elements.element(operand), node)
        for value in node.outputs:
            self._own(value)
        self._calls.append((node, name))
        return True

    def _own(self, value: Value) -> None:
        structure = self.elements.structures.of(value.type)
        if structure is not None:
            self.elements.element_of[value] = self.elements.fresh(structure, value)

    def _flow(self, source: int | None, target: int | None, node: Node) -> None:
        if source is not None and target is not None:
            self.elements.flow(source, target, node)

    def _effects(self) -> Effects:
        """The members' effects other than on memory; each member has those of all."""
        unseen = {write.node for write in self.builder.writes if write.element == self.outside.opaque_element}
        effect = random = stops = waits = starts = unknown = False
        for graph in self._members.values():
            for node in graph.nodes():
                known = self.builder.calls.get(node.id)
                if known is not None:
                    effect, random = effect or known.has_side_effect, random or known.is_random
                    stops, waits = stops or known.stops, waits or known.waits
                    starts, unknown = starts or known.starts, unknown or known.is_unseen
                    continue
                is_unseen = node in unseen
                is_own = callee_of(graph, node) in self._members
                effect = effect or is_unseen or (has_side_effects(node.op) and not is_own)
                random = random or (not is_own and may_draw(graph, node, is_unseen))
                stops, waits = stops or is_stopping(node.op), waits or node.op in WAITS
                starts, unknown = starts or node.op in TASKS, unknown or is_unseen
        return Effects(effect, random, stops, waits, starts, unknown)
