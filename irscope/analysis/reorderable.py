"""The reorderable nodes of a graph: no effect, no write, no random draw, and no read of memory that is written.

Only data ties such a node to others, so most of a program needs no further analysis. The check is cheap and conservative: if
it does not establish this at once, the answer is no.
"""

from __future__ import annotations

from irscope.analysis.alias.build import WAITS
from irscope.analysis.alias.query import AliasDb
from irscope.analysis.effects import changes_random_state, is_stopping
from irscope.ir import GENERATOR, Node, TensorType
from irscope.ops.schema import draws_random_numbers, has_side_effects

__all__ = ["ReorderableNodes"]


class ReorderableNodes:
    """The reorderable nodes of one graph.

    >>> from irscope.ir.text.parser import parse
    >>> g = parse("graph(%x : Tensor):\\n  %a : Tensor = aten::neg(%x)\\n  %b : Tensor = aten::relu_(%a)\\n  return (%b)")
    >>> reorderable = ReorderableNodes(AliasDb(g))
    >>> reorderable.is_reorderable(g.node("a")), reorderable.is_reorderable(g.node("b"))
    (True, False)
    """

    def __init__(self, db: AliasDb) -> None:
        sealed = db.sealed
        self._element_of, self._class_of, self._is_written = sealed.element_of, sealed.class_of, sealed.is_written
        self._holds = db.reach.inside
        self._active = {write.node for write in sealed.writes}
        self._calls = sealed.calls
        self._ops: dict[str, bool] = {}

    def is_reorderable(self, node: Node) -> bool:
        """Whether a node is reorderable; false also if the cheap check does not establish it."""
        reorderable = self._ops.get(node.op)
        if reorderable is None:
            reorderable = self._ops[node.op] = _is_reorderable_op(node.op)
        if not reorderable or node.blocks or node in self._active or node.id in self._calls:
            return False
        element_of = self._element_of
        for value in node.inputs:
            element = element_of.get(value)
            if element is not None:
                place = self._class_of[element]
                if self._is_written[place] or place in self._holds:
                    return False
            if value.type.__class__ is not TensorType and value.type == GENERATOR:
                return False
        return True


def _is_reorderable_op(op: str) -> bool:
    restless = has_side_effects(op) or is_stopping(op) or draws_random_numbers(op) or changes_random_state(op)
    return not restless and op not in WAITS and op != "prim::GetAttr"
