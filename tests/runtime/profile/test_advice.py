"""What would help: planted slow spots are found, whole programs are left alone, and what is advised can be tried.

The machine is one of the tests' own: a call takes 2 µs, memory moves 10 bytes and arithmetic makes 50 operations a
nanosecond, rows read against columns are six times slower. So the order of remarks does not depend on who else computes.
"""

import re
from functools import cache
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.errors import ArgumentError

torch = pytest.importorskip("torch")

from irscope.runtime.profile.profile_result import Profile  # noqa: E402
from irscope.runtime.profile.way import Run  # noqa: E402
from tests.runtime.profile.planted import PLANTED, slow_lines  # noqa: E402


class Machine:
    """What `Speeds` says of the tests' machine."""

    def copy_ns(self, moved: float) -> float:
        return moved / 10

    def flops_ns(self, flops: float) -> float:
        return flops / 50

    def roof_ns(self, moved: float, flops: float) -> float:
        return max(self.copy_ns(moved), self.flops_ns(flops))


def on_the_machine(program: Any, *args: Any) -> Profile:
    """A profile whose times are the machine's."""
    p = irs.profile(program, *args, seconds=0.01)
    machine = Machine()
    p.__dict__["speeds"] = machine
    for way in p.ways.values():
        times = []
        for node in way.nodes:
            cost = way.cost(node)
            across = any(facts is not None and facts.bytes > 1 << 18 and list(facts.order) != sorted(facts.order)
                         for facts in cost.operands)  # fmt: skip
            work = machine.roof_ns(cost.bytes, cost.flops) * (6 if across and cost.bytes else 1)
            launches = cost.calls if cost.bytes or cost.flops else 0
            times.append(launches * 2000 + work + 50)
        way._runs = [Run(np.array(times), np.array(times), np.zeros(len(times)))] * 9
        way.whole = [float(sum(times))] * 9
    return p


@cache
def planted(name: str) -> Profile:
    program, args = PLANTED[name]
    return on_the_machine(program, *args)


@pytest.fixture(scope="module", autouse=True)
def forgotten() -> Any:
    yield
    planted.cache_clear()  # what they hold should not live until Python ends


@pytest.mark.parametrize("name", PLANTED)
def test_the_first_or_second_remark_names_the_line(name: str) -> None:
    remarks = planted(name).remarks
    wanted = slow_lines(PLANTED[name][0])
    told = [{line.line for line in remark.lines} for remark in remarks[:2]]
    assert wanted & set().union(*told), "\n".join(map(str, remarks))
    named = next(remark for remark in remarks if wanted & {line.line for line in remark.lines})
    assert any(f":{line}" in str(named) or f", {line}" in str(named) for line in wanted), str(named)
    assert named.gain_ns > 0 and named.share > 0.02


RULES = {
    "copy": "copy", "broadcast": "expanding-broadcast", "float64": "float64", "python loop": "many-small-ops",
    "transposed": "transposed-operand", "item": "waits-for-a-number", "rebuilt constant": "rebuilt-constant",
    "expanded": "expanded-copy", "tiny kernels": "fuse", "twice": "computed-again", "unused": "unused", "written softmax": "fuse",
    "growing": "grows-by-copies", "growing in a loop": "grows-by-copies",
}  # fmt: skip


@pytest.mark.parametrize("name", RULES)
def test_each_planted_line_gets_its_own_rule(name: str) -> None:
    remarks = planted(name).remarks
    wanted = slow_lines(PLANTED[name][0])
    rules = [remark.rule for remark in remarks if wanted & {line.line for line in remark.lines}]
    assert RULES[name] in rules


def test_the_advice_against_a_wait_is_that_of_the_op() -> None:
    """A count has no form without a wait, and of an op before which nothing runs nothing is gained."""

    def counted(x, n):  # type: ignore[no-untyped-def]
        y = (x @ x).relu()
        m = n + y[0].long()
        a = torch.masked_select(y, y > 50)
        b = torch.repeat_interleave(y, m, dim=0)
        c = torch.bincount(m)
        d = torch.bincount(n)
        return a, b, c, d, y.sum().item()

    x, n = torch.rand(64, 64), torch.ones(64, dtype=torch.int64)
    remarks = on_the_machine(irs.load(torch.jit.script(counted), x, n), x, n).remarks
    told = {str(remark.because).partition(" ")[0]: remark.advice for remark in remarks if remark.rule == "waits-for-a-number"}
    assert told["masked_select"].startswith("torch.where") and told["repeat_interleave"].startswith("give output_size")
    assert told["item"].startswith("keep it") and told["bincount"].startswith("what it waits for is in the elements")
    assert sum(len(remark.nodes) for remark in remarks if remark.because.startswith("bincount")) == 1


def test_no_remark_contradicts_another() -> None:
    for name in PLANTED:
        at_the_roof = [remark for remark in planted(name).remarks if remark.rule == "at-the-roof"]
        others = planted(name).remarks[: len(planted(name).remarks) - len(at_the_roof)]
        assert not {remark.node for remark in at_the_roof} & {node for remark in others for node in remark.nodes}, "nothing to gain"
        for place, remark in enumerate(others):
            shared = [k for k in remark.beside if k < place and {*others[k].nodes} & {*remark.nodes}]
            assert len(shared) == len(remark.beside) and ("in part those of" in str(remark)) == bool(shared)

    def wasteful(x: Any) -> Any:
        torch.ones(1 << 16).exp()
        return torch.relu(x.to("cpu"))

    rules = {remark.rule for remark in on_the_machine(wasteful, torch.ones(64, 64)).remarks}
    assert not rules & {"rebuilt-constant", "waits-for-a-number"}, "what is unused is not to be kept, and nothing is copied from a GPU"


def test_tensors_of_float64_are_named_in_one_remark_for_a_line() -> None:
    class Layers(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name in ("a", "b"):
                self.register_buffer(name, torch.ones(256, dtype=torch.float64))

        def forward(self, x: Any) -> Any:
            for scale in (self.a, self.b):
                x = torch.tanh(x * scale).float()
            return x

    found = [str(remark.because) for remark in on_the_machine(Layers(), torch.randn(512, 256)).remarks if remark.rule == "float64"]
    assert len(found) == 1 and found[0].startswith("mul reads %a, %b, which are float64")


def test_a_recurrence_is_not_advised_to_be_one_op() -> None:
    remark = next(r for r in planted("recurrent").remarks if r.rule == "many-small-ops")
    assert "needs the one before" in remark.advice


def test_pieces_that_are_joined_once_do_not_grow() -> None:
    def joined(x: Any) -> Any:
        pairs = [torch.cat([x[i], torch.relu(x[i])]) for i in range(8)]
        return torch.cat([torch.cat(pairs[:4]), torch.cat(pairs[4:])])

    p = on_the_machine(joined, torch.ones(8, 1 << 16))
    assert "grows-by-copies" not in {remark.rule for remark in p.remarks}


def test_where_all_is_at_its_roof_nothing_is_advised() -> None:
    p = on_the_machine(lambda a, b: a @ b, torch.ones(512, 512), torch.ones(512, 512))
    assert [remark.rule for remark in p.remarks] == ["at-the-roof"]
    assert "nothing to gain" in str(p.remarks[0])
    with pytest.raises(ArgumentError, match="nothing to try"):
        p.try_(0)


def test_a_copy_that_keeps_a_write_apart_is_not_taken_away() -> None:
    def guarded(x: Any) -> Any:
        kept = x.clone()
        x.add_(1.0)
        return kept * x

    remarks = on_the_machine(guarded, torch.ones(512, 512)).remarks
    copies = [remark for remark in remarks if remark.rule == "copy"]
    assert all(remark.change is None and "keeps apart" in remark.advice for remark in copies)


def test_float64_programs_are_meant_to_be() -> None:
    p = on_the_machine(lambda x: torch.tanh(x) * 2.0, torch.ones(256, 256, dtype=torch.float64))
    assert "float64" not in {remark.rule for remark in p.remarks}


@pytest.mark.parametrize("name", ["copy", "rebuilt constant", "twice", "unused", "written softmax"])
def test_what_is_advised_can_be_tried_and_computes_the_same(name: str) -> None:
    p = planted(name)
    remark = next(r for r in p.remarks if r.rule == RULES[name])
    trial = p.try_(remark, seconds=0.05)
    assert trial.is_same, repr(trial)
    assert trial.before.median > 0 and trial.after.median > 0
    if name != "written softmax":
        kept = {node.id for node in trial.graph.nodes()}
        assert any(node.id not in kept for node in remark.nodes)


def test_what_only_the_author_can_do_is_said() -> None:
    with pytest.raises(ArgumentError, match="asks for a change of the source"):
        planted("broadcast").try_(0)


def test_an_operand_of_fewer_dimensions_does_not_lie_across() -> None:
    p = on_the_machine(lambda x, m: torch.tanh(x * m[:256, :256]), torch.ones(4, 256, 256), torch.ones(512, 512))
    assert "transposed-operand" not in {remark.rule for remark in p.remarks}


def test_a_copy_that_is_the_result_is_the_caller_s_affair() -> None:
    def turned(x: Any) -> Any:
        return torch.softmax(x, -1).transpose(0, 1).contiguous()

    told = {last: str(on_the_machine(function, torch.ones(300, 300)).remarks) for last, function in {
        "only the caller reads it": turned, "its users can read": lambda x: turned(x).cumsum(0),
    }.items()}  # fmt: skip
    for words, remarks in told.items():
        assert words in remarks


def test_what_the_library_does_better_is_left_to_it() -> None:
    """The hint is followed: with what it says to write, the ops are in no group."""
    x = torch.rand(512, 512)
    graph = irs.load(lambda x: torch.remainder(x, 0.37) * 2, x)
    p = on_the_machine(graph, x)
    way = p.ways["fused"]
    (place,) = [k for k, node in enumerate(way.nodes) if node.op == "prim::FusionGroup"]
    for times, *_ in way._runs:
        times[place] = 30e6
    p._rows.clear()
    first = p.remarks[0]
    assert first.rule == "slower-fused" and "30 ms" in str(first) and "below-the-roof" not in [remark.rule for remark in p.remarks]
    call = re.search(r"irs\.fuse\(g, opaque=\[.*?\]\)", first.advice)
    assert call is not None and not eval(call[0], {"irs": irs, "g": graph}).groups


def test_a_broadcast_is_predicted_to_save_no_more_than_its_kernel_was_measured_to() -> None:
    x, y = torch.randn(512, 1), torch.randn(512)
    p = on_the_machine(lambda x, y: torch.exp(x + y).sum(1), x, y)
    rule = "expanding-broadcast"
    (remark,) = (each for each in p.remarks if each.rule == rule)
    group = next(row for row in p.rows("fused") if row.node.op == "prim::FusionGroup")
    saved = p.group_before(group.node).median - group.self_time.median
    assert remark.gain_ns <= saved * (1 + 1e-9)
    p = on_the_machine(lambda x, y: torch.exp(x + y).sum(1), x, y)
    fused = p.ways["fused"]
    fused._runs = [each._replace(busy=each.busy * 1000) for each in fused._runs]
    assert not [each for each in p.remarks if each.rule == rule], "its kernel is slower than the ops one by one"
