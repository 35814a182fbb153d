"""A kernel spec: what one kernel computes, without anything that can be passed at run time.

A `KernelSpec` is a list of instructions over the elements at one point of an iteration space. Extents, strides,
pointers and scalars are arguments of the compiled kernel. Of a stride the spec holds only its class: whether the operand
stays in place along this loop, steps by one, or steps by a run-time stride. Two fusion groups with equal specs share one
compiled kernel.

Some loops may be **reduced**: `reduce_…` instructions reduce their argument over all steps of these loops, and `count`
is how many steps they have together. The other loops are kept: each step of the kept loops has one result of
each reduction. The reduced loops are adjacent. Either they are the innermost ones (the kernel works row by row), or
exactly one kept loop is inside them (it works on columns side by side). A result that does not move along the reduced
loops is written once per step of the kept ones, every other result at every point. `reduction_nest` says how often
a kernel must pass over the reduced loops and what it does in each pass.

A `Launch` is a spec with the extents and strides of one call; a `LaunchPlan` holds the launches that a whole fusion
group needs, one for each distinct iteration space among its outputs.
"""

import hashlib
import math
import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Final, Literal

from irscope._base.words import plural
from irscope.errors import CodegenError
from irscope.ir import ITEM_SIZE as ITEM_SIZE
from irscope.ir import TensorType

BROADCAST: Final = 0
"""Stride class: the operand does not move along the loop."""
UNIT: Final = 1
"""Stride class: the operand steps by one element; distinguished from `STRIDED` only along the innermost loop, and along the
last but one for an operand that is read in tiles (`with_tiled_reads`)."""
TILE_ROWS: Final = 64
"""How many rows the tiles of such an operand have."""
STRIDED: Final = 2
"""Stride class: the operand steps by a stride given at run time."""


def is_float(dtype: str) -> bool:
    """Whether the type is a floating-point type."""
    return dtype in ("float32", "float64", "float16", "bfloat16")


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand of a kernel: a tensor's elements, a run-time number, or the position in the iteration space.

    An `index` has strides like a tensor, but no memory: its int64 element is its offset plus the strides times the
    steps of the loops. Argmax uses it to name an element.
    """

    dtype: str
    kind: Literal["tensor", "scalar", "index"]
    pattern: tuple[int, ...] = ()
    """The stride class along each loop, outermost first; empty for a scalar."""

    @property
    def depth(self) -> int:
        """How many loops must have started before it can be read: one past the innermost loop along which it moves."""
        return max((loop + 1 for loop, kind in enumerate(self.pattern) if kind != BROADCAST), default=0)

    @property
    def has_memory(self) -> bool:
        """Whether its elements are read from memory."""
        return self.kind == "tensor"


@dataclass(frozen=True, slots=True)
class Instruction:
    """One operation on elements; its position in the list names its result."""

    op: str
    """`input`, `const`, or an op of `irscope.ops.expr.expression`."""
    args: tuple[int, ...]
    """Positions of earlier instructions. `reduce_argmax` and `reduce_argmin` have two: what is compared, and the index
    that is the result; ties go to the smaller index, and NaN wins over all numbers."""
    dtype: str
    value: int | None = None
    """`input`: the operand's position. `const`: the number's bits (see `constant_bits`)."""
    node: int = field(default=-1, compare=False, repr=False)
    """The position in the group's block of the node that it came from; not part of the compiled kernel."""

    @property
    def operand(self) -> int:
        """The position of the operand that an `input` reads."""
        assert self.op == "input"
        assert self.value is not None
        return self.value

    @property
    def number(self) -> float | bool:
        assert self.op == "const"
        assert self.value is not None
        return constant_value(self.value, self.dtype)


@dataclass(frozen=True, slots=True)
class Result:
    """One tensor that a kernel writes."""

    dtype: str
    pattern: tuple[int, ...]
    instruction: int
    has_memory: ClassVar = True


@dataclass(frozen=True)
class KernelSpec:
    """A kernel without sizes, hashable: the key of every kernel cache.

    >>> x = Operand("float32", "tensor", (UNIT,))
    >>> code = (Instruction("input", (), "float32", 0), Instruction("exp", (0,), "float32"))
    >>> spec = KernelSpec((x,), code, (Result("float32", (UNIT,), 1),), rank=1)
    >>> spec == KernelSpec((x,), code, (Result("float32", (UNIT,), 1),), rank=1), spec.name[:6]
    (True, 'kernel')
    """

    inputs: tuple[Operand, ...]
    instructions: tuple[Instruction, ...]
    outputs: tuple[Result, ...]
    rank: int
    """The number of loops, at least one; the last is the innermost."""
    nontemporal: bool = False
    """Whether stores bypass the caches: pays off for outputs larger than the last-level cache."""
    row_limit: int = 0
    """The innermost loop is no longer than this, so that wider vectors would be half empty, or so that a row fits a
    buffer on the stack; 0 when it may have any length. See `row_limit`."""
    reduced: tuple[int, ...] = ()
    """The loops that reductions run over, adjacent ones; none in a pointwise kernel."""
    exact: bool = False
    """Whether each instruction rounds by itself, as torch's ops do: a product and a sum are never contracted into one fma."""
    in_place: bool = False
    """Whether results may overwrite operands, so that no point may be computed twice (`irscope.codegen.kernel.spec`)."""

    def __post_init__(self) -> None:
        """Raises CodegenError for a result that no kernel can store: one that stays in place along loops other than exactly the
        reduced ones."""
        for place, result in enumerate(self.outputs):
            still = {loop for loop, kind in enumerate(result.pattern) if kind == BROADCAST}
            if still and still != set(self.reduced):
                raise CodegenError(
                    f"result {place} does not move along {plural(len(still), 'loop')}, each step of which would overwrite it",
                    where=str(self),
                    rule="codegen-result",
                )

    @classmethod
    def over(
        cls, sizes: Sequence[int], inputs: tuple[Operand, ...], instructions: tuple[Instruction, ...], outputs: tuple[Result, ...],
        *, reduced: tuple[int, ...], exact: bool,
    ) -> "KernelSpec":  # fmt: skip
        """Return the spec of a kernel for loops of these extents."""
        limit = row_limit(sizes, rows=len(sizes) - 1 in reduced)
        return cls(inputs, instructions, outputs, len(sizes), row_limit=limit, reduced=reduced, exact=exact)

    @property
    def by_columns(self) -> bool:
        """Whether a kept loop is inside the reduced ones."""
        return bool(self.reduced) and self.rank - 1 not in self.reduced

    @property
    def is_turned(self) -> bool:
        """Whether operands whose elements are adjacent along the last loop but one are read in tiles."""
        return any(operand.pattern[-2:-1] == (UNIT,) for operand in self.inputs)

    def is_reduced(self, result: Result) -> bool:
        """Whether a result is written once per step of the kept loops, not at every point."""
        return bool(self.reduced) and all(result.pattern[loop] == BROADCAST for loop in self.reduced)

    @property
    def tensors(self) -> tuple[Operand | Result, ...]:
        """The results, then the operands (including scalars): the order of a kernel's arguments."""
        return (*self.outputs, *self.inputs)

    @cached_property
    def fingerprint(self) -> str:
        """A digest that is equal exactly for equal specs, and the same in every process."""
        return hashlib.sha256(repr(self._key).encode()).hexdigest()

    @property
    def name(self) -> str:
        """The kernel's symbol: `kernel_` and the start of the fingerprint."""
        return f"kernel_{self.fingerprint[:16]}"

    def __hash__(self) -> int:
        return hash(self._key)

    def __str__(self) -> str:
        """Prints what the kernel reads, computes and writes, one instruction per line.

        >>> x = Operand("float32", "tensor", (UNIT,))
        >>> code = (Instruction("input", (), "float32", 0), Instruction("exp", (0,), "float32"))
        >>> print(KernelSpec((x,), code, (Result("float32", (UNIT,), 1),), rank=1))
        1 loop
        t0 : float32 = x0[unit]
        t1 : float32 = exp(t0)
        y0[unit] : float32 = t1
        """
        rows = f", rows of at most {self.row_limit}" if self.row_limit else ""
        gathered = f", reduced over {', '.join(map(str, self.reduced))}" if self.reduced else ""
        exact = ", each instruction rounded" if self.exact else ""
        in_place = ", results in place of operands" if self.in_place else ""
        lines = [f"{plural(self.rank, 'loop')}{gathered}{rows}{exact}{in_place}"]
        for number, step in enumerate(self.instructions):
            lines.append(f"t{number} : {step.dtype} = {self._formatted(step)}")
        lines += [f"y{i}{_pattern_text(r.pattern)} : {r.dtype} = t{r.instruction}" for i, r in enumerate(self.outputs)]
        return "\n".join(lines)

    def _formatted(self, step: Instruction) -> str:
        if step.op == "input":
            operand = self.inputs[step.operand]
            name = "index" if operand.kind == "index" else f"x{step.value}"
            return name + _pattern_text(operand.pattern)
        if step.op == "const":
            return str(step.number)
        return f"{step.op}({', '.join(f't{arg}' for arg in step.args)})"

    @property
    def _key(self) -> tuple[object, ...]:
        key = (self.inputs, self.instructions, self.outputs, self.rank, self.nontemporal, self.row_limit, self.reduced)
        return (*key, *("exact",) * self.exact, *("in place",) * self.in_place)


@dataclass(frozen=True, slots=True)
class Launch:
    """One call of one kernel: the extents and strides of its loops, and which tensors of the group it touches."""

    spec: KernelSpec
    sizes: tuple[int, ...]
    """The extent of each loop."""
    reads: tuple[int, ...]
    """For each operand of the spec, the position of the group's input; -1 for an index."""
    writes: tuple[int, ...]
    """For each result of the spec, the position of the group's output."""
    strides: tuple[tuple[int, ...], ...]
    """Elements per step of each loop: for the results, then for the operands (a scalar has none)."""
    offsets: tuple[int, ...] = ()
    """For the results, then for the operands: the offset of the first point, in elements from the start of the tensor
    (0 for a scalar, the first number of an index). Empty when all are 0."""

    @property
    def elements(self) -> int:
        """How many points the iteration space has."""
        return math.prod(self.sizes)

    @property
    def kept_elements(self) -> int:
        """How many points the kept loops have; with none there is nothing to do, even if the reduced loops are empty."""
        return math.prod(size for loop, size in enumerate(self.sizes) if loop not in self.spec.reduced)

    @property
    def bytes_moved(self) -> int:
        """The bytes of all tensors that it reads or writes, each element counted once."""
        total = 0
        for tensor, strides in zip(self.spec.tensors, self.strides, strict=True):
            if tensor.pattern and not (isinstance(tensor, Operand) and tensor.kind == "index"):
                extents = [size for size, stride in zip(self.sizes, strides, strict=True) if stride]
                total += ITEM_SIZE[tensor.dtype] * math.prod(extents)
        return total


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """Everything needed to run one fusion group on inputs of one shape."""

    launches: tuple[Launch, ...]
    outputs: tuple[TensorType, ...]
    """Type, shape and strides of each output of the group; the caller allocates them."""
    inputs: int
    """How many inputs the group has."""
    in_place: tuple[tuple[int, int], ...] = ()
    """Outputs that overwrite an input, each with the position of that input."""

    @property
    def specs(self) -> tuple[KernelSpec, ...]:
        return tuple(launch.spec for launch in self.launches)


def trimmed(steps: Sequence[Instruction], results: Iterable[int]) -> tuple[tuple[Instruction, ...], dict[int, int]]:
    """Return only the instructions that these need, renumbered, and the new number of each."""
    number = {old: new for new, old in enumerate(sorted(needed_by(steps, results)))}
    kept = (steps[old] for old in number)
    return tuple([Instruction(i.op, tuple([number[arg] for arg in i.args]), i.dtype, i.value, i.node) for i in kept]), number


def needed_by(steps: Sequence[Instruction], results: Iterable[int], ends: Collection[int] = ()) -> set[int]:
    """Return the instructions that these need, without those that only the `ends` need."""
    found = set(results)
    for index in range(max(found, default=-1), -1, -1):
        if index in found and index not in ends:
            found.update(steps[index].args)
    return found


def row_limit(sizes: Sequence[int], *, rows: bool = False) -> int:
    """Return the `row_limit` of a kernel launched with these extents; `rows` means that the innermost loop is reduced.

    >>> row_limit((100, 12)), row_limit((12,)), row_limit((100, 33)), row_limit((100, 33), rows=True)
    (16, 0, 0, 64)
    """
    if len(sizes) < 2 and not rows:
        return 0
    limits = (8, 16, 32, 64, 256, 4096, 16384) if rows else (8, 16, 32)
    return next((limit for limit in limits if sizes[-1] <= limit), 0)


def stride_classes(strides: Sequence[int]) -> tuple[int, ...]:
    """Return the classes of an operand's strides, outermost first; only the innermost can be `UNIT`.

    >>> stride_classes((0, 1)), stride_classes((1, 0)), stride_classes((1, 1))
    ((0, 1), (2, 0), (2, 1))
    """
    outer = tuple(BROADCAST if stride == 0 else STRIDED for stride in strides[:-1])
    inner = tuple(stride if stride in (BROADCAST, UNIT) else STRIDED for stride in strides[-1:])
    return outer + inner


def constant_bits(value: float | bool, dtype: str) -> int:
    """Return a constant rounded to a type, as an integer that distinguishes -0 from 0 and is equal to itself for NaN.

    Floating-point constants are the bits of a float64 that holds the rounded value exactly.

    >>> hex(constant_bits(1.0, "float32")), constant_bits(-3, "int8")
    ('0x3ff0000000000000', -3)
    """
    if dtype == "bool":
        return int(bool(value))
    if not is_float(dtype):
        return int(value)
    return int(struct.unpack("<Q", struct.pack("<d", _rounded(float(value), dtype)))[0])


def constant_value(bits: int, dtype: str) -> float | bool:
    """Return the number that `constant_bits` encoded.

    >>> constant_value(constant_bits(0.5, "bfloat16"), "bfloat16")
    0.5
    """
    if is_float(dtype):
        return float(struct.unpack("<d", struct.pack("<Q", bits))[0])
    return bool(bits) if dtype == "bool" else bits


def _pattern_text(pattern: tuple[int, ...]) -> str:
    """Format how a tensor steps along each loop; empty for a number."""
    return f"[{', '.join(('still', 'unit', 'stride')[kind] for kind in pattern)}]" if pattern else ""


def _rounded(value: float, dtype: str) -> float:
    """Return the nearest value of a type, ties to even; values that are too large become infinite."""
    if dtype == "float64" or not math.isfinite(value):
        return value
    try:
        if dtype == "float16":
            return float(struct.unpack("<e", struct.pack("<e", value))[0])
        single = struct.pack("<f", value)
    except OverflowError:
        return math.copysign(math.inf, value)
    if dtype == "bfloat16":
        bits = int.from_bytes(single, "little")
        single = ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).to_bytes(4, "little")
    return float(struct.unpack("<f", single)[0])


# Kernels that write a result over an operand that is not read afterwards.
#
# **What must hold.** Suppose that the result and the operand start at the same address. The kernel is right if no element of the
# operand is read after another value was written there. For a plan of one or more launches, which run one after the other:
#
# 1. *No launch after the one that writes the result reads the operand.* Earlier launches have finished when the writing begins.
# 2. *In the launch that writes the result, every read of the operand has the access pattern of the result*: same strides, same
#    offset, same element size. Then point p reads exactly the bytes that point p writes. No two points write the same place
#    (a result is stored once), so only p itself writes what p reads. A stencil, a broadcast or a transposed operand has
#    other strides than the result, and is refused.
# 3. *At a point, all reads come before all writes, and no point is computed twice.* The text of a pointwise kernel loads a vector of
#    every operand before it stores one of any result. LLVM keeps that order: the pointers are loaded from memory, so it must assume
#    that they alias. Threads partition the points. But where the row length is not a multiple of the vector width, the last vector
#    would overlap the one before, and read what that one wrote; `KernelSpec.in_place` asks for a text that ends rows another way. A
#    kernel that reads in tiles has overlapping tiles too, and a reduction passes over its rows more than once: both are refused.
#
# Lanes behind the end of a row may read what another thread writes; nothing is computed from them.


def may_overwrite(plan: LaunchPlan, output: int, operand: int) -> bool:
    """Whether an output of a group may overwrite one of its inputs, provided that nothing outside the group reads that input
    afterwards."""
    writers = [index for index, launch in enumerate(plan.launches) if output in launch.writes]
    if len(writers) != 1:
        return False
    (writer,) = writers
    launch = plan.launches[writer]
    if launch.spec.reduced or launch.spec.is_turned or any(operand in later.reads for later in plan.launches[writer + 1 :]):
        return False
    results = len(launch.writes)
    own = _walk(launch, launch.writes.index(output))
    readers = [results + place for place, read in enumerate(launch.reads) if read == operand]
    return all(_walk(launch, slot) == own for slot in readers)


def _walk(launch: Launch, slot: int) -> tuple[object, ...]:
    """Return what determines the bytes of a tensor that each point accesses, relative to its start: strides, offset, element size."""
    offset = launch.offsets[slot] if launch.offsets else 0
    return launch.strides[slot], offset, ITEM_SIZE[launch.spec.tensors[slot].dtype]


def overwriting(plan: LaunchPlan, taken: Mapping[int, int]) -> LaunchPlan:
    """Return the plan with these outputs (keys) written over these inputs, for each pair that allows it."""
    pairs = tuple((output, operand) for output, operand in taken.items() if may_overwrite(plan, output, operand))
    writes = {output for output, _ in pairs}
    launches = [
        replace(launch, spec=replace(launch.spec, in_place=True)) if writes.intersection(launch.writes) else launch
        for launch in plan.launches
    ]
    return replace(plan, launches=tuple(launches), in_place=pairs)
