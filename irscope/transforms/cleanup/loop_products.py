"""Writes small matrix products in loops as sums of products, which kernels compute: a turn then needs no call of the library."""

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final

from irscope.analysis.per_graph import shapes_of
from irscope.ir import (
    BOOL,
    INT,
    NONE,
    Block,
    Graph,
    ListType,
    Node,
    Rewriter,
    TensorType,
    Type,
    Value,
    constant_of,
    make_node,
    make_value,
    new_id,
)
from irscope.ops.registry import effect_of, op_of
from irscope.ops.traits import VIEWS
from irscope.ops.type_rules import contiguous_strides
from irscope.transforms.base import PassRecord, timed
from irscope.transforms.cleanup.fold import constant_node

# A loop whose turns are only kernels runs in machine code (`irscope.runtime.program.loop_form`), where a turn takes tens of nanoseconds.
# One small product that is left to the library keeps all of it in Python, at a microsecond or two for each op. As a sum over products
# it fuses with what surrounds it, and takes a nanosecond for about eight multiplications; large products are better off in the library.
#
# **When.** The body has no blocks, all else in it is work for kernels, and its products have known extents and at most `_MOST`
# multiplications together. Operands are row-major where their layout is known: then so is the sum, as the library's product is.
#
# **Rounding.** The sum adds in another order than the library. Both are within the usual bound of a sum of `k` products, `k` roundings
# of the sum of their absolute values. Only float32 and float64: products of halves are added in float32 by the library, and the
# product of two halves would be rounded here.

_MOST: Final = 1 << 13
"""Multiplications of a turn: a microsecond, about what a call of the library costs."""
_PRODUCTS: Final = frozenset(f"aten::{name}" for name in "mm mv bmm matmul addmm linear".split())
_OTHERS: Final = frozenset({
    "prim::Constant", "prim::ListUnpack", "prim::NumToTensor", "aten::Bool", "aten::__getitem__", "aten::select_scatter",
    "aten::slice_scatter",
})  # fmt: skip


@timed
def expand_loop_products(graph: Graph) -> PassRecord:
    """Write small matrix products in loops as sums of products, where kernels compute all else of a turn.

    >>> import irscope as irs
    >>> g = irs.parse('''graph(%h : Float(2, 3), %w : Float(3, 3), %n : int):
    ...   %t : bool = prim::Constant[value=1]()
    ...   %y : Float(2, 3) = prim::Loop(%n, %t, %h)
    ...     block0(%i : int, %a : Float(2, 3)):
    ...       %p : Float(2, 3) = aten::mm(%a, %w)
    ...       %b : Float(2, 3) = aten::tanh(%p)
    ...       -> (%t, %b)
    ...   return (%y)''')
    >>> [node.op for node in expand_loop_products(g).after.node("y").blocks[0].nodes if node.op != "prim::Constant"]
    ['aten::unsqueeze', 'aten::unsqueeze', 'aten::mul', 'aten::sum', 'aten::tanh']
    """
    rewriter = Rewriter(graph)
    for loop in graph.nodes():
        if loop.op != "prim::Loop":
            continue
        sums = _sums_of(graph, loop.blocks[0])
        for old, new in sums.items():
            because = f"{old.op} is small, and as a sum of products it leaves no call of the library to a turn of the loop"
            rewriter.replace_node(old, new, reason=because)
    return PassRecord("expand-loop-products", graph, rewriter.finish(), rewriter.edits)


def _sums_of(graph: Graph, body: Block) -> dict[Node, list[Node]]:
    """Returns the nodes that take the place of each product of a body; none unless all of a turn is work for kernels then."""
    products = [node for node in body.nodes if node.op in _PRODUCTS]
    if not products or not is_turn_of_kernels(body):
        return {}
    found, work = dict[Node, list[Node]](), 0
    for node in products:
        made = _Sum(graph, node)
        if not made.write():
            return {}
        found[node] = made.nodes
        work += made.work
    return found if work <= _MOST else {}


def is_turn_of_kernels(body: Block, *, besides: Container[Node] = ()) -> bool:
    """Checks if all of a turn is work for kernels, products included, and these nodes."""
    return all(node in besides or node.op in _PRODUCTS or _is_kernels(node) for node in body.nodes)


def _is_kernels(node: Node) -> bool:
    """Checks for an op that kernels compute, or that a loop of kernels needs besides."""
    op = op_of(node)
    is_computed = op is not None and not node.blocks and op.expression is not None and effect_of(node) == "pure"
    return moves_on(node) or (is_computed and not _is_whole(node))


def moves_on(node: Node) -> bool:
    """Checks for an op that kernels see through, or that moves numbers and rows from turn to turn."""
    if node.blocks or not node.outputs:
        return False
    moves = node.op in _OTHERS or node.op in VIEWS
    return moves or (_is_whole(node) and node.op in ("aten::add", "aten::sub", "aten::mul"))


def _is_whole(node: Node) -> bool:
    """Checks for an op on whole numbers, of which a loop in machine code has only those that are linear in the number of the turn."""
    return all(value.type == INT for value in (*node.inputs, *node.outputs))


@dataclass(eq=False)
class _Sum:
    """The sum that takes the place of one product."""

    graph: Graph
    old: Node
    nodes: list[Node] = field(default_factory=list)
    work: int = 0

    def write(self) -> bool:
        """Writes the nodes; returns whether the product is one of known extents, of two matrices or a matrix and a vector."""
        operands, bias = list(self.old.inputs), None
        if self.old.op == "aten::addmm":
            bias, *operands = operands
            if [constant_of(self.graph, factor) for factor in operands[2:]] != [1, 1]:
                return False
        elif self.old.op == "aten::linear":
            bias = operands[2] if len(operands) > 2 and operands[2].type != NONE else None
        types = [self._matrix(value) for value in operands[:2]]
        last = self._matrix(self.old.output, is_result=True)
        added = last if bias is None else shapes_of(self.graph).type(bias)
        if None in types or last is None or not isinstance(added, TensorType):
            return False
        (a, first), (b, second) = zip(operands, types, strict=False)
        assert first is not None and second is not None
        if len({first.dtype, second.dtype, last.dtype, added.dtype}) > 1:
            return False
        factors = self._factors(a, _extents(first), b, _extents(second))
        if factors is None:
            return False
        left, right, axis, shape = factors
        self.work = prod(shape)
        steps = None if last.strides is None else contiguous_strides(shape)
        product = self._add("aten::mul", [left, right], last.with_(shape=shape, strides=steps))
        end = self.old.output if bias is None else make_value(new_id(), self.old.output.type, "")
        arguments = [self._constant([axis], ListType(INT)), self._constant(False, BOOL), self._constant(None, NONE)]
        self._add("aten::sum", [product, *arguments], end.type, end)
        if bias is not None:
            self._add("aten::add", [end, bias, self._constant(1, INT)], self.old.output.type, self.old.output)
        return 0 not in shape

    def _factors(self, a: Value, left: Sequence[int], b: Value, right: Sequence[int]) -> tuple[Value, Value, int, tuple[int, ...]] | None:
        """Returns two tensors that are multiplied element by element, the axis that is summed, and the extents of their product."""
        if len(left) == len(right) == 3 and left[0] != right[0]:
            return None  # batches that are broadcast stay a product of the library
        match len(left), len(right):
            case ((1 | 2 | 3), 2) if self.old.op == "aten::linear":
                return self._unsqueezed(a, left, len(left) - 1), b, len(left), (*left[:-1], right[0], left[-1])
            case (1, 2) | (2, 2) | (3, 3):
                depth = len(left) - 1
                wide = b if len(left) == 1 else self._unsqueezed(b, right, depth - 1)
                return self._unsqueezed(a, left, len(left)), wide, depth, (*left, right[-1])
            case 2, 1:
                return a, b, 1, tuple(left)
        return None

    def _unsqueezed(self, value: Value, shape: Sequence[int], axis: int) -> Value:
        given = shapes_of(self.graph).type(value)
        assert isinstance(given, TensorType)  # a matrix, or a vector
        steps = given.strides
        wider = given.with_(
            shape=(*shape[:axis], 1, *shape[axis:]),
            strides=None if steps is None else (*steps[:axis], shape[axis] * steps[axis] if axis < len(shape) else 1, *steps[axis:]),
        )
        return self._add("aten::unsqueeze", [value, self._constant(axis, INT)], wider)

    def _matrix(self, value: Value, *, is_result: bool = False) -> TensorType | None:
        """Returns the type of a tensor whose extents are known, and which is row-major as far as is known."""
        found = shapes_of(self.graph).type(value) if not is_result else value.type
        if not isinstance(found, TensorType) or found.dtype not in ("float32", "float64") or not found.is_static:
            return None
        shape = _extents(found)
        is_plain = found.strides is None or all(
            size == 1 or step == plain for size, step, plain in zip(shape, found.strides, contiguous_strides(shape), strict=True)
        )
        return found if is_plain else None

    def _add(self, op: str, inputs: Sequence[Value], type: Type, output: Value | None = None) -> Value:
        made = make_value(new_id(), type, "") if output is None else output
        self.nodes.append(make_node(new_id(), op, tuple(inputs), (made,), {}, (), self.old.location, self.old.scope))
        return made

    def _constant(self, payload: Any, type: Type) -> Value:
        made = make_value(new_id(), type, "")
        self.nodes.append(constant_node(made, tuple(payload) if isinstance(payload, list) else payload, like=self.old))
        return made


def _extents(type: TensorType) -> tuple[int, ...]:
    return tuple(int(size) for size in type.shape or () if isinstance(size, int))
