"""What a compiled fusion works on once: which programs, what a caller sees of it, and that weights which are written are followed."""

import copy
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier

import numpy as np
import pytest

import irscope as irs
from irscope.errors import ArgumentError, RunError
from irscope.transforms.fusion import FREEZING, frozen

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this torch has no oneDNN")
nn = torch.nn


class Net(nn.Module):
    """Convolutions with batch norms, a residual sum, a pooling, a linear; a result that is a view of another."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, 2, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.body = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1, groups=4), nn.BatchNorm2d(width), nn.SiLU(), nn.Conv2d(width, width, 3, padding=1)
        )
        self.head = nn.Linear(width, 5)

    def forward(self, x):
        h = self.pool(self.stem(x))
        h = torch.relu(h + self.body(h))
        y = self.head(h.mean((2, 3)))
        return y, h, y[:, :1]


def net():
    torch.manual_seed(0)
    model = Net()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
    return model.eval(), torch.randn(2, 3, 32, 32)


def ops(graph):
    return [node.op for node in graph.nodes()]


def assert_alike(found, expected, atol=1e-4):
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(torch.as_tensor(a), b, rtol=1e-4, atol=atol)
        assert torch.as_tensor(a).stride() == b.stride()
    assert found[0].data_ptr() == found[2].data_ptr()


@torch.no_grad()
def test_a_model_is_worked_on_once_and_says_so():
    model, x = net()
    fusion = irs.fuse(irs.load(model, x))
    run, plain = irs.compile(fusion), irs.compile(fusion, freeze=False)
    assert "aten::batch_norm" in ops(fusion.original)
    assert not [op for op in ops(run.graph) if "norm" in op]
    assert "irscope::convolution" in ops(run.graph)
    assert plain.graph is fusion.graph
    for each in (run, plain, irs.compile(model, x)):
        assert_alike(each(x), model(x))
        assert_alike(each(x), model(x))
    assert [record.name for record in run.history.records if record.edits and record.name != "fuse-groups"][-4:] == list(FREEZING[2:6])
    assert {"batch-norm", "channels-last", "pool-kernel", "onednn"} <= {remark.rule for remark in run.remarks if remark.kind == "passed"}
    assert not {"batch-norm", "onednn"} & {remark.rule for remark in plain.remarks if remark.kind == "passed"}
    plan = irs.memory_plan(run.graph)
    assert plan.peak <= irs.memory_plan(fusion.graph).peak
    weights = [tensor for name, tensor in model.named_parameters() if tensor.dim() == 4]
    assert sorted(plan.laid_out.values()) == sorted(4 * weight.numel() for weight in weights)
    assert "weights laid out once as layers read them (%" in repr(plan)
    assert not irs.memory_plan(fusion.graph).laid_out


@torch.no_grad()
def test_it_is_shown_and_compared():
    model, x = net()
    fusion = irs.fuse(irs.load(model, x), freeze=True)
    assert frozen(fusion) is fusion
    assert irs.compile(fusion).graph is fusion.graph
    assert ops(fusion.graph) == ops(irs.compile(model, x).graph)
    assert fusion.history.initial is fusion.original
    assert fusion.what_if(policy="min-bytes").policy == "min-bytes"
    assert "irscope::convolution" in ops(fusion.what_if(policy="min-bytes").graph)
    rows = irs.compare(model, x, repeats=1).rows
    assert [row.label for row in rows] == ["op by op", "fused", "fused + dedup", "frozen", "eager"]
    assert rows[3].error < 1e-5
    assert rows[3].launched == rows[1].launched  # two activations are the convolutions, a result is copied into rows, a silu is alone
    assert [row.label for row in irs.compare(model, x, repeats=1, exact="torch").rows] == ["op by op", "fused", "fused + dedup", "eager"]


WRITES = {
    "a step of training": lambda model: torch.optim.SGD(model.parameters(), 0.1).step(),
    "another state": lambda model: model.load_state_dict({name: tensor * 1.5 for name, tensor in model.state_dict().items()}),
    "statistics": lambda model: model.stem[1].running_mean.add_(1),
    "one that torch counts, and one that it does not": lambda model: (
        model.stem[1].running_mean.add_(1), model.body[1].weight.data.mul_(2)
    ),
    "a view of its memory that negates": lambda model: [
        setattr(layer.weight, "data", torch._neg_view(layer.weight.data)) for layer in (model.stem[0], model.head)
    ],
    "an exchange": lambda model: setattr(model.body[0].weight, "data", torch.randn_like(model.body[0].weight)),
}  # fmt: skip


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_weights_that_are_written_are_worked_on_again(write):
    model, x = net()
    run = irs.compile(model, x)
    with torch.no_grad():
        before = run(x)
    model(x)[0].square().sum().backward()
    with torch.no_grad():
        write(model)
        assert not torch.allclose(before[0], model(x)[0], atol=1e-2)
        for _ in range(2):
            assert_alike(run(x), model(x))


FUSIONS = {
    "exact": lambda model, x: irs.fuse(irs.load(model, x), exact="torch"),
    "a wish": lambda model, x: irs.fuse(irs.load(model, x), opaque=["aten::relu"]),
    "gradients": lambda model, x: irs.fuse(irs.load(model, x, backward=True, loss=lambda y: y[0].sum())),
    "no convolution": lambda model, x: irs.fuse(irs.load(lambda x: torch.tanh(x) + 1, x)),
}  # fmt: skip


@pytest.mark.parametrize("name", FUSIONS)
def test_what_stays_as_it_is(name):
    fusion = FUSIONS[name](*net())
    assert frozen(fusion).graph is fusion.graph
    assert irs.compile(fusion).graph is fusion.graph


@torch.no_grad()
def test_an_op_between_two_products_is_a_kernel_where_that_is_quicker():
    model = nn.Sequential(nn.Linear(48, 64), nn.GELU(), nn.Linear(64, 64), nn.Sigmoid())
    x = torch.randn(40, 48)
    fusion = irs.fuse(irs.load(model, x))
    run = irs.compile(fusion)
    assert not fusion.groups and len(run.kernels) == 1
    assert "aten::gelu of 2,560 elements is a kernel of its own: quicker than the library's op" in [each.because for each in run.remarks]
    torch.testing.assert_close(run(x), model(x), rtol=1e-4, atol=1e-5)
    rest = irs.compile(fusion, freeze=False), irs.compile(irs.fuse(fusion.original, min_size=3)), irs.compile(fusion, exact="torch")
    assert not any(each.kernels for each in rest)


def test_what_is_not_asked_for_stays_as_it_is():
    model, x = net()
    graph = irs.load(model, x)
    fusion = irs.fuse(graph)
    assert irs.compile(graph).graph is graph
    assert irs.compile(fusion, device="reference").graph is fusion.graph
    assert irs.compile(fusion, exact="torch").exact
    assert "aten::batch_norm" in str(irs.compile(fusion, exact="torch").graph)
    with pytest.raises(ArgumentError, match="freeze changes how results are rounded"):
        irs.fuse(graph, freeze=True, exact="torch")
    trains = irs.fuse(irs.load(copy.deepcopy(model).train(), x))
    assert "aten::batch_norm" in ops(irs.compile(trains).graph)


def test_sizes_that_are_not_known_are_reported():
    model, x = net()
    graph = irs.load(torch.jit.script(model))
    run = irs.compile(irs.fuse(graph))
    missed = {remark.rule: remark.because for remark in run.remarks if remark.kind == "missed"}
    assert "example arguments" in missed["channels-last"]
    with torch.no_grad():
        assert_alike(run(x), model(x))


@torch.no_grad()
def test_torch_sees_the_ops_of_the_model():
    model, x = net()
    run = irs.compile(model, x)
    run(x)
    seen = torch.fx.experimental.proxy_tensor.make_fx(lambda x: run(x))(x)
    assert "mkldnn" not in str(seen.graph)
    torch.testing.assert_close(seen(x)[0], model(x)[0], rtol=1e-4, atol=1e-4)
    with torch.autocast("cpu"), pytest.raises(irs.errors.RunError, match="autocast"):
        run(x)


@torch.no_grad()
def test_arrays_and_planned_memory():
    model, x = net()
    graph = irs.load(model, x)
    for run in (irs.compile(irs.fuse(graph)), irs.compile(irs.fuse(graph), memory="planned")):
        assert_alike(run(x), model(x))
    fixed = {value: tensor.detach().numpy() for value, tensor in graph.bound.items()}
    for array in fixed.values():
        array.flags.writeable = False
    run = irs.compile(irs.fuse(replace(graph, bound=fixed)))
    found = run(x.numpy())
    assert not [op for op in ops(run.graph) if "norm" in op]
    for a, b in zip(found, model(x), strict=True):
        torch.testing.assert_close(torch.as_tensor(a), b, rtol=1e-4, atol=1e-4)


def by_numpy(tensor):
    tensor.detach().numpy()[...] *= 2


def by_exchange(tensor):
    tensor.data = tensor.data * 2


@torch.no_grad()
@pytest.mark.parametrize("write", [lambda tensor: tensor.mul_(2), lambda tensor: tensor.data.mul_(2), by_numpy, by_exchange])
def test_weights_that_are_folded_are_followed_however_they_are_written(write):
    model, x = net()
    tensors = dict([*model.named_parameters(), *model.named_buffers()])
    graph = irs.load(model, x)
    before = irs.Pipeline("fold-constants,fold-batch-norm")(graph).graph
    run = irs.compile(irs.fuse(graph))
    for place in ("stem.0.weight", "stem.1.bias", "stem.1.running_var", "body.0.bias"):
        assert_alike(run(x), model(x))
        write(tensors[place])
        assert_alike(run(x), model(x))
    assert_alike(irs.compile(before)(x), model(x))  # folded before the writes, compiled after them
    by_numpy(tensors["body.1.weight"])
    assert_alike(run(x), model(x))


@torch.no_grad()
@pytest.mark.parametrize("own", [nn.Linear(16, 16), nn.Conv2d(16, 16, 1), nn.Sequential(nn.Conv2d(16, 16, 1), nn.BatchNorm2d(16))])
def test_weights_that_are_turned_in_place_or_replaced_by_others_are_followed(own):
    model = copy.deepcopy(own).eval()
    layer = model[0] if isinstance(model, nn.Sequential) else model
    x = torch.randn(8, 16) if isinstance(model, nn.Linear) else torch.randn(2, 16, 5, 5).contiguous(memory_format=torch.channels_last)
    run = irs.compile(irs.fuse(irs.load(model, x)))
    torch.testing.assert_close(run(x), model(x), rtol=1e-4, atol=1e-4)
    layer.weight.data = layer.weight.data.transpose(0, 1)
    torch.testing.assert_close(run(x), model(x), rtol=1e-4, atol=1e-4)
    layer.weight.data = layer.weight.data[:1].expand_as(layer.weight)
    torch.testing.assert_close(run(x), model(x), rtol=1e-4, atol=1e-4)
    layer.weight.data = layer.weight.data.double()
    with pytest.raises(RunError):
        run(x)


@torch.no_grad()
def test_threads_that_call_after_a_write_all_wait_for_the_new_weights():
    model = torch.nn.Sequential(torch.nn.Conv2d(64, 256, 3), torch.nn.BatchNorm2d(256)).eval()
    x = torch.randn(1, 64, 3, 3)
    program = irs.compile(model, x)
    start = Barrier(3)

    def call(_):
        start.wait()
        with torch.no_grad():
            return program(x).clone()

    with torch.no_grad(), ThreadPoolExecutor(3) as pool:
        program(x)
        for turn in range(12):
            model[0].weight.mul_(2.0 if turn % 2 else 0.5)
            for result in pool.map(call, range(3)):
                torch.testing.assert_close(result, model(x), rtol=1e-3, atol=1e-3)


def test_a_weight_whose_storage_was_freed_and_filled_again_is_followed():
    """As FSDP does it; so large that the allocator gives its pages back."""
    model = torch.nn.Sequential(torch.nn.Conv2d(1024, 1024, 3), torch.nn.BatchNorm2d(1024)).eval()
    x = torch.randn(1, 1024, 3, 3)
    program = irs.compile(model, x)
    with torch.no_grad():
        program(x)
        weight, storage = model[0].weight, model[0].weight.untyped_storage()
        kept, size = 2 * weight.clone(), storage.nbytes()
        storage.resize_(0)
        storage.resize_(2 * size)
        weight.data.copy_(kept)
        torch.testing.assert_close(program(x), model(x), rtol=1e-3, atol=1e-2)


def test_a_linear_of_one_row_has_no_layout_of_images():
    model, x = nn.Linear(7, 33).eval(), torch.randn(7)
    torch.testing.assert_close(irs.compile(irs.fuse(irs.load(model, x)))(x), model(x))


@pytest.mark.parametrize("kind", ["GRU", "LSTM"])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_the_gates_of_a_file_are_put_into_torchs_order_once(kind, direction):
    onnx, runtime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    helper, random, opset = onnx.helper, np.random.default_rng(0), [onnx.helper.make_opsetid("", 17)]
    sides, gates, hidden = 1 + (direction == "bidirectional"), {"GRU": 3, "LSTM": 4}[kind], 24
    sizes = {"w": (sides, gates * hidden, 16), "r": (sides, gates * hidden, hidden), "b": (sides, 2 * gates * hidden)}
    weights = [onnx.numpy_helper.from_array(random.normal(size=size).astype(np.float32) * 0.3, name) for name, size in sizes.items()]
    more = {"linear_before_reset": 1} if kind == "GRU" else {}
    node = helper.make_node(kind, ["x", "w", "r", "b"], ["y"], hidden_size=hidden, direction=direction, **more)
    given, made = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in "xy"]
    given.type.tensor_type.shape.CopyFrom(helper.make_tensor_type_proto(1, (9, 1, 16)).tensor_type.shape)
    model = helper.make_model(helper.make_graph([node], "layer", [given], [made], weights), ir_version=10, opset_imports=opset)
    x = random.normal(size=(9, 1, 16)).astype(np.float32)
    run = irs.compile(irs.fuse(irs.load(model, x)))
    assert "fold-weights" in [record.name for record in run.history.records]
    assert "aten::cat" not in ops(run.graph) or direction == "bidirectional"
    assert {"weights"} <= {remark.rule for remark in run.remarks}
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"x": x})
    for argument in (x, torch.from_numpy(x)):
        np.testing.assert_allclose(run(argument), expected, rtol=1e-4, atol=1e-5)
