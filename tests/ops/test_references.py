"""Every op that is not pointwise or a view: values, types and strides as in torch."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from irscope.errors import ArgumentError  # noqa: E402
from irscope.ir.types import TensorType  # noqa: E402
from tests.ops.oracle import check, the_op  # noqa: E402


def numbers(*shape: int, dtype: Any = None) -> Any:
    return (torch.arange(torch.Size(shape).numel()) - 4).reshape(shape).to(dtype or torch.float32)


def last(tensor: Any) -> Any:
    return tensor.contiguous(memory_format=torch.channels_last)


CLOSE = {"rtol": 2e-5, "atol": 2e-5}


def noise(*shape: int, seed: int = 0, dtype: Any = None) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype or torch.float32)


def weights(gates: int, inside: int, width: int, rows: int) -> list[Any]:
    """The parameters of one direction after the other; the second layer reads what the first gives."""
    shapes = ((gates * width, inside), (gates * width, width), (gates * width,), (gates * width,))
    return [noise(*shape, seed=row * 4 + index) * 0.3 for row in range(rows) for index, shape in enumerate(shapes)]


Call = tuple[str, tuple[Any, ...], dict[str, Any]]


def row(name: str, *args: Any, **options: Any) -> Call:
    return f"aten::{name}", args, options


def near(name: str, *args: Any, **options: Any) -> Call:
    """A call whose numbers are sums, or functions of them."""
    return row(name, *args, **CLOSE, **options)


PLACES, INDEX = torch.tensor([0, 1, 0]), torch.tensor([[0, 1, 1], [1, 0, 0]])
MIXED, WHOLE = torch.tensor([[3.0, 1.0, 2.0, 1.5], [0.5, 9.0, -1.0, 4.0]]), torch.arange(6).reshape(2, 3)

CALLS: list[Call] = [
    # casts
    *(
        row("to.dtype", numbers(2, 3).t(), dtype, False, copy)
        for dtype in (torch.float32, torch.float64, torch.int64, torch.bool, torch.float16, torch.uint8) for copy in (False, True)
    ),
    row("to.other", numbers(2, 3), numbers(1, dtype=torch.int32)), row("type_as", numbers(2, 3), numbers(1)),
    row("type_as", numbers(2, 3), numbers(1, dtype=torch.float64)), row("to.dtype_layout", numbers(2, 3), dtype=torch.float64),
    row("_to_copy", numbers(2, 3)), row("_to_copy", numbers(4, 6)[::2, ::3], dtype=torch.int32),
    # stores
    row("copy_", numbers(2, 3), numbers(3, dtype=torch.int64)), row("copy_", numbers(4, 6)[::2], numbers(1, 6, dtype=torch.float64)),
    row("fill_.Scalar", numbers(4, 6)[:, ::2], 2.5), row("fill_.Tensor", numbers(2, 3), torch.tensor(3)), row("zero_", numbers(2, 3).t()),
    # joining
    row("cat", [numbers(2, 3), numbers(4, 3)]), row("cat", [numbers(2, 3), numbers(2, 1)], 1),
    row("cat", [numbers(3, 2).t(), numbers(2, 1)], -1), row("cat", [numbers(0), numbers(2, 3)], 1),
    row("cat", [numbers(2, 3), numbers(2, 3, dtype=torch.int64), numbers(1, 3, dtype=torch.float64)]),
    row("cat", [last(numbers(2, 3, 4, 5)), last(numbers(2, 3, 4, 5))], 1),
    row("cat", [last(numbers(2, 3, 4, 5)), numbers(2, 3, 4, 5)], 1), row("stack", [numbers(2, 3), numbers(2, 3)]),
    row("stack", [numbers(3, 2).t(), numbers(2, 3)], -1), row("repeat", numbers(2, 3), [2, 1, 3]), row("repeat", numbers(3), [2]),
    row("repeat_interleave.self_int", numbers(2, 3), 2, strides=False),
    row("repeat_interleave.self_int", numbers(2, 3), 3, 1, strides=False),
    # rearranging
    row("pad", numbers(2, 3, 4), [1, 2, 0, 1], "constant", 1.5), row("pad", numbers(2, 3, 4), [1, 2], "reflect", strides=False),
    row("pad", numbers(2, 3, 4), [1, 2], "replicate", strides=False), row("pad", numbers(2, 3, 4), [1, 2], "circular", strides=False),
    row("constant_pad_nd", numbers(2, 3), [1, -1, -1, 2], 7), row("constant_pad_nd", last(numbers(2, 3, 4, 5)), [1, 1], strides=False),
    # creation
    row("zeros", [2, 3]), row("ones", [2, 3], dtype=torch.int64), row("full", [2], 3), row("full", [2], 3.5, dtype=torch.float64),
    row("full", [], True), row("empty.memory_format", [2, 3], values=False),
    row("empty.memory_format", [2, 3, 4, 5], memory_format=torch.channels_last, values=False), row("eye", 3),
    row("eye.m", 2, 4, dtype=torch.int32), row("scalar_tensor", 3), row("scalar_tensor", 3, dtype=torch.int64),
    row("zeros_like", numbers(2, 3).t()), row("ones_like", numbers(4, 6)[::2, ::2], dtype=torch.bool),
    row("full_like", numbers(2, 3, dtype=torch.int64), 7), row("zeros_like", numbers(2, 1).expand(2, 3)),
    row("new_zeros", numbers(2, dtype=torch.float64), [3]), row("new_full", numbers(2), [3, 1], 2, dtype=torch.int64),
    row("arange", 5), row("arange", 5.5), row("arange", 0), row("arange", 0.5),
    row("arange.start", 2, 9), row("arange.start_step", 2, 9, 3), row("arange.start_step", 9, 2, -3), row("arange.start_step", 0, 1, 0.3),
    row("arange.start_step", 0, 7, 2, dtype=torch.float32), row("linspace", 0, 1, 5),
    # indexing, sorting
    row("embedding", numbers(5, 3), torch.tensor([[0, 4], [1, 1]])),
    row("index.Tensor", numbers(2, 3, 4), [PLACES], strides=False), row("index.Tensor", numbers(2, 3, 4), [None, PLACES], strides=False),
    row("index.Tensor", numbers(2, 3, 4), [PLACES, None, PLACES], strides=False),
    row("index.Tensor", numbers(2, 3, 4), [PLACES[:, None], PLACES], strides=False),
    row("index_put_", numbers(2, 3), [PLACES], torch.tensor(5.0)), row("index_put_", numbers(4, 3), [PLACES], numbers(3, 3), True),
    row("index_put", numbers(4, 3), [None, torch.tensor([0, 2])], numbers(4, 2)), row("gather", numbers(2, 3), 0, INDEX),
    row("gather", numbers(2, 3), -1, INDEX[:, :2]), row("scatter.src", numbers(2, 3), 0, INDEX, numbers(2, 3)),
    row("scatter.value", numbers(2, 3), 1, INDEX, 9.0), row("scatter_.value", numbers(2, 3), 1, INDEX, 9.0),
    row("scatter_add", numbers(2, 3), 0, INDEX, numbers(2, 3)), row("scatter_add_", numbers(2, 3), 0, INDEX, numbers(2, 3)),
    row("scatter.reduce", numbers(2, 3), 0, INDEX, numbers(2, 3), reduce="multiply"),
    row("index_select", numbers(2, 3), 1, torch.tensor([2, 0, 0, 1])),
    row("index_add", numbers(2, 3), 1, torch.tensor([2, 0]), numbers(2, 2), alpha=2),
    row("index_copy_", numbers(2, 3), 1, torch.tensor([2, 0]), numbers(2, 2)),
    row("index_fill_.int_Scalar", numbers(2, 3), 1, torch.tensor([2, 0]), 8), row("sort", MIXED), row("sort", MIXED, 0, True),
    row("sort.stable", MIXED, stable=True, descending=True), row("argsort", MIXED), row("topk", MIXED, 2, strides=False),
    row("topk", MIXED, 1, 0, False, strides=False), row("one_hot", torch.tensor([[0, 2]]), 4),
    # products
    *(
        near("matmul", noise(*a), noise(*b, seed=1))
        for a, b in (
            ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((5, 2, 3), (3,)), ((2, 3), (5, 3, 4)),
            ((5, 1, 2, 3), (7, 3, 4)), ((3,), (5, 3, 4)),
        )
    ),
    near("scaled_dot_product_attention", noise(2, 4, 5, 8), *[noise(2, 2, 5, 8, seed=1)] * 2, enable_gqa=True, strides=False),
    near("mm", noise(2, 3), noise(3, 4)), near("mm", noise(3, 2).t(), noise(4, 3).t()), near("bmm", noise(5, 2, 3), noise(5, 3, 4)),
    near("addmm", noise(4), noise(2, 3), noise(3, 4), beta=2, alpha=0.5), near("baddbmm", noise(5, 1, 4), noise(5, 2, 3), noise(5, 3, 4)),
    near("mv", noise(2, 3), noise(3)), near("dot", noise(3), noise(3, seed=1)), near("outer", noise(3), noise(4)),
    row("mm", noise(2, 3, dtype=torch.float64), noise(3, 4, dtype=torch.float64)), near("linear", noise(2, 5, 3), noise(4, 3), noise(4)),
    near("linear", noise(3), noise(4, 3)), near("linear", noise(5, 2, 3).transpose(0, 1), noise(4, 3), noise(4)),
    near("einsum", "bij,bjk->bik", [noise(2, 3, 4), noise(2, 4, 5)], strides=False),
    near("einsum", "ij,j", [noise(3, 4), noise(4)], strides=False), near("einsum", "i,i->", [noise(4), noise(4)], strides=False),
    # convolutions
    near("conv2d.padding", noise(2, 4, 9, 8), noise(6, 4, 3, 2), None, [1, 1], "same"),
    near("conv2d.padding", noise(2, 4, 9, 8), noise(6, 4, 3, 2), None, [1, 1], "valid"),
    near("convolution", noise(2, 4, 5, 6), noise(4, 3, 3, 3), None, [2, 2], [1, 1], [1, 1], True, [1, 1], 1),
    near("convolution", noise(2, 4, 5, 6), noise(3, 4, 3, 3), noise(3), [2, 2], [1, 1], [1, 1], False, [0, 0], 1),
    near("_convolution", noise(2, 4, 5, 6), noise(3, 4, 3, 3), noise(3), *[[1, 1]] * 3, False, [0, 0], 1, *[False] * 2, *[True] * 2),
    near("conv2d", noise(1, 4, 5, 5), noise(6, 4, 1, 1)), near("conv2d", last(noise(1, 4, 5, 5)), noise(6, 4, 1, 1)),
    near("conv1d", noise(2, 4, 9), noise(6, 4, 3), noise(6), [2], [1]),
    near("conv3d", noise(2, 3, 5, 6, 7), noise(4, 3, 2, 3, 3), None, [1, 2, 1], [0, 1, 1]),
    near("conv2d", noise(4, 9, 8), noise(6, 4, 3, 3)),
    # of no images, or of images without channels, of which torch makes others without
    near("conv1d", noise(0, 2, 9), noise(3, 2, 2), noise(3), [2], [1]),
    near("conv1d", noise(2, 0, 9), noise(3, 0, 2)), near("conv2d", noise(2, 0, 5, 6), noise(3, 0, 2, 2), noise(3), [2, 1]),
    # pooling
    row("max_pool1d", noise(2, 3, 9), [3], [2], [1], [2]), near("avg_pool1d", noise(2, 3, 9), [3], [2], [1]),
    row("max_pool3d", noise(2, 3, 5, 6, 7), [2, 2, 2]),
    row("max_pool1d", noise(0, 3, 9), [3]), row("max_pool2d", noise(0, 3, 4, 4), [2, 2]),  # of no images
    row("max_pool2d_with_indices", noise(0, 3, 4, 4), [2, 2]), row("max_pool3d", noise(0, 2, 4, 4, 4), [2, 2, 2]),
    # reductions, differences
    *(near(name, noise(2, 3)) for name in "sum mean prod max min any all argmax argmin var std norm.Scalar".split()),
    row("sum", WHOLE.to(torch.int32)), row("sum", WHOLE > 2),
    row("sum.dim_IntList", WHOLE, [1], dtype=torch.float32),
    row("mean", WHOLE, dtype=torch.float64), row("cumsum", WHOLE.to(torch.uint8), 0),
    row("any", WHOLE.to(torch.uint8)), row("max.dim", WHOLE, 1),
    row("sum", noise(2, 3, dtype=torch.float16), rtol=0.001, atol=0.001), row("sum", torch.tensor(2.0)),
    # normalisation
    row("softmax.int", torch.full((2, 3), float("-inf")), -1),
    near("native_group_norm", noise(2, 6, 4), noise(6), noise(6), 2, 6, 4, 3, 1e-05),
    # recurrence
    near("lstm.input", noise(5, 2, 3), [noise(2, 2, 4), noise(2, 2, 4)], [noise(16, 3), noise(16, 4), noise(16, 4, seed=1),
         noise(16, 4, seed=2)], False, 2, 0.0, False, False, False, strides=False),
    near("lstm_cell", noise(2, 3), [noise(2, 4), noise(2, 4)], *weights(4, 3, 4, 1), strides=False),
    near("gru_cell", noise(2, 3), noise(2, 4), *weights(3, 3, 4, 1), strides=False),
    # differences
    near("diff", noise(2, 6), strides=False), near("diff", noise(2, 6), 1, 0, strides=False),
    near("diff", noise(6, 2).t(), 3, strides=False),
]  # fmt: skip


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call[0].removeprefix("aten::"))
def test_values_types_and_strides_are_torchs(call: Call) -> None:
    name, args, options = call
    check(name, *args, **options)


def test_an_unknown_device_is_not_taken_for_the_old_one() -> None:
    op = the_op("aten::to")
    from irscope.ir.types import DEVICE
    from irscope.ops.type_rules import Unknown

    here = TensorType("float32", (2,), (1,), "cpu")
    assert op.type_rule(self=here, device=Unknown(DEVICE), dtype=6).device is None
    assert op.type_rule(self=here, device="cuda:0", dtype=6).device == "cuda:0"


@pytest.mark.parametrize("dim", range(5))
def test_stack_of_images_with_channels_last(dim: int) -> None:
    """It is joined along a dimension that is there, in its format, and that dimension then split."""
    image, row = last(numbers(2, 3, 4, 5)), numbers(2, 3, 4).transpose(1, 2).unsqueeze(-2)
    for tensors in ([image, image + 1], [image, numbers(2, 3, 4, 5)], [row, row, row]):
        check("aten::stack", tensors, dim)
    check("aten::stack", [numbers(2, 4, 3).transpose(1, 2)] * 2, min(dim, 3))


@pytest.mark.parametrize("layout", [lambda: numbers(2, 3, 4), lambda: numbers(4, 3, 2).transpose(0, 2), lambda: numbers(2, 6, 4)[:, ::2]])
def test_flip_roll_triangles(layout: Any) -> None:
    check("aten::flip", layout(), [0, 2])
    check("aten::roll", layout(), [1], [1])
    check("aten::roll", layout(), [1, -1], [0, 2])
    check("aten::roll", layout(), [5])
    check("aten::tril", layout())
    check("aten::triu", layout(), 1)


def test_index_by_a_mask_has_an_unknown_length() -> None:
    tensor = numbers(2, 3)
    op = the_op("aten::index")
    mask = TensorType("bool", (2, 3))
    assert op.type_rule(self=TensorType("float32", (2, 3)), indices=[mask]).shape is None
    found = op.reference(self=tensor.numpy(), indices=[(tensor > 0).numpy()])  # type: ignore[misc]
    assert found.tolist() == tensor[tensor > 0].tolist()


def test_sizes_that_depend_on_elements() -> None:
    tensor = torch.tensor([[0.0, 1.0], [2.0, 0.0]])
    for name, result in (("aten::nonzero", torch.nonzero(tensor)), ("aten::masked_select", torch.masked_select(tensor, tensor > 0))):
        op = the_op(name)
        arguments = {"self": tensor} if name == "aten::nonzero" else {"self": tensor, "mask": tensor > 0}
        found = op.reference(**{key: value.numpy() for key, value in arguments.items()})
        assert found.tolist() == result.tolist()
        inferred = op.type_rule(**{key: TensorType(str(v.dtype).removeprefix("torch."), tuple(v.shape)) for key, v in arguments.items()})
        assert len(inferred.shape) == result.dim() and inferred.shape[0] is None


@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal: bool) -> None:
    q, k, v = noise(2, 4, 5, 8), noise(2, 4, 5, 8, seed=1), noise(2, 4, 5, 8, seed=2)
    check("aten::scaled_dot_product_attention", q, k, v, None, 0.0, causal, strides=False, **CLOSE)
    mask = noise(2, 1, 5, 5) > -1
    check("aten::scaled_dot_product_attention", q, k, v, mask, scale=0.3, strides=False, **CLOSE)
    check("aten::scaled_dot_product_attention", q, k, v, noise(5, 5), strides=False, **CLOSE)


def test_a_window_larger_than_the_image_is_refused() -> None:
    for weight in (noise(6, 4, 3, 3), noise(6, 4, 7, 1)):
        with pytest.raises(ValueError, match="larger"):
            the_op("aten::conv2d").reference(noise(1, 4, 5, 2).numpy(), weight.numpy())


@pytest.mark.parametrize(("mode", "margins"), [("constant", [-3, 3]), ("reflect", [0, 2]), ("replicate", [-2, 0]), ("circular", [3, 0])])
def test_margins_that_torch_refuses(mode: str, margins: list[int]) -> None:
    with pytest.raises(RuntimeError):
        torch.nn.functional.pad(numbers(3, 2), margins, mode)
    with pytest.raises(ValueError, match="do not fit"):
        the_op("aten::pad").reference(numbers(3, 2).numpy(), margins, mode)


@pytest.mark.parametrize("formats", ["rows", "image last", "weight last"])
@pytest.mark.parametrize(("stride", "padding", "dilation", "groups"), [(1, 0, 1, 1), (2, 1, 1, 1), (1, 2, 2, 2), (3, 1, 1, 4)])
def test_convolutions_of_images(stride: int, padding: int, dilation: int, groups: int, formats: str) -> None:
    image, weight = noise(2, 4, 9, 8), noise(8, 4 // groups, 3, 3)
    image = last(image) if formats == "image last" else image
    weight = last(weight) if formats == "weight last" and groups == 1 else weight
    check("aten::conv2d", image, weight, noise(8), [stride] * 2, [padding] * 2, [dilation] * 2, groups, **CLOSE)


@pytest.mark.parametrize(("stride", "padding", "extra", "groups", "dilation"), [(1, 0, 0, 1, 1), (2, 1, 1, 1, 1), (3, 2, 1, 2, 2)])
def test_transposed_convolutions(stride: int, padding: int, extra: int, groups: int, dilation: int) -> None:
    image, weight = noise(2, 4, 5, 6), noise(4, 3, 3, 3)
    settings = [stride] * 2, [padding] * 2, [extra] * 2, groups, [dilation] * 2
    check("aten::conv_transpose2d.input", image, weight, noise(3 * groups), *settings, **CLOSE)


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize(("kernel", "stride", "padding"), [([2, 2], [], [0, 0]), ([3, 2], [2, 2], [1, 1]), ([3, 3], [2, 3], [1, 0])])
def test_pools(kernel: list[int], stride: list[int], padding: list[int], ceil_mode: bool) -> None:
    for image in (noise(2, 3, 9, 8), last(noise(2, 3, 9, 8))):
        check("aten::max_pool2d", image, kernel, stride, padding, [1, 1], ceil_mode)
        check("aten::max_pool2d_with_indices", image, kernel, stride, padding, [1, 1], ceil_mode)
        check("aten::avg_pool2d", image, kernel, stride, padding, ceil_mode, **CLOSE)
        check("aten::avg_pool2d", image, kernel, stride, padding, ceil_mode, False, **CLOSE)


@pytest.mark.parametrize("size", [[1, 1], [3, 2], [7, 5]])
def test_adaptive_pools(size: list[int]) -> None:
    check("aten::adaptive_avg_pool2d", noise(2, 3, 9, 8), size, **CLOSE)
    for image in (last(noise(2, 3, 9, 8)), last(noise(1, 3, 9, 8)), last(noise(2, 1, 9, 8)), last(noise(2, 3, 9, 1)), noise(2, 3, 1, 1)):
        check("aten::adaptive_avg_pool2d", image, size, **CLOSE)
        check("aten::_adaptive_avg_pool2d", image, size, **CLOSE)
    check("aten::adaptive_avg_pool3d", noise(2, 3, 4, 9, 8).contiguous(memory_format=torch.channels_last_3d), [2, *size], **CLOSE)
    check("aten::adaptive_avg_pool3d", noise(2, 3, 4, 9, 8).contiguous(memory_format=torch.channels_last_3d), [1, *size], **CLOSE)
    check("aten::adaptive_avg_pool1d", noise(2, 3, 9), size[:1], **CLOSE)


def test_upsampling_by_the_nearest() -> None:
    for image in (noise(2, 3, 4, 5), last(noise(2, 3, 4, 5))):
        check("aten::upsample_nearest2d", image, [7, 9])
        check("aten::upsample_nearest2d", image, [2, 3])
        check("aten::upsample_nearest2d.vec", image, None, [2.0, 1.5])
        check("aten::_upsample_nearest_exact2d", image, [7, 9])
    check("aten::upsample_nearest1d.vec", noise(2, 3, 4), None, [2.5])
    check("aten::upsample_nearest3d", noise(2, 3, 4, 2, 3), [8, 3, 5])


@pytest.mark.parametrize("corners", [False, True])
def test_linear_upsampling(corners: bool) -> None:
    check("aten::upsample_bilinear2d", noise(2, 3, 4, 5), [7, 9], corners, **CLOSE)
    check("aten::upsample_bilinear2d.vec", noise(2, 3, 4, 5), None, corners, [1.7, 2.2], **CLOSE)
    check("aten::upsample_linear1d", noise(2, 3, 4), [9], corners, **CLOSE)


@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8, torch.bool])
def test_truths_take_an_empty_list_at_its_word(dtype: Any) -> None:
    """Other reductions take it for all dimensions."""
    x = (noise(3, 4).t() > 0).to(dtype)
    for op in ("aten::any.dims", "aten::all.dims"):
        for dim in ([], None, [1], [0, -1]):
            check(op, x, dim, False)
            check(op, x, dim, True)
    check("aten::sum.dim_IntList", noise(3, 4), [], True, **CLOSE)


@pytest.mark.parametrize("layout", [lambda: noise(2, 3, 4), lambda: noise(4, 3, 2).transpose(0, 2), lambda: noise(2, 6, 4)[:, ::2]])
def test_reductions_of_every_layout(layout: Any) -> None:
    for dim in ([1], [0, 2], [-1]):
        for keepdim in (False, True):
            check("aten::sum.dim_IntList", layout(), dim, keepdim, **CLOSE)
            check("aten::mean.dim", layout(), dim, keepdim, **CLOSE)
            check("aten::amax", layout(), dim, keepdim)
            check("aten::amin", layout(), dim, keepdim)
            check("aten::var.correction", layout(), dim, correction=1, keepdim=keepdim, **CLOSE)
            check("aten::std.correction", layout(), dim, correction=0, keepdim=keepdim, **CLOSE)
            check("aten::logsumexp", layout(), dim, keepdim, **CLOSE)
            check("aten::linalg_vector_norm", layout(), 2, dim, keepdim, **CLOSE)
            check("aten::norm.ScalarOpt_dim", layout(), 1, dim, keepdim, **CLOSE)
            check("aten::any.dims", layout() > 1, dim, keepdim)


@pytest.mark.parametrize("layout", [lambda: noise(2, 3, 4), lambda: noise(4, 3, 2).transpose(0, 2)])
def test_reductions_with_positions(layout: Any) -> None:
    for dim in (0, -1):
        check("aten::max.dim", layout(), dim)
        check("aten::min.dim", layout(), dim, True)
        check("aten::argmax", layout(), dim)
        check("aten::argmin", layout(), dim, True)
        check("aten::cumsum", layout(), dim, **CLOSE)
        check("aten::cumprod", layout(), dim, **CLOSE)
        check("aten::all.dim", layout() > 0, dim)
        check("aten::prod.dim_int", layout(), dim, **CLOSE)


@pytest.mark.parametrize("layout", [lambda: noise(2, 6, 4), lambda: noise(4, 6, 2).transpose(0, 2)])
def test_softmax_and_layer_norms(layout: Any) -> None:
    for dim in (0, -1):
        check("aten::softmax.int", layout(), dim, **CLOSE)
        check("aten::_softmax", layout(), dim, False, **CLOSE)
        check("aten::log_softmax.int", layout(), dim, **CLOSE)
        check("aten::_log_softmax", layout(), dim, False, **CLOSE)
    check("aten::softmax.int", layout(), 1, torch.float64)
    check("aten::layer_norm", layout(), [6, 4], noise(6, 4), noise(6, 4), **CLOSE)
    check("aten::native_layer_norm", layout(), [4], noise(4), None, 1e-5, **CLOSE)
    check("aten::rms_norm", layout(), [4], noise(4), **CLOSE)
    check("aten::group_norm", layout(), 3, noise(6), noise(6), strides=False, **CLOSE)
    check("aten::instance_norm", layout(), noise(6), noise(6), None, None, True, 0.1, 1e-5, False, strides=False, **CLOSE)


@pytest.mark.parametrize("training", [False, True])
def test_batch_norms(training: bool) -> None:
    rest = noise(3), noise(3), noise(3), noise(3).abs()
    check("aten::native_batch_norm", noise(2, 3, 4, 5), *rest, training, 0.1, 1e-5, **CLOSE)
    check("aten::batch_norm", noise(2, 3, 4, 5), *rest, training, 0.1, 1e-5, False, **CLOSE)
    check("aten::_native_batch_norm_legit", noise(2, 3, 4, 5), *rest, training, 0.1, 1e-5, **CLOSE)


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
def test_recurrent_layers(both: bool, batch_first: bool) -> None:
    rows = 2 if both else 1
    sequence, state = noise(5, 5, 3), noise(rows, 5, 4)
    settings = True, 1, 0.0, False, both, batch_first
    lstm, gru = weights(4, 3, 4, rows), weights(3, 3, 4, rows)
    check("aten::lstm.input", sequence, [state, state * 2], lstm, *settings, strides=False, **CLOSE)
    check("aten::gru.input", sequence, state, gru, *settings, strides=False, **CLOSE)


IMAGES = {
    "permuted": lambda: noise(2, 5, 6, 4).permute(0, 3, 1, 2),
    "permuted alone": lambda: noise(1, 5, 6, 4).permute(0, 3, 1, 2),
    "turned": lambda: noise(2, 4, 6, 5).transpose(2, 3),
    "one channel": lambda: last(noise(2, 1, 6, 5)),
    "one pixel": lambda: noise(2, 4, 1, 1),
    "one pixel last": lambda: last(noise(2, 4, 1, 1)),
    "every other channel": lambda: noise(2, 8, 5, 6)[:, ::2],
    "some channels last": lambda: last(noise(2, 8, 5, 6))[:, :4],
    "every other row last": lambda: last(noise(2, 4, 10, 6))[:, :, ::2],
    "repeated": lambda: noise(1, 4, 5, 6).expand(2, 4, 5, 6),
}


@pytest.mark.parametrize("layout", IMAGES)
def test_the_format_of_images_of_any_layout(layout: str) -> None:
    image = IMAGES[layout]
    channels = image().shape[1]
    rest = noise(channels), noise(channels), noise(channels), noise(channels).abs()
    check("aten::conv2d", image(), noise(6, channels, 3, 3), None, [1, 1], [1, 1], **CLOSE)
    check("aten::conv2d", image(), noise(6, channels, 1, 1), noise(6), **CLOSE)
    check("aten::conv2d", image(), last(noise(6, channels, 1, 1)), noise(6), **CLOSE)
    check("aten::conv2d", image(), noise(channels, 1, 3, 3), None, [1, 1], [1, 1], [1, 1], channels, **CLOSE)
    check("aten::conv_transpose2d.input", image(), noise(channels, 6, 3, 3), None, [2, 2], [1, 1], **CLOSE)
    check("aten::max_pool2d", image(), [3, 3], [2, 2], [1, 1])
    check("aten::avg_pool2d", image(), [3, 3], [2, 2], [1, 1], **CLOSE)
    check("aten::adaptive_avg_pool2d", image(), [3, 2], **CLOSE)
    check("aten::upsample_nearest2d", image(), [7, 8])
    check("aten::upsample_bilinear2d", image(), [7, 8], False, **CLOSE)
    check("aten::batch_norm", image(), *rest, False, 0.1, 1e-5, False, **CLOSE)
    check("aten::softmax.int", image(), 1, **CLOSE)
    check("aten::mean.dim", image(), [2, 3], True, **CLOSE)
    check("aten::cat", [image(), image()], 1)
    check("aten::zeros_like", image())


@pytest.mark.parametrize("layout", [lambda: noise(2, 9, 4).transpose(1, 2), lambda: noise(1, 9, 4).transpose(1, 2)])
def test_signals_whose_channels_lie_side_by_side(layout: Any) -> None:
    check("aten::conv1d", layout(), noise(6, 4, 3), None, [2], [1], **CLOSE)
    check("aten::max_pool1d", layout(), [3], [2], [1], strides=False)
    check("aten::avg_pool1d", layout(), [3], [2], [1], strides=False, **CLOSE)
    check("aten::adaptive_avg_pool1d", layout(), [3], strides=False, **CLOSE)
    check("aten::adaptive_avg_pool1d", layout(), [1], strides=False, **CLOSE)


def floats(*shape: int) -> TensorType:
    return TensorType("float32", shape)


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("copy_", {"self": floats(3), "src": floats(2, 3)}, "broadcast"),
    ("cat", {"tensors": [floats(2, 3), floats(2, 4)], "dim": 0}, "dimension 1 differs: 3 against 4"),
    ("mm", {"self": floats(2, 3), "mat2": floats(4, 5)}, r"Float\(2, 3\) and Float\(4, 5\).*3 against 4"),
    ("matmul", {"self": floats(2, 3), "other": floats(4, 5)}, r"Float\(2, 3\) and Float\(4, 5\).*3 against 4"),
    ("conv2d", {"input": floats(1, 3, 8, 8), "weight": floats(6, 4, 3, 3)}, "channels differ: 3 against 4"),
    ("mean", {"self": TensorType("int64", (2,))}, "mean"),
    ("layer_norm", {"input": floats(2, 3), "normalized_shape": [4]}, "normalized shape"),
]


@pytest.mark.parametrize(("name", "arguments", "why"), REFUSED, ids=[name for name, _, _ in REFUSED])
def test_operands_that_no_run_accepts_are_refused(name: str, arguments: dict[str, Any], why: str) -> None:
    op = the_op(f"aten::{name}")
    with pytest.raises(ArgumentError, match=why):
        op.type_rule(**arguments)
