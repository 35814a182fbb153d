"""Loops of assembly: as many as LLVM's own loop analysis says, in every syntax; and what small ones ask of a core."""

from __future__ import annotations

import pytest

from irscope.codegen.profile.throughput import Core, MachineLoop, machine_loops
from tests.codegen.suite_kernels import NAMES, PROCESSORS, machine_code, suite_spec


@pytest.mark.parametrize("processor", PROCESSORS)
def test_llvm_counts_as_many_innermost_loops(processor: str) -> None:
    for name in NAMES:
        _, text, tied = machine_code(suite_spec(name), processor)
        found = machine_loops(tied.text)
        assert len(found) == text.count("Inner Loop Header"), name
        assert found, name


@pytest.mark.parametrize(("processor", "bits", "most"), [("sse", 128, 16), ("avx512", 512, 32), ("neon", 128, 32)])
def test_registers_are_those_that_the_processor_has(processor: str, bits: int, most: int) -> None:
    for name in NAMES:
        _, _, tied = machine_code(suite_spec(name), processor)
        loops = machine_loops(tied.text)
        assert max(step.bits for loop in loops for step in loop.steps) == bits
        assert all(len(loop.vector_registers) <= most for loop in loops)
        assert all(0 < len(loop.general_registers) <= (16 if processor != "neon" else 32) for loop in loops)


def test_spills_are_those_that_llvm_names() -> None:
    _, text, tied = machine_code(suite_spec("k1"), "avx512")
    (loop,) = machine_loops(tied.text)
    lines = tied.text.splitlines()
    assert loop.spills == sum("Spill" in lines[line] or "Reload" in lines[line] for line in loop.lines) > 0
    assert "Spill" in text


def one(*lines: str) -> MachineLoop:
    body = "".join(f"\t{line}\n" for line in lines)
    (found,) = machine_loops(f"k:\n.LBB0_1:\n{body}\tjne\t.LBB0_1\n\tretq\n")
    return found


def test_an_addition_waits_for_the_one_before() -> None:
    alone = one("vaddps\t(%rdi), %zmm0, %zmm0", "addq\t$64, %rdi")
    apart = one("vaddps\t(%rdi), %zmm0, %zmm0", "vaddps\t64(%rdi), %zmm1, %zmm1", "addq\t$128, %rdi")
    chained = one("vaddps\t(%rdi), %zmm0, %zmm0", "vaddps\t64(%rdi), %zmm0, %zmm0", "addq\t$128, %rdi")
    fresh = one("vmovups\t(%rdi), %zmm0", "vaddps\t64(%rdi), %zmm0, %zmm0", "addq\t$128, %rdi")
    assert [loop.demands(Core())["latency"] for loop in (alone, apart, chained, fresh)] == [4, 4, 8, 1]


def test_what_a_masked_move_leaves_is_what_was_there_before() -> None:
    kept = one("vaddps\t%zmm1, %zmm0, %zmm2", "vmovaps\t%zmm2, %zmm0 {%k1}")
    zeroed = one("vaddps\t%zmm1, %zmm0, %zmm2", "vmovaps\t(%rdi), %zmm0 {%k1} {z}")
    assert kept.demands(Core())["latency"] == 5
    assert zeroed.demands(Core())["latency"] == 0


def test_ports_and_divider() -> None:
    loop = one(
        "vmovups\t(%rsi,%rax,4), %ymm0", "vdivps\t32(%rdi,%rax,4), %ymm0, %ymm1", "vmovups\t%ymm1, (%rdx,%rax,4)",
        "leaq\t8(%rax), %rax", "cmpq\t%rcx, %rax",
    )  # fmt: skip
    found = loop.demands(Core(slots=4, vector_units=2, loads=2, stores=1))
    assert found["load ports"] == 1
    assert found["store ports"] == 1
    assert found["vector units"] == 0.5
    assert found["instruction slots"] == 6 / 4
    assert found["divider"] == 5
    assert len(loop.vector_registers) == 2
    assert loop.general_registers == {"ra", "rc", "rd", "rdi", "rsi"}


def test_arm_names_its_result_first() -> None:
    (loop,) = machine_loops(
        "k:\n.LBB0_1:\n\tldr\tq0, [x8, x9]\n\tfmla\tv1.4s, v0.4s, v0.4s\n\tstr\tq1, [x10, x9]\n\tadd\tx9, x9, #16\n"
        "\tsubs\tx11, x11, #1\n\tb.ne\t.LBB0_1\n\tret\n"
    )
    found = loop.demands(Core())
    assert found["latency"] == 4
    assert (found["load ports"], found["store ports"], found["vector units"]) == (0.5, 1, 0.5)
    assert loop.vector_registers == {"v0", "v1"}
    assert loop.general_registers == {"r8", "r9", "r10", "r11"}


def test_of_two_branches_one_runs() -> None:
    (loop,) = machine_loops(
        "k:\n.LBB0_1:\n\ttestb\t$63, %al\n\tjne\t.LBB0_3\n\tvmovntps\t%zmm0, (%rdi)\n\tjmp\t.LBB0_4\n"
        ".LBB0_3:\n\tvmovups\t%zmm0, (%rdi)\n\tnop\n\tnop\n.LBB0_4:\n\taddq\t$64, %rdi\n\tcmpq\t%rsi, %rdi\n"
        "\tjl\t.LBB0_1\n\tretq\n"
    )
    assert [step.op for step in loop.steps] == ["testb", "jne", "vmovups", "nop", "nop", "addq", "cmpq", "jl"]
    assert len(loop.lines) == 10
