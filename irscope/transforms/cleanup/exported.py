"""Puts back the ops that an exporter took apart: products of many rows, and group norms."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from irscope._base.nested import is_fixed
from irscope.analysis.per_graph import alias_db_of, shapes_of
from irscope.ir import Graph, Node, Rewriter, TensorData, TensorType, Value, argument_type, constant_of, make_value, new_id
from irscope.ops.numpy_layout import type_suggests_channels_last
from irscope.ops.registry import bind
from irscope.ops.type_rules import lies_in_rows, static_shape
from irscope.transforms.base import PassRecord, Remark, starts_at, timed
from irscope.transforms.cleanup.fold import cleaned, constant_node, with_bound

# Two patterns end in a reshape, whose result the op itself can return:
#
# * *Rows.* `reshape(mm(reshape(x), w))`, where the reshapes only join the leading axes of `x` and part them again, is `matmul(x, w)`,
#   which does so by itself: two calls less, the same product; `linear` likewise. ONNX has `Gemm` for matrices only.
# * *Group norm.* `reshape(instance_norm(reshape(x)))`, where the first reshape makes one channel of each group of channels and the
#   second undoes it, by weights of one and biases of zero, is `group_norm(x)`. That keeps channels last, which the reshapes cannot.
#   ONNX had no group norm before its opset 21. The sums are the same, but may be added up in another order.
#
# And `matmul(x, w) + b` is `linear(x, w.T, b)`, `addmm` of joined rows too, where the weights stay as they are and `b` has a number for
# each column: one pass over memory less. The sum may then begin with `b`.
#
# **When.** Extents are known, `x` lies in rows, and nobody else reads the product or the normalised tensor. The last reshape then is a
# view of memory that only it shows, and may as well be that memory. Operands are read later than before: nothing ever writes them.

_AFTER: Final = frozenset({"aten::reshape", "aten::view"})


@timed
@starts_at("restore-exported", {"aten::mm", "aten::addmm", "aten::linear", "aten::matmul", "aten::instance_norm"})
def restore_exported(graph: Graph) -> PassRecord:
    """Write products of joined rows as `matmul`, with a bias as `linear`, and instance norms of joined channels as `group_norm`; results
    of the latter two differ by rounding.
    """
    site = _Site(graph)
    for node in graph.nodes():
        if node.op in _RULES:
            _RULES[node.op](site, node)
    record = cleaned("restore-exported", site.rewriter, site.remarks)
    turned = {weight: [made] for weight, made in site.turned_weights.items()}
    return replace(record, after=with_bound(record.after, turned, set(turned))) if turned else record


class _Site:
    """What the rules ask of one graph, and do to it."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.shapes = shapes_of(graph)
        self.rewriter = Rewriter(graph)
        self.remarks: list[Remark] = []
        self.turned_weights: dict[Value, tuple[Value, Any]] = {}

    def put(self, op: str, operands: tuple[Value, ...], done: Sequence[Node], because: str, constants: Sequence[Node] = ()) -> None:
        """Put an op in the place of a node and of those behind it, the last of whose results it returns."""
        *others, last = done
        made = replace(done[0], op=op, id=new_id(), inputs=operands, outputs=last.outputs)
        self.rewriter.replace_node(last, [*constants, made], reason=because)
        for node in others:
            self.rewriter.erase(node, reason=because)
        self.remarks.append(Remark("passed", "exported", last, because, (done[0],)))

    def put_product(self, source: Value, weight: Value, bias: Value | None, done: list[Node], because: str = "") -> None:
        """Put `matmul`, or `linear` if there is a bias or one is added next, in the place of what a product was written as."""
        added = None if bias is not None else self.added(done[-1])
        bias = bias if added is None else added[1]
        turned = None if bias is None else self.turned(weight)
        if bias is not None and turned is not None:
            told = "linear adds the bias to the product by itself; results differ by rounding: rtol ~1e-6"
            self.put("aten::linear", (source, turned, bias), done if added is None else [*done, added[0]], told)
        elif len(done) > 1 and (bias is None or added is not None):
            self.put("aten::matmul", (source, weight), done, because)

    def added(self, node: Node) -> tuple[Node, Value] | None:
        """The sum that alone reads a product, in its block, and what it adds to all rows; None if there is none."""
        user, shape = self.reader(node), self.shape(node.output)
        if user is None or user.op != "aten::add" or shape is None or self.shapes.known(user.inputs[2]) != 1:
            return None
        a, b = user.inputs[:2]
        other = b if a is node.output else a
        return (user, other) if self.is_bias(other, node.output, shape[-1]) else None

    def is_bias(self, value: Value, like: Value, columns: int) -> bool:
        types = [self.shapes.type(each) for each in (value, like)]
        kinds = {(type.dtype, type.device) for type in types if isinstance(type, TensorType)}
        return self.shape(value) == (columns,) and len(kinds) == 1 and not alias_db_of(self.graph).has_writers(value)

    def turned(self, weight: Value) -> Value | None:
        """A weight with a row for each column of a matrix that nobody can write; None for any other."""
        held: Any = self.graph.bound.get(weight)
        if not is_fixed(held) or held.ndim != 2 or not str(held.dtype).startswith("float") or 0 in held.shape:
            return None
        if weight not in self.turned_weights:
            before, type = self.shapes.type(weight), argument_type(held.T)
            if isinstance(type, TensorType) and isinstance(before, TensorType):
                type = replace(type, device=before.device)
            self.turned_weights[weight] = make_value(new_id(), type, f"{self.graph.names[weight]}_turned"), held.T
        return self.turned_weights[weight][0]

    def shape(self, value: Value) -> tuple[int, ...] | None:
        """The extents of a tensor; None unless all are known."""
        return static_shape(self.shapes.type(value))

    def joined(self, value: Value) -> Value | None:
        """What a tensor was before a reshape, if nothing ever writes that."""
        maker = self.graph.producer.get(value)
        source = maker.inputs[0] if maker is not None and maker.op in _AFTER else None
        return None if source is None or alias_db_of(self.graph).has_writers(source) else source

    def parted(self, node: Node, shape: tuple[int, ...]) -> Node | None:
        """The reshape to these extents that alone reads the result of a node, in its block."""
        user = self.reader(node)
        return user if user is not None and user.op in _AFTER and self.shape(user.output) == shape else None

    def reader(self, node: Node) -> Node | None:
        """The node that alone reads the result of a node, in its block."""
        uses = self.graph.users.get(node.output, ())
        user = uses[0].user if len(uses) == 1 else None
        return user if isinstance(user, Node) and self.graph.block_of[user] is self.graph.block_of[node] else None

    def is_full_of(self, value: Any, number: float) -> bool:
        """Whether each element of a tensor that no run and no owner changes is this number."""
        if not isinstance(value, Value):
            return False
        held: Any = self.graph.bound.get(value, constant_of(self.graph, value))
        array: Any = held.array if isinstance(held, TensorData) else held if is_fixed(held) else None
        if array is None or alias_db_of(self.graph).has_writers(value):
            return False
        return str(array.dtype).startswith("float") and bool((np.asarray(array) == number).all())


def _rows(site: _Site, node: Node) -> None:
    is_sum, is_linear = node.op == "aten::addmm", node.op == "aten::linear"
    matrix, weight = node.inputs[is_sum : 2 + is_sum]
    source = site.joined(matrix)
    shape, made = (None, None) if source is None else (site.shape(source), site.shape(node.output))
    if source is None or shape is None or made is None or len(shape) < 3 or not lies_in_rows(site.shapes.type(source)):
        return
    if any(alias_db_of(site.graph).has_writers(operand) for operand in node.inputs):
        return
    if site.shape(matrix) != (made[0], shape[-1]) or 0 in shape:
        return
    if is_sum and not (site.is_bias(node.inputs[0], node.output, made[1]) and [site.shapes.known(x) for x in node.inputs[3:]] == [1, 1]):
        return
    last = site.parted(node, (*shape[:-1], made[1]))
    if last is not None and is_linear:
        site.put("aten::linear", (source, *node.inputs[1:]), [node, last], "linear joins the rows, and parts them again, by itself")
    elif last is not None:
        bias = node.inputs[0] if is_sum else None
        site.put_product(source, weight, bias, [node, last], "matmul joins the rows, and parts them again, by itself")


def _matmul(site: _Site, node: Node) -> None:
    shape = site.shape(node.inputs[0])
    if shape is not None and len(shape) > 1 and not any(alias_db_of(site.graph).has_writers(operand) for operand in node.inputs):
        x, weight = node.inputs
        site.put_product(x, weight, None, [node])


def _group_norm(site: _Site, node: Node) -> None:
    source, given = site.joined(node.inputs[0]), bind(node)
    shape, joined = (None, None) if source is None else (site.shape(source), site.shape(node.inputs[0]))
    if source is None or not given or shape is None or joined is None or len(shape) < 3 or len(joined) < 3 or 0 in shape:
        return
    type = site.shapes.type(source)
    if not lies_in_rows(type) or not isinstance(type, TensorType) or type_suggests_channels_last(type) is not False:
        return  # the reshape copies, and a group norm would return channels last
    groups = joined[1]
    known = {name: site.shapes.known(given[name]) for name in ("running_mean", "running_var", "use_input_stats", "eps")}
    if joined[0] != shape[0] or shape[1] % groups or known["use_input_stats"] is not True or not isinstance(known["eps"], float):
        return
    if known["running_mean"] is not None or known["running_var"] is not None:
        return
    if not site.is_full_of(given["weight"], 1) or not site.is_full_of(given["bias"], 0):
        return
    last = site.parted(node, shape)
    if last is None:
        return
    made = {payload: make_value(new_id(), argument_type(payload), "") for payload in (groups, None)}
    flag = make_value(new_id(), argument_type(False), "")
    constants = [constant_node(value, payload, like=last) for payload, value in (*made.items(), (False, flag))]
    operands = (source, made[groups], made[None], made[None], given["eps"], flag)
    because = f"it normalises {shape[1] // groups} channels together; results differ by rounding: rtol ~1e-6"
    site.put("aten::group_norm", operands, [node, last], because, constants)


_RULES: Final[dict[str, Callable[[_Site, Node], None]]] = {
    "aten::mm": _rows, "aten::addmm": _rows, "aten::linear": _rows, "aten::matmul": _matmul, "aten::instance_norm": _group_norm,
}  # fmt: skip
"""The op in the middle of each pattern."""
