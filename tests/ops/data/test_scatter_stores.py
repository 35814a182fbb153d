"""Stores as functions: values, types and strides as in torch, and the same as the in-place op on a copy."""

from typing import Any

import numpy as np
import pytest

import irscope as irs
from tests.programs import ir

torch = pytest.importorskip("torch")

from tests.ops.oracle import check  # noqa: E402


def numbers(*shape: int, dtype: Any = None) -> Any:
    return (torch.arange(torch.Size(shape).numel()) - 4).reshape(shape).to(dtype or torch.float32)


LAYOUTS = {
    "rows": numbers(4, 6), "transposed": numbers(6, 4).t(), "whole numbers": numbers(4, 6, dtype=torch.int64),
    "halves": numbers(4, 6, dtype=torch.float16), "every second": numbers(4, 12)[:, ::2], "columns": numbers(6, 9)[:, 2:6].t(),
}  # fmt: skip


def layout_has_gaps(tensor: Any) -> bool:
    """Of those torch keeps the gaps, and we say nothing."""
    return bool(tensor.untyped_storage().nbytes() != tensor.nbytes)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_copy_fill_zero(layout: str) -> None:
    target = LAYOUTS[layout]
    told = not layout_has_gaps(target)
    check("aten::copy", target, numbers(6, dtype=torch.float64) + 0.5, strides=told)
    check("aten::copy", target, numbers(4, 6, dtype=torch.int32), strides=told)
    check("aten::fill.Scalar", target, 2.5)
    check("aten::fill.Tensor", target, torch.tensor(3))
    check("aten::zero", target)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_writes_through_views(layout: str) -> None:
    target = LAYOUTS[layout]
    told = not layout_has_gaps(target)
    check("aten::select_scatter", target, numbers(4, dtype=target.dtype), 1, -2, strides=told)
    check("aten::select_scatter", target, numbers(6, dtype=target.dtype), -2, 0, strides=told)
    check("aten::slice_scatter", target, numbers(2, 6, dtype=target.dtype), 0, 1, None, 2, strides=told)
    check("aten::slice_scatter", target, numbers(4, 6, dtype=target.dtype), strides=told)
    check("aten::slice_scatter", target, numbers(4, 2, dtype=target.dtype), -1, None, -4, 1, strides=told)


def test_stores_fuse() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
    graph = irs.load(
        ir(
            "x y n:float | no = False; a = relu x; b = copy a y no; c = mul b x; d = fill c n; z = zero d; e = sub c d; f = sub e z | f"
        ), x, x[0], 0.5,
    )  # fmt: skip
    fused = irs.fuse(graph)
    assert [node.op for node in fused.graph.body.nodes if node.op != "prim::Constant"] == ["prim::FusionGroup"]
    np.testing.assert_allclose(irs.compile(fused)(x, x[0], 0.5), x[0] * x - 0.5)


def test_stores_by_index_give_rows_or_keep_the_layout() -> None:
    target, source = numbers(3, 2).t(), numbers(2, 3)
    places = torch.zeros(2, 3, dtype=torch.int64)
    check("aten::scatter.src", target, 0, places, source)
    check("aten::scatter.value", target, 1, places, 2.5)
    check("aten::scatter_add", target, 0, places[:1], source)
    check("aten::index_add", target, 0, torch.tensor([1, 0]), source)
    check("aten::index_put", target, [torch.tensor([1, 0])], source)
