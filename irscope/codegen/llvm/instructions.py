"""Emits the instructions of a kernel, as scalars or in every lane of a vector, and the loops around them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

from irscope.codegen.kernel import BROADCAST, ITEM_SIZE, NO_NODE, STRIDED, UNIT, is_float
from irscope.codegen.llvm.kernel_builder import KernelBuilder
from irscope.codegen.llvm.load_store import load_vector
from irscope.codegen.simd import MEMORY, REGISTER, VectorBuilder, element, from_memory, to_memory

__all__ = ["instruction", "operand", "outer_loops", "splat", "stored"]


@contextmanager
def outer_loops(k: KernelBuilder, stages: Sequence[Sequence[int]]) -> Iterator[None]:
    """Emit the outermost loops, one fewer than stages, with the instructions of each stage inside its loop."""
    with ExitStack() as loops:
        for depth, stage in enumerate(stages):
            if depth:
                k.advance(depth - 1, loops.enter_context(k.body.loop(k.sizes[depth - 1])).index)
            for index in stage:
                instruction(k, index, k.scalar)
        yield


def instruction(k: KernelBuilder, index: int, lanes: VectorBuilder) -> None:
    """Emit one instruction."""
    code = k.spec.instructions[index]
    k.body.node = code.node
    if code.op == "input":
        assert code.value is not None
        value = _load(k, code.value, lanes)
    elif code.op == "count":
        value = _count(k, code.dtype)
    else:
        args = [operand(k, arg, lanes) for arg in code.args]
        types = [k.spec.instructions[arg].dtype for arg in code.args]
        half, exact = k.target.native_half, k.spec.exact
        value = element(lanes, code, args, types, native_half=half, exact=exact)
    (k.values if lanes.width == 1 else k.wide)[index] = value
    k.body.node = NO_NODE


def operand(k: KernelBuilder, index: int, lanes: VectorBuilder) -> str:
    """Return an instruction's value, as an operand of another."""
    code = k.spec.instructions[index]
    if code.op == "const":
        return element(lanes, code, [], [], native_half=k.target.native_half)
    return k.values[index] if lanes.width == 1 else k.wide[index]


def stored(k: KernelBuilder, slot: int, lanes: VectorBuilder) -> str:
    """Return a result's values as they are stored in memory."""
    result = k.spec.outputs[slot]
    value = operand(k, result.instruction, lanes)
    return to_memory(lanes, value, result.dtype, native_half=k.target.native_half)


def splat(k: KernelBuilder, index: int) -> None:
    """Copy a scalar instruction into every lane."""
    code = k.spec.instructions[index]
    k.body.node = code.node
    k.wide[index] = k.vector.splat(REGISTER[code.dtype], k.values[index])
    k.body.node = NO_NODE


def _count(k: KernelBuilder, dtype: str) -> str:
    """Return how many steps the reduced loops have together."""
    steps = k.sizes[k.spec.reduced[0]]
    for loop in k.spec.reduced[1:]:
        steps = k.body.value(f"mul i64 {steps}, {k.sizes[loop]}")
    return k.scalar.convert("sitofp", "i64", REGISTER[dtype], steps)


def _load(k: KernelBuilder, position: int, lanes: VectorBuilder) -> str:
    """Load an operand: from its pointer for one lane, from where its lanes start for many."""
    operand, slot = k.spec.inputs[position], position + k.first_input
    if operand.kind == "scalar":
        return _number(k, operand.dtype, k.pointers[slot])
    step = k.lane_steps.get(slot)
    if operand.kind == "index":
        return _index(k, slot, lanes, step)
    kind, align = MEMORY[operand.dtype], ITEM_SIZE[operand.dtype]
    if lanes.width == 1:
        loaded = k.body.value(f"load {kind}, ptr {k.pointers[slot]}, align {align}")
    elif operand.pattern[-1] in (UNIT, STRIDED):
        loaded = (k.reader or partial(load_vector, k))(slot, step)
    else:
        first = k.body.value(f"load {kind}, ptr {k.pointers[slot]}, align {align}")
        loaded = k.vector.splat(kind, first)
    return from_memory(lanes, loaded, operand.dtype, native_half=k.target.native_half)


def _index(k: KernelBuilder, slot: int, lanes: VectorBuilder, step: str | None) -> str:
    if lanes.width == 1:
        return k.pointers[slot]
    if k.patterns[slot][-1] == BROADCAST:
        return lanes.splat("i64", k.pointers[slot])
    numbers = ", ".join(f"i64 {lane}" for lane in range(lanes.width))
    steps = f"<{numbers}>"
    if step is not None:
        steps = lanes.op("mul", "i64", steps, lanes.splat("i64", step))
    return lanes.op("add", "i64", lanes.splat("i64", k.places[slot]), steps)


def _number(k: KernelBuilder, dtype: str, place: str) -> str:
    """Load a number from its eight bytes."""
    kind = REGISTER[dtype]
    wide = "double" if is_float(dtype) else "i64"
    value = k.body.value(f"load {wide}, ptr {place}, align 8")
    if dtype == "bool":
        return k.scalar.compare("ne", "i64", value, "0")
    if kind == wide:
        return value
    return k.scalar.convert("fptrunc" if wide == "double" else "trunc", wide, kind, value)
