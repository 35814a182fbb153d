"""A loop in machine code over kernels that are compiled already: what Python would call one by one, without Python in between.

A block of 8-byte words describes it: how many calls there are, the first one that is repeated, and how many words of data each has;
then the calls. A call has the kernel, the address of its extents and strides, the address of a flag or 0, and whether its words
move; then the words of data that the kernel reads, and what is added to each of them afterwards. So pointers walk along rows,
counters count, and two calls of the same kernel that take turns read what the other one wrote. A call without a kernel copies:
its words are the places to and from, in the place of extents stands the number of bytes.

Calls before the first repeated one run once. After a call with a flag the loop ends where the flag, a byte, is 0.

The loop returns to Python every few milliseconds, so that an interrupt is heard.
"""

import ctypes
import time
from typing import Any, Final

from irscope.runtime.cpu.compiler import CpuCompiler

_FIRST_TURNS: Final = 4
_SHORT: Final = 2e-3
_LONG: Final = 8e-3
"""Seconds below and above which the next stretch in machine code takes twice and half as many turns; far below, eight times as many."""

TEXT: Final = """define i64 @irscope_loop(ptr %block, i64 %first, i64 %count) {
entry:
  %calls = load i64, ptr %block
  %ring.at = getelementptr i64, ptr %block, i64 1
  %ring = load i64, ptr %ring.at
  %width.at = getelementptr i64, ptr %block, i64 2
  %width = load i64, ptr %width.at
  %table = getelementptr i64, ptr %block, i64 3
  %both = shl i64 %width, 1
  %size = add i64 %both, 4
  br label %head
head:
  %done = phi i64 [ 0, %entry ], [ %further, %next ]
  %at = phi i64 [ %first, %entry ], [ %following, %next ]
  %more = icmp slt i64 %done, %count
  br i1 %more, label %turn, label %end
turn:
  %offset = mul i64 %at, %size
  %call = getelementptr i64, ptr %table, i64 %offset
  %kernel = load ptr, ptr %call
  %dims.at = getelementptr i64, ptr %call, i64 1
  %dims = load ptr, ptr %dims.at
  %data = getelementptr i64, ptr %call, i64 4
  %is.copy = icmp eq ptr %kernel, null
  br i1 %is.copy, label %copy, label %launch
copy:
  %to = load ptr, ptr %data
  %from.at = getelementptr i64, ptr %data, i64 1
  %from = load ptr, ptr %from.at
  %bytes = ptrtoint ptr %dims to i64
  call void @llvm.memmove.p0.p0.i64(ptr %to, ptr %from, i64 %bytes, i1 false)
  br label %moved
launch:
  call void %kernel(ptr %data, ptr %dims)
  br label %moved
moved:
  %moves.at = getelementptr i64, ptr %call, i64 3
  %moves = load i64, ptr %moves.at
  %steps = getelementptr i64, ptr %data, i64 %width
  br label %word
word:
  %number = phi i64 [ 0, %moved ], [ %number.next, %step ]
  %left = icmp slt i64 %number, %moves
  br i1 %left, label %step, label %asked
step:
  %word.at = getelementptr i64, ptr %data, i64 %number
  %word.now = load i64, ptr %word.at
  %step.at = getelementptr i64, ptr %steps, i64 %number
  %step.by = load i64, ptr %step.at
  %word.then = add i64 %word.now, %step.by
  store i64 %word.then, ptr %word.at
  %number.next = add i64 %number, 1
  br label %word
asked:
  %further = add i64 %done, 1
  %flag.at = getelementptr i64, ptr %call, i64 2
  %flag = load ptr, ptr %flag.at
  %asks = icmp ne ptr %flag, null
  br i1 %asks, label %look, label %next
look:
  %answer = load i8, ptr %flag
  %ends = icmp eq i8 %answer, 0
  br i1 %ends, label %stop, label %next
next:
  %after = add i64 %at, 1
  %is.last = icmp eq i64 %after, %calls
  %following = select i1 %is.last, i64 %ring, i64 %after
  br label %head
stop:
  %negative = sub i64 0, %further
  ret i64 %negative
end:
  ret i64 %done
}

declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)
"""
"""The loop as LLVM text: from call number `first` on, `count` calls; returns how many it made, negative where a flag ended it."""


class NativeLoop:
    """The loop as a function of this process."""

    def __init__(self, compiler: CpuCompiler) -> None:
        code = compiler.code(TEXT, "irscope_loop", kernel=False)
        self._function = code.function(ctypes.CFUNCTYPE, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)

    def run(self, block: Any, per_turn: int, turns: int) -> int:
        """Makes the calls of a block, `per_turn` of them for each turn; returns how many turns there were: all of them, or as many as
        a flag allowed."""
        address, calls, ring = ctypes.addressof(block), block[0], block[1]
        at = done = 0
        stretch = _FIRST_TURNS
        while done < turns:
            count = min(stretch, turns - done)
            start = time.perf_counter()
            made = self._function(address, at, count * per_turn)
            if made < 0:
                return done + -int(made) // per_turn
            took = time.perf_counter() - start
            done += count
            at += made
            if at >= calls:
                at = ring + (at - ring) % (calls - ring)
            if took < _SHORT:
                stretch *= 8 if took < _SHORT / 8 else 2
            elif took > _LONG:
                stretch = max(stretch // 2, 1)
        return done
