"""The kernels of the benchmark suite as specs, and their machine code for processors that need not be here."""

from functools import cache
from typing import Any

import pytest

from irscope.codegen.facts import tie_assembly, with_locations
from irscope.codegen.kernel.source_text import SourceText
from irscope.codegen.kernel.spec import KernelSpec
from irscope.codegen.llvm.emit import Target, emit_llvm
from irscope.codegen.lowering.lower import spec_of_group
from irscope.ir.text.parser import parse
from irscope.ir.types import TensorType
from irscope.ops.type_rules import contiguous_strides
from tests.benchmarks.kernel_cases import CASES

NAMES = tuple(case.name for case in CASES)
PROCESSORS = {
    "sse": ("x86_64-unknown-linux-gnu", "x86-64", Target()),
    "avx512": ("x86_64-unknown-linux-gnu", "skylake-avx512", Target(64, native_half=True, masks=True, registers=4)),
    "neon": ("aarch64-unknown-linux-gnu", "generic", Target(native_half=True)),
    "mac": ("arm64-apple-macosx", "apple-m1", Target(native_half=True)),
}
"""Triple, processor and what the text should know of it."""


@cache
def suite_spec(name: str, size: int = 1 << 20) -> KernelSpec:
    case = next(case for case in CASES if case.name == name)
    group = next(node for node in parse(case.group_text).nodes() if node.blocks)
    types = [TensorType("float32", shape, contiguous_strides(shape)) for shape in case.shapes(size)]
    return spec_of_group(group, types).specs[0]


@cache
def machine_code(spec: KernelSpec, processor: str, *, lines: bool = True) -> tuple[SourceText, str, SourceText]:
    """The text, what LLVM makes of it as it comes, and its instructions with their lines."""
    binding: Any = pytest.importorskip("llvmlite.binding", reason="llvmlite is not installed: pip install 'irscope[cpu]'")
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    triple, cpu, target = PROCESSORS[processor]
    source = emit_llvm(spec, target)
    machine = binding.Target.from_triple(triple).create_target_machine(cpu=cpu, opt=3)
    machine.set_asm_verbosity(True)
    text = machine.emit_assembly(binding.parse_assembly(with_locations(source) if lines else source.text))
    return source, text, tie_assembly(text, source)
