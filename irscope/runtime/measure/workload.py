"""The least work of a program: the bytes that it must move and its arithmetic, counted in one run.

Bytes are counted for the whole program, not for each op: what is read and written of every input tensor, and every other result,
once. A perfect fusion would move exactly these, and the number is the same for all competitors, so that their speeds can be compared. Of
an input that only views show to other ops, what these views touch is read; of a table that elements are looked up in, as many as are
returned. A result that is an input, or a view of one, is not moved.
Arithmetic is counted op by op in the run: as many additions and multiplications per element as the float32 code of this
package's kernels has, two for each term of a matrix product (of a recurrent layer, that is all), and one for each element of a pooled
window. Unknown ops are listed, not guessed.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np

from irscope._base.nested import leaves
from irscope.ir import Graph, Node
from irscope.ops.expr import NoExpression, flops_at_a_point, input_element, number
from irscope.ops.nn.convolution import spread
from irscope.ops.registry import category_of, effect_of, elements_indexed, named_inputs, op_of, read_of, reads_indexed, schema_of
from irscope.ops.traits import CREATES_LIKE, LOOKS_UP, MOVES_NOTHING, OVERWRITES, WRITES_INDEXED
from irscope.ops.view_steps import ByteSet, byte_set, bytes_covered
from irscope.runtime.arrays import Library, is_cupys
from irscope.runtime.program import flatten

_WITHOUT_EXPRESSION: Final = {"aten::native_batch_norm": 4}
"""Additions and multiplications per element of ops without an expression; other ops count one."""
_ADDED_TO: Final = ("addmm", "addmv", "baddbmm", "addbmm", "_addmm_activation")
"""Products that are added to their first operand."""
_RECURRENT: Final = ("lstm", "gru", "rnn_tanh", "rnn_relu", "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell")
_ARITHMETIC: Final = ("pointwise", "reduction", "normalization")
_PASSED_ON: Final = ("view", "container", "scalar", "control")
"""Categories of ops that read no elements of tensors."""
_FREE: Final = ("view", "memory", "container", "scalar", "control", "random")


@dataclass(frozen=True, slots=True)
class Workload:
    """The least bytes that a run of a program moves, and its arithmetic."""

    bytes: int
    flops: int
    uncounted: tuple[str, ...] = ()
    """The ops whose arithmetic is not known, and not counted."""


def workload(graph: Graph, library: Library, bound: Any, args: Sequence[Any]) -> Workload:
    """Counts one run of a program on arguments that the library owns; the run may write them."""
    code = flatten(graph.body, library, bound=bound)
    slots = code.template.copy()
    rest = iter(args)
    for slot, value in zip(code.inputs, graph.inputs, strict=True):
        slots[slot] = bound[value] if value in bound else next(rest)
    given = [slots[slot] for slot in code.inputs]
    inputs, written, flops = _Parts(given), _Parts(given), 0
    uncounted: dict[str, None] = {}

    def after(position: int) -> None:
        nonlocal flops
        step = code.instructions[position]
        if step.kind == "call" and step.node is not None:
            operands, results = [slots[slot] for slot in step.reads], [slots[slot] for slot in step.writes]
            counted = flops_of(step.node, operands, results)
            flops += counted or 0
            if counted is None:
                uncounted[step.node.op] = None
            if category_of(step.node) not in _PASSED_ON:
                inputs.read(read_by(step.node, operands), part_read(step.node, operands, results))
            if effect_of(step.node) == "in-place":
                written.read(written_by(step.node, operands, results), part_written(step.node, operands))

    code.run(slots, after=after)
    made = [leaf for leaf in leaves([slots[slot] for slot in code.outputs]) if inputs.input_of(_place(leaf)) is None]
    results = _Parts(made)
    results.read(made)
    return Workload(inputs.bytes + written.bytes + results.bytes, flops, tuple(uncounted))


class _Parts:
    """Some tensors, and which of their bytes were read, or written."""

    def __init__(self, values: Sequence[Any]) -> None:
        known = {place for leaf in leaves(values) if (place := _place(leaf)) is not None and not place.is_empty}
        self.known = sorted(known, key=lambda place: place.start)
        self.parts: dict[ByteSet, set[ByteSet]] = {}
        self.looked_up: dict[ByteSet, int] = {}

    def read(self, operands: Sequence[Any], of_first: int | None = None) -> None:
        """Notes what an op reads; `of_first`: the bytes that it reads of its first operand, if these are not all."""
        for index, leaf in enumerate(leaves(operands)):
            place = _place(leaf)
            found = self.input_of(place)
            if place is None or found is None:
                continue
            if index == 0 and of_first is not None:
                self.looked_up[found] = self.looked_up.get(found, 0) + of_first
            else:
                self.parts.setdefault(found, set()).add(place)

    def input_of(self, place: ByteSet | None) -> ByteSet | None:
        """The first of the tensors that reaches over all bytes of another one."""
        if place is None or place.is_empty:
            return None
        for known in self.known[: bisect_right(self.known, place.start, key=lambda x: x.start)]:
            if place.stop <= known.stop:
                return known
        return None

    @property
    def bytes(self) -> int:
        """The bytes that were touched; of more parts of one input than are worth comparing, each counts, up to the whole input."""
        found = 0
        for place in {*self.parts, *self.looked_up}:
            parts = self.parts.get(place, set())
            covered = bytes_covered(parts)
            read = (sum(map(_size, parts)) if covered is None else covered) + self.looked_up.get(place, 0)
            found += min(read, _size(place))
        return found


def read_by(node: Node, operands: Sequence[Any]) -> Sequence[Any]:
    """Returns the operands whose elements a node may read."""
    return () if node.op in MOVES_NOTHING else read_of(node, operands)


def written_by(node: Node, operands: Sequence[Any], results: Sequence[Any]) -> Sequence[Any]:
    """Returns the tensors that a node writes: its results, or its first operand where it has none."""
    return () if node.op in MOVES_NOTHING else results or operands[:1]


def part_read(node: Node, operands: Sequence[Any], results: Sequence[Any]) -> int | None:
    """Returns how many bytes of its first operand a node reads; None for all of it."""
    if node.op in LOOKS_UP:
        return bytes_of(results)
    if node.op in WRITES_INDEXED:
        return part_written(node, operands) if reads_indexed(node, operands) else 0
    return 0 if node.op in OVERWRITES or node.op in CREATES_LIKE else None


def part_written(node: Node, operands: Sequence[Any]) -> int | None:
    """Returns how many bytes of its first operand a node writes, where indices say which; None for all of it."""
    found = elements_indexed(node, operands)
    return None if found is None else min(found * int(operands[0].itemsize), bytes_of(operands[:1]))


def _size(place: ByteSet) -> int:
    """The bytes of a tensor; those that several of its elements share may count for each."""
    return place.width * prod(place.counts) if place.size is None else place.size


def _place(leaf: Any) -> ByteSet | None:
    """Where a tensor lies: the addresses of its bytes; None for anything else."""
    if not (hasattr(leaf, "shape") and hasattr(leaf, "dtype")):
        return None
    if hasattr(leaf, "data_ptr"):
        item = leaf.element_size()
        return byte_set(leaf.data_ptr(), item, leaf.shape, [item * step for step in leaf.stride()])
    if hasattr(leaf, "strides"):
        address = int(leaf.data.ptr) if is_cupys(leaf) else leaf.__array_interface__["data"][0]
        return byte_set(address, leaf.itemsize, leaf.shape, leaf.strides)
    return None


def flops_of(node: Node, given: Sequence[Any], made: Any) -> int | None:
    """Returns the additions and multiplications of a node on its operands; None for an unknown op."""
    category = category_of(node)
    name = node.op.partition("::")[2].rstrip("_")
    if name in _RECURRENT:  # each matrix meets each step of the sequence
        weights = given[2:4] if name.endswith("_cell") else [operand for operand in given if isinstance(operand, list | tuple)][-1]
        multiplied: int = prod(given[0].shape[:-1]) * sum(prod(weight.shape) for weight in weights if len(weight.shape) == 2)
        return 2 * multiplied
    if category in _FREE:
        return 0
    operands: list[tuple[int, ...]] = [tuple(operand.shape) for operand in given if hasattr(operand, "shape")]
    first = made[0] if isinstance(made, tuple | list) and made else made
    result: tuple[int, ...] = tuple(getattr(first, "shape", ()))
    if "kernel_size" in named_inputs(node) and category == "reduction":  # windows, which may overlap
        return prod(result) * prod(spread(given[1], int(name[name.index("pool") + 4])))
    if category in _ARITHMETIC:
        return _flops_at_a_point(node, given) * max(map(prod, (*operands, result)))
    if "scaled_dot_product" in name and len(operands) >= 3:
        query, key, value = operands[name.endswith("_backward") :][:3]
        scores, products = prod(query[:-1]) * key[-2], (3, 2) if name.endswith("_backward") else (1, 1)  # backward computes scores again
        return scores * (2 * (products[0] * query[-1] + products[1] * value[-1]) + 25)
    if name == "convolution_backward":
        output, data, weight = operands[:3]
        wanted: Sequence[bool] = given[10]
        return 2 * prod(data if given[7] else output) * prod(weight[1:]) * sum(wanted[:2])
    if category == "convolution" and len(operands) >= 2:
        has_other = (schema := schema_of(node)) is not None and schema.overload == "binary"  # a tensor that is added
        is_transposed = "transpose" in name or (name.endswith("convolution") and len(given) > 6 and given[6] is True)
        steps = operands[0] if is_transposed else result
        return 2 * prod(steps) * prod(operands[2 if has_other else 1][1:]) + (prod(result) if has_other else 0)
    if name == "einsum":
        return _einsum_flops(*given[:3])
    if name in ("linalg_multi_dot", "chain_matmul"):
        return _chain_flops([tuple(each.shape) for each in given[0]])
    if name == "tensordot":
        summed: Sequence[int] = given[2]
        return 2 * prod(result) * prod(operands[0][dim] for dim in summed)
    if name == "linalg_vecdot":
        return 2 * int(prod(np.broadcast_shapes(*operands[:2])))
    if name in ("outer", "ger", "kron"):
        return prod(result)
    if name in _ADDED_TO or name in ("vdot", "inner") or (category == "matmul" and len(operands) >= 2):
        left = operands[name in _ADDED_TO]
        return 2 * prod(result) * (left[-1] if left else 1) * (left[0] if name == "addbmm" else 1)
    return None if operands else 0


def _einsum_flops(equation: str, tensors: Sequence[Any], path: Sequence[int] | None = None) -> int:
    """The arithmetic of products taken two at a time, in torch's order; what no other operand has is summed before."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    sizes: dict[str | int, int] = {}
    terms: list[set[str | int]] = []
    """The axes of each operand with more than one index; those of an ellipsis are numbers, counted from the last."""
    written: list[str] = left.split(",")
    for term, tensor in zip(written, tensors, strict=True):
        before, _, after = term.partition("...")
        names = [*before, *range(len(before) + len(after) - len(tensor.shape), 0), *after]
        given = dict(zip(names, tensor.shape, strict=True))
        terms.append({name for name, size in given.items() if size != 1})
        sizes.update({name: size for name, size in given.items() if size != 1})
    letters = "".join(written).replace(".", "")
    kept: set[str | int] = {name for name in sizes if isinstance(name, int)}
    kept.update(right.replace(".", "") if arrow else (name for name in letters if letters.count(name) == 1))
    flops, order = 0, iter(path or ())
    while len(terms) > 1:
        first, second = sorted((next(order, 0), next(order, 1)))
        pair = terms.pop(second), terms.pop(first)
        wanted = kept.union(*terms)
        summed = [term - wanted - other for term, other in (pair, pair[::-1])]
        flops += sum(prod(sizes[name] for name in term) for term, gone in zip(pair, summed, strict=True) if gone)
        one, other = (term - gone for term, gone in zip(pair, summed, strict=True))
        both = one | other
        flops += prod(sizes[name] for name in both) * (2 if both - wanted else 1)
        terms.append(both & wanted)
    return flops + (prod(sizes[name] for name in terms[0]) if terms[0] - kept else 0)


def _chain_flops(shapes: Sequence[tuple[int, ...]]) -> int:
    """The arithmetic of a chain of matrix products in the order that needs least; the first and the last factor may be vectors."""
    first = shapes[0] if len(shapes[0]) == 2 else (1, *shapes[0])
    # cubic in their number, as torch's own choice of the order, which it makes at each call
    sizes = [*first, *(shape[-1] if len(shape) == 2 else 1 for shape in shapes[1:])]
    least = {(at, at): 0 for at in range(len(shapes))}
    for length in range(1, len(shapes)):
        for start in range(len(shapes) - length):
            end = start + length
            least[start, end] = min(
                least[start, cut] + least[cut + 1, end] + 2 * sizes[start] * sizes[cut + 1] * sizes[end + 1] for cut in range(start, end)
            )
    return least[0, len(shapes) - 1]


def _flops_at_a_point(node: Node, operands: Sequence[Any]) -> int:
    """Returns the additions and multiplications of an op per element, by its expression."""
    op, schema = op_of(node), schema_of(node)
    if op is None or schema is None or op.expression is None:
        return _WITHOUT_EXPRESSION.get(node.op, 1)
    given: dict[str, Any] = {}
    for index, argument in enumerate(schema.arguments):
        operand = operands[index] if index < len(operands) else argument.default
        is_tensor = hasattr(operand, "shape") and hasattr(operand, "dtype")
        if is_tensor and argument.name in op.operand_axes:  # one value per channel counts like a number
            operand = number(index, "float32")
        elif is_tensor:
            operand = input_element(index, "float32", rank=len(operand.shape))
        given[argument.name] = operand
    try:
        made = op.expression(**given)
    except NoExpression:  # none for floats, or none at all
        return 1
    return max(1, flops_at_a_point(made if isinstance(made, tuple) else (made,)))


def bytes_of(values: Sequence[Any]) -> int:
    """Returns the bytes of the tensors among the values; tensors of the same bytes are counted once."""
    return sum(map(_size, {place for leaf in leaves(values) if (place := _place(leaf)) is not None}))
