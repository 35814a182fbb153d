"""Groups that another compiler formed are built only if they can run; answers say whose they are; the rest of irscope takes them."""

import random

import numpy as np
import pytest

import irscope as irs
from irscope.errors import ArgumentError, PassError
from irscope.ops.node_check import verify
from irscope.ops.view_steps import byte_words
from irscope.report.pages import Exploration
from irscope.runtime.reference import run_reference as reference
from irscope.transforms.fusion import GivenFusion, GivenGroup, Reason, differences, given_fusion
from tests.programs import ir, parsed
from tests.work import calls_made

SOFT = ir(
    "x w:Float(32, 32) | c = [1]; t = True; n = None; h = mm x w; g = tanh h; e = exp g; s:Float(64, 1) = sum e c t n; p = div e s | p g",
    "Float(64, 32)",
)


def soft() -> tuple[irs.Graph, list[np.ndarray]]:
    rng = np.random.default_rng(0)
    return irs.parse(SOFT), [rng.standard_normal(shape).astype(np.float32) for shape in ((64, 32), (32, 32))]


def group(g: irs.Graph, name: str, *values: str, library: bool = False, stores: tuple[str, ...] | None = None) -> GivenGroup:
    stored = None if stores is None else frozenset(map(g.node, stores))
    return GivenGroup(name, tuple(map(g.node, values)), library, stored)


def softmax_groups(g: irs.Graph, *reasons: Reason) -> GivenFusion:
    """As Inductor does it: the exponential is computed for the sum, and again for the quotient."""
    groups = [group(g, "mm", "h", library=True), group(g, "k0", "g", "e", "s", stores=("g", "s")), group(g, "k1", "e", "p", stores=("p",))]
    return given_fusion(g, groups, compiler="other", reasons=reasons)


def assert_computes(f: irs.Fusion, g: irs.Graph, args: list[np.ndarray]) -> None:
    for got, want in zip(irs.compile(f)(*args), reference(g, *args), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_what_several_groups_compute_is_computed_in_each() -> None:
    g, args = soft()
    f = softmax_groups(g)
    verify(f.graph)
    assert [[node.op for node in each.blocks[0].nodes if node.op != "prim::Constant"] for each in f.groups] == [
        ["aten::tanh", "aten::exp", "aten::sum"], ["aten::exp", "aten::div"],
    ]  # fmt: skip
    assert [each.attrs["kernel"] for each in f.groups] == ["k0", "k1"]
    assert f.group_nodes == (None, *f.groups) and f.groups_of("e") == f.groups and f.groups_of("h") == ()
    assert [record.name for record in f.history.records] == ["recompute", "fuse-groups"]
    assert_computes(f, g, args)


def test_each_answer_says_whose_it_is() -> None:
    g, _ = soft()
    told = Reason(frozenset({g.node("s")}), frozenset({g.node("p")}), "%s and %p have other extents", "buf1 and buf2: numel")
    f = softmax_groups(g, told)
    assert f.why_not("e", "s") and f.why_not("e", "p") and f.why_not("g", "s")
    assert f.why_not("s", "p").because == "other says: %s and %p have other extents"
    assert f.why_not(f.groups[1], f.groups[0]).because == "other says: %s and %p have other extents"
    assert "other gave no reason; by irscope's rules, aten::mm" in f.why_not("h", "g").because
    tried = softmax_groups(g, Reason(told.a, told.b, "it tried the pair, and gave no reason", "")).obstacle("s", "p")
    assert tried is not None and tried.rule == "told"
    assert "legal by irscope's rules, and other tried the pair, and gave no reason; one kernel would save" in tried.because
    assert "it is legal by irscope's rules, and other gave no reason; one kernel would save" in softmax_groups(g).why_not("s", "p").because


def test_groups_that_wait_for_each_other_are_refused() -> None:
    g = parsed("x | a = relu x; b = tanh a; c = exp b; d = neg b | c d", "Float(4)")
    with pytest.raises(PassError, match="k0, k1 cannot run one after the other"):
        given_fusion(g, [group(g, "k0", "a", "c"), group(g, "k1", "b", "d")], compiler="other")


def test_a_write_between_the_nodes_of_a_group_keeps_it_from_running() -> None:
    g = parsed("x | a = relu x; b = relu_ x; c = mul a x | c", "Float(4)")
    with pytest.raises(PassError, match="reads what it overwrites"):
        given_fusion(g, [group(g, "k0", "a", "c")], compiler="other")
    with pytest.raises(PassError, match="has an effect"):
        given_fusion(g, [group(g, "k0", "b"), group(g, "k1", "b", "c")], compiler="other")


def test_what_no_group_stores_stands_alone() -> None:
    """A kernel that does not say that it stores what another reads: the node is shown by itself, and the kernel has its own copy."""
    g, args = soft()
    f = given_fusion(g, [group(g, "k0", "g", "e", "s", stores=("s",)), group(g, "k1", "e", "p")], compiler="other")
    assert f.graph.producer[g.value("g")].op == "aten::tanh"
    assert_computes(f, g, args)


def test_lists_go_along_with_the_group_that_reads_them() -> None:
    g = irs.parse(
        "graph(%x : Float(2, 4)):\n  %zero : int = prim::Constant[value=0]()\n  %one : int = prim::Constant[value=1]()\n"
        "  %a : Float(2, 4) = aten::relu(%x)\n  %l : Tensor[] = prim::ListConstruct(%a, %x)\n"
        "  %b : Float(2, 8) = aten::cat(%l, %one)\n  %c : Float(4, 4) = aten::cat(%l, %zero)\n  return (%b, %c)"
    )
    f = given_fusion(g, [group(g, "k0", "a", "b"), group(g, "k1", "c")], compiler="other")
    x = np.array([[1, -2, 3, -4], [0, 5, -6, 7]], np.float32)
    for got, want in zip(irs.compile(f)(x), reference(g, x), strict=True):
        np.testing.assert_array_equal(got, want)


def test_the_rest_of_irscope_takes_it() -> None:
    g, args = soft()
    f = softmax_groups(g)
    assert isinstance(f, irs.Fusion) and f.cost()[:2] == (2, 1)
    assert list(f.table()["kind"]) == ["reduction", "pointwise"] and len(irs.dedup(f).classes) == 2
    assert irs.memory_plan(f).peak > 0 and "op by op" in str(irs.compare(f, *args, repeats=2).table())
    seen = Exploration(f)
    assert seen.fusion.history.graph_after(-1) is f.graph
    verify(f.history.graph_after(f.history.count - 1))
    assert len(irs.diff(f, irs.fuse(f.original)).table())


def test_the_same_program_by_irscopes_policies_and_by_wishes() -> None:
    g, args = soft()
    f = softmax_groups(g)
    assert f.what_if(policy="greedy").policy == "greedy"
    joined = f.what_if(force=[("s", "p")])
    assert not joined.refused and len(joined.groups) == 1
    assert_computes(joined, g, args)
    assert len(f.what_if(forbid=[("g", "s")]).groups) == 1 and not f.what_if(opaque=["g"]).group_of("g")
    with pytest.raises(ArgumentError, match="did not form merge by merge"):
        f.what_if(step=0)
    with pytest.raises(ArgumentError, match="keep torch's bits"):
        f.exactly("torch")


@pytest.mark.parametrize("seed", range(12))
def test_random_groups_run_as_the_program_does_or_are_refused(seed: int) -> None:
    """Random sets of nodes that overlap, on a random program: never a wrong result."""
    rng = random.Random(seed)
    lines, names = [], ["x", "y"]
    for index in range(14):
        one, other = rng.choice(names), rng.choice(names)
        op = rng.choice([f"tanh(%{one})", f"relu(%{one})", f"mul(%{one}, %{other})", f"maximum(%{one}, %{other})"])
        lines.append(f"  %v{index} : Float(3, 5) = aten::{op}")
        names.append(f"v{index}")
    g = irs.parse("graph(%x : Float(3, 5), %y : Float(3, 5)):\n" + "\n".join(lines) + f"\n  return (%v13, %{rng.choice(names[2:])})")
    args = [np.random.default_rng(seed + k).standard_normal((3, 5)).astype(np.float32) for k in range(2)]
    nodes, done = list(g.nodes()), 0
    for _ in range(8):
        groups = []
        for index in range(3):
            start, size = rng.randrange(13), rng.randrange(2, 5)
            chosen = tuple(node for node in nodes[start : start + size] if rng.random() < 0.8)
            groups += [GivenGroup(f"k{index}", chosen, stores=rng.choice([None, frozenset(chosen[-1:])]))] if chosen else []
        try:
            f = given_fusion(g, groups, compiler="other")
        except PassError:
            continue
        done += 1
        verify(f.graph)
        for got, want in zip(irs.compile(f, device="reference")(*args), reference(g, *args), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-6)
    assert done


def test_an_answer_takes_no_longer_in_a_long_program() -> None:
    def work(n: int) -> int:
        g = parsed(f"v0 | {'; '.join(f'v{i + 1} = tanh v{i}' for i in range(n))} | v{n}", "Float(4, strides=[1])")
        f = given_fusion(g, [group(g, f"k{i}", f"v{i}", f"v{i + 1}") for i in range(1, n, 2)], compiler="other")
        f.why_not("v2", "v3")  # what is computed once
        return calls_made(lambda: [f.why_not(g.node("v4"), g.node("v5")), f.why_not(*f.groups[2:4])])

    work(40)
    assert work(400) < 1.1 * work(100)


def test_differences_of_an_op_that_many_kernels_compute_take_linear_time() -> None:
    def calls(count: int) -> int:
        names = [f"u{k}" for k in range(count)]
        g = parsed(f"x | v = relu x; {'; '.join(f'{name} = tanh v' for name in names)} | {' '.join(names)}", "Float(4)")
        theirs, ours = given_fusion(g, [group(g, name, "v", name) for name in names], compiler="other"), irs.fuse(g)
        return calls_made(lambda: differences(theirs, ours))

    assert calls(100) < 2.5 * calls(50)


BRANCHES = ir("x c:bool | a = relu x; r = If c {| b = mul a x | b} {| | a}; z = exp r | z", "Float(4, strides=[1])")


@pytest.mark.parametrize("inside", [("a", "r", "z"), ("r", "z"), ("a", "r"), ("r",)])
def test_a_group_may_have_branches_which_read_what_is_around_them(inside: tuple[str, ...]) -> None:
    graph = irs.parse(BRANCHES)
    f = given_fusion(graph, [GivenGroup("k", tuple(graph.node(name) for name in inside))], compiler="other")
    irs.verify(f.graph)
    x = np.array([-1, 2, 3, 4], np.float32)
    for c in (True, False):
        np.testing.assert_allclose(irs.compile(f)(x, c), irs.compile(graph)(x, c))


def test_what_one_kernel_would_save_is_what_the_program_with_that_kernel_moves_less() -> None:
    """Of two kernels, in which irscope's own groups may be smaller, and of two calls of a library, which the kernel replaces."""
    g, args = soft()
    single = given_fusion(g, [group(g, name, name, library=True) for name in "hgesp"], compiler="other")
    for f, a, b in ((softmax_groups(g), "s", "p"), (single, "g", "e"), (single, "e", "s")):
        joined = f.what_if(force=[(a, b)])
        assert_computes(joined, g, args)
        saved = f.cost().bytes - joined.cost().bytes
        assert f"one kernel would save {byte_words(saved)}" in f.why_not(a, b).because and saved > 0
        assert sum(joined.cost()[:2]) == sum(f.cost()[:2]) - 1
