"""Discrete Fourier transforms, along one axis and along several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from irscope.ir import Dim, TensorType
from irscope.ops.numpy_layout import Array
from irscope.ops.op import Op, define
from irscope.ops.type_rules import Abstract, is_known, refined, to_complex, to_float, to_real, wrap_dim

_NAMES: Final = ("fft", "ifft", "rfft", "irfft")


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


def _transforms(name: str) -> tuple[Op, ...]:
    texts = (
        f"aten::fft_{name}(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor",
        f"aten::fft_{name}2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor",
        f"aten::fft_{name}n(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor",
    )
    return tuple(define(text, category="other", type_rule=_rule(name), reference=_reference(name)) for text in texts)


OPS: Final = tuple(op for name in _NAMES for op in _transforms(name))
