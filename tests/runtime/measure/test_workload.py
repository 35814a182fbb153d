"""Bytes that a program must move, each once, and the arithmetic that it makes."""

from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.runtime.arrays import NumpyLibrary, TorchLibrary
from irscope.runtime.measure.workload import workload
from tests.programs import ir

TRAINED = ("trained products", "trained convolutions", "trained transposed")


def found(text: str, *args: Any) -> Any:
    return workload(irs.parse(text), NumpyLibrary(), {}, args)


def test_inputs_and_results_are_moved_once_however_often_they_are_read():
    text = ir("x y unused | a = mul x x; b = mul a y; c = mul b x | c a")
    x = np.ones((50, 20), np.float32)
    work = found(text, x, np.ones(20, np.float32), x)
    assert work.bytes == 4 * (1000 + 20 + 2 * 1000) and work.flops == 3 * 1000


def test_a_broadcast_operand_is_as_large_as_its_memory():
    text = "graph(%x : Tensor):\n  %y : Tensor = aten::neg(%x)\n  return (%y)"
    work = found(text, np.broadcast_to(np.ones(8, np.float64), (100, 8)))
    assert work.bytes == 8 * 8 + 8 * 800


def test_of_an_input_that_views_show_what_they_touch_is_read():
    x, table, rows = np.arange(60.0).reshape(6, 10), np.ones((1000, 4), np.float32), np.array([1, 5, 1])
    numbers = "i0 = 0; i1 = 1; i2 = 2; i3 = 3; i5 = 5; i8 = 8; no = False;"
    for program, read, made in (
        ("a = select x i0 i2; c = neg a | c", 80, 80), ("a = slice x i1 i0 i8 i2; c = neg a | c", 8 * 24, 8 * 24),
        ("a = slice x i0 i0 i3 i1; b = slice x i0 i2 i5 i1; c = mul a b | c", 8 * 50, 8 * 30), ("a = select x i0 i2 | a x", 0, 0),
        ("a = t x; b = select a i0 i3; c = neg b; d = sum x | c d", 8 * 60, 8 * 7), ("b = select x i0 i2; c = add_ b b i1 | c", 80, 80),
        ("c = neg x; d = t c | c d c x", 480, 480), ("b = select x i0 i2; c = add_ b b i1 | x", 80, 80),
        ("b:Tensor[] = unbind x i0; u v w p q r = ListUnpack b; c = mul u w | c", 160, 80),
    ):  # fmt: skip
        for given in (x, x[::-1], x[:, ::-1]):
            assert found(ir(f"x | {numbers} {program}"), given.copy() if "add_" in program else given).bytes == read + made, program
    assert found(ir(f"t i | {numbers} c = embedding t i i0 no no | c"), table, rows).bytes == 4 * 12 + 8 * 3 + 4 * 12


def test_loops_count_as_often_as_they_turn():
    text = ir("x n:int | go = True; y = Loop n go x {i:int z | w = mul z z | go w} | y")
    assert found(text, np.ones(100, np.float32), 7).flops == 700


def test_products_and_convolutions():
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 5, groups=1), torch.nn.Flatten(), torch.nn.Linear(8 * 4 * 4, 10))
    x = torch.rand(2, 3, 8, 8)
    graph = irs.load(model, x)
    work = workload(graph, TorchLibrary(), dict(graph.bound), [x])
    convolution, product = 2 * (2 * 8 * 4 * 4) * (3 * 5 * 5), 2 * (2 * 10) * (8 * 4 * 4)
    assert work.flops == convolution + product
    parameters = sum(parameter.numel() for parameter in model.parameters())
    assert work.bytes == 4 * (x.numel() + parameters + 20)


def _products() -> dict[str, tuple[Any, tuple[Any, ...], int]]:
    """Products, their operands, and the additions and multiplications that torch's counter does not count."""
    torch = pytest.importorskip("torch")
    from torch.nn import Conv2d, ConvTranspose2d, Linear, functional

    x, y, z, image = torch.rand(2, 3, 7), torch.rand(2, 7, 5), torch.rand(3, 5), torch.rand(2, 4, 9, 9)
    a, b, c, v, w = torch.rand(2, 3), torch.rand(3, 4), torch.rand(4, 5), torch.rand(7), torch.rand(3)

    def einsum(equation: str, *given: Any, more: int = 0) -> tuple[Any, tuple[Any, ...], int]:
        return lambda *them: torch.einsum(equation, *them), given, more

    return {
        "addmm": (torch.addmm, (z, x[0], y[0]), 0),
        "baddbmm": (torch.baddbmm, (z.expand(2, 3, 5), x, y), 0),
        "addbmm": (torch.addbmm, (z, x, y), 2 * 2 * 3 * 7 * 5),
        "addmv": (torch.addmv, (w, x[0], v), 2 * 3 * 7),
        "dot": (torch.dot, (v, v), 2 * 7),
        "vdot": (torch.vdot, (v, v), 2 * 7),
        "vecdot": (torch.linalg.vecdot, (x, v), 2 * 6 * 7),
        "inner": (torch.inner, (x, x[0]), 0),
        "inner of vectors": (torch.inner, (v, v), 2 * 7),
        "ger": (torch.ger, (v, w), 7 * 3),
        "kron": (torch.kron, (a, b), 6 * 12),
        "tensordot": (lambda a, b: torch.tensordot(a, b, ([1], [0])), (x, z), 0),
        "chain": (lambda *them: torch.linalg.multi_dot(them), (torch.rand(10, 2), a, b, c), 0),
        "chain of vectors": (lambda *them: torch.linalg.multi_dot(them), (a[0], b, c[:, 0]), 0),
        "einsum": einsum("bij, bjk -> bik", x, y),
        "einsum with an ellipsis": einsum("...ij,...jk->...ik", x[0], y),
        "einsum of three": einsum("ij,jk,kl->il", a, b, c),
        "einsum of four, in another order": einsum("ij,kl,jk,lm->im", a, c, b, torch.rand(5, 6)),
        "einsum that sums first": einsum("ijk, jl -> il", x, z, more=2 * 3 * 7),
        "einsum of sums": einsum("bn,bm->b", a, torch.rand(2, 5), more=2 * 3 + 2 * 5 + 2),
        "einsum of products": einsum("ij,ij->ij", a, a, more=6),
        "einsum of a diagonal": einsum("ii,ij->j", x[0, :, :3], z),
        "einsum of one": einsum("ij->i", a, more=6),
        "attention of groups": (
            lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, enable_gqa=True),
            (torch.rand(2, 8, 10, 16), torch.rand(2, 2, 12, 16), torch.rand(2, 2, 12, 6)), 2 * 8 * 10 * 12 * 25,
        ),
        "grouped": (lambda a, b: functional.conv2d(a, b, groups=2, stride=2), (image, torch.rand(6, 2, 3, 3)), 0),
        "transposed": (lambda a, b: functional.conv_transpose2d(a, b, stride=2, groups=2), (image, torch.rand(4, 3, 3, 3)), 0),
        "trained products": (Linear(7, 5), (x,), 0),
        "trained convolutions": (torch.nn.Sequential(Conv2d(4, 6, 3), Conv2d(6, 4, 3, stride=2)), (image,), 0),
        "trained transposed": (ConvTranspose2d(4, 6, 3, stride=2), (image,), 0),
    }  # fmt: skip


def test_products_count_as_torch_counts_them_which_leaves_out_additions(torch: Any) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    for name, (function, args, left_out) in _products().items():
        with FlopCounterMode(display=False) as torchs, torch.set_grad_enabled(name in TRAINED):
            made = function(*args)
            if name in TRAINED:
                made.sum().backward()
        g = irs.load(function, *args, backward=True, loss=torch.sum) if name in TRAINED else irs.load(function, *args)
        work = workload(g, TorchLibrary(), dict(g.bound), args)
        additions = work.flops - torchs.get_total_flops() - left_out
        assert 0 <= additions <= (4 * made.numel() if name in TRAINED else 0), name
        assert work.uncounted == ()
    g = irs.load(torch.cdist, args[0][0, 0], args[0][0, 0])
    assert workload(g, TorchLibrary(), {}, (args[0][0, 0],) * 2).uncounted == ("aten::cdist",)


@pytest.mark.filterwarnings("ignore:The tensor attributes")  # torch.export's, of recurrent layers
def test_windows_count_with_their_overlaps_and_recurrent_layers_as_their_products(torch: Any) -> None:
    from torch.nn import functional
    from torch.utils.flop_counter import FlopCounterMode

    def flops(function: Any, *args: Any) -> int:
        g = irs.load(function, *args)
        return workload(g, TorchLibrary(), dict(g.bound), args).flops

    image, x = torch.rand(2, 4, 9, 9), torch.rand(5, 3, 7)
    for pool in (functional.avg_pool2d, functional.max_pool2d):
        assert flops(lambda a, pool=pool: pool(a, 3, 1), image) == functional.unfold(image, 3).numel()
    for layer in (torch.nn.RNN(7, 4, 2), torch.nn.GRU(7, 4), torch.nn.LSTM(7, 4, bidirectional=True), torch.nn.LSTM(7, 4, proj_size=2)):
        with FlopCounterMode(display=False) as torchs:
            for weight in layer.parameters():
                functional.linear(torch.rand(15, weight.shape[-1]), weight) if weight.ndim == 2 else None
        assert flops(layer, x) == torchs.get_total_flops(), layer
