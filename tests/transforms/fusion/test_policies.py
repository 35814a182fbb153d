"""What each policy decides, and what wishes change: legal merges under every policy, what would be wrong is refused with its reason."""

import random
from itertools import combinations
from math import prod
from typing import Any

import pytest

import irscope as irs
from irscope.codegen.kernel.loops import loop_nest
from irscope.codegen.lowering import spec_of_group
from irscope.errors import ArgumentError, UnknownName
from irscope.ir.invariants import verify
from irscope.transforms.fusion import POLICIES, Fusion, block_plan, fuse
from irscope.transforms.fusion.block_plan import Candidate
from irscope.transforms.fusion.domains import Domain
from tests.programs import ir
from tests.random_programs.graphs import random_program
from tests.transforms.fusion.judges import assert_same_runs, our_groups, program, torch_groups
from tests.work import calls_made, some

FORK = ir("x y:Float(4, 100) | a = exp x; small = neg a; large:Float(4, 100) = mul a y | small large", "Float(100)")

SIBLINGS = ir("x y | a = exp x; b = mul x y | a b", "Float(8, 8)")


def members(fusion: Fusion) -> list[set[str]]:
    """By group, its nodes, by the names of what they make."""
    names = fusion.history.graph(-2).names
    return [{names[v] for node in nodes for v in node.outputs} for nodes in fusion._members.values()]


def bytes_saved(fusion: Fusion) -> int:
    return sum(step.bytes_saved for step in fusion.history.steps)


@pytest.mark.parametrize("block", some(range(6), 2))
def test_torch_legacy_groups_what_torch_groups(block: int) -> None:
    pytest.importorskip("torch")
    for seed in range(10 * block, 10 * block + 10):
        text = program(seed, 4 + 3 * (seed % 25))
        assert our_groups(text) == torch_groups(text), text


def test_torch_legacy_counts_arguments_as_torch_does() -> None:
    """The sum of both sides, whatever they share."""
    pytest.importorskip("torch")
    inputs = [f"%x{i} : Float(4)" for i in range(100)]
    lines = [f"  %k{i} : int = prim::Constant[value={i + 100}]()" for i in range(99)]
    lines += [f"  %v{i} : Float(4) = aten::add(%{f'v{i - 1}' if i else 'x99'}, %x{i}, %k{i})" for i in range(99)]
    text = "\n".join([f"graph({', '.join(inputs)}):", *lines, f"  return ({', '.join(f'%v{i}' for i in range(99))})"])
    assert our_groups(text) == torch_groups(text) and len(our_groups(text)) > 1


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", range(20))
def test_every_policy_gives_a_legal_graph_and_no_merge_that_saves_less_than_nothing(policy: str, seed: int) -> None:
    fusion = fuse(irs.parse(random_program(seed, size=25).text), policy=policy)
    verify(fusion.graph)
    assert fusion.policy == policy
    assert all(step.bytes_saved >= 0 for step in fusion.history.steps)


def test_min_bytes_prefers_the_reader_that_saves_more() -> None:
    """%a can join one of its readers only: it leaves the group, so the shapes must agree, or it is copied nowhere."""
    fusion = fuse(irs.parse(FORK), policy="min-bytes")
    assert members(fusion) == [{"a", "small"}]


def test_min_bytes_saves_at_least_as_much_as_a_policy_that_looks_at_one_reader_at_a_time() -> None:
    better = 0
    for seed in range(40):
        graph = irs.parse(program(seed, 40))
        ours, torchs = bytes_saved(fuse(graph, policy="min-bytes")), bytes_saved(fuse(graph, policy="torch-legacy"))
        better += (ours > torchs) - (ours < torchs)
    assert better > 0


def test_siblings_join_where_they_read_the_same() -> None:
    for policy, count in {"greedy": 1, "min-bytes": 1, "torch-legacy": 0}.items():
        fusion = fuse(irs.parse(SIBLINGS), policy=policy)
        assert len(fusion.groups) == count
    (step,) = fuse(irs.parse(SIBLINGS)).history.steps
    assert (step.rule, step.bytes_saved) == ("sibling", 8 * 8 * 4)
    assert step.because == "%a and %b both read %x; iteration space (8, 8)"


def test_siblings_of_unknown_size_stay_apart() -> None:
    assert fuse(irs.parse(SIBLINGS.replace("Float(8, 8)", "Tensor"))).groups == ()
    assert fuse(irs.parse(SIBLINGS.replace("Float(8, 8)", "Float(*, 8)"))).groups == ()


def test_siblings_of_which_one_waits_for_the_other_stay_apart() -> None:
    text = SIBLINGS.replace("%b : Float(8, 8) = aten::mul(%x, %y)", "%m : Float(8, 8) = aten::matmul(%a, %y)\n  "
                            "%b : Float(8, 8) = aten::mul(%x, %m)")  # fmt: skip
    assert fuse(irs.parse(text)).groups == ()


def test_a_users_score_decides() -> None:
    seen = []

    def only_exp(candidate: Candidate) -> float | None:
        assert isinstance(candidate.verdict(), Domain)
        shared = [value.name for value in candidate.shared]
        seen.append((shared, candidate.bytes_saved, candidate.arguments, candidate.size))
        return 1.0 if "aten::exp" in (candidate.producer.op, candidate.consumer.op) else None

    text = ir("x | a = relu x; b = exp a; c = neg b; d = tanh c | d", "Float(2, 3)")
    fusion = fuse(irs.parse(text), policy=only_exp)
    assert members(fusion) == [{"a", "b", "c"}]
    assert fusion.policy == "only_exp"
    assert (["c"], 48, 2, 2) in seen


def test_a_score_that_declines_everything_fuses_nothing() -> None:
    graph = irs.parse(SIBLINGS)
    assert fuse(graph, policy=lambda candidate: 0.0).graph is graph
    assert fuse(graph, policy=lambda candidate: None).graph is graph


def chain(count: int) -> str:
    lines = [f"  %v{i + 1} : Float(8) = aten::mul(%v{i}, %v{max(0, i - 1)})" for i in range(count)]
    return "\n".join(["graph(%v0 : Float(8)):", *lines, f"  return (%v{count})"])


def wide(count: int) -> str:
    lines = [f"  %v{i} : Float(8) = aten::mul(%x, %x)" for i in range(count)]
    return "\n".join(["graph(%x : Float(8)):", *lines, f"  return ({', '.join(f'%v{i}' for i in range(count))})"])


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("family", [chain, wide], ids=lambda f: f.__name__)
def test_the_work_grows_with_the_program_and_not_with_its_square(policy: str, family: object) -> None:
    small, again, large = (irs.parse(family(count)) for count in (400, 400, 1600))  # type: ignore[operator]
    fuse(again, policy=policy)  # fills the tables of ops
    work = [calls_made(lambda graph=graph: fuse(graph, policy=policy)) for graph in (small, large)]  # type: ignore[misc]
    assert work[1] < 5 * work[0]


def test_a_tensor_of_unknown_extents_is_not_one_without_bytes() -> None:
    """Siblings that read it are joined as if each extent were 64, and the larger saving goes first."""
    text = ir("x y:Float(batch, 1) | a = relu x; b = tanh x; c:Float(batch, 1) = neg y; d = mul b c | a d", "Float(batch, 512)")
    for policy in ("min-bytes", "greedy"):
        named, known = (fuse(irs.parse(each), policy=policy) for each in (text, text.replace("batch", "64")))
        assert [group.outputs[0].name for group in named.groups] == [group.outputs[0].name for group in known.groups]
        assert len(named.groups) == 1
    seen = set[int]()
    fuse(irs.parse(text), policy=lambda candidate: seen.add(candidate.bytes_saved))
    assert min(seen) > 0


CHAIN = ir("x y | a = relu x; b = tanh a; c = exp b; d = mul c y | d", "Float(1000)")

WRITTEN = ir("x y | a = relu x; s i:Long(8) = sort a; b = tanh s; c = mul a b | c", "Float(8)")


@pytest.mark.parametrize("policy", POLICIES)
def test_what_is_forbidden_stays_apart_and_what_is_opaque_alone(policy: str) -> None:
    f = irs.fuse(irs.parse(CHAIN), policy=policy, forbid=[("a", "b")])
    assert f.group_of("a") is None and f.group_of("b") is f.group_of("d") is not None
    assert f.obstacle("a", "b").rule == "forbidden" and "which you forbade" in f.why_not("a", "c").because
    f = irs.fuse(irs.parse(CHAIN), policy=policy, opaque=["c"])
    assert f.group_of("c") is None and f.group_of("a") is f.group_of("b")
    assert f.why_alone("c").because == "you made aten::exp opaque: it stays with the library"


def test_what_is_forced_is_one_kernel_and_what_would_be_wrong_is_refused() -> None:
    f = irs.fuse(irs.parse(CHAIN), policy=lambda candidate: None, force=[("a", "b")])
    assert [len(group.blocks[0].nodes) for group in f.groups] == [2] and not f.refused
    far = irs.fuse(irs.parse(CHAIN), policy=lambda candidate: None, force=[("a", "d")])
    assert far.group_of("a") is far.group_of("d") is far.group_of("b") is not None  # what lies between comes along
    f = irs.fuse(irs.parse(WRITTEN), policy=lambda candidate: None, force=[("a", "c"), ("s", "b")])
    assert not f.groups
    assert [remark.rule for remark in f.refused] == ["cycle", "not-pointwise"]
    assert "would create a cycle: aten::relu (%a) → aten::sort" in f.refused[0].because, f.refused[0].because
    assert set(f.refused) <= set(f.remarks)


def test_a_group_is_taken_apart_and_merges_up_to_a_step_are_kept() -> None:
    f = irs.fuse(irs.parse(CHAIN))
    assert not f.what_if(forbid=[f.groups[0]]).groups
    out = f.what_if(forbid=[(f.groups[0], "d")])  # of one group and another node, each member from that
    assert out.group_of("a") is out.group_of("c") is not None and out.group_of("d") is None
    assert f.what_if(forbid=[(f.groups[0], "a")], force=[("b", "d")]).group_of("a") is None
    none = f.what_if(step=2, policy=lambda candidate: None)
    kept = [step.nodes for step in f.history.steps[:2]]
    assert [step.nodes for step in none.history.steps] == kept
    assert not f.what_if(step=0, policy=lambda candidate: None).groups


def _two_groups(length: int) -> irs.Fusion:
    """A chain in two groups: a kernel has 512 nodes at most."""
    lines = [f"  %v{i} : Float(8) = aten::tanh(%v{i - 1})" for i in range(1, length + 1)]
    return irs.fuse(irs.parse("\n".join(["graph(%v0 : Float(8)):", *lines, f"  return (%v{length})"])))


def test_two_large_groups_are_kept_apart_without_a_word_about_each_pair() -> None:
    f = _two_groups(600)
    first, second = f.groups
    apart = f.what_if(forbid=[(first, second)])
    assert [len(sides) for sides in apart._plans.options.wishes.forbid] == [2]
    assert sum(len(side) for side in apart._plans.options.wishes.forbid[0]) == 600
    assert [len(group.blocks[0].nodes) for group in apart.groups] == [len(group.blocks[0].nodes) for group in f.groups]
    again = apart.what_if(force=[("v87", "v88"), ("v88", "v89")])  # wherever the two groups met, this takes the older wish back
    assert again.group_of("v87") is again.group_of("v88") is again.group_of("v89")
    assert not again._plans.options.wishes.forbid


def test_new_wishes_take_back_those_that_they_contradict_also_about_what_passes_replace() -> None:
    apart = irs.fuse(irs.parse(CHAIN)).what_if(forbid=[("a", "b")])
    again = apart.what_if(force=[("a", "b")])
    assert not again.refused and again.group_of("a") is again.group_of("b")
    assert again.what_if(forbid=[("b", "c")], opaque="a").group_of("b") is None
    text = ir("x | a = neg x; b = relu_ a; unused = exp b; c = tanh b | c", "Float(8)")
    f = irs.fuse(irs.parse(text), forbid=[("b", "c")], force=[("unused", "c")])
    assert f.group_of("b") is f.group_of("a") is not None and f.group_of("c") is None
    assert f.refused[0].rule == "no-node"
    assert f.what_if(distinct=True, force=[("b", "c")]).group_of("c") is not None


def test_cost_counts_what_is_not_in_kernels_too() -> None:
    f = irs.fuse(irs.parse(WRITTEN))
    assert f.cost()._replace(bytes=0) == (1, 2, 0)
    assert irs.fuse(irs.parse(CHAIN)).cost().microseconds("12 GB/s") == 1.0


@pytest.mark.parametrize(
    "wish", [{"forbid": [("a",)]}, {"forbid": ["ab"]}, {"force": [("x", "a")]}, {"opaque": ["aten::cosh"]}, {"forbid": [("a", "nope")]}]
)
def test_a_wish_about_nothing_is_an_error_that_says_so(wish: dict[str, object]) -> None:
    for ask in (lambda: irs.fuse(irs.parse(CHAIN), **wish), lambda: irs.fuse(irs.parse(CHAIN)).what_if(**wish)):
        with pytest.raises((ArgumentError, UnknownName)):
            ask()


@pytest.mark.parametrize("seed", range(12))
def test_random_wishes_change_no_result(seed: int) -> None:
    program = random_program(seed, size=20)
    graph = irs.parse(program.text)
    chance = random.Random(seed)
    names = [node.outputs[0] for node in graph.nodes() if node.outputs]
    pairs = [pair for pair in combinations(names, 2) if chance.random() < 6 / max(1, len(names))]
    some = chance.sample(names, min(2, len(names)))
    policy = chance.choice(list(POLICIES))
    f = irs.fuse(graph, policy=policy, forbid=pairs[::2], force=pairs[1::2], opaque=some)
    verify(f.graph)
    for a, b in pairs[::2]:
        assert f.group_of(a) is None or f.group_of(a) is not f.group_of(b)
    steps = f.history.count
    for fusion in (f, f.what_if(step=chance.randint(0, steps), policy="min-bytes", force=pairs[::2])):
        verify(fusion.graph)
        assert_same_runs(graph, fusion.graph, program, rtol=1e-5, atol=1e-6)
        for remark in fusion.refused:
            assert "as you wanted" in remark.because


def _read(torch: Any, name: str, c: Any, y: Any) -> Any:
    """A value of fewer points in a kernel of more."""
    s = torch.sigmoid(c)
    return {
        "rows": lambda: s + y, "columns": lambda: s[:, None] + y, "middle": lambda: s[:, None, :] + y, "outer": lambda: s[None] + y,
        "inner": lambda: s[:, :, None] + y, "turned": lambda: s.t()[:, None, :] + y, "expanded": lambda: s.expand(y.shape).neg() + y,
        "cut": lambda: s[1:, None] * y, "summed": lambda: (s + y).sum(-1), "maximum": lambda: (s[:, None] * y).amax(1),
        "twice": lambda: ((s + y[0]) * 2) + y,
    }[name]()  # fmt: skip


@pytest.mark.parametrize(("name", "c", "y"), [
    ("rows", (64,), (32, 64)), ("columns", (32,), (32, 64)), ("middle", (16, 8), (16, 32, 8)), ("outer", (8, 32), (16, 8, 32)),
    ("inner", (16, 8), (16, 8, 32)), ("turned", (8, 16), (16, 32, 8)), ("expanded", (1, 64), (32, 64)), ("cut", (33,), (32, 64)),
    ("summed", (64,), (32, 64)), ("maximum", (32,), (32, 64)), ("twice", (1, 64), (16, 32, 64)),
])  # fmt: skip
def test_what_a_kernel_computes_again_is_counted_as_in_its_loops(name: str, c: tuple[int, ...], y: tuple[int, ...], torch: Any) -> None:
    """The judge is the kernel itself: the loops around its sigmoid."""
    times = []

    def counted(candidate: Candidate) -> float:
        times.append(candidate.times())
        return 1.0 + (candidate.producer.op != "aten::sigmoid")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(block_plan, "BYTES_OF_A_LAUNCH", 0)
        fusion = irs.fuse(irs.load(lambda c, y: _read(torch, name, c, y), torch.rand(c), torch.rand(y)), policy=counted)
    (group,) = fusion.groups
    (launch,) = spec_of_group(group, [value.type for value in group.inputs]).launches
    (place,) = (i for i, code in enumerate(launch.spec.instructions) if code.op == "sigmoid")
    computed = prod(launch.sizes[: loop_nest(launch.spec).depths[place]])
    assert max(times) == max(computed // prod(c), 1)
