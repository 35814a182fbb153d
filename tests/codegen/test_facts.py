"""Facts of kernels agree with their machine code, whose lines know where they came from."""

import re

import pytest

from irscope.codegen.facts import KernelFacts, cpu_facts, hot_loops, ptx_lines, register_names, tie_sass, vector_bits
from irscope.codegen.kernel.source_text import NO_LINE, NO_NODE, SourceText
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
        assert 0 < counts["vector"] <= most and 0 < counts["general"] <= (16 if processor != "neon" else 32)


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
    assert facts("k3").bytes == 12 and dict(facts("k3").rows)["memory a point"] == "8 B read, 4 B written"
    assert "takes 12 ns a point at 1 GB/s" in facts("k3", copy=1e9).because


def test_spills_are_those_that_llvm_names() -> None:
    spilled = facts("k1")
    _, text, _ = machine_code(suite_spec("k1"), "avx512")
    assert 0 < spilled.spills <= text.count("Spill") + text.count("Reload")
    assert dict(facts("sum rows").rows)["spills"] == "none"


def test_a_kernel_without_a_loop_has_the_facts_of_its_spec() -> None:
    found = facts("sum all", size=4)
    assert found.read_bytes == 4 and (found.registers or not found.spills)


@pytest.mark.parametrize("processor", PROCESSORS)
def test_locations_change_no_instruction(processor: str) -> None:
    for name in ("k1", "softmax", "sum columns"):
        _, _, tied = machine_code(suite_spec(name), processor)
        _, _, plain = machine_code(suite_spec(name), processor, lines=False)
        assert all(line == NO_LINE for line in plain.origins)
        if processor in ("sse", "avx512"):
            assert tied.text == plain.text
        else:  # the order of a function's first few may differ
            assert sorted(tied.text.splitlines()) == sorted(plain.text.splitlines())


@pytest.mark.parametrize("name", NAMES)
def test_every_node_that_computes_has_instructions(name: str) -> None:
    spec = suite_spec(name)
    source, text, tied = machine_code(spec, "avx512")
    absorbed = ("mul", "input", "const", "count", "cast")  # a product that is added is part of the addition
    computed = {code.node for code in spec.instructions if code.op not in absorbed}
    assert computed <= set(tied.line_nodes)
    assert len(tied.origins) == len(tied.line_nodes) == len(tied.text.splitlines())
    for line, origin in enumerate(tied.origins):
        assert tied.line_nodes[line] == (NO_NODE if origin == NO_LINE else source.line_nodes[origin])
    assert ".loc" in text
    assert not re.search(r"^\s*\.(?!L)[a-z]", tied.text, re.M), "what speaks to the assembler is left out"


def test_a_multiplication_comes_from_the_line_that_multiplies() -> None:
    source, _, tied = machine_code(suite_spec("rmsnorm"), "sse")
    lines = source.text.splitlines()
    found = [tied.origins[line] for line, text in enumerate(tied.text.splitlines()) if re.match(r"\s+mulps", text)]
    assert len(found) > 4
    assert all("fmul" in lines[origin] for origin in found)


CUDA = SourceText("float f(float x) {\n  return x * x;\n}\nvoid k() {\n  y[i] = f(x[i]);\n}\n", "cuda", (-1, -1, -1, -1, 7, -1), "k")


def test_a_function_in_line_belongs_to_the_line_that_calls_it() -> None:
    ptx = """.visible .entry k()
{
	.loc	1 4 0
	ld.global.f32 	%f1, [%rd1];
	.loc	1 5 3
	.loc	1 2 10, function_name $L__info_string0, inlined_at 1 5 3
	mul.f32 	%f2, %f1, %f1;
	.loc	1 6 1
	ret;
}
	.file	1 "/somewhere/kernel.cu"
	.section	.debug_str
"""
    tied = ptx_lines(ptx, CUDA)
    assert "somewhere" not in tied.text
    assert [tied.node_of(line) for line in range(len(tied.line_nodes))] == [None, None, None, 7, None, None]
    assert tied.of_nodes.text == "\tmul.f32 \t%f2, %f1, %f1;\n" and tied.lines_of(7) == (3,)


def test_the_disassembler_s_remarks_become_lines() -> None:
    sass = """	.target	sm_90
.text.k:
	//## File "/somewhere/kernel.cu", line 4
        /*0000*/                   LDC R1, c[0x0][0x28] ;
	//## File "/somewhere/kernel.cu", line 2 inlined at "/somewhere/kernel.cu", line 5
	//## File "/somewhere/kernel.cu", line 5
        /*0010*/                   FMUL R7, R7, R7 ;                /* 0x0000000707077220 */
.L_x_1:
        /*0020*/                   BRA `(.L_x_1);
"""
    tied = tie_sass(sass, CUDA)
    assert tied.text == "  /*0000*/  LDC R1, c[0x0][0x28]\n  /*0010*/  FMUL R7, R7, R7\n.L_x_1:\n  /*0020*/  BRA `(.L_x_1)\n"
    assert tied.origins == (3, 4, NO_LINE, 4) and tied.line_nodes == (-1, 7, -1, 7)
