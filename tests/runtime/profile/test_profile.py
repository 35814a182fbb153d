"""What a profile says of a program: its nodes, their sums, what measuring costs, and what is kept when it is interrupted.

Nothing here asserts a time: numbers are compared with each other, counted, or taken from a clock that the test drives.
"""

from itertools import count
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.errors import ArgumentError
from irscope.runtime.profile import Profile, measure_program, measuring
from irscope.runtime.profile.costs import TensorFacts
from irscope.runtime.profile.measuring import is_larger, unsure
from irscope.runtime.profile.readings import BY
from irscope.runtime.profile.way import Way
from irscope.runtime.timer import Spread
from tests.programs import ir

torch = pytest.importorskip("torch")

X = np.linspace(-1, 1, 64 * 64, dtype=np.float32).reshape(64, 64)

LOOP = ir("x n:int | t = True; one = 1; y = Loop n t x {i:int c | d = tanh c; e = add d x one | t e} | y")


def chain(x: Any) -> Any:
    return (torch.relu(x) * 2.0 + x).t().contiguous() @ x


def profiled(program: Any, *args: Any, **options: Any) -> Profile:
    return irs.profile(program, *args, seconds=0.05, **options)


@pytest.fixture(scope="module")
def profile() -> Profile:
    return profiled(chain, torch.from_numpy(X))


def test_every_node_has_its_calls_bytes_and_memory_and_a_group_the_cost_of_its_kernel(profile: Profile) -> None:
    table = profile.table("node", way="op by op")
    assert table["op"].tolist() == ["aten::relu", "aten::mul", "aten::add", "aten::t", "aten::contiguous", "aten::matmul"]
    assert table["line"].map(lambda line: line.rpartition("/")[2].partition(":")[0]).eq("test_profile.py").all()
    assert table["calls"].eq(1).all()
    (group,) = (node for node in profile.graph("fused").nodes() if node.op == "prim::FusionGroup")
    assert profile.cost(group).bytes == 2 * X.nbytes  # x is read, one result is written
    moved = profile.table("node", way="op by op").set_index("op")["MB"]
    size = X.nbytes / 1e6
    assert moved["aten::relu"] == pytest.approx(2 * size) and moved["aten::add"] == pytest.approx(3 * size)
    assert moved["aten::t"] == 0.0 and moved["aten::contiguous"] == pytest.approx(2 * size)
    assert profile.table("node", way="op by op").set_index("op")["MFLOP"]["aten::matmul"] == pytest.approx(2 * 64**3 / 1e6)
    table = profile.table("node", way="op by op").set_index("op")
    assert table["allocated MB"]["aten::relu"] == pytest.approx(X.nbytes / 1e6)
    assert table["allocated MB"]["aten::t"] == 0.0
    way = profile.ways["op by op"]
    assert table["live MB"].max() * 1e6 <= way.counter.peak_bytes == way.plain.peak_bytes(torch.from_numpy(X))


def test_what_is_given_to_write_is_not_read_and_of_a_cache_only_the_rows_that_indices_name_move() -> None:
    def written(x: Any, cache: Any, out: Any, rows: Any) -> Any:
        torch.mul(x, x, out=out)
        cache.index_copy_(0, rows, x[:2])
        cache.index_add_(0, rows, x[:2])
        cache[rows] = x[:2]
        return torch.zeros_like(x), torch.empty_like(x).t_()

    x, row = torch.from_numpy(X), X.nbytes / 64
    args = x, torch.ones(1000, 64), torch.empty(64, 64), torch.tensor([3, 5])
    profile = profiled(torch.jit.trace(written, args, check_trace=False), *args)
    moved = profile.table("node", way="op by op").groupby("op")["MB"].sum() * 1e6
    copied = 4 * row + 16  # rows of x, the same number of rows of the cache, and two indices
    expected = {"mul": 2 * X.nbytes, "index_copy_": copied, "index_add_": copied + 2 * row, "index_put_": copied, "zeros_like": X.nbytes}
    expected |= {"empty_like": 0, "t_": 0}
    assert {op: moved[f"aten::{op}"] for op in expected} == pytest.approx(expected)


def test_times_are_quartiles_of_as_many_runs_and_shares_sum_to_one(profile: Profile) -> None:
    for label, way in profile.ways.items():
        table = profile.table("node", way=label)
        assert (table["low ms"] <= table["ms"]).all() and (table["ms"] <= table["high ms"]).all()
        assert table["share"].sum() == pytest.approx(1.0)
        assert way.busy.shape == (way.runs, len(table))


@pytest.mark.parametrize("by", [by for by in BY if by not in ("node", "group")])
@pytest.mark.parametrize("way", ["op by op", "fused"])
def test_sums_are_the_same_however_they_are_made(profile: Profile, by: Any, way: str) -> None:
    nodes, table = profile.table("node", way=way), profile.table(by, way=way)
    chosen = table[table["module"] == ""] if by == "module" else table
    assert chosen["ms"].sum() == pytest.approx(nodes["ms"].sum())
    assert chosen["MB"].sum() == pytest.approx(nodes["MB"].sum())


def test_a_dropout_that_passes_its_tensor_on_launches_nothing() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5))
    launched = {}
    for training in (True, False):
        rows = irs.profile(model.train(training), torch.ones(4, 8), seconds=0.2).rows("op by op")
        launched[training] = {row.node.op: row.launches for row in rows}
    assert [launched[training]["aten::dropout"] for training in (True, False)] == [1, 0]


def test_a_group_has_its_nodes_before_and_its_kernel_after(profile: Profile) -> None:
    groups = profile.table("group")
    assert groups["ops"].tolist() == [3]
    first = groups.iloc[0]
    one_by_one = profile.table("node", way="op by op").set_index("group")
    members = one_by_one.loc[[first["group"]], "ms"]
    assert first["before ms"] <= members.sum() * 10 and len(members) == first["ops"]
    if first["verdict"] in ("faster", "slower"):  # a busy machine cannot tell
        assert (first["after ms"] < first["before ms"]) == (first["verdict"] == "faster")


def test_the_cost_of_measuring_the_first_call_and_the_environment_are_reported(profile: Profile) -> None:
    assert (profile.parts["measuring µs a node"] > 0).all()
    told = ", ".join(f"{ratio:.2f} {label}" for label, ratio in profile.parts["parts of call"].items())
    assert f"taken off each node: the parts sum to {told} of a call" in profile.caption()
    assert {"compile ms", "first call ms", "warm-up ms", "entry ms", "end ms"} <= set(profile.parts.columns)
    assert (profile.parts[["compile ms", "first call ms", "warm-up ms", "call ms"]] > 0).all(axis=None)
    assert {"cpu", "threads", "load", "versions", "allocator"} <= set(profile.environment)
    assert profile.environment["versions"]["torch"]


def test_loops_count_their_trips_and_all_inside_also_none() -> None:
    p = profiled(irs.parse(LOOP), torch.from_numpy(X), 5)
    table = p.table("node", way="op by op").set_index("op")
    assert table["trips"]["prim::Loop"] == 5 and table["calls"]["aten::tanh"] == 5
    inside = table["ms"][["aten::tanh", "aten::add"]].sum()
    assert table["total ms"]["prim::Loop"] == pytest.approx(table["ms"]["prim::Loop"] + inside)
    assert table["MB"]["aten::tanh"] == pytest.approx(5 * 2 * X.nbytes / 1e6)
    p = profiled(irs.parse(LOOP), torch.from_numpy(X), 0)
    table = p.table("node", way="op by op").set_index("op")
    assert table["trips"]["prim::Loop"] == 0 and table["calls"]["aten::tanh"] == 0 and table["ms"]["aten::tanh"] == 0


def test_numpy_programs_have_profiles_too() -> None:
    p = profiled(lambda a: np.exp(a) @ a, X)
    assert set(p.table("op", way="op by op")["op"]) == {"aten::exp", "aten::matmul"}


def test_an_executable_is_profiled_as_it_is() -> None:
    x = torch.from_numpy(X)
    made = irs.compile(irs.fuse(irs.load(chain, x)))
    p = profiled(made, x)
    assert set(p.ways) == {"op by op", "fused"}
    assert p.members.keys() == {node.id for node in made.graph.nodes() if node.op == "prim::FusionGroup"}
    assert torch.equal(made(x), made(x))


def test_what_a_program_writes_is_put_back() -> None:
    x = torch.ones(8)
    g = irs.parse("graph(%x : Tensor, %n : int):\n  %y : Tensor = aten::add_(%x, %x, %n)\n  return (%y)")
    profiled(g, x, 1)
    assert torch.equal(x, torch.ones(8))


@pytest.mark.parametrize(("at", "ways", "turns"), [
    ("the seventh turn", ["op by op", "fused"], 3), ("a fused turn", ["op by op"], 1), ("compiling the fused program", ["op by op"], 1),
])  # fmt: skip
def test_a_ctrl_c_keeps_what_was_measured(at: str, ways: list[str], turns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def turn(run: Any, way: Way, *given: Any) -> None:
        seen.append(way.label)
        if (at, way.label) == ("a fused turn", "fused") or len(seen) > 6:
            raise KeyboardInterrupt
        plain_turn(run, way, *given)

    def of(label: Any, *given: Any, alone: bool) -> Way:
        if (at, label) == ("compiling the fused program", "fused"):
            raise KeyboardInterrupt
        return plain_of(label, *given, alone=alone)

    plain_turn, plain_of = measuring._Run._turn, Way.of
    monkeypatch.setattr(measuring._Run, "_turn", turn)
    monkeypatch.setattr(Way, "of", of)
    p = irs.profile(chain, torch.from_numpy(X), seconds=60)
    assert p.is_interrupted and list(p.ways) == ways and p.measured.turns == turns
    assert "Interrupted" in p.caption() and len(p.top(3)) == 3 and repr(p) and p.remarks is not None
    assert len(p.table(by="group")) == len(ways) - 1


def test_a_ctrl_c_before_the_first_turn_is_over_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def turn(*given: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(measuring._Run, "_turn", turn)
    with pytest.raises(KeyboardInterrupt):
        irs.profile(chain, torch.from_numpy(X), seconds=60)


def test_a_busy_machine_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("irscope.runtime.measure.conditions.others", lambda: 90.0)
    p = profiled(chain, torch.from_numpy(X))
    assert "busy" in p.warnings[0] and repr(p).startswith(p.warnings[0]), "before the numbers"
    assert p.measured.threads == 1


@pytest.mark.parametrize("calls", [1, 3, 12])
def test_no_call_begins_once_the_time_is_up(calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of 0.1 s is given 0.1 s, 0.3 s and 1.2 s: it may be called once more than fits."""
    from irscope.runtime.program import Executable

    run, called = Executable.__call__, 0

    def slow(self: Any, *args: Any) -> Any:
        nonlocal called
        called += 1
        return run(self, *args)

    monkeypatch.setattr(Executable, "__call__", slow)
    monkeypatch.setattr(measuring, "time", SimpleNamespace(perf_counter=lambda: 0.1 * called))
    monkeypatch.setattr(measuring, "_SHORT_NS", 0)
    monkeypatch.setattr(measuring, "_forced_switches", lambda: 0)
    turn = measuring._calls(0.1)
    monkeypatch.setattr(measuring, "_calls", lambda seconds: turn)  # else the true clock decides how many calls a turn has
    p = irs.profile(chain, torch.from_numpy(X), seconds=0.1 * calls, threads=1)
    assert called <= calls + 1
    assert len(p.top(3)) == 3 and repr(p) and p.remarks is not None
    assert bool(p.warnings) is (calls < 12) or "busy" in p.warnings[0]
    assert calls > 1 or "would also measure the fused program" in p.warnings[-1] or "more than the first call" in p.warnings[-1]


def test_a_numpy_function_is_compared_with_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "time", SimpleNamespace(perf_counter=count(0, 0.001).__next__))
    rng = np.random.default_rng(0)
    x, y = rng.random(10_000), rng.random(10_000)

    def pi(x: Any, y: Any) -> Any:
        return 4 * np.sum(np.sqrt(x * x + y * y) <= 1) / 10_000

    p = irs.profile(pi, x, y, seconds=0.5)
    assert p.measured.own is not None
    name, own = p.measured.own
    assert name == "NumPy" and "in NumPy" in p.verdict() and "as NumPy" in p.verdict()
    assert all(remark.gain_ns <= remark.now_ns <= own.median * 1.001 for remark in p.remarks), "no more than it takes"
    assert not any("saves" in str(remark) for remark in p.remarks if remark.rule == "fuse"), "the gain is an estimate"


@pytest.mark.parametrize(("call", "told"), [
    (lambda p: p.table("colour"), "no table by 'colour'"), (lambda p: p.table(way="deduplicated"), "no way 'deduplicated'"),
    (lambda p: p.try_(99), "no remark 99"), (lambda p: p.diff(3), "compared with a profile"),
    (lambda p: p.save("/no/such/folder/x.json"), "cannot be written"),
])  # fmt: skip
def test_mistakes_are_reported(profile: Profile, call: Any, told: str) -> None:
    with pytest.raises(ArgumentError, match=told):
        call(profile)


def test_no_time_measures_nothing() -> None:
    with pytest.raises(ArgumentError, match="must be positive"):
        measure_program(irs.load(chain, torch.from_numpy(X)), (torch.from_numpy(X),), device=None, seconds=0)


def test_a_difference_and_an_order_are_sure_where_most_runs_agree() -> None:
    a, b = Spread(1.0, 0.9, 1.3), Spread(1.5, 1.2, 1.8)
    assert a.against(b) == b.against(a) == "the same"
    assert Spread(1.0, 0.9, 1.1).against(b) == "faster" and b.against(Spread(1.0, 0.9, 1.1)) == "slower"
    random = np.random.default_rng(0)
    sure = np.stack([random.normal(3, 0.1, 40), random.normal(2, 0.1, 40), random.normal(1, 0.1, 40)], 1)
    assert unsure(sure) == []
    noisy = np.stack([random.normal(2.1, 5, 7), random.normal(1.9, 5, 7)], 1)
    assert unsure(noisy) == [int(np.argmax(np.median(noisy, axis=0)))]
    # of columns that are alike, one in twenty may seem the larger: either one by chance, two-sided
    random = np.random.default_rng(1)
    wrong = sum(is_larger(random.normal(size=30), random.normal(size=30)) for _ in range(2000))
    assert wrong / 2000 < 0.06


def test_an_expanded_tensor_has_the_bytes_of_its_memory() -> None:
    facts = TensorFacts("float32", (64, 32, 16), (16, 0, 1), 4)
    assert facts.bytes == 64 * 16 * 4 and facts.full_bytes == 64 * 32 * 16 * 4
    assert TensorFacts("float32", (8, 4), (1, 8), 4).order == (1, 0)
