"""What a compiled kernel shows of itself, on each device."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.errors import DeviceUnavailable, MissingExtra, UnknownName
from irscope.ir.core import Graph
from irscope.runtime.cuda import nvrtc as disassembler
from irscope.runtime.cuda.device import CudaKernel
from irscope.runtime.cuda.nvrtc import Compiled
from irscope.runtime.device.protocol import device as device_named
from irscope.runtime.program.compiled_kernel import CompiledKernel


def program(x: Any, w: Any) -> Any:
    return np.sqrt(np.exp(x) * w)


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def unseen(x: Any, w: Any) -> Any:
    """Nothing else compiles this."""
    return np.sqrt(x - w * 7)


def fused(function: Any, *shapes: tuple[int, ...]) -> Graph:
    return irs.fuse(irs.load(function, *[np.ones(shape, np.float32) for shape in shapes])).graph


def kernel_for(device: str) -> CompiledKernel:
    return irs.compile(fused(program, (40, 50), (40, 50)), device=device).kernels[0]


@pytest.fixture
def cpu() -> CompiledKernel:
    pytest.importorskip("llvmlite", reason="llvmlite is not installed: pip install 'irscope[cpu]'")
    return kernel_for("cpu")


def test_lines_and_nodes_lead_to_each_other(cpu: CompiledKernel) -> None:
    assert cpu.texts == ("llvm", "assembly")
    for text in (cpu.llvm, cpu.assembly):
        found = {cpu.nodes[place].op for place in map(text.node_of, range(len(text.line_nodes))) if place is not None}
        assert {"aten::exp", "aten::mul", "aten::sqrt"} <= found
        for place in range(len(cpu.nodes)):
            assert all(text.node_of(line) == place for line in text.lines_of(place))
    assert cpu.llvm is cpu.source
    (sqrt,) = (place for place, node in enumerate(cpu.nodes) if node.op == "aten::sqrt")
    lines = cpu.assembly.text.splitlines()
    assert any("sqrt" in lines[line] for line in cpu.assembly.lines_of(sqrt))


def test_hot_loops_end_with_a_jump_and_are_one_a_pass(cpu: CompiledKernel) -> None:
    (loop,) = cpu.hot_loops
    assert loop.text.splitlines()[-1].split()[0].startswith(("j", "b"))
    assert any("sqrt" in line for line in loop.text.splitlines())
    rows = irs.compile(fused(softmax, (64, 1024))).kernels[0]
    assert len(rows.hot_loops) == 3


def test_the_limit_at_another_bandwidth(cpu: CompiledKernel) -> None:
    assert "at 1 GB/s" in cpu.facts_at(1e9).because
    assert cpu.facts_at(1e14).rows == cpu.facts.rows
    assert "GB/s" in cpu.measured_facts().because


def test_another_device_s_text_is_refused_with_the_device_that_has_it(cpu: CompiledKernel) -> None:
    with pytest.raises(UnknownName, match="'cpu' has no SASS") as caught:
        _ = cpu.sass
    assert caught.value.hint == 'compile with device="cuda"'
    with pytest.raises(UnknownName, match="'cuda' has no assembly"):
        _ = kernel_for("cuda").assembly


def test_what_a_notebook_shows(cpu: CompiledKernel) -> None:
    shown = cpu._repr_html_()
    assert cpu.name in shown
    assert "memory a point" in shown
    assert "sets the pace" in shown


def test_without_llvmlite_there_is_what_the_spec_tells() -> None:
    spec = kernel_for("cuda").spec
    kernel = CompiledKernel(spec.name, spec, device_named("numpy"), 0.0, False)
    assert (kernel.nodes, kernel.texts) == ((), ("llvm",))
    assert (kernel.facts.read_bytes, kernel.facts.written_bytes, kernel.facts.bound) == (8, 4, "")
    assert "NumPy" in kernel.facts.because
    assert "define void" in kernel.llvm.text
    assert "NumPy" in kernel._repr_html_()


def test_a_gpu_s_kernel_without_its_compiler(without_cupy: None) -> None:
    kernel = irs.compile(fused(unseen, (400, 500), (400, 500)), device="cuda").kernels[0]
    assert kernel.texts == ("cuda", "ptx", "sass")
    assert "without NVRTC" in kernel.facts.because
    assert dict(kernel.facts.rows)["vectors"] == "4 elements at once, 128-bit registers"
    with pytest.raises(MissingExtra, match="cupy"):
        _ = kernel.sass
    assert "without NVRTC" in kernel._repr_html_()


# -- the disassembler -------------------------------------------------------------------------------------------------


class FakeCompiler:
    """Says what NVRTC would, as far as lines go."""

    def version(self) -> str:
        return "none"

    def compile(self, text: str, architecture: str, *, lines: bool = False) -> Compiled:
        assert lines, "what is looked at knows its lines"
        return Compiled(b"\x7fELF", "", {})


@pytest.fixture
def kernel(without_cupy: None) -> CudaKernel:
    """A GPU's kernel with machine code of four bytes."""
    made = kernel_for("cuda").kernel
    return CudaKernel(made.spec, made.schedule, 0.0, False, "90", compiler=FakeCompiler())


def installed(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """A program `nvdisasm` in a folder of its own, the only one that is looked at."""
    path = folder / "nvdisasm"
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    monkeypatch.setattr(disassembler, "_places", lambda: [folder])
    monkeypatch.setattr("shutil.which", only_in(folder))


def only_in(folder: Path | None) -> Any:
    """`shutil.which` for a machine whose PATH leads nowhere."""

    def which(name: str, *, path: str | None = None) -> str | None:
        return str(folder / name) if path and folder and (folder / name).exists() else None

    return which


def test_sass_lines_know_their_nodes(kernel: CudaKernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = next(line for line, node in enumerate(kernel.source.line_nodes) if node >= 0)
    installed(
        tmp_path, monkeypatch,
        f"""echo ".text.k:"; echo '	//## File "/x/kernel.cu", line {wanted + 1}'; echo "   /*0000*/   FADD R1, R2, R3 ;"
"{sys.executable}" -c 'import sys; sys.exit(open(sys.argv[1], "rb").read()[-1:] != bytes(1))' "$3" || exit 3""",
    )  # fmt: skip
    assert kernel.sass.text == "  /*0000*/  FADD R1, R2, R3\n"
    assert kernel.sass.node_of(0) == kernel.source.line_nodes[wanted]


def test_no_disassembler_names_the_package(kernel: CudaKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", only_in(None))
    with pytest.raises(DeviceUnavailable, match="no disassembler") as caught:
        _ = kernel.sass
    assert "pip install nvidia-cuda-nvdisasm" in str(caught.value.hint)


def test_a_disassembler_that_refuses(kernel: CudaKernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(tmp_path, monkeypatch, "echo 'nvdisasm fatal: unknown architecture' >&2; exit 1")
    with pytest.raises(DeviceUnavailable, match="refuses the code: nvdisasm fatal: unknown architecture"):
        _ = kernel.sass
