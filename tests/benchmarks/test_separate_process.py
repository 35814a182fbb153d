"""Jobs in a separate process: what one of them does to its process, the others do not feel."""

import os
import time
from types import SimpleNamespace
from typing import Any

import pytest

from tests.benchmarks import separate_process
from tests.benchmarks.separate_process import Job, apart


def jobs(*names: str) -> list[Job]:
    return [{"case": name} for name in names]


def work(job: Job) -> dict[str, Any]:
    """What the name of a job says."""
    if job["case"] == "crash":
        os._exit(11)
    if job["case"] == "hang":
        time.sleep(60)
    if job["case"] == "fail":
        raise ValueError("no luck\nat all")
    if job["case"] == "spoil":
        return {"error": "ValueError: no luck", "spoiled": True}
    return {"process": os.getpid()}


def test_a_job_that_fails_crashes_or_spoils_the_gpu_costs_itself() -> None:
    asked = jobs("one", "fail", "two", "crash", "three", "spoil", "four")
    found = {job["case"]: result for job, result in apart(asked, work, until=time.monotonic() + 600, patience=300)}
    assert list(found) == [job["case"] for job in asked]
    assert found["fail"] == found["spoil"] == {"error": "ValueError: no luck"}
    assert found["crash"] == {"error": "its process ended with status 11"}
    one, two, three, four = (found[name]["process"] for name in ("one", "two", "three", "four"))
    assert one == two and len({two, three, four}) == 3


def test_a_job_that_hangs_is_given_up_and_the_next_one_begins() -> None:
    found = list(apart(jobs("hang", "hang"), work, until=time.monotonic() + 600, patience=0.2))
    assert [result for _, result in found] == [{"error": "no sign of life for 0.2 s"}] * 2


def test_when_the_time_is_up_the_rest_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter((5.0, 0.0, 5.0))
    monkeypatch.setattr(separate_process, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    assert not list(apart(jobs("one"), work, until=1))
    assert [job["case"] for job, _ in apart(jobs("one", "two"), work, until=1)] == ["one"]
