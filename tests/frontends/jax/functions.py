"""Functions of `jax.numpy`, `jax.nn` and `jax.lax` with their arguments, as XLA and IREE compile them."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, nn

_RNG = np.random.default_rng(0)


def _floats(*shape: int) -> Any:
    return jnp.asarray(_RNG.standard_normal(shape).astype(np.float32))


def _ints(*shape: int) -> Any:
    return jnp.asarray(_RNG.integers(-9, 9, shape).astype(np.int32))


X, Y, V = _floats(3, 4), _floats(3, 4), _floats(5)
POS, UNIT = jnp.abs(X) + 0.5, jnp.tanh(X) * 0.9
K, J = _ints(3, 4), _ints(3, 4)
A, B = _floats(3, 4), _floats(4, 5)
BATCH_A, BATCH_B = _floats(2, 3, 4), _floats(2, 4, 5)
IMAGE, KERNEL = _floats(2, 8, 9, 3), _floats(3, 3, 3, 6)
SPECIAL = jnp.asarray([0.0, -0.0, np.inf, -np.inf, np.nan, 1.5, 2.5, -2.5], jnp.float32)
ROW = jnp.asarray([2, 0, 2])
BOOLS = X > 0


def _conv(x: Any, w: Any, **rest: Any) -> Any:
    given = {"window_strides": (1, 1), "padding": "SAME", "dimension_numbers": ("NHWC", "HWIO", "NHWC"), **rest}
    return lax.conv_general_dilated(x, w, **given)


def _pool(x: Any, init: float, op: Any, **rest: Any) -> Any:
    return lax.reduce_window(x, init, op, (1, 2, 2, 1), (1, 2, 2, 1), rest.get("padding", "VALID"))


FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    # pointwise
    "add": (jnp.add, (X, Y)),
    "subtract_numbers": (lambda x: 2.0 - x, (X,)),
    "multiply_broadcast": (lambda x, y: x[:, None, :] * y[None, :, :], (X, Y)),
    "divide": (jnp.divide, (X, Y)),
    "power": (jnp.power, (POS, Y)),
    "integer_pow": (lambda x: x**3, (X,)),
    "maximum": (jnp.maximum, (X, Y)),
    "minimum_special": (lambda x: jnp.minimum(x, x[::-1]), (SPECIAL,)),
    "exp": (jnp.exp, (X,)),
    "log1p": (jnp.log1p, (POS,)),
    "expm1": (jnp.expm1, (X,)),
    "sin": (jnp.sin, (X,)),
    "tan": (jnp.tan, (X,)),
    "arctan2": (jnp.arctan2, (X, Y)),
    "arcsinh": (jnp.arcsinh, (X,)),
    "arccos": (jnp.arccos, (UNIT,)),
    "sinh": (jnp.sinh, (X,)),
    "sqrt": (jnp.sqrt, (POS,)),
    "rsqrt": (lax.rsqrt, (POS,)),
    "cbrt": (jnp.cbrt, (X,)),
    "sign_special": (jnp.sign, (SPECIAL,)),
    "round_special": (jnp.round, (SPECIAL,)),
    "round_away": (lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO), (SPECIAL,)),
    "floor_divide": (jnp.floor_divide, (K, J)),
    "floor_divide_float": (jnp.floor_divide, (X, Y)),
    "remainder": (jnp.remainder, (K, J)),
    "lax_div": (lax.div, (K, J)),
    "lax_rem": (lax.rem, (K, J)),
    "rem_float": (lax.rem, (X, Y)),
    "bitwise": (lambda i, j: (i & j) | (i ^ ~j), (K, J)),
    "shifts": (lambda i: (i << 2) + (i >> 1) + lax.shift_right_logical(i, 3), (K,)),
    "isfinite": (jnp.isfinite, (SPECIAL,)),
    "isinf": (jnp.isinf, (SPECIAL,)),
    "nan_to_num": (jnp.nan_to_num, (SPECIAL,)),
    "where": (lambda b, x, y: jnp.where(b, x, y), (BOOLS, X, Y)),
    "clip": (lambda x: jnp.clip(x, -0.5, 0.5), (X,)),
    "astype": (lambda x: (x * 10).astype(jnp.int32), (X,)),
    "half": (lambda x: (x.astype(jnp.bfloat16) * 2).astype(jnp.float32), (X,)),
    "erf": (lambda x: jax.scipy.special.erf(x), (X,)),
    "lgamma": (lambda x: lax.lgamma(x), (POS,)),
    "compare": (lambda x, y: (x < y) & (x != y), (X, Y)),
    # reductions
    "sum": (lambda x: x.sum(), (X,)),
    "sum_axis": (lambda x: jnp.sum(x, axis=1, keepdims=True), (X,)),
    "mean": (lambda x: jnp.mean(x, axis=0), (X,)),
    "var": (lambda x: jnp.var(x, axis=0), (X,)),
    "std": (jnp.std, (X,)),
    "prod": (lambda x: jnp.prod(x, axis=1), (X,)),
    "max": (lambda x: jnp.max(x, axis=0), (X,)),
    "min_int": (jnp.min, (K,)),
    "any_all": (lambda b: (jnp.any(b, axis=0), jnp.all(b)), (BOOLS,)),
    "argmax": (lambda x: jnp.argmax(x, axis=1), (X,)),
    "argmin_int": (lambda i: jnp.argmin(i, axis=0), (K,)),
    "argmax_nan": (jnp.argmax, (SPECIAL,)),
    "logsumexp": (lambda x: nn.logsumexp(x, axis=1), (X,)),
    "cumsum": (lambda x: jnp.cumsum(x, axis=1), (X,)),
    "cumsum_reverse": (lambda x: lax.cumsum(x, axis=0, reverse=True), (X,)),
    "cumprod": (lambda x: jnp.cumprod(x, axis=0), (X,)),
    "cummax": (lambda x: lax.cummax(x, axis=1), (X,)),
    "sum_int": (lambda i: i.sum(axis=1), (K,)),
    "norm": (lambda x: jnp.linalg.norm(x, axis=1), (X,)),
    "median": (jnp.median, (X,)),
    # shapes
    "reshape": (lambda x: x.reshape(2, 6).T, (X,)),
    "concatenate": (lambda x, y: jnp.concatenate([x, y], axis=1), (X, Y)),
    "stack": (lambda x, y: jnp.stack([x, y]), (X, Y)),
    "split": (lambda x: jnp.split(x, 2, axis=1), (X,)),
    "slice": (lambda x: x[1:, ::2], (X,)),
    "reverse": (lambda x: x[::-1, ::-1], (X,)),
    "pad": (lambda x: jnp.pad(x, ((1, 2), (0, 1)), constant_values=3.0), (X,)),
    "pad_lax": (lambda x, v: lax.pad(x, v, ((-1, 1, 0), (1, 0, 2))), (X, jnp.float32(2.0))),
    "roll": (lambda x: jnp.roll(x, 1, axis=1), (X,)),
    "tile": (lambda x: jnp.tile(x, (2, 3)), (X,)),
    "repeat": (lambda x: jnp.repeat(x, 2, axis=0), (X,)),
    "tril": (jnp.tril, (X,)),
    "arange": (lambda x: jnp.arange(4.0) + x, (X,)),
    "eye": (lambda x: jnp.eye(4) + x[0], (X,)),
    "one_hot": (lambda i: nn.one_hot(i, 4), (ROW,)),
    # indexing
    "take": (lambda x, i: jnp.take(x, i, axis=0), (X, ROW)),
    "gather_rows": (lambda x, i: x[i], (X, ROW)),
    "gather_points": (lambda x, i: x[i, i], (X, ROW)),
    "take_along": (lambda x, i: jnp.take_along_axis(x, i, axis=1), (X, jnp.argsort(X, axis=1))),
    "gather_out_of_bounds": (lambda x, i: x.at[i].get(mode="fill", fill_value=7), (X, jnp.asarray([0, 5, -1]))),
    "dynamic_slice": (lambda x, i: lax.dynamic_slice(x, (i, 1), (2, 2)), (X, jnp.int32(9))),
    "dynamic_update": (lambda x, y, i: lax.dynamic_update_slice(x, y, (i, 2)), (X, Y[:2, :1], jnp.int32(1))),
    "scatter_set": (lambda x, i: x.at[i].set(1.0), (X, jnp.asarray([2, 0]))),
    "scatter_add": (lambda x, i: x.at[i].add(1.0), (X, ROW)),
    "scatter_drop": (lambda x, i: x.at[i].set(1.0, mode="drop"), (X, jnp.asarray([1, 7]))),
    "scatter_column": (lambda x, v: x.at[:, 1].set(v), (X, jnp.arange(3.0))),
    "segment_sum": (lambda x: jax.ops.segment_sum(x, ROW, num_segments=3), (X,)),
    # order
    "sort": (lambda x: jnp.sort(x, axis=0), (X,)),
    "sort_special": (jnp.sort, (SPECIAL,)),
    "argsort": (lambda x: jnp.argsort(x, axis=1), (X,)),
    "sort_keys": (lambda i, j: lax.sort((i, j), dimension=1, num_keys=2), (K, J)),
    "top_k": (lambda x: lax.top_k(x, 2), (X,)),
    "searchsorted": (lambda v, x: jnp.searchsorted(jnp.sort(v), x), (V, V)),
    # products
    "matmul": (jnp.matmul, (A, B)),
    "batch_matmul": (jnp.matmul, (BATCH_A, BATCH_B)),
    "vector_dot": (jnp.dot, (V, V)),
    "einsum": (lambda a, b: jnp.einsum("bij,bjk->kbi", a, b), (BATCH_A, BATCH_B)),
    "tensordot": (lambda a, b: jnp.tensordot(a, b, axes=((1, 2), (0, 1))), (_floats(2, 3, 4), _floats(3, 4, 5))),
    "outer": (jnp.outer, (V, V)),
    "int8_dot": (
        lambda i, j: lax.dot(i.astype(jnp.int8), j.T.astype(jnp.int8), preferred_element_type=jnp.int32), (K, J)
    ),
    "conv": (_conv, (IMAGE, KERNEL)),
    "conv_stride": (lambda x, w: _conv(x, w, window_strides=(2, 2), padding=((0, 1), (2, 0))), (IMAGE, KERNEL)),
    "conv_dilated": (lambda x, w: _conv(x, w, rhs_dilation=(2, 1), lhs_dilation=(1, 2), padding=((1, 2), (0, 3))), (IMAGE, KERNEL)),
    "conv_depthwise": (lambda x, w: _conv(x, w, feature_group_count=3), (IMAGE, _floats(3, 3, 1, 6))),
    "conv_1d": (
        lambda x, w: lax.conv_general_dilated(x, w, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")),
        (_floats(2, 7, 3), _floats(3, 3, 4)),
    ),
    "conv_transpose": (lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME"), (IMAGE, KERNEL)),
    "max_pool": (lambda x: _pool(x, -jnp.inf, lax.max), (IMAGE,)),
    "avg_pool": (lambda x: _pool(x, 0.0, lax.add, padding="SAME") / 4, (IMAGE,)),
    # jax.nn
    "relu": (nn.relu, (X,)),
    "gelu": (nn.gelu, (X,)),
    "gelu_exact": (lambda x: nn.gelu(x, approximate=False), (X,)),
    "silu": (nn.silu, (X,)),
    "softplus": (nn.softplus, (X,)),
    "sigmoid": (nn.sigmoid, (X,)),
    "softmax": (lambda x: nn.softmax(x, axis=1), (X,)),
    "log_softmax": (nn.log_softmax, (X,)),
    "elu": (nn.elu, (X,)),
    "leaky_relu": (nn.leaky_relu, (X,)),
    "standardize": (nn.standardize, (X,)),
    "attention": (nn.dot_product_attention, (_floats(2, 5, 2, 4), _floats(2, 5, 2, 4), _floats(2, 5, 2, 4))),
    # control flow
    "cond": (lambda x, y: lax.cond(x.sum() > 0, lambda a: a * 2, lambda a: a - y, x), (X, Y)),
    "switch": (lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.tanh], x), (jnp.int32(7), X)),
    "scan": (lambda x: lax.scan(lambda c, a: (c + a, c * a), jnp.zeros(4), x), (X,)),
    "fori": (lambda x: lax.fori_loop(0, 5, lambda i, c: c * 1.5 + i, x), (X,)),
    "while": (lambda x: lax.while_loop(lambda c: c.sum() < 50, lambda c: c * 2 + 1, jnp.abs(x)), (X,)),
    "map": (lambda x: lax.map(lambda r: r.sum() * r, x), (X,)),
    "associative_scan": (lambda x: lax.associative_scan(jnp.multiply, x, axis=1), (X,)),
    # wider
    "random_uniform": (lambda key: jax.random.uniform(key, (3, 2)), (jax.random.PRNGKey(0),)),
    "random_normal": (lambda key: jax.random.normal(key, (5,)), (jax.random.PRNGKey(1),)),
    "permutation": (lambda key: jax.random.permutation(key, 5), (jax.random.PRNGKey(2),)),
    "fft": (lambda v: jnp.abs(jnp.fft.fft(v)), (V,)),
    "irfft": (lambda v: jnp.fft.irfft(jnp.fft.rfft(v), n=5), (V,)),
    "complex": (lambda x: jnp.exp(1j * x) * (x + 2j), (X,)),
    "bitcast": (lambda x: lax.bitcast_convert_type(x, jnp.int32), (X,)),
    "copysign": (lambda x, y: jnp.copysign(x, y), (X, Y)),
    "frexp": (jnp.frexp, (X,)),
    "nextafter": (lambda x: jnp.nextafter(x, jnp.zeros_like(x)), (X,)),
    "scatter_slice": (lambda x, v: x.at[1:, 1:-1].set(v).at[:, 0].multiply(v[0, 0]).at[2, 1:].max(v[1, 1]), (X, jnp.full((2, 2), 0.3))),
    "scatter_slice_add": (lambda x, v: x.at[1:-1].add(v).at[0, 1].min(v[0]).at[-1, -2:].add(2.0), (X, jnp.arange(4.0))),
    "scatter_min": (lambda x, i: x.at[i].min(0.1), (X, ROW)),
    "scatter_multiply": (lambda x, i: x.at[i].multiply(2.0), (X, ROW)),
    "percentile": (lambda x: jnp.percentile(x, 30), (X,)),
    "interp": (lambda v: jnp.interp(v, jnp.arange(5.0), jnp.arange(5.0) ** 2), (V,)),
    "unique": (lambda i: jnp.unique(i, size=12), (K,)),
    "resize": (lambda x: jax.image.resize(x, (2, 16, 18, 3), "bilinear"), (IMAGE,)),
    "igamma": (lambda x: lax.igamma(x, x), (POS,)),
    "unsigned": (lambda i: (i.astype(jnp.uint32) * 3 + 7) // 2 % 5, (K,)),
    "convolve": (lambda v: jnp.convolve(v, v), (V,)),
    "nonzero": (lambda x: jnp.nonzero(x > 0, size=12), (X,)),
    "diagonal_sum": (lambda x: jnp.einsum("ii->", x[:, :3]), (X,)),
    # transformed
    "grad": (jax.grad(lambda x: (jnp.tanh(x) ** 2).sum()), (X,)),
    "grad_softmax": (jax.grad(lambda x: (nn.softmax(x)[:, 0]).sum()), (X,)),
    "grad_conv": (jax.grad(lambda w, x: (_conv(x, w, window_strides=(2, 2)) ** 2).sum()), (KERNEL, IMAGE)),
    "grad_depthwise": (jax.grad(lambda w, x: (_conv(x, w, feature_group_count=3) ** 2).sum()), (_floats(3, 3, 1, 6), IMAGE)),
    "grad_pool": (jax.grad(lambda x: (_pool(x, -jnp.inf, lax.max) ** 2).sum()), (IMAGE,)),
    "grad_gather": (jax.grad(lambda x: (x[ROW] ** 2).sum()), (X,)),
    "grad_scan": (jax.grad(lambda x: lax.scan(lambda c, a: (jnp.sin(c) + a, c * a), jnp.zeros(4), x)[0].sum()), (X,)),
    "vmap": (jax.vmap(lambda a, b: a @ b), (BATCH_A, BATCH_B)),
    "vmap_gather": (jax.vmap(lambda x, i: x[i]), (X, jnp.asarray([1, 3, 0]))),
    "vmap_dynamic_slice": (jax.vmap(lambda x, i: lax.dynamic_slice(x, (i,), (2,))), (X, jnp.asarray([1, 3, 0]))),
    "vmap_grad": (jax.vmap(jax.grad(lambda x: jnp.prod(x))), (POS,)),
    "jvp": (lambda x, y: jax.jvp(jnp.sin, (x,), (y,)), (X, Y)),
    "hessian": (jax.hessian(lambda v: (v**3).sum()), (V,)),
    "value_and_grad": (jax.value_and_grad(lambda x, y: ((x - y) ** 2).mean()), (X, Y)),
    "checkpoint": (jax.grad(lambda x: jax.checkpoint(lambda z: jnp.sin(jnp.cos(z)))(x).sum()), (X,)),
    "custom_jvp": (jax.grad(lambda x: nn.relu(x).sum()), (X,)),
}  # fmt: skip
"""Name to function and arguments."""
