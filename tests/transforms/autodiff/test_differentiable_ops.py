"""The table of differentiable overloads is what torch's slicer does, asked for every schema of its registry."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from irscope.ops.registry import lookup  # noqa: E402
from irscope.transforms.autodiff.eligibility import DIFFERENTIABLE, LEFT_OUTSIDE  # noqa: E402
from tests.transforms.autodiff.oracle import puts_into_subgraphs  # noqa: E402

pytestmark = pytest.mark.torch


def test_the_table_is_what_torch_does_with_each_overload() -> None:
    answers = {
        str(schema).partition("(")[0]: puts_into_subgraphs(schema)
        for schema in torch._C._jit_get_all_schemas()
        if schema.name.startswith(("aten::", "prim::")) and schema.returns
    }
    asked = {key: answer for key, answer in answers.items() if answer is not None}
    assert len(asked) > 3000
    assert {key for key, answer in asked.items() if answer} == DIFFERENTIABLE - {"prim::ConstantChunk"}


def test_views_that_torch_leaves_outside_have_formulas_nonetheless() -> None:
    for name in LEFT_OUTSIDE:
        schema = torch._C._get_schema(name, "int" if name == "aten::transpose" else "")
        assert puts_into_subgraphs(schema) is False
        assert lookup(name) is not None
