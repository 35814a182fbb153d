"""Builders of image resampling: Resize, Upsample, GridSample, AffineGrid.

`aten::upsample_*` has three of ONNX's mappings from output to input coordinates: half_pixel, align_corners and, for
nearest neighbours, asymmetric. Nearest neighbours of any other mapping are an index along each axis, computed here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from irscope.frontends.onnx.building.call import Call
from irscope.frontends.onnx.building.held import Held, Item
from irscope.frontends.onnx.building.op_table import Table, op
from irscope.frontends.onnx.reading.types import FLOATS
from irscope.ir import Dim, Value

__all__ = ["OPS"]

OPS: Table = {}

_WORDS: Final = {1: "linear1d", 2: "bilinear2d", 3: "trilinear3d"}


@op(OPS, "Upsample", since=9)
def _upsample(call: Call) -> Value:
    scales = [float(scale) for scale in call.known(1)]
    sizes = [_grown(call, axis, scale) for axis, scale in enumerate(scales)]
    return _resized(call, sizes, scales, call.text("mode", "nearest"), "asymmetric", "floor")


@op(OPS, "Resize", since=11)
def _resize(call: Call) -> Value:
    """Resizes to known sizes or scales; crops to a region of interest stay `onnx::`."""
    sizes, scales = _target(call)
    way = call.text("coordinate_transformation_mode", "half_pixel")
    if call.integer("antialias", 0) or call.integer("exclude_outside", 0) or way == "tf_crop_and_resize":
        raise call.refuse("it uses antialias, exclude_outside or tf_crop_and_resize")
    return _resized(call, sizes, scales, call.text("mode", "nearest"), way, call.text("nearest_mode", "round_prefer_floor"))


def _grown(call: Call, axis: int, scale: float) -> Item:
    """Returns the extent of an axis that is scaled by a factor."""
    extent = call.size(call.any(0), axis)
    if isinstance(extent, int):
        return math.floor(extent * scale)
    if scale == 1:
        return extent
    if not scale.is_integer():
        raise call.refuse("the extent of an axis that it resizes is not known")
    return call.op("mul", extent, int(scale))


def _target(call: Call) -> tuple[list[Item], list[float]]:
    """Returns the extents of the result, and the scale of each axis."""
    shape = call.shape()
    axes = [call.wrap(axis, len(shape)) for axis in call.attr("axes", range(len(shape)))]
    if call.has(3) and call.known(3).size:
        if call.text("keep_aspect_ratio_policy", "stretch") != "stretch":
            raise call.refuse("it keeps the aspect ratio")
        wanted = dict(zip(axes, call.known_ints(3), strict=True))
        if not all(isinstance(extent, int) for axis, extent in enumerate(shape) if axis in wanted):
            raise call.refuse("the extent of an axis that it resizes is not known")
        scales = [wanted[a] / e if isinstance(e, int) and e and a in wanted else 1.0 for a, e in enumerate(shape)]
        return [wanted.get(axis, call.size(call.any(0), axis)) for axis in range(len(shape))], scales
    by = dict(zip(axes, (float(scale) for scale in call.known(2)), strict=True))
    scales = [by.get(axis, 1.0) for axis in range(len(shape))]
    return [_grown(call, axis, scale) for axis, scale in enumerate(scales)], scales


def _resized(call: Call, sizes: list[Item], scales: list[float], mode: str, way: str, rounding: str) -> Value:
    shape = call.shape()
    spatial = len(shape) - 2
    if mode == "nearest":
        return _nearest(call, sizes, scales, way, rounding)
    if scales[:2] != [1, 1] or call.dtype() not in FLOATS or 0 in (*sizes, *shape):
        raise call.refuse("it resizes batch or channels, integers, or an empty tensor")
    corners = way == "align_corners"
    single = way == "pytorch_half_pixel" and any(not isinstance(size, int) or size == 1 for size in sizes[2:])
    if way not in ("half_pixel", "pytorch_half_pixel", "align_corners") or single:
        raise call.refuse(f"its coordinate_transformation_mode is {way}")
    if corners and not all(_is_exact(*axis) for axis in zip(scales, shape, sizes, strict=True)):
        raise call.refuse("it aligns corners, and its scales do not lead to whole extents")
    factors = [None if _is_exact(*axis) else axis[0] for axis in zip(scales, shape, sizes, strict=True)]
    if mode == "cubic" and spatial == 2 and call.attr("cubic_coeff_a", -0.75) == -0.75:
        return call.op("upsample_bicubic2d", call.x(), sizes[2:], corners, *factors[2:])
    if mode != "linear" or spatial not in _WORDS:
        raise call.refuse(f"its mode is {mode} over {spatial} axes")
    return call.op(f"upsample_{_WORDS[spatial]}", call.x(), sizes[2:], corners, *factors[2:])


def _is_exact(scale: float, extent: Dim, size: Item) -> bool:
    """Checks whether the scale is the ratio of the extents; for an unknown extent the scale is an integer anyway."""
    return size == extent * scale if isinstance(extent, int) and isinstance(size, int) else True


def _nearest(call: Call, sizes: list[Item], scales: list[float], way: str, rounding: str) -> Value:
    shape = call.shape()
    spatial = len(shape) - 2
    has_op = call.dtype() in FLOATS | {"uint8"} and 1 <= spatial <= 3
    plain = has_op and way == "asymmetric" and rounding == "floor" and scales[:2] == [1, 1]
    if plain and all(_is_exact(*axis) for axis in zip(scales, shape, sizes, strict=True)):
        return call.op(f"upsample_nearest{spatial}d", call.any(0), sizes[2:], *[None] * spatial)
    x = call.any(0)
    for axis, (extent, size, scale) in enumerate(zip(shape, sizes, scales, strict=True)):
        if scale == 1 and (size == extent or not isinstance(extent, int)):
            continue
        if not isinstance(extent, int) or not isinstance(size, int) or size > 1 << 16 or not extent:
            raise call.refuse("an extent that it resizes is unknown, zero, or too large for one index per element")
        place, pick = _WAYS.get(way), _ROUNDINGS.get(rounding)
        if place is None or pick is None:
            raise call.refuse(f"its coordinate_transformation_mode is {way}")
        index = [min(max(pick(place(at, extent, size, scale)), 0), extent - 1) for at in range(size)]
        x = call.op("index_select", x, axis, call.values.value_of(Held(array=np.array(index, np.int64))))
    return x


_WAYS: Final[dict[str, Callable[[int, int, int, float], float]]] = {
    "asymmetric": lambda at, extent, size, scale: at / scale,
    "half_pixel": lambda at, extent, size, scale: (at + 0.5) / scale - 0.5,
    "pytorch_half_pixel": lambda at, extent, size, scale: (at + 0.5) / scale - 0.5 if size > 1 else 0.0,
    "align_corners": lambda at, extent, size, scale: at * (extent - 1) / (size - 1) if size > 1 else 0.0,
    "half_pixel_symmetric": lambda at, extent, size, scale: (
        extent / 2 * (1 - size / (scale * extent)) + (at + 0.5) / scale - 0.5
    ),
}
"""Maps an index in the result to a coordinate in the operand."""
_ROUNDINGS: Final[dict[str, Callable[[float], int]]] = {
    "floor": math.floor,
    "ceil": math.ceil,
    "round_prefer_floor": lambda at: math.ceil(at - 0.5),
    "round_prefer_ceil": lambda at: math.floor(at + 0.5),
}


@op(OPS, "GridSample")
def _grid_sample(call: Call) -> Value:
    modes = {"bilinear": 0, "linear": 0, "nearest": 1, "bicubic": 2, "cubic": 2}
    paddings = {"zeros": 0, "border": 1, "reflection": 2}
    mode, padding = call.text("mode", "linear"), call.text("padding_mode", "zeros")
    rank = call.rank()
    if rank not in (4, 5) or mode not in modes or padding not in paddings or (rank == 5 and modes[mode] == 2):
        raise call.refuse(f"it samples {rank - 2} axes by {mode}")
    if call.dtype(0) != call.dtype(1):
        raise call.refuse(f"its grid has elements of type {call.dtype(1)}, the image of type {call.dtype(0)}")
    corners = bool(call.integer("align_corners", 0))
    return call.op(f"grid_sampler_{rank - 2}d", call.x(0), call.x(1), modes[mode], paddings[padding], corners)


@op(OPS, "AffineGrid")
def _affine_grid(call: Call) -> Value:
    return call.op("affine_grid_generator", call.x(0), call.items(1), bool(call.integer("align_corners", 0)))
