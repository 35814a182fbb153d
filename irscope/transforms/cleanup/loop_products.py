"""Writes small recurrent layers as loops, and small products in loops as sums: a turn then needs no call of the library."""

from collections.abc import Container, Sequence, Set
from dataclasses import dataclass, field
from itertools import islice
from math import prod
from typing import Any, Final

from irscope.analysis.per_graph import shapes_of
from irscope.frontends.emit import CODES, Emitter, Place
from irscope.ir import (
    CONTROL_FLOW,
    DEVICE,
    INT,
    NONE,
    NOT_CONSTANT,
    TENSOR,
    Block,
    Graph,
    Node,
    Rewriter,
    TensorType,
    Type,
    Value,
    constant_of,
    make_value,
    nest_of,
    new_id,
)
from irscope.ops.registry import bind, effect_of, op_of
from irscope.ops.traits import VIEWS, in_space
from irscope.ops.type_rules import contiguous_strides
from irscope.transforms.base import PassRecord, Remark, starts_at, timed
from irscope.transforms.cleanup.fold import with_constants

# Recurrent layers.
#
# Torch's GRU calls its library four times and more for each step, 8 to 10 µs; as a loop of kernels a step takes 0.3 to 3 µs, and
# the products with the sequence stay one product of the library (measured: 2 to 9 times as fast). oneDNN has an LSTM of float32 as one
# call, which takes 1.1 to 1.9 times as long as a loop for one row, and less for several.
#
# **When.** Everything but the numbers is known, the layers are small enough for the products of a step to become sums (below), and there
# are steps enough for the loop to run in machine code. Nothing draws random numbers: no dropout, or no training.
#
# **Rounding.** The same sums and functions as torch's, within what kernels and sums of products differ by.

_GATES: Final = {"aten::gru": 3, "aten::lstm": 4, "aten::rnn_tanh": 1, "aten::rnn_relu": 1}
_LEAST_STEPS: Final = 5
"""Steps from which a loop runs in machine code."""
_MOST_OF_ROWS: Final = 1 << 14
"""Multiplications of a step up to which an LSTM of several rows in float32 is no slower than oneDNN's; of one row, all are quicker."""


@timed
@starts_at("expand-recurrent", frozenset(_GATES))
def expand_recurrent(graph: Graph) -> PassRecord:
    """Write small recurrent layers as loops, whose steps kernels compute; the results differ by rounding."""
    rewriter, remarks = Rewriter(graph), list[Remark]()
    for node in graph.nodes():
        if node.op not in _GATES:
            continue
        layer = _Recurrent(graph, node)
        if why_not := layer.why_not():
            remarks.append(Remark("missed", "recurrent", node, why_not))
            continue
        because = (
            f"{node.op} of {layer.products:,} multiplications a step is a loop of kernels, without a call of the library for each step"
        )
        rewriter.replace_node(node, layer.write(), reason=because)
        for old, new in zip(node.outputs, layer.results, strict=True):
            rewriter.replace(old, new, reason=because)
        remarks.append(Remark("passed", "recurrent", node, because))
    return PassRecord("expand-recurrent", graph, rewriter.finish(), rewriter.edits, tuple(remarks))


class _Recurrent:
    """One op, of one or several layers in one or two directions, and the loops that take its place."""

    def __init__(self, graph: Graph, node: Node) -> None:
        self.graph, self.node, self.emit = graph, node, Emitter(node.op)
        self.emit.place = Place(node.location, "", node.scope)
        self.operands = bind(node)
        self.weights = self._listed("params")
        self.states = self._listed("hx") if node.op == "aten::lstm" else [self.operands[name] for name in ("hx",) if name in self.operands]
        self.products, self.results = 0, list[Value]()

    def _listed(self, name: str) -> Sequence[Value]:
        """Returns the tensors of a list that only recurrent layers read."""
        made = self.graph.producer.get(self.operands.get(name, self.node))
        if made is None or made.op != "prim::ListConstruct":
            return ()
        users = self.graph.users[made.outputs[0]]
        return made.inputs if all(isinstance(use.user, Node) and use.user.op in _GATES for use in users) else ()

    def why_not(self) -> str:
        """Returns why the library has to run it; empty text if loops may."""
        if not {"input", "hx"} <= self.operands.keys():
            return "its sequences differ in length"
        self.numbers = {name: constant_of(self.graph, value) for name, value in self.operands.items() if isinstance(value, Value)}
        names = "has_biases", "num_layers", "dropout", "train", "bidirectional", "batch_first"
        if any(self.numbers[name] is NOT_CONSTANT for name in names):
            return "how many layers and directions it has, or which biases, is not constant"
        if self.numbers["train"] and self.numbers["dropout"]:
            return "it draws random numbers"
        tensors = [shapes_of(self.graph).type(value) for value in (self.operands["input"], *self.states, *self.weights)]
        types = [type for type in tensors if isinstance(type, TensorType) and type.is_static and str(type.device or "cpu") == "cpu"]
        if len(types) < len(tensors) or not self.weights or not self.states or len({type.dtype for type in types}) > 1:
            return "the extents of its operands are not known, or it is not on the processor"
        given, state, *weights = map(_extents, types)
        own, weights = weights[: len(self.states) - 1], weights[len(self.states) - 1 :]
        if types[0].dtype not in ("float32", "float64") or [len(given), len(state)] != [3, 3]:
            return "it is not of float32 or float64, or has no batch"
        self.sides = 2 if self.numbers["bidirectional"] else 1
        self.steps, self.batch = (given[1], given[0]) if self.numbers["batch_first"] else given[:2]
        self.hidden, self.type = state[2], types[0].with_(requires_grad=None)
        rows, layers = self.hidden * _GATES[self.node.op], self.numbers["num_layers"]
        wanted = list[tuple[int, ...]]()
        for width in (given[2], *[self.hidden * self.sides] * (layers - 1)):
            wanted += [(rows, width), (rows, self.hidden), *[(rows,)] * (2 if self.numbers["has_biases"] else 0)] * self.sides
        if state[:2] != (layers * self.sides, self.batch) or weights != wanted or any(other != state for other in own):
            return "its weights or its state have other extents than its layers"
        self.products = self.batch * self.hidden**2 * _GATES[self.node.op]
        if self.products > _MOST:
            return f"a step has {self.products:,} multiplications, and from {_MOST + 1:,} on products are the library's"
        if self.node.op == "aten::lstm" and self.batch > 1 and self.products > _MOST_OF_ROWS and types[0].dtype == "float32":
            return "oneDNN runs an LSTM of several rows in one call, which takes no longer than a loop of kernels"
        if not self.products:
            return "it has no elements"
        if self.steps < _LEAST_STEPS:
            return f"it has {self.steps} steps, and a loop pays from {_LEAST_STEPS} on"
        return ""

    def write(self) -> list[Node]:
        """Returns the nodes of all layers; `results` are the sequence of hidden states and the last ones."""
        emit, ends = self.emit, list[Sequence[Value]]()
        rows = self.operands["input"]
        rows = emit.op("transpose", rows, 0, 1) if self.numbers["batch_first"] else rows
        each = 4 if self.numbers["has_biases"] else 2
        for layer in range(self.numbers["num_layers"]):
            found = []
            for side in range(self.sides):
                place = layer * self.sides + side
                end, hidden = self._direction(rows, place, [*self.weights[place * each : (place + 1) * each], None, None], bool(side))
                ends.append(end)
                found.append(hidden)
            rows = found[0] if len(found) == 1 else emit.op("cat", emit.list(found, TENSOR), 2)
        rows = emit.op("transpose", rows, 0, 1) if self.numbers["batch_first"] else rows
        ends_type, is_one, made = self._of(len(ends), self.batch, self.hidden), len(ends) == 1, [rows]
        for last in zip(*ends, strict=True):
            joined = last[0] if is_one else emit.list(last, TENSOR)
            made.append(emit.op("unsqueeze" if is_one else "stack", joined, 0, type=ends_type))
        names = {new: (old.name, new.type) for old, new in zip(self.node.outputs, made, strict=True)}
        renamed = emit.rename((0, 0), names)
        self.results = [renamed.get(value, value) for value in made]
        return list(emit.build.take_back(0))

    def _direction(self, rows: Value, place: int, weights: Sequence[Value | None], backwards: bool) -> tuple[Sequence[Value], Value]:
        """Writes one layer in one direction; returns its last states, the hidden one first, and all hidden ones."""
        emit, (outer, inner, outer_bias, inner_bias) = self.emit, weights[:4]
        state, table = self._of(self.batch, self.hidden), self._of(self.steps, self.batch, self.hidden)
        starts = []
        for each in self.states:
            whole = shapes_of(self.graph).type(each)
            is_dense = isinstance(whole, TensorType) and whole.strides == contiguous_strides(_extents(whole))
            start = emit.op("select", each, 0, place, type=state if is_dense else None)
            starts.append(start if is_dense else emit.op("clone", start, 0, type=state))
        width = self.hidden * _GATES[self.node.op]
        given = emit.op("linear", rows, outer, outer_bias, type=self._of(self.steps, self.batch, width))
        device = None if table.device is None else emit.constant(table.device, DEVICE)
        empty = emit.op("zeros", list(_extents(table)), CODES[str(table.dtype)], None, device, None, type=table)
        with emit.block([("i", INT), *[(name, state) for name in "hc"[: len(starts)]], ("rows", table)]) as block:
            turn, *before, filled = block.params
            turn = emit.op("sub", self.steps - 1, turn, type=INT) if backwards else turn
            wide = self._of(self.batch, width)
            x = emit.op("select", given, 0, turn, type=wide)
            after = self._cell(x, emit.op("linear", before[0], inner, inner_bias, type=wide), before)
            block.returns([emit.value(True), *after, emit.op("select_scatter", filled, after[0], 0, turn, type=table)])
        operands = emit.value(self.steps), emit.value(True), *starts, empty
        *ends, all_rows = emit.node("prim::Loop", operands, (*[state] * len(starts), table), blocks=(block,))
        return ends, all_rows

    def _cell(self, x: Value, y: Value, before: Sequence[Value]) -> Sequence[Value]:
        """Returns the next states from what the step and the hidden state before it give to the gates."""
        emit, state, gates = self.emit, self._of(self.batch, self.hidden), _GATES[self.node.op]

        def op(name: str, *operands: Any) -> Value:
            return emit.op(name, *operands, *((1,) if name in ("add", "sub") else ()), type=state)

        if gates == 1:
            return [op(self.node.op.removeprefix("aten::rnn_"), op("add", x, y))]
        part = state.with_(strides=(gates * self.hidden, 1))
        given, own = [
            [emit.op("slice", one, 1, gate * self.hidden, (gate + 1) * self.hidden, 1, type=part) for gate in range(gates)]
            for one in (x, y)
        ]
        if self.node.op == "aten::lstm":
            i, f, g, o = [op("tanh" if gate == 2 else "sigmoid", op("add", given[gate], own[gate])) for gate in range(4)]
            cell = op("add", op("mul", f, before[1]), op("mul", i, g))
            return [op("mul", o, op("tanh", cell)), cell]
        (r, z, n), (own_r, own_z, own_n), hidden = given, own, before[0]
        new = op("tanh", op("add", n, op("mul", op("sigmoid", op("add", r, own_r)), own_n)))
        return [op("add", new, op("mul", op("sigmoid", op("add", z, own_z)), op("sub", hidden, new)))]

    def _of(self, *shape: int) -> TensorType:
        return self.type.with_(shape=shape, strides=contiguous_strides(shape))


# Products.
#
# A loop whose turns are only kernels runs in machine code (`irscope.runtime.program.loops`), where a turn takes tens of nanoseconds.
# One small product that is left to the library keeps all of it in Python, at a microsecond or two for each op. As a sum over products
# it fuses with what surrounds it, and takes a nanosecond for about twenty multiplications; large products are better off in the library.
#
# **When.** All else in the body, its branches and loops included, is work for kernels, and its products have known extents and at most
# `_MOST` multiplications together. Operands are row-major where their layout is known: then so is the sum, as the library's product is.
# The weight of a `linear` of several rows is turned once, before the loop: sums along its rows, a few elements each, take ten times as
# long.
#
# **Rounding.** The sum adds in another order than the library. Both are within the usual bound of a sum of `k` products, `k` roundings
# of the sum of their absolute values. Only float32 and float64: products of halves are added in float32 by the library, and the
# product of two halves would be rounded here.

_MOST: Final = 1 << 16
"""Multiplications of a turn: 2 to 3 µs (Zen 5), of which the turn from Python takes 4 to 6."""
_MOST_NODES: Final = 2000
"""Ops of a turn, those of branches and loops in it included, from which machine code does not run it."""
_PRODUCTS: Final = frozenset(f"aten::{name}" for name in "mm mv bmm matmul addmm linear".split())
_OTHERS: Final = frozenset({
    "prim::Constant", "prim::ListConstruct", "prim::ListUnpack", "prim::NumToTensor", "aten::Bool", "aten::__getitem__", "aten::cat",
    "aten::stack", "aten::select_scatter", "aten::slice_scatter", "aten::index_select", "aten::index_copy", "aten::tensor",
    "aten::arange",
})  # fmt: skip
_NUMBERS: Final = in_space("aten", "add sub mul remainder floordiv __derive_index eq ne")


@timed
@starts_at("expand-loop-products", {"prim::Loop"})
def expand_loop_products(graph: Graph) -> PassRecord:
    """Write small matrix products in loops as sums of products, where kernels compute all else of a turn."""
    rewriter, done = Rewriter(graph), set[Node]()
    for loop in graph.nodes():
        if loop.op != "prim::Loop":
            continue
        for old, made in _sums_of(graph, loop.blocks[0]).items():
            if old in done:
                continue
            done.add(old)
            because = f"{old.op} is small, and as a sum of products it leaves no call of the library to a turn of the loop"
            for node in made.before:
                rewriter.insert_before(loop, node, reason=because)
            rewriter.replace_node(old, made.nodes, reason=because)
    return PassRecord("expand-loop-products", graph, rewriter.finish(), rewriter.edits)


def _sums_of(graph: Graph, body: Block) -> dict[Node, "_Sum"]:
    """Returns what takes the place of each product of a body; none unless all of a turn is work for kernels then."""
    products = [node for node in ops_of_turn(body) if node.op in _PRODUCTS]
    if not products or not is_turn_of_kernels(body):
        return {}
    found, work = dict[Node, _Sum](), 0
    blocks = {body, *(block for node in islice(nest_of(body), _MOST_NODES) if node.op in CONTROL_FLOW for block in node.blocks)}
    for node in products:
        made = _Sum(graph, node, blocks)
        if not made.write():
            return {}
        found[node] = made
        work += made.work
    return found if work <= _MOST else {}


def is_turn_of_kernels(body: Block, *, besides: Container[Node] = ()) -> bool:
    """Checks if all of a turn is work for kernels, products included, and these nodes."""

    def is_computed(node: Node) -> bool:
        op = op_of(node)
        return op is not None and not node.blocks and op.expression is not None and effect_of(node) == "pure" and not _is_whole(node)

    return all(node in besides or node.op in _PRODUCTS or moves_on(node) or is_computed(node) for node in ops_of_turn(body))


def ops_of_turn(body: Block) -> list[Node]:
    """Returns the ops of a turn, those in its branches and loops included; of very many, the first."""
    return [node for node in islice(nest_of(body), _MOST_NODES) if node.op not in CONTROL_FLOW]


def moves_on(node: Node) -> bool:
    """Checks for an op that kernels see through, or that moves numbers and rows from turn to turn."""
    if node.blocks or not node.outputs:
        return False
    moves = node.op in _OTHERS or node.op in VIEWS
    return moves or (_is_whole(node) and node.op in _NUMBERS)


def _is_whole(node: Node) -> bool:
    """Checks for an op on whole numbers, of which a loop in machine code has only those that grow evenly or repeat."""
    return bool(node.inputs) and all(value.type == INT for value in node.inputs)


@dataclass(eq=False)
class _Sum:
    """The sum that takes the place of one product."""

    graph: Graph
    old: Node
    inside: Set[Block]
    """The blocks of the loop."""
    nodes: list[Node] = field(default_factory=list)
    before: list[Node] = field(default_factory=list)
    """What is made once, before the loop."""
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
        self.nodes += with_constants(self.old, "aten::sum", end, [product, [axis], False, None])
        if bias is not None:
            self.nodes += with_constants(self.old, "aten::add", self.old.output, [end, bias, 1])
        return 0 not in shape

    def _factors(self, a: Value, left: Sequence[int], b: Value, right: Sequence[int]) -> tuple[Value, Value, int, tuple[int, ...]] | None:
        """Returns two tensors that are multiplied element by element, the axis that is summed, and the extents of their product."""
        if len(left) == len(right) == 3 and left[0] != right[0]:
            return None  # batches that are broadcast stay a product of the library
        match len(left), len(right):
            case ((1 | 2 | 3), 2) if self.old.op == "aten::linear" and prod(left[:-1]) == 1:
                return self._unsqueezed(a, left, len(left) - 1), b, len(left), (*left[:-1], right[0], left[-1])
            case ((1 | 2 | 3), 2) if self.old.op == "aten::linear":
                is_outside = self.graph.block_of[b] not in self.inside
                return (self._unsqueezed(a, left, len(left)), self._turned(b), len(left) - 1, (*left, right[0])) if is_outside else None
            case (1, 2) | (2, 2) | (3, 3):
                depth = len(left) - 1
                wide = b if len(left) == 1 else self._unsqueezed(b, right, depth - 1)
                return self._unsqueezed(a, left, len(left)), wide, depth, (*left, right[-1])
            case 2, 1:
                return a, b, 1, tuple(left)
        return None

    def _turned(self, weight: Value) -> Value:
        """Returns a weight of another block with its columns as rows."""
        given = shapes_of(self.graph).type(weight)
        assert isinstance(given, TensorType)  # a matrix
        rows, columns = _extents(given)
        inside, self.nodes = self.nodes, self.before
        view = self._add("aten::t", [weight], given.with_(shape=(columns, rows), strides=(1, columns)))
        made = self._add("aten::clone", [view, 0], given.with_(shape=(columns, rows), strides=(rows, 1)))
        self.nodes = inside
        return made

    def _unsqueezed(self, value: Value, shape: Sequence[int], axis: int) -> Value:
        given = shapes_of(self.graph).type(value)
        assert isinstance(given, TensorType)  # a matrix, or a vector
        steps = given.strides
        wider = given.with_(
            shape=(*shape[:axis], 1, *shape[axis:]),
            strides=None if steps is None else (*steps[:axis], shape[axis] * steps[axis] if axis < len(shape) else 1, *steps[axis:]),
        )
        return self._add("aten::unsqueeze", [value, axis], wider)

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

    def _add(self, op: str, operands: Sequence[Any], type: Type) -> Value:
        made = make_value(new_id(), type, "")
        self.nodes += with_constants(self.old, op, made, operands)
        return made


def _extents(type: TensorType) -> tuple[int, ...]:
    return tuple(int(size) for size in type.shape or () if isinstance(size, int))
