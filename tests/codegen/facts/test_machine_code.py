"""Machine code whose lines know where they came from: the same instructions as without, and every node has some."""

from __future__ import annotations

import re

import pytest

from irscope.codegen.facts.machine_code import ptx_lines, tied_sass
from irscope.codegen.kernel.source_text import NO_LINE, NO_NODE, SourceText
from tests.codegen.suite_kernels import NAMES, PROCESSORS, machine_code, suite_spec


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


CUDA = SourceText(
    "float f(float x) {\n  return x * x;\n}\nvoid k() {\n  y[i] = f(x[i]);\n}\n", "cuda", (-1, -1, -1, -1, 7, -1), "k"
)


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
    assert tied.of_nodes.text == "\tmul.f32 \t%f2, %f1, %f1;\n"
    assert tied.lines_of(7) == (3,)


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
    tied = tied_sass(sass, CUDA)
    assert (
        tied.text
        == "  /*0000*/  LDC R1, c[0x0][0x28]\n  /*0010*/  FMUL R7, R7, R7\n.L_x_1:\n  /*0020*/  BRA `(.L_x_1)\n"
    )
    assert tied.origins == (3, 4, NO_LINE, 4)
    assert tied.line_nodes == (-1, 7, -1, 7)
