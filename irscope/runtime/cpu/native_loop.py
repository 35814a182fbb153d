"""A loop in machine code over kernels that are compiled already: what Python would call one by one, without Python in between.

A block of 8-byte words describes it: how many calls there are, the first one that is repeated, how many words of data each has,
`status`, and how many calls inner loops may still make; then the calls. A call has the kernel, the address of its extents and strides, the
address of a flag or 0, and whether its words move; then the words of data that the kernel reads, and what is added to each of them
afterwards. So pointers walk along rows, counters count, and two calls of the same kernel that take turns read what the other one wrote. In
the place of a kernel stands the number of another work (`Work`):

| work | words | in the place of extents |
|---|---|---|
| copy | to, from, how many pieces, the steps between these places | bytes of a piece |
| skip | a flag, how many calls | the flag at which these calls are not made: their words move nevertheless |
| take, put | to, from, indices along an axis, `status` | axes before it, its extent, bytes of a row, indices, bytes of an index |
| inner | a block, turns, the first flag or 0, `status`, addresses of a run | recipe, calls of a turn, the most turns, words to lay out |

`take` reads rows by index and `put` writes them. An inner loop lays out its block and runs it. `status` is a byte that an index outside
of the axis makes 0, and an inner loop of too many turns, which ends the loop: the turns of Python then say what is wrong, or hear an
interrupt.

Calls before the first repeated one run once. After a call with a flag the loop ends where the flag, a byte, is 0.

The block is laid out from a recipe, which is the same for all runs: how many words there are, and for each a number, and which one of
the addresses of a run is added to it.

The loop returns to Python every few milliseconds, so that an interrupt is heard; also after an inner loop, when the calls of inner
loops were many. One inner loop cannot stop halfway: of more calls than there may be it has too many turns.
"""

import ctypes
import re
import time
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple

from irscope.runtime.cpu.compiler import CpuCompiler

_FIRST_TURNS: Final = 4
_SHORT: Final = 2e-3
_LONG: Final = 8e-3
"""Seconds below and above which the next stretch in machine code takes twice and half as many turns; far below, eight times as many."""
_INNER_CALLS: Final = 1 << 17
"""Calls that inner loops may make in a stretch, in milliseconds. It ends after half of them, so that one inner loop may make the others."""


class Work(IntEnum):
    """What stands in the place of a kernel."""

    COPY = 0
    SKIP = 1
    TAKE = 2
    PUT = 3
    INNER = 4


_SHORT_TEXT: Final = """define i64 @irscope_loop(ptr %block, i64 %first, i64 %count, ptr %recipe, ptr %bases, i64 %inner.calls) {
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
  %number.given = load i64 at %recipe, %number.place
  %which = load i64 at %recipe, %base.place
  %base = load i64 at %bases, %which
  %sum = add i64 %number.given, %base
  %laid.at = getelementptr i64, ptr %block, i64 %place
  store i64 %sum, ptr %laid.at
  %place.next = add i64 %place, 1
  %is.rest = icmp slt i64 %place.next, %words
  br i1 %is.rest, label %entry.of.word, label %start
start:
  %calls = load i64, ptr %block
  %ring = load i64 at %block, 1
  %width = load i64 at %block, 2
  %left.at = getelementptr i64, ptr %block, i64 4
  store i64 %inner.calls, ptr %left.at
  %half.left = lshr i64 %inner.calls, 1
  %table = getelementptr i64, ptr %block, i64 5
  %both = shl i64 %width, 1
  %size = add i64 %both, 4
  br label %head
head:
  %done = phi i64 [ 0, %start ], [ %further, %next ]
  %at = phi i64 [ %first, %start ], [ %following, %next ]
  %skipped = phi i64 [ 0, %start ], [ %skips, %next ]
  %bound = phi i64 [ %count, %start ], [ %bound.then, %next ]
  %more = icmp slt i64 %done, %bound
  br i1 %more, label %turn, label %end
turn:
  %offset = mul i64 %at, %size
  %call = getelementptr i64, ptr %table, i64 %offset
  %kernel = load ptr, ptr %call
  %dims = load ptr at %call, 1
  %data = getelementptr i64, ptr %call, i64 4
  %is.skipped = icmp sgt i64 %skipped, 0
  br i1 %is.skipped, label %pass, label %work
pass:
  %skipped.less = sub i64 %skipped, 1
  br label %moved
work:
  %kind = ptrtoint ptr %kernel to i64
  %number.of.dims = ptrtoint ptr %dims to i64
  %second.at = getelementptr i64, ptr %data, i64 1
  switch i64 %kind, label %launch [ i64 0, label %copy
                                    i64 1, label %skip
                                    i64 2, label %rows
                                    i64 3, label %rows
                                    i64 4, label %inner ]
copy:
  %to = load ptr, ptr %data
  %from = load ptr, ptr %second.at
  %pieces = load i64 at %data, 2
  %to.step = load i64 at %data, 3
  %from.step = load i64 at %data, 4
  br label %piece
piece:
  %piece.number = phi i64 [ 0, %copy ], [ %piece.next, %piece ]
  %to.off = mul i64 %piece.number, %to.step
  %from.off = mul i64 %piece.number, %from.step
  %piece.to = getelementptr i8, ptr %to, i64 %to.off
  %piece.from = getelementptr i8, ptr %from, i64 %from.off
  call void @llvm.memmove.p0.p0.i64(ptr %piece.to, ptr %piece.from, i64 %number.of.dims, i1 false)
  %piece.next = add i64 %piece.number, 1
  %is.piece = icmp slt i64 %piece.next, %pieces
  br i1 %is.piece, label %piece, label %moved
skip:
  %asked.at = load ptr, ptr %data
  %asked.of = load i8, ptr %asked.at
  %asked.is = icmp ne i8 %asked.of, 0
  %asked.bit = zext i1 %asked.is to i64
  %is.wanted = icmp eq i64 %asked.bit, %number.of.dims
  %passed = load i64, ptr %second.at
  %skipping = select i1 %is.wanted, i64 %passed, i64 0
  br label %moved
rows:
  %puts = icmp eq i64 %kind, 3
  call void @irscope_rows(ptr %data, ptr %dims, i1 %puts)
  br label %moved
inner:
  call void @irscope_inner(ptr %data, ptr %dims)
  %inner.left = load i64, ptr %left.at
  %is.enough = icmp slt i64 %inner.left, %half.left
  %bound.after = select i1 %is.enough, i64 0, i64 %bound
  br label %moved
launch:
  call void %kernel(ptr %data, ptr %dims)
  br label %moved
moved:
  %skips = phi i64 [ %skipped.less, %pass ], [ 0, %piece ], [ %skipping, %skip ], [ 0, %rows ], [ 0, %inner ], [ 0, %launch ]
  %bound.then = phi i64 [ %bound, %pass ], [ %bound, %piece ], [ %bound, %skip ], [ %bound, %rows ], [ %bound.after, %inner ],
                    [ %bound, %launch ]
  %moves = load i64 at %call, 3
  %steps = getelementptr i64, ptr %data, i64 %width
  br label %word
word:
  %number = phi i64 [ 0, %moved ], [ %number.next, %step ]
  %left = icmp slt i64 %number, %moves
  br i1 %left, label %step, label %asked
step:
  %word.at = getelementptr i64, ptr %data, i64 %number
  %word.now = load i64, ptr %word.at
  %step.by = load i64 at %steps, %number
  %word.then = add i64 %word.now, %step.by
  store i64 %word.then, ptr %word.at
  %number.next = add i64 %number, 1
  br label %word
asked:
  %further = add i64 %done, 1
  %flag = load ptr at %call, 2
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

define internal void @irscope_rows(ptr %data, ptr %dims, i1 %puts) noinline {
entry:
  %to = load ptr, ptr %data
  %from = load ptr at %data, 1
  %indices = load ptr at %data, 2
  %status = load ptr at %data, 3
  %outer = load i64, ptr %dims
  %extent = load i64 at %dims, 1
  %bytes = load i64 at %dims, 2
  %count = load i64 at %dims, 3
  %width = load i64 at %dims, 4
  %is.wide = icmp eq i64 %width, 8
  %all = mul i64 %outer, %count
  br label %row
row:
  %number = phi i64 [ 0, %entry ], [ %next, %inside ]
  %before = sdiv i64 %number, %count
  %place = srem i64 %number, %count
  br i1 %is.wide, label %wide, label %narrow
wide:
  %wide.index = load i64 at %indices, %place
  br label %known
narrow:
  %narrow.at = getelementptr i32, ptr %indices, i64 %place
  %narrow.given = load i32, ptr %narrow.at
  %narrow.index = sext i32 %narrow.given to i64
  br label %known
known:
  %index = phi i64 [ %wide.index, %wide ], [ %narrow.index, %narrow ]
  %is.inside = icmp ult i64 %index, %extent
  br i1 %is.inside, label %inside, label %outside
outside:
  store i8 0, ptr %status
  ret void
inside:
  %of.start = mul i64 %before, %extent
  %of.row = add i64 %of.start, %index
  %indexed = mul i64 %of.row, %bytes
  %plain = mul i64 %number, %bytes
  %to.off = select i1 %puts, i64 %indexed, i64 %plain
  %from.off = select i1 %puts, i64 %plain, i64 %indexed
  %row.to = getelementptr i8, ptr %to, i64 %to.off
  %row.from = getelementptr i8, ptr %from, i64 %from.off
  call void @llvm.memmove.p0.p0.i64(ptr %row.to, ptr %row.from, i64 %bytes, i1 false)
  %next = add i64 %number, 1
  %is.more = icmp slt i64 %next, %all
  br i1 %is.more, label %row, label %end
end:
  ret void
}

define internal void @irscope_inner(ptr %data, ptr %dims) noinline {
entry:
  %block = load ptr, ptr %data
  %turns = load i64 at %data, 1
  %flag = load ptr at %data, 2
  %status = load ptr at %data, 3
  %bases = getelementptr i64, ptr %data, i64 4
  %recipe = load ptr, ptr %dims
  %calls = load i64 at %dims, 1
  %most = load i64 at %dims, 2
  %runs = icmp sgt i64 %turns, 0
  br i1 %runs, label %asked, label %end
asked:
  %asks = icmp ne ptr %flag, null
  br i1 %asks, label %look, label %begin
look:
  %answer = load i8, ptr %flag
  %goes = icmp ne i8 %answer, 0
  br i1 %goes, label %begin, label %end
begin:
  %is.beyond = icmp sgt i64 %turns, %most
  %bound = select i1 %is.beyond, i64 %most, i64 %turns
  %wanted = mul i64 %bound, %calls
  %left.at = getelementptr i64, ptr %status, i64 1
  %left = load i64, ptr %left.at
  %is.more = icmp sgt i64 %wanted, %left
  %count = select i1 %is.more, i64 %left, i64 %wanted
  %is.long = or i1 %is.beyond, %is.more
  %made = call i64 @irscope_loop(ptr %block, i64 0, i64 %count, ptr %recipe, ptr %bases, i64 0)
  %ended = icmp slt i64 %made, 0
  %less = sub i64 0, %made
  %spent = select i1 %ended, i64 %less, i64 %made
  %left.now = load i64, ptr %left.at
  %left.after = sub i64 %left.now, %spent
  store i64 %left.after, ptr %left.at
  %stays = xor i1 %ended, true
  %is.over = and i1 %is.long, %stays
  br i1 %is.over, label %over, label %end
over:
  store i8 0, ptr %status
  ret void
end:
  ret void
}

declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)
"""
"""`%word = load i64 at %words, 3` is the word of that number, which is two instructions."""
_ADDRESS: Final = r"\1.at = getelementptr i64, ptr \3, i64 \4\n  \1 = load \2, ptr \1.at"
TEXT: Final = re.sub(r"(%\S+) = load (\w+) at (%\S+), (\S+)", _ADDRESS, _SHORT_TEXT)
"""The loop as LLVM text: from call number `first` on, `count` calls, after laying the block out if there is a recipe; returns how many it
made, negative where a flag ended it, and fewer where inner loops made half of `inner.calls` calls."""


class Place(NamedTuple):
    """A word: what is added to a variable, and the number alone where there is none. `here` is the block that the word is in."""

    variable: str
    offset: int


NOTHING: Final = Place("", 0)
STATUS: Final = 24
"""Bytes from the start of a block to its `status`."""


class Call(NamedTuple):
    head: tuple[Place, Place, Place]
    """Kernel, extents and flag."""
    words: list[Place]
    """Those of `here` count from the call's own."""
    steps: list[int]
    """How the words move."""


def words_of(calls: Sequence[Call], first: int) -> list[Place]:
    """Returns the words of the block of these calls, of which those from `first` on are repeated."""
    width = max([5, *[len(call.words) for call in calls]])
    words = [Place("", number) for number in (len(calls), first, width, 1, 0)]
    for head, places, steps in calls:
        start, empty = 8 * (len(words) + 4), [NOTHING] * (width - len(places))
        own = [Place(place.variable, place.offset + start) if place.variable == "here" else place for place in places]
        moving = len(places) if any(steps) else 0
        words += [*head, Place("", moving), *own, *empty, *[Place("", step) for step in steps], *empty]
    return words


class NativeLoop:
    """The loop as a function of this process."""

    def __init__(self, compiler: CpuCompiler) -> None:
        code, whole, pointer = compiler.code(TEXT, "irscope_loop", kernel=False), ctypes.c_int64, ctypes.c_void_p
        self._function = code.function(ctypes.CFUNCTYPE, whole, pointer, whole, whole, pointer, pointer, whole)

    def prepared(self, recipe: Sequence[tuple[int, int]], per_turn: int, calls: int, first: int) -> Callable[[int, bytes, int], int]:
        """Returns a function of the address of a block, the addresses of a run and the most turns, which makes `per_turn` of the
        `calls` for each turn and returns how many turns there were: all of them, or as many as a flag allowed."""
        function, clock, stretch = self._function, time.perf_counter, _FIRST_TURNS
        words = (ctypes.c_int64 * (1 + 2 * len(recipe)))(len(recipe), *[number for word in recipe for number in word])

        def run(block: int, bases: bytes, turns: int) -> int:
            nonlocal stretch  # any other thread's will do
            at, left = 0, turns * per_turn
            source: Any = words
            while left > 0:
                count = stretch
                start = clock()
                made: int = function(block, at, min(count * per_turn, left), source, bases, _INNER_CALLS)
                if made < 0:
                    return turns - (left + made) // per_turn
                took = clock() - start
                left, at, source = left - made, at + made, None
                if at >= calls:
                    at = first + (at - first) % (calls - first)
                if took > _LONG:
                    stretch = max(count // 2, 1)
                elif took < _SHORT and made == count * per_turn:
                    stretch = count * (8 if took < _SHORT / 8 else 2)
            return turns

        return run
