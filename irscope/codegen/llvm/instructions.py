"""Emits the instructions of a kernel, its loads and stores, as scalars or in every lane of a vector, and the loops around them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

from irscope.codegen.kernel import BROADCAST, ITEM_SIZE, NO_NODE, STRIDED, UNIT, is_float
from irscope.codegen.llvm.kernel_builder import KernelBuilder
from irscope.codegen.simd import MEMORY, REGISTER, VectorBuilder, element, from_memory, to_memory

# Loads and stores of a kernel's tensors: a vector at a time, contiguous or strided.
#
# In the last vector of a row, only some lanes may exist (`some`). Then nothing outside of them is read or written: by a
# mask where the processor has masks, otherwise through a buffer on the stack. A masked load may take twice as long as a plain
# one (Zen 5 streams 48 GB/s with masks, 80 without), so wherever more elements follow, whole vectors are read.


def load_vector(k: KernelBuilder, slot: int, step: str | None) -> str:
    """Load a vector of a tensor's elements, `step` apart; None means contiguous."""
    return load_row(k, slot) if step is None else load_apart(k, slot, step)


def load_row(k: KernelBuilder, slot: int) -> str:
    """Load a vector of contiguous elements."""
    if k.some is not None and slot not in k.whole:
        return load_some(k, slot, k.places[slot], None, *k.some)
    kind = k.vector.type(MEMORY[k.dtypes[slot]])
    return k.body.value(f"load {kind}, ptr {k.places[slot]}, align {ITEM_SIZE[k.dtypes[slot]]}")


def load_apart(k: KernelBuilder, slot: int, step: str) -> str:
    """Load a vector of strided elements."""
    place = k.places[slot]
    if k.some is not None:
        return load_some(k, slot, place, step, *k.some)
    kind = MEMORY[k.dtypes[slot]]
    wide, vector = k.vector.type(kind), "poison"
    for lane in range(k.width):
        found = k.body.value(f"load {kind}, ptr {place}, align {ITEM_SIZE[k.dtypes[slot]]}")
        vector = k.body.value(f"insertelement {wide} {vector}, {kind} {found}, i64 {lane}")
        place = k.body.value(f"getelementptr {kind}, ptr {place}, i64 {step}")
    return vector


def store(k: KernelBuilder, slot: int, stored: str, *, streaming: bool = False) -> None:
    """Store a vector; with `streaming`, bypass the caches where it is aligned."""
    place, step = k.places[slot], k.lane_steps.get(slot)
    if k.some is not None:
        store_some(k, slot, stored, place, step, *k.some)
    elif step is not None:
        _store_apart(k, slot, stored, place, step)
    elif streaming:
        _store_past(k, slot, stored, place)
    else:
        kind, align = k.vector.type(MEMORY[k.dtypes[slot]]), ITEM_SIZE[k.dtypes[slot]]
        k.body.add(f"store {kind} {stored}, ptr {place}, align {align}")


def _store_apart(k: KernelBuilder, slot: int, stored: str, place: str, step: str) -> None:
    body, kind = k.body, MEMORY[k.dtypes[slot]]
    for lane in range(k.width):
        found = body.value(f"extractelement {k.vector.type(kind)} {stored}, i64 {lane}")
        body.add(f"store {kind} {found}, ptr {place}, align {ITEM_SIZE[k.dtypes[slot]]}")
        place = body.value(f"getelementptr {kind}, ptr {place}, i64 {step}")


def _store_past(k: KernelBuilder, slot: int, stored: str, place: str) -> None:
    body, boundary = k.body, k.target.vector_bytes
    wide, align = k.vector.type(MEMORY[k.dtypes[slot]]), ITEM_SIZE[k.dtypes[slot]]
    past, near, joined = body.name("past"), body.name("near"), body.name("stored")
    offset = body.value(f"and i64 {body.value(f'ptrtoint ptr {place} to i64')}, {boundary - 1}")
    body.add(f"br i1 {body.value(f'icmp eq i64 {offset}, 0')}, label %{past}, label %{near}")
    body.label(past)
    body.add(f"store {wide} {stored}, ptr {place}, align {boundary}, !nontemporal !2")
    body.add(f"br label %{joined}")
    body.label(near)
    body.add(f"store {wide} {stored}, ptr {place}, align {align}")
    body.add(f"br label %{joined}")
    body.label(joined)


def load_some(k: KernelBuilder, slot: int, place: str, step: str | None, count: str, mask: str) -> str:
    """Load the first `count` elements, at least one, into a vector; the other lanes hold zeros."""
    wide, align = k.vector.type(MEMORY[k.dtypes[slot]]), ITEM_SIZE[k.dtypes[slot]]
    if k.target.masks and step is None:
        lanes = k.vector.type("i1")
        args = (("ptr", place), ("i32", str(align)), (lanes, mask), (wide, "zeroinitializer"))
        return k.body.value(_masked(k, "load", slot, wide, args))
    k.body.add(f"store {wide} zeroinitializer, ptr %buffer{slot}, align {k.target.vector_bytes}")
    _copy(k, slot, (place, step), (f"%buffer{slot}", None), count)
    return k.body.value(f"load {wide}, ptr %buffer{slot}, align {k.target.vector_bytes}")


def store_some(k: KernelBuilder, slot: int, stored: str, place: str, step: str | None, count: str, mask: str) -> None:
    """Store the first `count` lanes, at least one."""
    wide, align = k.vector.type(MEMORY[k.dtypes[slot]]), ITEM_SIZE[k.dtypes[slot]]
    if k.target.masks and step is None:
        args = ((wide, stored), ("ptr", place), ("i32", str(align)), (k.vector.type("i1"), mask))
        k.body.add(_masked(k, "store", slot, "void", args))
        return
    k.body.add(f"store {wide} {stored}, ptr %buffer{slot}, align {k.target.vector_bytes}")
    _copy(k, slot, (f"%buffer{slot}", None), (place, step), count)


def _masked(k: KernelBuilder, word: str, slot: int, result: str, args: Sequence[tuple[str, str]]) -> str:
    """Return a call of LLVM's masked load or store."""
    kind = MEMORY[k.dtypes[slot]]
    symbol = f"llvm.masked.{word}.v{k.width}{ {'float': 'f32', 'double': 'f64'}.get(kind, kind) }.p0"
    k.body.declarations.add(f"declare {result} @{symbol}({', '.join(type for type, _ in args)})")
    return f"call {result} @{symbol}({', '.join(f'{type} {value}' for type, value in args)})"


def _copy(
    k: KernelBuilder, slot: int, source: tuple[str, str | None], target: tuple[str, str | None], count: str
) -> None:
    kind, align = MEMORY[k.dtypes[slot]], ITEM_SIZE[k.dtypes[slot]]
    with k.body.loop(count) as loop:
        found = k.body.value(f"load {kind}, ptr {k.at(slot, source[0], loop.index, source[1])}, align {align}")
        place = k.at(slot, target[0], loop.index, target[1])
        k.body.add(f"store {kind} {found}, ptr {place}, align {align}")


# Emits the instructions of a kernel, as scalars or in every lane of a vector, and the loops around them.


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
