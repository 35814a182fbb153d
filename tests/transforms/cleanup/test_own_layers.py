"""Convolutions with a sum and a clamp as one kernel of our own: numbers against float64, what is not finite, and who runs it otherwise."""

import copy

import pytest

import irscope as irs
from irscope.runtime.program import compile_graph

pytest.importorskip("llvmlite")
torch = pytest.importorskip("torch")
nn, functional = torch.nn, torch.nn.functional

AFTER = {
    "nothing": lambda y, x: y, "relu": lambda y, x: y.relu(), "relu6": lambda y, x: y.clamp(0, 6), "sum": lambda y, x: y + x,
    "sum of the other": lambda y, x: x + y, "sum and relu": lambda y, x: (y + x).relu(),
    "hardtanh": lambda y, x: functional.hardtanh(y, -0.5, 1e30),
    "a sum that is clamped": lambda y, x: (y + x).clamp(-0.3, 0.2),
}  # fmt: skip


class Block(nn.Module):
    def __init__(self, after, channels, groups):
        super().__init__()
        self.after = after
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, groups=groups)

    def forward(self, x):
        return self.after(self.conv(x), x)


def block(name, channels=20, groups=1):
    torch.manual_seed(0)
    x = torch.randn(2, channels, 7, 6).contiguous(memory_format=torch.channels_last)
    return Block(AFTER[name], channels, groups).eval(), x


def rewritten(model, x, options=""):
    return irs.Pipeline(f"functionalize,channels-last,onednn{options},fuse")(irs.load(model, x)).graph


def ops(graph):
    return [node.op for node in graph.nodes() if node.op != "prim::Constant"]


@pytest.mark.parametrize("groups", [1, 2, 20])
@pytest.mark.parametrize("name", AFTER)
@torch.no_grad()
def test_one_kernel_does_all(name, groups):
    model, x = block(name, groups=groups)
    graph = rewritten(model, x)
    assert ops(graph) == ["irscope::convolution"]
    run = irs.compile(graph)
    assert "layer" in [remark.rule for remark in run.remarks]
    torchs, exact = model(x), copy.deepcopy(model).double()(x.double())
    others = compile_graph(graph, layers=False), compile_graph(graph, use_kernels=False), irs.compile(graph, device="reference")
    for made in (run(x), torch.as_tensor(run(x.numpy())), *[torch.as_tensor(other(x)) for other in others]):
        assert made.stride() == torchs.stride()
        assert (made - exact).abs().max() <= 4 * (torchs - exact).abs().max() + 1e-6


@torch.no_grad()
def test_what_is_not_finite_stays_so():
    for name in ("relu", "relu6", "sum and relu", "hardtanh"):
        model, x = block(name)
        run = irs.compile(rewritten(model, x))
        for value in (float("nan"), float("inf"), float("-inf")):
            x[0, 3, 2, 2] = value
            made, torchs = run(x), model(x)
            assert torch.equal(made.isnan(), torchs.isnan()), name
            assert torch.equal(made.isinf(), torchs.isinf()), name


@pytest.mark.parametrize("groups", [1, 20])
@pytest.mark.parametrize(
    ("pad", "value", "mode", "margin", "is_read"),
    [
        ((0, 1, 0, 1), 0.0, "constant", 0, True), ((1, 2), 0, "constant", 0, True), ((0, 0, 0, 0), None, "constant", 1, True),
        ((0, 1, 0, 1), 0.0, "constant", 1, False), ((0, 1, 0, 1), 1.0, "constant", 0, False), ((-1, 1, 0, 1), 0.0, "constant", 0, False),
        ((1, 1, 1, 1), 0.0, "reflect", 0, False), ((0, 0, 0, 0, 0, 0, 1, 0), 0.0, "constant", 0, False),
    ],
)  # fmt: skip
@torch.no_grad()
def test_a_padding_with_zeros_is_read_by_the_kernel(groups, pad, value, mode, margin, is_read):
    _, x = block("sum", groups=groups)
    conv = nn.Conv2d(20, 20, 3, 2, margin, groups=groups).eval()
    padded = functional.pad(x, pad, mode, value)

    def layer(x):
        return conv(functional.pad(x, pad, mode, value)).clamp(-0.5, 6)

    graph = rewritten(layer, x)
    assert ("aten::pad" not in ops(graph)) == is_read and ops(graph)[-1] == "irscope::convolution"
    others = compile_graph(graph, layers=False), compile_graph(graph, use_kernels=False), irs.compile(graph, device="reference")
    run = irs.compile(graph)
    for made in (run(x), torch.as_tensor(run(x.numpy())), *[torch.as_tensor(other(x)) for other in others]):
        torch.testing.assert_close(made, layer(x), rtol=1e-4, atol=1e-5)
        assert made.stride() == layer(x).stride()
    conv.weight[0, 0, 0, 0] = torch.inf  # the zeros of a padding times it are NaN, those of torch's own margins are left out
    torch.testing.assert_close(run(x), conv(padded).clamp(-0.5, 6), rtol=1e-4, atol=1e-5, equal_nan=True)


class Chain(nn.Module):
    """A stem that reads an image plane by plane, two convolutions that meet in a sum, and an activation that no kernel of a layer has."""

    def __init__(self):
        super().__init__()
        self.stem, self.a, self.b = nn.Conv2d(3, 16, 7, 2, 3), nn.Conv2d(16, 24, 3, padding=1), nn.Conv2d(16, 24, 1)

    def forward(self, x):
        h = self.stem(x).relu()
        return functional.silu(self.a(h).relu() + self.b(h)), h


@torch.no_grad()
def test_a_chain_of_layers():
    torch.manual_seed(0)
    model, x = Chain().eval(), torch.randn(2, 3, 20, 20)
    graph = rewritten(model, x)
    assert ops(graph).count("irscope::convolution") == 3
    assert ops(graph)[0] == "irscope::convolution"  # the stem reads planes
    run, expected = irs.compile(graph), model(x)
    for given in (x, x.numpy()):
        for made, each in zip(run(given), expected, strict=True):
            torch.testing.assert_close(torch.as_tensor(made), each, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_what_stays_as_it_is():
    model, x = block("relu")
    for options in ("{own=false}", "{own=false,finite=true}"):
        assert "irscope::convolution" not in ops(rewritten(model, x, options))
    given = irs.load(lambda x, w: functional.conv2d(x, w).relu(), x, model.conv.weight)
    assert "irscope::convolution" not in ops(irs.Pipeline("onednn")(given).graph)
    large = nn.Sequential(nn.Conv2d(128, 128, 3, padding=1), nn.ReLU()).eval()
    assert "irscope::convolution" not in ops(rewritten(large, torch.randn(1, 128, 12, 12)))
    assert "irscope::convolution" not in ops(rewritten(model.double(), x.double()))
