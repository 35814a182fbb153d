"""Removes what erased nodes added to a points-to graph, if it can be distinguished from what others added.

This is rule 2 of the argument in `irscope.analysis.alias.incremental.update`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from irscope.analysis.alias.build import NO_CALLEES, NOTHING, STATISTICS, NodeRules, Walk, is_inlined
from irscope.analysis.alias.incremental.delta_builder import CannotFollow, Extension, NothingOutside
from irscope.analysis.alias.points_to import TENSOR, PointsTo, PointsToBuilder, Structure, Structures, Write
from irscope.analysis.effects import Signatures
from irscope.ir import Graph, Node, TensorType, make_block
from irscope.ops.traits import REBINDS_STORAGE

__all__ = ["NO_CONSTANTS", "Erasing", "Knowledge"]

_SHARES_ONLY: Final = frozenset(
    {
        NodeRules.constant,
        NodeRules.uninitialized,
        NodeRules.tuple_unpack,
        NodeRules.tuple_index,
        NodeRules.list_unpack,
    }
)
"""Rules that add only names, and edges down from their results, if the results are tensors or numbers."""

NO_CONSTANTS: Final = Graph(make_block(0, (), (), ()))


class Knowledge:
    """Cached facts about ops and types, shared by all graphs of a history."""

    def __init__(self) -> None:
        self.signatures = Signatures()
        self.structures = Structures()
        self.plans: dict[tuple[str, int], Any] = {}


class Erasing:
    """Applies the erased nodes of one record: which writes and names are gone, and which nodes are in doubt."""

    def __init__(self, points_to: PointsTo, knowledge: Knowledge) -> None:
        self.before = points_to
        self.elements = Extension(points_to, knowledge.structures)
        self.builder = PointsToBuilder(self.elements, NothingOutside(self.elements))
        self.rules = NodeRules(NO_CONSTANTS, self.builder, knowledge.signatures, NO_CALLEES)
        self.walk = Walk(self.rules)
        self._plans = knowledge.plans
        self.writes: dict[int, tuple[Write, ...]] = {}
        """The remaining writes of a changed node, by its id."""
        self.forgotten: dict[int, Node] = {}
        self.in_doubt: dict[Node, Any] = {}
        """Erased nodes with their rules, unless the same node is created again."""

    def forget(self, nodes: Iterable[Node]) -> None:
        """Record what disappears with some nodes; nodes whose rules may have added more than can be removed stay in doubt."""
        gone, forgotten, structure_of = self.elements.gone, self.forgotten, self.elements.structures.of
        todo = list(nodes)
        for node in todo:  # grows
            if node.op == "prim::Constant" and structure_of(node.outputs[0].type) is None:
                continue  # a number is not memory: no rule ever saw an element of it
            gone.update(node.outputs)
            if node.blocks:
                self.check_group(node)
                gone.update(node.blocks[0].params)
                todo.extend(node.blocks[0].nodes)
                continue
            forgotten[node.id] = node
            plan = self.plan_of(node)
            if plan is NOTHING:
                continue
            if plan.__class__ is not tuple:
                self.in_doubt[node] = plan
            elif plan[1]:
                self.writes[node.id] = ()

    def forget_rule(self, node: Node, rule: Any) -> None:
        """Remove what a rule added, if that is only names, writes and edges that are not reachable from above."""
        if rule in (NodeRules.constant, NodeRules.uninitialized):
            return
        structures = [self.elements.structures.of(value.type) for value in node.outputs]
        if rule in (NodeRules.list_construct, NodeRules.tuple_construct):
            if any(s is not None and s.kind != "tuple" and s.content not in (None, TENSOR) for s in structures):
                raise CannotFollow(f"{node.op} merged its operands into one memory location")
            if any(s is not None and s.kind not in ("tuple", "box") for s in structures):
                raise CannotFollow(f"{node.op} made a value of any type")
            return
        is_plain = all(structure in (None, TENSOR) for structure in structures)
        if rule in _SHARES_ONLY and is_plain:
            return
        signature = self.rules.signatures.of(node)
        if not is_plain and (
            any(signature.results) or any(s is not None and not _holds_tensors(s) for s in structures)
        ):
            raise CannotFollow(f"the results of {node.op} were merged with its operands")
        joins = signature.is_container and signature.writes
        if rule not in (NodeRules.by_signature, NodeRules.get_item) or signature.is_opaque or signature.stores or joins:
            raise CannotFollow(f"the effects of {node.op} cannot be removed one by one")
        if node.op in REBINDS_STORAGE:
            raise CannotFollow(f"{node.op} replaced a storage")
        self.writes[node.id] = ()

    def plan_of(self, node: Node) -> Any:
        key = (node.op, len(node.inputs))
        plan: Any = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = self.walk.plan(node)
        if plan.__class__ is dict:
            kind = node.inputs[0].type.__class__
            chosen: Any = plan.get(kind)
            if chosen is None:
                chosen = plan[kind] = self.walk.plan(node, kind)
            plan = chosen
        if plan is NodeRules.unless_copied:
            return (0, False, False) if node.inputs[0].type.__class__ is TensorType else NodeRules.by_signature
        if plan is NodeRules.by_signature and node.op not in STATISTICS and self.rules.signatures.of(node).is_pure:
            return NOTHING
        return plan

    def check_group(self, node: Node) -> None:
        if not is_inlined(node) or node.op == "prim::fork":
            raise CannotFollow(f"{node.op} has blocks, and they come or go")
        block = node.blocks[0]
        for inner, outer in (
            *zip(block.params, node.inputs, strict=True),
            *zip(block.returns, node.outputs, strict=True),
        ):
            if inner.type is outer.type or inner.type.__class__ is outer.type.__class__ is TensorType:
                continue
            if inner.type != outer.type:
                raise CannotFollow(f"{outer!r} has another type inside {node.op}")


def _holds_tensors(structure: Structure) -> bool:
    return structure.kind == "tensor" or (structure.kind == "box" and structure.content in (None, TENSOR))
