"""Simplifies a program by small local rewrites, the rules of `irscope.transforms.cleanup.rules`.

One walk in textual order. A rule looks at one node and the producers of its operands, simplified already, and names values
that the node's results are equal to; the node is then removed. There are two kinds of equality:

* *the same thing*: the result is that value, or a view of exactly its elements in its layout. The difference is observable
  only to a caller who would get one tensor instead of two: a `t_` on one would change both. Such a view stays.
* *an equal tensor*: the result has new memory with the same elements. It is replaced only if element type, shape and strides
  are known to be the same, neither is written, and a caller does not get both (`irscope.transforms.cleanup.replaceability`).

Proofs are exact: NaN, the sign of zero and infinities are preserved, or the rule says for which types it holds. Ifs and
loops that are known to run one way are replaced by their contents. A second run may find a little more: a list whose only
writes were in a branch that never runs is then unwritten.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter
from typing import Any, Final

from irscope.analysis.per_graph import alias_db_of
from irscope.analysis.shapes import CallerVisible, reshaped_objects
from irscope.ir import (
    NOT_CONSTANT,
    Block,
    Edit,
    Erased,
    Graph,
    Node,
    Rewriter,
    TensorType,
    Value,
    constant_of,
    constant_value,
)
from irscope.transforms.base import PassRecord, Remark
from irscope.transforms.cleanup.replaceability import EscapeInfo
from irscope.transforms.cleanup.rules import RULES, Site

__all__ = ["canonicalize"]


_BY_OP: Final = {op: rule for rule in RULES for op in rule.ops}


def canonicalize(graph: Graph) -> PassRecord:
    """Apply the rules wherever they hold, and inline ifs and loops that are known to run one way; linear.

    >>> import irscope as irs
    >>> g = irs.parse('''graph(%x : Float(2, 3)):
    ...   %a : Float(3, 2) = aten::t(%x)
    ...   %b : Float(2, 3) = aten::t(%a)
    ...   %c : Float(2, 3) = aten::relu(%b)
    ...   return (%c)''')
    >>> [remark.rule for remark in canonicalize(g).remarks], str(canonicalize(g).after.node("c").inputs[0].type)
    (['transposed-back'], 'Float(2, 3)')
    """
    started = perf_counter()
    walk = _Walk(graph)
    pending = [graph.body]
    while pending:
        block = pending.pop()
        nodes = walk.block(block)
        pending.extend(reversed([inner for node in nodes for inner in node.blocks]))
    after = walk.rewriter.finish()
    return PassRecord("canonicalize", graph, after, walk.rewriter.edits, tuple(walk.remarks), perf_counter() - started)


class _Walk:
    """The state of one walk."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.rewriter = Rewriter(graph)
        self.remarks: list[Remark] = []
        self._onlookers: EscapeInfo | None = None
        self._reshaped = reshaped_objects(graph)
        self._held = CallerVisible(graph)

    def block(self, block: Block) -> list[Node]:
        """Simplify one block; return its nodes, including those of inlined ifs."""
        out: list[Node] = []
        edits: list[Edit] = []
        stack: list[Iterator[Node]] = [iter(block.nodes)]
        while stack:
            for node in stack[-1]:
                if node.blocks and (inner := self._inlined(node)) is not None:
                    edits.append(Erased(node, self.remarks[-1].because))
                    stack.append(iter(inner))
                    break
                if node.blocks or not self._simplified(node):
                    out.append(node)
                else:
                    edits.append(Erased(node, self.remarks[-1].because))
            else:
                stack.pop()
        if edits:
            self.rewriter.set_nodes(block, out, edits)
        return out

    def _inlined(self, node: Node) -> tuple[Node, ...] | None:
        """The nodes that replace an if or loop that always runs one way; None for any other node."""
        known = [constant_of(self.graph, value) for value in node.inputs[:2]]
        if node.op == "prim::If" and isinstance(known[0], bool):
            taken = node.blocks[0 if known[0] else 1]
            self._replace(node, taken.returns, "known-branch", f"the condition is always {known[0]}")
            return taken.nodes
        if node.op == "prim::Loop" and ((isinstance(known[0], int) and known[0] <= 0) or known[1] is False):
            self._replace(node, node.inputs[2:], "no-round", "the loop never runs a round")
            return ()
        return None

    def _simplified(self, node: Node) -> bool:
        rule = _BY_OP.get(node.op)
        if rule is None:
            return False
        equals = rule.find(self._site(node))
        if equals is None or not all(map(self._is_as_good, equals, node.outputs)):
            return False
        if not rule.is_same_thing and not all(map(_has_same_layout, equals, node.outputs)):
            return False
        name = f"%{self.graph.names[equals[0]]}" if equals else "nothing"
        if rule.is_another_object and self._held.identity_is_observable(node, equals[0]):
            because = f"it shows all of {name}, but a caller may get hold of both tensors"
            self.remarks.append(Remark("missed", "seen-apart", node.output, because, equals))
            return False
        for value, other in zip(node.outputs, equals, strict=True):
            obstacle = "" if rule.is_same_thing else self._obstacle(value, other)
            if obstacle:
                reason = "one of them is written" if obstacle == "written" else "a caller may get hold of both"
                self.remarks.append(
                    Remark("missed", f"{obstacle}-memory", value, f"it equals {name}, but {reason}", (other,))
                )
                return False
        if self._onlookers is not None:
            for value, other in zip(node.outputs, equals, strict=True):
                self._onlookers.become_one(value, other)
        if rule.is_another_object:
            self._held.become_one(node.output, equals[0])
        self._replace(node, equals, rule.name, f"it is {name}" if rule.is_same_thing else f"it equals {name}")
        return True

    def _replace(self, node: Node, equals: tuple[Value, ...], rule: str, because: str) -> None:
        for value, other in zip(node.outputs, equals, strict=True):
            self.rewriter.replace(value, other, reason=because)
        self.remarks.append(Remark("passed", rule, node.outputs[0] if node.outputs else node, because, equals))

    def _is_as_good(self, new: Value, old: Value) -> bool:
        """Whether the new value may be read wherever the old one was, and its type is known at least as well."""
        if new in self._reshaped or old in self._reshaped:
            return False
        if isinstance(old.type, TensorType) and isinstance(new.type, TensorType):
            return new.type == old.type or not (old.type.is_static and not new.type.is_static)
        return new.type == old.type

    def _site(self, node: Node) -> Site:
        return Site(node, tuple(map(self.rewriter.resolve, node.inputs)), self._producer, self._constant, self._is_written)

    def _producer(self, value: Value) -> tuple[Node, tuple[Value, ...]] | None:
        node = self.graph.producer.get(value)
        return None if node is None else (node, tuple(map(self.rewriter.resolve, node.inputs)))

    def _constant(self, value: Value) -> Any:
        node = self.graph.producer.get(self.rewriter.resolve(value))
        return constant_value(node) if node is not None and node.op == "prim::Constant" else NOT_CONSTANT

    def _is_written(self, value: Value) -> bool:
        return alias_db_of(self.graph).is_written(value)

    def _obstacle(self, a: Value, b: Value) -> str:
        if not isinstance(a.type, TensorType):
            return ""
        if self._onlookers is None:
            self._onlookers = EscapeInfo(alias_db_of(self.graph))
        return self._onlookers.obstacle(a, b)



def _has_same_layout(a: Value, b: Value) -> bool:
    """Whether two values have one type; of tensors, one that fixes element type, shape, layout and device."""
    if not isinstance(a.type, TensorType):
        return a.type == b.type
    return a.type.is_static and a.type.strides is not None and a.type == b.type
