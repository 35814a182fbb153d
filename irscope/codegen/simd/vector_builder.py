"""Emits LLVM IR instructions over vectors of a fixed number of lanes.

With one lane the same calls emit scalar code, so that every formula is written once.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from irscope.codegen.simd.function_builder import FunctionBuilder

__all__ = ["VectorBuilder"]


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

    def splat(self, scalar: str, value: str) -> str:
        """Emit a scalar repeated in every lane."""
        if self.width == 1:
            return value
        kind = self.type(scalar)
        first = self.body.value(f"insertelement {kind} poison, {scalar} {value}, i64 0")
        return self.body.value(f"shufflevector {kind} {first}, {kind} poison, <{self.width} x i32> zeroinitializer")

    def rarely(self, scalar: str, mask: str, usual: str, otherwise: Callable[[], str]) -> str:
        """Emit `usual`, except in the lanes of the mask the value of code that runs only if some lane needs it."""
        body, kind = self.body, self.type(scalar)
        wanted = self._any(mask)
        rare, joined = body.name("rare"), body.name("joined")
        before = body.block
        body.add(f"br i1 {wanted}, label %{rare}, label %{joined}, !prof !1")
        body.label(rare)
        replaced = self.select(scalar, mask, otherwise(), usual)
        leaving = body.block
        body.add(f"br label %{joined}")
        body.label(joined)
        return body.value(f"phi {kind} [{usual}, %{before}], [{replaced}, %{leaving}]")

    def _any(self, mask: str) -> str:
        if self.width == 1:
            return mask
        symbol = f"llvm.vector.reduce.or.v{self.width}i1"
        self.body.declarations.add(f"declare i1 @{symbol}({self.type('i1')})")
        return self.body.value(f"call i1 @{symbol}({self.type('i1')} {mask})")

    def _suffix(self, scalar: str) -> str:
        short = {"float": "f32", "double": "f64", "half": "f16"}.get(scalar, scalar)
        return short if self.width == 1 else f"v{self.width}{short}"
