"""A launch with long reductions and few results, as several launches whose work can be shared out.

Where the kept loops have fewer steps than there are workers, the reduced ones are cut: each part gathers what it can
(a partial result per reduction), a second launch gathers the parts, and whoever reads the result reads it from memory.
A softmax of one long row thus takes two such pairs, for the maximum and for the sum, and a launch that writes. The
parts are gathered in their order, so the result does not depend on which worker was first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from irscope.codegen.kernel_spec import (
    Instruction,
    KernelSpec,
    Launch,
    Operand,
    Result,
    row_limit,
    stride_classes,
)
from irscope.codegen.online_sums import EXPONENTIALS, GATHERING, joined_parts
from irscope.codegen.reduction_nest import reduction_nest
from irscope.ops.expression import POSITIONS
from irscope.ops.strides import contiguous_strides

__all__ = ["SplitReduction", "Stage", "split_reduction"]

_IN_TWO: Final = {"reduce_argmax": "reduce_max", "reduce_argmin": "reduce_min", EXPONENTIALS: "reduce_max"}
"""Of these a part hands on the element that it stands by, too."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One launch of a split one. Its reads and writes count on, behind inputs and outputs, through the temporaries."""

    launch: Launch
    partial: bool
    """Whether the reduced loops are to be cut into parts; part number p writes `part_elements` times p elements
    further on."""


@dataclass(frozen=True, slots=True)
class SplitReduction:
    """Launches to run one after the other."""

    stages: tuple[Stage, ...]
    temporaries: tuple[tuple[str, int], ...]
    """Element type and number of elements of memory that lives as long as the call."""
    part_elements: int
    """How many results each reduction has."""


def split_reduction(launch: Launch, inputs: int, outputs: int, parts: int) -> SplitReduction:
    """The launches that do the same with the reduced loops cut into this many parts.

    `inputs` and `outputs` are those of the group: the first temporary has the number `inputs` when it is read, and
    `outputs` when it is written.
    """
    return _Splitter(launch, inputs, outputs, parts).split()


@dataclass(frozen=True, slots=True)
class _Source:
    """Where an operand of a new launch comes from."""

    operand: Operand
    read: int
    strides: tuple[int, ...]
    """Along all loops of the split launch; none for a number."""
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
        nest = reduction_nest(self.spec)
        stages: list[Stage] = []
        for each in nest.passes:
            if each.reductions:
                stages += self._gather(each.reductions)
        everywhere = [slot for slot, result in enumerate(self.spec.outputs) if not self.spec.is_reduced(result)]
        once = [slot for slot, result in enumerate(self.spec.outputs) if self.spec.is_reduced(result)]
        if once:
            stages.append(Stage(self._write(once, self.kept), False))
        if everywhere:
            stages.append(Stage(self._write(everywhere, list(range(self.spec.rank))), False))
        return SplitReduction(tuple(stages), tuple(self.temporaries), self.results)

    # -- gathering ----------------------------------------------------------------------------------------------------

    def _gather(self, reductions: Sequence[int]) -> list[Stage]:
        """Two launches: the parts, and the parts of the parts."""
        found: list[tuple[int, str, int]] = []
        for index in reductions:
            code = self.spec.instructions[index]
            if code.op in _IN_TWO:
                found.append((-1, _IN_TWO[code.op], self._temporary(self._dtype(code.args[0]), self.parts)))
            found.append((index, code.op, self._temporary(code.dtype, self.parts)))
        first = Stage(self._parts(reductions, [place for _, _, place in found]), True)
        second = Stage(self._whole(found), False)
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
        """The strides of a temporary along the loops: results row by row, the same all along the reduced loops."""
        own = dict(zip(self.kept, contiguous_strides(self.sizes), strict=True))
        return tuple(own.get(loop, 0) for loop in range(rank))

    def _whole(self, found: Sequence[tuple[int, str, int]]) -> Launch:
        """Gather the parts; the kept loops outside, the parts inside."""
        own = contiguous_strides(self.sizes)
        operands: list[Operand] = []
        code: list[Instruction] = []
        results: list[Result] = []
        reads, writes = [], []
        stride = (*own, self.results)
        for index, op, place in found:
            dtype, _ = self.temporaries[place]
            code.append(Instruction("input", (), dtype, len(operands)))
            operands.append(Operand(dtype, "tensor", stride_classes(stride)))
            reads.append(self.inputs + place)
            if index < 0:
                continue
            args = (len(code) - 2, len(code) - 1) if op in POSITIONS else (len(code) - 1,)
            node = self.spec.instructions[index].node
            if op == EXPONENTIALS:
                joined_parts(code, len(code) - 2, len(code) - 1, dtype, node)
            else:
                code.append(Instruction(op, args, dtype, None, node))
            target = self._temporary(dtype, 1)
            results.append(Result(dtype, stride_classes((*own, 0)), len(code) - 1))
            writes.append(self.outputs + target)
            kept = self._row_major(self.spec.rank)
            self.known[index] = _Source(Operand(dtype, "tensor"), self.inputs + target, kept)
        sizes, rank = (*self.sizes, self.parts), len(self.sizes) + 1
        spec = KernelSpec(
            tuple(operands),
            tuple(code),
            tuple(results),
            rank,
            row_limit=row_limit(sizes, rows=True),
            reduced=(rank - 1,),
        )
        strides = (*[(*own, 0)] * len(results), *[stride] * len(operands))
        return Launch(spec, sizes, tuple(reads), tuple(writes), strides)

    # -- writing ------------------------------------------------------------------------------------------------------

    def _write(self, slots: Sequence[int], loops: Sequence[int]) -> Launch:
        """What is written at every point, or once per result, from reductions that are known."""
        roots = [self.spec.outputs[slot].instruction for slot in slots]
        copy = _Copy(self, set(roots))
        offsets = self.launch.offsets or (0,) * len(self.launch.strides)
        return copy.launch(
            [copy.at[root] for root in roots],
            [self.launch.strides[slot] for slot in slots],
            [self.launch.writes[slot] for slot in slots],
            loops,
            (),
            [offsets[slot] for slot in slots],
        )


class _Copy:
    """Instructions copied into a new kernel, with reductions read from memory where their results are."""

    def __init__(self, splitter: _Splitter, roots: Iterable[int]) -> None:
        self.splitter = splitter
        self.code: list[Instruction] = []
        self.sources: list[_Source] = []
        self.at: dict[int, int] = {}
        """The new number of each instruction."""
        spec = splitter.spec
        needed = set(roots)
        for index in range(max(needed, default=-1), -1, -1):
            if index in needed and index not in splitter.known:
                needed.update(spec.instructions[index].args)
        for index in sorted(needed):
            self.at[index] = self._copied(index, spec.instructions[index])

    def add(self, code: Instruction) -> int:
        """Append an instruction."""
        self.code.append(code)
        return len(self.code) - 1

    def _copied(self, index: int, code: Instruction) -> int:
        splitter = self.splitter
        if index in splitter.known:
            return self._input(splitter.known[index], code)
        if code.op == "input":
            assert code.value is not None
            launch, slot = splitter.launch, len(splitter.spec.outputs) + code.value
            offset = launch.offsets[slot] if launch.offsets else 0
            operand, read = splitter.spec.inputs[code.value], launch.reads[code.value]
            return self._input(_Source(operand, read, launch.strides[slot], offset), code)
        if code.op == "count":
            steps = prod(splitter.launch.sizes[loop] for loop in splitter.spec.reduced)
            number = _Source(Operand("int64", "index"), -1, (0,) * splitter.spec.rank, steps)
            return self.add(Instruction("cast", (self._input(number, code),), code.dtype, None, code.node))
        assert code.op not in GATHERING
        args = tuple(self.at[arg] for arg in code.args)
        return self.add(Instruction(code.op, args, code.dtype, code.value, code.node))

    def _input(self, source: _Source, code: Instruction) -> int:
        self.sources.append(source)
        return self.add(Instruction("input", (), source.operand.dtype, len(self.sources) - 1, code.node))

    def launch(
        self,
        roots: Sequence[int],
        strides: Sequence[tuple[int, ...]],
        writes: Sequence[int],
        loops: Sequence[int],
        reduced: tuple[int, ...],
        offsets: Sequence[int] = (),
    ) -> Launch:
        """The copied instructions as a launch over some of the loops."""
        sizes = tuple(self.splitter.launch.sizes[loop] for loop in loops) or (1,)

        def along(own: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(own[loop] for loop in loops) or (1,)

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
        )
        places = (*(offsets or [0] * len(roots)), *(source.offset for source in self.sources))
        return Launch(
            spec, sizes, tuple(source.read for source in self.sources), tuple(writes), (*written, *read),
            places if any(places) else (),
        )  # fmt: skip
