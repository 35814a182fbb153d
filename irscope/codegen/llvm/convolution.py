"""The LLVM text of a convolution over channels last, or a product with a matrix, with what follows it: a sum, a clamp.

A *point* of the result is all of its channels at one position of one image; a matrix product has its rows as points. The kernel makes a
tile of a few points and a few vectors of channels at a time, which stays in registers while the operand is read once: each element of
a point of the operand is repeated in a vector and multiplied by the weights of the vectors, which lie one after the other
(`irscope.runtime.cpu.convolution`). Where each channel has its own window (`depthwise`), vectors of channels are multiplied.

**Where a window lies** is in a table: for each point, and each tap of the window, the bytes from the operand's first element to
the point that it reads, or a negative number for one in the padding; there zeros are read instead. So strides, dilations, paddings and
batches are no concern of the kernel, and it reads nothing but what the table says. Where the result has its channels apart (planes, as
torch lays out most), a second table has the bytes from its first element to each point.

`void kernel(ptr data, ptr dims)`: `data` holds the addresses of the result, of the operand, and of the tensor that is added if one is;
`dims` the words of `NUMBERS` and `ADDRESSES`. A part of the points is a call with other words, of at least one tile. The last tile
overlaps the one before, so that the result must not overlap an operand.
"""

from dataclasses import dataclass
from typing import Final

from irscope.codegen.kernel import SourceText
from irscope.codegen.llvm.builder import FunctionBuilder, VectorBuilder
from irscope.codegen.llvm.kernel_base import Target

NUMBERS: Final = ("start", "stop", "taps", "depth", "step", "groups", "blocks", "channels", "row", "group_shift", "block_shift", "column")
"""The first point and the one after the last; the taps of a window; the channels that a group reads, and the bytes between them;
the groups, the blocks of vectors of each, and the channels that it makes; the elements from a point of the result to the next; the
bytes between the channels that two groups, and two blocks, read; the elements between two channels of the result."""
ADDRESSES: Final = ("weights", "bias", "table", "zeros", "places")
"""What follows the numbers: memory that stays the same from call to call. Zeros are as many as the channels that a group reads span;
places are those of the points of a result in planes."""


@dataclass(frozen=True, slots=True)
class ConvolutionText:
    points: int
    """Points of a tile."""
    vectors: int
    """Vectors of channels of a tile."""
    depthwise: bool = False
    has_tail: bool = False
    """Whether the channels of a group do not fill the vectors."""
    adds: bool = False
    has_planes: bool = False
    """Whether the channels of the result lie apart; nothing is added then."""
    low: float | None = None
    high: float | None = None
    """The bounds between which results are clamped; NaN stays NaN."""

    @property
    def name(self) -> str:
        marks = (("d", self.depthwise), ("t", self.has_tail), ("p", self.has_planes))
        kind = f"convolution_{self.points}x{self.vectors}{''.join([letter for letter, holds in marks if holds])}"
        ends = [
            f"_{word}_{end!r}".replace("-", "m").replace(".", "p").replace("+", "")
            for word, end in (("from", self.low), ("to", self.high))
            if end is not None
        ]
        return f"irscope_{kind}{'_add' if self.adds else ''}{''.join(ends)}"


def emit_convolution(made: ConvolutionText, target: Target) -> SourceText:
    """Return the kernel as LLVM IR text."""
    return _Convolution(made, target).source()


class _Convolution:
    def __init__(self, made: ConvolutionText, target: Target) -> None:
        self.made = made
        self.target = target
        self.lanes = target.vector_bytes // 4
        self.body = FunctionBuilder()
        self.vector = VectorBuilder(self.body, self.lanes)
        self.kind = self.vector.type("float")
        self.block = self.lanes * made.vectors
        """Channels of a block."""

    def source(self) -> SourceText:
        body = self.body
        body.lines.add(f"define void @{self.made.name}(ptr noalias readonly %data, ptr noalias readonly %dims) #0 {{\nentry:")
        names = ("y", "x", "other") if self.made.adds else ("y", "x")
        self.pointers = {name: self._word("ptr", "%data", place) for place, name in enumerate(names)}
        self.dims = {name: self._word("i64", "%dims", place) for place, name in enumerate(NUMBERS)}
        self.pointers |= {name: self._word("ptr", "%dims", place) for place, name in enumerate(ADDRESSES, len(NUMBERS))}
        with body.loop(self.dims["groups"]) as group, body.loop(self.dims["blocks"]) as block:
            self._block(group.index, block.index)
        return body.source(self.made.name, self.target.vector_bytes)

    def _word(self, kind: str, base: str, place: int) -> str:
        return self.body.value(f"load {kind}, ptr {self._at(base, str(place), 'i64')}, align 8")

    def _at(self, base: str, index: str, kind: str = "i8") -> str:
        return self.body.value(f"getelementptr {kind}, ptr {base}, i64 {index}")

    def _times(self, a: str, b: str) -> str:
        return self.body.value(f"mul i64 {a}, {b}")

    def _plus(self, a: str, b: str) -> str:
        return self.body.value(f"add i64 {a}, {b}")

    # -- a block of channels, and its tiles -----------------------------------------------------------------------------

    def _block(self, group: str, block: str) -> None:
        """Emit the tiles of one block of channels."""
        body, dims, made = self.body, self.dims, self.made
        number = self._plus(self._times(group, dims["blocks"]), block)
        inside = self._times(block, str(self.block))
        self.channel = self._plus(self._times(group, dims["channels"]), inside)
        self.masks: list[str] = []
        """Which lanes of each vector have a channel; empty where all have."""
        if made.has_tail:
            left = body.value(f"sub i64 {dims['channels']}, {inside}")
            limit = self.vector.splat("i32", body.value(f"trunc i64 {left} to i32"))
            for first in range(0, self.block, self.lanes):
                numbers = ", ".join(f"i32 {first + lane}" for lane in range(self.lanes))
                self.masks.append(self.vector.compare("slt", "i32", f"<{numbers}>", limit))
        shift = self._plus(self._times(group, dims["group_shift"]), self._times(block, dims["block_shift"]))
        operand = self._at(self.pointers["x"], shift)
        each = self._times(dims["taps"], str(self.block))
        size = each if made.depthwise else self._times(each, dims["depth"])
        weights = self._at(self.pointers["weights"], self._times(number, size), "float")
        bias = self._at(self.pointers["bias"], self._times(number, str(self.block)), "float")
        start = [self._load(bias, place) for place in range(made.vectors)]
        last = body.value(f"sub i64 {dims['stop']}, {made.points}")
        with body.loop(dims["stop"], start=dims["start"], step=made.points) as tile:
            self._tile(body.least(tile.index, last), operand, weights, start)

    def _tile(self, point: str, operand: str, weights: str, first: list[str]) -> None:
        """Emit the sums of one tile, and its results."""
        body, made, taps = self.body, self.made, self.dims["taps"]
        rows = [self._at(self.pointers["table"], self._times(self._plus(point, str(place)), taps), "i32") for place in range(made.points)]
        carry = [("ptr", weights), *[(self.kind, each) for _ in range(made.points) for each in first]]
        with body.loop(taps, carry=carry) as tap:
            places = [self._place(row, tap.index, operand) for row in rows]
            if made.depthwise:
                tap.following = self._window(places, *tap.carried)
            else:
                tap.following = self._sums(places, *tap.carried)
        sums = tap.carried[1:]
        for place in range(made.points):
            number = self._plus(point, str(place))
            start = "" if made.has_planes else self._plus(self._times(number, self.dims["row"]), self.channel)
            for vector in range(made.vectors):
                total = self._clamped(sums[place * made.vectors + vector], start, vector)
                if made.has_planes:
                    self._scatter(total, number, vector)
                else:
                    self._store(total, start, vector)

    def _place(self, row: str, tap: str, operand: str) -> str:
        """Return the place that a tap of a window reads: in the operand, or zeros."""
        shift = self.body.value(f"load i32, ptr {self._at(row, tap, 'i32')}, align 4")
        inside = self._at(operand, self.body.value(f"sext i32 {shift} to i64"))
        outside = self.body.value(f"icmp slt i32 {shift}, 0")
        return self.body.value(f"select i1 {outside}, ptr {self.pointers['zeros']}, ptr {inside}")

    def _sums(self, places: list[str], weights: str, *sums: str) -> list[str]:
        """Emit the products of a tap with all channels that a group reads; return where the weights go on, and the sums."""
        body, made = self.body, self.made
        carry = [("i64", "0"), ("ptr", weights), *[(self.kind, each) for each in sums]]
        with body.loop(self.dims["depth"], carry=carry) as channel:
            shift, row, *before = channel.carried
            factors = [self._load(row, vector) for vector in range(made.vectors)]
            after = []
            for point, place in enumerate(places):
                element = body.value(f"load float, ptr {self._at(place, shift)}, align 4")
                repeated = self.vector.splat("float", element)
                for vector, factor in enumerate(factors):
                    after.append(self._product(repeated, factor, before[point * made.vectors + vector]))
            channel.following = [self._plus(shift, self.dims["step"]), self._at(row, str(self.block), "float"), *after]
        return channel.carried[1:]

    def _window(self, places: list[str], weights: str, *sums: str) -> list[str]:
        """Emit the products of a tap of each channel's own window."""
        made, after = self.made, []
        factors = [self._load(weights, vector) for vector in range(made.vectors)]
        for point, place in enumerate(places):
            for vector, factor in enumerate(factors):
                after.append(self._product(self._some(place, vector), factor, sums[point * made.vectors + vector]))
        return [self._at(weights, str(self.block), "float"), *after]

    def _product(self, a: str, b: str, total: str) -> str:
        return self.vector.call("llvm.fmuladd", "float", a, b, total)

    # -- vectors in memory ----------------------------------------------------------------------------------------------

    def _load(self, base: str, vector: int) -> str:
        """Return a vector of weights or bias, which fill vectors and are aligned."""
        place = self._at(base, str(vector * self.lanes), "float")
        return self.body.value(f"load {self.kind}, ptr {place}, align {self.target.vector_bytes}")

    def _some(self, base: str, vector: int) -> str:
        """Return a vector of a tensor, with zeros where it has no more channels."""
        place = self._at(base, str(vector * self.lanes), "float")
        if self.masks:
            return self.vector.masked_load("float", place, 4, self.masks[vector])
        return self.body.value(f"load {self.kind}, ptr {place}, align 4")

    def _clamped(self, total: str, start: str, vector: int) -> str:
        """Emit what follows the sum."""
        if self.made.adds:
            total = self.vector.op("fadd", "float", total, self._some(self._at(self.pointers["other"], start, "float"), vector))
        for word, end in (("olt", self.made.low), ("ogt", self.made.high)):
            if end is not None:
                limit = self.vector.constant("float", end)
                total = self.vector.select("float", self.vector.compare(word, "float", total, limit), limit, total)
        return total

    def _scatter(self, total: str, point: str, vector: int) -> None:
        """Store the channels of a point, which lie apart."""
        body, column = self.body, self.dims["column"]
        shift = body.value(f"load i32, ptr {self._at(self.pointers['places'], point, 'i32')}, align 4")
        base = self._at(self.pointers["y"], body.value(f"sext i32 {shift} to i64"))
        base = self._at(base, self._times(self._plus(self.channel, str(vector * self.lanes)), column), "float")
        steps, lanes, mask = self.vector.type("i64"), self.vector.type("ptr"), self.vector.type("i1")
        numbers = ", ".join([f"i64 {lane}" for lane in range(self.lanes)])
        apart = self.vector.op("mul", "i64", f"<{numbers}>", self.vector.splat("i64", column))
        places = body.value(f"getelementptr float, ptr {base}, {steps} {apart}")
        symbol = f"@llvm.masked.scatter.v{self.lanes}f32.v{self.lanes}p0"
        body.declarations.add(f"declare void {symbol}({self.kind}, {lanes}, i32, {mask})")
        chosen = self.masks[vector] if self.masks else self.vector.constant("i1", 1)
        body.add(f"call void {symbol}({self.kind} {total}, {lanes} {places}, i32 4, {mask} {chosen})")

    def _store(self, total: str, start: str, vector: int) -> None:
        """Store the channels of a point, which follow one another."""
        place = self._at(self._at(self.pointers["y"], start, "float"), str(vector * self.lanes), "float")
        if self.masks:
            self.vector.masked_store("float", total, place, 4, self.masks[vector])
        else:
            self.body.add(f"store {self.kind} {total}, ptr {place}, align 4")
