"""A bar comes after a second, is done when the work is, and stays where the work failed."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from irscope._base import running
from irscope._base.running import counted, progress

tqdm_auto = pytest.importorskip("tqdm.auto")


class Bar:
    """What `progress` uses of a bar; in a notebook one that ends before its total stays, in red."""

    made: list[Bar]

    def __init__(self, total: int, initial: int, **given: Any) -> None:
        self.total, self.n = total, initial
        self.made.append(self)

    def update(self, count: int) -> None:
        self.n += count

    def refresh(self) -> None:
        self.threads = [threading.get_ident()]

    def close(self) -> None:
        self.is_done = self.n == self.total


@pytest.fixture
def bars(monkeypatch: pytest.MonkeyPatch) -> list[Bar]:
    Bar.made = []
    monkeypatch.setattr(tqdm_auto, "tqdm", Bar)
    monkeypatch.setattr(running, "_QUIET_SECONDS", 0.0)
    return Bar.made


def test_work_that_takes_fewer_steps_than_it_might_is_done(bars: list[Bar]) -> None:
    with progress(3, "working") as step:
        step()
    assert bars[0].is_done


def test_work_that_fails_is_not(bars: list[Bar]) -> None:
    def work() -> None:
        with progress(3, "working") as step:
            step()
            raise KeyError

    with pytest.raises(KeyError):
        work()
    assert not bars[0].is_done


def test_quick_work_makes_no_bar(bars: list[Bar], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_QUIET_SECONDS", 60.0)
    assert list(counted(range(1000), "counting")) == list(range(1000))
    assert not bars


def test_steps_of_other_threads_count_and_draw_nothing(bars: list[Bar]) -> None:
    with progress(3, "working") as step:
        helper = threading.Thread(target=lambda: (step(), step()))
        helper.start()
        helper.join()
        assert not bars
        step()
    assert bars[0].n == 3 and bars[0].threads == [threading.get_ident()]


def test_the_time_left_counts_what_was_done_before_the_bar_came(monkeypatch: pytest.MonkeyPatch) -> None:
    """tqdm's own reckoning: half of the work took the seconds that have passed."""
    drawn: list[str] = []
    now = [1000.0]
    monkeypatch.setattr(running.time, "time", lambda: now[0])
    monkeypatch.setattr("tqdm.std.time", lambda: now[0])
    monkeypatch.setattr(tqdm_auto.tqdm, "display", lambda self, *_, **__: drawn.append(str(self)))
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with progress(8, "working") as step:
        for _ in range(3):
            step()
        now[0] += 4
        step()
    assert "4/8 [00:04<00:04" in drawn[1]


def test_a_stream_without_a_terminal_gets_no_bar(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(running, "_QUIET_SECONDS", 0.0)
    with progress(2, "working") as step:
        step()
    assert capfd.readouterr().err == ""
