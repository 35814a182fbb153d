"""A call of one kernel for arguments of one type and layout, written out as Python.

Torch's own op on a thousand elements takes little more than a microsecond, checks and memory for the result included. A
loop over the arguments, a tuple of what they are and a look into a dictionary cost as much again. Written out, each
fact about each argument is one comparison, and the kernel is called in the same breath with the addresses in its own
order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from irscope.runtime.arrays import Memory
from irscope.runtime.device import PreparedPlan
from irscope.runtime.executor.kernel_calls import BoundPlan

__all__ = ["Call", "guard_text", "launch_text", "written_call"]

Call = Callable[[Sequence[Any]], Any]
"""Gives the results, or None for arguments that it was not written for; raises AttributeError or ValueError if they are
no tensors, or not as many."""

_COMPARED: Final = ("shape", "stride()", "strides")
"""Facts that are equal without being the same object."""


def written_call(
    arguments: Sequence[Any], reads: Sequence[int], gives: Sequence[int], ready: BoundPlan, memory: Memory
) -> Call:
    """What runs a plan on arguments for which all of `memory.facts` are the same as for these.

    `reads`: the argument behind each operand of the plan; `gives`: its result behind each of the program's.
    """
    names: dict[str, Any] = {"address": memory.address}
    xs = [f"x{place}" for place in range(len(arguments))]
    wanted = guard_text(arguments, xs, memory, names)
    makes = []
    for place, make in enumerate(ready.makers):
        names[f"make{place}"] = make
        makes.append(f"        y{place} = make{place}()")
    results = [f"y{place}" for place in gives]
    outputs = [memory.address_text.format(f"y{place}") for place in range(len(ready.makers))]
    inputs = [memory.address_text.format(xs[place]) for place in reads]
    text = "\n".join([
        "def call(arguments):",
        f"    {', '.join(xs)}, = arguments",
        f"    if {wanted}:",
        *makes,
        f"        {launch_text(ready.plan, outputs, inputs, names)}",
        f"        return {results[0] if len(results) == 1 else '(' + ', '.join(results) + ')'}",
        "    return None",
    ])  # fmt: skip
    exec(compile(text, "<a call of a kernel>", "exec"), names)  # of counts, and of facts that a memory names
    made: Call = names["call"]
    return made


def guard_text(arguments: Sequence[Any], xs: Sequence[str], memory: Memory, names: dict[str, Any]) -> str:
    """Whether the variables `xs` are like the arguments in all of `memory.facts`, and nothing surrounds the call: at one
    stroke where that works, and else fact by fact. What the condition needs goes into `names`."""
    tests = []
    for place, argument in enumerate(arguments):
        for number, fact in enumerate(memory.facts):
            name = f"fact{place}_{number}"
            value = getattr(argument, fact.removesuffix("()"))
            names[name] = value() if fact.endswith("()") else value
            tests.append(f"{xs[place]}.{fact} {'==' if fact in _COMPARED else 'is'} {name}")
    unguarded = memory.unguarded(names)
    asks = [f"is_plain({', '.join(xs)})"] if unguarded else []
    facts = " and ".join([*tests, *asks])
    names["same"] = memory.guard(arguments)
    if names["same"] is None:
        return facts
    nested = " or ".join(f"{x}.is_nested" for x in xs)  # which torch's comparison ends the process at
    first = f"{unguarded} and " if unguarded else ""
    return f"{first}not ({nested}) and (same({', '.join(xs)}) or {facts})"


def launch_text(
    plan: PreparedPlan, outputs: Sequence[str], inputs: Sequence[str], names: dict[str, Any], mark: str = ""
) -> str:
    """The statement that runs a plan on these addresses: a jump into its only kernel, or else the plan as it is.

    What the statement needs goes into `names`, marked.
    """
    single = getattr(plan, "single", None)
    if single is None:
        names[f"plan{mark}"] = plan
        return f"plan{mark}(({', '.join(outputs)},), ({''.join(f'{text}, ' for text in inputs)}))"
    launch = single.launch
    words = [*[outputs[i] for i in launch.writes], *[inputs[i] if i >= 0 else "0" for i in launch.reads]]
    moved = [f"{word} + {offset}" if offset else word for word, offset in zip(words, single.moved, strict=True)]
    names[f"kernel{mark}"] = single.jump
    return f"kernel{mark}({', '.join(moved)})"
