"""Whether the contents of some memory are those of before, by a hash in machine code, in one call for all of it. On a Zen 5, busy,
it took 10 µs for 1 MB, 265 for 16 MB, 6.5 ms for 134 MB.

Torch counts the writes to a tensor, but not those through `.data`, through NumPy's view of it or by a pointer. Who keeps something
that was computed from a model's weights compares their hash as well.

Each lane of a vector takes words of four bytes one by one: `h = (h + word) * odd`, then `h ^= h >> 15`. Each step can be undone, so a
difference in one word of a lane always changes the lane; differences in several cancel out once in 2**32. The shift is there for floats:
1.0 and 2.0 differ by a power of two, and sums of products alone would lose such differences at the upper end. A range begins at the
first lane again; what is left of its last 256 bytes is filled up with zeros, but for bytes after its last word, which are taken one by one.
"""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, Final

from irscope.codegen.llvm import FunctionBuilder, VectorBuilder
from irscope.runtime.cpu.compiler import CpuCompiler

_ODD: Final = 0x9E3779B1
_MIX: Final = 0x100000001B3
_LANES: Final = 16
_VECTORS: Final = 4
"""Several vectors, since each waits for its own product."""


def hash_text() -> str:
    """Returns the hash of a table of ranges, each an address and a number of bytes, as LLVM text."""
    body = FunctionBuilder()
    vector = VectorBuilder(body, _LANES)
    wide, block = vector.type("i32"), 4 * _LANES * _VECTORS
    body.lines.add("define i64 @irscope_hash(ptr %table, i64 %count) {\nentry:")
    lanes = body.value(f"alloca [{_LANES * _VECTORS} x i32]")
    order = f"<{', '.join(f'i32 {lane}' for lane in range(_LANES))}>"

    def at(base: str, offset: str, kind: str = "i8") -> str:
        return body.value(f"getelementptr {kind}, ptr {base}, i64 {offset}")

    def mixed(total: str, kind: str, place: str) -> str:
        """Emit a hash with one more number, a byte or the state of a lane."""
        number = body.value(f"zext {kind} {body.value(f'load {kind}, ptr {place}')} to i64")
        return body.value(f"mul i64 {body.value(f'add i64 {total}, {number}')}, {_MIX}")

    def taken_in(state: str, words: str) -> str:
        product = vector.op("mul", "i32", vector.op("add", "i32", state, words), vector.constant("i32", _ODD - (1 << 32)))
        return vector.op("xor", "i32", product, vector.op("lshr", "i32", product, vector.constant("i32", 15)))

    with body.loop("%count", carry=[("i64", "0"), *[(wide, "zeroinitializer")] * _VECTORS]) as each:
        row = at("%table", body.value(f"shl i64 {each.index}, 1"), "i64")
        base, size = body.value(f"load ptr, ptr {row}"), body.value(f"load i64, ptr {at(row, '1', 'i64')}")
        whole = body.value(f"and i64 {size}, {-block}")
        with body.loop(whole, step=block, carry=[(wide, state) for state in each.carried[1:]]) as taken:
            here = at(base, taken.index)
            for place, state in enumerate(taken.carried):
                words = body.value(f"load {wide}, ptr {at(here, str(4 * _LANES * place))}, align 1")
                taken.following.append(taken_in(state, words))
        rest = body.value(f"sub i64 {size}, {whole}")
        count = vector.splat("i32", body.value(f"trunc i64 {body.value(f'lshr i64 {rest}, 2')} to i32"))
        with body.only_if(body.value(f"icmp ne i64 {rest}, 0"), [(wide, state) for state in taken.carried]) as last:
            for place, state in enumerate(taken.carried):
                left = vector.op("sub", "i32", count, vector.constant("i32", _LANES * place))
                mask = vector.compare("slt", "i32", order, left)
                start = at(base, body.value(f"add i64 {whole}, {4 * _LANES * place}"))
                last.following.append(taken_in(state, vector.masked_load("i32", start, 1, mask)))
        with body.loop(size, start=body.value(f"and i64 {size}, -4"), carry=[("i64", each.carried[0])]) as byte:
            byte.following = [mixed(byte.carried[0], "i8", at(base, byte.index))]
        each.following = [*byte.carried, *last.joined]
    for place, state in enumerate(each.carried[1:]):
        body.add(f"store {wide} {state}, ptr {at(lanes, str(4 * _LANES * place))}, align 4")
    with body.loop(str(_LANES * _VECTORS), carry=[("i64", each.carried[0])]) as lane:
        lane.following = [mixed(lane.carried[0], "i32", at(lanes, lane.index, "i32"))]
    body.add(f"ret i64 {lane.carried[0]}")
    body.lines.add("}")
    return body.lines.source("irscope_hash", "llvm").text


class Hash:
    """The hash as a function of this process."""

    def __init__(self, compiler: CpuCompiler) -> None:
        code = compiler.code(hash_text(), "irscope_hash", kernel=False)
        self._function = code.function(ctypes.CFUNCTYPE, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_int64)

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
