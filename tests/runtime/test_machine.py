"""The machine's limits are measured once, and a copy of more bytes takes longer."""

import json
import re

import pytest

from irscope.runtime import machine as machine_limits
from irscope.runtime.cpu.device import CpuDevice
from irscope.runtime.machine import _VECTORS, Limits, _text, arithmetic_peak, cache_bytes, describe, limits
from irscope.runtime.measure.conditions import with_kept_memory


def test_a_limit_is_measured_once(monkeypatch):
    asked = []
    monkeypatch.setattr(machine_limits, "_median_seconds", lambda run, threads=1: asked.append(run()) or 1e-3)
    found = Limits(1)
    assert found.copy_seconds(10_000) == found.copy_seconds(10_000)
    count = len(asked)
    assert count in (2, 3), "a kernel, memmove and perhaps torch"
    found.copy_seconds(10_001)
    assert len(asked) == count, "sizes are looked at by cache lines"
    peaks = iter((2.0, 3.0))
    monkeypatch.setattr(machine_limits, "arithmetic_peak", lambda host: next(peaks))
    if found._device.name == "cpu":
        assert (found.flops, found.flops) == (2.0, 2.0)
    assert limits(1) is limits(1) and limits(1) is not limits(2)


def test_a_huge_copy_is_scaled(monkeypatch):
    monkeypatch.setattr(machine_limits, "_LARGEST_COPY", 1 << 16)
    found = Limits(1)
    assert found.copy_seconds(1 << 20) == 16 * found.copy_seconds(1 << 16)


def test_the_description_is_plain_data():
    found = describe()
    assert json.loads(json.dumps(found)) == found and found["cores"] >= 1 and "numpy" in found["versions"]
    assert cache_bytes() >= 32 << 20


def test_memory_is_kept_and_given_back():
    assert with_kept_memory(lambda outer: with_kept_memory(lambda inner: outer == inner))


def test_a_copy_keeps_its_memory(monkeypatch):
    copy, scale = limits(1).fastest_copy(1 << 20)
    others = [limits(1)._copy_candidates(1 << 19) for _ in range(3)]
    for run in (copy, *(candidate for candidates in others for candidate in candidates)):
        run()
    assert scale == 1.0


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("triple", ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"])
def test_every_vector_stays_in_a_register_and_nothing_is_left_out(triple: str, fused: bool) -> None:
    binding = pytest.importorskip("llvmlite.binding")
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    intel = triple.startswith("x86")
    features = ("+avx2,+fma" if fused else "+sse2") if intel else ""
    machine = binding.Target.from_triple(triple).create_target_machine(features=features, opt=3)
    lanes = 8 if intel and fused else 4
    assembly = machine.emit_assembly(binding.parse_assembly(_text(lanes, fused=fused)))
    loop = assembly.split("\n.LBB0_1:", 1)[1].split(".LBB0_1\n", 1)[0]
    made = re.findall(r"\b(vfmadd\w+|mulps|fmul|fmla|fmadd)\b", loop)
    assert len(made) == _VECTORS, loop
    assert not re.search(r"\[?rsp|\[?sp\b", loop), "nothing goes through the stack"


def test_the_limit_is_one_of_arithmetic() -> None:
    pytest.importorskip("llvmlite")
    host = CpuDevice().host
    assert arithmetic_peak(host) > 2 * (host.target.vector_bytes // 4) * 1e7
