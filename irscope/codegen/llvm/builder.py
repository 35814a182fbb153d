"""Builds the text of a function in LLVM IR, from top to bottom: loops and branches, and instructions over a fixed number of lanes.

A value that changes in a loop or a branch has two names: the one that the body reads, and the one that the body passes on.
Nothing goes through memory; spilling is left to the compiler. With one lane the same calls emit scalar code, so that every
formula is written once.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from irscope.codegen.kernel import NO_NODE, Lines, SourceText

Carry = Sequence[tuple[str, str]]
"""The type and the initial value of each value that a loop or a branch carries."""


@dataclass(slots=True)
class Loop:
    """A loop while its body is being emitted."""

    index: str
    carried: list[str]
    """The loop-carried values, as the body reads them; after the loop, their final values."""
    following: list[str] = field(default_factory=list)
    """The values that the body passes to the next step."""


@dataclass(slots=True)
class Branch:
    """A conditional block of code while it is being emitted."""

    following: list[str] = field(default_factory=list)
    """The carried values at its end."""
    joined: list[str] = field(default_factory=list)
    """The carried values after it, whether it ran or not."""


class FunctionBuilder:
    """A builder of one function: its lines, names for results, the open basic block, and needed declarations."""

    def __init__(self) -> None:
        self.lines = Lines()
        self.declarations: set[str] = set()
        self.node = NO_NODE
        """The node that added lines compute."""
        self.block = "entry"
        """The label of the open basic block."""
        self._count = 0

    def name(self, hint: str = "v") -> str:
        self._count += 1
        return f"{hint}{self._count}"

    def add(self, text: str) -> None:
        """Append an instruction that has no result."""
        self.lines.add(f"  {text}", node=self.node)

    def value(self, text: str) -> str:
        """Append an instruction and return the name of its result."""
        result = f"%{self.name()}"
        self.lines.add(f"  {result} = {text}", node=self.node)
        return result

    def label(self, label: str) -> None:
        """Open a basic block; the one before must have ended with a branch."""
        self.lines.add(f"{label}:")
        self.block = label

    @contextmanager
    def written_for(self, node: int) -> Iterator[None]:
        """Attribute the lines added inside to a node."""
        self.node = node
        yield
        self.node = NO_NODE

    def source(self, name: str, vector_bytes: int, epilogue: str = "") -> SourceText:
        """Return the text of the finished function, with declarations and attributes after it."""
        self.add("ret void")
        for line in ("}", *sorted(self.declarations)):
            self.lines.add(line)
        width = vector_bytes * 8
        self.lines.add(f'attributes #0 = {{ nounwind "prefer-vector-width"="{width}" "min-legal-vector-width"="{width}" }}')
        if epilogue:
            self.lines.add(epilogue)
        return self.lines.source(name, "llvm")

    # -- loops and branches --------------------------------------------------------------------------------------------

    @contextmanager
    def loop(self, stop: str, *, start: str = "0", step: int | str = 1, carry: Carry = ()) -> Iterator[Loop]:
        """Emit a loop that counts from `start` to below `stop`."""
        head, inside, latch, done = (self.name(word) for word in ("head", "inside", "latch", "done"))
        index, following = f"%{self.name('i')}", f"%{self.name('next')}"
        before = self.block
        self.add(f"br label %{head}")
        self.label(head)
        self.add(f"{index} = phi i64 [{start}, %{before}], [{following}, %{latch}]")
        carried = [f"%{self.name('carried')}" for _ in carry]
        handed = [f"%{self.name('handed')}" for _ in carry]
        for name, after, (kind, first) in zip(carried, handed, carry, strict=True):
            self.add(f"{name} = phi {kind} [{first}, %{before}], [{after}, %{latch}]")
        more = self.value(f"icmp slt i64 {index}, {stop}")
        self.add(f"br i1 {more}, label %{inside}, label %{done}")
        self.label(inside)
        made = Loop(index, carried)
        yield made
        self.add(f"br label %{latch}")
        self.label(latch)
        self.add(f"{following} = add i64 {index}, {step}")
        for after, (kind, _), value in zip(handed, carry, made.following, strict=True):
            self.add(f"{after} = select i1 true, {kind} {value}, {kind} {value}")
        self.add(f"br label %{head}")
        self.label(done)

    @contextmanager
    def only_if(self, condition: str, carry: Carry = (), *, rarely: bool = False) -> Iterator[Branch]:
        """Emit code that runs only if a condition holds, which it may do `rarely`."""
        inside, done = self.name("rare" if rarely else "then"), self.name("joined")
        before = self.block
        self.add(f"br i1 {condition}, label %{inside}, label %{done}{', !prof !1' if rarely else ''}")
        self.label(inside)
        made = Branch()
        yield made
        leaving = self.block
        self.add(f"br label %{done}")
        self.label(done)
        for (kind, first), value in zip(carry, made.following, strict=True):
            made.joined.append(self.value(f"phi {kind} [{first}, %{before}], [{value}, %{leaving}]"))

    def shuffled(self, wide: str, one: str, other: str, lanes: Sequence[int]) -> str:
        """Emit a vector of these lanes of two others, the second of which are numbered after those of the first."""
        order = ", ".join(f"i32 {lane}" for lane in lanes)
        return self.value(f"shufflevector {wide} {one}, {wide} {other}, <{len(lanes)} x i32> <{order}>")

    def least(self, a: str, b: str) -> str:
        """Emit the smaller of two numbers."""
        return self.value(f"select i1 {self.value(f'icmp slt i64 {a}, {b}')}, i64 {a}, i64 {b}")


class VectorBuilder:
    """A builder that appends instructions over `width` lanes to a function's body."""

    def __init__(self, body: FunctionBuilder, width: int) -> None:
        self.body = body
        self.width = width

    def type(self, scalar: str) -> str:
        """Return the LLVM type of one value per lane.

        >>> VectorBuilder(FunctionBuilder(), 8).type("float"), VectorBuilder(FunctionBuilder(), 1).type("float")
        ('<8 x float>', 'float')
        """
        return scalar if self.width == 1 else f"<{self.width} x {scalar}>"

    def constant(self, scalar: str, value: float) -> str:
        """Return a constant with the same number in every lane."""
        if scalar == "float":
            value = struct.unpack("<f", struct.pack("<f", value))[0]
        if scalar in ("float", "double"):
            text = f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
        elif scalar == "i1":
            text = "true" if value else "false"
        else:
            text = str(int(value))
        return text if self.width == 1 else f"splat ({scalar} {text})"

    def op(self, name: str, scalar: str, *args: str) -> str:
        """Emit an instruction whose operands all have one type: `fadd contract`, `xor`, `fneg`."""
        return self.body.value(f"{name} {self.type(scalar)} {', '.join(args)}")

    def compare(self, predicate: str, scalar: str, a: str, b: str) -> str:
        """Emit a comparison, whose result is a mask: `olt`, `ueq`, … for floats, `slt`, `eq`, … for integers."""
        kind = "fcmp" if scalar in ("float", "double") else "icmp"
        return self.body.value(f"{kind} {predicate} {self.type(scalar)} {a}, {b}")

    def select(self, scalar: str, mask: str, a: str, b: str) -> str:
        """Emit a select: `a` in the lanes where the mask holds, `b` in the others."""
        kind = self.type(scalar)
        return self.body.value(f"select {self.type('i1')} {mask}, {kind} {a}, {kind} {b}")

    def convert(self, name: str, source: str, target: str, a: str) -> str:
        """Emit a conversion instruction: `bitcast`, `sitofp`, `fpext`, …"""
        return self.body.value(f"{name} {self.type(source)} {a} to {self.type(target)}")

    def call(self, intrinsic: str, scalar: str, *args: str) -> str:
        """Emit a call of an LLVM intrinsic overloaded on one type: `llvm.fabs`."""
        kind = self.type(scalar)
        symbol = f"{intrinsic}.{self._suffix(scalar)}"
        self.body.declarations.add(f"declare {kind} @{symbol}({', '.join([kind] * len(args))})")
        return self.body.value(f"call {kind} @{symbol}({', '.join(f'{kind} {a}' for a in args)})")

    def saturate(self, source: str, target: str, a: str) -> str:
        """Emit a float as a signed integer, truncated and clamped to its range; NaN becomes 0."""
        symbol = f"llvm.fptosi.sat.{self._suffix(target)}.{self._suffix(source)}"
        self.body.declarations.add(f"declare {self.type(target)} @{symbol}({self.type(source)})")
        return self.body.value(f"call {self.type(target)} @{symbol}({self.type(source)} {a})")

    def masked_load(self, scalar: str, place: str, align: int, mask: str) -> str:
        """Emit a load of the lanes of a mask; the others hold zeros."""
        args = (("ptr", place), ("i32", str(align)), (self.type("i1"), mask), (self.type(scalar), "zeroinitializer"))
        return self.body.value(self._masked("load", scalar, self.type(scalar), args))

    def masked_store(self, scalar: str, value: str, place: str, align: int, mask: str) -> None:
        """Emit a store of the lanes of a mask."""
        args = ((self.type(scalar), value), ("ptr", place), ("i32", str(align)), (self.type("i1"), mask))
        self.body.add(self._masked("store", scalar, "void", args))

    def _masked(self, word: str, scalar: str, result: str, args: Carry) -> str:
        """Return a call of LLVM's masked load or store; `args` are types and values."""
        symbol = f"llvm.masked.{word}.{self._suffix(scalar)}.p0"
        self.body.declarations.add(f"declare {result} @{symbol}({', '.join(type for type, _ in args)})")
        return f"call {result} @{symbol}({', '.join(f'{type} {value}' for type, value in args)})"

    def splat(self, scalar: str, value: str) -> str:
        """Emit a scalar repeated in every lane."""
        if self.width == 1:
            return value
        kind = self.type(scalar)
        first = self.body.value(f"insertelement {kind} poison, {scalar} {value}, i64 0")
        return self.body.value(f"shufflevector {kind} {first}, {kind} poison, <{self.width} x i32> zeroinitializer")

    def rarely(self, scalar: str, mask: str, usual: str, otherwise: Callable[[], str]) -> str:
        """Emit `usual`, except in the lanes of the mask the value of code that runs only if some lane needs it."""
        body, wanted = self.body, mask
        if self.width > 1:
            symbol, lanes = f"llvm.vector.reduce.or.v{self.width}i1", self.type("i1")
            body.declarations.add(f"declare i1 @{symbol}({lanes})")
            wanted = body.value(f"call i1 @{symbol}({lanes} {mask})")
        with body.only_if(wanted, [(self.type(scalar), usual)], rarely=True) as branch:
            branch.following = [self.select(scalar, mask, otherwise(), usual)]
        return branch.joined[0]

    def _suffix(self, scalar: str) -> str:
        short = {"float": "f32", "double": "f64", "half": "f16"}.get(scalar, scalar)
        return short if self.width == 1 else f"v{self.width}{short}"
