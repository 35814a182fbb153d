"""Products, convolutions, pooling, reductions and normalisations: values, types and strides as in torch."""

from __future__ import annotations

from typing import Any

import pytest

from irscope.errors import ArgumentError
from irscope.ir.types import TensorType
from irscope.ops.registry import lookup

torch = pytest.importorskip("torch")

from tests.ops.oracle import check  # noqa: E402

CLOSE = {"rtol": 2e-5, "atol": 2e-5}


def noise(*shape: int, seed: int = 0, dtype: Any = None) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype or torch.float32)


def last(tensor: Any) -> Any:
    return tensor.contiguous(memory_format=torch.channels_last)


class TestProducts:
    def test_of_matrices(self) -> None:
        check("aten::mm", noise(2, 3), noise(3, 4), **CLOSE)
        check("aten::mm", noise(3, 2).t(), noise(4, 3).t(), **CLOSE)
        check("aten::bmm", noise(5, 2, 3), noise(5, 3, 4), **CLOSE)
        check("aten::addmm", noise(4), noise(2, 3), noise(3, 4), beta=2, alpha=0.5, **CLOSE)
        check("aten::baddbmm", noise(5, 1, 4), noise(5, 2, 3), noise(5, 3, 4), **CLOSE)
        check("aten::mv", noise(2, 3), noise(3), **CLOSE)
        check("aten::dot", noise(3), noise(3, seed=1), **CLOSE)
        check("aten::outer", noise(3), noise(4), **CLOSE)
        check("aten::mm", noise(2, 3, dtype=torch.float64), noise(3, 4, dtype=torch.float64))

    @pytest.mark.parametrize(
        ("a", "b"),
        [
            ((3,), (3,)),
            ((2, 3), (3,)),
            ((3,), (3, 2)),
            ((2, 3), (3, 4)),
            ((5, 2, 3), (3, 4)),
            ((5, 2, 3), (3,)),
            ((2, 3), (5, 3, 4)),
            ((5, 1, 2, 3), (7, 3, 4)),
            ((3,), (5, 3, 4)),
        ],
    )
    def test_matmul_of_any_ranks(self, a: tuple[int, ...], b: tuple[int, ...]) -> None:
        check("aten::matmul", noise(*a), noise(*b, seed=1), **CLOSE)

    def test_linear(self) -> None:
        check("aten::linear", noise(2, 5, 3), noise(4, 3), noise(4), **CLOSE)
        check("aten::linear", noise(3), noise(4, 3), **CLOSE)
        check("aten::linear", noise(5, 2, 3).transpose(0, 1), noise(4, 3), noise(4), **CLOSE)

    def test_einsum(self) -> None:
        check("aten::einsum", "bij,bjk->bik", [noise(2, 3, 4), noise(2, 4, 5)], strides=False, **CLOSE)
        check("aten::einsum", "ij,j", [noise(3, 4), noise(4)], strides=False, **CLOSE)
        check("aten::einsum", "i,i->", [noise(4), noise(4)], strides=False, **CLOSE)

    @pytest.mark.parametrize("causal", [False, True])
    def test_attention(self, causal: bool) -> None:
        q, k, v = noise(2, 4, 5, 8), noise(2, 4, 5, 8, seed=1), noise(2, 4, 5, 8, seed=2)
        check("aten::scaled_dot_product_attention", q, k, v, None, 0.0, causal, strides=False, **CLOSE)
        mask = noise(2, 1, 5, 5) > -1
        check("aten::scaled_dot_product_attention", q, k, v, mask, scale=0.3, strides=False, **CLOSE)
        check("aten::scaled_dot_product_attention", q, k, v, noise(5, 5), strides=False, **CLOSE)

    def test_grouped_attention(self) -> None:
        q, k = noise(2, 4, 5, 8), noise(2, 2, 5, 8, seed=1)
        check("aten::scaled_dot_product_attention", q, k, k, enable_gqa=True, strides=False, **CLOSE)

    @pytest.mark.parametrize("name", ["mm", "matmul"])
    def test_inner_dimensions_that_differ(self, name: str) -> None:
        op = lookup(f"aten::{name}")
        assert op is not None and op.type_rule is not None
        with pytest.raises(ArgumentError, match=r"Float\(2, 3\) and Float\(4, 5\).*3 against 4"):
            op.type_rule(TensorType("float32", (2, 3)), TensorType("float32", (4, 5)))


class TestConvolutions:
    @pytest.mark.parametrize("formats", ["rows", "image last", "weight last"])
    @pytest.mark.parametrize(
        ("stride", "padding", "dilation", "groups"), [(1, 0, 1, 1), (2, 1, 1, 1), (1, 2, 2, 2), (3, 1, 1, 4)]
    )
    def test_of_images(self, stride: int, padding: int, dilation: int, groups: int, formats: str) -> None:
        image, weight = noise(2, 4, 9, 8), noise(8, 4 // groups, 3, 3)
        image = last(image) if formats == "image last" else image
        weight = last(weight) if formats == "weight last" and groups == 1 else weight
        check("aten::conv2d", image, weight, noise(8), [stride] * 2, [padding] * 2, [dilation] * 2, groups, **CLOSE)

    def test_of_one_by_one(self) -> None:
        check("aten::conv2d", noise(1, 4, 5, 5), noise(6, 4, 1, 1), **CLOSE)
        check("aten::conv2d", last(noise(1, 4, 5, 5)), noise(6, 4, 1, 1), **CLOSE)

    def test_other_ranks(self) -> None:
        check("aten::conv1d", noise(2, 4, 9), noise(6, 4, 3), noise(6), [2], [1], **CLOSE)
        check("aten::conv3d", noise(2, 3, 5, 6, 7), noise(4, 3, 2, 3, 3), None, [1, 2, 1], [0, 1, 1], **CLOSE)
        check("aten::conv2d", noise(4, 9, 8), noise(6, 4, 3, 3), **CLOSE)

    def test_of_nothing(self) -> None:
        """No images, or images without channels, of which torch makes others without."""
        check("aten::conv1d", noise(0, 2, 9), noise(3, 2, 2), noise(3), [2], [1], **CLOSE)
        check("aten::conv1d", noise(2, 0, 9), noise(3, 0, 2), **CLOSE)
        check("aten::conv2d", noise(2, 0, 5, 6), noise(3, 0, 2, 2), noise(3), [2, 1], **CLOSE)

    @pytest.mark.parametrize("padding", ["same", "valid"])
    def test_padding_by_name(self, padding: str) -> None:
        check("aten::conv2d.padding", noise(2, 4, 9, 8), noise(6, 4, 3, 2), None, [1, 1], padding, **CLOSE)

    @pytest.mark.parametrize(
        ("stride", "padding", "extra", "groups", "dilation"), [(1, 0, 0, 1, 1), (2, 1, 1, 1, 1), (3, 2, 1, 2, 2)]
    )
    def test_transposed(self, stride: int, padding: int, extra: int, groups: int, dilation: int) -> None:
        image, weight = noise(2, 4, 5, 6), noise(4, 3, 3, 3)
        settings = [stride] * 2, [padding] * 2, [extra] * 2, groups, [dilation] * 2
        check("aten::conv_transpose2d.input", image, weight, noise(3 * groups), *settings, **CLOSE)

    def test_general(self) -> None:
        image, weight = noise(2, 4, 5, 6), noise(4, 3, 3, 3)
        check("aten::convolution", image, weight, None, [2, 2], [1, 1], [1, 1], True, [1, 1], 1, **CLOSE)
        check(
            "aten::convolution", image, noise(3, 4, 3, 3), noise(3), [2, 2], [1, 1], [1, 1], False, [0, 0], 1, **CLOSE
        )
        check(
            "aten::_convolution",
            image,
            noise(3, 4, 3, 3),
            noise(3),
            [1, 1],
            [1, 1],
            [1, 1],
            False,
            [0, 0],
            1,
            False,
            False,
            True,
            True,
            **CLOSE,
        )

    def test_channels_that_differ(self) -> None:
        op = lookup("aten::conv2d")
        assert op is not None and op.type_rule is not None
        with pytest.raises(ArgumentError, match="channels differ: 3 against 4"):
            op.type_rule(input=TensorType("float32", (1, 3, 8, 8)), weight=TensorType("float32", (6, 4, 3, 3)))


class TestPooling:
    @pytest.mark.parametrize("ceil_mode", [False, True])
    @pytest.mark.parametrize(
        ("kernel", "stride", "padding"), [([2, 2], [], [0, 0]), ([3, 2], [2, 2], [1, 1]), ([3, 3], [2, 3], [1, 0])]
    )
    def test_max_and_mean(self, kernel: list[int], stride: list[int], padding: list[int], ceil_mode: bool) -> None:
        for image in (noise(2, 3, 9, 8), last(noise(2, 3, 9, 8))):
            check("aten::max_pool2d", image, kernel, stride, padding, [1, 1], ceil_mode)
            check("aten::max_pool2d_with_indices", image, kernel, stride, padding, [1, 1], ceil_mode)
            check("aten::avg_pool2d", image, kernel, stride, padding, ceil_mode, **CLOSE)
            check("aten::avg_pool2d", image, kernel, stride, padding, ceil_mode, False, **CLOSE)

    def test_other_ranks(self) -> None:
        check("aten::max_pool1d", noise(2, 3, 9), [3], [2], [1], [2])
        check("aten::avg_pool1d", noise(2, 3, 9), [3], [2], [1], **CLOSE)
        check("aten::max_pool3d", noise(2, 3, 5, 6, 7), [2, 2, 2])

    @pytest.mark.parametrize("size", [[1, 1], [3, 2], [7, 5]])
    def test_adaptive(self, size: list[int]) -> None:
        check("aten::adaptive_avg_pool2d", noise(2, 3, 9, 8), size, **CLOSE)
        check("aten::adaptive_avg_pool2d", last(noise(2, 3, 9, 8)), size, strides=size != [1, 1], **CLOSE)
        check("aten::adaptive_avg_pool1d", noise(2, 3, 9), size[:1], **CLOSE)

    def test_nearest(self) -> None:
        for image in (noise(2, 3, 4, 5), last(noise(2, 3, 4, 5))):
            check("aten::upsample_nearest2d", image, [7, 9])
            check("aten::upsample_nearest2d", image, [2, 3])
            check("aten::upsample_nearest2d.vec", image, None, [2.0, 1.5])
            check("aten::_upsample_nearest_exact2d", image, [7, 9])
        check("aten::upsample_nearest1d.vec", noise(2, 3, 4), None, [2.5])
        check("aten::upsample_nearest3d", noise(2, 3, 4, 2, 3), [8, 3, 5])

    @pytest.mark.parametrize("corners", [False, True])
    def test_linear(self, corners: bool) -> None:
        check("aten::upsample_bilinear2d", noise(2, 3, 4, 5), [7, 9], corners, **CLOSE)
        check("aten::upsample_bilinear2d.vec", noise(2, 3, 4, 5), None, corners, [1.7, 2.2], **CLOSE)
        check("aten::upsample_linear1d", noise(2, 3, 4), [9], corners, **CLOSE)


class TestReductions:
    @pytest.mark.parametrize("dtype", [torch.float32, torch.uint8, torch.bool])
    def test_truths_take_an_empty_list_at_its_word(self, dtype: Any) -> None:
        """Other reductions take it for all dimensions."""
        x = (noise(3, 4).t() > 0).to(dtype)
        for op in ("aten::any.dims", "aten::all.dims"):
            for dim in ([], None, [1], [0, -1]):
                check(op, x, dim, False)
                check(op, x, dim, True)
        check("aten::sum.dim_IntList", noise(3, 4), [], True, **CLOSE)

    @pytest.mark.parametrize(
        "layout", [lambda: noise(2, 3, 4), lambda: noise(4, 3, 2).transpose(0, 2), lambda: noise(2, 6, 4)[:, ::2]]
    )
    def test_every_layout(self, layout: Any) -> None:
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
    def test_with_positions(self, layout: Any) -> None:
        for dim in (0, -1):
            check("aten::max.dim", layout(), dim)
            check("aten::min.dim", layout(), dim, True)
            check("aten::argmax", layout(), dim)
            check("aten::argmin", layout(), dim, True)
            check("aten::cumsum", layout(), dim, **CLOSE)
            check("aten::cumprod", layout(), dim, **CLOSE)
            check("aten::all.dim", layout() > 0, dim)
            check("aten::prod.dim_int", layout(), dim, **CLOSE)

    def test_of_everything(self) -> None:
        for name in (
            "sum",
            "mean",
            "prod",
            "max",
            "min",
            "any",
            "all",
            "argmax",
            "argmin",
            "var",
            "std",
            "norm.Scalar",
        ):
            check(f"aten::{name}", noise(2, 3), **CLOSE)

    def test_of_other_types(self) -> None:
        whole = torch.arange(6).reshape(2, 3)
        check("aten::sum", whole.to(torch.int32))
        check("aten::sum", whole > 2)
        check("aten::sum.dim_IntList", whole, [1], dtype=torch.float32)
        check("aten::mean", whole, dtype=torch.float64)
        check("aten::cumsum", whole.to(torch.uint8), 0)
        check("aten::any", whole.to(torch.uint8))
        check("aten::max.dim", whole, 1)
        check("aten::sum", noise(2, 3, dtype=torch.float16), rtol=1e-3, atol=1e-3)
        check("aten::sum", torch.tensor(2.0))

    def test_mean_of_whole_numbers_is_refused(self) -> None:
        op = lookup("aten::mean")
        assert op is not None and op.type_rule is not None
        with pytest.raises(ArgumentError):
            op.type_rule(self=TensorType("int64", (2,)))


class TestNormalisation:
    @pytest.mark.parametrize("layout", [lambda: noise(2, 6, 4), lambda: noise(4, 6, 2).transpose(0, 2)])
    def test_softmax_and_layers(self, layout: Any) -> None:
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
        check(
            "aten::instance_norm",
            layout(),
            noise(6),
            noise(6),
            None,
            None,
            True,
            0.1,
            1e-5,
            False,
            strides=False,
            **CLOSE,
        )

    def test_attention_rows_that_are_all_masked(self) -> None:
        check("aten::softmax.int", torch.full((2, 3), float("-inf")), -1)

    def test_groups(self) -> None:
        check("aten::native_group_norm", noise(2, 6, 4), noise(6), noise(6), 2, 6, 4, 3, 1e-5, **CLOSE)

    @pytest.mark.parametrize("training", [False, True])
    def test_batches(self, training: bool) -> None:
        rest = noise(3), noise(3), noise(3), noise(3).abs()
        check("aten::native_batch_norm", noise(2, 3, 4, 5), *rest, training, 0.1, 1e-5, **CLOSE)
        check("aten::batch_norm", noise(2, 3, 4, 5), *rest, training, 0.1, 1e-5, False, **CLOSE)
        check("aten::_native_batch_norm_legit", noise(2, 3, 4, 5), *rest, training, 0.1, 1e-5, **CLOSE)

    def test_shape_that_is_not_at_the_end(self) -> None:
        op = lookup("aten::layer_norm")
        assert op is not None and op.type_rule is not None
        with pytest.raises(ArgumentError, match="normalized shape"):
            op.type_rule(input=TensorType("float32", (2, 3)), normalized_shape=[4])


def weights(gates: int, inside: int, width: int, rows: int) -> list[Any]:
    """The parameters of one direction after the other; the second layer reads what the first gives."""
    shapes = ((gates * width, inside), (gates * width, width), (gates * width,), (gates * width,))
    return [noise(*shape, seed=row * 4 + index) * 0.3 for row in range(rows) for index, shape in enumerate(shapes)]


class TestRecurrence:
    @pytest.mark.parametrize("both", [False, True])
    @pytest.mark.parametrize("batch_first", [False, True])
    def test_layers(self, both: bool, batch_first: bool) -> None:
        rows = 2 if both else 1
        sequence, state = noise(5, 5, 3), noise(rows, 5, 4)
        settings = True, 1, 0.0, False, both, batch_first
        lstm, gru = weights(4, 3, 4, rows), weights(3, 3, 4, rows)
        check("aten::lstm.input", sequence, [state, state * 2], lstm, *settings, strides=False, **CLOSE)
        check("aten::gru.input", sequence, state, gru, *settings, strides=False, **CLOSE)

    def test_two_layers_without_biases(self) -> None:
        params = [noise(16, 3), noise(16, 4), noise(16, 4, seed=1), noise(16, 4, seed=2)]
        state = noise(2, 2, 4)
        check(
            "aten::lstm.input",
            noise(5, 2, 3),
            [state, state],
            params,
            False,
            2,
            0.0,
            False,
            False,
            False,
            strides=False,
            **CLOSE,
        )

    def test_cells(self) -> None:
        check("aten::lstm_cell", noise(2, 3), [noise(2, 4), noise(2, 4)], *weights(4, 3, 4, 1), strides=False, **CLOSE)
        check("aten::gru_cell", noise(2, 3), noise(2, 4), *weights(3, 3, 4, 1), strides=False, **CLOSE)


def test_differences() -> None:
    check("aten::diff", noise(2, 6), strides=False, **CLOSE)
    check("aten::diff", noise(2, 6), 1, 0, strides=False, **CLOSE)
    check("aten::diff", noise(6, 2).t(), 3, strides=False, **CLOSE)


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
