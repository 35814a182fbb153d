"""Emits the code that combines the accumulators of a team: in a thread, across lanes by shuffles, and through shared memory.

Every reduction has its own shared memory, so that one barrier in each pass is enough. All threads end with the
same value, and all must take part.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Final

from irscope.codegen.cuda.kernel_base import EntryText
from irscope.codegen.cuda.reduction_text import gathered, joined, kinds
from irscope.codegen.cuda.schedule import Schedule
from irscope.codegen.kernel import KernelSpec, Pass, reduction_nest

__all__ = ["TeamText"]

_WARP: Final = 32


class TeamText(EntryText):
    """An entry in which teams of threads reduce."""

    def __init__(self, spec: KernelSpec, schedule: Schedule, width: int, repeat: int, helpers: set[str]) -> None:
        super().__init__(spec, schedule, width, repeat, helpers)
        self.nest = reduction_nest(spec)
        self.columns = spec.by_columns
        self.lanes = width if self.columns else 1
        """How many results of each reduction a thread has."""

    def shared_memory(self) -> None:
        """Declare the shared memory through which warps, or rows of threads, combine."""
        team, side = self.schedule.team, self.schedule.side
        if team == 1 or (not self.columns and team <= _WARP):
            return
        cells = self.schedule.cells
        size = f"[{cells}][{team}][{self.width}][{side}]" if self.columns else f"[{team // _WARP}]"
        for each in self.nest.passes:
            for index in each.reductions:
                for part, kind in enumerate(kinds(self.spec, index)):
                    self.add(f"__shared__ {kind} m{index}_{part}{size};")

    def each_lane(self, first: int = 0) -> AbstractContextManager[None]:
        """Emit a loop over the lanes of a vector, from `first` on."""
        return self.braces(f"for (int e = {first}; e < {self.width}; e++)", unrolled=True)

    def join(self, each: Pass) -> None:
        """Combine the accumulators, so that all threads of a team end with the result of the whole team."""
        spec, team = self.spec, self.schedule.team
        if not self.columns and self.width > 1:
            for index in each.reductions:
                with self.each_lane(1):
                    self._take(index, "0", lambda name: f"{name}[e]")
        if self.columns:
            if team > 1:
                self._join_columns(each)
        elif team > 1:
            for index in each.reductions:
                self._across_lanes(index, min(team, _WARP))
            if team > _WARP and each.reductions:
                self._across_warps(each)
        for index in each.reductions:
            node = spec.instructions[index].node
            lane = "0" if self.lanes == 1 else "e"
            value = gathered(spec, index, [f"a{index}_{part}[{lane}]" for part in range(len(kinds(spec, index)))])
            if self.lanes == 1:
                self.add(f"const {kinds(spec, index)[-1]} t{index} = {value};", node=node)
                value = f"t{index}"
            self.names[index] = value

    def _take(self, index: int, lane: str, more: Any) -> None:
        names = [f"a{index}_{part}" for part in range(len(kinds(self.spec, index)))]
        text = joined(
            self.spec, index, [f"{name}[{lane}]" for name in names], [more(name) for name in names], self.helpers
        )
        self.add(text, node=self.spec.instructions[index].node)

    def _across_lanes(self, index: int, lanes: int) -> None:
        self.helpers.add("other")
        with self.braces(f"for (int d = {lanes // 2}; d; d >>= 1)", unrolled=True):
            parts = range(len(kinds(self.spec, index)))
            for part, kind in enumerate(kinds(self.spec, index)):
                self.add(f"const {kind} o{part} = other(a{index}_{part}[0], d);")
            found = {f"a{index}_{part}": f"o{part}" for part in parts}
            self._take(index, "0", lambda name: found[name])

    def _across_warps(self, each: Pass) -> None:
        """Combine through shared memory, of which every reduction has its own, so that one barrier is enough."""
        warps = self.schedule.team // _WARP
        with self.braces(f"if (threadIdx.x % {_WARP} == 0)"):
            for index in each.reductions:
                for part in range(len(kinds(self.spec, index))):
                    self.add(f"m{index}_{part}[threadIdx.x / {_WARP}] = a{index}_{part}[0];")
        self.add("__syncthreads();")
        for index in each.reductions:
            for part in range(len(kinds(self.spec, index))):
                self.add(f"a{index}_{part}[0] = m{index}_{part}[threadIdx.x % {warps}];")
            self._across_lanes(index, warps)

    def _join_columns(self, each: Pass) -> None:
        if not each.reductions:
            return
        with self.each_lane():
            for index in each.reductions:
                for part in range(len(kinds(self.spec, index))):
                    self.add(f"m{index}_{part}[own][t][e][lane] = a{index}_{part}[e];")
        self.add("__syncthreads();")
        with self.each_lane():
            for index in each.reductions:
                for part in range(len(kinds(self.spec, index))):
                    self.add(f"a{index}_{part}[e] = m{index}_{part}[own][0][e][lane];")
                with self.braces(f"for (int o = 1; o < {self.schedule.team}; o++)"):
                    self._take(index, "e", lambda name: f"m{name[1:]}[own][o][e][lane]")
