"""Small recurrent layers become loops, and small matrix products in loops sums: with torch's numbers, but for the rounding of a sum."""

import numpy as np
import pytest

import irscope as irs
from irscope.transforms.cleanup import expand_loop_products, expand_recurrent

torch = pytest.importorskip("torch")

PRODUCTS = {
    "mm": ((5, 4), (4, 4), ""), "mv": ((4, 4), (4,), ""), "bmm": ((2, 5, 4), (2, 4, 4), ""), "matmul": ((4,), (4, 4), ""),
    "matmul of matrices": ((5, 4), (4, 4), ""), "linear": ((5, 4), (4, 4), ", %bias"), "linear of a vector": ((4,), (4, 4), ", %bias"),
    "linear of three": ((2, 3, 4), (4, 4), ", %nothing"), "addmm": ((5, 4), (4, 4), ", %one, %one"),
}  # fmt: skip


def kind(shape):
    steps = [int(np.prod(shape[place + 1 :])) for place in range(len(shape))]
    return f"Float({', '.join(map(str, shape))}, strides=[{', '.join(map(str, steps))}])"


def program(name, left, right, more):
    """A loop that multiplies what it carries, or where that is a matrix, a vector by it, and squashes the result."""
    op = name.split()[0]
    operands = f"{'%bias, ' if op == 'addmm' else ''}{'%w, %a' if op == 'mv' else '%a, %w'}{more}"
    if op == "mv":
        left, right = right, left
    return (
        f"""graph(%x : {kind(left)}, %w : {kind(right)}, %bias : {kind((4,))}):
  %t : bool = prim::Constant[value=1]()
  %n : int = prim::Constant[value=12]()
  %one : int = prim::Constant[value=1]()
  %nothing : NoneType = prim::Constant()
  %y : {kind(left)} = prim::Loop(%n, %t, %x)
    block0(%i : int, %a : {kind(left)}):
      %p : {kind(left)} = aten::{op}({operands})
      %b : {kind(left)} = aten::tanh(%p)
      -> (%t, %b)
  return (%y)""",
        (left, right, (4,)),
    )


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_in_a_loop_has_torchs_numbers(name):
    text, shapes = program(name, *PRODUCTS[name])
    graph, rng = irs.parse(text), np.random.default_rng(0)
    given = [rng.normal(size=shape).astype(np.float32) * 0.7 for shape in shapes]
    wanted = torch._C._create_function_from_graph("f", torch._C.parse_ir(text))(*map(torch.from_numpy, given))
    run = irs.compile(irs.fuse(graph))
    for make in (np.asarray, torch.from_numpy):
        found = run(*map(make, given))
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=2e-5, atol=2e-5)
    assert [remark.kind for remark in run.remarks if remark.rule == "native-loop"] == ["passed"]
    assert {node.op for node in irs.fuse(graph, exact="torch").graph.nodes()} & {f"aten::{name.split()[0]}"}


def test_a_fusion_made_exact_has_the_products_of_the_library():
    text, shapes = program("mv", *PRODUCTS["mv"])
    graph, rng = irs.parse(text), np.random.default_rng(0)
    given = [torch.from_numpy(rng.normal(size=shape).astype(np.float32)) for shape in shapes]
    wanted = torch._C._create_function_from_graph("f", torch._C.parse_ir(text))(*given)
    assert torch.equal(irs.compile(irs.fuse(graph), exact="torch")(*given), wanted)


def test_batches_that_are_broadcast_stay_a_product():
    text, _ = program("matmul of batches", (1, 5, 4), (3, 4, 4), "")
    text = text.replace(f"%p : {kind((1, 5, 4))}", "%p : Tensor").replace("aten::tanh(%p)", "aten::sum(%p, %dims, %t, %nothing)")
    text = text.replace("  %nothing", "  %dims : int[] = prim::Constant[value=[0]]()\n  %nothing", 1)
    graph = irs.parse(text)
    assert expand_loop_products(graph).after is graph


@pytest.mark.parametrize(("old", "new"), [
    ("Float(5, 4, strides=[4, 1])", "Half(5, 4, strides=[4, 1])"),  # halves are added in float32 by the library
    ("Float(4, 4, strides=[4, 1])", "Float(4, 4, strides=[1, 4])"),  # the sum would be laid out otherwise
    ("Float(4, 4, strides=[4, 1])", "Float(*, 4)"),
    ("aten::tanh(%p)", "aten::bernoulli(%p, %nothing)"),
])  # fmt: skip
def test_others_stay_with_the_library(old, new):
    text, _ = program("mm", *PRODUCTS["mm"])
    assert old in text and not expand_loop_products(irs.parse(text.replace(old, new))).edits


exported = pytest.mark.filterwarnings("ignore:The tensor attributes self._flat_weights")
LAYERS = {
    "GRU": ("GRU", {}, torch.float32),
    "GRU both ways": ("GRU", {"num_layers": 2, "bidirectional": True, "batch_first": True}, torch.float32),
    "GRU of doubles": ("GRU", {"bias": False}, torch.float64), "RNN both ways": ("RNN", {"bidirectional": True}, torch.float32),
    "RNN of relu": ("RNN", {"nonlinearity": "relu", "num_layers": 2, "batch_first": True}, torch.float64),
}  # fmt: skip


def layer(name, batch=3, steps=13):
    kind, options, dtype = LAYERS[name]
    torch.manual_seed(0)
    model = getattr(torch.nn, kind)(5, 6, **options).eval().to(dtype)
    states = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    x = torch.randn(*((batch, steps) if options.get("batch_first") else (steps, batch)), 5, dtype=dtype)
    return model, (x, torch.randn(states, batch, 6, dtype=dtype))


@exported
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("batch", [1, 3])
def test_a_recurrent_layer_in_loops_has_torchs_numbers(name, batch):
    model, given = layer(name, batch)
    graph = irs.load(model, *given)
    run = irs.compile(irs.fuse(graph))
    assert {remark.kind for remark in run.remarks if remark.rule == "native-loop"} == {"passed"}
    assert any(node.op in ("aten::gru", "aten::rnn_tanh", "aten::rnn_relu") for node in irs.fuse(graph, exact="torch").graph.nodes())
    with torch.no_grad():
        wanted = model(*given)
        for made in (run(*given), irs.compile(expand_recurrent(graph).after)(*given), run(*given)):
            for found, other in zip(made, wanted, strict=True):
                assert torch.allclose(found, other, rtol=1e-5, atol=1e-6) and found.stride() == other.stride()


@exported
@pytest.mark.parametrize(("change", "because"), [
    (lambda: (torch.nn.GRU(5, 200), (torch.rand(9, 2, 5),)), "240,000 multiplications"),
    (lambda: (torch.nn.GRU(5, 6), (torch.rand(2, 3, 5),)), "it has 2 steps"),
    (lambda: (torch.nn.GRU(5, 6).half(), (torch.rand(9, 3, 5).half(),)), "it is not of float32"),
    (lambda: (torch.nn.LSTM(5, 6), (torch.rand(9, 3, 5),)), "oneDNN runs"),
])  # fmt: skip
def test_other_recurrent_layers_stay_with_the_library(change, because):
    model, given = change()
    fusion = irs.fuse(irs.load(model.eval(), *given))
    (remark,) = [remark for remark in fusion.remarks if remark.rule == "recurrent"]
    assert remark.kind == "missed" and because in remark.because


@exported
def test_a_wrong_state_or_a_list_that_grows_keeps_the_layer():
    """Torch refuses a state of one row for two, which a loop would take; and a list may have got more weights since it was made."""
    model, given = layer("GRU")
    text = str(irs.load(model, *given))
    assert expand_recurrent(irs.parse(text)).edits
    line = next(line for line in text.splitlines() if "prim::ListConstruct" in line)
    name = line.split(":")[0].strip()
    grown = f"{line}\n  %more : Tensor[] = aten::append({name}, %input)"
    for old, new in (("Float(1, 3, 6, strides=[18, 6, 1]", "Float(1, 1, 6, strides=[6, 6, 1]"), (line, grown)):
        assert old in text and not expand_recurrent(irs.parse(text.replace(old, new))).edits
