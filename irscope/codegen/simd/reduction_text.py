"""How a reduction takes in more elements: over lanes, over parts, and at last across the lanes of one vector.

A reduction is held in one accumulator, argmax and argmin in two (what is compared, and its index). Every accumulator
starts with a value that changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from irscope.codegen.kernel import KernelSpec, accumulated_dtype, is_float, neutral_value
from irscope.codegen.simd.instruction_text import REGISTER
from irscope.codegen.simd.vector_builder import VectorBuilder
from irscope.ops.expr import POSITIONS

__all__ = ["across_lanes", "first_values", "kinds", "taken_in"]


def kinds(spec: KernelSpec, index: int) -> tuple[str, ...]:
    """The LLVM types of a reduction's accumulators, in one lane."""
    own = REGISTER[accumulated_dtype(spec, index)]
    return (own, "i64") if spec.instructions[index].op in POSITIONS else (own,)


def first_values(spec: KernelSpec, index: int, lanes: VectorBuilder) -> tuple[str, ...]:
    """What a reduction's accumulators start with."""
    op, dtype = spec.instructions[index].op, accumulated_dtype(spec, index)
    first = lanes.constant(REGISTER[dtype], neutral_value(op, dtype))
    return (first, lanes.constant("i64", 2**63 - 1)) if op in POSITIONS else (first,)


def taken_in(
    spec: KernelSpec, index: int, lanes: VectorBuilder, held: Sequence[str], more: Sequence[str], mask: str | None = None
) -> list[str]:
    """The accumulators with further values taken in; with a mask, only in its lanes."""
    op, dtype = spec.instructions[index].op, accumulated_dtype(spec, index)
    if op in POSITIONS:
        better = _better(lanes, op[10:], dtype, held, more)
        chosen = [lanes.select(kind, better, b, a) for kind, a, b in zip(kinds(spec, index), held, more, strict=True)]
    else:
        chosen = [_joined(lanes, op, dtype, held[0], more[0])]
    if mask is None:
        return chosen
    return [lanes.select(kind, mask, b, a) for kind, a, b in zip(kinds(spec, index), held, chosen, strict=True)]


def _joined(lanes: VectorBuilder, op: str, dtype: str, held: str, more: str) -> str:
    scalar = REGISTER[dtype]
    if op in ("reduce_max", "reduce_min"):
        return _extreme(lanes, op[7:], dtype, held, more)
    float_ops = {"reduce_sum": "fadd", "reduce_prod": "fmul"}
    whole_ops = {"reduce_sum": "add", "reduce_prod": "mul", "reduce_any": "or", "reduce_all": "and"}
    return lanes.op((float_ops if is_float(dtype) else whole_ops)[op], scalar, held, more)


def _extreme(lanes: VectorBuilder, word: str, dtype: str, held: str, more: str) -> str:
    """The comparison with the new value does not wait for the old one, and a NaN stays."""
    scalar = REGISTER[dtype]
    relation = "gt" if word == "max" else "lt"
    if not is_float(dtype):
        sign = "u" if dtype in ("uint8", "bool") else "s"
        return lanes.select(scalar, lanes.compare(sign + relation, scalar, more, held), more, held)
    best = lanes.select(scalar, lanes.compare("o" + relation, scalar, more, held), more, held)
    return lanes.select(scalar, lanes.compare("uno", scalar, more, more), more, best)


def _better(lanes: VectorBuilder, word: str, dtype: str, held: Sequence[str], more: Sequence[str]) -> str:
    scalar, relation = REGISTER[dtype], "gt" if word == "max" else "lt"
    before = lanes.compare("slt", "i64", more[1], held[1])
    if not is_float(dtype):
        sign = "u" if dtype in ("uint8", "bool") else "s"
        beats, ties = (
            lanes.compare(sign + relation, scalar, more[0], held[0]),
            lanes.compare("eq", scalar, more[0], held[0]),
        )
        return lanes.op("or", "i1", beats, lanes.op("and", "i1", ties, before))
    new, old = lanes.compare("uno", scalar, more[0], more[0]), lanes.compare("uno", scalar, held[0], held[0])
    beats = lanes.compare("o" + relation, scalar, more[0], held[0])
    first = lanes.op("and", "i1", new, lanes.op("xor", "i1", old, lanes.constant("i1", 1)))
    ties = lanes.op("or", "i1", lanes.compare("oeq", scalar, more[0], held[0]), lanes.op("and", "i1", new, old))
    return lanes.op("or", "i1", lanes.op("or", "i1", beats, first), lanes.op("and", "i1", ties, before))


def across_lanes(spec: KernelSpec, index: int, lanes: VectorBuilder, held: Sequence[str]) -> str:
    """The reduction of all lanes, halving them; of a pair, the index."""
    own, width, values = kinds(spec, index), lanes.width, list(held)
    while width > 1:
        width //= 2
        half = VectorBuilder(lanes.body, width)
        low = [_half(lanes, 2 * width, kind, value, 0) for kind, value in zip(own, values, strict=True)]
        high = [_half(lanes, 2 * width, kind, value, width) for kind, value in zip(own, values, strict=True)]
        values = taken_in(spec, index, half, low, high)
    return values[-1]


def _half(lanes: VectorBuilder, width: int, kind: str, value: str, start: int) -> str:
    if width == 2:
        return lanes.body.value(f"extractelement <2 x {kind}> {value}, i64 {start}")
    picked = ", ".join(f"i32 {lane}" for lane in range(start, start + width // 2))
    wide = f"<{width} x {kind}>"
    return lanes.body.value(f"shufflevector {wide} {value}, {wide} poison, <{width // 2} x i32> <{picked}>")
