"""Splits a launch with long reductions and few results into several launches that can run in parallel.

Where the kept loops have fewer steps than there are workers, the reduced ones are cut. Each part computes a partial result
per reduction, a second launch combines the parts, and users of the result read it from memory. Results that are written once
per step of the kept loops are computed by the last launch that reduces, so a sum takes two launches. A softmax
of one long row takes two such pairs, for the maximum and for the sum, and a launch that writes. The parts are combined
in their order, so the result does not depend on which worker was first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from irscope.codegen.kernel.online_softmax import EXPONENTIALS, GATHERING, joined_parts
from irscope.codegen.kernel.reduction_passes import reduction_nest
from irscope.codegen.kernel.spec import Instruction, KernelSpec, Launch, Operand, Result, row_limit, stride_classes
from irscope.ops.expr import POSITIONS
from irscope.ops.typing import contiguous_strides

__all__ = ["SplitReduction", "Stage", "split_reduction"]

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
        if everywhere:
            stages.append(Stage(self._write(everywhere), False))
        return SplitReduction(tuple(stages), tuple(self.temporaries), self.results)

    # -- gathering ----------------------------------------------------------------------------------------------------

    def _gather(self, reductions: Sequence[int], once: Sequence[int], *, keep: bool) -> list[Stage]:
        """Return two launches: one reduces each part, one combines the parts and also writes the results `once`.

        With `keep`, the results of the reductions stay in memory for later launches.
        """
        found: list[tuple[int, str, int]] = []
        for index in reductions:
            code = self.spec.instructions[index]
            if code.op in _IN_TWO:
                found.append((-1, _IN_TWO[code.op], self._temporary(self._dtype(code.args[0]), self.parts)))
            found.append((index, code.op, self._temporary(code.dtype, self.parts)))
        first = Stage(self._parts(reductions, [place for _, _, place in found]), True)
        second = Stage(self._whole(found, once, keep), False)
        return [first, second]

    def _dtype(self, index: int) -> str:
        return self.spec.instructions[index].dtype

    def _temporary(self, dtype: str, times: int) -> int:
        self.temporaries.append((dtype, self.results * times))
        return len(self.temporaries) - 1

    def _parts(self, reductions: Sequence[int], places: Sequence[int]) -> Launch:
        copy = _Copy(self, {arg for index in reductions for arg in self.spec.instructions[index].args})
        roots: list[int] = []
        for index in reductions:
            code = self.spec.instructions[index]
            args = tuple(copy.at[arg] for arg in code.args)
            if code.op in _IN_TWO:
                first = Instruction(_IN_TWO[code.op], args[:1], self._dtype(code.args[0]), None, code.node)
                roots.append(copy.add(first))
            roots.append(copy.add(Instruction(code.op, args, code.dtype, None, code.node)))
        strides = self._row_major(self.spec.rank)
        loops = list(range(self.spec.rank))
        return copy.launch(
            roots, [strides] * len(roots), [self.outputs + place for place in places], loops, self.spec.reduced
        )

    def _row_major(self, rank: int) -> tuple[int, ...]:
        """Return the strides of a temporary along the loops: results in row-major order, stride 0 along the reduced loops."""
        own = dict(zip(self.kept, contiguous_strides(self.sizes), strict=True))
        return tuple(own.get(loop, 0) for loop in range(rank))

    def _whole(self, found: Sequence[tuple[int, str, int]], once: Sequence[int], keep: bool) -> Launch:
        """Combine the parts, which are a loop of their own inside the kept ones."""
        copy = _Copy(self, ())
        kept = self._row_major(self.spec.rank)
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
            loops, (len(loops) - 1,), [*[0] * len(written), *self._offsets(once)],
        )  # fmt: skip
        for index, target in zip(written, targets, strict=True):
            self.known[index] = _Source(Operand(self._dtype(index), "tensor"), self.inputs + target, kept)
        return made

    # -- writing ------------------------------------------------------------------------------------------------------

    def _offsets(self, slots: Sequence[int]) -> list[int]:
        return [self.launch.offsets[slot] if self.launch.offsets else 0 for slot in slots]

    def _write(self, slots: Sequence[int]) -> Launch:
        """Return the launch that writes the results of every point, from reductions that are in memory."""
        roots = [self.spec.outputs[slot].instruction for slot in slots]
        copy = _Copy(self, roots)
        return copy.launch(
            [copy.at[root] for root in roots], [self.launch.strides[slot] for slot in slots],
            [self.launch.writes[slot] for slot in slots], list(range(self.spec.rank)), (), self._offsets(slots),
        )  # fmt: skip


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
        needed = set(roots)
        for index in range(max(needed, default=-1), -1, -1):
            if index in needed and index not in ready:
                needed.update(spec.instructions[index].args)
        for index in sorted(needed - self.at.keys()):
            self.at[index] = self._copied(index, spec.instructions[index])

    def add(self, code: Instruction) -> int:
        """Append an instruction."""
        self.code.append(code)
        return len(self.code) - 1

    def _copied(self, index: int, code: Instruction) -> int:
        splitter = self.splitter
        if index in splitter.known:
            return self.read(splitter.known[index], code.node)
        if code.op == "input":
            assert code.value is not None
            launch, slot = splitter.launch, len(splitter.spec.outputs) + code.value
            offset = launch.offsets[slot] if launch.offsets else 0
            operand, read = splitter.spec.inputs[code.value], launch.reads[code.value]
            return self.read(_Source(operand, read, launch.strides[slot], offset), code.node)
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
        self,
        roots: Sequence[int],
        strides: Sequence[tuple[int, ...]],
        writes: Sequence[int],
        loops: Sequence[int],
        reduced: tuple[int, ...],
        offsets: Sequence[int] = (),
    ) -> Launch:
        """Return the copied instructions as a launch over these loops; the loop after the last of the split launch is that of the parts."""
        extents = (*self.splitter.launch.sizes, self.splitter.parts)
        sizes = tuple(extents[loop] for loop in loops) or (1,)

        def along(own: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(own[loop] if loop < len(own) else 0 for loop in loops) or (1,)

        written = [along(own) for own in strides]
        read = [along(source.strides) if source.strides else () for source in self.sources]
        spec = KernelSpec(
            tuple(
                Operand(source.operand.dtype, source.operand.kind, stride_classes(own) if own else ())
                for source, own in zip(self.sources, read, strict=True)
            ),
            tuple(self.code),
            tuple(
                Result(self.code[root].dtype, stride_classes(own), root)
                for root, own in zip(roots, written, strict=True)
            ),
            len(sizes),
            row_limit=row_limit(sizes, rows=len(sizes) - 1 in reduced),
            reduced=reduced,
            exact=self.splitter.launch.spec.exact,
        )
        places = (*(offsets or [0] * len(roots)), *(source.offset for source in self.sources))
        return Launch(
            spec, sizes, tuple(source.read for source in self.sources), tuple(writes), (*written, *read),
            places if any(places) else (),
        )  # fmt: skip
