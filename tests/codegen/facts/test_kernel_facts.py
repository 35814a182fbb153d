"""Facts of kernels for processors agree with their machine code."""

from __future__ import annotations

import pytest

from irscope.codegen.facts.kernel_facts import KernelFacts, cpu_facts
from irscope.codegen.facts.machine_code import hot_loops, register_names, vector_bits
from tests.codegen.suite_kernels import NAMES, PROCESSORS, machine_code, suite_spec

PASSES = dict.fromkeys(NAMES, 1) | {"softmax": 3, "layernorm": 3, "rmsnorm": 2}


@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("name", NAMES)
def test_there_is_one_hot_loop_for_each_pass(name: str, processor: str) -> None:
    source, _, assembly = machine_code(suite_spec(name), processor)
    loops = hot_loops(source, assembly)
    assert len(loops) == PASSES[name]
    lines = assembly.text.splitlines()
    assert all(lines[loop[-1]].split()[0].startswith(("j", "b", "cb", "tb")) for loop in loops), "a loop ends with a jump"


@pytest.mark.parametrize(("processor", "bits", "most"), [("sse", 128, 16), ("avx512", 512, 32), ("neon", 128, 32)])
def test_registers_are_those_that_the_processor_has(processor: str, bits: int, most: int) -> None:
    for name in NAMES:
        found = facts(name, processor)
        counts = dict(found.registers)
        assert found.vector_bits == bits
        assert 0 < counts["vector"] <= most
        assert 0 < counts["general"] <= (16 if processor != "neon" else 32)


def test_one_register_has_many_names() -> None:
    code = ["\tvaddps\t(%rdi), %zmm0, %ymm1", "\tmovl\t%eax, %ecx", "\tmovb\t%al, %r8b", "\tleaq\t8(%rax), %rcx"]
    assert register_names(code) == ({"0", "1"}, {"di", "a", "c", "8"})
    assert (vector_bits(code), vector_bits(["\taddq\t$1, %rax"])) == (512, 0)
    assert register_names(["\tfmla\tv1.4s, v0.4s, v0.4s", "\tldr\tq2, [x8, x9]"]) == ({"0", "1", "2"}, {"8", "9"})


def facts(name: str, processor: str = "avx512", size: int = 1 << 20, **rates: float) -> KernelFacts:
    source, _, assembly = machine_code(suite_spec(name, size), processor)
    return cpu_facts(suite_spec(name, size), source, assembly, processor, **rates)


def test_bytes_and_operations() -> None:
    softmax, total = facts("softmax"), facts("sum rows")
    assert (softmax.read_bytes, softmax.written_bytes, softmax.operations) == (4, 4, 5)
    assert (total.read_bytes, total.written_bytes, total.operations, total.intensity) == (4, 0, 1, 0.25)
    assert facts("k3").bytes == 12
    assert dict(facts("k3").rows)["memory a point"] == "8 B read, 4 B written"
    assert "takes 12 ns a point at 1 GB/s" in facts("k3", copy=1e9).because


def test_spills_are_those_that_llvm_names() -> None:
    spilled = facts("k1")
    _, text, _ = machine_code(suite_spec("k1"), "avx512")
    assert 0 < spilled.spills <= text.count("Spill") + text.count("Reload")
    assert dict(facts("sum rows").rows)["spills"] == "none"


def test_a_kernel_without_a_loop_has_the_facts_of_its_spec() -> None:
    found = facts("sum all", size=4)
    assert found.read_bytes == 4
    assert found.registers or not found.spills


def test_a_table_for_a_notebook() -> None:
    found = facts("k1")
    assert found._repr_html_().count("<tr>") == len(found.rows)
    assert "512-bit registers" in found._repr_html_()
    assert str(found).endswith(found.because)
