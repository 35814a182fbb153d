"""What is a view costs nothing when the program runs: no kernel, no copy, and the memory that torch's own result has."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import irscope as irs  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


def heads(x: Any) -> Any:
    return x.reshape(2, 8, 4, 16).transpose(1, 2), x.contiguous(), x[:, :3].flatten(1), x.transpose(0, 1).contiguous()


def test_results_that_are_views_share_storage_as_those_of_torch_do() -> None:
    x = torch.randn(2, 8, 64)
    graph = irs.load(heads, x)
    va, run = irs.ViewAliases(graph), irs.compile(graph)
    for value, ours, theirs in zip(graph.outputs, run(x), heads(x), strict=True):
        shares = theirs.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
        assert (va.kind(value) in ("view", "input")) == shares
        assert (ours.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()) == shares
        if shares:
            assert ours.data_ptr() == theirs.data_ptr()
            assert ours.stride() == theirs.stride()
        assert torch.equal(ours, theirs)


def test_a_program_of_views_has_no_kernel() -> None:
    x = torch.randn(2, 8, 64)
    run = irs.compile(irs.load(lambda x: x.reshape(16, 64).t()[3:9], x))
    assert not run.kernels
    assert run(x).data_ptr() == x.reshape(16, 64).t()[3:9].data_ptr()


def test_an_update_takes_the_place_of_its_operand() -> None:
    va = irs.ViewAliases(
        irs.parse("""
        graph(%cache : Float(4, 8, strides=[8, 1]), %row : Float(8, strides=[1])):
          %0 : int = prim::Constant[value=0]()
          %2 : int = prim::Constant[value=2]()
          %b : bool = prim::Constant[value=0]()
          %place : Tensor = aten::select(%cache, %0, %2)
          %new : Tensor = aten::copy_(%place, %row, %b)
          return (%new)""")
    )
    assert va.in_place_of("new") is va.graph.value("place")
    assert va.in_place_of("place") is None
    assert va.root("new") is va.graph.value("cache")
    assert str(va.bytes("new")) == "bytes 64–95"
