"""Programs of which sizes are known only at run time: what is a view for all of them is found to be one."""

from __future__ import annotations

from typing import Any

import pytest

import irscope as irs


def kinds(va: irs.ViewAliases, *names: str) -> list[str]:
    return [va.kind(name) if va.is_decided(name) else "open" for name in names]


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
def test_dynamic_dimensions_of_an_exported_program() -> None:
    torch = pytest.importorskip("torch")

    class Heads(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            batch, length, _ = x.shape
            heads = x.view(batch, length, 12, -1).permute(0, 2, 1, 3)
            back = heads.permute(0, 2, 1, 3).reshape(batch, length, 768)
            return back, heads.reshape(batch, length * 768), x[:, :, :64], x[:, :, 64:]

    dims = {"x": {0: torch.export.Dim("batch", min=2, max=64), 1: torch.export.Dim("length", min=2, max=99)}}
    graph = irs.load(torch.export.export(Heads(), (torch.randn(4, 5, 768),), dynamic_shapes=dims))
    back, flat, left, right = graph.outputs
    for rows in (False, True):
        va = irs.ViewAliases(graph, rows=rows)
        names = [graph.names[value] for value in (back, flat, left, right)]
        assert kinds(va, *names) == ["view", "open", "view", "view"]
        assert va.root(back) is graph.free_inputs[0]


def test_sizes_that_a_program_asks_for() -> None:
    va = irs.ViewAliases(irs.parse("""
        graph(%x : Float(*, *)):
          %0 : int = prim::Constant[value=0]()
          %1 : int = prim::Constant[value=1]()
          %2 : int = prim::Constant[value=2]()
          %m1 : int = prim::Constant[value=-1]()
          %n : int = aten::size(%x, %0)
          %c : int = aten::size(%x, %1)
          %h : int = aten::floordiv(%c, %2)
          %s : int[] = prim::ListConstruct(%n, %2, %h)
          %a : Tensor = aten::view(%x, %s)
          %b : Tensor = aten::transpose(%a, %1, %2)
          %d : Tensor = aten::contiguous(%b, %0)
          %t : int[] = prim::ListConstruct(%n, %m1)
          %e : Tensor = aten::reshape(%d, %t)
          %u : int[] = prim::ListConstruct(%n, %c)
          %back : Tensor = aten::reshape(%a, %u)
          %flat : Tensor = aten::reshape(%b, %u)
          return (%e, %back, %flat)"""))
    assert kinds(va, "a", "b", "back", "flat") == ["view", "view", "view", "open"]
    assert va.root("e") is va.graph.value("d")
    assert "known only at run time" in str(va.explain("flat"))


def test_parts_along_an_axis_of_any_extent_share_no_byte() -> None:
    program = """
        graph(%x : Float(b, 6, d)):
          %0 : int = prim::Constant[value=0]()
          %1 : int = prim::Constant[value=1]()
          %2 : int = prim::Constant[value=2]()
          %3 : int = prim::Constant[value=3]()
          %6 : int = prim::Constant[value=6]()
          %left : Tensor = aten::slice(%x, %1, %0, %2, %1)
          %right : Tensor = aten::slice(%x, %1, %2, %6, %1)
          %more : Tensor = aten::slice(%x, %1, %1, %3, %1)
          %even : Tensor = aten::slice(%x, %1, %0, %6, %2)
          %odd : Tensor = aten::slice(%x, %1, %1, %6, %2)
          return (%left, %right, %more, %even, %odd)"""
    va = irs.ViewAliases(irs.parse(program), rows=True)
    assert str(va.bytes("right")) == "16*d bytes every 24*d, b times, from byte 8*d"
    pairs = ("left right", "left more", "right more", "even odd", "even left", "odd right")
    assert [pair for pair in pairs if not va.overlaps(*pair.split())] == ["left right", "even odd"]
    assert va.overlaps("left", "right").witness[2:] == (va.bytes("left"), va.bytes("right"))
    assert va.overlaps("left", "right").because.startswith("in the buffer of %x, %left covers 8*d bytes every 24*d, b times")
    assert irs.ViewAliases(irs.parse(program)).overlaps("left", "right"), "where not even the order of the axes is known"


def test_names_may_stand_for_other_numbers_in_each_round() -> None:
    va = irs.ViewAliases(irs.parse("""
        graph(%x : Float(b, 6), %n : int, %go : bool):
          %0 : int = prim::Constant[value=0]()
          %1 : int = prim::Constant[value=1]()
           = prim::Loop(%n, %go)
            block0(%i : int):
              %next : int = aten::add(%i, %1)
              %a : Tensor = aten::select(%x, %0, %i)
              %b : Tensor = aten::select(%x, %0, %next)
              %c : Tensor = aten::add_(%a, %b, %1)
              -> (%go)
          return (%x)"""), rows=True)  # fmt: skip
    assert va.overlaps("a", "b")


def test_a_traced_function_does_not_promise_strides() -> None:
    graph = irs.trace(lambda x: (x.reshape(4, 2, 4), x.T, x.reshape(-1)), (4, 8))
    names = [graph.names[value] for value in graph.outputs]
    assert kinds(irs.ViewAliases(graph), *names) == ["view", "view", "open"]
    assert kinds(irs.ViewAliases(graph, rows=True), *names) == ["view", "view", "view"]


def test_languages_without_memory_lie_row_by_row() -> None:
    jax = pytest.importorskip("jax")
    graph = irs.load(lambda x: x.reshape(2, 2, 8).transpose(2, 0, 1), jax.numpy.ones((4, 8)))
    va = irs.ViewAliases(graph)
    assert va.layout(graph.inputs[0]).strides == (8, 1)  # type: ignore[union-attr]
    assert kinds(va, graph.names[graph.outputs[0]]) == ["view"]
