"""The peak memory that the tensors of one run take at once.

It counts the blocks behind the tensors that the run creates: a view adds nothing to its base, however many slots hold
it, and a block is alive while a slot, or a list, tuple or dictionary in a slot, leads to it. Arguments, parameters and
constants exist before the run and are not counted; neither is the workspace that a library op takes and returns while it
runs. The peak is updated after each instruction, before the slots that are dead after it are cleared: an op's operands
and results are alive together.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from irscope._base.nested import address_range, leaves
from irscope.runtime.program.code import Code, Slots


def blocks_of(value: Any) -> Iterator[tuple[int, int]]:
    """Yields address and bytes of the memory behind each tensor in a value, at its allocated size.

    >>> import numpy as np
    >>> array = np.zeros((4, 4), np.float32)
    >>> list(blocks_of([array[1], array])) == [(array.ctypes.data, 64)] * 2
    True
    """
    for item in leaves(value):
        found = address_range(item) if hasattr(item, "dtype") else None
        if found is not None and found[0] < found[1]:
            yield found[0], found[1] - found[0]


class PeakMemory:
    """Follows the memory of one run of a program; pass `after` to `Code.run`."""

    def __init__(self, code: Code, slots: Slots) -> None:
        self.code = code
        self.slots = slots
        self.peak = 0
        """Bytes."""
        self.curve: list[tuple[int, int]] = []
        """For each instruction that has run, the bytes that it allocated, and the bytes alive right after it."""
        self._now = 0
        self._outside = {address for value in slots for address, _ in blocks_of(value)}
        self._held: dict[int, tuple[tuple[int, int], ...]] = {}
        self._holders: Counter[tuple[int, int]] = Counter()

    def after(self, position: int) -> None:
        """Records the memory that the instruction at this position created, then what dies after it."""
        slots, before, step = self.slots, self._now, self.code.instructions[position]
        for slot in step.writes:
            self._hold(slot)
        for slot in step.reads:
            if isinstance(slots[slot], list | dict):  # whose contents a node may change
                self._hold(slot)
        self.peak = max(self.peak, self._now)
        self.curve.append((max(self._now - before, 0), self._now))
        for slot in step.dead:
            self._release(slot)

    def _hold(self, slot: int) -> None:
        blocks = tuple([block for block in blocks_of(self.slots[slot]) if block[0] not in self._outside])
        for block in blocks:
            self._holders[block] += 1
            if self._holders[block] == 1:
                self._now += block[1]
        self._release(slot)
        self._held[slot] = blocks

    def _release(self, slot: int) -> None:
        for block in self._held.pop(slot, ()):
            self._holders[block] -= 1
            if not self._holders[block]:
                del self._holders[block]
                self._now -= block[1]
