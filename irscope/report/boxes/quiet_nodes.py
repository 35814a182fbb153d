"""Finds nodes without a box, shown by the text alone: constants, number arithmetic, and lists that their only user unpacks."""

from __future__ import annotations

from collections.abc import Iterable

from irscope.ir import ANY, ClassType, Graph, Node, TensorType, Type, Value, walk
from irscope.ops.registry import category_of
from irscope.ops.traits import PACKS_SEQUENCE

__all__ = ["CONSTANT", "quiet_nodes"]

CONSTANT = "prim::Constant"
_ALWAYS_SHOWN = frozenset({"prim::Print"})


def quiet_nodes(graph: Graph) -> set[Node]:
    """The nodes of a graph that touch no tensor or object, and the lists and tuples with a single user.

    A list whose elements are read or changed by position keeps its box.
    """
    quiet: set[Node] = set()
    data = _Data()
    for node in reversed(list(graph.nodes())):  # the contents of a block come before the node that holds it
        is_number_work = not data.in_any(node.outputs) and not data.in_any(node.inputs)
        if node.blocks:
            is_number_work = is_number_work and all(inner in quiet for block in node.blocks for inner in block.nodes)
        readers = graph.users.get(node.outputs[0], ()) if node.op in PACKS_SEQUENCE else ()
        is_link = node.op in PACKS_SEQUENCE and len(readers) <= 1 and not any(_takes_apart(use.user) for use in readers)
        if node.op == CONSTANT or is_link or (is_number_work and node.op not in _ALWAYS_SHOWN):
            quiet.add(node)
    return quiet


def _takes_apart(user: object) -> bool:
    return isinstance(user, Node) and user.op not in PACKS_SEQUENCE and category_of(user) == "container"


class _Data:
    """Checks whether values may be or contain tensors or objects; cached by type."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Type, bool]] = {}

    def in_any(self, values: Iterable[Value]) -> bool:
        for value in values:
            known = self._known.get(id(value.type))
            if known is None:
                known = self._known[id(value.type)] = value.type, _holds_data(value.type)
            if known[1]:
                return True
        return False


def _holds_data(type: Type) -> bool:
    return any(isinstance(part, TensorType | ClassType) or part == ANY for part in walk(type))
