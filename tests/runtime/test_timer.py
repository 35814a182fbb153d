"""Measurements: turns, warm-up, restoring, and the numbers drawn from them."""

from functools import partial
from types import SimpleNamespace

import pytest

from irscope.runtime.timer import Spread, measure


def test_quartiles():
    spread = Spread.of([4.0, 1.0, 3.0, 2.0])
    assert (spread.low, spread.median, spread.high) == (1.75, 2.5, 3.25)
    assert Spread.of([1.0]).high == 1.0


def test_competitors_take_turns_in_an_order_that_changes():
    calls: list[str] = []
    measure({name: lambda name=name: calls.append(name) for name in "abc"}, turns=30, once=True)
    turns = ["".join(calls[start : start + 3]) for start in range(0, len(calls), 3)]
    assert turns[0] == "abc", "the warm-up"
    assert all(sorted(turn) == ["a", "b", "c"] for turn in turns)
    followed = {pair for turn in turns[1:] for pair in (turn[:2], turn[1:])}
    assert followed == {"ab", "ac", "ba", "bc", "ca", "cb"}, "each comes after each other one in some turn"


def test_before_runs_before_every_call_that_counts():
    log: list[str] = []
    measure({"a": lambda: log.append("run")}, turns=2, before=lambda: log.append("before"), once=True)
    assert log == ["before", "run"] * 3


def test_quick_calls_are_repeated():
    count = 0

    def run() -> None:
        nonlocal count
        count += 1

    measure({"quick": run}, turns=3)
    assert count > 3 * 10


def test_who_comes_after_whom_does_not_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is slow after another one, and in its first calls, is timed as it is in a row."""
    now, last, calls = 0.0, "", {"a": 0, "b": 0}
    monkeypatch.setattr("irscope.runtime.timer.time", SimpleNamespace(perf_counter=lambda: now))

    def run(name: str) -> None:
        nonlocal now, last
        calls[name] += 1
        now += 5e-3 if last != name or calls[name] < 4 else 1e-5
        last = name

    found = measure({name: partial(run, name) for name in "ab"}, turns=5)
    assert [round(spread.median) for spread in found.values()] == [10_000, 10_000]


def test_an_error_is_not_swallowed():
    with pytest.raises(ZeroDivisionError):
        measure({"a": lambda: 1 // 0})


def test_no_further_turn_starts_when_patience_is_over():
    found = measure({"a": lambda: None, "b": lambda: None}, turns=50, patience=0.0)
    assert [spread.turns for spread in found.values()] == [1, 1]
