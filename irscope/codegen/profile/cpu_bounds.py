"""Estimates what bounds a kernel on a CPU, by counting in the loops of its assembly.

Its loops over points are found in its text (`point_loops`), the machine code of each loop by the lines that it came from, and
the cost of an iteration by counting (`throughput`). Within a loop a core works on many iterations at once: the slowest
resource, memory or a part of the core, hides the rest. Passes over a row follow one another, so their times add up, and
while one computes on cached data nothing comes from memory. The resource that takes most of the time sets the pace.

The estimate ignores caches other than the nearest one, code outside the innermost loops (which matters for rows of a few
elements), and rare branches. Small tensors stay in a cache, and then the kernel does not wait for memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from irscope.codegen.kernel import ITEM_SIZE, NO_LINE, KernelSpec, SourceText, Traffic, operations_per_point, traffic_of
from irscope.codegen.profile.kernel_facts import KernelFacts
from irscope.codegen.profile.point_loops import PointLoop, point_loops
from irscope.codegen.profile.throughput import Core, MachineLoop, machine_loops

__all__ = ["COPY", "HERTZ", "HotLoop", "cpu_facts", "hot_loops", "unknown_facts"]

COPY: Final = 10e9
"""Bytes per second that one core copies, reads and writes together: a reference figure, used where none was measured."""
HERTZ: Final = 3e9
"""Cycles per second: a reference figure."""
_FULL: Final = 0.95
"""The share of a copy's speed from which on it is not reported."""


@dataclass(frozen=True, slots=True)
class HotLoop:
    """A loop over points, in the text and as machine code."""

    text: PointLoop
    code: MachineLoop

    @property
    def demands(self) -> dict[str, float]:
        """Cycles per point, for each part of a core."""
        return {part: cycles / self.text.points for part, cycles in self.code.demands(Core()).items()}

    @property
    def instructions(self) -> float:
        """Machine instructions per point."""
        return len(self.code.steps) / self.text.points


def hot_loops(spec: KernelSpec, source: SourceText, assembly: SourceText) -> list[HotLoop]:
    """Return the loops that run once or more over all points, in the order of the text; `assembly` must have `origins`."""
    machine = machine_loops(assembly.text)
    owners = []
    for loop in machine:
        lines = (assembly.origins[line] for line in loop.lines)
        owners.append(Counter(line for line in lines if line != NO_LINE))
    found = []
    for text in point_loops(spec, source):
        shares = [sum(count for line, count in owner.items() if line in text.lines) for owner in owners]
        if any(shares):
            found.append(HotLoop(text, machine[shares.index(max(shares))]))
    return found


def cpu_facts(
    spec: KernelSpec, source: SourceText, assembly: SourceText, target: str, *, copy: float = COPY, hertz: float = HERTZ
) -> KernelFacts:
    """Return the facts of a kernel; `copy` is the bytes per second that a copy moves, `hertz` the cycles per second."""
    loops = hot_loops(spec, source, assembly)
    if not loops:
        return unknown_facts(spec, "cpu", target, "its machine code has no loop over points")
    moved = _traffic(spec)
    passes = list(_passes(spec, loops, copy, hertz))
    copied = sum(moved) / copy
    share = min(1.0, copied / max(sum(each.seconds for each in passes), 1e-15))
    bound, busiest, because = _pace(spec, passes, copied, share, copy, hertz)
    vectors = frozenset().union(*(loop.code.vector_registers for loop in loops))
    general = frozenset().union(*(loop.code.general_registers for loop in loops))
    return KernelFacts(
        spec.name, "cpu", target, moved.read, moved.written, operations_per_point(spec),
        instructions=sum(loop.instructions for loop in loops),
        lanes=max(loop.text.vector for loop in loops),
        vector_bits=max(step.bits for loop in loops for step in loop.code.steps),
        registers=(("vector", len(vectors)), ("general", len(general))),
        spills=sum(loop.code.spills for loop in loops),
        busiest=busiest, copy_share=share, bound=bound, because=because,
    )  # fmt: skip


def unknown_facts(spec: KernelSpec, device: str, target: str, because: str) -> KernelFacts:
    """Return the facts known from the spec alone, with the reason why there are no others."""
    moved = _traffic(spec)
    return KernelFacts(
        spec.name, device, target, moved.read, moved.written, operations_per_point(spec), because=because
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Pass:
    """Seconds per point of one loop."""

    memory: float
    core: float
    busiest: str
    """The part of the core that takes longest."""

    @property
    def seconds(self) -> float:
        return max(self.memory, self.core)

    @property
    def waits_for(self) -> str:
        """The resource that takes longest: memory or a part of the core."""
        return "memory" if self.memory >= self.core else self.busiest


def _passes(spec: KernelSpec, loops: Sequence[HotLoop], copy: float, hertz: float) -> Iterator[_Pass]:
    """Yield the cost of each loop in order; if rows are short, tensors of an earlier loop are in a cache."""
    seen: set[int] = set()
    for loop in loops:
        fresh = loop.text.tensors - seen
        moved = sum(ITEM_SIZE[spec.tensors[slot].dtype] for slot in fresh)
        if _held(spec):
            seen |= fresh
        busiest, cycles = max(loop.demands.items(), key=lambda each: each[1])
        yield _Pass(moved / copy, cycles / hertz, busiest)


def _pace(
    spec: KernelSpec, passes: Sequence[_Pass], copied: float, share: float, copy: float, hertz: float
) -> tuple[str, str, str]:
    """Return what sets the pace, which part of the core is busiest, and why."""
    waits: dict[str, float] = {}
    busy: dict[str, float] = {}
    for each in passes:
        waits[each.waits_for] = waits.get(each.waits_for, 0.0) + each.seconds
        busy[each.busiest] = busy.get(each.busiest, 0.0) + each.core
    busiest, slowest = max(busy, key=busy.__getitem__), max(waits, key=waits.__getitem__)
    over = f" in {len(passes)} passes" if len(passes) > 1 else ""
    most = "waiting for results" if busiest == "latency" else f"most of it in the {busiest}"
    counted = (
        f"copying as many bytes takes {_time(copied)} a point at {copy / 1e9:.3g} GB/s, "
        f"its instructions{over} {_time(sum(busy.values()))} at {hertz / 1e9:.2g} GHz ({most})"
    )
    most_of_copy = f", at about {share:.0%} of a copy's speed" if share < _FULL else ""
    again = ", and rows are read again in each pass" if spec.reduced and not _held(spec) and len(passes) > 1 else ""
    verdict = {
        "memory": "memory sets the pace of tensors that fit in no cache", "latency": "each waits for the one before, which sets the pace",
    }.get(slowest, "they set the pace")  # fmt: skip
    bound = slowest if slowest in ("memory", "latency") else "issue"
    return bound, busiest, f"{counted}: {verdict}{most_of_copy}{again}"


def _held(spec: KernelSpec) -> bool:
    """Whether rows are known to be so short that they stay in a cache until the last pass."""
    return bool(spec.row_limit) and not spec.by_columns


def _traffic(spec: KernelSpec) -> Traffic:
    return traffic_of(spec, held=_held(spec))


def _time(seconds: float) -> str:
    return f"{seconds * 1e9:.2g} ns"
