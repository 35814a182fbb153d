"""Ops with side effects are of one kind each, and those that are said to end a program do so in torch."""

from __future__ import annotations

import pytest

from irscope.ops.registry import overloads
from irscope.ops.schema import has_side_effects
from irscope.ops.traits import CHANGES_RANDOM_STATE, KNOWN_SIDE_EFFECTS, MOVES_STATISTICS, RUNS_UNSEEN_CODE, STOPS


def test_an_op_is_of_one_kind() -> None:
    assert not KNOWN_SIDE_EFFECTS & RUNS_UNSEEN_CODE
    assert STOPS < KNOWN_SIDE_EFFECTS and CHANGES_RANDOM_STATE < KNOWN_SIDE_EFFECTS and not STOPS & CHANGES_RANDOM_STATE
    assert all(map(has_side_effects, KNOWN_SIDE_EFFECTS | RUNS_UNSEEN_CODE))


@pytest.mark.parametrize("name", sorted(MOVES_STATISTICS))
def test_running_statistics_are_where_they_are_looked_for(name: str) -> None:
    for schema in overloads(name):
        names = [argument.name for argument in schema.arguments]
        assert names[3:5] == ["running_mean", "running_var"] and names[5] == MOVES_STATISTICS[name]


def test_a_range_that_is_not_kept_ends_the_program() -> None:
    torch = pytest.importorskip("torch")
    for name in ("sym_constrain_range", "sym_constrain_range_for_size"):
        assert f"aten::{name}" in STOPS
        with pytest.raises(RuntimeError):
            getattr(torch.ops.aten, name)(7, min=2, max=5)
    with pytest.raises(RuntimeError):
        torch.ops.aten._functional_sym_constrain_range(7, 2, 5, torch.tensor(1.0))
