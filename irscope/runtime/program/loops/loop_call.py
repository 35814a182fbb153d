"""Loops whose turns are only kernels, as one loop in machine code (`irscope.runtime.cpu.native_loop`).

The turns call the same machine code with the same operands as they would from Python, so the numbers have the same bits. What
must hold, so that nothing is left for Python to do between two calls:

* A body has groups with kernels, views, joined tensors, whole numbers, and rows that are written into what it carries or moved by
  index; the loop's condition is always true, or a flag that a kernel writes. So are those of branches and loops in it. Everything
  else, an op of the library for one, is a reason to stay with Python, which a remark tells.
* Of a branch by a flag, machine code skips the calls of the other side, whose words move nevertheless; of one by a number that
  repeats, each turn of the circle has the calls of its own side. An inner loop has memory of its own for what it carries, copied
  there before its first turn and after each, so that it does not matter how many there were; it is laid out anew where it begins.
* An index that is outside of its axis, and an inner loop of more turns than its tensors have parts, end the loop: Python then runs it
  from its beginning, and says what is wrong. So what it starts with is copied, if it is written.
* From one turn to the next, each word that a kernel gets, an address or a number, moves by the same amount. Numbers do if they
  are linear in the number of the turn or repeat after as many turns as are laid out, addresses of views if they are cut at such
  numbers, which all turns keep inside of the tensor. What a kernel writes has as many buffers as turns may look back at it, plus
  one, and they take turns.
* A carried tensor into which rows are written is copied once, before the first turn, and then written in place: nothing reads
  what it was before the row, after the row is written (`irscope.runtime.program.loops.form`).
* Carried tensors keep their types, so that each turn has the same layouts.
* Buffers are small: with large ones the time goes to the kernels, and memory is better planned op by op.

The first turns read the initial values and are calls of their own; then a circle of turns is repeated, one for each buffer, or as
many as numbers take to repeat.

What a run needs is laid out once for operands like these: the words of the calls, each as a number and the tensor whose address is
added to it. A run allocates the tensors that its caller may get, and one block for the words and all other buffers, so that runs
of several threads, and one that a signal handler begins inside of another, share nothing.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from irscope.ir import Node
from irscope.runtime.arrays import Library, Memory
from irscope.runtime.cpu import CpuDevice, NativeLoop
from irscope.runtime.program.groups import GroupKernels
from irscope.runtime.program.loops.calls import ENDLESS, ERRORS, WHOLE, Recipe
from irscope.runtime.program.loops.form import LoopForm
from irscope.runtime.program.loops.layouts import Layouts

_MOST_LAYOUTS: Final = 256
_FEW_LAYOUTS: Final = 4
_FEW_TURNS: Final = 128
"""As many turns take Python as long as preparing the loop takes."""


class LoopCall:
    """A loop in a program for one library: `call` runs all of it, and returns true and its results; or false, and nothing has run.

    For each layout of the operands, and the whole numbers among them, there is one generated function; `call` is the one that was
    used last."""

    def __init__(self, form: LoopForm, groups: Mapping[Node, GroupKernels], memory: Memory, library: Library) -> None:
        self.form, self.memory = form, memory
        self.owner, self.captured = form.owner, form.captured
        self.layouts = Layouts(form, groups, memory, library)
        self.declined = (False, *(None,) * len(form.node.outputs))
        self.known: dict[Hashable, tuple[Callable[..., tuple[Any, ...]], int] | str] = {}
        """The functions, and the most turns that each may take; or why there is none."""
        self.call: Callable[..., tuple[Any, ...]] = self.look_up

    def look_up(self, limit: int, go: bool, *given: Any) -> tuple[Any, ...]:
        """Runs the function for operands like these, which it may have to generate."""
        if not go or limit < self.form.least:
            return self.declined
        found = self._found(given, limit)
        if not isinstance(found, str) and min(limit, ENDLESS) > found[1]:
            found = "it may have more turns than its tensors have parts, or than a number has room for"
        if isinstance(found, str):
            self.form.declined = found or self.form.declined
            return self.declined
        self.form.declined = ""
        self.call = run = found[0]
        return run(limit, go, *given)

    def left(self) -> tuple[Any, ...]:
        """Says that Python must run what machine code began: it raises, or hears an interrupt."""
        self.form.declined = "an index was outside of its axis, or an inner loop had more turns than may pass without Python"
        self.call = self.look_up
        return self.declined

    @cached_property
    def driver(self) -> NativeLoop:
        """The loop in machine code of the device of its kernels."""
        group = next(iter(self.layouts.groups.values()))
        device = group.kernels.device_of(group.group)
        assert isinstance(device, CpuDevice)
        return device.native_loop

    def _found(self, given: Sequence[Any], limit: int) -> tuple[Callable[..., tuple[Any, ...]], int] | str:
        """Returns the function, and the most turns that it may take; or why there is none, an empty text where it was not tried."""
        key = self.memory.key(given), tuple([value for value in given if isinstance(value, WHOLE)])  # by which views may be cut
        known = self.known  # which another thread may replace
        if key not in known:
            if limit < _FEW_TURNS and len(known) >= _FEW_LAYOUTS:
                return ""  # a number that changes from call to call: preparing would take longer than Python does
            if len(known) >= _MOST_LAYOUTS:
                self.known = known = {}
            try:
                turns = self.layouts.turns(given)
                recipe = Recipe(self.layouts, turns, given)
                run = recipe.written(key[0], self.driver, {"miss": self.look_up, "left": self.left, "declined": self.declined})
                known[key] = run, turns.most[self.form.node]
            except ERRORS as error:
                known[key] = str(error) or type(error).__name__
        return known[key]
