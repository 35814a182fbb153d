"""The machine's limits are measured once, and a copy of more bytes takes longer."""

from __future__ import annotations

import json

from irscope.runtime import machine
from irscope.runtime.machine import Limits, cache_bytes, describe, limits
from irscope.runtime.measure.keep_freed_memory import with_kept_memory


def test_a_limit_is_measured_once(monkeypatch):
    asked = []
    monkeypatch.setattr(machine, "_median_seconds", lambda run, threads=1: asked.append(run()) or 1e-3)
    found = Limits(1)
    assert found.copy_seconds(10_000) == found.copy_seconds(10_000)
    count = len(asked)
    assert count in (2, 3), "a kernel, memmove and perhaps torch"
    found.copy_seconds(10_001)
    assert len(asked) == count, "sizes are looked at by cache lines"
    peaks = iter((2.0, 3.0))
    monkeypatch.setattr(machine, "arithmetic_peak", lambda host: next(peaks))
    if found._device.name == "cpu":
        assert (found.flops(), found.flops()) == (2.0, 2.0)
    assert limits(1) is limits(1)
    assert limits(1) is not limits(2)


def test_a_huge_copy_is_scaled(monkeypatch):
    monkeypatch.setattr(machine, "_LARGEST_COPY", 1 << 16)
    found = Limits(1)
    assert found.copy_seconds(1 << 20) == 16 * found.copy_seconds(1 << 16)


def test_the_description_is_plain_data():
    found = describe()
    assert json.loads(json.dumps(found)) == found
    assert found["cores"] >= 1
    assert "numpy" in found["versions"]
    assert cache_bytes() >= 32 << 20


def test_memory_is_kept_and_given_back():
    assert with_kept_memory(lambda outer: with_kept_memory(lambda inner: outer == inner))


def test_a_copy_keeps_its_memory(monkeypatch):
    copy, scale = limits(1).fastest_copy(1 << 20)
    others = [limits(1)._copy_candidates(1 << 19) for _ in range(3)]
    for run in (copy, *(candidate for candidates in others for candidate in candidates)):
        run()
    assert scale == 1.0
