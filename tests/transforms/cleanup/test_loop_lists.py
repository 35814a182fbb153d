"""Lists that a loop fills as tables: the same numbers as torch's, and a list wherever a table would show."""

import random
from typing import Any

import pytest

import irscope as irs
from irscope.transforms.cleanup import tables_of_lists
from tests.programs import ir

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


@pytest.mark.parametrize("seed", range(15))
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
