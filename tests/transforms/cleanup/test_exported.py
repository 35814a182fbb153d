"""Products and group norms that an exporter took apart: what is put back, what stays, and that torch computes the same."""

from dataclasses import replace

import numpy as np
import pytest

import irscope as irs
from irscope.ops.node_check import verify
from irscope.transforms.base import check_types
from irscope.transforms.cleanup import restore_exported

torch = pytest.importorskip("torch")
functional = torch.nn.functional


def rows(x, w):
    return torch.mm(x.reshape(-1, x.shape[-1]), w).reshape(*x.shape[:-1], w.shape[1]).tanh()


def group_norm(x, ones, zeros):
    joined = x.reshape(x.shape[0], 4, -1)
    return functional.instance_norm(joined, weight=ones, bias=zeros, eps=0.1).reshape(x.shape) * 2


def restored(function, *args, bound=()):
    """The record of the pass over a function, with the arguments at `bound` as fixed arrays of the program."""
    graph = irs.load(function, *args)
    held = {}
    for place in bound:
        held[graph.inputs[place]] = array = args[place].numpy().copy()
        array.flags.writeable = False
    record = restore_exported(irs.Pipeline("fold-constants")(replace(graph, bound=held)).graph)
    verify(record.after)
    check_types(record)
    return record


def ops(record):
    return [node.op.removeprefix("aten::") for node in record.after.nodes() if not node.op.startswith("prim::")]


@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 1, 3, 4), (5, 1, 4)])
def test_products_of_joined_rows(shape):
    x, w = torch.randn(shape), torch.randn(4, 6)
    record = restored(rows, x, w)
    assert ops(record) == ["matmul", "tanh"]
    assert restore_exported(record.after).after is record.after
    assert torch.equal(irs.compile(record.after)(x, w), rows(x, w))


BIASED = {
    "matmul": lambda x, w, b: x @ w + b, "the bias first": lambda x, w, b: b + x @ w,
    "mm": lambda x, w, b: torch.mm(x.reshape(-1, 4), w).reshape(2, 3, 6) + b,
    "addmm": lambda x, w, b: torch.addmm(b, x.reshape(-1, 4), w).reshape(2, 3, 6),
    "linear": lambda x, w, b: functional.linear(x.reshape(-1, 4), w.T, b).reshape(2, 3, 6),
}  # fmt: skip


@pytest.mark.parametrize("name", BIASED)
def test_a_product_with_a_bias_is_a_linear(name):
    x, w, b = torch.randn(2, 3, 4), torch.randn(4, 6), torch.randn(6)
    record = restored(lambda *args: BIASED[name](*args).tanh(), x, w, b, bound=(1, 2))
    assert ops(record)[-2:] == ["linear", "tanh"]
    for device in ("cpu", "reference"):
        found = torch.as_tensor(irs.compile(record.after, device=device)(x))
        torch.testing.assert_close(found, BIASED[name](x, w, b).tanh(), rtol=1e-5, atol=1e-6)


def test_sums_that_stay():
    x, w, b = torch.randn(2, 3, 4), torch.randn(4, 6), torch.randn(6)
    for other in (torch.randn(3, 6), torch.randn(1), torch.randn(6, dtype=torch.float64), torch.randn(2, 3, 6)):
        assert "add" in ops(restored(BIASED["matmul"], x, w, other, bound=(1, 2)))
    assert "add" in ops(restored(BIASED["matmul"], x, w, b))  # anybody may write the weight
    assert "add" in ops(restored(lambda x, w, b: torch.add(x @ w, b, alpha=2), x, w, b, bound=(1, 2)))
    assert "addmm" in ops(restored(lambda x, w, b: torch.addmm(b, x.reshape(-1, 4), w, beta=2).reshape(2, 3, 6), x, w, b, bound=(1, 2)))
    assert "add" in ops(restored(lambda x, w, b: (lambda y: (y + b, y))(x @ w), x, w, b, bound=(1, 2)))  # who else reads the product


@pytest.mark.parametrize("shape", [(2, 8, 5, 6), (1, 4, 9), (2, 8, 2, 3, 4)])
def test_group_norms(shape):
    x, ones, zeros = torch.randn(shape) * 3 + 1, torch.ones(4), torch.zeros(4)
    record = restored(group_norm, x, ones, zeros, bound=(1, 2))
    assert ops(record) == ["group_norm", "mul"]
    assert "normalises" in record.remarks[0].because
    found, expected = irs.compile(irs.fuse(record.after))(x), group_norm(x, ones, zeros)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert found.stride() == expected.stride()


def two_readers(x, w):
    made = torch.mm(x.reshape(-1, 4), w)
    return made.reshape(2, 3, 6), made


def other_axes(x, w):
    return torch.mm(x.reshape(-1, 4), w).reshape(3, 2, 6)


def other_rows(x, w):
    return torch.mm(x.reshape(-1, 2), w[:2]).reshape(2, 6, 6)


def written(x, w):
    y = x + 1
    rows = y.reshape(-1, 4)
    y.mul_(2)
    return torch.mm(rows, w).reshape(2, 3, 6), y


def writes_weights(x, w):
    v = w + 1
    made = torch.mm(x.reshape(-1, 4), v)
    v.mul_(2)
    return made.reshape(2, 3, 6), v


@pytest.mark.parametrize("function", [two_readers, other_axes, other_rows, written, writes_weights])
def test_products_that_stay(function):
    record = restored(function, torch.randn(2, 3, 4), torch.randn(4, 6))
    assert record.after is record.before


def test_columns_stay():
    record = restored(rows, torch.randn(2, 4, 3).transpose(1, 2), torch.randn(4, 6))
    assert record.after is record.before


def test_group_norms_that_stay():
    x, ones, zeros = torch.randn(2, 8, 5, 6), torch.ones(4), torch.zeros(4)
    assert restored(group_norm, x, ones, zeros).remarks == (), "a caller may pass other weights"
    assert restored(group_norm, x, ones + torch.arange(4), zeros, bound=(1, 2)).remarks == ()
    assert restored(group_norm, x, ones, zeros + 1, bound=(1, 2)).remarks == ()
    last = x.to(memory_format=torch.channels_last)
    assert restored(group_norm, last, ones, zeros, bound=(1, 2)).remarks == ()
    batch = restored(lambda x, a, b: group_norm(x.reshape(1, 16, 5, 6), a, b), x, ones, zeros, bound=(1, 2))
    torch.testing.assert_close(irs.compile(batch.after)(x), group_norm(x.reshape(1, 16, 5, 6), ones, zeros), rtol=1e-5, atol=1e-5)


def test_a_group_norm_of_an_onnx_file_keeps_channels_last():
    onnx = pytest.importorskip("onnx")
    helper, tensors = onnx.helper, onnx.numpy_helper
    dice = np.random.default_rng(0)
    held = {
        "w": dice.normal(size=(8, 8, 3, 3)), "ones": np.ones(4), "zeros": np.zeros(4), "scale": dice.normal(size=(8, 1, 1)),
    }  # fmt: skip
    sizes = {"joined": np.array([0, 4, -1]), "parted": np.array([2, 8, 16, 16])}
    steps = [("Conv", "x w", "a"), ("Reshape", "a joined", "b"), ("InstanceNormalization", "b ones zeros", "c")]
    steps += [("Reshape", "c parted", "d"), ("Mul", "d scale", "e"), ("Conv", "e w", "f"), ("ReduceMean", "f axes", "y")]
    nodes = [
        helper.make_node(op, given.split(), [made], **({"pads": [1] * 4} if op == "Conv" else {})) for op, given, made in steps
    ]  # fmt: skip
    sizes["axes"] = np.array([2, 3])
    values = [tensors.from_array(array.astype(np.float32), name) for name, array in held.items()]
    values += [tensors.from_array(array, name) for name, array in sizes.items()]
    inputs, outputs = (helper.make_tensor_value_info(name, 1, shape) for name, shape in (("x", [2, 8, 16, 16]), ("y", None)))
    model = helper.make_model(helper.make_graph(nodes, "g", [inputs], [outputs], values), opset_imports=[helper.make_opsetid("", 18)])
    x = dice.normal(size=(2, 8, 16, 16)).astype(np.float32)
    fusion = irs.fuse(irs.load(model, x))
    run = irs.compile(fusion)
    assert {"exported", "channels-last"} <= {remark.rule for remark in run.remarks if remark.kind == "passed"}
    np.testing.assert_allclose(run(x), irs.compile(fusion, freeze=False)(x), rtol=1e-4, atol=1e-5)
