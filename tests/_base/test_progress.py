"""A bar comes after a second and goes with the work."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from irscope._base import running
from irscope._base.running import counted, progress

tqdm = pytest.importorskip("tqdm")


class Bar:
    """What `progress` uses of a bar."""

    made: list[Bar]

    def __init__(self, total: int, initial: int, **given: Any) -> None:
        self.total, self.n = total, initial
        self.made.append(self)

    def update(self, count: int) -> None:
        self.n += count

    def refresh(self) -> None:
        self.threads = [threading.get_ident()]

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def bars(monkeypatch: pytest.MonkeyPatch) -> list[Bar]:
    Bar.made = []
    monkeypatch.setattr(tqdm, "tqdm", Bar)
    monkeypatch.setattr(running, "_QUIET_SECONDS", 0.0)
    return Bar.made


def test_a_bar_goes_with_the_work_also_where_that_fails(bars: list[Bar]) -> None:
    def work() -> None:
        with progress(3, "working") as step:
            step()
            raise KeyError

    with pytest.raises(KeyError):
        work()
    with progress(3, "working") as step:
        step()
    assert [bar.is_closed for bar in bars] == [True, True]


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
    monkeypatch.setattr(tqdm.tqdm, "display", lambda self, *_, **__: drawn.append(str(self)))
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


def test_a_notebook_keeps_nothing_of_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    interactive = pytest.importorskip("IPython.core.interactiveshell")
    monkeypatch.setattr(running, "_QUIET_SECONDS", 0.0)
    shell = interactive.InteractiveShell.instance()
    try:
        monkeypatch.setattr(shell, "kernel", object(), raising=False)
        published: list[dict[str, Any]] = []
        monkeypatch.setattr(shell.display_pub, "publish", lambda data, **given: published.append({"data": data, **given}))
        with progress(3, "working") as step:
            step()
        made, *_, over = published
        assert made["data"]["text/plain"].startswith("working:  33%|")
        assert over["data"] == {"text/plain": ""} and over["update"] and over["transient"] == made["transient"]
    finally:
        interactive.InteractiveShell.clear_instance()
