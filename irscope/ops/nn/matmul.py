"""The ops that are sums of products: matrix products in all their forms, einsum, attention, Fourier transforms."""

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from irscope._base.words import plural
from irscope.ir import TENSOR, Dim, TensorType
from irscope.ops.numpy_layout import Array
from irscope.ops.op import Op, define
from irscope.ops.type_rules import (
    Abstract,
    Unknown,
    broadcast,
    dtype_name,
    fresh,
    is_integral,
    is_known,
    mismatch,
    refined,
    same_dim,
    to_complex,
    to_float,
    to_real,
    wrap_dim,
)

# The ops that are sums of products: matrix products in all their forms, einsum, attention.
#
# Results are row-major, whatever the operands' strides are. Only the strides of einsum's and attention's results are left unknown,
# because torch chooses between several implementations.


def _same_dtype(*tensors: TensorType | None) -> str | None:
    kinds = {tensor.dtype for tensor in tensors if tensor is not None}
    return kinds.pop() if len(kinds) == 1 else None


def _product(a: TensorType, b: TensorType, rank: int, op: str, out_dtype: Abstract = None) -> TensorType:
    """Return the type of a product of two matrices, or of two batches of rank 3."""
    dtype = dtype_name(out_dtype, _same_dtype(a, b))
    if a.shape is None or b.shape is None:
        return TensorType(dtype)
    if len(a.shape) != rank or len(b.shape) != rank:
        raise mismatch(f"{op} takes two tensors of rank {rank}, not {a} and {b}", rule="rank")
    same_dim(a.shape[-1], b.shape[-2], what=f"{op} of {a} and {b}: inner dimensions differ", rule="matmul-inner")
    batch = [
        same_dim(x, y, what=f"{op} of {a} and {b}: batches differ", rule="matmul-batch")
        for x, y in zip(a.shape[:-2], b.shape[:-2], strict=True)
    ]
    return fresh(dtype, (*batch, a.shape[-2], b.shape[-1]))


def _added(bias: TensorType, product: TensorType) -> TensorType:
    if bias.shape is not None and product.shape is not None:
        joined = broadcast(bias.shape, product.shape)
        assert joined is not None
        for there, here in zip(joined[::-1], product.shape[::-1], strict=False):
            same_dim(here, there, what=f"{bias} does not broadcast to the product {product}", rule="broadcast")
        if len(joined) > len(product.shape):
            raise mismatch(f"{bias} does not broadcast to the product {product}", rule="broadcast")
    return product


def _matmul(self: TensorType, other: TensorType) -> TensorType:
    dtype = _same_dtype(self, other)
    a, b = self.shape, other.shape
    if a is None or b is None:
        return TensorType(dtype)
    if not a or not b:
        raise mismatch(f"matmul takes tensors of rank 1 or more, not {self} and {other}", rule="rank")
    inner = b[0] if len(b) == 1 else b[-2]
    same_dim(a[-1], inner, what=f"matmul of {self} and {other}: inner dimensions differ", rule="matmul-inner")
    batch = broadcast(a[:-2], b[:-2])
    assert batch is not None
    rows = () if len(a) == 1 else (a[-2],)
    columns = () if len(b) == 1 else (b[-1],)
    return fresh(dtype, (*batch, *rows, *columns))


def linear_type(input: TensorType, weight: TensorType, bias: TensorType | None = None) -> TensorType:
    dtype = _same_dtype(input, weight, bias)
    if input.shape is None or weight.shape is None:
        return TensorType(dtype)
    if not input.shape or len(weight.shape) not in (1, 2):
        raise mismatch(f"linear takes an input of at least one dimension and a weight of one or two, not {input} and {weight}", rule="rank")
    same_dim(input.shape[-1], weight.shape[-1], what=f"linear of {input} with weight {weight}: features differ", rule="matmul-inner")
    result = (*input.shape[:-1], *weight.shape[:-1])
    if isinstance(bias, TensorType) and bias.shape is not None and broadcast(bias.shape, result) is None:
        return TensorType(dtype)
    return fresh(dtype, result)


def _einsum(equation: Abstract, tensors: Abstract, path: Abstract = None) -> TensorType:
    if isinstance(tensors, Unknown) or isinstance(equation, Unknown) or "..." in equation:
        return TENSOR
    dtype = _same_dtype(*tensors)
    if dtype is not None and is_integral(dtype) and dtype != "int64":
        dtype = None  # where torch sums before it multiplies, the sum is of int64
    terms, result = _einsum_terms(equation, len(tensors))
    sizes: dict[str, Dim] = {}
    for term, tensor in zip(terms, tensors, strict=True):
        if tensor.shape is None:
            return TensorType(dtype)
        if len(term) != len(tensor.shape):
            raise mismatch(f"einsum's {term!r} does not fit {tensor}", rule="einsum")
        for letter, dim in zip(term, tensor.shape, strict=True):
            known = sizes.setdefault(letter, dim)
            if known == 1 or known is None:
                sizes[letter] = dim
            elif isinstance(known, int) and isinstance(dim, int) and dim not in (1, known):
                raise mismatch(f"einsum {equation!r}: {letter} is {known} and {dim}", rule="einsum")
    return refined(dtype, [sizes[letter] for letter in result])


def _einsum_terms(equation: str, count: int) -> tuple[list[str], str]:
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != count:
        raise mismatch(f"einsum {equation!r} names {plural(len(terms), 'operand')}, {count} are given", rule="einsum")
    letters = "".join(terms)
    return terms, right if arrow else "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))


def _attention(query: TensorType, key: TensorType, value: TensorType, **rest: Abstract) -> TensorType:
    dtype = _same_dtype(query, key, value)
    if query.shape is None or key.shape is None or value.shape is None:
        return TensorType(dtype)
    what = f"attention of query {query} over key {key}"
    same_dim(query.shape[-1], key.shape[-1], what=f"{what}: features differ", rule="matmul-inner")
    same_dim(key.shape[-2], value.shape[-2], what=f"attention over key {key}, value {value}: lengths differ", rule="matmul-inner")
    return refined(dtype, (*query.shape[:-1], value.shape[-1]))


def wide(array: Array) -> Array:
    """Return the array in the type in which products are summed: halves in float32."""
    return array.astype(np.float32) if array.dtype == np.float16 else array


def _matmul_array(self: Array, *others: Array, **named: Array) -> Array:
    (other,) = (*others, *named.values())  # `other`, `mat2`, `vec` or `tensor`
    if self.dtype == other.dtype != np.float16:
        return np.asarray(np.matmul(self, other))
    return np.asarray(np.matmul(wide(self), wide(other))).astype(np.result_type(self, other), copy=False)


def _addmm_array(self: Array, beta: Any = 1, alpha: Any = 1, **named: Array) -> Array:
    a, b = named.values()  # `mat1` and `mat2`, or `batch1` and `batch2`
    product = np.matmul(wide(a), wide(b))
    product = product if alpha == 1 else product * alpha
    return np.asarray(product if beta == 0 else product + self * beta).astype(self.dtype, copy=False)


def linear_array(input: Array, weight: Array, bias: Array | None = None) -> Array:
    product = np.matmul(wide(input), wide(weight).T)
    return np.asarray(product if bias is None else product + bias).astype(input.dtype, copy=False)


def _attention_arrays(
    query: Array, key: Array, value: Array, attn_mask: Array | None = None, is_causal: bool = False, scale: float | None = None,
    enable_gqa: bool = False, **rest: Any,
) -> tuple[Array, Array]:  # fmt: skip
    """Compute softmax(q kᵀ · scale + mask) v, and the logarithm of the sum of exponentials."""
    if enable_gqa:
        key, value = (np.repeat(part, query.shape[-3] // part.shape[-3], axis=-3) for part in (key, value))
    scores = np.matmul(wide(query), np.swapaxes(wide(key), -1, -2)) * (scale or 1 / math.sqrt(query.shape[-1]))
    mask = np.tri(*scores.shape[-2:], dtype=np.bool_) if is_causal else attn_mask
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == np.bool_ else scores + mask
    peak = scores.max(axis=-1, keepdims=True)
    peak = np.where(np.isfinite(peak), peak, 0)
    weights = np.exp(scores - peak)
    total = weights.sum(axis=-1, keepdims=True)
    weights = np.divide(weights, total, out=np.zeros_like(weights), where=total != 0)
    with np.errstate(all="ignore"):
        logsumexp = (np.log(total) + peak)[..., 0]
    return np.matmul(weights, wide(value)).astype(query.dtype, copy=False), logsumexp


def _product_op(name: str, rule: Callable[..., Any], array: Callable[..., Any]) -> Op:
    return define(f"aten::{name}", category="matmul", type_rule=rule, reference=array)


_PRODUCTS = (
    define(
        "aten::linalg_det",
        category="other",
        type_rule=lambda A: refined(A.dtype, None if A.shape is None else A.shape[:-2]),
        reference=lambda A: np.asarray(np.linalg.det(A), A.dtype),
    ),
    *(
        _product_op(op, lambda self, mat2, out_dtype=None, rank=rank, op=op: _product(self, mat2, rank, op, out_dtype), _matmul_array)
        for op, rank in (("mm", 2), ("bmm", 3))
    ),
    _product_op("addmm", lambda self, mat1, mat2, **rest: _added(self, _product(mat1, mat2, 2, "addmm")), _addmm_array),
    _product_op("baddbmm", lambda self, batch1, batch2, **rest: _added(self, _product(batch1, batch2, 3, "baddbmm")), _addmm_array),
    _product_op("matmul", _matmul, _matmul_array),
    _product_op("mv", lambda self, vec: _matmul(self, vec), _matmul_array),
    _product_op("dot", lambda self, tensor: _matmul(self, tensor), _matmul_array),
    _product_op("linear", linear_type, linear_array),
    _product_op(
        "outer",
        lambda self, vec2: fresh(_same_dtype(self, vec2), (*self.shape, *vec2.shape) if self.shape and vec2.shape else None),
        lambda self, vec2: np.outer(self, vec2),
    ),
    _product_op(
        "einsum",
        _einsum,
        lambda equation, tensors, path=None: np.asarray(np.einsum(equation, *tensors, optimize=len(tensors) > 2), order="C"),
    ),
    _product_op("scaled_dot_product_attention", _attention, lambda *given, **named: _attention_arrays(*given, **named)[0]),
    _product_op(
        "_scaled_dot_product_flash_attention_for_cpu",
        lambda query, *given, **named: (_attention(query, *given, **named), TensorType(None, query.shape and query.shape[:-1])),
        _attention_arrays,
    ),
)


# Discrete Fourier transforms, along one axis and along several.


def _axes(rank: int, sizes: Any, dim: Any) -> list[int]:
    """Return the transformed axes; without `dim` the last ones, as many as there are sizes, or all."""
    if dim is None:
        return list(range(rank - len(sizes) if sizes is not None else 0, rank))
    return [wrap_dim(axis, rank, op="a Fourier transform") for axis in (dim if isinstance(dim, list | tuple) else [dim])]


def _sizes(shape: tuple[Any, ...], axes: list[int], sizes: Any, halved: bool) -> list[Any]:
    """Return how many elements each axis has where it is longest; `halved` if the last one holds half of them."""
    own = [shape[axis] for axis in axes]
    if halved and own:
        own[-1] = 2 * (own[-1] - 1) if isinstance(own[-1], int) else None
    given = [None] * len(axes) if sizes is None else sizes if isinstance(sizes, list | tuple) else [sizes]
    return [mine if size in (None, -1) else size for mine, size in zip(own, given, strict=True)]


def _result_dtype(name: str, dtype: str | None) -> str | None:
    if dtype is None:
        return None
    real = to_real(to_float(dtype))
    return real if name == "irfft" else to_complex(real)


def _rule(name: str) -> Callable[..., TensorType]:
    def rule(self: TensorType, n: Abstract = None, s: Abstract = None, dim: Abstract = None, norm: Abstract = None) -> TensorType:
        dtype, sizes = _result_dtype(name, self.dtype), n if s is None else s
        if self.shape is None or not is_known((sizes, dim)):
            return refined(dtype, None)
        axes = _axes(len(self.shape), sizes, dim)
        shape: list[Dim] = list(self.shape)
        for axis, size in zip(axes, _sizes(self.shape, axes, sizes, name == "irfft"), strict=True):
            shape[axis] = size
        if name == "rfft" and axes:
            last = shape[axes[-1]]
            shape[axes[-1]] = last // 2 + 1 if isinstance(last, int) else None
        return refined(dtype, shape)

    return rule


def _reference(name: str) -> Callable[..., Array]:
    function = getattr(np.fft, f"{name}n")

    def reference(self: Array, n: Any = None, s: Any = None, dim: Any = None, norm: Any = None) -> Array:
        sizes = n if s is None else s
        axes = _axes(self.ndim, sizes, dim)
        found = function(self, _sizes(self.shape, axes, sizes, name == "irfft"), axes, norm)
        return np.asarray(found, _result_dtype(name, str(self.dtype)))

    return reference


_TRANSFORMS: Final = tuple(
    define(f"aten::fft_{name}{axes}", category="other", type_rule=_rule(name), reference=_reference(name))
    for name in ("fft", "ifft", "rfft", "irfft")
    for axes in ("", "2", "n")
)

OPS = (*_PRODUCTS, *_TRANSFORMS)
