"""Decides which nodes that only move elements can be in kernels: views, joins, and replaced ranges.

A kernel sees through a view between two of its nodes, writes joined tensors directly to their places, and takes the
elements of a replaced range from the tensor that replaces it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

from irscope.ir import NOT_CONSTANT, Graph, Node, TensorType, Value
from irscope.ops.registry import schema_of
from irscope.ops.traits import JOINS
from irscope.transforms.fusion.legality.iteration_space import format_space
from irscope.transforms.fusion.legality.view_ops import has_finer_space, joined_list, unpacked_cut
from irscope.transforms.grouping import Refusal

__all__ = ["Moving", "NodeFacts", "patched_range"]


class NodeFacts(Protocol):
    """The facts about the nodes of a graph that this module needs; `Eligibility`, which uses this module, provides them."""

    graph: Graph

    def refusal(self, node: Node) -> Refusal | None:
        """Returns why a node cannot be in any group; None when it can."""

    def types_refusal(self, node: Node) -> Refusal | None:
        """Returns why kernels do not support the types of a node's operands or results; None when they do."""

    def tensor_type(self, value: Value) -> TensorType | None:
        """Returns the known type of a tensor; None for a value that is not a tensor."""

    def known(self, value: Value) -> Any:
        """Returns the constant value of a number, string, or None; NOT_CONSTANT for everything else."""

    def is_view(self, node: Node) -> bool:
        """Whether a node is a view, or packs or unpacks a list of tensors."""

    def axes(self, node: Node) -> tuple[int, ...]:
        """Returns the axes along which a node reduces its first tensor."""


class Moving:
    """Decides which nodes of one graph that move elements are eligible."""

    def __init__(self, rules: NodeFacts) -> None:
        self._rules = rules
        self._between: frozenset[Node] | None = None

    def view_refusal(self, node: Node) -> Refusal | None:
        """Returns why a view cannot be in a kernel; as it moves nothing, it is useful only between two nodes of one."""
        what = self._why_opaque(node)
        if what:
            return Refusal("view", what, (node,))
        if self._between is None:
            self._between = frozenset(self._views_between())
        if node not in self._between:
            what = f"{node.op} is a view at the edge of a group: a kernel has only views between two of its nodes"
            return Refusal("not-pointwise", what, (node,))
        return None

    def join_refusal(self, node: Node) -> Refusal | None:
        """Returns why a join cannot be in a kernel; all joined tensors but one must be computed by kernels for it alone, which
        then write them directly to their places."""
        pair = joined_list(self._rules.graph, node)
        if pair is None:
            what = (
                "works on containers"
                if node.op == "prim::ListConstruct"
                else "joins a list that is used otherwise, or whose tensors are not known"
            )
            return Refusal("not-pointwise", f"{node.op} {what}", (node,))
        packed, join = pair
        refusal = self._rules.types_refusal(join)
        if refusal is not None:
            return refusal
        found = self._rules.tensor_type(join.output)
        if (
            any(self._rules.known(value) is NOT_CONSTANT for value in join.inputs[1:])
            or found is None
            or not found.is_static
        ):
            return Refusal("not-pointwise", f"{join.op} joins tensors of unknown extents", (join,))
        computed = sum(map(self._is_computed_for, packed.inputs))
        if computed < max(len(packed.inputs) - 1, 1) or len(set(packed.inputs)) < len(packed.inputs):
            detail = f"of the {len(packed.inputs)} tensors that {join.op} joins, {computed} are computed by kernels for it alone"
            return Refusal("not-pointwise", detail, (join,))
        return None

    def patch_refusal(self, node: Node) -> Refusal | None:
        """Returns why a replaced range cannot be in a kernel; the range and the layout of the whole must be known."""
        rules = self._rules
        refusal = rules.types_refusal(node)
        if refusal is not None:
            return refusal
        found = patched_range(rules, node)
        whole, part, result = (rules.tensor_type(value) for value in (*node.inputs[:2], node.output))
        if found is None or whole is None or part is None or result is None or result.strides is None:
            return Refusal(
                "not-pointwise", f"{node.op} replaces a part that is only known when the program runs", (node,)
            )
        assert whole.shape is not None
        axis, start, stop = found
        own = (*whole.shape[:axis], stop - start, *whole.shape[axis + 1 :])
        seen = (
            part.shape
            if node.op == "aten::slice_scatter" or part.shape is None
            else (*part.shape[:axis], 1, *part.shape[axis:])
        )
        if seen != own or part.dtype is None or part.dtype != whole.dtype:
            return Refusal("not-pointwise", f"{node.op} replaces a range of another shape or element type than its source", (node,))
        return None

    def _is_computed_for(self, value: Value) -> bool:
        """Whether a pointwise node produces the value, and it has a single use."""
        producer = self._rules.graph.producer.get(value)
        if (
            producer is None
            or producer.op in JOINS
            or self._rules.is_view(producer)
            or len(self._rules.graph.users.get(value, ())) != 1
        ):
            return False
        return self._rules.refusal(producer) is None and not self._rules.axes(producer)

    def _why_opaque(self, node: Node) -> str:
        """Returns why a kernel cannot see through a view; empty when it can."""
        if node.op == "prim::ListUnpack" and unpacked_cut(self._rules.graph, node) is None:
            return f"{node.op} works on containers"
        if node.op == "prim::ListUnpack":
            return ""
        schema = schema_of(node)
        if schema is None or not node.inputs or self._rules.tensor_type(node.inputs[0]) is None:
            return f"{node.op} has no known overload"
        if any(self._rules.known(value) is NOT_CONSTANT for value in node.inputs[1:]):
            return f"{node.op} is a view of a part that is only known when the program runs"
        if len(node.outputs) != 1:
            return f"{node.op} here returns {len(node.outputs)} results"
        if isinstance(node.output.type, TensorType):
            before, after = (self._rules.tensor_type(value) for value in (node.inputs[0], node.output))
            if before is None or after is None or before.shape is None or after.shape is None:
                return f"{node.op} is a view of a tensor of unknown shape"
            if before.dtype != after.dtype:
                return f"{node.op} sees the bytes of {before.dtype or 'some type'} as {after.dtype or 'another'}, which no kernel does"
            if not has_finer_space(node, before.shape, after.shape):
                detail = f"{format_space(before.shape)} as {format_space(after.shape)}"
                return f"{node.op} sees {detail}, and no strides lead from one to the other"
        elif unpacked_cut(self._rules.graph, node) is None:
            return f"{node.op} returns a list of views that is not only unpacked"
        return ""

    def _views_between(self) -> set[Node]:
        """The views that a kernel can see through and that are between eligible nodes of one block."""
        graph, fit, below = self._rules.graph, set[Node](), set[Node]()
        nodes = list(graph.nodes())
        views = {
            n for n in nodes if self._rules.is_view(n) and n.op != "prim::ListConstruct" and not self._why_opaque(n)
        }
        above: set[Node] = set()
        for node in nodes:
            if node in views:
                producer = graph.producer.get(node.inputs[0])
                if producer is not None and (producer in fit or producer in above) and self._together(producer, node):
                    above.add(node)
            elif not self._rules.is_view(node) and self._rules.refusal(node) is None:
                fit.add(node)
        for node in reversed(nodes):
            if node in above:
                users = [use.user for value in node.outputs for use in graph.users.get(value, ())]
                if any(isinstance(u, Node) and (u in fit or u in below) and self._together(u, node) for u in users):
                    below.add(node)
        return below

    def _together(self, a: Node, b: Node) -> bool:
        return self._rules.graph.block_of[a] is self._rules.graph.block_of[b]


def patched_range(rules: NodeFacts, node: Node) -> tuple[int, int, int] | None:
    """Returns the axis along which a `slice_scatter` or `select_scatter` replaces a contiguous range, its start, and its end;
    None where these are unknown."""
    whole = rules.tensor_type(node.inputs[0])
    given = [rules.known(value) for value in node.inputs[2:]]
    if node.op == "aten::slice_scatter":
        given += _WHOLE_AXIS[len(given) :]
    if whole is None or not whole.is_static or not whole.shape or not _are_places(given, node):
        return None
    rank = len(whole.shape)
    if not -rank <= given[0] < rank:
        return None
    axis = given[0] % rank
    extent = whole.shape[axis]
    assert isinstance(extent, int)
    if node.op == "aten::select_scatter":
        start = given[1] % max(extent, 1)
        return (axis, start, start + 1) if -extent <= given[1] < extent else None
    start, stop, _ = slice(*given[1:3]).indices(extent)
    return (axis, start, max(start, stop)) if given[3] == 1 else None


_WHOLE_AXIS: Final = (0, None, None, 1)
"""The defaults of `slice_scatter` for the axis, the start, the end and the step."""


def _are_places(given: Sequence[Any], node: Node) -> bool:
    """Whether these are known integers: the axis, then a place, or a start, an end and a step that may be None."""
    absent = (None,) if node.op == "aten::slice_scatter" else ()
    return bool(given) and given[0].__class__ is int and all(one.__class__ is int or one in absent for one in given[1:])
