"""The record of a compiled kernel at a glance, with one sentence on what sets its pace."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from irscope._base.words import plural

__all__ = ["KernelFacts"]


@dataclass(frozen=True, slots=True, repr=False)
class KernelFacts:
    """Numbers of one kernel, counted in its text and its machine code, not measured.

    >>> facts = KernelFacts("kernel_1", "cpu", "x86-64", 8.0, 4.0, 3, instructions=0.5, bound="memory", because="…")
    >>> facts.intensity
    0.25
    >>> facts
    <KernelFacts of kernel_1: 8 B read, 4 B written and 3 operations a point; bound by memory>
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
    """Machine instructions per point; 0 where there is no machine code."""
    lanes: int = 0
    """Elements of its widest access to a tensor; 0 where it is not known."""
    vector_bits: int = 0
    """The width of the widest vector register, or of the widest access of a GPU's thread; 0 where it is not known."""
    registers: tuple[tuple[str, int], ...] = ()
    """How many registers of each kind it uses: on a CPU in its hot loops, on a GPU in a thread."""
    spills: int = 0
    """Register spills: on a CPU, instructions of the hot loops that access the stack; on a GPU, bytes that a
    thread stores and loads."""
    local_bytes: int = 0
    """On a GPU: bytes of local memory of a thread, for values that are not in registers."""
    busiest: str = ""
    """The part of the core that the hot loops use most when all data is in the nearest cache."""
    copy_share: float = 0.0
    """The expected speed, as a fraction of that of a copy of as many bytes; 0 where it is not known."""
    bound: str = ""
    """`memory`, `issue` (a unit of the processor is saturated) or `latency` (each instruction waits for the one before);
    empty where it is not known."""
    because: str = ""
    """The same as a sentence without a full stop, with the numbers that support it."""

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
            ("vectors", f"{plural(self.lanes, 'element')} at once, {self.vector_bits}-bit registers" if self.lanes else ""),
            ("registers", kinds),
            ("spills", (spilled if self.spills else "none") if self.registers else ""),
            ("local memory", f"{self.local_bytes} B a thread" if self.local_bytes else ""),
            ("busiest", "no part: results are waited for" if self.busiest == "latency" else self.busiest),
            ("pace", {"memory": "memory", "issue": "instructions", "latency": "latency"}.get(self.bound, "not known")),
            ("of a copy's speed", f"about {self.copy_share:.0%}" if self.copy_share else ""),
        ]  # fmt: skip
        return tuple((label, value) for label, value in found if value)

    def __str__(self) -> str:
        wide = max(len(label) for label, _ in self.rows)
        lines = [f"{label:{wide}}  {value}" for label, value in self.rows]
        return "\n".join((self.name, *lines, self.because))

    def __repr__(self) -> str:
        bound = f"bound by {self.bound}" if self.bound else "what sets its pace is not known"
        moved = f"{self.read_bytes:g} B read, {self.written_bytes:g} B written"
        return f"<KernelFacts of {self.name}: {moved} and {plural(self.operations, 'operation')} a point; {bound}>"

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><th style='text-align:left'>{escape(label)}</th><td style='text-align:left'>{escape(value)}"
                       "</td></tr>" for label, value in self.rows)  # fmt: skip
        return f"<table><caption><code>{escape(self.name)}</code></caption>{rows}</table><p>{escape(self.because)}</p>"
