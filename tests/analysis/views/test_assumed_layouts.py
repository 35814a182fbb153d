"""What would be if an argument lay otherwise, against the program loaded with an argument that does."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import irscope as irs
from irscope.analysis.per_graph import with_layouts
from irscope.errors import ArgumentError
from irscope.ir import TensorType

sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
def test_a_model_as_if_its_input_were_channels_last() -> None:
    torch = pytest.importorskip("torch")

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = torch.nn.Conv2d(3, 8, 3)
            self.norm = torch.nn.BatchNorm2d(8)
            self.pool = torch.nn.MaxPool2d(2)

        def forward(self, x: Any, y: Any) -> Any:
            z = self.pool(torch.relu(self.norm(self.a(x))))
            left, right = z.chunk(2, 1)
            parts = [left * 2, right + 1]
            return z.permute(0, 2, 3, 1).reshape(-1, 8), z.flatten(1), torch.cat(parts, 1), y.t().reshape(-1)

    x, y = torch.rand(2, 3, 16, 16), torch.rand(4, 5)
    last = x.to(memory_format=torch.channels_last)
    model = Net().eval()
    given, laid_out = irs.load(model, x, y), irs.load(model, last, y)
    now, then, real = irs.ViewAliases(given), irs.ViewAliases(given, layouts={"x": "channels_last"}), irs.ViewAliases(laid_out)
    assert [now.kind(value) for value in given.outputs] == ["copy", "view", "copy", "copy"]
    assert [then.kind(value) for value in given.outputs] == ["view", "copy", "copy", "copy"]
    assert [real.kind(value) for value in laid_out.outputs] == ["view", "copy", "copy", "copy"]
    assert [then.layout(value) for value in given.outputs] == [real.layout(value) for value in laid_out.outputs]
    assert all(then.layout(value).strides is not None for value in then.tensors())  # type: ignore[union-attr]
    for name in ("conv2d", "batch_norm", "relu", "max_pool2d", "mul", "add", "cat"):
        assert then.layout(name) == real.layout(name) != now.layout(name), name
    assert str(with_layouts(given, {"x": "rows"})) == str(given)


def test_what_went_through_a_list_tells_no_strides() -> None:
    g = irs.parse("""
        graph(%x : Float(2, 3, strides=[3, 1]), %y : Float(2, 3, strides=[3, 1]), %i : int):
          %l : Tensor[] = prim::ListConstruct(%y)
          %z : Float(2, 3, strides=[3, 1]) = aten::exp(%x)
          %w : Tensor[] = aten::append(%l, %z)
          %a : Float(2, 3, strides=[3, 1]) = aten::neg(%y)
          %b : Float(2, 3, strides=[3, 1]) = aten::__getitem__(%l, %i)
          return (%a, %b)""")
    after = with_layouts(g, {"x": (1, 0)})
    strides = {name: type.strides for name in "xyzab" if isinstance(type := after.value(name).type, TensorType)}
    assert (strides["x"], strides["y"], strides["z"], strides["b"]) == ((1, 2), (3, 1), (1, 2), None)


def test_values_of_the_program_stand_for_those_of_the_assumption() -> None:
    g = irs.parse("""
        graph(%x : Float(*, 3, *, *)):
          %d : int[] = prim::Constant[value=[0, 2, 3, 1]]()
          %p : Tensor = aten::permute(%x, %d)
          %f : int = prim::Constant[value=0]()
          %c : Tensor = aten::contiguous(%p, %f)
          return (%c)""")
    assert not irs.ViewAliases(g).is_decided("c")
    va = irs.ViewAliases(g, layouts={g.value("x"): "channels_last"})
    assert va.kind(g.value("c")) == "view"
    assert va.is_decided("c")
    assert va.static_kind("c") == "view"


def test_what_cannot_be_assumed_is_refused() -> None:
    g = irs.parse("graph(%x : Float(2, 3), %n : int, %t : Tensor):\n  %y : Tensor = aten::exp(%x)\n  return (%y)")
    for layouts, words in (
        ({"y": (1, 0)}, "not an input"), ({"n": (0,)}, "rank is not known"), ({"t": "rows"}, "rank is not known"),
        ({"x": (0, 0)}, "each of 2 axes"), ({"x": "channels_last"}, "not a layout of a tensor of 2 axes"),
    ):  # fmt: skip
        with pytest.raises(ArgumentError, match=words):
            irs.ViewAliases(g, layouts=layouts)
