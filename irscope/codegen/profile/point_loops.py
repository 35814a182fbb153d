"""The loops of a kernel's LLVM text that touch its tensors point by point, and how many points a step of each computes.

A loop counts if it is innermost, is not reached only through branches that the text marks as rare, and reads or writes a
tensor that moves along every loop that any tensor moves along; loops over single rows or columns are left out. The
tensor of an access is traced from the kernel's argument through `getelementptr`, `phi` and `select`. A step computes
as many points as it reads elements of such a tensor, or as it writes where it reads none.

Where the text has the same loop twice, for long and for short rows, or for several rows at once and for the rest, one of
them does most of the work. Of loops that do the same for the same nodes, up to a multiple, the one with the
widest steps is reported. Where some loop processes vectors, those that go element by element only copy the end of a row to the
stack or back. A pass that reads only values kept on the stack and writes nothing is not found.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import gcd
from typing import Final

from irscope.codegen.kernel import BROADCAST, NO_NODE, KernelSpec, SourceText
from irscope.codegen.profile.control_flow import innermost_loops

__all__ = ["PointLoop", "point_loops"]

_RESULT: Final = re.compile(r"  (%[\w.]+) = ")
_NAME: Final = re.compile(r"ptr (%[\w.]+)")
_ARGUMENT: Final = re.compile(r"  (%[\w.]+) = getelementptr \w+, ptr %data, i64 (\d+)$")
_TARGET: Final = re.compile(r"label %([\w.]+)")
_ACCESS: Final = re.compile(r"(?:\bload|\bstore|@llvm\.masked\.)")
_ADDRESS: Final = re.compile(r" = (?:ptrtoint|(?:add|sub|mul|and|icmp \w+) i64) ")
_MOVES: Final = ("load", "store", "shufflevector", "insertelement", "extractelement", "getelementptr", "br", "phi")


@dataclass(frozen=True, slots=True)
class PointLoop:
    """One loop of the text."""

    lines: frozenset[int]
    """Lines of the text, counted from 0."""
    points: int
    """Points of the iteration space computed in one step."""
    vector: int
    """Elements of the widest access to a tensor."""
    tensors: frozenset[int]
    """The tensors that it reads or writes and that move along every loop; results are numbered first, then operands."""
    arithmetic: frozenset[tuple[int, str, int]]
    """The operations that it computes: node, operation, and its count, divided by the common divisor of all counts."""


def point_loops(spec: KernelSpec, source: SourceText) -> list[PointLoop]:
    """Return the loops over points of a kernel's text, in its order."""
    lines = source.text.splitlines()
    blocks, following = _blocks(lines)
    slots = _slots(lines)
    moves = [sum(kind != BROADCAST for kind in tensor.pattern) for tensor in spec.tensors]
    full = {slot for slot, count in enumerate(moves) if count == max(moves, default=0)}
    found: dict[frozenset[tuple[int, str, int]], PointLoop] = {}
    for _, loop in innermost_loops(following):
        inside = frozenset(line for block in loop for line in blocks[block])
        points, vector, touched = _points(lines, inside, slots, full, len(spec.outputs))
        arithmetic = _arithmetic(lines, source, inside)
        if points and (arithmetic not in found or points > found[arithmetic].points):
            found[arithmetic] = PointLoop(inside, points, vector, touched, arithmetic)
    most = max((loop.points for loop in found.values()), default=0)
    return [loop for loop in found.values() if loop.points > 1 or most == 1]


def _blocks(lines: list[str]) -> tuple[list[range], list[list[int]]]:
    """Return the blocks, as ranges of lines, and the successors of each that runs often (empty for rare blocks)."""
    labels: dict[str, int] = {}
    starts: list[int] = []
    for number, line in enumerate(lines):
        if line.endswith(":") and not line.startswith(" "):
            labels[line[:-1]] = len(starts)
            starts.append(number)
        elif line.startswith("}"):
            starts.append(number)
            break
    blocks = [range(start, stop) for start, stop in pairwise(starts)]
    following: list[list[int]] = []
    for block in blocks:
        branch = lines[block[-1]]
        targets = [labels[name] for name in _TARGET.findall(branch)]
        following.append(targets[1:] if "!prof !1" in branch else targets)  # its first target is the rare one
    seen, waiting = {0}, [0]
    while waiting:
        for after in following[waiting.pop()]:
            if after not in seen:
                seen.add(after)
                waiting.append(after)
    return blocks, [each if block in seen else [] for block, each in enumerate(following)]


def _slots(lines: list[str]) -> dict[str, int]:
    """Return for each pointer the kernel argument that it points into."""
    slots: dict[str, int] = {}
    places = {"%data": 0}
    for line in lines:
        if argument := _ARGUMENT.match(line):
            places[argument[1]] = int(argument[2])
            continue
        result = _RESULT.match(line)
        if result is None:
            continue
        text = line[result.end() :]
        if text.startswith("load ptr, ptr "):
            place = _NAME.findall(text)
            if place and place[-1] in places:
                slots[result[1]] = places[place[-1]]
        elif text.startswith(("getelementptr", "phi ptr", "select")):
            names = re.findall(r"ptr (%[\w.]+)|\[(%[\w.]+),", text)
            known = [slots[name] for pair in names for name in pair if name in slots]
            if known:
                slots[result[1]] = known[0]
    return slots


def _points(
    lines: list[str], inside: frozenset[int], slots: dict[str, int], full: set[int], outputs: int
) -> tuple[int, int, frozenset[int]]:
    """Return how many points a step computes, the elements of its widest access, and which of the full tensors it touches."""
    read: Counter[int] = Counter()
    written: Counter[int] = Counter()
    widest = 0
    for number in sorted(inside):
        slot, elements, stores = _access(lines[number], slots)
        if slot is None:
            continue
        widest = max(widest, elements)
        if slot not in full:
            continue
        if not stores and slot >= outputs:
            read[slot] += elements
        elif stores:  # of a streaming store and its plain alternative, only one runs
            written[slot] = max(written[slot], elements) if elements > 1 else written[slot] + 1
    return max((read or written).values(), default=0), widest, frozenset(read) | frozenset(written)


def _access(line: str, slots: dict[str, int]) -> tuple[int | None, int, bool]:
    """Return the tensor that a line reads or writes, how many elements of it, and whether it writes."""
    if _ACCESS.search(line) is None:
        return None, 0, False
    names = _NAME.findall(line)
    if not names or names[-1] not in slots:
        return None, 0, False
    width = re.search(r"<(\d+) x ", line)
    return slots[names[-1]], int(width[1]) if width else 1, "store" in line


def _arithmetic(lines: list[str], source: SourceText, inside: frozenset[int]) -> frozenset[tuple[int, str, int]]:
    counted = Counter(_operations(lines, source, inside))
    times = gcd(*counted.values())
    return frozenset((node, op, count // times) for (node, op), count in counted.items())


def _operations(lines: list[str], source: SourceText, inside: frozenset[int]) -> Iterator[tuple[int, str]]:
    for number in inside:
        node = source.line_nodes[number]
        op = _RESULT.sub("", lines[number]).split()[0]
        if node != NO_NODE and op not in _MOVES and not _ADDRESS.search(lines[number]):
            yield node, op
