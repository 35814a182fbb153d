"""Finds the values that may require a gradient, by a forward data-flow analysis.

The property flows along data (through containers, ifs, loops and groups), and through memory: once a node writes with an
operand that may require a gradient, so may every value in the regions that it writes, including views made before the
write. An op without a schema, and an attribute that is read, may bring in a parameter. "No" is certain; "may" is not.
Regions are the alias db's, which never puts one memory into two of them. Each value is marked once and then followed to
its users, so the work is linear in the uses.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from irscope.analysis.alias.build import EVERYTHING
from irscope.analysis.alias.query import AliasDb
from irscope.ir import NOT_CONSTANT, Block, Graph, Node, PrimitiveType, TensorData, TensorType, Use, Value, constant_of
from irscope.ops.registry import bind, effect_of, overloads, schema_of
from irscope.ops.traits import CUTS_GRADIENT

__all__ = ["may_require_grad"]

_ENTRANCES: Final = frozenset({"prim::GetAttr", "prim::CallMethod", "prim::CallFunction"})
_CARRIES_GRADIENT: Final = ("float", "bfloat", "complex")


def may_require_grad(graph: Graph, db: AliasDb, inputs: Iterable[Value] | None = None) -> frozenset[Value]:
    """Returns the values that may require a gradient when the graph runs.

    `inputs` are those that do; without it, an input does unless its type (`requires_grad=0`) or its bound tensor says no.

    >>> from irscope.ir.text.parser import parse
    >>> g = parse('''graph(%x : Float(2, requires_grad=0), %w : Float(2)):
    ...   %a : Tensor = aten::relu(%x)
    ...   %b : Tensor = aten::mul(%a, %w)
    ...   return (%b)''')
    >>> sorted(g.names[value] for value in may_require_grad(g, AliasDb(g)))
    ['b', 'w']
    """
    flow = _Flow(graph, db)
    flow.mark(v for v in graph.inputs if _enters(graph, v)) if inputs is None else flow.mark(inputs)
    for node in graph.nodes():
        if _brings_in(graph, node):
            flow.reach(node)
    flow.run()
    return frozenset(flow.found)


def _enters(graph: Graph, value: Value) -> bool:
    """Whether an input may require a gradient, by its bound tensor, or else by its type."""
    known = getattr(graph.bound.get(value), "requires_grad", None)
    if known is None and isinstance(value.type, TensorType):
        known = value.type.requires_grad
    return known is not False


def _brings_in(graph: Graph, node: Node) -> bool:
    """Whether a result of a node may require a gradient although none of its inputs does."""
    if node.op == "prim::Constant":
        payload = node.attrs.get("value")
        return isinstance(payload, TensorData) and bool(getattr(payload.original, "requires_grad", False))
    if node.op in _ENTRANCES:
        return True
    if _known_not_to(node.op):
        return False
    schema = schema_of(node)
    if schema is None:
        return not node.blocks and not node.op.startswith("prim::") and effect_of(node) == "opaque"
    flag = bind(node, schema).get("requires_grad", False)
    if isinstance(flag, Value):
        flag = constant_of(graph, flag)
    return flag is NOT_CONSTANT or bool(flag)


@lru_cache(maxsize=1 << 12)
def _known_not_to(op: str) -> bool:
    """Whether every overload of an op is known, and none has a `requires_grad` argument."""
    found = overloads(op)
    return bool(found) and not any(
        argument.name == "requires_grad" for schema in found for argument in schema.arguments
    )


class _Flow:
    """The values marked so far, and the worklist of those still to be followed."""

    def __init__(self, graph: Graph, db: AliasDb) -> None:
        self.graph = graph
        self.db = db
        self.found: set[Value] = set()
        self._todo: list[Value] = []
        self._regions: dict[int, list[Value]] | None = None
        self._everything = False

    def mark(self, values: Iterable[Value]) -> None:
        """Mark values as possibly requiring a gradient, unless their type cannot."""
        for value in values:
            if value not in self.found and _can(value):
                self.found.add(value)
                self._todo.append(value)

    def run(self) -> None:
        """Follow every marked value to its users."""
        while self._todo:
            for use in self.graph.users.get(self._todo.pop(), ()):
                self._follow(use)

    def _follow(self, use: Use) -> None:
        user, index = use
        if isinstance(user, Block):
            self._leave(user, index)
        elif user.op == "prim::Loop":
            if index >= 2:
                self.mark((user.blocks[0].params[index - 1], user.outputs[index - 2]))
        elif user.op == "prim::If":
            return
        elif user.blocks:
            self.mark(block.params[index] for block in user.blocks if index < len(block.params))
        elif user.op not in CUTS_GRADIENT:
            self.reach(user)

    def _leave(self, block: Block, index: int) -> None:
        owner = self.graph.owner.get(block)
        if owner is None:
            return
        if owner.op != "prim::Loop":
            self.mark(owner.outputs[index : index + 1])
        elif index >= 1:
            self.mark((block.params[index], owner.outputs[index - 1]))

    def reach(self, node: Node) -> None:
        """Mark the results of a node that reads a marked value, and the memory that it writes."""
        self.mark(node.outputs)
        if effect_of(node) == "pure":
            return
        for write in self.db.accesses(node).writes:
            if write.place == EVERYTHING and not self._everything:
                self._everything = True
                self.mark(self.graph.values())
            elif write.place != EVERYTHING:
                self.mark(self._by_region().pop(self.db.region(write.place), ()))

    def _by_region(self) -> dict[int, list[Value]]:
        if self._regions is None:
            self._regions = {}
            sealed = self.db.sealed
            for value, element in sealed.element_of.items():
                self._regions.setdefault(self.db.region(sealed.class_of[element]), []).append(value)
        return self._regions


def _can(value: Value) -> bool:
    """Whether a value of its type can require a gradient, or hold one that does."""
    type = value.type
    if isinstance(type, TensorType):
        return type.dtype is None or type.dtype.startswith(_CARRIES_GRADIENT)
    return not isinstance(type, PrimitiveType) or type.name == "Any"
