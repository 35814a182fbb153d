"""The demands of an assembly loop on a core: instruction slots, vector units, loads, stores, the divider, and latency.

This is a count, not a simulation. Along the most expensive path through the loop each instruction takes a slot. Vector
arithmetic also takes a vector unit, a memory access a load or store port, and divisions and roots the divider for as
long as they occupy it. Besides, an iteration cannot be faster than the longest chain of instructions that carries a value
to the next iteration. The largest of these numbers is the cycles of an iteration if all data is in the nearest cache.

The figures belong to no particular processor: they are cautious ones for cores of the last ten years. x86-64 (AT&T syntax)
and AArch64 are supported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from irscope.codegen.profile.control_flow import dearest_path, innermost_loops

__all__ = ["Core", "MachineLoop", "Step", "machine_loops"]


@dataclass(frozen=True, slots=True)
class Core:
    """The throughput of each part of a core, per cycle."""

    slots: float = 4
    vector_units: float = 2
    loads: float = 2
    stores: float = 1


_LABEL: Final = re.compile(r"(\.?L?[\w.$]+):")
_INSTRUCTION: Final = re.compile(r"\s+([a-z][\w.]*)(?:\s+(.*))?$")
_VECTOR: Final = re.compile(r"%([xyz])mm(\d+)|\b[vqdsh](\d+)(?:\.\w+)?\b")
_GENERAL: Final = re.compile(
    r"%(r\d+|[re]?[abcd]x|[abcd][lh]|[re]?(?:si|di|bp|sp)|(?:si|di|bp|sp)l)[dwb]?\b|\b[wx](\d+)\b"
)
_MASK: Final = re.compile(r"%k([0-7])\b")
_MEMORY_X86: Final = re.compile(r"[-\w.$]*\([^)]*%[^)]*\)|[-\w.$]+\(%rip\)")
_MEMORY_ARM: Final = re.compile(r"\[[^\]]*\]")
_DIVIDES: Final = re.compile(r"v?(?:div|sqrt)[ps][sdh]|fdiv|fsqrt|i?div[lq]?$|[su]div")
_JUMPS: Final = re.compile(r"j\w+|b(?:\.\w+)?|cbn?z|tbn?z")
_NO_RESULT: Final = re.compile(r"cmp|test|v?u?comis|bt[lq]?$|prefetch|nop|push|fcmpe?$|tst|cmn|cbn?z|tbn?z|b\.|j")
"""Instructions whose last operand (on AArch64 the first) is not a destination."""
_CHAIN: Final = {"load": 5, "divide": 13, "multiply": 4, "add": 4, "other": 1}
"""Latencies in cycles, from operand to result."""


@dataclass(frozen=True)
class Step:
    """One machine instruction."""

    line: int
    """Its line of the assembly, counted from 0."""
    op: str
    operands: tuple[str, ...]
    comment: str

    @cached_property
    def bits(self) -> int:
        """The width of the widest vector register that it names; 0 for none."""
        text = ", ".join(self.operands)
        return max(({"x": 128, "y": 256, "z": 512}.get(kind, 128) for kind, _, _ in _VECTOR.findall(text)), default=0)

    @cached_property
    def memory(self) -> str:
        """The memory operand, or an empty text."""
        return next((text for text in self.operands if _MEMORY_X86.search(text) or _MEMORY_ARM.search(text)), "")

    @cached_property
    def stores(self) -> bool:
        """Whether it writes memory."""
        if not self.memory or _NO_RESULT.match(self.op):
            return False
        return self.op.startswith("st") if "[" in self.memory else self.operands[-1] == self.memory

    @cached_property
    def loads(self) -> bool:
        """Whether it reads memory."""
        if not self.memory or self.op.startswith(("lea", "prefetch", "nop", "st")):
            return False
        return not self.stores or not re.match(r"v?p?mov|v?extract|v?pextr|vpcompress|set", self.op)

    @property
    def spills(self) -> bool:
        """Whether it spills a register to the stack or reloads it."""
        return "Spill" in self.comment or "Reload" in self.comment

    @property
    def moves(self) -> bool:
        """Whether it only moves data and computes nothing."""
        return re.match(r"v?p?mov|v?broadcast|vpbroadcast|ldr|ldp|str|stp|ldur|stur|fmov|dup", self.op) is not None

    @cached_property
    def divider(self) -> float:
        """Cycles for which it occupies the divider, or another unit that is not pipelined."""
        if _DIVIDES.match(self.op):
            wide = self.op.rstrip("hs").endswith("d") or ".2d" in "".join(self.operands)
            scalar = self.op.endswith(("ss", "sd")) or not self.bits
            return (4.0 if wide else 2.5) * (1 if scalar else max(self.bits, 128) / 128)
        if self.op.startswith(("call", "bl ")) or self.op in ("bl", "blr"):
            return 40.0
        return 8.0 if "gather" in self.op or "scatter" in self.op else 0.0

    @cached_property
    def latency(self) -> int:
        """Cycles from its operands to its result."""
        if _DIVIDES.match(self.op):
            return _CHAIN["divide"]
        if not self.bits or self.moves:
            return _CHAIN["load"] if self.loads else _CHAIN["other"]
        if re.match(
            r"v?p?(?:and|or|xor|max|min|cmp|blend|tern|shuf|perm|s[lr]l)|f?cm|f?max|f?min|bit|bsl|bif", self.op
        ):
            return 2
        return _CHAIN["multiply"]

    @cached_property
    def registers(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The registers that it reads and those that it writes, regardless of their width."""
        names = [tuple(_registers(text)) for text in self.operands]
        if not names:
            return (), ()
        arm = not any("%" in text or "$" in text for text in self.operands)
        target = 0 if arm else len(names) - 1
        if self.stores or _NO_RESULT.match(self.op):
            return tuple(name for each in names for name in each), ()
        kept = self._keeps_target(arm)
        reads = (name for place, each in enumerate(names) if place != target or kept for name in each)
        more = names[target][1:]  # a mask after the register
        return (*reads, *more), names[target][:1]

    def _keeps_target(self, arm: bool) -> bool:
        """Whether the result depends on the previous content of its register."""
        masked = any("{%k" in text and "{z}" not in text for text in self.operands)
        if arm:
            return self.op in ("fmla", "fmls", "mla", "mls", "bsl", "bit", "bif", "ins")
        if masked or self.op.startswith(("vfmadd", "vfmsub", "vfnmadd", "vfnmsub", "vpternlog", "cmov")):
            return True
        return not self.op.startswith(("v", "mov", "lea", "set", "pop")) and len(self.operands) < 3


@dataclass(frozen=True)
class MachineLoop:
    """An innermost loop of assembly."""

    steps: tuple[Step, ...]
    """The instructions along the most expensive path through it."""
    lines: frozenset[int]
    """All its lines of the assembly, counted from 0."""

    @property
    def vector_registers(self) -> frozenset[str]:
        """The vector registers that it names."""
        return frozenset(name for name in self._names if name[0] == "v")

    @property
    def general_registers(self) -> frozenset[str]:
        """The general-purpose registers that it names."""
        return frozenset(name for name in self._names if name[0] == "r")

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(name for step in self.steps for text in step.operands for name in _registers(text))

    @property
    def spills(self) -> int:
        """How many of its instructions are spills or reloads."""
        return sum(step.spills for step in self.steps)

    def demands(self, core: Core) -> dict[str, float]:
        """Return the cycles that an iteration needs of each limited resource of a core."""
        vector = sum(step.bits > 0 and not step.moves for step in self.steps)
        return {
            "instruction slots": len(self.steps) / core.slots,
            "vector units": vector / core.vector_units,
            "load ports": sum(step.loads for step in self.steps) / core.loads,
            "store ports": sum(step.stores for step in self.steps) / core.stores,
            "divider": sum(step.divider for step in self.steps),
            "latency": self._chain(),
        }

    def _chain(self) -> float:
        """Return the longest chain of latencies from a register at the start of an iteration to the same register at its end."""
        written = {name for step in self.steps for name in step.registers[1]}
        longest = 0
        for start in written:  # few: the loop's registers
            ready = {start: 0}
            for step in self.steps:
                reads, writes = step.registers
                known = [ready[name] for name in reads if name in ready]
                for name in writes:
                    ready.pop(name, None)
                    if known:
                        ready[name] = max(known) + step.latency
            longest = max(longest, ready.get(start, 0))
        return float(longest)


def machine_loops(assembly: str) -> list[MachineLoop]:
    """Return the innermost loops of one function, in its order."""
    blocks, following = _blocks(assembly.splitlines())
    found = []
    for header, loop in innermost_loops(following):
        path = dearest_path(following, header, loop, [len(block) for block in blocks])
        steps = tuple(step for block in path for step in blocks[block])
        found.append(MachineLoop(steps, frozenset(step.line for block in loop for step in blocks[block])))
    return found


def _blocks(lines: Sequence[str]) -> tuple[list[list[Step]], list[list[int]]]:
    """Return the blocks of a function and the successors of each."""
    labels: dict[str, int] = {}
    blocks: list[list[Step]] = [[]]
    for number, line in enumerate(lines):
        if label := _LABEL.match(line):
            if blocks[-1]:
                blocks.append([])
            labels[label[1]] = len(blocks) - 1
        elif step := _step(number, line):
            blocks[-1].append(step)
            if _JUMPS.fullmatch(step.op) or step.op.startswith("ret"):
                blocks.append([])
    return blocks, [list(_following(number, block, labels, len(blocks))) for number, block in enumerate(blocks)]


def _following(number: int, block: list[Step], labels: dict[str, int], count: int) -> Iterator[int]:
    last = block[-1] if block else None
    if last is not None and _JUMPS.fullmatch(last.op) and last.operands[-1] in labels:
        yield labels[last.operands[-1]]
    leaves = last is not None and (last.op in ("jmp", "b") or last.op.startswith("ret"))
    if not leaves and number + 1 < count:
        yield number + 1


def _step(number: int, line: str) -> Step | None:
    code, _, comment = re.split(r"(\s#\s|\s//\s|\s;\s|\s@\s|$)", line, maxsplit=1)
    found = _INSTRUCTION.match(code.rstrip())
    if found is None:
        return None
    parts = re.split(r",\s*(?![^(\[{]*[)\]}])", found[2]) if found[2] else []
    return Step(number, found[1], tuple(parts), comment)


def _registers(text: str) -> Iterator[str]:
    for _, x86, arm in _VECTOR.findall(text):
        yield f"v{x86 or arm}"
    for x86, arm in _GENERAL.findall(text):
        yield f"r{_family(x86) if x86 else arm}"
    for mask in _MASK.findall(text):
        yield f"k{mask}"


def _family(name: str) -> str:
    """Return the register that a name belongs to, whatever its width: `rax`, `eax` and `al` are one register, `r8d` is `r8`."""
    if re.fullmatch(r"r\d+", name):
        return name[1:]
    bare = name.removeprefix("r").removeprefix("e") if len(name) == 3 else name
    return bare.rstrip("xlh") if bare[0] in "abcd" and len(bare) == 2 else bare.rstrip("l") if len(bare) > 2 else bare
