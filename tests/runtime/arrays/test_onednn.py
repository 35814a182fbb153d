"""Large products by oneDNN against float64, where torch keeps its own, and exact ops of arrays that torch computes."""

import numpy as np
import pytest

import irscope as irs
from irscope.runtime.arrays import onednn

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this torch has no oneDNN")

PRODUCTS = {
    "linear": lambda x, w, b: torch.nn.functional.linear(x, w, b),
    "linear of a view": lambda x, w, b: torch.nn.functional.linear(x.t().contiguous().t(), w),
    "matmul of three axes": lambda x, w, b: x.view(4, 16, 128) @ w.t(),
    "mm": lambda x, w, b: torch.mm(x, w.t()) + 1,
    "addmm": lambda x, w, b: torch.addmm(b, x, w.t()),
    "addmm with factors": lambda x, w, b: torch.addmm(b, x, w.t(), beta=2, alpha=0.5),
    "addmm of a column": lambda x, w, b: torch.addmm(x[:, :1], x, w.t()),
    "linear of part of a bias": lambda x, w, b: torch.nn.functional.linear(x, w, torch.cat([b, b])[::2]),
    "linear of one bias": lambda x, w, b: torch.nn.functional.linear(x, w, b[:1]),
}


@pytest.fixture
def quicker(monkeypatch):
    monkeypatch.setattr(onednn, "_is_quicker", lambda: True)


def operands():
    torch.manual_seed(0)
    return torch.randn(64, 128), torch.randn(256, 128), torch.randn(256)


@pytest.mark.parametrize("name", PRODUCTS)
def test_large_products_are_as_exact_as_torchs(name, quicker):
    given = operands()
    graph = irs.load(PRODUCTS[name], *given)
    run = irs.compile(irs.fuse(graph))
    exact = PRODUCTS[name](*[each.double() for each in given])
    made, torchs = run(*given), PRODUCTS[name](*given)
    assert (made.stride(), made.dtype) == (torchs.stride(), torchs.dtype)
    assert (made - exact).abs().max() <= 4 * (torchs - exact).abs().max() + 1e-6 * exact.abs().max()
    assert [remark.rule for remark in run.remarks] == ["onednn"]
    arrays = run(*[each.numpy() for each in given])
    assert isinstance(arrays, np.ndarray)
    np.testing.assert_allclose(arrays, made, rtol=1e-5, atol=1e-4)


def test_what_stays_torchs(quicker):
    x, w, b = operands()
    graph = irs.load(PRODUCTS["linear"], x, w, b)
    expected = torch.nn.functional.linear(x, w, b)
    for run in (irs.compile(graph, exact="torch"), irs.runtime.program.compile_graph(graph, use_kernels=False)):
        assert torch.equal(run(x, w, b), expected) and not run.remarks
    for few in (x[:4], x[:, :16].contiguous()):  # few rows, few multiplications
        small = w[:, : few.shape[1]].contiguous()
        run = irs.compile(irs.load(PRODUCTS["linear"], few, small, b))
        assert torch.equal(run(few, small, b), torch.nn.functional.linear(few, small, b)) and not run.remarks


SPECIAL = [0.0, -0.0, 1.0, -1.5, 0.3, -9.0, 3e38, -3e38, 1e-45, -1e-45, float("inf"), float("-inf"), float("nan")]


CLOSE = ["sigmoid", "tanh", "erf", "silu", "gelu", "hardswish"]


@pytest.mark.parametrize("op", [*"neg abs sqrt relu clamp add sub mul div minimum maximum leaky_relu".split(), *CLOSE])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_torch_computes_some_ops_of_arrays_as_numpy_does(op, dtype):
    rows, columns = np.meshgrid(np.array(SPECIAL * 3, dtype), np.array(SPECIAL * 3, dtype))
    extra = dict.fromkeys(("mul", "div", "minimum", "maximum"), ", %y") | dict.fromkeys(("add", "sub"), ", %y, %one")
    extra |= {"clamp": ", %low, %high", "leaky_relu": ", %slope", "gelu": ", %none"}
    kind = "Float" if dtype == np.float32 else "Double"
    shape = f"{kind}(39, 39, strides=[39, 1])"
    graph = irs.parse(f"""graph(%x : {shape}, %y : {shape}, %w : {shape}):
      %one : int = prim::Constant[value=1]()
      %low : float = prim::Constant[value=-1.1]()
      %high : float = prim::Constant[value=6.]()
      %slope : float = prim::Constant[value=0.7]()
      %none : str = prim::Constant[value="none"]()
      %a : Tensor = aten::{op}(%x{extra.get(op, "")})
      %b : Tensor = aten::mm(%w, %w)
      return (%a, %b)""")
    run, weights = irs.compile(graph), np.eye(39, dtype=dtype)
    assert run.library(rows, columns, weights) == "torch"
    with np.errstate(all="ignore"):
        (made, _), (expected, _) = run(rows, columns, weights), irs.compile(graph, device="reference")(rows, columns, weights)
    np.testing.assert_allclose(made, expected, rtol=2e-6 if op in CLOSE else 0, atol=1e-30 if op in CLOSE else 0)
    both = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(made)[both], np.signbit(expected)[both])
