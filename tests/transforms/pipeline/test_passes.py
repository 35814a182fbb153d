"""Every ordinary pass on random programs: the result verifies, means the same to the last bit, reads back, and is done."""

import pytest

import irscope as irs
from irscope.analysis.alias.alias_db import AliasDb
from irscope.ir.core import Graph
from irscope.transforms import pipeline as registry
from irscope.transforms.cleanup.canonicalize import RULES
from irscope.transforms.cleanup.cse import eliminate_common_subexpressions

pytest.importorskip("torch")

from tests.programs import parsed
from tests.random_programs.graphs import FEATURES, random_program
from tests.transforms.fusion.judges import differences
from tests.transforms.same_meaning import TYPED, assert_same_meaning, check_pass
from tests.work import blocks, calls_made, long, some

ELSEWHERE = {"fuse", "prepare-fusion", "fuse-groups", "group-views", "autodiff-subgraphs"}
"""Passes with random programs of their own, in the tests of their rooms."""
PASSES = {name: one.load() for name, one in registry.PASSES.items() if name not in ELSEWHERE}
ALL = "functionalize,canonicalize,cse,pool-constants,dce"


@pytest.mark.parametrize("seeds", [*some(blocks(0, 40, 1), 15), *long(blocks(1000, 10, 500))], ids=str)
@pytest.mark.parametrize("name", PASSES)
def test_callers_see_no_difference(name: str, seeds: range) -> None:
    for seed in seeds:
        check_pass(PASSES[name], seed, size=25 if seed < 1000 else 35, of_types=seed % 3 == 0)


@pytest.mark.parametrize("seed", some(range(40, 80), 20))
def test_callers_see_no_difference_after_a_pipeline(seed: int) -> None:
    of_types = seed % 2 == 0
    program = random_program(seed, size=30, features=FEATURES | TYPED if of_types else FEATURES)
    graph = irs.parse(program.with_types().text if of_types else program.text)
    done = irs.Pipeline(ALL)(graph, verify_each=True)
    assert_same_meaning(graph, done.graph, program)


@pytest.mark.parametrize("seed", some(range(10), 4))
@pytest.mark.parametrize("name", PASSES)
def test_an_alias_db_can_follow_the_record(name: str, seed: int) -> None:
    record = check_pass(PASSES[name], seed)
    assert list(differences(AliasDb(record.before).follow(record), AliasDb(record.after))) == []


def test_two_seen_results_do_not_become_one_by_way_of_a_third() -> None:
    graph = parsed("x | a = neg x; b = neg x; c = neg x; d = exp a | b c d")
    after = eliminate_common_subexpressions(graph).after
    assert len(set(after.outputs)) == 3


def test_every_rule_has_a_proof_and_ops_of_its_own() -> None:
    assert all(rule.find.__doc__ for rule in RULES)
    ops = [op for rule in RULES for op in rule.ops]
    assert len(ops) == len(set(ops))


def long_program(count: int) -> Graph:
    """Pairs of equal nodes, a write now and then, and constants of each kind."""
    lines = []
    for index in range(count):
        lines += [
            f"  %one.{index} : int = prim::Constant[value=1]()",
            f"  %a.{index} : Tensor = aten::neg(%x)",
            f"  %b.{index} : Tensor = aten::neg(%x)",
            f"  %c.{index} : Tensor = aten::add(%a.{index}, %b.{index}, %one.{index})",
            f"  %d.{index} : Tensor = aten::relu_(%c.{index})",
            f"  %v.{index} : Tensor = aten::select(%c.{index}, %one.{index}, %one.{index})",
            f"  %w.{index} : Tensor = aten::tanh_(%v.{index})",
        ]
    body = "\n".join(lines)
    return irs.parse(f"graph(%x : Tensor):\n{body}\n  return (%d.{count - 1})")


@pytest.mark.parametrize("name", PASSES)
def test_work_grows_with_the_program(name: str) -> None:
    run = PASSES[name]
    run(long_program(5))  # loads the tables of ops
    small, large = long_program(60), long_program(480)
    assert calls_made(lambda: run(large)) < 9.6 * calls_made(lambda: run(small))


def test_deep_nesting_needs_no_deep_stack() -> None:
    depth = 3_000
    text = (
        "graph(%x : Float(2, 3, strides=[3, 1]), %c : bool):\n  %y : Tensor = aten::neg(%x)\n"
        + "prim::If(%c)\nblock0():\n" * depth
        + "%z : Tensor = aten::relu_(%y)\n"
        + "-> ()\nblock1():\n-> ()\n" * depth
        + "  return (%y)"
    )
    done = irs.Pipeline(ALL)(irs.parse(text))
    assert [node.op for node in done.graph.nodes() if node.op.startswith("aten")] == ["aten::neg", "aten::relu"]
