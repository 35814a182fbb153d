"""Whether the contents of some memory are those of before, by a hash in machine code, in one call for all of it. On a Zen 5, busy,
it took 10 µs for 1 MB, 265 for 16 MB, 6.5 ms for 134 MB.

Torch counts the writes to a tensor, but not those through `.data`, through NumPy's view of it or by a pointer. Who keeps something
that was computed from a model's weights compares their hash as well.

Each lane of a vector takes words of four bytes one by one: `h = (h + word) * odd`, then `h ^= h >> 15`. Each step can be undone, so a
difference in one word of a lane always changes the lane; differences in several cancel out once in 2**32. The shift is there for floats:
1.0 and 2.0 differ by a power of two, and sums of products alone would lose such differences at the upper end. Bytes after the last
whole block of 256 are taken one by one.
"""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, Final

from irscope.runtime.cpu.compiler import CpuCompiler

_MIX: Final = 0x100000001B3
_VECTOR: Final = "<16 x i32>"
_VECTORS: Final = range(4)
"""Several vectors, since each waits for its own product."""


def _all(number: int) -> str:
    return f"<{', '.join([f'i32 {number}'] * 16)}>"


def _each(text: str) -> str:
    return "\n".join([text.format(k=k, at=64 * k, v=_VECTOR, odd=_all(0x9E3779B1 - (1 << 32)), half=_all(15)) for k in _VECTORS])


_START: Final = _each("  %h{k} = phi {v} [ zeroinitializer, %start ], [ %h{k}.next, %take ]")
_TAKE: Final = _each("""  %p{k} = getelementptr i8, ptr %here, i64 {at}
  %x{k} = load {v}, ptr %p{k}, align 1
  %s{k} = add {v} %h{k}, %x{k}
  %m{k} = mul {v} %s{k}, {odd}
  %d{k} = lshr {v} %m{k}, {half}
  %h{k}.next = xor {v} %m{k}, %d{k}""")
_KEEP: Final = _each("""  %l{k} = getelementptr i8, ptr %lanes, i64 {at}
  store {v} %h{k}, ptr %l{k}, align 4""")

TEXT: Final = f"""define i64 @irscope_hash(ptr %table, i64 %count) {{
entry:
  %lanes = alloca [64 x i32]
  br label %range
range:
  %number = phi i64 [ 0, %entry ], [ %number.next, %done ]
  %hash = phi i64 [ 0, %entry ], [ %hash.byte, %done ]
  %is.range = icmp slt i64 %number, %count
  br i1 %is.range, label %start, label %end
start:
  %row = shl i64 %number, 1
  %base.at = getelementptr i64, ptr %table, i64 %row
  %base = load ptr, ptr %base.at
  %size.at = getelementptr i64, ptr %base.at, i64 1
  %size = load i64, ptr %size.at
  %blocks = and i64 %size, -256
  br label %block
block:
  %i = phi i64 [ 0, %start ], [ %i.next, %take ]
{_START}
  %is.block = icmp ult i64 %i, %blocks
  br i1 %is.block, label %take, label %keep
take:
  %here = getelementptr i8, ptr %base, i64 %i
{_TAKE}
  %i.next = add i64 %i, 256
  br label %block
keep:
{_KEEP}
  br label %lane
lane:
  %n = phi i64 [ 0, %keep ], [ %n.next, %add ]
  %hash.lane = phi i64 [ %hash, %keep ], [ %hash.lane.next, %add ]
  %is.lane = icmp ult i64 %n, 64
  br i1 %is.lane, label %add, label %byte
add:
  %lane.at = getelementptr i32, ptr %lanes, i64 %n
  %lane.held = load i32, ptr %lane.at
  %lane.wide = zext i32 %lane.held to i64
  %lane.sum = add i64 %hash.lane, %lane.wide
  %hash.lane.next = mul i64 %lane.sum, {_MIX}
  %n.next = add i64 %n, 1
  br label %lane
byte:
  %b = phi i64 [ %blocks, %lane ], [ %b.next, %more ]
  %hash.byte = phi i64 [ %hash.lane, %lane ], [ %hash.byte.next, %more ]
  %is.byte = icmp ult i64 %b, %size
  br i1 %is.byte, label %more, label %done
more:
  %byte.at = getelementptr i8, ptr %base, i64 %b
  %byte.held = load i8, ptr %byte.at
  %byte.wide = zext i8 %byte.held to i64
  %byte.sum = add i64 %hash.byte, %byte.wide
  %hash.byte.next = mul i64 %byte.sum, {_MIX}
  %b.next = add i64 %b, 1
  br label %byte
done:
  %number.next = add i64 %number, 1
  br label %range
end:
  ret i64 %hash
}}
"""
"""The hash of a table of ranges, each an address and a number of bytes, as LLVM text."""


class Hash:
    """The hash as a function of this process."""

    def __init__(self, compiler: CpuCompiler) -> None:
        code = compiler.code(TEXT, "irscope_hash", kernel=False)
        self._owner = code.machine
        self._function = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p, ctypes.c_int64)(code.address)

    def of(self, ranges: Sequence[tuple[int, int]]) -> Callable[[], int]:
        """Returns what hashes all that these ranges hold at a call; a range is an address and a number of bytes."""
        table = (ctypes.c_uint64 * (2 * len(ranges)))(*[word for pair in ranges for word in pair])
        return lambda: self._function(table, len(ranges))


def range_of(tensor: Any) -> tuple[int, int]:
    """Returns the address and the number of bytes between the first and the last element of a tensor of torch."""
    if not tensor.numel() or not tensor.data_ptr():  # no elements, or their storage was freed
        return 0, 0
    last = sum((extent - 1) * stride for extent, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.data_ptr(), (last + 1) * tensor.element_size()
