"""A loop in machine code over kernels that are compiled already: what Python would call one by one, without Python in between.

A block of 8-byte words describes it: how many calls there are, the first one that is repeated, and how many words of data each has;
then the calls. A call has the kernel, the address of its extents and strides, the address of a flag or 0, and whether its words
move; then the words of data that the kernel reads, and what is added to each of them afterwards. So pointers walk along rows,
counters count, and two calls of the same kernel that take turns read what the other one wrote. A call without a kernel copies:
its words are the places to and from, in the place of extents stands the number of bytes.

Calls before the first repeated one run once. After a call with a flag the loop ends where the flag, a byte, is 0.

The block is laid out from a recipe, which is the same for all runs: how many words there are, and for each a number, and which one of
the addresses of a run is added to it.

The loop returns to Python every few milliseconds, so that an interrupt is heard.
"""

import ctypes
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from irscope.runtime.cpu.compiler import CpuCompiler

_FIRST_TURNS: Final = 4
_SHORT: Final = 2e-3
_LONG: Final = 8e-3
"""Seconds below and above which the next stretch in machine code takes twice and half as many turns; far below, eight times as many."""

TEXT: Final = """define i64 @irscope_loop(ptr %block, i64 %first, i64 %count, ptr %recipe, ptr %bases) {
entry:
  %is.laid = icmp eq ptr %recipe, null
  br i1 %is.laid, label %start, label %lay
lay:
  %words = load i64, ptr %recipe
  br label %entry.of.word
entry.of.word:
  %place = phi i64 [ 0, %lay ], [ %place.next, %entry.of.word ]
  %twice = shl i64 %place, 1
  %number.place = add i64 %twice, 1
  %base.place = add i64 %twice, 2
  %number.at = getelementptr i64, ptr %recipe, i64 %number.place
  %number.given = load i64, ptr %number.at
  %which.at = getelementptr i64, ptr %recipe, i64 %base.place
  %which = load i64, ptr %which.at
  %base.at = getelementptr i64, ptr %bases, i64 %which
  %base = load i64, ptr %base.at
  %sum = add i64 %number.given, %base
  %laid.at = getelementptr i64, ptr %block, i64 %place
  store i64 %sum, ptr %laid.at
  %place.next = add i64 %place, 1
  %is.rest = icmp slt i64 %place.next, %words
  br i1 %is.rest, label %entry.of.word, label %start
start:
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
  %done = phi i64 [ 0, %start ], [ %further, %next ]
  %at = phi i64 [ %first, %start ], [ %following, %next ]
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
"""The loop as LLVM text: from call number `first` on, `count` calls, after laying the block out if there is a recipe; returns how many it
made, negative where a flag ended it."""


class NativeLoop:
    """The loop as a function of this process."""

    def __init__(self, compiler: CpuCompiler) -> None:
        code, whole, pointer = compiler.code(TEXT, "irscope_loop", kernel=False), ctypes.c_int64, ctypes.c_void_p
        self._function = code.function(ctypes.CFUNCTYPE, whole, pointer, whole, whole, pointer, pointer)

    def prepared(self, recipe: Sequence[tuple[int, int]], per_turn: int, calls: int, first: int) -> Callable[[int, bytes, int], int]:
        """Returns a function of the address of a block, the addresses of a run and the most turns, which makes `per_turn` of the
        `calls` for each turn and returns how many turns there were: all of them, or as many as a flag allowed."""
        function, clock, stretch = self._function, time.perf_counter, _FIRST_TURNS
        words = (ctypes.c_int64 * (1 + 2 * len(recipe)))(len(recipe), *[number for word in recipe for number in word])

        def run(block: int, bases: bytes, turns: int) -> int:
            nonlocal stretch  # any other thread's will do
            at = done = 0
            source: Any = words
            while done < turns:
                count = min(stretch, turns - done)
                start = clock()
                made: int = function(block, at, count * per_turn, source, bases)
                if made < 0:
                    return done - made // per_turn
                took = clock() - start
                done, at, source = done + count, at + made, None
                if at >= calls:
                    at = first + (at - first) % (calls - first)
                if took > _LONG:
                    stretch = max(count // 2, 1)
                elif took < _SHORT and count == stretch:
                    stretch *= 8 if took < _SHORT / 8 else 2
            return done

        return run
