"""Copies, casts, stores, creation and indexing: values, types, strides and aliasing as in torch."""

from __future__ import annotations

from typing import Any

import pytest

from irscope.errors import ArgumentError
from irscope.ir.types import TensorType
from irscope.ops.registry import lookup

torch = pytest.importorskip("torch")

from tests.ops.oracle import check  # noqa: E402


def numbers(*shape: int, dtype: Any = None) -> Any:
    return (torch.arange(torch.Size(shape).numel()) - 4).reshape(shape).to(dtype or torch.float32)


def last(tensor: Any) -> Any:
    return tensor.contiguous(memory_format=torch.channels_last)


class TestCasts:
    @pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool", "float16", "uint8"])
    @pytest.mark.parametrize("copy", [False, True])
    def test_to_a_dtype(self, dtype: str, copy: bool) -> None:
        check("aten::to.dtype", numbers(2, 3).t(), getattr(torch, dtype), False, copy)

    def test_to_like_another(self) -> None:
        check("aten::to.other", numbers(2, 3), numbers(1, dtype=torch.int32))
        check("aten::type_as", numbers(2, 3), numbers(1))
        check("aten::type_as", numbers(2, 3), numbers(1, dtype=torch.float64))
        check("aten::to.dtype_layout", numbers(2, 3), dtype=torch.float64)
        check("aten::_to_copy", numbers(2, 3))
        check("aten::_to_copy", numbers(4, 6)[::2, ::3], dtype=torch.int32)

    def test_an_unknown_device_is_not_taken_for_the_old_one(self) -> None:
        op = lookup("aten::to")
        assert op is not None and op.type_rule is not None
        from irscope.ir.types import DEVICE
        from irscope.ops.typing.type_rules import Unknown

        here = TensorType("float32", (2,), (1,), "cpu")
        assert op.type_rule(self=here, device=Unknown(DEVICE), dtype=6).device is None
        assert op.type_rule(self=here, device="cuda:0", dtype=6).device == "cuda:0"


class TestStores:
    def test_copy_broadcasts_and_casts(self) -> None:
        check("aten::copy_", numbers(2, 3), numbers(3, dtype=torch.int64))
        check("aten::copy_", numbers(4, 6)[::2], numbers(1, 6, dtype=torch.float64))

    def test_fill(self) -> None:
        check("aten::fill_.Scalar", numbers(4, 6)[:, ::2], 2.5)
        check("aten::fill_.Tensor", numbers(2, 3), torch.tensor(3))
        check("aten::zero_", numbers(2, 3).t())

    def test_copy_that_cannot_fit(self) -> None:
        op = lookup("aten::copy_")
        assert op is not None and op.type_rule is not None
        with pytest.raises(ArgumentError):
            op.type_rule(self=TensorType("float32", (3,)), src=TensorType("float32", (2, 3)))


class TestJoining:
    def test_cat(self) -> None:
        check("aten::cat", [numbers(2, 3), numbers(4, 3)])
        check("aten::cat", [numbers(2, 3), numbers(2, 1)], 1)
        check("aten::cat", [numbers(3, 2).t(), numbers(2, 1)], -1)
        check("aten::cat", [numbers(0), numbers(2, 3)], 1)
        check("aten::cat", [numbers(2, 3), numbers(2, 3, dtype=torch.int64), numbers(1, 3, dtype=torch.float64)])

    def test_cat_of_images_keeps_their_format(self) -> None:
        image = numbers(2, 3, 4, 5)
        check("aten::cat", [last(image), last(image)], 1)
        check("aten::cat", [last(image), image], 1)

    def test_stack(self) -> None:
        check("aten::stack", [numbers(2, 3), numbers(2, 3)])
        check("aten::stack", [numbers(3, 2).t(), numbers(2, 3)], -1)

    @pytest.mark.parametrize("dim", range(5))
    def test_stack_of_images_with_channels_last(self, dim: int) -> None:
        """It is joined along a dimension that is there, in its format, and that dimension then split."""
        image, row = last(numbers(2, 3, 4, 5)), numbers(2, 3, 4).transpose(1, 2).unsqueeze(-2)
        for tensors in ([image, image + 1], [image, numbers(2, 3, 4, 5)], [row, row, row]):
            check("aten::stack", tensors, dim)
        check("aten::stack", [numbers(2, 4, 3).transpose(1, 2)] * 2, min(dim, 3))

    def test_repeat(self) -> None:
        check("aten::repeat", numbers(2, 3), [2, 1, 3])
        check("aten::repeat", numbers(3), [2])
        check("aten::repeat_interleave.self_int", numbers(2, 3), 2, strides=False)
        check("aten::repeat_interleave.self_int", numbers(2, 3), 3, 1, strides=False)

    def test_shapes_that_do_not_join(self) -> None:
        op = lookup("aten::cat")
        assert op is not None and op.type_rule is not None
        with pytest.raises(ArgumentError, match="dimension 1 differs: 3 against 4"):
            op.type_rule(tensors=[TensorType("float32", (2, 3)), TensorType("float32", (2, 4))], dim=0)


class TestRearranging:
    @pytest.mark.parametrize(
        "layout", [lambda: numbers(2, 3, 4), lambda: numbers(4, 3, 2).transpose(0, 2), lambda: numbers(2, 6, 4)[:, ::2]]
    )
    def test_flip_roll_triangles(self, layout: Any) -> None:
        check("aten::flip", layout(), [0, 2])
        check("aten::roll", layout(), [1], [1])
        check("aten::roll", layout(), [1, -1], [0, 2])
        check("aten::roll", layout(), [5])
        check("aten::tril", layout())
        check("aten::triu", layout(), 1)

    def test_pad(self) -> None:
        check("aten::pad", numbers(2, 3, 4), [1, 2, 0, 1], "constant", 1.5)
        check("aten::pad", numbers(2, 3, 4), [1, 2], "reflect", strides=False)
        check("aten::pad", numbers(2, 3, 4), [1, 2], "replicate", strides=False)
        check("aten::pad", numbers(2, 3, 4), [1, 2], "circular", strides=False)
        check("aten::constant_pad_nd", numbers(2, 3), [1, -1, -1, 2], 7)
        check("aten::constant_pad_nd", last(numbers(2, 3, 4, 5)), [1, 1], strides=False)


class TestCreation:
    def test_filled(self) -> None:
        check("aten::zeros", [2, 3])
        check("aten::ones", [2, 3], dtype=torch.int64)
        check("aten::full", [2], 3)
        check("aten::full", [2], 3.5, dtype=torch.float64)
        check("aten::full", [], True)
        check("aten::empty.memory_format", [2, 3], values=False)
        check("aten::empty.memory_format", [2, 3, 4, 5], memory_format=torch.channels_last, values=False)
        check("aten::eye", 3)
        check("aten::eye.m", 2, 4, dtype=torch.int32)
        check("aten::scalar_tensor", 3)
        check("aten::scalar_tensor", 3, dtype=torch.int64)

    def test_like_another(self) -> None:
        check("aten::zeros_like", numbers(2, 3).t())
        check("aten::ones_like", numbers(4, 6)[::2, ::2], dtype=torch.bool)
        check("aten::full_like", numbers(2, 3, dtype=torch.int64), 7)
        check("aten::zeros_like", numbers(2, 1).expand(2, 3))
        check("aten::new_zeros", numbers(2, dtype=torch.float64), [3])
        check("aten::new_full", numbers(2), [3, 1], 2, dtype=torch.int64)

    @pytest.mark.parametrize("end", [5, 5.5, 0, 0.5])
    def test_arange(self, end: float) -> None:
        check("aten::arange", end)

    def test_arange_with_start_and_step(self) -> None:
        check("aten::arange.start", 2, 9)
        check("aten::arange.start_step", 2, 9, 3)
        check("aten::arange.start_step", 9, 2, -3)
        check("aten::arange.start_step", 0, 1, 0.3)
        check("aten::arange.start_step", 0, 7, 2, dtype=torch.float32)
        check("aten::linspace", 0, 1, 5)


class TestIndexing:
    def test_embedding(self) -> None:
        check("aten::embedding", numbers(5, 3), torch.tensor([[0, 4], [1, 1]]))

    def test_index(self) -> None:
        places = torch.tensor([0, 1, 0])
        check("aten::index.Tensor", numbers(2, 3, 4), [places], strides=False)
        check("aten::index.Tensor", numbers(2, 3, 4), [None, places], strides=False)
        check("aten::index.Tensor", numbers(2, 3, 4), [places, None, places], strides=False)
        check("aten::index.Tensor", numbers(2, 3, 4), [places[:, None], places], strides=False)

    def test_index_by_a_mask_has_an_unknown_length(self) -> None:
        tensor = numbers(2, 3)
        op = lookup("aten::index")
        assert op is not None and op.type_rule is not None
        mask = TensorType("bool", (2, 3))
        assert op.type_rule(self=TensorType("float32", (2, 3)), indices=[mask]).shape is None
        found = op.reference(self=tensor.numpy(), indices=[(tensor > 0).numpy()])  # type: ignore[misc]
        assert found.tolist() == tensor[tensor > 0].tolist()

    def test_index_put(self) -> None:
        places = torch.tensor([0, 1, 0])
        check("aten::index_put_", numbers(2, 3), [places], torch.tensor(5.0))
        check("aten::index_put_", numbers(4, 3), [places], numbers(3, 3), True)
        check("aten::index_put", numbers(4, 3), [None, torch.tensor([0, 2])], numbers(4, 2))

    def test_gather_and_scatter(self) -> None:
        index = torch.tensor([[0, 1, 1], [1, 0, 0]])
        check("aten::gather", numbers(2, 3), 0, index)
        check("aten::gather", numbers(2, 3), -1, index[:, :2])
        check("aten::scatter.src", numbers(2, 3), 0, index, numbers(2, 3))
        check("aten::scatter.value", numbers(2, 3), 1, index, 9.0)
        check("aten::scatter_.value", numbers(2, 3), 1, index, 9.0)
        check("aten::scatter_add", numbers(2, 3), 0, index, numbers(2, 3))
        check("aten::scatter_add_", numbers(2, 3), 0, index, numbers(2, 3))
        check("aten::scatter.reduce", numbers(2, 3), 0, index, numbers(2, 3), reduce="multiply")
        check("aten::index_select", numbers(2, 3), 1, torch.tensor([2, 0, 0, 1]))
        check("aten::index_add", numbers(2, 3), 1, torch.tensor([2, 0]), numbers(2, 2), alpha=2)
        check("aten::index_copy_", numbers(2, 3), 1, torch.tensor([2, 0]), numbers(2, 2))
        check("aten::index_fill_.int_Scalar", numbers(2, 3), 1, torch.tensor([2, 0]), 8)

    def test_sorting(self) -> None:
        tensor = torch.tensor([[3.0, 1.0, 2.0, 1.5], [0.5, 9.0, -1.0, 4.0]])
        check("aten::sort", tensor)
        check("aten::sort", tensor, 0, True)
        check("aten::sort.stable", tensor, stable=True, descending=True)
        check("aten::argsort", tensor)
        check("aten::topk", tensor, 2, strides=False)
        check("aten::topk", tensor, 1, 0, False, strides=False)

    def test_one_hot(self) -> None:
        check("aten::one_hot", torch.tensor([[0, 2]]), 4)

    def test_sizes_that_depend_on_elements(self) -> None:
        tensor = torch.tensor([[0.0, 1.0], [2.0, 0.0]])
        for name, result in (
            ("aten::nonzero", torch.nonzero(tensor)),
            ("aten::masked_select", torch.masked_select(tensor, tensor > 0)),
        ):
            op = lookup(name)
            assert op is not None and op.type_rule is not None and op.reference is not None
            arguments = {"self": tensor} if name == "aten::nonzero" else {"self": tensor, "mask": tensor > 0}
            found = op.reference(**{key: value.numpy() for key, value in arguments.items()})
            assert found.tolist() == result.tolist()
            inferred = op.type_rule(
                **{key: TensorType(str(v.dtype).removeprefix("torch."), tuple(v.shape)) for key, v in arguments.items()}
            )
            assert len(inferred.shape) == result.dim() and inferred.shape[0] is None
