"""The short way into a program of many nodes, for arguments like those of an earlier call.

Spreading and checking arguments, choosing a library and adopting what is not its own takes as long as two small kernels.
What comes of it depends on the arguments' types and layouts alone; for those of one call it is written out: one condition,
and the slots that the program starts with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from irscope.runtime.arrays import Memory
from irscope.runtime.executor.bytecode import Slots
from irscope.runtime.executor.guarded_call import guard_text

__all__ = ["GUARD_ERRORS", "Guard", "admission"]

Guard = Callable[[Sequence[Any]], Slots | None]
"""Gives the slots that a program starts with, or None for arguments that it was not written for; may raise one of
`GUARD_ERRORS` for them."""

GUARD_ERRORS: Final = (AttributeError, RuntimeError, ValueError)
"""What comes of asking arguments for things that they do not have, or of too few or too many of them."""

_PLAIN: Final = (bool, float, int, str, type(None))
"""Types of which any value is as good as another to the checks."""


def admission(arguments: Sequence[Any], memory: Memory, template: Slots, slots: Sequence[int]) -> Guard | None:
    """What admits arguments like these, which have passed; None if one is neither the memory's own nor plain.

    `slots`: where each of them goes.
    """
    names: dict[str, Any] = {"template": template}
    xs = [f"x{place}" for place in range(len(arguments))]
    if not memory.is_plain([argument for argument in arguments if memory.owns(argument)]):
        return None
    owned = [place for place, argument in enumerate(arguments) if memory.owns(argument)]
    tests = []
    for place, argument in enumerate(arguments):
        if place in owned:
            continue
        if type(argument) not in _PLAIN:
            return None
        names[f"type{place}"] = type(argument)
        tests.append(f"x{place}.__class__ is type{place}")
    if owned:
        try:
            same = guard_text([arguments[place] for place in owned], [xs[place] for place in owned], memory, names)
        except GUARD_ERRORS:
            return None
        tests.append(f"({same})")
    elif memory.unguarded(names):
        tests.append("is_plain()")
    text = "\n".join([
        "def admit(arguments):",
        f"    {''.join(f'{x}, ' for x in xs) or '()'} = arguments",
        f"    if {' and '.join(tests) or 'True'}:",
        "        slots = template.copy()",
        *[f"        slots[{slot}] = {x}" for slot, x in zip(slots, xs, strict=True)],
        "        return slots",
        "    return None",
    ])  # fmt: skip
    exec(compile(text, "<the arguments of a program>", "exec"), names)  # of counts, and of facts that a memory names
    made: Guard = names["admit"]
    return made
