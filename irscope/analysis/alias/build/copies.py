"""Decides which results of ops that may copy are certainly copies, by the types of the program.

`to`, `contiguous`, `reshape` and their like return their operand, a view of it, or a copy (`MAY_COPY`). Their schemas must say that
the result may share memory; the types often say that it does not.

**Why a "copy" is sound.** Such an op returns either a fresh tensor or a tensor in the operand's memory, and it is known what the latter
would look like: `to`, `type_as` and `contiguous` return the operand itself, so element type, extents and strides are those of the
operand; `ravel` returns what is contiguous already; the others return all elements in row-major order with other extents, which
strides permit or not (`view_strides`, torch's own rule, in which the strides of axes of extent 1 do not matter). If the types exclude
that, the result is fresh. The types are those that the program declares, of which every run is one: arguments are checked when the
program is called. Where the declared types leave it open, `ViewAliases` follows the layouts from the types of the inputs.

**A type holds when a value is made.** `t_`, `set_data` and unseen code may change it later. So the decisions are dropped if an operand
of one may be reshaped according to the points-to graph that was built with them. That suffices: consider the first wrong decision of a
run. The graph describes everything before it, and so the write that changed the operand's type.

**After edits** a decision stays what it was as long as the operand's declared type does: `PointsTo.typed` has those operands. If types were
inferred, or if shapes may be written, the db is rebuilt.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

from irscope.analysis.views import ViewAliases
from irscope.ir import Graph, Node, TensorType, Value, constant_of
from irscope.ops.registry import bind, schema_of
from irscope.ops.typing import is_contiguous, static_shape, view_strides

__all__ = ["Copies", "copy_flag", "is_copy_by_types", "types_suffice"]

_RETURNS_OPERAND: Final = frozenset({"aten::to", "aten::type_as", "aten::contiguous"})


def types_suffice(node: Node) -> bool:
    """Whether nothing more could be found out about the operand and the result than their types declare."""
    old, new = node.inputs[0].type, node.outputs[0].type
    if not isinstance(old, TensorType) or not isinstance(new, TensorType) or old.dtype is None or new.dtype is None:
        return False
    if old.dtype != new.dtype:
        return True
    if old.shape is None or new.shape is None or 0 in old.shape:
        return False
    is_static = static_shape(old) is not None and static_shape(new) is not None
    return not is_static or (old.strides is not None and (new.strides is not None or node.op not in _RETURNS_OPERAND))


def is_copy_by_types(node: Node) -> bool:
    """Whether a node with an op of `MAY_COPY` copies in every run, by the declared types of its operand and its result.

    >>> from irscope.ir.text.parser import parse
    >>> g = parse('''graph(%x : Float(2, 3, strides=[1, 2])):
    ...   %dense : int = prim::Constant[value=0]()
    ...   %c : Float(2, 3, strides=[3, 1]) = aten::contiguous(%x, %dense)
    ...   return (%c)''')
    >>> is_copy_by_types(g.node("c"))
    True
    """
    old, new = node.inputs[0].type, node.outputs[0].type
    if not isinstance(old, TensorType) or not isinstance(new, TensorType):
        return False
    if old.dtype is not None and new.dtype is not None and old.dtype != new.dtype:
        return True
    shape, result = static_shape(old), static_shape(new)
    if shape is None or result is None or old.strides is None or 0 in shape:
        return False
    if node.op in _RETURNS_OPERAND:
        strides = new.strides
        return strides is not None and any(size > 1 and a != b for size, a, b in zip(shape, old.strides, strides, strict=True))
    return not is_contiguous(shape, old.strides) if node.op == "aten::ravel" else view_strides(shape, old.strides, result) is None


def copy_flag(node: Node) -> Value | None:
    """The operand of a `to` that says whether it copies anyway; None for other ops, and where it is left out."""
    schema = schema_of(node) if node.op == "aten::to" else None
    flag = None if schema is None else bind(node, schema).get("copy")
    return flag if isinstance(flag, Value) else None


class Copies:
    """Decides for the nodes of one program."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.infers = any(isinstance(value.type, TensorType) and value.type.dtype is not None for value in graph.inputs)
        """Whether layouts may be inferred: nothing follows from inputs of unknown type."""
        self.has_inferred = False
        """Whether a decision needed more than the declared types."""
        self.made: list[Node] = []
        """The nodes that copy."""

    def __call__(self, node: Node) -> bool:
        found = is_copy_by_types(node) or self._is_told(node)
        if not found and self.infers and not types_suffice(node):
            placement = self._views.placement(node.outputs[0]) if isinstance(node.outputs[0].type, TensorType) else None
            found = placement is not None and placement.kind == "copy" and placement.is_decided
            self.has_inferred = self.has_inferred or found
        if found:
            self.made.append(node)
        return found

    def _is_told(self, node: Node) -> bool:
        flag: Any = copy_flag(node)
        return flag is not None and constant_of(self._graph, flag) is True

    @cached_property
    def _views(self) -> ViewAliases:
        return ViewAliases(self._graph)
