"""The joint graph of forward and gradients: equal to autograd, with names, places, and errors that say what is wrong."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.errors import ArgumentError, CaptureError
from irscope.ir.structural import same_structure

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional


def assert_gradients(model: Any, *args: Any, loss: Any = None, targets: tuple[Any, ...] = ()) -> irs.Graph:
    """Outputs and gradients of the joint graph are autograd's: bit for bit op by op, and to the rounding where fused."""
    graph = irs.load(model, *args, backward=True, loss=loss, targets=targets)
    leaves = torch.utils._pytree.tree_leaves((args, targets))
    cotangents = [torch.randn(value.type.shape, dtype=getattr(torch, value.type.dtype)) for value in graph.free_inputs[len(leaves) :]]
    torch.manual_seed(0)
    result = model(*args) if loss is None else loss(model(*args), *targets)
    outputs = torch.utils._pytree.tree_leaves(result)
    starts = [item for item in outputs if isinstance(item, torch.Tensor) and item.requires_grad]
    wanted = [graph_input(graph, model, args, name) for name in graph.gradients]
    gradients = torch.autograd.grad(starts, wanted, cotangents or None, allow_unused=True)
    expected = [item.detach() if isinstance(item, torch.Tensor) else item for item in (*outputs, *gradients)]
    scale = max(float(item.abs().max()) for item in expected if isinstance(item, torch.Tensor) and item.numel())
    for device in ("ops", "fused"):
        run = irs.compile(graph, exact="torch") if device == "ops" else irs.compile(irs.fuse(graph))
        torch.manual_seed(0)
        found = run(*leaves, *cotangents)
        found = found if isinstance(found, tuple | list) else (found,)
        assert len(found) == len(expected)
        for mine, its in zip(found, expected, strict=True):
            if not isinstance(its, torch.Tensor):
                assert mine == its
                continue
            assert mine.dtype == its.dtype and mine.shape == its.shape
            bound = 0.0 if device == "ops" else scale * (1e-5 if its.dtype == torch.float32 else 1e-13)
            assert torch.allclose(mine, its, rtol=0, atol=bound, equal_nan=True), (device, (mine - its).abs().max())
    return graph


def graph_input(graph: irs.Graph, model: Any, args: tuple[Any, ...], name: str) -> Any:
    """The tensor that a name of `Graph.gradients` means."""
    held = {graph.names[value]: tensor for value, tensor in graph.bound.items()}
    value = graph.value(name) if name in graph.names.values() else graph.value("_" + name)
    if value in graph.bound:
        return held[graph.names[value]]
    return torch.utils._pytree.tree_leaves(args)[graph.free_inputs.index(value)]


def leaf(*shape: int, dtype: Any = None) -> Any:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(1)).requires_grad_()


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x: Any) -> Any:
        q, k, v = (part.unflatten(-1, (2, 4)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        weights = (q @ k.transpose(-2, -1) / 2).softmax(-1)
        return x + self.out((weights @ v).transpose(1, 2).flatten(2))


class Embedded(nn.Module):
    """One weight that is used twice, as in a language model."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.leave = nn.Embedding(7, 4), nn.Linear(4, 7, bias=False)
        self.leave.weight = self.enter.weight

    def forward(self, tokens: Any) -> Any:
        return self.leave(torch.tanh(self.enter(tokens)))


MODULES: dict[str, tuple[Callable[[], Any], Callable[[Any], tuple[Any, ...]]]] = {
    "mlp": (lambda: nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 2)), lambda t: (torch.randn(5, 3, dtype=t),)),
    "tanh gelu": (lambda: nn.Sequential(nn.Linear(3, 4), nn.GELU("tanh")), lambda t: (torch.randn(5, 3, dtype=t),)),
    "activations": (
        lambda: nn.Sequential(nn.Linear(3, 4), nn.SiLU(), nn.ELU(), nn.Softplus(), nn.LeakyReLU(), nn.Hardswish(), nn.Mish()),
        lambda t: (torch.randn(5, 3, dtype=t),),
    ),
    "more": (
        lambda: nn.Sequential(nn.Linear(3, 4), nn.Hardtanh(), nn.LogSigmoid(), nn.Hardsigmoid(), nn.SELU(), nn.PReLU()),
        lambda t: (torch.randn(5, 3, dtype=t),),
    ),
    "layer norm": (lambda: nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4)), lambda t: (torch.randn(5, 3, dtype=t),)),
    "group norm": (lambda: nn.Sequential(nn.Conv1d(2, 4, 3), nn.GroupNorm(2, 4)), lambda t: (torch.randn(2, 2, 6, dtype=t),)),
    "batch norm": (
        lambda: nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4).eval(), nn.ReLU(), nn.MaxPool2d(2)),
        lambda t: (torch.randn(2, 2, 6, 6, dtype=t),),
    ),
    "average pool": (
        lambda: nn.Sequential(nn.Conv2d(2, 4, 3), nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        lambda t: (torch.randn(2, 2, 6, 6, dtype=t),),
    ),
    "attention": (Attention, lambda t: (torch.randn(2, 3, 8, dtype=t),)),
    "tied weights": (Embedded, lambda t: (torch.tensor([[1, 2, 2]]),)),
    "dropout": (lambda: nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5)), lambda t: (torch.randn(5, 3, dtype=t),)),
    "gru cell": (lambda: nn.GRUCell(3, 4), lambda t: (torch.randn(5, 3, dtype=t), torch.randn(5, 4, dtype=t))),
    "bilinear": (lambda: nn.Bilinear(3, 2, 4), lambda t: (torch.randn(5, 3, dtype=t), torch.randn(5, 2, dtype=t))),
    "transposed": (lambda: nn.ConvTranspose2d(2, 3, 3), lambda t: (torch.randn(1, 2, 4, 4, dtype=t),)),
    "upsampled": (lambda: nn.Sequential(nn.Conv2d(2, 3, 1), nn.Upsample(scale_factor=2)), lambda t: (torch.randn(1, 2, 3, 3, dtype=t),)),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [pytest.param(torch.float32, marks=pytest.mark.long), torch.float64], ids=str)
@pytest.mark.parametrize("name", MODULES)
def test_modules(name: str, dtype: Any):
    torch.manual_seed(0)
    make, arguments = MODULES[name]
    assert_gradients(make().to(dtype), *arguments(dtype))


@pytest.mark.parametrize("function", [
    lambda x, y: x * y + x.sin(),
    lambda x, y: x.mm(y.t()).softmax(1),
    lambda x, y: torch.where(x > y, x.exp(), y * 2),
    lambda x, y: torch.cat([x, y], 1).sum(),
    lambda x, y: (x.max(1).values, y.cumsum(0)),
    lambda x, y: x.sort(1).values / (y * y + 1),
    lambda x, y: x[:, ::2].sqrt().nan_to_num() + y[:, ::2],
    lambda x, y: torch.einsum("ij,kj->ik", x, y).logsumexp(1),
    lambda x, y: x.clone().mul_(2).add_(y).relu_(),
    lambda x, y: x.expand(2, 3, 4).pow(3) - y.std(1, keepdim=True),
    lambda x, y: {"norm": x.norm(), "most": y.amax(1), "count": x.argmax(1)},
    lambda x, y: x,
    lambda x, y: (x + y, x + y, 3, None),
])  # fmt: skip
def test_functions(function: Any):
    assert_gradients(function, leaf(3, 4), leaf(3, 4))


def test_derivatives_do_not_specialise_on_values():
    """Of a product torch divides by the elements where none is zero; the graph holds what is right with zeros too."""
    x = torch.tensor([[2.0, 3.0], [0.0, 5.0]], requires_grad=True)
    graph = irs.load(lambda x: x.prod(1).sum(), torch.ones(2, 2, requires_grad=True), backward=True)
    assert irs.compile(graph)(x)[1].tolist() == [[3.0, 2.0], [5.0, 0.0]]


def test_a_loss_with_targets():
    model, x, y = nn.Linear(3, 2), torch.randn(4, 3), torch.tensor([0, 1, 1, 0])
    graph = assert_gradients(model, x, loss=F.cross_entropy, targets=(y,))
    assert [graph.names[value] for value in graph.inputs] == ["weight", "bias", "input", "target"]
    assert [graph.names[value] for value in graph.outputs] == ["loss", "grad_weight", "grad_bias"]
    assert graph.gradients == {"weight": 1, "bias": 2} and graph.bound[graph.value("weight")] is model.weight


def test_a_number_is_its_own_loss_and_other_results_have_cotangents():
    x = leaf(3)
    one = irs.load(lambda x: (x * x).sum(), x, backward=True)
    assert [one.names[v] for v in one.inputs] == ["x"] and [one.names[v] for v in one.outputs] == ["loss", "grad_x"]
    graph = irs.load(lambda x: x * x, x, backward=True)
    assert [graph.names[value] for value in graph.inputs] == ["x", "grad_output"]
    several = irs.load(lambda x: (x * x, x.detach() + 1, x.exp()), x, backward=True)
    assert [several.names[value] for value in several.inputs] == ["x", "grad_output_0", "grad_output_2"]
    product, gradient = irs.compile(graph)(x, torch.full((3,), 5.0))
    assert torch.equal(gradient, 10 * x) and torch.equal(product, x * x)


def test_parameters_without_a_gradient_have_none():
    class Half(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused, self.frozen = (nn.Parameter(torch.rand(2)) for _ in range(3))
            self.frozen.requires_grad_(False)

        def forward(self, x: Any) -> Any:
            return (self.used * x * self.frozen).sum()

    graph = assert_gradients(Half(), torch.rand(2))
    assert graph.gradients == {"used": 1, "unused": 2} and irs.compile(graph)(torch.rand(2))[2] is None


def test_custom_functions_hooks_and_no_grad_are_kept():
    class Through(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, x: Any) -> Any:
            return x.round()

        @staticmethod
        def backward(context: Any, gradient: Any) -> Any:
            return gradient * 3

    def function(x: Any) -> Any:
        with torch.no_grad():
            scale = x.exp()
        y = Through.apply(x) * scale
        y.register_hook(lambda gradient: gradient.clamp(max=1))
        return (y * 2).sum()

    assert_gradients(function, leaf(4))


def test_buffers_are_updated_as_in_training():
    model, twin = (nn.Sequential(nn.Conv2d(2, 3, 1), nn.BatchNorm2d(3)) for _ in range(2))
    twin.load_state_dict(model.state_dict())
    x = torch.rand(2, 2, 4, 4)
    graph = irs.load(model, x, backward=True, loss=torch.sum)
    assert torch.equal(model[1].running_mean, torch.zeros(3)), "loading runs nothing"
    irs.compile(irs.fuse(graph))(x)
    twin(x)
    torch.testing.assert_close(model[1].running_mean, twin[1].running_mean)
    assert not model[0]._forward_hooks and not model[0]._forward_pre_hooks


def test_a_closure_and_a_method_have_the_parameters_of_their_module():
    model, x = nn.Linear(3, 1), torch.rand(2, 3)
    graph = irs.load(lambda x: model(x).square().mean(), x, backward=True)
    assert graph.gradients == {"model.weight": 1, "model.bias": 2}
    assert irs.load(model.forward, x, backward=True, loss=torch.sum).gradients == {"weight": 1, "bias": 2}


def test_modules_of_a_closure_that_share_a_weight_have_one_gradient_of_it():
    one, other, x = nn.Linear(3, 3), nn.Linear(3, 3), torch.rand(2, 3)
    other.weight = one.weight
    graph = irs.load(lambda x: other(one(x).tanh()).sum(), x, backward=True)
    other(one(x).tanh()).sum().backward()
    (name,) = [name for name in graph.gradients if name.endswith("weight")]
    torch.testing.assert_close(irs.compile(graph)(x)[graph.gradients[name]], one.weight.grad)


def test_nested_arguments_and_plain_values():
    def function(state: Any, factor: float, *, power: int = 2) -> Any:
        return (state["h"] ** power * factor + state["pair"][0]).sum()

    h, first = leaf(3), leaf(3)
    graph = irs.load(function, {"h": h, "pair": (first, 1)}, 0.5, backward=True)
    assert graph.gradients == {"state.h": 1, "state.pair.0": 2}
    _, of_h, of_first = irs.compile(graph)({"h": h, "pair": (first, 1)}, 0.5)
    assert torch.equal(of_h, h.detach()) and torch.equal(of_first, torch.ones(3))
    with pytest.raises(irs.IrscopeError, match=r"factor=0\.5"):
        irs.compile(graph)({"h": h, "pair": (first, 1)}, 0.75)


def test_nodes_of_the_backward_pass_know_their_line_and_module():
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Attention()

        def forward(self, x: Any) -> Any:
            return torch.tanh(self.inner(x)).sum()

    graph = irs.load(Net(), torch.rand(1, 3, 8), backward=True)
    (node,) = (node for node in graph.nodes() if node.op == "aten::tanh_backward")
    _, first = inspect.getsourcelines(Net.forward)
    assert node.location is not None and (Path(node.location.file).name, node.location.line) == ("test_joint_graph.py", first + 1)
    (softmax,) = (node for node in graph.nodes() if node.op == "aten::_softmax_backward_data")
    assert softmax.scope == "inner"
    assert {node.scope for node in graph.nodes() if node.op == "aten::mm"} == {"inner.out", "inner.qkv"}


def _rooted(x: Any, w: Any) -> Any:
    return (x @ w).sqrt()


def test_a_sum_of_gradients_is_at_no_place_and_a_loss_of_torch_at_one_of_torch():
    """Autograd adds what arrives over several ways, under the number of the last op, which it is not a part of."""

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x: Any) -> Any:
            return x + self.linear(x).tanh()

    graph = irs.load(nn.Sequential(*(Twice() for _ in range(4))), leaf(2, 4), backward=True, loss=F.mse_loss, targets=(torch.zeros(2, 4),))
    nodes = [node for node in graph.nodes() if node.op != "prim::Constant"]
    loss = next(node for node in nodes if node.op == "aten::mse_loss")
    assert loss.location is not None and loss.location.file.endswith("functional.py")
    sums = [node for node in nodes[nodes.index(loss) :] if node.op == "aten::add"]
    assert len(sums) == 4 and {(node.location, node.scope) for node in sums} == {(None, "")}
    from irscope.report.panes.program_view import graph_view

    for program in (graph, irs.fuse(graph).graph):
        boxes = graph_view(program)["boxes"]
        lane_of = {box["id"]: box.get("lane", box["label"]) for box in boxes}
        assert {(box["lane"], box["copies"]) for box in boxes if box["kind"] == "repeat"} >= {("forward", 4)}
        assert {lane_of[node.id] for node in program.nodes() if node.id in lane_of and "backward" in node.op} == {"backward"}
        assert [lane_of[program.node(name).id] for name in ("loss", "grad_0.linear.bias")] == ["forward", "backward"]
    given = irs.load(nn.Sequential(*(Twice() for _ in range(4))), leaf(2, 4), backward=True)  # weights are turned for backward alone
    for program in (given, irs.fuse(given).graph, irs.parse(str(given))):
        assert [box["label"] for box in graph_view(program)["boxes"] if box["kind"] == "lane"] == ["forward", "backward"]


def test_nodes_of_a_function_know_their_line_too():
    def layer(x: Any, w: Any) -> Any:
        return torch.tanh(_rooted(x, w))

    graph = irs.load(layer, torch.rand(2, 3, requires_grad=True), torch.rand(3, 4), backward=True)
    lines = {name: inspect.getsourcelines(function)[1] + 1 for name, function in (("tanh", layer), ("sqrt", _rooted))}
    for op, name in (("aten::tanh", "tanh"), ("aten::tanh_backward", "tanh"), ("aten::sqrt", "sqrt")):
        node = graph.node(op)
        assert node.location is not None and (Path(node.location.file).name, node.location.line) == ("test_joint_graph.py", lines[name])
    computed = [node for node in graph.nodes() if node.op.startswith("aten::")]
    assert all(node.location is not None for node in computed)


def test_the_graph_prints_and_reads_back():
    graph = irs.load(Attention(), torch.rand(1, 3, 8), backward=True)
    assert same_structure(irs.parse(str(graph)), graph)


def test_the_reference_agrees():
    x = leaf(3, 4, dtype=torch.float64)
    graph = irs.load(lambda x: (x.sigmoid() * x.tanh()).relu().sum(), x, backward=True)
    run = irs.compile(graph, device="reference")
    (found,) = torch.autograd.grad((x.sigmoid() * x.tanh()).relu().sum(), x)
    assert np.allclose(np.asarray(run(x.detach().numpy())[1]), found.numpy(), rtol=1e-12)


@pytest.mark.parametrize(("call", "error", "told"), [
    (lambda: irs.load(lambda x: x + 1, torch.rand(3), backward=True), ArgumentError, "nothing to differentiate"),
    (lambda: irs.load(nn.Linear(3, 2), torch.rand(4, 3), backward=True, loss=F.relu), ArgumentError, "not one number"),
    (lambda: irs.load(nn.Linear(3, 2), torch.rand(4, 3), backward=True, loss=len), ArgumentError, "not a tensor"),
    (lambda: irs.load(nn.Linear(3, 2), torch.rand(4, 3), backward=True, loss=0.5), ArgumentError, "loss is a function"),
    (lambda: irs.load(nn.Linear(3, 2), torch.rand(4, 3), backward=True, targets=(1,)), ArgumentError, "targets"),
    (lambda: irs.load(nn.Linear(3, 2), torch.rand(4, 3), loss=torch.sum), ArgumentError, "backward=True"),
    (lambda: irs.load(nn.Linear(3, 2), backward=True), ArgumentError, "needs example arguments"),
    (lambda: irs.load("graph(%x : Tensor):\n  return (%x)", backward=True), ArgumentError, "torch module or function"),
    (lambda: irs.load(lambda x: x.add_(1).sum(), leaf(3), backward=True), CaptureError, "writes in place"),
    (lambda: irs.load(lambda x: x[:2].mul_(2).sum(), leaf(3), backward=True), CaptureError, "writes in place"),
    (lambda: irs.load(overwritten, leaf(3), backward=True), CaptureError, "overwrites a tensor"),
    (lambda: irs.load(lambda x: x.detach() * 2, leaf(3), backward=True), CaptureError, "no gradient flows"),
    (lambda: irs.load(lambda x: x if x.sum() > 0 else -x, leaf(3), backward=True), CaptureError, "values of a tensor"),
    (lambda: irs.load(lambda x: x * x.max().item(), leaf(3), backward=True), CaptureError, "values of a tensor"),
    (lambda: irs.load(lambda x: x * OUTSIDE, leaf(3), backward=True), CaptureError, "neither an argument"),
    (lambda: irs.load(lambda x: x.nonsense(), leaf(3), backward=True), CaptureError, "nonsense"),
])  # fmt: skip
def test_wrong_uses_are_errors(call: Any, error: type[Exception], told: str):
    with pytest.raises(error, match=told):
        call()


OUTSIDE = torch.ones(3, requires_grad=True)


def overwritten(x: Any) -> Any:
    y = x.exp()
    y.mul_(2)
    return y.sum()


def test_results_do_not_require_gradients():
    model, x = nn.Linear(3, 2), torch.rand(4, 3)
    run = irs.compile(model_graph := irs.load(model, x, backward=True, loss=torch.sum))
    assert model_graph.gradients and not any(result.requires_grad for result in run(x))


@pytest.mark.parametrize("loss", [None, F.mse_loss])
def test_a_page_of_forward_and_backward_is_measured(loss: Any, tmp_path: Path):
    model, x, y = nn.Linear(3, 2), torch.rand(4, 3), torch.rand(4, 2)
    targets = () if loss is None else (y,)
    page = irs.write_report(model, x, backward=True, loss=loss, targets=targets, output=tmp_path / "joint.html")
    assert "grad_weight" in page.read_text()


@pytest.mark.parametrize("function", [F.softmax, F.log_softmax])
@pytest.mark.parametrize("dim", [0, -1])
def test_the_derivative_of_a_softmax_is_in_one_kernel_with_what_is_around_it(function: Any, dim: int):
    graph = assert_gradients(lambda x: function(x * 1.5, dim) * 2, leaf(5, 7))
    fusion = irs.fuse(graph)
    assert [node.op for node in fusion.graph.body.nodes if node.op != "prim::Constant"] == ["prim::FusionGroup"]
