"""Launches of kernels: one form for those that differ only in order, tiled reads, and long reductions in several launches."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from math import prod
from typing import Final, TypeVar

from irscope.codegen.kernel.loops import EXPONENTIALS, GATHERING, joined_parts, reduction_nest
from irscope.codegen.kernel.spec import STRIDED, UNIT, Instruction, KernelSpec, Launch, Operand, Result, needed_by, stride_classes
from irscope.ops.expr import COMMUTATIVE, POSITIONS
from irscope.ops.type_rules import contiguous_strides

# The canonical form of a launch: one spec for kernels that differ only in the order of instructions, operands and commutative arguments.
#
# A kernel's text is generated from its spec, and the kernel caches, in memory and on disk, are keyed by it. Every launch gets the
# canonical form of its spec, so that a program that lists the same computation in another order hits the cache, even in a later
# process or for another model. In the canonical form, instructions are in the order in which the results need them, a commutative
# instruction has its deeper argument first and constants last, and operands are in the order of their first read. The launch records
# for each operand which input of the group it is, so nothing else changes.
#
# *Why it computes the same.* Instructions and results are the old ones, renumbered, and swapping the arguments of a commutative
# instruction changes no bit (`irscope.ops.expr`). Operands that look alike are distinguished by their users, in a few rounds. Those
# that remain indistinguishable keep their order, which may miss a cache entry and never finds a wrong one.

_ROUNDS: Final = 4
T = TypeVar("T")


def canonical_launch(launch: Launch) -> Launch:
    """Return the launch with the canonical form of its spec."""
    spec = launch.spec
    order, args = _order(spec)
    steps = spec.instructions
    operands = list(dict.fromkeys(steps[at].operand for at in order if steps[at].op == "input"))
    operands += [place for place in range(len(spec.inputs)) if place not in operands]  # unused operands
    if order == list(range(len(steps))) and operands == sorted(operands) and all(args[at] == steps[at].args for at in order):
        return launch
    number = {at: place for place, at in enumerate(order)}
    place_of = {operand: place for place, operand in enumerate(operands)}
    made = tuple(
        replace(
            steps[at], args=tuple([number[arg] for arg in args[at]]),
            value=place_of[steps[at].operand] if steps[at].op == "input" else steps[at].value,
        )
        for at in order
    )  # fmt: skip
    results = tuple(replace(result, instruction=number[result.instruction]) for result in spec.outputs)
    count = len(spec.outputs)

    def moved(each: tuple[T, ...]) -> tuple[T, ...]:
        """Reorder the operands of a tuple that lists the results, then the operands."""
        return (*each[:count], *(each[count + operand] for operand in operands)) if each else each

    return replace(
        launch,
        spec=replace(spec, inputs=tuple([spec.inputs[at] for at in operands]), instructions=made, outputs=results),
        reads=tuple([launch.reads[at] for at in operands]),
        strides=moved(launch.strides),
        offsets=moved(launch.offsets),
    )


def _order(spec: KernelSpec) -> tuple[list[int], list[tuple[int, ...]]]:
    """Return the instructions in the order in which the results need them, and the arguments of each."""
    steps = spec.instructions
    coarse, fine = _colors(spec, whole=False), _colors(spec, whole=True)
    digests = (coarse, _above(spec, coarse), fine, _above(spec, fine))  # constants and layouts only break ties
    sizes: list[int] = []  # of the longest chain of instructions that ends at each
    for step in steps:
        sizes.append(1 + max((sizes[arg] for arg in step.args), default=0))
    rank = [(step.op == "const", -size, *own) for step, size, *own in zip(steps, sizes, *digests, strict=True)]
    args = [tuple(sorted(step.args, key=rank.__getitem__)) if step.op in COMMUTATIVE else step.args for step in steps]
    order: list[int] = []
    done = [False] * len(steps)
    stack = [result.instruction for result in reversed(spec.outputs)]
    while stack:
        at = stack[-1]
        waiting = [arg for arg in args[at] if not done[arg]]
        if done[at] or not waiting:
            stack.pop()
            if not done[at]:
                done[at] = True
                order.append(at)
        else:
            stack.append(waiting[0])
    number = {at: place for place, at in enumerate(order)}  # of equal arguments, the first one needed comes first
    return order, [
        tuple(sorted(own, key=lambda arg: (rank[arg], number[arg]))) if step.op in COMMUTATIVE and done[at] else own
        for at, (step, own) in enumerate(zip(steps, args, strict=True))
    ]


def _colors(spec: KernelSpec, *, whole: bool) -> list[bytes]:
    """Return a digest of each instruction and everything it is computed from; operands that look alike are refined by their users.
    Without `whole`, constants and layouts are left out."""
    steps = spec.instructions
    own = [repr((operand.dtype, operand.kind, operand.pattern if whole else ())).encode() for operand in spec.inputs]
    colors = _filled(steps, own, whole)
    for _ in range(_ROUNDS):
        if len(set(own)) == len(own):
            break
        above = _above(spec, colors)
        reads: list[list[bytes]] = [[] for _ in own]
        for step, users in zip(steps, above, strict=True):
            if step.op == "input":
                reads[step.operand].append(users)
        refined = [_digest(color, *sorted(read)) for color, read in zip(own, reads, strict=True)]
        if len(set(refined)) == len(set(own)):
            break
        own, colors = refined, _filled(steps, refined, whole)
    return colors


def _above(spec: KernelSpec, colors: Sequence[bytes]) -> list[bytes]:
    """Return, for each instruction, a digest of its transitive users, up to the results."""
    steps = spec.instructions
    uses: list[list[bytes]] = [[] for _ in steps]
    for place, result in enumerate(spec.outputs):
        uses[result.instruction].append(b"y%d" % place)
    made = [b""] * len(steps)
    for at in range(len(steps) - 1, -1, -1):
        made[at] = _digest(*sorted(uses[at]))
        for place, arg in enumerate(steps[at].args):
            uses[arg].append(_digest(made[at], colors[at], b"" if steps[at].op in COMMUTATIVE else b"%d" % place))
    return made


def _filled(steps: Sequence[Instruction], own: Sequence[bytes], whole: bool) -> list[bytes]:
    colors: list[bytes] = []
    for step in steps:
        if step.op == "input":
            colors.append(_digest(b"input", own[step.operand]))
            continue
        read = [colors[arg] for arg in step.args]
        read = sorted(read) if step.op in COMMUTATIVE else read
        value = step.value if whole or step.op != "const" else None
        colors.append(_digest(repr((step.op, step.dtype, value)).encode(), *read))
    return colors


def _digest(*parts: bytes) -> bytes:
    return blake2b(b"|".join(parts), digest_size=8).digest()


# Tiled reads for operands of a pointwise launch that are contiguous along an outer loop.
#
# An operand that steps by one element along an outer loop, and far along the innermost, costs a cache line for every
# element when the loops run in order. Read in square tiles, each line is used whole. The outer loops of a pointwise
# kernel may be in any order, so the one along which the operand is contiguous becomes the last but one.

_MOST: Final = 4
"""The most operands whose tiles fit into a near cache together."""


def with_tiled_reads(launch: Launch, rows: int, columns: int) -> Launch:
    """Return the launch with the spec of a kernel that reads in tiles, if that pays; the two loops must have at least
    `rows` and `columns` steps.
    """
    spec = launch.spec
    is_plain = not (spec.reduced or spec.row_limit) and all(result.pattern[-1] == UNIT for result in spec.outputs)
    loop = _contiguous_along(launch, rows) if is_plain and launch.sizes[-1] >= columns else None
    if loop is None:
        return launch
    order = [*(other for other in range(spec.rank - 1) if other != loop), loop, spec.rank - 1]
    strides = tuple(_ordered(own, order) for own in launch.strides)
    outputs = tuple(replace(each, pattern=_ordered(each.pattern, order)) for each in spec.outputs)
    inputs = []
    for operand, own in zip(spec.inputs, strides[len(outputs) :], strict=True):
        pattern = _ordered(operand.pattern, order)
        if operand.kind == "tensor" and pattern[-1] == STRIDED and own[-2] == 1:
            pattern = (*pattern[:-2], UNIT, STRIDED)
        inputs.append(replace(operand, pattern=pattern))
    turned = replace(spec, inputs=tuple(inputs), outputs=outputs)
    return replace(launch, spec=turned, sizes=_ordered(launch.sizes, order), strides=strides)


def _contiguous_along(launch: Launch, rows: int) -> int | None:
    """Return the outer loop along which most strided operands are contiguous, if it has at least `rows` steps."""
    found: Counter[int] = Counter()
    strides = launch.strides[len(launch.spec.outputs) :]
    for operand, own in zip(launch.spec.inputs, strides, strict=True):
        if operand.kind == "tensor" and operand.pattern[-1] == STRIDED:
            found.update([loop for loop, step in enumerate(own[:-1]) if step == 1 and launch.sizes[loop] >= rows][:1])
    best = min(found, key=lambda loop: (-found[loop], loop), default=None)
    return best if best is not None and found[best] <= _MOST else None


def _ordered(own: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    return tuple(own[loop] for loop in order) if own else ()


# Splits a launch with long reductions and few results into several launches that can run in parallel.
#
# Where the kept loops have fewer steps than there are workers, the reduced ones are cut. Each part computes a partial result
# per reduction, a second launch combines the parts, and users of the result read it from memory. Results that are written once
# per step of the kept loops are computed by the last launch that reduces, so a sum takes two launches. A softmax
# of one long row takes two such pairs, for the maximum and for the sum, and a launch that writes. The parts are combined
# in their order, so the result does not depend on which worker was first.

_IN_TWO: Final = {"reduce_argmax": "reduce_max", "reduce_argmin": "reduce_min", EXPONENTIALS: "reduce_max"}
"""Reductions whose parts also store the extreme element itself, and the reduction that computes it."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One launch of a split one. The numbers of its reads and writes continue past the inputs and outputs into the temporaries."""

    launch: Launch
    partial: bool
    """Whether the reduced loops are to be cut into parts; part p writes at an offset of p times `part_elements` elements."""


@dataclass(frozen=True, slots=True)
class SplitReduction:
    """The launches of a split reduction, to run one after the other."""

    stages: tuple[Stage, ...]
    temporaries: tuple[tuple[str, int], ...]
    """Element type and number of elements of each buffer that lives as long as the call."""
    part_elements: int
    """How many results each reduction has."""


def split_reduction(launch: Launch, inputs: int, outputs: int, parts: int) -> SplitReduction:
    """Return launches that compute the same with the reduced loops cut into this many parts.

    `inputs` and `outputs` are those of the group: the first temporary has the number `inputs` when it is read, and
    `outputs` when it is written.
    """
    return _Splitter(launch, inputs, outputs, parts).split()


@dataclass(frozen=True, slots=True)
class _Source:
    """The source of an operand of a new launch."""

    operand: Operand
    read: int
    strides: tuple[int, ...]
    """Along all loops of the split launch; empty for a number."""
    offset: int = 0


class _Splitter:
    def __init__(self, launch: Launch, inputs: int, outputs: int, parts: int) -> None:
        self.launch, self.spec = launch, launch.spec
        self.inputs, self.outputs, self.parts = inputs, outputs, parts
        self.kept = [loop for loop in range(self.spec.rank) if loop not in self.spec.reduced]
        self.sizes = tuple(launch.sizes[loop] for loop in self.kept)
        self.results = prod(self.sizes)
        own = dict(zip(self.kept, contiguous_strides(self.sizes), strict=True))
        self.row_major = tuple(own.get(loop, 0) for loop in range(self.spec.rank))
        """The strides of a temporary along the loops: results in row-major order, stride 0 along the reduced loops."""
        self.offsets = launch.offsets or (0,) * len(launch.strides)
        self.temporaries: list[tuple[str, int]] = []
        self.known: dict[int, _Source] = {}
        """Reductions whose results are in memory."""

    def split(self) -> SplitReduction:
        stages: list[Stage] = []
        everywhere = [slot for slot, result in enumerate(self.spec.outputs) if not self.spec.is_reduced(result)]
        once = [slot for slot, result in enumerate(self.spec.outputs) if self.spec.is_reduced(result)]
        gathering = [each.reductions for each in reduction_nest(self.spec).passes if each.reductions]
        for number, reductions in enumerate(gathering):
            is_last = number == len(gathering) - 1
            stages += self._gather(reductions, once if is_last else (), keep=not is_last or bool(everywhere))
        if everywhere:  # the results of every point, from reductions that are in memory
            roots = [self.spec.outputs[slot].instruction for slot in everywhere]
            copy = _Copy(self, roots)
            made = copy.launch(
                [copy.at[root] for root in roots], [self.launch.strides[slot] for slot in everywhere],
                [self.launch.writes[slot] for slot in everywhere], range(self.spec.rank), (), [self.offsets[slot] for slot in everywhere],
            )  # fmt: skip
            stages.append(Stage(made, False))
        return SplitReduction(tuple(stages), tuple(self.temporaries), self.results)

    # -- gathering ----------------------------------------------------------------------------------------------------

    def _gather(self, reductions: Sequence[int], once: Sequence[int], *, keep: bool) -> list[Stage]:
        """Return two launches: one reduces each part, one combines the parts and also writes the results `once`.

        With `keep`, the results of the reductions stay in memory for later launches.
        """
        copy = _Copy(self, {arg for index in reductions for arg in self.spec.instructions[index].args})
        roots: list[int] = []
        found: list[tuple[int, str, int]] = []  # the reduction, or -1 for the extreme that its parts also store; its op; its temporary
        for index in reductions:
            code = self.spec.instructions[index]
            args = tuple(copy.at[arg] for arg in code.args)
            if code.op in _IN_TWO:
                extreme = Instruction(_IN_TWO[code.op], args[:1], self._dtype(code.args[0]), None, code.node)
                roots.append(copy.add(extreme))
                found.append((-1, extreme.op, self._temporary(extreme.dtype, self.parts)))
            roots.append(copy.add(Instruction(code.op, args, code.dtype, None, code.node)))
            found.append((index, code.op, self._temporary(code.dtype, self.parts)))
        places = [self.outputs + place for _, _, place in found]
        parts = copy.launch(roots, [self.row_major] * len(roots), places, range(self.spec.rank), self.spec.reduced)
        return [Stage(parts, True), Stage(self._whole(found, once, keep), False)]

    def _dtype(self, index: int) -> str:
        return self.spec.instructions[index].dtype

    def _temporary(self, dtype: str, times: int) -> int:
        self.temporaries.append((dtype, self.results * times))
        return len(self.temporaries) - 1

    def _whole(self, found: Sequence[tuple[int, str, int]], once: Sequence[int], keep: bool) -> Launch:
        """Combine the parts, which are a loop of their own inside the kept ones."""
        copy, kept = _Copy(self, ()), self.row_major
        for index, op, place in found:
            dtype, _ = self.temporaries[place]
            node = self.spec.instructions[max(index, 0)].node
            copy.read(_Source(Operand(dtype, "tensor"), self.inputs + place, (*kept, self.results)), node)
            if index < 0:
                continue
            last = len(copy.code) - 1
            if op == EXPONENTIALS:
                copy.at[index] = joined_parts(copy.code, last - 1, last, dtype, node)
            else:
                args = (last - 1, last) if op in POSITIONS else (last,)
                copy.at[index] = copy.add(Instruction(op, args, dtype, None, node))
        written = [index for index, _, _ in found if index >= 0] if keep else []
        targets = [self._temporary(self._dtype(index), 1) for index in written]
        results = [self.spec.outputs[slot].instruction for slot in once]
        copy.extend(results)
        loops = [*self.kept, self.spec.rank]
        made = copy.launch(
            [copy.at[index] for index in (*written, *results)],
            [*[kept] * len(written), *(self.launch.strides[slot] for slot in once)],
            [*(self.outputs + target for target in targets), *(self.launch.writes[slot] for slot in once)],
            loops, (len(loops) - 1,), [*[0] * len(written), *(self.offsets[slot] for slot in once)],
        )  # fmt: skip
        for index, target in zip(written, targets, strict=True):
            self.known[index] = _Source(Operand(self._dtype(index), "tensor"), self.inputs + target, kept)
        return made


class _Copy:
    """Instructions copied into a new kernel, with reductions read from memory where their results are."""

    def __init__(self, splitter: _Splitter, roots: Iterable[int]) -> None:
        self.splitter = splitter
        self.code: list[Instruction] = []
        self.sources: list[_Source] = []
        self.at: dict[int, int] = {}
        """The new number of each instruction."""
        self.extend(roots)

    def extend(self, roots: Iterable[int]) -> None:
        """Copy these instructions and their operands, except those already copied."""
        spec, ready = self.splitter.spec, self.at.keys() | self.splitter.known.keys()
        for index in sorted(needed_by(spec.instructions, roots, ready) - self.at.keys()):
            self.at[index] = self._copied(index, spec.instructions[index])

    def add(self, code: Instruction) -> int:
        self.code.append(code)
        return len(self.code) - 1

    def _copied(self, index: int, code: Instruction) -> int:
        splitter = self.splitter
        if index in splitter.known:
            return self.read(splitter.known[index], code.node)
        if code.op == "input":
            launch, slot = splitter.launch, len(splitter.spec.outputs) + code.operand
            operand, read = splitter.spec.inputs[code.operand], launch.reads[code.operand]
            return self.read(_Source(operand, read, launch.strides[slot], splitter.offsets[slot]), code.node)
        if code.op == "count":
            steps = prod(splitter.launch.sizes[loop] for loop in splitter.spec.reduced)
            number = _Source(Operand("int64", "index"), -1, (0,) * splitter.spec.rank, steps)
            return self.add(Instruction("cast", (self.read(number, code.node),), code.dtype, None, code.node))
        assert code.op not in GATHERING
        args = tuple(self.at[arg] for arg in code.args)
        return self.add(Instruction(code.op, args, code.dtype, code.value, code.node))

    def read(self, source: _Source, node: int) -> int:
        """Append an instruction that reads an operand."""
        self.sources.append(source)
        return self.add(Instruction("input", (), source.operand.dtype, len(self.sources) - 1, node))

    def launch(
        self, roots: Sequence[int], strides: Sequence[tuple[int, ...]], writes: Sequence[int], loops: Sequence[int],
        reduced: tuple[int, ...], offsets: Sequence[int] = (),
    ) -> Launch:  # fmt: skip
        """Return the copied instructions as a launch over these loops; the loop after the last of the split launch is that of the parts."""
        extents = (*self.splitter.launch.sizes, self.splitter.parts)
        sizes = tuple(extents[loop] for loop in loops) or (1,)

        def along(own: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(own[loop] if loop < len(own) else 0 for loop in loops) or (1,)

        written = [along(own) for own in strides]
        read = [along(source.strides) if source.strides else () for source in self.sources]
        inputs = [
            Operand(source.operand.dtype, source.operand.kind, stride_classes(own) if own else ())
            for source, own in zip(self.sources, read, strict=True)
        ]
        outputs = [Result(self.code[root].dtype, stride_classes(own), root) for root, own in zip(roots, written, strict=True)]
        exact = self.splitter.launch.spec.exact
        spec = KernelSpec.over(sizes, tuple(inputs), tuple(self.code), tuple(outputs), reduced=reduced, exact=exact)
        places = (*(offsets or [0] * len(roots)), *(source.offset for source in self.sources))
        return Launch(
            spec, sizes, tuple(source.read for source in self.sources), tuple(writes), (*written, *read),
            places if any(places) else (),
        )  # fmt: skip
