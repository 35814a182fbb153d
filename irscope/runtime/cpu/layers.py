"""Convolutions and matrix products of small programs by kernels of our own.

A library's call costs more than such a layer computes: through torch 12 to 15 µs for a convolution, of which machine code needs 3. A
kernel (`irscope.codegen.llvm.convolution`) is chosen where its estimated time is less than the library's, for float32 and weights
that stay the same from run to run: these are laid out once as the kernel reads them, and again after a write. Large ones
stay with oneDNN, which is as quick, and quicker where weights exceed the near caches.

Measured on one thread of a Zen 5 at 4.5 GHz: a kernel multiplies 16 vectors in 9 cycles where channels are many (143 GMAC/s, oneDNN
142 at its largest), 3 × 3 windows of 16 channels on 512 points take 10.7 µs (oneDNN through torch 27), of 96 channels each for
itself 6.8 (22), products of 32 points with 192 × 32 weights 1.8 (MKL 7.2).
"""

import ctypes
from collections.abc import Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from irscope.analysis.layers import CONVOLUTIONS, LARGE, Layer, is_alike
from irscope.codegen.kernel import UNIT, LaunchPlan, Operand
from irscope.codegen.llvm import ConvolutionText, Target
from irscope.ops.type_rules import static_shape
from irscope.runtime.cpu.device import CpuDevice
from irscope.runtime.cpu.launch import LaunchCall, Range
from irscope.runtime.device import PreparedPlan

_HERTZ: Final = 4.5e9
_CALL: Final = 1.5e-6
"""Seconds of a call of ours, with memory for the result."""
_LIBRARY: Final = {"convolution": (15e-6, 100e9), "matmul": (4e-6, 55e9)}
"""Seconds of a call of torch's library, and its multiplications a second."""
_SHAPES: Final = [(points, vectors) for vectors in range(1, 5) for points in range(1, 9) if vectors < 3 or points < 7]
"""Points and vectors of a tile: each point has an address in a register."""


# The kernel of a layer, and what it reads.


def kernel_of(layer: Layer, target: Target) -> tuple[ConvolutionText, float]:
    """Returns the kernel that takes the fewest cycles, and the seconds of its call, within a factor of two."""
    made, read, taps = layer.matrix
    lanes, registers = target.vector_bytes // 4, 32 if target.masks else 16
    groups, channels = (1, layer.groups) if layer.is_depthwise else (layer.groups, made)
    stored = 3 if not layer.has_planes else 24 if target.masks else 48  # a scattered vector goes element by element
    found = []
    for points, vectors in _SHAPES:
        sums = points * vectors
        if points <= layer.points and sums + vectors < registers:
            tiles = groups * -(-channels // (vectors * lanes)) * -(-layer.points // points)
            loads = vectors + (sums if layer.is_depthwise else points)
            tap = 0.75 * points + read * max(sums / 2, loads / 2, 4)  # two vectors a cycle, and the latency of a sum
            found.append((tiles * (taps * tap + stored * sums + 10), vectors, points))
    cycles, vectors, points = min(found)
    low, high = layer.bounds
    has_tail = channels % (vectors * lanes) != 0
    text = ConvolutionText(points, vectors, layer.is_depthwise, has_tail, layer.other is not None, layer.has_planes, low, high)
    return text, _CALL + cycles / _HERTZ


def held_bytes(layer: Layer, target: Target) -> int:
    """Returns the bytes of what a kernel reads besides operands: weights and a bias that fill whole vectors, and its tables."""
    text, _ = kernel_of(layer, target)
    made, read, taps = layer.matrix
    groups, channels = (1, layer.groups) if layer.is_depthwise else (layer.groups, made)
    width = text.vectors * target.vector_bytes // 4
    zeros: int = max((read - 1) * layer.x_type.strides[layer.channel] + 1, width)
    rows = groups * -(-channels // width) * width
    return 4 * (rows * (read * taps + 1) + layer.points * taps + zeros + (layer.points if layer.has_planes else 1))


def library_seconds(layer: Layer) -> float:
    """Returns the seconds of the library's call, within a factor of two; none for a large layer."""
    call, rate = _LIBRARY["convolution" if layer.node.op in CONVOLUTIONS else "matmul"]
    return call + layer.multiplications / rate if layer.multiplications < LARGE else 0.0


def windows(layer: Layer, strides: Sequence[int]) -> Any:
    """Returns the table of a layer for an operand of these strides: for each point and tap, the bytes from the first element to
    the point that it reads, or -1 in the padding; None if it is too large.

    Each index along an axis is compared with the extent of that axis, so that what is read lies in the operand.
    """
    places = np.zeros((1, 1), np.int64)
    inside = np.ones((1, 1), bool)
    sizes = static_shape(layer.x.type)
    assert sizes is not None
    for axis in layer.axes:
        index = np.arange(axis.made)[:, None] * axis.step - axis.margin + np.arange(axis.taps) * axis.gap
        fits = (index >= 0) & (index < sizes[axis.place])
        shape = (places.shape[0] * axis.made, places.shape[1] * axis.taps)
        places = (places[:, None, :, None] + 4 * strides[axis.place] * index[None, :, None, :]).reshape(shape)
        inside = (inside[:, None, :, None] & fits[None, :, None, :]).reshape(shape)
    places = np.where(inside, places, -1)
    return None if places.max(initial=0) >= 1 << 31 else np.ascontiguousarray(places, np.int32)


def places(layer: Layer) -> Any:
    """Returns the bytes from the first element of a result in planes to each point of it; nothing for any other."""
    strides = layer.made.strides or ()
    found = np.zeros(1, np.int64)
    for axis in layer.axes if layer.has_planes else ():
        found = (found[:, None] + 4 * strides[axis.place] * np.arange(axis.made)).ravel()
    return found.astype(np.int32)


def laid_out(layer: Layer, text: ConvolutionText, lanes: int, weight: Any, bias: Any) -> tuple[Any, Any]:
    """Returns the weights and the bias in the order in which the kernel reads them, filled up with zeros."""
    made, read, taps = layer.matrix
    groups, channels = (1, layer.groups) if layer.is_depthwise else (layer.groups, made)
    width = text.vectors * lanes
    blocks = -(-channels // width)
    full = np.zeros((groups, blocks * width, read, taps), np.float32)
    full[:, :channels] = (weight.T if layer.is_turned else weight).reshape(groups, channels, read, taps)
    last = np.zeros((groups, blocks * width), np.float32)
    if bias is not None:
        last[:, :channels] = bias.reshape(groups, channels)
    return aligned(full.reshape(groups, blocks, width, read, taps).transpose(0, 1, 4, 3, 2)), aligned(last)


def aligned(array: Any) -> Any:
    """Returns a contiguous copy at a multiple of 64 bytes, where vectors begin."""
    memory = np.empty(array.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    made = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    made[...] = array
    return made


def prepared_layer(device: CpuDevice, layer: Layer, types: Sequence[Any], tensors: Sequence[Any]) -> "LayerPlan | None":
    """Returns a layer, whose weights and bias are `tensors`, ready to run on operands of these types; None where these are not the
    declared ones, but for strides that make no difference, or windows are too far apart."""
    declared = [layer.x.type] if layer.other is None else [layer.x.type, layer.other.type]
    if not all(map(is_alike, types, declared)):
        return None
    strides = types[0].strides
    table = windows(layer, strides)
    if table is not None and table.min(initial=0) < 0 and not np.isfinite(tensors[0]).all():
        return None  # zeros of the padding times these are NaN, which the library leaves out
    return None if table is None else LayerPlan(device, layer, table, strides[layer.channel], tensors)


class LayerPlan(PreparedPlan):
    """A layer that is ready to run on an operand of some strides: only pointers are missing."""

    def __init__(self, device: CpuDevice, layer: Layer, table: Any, step: int, tensors: Sequence[Any]) -> None:
        """`step`: the elements from one channel of the operand to the next. `tensors`: the weights and the bias."""
        self.plan = LaunchPlan((), (layer.made,), 1 if layer.other is None else 2)
        self.kernels = ()
        target = device.host.target
        text, seconds = kernel_of(layer, target)
        made, read, taps = layer.matrix
        lanes = target.vector_bytes // 4
        groups, channels = (1, layer.groups) if layer.is_depthwise else (layer.groups, made)
        width, blocks = text.vectors * lanes, -(-channels // (text.vectors * lanes))
        zeros = aligned(np.zeros(max((read - 1) * step + 1, width), np.float32))
        held = (*laid_out(layer, text, lanes, *tensors), table, zeros, places(layer))
        self.held = held
        """What the kernel reads besides operands."""
        shifts = (0, 4 * width) if layer.is_depthwise else (4 * read * step, 0)
        column = layer.made.strides[1] if layer.has_planes else 1  # type: ignore[index]
        sizes = (taps, read, 4 * step, groups, blocks, channels, layer.groups * made, *shifts, column)
        numbers = (*sizes, *[array.ctypes.data for array in held])
        inputs = [Operand("float32", "tensor", (UNIT,))] * self.plan.inputs
        launch = SimpleNamespace(
            writes=(0,), reads=tuple(range(self.plan.inputs)), elements=layer.points, spec=SimpleNamespace(inputs=inputs)
        )  # all that a call asks of a launch
        ranges = []
        for start, stop in pairwise(_cuts(layer.points, text.points, device.parts(seconds))):
            words = (start, stop, *numbers)
            ranges.append(Range((0,) * (1 + self.plan.inputs), (ctypes.c_int64 * len(words))(*words)))
        self._call = device.call(device.layer(text), launch, tuple(ranges), seconds)
        self.threads = len(ranges)
        self.single = self._call if type(self._call) is LaunchCall else None
        self.serial = () if self.single is None else (self.single,)

    def __call__(self, outputs: Sequence[int], inputs: Sequence[float]) -> None:
        self._call(outputs, inputs)


def _cuts(points: int, tile: int, parts: int) -> list[int]:
    """Returns where the points are cut into about equal parts, none of which is less than a tile.

    >>> _cuts(100, 8, 2), _cuts(10, 8, 2)
    ([0, 48, 100], [0, 10])
    """
    cuts = {points * part // parts // tile * tile for part in range(parts)}
    return sorted({cut for cut in cuts if cut + tile <= points} | {0, points})
