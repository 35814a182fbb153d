"""Lists that a loop fills as tables: the same numbers as torch's, and a list wherever a table would show."""

import random
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.transforms.cleanup import expand_loop_products, expand_recurrent, tables_of_lists
from tests.programs import ir
from tests.work import some

torch = pytest.importorskip("torch")


TEXT = ir(
    "x go:bool | t = True; n = 7; axis = 0; one = 1; list:Tensor[] = ListConstruct; y = Loop n t x {i:int a | b = tanh a; "
    "s:Float(4, strides=[1], device=cpu) = select a axis one; c = add b s one; same:Tensor[] = append list c | t b}; count:int = len list; "
    "all:Tensor = stack list axis | all y count",
    "Float(3, 4, strides=[4, 1], device=cpu)",
)


def outcome(run: Any, x: Any) -> tuple[Any, Any, int]:
    with torch.no_grad():
        return run(x.clone(), True)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2])
def test_a_table_has_the_rows_of_the_list(axis: int) -> None:
    text = TEXT.replace("%axis : int = prim::Constant[value=0]", f"%axis : int = prim::Constant[value={axis}]")
    text = text.replace("aten::select(%a, %axis, %one)", "aten::select(%a, %zero, %one)").replace(
        "%one : int", "%zero : int = prim::Constant[value=0]()\n  %one : int", 1)  # fmt: skip
    graph, x = irs.parse(text), torch.rand(3, 4)
    of_three = text.replace("return (", "%r : (Tensor, Tensor, int) = prim::TupleConstruct(").replace("%count)", "%count)\n  return (%r)")
    theirs = torch._C._create_function_from_graph("f", torch._C.parse_ir(of_three))
    fused = irs.fuse(graph)
    assert not any(node.op in ("aten::append", "aten::stack") for node in fused.graph.nodes())
    compiled = irs.compile(fused)
    assert any(remark.kind == "passed" and remark.rule == "native-loop" for remark in compiled.remarks)
    for run in (irs.compile(graph), irs.compile(tables_of_lists(graph).after), compiled):
        for ours, other in zip(outcome(run, x), outcome(theirs, x), strict=True):
            assert ours == other if isinstance(ours, int) else torch.allclose(ours, other, atol=1e-6)
            assert isinstance(ours, int) or ours.stride() == other.stride()


@pytest.mark.parametrize(("old", "new"), [
    ("%n : int = prim::Constant[value=7]()", "%n : int = aten::Int(%x)"),  # turns that only a run knows
    ("%n : int = prim::Constant[value=7]()", "%n : int = prim::Constant[value=0]()"),  # torch stacks no empty list
    ("-> (%t, %b)", "-> (%go, %b)"),  # may end early
    ("prim::Loop(%n, %t, %x)", "prim::Loop(%n, %go, %x)"),
    ("%list : Tensor[] = prim::ListConstruct()", "%list : Tensor[] = prim::ListConstruct(%x)"),
    ("-> (%t, %b)", "%more : Tensor[] = aten::append(%list, %b)\n      -> (%t, %b)"),
    ("-> (%t, %b)", "%z : Tensor = aten::cumsum(%b, %axis, %none)\n      -> (%t, %b)"),
    ("%count : int = aten::len(%list)", "%count : int = aten::len(%list)\n  %again : Tensor = aten::stack(%list, %one)"),
    ("return (%all", "return (%list, %all"),
    ("%count :", "%first : Tensor = aten::__getitem__(%list, %axis)\n  %w : Tensor = aten::relu_(%first)\n  %count :"),
    ("%c : Float(3, 4, strides=[4, 1], device=cpu) =", "%c : Tensor(dtype=float32) ="),
])  # fmt: skip
def test_not_where_a_table_would_show(old: str, new: str) -> None:
    assert old in TEXT
    text = TEXT.replace(old, new)
    if "%none" in text:
        text = text.replace("%one : int", "%none : NoneType = prim::Constant()\n  %one : int", 1)
    if "dtype=" in text:
        text = text.replace("%c : Tensor(dtype=float32)", "%c : Tensor").replace("Float(4, strides=[1], device=cpu)", "Tensor").replace(
            "aten::select(%a, %axis, %one)", "aten::nonzero(%a)")  # fmt: skip
    graph = irs.parse(text)
    assert tables_of_lists(graph).after is graph


def test_a_scan_of_onnx_and_its_scan_outputs_run_in_machine_code() -> None:
    pytest.importorskip("onnx")
    from onnx import TensorProto, helper

    info = helper.make_tensor_value_info
    state, step = info("h", TensorProto.FLOAT, [4]), info("x", TensorProto.FLOAT, [4])
    nodes = (("Add", ["h", "x"], ["sum"]), ("Tanh", ["sum"], ["next"]), ("Neg", ["next"], ["out"]))
    results = [info("next", TensorProto.FLOAT, [4]), info("out", TensorProto.FLOAT, [4])]
    body = helper.make_graph([helper.make_node(*node) for node in nodes], "body", [state, step], results)
    scan = helper.make_node("Scan", ["start", "xs"], ["end", "all"], num_scan_inputs=1, body=body)
    model = helper.make_model(helper.make_graph(
        [scan], "g", [info("start", TensorProto.FLOAT, [4]), info("xs", TensorProto.FLOAT, [20, 4])],
        [info("end", TensorProto.FLOAT, [4]), info("all", TensorProto.FLOAT, [20, 4])],
    ), opset_imports=[helper.make_opsetid("", 18)])  # fmt: skip
    start, xs = torch.rand(4), torch.rand(20, 4)
    run = irs.compile(irs.fuse(irs.load(model)))
    assert any(remark.kind == "passed" and remark.rule == "native-loop" for remark in run.remarks)
    end, every = run(start, xs)
    h, rows = start, []
    for x in xs:
        h = torch.tanh(h + x)
        rows.append(-h)
    assert torch.allclose(end, h, atol=1e-6) and torch.allclose(every, torch.stack(rows), atol=1e-6)


@pytest.mark.parametrize("axis", [0, 1, 4])
@pytest.mark.parametrize("steps", [(60, 1, 12, 3), (60, 20, 4, 1)])
def test_images_are_stacked_as_torch_lays_them_out(steps: tuple[int, ...], axis: int) -> None:
    half = "%s : float = prim::Constant[value=0.5]()"
    text = TEXT.replace("%s : Float(4, strides=[1], device=cpu) = aten::select(%a, %axis, %one)", half)
    text = text.replace("Float(3, 4, strides=[4, 1], device=cpu)", f"Float(2, 3, 5, 4, strides={list(steps)}, device=cpu)")
    text = text.replace("%axis : int = prim::Constant[value=0]", f"%axis : int = prim::Constant[value={axis}]")
    x = torch.empty_strided((2, 3, 5, 4), steps).uniform_()
    found = outcome(irs.compile(irs.fuse(irs.parse(text))), x)[0]
    rows = []
    for _ in range(7):
        rows.append(torch.tanh(x) + 0.5)
        x = torch.tanh(x)
    wanted = torch.stack(rows, axis)
    assert torch.allclose(found, wanted, atol=1e-6) and found.stride() == wanted.stride()


def test_volumes_are_stacked_as_torch_lays_them_out() -> None:
    def volumes(x: torch.Tensor) -> torch.Tensor:
        out: list[torch.Tensor] = []
        for _ in range(8):
            x = torch.tanh(x)
            out.append(x)
        return torch.stack(out)

    x = torch.randn(2, 3, 4, 5, 6).to(memory_format=torch.channels_last_3d)
    found, wanted = irs.compile(irs.fuse(irs.load(torch.jit.script(volumes), x)))(x), volumes(x)
    assert found.stride() == wanted.stride() and torch.allclose(found, wanted, atol=1e-6)


def random_script(seed: int) -> str:
    """A script of loops that fill lists, read them and write what they hold, on whole numbers: each right result has the same bits."""
    draw = random.Random(seed)
    values = ["a + b", "torch.maximum(a, b)", "-a", "a * b", "a", "b[1] + a", "torch.relu(b)"]
    others = ["a = b - a", "b = a", "a = a * 3", "b = torch.maximum(b, a)"]
    if seed % 3:
        others += ["b = p[-1]", "p[0] = a", "b = a + p[0]", "a = a + len(p)"]
    if seed % 3 == 2:
        others += ["a.add_(1)", "b[0] = a[1]", "p[-1].neg_()"]
    lines = ["def f(a: Tensor, b: Tensor, n: int):"]
    for bound in draw.sample(["9", "6", "1", "n", "n + 7"] if seed % 3 else ["9", "6", "7"], 2):
        lines += ["    p: List[Tensor] = []", f"    for i in range({bound}):", f"        p.append({draw.choice(values)})"]
        lines += [f"        {line}" for line in draw.sample(others, draw.randint(1, 2))]
        lines.append(f"    b = b + torch.stack(p, {draw.choice((0, 1, 2))}).sum() + len(p)")
    return "\n".join([*lines, "    return a, b\n"])


@pytest.mark.parametrize("seed", some(range(15), 8))
def test_random_scripts_with_lists_have_the_bits_of_torch(seed: int) -> None:
    text, space = random_script(seed), {"torch": torch, "Tensor": torch.Tensor, "List": list}
    exec(text, space)  # torch op by op: its compiler of scripts loses a write to a list's tensor from the second call on (2.13)
    eager: Any = space["f"]
    a, b = (torch.randint(-9, 9, (2, 3), generator=torch.Generator().manual_seed(seed + place)) for place in (0, 50))
    ours = irs.compile(irs.fuse(irs.load(torch.jit.CompilationUnit(text).f, a.clone(), b.clone(), 5)))
    for turns in (5, 0, 1):
        before, after = (a.clone(), b.clone()), (a.clone(), b.clone())
        try:
            wanted = eager(*before, turns)
        except RuntimeError:  # torch stacks no empty list
            with pytest.raises(irs.IrscopeError):
                ours(*after, turns)
            continue
        for found, other in zip((*ours(*after, turns), *after), (*wanted, *before), strict=True):
            assert torch.equal(found, other)


# --- Small recurrent layers become loops, and small matrix products in loops sums: with torch's numbers, but for the rounding of a sum.

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
    "LSTM": ("LSTM", {}, torch.float32), "LSTM without biases": ("LSTM", {"bias": False, "bidirectional": True}, torch.float32),
    "LSTM both ways": ("LSTM", {"num_layers": 2, "bidirectional": True, "batch_first": True}, torch.float64),
    "RNN of relu": ("RNN", {"nonlinearity": "relu", "num_layers": 2, "batch_first": True}, torch.float64),
}  # fmt: skip


def layer(name, batch=3, steps=13):
    kind, options, dtype = LAYERS[name]
    torch.manual_seed(0)
    model = getattr(torch.nn, kind)(5, 6, **options).eval().to(dtype)
    states = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    x = torch.randn(*((batch, steps) if options.get("batch_first") else (steps, batch)), 5, dtype=dtype)
    start = [torch.randn(states, batch, 6, dtype=dtype) for _ in range(2 if kind == "LSTM" else 1)]
    return model, (x, tuple(start) if kind == "LSTM" else start[0])


@exported
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("batch", [1, 3])
def test_a_recurrent_layer_in_loops_has_torchs_numbers(name, batch):
    model, given = layer(name, batch)
    graph = irs.load(model, *given)
    run = irs.compile(irs.fuse(graph))
    assert {remark.kind for remark in run.remarks if remark.rule == "native-loop"} == {"passed"}
    layers = {"aten::gru", "aten::lstm", "aten::rnn_tanh", "aten::rnn_relu"}
    assert not layers.isdisjoint(node.op for node in irs.fuse(graph, exact="torch").graph.nodes())
    with torch.no_grad():
        wanted = torch.utils._pytree.tree_leaves(model(*given))
        for made in (run(*given), irs.compile(expand_recurrent(graph).after)(*given), run(*given)):
            for found, other in zip(made, wanted, strict=True):
                assert torch.allclose(found, other, rtol=1e-5, atol=1e-6) and found.stride() == other.stride()


@exported
@pytest.mark.parametrize(("change", "because"), [
    (lambda: (torch.nn.GRU(5, 200), (torch.rand(9, 2, 5),)), "240,000 multiplications"),
    (lambda: (torch.nn.GRU(5, 6), (torch.rand(2, 3, 5),)), "it has 2 steps"),
    (lambda: (torch.nn.GRU(5, 6).half(), (torch.rand(9, 3, 5).half(),)), "it is not of float32"),
    (lambda: (torch.nn.LSTM(5, 64), (torch.rand(9, 3, 5),)), "oneDNN runs"),
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
