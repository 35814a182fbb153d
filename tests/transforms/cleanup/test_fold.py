"""Folding and removal of dead nodes: values stay, runs share nothing; what they do to which program is in `tests/cases/passes`."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.ir import Created, Erased, Graph
from irscope.runtime.reference import run_reference
from irscope.transforms.cleanup import fold_constants, fold_weights, remove_dead_nodes
from tests.programs import parsed


def ops(graph: Graph) -> list[str]:
    return [node.op.partition("::")[2] for node in graph.nodes()]


def test_a_folded_number_is_the_same_value() -> None:
    graph = irs.parse("graph(%x : Float(2, 3)):\n  %n : int = aten::dim(%x)\n  return (%n)")
    record = fold_constants(graph)
    assert record.after.outputs == graph.outputs
    assert ops(record.after) == ["Constant"]
    assert {type(edit) for edit in record.edits} == {Erased, Created}


def test_a_chain_of_twenty_thousand_dead_nodes_needs_no_recursion() -> None:
    lines = [f"  %v{i} : Tensor = aten::relu(%{f'v{i - 1}' if i else 'x'})" for i in range(20_000)]
    graph = irs.parse("\n".join(["graph(%x : Tensor):", *lines, "  return (%x)"]))
    assert ops(remove_dead_nodes(graph).after) == []


def test_runs_do_not_share_what_they_write() -> None:
    """A state that starts as a constant and is written in place later is made again at each run."""
    fusion = irs.fuse(
        parsed(
            "x:Float(3, 4, strides=[4, 1]) | none = None; one = 1; h = zeros_like x none none none none none; g = add_ h x one; "
            "y = neg h | y"
        )
    )
    x = np.ones((3, 4), np.float32)
    first = run_reference(fusion.graph, x)[0]
    np.testing.assert_array_equal(run_reference(fusion.graph, x)[0], first)


@pytest.mark.parametrize("n", [8, 150])
def test_a_fused_graph_with_a_larger_constant_runs_after_it_was_printed(n: int) -> None:
    numbers = f"none = None; one = 1; zero = 0; n = {n}; i:Long({n}, strides=[1]) = arange n none none none none"
    mask = f"c:Long({n}, 1, strides=[1, 1]) = unsqueeze i one; m:Bool({n}, {n}, strides=[{n}, 1]) = le i c"
    graph = parsed(f"x:Float({n}, {n}, strides=[{n}, 1]) | {numbers}; {mask}; y = masked_fill x m zero; z = exp y | z", f"Float({n}, {n})")
    fused = irs.fuse(graph).graph
    again = irs.parse(str(fused))
    assert f"<Tensor CPUBoolType{{{n},{n}}} " in str(fused)
    assert str(again) == str(fused)
    x = np.linspace(-1, 1, n * n, dtype=np.float32).reshape(n, n)
    np.testing.assert_array_equal(run_reference(again, x), run_reference(graph, x))


def test_what_libraries_round_differently_is_computed_at_each_run(torch: Any) -> None:
    """Steps of an `arange` that are fractions, and a sum with a factor, have other last bits in torch than in NumPy."""

    def rows(x: Any) -> Any:
        return x * (torch.arange(0.0, 0.4, 0.01)[:, None] >= torch.full((), 0.09))

    def scaled(x: Any) -> Any:
        return x + torch.add(torch.full((3, 4), 0.2), torch.full((3, 4), 0.1), alpha=-3)

    for function, x in ((rows, torch.ones(4)), (scaled, torch.zeros(3, 4))):
        program = irs.compile(irs.fuse(irs.load(function, x), exact="torch"), exact="torch")
        assert torch.equal(program(x), function(x))


JOINED = """graph(%x : Float(2, K), %w : Float(2, K, strides=[K, 1]), %v : Float(2, K, strides=[K, 1])):
  %none : NoneType = prim::Constant()
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %first : Float(1, K, strides=[K, 1]) = aten::slice(%w, %zero, %zero, %one, %one)
  %l : Tensor[] = prim::ListConstruct(%v, %first)
  %c : Float(3, K, strides=[K, 1]) = aten::cat(%l, %zero)
  LINE
  return (%y)"""
LINEAR = "%y : Float(2, 3) = aten::linear(%x, %c, %none)"


def joined(line: str = LINEAR, *, is_fixed: bool = True, width: int = 3) -> Graph:
    graph = irs.parse(JOINED.replace("LINE", line).replace("K", str(width)))
    arrays = np.random.default_rng(0).normal(size=(2, 2, width)).astype(np.float32)
    arrays.flags.writeable = not is_fixed
    return replace(graph, bound=dict(zip((graph.value("w"), graph.value("v")), arrays, strict=True)))


def test_weights_of_a_file_are_moved_once() -> None:
    graph = joined()
    record = fold_weights(graph)
    assert ops(record.after) == ["Constant", "linear"]
    (moved,) = record.after.bound.values()
    w, v = graph.bound.values()
    assert not moved.flags.writeable
    np.testing.assert_array_equal(moved, np.concatenate([v, w[:1]]))
    assert [remark.rule for remark in record.remarks] == ["weights"]
    x = np.random.default_rng(1).normal(size=(2, 3)).astype(np.float32)
    np.testing.assert_array_equal(run_reference(record.after, x), run_reference(graph, x))


@pytest.mark.parametrize(
    "line",
    [
        "%z : Tensor = aten::linear(%x, %c, %none); %y : (Tensor, Tensor) = prim::TupleConstruct(%z, %c)",  # the caller gets it
        "%v2 : Tensor = aten::t(%c); %y : Tensor = aten::view_as(%v2, %v2)",
        "%d : Tensor = aten::add_(%c, %one, %one); %y : Tensor = aten::linear(%x, %c, %none)",  # each run writes its own
        "%d : Tensor = aten::add_(%first, %one, %one); %y : Tensor = aten::linear(%x, %c, %none)",
    ],
)
def test_what_a_caller_gets_or_a_program_writes_is_made_at_each_run(line: str) -> None:
    graph = joined(line.replace("; ", "\n  "))
    assert fold_weights(graph).after is graph


def test_weights_that_their_owner_may_write_and_large_ones_stay() -> None:
    for graph in (joined(is_fixed=False), joined(width=100_000)):
        assert fold_weights(graph).after is graph
