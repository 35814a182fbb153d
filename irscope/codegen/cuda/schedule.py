"""Chooses how the work of a kernel is distributed over the threads of a GPU, from the extents of a launch.

A pointwise kernel assigns each thread some vectors of 16 bytes. A kernel with reductions assigns each row, or each tile of
columns side by side, to a **team** of threads: a few lanes of a warp, a warp, or a block. A row that fits the team's
registers is **held**: read once, however many passes the kernel makes. Longer rows are read again in each pass. The
number of registers needed is that of the values that are live from one pass to the next (`held_values`).

Where there are too few rows to fill the GPU, `parts_of` returns into how many parts the reduced loops should be cut.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import Final, Literal

from irscope.codegen.kernel import (
    BROADCAST,
    GATHERING,
    ITEM_SIZE,
    STRIDED,
    UNIT,
    KernelSpec,
    Launch,
    Operand,
    Pass,
    ReductionNest,
    accumulators,
    reduction_nest,
)

BLOCK: Final = 256
"""Threads of a block of a pointwise kernel."""
MULTIPROCESSORS: Final = 132
"""Multiprocessors of the GPU assumed when none is available: an H100."""
HELD_BYTES: Final = 128
"""Bytes of a row that a thread may keep in registers: 32 of them, half of what it may have in a block of 1024."""
_VECTOR_BYTES: Final = 16
_WARP: Final = 32
_REGISTERS: Final = 65536
"""Registers of a multiprocessor."""
_MOST_SHARED: Final = 40 << 10
"""Bytes of shared memory of a block; 48 KiB need no permission."""
_STREAMING: Final = 32 << 20
"""Bytes moved above which stores bypass the level-two cache, which holds 40 to 60 MB."""
_STEPS: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Vectors per thread that kernels are compiled for."""
_NARROW: Final = 1 << 30
"""Points of a launch up to which steps are counted in 32 bits, whose division is several times cheaper."""
_PART: Final = 4096
"""The least elements of a part of a cut row."""
_ROWS_OF_A_PART: Final = 16
"""The least rows of a part of cut columns that each thread reads."""
_NARROWEST: Final = 8
"""The fewest vectors side by side in a tile: 128 bytes."""
_BUSY: Final = 256
"""Threads of a multiprocessor below which more of them share a row, or what a vector has."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The parameters besides the spec that the text of a kernel depends on.

    >>> Schedule("rows", width=4, repeat=8, team=32, held=True).code
    'r4x8t32h'
    """

    kind: Literal["points", "rows", "columns"]
    width: int = 1
    """Elements of a vector access; 1 when there is no entry for vectors."""
    repeat: int = 1
    """Vectors that a thread loads before it computes."""
    team: int = 1
    """Threads that share a row or a tile of columns; a power of two."""
    side: int = 1
    """For columns: vectors side by side in a tile; a power of two."""
    held: bool = False
    """Whether `repeat` vectors of each thread of the team hold the whole row."""
    whole: bool = False
    """Whether a held row has exactly that many elements, so that no thread needs a bounds check."""
    partial: bool = False
    """Whether the reduced loops are cut, and the second coordinate of a block is the number of the part."""
    streaming: bool = False
    """Whether loads and stores avoid occupying the caches."""
    wide: bool = False
    """Whether steps of loops are counted in 64 bits; offsets in memory always are."""

    @property
    def block(self) -> int:
        """Threads of a block."""
        if self.kind == "points":
            return BLOCK
        if self.kind == "columns":
            return max(128, self.side * self.team)
        return self.team if self.team > _WARP else 128  # warps that share a row are a block: they meet in its shared memory

    @property
    def cells(self) -> int:
        """Rows, or tiles of columns, in a block."""
        return self.block // (self.team * self.side)

    @property
    def least_blocks(self) -> int:
        """Blocks that a multiprocessor should have room for, which limits registers: to 128 a thread in a small block.

        Held rows with bounds checks need more registers, and the limit would make them spill.
        """
        return 1 if self.held and not self.whole else max(1, _REGISTERS // 128 // self.block)

    @property
    def code(self) -> str:
        """A short name, part of the kernel's."""
        side = f"s{self.side}" if self.kind == "columns" else ""
        team = f"t{self.team}" if self.kind != "points" else ""
        marks = zip("hwpcl", (self.held, self.whole, self.partial, self.streaming, self.wide), strict=True)
        return f"{self.kind[0]}{self.width}x{self.repeat}{team}{side}{''.join(mark for mark, on in marks if on)}"


def vector_lanes(spec: KernelSpec) -> int:
    """Return how many elements of the widest tensor fit in 16 bytes; 0 when no vectors can be read or written.

    >>> from irscope.codegen.kernel.spec import Instruction, Operand, Result
    >>> code = (Instruction("input", (), "float16", 0), Instruction("cast", (0,), "float32"))
    >>> vector_lanes(KernelSpec((Operand("float16", "tensor", (1,)),), code, (Result("float32", (1,), 1),), rank=1))
    4
    """
    tensors = [tensor for tensor in spec.tensors if tensor.has_memory]
    if any(tensor.pattern[-1] == STRIDED for tensor in tensors):
        return 0
    if any(result.pattern[-1] != UNIT and not spec.is_reduced(result) for result in spec.outputs):
        return 0
    if spec.by_columns and any(result.pattern[-1] != UNIT for result in spec.outputs):
        return 0
    if spec.by_columns:  # results are few
        tensors = [tensor for tensor in tensors if isinstance(tensor, Operand) or not spec.is_reduced(tensor)] or tensors
    sizes = [ITEM_SIZE[tensor.dtype] for tensor in tensors if tensor.pattern[-1] == UNIT]
    return _VECTOR_BYTES // max(sizes) if sizes else 0


def stride_arguments(spec: KernelSpec) -> Iterator[tuple[int, int]]:
    """Yield the strides that are arguments, as (tensor, loop); tensors are numbered with the results first."""
    for slot, tensor in enumerate(spec.tensors):
        for loop, kind in enumerate(tensor.pattern):
            if kind == STRIDED:
                yield slot, loop


def alignments(launch: Launch) -> tuple[int, ...] | None:
    """Return the alignment in bytes that the vector entry needs of each result's and operand's first element (1: any).

    None when sizes or strides rule the entry out: vectors must not cross the end of a row.
    """
    spec = launch.spec
    width = vector_lanes(spec)
    if width < 2 or ((spec.rank > 1 or spec.reduced) and launch.sizes[-1] % width):
        return None
    needed = []
    for tensor, strides in zip(spec.tensors, launch.strides, strict=True):
        if not tensor.has_memory or tensor.pattern[-1] == BROADCAST:
            needed.append(1)
            continue
        if any(stride % width for stride in strides[:-1]):
            return None
        needed.append(width * ITEM_SIZE[tensor.dtype])
    return tuple(needed)


# -- what lives from pass to pass -------------------------------------------------------------------------------------


def new_in_pass(nest: ReductionNest, each: Pass, known: set[int]) -> tuple[list[int], list[int]]:
    """Return the instructions that a pass computes at every point, given those already `known`, and the known ones it reads."""
    spec = nest.spec
    found: set[int] = set()
    read: set[int] = set()
    todo = [arg for i in each.reductions for arg in spec.instructions[i].args]
    todo += [spec.outputs[slot].instruction for slot in each.writes]
    while todo:
        here = todo.pop()
        if not nest.varies[here] or here in found:
            continue
        if here in known:
            read.add(here)
            continue
        found.add(here)
        todo += spec.instructions[here].args
    return sorted(found), sorted(read)


@lru_cache(maxsize=512)
def held_values(spec: KernelSpec) -> tuple[int, int]:
    """Return the most bytes of registers that are live per point between two passes of a kernel that computes nothing twice, and
    the number of passes."""
    nest = reduction_nest(spec)
    known: set[int] = set()
    reads = []
    for each in nest.passes:
        fresh, read = new_in_pass(nest, each, known)
        reads.append((set(read), set(known)))
        known |= set(fresh)
    widest = 0
    for number in range(1, len(reads)):
        before = reads[number][1]
        alive = {i for read, _ in reads[number:] for i in read if i in before}
        widest = max(widest, sum(max(4, ITEM_SIZE[spec.instructions[i].dtype]) for i in alive))
    return widest, len(nest.passes)


# -- choosing ---------------------------------------------------------------------------------------------------------


def schedule_of(launch: Launch, *, partial: bool = False, multiprocessors: int = MULTIPROCESSORS) -> Schedule:
    """Return a schedule for these extents; a partial one for a launch whose reduced loops are cut."""
    spec = launch.spec
    width = vector_lanes(spec) if alignments(launch) is not None else 1
    streaming, wide = launch.bytes_moved > _STREAMING, launch.elements > _NARROW
    if not spec.reduced:
        enough = launch.elements >= multiprocessors * 2048 * width * 2
        repeat = 2 if _inputs(spec) <= 2 and enough else 1
        while width > 1 and launch.elements < multiprocessors * _BUSY * width:  # a short time is that of one thread
            width //= 2
        return Schedule("points", width, repeat, streaming=streaming, wide=wide)
    points = prod(launch.sizes[loop] for loop in spec.reduced)
    if spec.by_columns:
        found = _columns(spec, launch.sizes[-1], points, width, partial)
    else:
        found = _rows(spec, points, width, partial, streaming, launch.kept_elements, multiprocessors)
    return replace(found, wide=wide)


def _inputs(spec: KernelSpec) -> int:
    """Return how many operands are read at every point."""
    return sum(operand.kind == "tensor" and operand.depth == spec.rank for operand in spec.inputs)


def likely_schedule(spec: KernelSpec) -> Schedule:
    """Return a schedule to show when no extents are known: for rows of 1024 elements, or of the row limit, and whole vectors."""
    width = max(1, vector_lanes(spec))
    if not spec.reduced:
        return Schedule("points", width)
    length = spec.row_limit or 1024
    return _columns(spec, 1024, 1024, width, False) if spec.by_columns else _rows(spec, length, width, False, False)


def _rows(
    spec: KernelSpec, points: int, width: int, partial: bool, streaming: bool, rows: int = _WARP * MULTIPROCESSORS,
    multiprocessors: int = MULTIPROCESSORS,
) -> Schedule:  # fmt: skip
    bytes_held, _ = held_values(spec)
    most = HELD_BYTES // max(bytes_held, 4)
    if partial or points > 1024 * min(most, 16):
        team = 256 if partial else 512  # parts are as many as multiprocessors have room for
        repeat = 4 if width <= 4 else 2
        return Schedule("rows", width, max(repeat, _ahead(spec)) if streaming else repeat, team, partial=partial, streaming=streaming)
    team = 1
    while team < _WARP and points > team * max(width, 4):
        team *= 2
    while points > team * (most if team == _WARP else min(most, 16)):
        team *= 2
    while team * width < points and team < BLOCK and rows * team < multiprocessors * _BUSY:  # a short time is that of one thread
        team *= 2
    repeat = next(step for step in _STEPS if step * team * width >= points)
    whole = repeat * team * width == points
    return Schedule("rows", width, repeat, team, held=True, whole=whole, streaming=streaming)


def _columns(spec: KernelSpec, columns: int, points: int, width: int, partial: bool) -> Schedule:
    vectors = -(-columns // width)
    # few rows are read by many narrow tiles, without cutting them; many by wide ones, whose accesses lie side by side
    side = min(_power(vectors), _NARROWEST if points < 2 * _ROWS_OF_A_PART * BLOCK // _NARROWEST else _WARP)
    team = min(BLOCK // side, _power(-(-points // 4)))
    side = min(_power(vectors), BLOCK // team)
    reductions = [index for index, code in enumerate(spec.instructions) if code.op in GATHERING]
    item = sum(max(4, ITEM_SIZE[dtype]) for index in reductions for dtype, _ in accumulators(spec, index))
    while team > 1 and max(128, side * team) * width * item > _MOST_SHARED:
        team //= 2
    return Schedule("columns", width, max(4 if width <= 4 else 2, _ahead(spec)), team, side, partial=partial)


def _ahead(spec: KernelSpec) -> int:
    """Return how many vectors of each operand a thread reads ahead: 128 bytes together, which keep an H200's memory busy."""
    return next(step for step in reversed(_STEPS) if step <= max(1, 8 // max(1, _inputs(spec))))


def _power(number: int) -> int:
    """Return the next power of two."""
    return 1 << max(0, number - 1).bit_length()


def parts_of(launch: Launch, *, multiprocessors: int = MULTIPROCESSORS) -> int:
    """Return into how many parts to cut the reduced loops so that the GPU has enough work; 1 leaves them whole."""
    spec = launch.spec
    if not spec.reduced or not launch.elements:
        return 1
    points = prod(launch.sizes[loop] for loop in spec.reduced)
    schedule = schedule_of(launch)
    blocks = grid_of(launch, schedule, vector=schedule.width > 1)[0]
    if blocks >= multiprocessors or schedule.held:
        return 1
    rows = schedule.kind == "rows"
    least, each = (_PART, 4) if rows else (_ROWS_OF_A_PART * schedule.team, 2)
    return int(max(1, min(-(-each * multiprocessors // blocks), points // least, 1024)))


def grid_of(launch: Launch, schedule: Schedule, *, vector: bool, parts: int = 1) -> tuple[int, int]:
    """Return how many blocks an entry needs: for the kept loops, and for the parts."""
    width = schedule.width if vector else 1
    inner = launch.sizes[-1]
    if schedule.kind == "points":
        points = launch.elements // inner * (inner // width) if inner else 0
        return max(1, -(-points // (BLOCK * schedule.repeat))), 1
    if schedule.kind == "columns":
        outer = launch.kept_elements // inner if inner else 0
        return -(-outer * -(-inner // (schedule.side * width)) // schedule.cells), parts
    return -(-launch.kept_elements // schedule.cells), parts
