"""The record of a compiled kernel at a glance: what its spec and its text say, counted and not measured.

For a processor these are bytes, operations, registers and spills, and what a copy of as many bytes takes, which is the limit
where memory sets the pace. How a kernel compares with that limit is measured (`irs.compare`), not predicted.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Final

from irscope._base.words import plural
from irscope.codegen.facts.machine_code import hot_loops, register_names, vector_bits
from irscope.codegen.kernel import KernelSpec, SourceText, operations_per_point, traffic_of

COPY: Final = 10e9
"""Bytes per second that one core copies, reads and writes together: a reference figure, used where none was measured."""


@dataclass(frozen=True, slots=True, repr=False)
class KernelFacts:
    """Numbers of one kernel, counted in its text and its machine code, not measured.

    >>> facts = KernelFacts("kernel_1", "cpu", "x86-64", 8.0, 4.0, 3)
    >>> facts.intensity
    0.25
    >>> facts
    <KernelFacts of kernel_1: 8 B read, 4 B written and 3 operations a point>
    """

    name: str
    device: str
    """`cpu`, `cuda` or `numpy`."""
    target: str
    """What it was compiled for."""
    read_bytes: float
    """Bytes read from memory per point of the iteration space: an element of a pointwise kernel, or of what a reduction reduces."""
    written_bytes: float
    """Bytes written to memory per point."""
    operations: int
    """Operations of the program per point: each op on an element counts as one, an exponential too."""
    instructions: float = 0.0
    """Machine instructions per point of a GPU's kernel; 0 where they are not counted."""
    lanes: int = 0
    """Elements of a GPU thread's widest access to a tensor; 0 where it is not known."""
    vector_bits: int = 0
    """The width of the widest vector register, or of the widest access of a GPU's thread; 0 where it is not known."""
    registers: tuple[tuple[str, int], ...] = ()
    """How many registers of each kind it uses: on a CPU in its hot loops, on a GPU in a thread."""
    spills: int = 0
    """Register spills: on a CPU, instructions of the hot loops that access the stack; on a GPU, bytes that a
    thread stores and loads."""
    local_bytes: int = 0
    """On a GPU: bytes of local memory of a thread, for values that are not in registers."""
    bound: str = ""
    """On a GPU: `memory`, `issue` (a unit is saturated) or `latency` (too little work); empty where it is not known."""
    because: str = ""
    """What limits its speed, as a sentence without a full stop, with the numbers that support it."""

    @property
    def bytes(self) -> float:
        """Bytes read and written per point."""
        return self.read_bytes + self.written_bytes

    @property
    def intensity(self) -> float:
        """Operations per byte; infinite where nothing moves."""
        return self.operations / self.bytes if self.bytes else float("inf")

    @property
    def rows(self) -> tuple[tuple[str, str], ...]:
        """Label and value of each known number, for a table."""
        spilled = plural(self.spills, "instruction") if self.device == "cpu" else f"{self.spills} B"
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.registers)
        found = [
            ("compiled for", self.target),
            ("memory a point", f"{self.read_bytes:g} B read, {self.written_bytes:g} B written"),
            ("operations a point", f"{self.operations}, {self.intensity:.2g} for a byte" if self.bytes else str(self.operations)),
            ("instructions a point", f"{self.instructions:.2g}" if self.instructions else ""),
            ("vectors", f"{plural(self.lanes, 'element')} at once, {self.vector_bits}-bit registers" if self.lanes
             else f"{self.vector_bits}-bit registers" if self.vector_bits else ""),
            ("registers", kinds),
            ("spills", (spilled if self.spills else "none") if self.registers else ""),
            ("local memory", f"{self.local_bytes} B a thread" if self.local_bytes else ""),
            ("pace", {"memory": "memory", "issue": "instructions", "latency": "latency"}.get(self.bound, "")),
        ]  # fmt: skip
        return tuple((label, value) for label, value in found if value)

    def __str__(self) -> str:
        wide = max(len(label) for label, _ in self.rows)
        lines = [f"{label:{wide}}  {value}" for label, value in self.rows]
        return "\n".join((self.name, *lines, self.because))

    def __repr__(self) -> str:
        bound = f"; bound by {self.bound}" if self.bound else ""
        moved = f"{self.read_bytes:g} B read, {self.written_bytes:g} B written"
        return f"<KernelFacts of {self.name}: {moved} and {plural(self.operations, 'operation')} a point{bound}>"

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><th style='text-align:left'>{escape(label)}</th><td style='text-align:left'>{escape(value)}"
                       "</td></tr>" for label, value in self.rows)  # fmt: skip
        return f"<table><caption><code>{escape(self.name)}</code></caption>{rows}</table><p>{escape(self.because)}</p>"


def cpu_facts(spec: KernelSpec, source: SourceText, assembly: SourceText, target: str, *, copy: float = COPY) -> KernelFacts:
    """Return the facts of a kernel for a processor; `copy` is the bytes per second that a copy moves."""
    lines = assembly.text.splitlines()
    hot = [lines[number] for loop in hot_loops(source, assembly) for number in loop]
    known = unknown_facts(spec, "cpu", target, "")
    because = (
        f"copying as many bytes takes {known.bytes / copy * 1e9:.2g} ns a point at {copy / 1e9:.3g} GB/s, "
        "the limit where memory sets the pace"
    )
    vectors, general = register_names(hot)
    return KernelFacts(
        spec.name, "cpu", target, known.read_bytes, known.written_bytes, known.operations, vector_bits=vector_bits(hot),
        registers=(("vector", len(vectors)), ("general", len(general))) if hot else (),
        spills=sum("Spill" in line or "Reload" in line for line in hot), because=because,
    )  # fmt: skip


def unknown_facts(spec: KernelSpec, device: str, target: str, because: str) -> KernelFacts:
    """Return the facts known from the spec alone, with the reason why there are no others."""
    held = bool(spec.row_limit) and not spec.by_columns  # rows so short that they stay in a cache until the last pass
    moved = traffic_of(spec, held=held)
    return KernelFacts(spec.name, device, target, moved.read, moved.written, operations_per_point(spec), because=because)
