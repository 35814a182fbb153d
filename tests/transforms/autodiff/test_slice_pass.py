"""Differentiable subgraphs: what comes together, what does not because, and that the program means the same."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import irscope as irs
from irscope.analysis.alias import AliasDb
from irscope.errors import ArgumentError, UnknownName
from irscope.ir import Graph, Merged
from irscope.ir.invariants import verify
from irscope.ir.structural import same_structure
from irscope.runtime.reference import run_reference
from irscope.transforms.autodiff import AutodiffSubgraphs, autodiff_subgraphs
from tests.programs import parsed
from tests.random_programs.graphs import Program, programs, random_program
from tests.transforms.fusion.judges import assert_no_dependence_is_reversed, assert_same, assert_same_runs, differences
from tests.work import calls_made

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def sliced(body: str, inputs: str = "x y", **options: object) -> AutodiffSubgraphs:
    found = autodiff_subgraphs(parsed(f"{inputs} | {body}"), **options)  # type: ignore[arg-type]
    verify(found.graph)
    return found


def kinds(found: AutodiffSubgraphs) -> list[list[str]]:
    return [[node.op.removeprefix("aten::") for node in group.blocks[0].nodes] for group in found.groups]


@QUICK
@given(programs())
def test_random_programs(program: Program) -> None:
    """They mean the same and read back; nodes come after what they depend on; what leaves a subgraph, asked as a program of its own,
    is not other memory; and the alias db follows the merges."""
    graph = irs.parse(program.text)
    found = autodiff_subgraphs(graph)
    verify(found.graph)
    assert_same_runs(graph, found.graph, program)
    for group in found.groups:
        (body,) = group.blocks
        db = AliasDb(Graph(body))
        for index, value in enumerate(body.returns):
            assert not db.may_alias(value, (*body.params, *body.returns[:index]))
    assert list(differences(AliasDb(graph).follow(found.history.records[0]), AliasDb(found.graph))) == []
    small = autodiff_subgraphs(graph, 1).graph
    assert_no_dependence_is_reversed(graph, small)
    assert same_structure(irs.parse(str(small)), small)


@pytest.mark.parametrize("seed", range(12))
def test_a_compiled_program_runs_its_subgraphs(seed: int) -> None:
    program = random_program(seed, size=14)
    found = autodiff_subgraphs(irs.parse(program.text))
    before, after = program.fresh(), program.fresh()
    wanted = run_reference(found.original, *before)
    given = irs.compile(found.graph)(*after)
    assert_same(given if len(found.graph.outputs) != 1 else (given,), wanted, rtol=1e-5, atol=1e-5)
    assert_same(before, after, rtol=1e-5, atol=1e-5)


@QUICK
@given(programs())
def test_every_node_and_value_is_accounted_for(program: Program) -> None:
    found = autodiff_subgraphs(irs.parse(program.text))
    after = {node.id for node in found.graph.nodes()}
    assert {node.id for node in found.original.nodes() if node.op != "prim::Constant"} <= after
    for value in found.original.values():
        new = found.forward(value)
        if new is None:
            assert found.original.producer[value].op == "prim::Constant"
        else:
            assert new in found.graph.names
        assert new is found.history.forward(value)
    merged = {node for e in found.history.records[0].edits if isinstance(e, Merged) for node in e.nodes}
    assert merged == {node for node in found.original.nodes() if found.group_of(node) is not None}


@QUICK
@given(programs())
def test_every_step_is_a_program_that_means_the_same(program: Program) -> None:
    found = autodiff_subgraphs(irs.parse(program.text))
    wanted = run_reference(found.original, *program.fresh())
    steps, seen = found.history.steps, found.original
    for number in range(len(steps) + 1):
        graph = found.history.graph_after(number)
        verify(graph)
        assert_same(run_reference(graph, *program.fresh()), wanted)
        assert (graph is seen) == (number == 0)
        seen = graph
    assert seen is found.graph


def test_a_group_that_grows_keeps_its_identity() -> None:
    found = sliced("a = mul x y; b = tanh a; c = neg b | c")
    small, large = (found.history.graph_after(step).node("c") for step in (1, 2))
    assert small.id == large.id == found.groups[0].id and small.blocks[0].returns == large.blocks[0].returns
    assert [step.because for step in found.history.steps] == ["%b feeds %c", "%a feeds %b"]


TANH = "a = mul x y; {effect}b = tanh a | b"
PRINTS = "If flag {{| Print {value} | }} {{| | }}; "

SLICED = {
    "producers join their readers": (TANH.format(effect=""), [["mul", "tanh"]], "a b", "both are in the differentiable subgraph"),
    "independent nodes stay apart": ("a = tanh x; b = tanh y | a b", [], "a b", "only producers are merged with their users"),
    "groups are cut at a print": (TANH.format(effect="Print x; "), [], "a b", "prim::Print is between them"),
    "groups are cut at a print inside an if": (TANH.format(effect=PRINTS.format(value="x")), [], "a b", "prim::If is between them"),
    "a view of what leaves goes out again with its readers": (
        "a = mul x y; t = t a; b = tanh t; c = neg a | a t b c", [["mul", "neg"]], "a t",
        "%t was taken out again: %t would leave the subgraph, and may be the memory of %a",
    ),
    "a view that only the subgraph sees stays": ("t = t x; b = tanh t | b", [["t", "tanh"]], "t b", "both are in"),
    "a view of an input does not leave": ("t = t x; b = tanh t | b t", [], "t b", "may be the memory of %x"),
    "torch leaves some views outside": ("t = view_as x y; b = tanh t | b", [], "t b", "a view that leaves a subgraph"),
    "a write keeps a producer from its reader": (
        "a = tanh x; w = relu_ x; v = neg w; b = mul a v | b", [["neg", "mul"]], "a b", "aten::relu_",
    ),
    "nested blocks have their own": (
        "b = If flag {| c = mul x x; d = tanh c | d} {| | x} | b", [["mul", "tanh"]], "c d", "both are in",
    ),
}  # fmt: skip
MISSED = {
    "a view of what leaves goes out again with its readers": ["aliases"],
    "a write keeps a producer from its reader": ["blocked-by-write"],
}


@pytest.mark.parametrize("name", SLICED)
def test_what_comes_together_and_why_the_rest_does_not(name: str) -> None:
    body, wanted, pair, because = SLICED[name]
    found = sliced(body, "x y flag:bool")
    assert kinds(found) == wanted
    assert (found.graph is found.original) == (not wanted)
    assert because in found.why_not(*pair.split()).because
    missed = [remark.rule for remark in found.remarks if remark.kind == "missed"]
    assert missed == MISSED.get(name, missed)


def test_a_small_subgraph_is_left_in_the_open() -> None:
    body = TANH.format(effect="")
    assert sliced(body, threshold=3).groups == ()
    assert "fewer than 3 nodes" in sliced(body, threshold=3).why_not("a", "b").because
    assert kinds(sliced("b = tanh x | b", threshold=1)) == [["tanh"]]


def test_constants_are_copied_inside_and_not_counted() -> None:
    assert sliced("one = 1; a = add x y one | a").groups == ()
    found = sliced("one = 1; a = add x y one; b = tanh a | b")
    assert kinds(found) == [["prim::Constant", "add", "tanh"]]
    assert found.forward("one") is None and found.forward("a") is found.original.value("a")
    assert [value.name for value in found.groups[0].inputs] == ["x", "y"]


def test_prints_keep_their_order(capsys: pytest.CaptureFixture[str]) -> None:
    """Torch's slicer moves one if across the other, because it does not look for prints inside them."""
    first, last = (PRINTS.format(value=value) for value in "ab")
    found = sliced(f"a = mul x x; {first}b = tanh x; {last}c = mul a b | c", "x flag:bool")
    run_reference(found.original, np.array([1.0]), True)
    wanted = capsys.readouterr().out
    run_reference(found.graph, np.array([1.0]), True)
    assert capsys.readouterr().out == wanted


def test_a_writing_batch_norm_keeps_its_place() -> None:
    """The running mean is read after the batch norm has updated it."""
    found = sliced("none = None; yes = True; e = 0.1; n = batch_norm x none none m v yes e e yes; b = mul n m | b", "x m v")
    assert kinds(found)[0][-2:] == ["batch_norm", "mul"]


NOBODY = "x:Float(2, requires_grad=0) y:Float(2, requires_grad=0)"


def test_what_can_require_no_gradient_stays_out() -> None:
    body = TANH.format(effect="")
    found = sliced(body, NOBODY)
    assert found.groups == () and not found.may_require_grad("b")
    assert found.why_not("a", "b").because == "nothing that aten::mul reads can require a gradient"
    assert [remark.rule for remark in found.remarks] == ["no-gradient"]
    assert kinds(sliced(body, NOBODY, requires_grad=["y"])) == [["mul", "tanh"]]
    assert sliced(body, requires_grad=[]).groups == ()


def test_a_gradient_arrives_through_memory() -> None:
    """`%t` was made before the write, and shows it."""
    body = "no = False; z = mul x x; t = t z; w = copy_ z y no; b = tanh t; c = neg b | c"
    found = sliced(body, "x:Float(2, 2, requires_grad=0) y:Float(2, 2)")
    assert found.may_require_grad("t") and found.may_require_grad("c")
    assert kinds(found) == [["t", "tanh", "neg"]]


def test_a_gradient_travels_around_a_loop() -> None:
    body = "true = True; p q = Loop n true x x {i:int a b | c = mul b y | true b c} | p"
    inputs = "x:Float(2, requires_grad=0) y:Float(2) n:int"
    found = sliced(body, inputs)
    assert found.may_require_grad("p") and found.may_require_grad("a")
    assert not sliced(body, inputs, requires_grad=[]).may_require_grad("p")
    assert not found.may_require_grad("x") and not found.may_require_grad("i")


def test_detached_values_and_integers_require_none() -> None:
    found = sliced("d = detach x; a = tanh d; i:Long(2) = argsort x | a i")
    assert [found.may_require_grad(name) for name in "xdai"] == [True, False, False, False]


def test_wrong_questions() -> None:
    found = sliced("a = tanh x | a")
    with pytest.raises(UnknownName):
        found.why_not("nobody", "a")
    assert "it has no producer" in found.why_not("x", "a").because
    for threshold in (0, True, 2.0):
        with pytest.raises(ArgumentError):
            autodiff_subgraphs(found.original, threshold)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError):
        autodiff_subgraphs("graph():")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError):
        autodiff_subgraphs(found.original, requires_grad=["a"])


def chain(count: int, *, live: bool) -> Graph:
    lines = [f"  %v{i} : Tensor = aten::mul(%{f'v{i - 1}' if i else 'x'}, %y)" for i in range(count)]
    returned = ", ".join(f"%v{i}" for i in range(count)) if live else f"%v{count - 1}"
    return irs.parse("\n".join(["graph(%x : Tensor, %y : Tensor):", *lines, f"  return ({returned})"]))


@pytest.mark.parametrize("live", [False, True])
def test_work_grows_with_the_graph(live: bool) -> None:
    autodiff_subgraphs(chain(50, live=live))
    small, large = (calls_made(lambda n=n: autodiff_subgraphs(chain(n, live=live))) for n in (300, 1200))  # type: ignore[misc]
    assert large < 4.6 * small
