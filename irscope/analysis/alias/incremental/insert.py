"""Adds created nodes to an existing points-to graph, reusing the elements by which users know their results.

These are rules 1, 4 and 5 of the argument in `irscope.analysis.alias.incremental.update`. A created node may be an erased
one under other names, so this builds on `remove`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from irscope.analysis.alias.build import NOTHING, STATISTICS, NodeRules, copy_flag, is_copy_by_types
from irscope.analysis.alias.incremental.delta_builder import CannotFollow, refuse
from irscope.analysis.alias.incremental.net_edits import NetEdits
from irscope.analysis.alias.incremental.remove import NO_CONSTANTS, Erasing
from irscope.ir import NOT_CONSTANT, Graph, Node, Value, constant_of, make_block, make_node
from irscope.ops.traits import MAY_COPY, REBINDS_STORAGE

__all__ = ["Creating"]


class Creating:
    """Applies the created nodes of one record, after its erased nodes."""

    def __init__(self, erasing: Erasing, edits: NetEdits) -> None:
        self._erasing, self._edits = erasing, edits
        self.elements, self.rules, self.walk = erasing.elements, erasing.rules, erasing.walk

    def create(self, node: Node) -> None:
        """Add a node; a group is added with all its nodes."""
        structure_of = self.elements.structures.of
        pending: list[Iterator[Node]] = [iter((node,))]
        groups: list[Node] = []
        while pending:
            for node in pending[-1]:
                if node.op == "prim::Constant" and structure_of(node.outputs[0].type) is None:
                    continue
                if self._edits.replaced:
                    node = self._renamed(node)
                if node.blocks:
                    self._erasing.check_group(node)
                    self._lend(node)
                    self.walk.enter(node)
                    groups.append(node)
                    pending.append(iter(node.blocks[0].nodes))
                    break
                self._add(node, NOTHING if node.op in MAY_COPY and self._is_copied(node) else self._erasing.plan_of(node))
            else:
                pending.pop()
                if groups:
                    self.walk.leave_group(groups.pop())

    def _renamed(self, node: Node) -> Node:
        if not any(value in self._edits.replaced for value in node.inputs):
            return node
        inputs = tuple(map(self._edits.resolve, node.inputs))
        return make_node(node.id, node.op, inputs, node.outputs, node.attrs, node.blocks, node.location, node.scope)

    def _is_copied(self, node: Node) -> bool:
        """Whether a node copies in every run, as a build would decide by declared types."""
        self.elements.typed.add(node.inputs[0])
        flag = copy_flag(node)
        copies = is_copy_by_types(node)
        if copies or flag is None:
            return copies
        self.elements.consulted.add(flag)
        return self._known(node, flag) is True

    def _known(self, node: Node, value: Value) -> Any:
        """The constant that a created node depends on."""
        if self.rules.graph is NO_CONSTANTS:
            self.rules.graph = Graph(make_block(0, (), tuple(self._edits.added), ()))
        found = constant_of(self.rules.graph, value)
        if found is NOT_CONSTANT:
            raise CannotFollow(f"{node.op} depends on a number that no created node defines")
        return found

    def _add(self, node: Node, plan: Any) -> None:
        elements = self.elements
        if plan is NOTHING:
            old = self._erasing.forgotten.get(node.id)
            if old is not None and old.outputs is not node.outputs:
                self._hand_on(old, node)
            for value in node.outputs:
                elements.keep(value)
            return
        if node.id in self._erasing.forgotten and self._is_carried_over(node):
            return
        if plan.__class__ is tuple:
            index, does_write, to_shape = plan
            element = elements.element(node.inputs[index])
            if element is None:
                raise CannotFollow(f"an operand of {node.op} is None")
            if does_write:
                self.rules.builder.write(node, element, to_shape=to_shape)
            for value in node.outputs:
                elements.element_of[value] = element
            return
        self._add_by_rule(node, plan)

    def _add_by_rule(self, node: Node, rule: Any) -> None:
        elements = self.elements
        known = node.inputs[1:2] if node.op == "prim::TupleIndex" else ()
        if node.op in REBINDS_STORAGE:
            refuse()
        if node.op in STATISTICS:
            known = node.inputs[STATISTICS[node.op][2] :][:1]
        for value in known:
            self._known(node, value)
        is_something = rule is NodeRules.constant and any(payload is not None for payload in node.attrs.values())
        if is_something or (node.op in STATISTICS and self.rules.signatures.of(node).is_pure):
            for value in node.outputs:
                elements.keep(value)
        elif any(value in elements.element_of or value in elements.nones for value in node.outputs):
            raise CannotFollow(f"{node.op} redefines a value that the points-to graph already has")
        rule(self.rules, node)

    def _hand_on(self, old: Node, new: Node) -> None:
        """Keep the elements of a renamed node's fresh results."""
        elements = self.elements
        for known, value in zip(old.outputs, new.outputs, strict=False):
            element = elements.element_of.get(known)
            if element is not None and value not in elements.element_of and elements.owns(known, element):
                elements.element_of[value] = element
                elements.relabelled[element] = value

    def _is_carried_over(self, node: Node) -> bool:
        """Whether an erased node is created again, with operands that are the same memory; if so, keeps what it added and
        renames its results."""
        old, element_of = self._erasing.forgotten[node.id], self.elements.element_of
        if old.op != node.op or old.attrs != node.attrs or len(old.inputs) != len(node.inputs):
            return False
        if node.op in STATISTICS:
            flag = STATISTICS[node.op][2]
            if node.inputs[flag : flag + 1] != old.inputs[flag : flag + 1]:
                return False
        for known, new in zip(old.inputs, node.inputs, strict=True):
            if known is not new and element_of.get(known) != element_of.get(new):
                return False
        for known, new in (*zip(old.inputs, node.inputs, strict=True), *zip(old.outputs, node.outputs, strict=True)):
            if known is not new and (known.type != new.type or known in self.elements.consulted):
                return False
        for known, new in zip(old.outputs, node.outputs, strict=True):
            element = element_of.get(known)
            if element_of.get(new, element) != element:
                return False
        self._rename(old, node)
        return True

    def _rename(self, old: Node, new: Node) -> None:
        elements = self.elements
        for known, value in zip(old.outputs, new.outputs, strict=True):
            element = elements.element_of.get(known)
            if element is None:
                continue
            elements.element_of[value] = element
            if value is not known and elements.label(element) is known:
                elements.relabelled[element] = value
        self._erasing.in_doubt.pop(old, None)
        self._erasing.writes.pop(old.id, None)

    def _lend(self, node: Node) -> None:
        """Give the values inside a new group the elements by which users know the group's results."""
        elements, block = self.elements, node.blocks[0]
        for value, inner in zip(node.outputs, block.returns, strict=True):
            element = elements.element_of.get(value)
            if element is None or inner in elements.element_of or inner in block.params:
                continue
            if elements.label(element) is value and elements.is_plain(value, element):
                elements.element_of[inner] = element
                elements.relabelled[element] = inner
