"""Jobs in a separate process: what one of them does to its process, the others do not feel."""

import os
import time
from typing import Any

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


def test_a_job_that_fails_crashes_hangs_or_spoils_the_gpu_costs_itself() -> None:
    asked = jobs("one", "fail", "two", "crash", "three", "hang", "four", "spoil", "five")
    found = {job["case"]: result for job, result in apart(asked, work, until=time.monotonic() + 120, patience=10)}
    assert list(found) == [job["case"] for job in asked]
    assert found["fail"] == found["spoil"] == {"error": "ValueError: no luck"}
    assert found["crash"] == {"error": "its process ended with status 11"}
    assert found["hang"] == {"error": "no sign of life for 10 s"}
    one, two, three, four, five = (found[name]["process"] for name in ("one", "two", "three", "four", "five"))
    assert one == two and len({two, three, four, five}) == 4


def test_when_the_time_is_up_the_rest_is_left_out() -> None:
    assert not list(apart(jobs("one"), work, until=time.monotonic()))
    begun = apart(jobs("one", "two"), work, until=time.monotonic() + 0.01)
    assert [job["case"] for job, _ in begun] == ["one"], "a process takes longer to start"
