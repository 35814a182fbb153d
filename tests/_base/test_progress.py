"""A bar is done when the work is, and stays where the work failed."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import pytest

from irscope._base import progress as progress_module
from irscope._base.progress import progress

tqdm_auto = pytest.importorskip("tqdm.auto")


class Bar:
    """What `progress` uses of a bar; in a notebook one that ends before its total stays, in red."""

    made: list[Bar]

    def __init__(self, total: int, **given: Any) -> None:
        self.total, self.n = total, 0
        self.made.append(self)

    def update(self) -> None:
        self.n += 1

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.is_done = self.n == self.total


@pytest.fixture
def bars(monkeypatch: pytest.MonkeyPatch) -> list[Bar]:
    Bar.made = []
    monkeypatch.setattr(tqdm_auto, "tqdm", Bar)
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


def test_a_stream_that_is_no_terminal_gets_no_bar(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress_module, "_QUIET_SECONDS", 0.0)
    with progress(2, "working") as step:
        step()
    assert capfd.readouterr().err == ""
