"""Estimates what bounds a kernel on a GPU: memory, the slots in which warps issue instructions, or too little work.

This is a count of the machine code, not a measurement. An instruction takes 16 bytes of a cubin, so the size of an
entry's code gives the number of instructions for all elements that a thread computes. Rare branches are counted as taken,
so the count is rather too high than too low. Memory sets the pace if moving an element takes longer than issuing its
instructions. The assumed GPU is an H100: reference figures, at the bandwidth that copies reach.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from irscope.codegen.cuda import MULTIPROCESSORS, Schedule, grid_of, held_values
from irscope.codegen.facts.kernel_facts import KernelFacts
from irscope.codegen.kernel import ITEM_SIZE, KernelSpec, Launch, bytes_per_point, operations_per_point, traffic_of

_HERTZ: Final = 1.755e9
_BANDWIDTH: Final = 3.0e12
_ISSUES: Final = 4 * 32
"""Thread instructions that a multiprocessor issues per cycle."""
_SPECIALS: Final = 16
"""The same for exponentials, logarithms, roots and reciprocals, which the special function unit computes."""
_INSTRUCTION: Final = 16
_SYMBOLS: Final = 2
_SYMBOL: Final = 24
_NO_OPERATION: Final = 0x918
_SPECIAL: Final = 0x308
_CLOSE: Final = 0.7
"""The share of issue slots above which they may set the pace instead of memory."""


@dataclass(frozen=True, slots=True)
class Pace:
    """A static estimate of what limits a kernel."""

    bytes_per_point: float
    operations_per_point: int
    """Arithmetic operations of the program; each operation on an element counts as one."""
    instructions_per_point: float
    """Machine instructions; 0 where the kernel was not compiled."""
    issue_share: float
    """The share of the issue slots that is needed if memory moves as fast as in a copy."""
    special_share: float
    """The same for the slots of the special function unit, for exponentials and roots."""
    bound: str
    """`memory`, `issue`, `latency`; empty where it is not known."""
    because: str
    """The reason, in one sentence."""


def code_sizes(cubin: bytes) -> dict[str, tuple[int, int]]:
    """Return for each entry in a cubin the number of its instructions and how many of them use the special function unit.

    Empty for bytes that are not a 64-bit ELF file.
    """
    if cubin[:5] != b"\x7fELF\x02":
        return {}
    (table,) = struct.unpack_from("<Q", cubin, 0x28)
    width, count, names_at = struct.unpack_from("<HHH", cubin, 0x3A)
    headers = [struct.unpack_from("<IIQQQQI", cubin, table + i * width) for i in range(count)]
    names = headers[names_at][4]
    found = {}
    inner = _subroutines(cubin, headers)
    for number, (name_at, _, _, _, start, size, *_) in enumerate(headers):
        name = cubin[names + name_at : cubin.index(b"\0", names + name_at)].decode()
        if not name.startswith(".text."):
            continue
        end = start + min((at for owner, at in inner if owner == number), default=size)
        words = [struct.unpack_from("<Q", cubin, at)[0] & 0xFFF for at in range(start, end, _INSTRUCTION)]
        while words and words[-1] == _NO_OPERATION:
            words.pop()
        found[name.removeprefix(".text.")] = len(words), words.count(_SPECIAL)
    return found


def _subroutines(cubin: bytes, headers: list[tuple[int, ...]]) -> list[tuple[int, int]]:
    """Return section and offset of each routine for rare cases, which follow the entry that calls them."""
    found = []
    for header in headers:
        if header[1] != _SYMBOLS:
            continue
        names = headers[header[6]][4]
        for at in range(header[4], header[4] + header[5], _SYMBOL):
            name, _, _, section, value, _ = struct.unpack_from("<IBBHQQ", cubin, at)
            if cubin[names + name : names + name + 1] == b"$":
                found.append((section, value))
    return found


def pace_of(
    spec: KernelSpec, schedule: Schedule, size: tuple[int, int] | None, launch: Launch | None = None
) -> Pace:
    """Return what limits a kernel, from the `code_sizes` of its widest entry; with a launch, also whether that is too small."""
    moved, operations = bytes_per_point(spec, held=schedule.held), operations_per_point(spec)
    if size is None:
        because = f"moves {moved:g} B for {operations} operations a point; without NVRTC the instructions are not known"
        return Pace(moved, operations, 0.0, 0.0, 0.0, "", because)
    points = schedule.width * schedule.repeat
    instructions, specials = size[0] / points, size[1] / points
    rate = _BANDWIDTH / max(moved, 1e-9)
    issue = instructions * rate / (MULTIPROCESSORS * _ISSUES * _HERTZ)
    special = specials * rate / (MULTIPROCESSORS * _SPECIALS * _HERTZ)
    share = max(issue, special)
    loops = spec.reduced and not schedule.held
    text = f"moves {moved:g} B and issues {'at most' if loops else 'about'} {instructions:.0f} instructions a point"
    if launch is not None:
        blocks = grid_of(launch, schedule, vector=schedule.width > 1)[0]
        if blocks < MULTIPROCESSORS:
            because = (
                f"{text}, but has only {blocks} blocks for {MULTIPROCESSORS} multiprocessors: latency sets the pace"
            )
            return Pace(moved, operations, instructions, issue, special, "latency", because)
    slots = "issue slots" if issue >= special else "slots of the special function unit"
    if share > _CLOSE and loops:
        verdict = "memory or issue slots set the pace: what stands outside the loop is counted too"
        return Pace(moved, operations, instructions, issue, special, "", f"{text}: {verdict}")
    if share > 1:
        bound, verdict = "issue", f"{slots} set the pace: a copy would be {share:.1f} times as fast"
    elif share > _CLOSE:
        bound, verdict = "memory", f"memory sets the pace, narrowly: {share:.0%} of the {slots} are needed to keep up"
    else:
        bound, verdict = "memory", f"memory sets the pace: {share:.0%} of the {slots} are needed to keep up"
    if spec.reduced and not schedule.held and held_values(spec)[1] > 1:
        verdict += ", and its rows are read again in each pass"
    return Pace(moved, operations, instructions, issue, special, bound, f"{text}: {verdict}")


def cuda_facts(
    spec: KernelSpec, schedule: Schedule, target: str, pace: Pace, taken: tuple[int, int, int] | None
) -> KernelFacts:
    """Return the facts of a kernel for a GPU; `taken` is (registers, spilled bytes, local memory) of a thread of its widest
    entry, None where NVRTC is missing."""
    moved = traffic_of(spec, held=schedule.held)
    registers, spilled, local = taken or (0, 0, 0)
    widest = max((ITEM_SIZE[tensor.dtype] for tensor in spec.tensors if tensor.pattern), default=0)
    return KernelFacts(
        spec.name, "cuda", target, moved.read, moved.written, pace.operations_per_point,
        instructions=pace.instructions_per_point, lanes=schedule.width, vector_bits=8 * widest * schedule.width,
        registers=(("of a thread", registers),) if taken is not None else (), spills=spilled, local_bytes=local,
        bound=pace.bound, because=pace.because,
    )  # fmt: skip
