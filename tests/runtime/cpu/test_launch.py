"""Launches on several threads, interrupted between any two steps of the thread that calls."""

from __future__ import annotations

import struct
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

from irscope._base.concurrency import waiting
from irscope._base.concurrency.waiting import Workers
from irscope.codegen.kernel.spec import Instruction, KernelSpec, Launch, Operand, Result
from irscope.runtime.cpu import launch as cpu_launch
from irscope.runtime.cpu.launch import PoolCall, split_kept

SPEC = KernelSpec(
    (Operand("float32", "tensor", (1,)),), (Instruction("input", (), "float32", 0),), (Result("float32", (1,), 0),), 1
)
LAUNCH = Launch(SPEC, (1024,), (0,), (0,), ((1,), (1,)))
FILES = {str(Path(module.__file__ or "")) for module in (cpu_launch, waiting)}


class Interrupting:
    """Raises KeyboardInterrupt before a step of a launch, or of its waiting."""

    def __init__(self, step: int) -> None:
        self.left = step

    def __enter__(self) -> None:
        sys.settrace(self.trace)

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename not in FILES:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            self.left -= 1
            if self.left < 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self.trace


def test_no_part_runs_on_when_an_interrupt_has_ended_the_call() -> None:
    """The caller frees the memory then; whatever still computed would write into it."""
    lent: set[int] = set()
    late: list[int] = []

    def part(data: bytes, dims: int) -> None:
        (number,) = {address >> 20 for address in struct.unpack("2q", data)}
        for _ in range(3):
            time.sleep(2e-4)
            if number not in lent:
                late.append(number)

    ranges = tuple(split_kept(LAUNCH, 4, 1))
    assert len(ranges) == 4
    call = PoolCall(lambda *words: None, LAUNCH, ranges, part, Workers(2))

    def interrupted() -> int:
        """A thread of its own: one that is interrupted between two instructions of a `with` takes its exception for being handled."""
        for step in count():
            lent.add(step)
            ended = True
            try:
                with Interrupting(step):
                    call([(step << 20) + 1], [(step << 20) + 1])
            except KeyboardInterrupt:
                ended = False
            lent.remove(step)
            if ended:
                return step
        raise AssertionError

    with ThreadPoolExecutor(1) as one:
        assert one.submit(interrupted).result() > 200, "the interrupts came within the call"
    assert not late
    assert sys.exc_info() == (None, None, None)
