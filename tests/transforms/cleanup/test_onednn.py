"""Layers of oneDNN: numbers against float64, NaN and infinity, weights that are written, and models in ONNX."""

from dataclasses import replace

import numpy as np
import pytest

import irscope as irs
from irscope.runtime.arrays import onednn
from irscope.runtime.program import bound_program
from tests.programs import ir

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this torch has no oneDNN")
functional = torch.nn.functional


@pytest.fixture(autouse=True)
def never_by_kernels_of_our_own(monkeypatch):
    monkeypatch.setattr(bound_program, "library_seconds", lambda layer: 0.0)


ACTIVATIONS = {
    "none": lambda t: t, "relu": torch.relu, "sigmoid": torch.sigmoid, "tanh": torch.tanh, "silu": functional.silu,
    "hardswish": functional.hardswish, "gelu": functional.gelu, "gelu by tanh": lambda t: functional.gelu(t, approximate="tanh"),
    "leaky_relu": lambda t: functional.leaky_relu(t, 0.2), "relu6": lambda t: t.clamp(0, 6),
    "hardtanh": lambda t: functional.hardtanh(t, -1, 2),
}  # fmt: skip
SAFE = {"none", "sigmoid", "tanh", "silu", "hardswish", "gelu by tanh", "leaky_relu"}


class Layers(torch.nn.Module):
    """A convolution, a residual sum, windows of one point, one for each channel, and an activation after each."""

    def __init__(self, activation, width=16):
        super().__init__()
        self.activation = activation
        self.first, self.second = torch.nn.Conv2d(3, width, 3, 1, 1), torch.nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.point, self.own = torch.nn.Conv2d(width, 2 * width, 1), torch.nn.Conv2d(2 * width, 2 * width, 5, 2, 2, groups=2 * width)

    def forward(self, x):
        h = self.activation(self.first(x))
        h = self.activation(h + self.second(h))
        return self.activation(self.own(self.activation(self.point(h))))


def layers(name, width=16, size=16):
    torch.manual_seed(0)
    return Layers(ACTIVATIONS[name], width).eval(), torch.randn(2, 3, size, size)


def rewritten(model, x, options=""):
    return irs.Pipeline(f"functionalize,channels-last,onednn{{own=false{options}}},fuse")(irs.load(model, x))


def count(graph):
    return sum(node.op.startswith("mkldnn::") for node in graph.nodes())


@pytest.mark.parametrize(("name", "finite"), [(name, finite) for name in ACTIVATIONS for finite in (False, True)[: 1 + (name not in SAFE)]])
@torch.no_grad()
def test_results_are_as_exact_as_torchs(name, finite):
    model, x = layers(name)
    done = rewritten(model, x, ",finite=true" if finite else "")
    assert count(done.graph) == 3  # the small product stays
    exact, torchs = model.double()(x.double()), model.float()(x)
    for given in (x, x.numpy()):
        made = torch.as_tensor(irs.compile(done.graph)(given))
        assert (made - exact).abs().max() <= 4 * (torchs - exact).abs().max() + 1e-6
        assert torch.as_tensor(made).stride() == torchs.stride()
    np.testing.assert_allclose(irs.compile(done.graph, device="reference")(x), exact, rtol=1e-4, atol=1e-5)
    stay = {"relu": "aten::relu", "relu6": "aten::clamp", "gelu": "aten::gelu", "hardtanh": "aten::hardtanh"}
    assert (stay.get(name) in [node.op for node in done.graph.nodes()]) == (name in stay)  # after the small product, if nowhere else


@torch.no_grad()
def test_large_products_of_points_are_products(monkeypatch):
    monkeypatch.setattr(onednn, "_is_quicker", lambda: True)
    model, x = layers("silu", width=64, size=32)
    for done in (rewritten(model, x), irs.Pipeline("channels-last,fuse")(irs.load(model, x))):
        torch.testing.assert_close(irs.compile(done.graph)(x), model(x), rtol=1e-4, atol=1e-5)
    assert count(rewritten(model, x).graph) == 4


@pytest.mark.parametrize("name", sorted(SAFE))
@torch.no_grad()
def test_what_is_not_finite_stays_so(name):
    model, x = layers(name)
    run = irs.compile(rewritten(model, x).graph)
    for value in (float("nan"), float("inf"), float("-inf"), *([] if name == "hardswish" else [3e38])):  # torch's overflows early
        x[0, 1, 7, 7] = value
        made, torchs = run(x), model(x)
        assert torch.equal(made.isnan(), torchs.isnan()) and torch.equal(made.isinf(), torchs.isinf())


@torch.no_grad()
def test_a_weight_that_is_written_or_exchanged_is_laid_out_again():
    model, x = layers("tanh")
    run = irs.compile(rewritten(model, x).graph)
    for write in (
        lambda w: w.mul_(2), lambda w: w[:, 0].zero_(), lambda w: setattr(w, "data", torch.randn_like(w)), lambda w: w.data.mul_(2),
        lambda w: w.detach().numpy().fill(0.5),
    ):  # fmt: skip
        run(x)
        write(model.first.weight)
        torch.testing.assert_close(run(x), model(x), rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_a_bias_of_any_strides():
    x, w, b = torch.randn(1, 8, 6, 6).contiguous(memory_format=torch.channels_last), torch.randn(4, 8, 3, 3), torch.randn(8)
    for bias in (b[:4], b[::2], b[:1].expand(4)):
        run = irs.compile(irs.Pipeline("onednn")(irs.load(lambda x, w, b: functional.conv2d(x, w, b), x, w, bias)).graph)
        assert count(run.graph) == 1
        torch.testing.assert_close(run(x, w, bias), functional.conv2d(x, w, bias), rtol=1e-4, atol=1e-5)


def test_read_only_arrays_are_laid_out_once(monkeypatch):
    onnx = pytest.importorskip("onnx")
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(1, 8, 6, 6)).astype(np.float32), rng.normal(size=(8, 8, 3, 3)).astype(np.float32)
    nodes = [onnx.helper.make_node("Conv", [a, "w"], [b]) for a, b in ("xy", "yz")]
    types = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, (1, 8, n, n)) for name, n in (("x", 6), ("z", 2))]
    graph = onnx.helper.make_graph(nodes, "g", types[:1], types[1:], [onnx.numpy_helper.from_array(w, "w")])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)])
    loaded = irs.load(model, x)
    assert not any(array.flags.writeable for array in loaded.bound.values())
    made = []
    reorder = torch.ops.mkldnn._reorder_convolution_weight
    monkeypatch.setattr(torch.ops.mkldnn, "_reorder_convolution_weight", lambda *given: made.append(given) or reorder(*given))
    run = irs.compile(irs.Pipeline("channels-last,onednn{own=false}")(loaded).graph)
    expected = irs.compile(loaded, device="reference")(x)
    for given in (x, torch.from_numpy(x)):
        np.testing.assert_allclose(run(given), expected, rtol=1e-4, atol=1e-3)
    assert len(made) == 4  # of two layers, for arrays and for tensors


def test_a_weight_that_its_owner_can_write_unseen_is_read_as_it_is():
    text = ir(
        "x w:Float(8, 8, 3, 3, strides=[72, 9, 3, 1]) | none = None; ones = [1, 1]; one = 1; a = conv2d x w none ones ones ones one | a",
        "Float(1, 8, 4, 4, strides=[128, 1, 32, 8])",
    )
    graph, w = irs.parse(text), np.ones((8, 8, 3, 3), np.float32)
    run = irs.compile(irs.Pipeline("onednn")(replace(graph, bound={graph.value("w"): w})).graph)
    x = np.ones((1, 4, 4, 8), np.float32).transpose(0, 3, 1, 2)
    first = run(x)
    w *= 2
    np.testing.assert_allclose(run(x), 2 * first)
