"""Places never clash, the peak is what the blocks say, and the best placement of few buffers is found by brute force."""

import random
from itertools import permutations

import numpy as np
import pytest

import irscope as irs
from irscope.analysis import memory_placement
from irscope.analysis.memory_placement import ALIGNMENT, aligned
from irscope.analysis.memory_plan import MemoryPlan, memory_plan
from irscope.ir.core import Graph
from tests.programs import parsed
from tests.work import calls_made


def chain(count: int, seed: int = 0, reach: int = 6) -> Graph:
    """A program in which each value is read by a few that follow soon, of sizes between 64 bytes and 4 kB."""
    draw = random.Random(seed)
    names, lines = ["x"], []
    for number in range(count):
        size = draw.choice((16, 64, 256, 1024))
        lines.append(f"  %v{number} : Float({size}) = aten::index_select(%{draw.choice(names[-reach:])}, %zero, %at)")
        names.append(f"v{number}")
    head = "graph(%x : Float(64), %at : Long(*)):\n  %zero : int = prim::Constant[value=0]()\n"
    return irs.parse(head + "\n".join(lines) + f"\n  return (%v{count - 1}, %v{count // 2})")


def check_places(plan: MemoryPlan) -> None:
    """By brute force: nothing that is needed at one moment has a byte in common, and all lies in its block."""
    for index, one in enumerate(plan.places):
        assert one.offset % ALIGNMENT == 0 and one.end <= one.block.bytes
        assert one.block.birth <= one.buffer.birth <= one.buffer.death <= one.block.death
        for other in plan.places[index + 1 :]:
            together = one.buffer.birth <= other.buffer.death and other.buffer.birth <= one.buffer.death
            if together and one.block is other.block:
                assert one.end <= other.offset or other.end <= one.offset, (one, other)
    results = [place for place in plan.places if place.buffer.is_result]
    assert len({place.block for place in results}) == len(results)  # each in memory of its own
    moments = range(len(plan.lifetimes.moments) + 1)
    now = [sum(block.bytes for block in plan.blocks if block.birth <= at <= block.death) for at in moments]
    need = [sum(b.bytes for b in plan.lifetimes.buffers if b.birth <= at <= b.death) for at in moments]
    assert plan.allocated.tolist() == now and plan.peak == max(now)
    assert plan.lower_bound == max(need) == sum(buffer.bytes for buffer in plan.at_peak)


@pytest.mark.parametrize("seed", range(12))
def test_nothing_that_is_needed_together_overlaps(seed: int) -> None:
    plan = irs.memory_plan(chain(60, seed, reach=2 + seed))
    check_places(plan)
    assert plan.peak <= 1.5 * plan.lower_bound
    table = plan.table()
    assert table["bytes"].sum() == sum(buffer.bytes for buffer in plan.lifetimes.buffers)
    assert table.loc[table["at peak"], "bytes"].sum() == plan.lower_bound == plan.peak_table()["bytes"].sum()


@pytest.mark.parametrize("seed", range(6))
def test_few_buffers_lie_as_well_as_in_any_order_of_placing_them(seed: int) -> None:
    plan = irs.memory_plan(chain(8, seed, reach=3))
    buffers = [buffer for buffer in plan.lifetimes.buffers if not buffer.is_result]

    def height(order: tuple[object, ...]) -> int:
        return max(offset + aligned(b.bytes) for b, offset in memory_placement._greedy(order).items())  # type: ignore[arg-type]

    best = min(map(height, permutations(buffers)))
    (arena,) = memory_placement._in_arenas(buffers) if len(memory_placement._in_arenas(buffers)) == 1 else ({},)
    if arena:
        assert max(offset + aligned(b.bytes) for b, offset in arena.items()) <= 1.25 * best


def test_who_shares_a_place_and_who_does_not() -> None:
    graph = parsed("x | a = neg x; v = detach a; b = exp v; c = tanh b; d:Float() = sum c | d", "Float(256)")
    plan = irs.memory_plan(graph)
    places = [plan.place(name) for name in "avcb"]
    assert [None if place is None else (place.offset, place.end) for place in places] == [(0, 1024), (0, 1024), (0, 1024), (1024, 2048)]
    assert places[0] is places[1] is not places[2] and plan.place("x") is None
    assert plan.in_place_peak == 1024 + 4
    with pytest.raises(irs.IrscopeError, match="no value %nobody"):
        plan.place("nobody")


def test_what_has_no_known_size_is_named() -> None:
    plan = irs.memory_plan(irs.parse("graph(%x : Tensor):\n  %a : Tensor = aten::neg(%x)\n  return (%a)"))
    assert [value.name for value in plan.unknown] == ["a"]
    assert plan.peak == 0
    with pytest.raises(irs.IrscopeError, match="memory_plan works on a Graph"):
        irs.memory_plan("graph")


def test_the_plan_grows_with_the_program() -> None:
    small, large = chain(5_000), chain(20_000)
    assert calls_made(lambda: irs.memory_plan(large).peak) < 5 * calls_made(lambda: irs.memory_plan(small).peak)


def test_a_plan_and_views_show_themselves_in_a_notebook() -> None:
    """Without the extension, too, which has pictures."""
    graph = chain(8)
    assert "<td>%v" in memory_plan(graph)._repr_html_()
    assert "<td>%v3</td>" in irs.ViewAliases(graph)._repr_html_()


def test_what_is_of_unknown_size_is_said_with_its_formula_and_the_way_to_count_it() -> None:
    text = "graph(%x : Float(batch, 4)):\n  %a : Float(batch, 4) = aten::relu(%x)\n  %b : Float(batch, 4) = aten::tanh(%a)\n  return (%b)"
    plan = irs.memory_plan(irs.load(text))
    assert "peak at least 0 bytes" in repr(plan) and "2 values of unknown size (%a, %b), 32·batch B together" in repr(plan)
    counted = irs.memory_plan(irs.load(text, np.zeros((3, 4), np.float32)))  # as the hint says
    assert (counted.unknown, counted.uncounted_words()) == ((), "") and counted.peak >= 2 * 3 * 4 * 4
