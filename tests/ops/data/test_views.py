"""What asks for layouts and copies them, views of several tensors, formats of images; `test_random_views` asks for each view op alone."""

from typing import Any

import pytest

import irscope as irs
from irscope.errors import ArgumentError
from irscope.ir.types import TensorType

torch = pytest.importorskip("torch")

from tests.ops.oracle import check, the_op  # noqa: E402


def numbers(*shape: int) -> Any:
    return torch.arange(float(torch.Size(shape).numel())).reshape(shape)


LAYOUTS = {
    "rows": lambda: numbers(2, 3, 4), "transposed": lambda: numbers(4, 3, 2).transpose(0, 2),
    "sliced": lambda: numbers(4, 6, 8)[::2, 1::2, ::2], "expanded": lambda: numbers(2, 1, 4).expand(2, 3, 4),
    "ones": lambda: numbers(1, 3, 1), "empty": lambda: numbers(2, 0, 4), "vector": lambda: numbers(4)[::2], "number": lambda: numbers(1)[0],
}  # fmt: skip

CALLS: list[tuple[str, tuple[Any, ...]]] = [
    ("aten::contiguous", ()), ("aten::clone", ()), ("aten::size", ()), ("aten::size.int", (-1,)), ("aten::stride", ()),
    ("aten::dim", ()), ("aten::numel", ()), ("aten::is_contiguous", ()), ("aten::alias", ()), ("aten::numpy_T", ()),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*(of 0-D tensors|on 0-D tensors|of dimension other than 2):UserWarning")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("name", "args"), CALLS, ids=lambda part: str(part).removeprefix("aten::"))
def test_what_is_asked_of_every_layout(name: str, args: tuple[Any, ...], layout: str) -> None:
    tensor = LAYOUTS[layout]()
    if (name, layout) == ("aten::size.int", "number"):
        with pytest.raises(ArgumentError):
            the_op("aten::size").type_rule(self=TensorType("float32", ()), dim=-1)
    else:
        check(name, tensor, *args)


def test_channels_last() -> None:
    image = numbers(2, 3, 4, 5)
    check("aten::contiguous", image, memory_format=torch.channels_last)
    check("aten::contiguous", image.contiguous(memory_format=torch.channels_last), memory_format=torch.channels_last)
    check("aten::contiguous", image.contiguous(memory_format=torch.channels_last))
    pixels = torch.rand(2, 8, 1, 1)  # which lie so already, for extents of 1 may have any stride
    gaps = torch.rand(2, 8, 3, 8).contiguous(memory_format=torch.channels_last)[..., ::2]
    for other in (pixels, gaps, torch.rand(2, 1, 3, 4)):
        check("aten::contiguous", other, memory_format=torch.channels_last)
        check("aten::is_contiguous.memory_format", other, memory_format=torch.channels_last)
    check("aten::clone", image.contiguous(memory_format=torch.channels_last))
    check("aten::clone", image.permute(1, 0, 3, 2), memory_format=torch.contiguous_format)
    check("aten::clone", image, memory_format=torch.channels_last)


def test_the_error_names_both_shapes() -> None:
    op = the_op("aten::view")
    with pytest.raises(ArgumentError, match=r"\(2, 3\), 6 elements, cannot be seen as \(4, 5\)"):
        op.type_rule(self=TensorType("float32", (2, 3)), size=[4, 5])


@pytest.mark.parametrize("shape", [(3, 2), (3, 1), (2, 0)])
def test_contiguous_claims_only_strides_that_every_layout_gets(shape: tuple[int, int]) -> None:
    op = the_op("aten::contiguous")
    claimed = op.type_rule(self=TensorType("float32", shape)).strides
    given = {numbers(*shape).contiguous().stride(), numbers(*shape[::-1]).t().contiguous().stride()}
    assert claimed == (given.pop() if len(given) == 1 else None)


def test_an_axis_of_a_number_may_be_named() -> None:
    @torch.jit.script
    def moved(x: torch.Tensor):
        n = x.sum()
        return n.movedim(0, -1) * 2, n.moveaxis([-1], [0]).exp(), n.swapaxes(0, -1) + 1

    x = torch.rand(3)
    graph = irs.load(moved, x)
    assert len(irs.ViewAliases(graph).table())
    for ours, theirs in zip(irs.compile(irs.fuse(graph))(x), moved(x), strict=True):
        torch.testing.assert_close(ours, theirs)
