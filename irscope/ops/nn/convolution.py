"""Convolutions in one to three dimensions, and their transposes.

The result is channels-last when the input or the weight is, as torch's CPU and cuDNN kernels decide; otherwise it is
row-major. The reference gathers windows and multiplies matrices, one image at a time; a kernel of one element multiplies the images
as they are.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from irscope.ir import Dim, TensorType
from irscope.ops.numpy_layout import Array, array_type, at, channels_last_copy, in_format, type_suggests_channels_last
from irscope.ops.op import Op, define
from irscope.ops.type_rules import Abstract, Unknown, known_ints, mismatch, same_dim


def spread(value: Any, rank: int) -> list[int]:
    """Return one number for every dimension, repeating a single one.

    >>> spread(2, 3), spread((1, 2), 2)
    ([2, 2, 2], [1, 2])
    """
    given = [value] if isinstance(value, int) else list(value)
    return given * rank if len(given) == 1 else given


def convolution_type(
    input: TensorType, weight: TensorType, bias: TensorType | None = None, stride: Abstract = 1, padding: Abstract = 0,
    dilation: Abstract = 1, groups: Abstract = 1, transposed: Abstract = False, output_padding: Abstract = 0, **rest: Abstract,
) -> TensorType:  # fmt: skip
    dtype = input.dtype if input.dtype == weight.dtype else None
    if input.shape is None or weight.shape is None:
        return TensorType(dtype, None)
    space = len(weight.shape) - 2
    if len(input.shape) not in (space + 1, space + 2):
        raise mismatch(f"a convolution with weight {weight} reads a tensor of rank {space + 2}, not {input}", rule="rank")
    if isinstance(groups, Unknown) or isinstance(transposed, Unknown):
        return TensorType(dtype, (None,) * len(input.shape))
    wanted = weight.shape[0] if transposed else weight.shape[1] * groups if isinstance(weight.shape[1], int) else weight.shape[1]
    what = f"a convolution of {input} with weight {weight}, {groups} groups: channels differ"
    same_dim(input.shape[-space - 1], wanted, what=what, rule="conv-channels")
    sizes = _extents(input.shape[-space:], weight.shape[2:], stride, padding, dilation, transposed, output_padding)
    kernels = weight.shape[0]
    if transposed:
        kernels = weight.shape[1] * groups if isinstance(weight.shape[1], int) else None
    elif 0 in (input.shape[-space - 1], weight.shape[1]):
        kernels = 0  # without input channels torch returns no output channels, however many kernels there are
    formats = type_suggests_channels_last(input), type_suggests_channels_last(weight)
    is_last = (True in formats and len(input.shape) == len(weight.shape)) or (False if formats == (False, False) else None)
    return in_format(dtype, (*input.shape[: -space - 1], kernels, *sizes), is_last)


def _extents(
    sizes: Sequence[Dim], kernel: Sequence[Dim], stride: Abstract, padding: Abstract, dilation: Abstract, transposed: bool,
    output_padding: Abstract,
) -> list[Dim]:  # fmt: skip
    if padding == "same":
        return list(sizes)
    steps, margins, gaps, extra = (known_ints(0 if item == "valid" else item) for item in (stride, padding, dilation, output_padding))
    if steps is None or margins is None or gaps is None or extra is None:
        return [None] * len(sizes)
    rank = len(sizes)
    settings = zip(sizes, kernel, spread(steps, rank), spread(margins, rank), spread(gaps, rank), spread(extra, rank), strict=True)
    return [_extent(*setting, transposed=transposed) for setting in settings]


def _extent(size: Dim, kernel: Dim, step: int, margin: int, gap: int, extra: int, *, transposed: bool) -> Dim:
    if not isinstance(size, int) or not isinstance(kernel, int):
        return None
    span = gap * (kernel - 1) + 1
    if transposed:
        return (size - 1) * step - 2 * margin + span + extra
    if size + 2 * margin < span:
        raise mismatch(f"a window of {span} does not fit into {size} with padding {margin}", rule="conv-window")
    return (size + 2 * margin - span) // step + 1


def convolve(
    input: Array, weight: Array, bias: Array | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
    transposed: bool = False, output_padding: Any = 0, **rest: Any,
) -> Array:  # fmt: skip
    space = weight.ndim - 2
    if input.ndim == space + 1:
        return at(convolve(input[None], weight, bias, stride, padding, dilation, groups, transposed, output_padding), 0)
    wide = np.float32 if input.dtype == np.float16 else input.dtype
    data, kernel = input.astype(wide, copy=False), weight.astype(wide, copy=False)
    steps, gaps = spread(stride, space), spread(dilation, space)
    if transposed:
        data, kernel, margins = _untransposed(data, kernel, steps, spread(padding, space), gaps, groups, spread(output_padding, space))
        steps = [1] * space
    else:
        margins = _margins(padding, weight.shape[2:], gaps)
    if any(map(any, margins)):  # a negative margin, which only a transposed convolution has, crops
        data = at(data, ..., *[slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(margins, data.shape[2:], strict=True)])
        data = surrounded(data, [(max(a, 0), max(b, 0)) for a, b in margins], 0)
    result = _products(data, kernel, steps, gaps, groups) if data.shape[0] and data.shape[1] else _empty(data, kernel, steps, gaps)
    if bias is not None and result.size:
        result += bias.reshape(-1, *[1] * space)
    result = result.astype(input.dtype, copy=False)
    last = type_suggests_channels_last(array_type(input)) or type_suggests_channels_last(array_type(weight))
    return channels_last_copy(result) if last else result


def _empty(data: Array, kernel: Array, steps: Sequence[int], gaps: Sequence[int]) -> Array:
    """Return the result for no images, or for images without channels, whose results in torch have none either; `data` is padded
    already."""
    settings = zip(data.shape[2:], kernel.shape[2:], steps, gaps, strict=True)
    sizes = [(size - gap * (extent - 1) - 1) // step + 1 for size, extent, step, gap in settings]
    return np.zeros((len(data), kernel.shape[0] if data.shape[1] else 0, *sizes), data.dtype)


def surrounded(data: Array, margins: Sequence[tuple[int, int]], fill: Any) -> Array:
    """Return the array with margins of one value along its last axes; NumPy's own `pad` takes longer than a small convolution."""
    if not any(map(any, margins)):
        return data
    inner = data.shape[data.ndim - len(margins) :]
    sizes = [before + size + after for size, (before, after) in zip(inner, margins, strict=True)]
    made = np.full((*data.shape[: data.ndim - len(margins)], *sizes), fill, data.dtype)
    at(made, ..., *[slice(before, before + size) for size, (before, _) in zip(inner, margins, strict=True)])[...] = data
    return made


def shifted(data: Array, kernel: Sequence[int], sizes: Sequence[int], steps: Sequence[int], gaps: Sequence[int]) -> Iterator[Array]:
    """Yield, for each place in a window in row-major order, the elements at this place of all windows: a view for each."""
    for place in np.ndindex(*kernel):
        starts = [gap * here for gap, here in zip(gaps, place, strict=True)]
        yield at(data, ..., *[slice(a, a + (n - 1) * step + 1, step) for a, n, step in zip(starts, sizes, steps, strict=True)])


def _margins(padding: Any, kernel: Sequence[int], gaps: Sequence[int]) -> list[tuple[int, int]]:
    if padding == "valid":
        return [(0, 0)] * len(kernel)
    if padding == "same":
        totals = [gap * (size - 1) for size, gap in zip(kernel, gaps, strict=True)]
        return [(total // 2, total - total // 2) for total in totals]
    if not isinstance(padding, int) and len(padding) == 2 * len(kernel):  # `irscope::convolution`
        return list(zip(padding[::2], padding[1::2], strict=True))
    return [(margin, margin) for margin in spread(padding, len(kernel))]


def _products(data: Array, kernel: Array, steps: Sequence[int], gaps: Sequence[int], groups: int) -> Array:
    """Return the results for all images, which are padded already and have channels."""
    count, channels, *inner = data.shape
    extents = kernel.shape[2:]
    room = [size - gap * (extent - 1) - 1 for size, extent, gap in zip(inner, extents, gaps, strict=True)]
    if min(room) < 0:
        raise ValueError("a window is larger than the padded input")
    sizes = [free // step + 1 for free, step in zip(room, steps, strict=True)]
    rows = kernel.reshape(groups, kernel.shape[0] // groups, -1)
    if prod(extents) == 1:
        apart = at(data, ..., *[slice(None, None, step) for step in steps]) if max(steps, default=1) > 1 else data
        whole: Array = np.matmul(rows, apart.reshape(count, groups, channels // groups, -1))
        return whole.reshape(count, kernel.shape[0], *sizes)
    found = np.empty((count, groups, rows.shape[1], prod(sizes)), np.result_type(data, kernel))
    data = np.ascontiguousarray(data)
    strides = data.strides[2:]
    moved = [*[gap * step for gap, step in zip(gaps, strides, strict=True)], *[step * by for step, by in zip(steps, strides, strict=True)]]
    for image, target in zip(data, found, strict=True):
        windows = as_strided(image, (channels, *extents, *sizes), (image.strides[0], *moved), writeable=False)
        np.matmul(rows, windows.reshape(groups, rows.shape[2], -1), out=target)
    return found.reshape(count, kernel.shape[0], *sizes)


def _untransposed(
    data: Array, weight: Array, steps: Sequence[int], margins: Sequence[int], gaps: Sequence[int], groups: int, extra: Sequence[int]
) -> tuple[Array, Array, list[tuple[int, int]]]:
    """Rewrite a transposed convolution as a plain one: inputs `step` apart, kernels flipped, channels exchanged."""
    space = weight.ndim - 2
    sizes = [(size - 1) * step + 1 for size, step in zip(data.shape[2:], steps, strict=True)]
    apart = np.zeros((*data.shape[:2], *sizes), data.dtype)
    at(apart, ..., *[slice(None, None, step) for step in steps])[...] = data
    parts = weight.reshape(groups, weight.shape[0] // groups, *weight.shape[1:])
    kernel = np.flip(np.swapaxes(parts, 1, 2), axis=tuple(range(3, 3 + space)))
    kernel = kernel.reshape(-1, *kernel.shape[2:])
    reach = [gap * (size - 1) - margin for size, gap, margin in zip(weight.shape[2:], gaps, margins, strict=True)]
    return apart, kernel, [(here, here + more) for here, more in zip(reach, extra, strict=True)]


def _defined(*overloads: str, type_rule: Callable[..., TensorType] = convolution_type, reference: Callable[..., Array] = convolve) -> Op:
    return define(*overloads, category="convolution", type_rule=type_rule, reference=reference)


OPS = (
    *(_defined(f"aten::conv{rank}d", f"aten::conv{rank}d.padding") for rank in (1, 2, 3)),
    *(
        _defined(
            f"aten::conv_transpose{rank}d{'' if rank == 1 else '.input'}",
            type_rule=partial(convolution_type, transposed=True),
            reference=partial(convolve, transposed=True),
        )
        for rank in (1, 2, 3)
    ),
    _defined("aten::convolution"),
    _defined("aten::_convolution", "aten::_convolution.deprecated"),
)
