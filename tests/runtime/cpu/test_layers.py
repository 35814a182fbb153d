"""Convolutions and products by kernels of our own against float64, at the end of memory, on threads, and what stays the library's."""

import random
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import irscope as irs
from irscope.analysis.layers import layer_of
from irscope.runtime.cpu import CpuDevice, prepared_layer
from irscope.runtime.program import bound_program, compile_graph, groups
from tests.codegen.llvm.test_reductions import at_the_edge
from tests.work import some

pytest.importorskip("llvmlite")
torch = pytest.importorskip("torch")
functional = torch.nn.functional


@pytest.fixture(autouse=True)
def always(monkeypatch):
    monkeypatch.setattr(bound_program, "library_seconds", lambda layer: 1.0)


def named(run):
    return [remark.rule for remark in run.remarks]


def checked(model, *given, **options):
    """Runs a model, of which something has a kernel, on tensors and on arrays; returns the program."""
    run = compile_graph(irs.fuse(irs.load(model, *given)), **options)
    assert "layer" in named(run)
    with torch.no_grad():
        torchs = model(*given)
        exact = model.double()(*[each.double() for each in given])
        model.float()
        plans = []
        with patch.object(groups, "prepared_layer", lambda *given: plans.append(prepared_layer(*given)) or plans[-1]):
            found = run(*given), torch.as_tensor(run(*[each.numpy() for each in given]))
        held = irs.memory_plan(run).laid_out
        assert {sum(array.nbytes for array in plan.held) for plan in plans if plan is not None} <= set(held.values())
        for made in found:
            assert (made.stride(), made.dtype) == (torchs.stride(), torchs.dtype)
            assert (made - exact).abs().max() <= 4 * (torchs - exact).abs().max() + 1e-6 * exact.abs().max()
    return run


def convolution(seed, *, planes=False):
    """A convolution of random extents, of which the result has elements, and its operand, laid out channels last or in planes."""
    draw = random.Random(seed)
    space = draw.choice([1, 1, 2, 3] if planes else [2, 2, 2, 3])
    groups = draw.choice([1, 1, 2, 3, 24])
    read = draw.choice([1, 2, 3, 5, 16]) if groups < 24 else draw.choice([1, 1, 2])
    made = draw.choice([1, 2, 7, 16, 17, 40, 100]) if groups < 24 else draw.choice([1, 1, 2])
    window = [(draw.randint(1, 3), draw.randint(1, 3), draw.randint(0, 3), draw.randint(1, 2)) for _ in range(space)]
    taps, steps, margins, gaps = map(list, zip(*window, strict=True))
    sizes = [max(draw.randint(1, 9), gap * (tap - 1) + 1 - 2 * margin) for tap, _, margin, gap in window]
    kind = {1: torch.nn.Conv1d, 2: torch.nn.Conv2d, 3: torch.nn.Conv3d}[space]
    torch.manual_seed(seed)
    model = kind(groups * read, groups * made, taps, steps, margins, gaps, groups, bias=draw.random() < 0.7)
    last = torch.contiguous_format if planes else torch.channels_last if space == 2 else torch.channels_last_3d
    return model.eval(), torch.randn(draw.randint(1, 3), groups * read, *sizes).contiguous(memory_format=last)


@pytest.mark.parametrize("seed", some(range(30), 10))
def test_convolutions_of_random_extents(seed):
    model, x = convolution(seed)
    result = model(x)
    if not result.is_contiguous(memory_format=torch.channels_last if result.dim() == 4 else torch.channels_last_3d):
        pytest.skip("torch makes this one plane by plane")
    checked(model, x)


@pytest.mark.parametrize("seed", some(range(20), 8))
def test_convolutions_in_planes(seed):
    model, x = convolution(seed, planes=True)
    if not model(x).is_contiguous() or (model.groups > 1 and model.in_channels == model.groups == model.out_channels and x.stride(1) > 1):
        pytest.skip("torch makes this one channels last, or each channel has its own window, of which vectors are read")
    checked(model, x)


PRODUCTS = {
    "linear": lambda x, w, b: functional.linear(x, w, b), "linear without bias": lambda x, w, b: functional.linear(x, w),
    "mm": lambda x, w, b: torch.mm(x, w), "addmm": lambda x, w, b: torch.addmm(b, x, w),
    "matmul": lambda x, w, b: torch.matmul(x.view(x.shape[0], 1, x.shape[1]), w),
}  # fmt: skip


class Product(torch.nn.Module):
    def __init__(self, function, rows, columns, made):
        super().__init__()
        self.function = function
        self.w, self.b = torch.nn.Parameter(torch.randn(rows, columns)), torch.nn.Parameter(torch.randn(made))

    def forward(self, x):
        return self.function(x, self.w, self.b)


@pytest.mark.parametrize(("name", "extents"), list(product(PRODUCTS, [(1, 1, 1), (3, 40, 7), (33, 64, 96), (7, 10, 16)])))
def test_products(name, extents):
    points, read, made = extents
    torch.manual_seed(0)
    model = Product(PRODUCTS[name], *((made, read) if "linear" in name else (read, made)), made)
    checked(model, torch.randn(points, read))


def test_an_operand_of_other_strides():
    model = torch.nn.Conv2d(20, 20, 3, padding=1, groups=20).eval()
    whole = torch.full((2, 24, 9, 9), torch.nan).contiguous(memory_format=torch.channels_last)
    part = whole[:, 2:22, 1:8, 2:7]
    part.copy_(torch.randn(part.shape))
    checked(model, part)
    checked(torch.nn.Linear(5, 9), torch.randn(4, 10)[:, ::2])


@torch.no_grad()
def test_channels_apart_are_not_read_as_vectors():
    model = torch.nn.Conv2d(6, 6, 3, groups=6).eval()
    apart = torch.randn(2, 9, 9, 12).permute(0, 3, 1, 2)[:, ::2]
    run = irs.compile(irs.load(model, apart))
    torch.testing.assert_close(run(apart), model(apart), rtol=1e-4, atol=1e-5)
    checked(torch.nn.Conv2d(6, 6, 3, groups=2).eval(), apart)


def constant(graph, value):
    return graph.bound.get(value, irs.ir.constant_of(graph, value))


def test_nothing_is_read_or_written_beyond_the_tensors():
    """The operand ends where a protected page begins."""
    kept: list[Any] = []
    for seed, planes in product(range(12), [False, True]):
        model, x = convolution(seed, planes=planes)
        graph = irs.Pipeline("fold-constants")(irs.load(model, x)).graph
        node = next(node for node in graph.nodes() if "conv" in node.op)
        layer = layer_of(node, partial(constant, graph))
        if layer is None:
            continue
        tensors = [model.weight.detach().numpy(), None if model.bias is None else model.bias.detach().numpy()]
        plan = prepared_layer(CpuDevice(threads=1), layer, [layer.x.type], tensors)
        order = tuple(range(x.dim())) if planes else (0, *range(2, x.dim()), 1)
        held = np.ascontiguousarray(x.permute(order).numpy())
        edge = at_the_edge(held.nbytes, kept, first=False)
        edge[...] = held.reshape(-1).view(np.uint8)
        order = tuple(range(x.dim())) if layer.has_planes else (0, *range(2, x.dim()), 1)
        expected = model(x).detach().permute(order).contiguous().numpy()
        made = np.full(expected.size + 64, 7, np.float32)
        plan([made.ctypes.data + 128], [edge.ctypes.data])
        np.testing.assert_allclose(made[32 : 32 + expected.size].reshape(expected.shape), expected, rtol=1e-4, atol=1e-4)
        assert set(made[:32]) | set(made[32 + expected.size :]) == {7}


def small():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(8, 24, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(24, 24, 3, groups=24)).eval()
    return model, torch.randn(2, 8, 9, 9).contiguous(memory_format=torch.channels_last)


@torch.no_grad()
def test_parts_on_threads_are_the_whole(monkeypatch):
    model, x = small()
    one = compile_graph(irs.load(model, x), threads=1)(x)
    monkeypatch.setattr(CpuDevice, "parts", lambda self, seconds: 2)
    assert torch.equal(compile_graph(irs.load(model, x), threads=2)(x), one)


@torch.no_grad()
def test_weights_that_are_written_or_exchanged_are_laid_out_again():
    model, x = small()
    run = irs.compile(irs.fuse(irs.load(model, x)))
    for write in (
        lambda w: w.mul_(2), lambda w: w[:, 0].zero_(), lambda w: setattr(w, "data", torch.randn_like(w)), lambda w: w.data.mul_(2),
        lambda w: w.detach().numpy().fill(0.5),
    ):  # fmt: skip
        for tensor in (model[0].weight, model[2].bias):
            run(x)
            write(tensor if tensor.dim() > 1 else tensor[None])
            torch.testing.assert_close(run(x), model(x), rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_what_is_not_finite_stays_so():
    model, x = small()
    run = irs.compile(irs.fuse(irs.load(model, x)))
    for value in (float("nan"), float("inf"), float("-inf")):
        x[0, 1, 4, 4] = value
        made, torchs = run(x), model(x)
        assert torch.equal(made.isnan(), torchs.isnan()) and torch.equal(made.isinf(), torchs.isinf())


@torch.no_grad()
@pytest.mark.parametrize("kind", ["Conv1d", "Conv2d"])
def test_infinite_weights_times_the_zeros_of_a_margin_are_left_out(kind):
    model = getattr(torch.nn, kind)(8, 16, 3, padding=1).eval()
    x = torch.rand(2, 8, *[6] * (int(kind[-2]))) + 1
    run = irs.compile(irs.fuse(irs.load(model, x)))
    assert torch.allclose(run(x), model(x), atol=1e-5)
    model.weight.view(16, 8, -1)[0, 0, 0] = torch.inf
    for _ in range(2):
        torch.testing.assert_close(run(x), model(x), equal_nan=True)


@torch.no_grad()
def test_what_stays_the_librarys(monkeypatch):
    model, x = small()
    graph = irs.load(model, x)
    for run in (compile_graph(graph, exact="torch"), compile_graph(graph, layers=False), compile_graph(graph, use_kernels=False)):
        assert "layer" not in named(run)
        assert torch.equal(run(x), model(x))
    given = lambda x, w: functional.conv2d(x, w)  # noqa: E731
    written = lambda x: functional.linear(x, torch.ones(4, 4).mul_(2))  # noqa: E731
    wide = torch.nn.Linear(4, 4).double()
    others = (given, (x, model[0].weight)), (wide, (torch.randn(4, 4).double(),)), (written, (x[0, 0, :4, :4],))
    for function, operands in others:
        run = irs.compile(irs.load(function, *operands))
        assert "layer" not in named(run)
        torch.testing.assert_close(run(*operands), function(*operands))
    monkeypatch.setattr(bound_program, "library_seconds", lambda layer: 0.0)
    assert "layer" not in named(irs.compile(graph))


@torch.no_grad()
def test_arrays_without_torch(monkeypatch):
    model, x = small()
    model.requires_grad_(False)
    graph = irs.load(model, x)
    fixed = {}
    for value, held in graph.bound.items():
        fixed[value] = held.numpy().copy()
        fixed[value].flags.writeable = False
    monkeypatch.setattr("irscope.runtime.program.executable.torch_is_there", lambda: False)
    run = irs.compile(irs.fuse(replace(graph, bound=fixed)))
    assert run.library(x.numpy()) == "numpy"
    assert named(run).count("layer") == 2
    np.testing.assert_allclose(run(x.numpy()), model(x), rtol=1e-4, atol=1e-5)
