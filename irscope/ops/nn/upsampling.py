"""The ops that resize an image by picking or interpolating neighbours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from irscope.ir import Dim, TensorType
from irscope.ops.nn.pooling import in_format, like_input
from irscope.ops.schema import Op
from irscope.ops.schema.define import define
from irscope.ops.typing import Abstract, Array, Unknown, as_dims, is_known, mismatch

__all__ = ["OPS"]


def _upsample_type(space: int) -> Callable[..., TensorType]:
    def rule(
        self: TensorType | None = None,
        input: TensorType | None = None,
        output_size: Abstract = None,
        scale_factors: Abstract = None,
        **rest: Abstract,
    ) -> TensorType:
        source = input if self is None else self
        assert source is not None
        if source.shape is None:
            return TensorType(source.dtype)
        if source.rank != space + 2:
            raise mismatch(f"this upsampling reads a tensor of rank {space + 2}, not {source}", rule="rank")
        sizes = _upsampled_sizes(source.shape[2:], output_size, scale_factors)
        return in_format(source, sizes)

    return rule


def _upsampled_sizes(sizes: Sequence[Dim], output_size: Abstract, scale_factors: Abstract) -> Sequence[Dim]:
    if output_size is not None:
        return as_dims(output_size) or [None] * len(sizes)
    if isinstance(scale_factors, Unknown) or not is_known(list(scale_factors)):
        return [None] * len(sizes)
    return [
        int(size * factor) if isinstance(size, int) else None for size, factor in zip(sizes, scale_factors, strict=True)
    ]


def _scales(arguments: dict[str, Any], space: int) -> list[float | None]:
    if arguments.get("scale_factors") is not None:
        return list(arguments["scale_factors"])
    names = ["scales"] if space == 1 else ["scales_d", "scales_h", "scales_w"][-space:]
    return [arguments.get(name) for name in names]


def _upsample(space: int, along: Callable[..., Array]) -> Callable[..., Array]:
    """Return a reference that upsamples one axis after the other by `along(array, axis, size, scale, align_corners)`."""

    def reference(
        self: Array | None = None,
        input: Array | None = None,
        output_size: Any = None,
        align_corners: bool = False,
        **rest: Any,
    ) -> Array:
        source = input if self is None else self
        assert source is not None
        sizes = _upsampled_sizes(source.shape[2:], output_size, rest.get("scale_factors"))
        result = source
        for axis, (size, scale) in enumerate(zip(sizes, _scales(rest, space), strict=True), 2):
            result = along(result, axis, size, 1 / scale if scale else None, align_corners)
        return like_input(result.astype(source.dtype, copy=False), source)

    return reference


def _nearest(shift: float) -> Callable[..., Array]:
    def along(array: Array, axis: int, size: int, scale: float | None, align_corners: bool) -> Array:
        step = np.float32(scale if scale is not None else array.shape[axis] / size)
        places = np.floor((np.arange(size, dtype=np.float32) + np.float32(shift)) * step).astype(np.int64)
        return np.asarray(np.take(array, np.minimum(places, array.shape[axis] - 1), axis=axis))

    return along


def _linear_along(array: Array, axis: int, size: int, scale: float | None, align_corners: bool) -> Array:
    extent = array.shape[axis]
    if align_corners:
        places = np.arange(size) * ((extent - 1) / (size - 1) if size > 1 else 0.0)
    else:
        step = scale if scale is not None else extent / size
        places = np.maximum((np.arange(size) + 0.5) * step - 0.5, 0)
    low = np.minimum(np.floor(places).astype(np.int64), extent - 1)
    high = np.minimum(low + 1, extent - 1)
    share = (places - low).reshape([-1 if other == axis else 1 for other in range(array.ndim)]).astype(array.dtype)
    return np.asarray(np.take(array, low, axis=axis) * (1 - share) + np.take(array, high, axis=axis) * share)


_SCALES = {
    1: "float? scales=None",
    2: "float? scales_h=None, float? scales_w=None",
    3: "float? scales_d=None, float? scales_h=None, float? scales_w=None",
}


def _upsampling(name: str, space: int, along: Callable[..., Array], corners: str = "") -> Op:
    return define(
        f"aten::{name}(Tensor self, SymInt[{space}] output_size, {corners}{_SCALES[space]}) -> Tensor",
        f"aten::{name}.vec(Tensor input, SymInt[]? output_size, {corners}float[]? scale_factors) -> Tensor",
        category="memory" if not corners else "other",
        type_rule=_upsample_type(space),
        reference=_upsample(space, along),
    )


OPS = (
    *(_upsampling(f"upsample_nearest{space}d", space, _nearest(0.0)) for space in (1, 2, 3)),
    *(_upsampling(f"_upsample_nearest_exact{space}d", space, _nearest(0.5)) for space in (1, 2, 3)),
    _upsampling("upsample_linear1d", 1, _linear_along, "bool align_corners, "),
    _upsampling("upsample_bilinear2d", 2, _linear_along, "bool align_corners, "),
    _upsampling("upsample_trilinear3d", 3, _linear_along, "bool align_corners, "),
)
