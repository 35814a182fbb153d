"""The least work of a program: the bytes that it must move and its arithmetic, counted in one run.

Bytes are counted for the whole program, not for each op: every input tensor that is read, and every result, once. A perfect
fusion would move exactly these, and the number is the same for all competitors, so that their speeds can be compared.
Arithmetic is counted op by op in the run: as many additions and multiplications per element as the float32 code of this
package's kernels has, and two for each term of a matrix product. Unknown ops are listed, not guessed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

from irscope._base.nested import leaves
from irscope.ir import Graph, Node
from irscope.ops.expr import NoExpression, flops_at_a_point, input_element, number
from irscope.ops.registry import category_of, op_of, schema_of
from irscope.runtime.arrays import Library, is_cupys
from irscope.runtime.program import flatten

_WITHOUT_EXPRESSION: Final = {"aten::native_batch_norm": 4}
"""Additions and multiplications per element of ops without an expression; other ops count one."""
_ADDED_TO: Final = ("addmm", "addmv", "baddbmm", "addbmm")
"""Products that are added to their first operand."""
_ARITHMETIC: Final = ("pointwise", "reduction", "normalization")
_FREE: Final = ("view", "memory", "container", "scalar", "control", "random")


@dataclass(frozen=True, slots=True)
class Workload:
    """The least bytes that a run of a program moves, and its arithmetic."""

    bytes: int
    flops: int


def workload(graph: Graph, library: Library, bound: Any, args: Sequence[Any]) -> Workload:
    """Counts one run of a program on arguments that the library owns; the run may write them.

    >>> import numpy as np
    >>> from irscope.ir.text.parser import parse
    >>> from irscope.runtime.arrays.numpy import NumpyLibrary
    >>> g = parse("graph(%x : Tensor):\\n  %y : Tensor = aten::exp(%x)\\n  return (%y)")
    >>> found = workload(g, NumpyLibrary(), {}, [np.ones((10, 10), np.float32)])
    >>> found.bytes, found.flops
    (800, 2100)
    """
    code = flatten(graph.body, library, bound=bound)
    slots = code.template.copy()
    given = iter(args)
    for slot, value in zip(code.inputs, graph.inputs, strict=True):
        slots[slot] = bound[value] if value in bound else next(given)
    used = {value for node in graph.nodes() for value in node.inputs} | set(graph.body.returns)
    read = [slots[slot] for slot, value in zip(code.inputs, graph.inputs, strict=True) if value in used]
    moved, flops = bytes_of(read), 0

    def after(position: int) -> None:
        nonlocal flops
        step = code.instructions[position]
        if step.kind == "call" and step.node is not None:
            operands, results = [slots[slot] for slot in step.reads], [slots[slot] for slot in step.writes]
            flops += flops_of(step.node, operands, results) or 0

    code.run(slots, after=after)
    return Workload(moved + bytes_of([slots[slot] for slot in code.outputs]), flops)


def flops_of(node: Node, given: Sequence[Any], made: Any) -> int | None:
    """Returns the additions and multiplications of a node on its operands; None for an unknown op."""
    category = category_of(node)
    if category in _FREE:
        return 0
    operands: list[tuple[int, ...]] = [tuple(operand.shape) for operand in given if hasattr(operand, "shape")]
    first = made[0] if isinstance(made, tuple | list) and made else made
    result: tuple[int, ...] = tuple(getattr(first, "shape", ()))
    if category in _ARITHMETIC:
        return _flops_at_a_point(node, given) * max(map(prod, (*operands, result)))
    name = node.op.partition("::")[2].rstrip("_")
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
        return _einsum_flops(*given[:2])
    if name == "outer":
        return prod(result)
    if name in _ADDED_TO or (category == "matmul" and len(operands) >= 2):
        left = operands[name in _ADDED_TO]
        return 2 * prod(result) * (left[-1] if left else 1) * (left[0] if name == "addbmm" else 1)
    return None if operands else 0


def _einsum_flops(equation: str, tensors: Sequence[Any]) -> int | None:
    """The arithmetic of a product of two tensors; None for more, whose order is the library's."""
    terms = equation.replace(" ", "").partition("->")[0].split(",")
    if len(tensors) != 2 or "." in equation:
        return None
    sizes: dict[str, int] = {}
    for term, tensor in zip(terms, tensors, strict=True):
        sizes.update({k: n for k, n in zip(term, tensor.shape, strict=True) if n != 1 or k not in sizes})
    both, once = set(terms[0]) & set(terms[1]), set(terms[0]) ^ set(terms[1])
    result = set(equation.partition("->")[2]) if "->" in equation else {k for k in sizes if terms[0].count(k) + terms[1].count(k) == 1}
    products = prod(sizes[k] for k in sizes if k in both or (k in once and k in result))  # others are summed before
    return products * (2 if both - result else 1)


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
    """Returns the bytes of the tensors among the values; shared memory is counted once for each address and size of view."""
    seen = {}
    for leaf in leaves(values):
        if not (hasattr(leaf, "shape") and hasattr(leaf, "dtype")):
            continue
        if hasattr(leaf, "data_ptr"):
            shape, strides, item = tuple(leaf.shape), leaf.stride(), leaf.element_size()
            place: int = leaf.data_ptr()
        elif hasattr(leaf, "strides"):
            shape, strides, item = leaf.shape, leaf.strides, leaf.itemsize
            place = int(leaf.data.ptr) if is_cupys(leaf) else leaf.__array_interface__["data"][0]
        else:
            continue
        own = prod(size for size, stride in zip(shape, strides, strict=True) if stride or size == 0)
        seen[place, own * item] = own * item
    return sum(seen.values())
