"""Steps that derive a value from another by its producer or its block: a view, a cast, an item of a list, a result of a block.

A step says this in words, and whether it always holds. Chains of steps are followed in `irscope.analysis.alias.explain.paths`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from irscope.analysis.alias.build import is_inlined
from irscope.analysis.alias.explain.names import Words
from irscope.analysis.alias.points_to import Label
from irscope.analysis.effects import OBJECT, Signatures
from irscope.analysis.views import ViewAliases
from irscope.ir import Block, Node, TensorType, Value
from irscope.ops.traits import ALWAYS_SHARES

__all__ = ["Derivation", "Step"]


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a path: `source` may be `target`, because of `node`."""

    source: Label
    target: Label
    words: str
    node: Node | None
    is_certain: bool
    """Whether the source always is (a view of) the target."""


class Derivation:
    """Derives values of one graph from others, step by step."""

    def __init__(self, words: Words, views: Callable[[], ViewAliases]) -> None:
        self._views = views
        self._words, self._graph, self._points_to = words, words.graph, words.points_to
        self._name = words.name
        self._signatures = Signatures()

    def element(self, value: Value) -> int | None:
        return self._points_to.element_of.get(value)

    def certain(self, value: Value) -> list[Step]:
        """The steps from a value back through views and casts alone."""
        steps: list[Step] = []
        step = self.step(value)
        while step is not None and step.is_certain and isinstance(step.target, Value):
            steps.append(step)
            step = self.step(step.target)
        return steps

    def step(self, value: Value) -> Step | None:
        """The step from a value to what it is derived from, by its producer or by the node whose parameter it is."""
        node = self._graph.producer.get(value)
        name = f"%{self._name(value)}"
        if node is None:
            return self._parameter(value)
        index = node.outputs.index(value)
        if node.op in ("prim::TupleUnpack", "prim::TupleIndex", "prim::ListUnpack"):
            holder = node.inputs[0]
            element = self.element(value)
            label = self._points_to.labels[element] if element is not None else holder
            return Step(value, label, f"{name} is taken out of %{self._name(holder)} ({node.op})", node, False)
        if node.blocks:
            return self._structured(value, node, index)
        if node.op in ("prim::unchecked_cast", "prim::profile", "prim::Guard", "prim::ConstantChunk"):
            kind = "a part of" if node.op == "prim::ConstantChunk" else "the same as"
            certain = node.op != "prim::ConstantChunk" or self._keeps_storage(value)
            return Step(
                value, node.inputs[0], f"{name} is {kind} %{self._name(node.inputs[0])} ({node.op})", node, certain
            )
        called = self._points_to.calls.get(node.id)
        if called is not None:
            element = self.element(value)
            given = self._points_to.labels[element] if element is not None else value
            words = f"{name} is {self._words.describe_label(given)}, which {called.callee} returns ({node.op})"
            return Step(value, given, words, node, False) if given is not value else None
        signature = self._signatures.of(node)
        sources = signature.results[index] if index < len(signature.results) else ()
        if signature.is_container and not sources and node.inputs:
            element = self.element(value)
            if (0, OBJECT) in signature.writes and element == self.element(node.inputs[0]):  # `list += list`
                return Step(
                    value, node.inputs[0], f"{name} is %{self._name(node.inputs[0])} after {node.op}", node, True
                )
            label = self._points_to.labels[element] if element is not None else node.inputs[0]
            return Step(value, label, f"{name} is taken out of %{self._name(node.inputs[0])} ({node.op})", node, False)
        if len(sources) == 1 and sources[0][1] == OBJECT:
            operand = node.inputs[sources[0][0]]
            if signature.writes:
                return Step(value, operand, f"{name} is %{self._name(operand)} after {node.op}", node, True)
            is_view = node.op in ALWAYS_SHARES or self._is_placed_in(value)
            words = f"{name} {'is' if is_view else 'may be'} a view of %{self._name(operand)} ({node.op})"
            return Step(value, operand, words, node, is_view and self._keeps_storage(value))
        return None

    def _is_placed_in(self, value: Value) -> bool:
        """Whether an op that may copy never does here, by the strides that are known."""
        if not isinstance(value.type, TensorType):
            return False
        placement = self._views().placement(value)
        return placement.kind == "view" and placement.is_decided

    def _keeps_storage(self, value: Value) -> bool:
        """Whether no tensor object that the value may be gets another storage (`set_`), after which a view need not stay one."""
        element = self.element(value)
        return element is None or not self._points_to.is_reshaped[self._points_to.class_of[element]]

    def _structured(self, value: Value, node: Node, index: int) -> Step | None:
        name = f"%{self._name(value)}"
        if node.op == "prim::Loop" and len(node.blocks[0].params) > index + 1:
            param = node.blocks[0].params[index + 1]
            return Step(value, param, f"{name} is %{self._name(param)} after the loop", node, False)
        found = [block.returns[index] for block in node.blocks if len(block.returns) > index]
        if not found:
            return None
        element = self.element(value)
        returned = next((other for other in found if self.element(other) == element), found[0])
        certain = is_inlined(node) and node.op != "prim::fork"
        return Step(value, returned, f"{name} is %{self._name(returned)}, a result of {node.op}", node, certain)

    def _parameter(self, value: Value) -> Step | None:
        block: Block = self._graph.block_of[value]
        owner = self._graph.owner.get(block)
        if owner is None:
            return None
        index = block.params.index(value)
        name = f"%{self._name(value)}"
        if owner.op == "prim::Loop":
            start = owner.inputs[index + 1] if index else None
            return (
                Step(value, start, f"{name} is %{self._name(start)} in every round of the loop", owner, False)
                if start is not None
                else None
            )
        if len(block.params) == len(owner.inputs):
            operand = owner.inputs[index]
            return Step(value, operand, f"{name} stands for %{self._name(operand)} in {owner.op}", owner, True)
        return None
