"""The ops over windows of an image: pooling with fixed or adaptive windows, and resizing.

Pooling keeps the input's memory format: channels-last in, channels-last out.
"""

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from irscope.ir import Dim, TensorType
from irscope.ops.nn.convolution import shifted, spread, surrounded
from irscope.ops.nn.matmul import wide
from irscope.ops.numpy_layout import Array, array_type, channels_last_copy, in_format, mean_of, type_suggests_channels_last
from irscope.ops.op import Category, Op, define
from irscope.ops.type_rules import Abstract, Unknown, as_dims, is_known, lies_in_rows, mismatch, refined


def _sized(self: TensorType, sizes: Sequence[Dim]) -> TensorType:
    """Return the type of a tensor like this one with these extents in the last dimensions."""
    assert self.shape is not None
    shape = (*self.shape[: len(self.shape) - len(sizes)], *sizes)
    if len(sizes) == 1 and not lies_in_rows(self):  # torch adds a dimension, and then takes the tensor for channels-last
        return refined(self.dtype, shape)
    return in_format(self.dtype, shape, len(self.shape) != len(sizes) + 1 and type_suggests_channels_last(self))


def _check_rank(self: TensorType, space: int, op: str) -> None:
    if self.rank not in (space + 1, space + 2):
        raise mismatch(f"{op} reads a tensor of rank {space + 2}, not {self}", rule="rank")


def _pool_type(space: int) -> Callable[..., TensorType]:
    def rule(
        self: TensorType, kernel_size: Abstract, stride: Abstract = (), padding: Abstract = 0, dilation: Abstract = 1,
        ceil_mode: Abstract = False, **rest: Abstract,
    ) -> TensorType:  # fmt: skip
        if self.shape is None:
            return TensorType(self.dtype)
        _check_rank(self, space, "pooling")
        settings = kernel_size, stride, padding, dilation, ceil_mode
        if not is_known(settings):
            return TensorType(self.dtype, (*self.shape[:-space], *[None] * space))
        return _sized(self, _pooled_sizes(self.shape[-space:], *settings))

    return rule


def _pooled_sizes(sizes: Sequence[Dim], kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> list[Dim]:
    rank = len(sizes)
    steps = spread(kernel if not isinstance(stride, int) and not stride else stride, rank)
    settings = zip(sizes, spread(kernel, rank), steps, spread(padding, rank), spread(dilation, rank), strict=True)
    return [_pooled_size(*setting, ceil_mode) for setting in settings]


def _pooled_size(size: Dim, kernel: int, step: int, margin: int, gap: int, ceil_mode: bool) -> Dim:
    if not isinstance(size, int):
        return None
    if step < 1:
        raise mismatch(f"a window moves by at least 1, not by {step}", rule="pool-window")
    free = size + 2 * margin - gap * (kernel - 1) - 1
    count = (-(-free // step) if ceil_mode else free // step) + 1
    if ceil_mode and (count - 1) * step >= size + margin:
        count -= 1
    if count < 1:
        raise mismatch(f"a window of {kernel} does not fit into {size} with padding {margin}", rule="pool-window")
    return count


def _adaptive_type(space: int) -> Callable[..., TensorType]:
    def rule(self: TensorType, output_size: Abstract) -> TensorType:
        sizes = as_dims(output_size)
        if self.shape is None or sizes is None:
            return TensorType(self.dtype)
        _check_rank(self, space, "adaptive pooling")
        sizes = sizes * space if len(sizes) == 1 else sizes
        is_single = all(size == 1 for size in sizes)
        result = in_format(self.dtype, (*self.shape[:-space], *sizes), False) if space == 3 and not is_single else _sized(self, sizes)
        if is_single and not lies_in_rows(self) and not type_suggests_channels_last(self):
            return result.with_(strides=None)  # torch takes the mean, whose strides depend on those of all axes
        return result

    return rule


class _Windows(NamedTuple):
    """The windows of an array: the array, padded, and where they lie along its last axes."""

    data: Array
    kernel: list[int]
    sizes: list[int]
    steps: list[int]
    gaps: list[int]

    def at_places(self) -> Iterator[Array]:
        """Yields, for each place in a window, the elements at this place of all windows."""
        return shifted(self.data, self.kernel, self.sizes, self.steps, self.gaps)

    def flat(self) -> Array:
        """Returns one row of elements for each window."""
        return np.stack(list(self.at_places()), axis=-1)


def _windows(self: Array, space: int, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, fill: Any) -> _Windows:
    sizes = [n for n in _pooled_sizes(self.shape[-space:], kernel, stride, padding, dilation, ceil_mode) if isinstance(n, int)]
    kernels, gaps, margins = spread(kernel, space), spread(dilation, space), spread(padding, space)
    steps = spread(kernel if not isinstance(stride, int) and not stride else stride, space)
    ends = [(n - 1) * step + gap * (size - 1) + 1 for n, step, gap, size in zip(sizes, steps, gaps, kernels, strict=True)]
    after = [max(end - size - margin, 0) for end, size, margin in zip(ends, self.shape[-space:], margins, strict=True)]
    return _Windows(surrounded(self, list(zip(margins, after, strict=True)), fill), kernels, sizes, steps, gaps)


def like_input(result: Array, self: Array) -> Array:
    last = type_suggests_channels_last(array_type(self))
    return channels_last_copy(result) if last else np.ascontiguousarray(result)


def _max_pool(space: int, *, with_indices: bool = False) -> Callable[..., Any]:
    def reference(self: Array, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False) -> Any:
        arguments = space, kernel_size, stride, padding, dilation, ceil_mode
        windows = _windows(self, *arguments, -np.inf if self.dtype.kind == "f" else np.iinfo(self.dtype).min)
        if not with_indices:
            first, *others = windows.at_places()
            best = first.copy()
            for part in others:
                np.maximum(best, part, out=best)
            return like_input(best, self)
        flat = windows.flat()
        values = like_input(flat.max(axis=-1), self)
        places = np.arange(prod(self.shape[-space:])).reshape(self.shape[-space:])
        where = _windows(places, *arguments, -1).flat()
        chosen = flat.argmax(axis=-1)[..., None]
        return values, like_input(np.take_along_axis(np.broadcast_to(where, flat.shape), chosen, axis=-1)[..., 0], self)

    return reference


def _avg_pool(space: int) -> Callable[..., Array]:
    def reference(
        self: Array, kernel_size: Any, stride: Any = (), padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Array:  # fmt: skip
        data = wide(self) if self.dtype.kind in "fc" else self.astype(np.int64)
        windows = _windows(data, space, kernel_size, stride, padding, 1, ceil_mode, 0)
        first, *others = windows.at_places()
        sums = first.copy()
        for part in others:
            sums += part
        counts = divisor_override or _counted(windows, self.shape[-space:], spread(padding, space), count_include_pad).astype(data.dtype)
        return like_input((sums / counts).astype(self.dtype), self)

    return reference


def _counted(windows: _Windows, inner: Sequence[int], margins: Sequence[int], count_include_pad: bool) -> Array:
    """Return how many elements count in each window: the margin may count, but not what `ceil_mode` adds beyond it."""
    total = np.ones((), np.int64)
    for count, step, extent, size, margin in zip(windows.sizes, windows.steps, windows.kernel, inner, margins, strict=True):
        starts = np.arange(count) * step - margin
        ends = np.minimum(starts + extent, size + margin)
        if not count_include_pad:
            starts, ends = np.maximum(starts, 0), np.minimum(ends, size)
        total = np.multiply.outer(total, ends - starts)
    return total


def _adaptive_avg(space: int) -> Callable[..., Array]:
    def reference(self: Array, output_size: Any) -> Array:
        inner, counts = self.shape[self.ndim - space :], spread(output_size, space)
        if self.dtype.kind == "f" and all(count and size and size % count == 0 for size, count in zip(inner, counts, strict=True)):
            pairs = [part for size, count in zip(inner, counts, strict=True) for part in (count, size // count)]
            apart = np.ascontiguousarray(wide(self)).reshape(*self.shape[: self.ndim - space], *pairs)
            found = mean_of(apart, tuple(range(apart.ndim - 2 * space + 1, apart.ndim, 2)))
            return laid_out(found.astype(self.dtype, copy=False), self)
        result = self
        for axis, count in zip(range(self.ndim - space, self.ndim), spread(output_size, space), strict=True):
            size = result.shape[axis]
            bounds = [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]
            before = (slice(None),) * axis
            result = np.stack([result[(*before, slice(a, b))].mean(axis=axis) for a, b in bounds], axis=axis)
        return laid_out(result.astype(self.dtype, copy=False), self)

    def laid_out(result: Array, self: Array) -> Array:
        is_single = all(size == 1 for size in result.shape[result.ndim - space :])
        return like_input(result, self) if space < 3 or is_single else np.ascontiguousarray(result)

    return reference


def _pool(name: str, rule: Callable[..., Any], reference: Callable[..., Any]) -> Op:
    return define(f"aten::{name}", category="reduction", type_rule=rule, reference=reference)


_POOLING = (
    *(_pool(f"max_pool{space}d", _pool_type(space), _max_pool(space)) for space in (1, 2, 3)),
    *(_pool(f"avg_pool{space}d", _pool_type(space), _avg_pool(space)) for space in (1, 2, 3)),
    *(_pool(f"adaptive_avg_pool{space}d", _adaptive_type(space), _adaptive_avg(space)) for space in (1, 2, 3)),
    _pool(
        "max_pool2d_with_indices",
        lambda self, **given: tuple(_pool_type(2)(self, **given).with_(dtype=dtype) for dtype in (self.dtype, "int64")),
        _max_pool(2, with_indices=True),
    ),
    _pool("_adaptive_avg_pool2d", _adaptive_type(2), _adaptive_avg(2)),
)


# The ops that resize an image by picking or interpolating neighbours.


def _upsample_type(space: int) -> Callable[..., TensorType]:
    def rule(
        self: TensorType | None = None, input: TensorType | None = None, output_size: Abstract = None, scale_factors: Abstract = None,
        **rest: Abstract,
    ) -> TensorType:  # fmt: skip
        source = input if self is None else self
        assert source is not None
        if source.shape is None:
            return TensorType(source.dtype)
        if source.rank != space + 2:
            raise mismatch(f"this upsampling reads a tensor of rank {space + 2}, not {source}", rule="rank")
        sizes = _upsampled_sizes(source.shape[2:], output_size, scale_factors)
        return _sized(source, sizes)

    return rule


def _upsampled_sizes(sizes: Sequence[Dim], output_size: Abstract, scale_factors: Abstract) -> Sequence[Dim]:
    if output_size is not None:
        return as_dims(output_size) or [None] * len(sizes)
    if isinstance(scale_factors, Unknown) or not is_known(list(scale_factors)):
        return [None] * len(sizes)
    return [int(size * factor) if isinstance(size, int) else None for size, factor in zip(sizes, scale_factors, strict=True)]


def _upsample(space: int, along: Callable[..., Array]) -> Callable[..., Array]:
    """Return a reference that upsamples one axis after the other by `along(array, axis, size, scale, align_corners)`."""

    def reference(
        self: Array | None = None, input: Array | None = None, output_size: Any = None, align_corners: bool = False, **rest: Any
    ) -> Array:
        source = input if self is None else self
        assert source is not None
        sizes = _upsampled_sizes(source.shape[2:], output_size, rest.get("scale_factors"))
        names = ["scales"] if space == 1 else ["scales_d", "scales_h", "scales_w"][-space:]
        scales = rest.get("scale_factors") or [rest.get(name) for name in names]
        result = source
        for axis, (size, scale) in enumerate(zip(sizes, scales, strict=True), 2):
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


def _upsampling(name: str, space: int, along: Callable[..., Array], category: Category = "memory") -> Op:
    overloads = f"aten::{name}{space}d", f"aten::{name}{space}d.vec"
    return define(*overloads, category=category, type_rule=_upsample_type(space), reference=_upsample(space, along))


_UPSAMPLING = (
    *(_upsampling("upsample_nearest", space, _nearest(0.0)) for space in (1, 2, 3)),
    *(_upsampling("_upsample_nearest_exact", space, _nearest(0.5)) for space in (1, 2, 3)),
    *(_upsampling(f"upsample_{many}linear", space, _linear_along, "other") for space, many in enumerate(("", "bi", "tri"), 1)),
)

OPS = (*_POOLING, *_UPSAMPLING)
