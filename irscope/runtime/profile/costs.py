"""What an op costs, and what the machine allows: reads, writes, arithmetic and allocations, counted on the tensors of one run.

A view moves nothing; an in-place op moves its operands and the elements it writes, and by indices only those that they name. A lookup
reads only as much of its table as it returns. An expanded operand counts with the memory that it occupies.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import log2, prod
from typing import Any, Final

from irscope.ir import GROUPS, Node
from irscope.ops.op import PYTHON_CATEGORIES
from irscope.ops.registry import category_of, effect_of
from irscope.runtime.machine import limits
from irscope.runtime.measure.workload import bytes_of, flops_of, part_read, part_written, read_by, written_by
from irscope.runtime.program import Code, PeakMemory, Slots, blocks_of


@dataclass(frozen=True, slots=True)
class TensorFacts:
    """The layout of a tensor in an op."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In elements."""
    itemsize: int

    @property
    def elements(self) -> int:
        """The number of elements in memory: expanded dimensions count once."""
        return prod(size if stride else min(size, 1) for size, stride in zip(self.shape, self.strides, strict=True))

    @property
    def bytes(self) -> int:
        return self.elements * self.itemsize

    @property
    def full_bytes(self) -> int:
        """The bytes of a dense copy."""
        return self.itemsize * prod(self.shape)

    @property
    def order(self) -> tuple[int, ...]:
        """The dimensions of more than one element, from the largest stride to the smallest; expanded ones are left out."""
        moving = [dim for dim, (size, stride) in enumerate(zip(self.shape, self.strides, strict=True)) if size > 1 and stride]
        return tuple(sorted(moving, key=lambda dim: -self.strides[dim]))


@dataclass(slots=True)
class NodeCost:
    calls: int = 0
    """How often it ran; for a loop, how often it began."""
    read_bytes: int = 0
    written_bytes: int = 0
    flops: int = 0
    is_counted: bool = True
    """Whether its arithmetic is known."""
    allocated_bytes: int = 0
    live_bytes: int = 0
    """The most bytes of the run's tensors that were alive right after it ran."""
    operands: tuple[TensorFacts | None, ...] = ()
    """At its first call; None for an operand that is not a tensor."""
    results: tuple[TensorFacts | None, ...] = ()
    shares_memory: bool = False
    """Whether its result shares an operand's memory."""
    trips: int = 0
    """How often the body of a loop ran."""

    @property
    def bytes(self) -> int:
        return self.read_bytes + self.written_bytes


@dataclass(eq=False)
class Counter:
    """Counts the runs of one program; assign `watch` to `Code.observer`."""

    costs: dict[int, NodeCost] = field(default_factory=dict)
    """By the node's id."""
    curve: list[tuple[int, int, int]] = field(default_factory=list)
    """Of the last run; see `PeakMemory`."""
    peak_bytes: int = 0

    def watch(self, code: Code, slots: Slots) -> Any:
        """Returns the callback that gets the position of each instruction that has run."""
        memory = PeakMemory(code, slots)
        self.costs.clear()
        self.curve = memory.curve

        def after(position: int) -> None:
            memory.after(position)
            _, allocated, live = memory.curve[-1]
            self.peak_bytes = memory.peak
            step = code.instructions[position]
            node = step.node
            if step.kind == "turn":
                self.costs[step.owner.id].trips += 1
            if node is None:
                return
            cost = self.costs.setdefault(node.id, NodeCost())
            cost.calls += 1
            cost.trips -= step.kind == "start"  # for the turn that there is not any more
            cost.allocated_bytes += allocated
            cost.live_bytes = max(cost.live_bytes, live)
            inputs, outputs = [slots[slot] for slot in step.reads], [slots[slot] for slot in step.writes]
            if not node.blocks or node.op in GROUPS:
                _count(cost, node, inputs, outputs)

        return after


def _count(cost: NodeCost, node: Node, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
    made = outputs[0] if len(outputs) == 1 else outputs
    is_group = node.op in GROUPS
    writes = not is_group and effect_of(node) == "in-place"
    given = {address for address, _ in blocks_of(list(inputs))}
    shares = any(address in given for address, _ in blocks_of(list(outputs)))
    if cost.calls == 1:
        cost.operands, cost.results = tuple(map(_facts, inputs)), tuple(map(_facts, outputs))
        cost.shares_memory = shares
    if not is_group:
        flops = flops_of(node, inputs, made)
        cost.is_counted = cost.is_counted and flops is not None
        cost.flops += flops or 0
        if category_of(node) in PYTHON_CATEGORIES or (shares and not writes):
            return  # a reshape or a `contiguous` that copies does not share
    if is_group:
        of_first, read, written = None, inputs, bytes_of(outputs)
    else:
        of_first, read = part_read(node, inputs, outputs), read_by(node, inputs)
        part = part_written(node, inputs)
        written = bytes_of(written_by(node, inputs if writes else (), outputs)) if part is None else part
    cost.read_bytes += bytes_of(read) if of_first is None else min(of_first, bytes_of(read[:1])) + bytes_of(read[1:])
    cost.written_bytes += written


def _facts(value: Any) -> TensorFacts | None:
    if not (hasattr(value, "shape") and hasattr(value, "dtype")):
        return None
    try:
        shape = tuple(int(size) for size in value.shape)
        if hasattr(value, "stride"):
            return TensorFacts(str(value.dtype).removeprefix("torch."), shape, tuple(value.stride()), value.element_size())
        item = int(value.dtype.itemsize)
        steps = tuple(step // max(item, 1) for step in getattr(value, "strides", (0,) * len(shape)))
        return TensorFacts(str(value.dtype), shape, steps, item)
    except (AttributeError, RuntimeError, TypeError):  # a tensor without strides
        return None


# The machine's limits at many sizes: the time of a copy, and of arithmetic.
#
# Measuring a copy of each size would take a second; sizes are measured on demand in steps of four, and the speed between two
# steps is interpolated linearly. No limits are measured for a GPU.

_SMALLEST: Final = 1 << 14
_LARGEST: Final = 1 << 26
_STEP: Final = 2
"""The logarithm to base 2 of the ratio between two measured sizes."""


class Speeds:
    """The limits for programs on a number of threads of the processor; other devices have none."""

    def __init__(self, threads: int, device: str) -> None:
        self._limits = limits(threads) if device == "cpu" else None

    def copy_ns(self, moved: float) -> float:
        """Returns the nanoseconds of a copy that moves this many bytes, reads and writes together; 0 where it is unknown."""
        if self._limits is None or moved <= 0:
            return 0.0
        size = min(max(moved, _SMALLEST), _LARGEST)
        steps = log2(size / _SMALLEST) / _STEP
        below = int(steps)
        first = _SMALLEST << (_STEP * below)
        second = min(first << _STEP, _LARGEST)
        part = steps - below
        speed = self._bytes_per_ns(first)
        if part > 0 and second > first:
            speed += part * (self._bytes_per_ns(second) - speed)
        return moved / speed

    def _bytes_per_ns(self, size: int) -> float:
        assert self._limits is not None
        return size / (self._limits.copy_seconds(size) * 1e9)

    def flops_ns(self, flops: float) -> float:
        """Returns the least nanoseconds of this many float32 additions and multiplications; 0 where it is unknown."""
        if self._limits is None or flops <= 0:
            return 0.0
        return flops / self._limits.flops * 1e9
