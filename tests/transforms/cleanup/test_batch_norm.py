"""Folded batch norms compute what they did up to rounding, and stay where a caller could tell; judged by torch and float64."""

import copy
import dataclasses
import pickle
import random
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import irscope as irs  # noqa: E402
from irscope.errors import RunError  # noqa: E402
from irscope.ops.node_check import verify  # noqa: E402
from irscope.transforms.base import PassRecord, check_types  # noqa: E402
from irscope.transforms.cleanup.batch_norm import _rounded, fold_batch_norm  # noqa: E402
from tests.work import long  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
nn = torch.nn
DTYPES = ["float64", "float32", "float16", "bfloat16"]


class Block(nn.Module):
    """Two convolutions with batch norms, of which one may be grouped, beside a shortcut that may have another."""

    def __init__(self, rank: int, inputs: int, dice: random.Random) -> None:
        super().__init__()
        kind, norm = getattr(nn, f"Conv{rank}d"), getattr(nn, f"BatchNorm{rank}d")
        outputs = dice.choice([inputs, 6, 8])

        def normed(layer: Any) -> Any:
            return nn.Sequential(layer, norm(layer.out_channels, eps=dice.choice([1e-5, 1e-3, 0.3]), affine=dice.random() < 0.7))

        groups = dice.choice([1, 2, inputs])
        self.first = normed(kind(inputs, inputs * 2, 3, padding=1, groups=groups, bias=dice.random() < 0.5))
        last = getattr(nn, f"ConvTranspose{rank}d") if dice.random() < 0.3 else kind
        self.second = normed(last(inputs * 2, outputs, 3, padding=1, groups=dice.choice([1, 2]), bias=dice.random() < 0.5))
        self.shortcut = None if outputs == inputs else normed(kind(inputs, outputs, 1, bias=False))
        self.outputs = outputs

    def forward(self, x: Any) -> Any:
        beside = x if self.shortcut is None else self.shortcut(x)
        return torch.relu(self.second(torch.relu(self.first(x))) + beside)


class Net(nn.Module):
    """A few blocks, then a linear with a batch norm."""

    def __init__(self, rank: int, dice: random.Random) -> None:
        super().__init__()
        self.blocks, inputs = nn.ModuleList(), 4
        for _ in range(dice.choice([1, 2])):
            self.blocks.append(Block(rank, inputs, dice))
            inputs = self.blocks[-1].outputs
        self.head = nn.Sequential(nn.Linear(inputs, 5, bias=dice.random() < 0.5), nn.BatchNorm1d(5))

    def forward(self, x: Any) -> Any:
        for block in self.blocks:
            x = block(x)
        return self.head(x.flatten(2).mean(2))


def with_random_numbers(model: Any, seed: int) -> Any:
    """The model in evaluation mode, with statistics and weights that no two channels share."""
    torch.manual_seed(seed)
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.running_mean.normal_()
            module.running_var.uniform_(0.1, 3)
            if module.affine:
                nn.init.uniform_(module.weight, -2, 2)
                nn.init.normal_(module.bias)
    return model.eval()


def magnitude(model: Any, x: Any) -> Any:
    """The sums of the magnitudes of all terms that a result is added up from, in float64: what its rounding errors are relative to."""
    model = copy.deepcopy(model).double()
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            scale = torch.rsqrt(module.running_var + module.eps) * (module.weight.abs() if module.affine else 1)
            bias = module.bias.abs() if module.affine else 0
            module.forward = lambda x, m=module, s=scale, b=bias: (  # type: ignore[misc]
                (x + m.running_mean.abs().reshape(shape := [-1 if i == 1 else 1 for i in range(x.ndim)])) * s.reshape(shape)
                + (b.reshape(shape) if m.affine else 0)
            )
        elif hasattr(module, "weight"):
            module.weight.data.abs_()
            if module.bias is not None:
                module.bias.data.abs_()
    return model(x.double().abs())


def error_bound(model: Any, x: Any, dtype: str) -> Any:
    """A bound of the error of either program, to first order: each layer adds a rounding for each term of its sums (of float32 in sums
    of halves), one for each weight, and six for what follows."""
    unit = torch.finfo(getattr(torch, dtype)).eps
    terms = [m.weight[0].numel() * m.weight.shape[0] ** isinstance(m, nn.modules.conv._ConvTransposeNd) + 8
             for m in model.modules() if isinstance(m, nn.modules.conv._ConvNd | nn.Linear)]  # fmt: skip
    sums = min(unit, torch.finfo(torch.float32).eps)
    return (sum(terms) * sums + 8 * len(terms) * unit) * magnitude(model, x)


def check(model: Any, x: Any, norms: int = 0) -> PassRecord:
    """Fold, with `norms` that stay; the properties of a pass; the new program is as near to float64 as torch is."""
    dtype = str(x.dtype).removeprefix("torch.")
    with torch.no_grad():
        record = fold_batch_norm(irs.load(model, x))
        verify(record.after)
        check_types(record)
        assert sum("norm" in node.op for node in record.after.nodes()) == norms, [str(each) for each in record.remarks]
        assert fold_batch_norm(record.after).after is record.after, "idempotent"
        bound = error_bound(model, x, dtype)
        exact, eager, found = copy.deepcopy(model).double()(x.double()), model(x), irs.compile(record.after)(x)
    assert found.dtype == eager.dtype and found.stride() == eager.stride()
    for each in (eager, found):
        assert ((each.double() - exact).abs() <= bound).all()
    return record


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", [*range(3), *long(range(3, 24))])
def test_random_residual_networks(seed: int, dtype: str) -> None:
    dice = random.Random(seed)
    rank = 1 + seed % 3
    model = with_random_numbers(Net(rank, dice), seed).to(getattr(torch, dtype))
    x = torch.randn(2, 4, *[5] * rank).to(getattr(torch, dtype))
    record = check(model, x)
    assert {remark.kind for remark in record.remarks} == {"passed"}
    rtol = {"float64": "1e-15", "float32": "1e-6", "float16": "1e-3", "bfloat16": "1e-2"}[dtype]
    assert all(f"rtol ~{rtol}" in remark.because and "one multiplication" in remark.because for remark in record.remarks)


def test_a_wrong_eps_would_be_noticed() -> None:
    model = with_random_numbers(Net(2, random.Random(0)), 0).double()
    x = torch.randn(2, 4, 5, 5).double()
    other = copy.deepcopy(model)
    other.head[1].eps += 1e-9
    with torch.no_grad():
        assert ((other(x) - model(x)).abs() > error_bound(model, x, "float64")).any()


def small() -> Any:
    return with_random_numbers(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)), 0)


X = torch.randn(2, 3, 6, 6)


@pytest.mark.parametrize("way", ["script", "decomposed", "channels last"])
def test_ways_in(way: str) -> None:
    model, x = nn.Sequential(small(), nn.Flatten(), nn.Linear(64, 5), with_random_numbers(nn.BatchNorm1d(5), 1)).eval(), X
    if way == "script":
        graph = irs.load(torch.jit.script(model), x)
    elif way == "decomposed":
        graph = irs.load(torch.export.export(model, (x,)).run_decompositions())
    else:
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
        graph = irs.load(model, x)
    done = irs.Pipeline("fold-constants,canonicalize,fold-batch-norm")(graph, verify_each=True)
    assert not any("norm" in node.op for node in done.graph.nodes())
    with torch.no_grad():
        assert torch.allclose(irs.compile(done.graph)(x), model(x), atol=1e-5)
        assert torch.allclose(irs.compile(irs.fuse(done.graph).graph)(x), model(x), atol=1e-5)


def test_a_joint_graph_and_a_model_that_trains_stay() -> None:
    model = small()
    joint = fold_batch_norm(irs.load(model, X, backward=True, loss=lambda y: y.sum()))
    trains = fold_batch_norm(irs.load(model.train(), X))
    for record in (joint, trains):
        assert record.after is record.before
        assert all(remark.kind == "missed" for remark in record.remarks)
    assert {remark.rule for remark in joint.remarks} <= {"gradients"}
    assert [remark.rule for remark in trains.remarks] == ["training"]


class Shared(nn.Module):
    """Two convolutions of one weight, with batch norms of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.a, self.b = nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3), nn.BatchNorm2d(3)

    def forward(self, x: Any) -> Any:
        return self.conv(self.b(self.conv(self.a(self.conv(x)))))


def test_a_weight_of_several_convolutions_is_copied_for_each() -> None:
    model = with_random_numbers(Shared(), 2)
    record = fold_batch_norm(irs.load(model, X))
    bound = {record.after.names[value] for value in record.after.bound}
    assert {"conv.weight", "conv.bias", "conv.weight_folded", "conv.weight_folded.1"} <= bound
    with torch.no_grad():
        assert torch.allclose(irs.compile(record.after)(X), model(X), atol=1e-4)


class ReadTwice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)

    def forward(self, x: Any) -> Any:
        y = self.conv(x)
        return self.norm(y) + y


class Writes(ReadTwice):
    def forward(self, x: Any) -> Any:
        y = self.norm(self.conv(x))
        self.norm.running_mean.mul_(0.5)
        return y


class GivesAway(ReadTwice):
    def forward(self, x: Any) -> Any:
        return self.norm(self.conv(x)), self.norm.running_var


@pytest.mark.parametrize(("model", "rule"), [(ReadTwice(), "other-readers"), (Writes(), "written"), (GivesAway(), "seen")])
def test_what_a_caller_could_tell_stays(model: Any, rule: str) -> None:
    record = fold_batch_norm(irs.load(model.eval(), X))
    assert [remark.rule for remark in record.remarks] == [rule]
    assert record.after is record.before


WRITES = {
    "statistics": lambda model: model[1].running_mean.add_(1), "weight": lambda model: model[0].weight.mul_(2),
    "exchanged": lambda model: setattr(model[1].weight, "data", torch.rand(4)),
    "state": lambda model: model.load_state_dict(with_random_numbers(copy.deepcopy(model), 5).state_dict()),
}  # fmt: skip


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@torch.no_grad()
def test_new_weights_follow_a_weight_that_is_written(write: Any) -> None:
    model = small()
    graph = irs.Pipeline("fold-batch-norm")(irs.load(model, X)).graph
    run, again = irs.compile(irs.fuse(graph).graph), pickle.loads(pickle.dumps(graph))
    first = run(X)
    write(model)
    expected = model(X)
    assert not torch.allclose(first, expected, atol=1e-2)
    for _ in range(2):
        assert torch.allclose(run(X), expected, atol=1e-5)
    assert torch.equal(irs.compile(again)(X), first), "a copy has weights of its own"


@torch.no_grad()
def test_new_weights_follow_a_layout_that_comes_back() -> None:
    model = small()
    run, plain = irs.compile(irs.fuse(irs.load(model, X))), model[0].weight.data
    for layout in (plain, plain, plain.mT, plain, plain.mT, plain.mT, plain):  # one memory
        model[0].weight.data = layout
        assert torch.allclose(run(X), model(X), atol=1e-5)


@torch.no_grad()
def test_new_weights_follow_that_were_made_in_inference_mode() -> None:
    model = small()
    with torch.inference_mode():
        run = irs.compile(irs.fuse(irs.load(model, X)))
    for _ in range(2):
        model[0].weight.mul_(2)
        assert torch.allclose(run(X), model(X), atol=1e-5)


def test_new_weights_that_cannot_follow_are_refused() -> None:
    model = nn.Sequential(small(), with_random_numbers(nn.Sequential(nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4)), 1)).eval()
    run = irs.compile(irs.Pipeline("fold-batch-norm")(irs.load(model, X)).graph)
    first, held = run(X).detach(), copy.deepcopy(model.state_dict())
    model[0][0].weight.data.mul_(3)
    model[1][1].running_var.fill_(float("nan"))
    for _ in range(2):
        with pytest.raises(RunError, match=r"running_var has been written since fold-batch-norm .* too large or too small"):
            run(X)
    model.load_state_dict(held)
    assert torch.equal(run(X), first)


def test_arrays_of_the_caller_stay() -> None:
    graph = irs.load(small(), X)
    arrays = {value: tensor.detach().numpy() for value, tensor in graph.bound.items()}
    record = fold_batch_norm(dataclasses.replace(graph, bound=arrays))
    assert [remark.rule for remark in record.remarks] == ["written"]
    for array in arrays.values():
        array.flags.writeable = False
    assert not any(isinstance(held.base, np.ndarray) for held in arrays.values())
    assert [remark.kind for remark in fold_batch_norm(dataclasses.replace(graph, bound=arrays)).remarks] == ["passed"]


def test_a_result_still_refuses_a_backward_pass() -> None:
    graph = fold_batch_norm(irs.load(small(), X)).after
    with pytest.raises(RuntimeError, match="computes no gradients"):
        irs.compile(graph)(X).sum().backward()
    frozen = fold_batch_norm(irs.load(small().requires_grad_(False), X)).after
    assert not irs.compile(frozen)(X).requires_grad


def test_an_onnx_model_keeps_arrays() -> None:
    helper = pytest.importorskip("onnx").helper
    dice = np.random.default_rng(0)
    w, x = dice.normal(size=(4, 3, 3, 3)).astype(np.float32), dice.normal(size=(2, 3, 6, 6)).astype(np.float32)
    rows = {"scale": dice.normal(size=4), "bias": dice.normal(size=4), "mean": dice.normal(size=4), "var": dice.uniform(0.1, 2, 4)}
    numpy_helper = pytest.importorskip("onnx.numpy_helper")
    held = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in {"w": w, **rows}.items()]
    nodes = [helper.make_node("Conv", ["x", "w"], ["a"]), helper.make_node("BatchNormalization", ["a", *rows], ["y"])]
    body = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", 1, ["N", 3, 6, 6])], [helper.make_tensor_value_info("y", 1, None)], held
    )
    graph = irs.load(helper.make_model(body, opset_imports=[helper.make_opsetid("", 17)]), x)
    record = fold_batch_norm(graph)
    assert [node.op for node in record.after.nodes() if "aten" in node.op] == ["aten::conv2d"]
    assert all(type(array) is np.ndarray for array in record.after.bound.values())
    found, expected = irs.compile(record.after)(x), irs.compile(graph)(x)
    assert np.allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_numbers_are_rounded_once(dtype: str) -> None:
    unit = torch.finfo(getattr(torch, dtype)).eps
    between = np.array([1 + unit / 2 + 1e-9, 1 + unit / 2, 1 + 1.5 * unit, -1 - unit / 2 - 1e-9, 0.0, 65519.0, 1e-7, 1e-39])
    found = _rounded(between, dtype)
    assert found[:5].tolist() == [1 + unit, 1, 1 + 2 * unit, -1 - unit, 0]
    near = torch.from_numpy(between[5:]).to(getattr(torch, dtype)).double().numpy()
    assert np.array_equal(found[5:], near)


@pytest.mark.parametrize("var", [0.0, -4.0, float("nan")])
def test_statistics_that_give_no_finite_weights_stay(var: float) -> None:
    model = small()
    model[1].eps = 0.0
    model[1].running_var[1] = var
    record = fold_batch_norm(irs.load(model, X))
    assert [remark.rule for remark in record.remarks] == ["range"]


def test_a_program_that_torch_would_refuse_stays() -> None:
    record = fold_batch_norm(
        irs.parse("""graph(%x : Float(2, strides=[1])):
      %w : Float(1, 2, strides=[2, 1]) = prim::Constant[value= 3 4 [ CPUFloatType{1,2} ]]()
      %m : Float() = prim::Constant[value={1}]()
      %none : NoneType = prim::Constant()
      %no : bool = prim::Constant[value=0]()
      %eps : float = prim::Constant[value=1.]()
      %a : Float(1, strides=[1]) = aten::linear(%x, %w, %none)
      %y : Float(1, strides=[1]) = aten::batch_norm(%a, %none, %none, %m, %m, %no, %eps, %eps, %no)
      return (%y)""")
    )
    assert [remark.rule for remark in record.remarks] == ["unknown-sizes"]
