"""Which nodes are layers: convolutions and matrix products of float32, whose weights stay the same from run to run, seen alike.

A *point* of a result is all of its channels at one place: a pixel of an image, or a row of a matrix. Each point is a sum over the taps
of a window, of a vector of the operand times a matrix of weights; a product has windows of one tap. `layer_of` reads a node so, if
everything about it is known: extents, layouts, numbers. The result's points follow one another in memory, each with its channels in
a row (channels last), or channel by channel in planes, while the operand may have any strides.

Kernels compute layers (`irscope.runtime.cpu.layers`); with the sum and the clamp after them they are `irscope::convolution`, which
`irscope.transforms.cleanup.onednn` puts in their place.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np

from irscope.ir import NONE, Node, TensorType, Value
from irscope.ops.nn.convolution import spread
from irscope.ops.registry import bind
from irscope.ops.type_rules import static_shape

Constant = Callable[[Value], Any]
"""Returns what is the same in each run, and None for all else."""
Bounds = tuple[float | None, float | None]

LARGE: Final = 1 << 24
"""Multiplications from which a layer is the library's, which is then as quick."""
MOST_TAPS: Final = 1 << 18
"""The most taps of all points, each of which has a number in a table; and elements between channels, as many as there are zeros."""
MOST_ELEMENTS: Final = 1 << 28
"""The most elements of a result, whose places are numbers of four bytes."""
MOST_WEIGHTS: Final = 1 << 18
"""The most weights of a layer, of which a program holds a second copy as a kernel reads them."""

_EPILOGUES: Final = frozenset({"mkldnn::_convolution_pointwise", "irscope::convolution"})
CONVOLUTIONS: Final = _EPILOGUES | {"aten::conv1d", "aten::conv2d", "aten::conv3d", "aten::convolution", "aten::_convolution"}
_PRODUCTS: Final = frozenset({"aten::linear", "aten::mm", "aten::matmul", "aten::addmm", "mkldnn::_linear_pointwise"})
_NAMES: Final[Mapping[str, tuple[str, str, str]]] = {
    "aten::mm": ("self", "mat2", ""), "aten::matmul": ("self", "other", ""), "aten::addmm": ("mat1", "mat2", "self"),
    "mkldnn::_linear_pointwise": ("X", "W", "B"), **dict.fromkeys(_EPILOGUES, ("X", "W", "B")),
}  # fmt: skip
"""What the schemas call the operand, the weight and the bias, where not `input`, `weight` and `bias`."""
_TURNED: Final = frozenset({"aten::mm", "aten::matmul", "aten::addmm"})
"""Their weight has a column for each channel of the result."""


class Axis(NamedTuple):
    """An axis along which windows move."""

    place: int
    """Which axis of the operand it is."""
    made: int
    """The points of the result along it."""
    taps: int = 1
    step: int = 1
    margin: int = 0
    """The points of the padding before the first."""
    gap: int = 1


@dataclass(frozen=True, eq=False)
class Layer:
    """A convolution or product that a kernel computes, by the positions of its operands in a node."""

    node: Node
    x: Value
    weight: Value
    bias: Value | None
    other: Value | None
    axes: tuple[Axis, ...]
    """Those of the points, outermost first."""
    channel: int
    """The axis of the operand that has the channels."""
    groups: int
    matrix: tuple[int, int, int]
    """Of each group: the channels that it makes, those that it reads, the taps of a window."""
    is_turned: bool
    """Whether the weight is a matrix with a column for each channel of the result."""
    bounds: Bounds

    @property
    def x_type(self) -> Any:
        """The type of its operand, of which all is known."""
        return self.x.type

    @property
    def made(self) -> TensorType:
        type = self.node.output.type
        assert isinstance(type, TensorType)
        return TensorType(type.dtype, type.shape, type.strides)

    @property
    def points(self) -> int:
        return prod(axis.made for axis in self.axes)

    @property
    def multiplications(self) -> int:
        return self.points * self.groups * prod(self.matrix)

    @property
    def has_planes(self) -> bool:
        """Whether the result has its channels apart, each in a plane."""
        return self.node.op in CONVOLUTIONS and not _is_dense(self.made, (0, *range(2, len(self.axes) + 1), 1))

    @property
    def is_depthwise(self) -> bool:
        return self.groups > 1 and self.matrix[:2] == (1, 1)


def layer_of(node: Node, constant: Constant) -> Layer | None:
    """Returns the layer that a node is; None for another node, one of extents, layouts or numbers that are unknown or do not fit, or of
    weights that may differ from run to run."""
    given = bind(node) if node.op in CONVOLUTIONS or node.op in _PRODUCTS else {}
    if not given:
        return None
    known = {name: constant(held) if isinstance(held, Value) else held for name, held in given.items()}
    names = _NAMES.get(node.op, ("input", "weight", "bias"))
    x, weight, bias = [given.get(name) for name in names]
    other = given.get("other") if node.op in _EPILOGUES else None
    bias = None if isinstance(bias, Value) and bias.type == NONE else bias
    free = {names[0], "other"} if other is not None else {names[0]}
    if any(isinstance(held, Value) and known[name] is None and held.type != NONE for name, held in given.items() if name not in free):
        return None
    sizes, made, matrix, bounds = _extents(x), _extents(node.output), _extents(weight, laid_out=False), _bounds(known)
    if sizes is None or made is None or matrix is None or bounds is None or 0 in made or 0 in matrix:
        return None
    if prod(matrix) > MOST_WEIGHTS:
        return None
    if bias is not None and _extents(bias, laid_out=False) != (matrix[-1 if node.op in _TURNED else 0],):
        return None
    adds = known.get("binary_attr") == "add" and known.get("alpha") in (None, 1)
    if other is not None and (not is_alike(other.type, node.output.type) or not adds):
        return None
    read = _product if node.op in _PRODUCTS else _convolution
    layer = read(node, (x, weight, bias, other), (sizes, made, matrix), known, bounds)
    if layer is None or prod(axis.made * axis.taps for axis in layer.axes) > MOST_TAPS:
        return None
    step = layer.x_type.strides[layer.channel]
    if layer.is_depthwise and step != 1:  # vectors of channels are read
        return None
    return layer if step * sizes[layer.channel] <= MOST_TAPS else None


def _extents(value: Any, *, laid_out: bool = True) -> tuple[int, ...] | None:
    """Returns the extents of a tensor of float32 on a CPU, of a known layout if that is asked for; None for anything else."""
    type = value.type if isinstance(value, Value) else None
    if not isinstance(type, TensorType) or type.dtype != "float32" or type.device not in (None, "cpu"):
        return None
    return None if laid_out and type.strides is None else static_shape(type)


def _bounds(known: Mapping[str, Any]) -> Bounds | None:
    """Returns the bounds between which a layer clamps its result; None for another activation."""
    binary = "unary_attr" in known
    attr = known.get("unary_attr" if binary else "attr")
    if attr in (None, "none"):
        return None, None
    if attr == "relu":
        return 0.0, None
    numbers = known["unary_scalars" if binary else "scalars"]
    if attr != "hardtanh" or not isinstance(numbers, list | tuple) or len(numbers) != 2:
        return None
    low, high = map(float, np.array(numbers, np.float32))
    return None if low != low or high != high else (low, high)  # NaN, which makes all of the result so


def _product(
    node: Node, operands: Sequence[Any], extents: Sequence[Sequence[int]], known: Mapping[str, Any], bounds: Bounds
) -> Layer | None:  # fmt: skip
    (x, weight, bias, _), (sizes, made, matrix) = operands, extents
    rank, is_turned = len(sizes), node.op in _TURNED
    if rank < 2 or len(matrix) != 2 or known.get("alpha", 1) != 1 or known.get("beta", 1) != 1:
        return None
    read, columns = matrix if is_turned else reversed(matrix)
    if read != sizes[-1] or list(made) != [*sizes[:-1], columns] or not _is_dense(node.output.type, range(rank)):
        return None
    axes = tuple([Axis(place, size) for place, size in enumerate(sizes[:-1])])
    return Layer(node, x, weight, bias, None, axes, rank - 1, 1, (columns, read, 1), is_turned, bounds)


def _convolution(
    node: Node, operands: Sequence[Any], extents: Sequence[Sequence[int]], known: Mapping[str, Any], bounds: Bounds
) -> Layer | None:  # fmt: skip
    (x, weight, bias, other), (sizes, made, matrix) = operands, extents
    space, groups = len(matrix) - 2, known["groups"]
    window = [known[name] for name in ("stride", "padding", "dilation")]
    numbers = [number for each in window if isinstance(each, list | tuple) for number in each]
    if len(sizes) != space + 2 or known.get("transposed", False) is not False or not all(type(number) is int for number in numbers):
        return None
    lengths = (1, space), (1, space, 2 * space) if node.op == "irscope::convolution" else (1, space), (1, space)
    if not all(isinstance(each, list | tuple) and len(each) in fit for each, fit in zip(window, lengths, strict=True)):
        return None
    steps, margins, gaps = [spread(each, space) for each in window]
    margins = margins if len(margins) > space else [margin for margin in margins for _ in (0, 1)]
    if (
        type(groups) is not int
        or min(groups, *steps, *gaps) < 1
        or min(margins) < 0
        or matrix[0] % groups
        or sizes[1] != groups * matrix[1]
    ):
        return None
    axes = [Axis(0, sizes[0])]
    for place, (taps, step, before, after, gap) in enumerate(zip(matrix[2:], steps, margins[::2], margins[1::2], gaps, strict=True), 2):
        axes.append(Axis(place, (sizes[place] + before + after - gap * (taps - 1) - 1) // step + 1, taps, step, before, gap))
    if list(made) != [axes[0].made, matrix[0], *[axis.made for axis in axes[1:]]] or prod(made) > MOST_ELEMENTS:
        return None
    if not _is_dense(node.output.type, (0, *range(2, space + 2), 1)) and (other or not _is_dense(node.output.type, range(space + 2))):
        return None
    shape = matrix[0] // groups, matrix[1], prod(matrix[2:])
    return Layer(node, x, weight, bias, other, tuple(axes), 1, groups, shape, False, bounds)


def _is_dense(type: Any, order: Sequence[int]) -> bool:
    """Checks whether the elements of a tensor follow one another, with its axes in this order, outermost first."""
    step = 1
    for axis in reversed(order):
        if type.shape[axis] > 1 and type.strides[axis] != step:
            return False
        step *= type.shape[axis]
    return True


def is_alike(given: Any, declared: Any) -> bool:
    """Checks whether two tensors have the same elements in the same places."""
    if not isinstance(given, TensorType) or (given.dtype, given.shape) != (declared.dtype, declared.shape) or given.strides is None:
        return False
    pairs = zip(given.shape or (), given.strides or (), declared.strides, strict=True)
    return all(size == 1 or step == other for size, step, other in pairs)
