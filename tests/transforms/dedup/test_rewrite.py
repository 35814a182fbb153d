"""Programs after `apply` verify, compute the same bits, and have one body or one kernel for each class."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import irscope as irs
from irscope.errors import ArgumentError
from irscope.ir.module import inlined, verify_module
from irscope.ir.text import parse_module, print_module
from irscope.transforms.dedup import RANK, RELATIONS, Relation, dedup
from irscope.transforms.dedup.rewrite import merge_groups
from tests.programs import ir, parsed

SAMPLES = Path(__file__).parent / "samples"
BINARY = ("mul", "sub", "add", "div")
UNARY = ("tanh", "exp", "sin")


class Program:
    """A random function of three tensors with numbers in it, and how another like it is written."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.lines: list[tuple[str, tuple[int, ...], float | None]] = []
        for place in range(rng.randint(2, 6)):
            of = [rng.randrange(3 + place) for _ in range(2)]
            kind = rng.choice(("binary", "unary", "number"))
            if kind == "binary":
                self.lines.append((rng.choice(BINARY), tuple(of), None))
            elif kind == "unary":
                self.lines.append((rng.choice(UNARY), (of[0],), None))
            else:
                self.lines.append((rng.choice(("mul", "add", "sub")), (of[0],), rng.choice((0.5, 0.25, 1.5))))

    def text(self, *, size: int = 5, vary: bool = True, shuffle: bool = True, params: bool = True) -> str:
        """The function with other numbers, exchanged operands, lines and, if wanted, parameters in another order."""
        rng, lines = self.rng, self.lines
        typed = f"Float({size}, strides=[1])"
        inputs = list(range(3))
        if shuffle and params:
            rng.shuffle(inputs)
        order = list(range(len(lines)))
        if shuffle:  # any order in which operands come first
            order, left = [], list(range(len(lines)))
            while left:
                ready = [i for i in left if all(o < 3 or o - 3 in order for o in lines[i][1])]
                order.append(rng.choice(ready))
                left.remove(order[-1])
        out = ["  %one : int = prim::Constant[value=1]()"]
        for i in order:
            op, of, number = lines[i]
            operands = [f"%v{o}" for o in of]
            if op in ("mul", "add") and number is None and rng.random() < 0.5:
                operands.reverse()
            if number is not None:
                value = rng.choice((0.5, 0.25, 1.5)) if vary else number
                out.append(f"  %k{i} : float = prim::Constant[value={value}]()")
                operands.append(f"%k{i}")
            extra = ", %one" if op in ("add", "sub") else ""
            out.append(f"  %v{i + 3} : {typed} = aten::{op}({', '.join(operands)}{extra})")
        head = ", ".join(f"%v{p} : {typed}" for p in inputs)
        return f"graph({head}):\n" + "\n".join(out) + f"\n  return (%v{len(lines) + 2})"


def main(names: list[str], size: int = 5) -> str:
    """A program that calls each function, and adds nothing to what they give."""
    typed = f"Float({size}, strides=[1])"
    calls = [f'  %r{i} : {typed} = func::call[callee="@{name}"](%x, %y, %z)' for i, name in enumerate(names)]
    results = ", ".join(f"%r{i}" for i in range(len(names)))
    return f"graph(%x : {typed}, %y : {typed}, %z : {typed}):\n" + "\n".join(calls) + f"\n  return ({results})"


def module(functions: dict[str, str], *, private: bool) -> irs.Module:
    visibility = "private" if private else "public"
    text = 'module "m" = module::attributes():\nsymbol "main" = func::func[visibility="public"]()\n'
    text += "".join(f'symbol "{name}" = func::func[visibility="{visibility}"]()\n' for name in functions)
    text += "".join(f'graph "{name}":\n{body}\n' for name, body in functions.items())
    return parse_module(f'{text}graph "main":\n{main(list(functions))}\nend\n')


def arguments(seed: int, size: int = 5) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(size).astype(np.float32) for _ in range(3)]


def results(graph: irs.Graph, *args: Any, device: str = "reference") -> list[bytes]:
    with np.errstate(all="ignore"):
        found = irs.compile(graph, device=device)(*args)
    found = found if isinstance(found, tuple) else (found,)
    return [np.asarray(each).tobytes() for each in found]


@pytest.mark.parametrize("seed", [*range(12), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(100, 600))])
def test_modules_compute_the_same_after_every_step(seed: int) -> None:
    private = bool(seed % 2)
    rng = random.Random(seed)
    programs = [Program(rng) for _ in range(rng.randint(1, 3))]
    functions = {f"f{i}": rng.choice(programs).text() for i in range(rng.randint(2, 6))}
    made = module(functions, private=private)
    args = arguments(seed)
    expected = results(inlined(made, "main"), *args)
    left = len(made.graphs)
    for step in ("alpha", "order", "arguments", "constants", "dtype"):
        after = dedup(made, relation=step).apply()
        assert isinstance(after, irs.Module)
        verify_module(after)
        assert print_module(parse_module(print_module(after))) == print_module(after)
        assert results(inlined(after, "main"), *args) == expected
        assert private or set(made.graphs) <= set(after.graphs)
        left = len(after.graphs)
    if private:
        assert left == len(dedup(made, relation="constants").classes)


def groups_of(texts: list[str], sizes: list[int]) -> irs.Graph:
    """A graph with one fusion group for each function, each on inputs of its own."""
    out, head, names = [], [], []
    for i, (text, size) in enumerate(zip(texts, sizes, strict=True)):
        typed = f"Float({size}, strides=[1])"
        first, *body, last = text.split("\n")
        head += [f"%{v}{i} : {typed}" for v in "xyz"]
        params = first.removeprefix("graph").removesuffix(":")
        inner = "\n".join(f"    {line}" for line in body).replace("%", f"%g{i}_")
        out.append(f'  %r{i} : {typed} = prim::FusionGroup[kind="pointwise"](%x{i}, %y{i}, %z{i})')
        out.append(f"    block0{params.replace('%', f'%g{i}_')}:\n{inner}")
        out.append(f"      -> ({last.split('(')[1].removesuffix(')').replace('%', f'%g{i}_')})")
        names.append(f"%r{i}")
    return irs.parse(f"graph({', '.join(head)}):\n" + "\n".join(out) + f"\n  return ({', '.join(names)})")


@pytest.mark.parametrize("seed", [*range(10), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(100, 350))])
def test_groups_compute_the_same_after_every_step(seed: int) -> None:
    rng = random.Random(seed)
    programs = [Program(rng) for _ in range(rng.randint(1, 3))]
    count = rng.randint(2, 6)
    sizes = [rng.choice((5, 5, 7)) for _ in range(count)]
    graph = groups_of([rng.choice(programs).text(size=size) for size in sizes], sizes)
    args = [arg for i, size in enumerate(sizes) for arg in arguments(seed + i, size)]
    expected = results(graph, *args)
    for step in RELATIONS:
        d = dedup(graph, relation=step)
        after = d.apply()
        assert isinstance(after, irs.Graph)
        irs.verify(after)
        assert results(after, *args) == expected
        if RANK[step] >= RANK["constants"]:
            bodies = dedup(after, relation="extents" if step != "constants" else "alpha")
            assert len(bodies.classes) <= len(d.classes)
    if seed < 3 or seed >= 100:
        after = dedup(graph, relation="extents").apply()
        made = irs.compile(after)
        assert not made.remarks and len(made.kernels) <= len(dedup(graph, relation="extents").classes)
        plain = irs.compile(graph)(*args)
        for ours, theirs in zip(made(*args), plain, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-7)


def test_executables_of_a_quantised_stack_are_merged_with_two_parameters() -> None:
    before = parse_module((SAMPLES / "quant24.flow.ir").read_text())
    d = dedup(before, relation="constants")
    done = d.applied()
    assert [len(cls) for cls in d.classes] == [24]
    assert [row.dependence for row in d.class_holes(0).parameters] == ["parameter 0", "parameter 1"]
    after = done.program
    assert isinstance(after, irs.Module)
    verify_module(after)
    (name,) = after.modules
    assert name.startswith("class_")
    assert "main_dispatch" not in print_module(after)
    assert "24 pieces, with 2 parameters" in done.remarks[0]
    (function,) = after.modules[name].graphs.values()
    assert len(function.inputs) == 5
    calls = [node for node in after.graphs["main"].nodes() if node.op == "flow::dispatch"]
    assert len(calls) == 24
    assert {len(node.inputs) for node in calls} == {4}
    assert print_module(parse_module(print_module(after))) == print_module(after)


def test_executables_of_other_sizes_are_not_merged_and_a_remark_says_why() -> None:
    d = dedup(parse_module((SAMPLES / "resnet18.flow.ir").read_text()), relation="extents")
    done = d.applied()
    assert isinstance(done.program, irs.Module)
    verify_module(done.program)
    assert len(d.classes) == 11
    assert len(done.program.modules) == 30
    assert any("no operand can pass it" in remark for remark in done.remarks)


def test_a_function_that_calls_itself_gets_no_parameters() -> None:
    def function(name: str, number: float) -> str:
        return ir(f'x y z | k:float = {number}; a = mul x k; b = func::call[callee="@{name}"] a y z | b', "Float(4)")

    made = module({"f": function("f", 0.5), "g": function("g", 0.25)}, private=True)
    d = dedup(made, relation="constants")
    after = d.applied()
    assert isinstance(after.program, irs.Module) and set(after.program.graphs) == {"f", "g", "main"}
    assert any("pass its own parameters on" in remark or "only the piece itself calls" in remark for remark in after.remarks)


def test_a_pipeline_runs_it_by_name() -> None:
    graph = groups_of([Program(random.Random(3)).text() for _ in range(3)], [5, 5, 5])
    done = irs.Pipeline("dedup{step=constants},dce")(graph, verify_each=True)
    assert done.records[0].name == "dedup"
    with pytest.raises(ArgumentError, match="there is no step 'beta'"):
        irs.Pipeline("dedup{step=beta}")(graph)


def test_a_number_that_is_equal_everywhere_is_not_a_parameter() -> None:
    rng = random.Random(0)
    program = Program(rng)
    program.lines = [("mul", (0,), 0.5), ("add", (3, 1), None), ("mul", (4,), 0.25)]
    texts = [program.text(vary=False, shuffle=False).replace("0.25", number) for number in ("0.25", "0.75", "1.25")]
    d = dedup(groups_of(texts, [5, 5, 5]), relation="constants")
    table = d.holes(0)
    assert table["varies"].tolist() == ["parameter 0", "equal everywhere", "equal everywhere"]
    after = d.apply()
    assert isinstance(after, irs.Graph)
    assert {len(node.inputs) for node in after.nodes() if node.op == "prim::FusionGroup"} == {4}


def test_sizes_that_follow_from_one_another_are_one_parameter() -> None:
    def program(n: int) -> irs.Graph:
        return parsed(f"x | size = [{4 * n}]; y:Float({4 * n}) = view x size | y", f"Float({n}, 4)")

    d = dedup(irs.Module({f"f{n}": program(n) for n in (2, 3, 5)}), relation="extents")
    assert sorted(row.dependence for row in d.class_holes(0).rows if row.parameter is not None) == [
        "4 × parameter 0", "4 × parameter 0", "parameter 0",
    ]  # fmt: skip


@pytest.mark.parametrize("step", ["alpha", "order", "extents"])
def test_applying_twice_is_applying_once(step: Relation) -> None:
    graph = groups_of([Program(random.Random(5)).text(size=size) for size in (5, 5, 7)], [5, 5, 7])
    once = merge_groups(graph, step=step).after
    assert merge_groups(once, step=step).after is once or step == "extents"


MEASURED = ir("w x | k = 0.5; l = 0.25; a = neg x; b = mul a k; c = mm b w; d = neg c; e = mul d l | b e", "Float(8, 8, strides=[8, 1])")


def test_the_slowdown_is_measured_on_the_kernels_if_asked_for() -> None:
    pytest.importorskip("llvmlite")
    f = irs.fuse(irs.parse(MEASURED))
    x = irs.compile(f)
    (choice,) = irs.dedup(f).recommend(budget=100, executable=x, measure=True).choices
    assert choice.cost.measured and choice.step == "constants"
    assert ("measured no slower" in choice.because) == (choice.cost.slowdown <= 0)
    estimate = irs.dedup(f).recommend(executable=x)
    assert estimate.choices[0].because.endswith("slower, estimated")
    assert estimate.table()["slowdown is"].tolist() == ["estimated"]


def test_measured_slowdowns_decide() -> None:
    class Slow:
        """A device on which a number that is read costs half of the time."""

        kernels = ()
        seen: ClassVar[list[int]] = []

        def slowdown(self, after: irs.Graph, groups: Sequence[irs.Node]) -> float:
            bodies = {str(after.producer[group.outputs[0]].blocks[0].nodes[-1].op) for group in groups}
            self.seen.append(len(groups))
            assert bodies == {"aten::mul"}
            return 0.5

    f = irs.fuse(irs.parse(MEASURED))
    refused = irs.dedup(f).recommend(executable=Slow(), measure=True)
    assert not refused.choices and Slow.seen == [2]  # once, although four steps have this class
    assert "measured 50.0 % slower: more than the budget of 5.0 %" in repr(refused)
    assert irs.dedup(f).recommend(budget=0.6, executable=Slow(), measure=True).choices[0].cost.slowdown == 0.5


def test_only_compiled_groups_are_measured() -> None:
    with pytest.raises(ArgumentError, match=r"executable=irs\.compile"):
        irs.dedup(irs.fuse(irs.parse(MEASURED))).recommend(measure=True)


TWO_LAYERS = ir(
    "x y | k0:float = {k}; m0 = mm x y; a0 = mul m0 k0; b0 = tanh a0; m1 = mm b0 y; k1 = 1.5; a1 = mul m1 k1; b1 = tanh a1 | b1",
    "Float({n}, {n})",
)


@pytest.mark.parametrize(("step", "bodies", "but_for_sizes"), [("alpha", 4, 1), ("constants", 2, 2), ("extents", 2, 1)])
def test_groups_of_several_functions_get_one_body(step: Relation, bodies: int, but_for_sizes: int) -> None:
    """All groups are the same but for numbers and, in `other`, sizes; by `constants` those of `other` need no parameter."""
    made = {n: irs.fuse(irs.parse(TWO_LAYERS.format(n=4, k=k))).graph for n, k in (("one", 0.5), ("two", 0.25))}
    other = irs.fuse(irs.parse(TWO_LAYERS.format(n=8, k=1.5))).graph
    module = irs.Module({**made, "again": made["one"], "other": other})
    found = dedup(module, unit="groups", relation=step).applied()
    after = found.program
    assert isinstance(after, irs.Module)
    verify_module(after)
    assert after.graphs["again"] is after.graphs["one"]
    assert len(dedup(after, unit="groups")) == bodies
    assert len(dedup(after, unit="groups", relation="extents")) == but_for_sizes, found.remarks
    assert not found.remarks if step == "alpha" else "one/%b0: the body of one/%b0 serves" in found.remarks[0]
    rng = np.random.default_rng(0)
    for name, graph in module.graphs.items():
        size = 8 if name == "other" else 4
        arguments = [rng.standard_normal((size, size), dtype=np.float32) for _ in range(2)]
        for device in ("reference", "cpu"):
            want = irs.compile(graph, device=device)(*arguments)
            assert np.array_equal(irs.compile(after.graphs[name], device=device)(*arguments), want), (name, device)


def test_functions_are_merged_as_far_as_the_leader_can_take_parameters() -> None:
    """Sizes are recommended for functions too, where the budget allows them; where an op cannot be given them, it is said."""
    text = TWO_LAYERS.format(n=16, k=0.5)
    d = dedup(irs.Module({"f": irs.parse(text), "g": irs.parse(text.replace("16", "32"))}))
    assert [(choice.step, choice.cost.bodies) for choice in d.recommend().choices] == [("extents", 1)]
    assert "unrolling" in d.recommend().choices[0].cost.lost[0]
    after = d.applied(d.recommend())
    assert "leaves sizes open" in after.remarks[0]
    cheap = d.recommend(budget=0.01)
    assert cheap.choices == () and "more than the budget" in cheap.declined[0].because

    dialect = """graph(%x : Float({n})):
  %y : Float({n}) = my::fill(%x)
  return (%y)"""
    d = dedup(irs.Module({"f": irs.parse(dialect.format(n=16)), "g": irs.parse(dialect.format(n=32))}))
    assert d.ladder()["classes"]["free"] == 1, "they do meet"
    refused = d.recommend(budget=1)
    assert refused.choices == () and "my::fill" in refused.declined[0].because
    assert d.apply(refused) is d.source
