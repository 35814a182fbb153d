"""The arithmetic limit: what the loop computes, and that no kernel of ours passes it."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("llvmlite")

import llvmlite.binding as binding

from irscope.runtime.cpu.device import CpuDevice
from irscope.runtime.peak_flops import _VECTORS, _text, arithmetic_peak


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("triple", ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"])
def test_every_vector_stays_in_a_register_and_nothing_is_left_out(triple: str, fused: bool) -> None:
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
    host = CpuDevice().host
    assert arithmetic_peak(host) > 2 * (host.target.vector_bytes // 4) * 1e7
