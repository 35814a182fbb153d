"""Programs laid out channels last compute what they did, and give it back as they did."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("llvmlite")

import irscope as irs  # noqa: E402
from irscope.ir.invariants import verify  # noqa: E402
from irscope.transforms.cleanup.channels_last import channels_last  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
IMAGE = "Float(2, 8, 32, 32, strides=[8192, 1024, 32, 1], device=cpu)"
nn, functional = torch.nn, torch.nn.functional


class Joined(nn.Module):
    """Down and up again, with what was skipped joined, and a result in the middle that is a view."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(3, 8, 3, 1, 1), nn.Conv2d(8, 8, 3, 2, 1), nn.Conv2d(16, 4, 1)
        self.norm = nn.GroupNorm(4, 8)

    def forward(self, x: Any) -> Any:
        skip = functional.silu(self.norm(self.a(x)))
        deep = functional.interpolate(functional.relu(self.b(skip)), scale_factor=2.0)
        return self.c(torch.cat([skip, deep], 1)), deep.flatten(2)


def check(model: Any, x: Any, *, fused: bool) -> Any:
    model.eval()
    with torch.no_grad():
        graph = irs.load(model, x)
        record = channels_last(irs.fuse(graph).graph if fused else graph)
        verify(record.after)
        expected, found = model(x), irs.compile(record.after)(x)
    expected, found = (each if isinstance(each, tuple) else (each,) for each in (expected, found))
    for one, other in zip(expected, found, strict=True):
        assert torch.allclose(one, other, atol=1e-5) and one.stride() == other.stride()
    assert channels_last(record.after).after is record.after, "idempotent"
    return record


@pytest.mark.parametrize("fused", [False, True])
def test_the_whole_program_lies_channels_last_and_its_results_as_before(fused: bool) -> None:
    record = check(Joined(), torch.rand(2, 3, 32, 32), fused=fused)
    assert [remark.kind for remark in record.remarks] == ["passed"]
    copies = [node for node in record.after.nodes() if node.op == "aten::contiguous"]
    assert len(copies) == 3, "at the entrance, and of both results"


class Weighed(nn.Module):
    """Channels weighed by their means, as in squeeze-and-excitation."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(3, 16, 3, 1, 1), nn.Conv2d(16, 16, 1), nn.Conv2d(16, 8, 3, 1, 1)

    def forward(self, x: Any) -> Any:
        x = functional.silu(self.a(x))
        return self.c(x * torch.sigmoid(self.b(functional.adaptive_avg_pool2d(x, 1)))).mean((2, 3))


def test_means_of_channels_lie_channels_last_too() -> None:
    record = check(Weighed(), torch.rand(2, 3, 32, 32), fused=False)
    assert [remark.kind for remark in record.remarks] == ["passed"]


@pytest.mark.parametrize("channels", [(4, 8, 8), (5, 1, 1)])
@pytest.mark.parametrize("pooled", [True, False])
def test_results_of_one_point_or_one_channel_have_torchs_strides(channels: tuple[int, int, int], pooled: bool) -> None:
    first, second, third = channels
    layers = [nn.Conv2d(first, second, 3), nn.ReLU(), nn.Conv2d(second, third, 3)] + [nn.AdaptiveAvgPool2d(1)] * pooled
    model, x = nn.Sequential(*layers).eval(), torch.rand(2, first, 9, 9)
    with torch.no_grad():
        found, wanted = irs.compile(irs.fuse(irs.load(model, x)))(x), model(x)
    assert found.stride() == wanted.stride() and torch.allclose(found, wanted, atol=1e-5)


class Straight(nn.Module):
    """Its second result comes from a group, its first from a convolution that alone reads what a group makes."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = (nn.Conv2d(8, 8, 3, 1, 1) for _ in range(3))

    def forward(self, x: Any) -> Any:
        y = functional.relu(self.b(functional.relu(self.a(x)) + 1))
        return self.c(y * 2), functional.silu(y + 0.5)


def test_groups_write_rows_for_the_caller() -> None:
    """No copy is launched but that of the image which comes in."""
    record = check(Straight(), torch.rand(2, 8, 32, 32), fused=True)
    assert [remark.kind for remark in record.remarks] == ["passed"]
    assert [node.op for node in record.after.body.nodes].count("aten::contiguous") == 1
    groups = [node for node in record.after.body.nodes if node.blocks]
    assert sum(inner.op == "aten::contiguous" for node in groups for inner in node.blocks[0].nodes) == 2
    run = irs.compile(record.after)
    assert all(remark.rule == "layer" for remark in run.remarks), "each group has its kernel"


def test_declared_layouts_are_those_of_the_run() -> None:
    model, x = Joined().eval(), torch.rand(2, 3, 32, 32)
    with torch.no_grad():
        after = channels_last(irs.load(model, x)).after
        convolutions = [node.output for node in after.body.nodes if node.op == "aten::conv2d"]
        names = [after.names[value] for value in convolutions]
        assert all(value.type.strides[1] == 1 for value in convolutions), names
        inner = irs.ViewAliases(after)
        assert all(inner.layout(name).strides[1] == 1 for name in names)


def test_one_convolution_copies_no_less() -> None:
    record = check(nn.Conv2d(8, 8, 1), torch.rand(1, 8, 16, 16), fused=False)
    assert record.after is record.before and "bytes would be copied for" in record.remarks[0].because


class Written(nn.Module):
    """Torch lays a result out for who writes it."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 8, 3, 1, 1), nn.Conv2d(8, 8, 3, 1, 1)

    def forward(self, x: Any) -> Any:
        y = self.a(x)
        part = y.view(y.shape[0], 8, -1)
        part[:, 0] = 1.0
        return self.b(y) + part.sum()


def test_what_is_written_keeps_its_place() -> None:
    torch.manual_seed(0)
    model, x = Written().eval(), torch.rand(2, 3, 16, 16)
    graph = irs.load(torch.jit.trace(model, x), x)
    record = channels_last(graph)
    assert record.after is graph and record.remarks[0].kind == "missed"


def last(*, extra: str, results: str) -> irs.Graph:
    """A program that is laid out channels last, and what it makes of `%b`, the result of two convolutions."""
    return irs.parse(f"""graph(%x : {IMAGE}, %w : Float(8, 8, 3, 3, strides=[72, 9, 3, 1], device=cpu), %yes : bool):
  %none : NoneType = prim::Constant()
  %0 : int = prim::Constant[value=0]()
  %2 : int = prim::Constant[value=2]()
  %1 : int[] = prim::Constant[value=[1, 1]]()
  %groups : int = prim::Constant[value=1]()
  %a : {IMAGE} = aten::conv2d(%x, %w, %none, %1, %1, %1, %groups)
  %b : {IMAGE} = aten::conv2d(%a, %w, %none, %1, %1, %1, %groups)
  {extra}
  return ({results})""")


def test_what_is_written_between_two_convolutions_is_copied_for_each() -> None:
    rest = "%w, %none, %1, %1, %1, %groups)"
    graph = irs.parse(f"""graph(%x : {IMAGE}, %w : Float(8, 8, 3, 3, strides=[72, 9, 3, 1], device=cpu)):
  %none : NoneType = prim::Constant()
  %1 : int[] = prim::Constant[value=[1, 1]]()
  %groups : int = prim::Constant[value=1]()
  %h : {IMAGE} = aten::sin(%x)
  %a : {IMAGE} = aten::conv2d(%h, {rest}
  %i : {IMAGE} = aten::relu_(%h)
  %b : {IMAGE} = aten::conv2d(%h, {rest}
  %c : {IMAGE} = aten::conv2d(%b, {rest}
  %d : {IMAGE} = aten::conv2d(%c, {rest}
  return (%a, %d)""")
    assert channels_last(graph).remarks[0].kind == "passed"
    x, w = torch.randn(2, 8, 32, 32), torch.randn(8, 8, 3, 3)
    for expected, found in zip(irs.compile(graph)(x, w), irs.compile(graph, memory="planned")(x, w), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-2)


ROWS = (8192, 1024, 32, 1)


@pytest.mark.parametrize(("extra", "results"), [
    ("%t : (Tensor, Tensor) = prim::TupleConstruct(%a, %b)", "%t"),
    ("%l : Tensor[] = prim::ListConstruct(%a, %b)", "%l"),
    ("%t : (Tensor, Tensor) = prim::TupleConstruct(%a, %b)\n  %u : (Tensor, (Tensor, Tensor)) = prim::TupleConstruct(%b, %t)", "%u"),
    ("%l : Tensor[] = prim::ListConstruct(%a)\n  %m : Tensor[] = aten::append(%l, %b)", "%l"),
    ("%l : Tensor[] = aten::chunk(%b, %2, %0)", "%l"),
    ("%r : Tensor = aten::roll(%b, %2, %0)".replace("%2, %0", "%1, %1"), "%r"),
    ("%p : Tensor = prim::If(%yes)\n    block0():\n      -> (%a)\n    block1():\n      -> (%b)", "%p"),
])  # fmt: skip
def test_the_caller_gets_rows_in_whatever_holds_them(extra: str, results: str) -> None:
    graph = last(extra=extra, results=results)
    x, w = torch.randn(2, 8, 32, 32), torch.randn(8, 8, 3, 3)
    after = channels_last(graph).after
    verify(after)

    def flat(found: Any) -> list[Any]:
        return [part for each in found for part in flat(each)] if isinstance(found, tuple | list) else [found]

    given = [flat(irs.compile(each)(x, w, True)) for each in (graph, after)]
    for one, other in zip(*given, strict=True):
        assert one.stride()[1:] == other.stride()[1:] == ROWS[1:]
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-2)


def test_what_goes_by_strides_keeps_them() -> None:
    numbers = "%s : int[] = prim::Constant[value=[2, 8]]()\n  %t : int[] = prim::Constant[value=[8192, 1]]()\n  "
    graph = last(extra=numbers + "%v : Tensor = aten::as_strided(%b, %s, %t, %0)", results="%v")
    record = channels_last(graph)
    assert record.after is graph
    assert record.remarks[0].because == "aten::as_strided depends on the strides of its operand"


def test_exact_programs_keep_torchs_order_of_sums() -> None:
    model, x = Joined().eval(), torch.rand(2, 3, 32, 32)
    with torch.no_grad():
        fusion = irs.fuse(irs.load(model, x), exact="torch")
        run = irs.compile(fusion, memory="planned", exact="torch")
        assert "channels-last" not in {remark.rule for remark in run.remarks}
        assert all(torch.equal(a, b) for a, b in zip(model(x), run(x), strict=True))


@pytest.mark.parametrize("layout", [{}, {"padding": (0, 1), "dilation": (1, 2), "kernel_size": (2, 1)}])
def test_a_window_in_the_padding_alone_keeps_its_layout_as_torch_crashes_there(layout: dict[str, Any]) -> None:
    """Torch 2.13 was seen to crash then; the same convolutions with another window are channels last."""
    plain = {"kernel_size": 3, "padding": 1, **layout}
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(16, 16, stride=2, **plain)).eval()
    x = torch.rand(2, 3, 64, 64)
    f = irs.fuse(irs.load(model, x), freeze=True)
    assert all(node.op == "aten::conv2d" for node in f.graph.nodes() if "conv" in node.op) == bool(layout)
    with torch.no_grad():
        assert torch.allclose(irs.compile(f)(x), model(x), atol=1e-5)
