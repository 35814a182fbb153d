"""The fast path into a program: specialised Python for arguments like those of an earlier call, one guard and one call.

Torch's own op on a thousand elements takes little more than a microsecond, including checks and memory for the result.
Flattening and checking arguments, choosing a library and walking the program take several more, and their outcome depends
only on the arguments' types and layouts. So a call specialised for those is generated as Python: each fact about each argument
is one comparison. A program that is exactly one group then jumps into its kernel, with the addresses in the kernel's own
order; any other program starts from slots that are filled in.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from irscope.ir import Graph, Node
from irscope.runtime.arrays import Memory
from irscope.runtime.executor.kernel_calls import GroupKernels

__all__ = ["MISSED", "Call", "KnownCalls", "OnlyGroup", "kernel_call", "only_group", "program_call"]

MISSED: Final = object()
"""Returned by a specialised call when the arguments do not match its guard."""

Call = Callable[[Sequence[Any]], Any]
"""Returns the program's results, or MISSED, in which case nothing has run."""

_ERRORS: Final = (AttributeError, MemoryError, RuntimeError, ValueError)
"""Raised when arguments lack an attribute, are too few or too many, or when memory for results runs out: the slow path then
reports the error."""

_COMPARED: Final = ("shape", "stride()", "strides")
"""Facts that may be equal without being the same object."""

_PLAIN: Final = (bool, float, int, str, type(None))
"""Types for which the checks never look at the value."""

_MOST: Final = 256
"""Signatures kept; when there are more, all are dropped and learned again."""


class OnlyGroup(NamedTuple):
    """The single group of a program that has nothing else."""

    group: GroupKernels
    reads: tuple[int, ...]
    """The argument behind each operand of the group."""
    gives: tuple[int, ...]
    """The group's result behind each of the program's."""


def only_group(graph: Graph, groups: Mapping[Node, GroupKernels]) -> OnlyGroup | None:
    """Returns the group if a program is one group of its inputs and returns only the group's results, else None."""
    nodes = [node for node in graph.body.nodes if node.op != "prim::Constant"]
    if len(nodes) != 1 or nodes[0] not in groups or graph.bound:
        return None
    (node,) = nodes
    places = {value: index for index, value in enumerate(graph.inputs)}
    results = {value: index for index, value in enumerate(node.outputs)}
    if not places.keys() >= set(node.inputs) or not results.keys() >= set(graph.body.returns):
        return None
    if len(graph.body.returns) == 1 and len(node.outputs) != 1:
        return None
    reads, gives = tuple(places[value] for value in node.inputs), tuple(results[value] for value in graph.body.returns)
    return OnlyGroup(groups[node], reads, gives)


class KnownCalls:
    """The specialised calls compiled so far; thread-safe."""

    def __init__(self) -> None:
        self.quick: Call = _missed
        """The one that was compiled last."""
        self._memory: Memory | None = None
        """Computes signatures; None until something has been learned."""
        self._known: dict[Hashable, Call] = {}

    def like(self, arguments: Sequence[Any]) -> Call:
        """Returns the call for arguments of this signature, or one that always misses."""
        try:
            if self._memory is None or not self._memory.is_plain(arguments):
                return _missed
            return self._known.get(self._memory.signature(arguments), _missed)
        except _ERRORS:
            return _missed

    def keep(self, call: Call, arguments: Sequence[Any], memory: Memory) -> None:
        """Stores the call compiled for these arguments; calls with other arguments find it by signature if one memory owns
        them all."""
        if memory.facts and arguments:
            self.quick = call
        if not all(map(memory.owns, arguments)) or (self._memory is not None and memory is not self._memory):
            return
        if len(self._known) >= _MOST:
            self._known = {}
        self._known[memory.signature(arguments)] = call
        self._memory = memory


def _missed(arguments: Sequence[Any]) -> Any:
    return MISSED


def kernel_call(arguments: Sequence[Any], only: OnlyGroup, memory: Memory) -> Call | None:
    """Returns a specialised call of a one-group program for arguments like these, which have passed the checks; None if no
    kernel takes them, or `memory` does not own them."""
    if not all(map(memory.owns, arguments)) or not memory.is_plain(arguments):
        return None
    ready = only.group.ready([arguments[index] for index in only.reads], memory)
    if ready is None:
        return None
    names: dict[str, Any] = {}
    xs, ys = [f"x{place}" for place in only.reads], [f"y{place}" for place in only.gives]
    makes, launch = ready.make_text(xs, names), ready.launch_text(xs, (), memory, names)
    given = ys[0] if len(ys) == 1 else f"({', '.join(ys)})"
    return _written(arguments, memory, names, makes, [*launch, f"return {given}"])


def program_call(
    arguments: Sequence[Any], memory: Memory, run: Callable[[list[Any]], Sequence[Any]], template: list[Any],
    slots: Sequence[int], check: Callable[[Sequence[Any]], object] | None, *, gives_one: bool,
) -> Call | None:  # fmt: skip
    """Returns a specialised call that runs a program from its slots, for arguments like these, which have passed the checks.

    None if one of them is neither owned by the memory nor plain. `slots`: the slot of each argument; `check` runs on them at
    each call."""
    names: dict[str, Any] = {"template": template, "run": run, "check": check}
    body = [
        *(["check(arguments)"] if check is not None else []),
        "slots = template.copy()",
        *[f"slots[{slot}] = x{place}" for place, slot in enumerate(slots)],
        f"return run(slots){'[0]' if gives_one else ''}",
    ]
    return _written(arguments, memory, names, [], body)


def _written(
    arguments: Sequence[Any], memory: Memory, names: dict[str, Any], first: Sequence[str], body: Sequence[str]
) -> Call | None:
    """Compiles a function that runs `first`, whose failure loses nothing, and then `body`."""
    condition = _guard(arguments, memory, names)
    if condition is None:
        return None
    names |= {"missed": MISSED, "errors": _ERRORS}
    text = "\n".join([
        "def call(arguments):",
        "    try:",
        f"        {''.join(f'x{place}, ' for place in range(len(arguments))) or '()'} = arguments",
        f"        if not ({condition}):",
        "            return missed",
        *[f"        {line}" for line in first],
        "    except errors:",
        "        return missed",
        *[f"    {line}" for line in body],
    ])  # fmt: skip
    exec(compile(text, "<a call of a program>", "exec"), names)  # only counts and a memory's own facts
    made: Call = names["call"]
    return made


def _guard(arguments: Sequence[Any], memory: Memory, names: dict[str, Any]) -> str | None:
    """Returns a condition for whether the variables `x0`, … are like these arguments: by type for numbers, by all `facts` for
    the memory's own. Adds what the condition needs to `names`."""
    owned = [place for place, argument in enumerate(arguments) if memory.owns(argument)]
    if not memory.is_plain([arguments[place] for place in owned]):
        return None
    tests = []
    for place, argument in enumerate(arguments):
        if memory.owns(argument):
            continue
        if type(argument) not in _PLAIN:
            return None
        names[f"type{place}"] = type(argument)
        tests.append(f"x{place}.__class__ is type{place}")
    if owned and memory.facts:
        try:
            tests.append(f"({_facts(arguments, owned, memory, names)})")
        except _ERRORS:
            return None
    elif memory.unguarded(names):
        tests.append("is_plain()")
    return " and ".join(tests) or "True"


def _facts(arguments: Sequence[Any], owned: Sequence[int], memory: Memory, names: dict[str, Any]) -> str:
    """Returns the memory's part of the condition, surroundings included: one combined guard if possible, else fact by fact."""
    xs = [f"x{place}" for place in owned]
    tests = []
    for place in owned:
        for number, fact in enumerate(memory.facts):
            name = f"fact{place}_{number}"
            value = getattr(arguments[place], fact.removesuffix("()"))
            names[name] = value() if fact.endswith("()") else value
            tests.append(f"x{place}.{fact} {'==' if fact in _COMPARED else 'is'} {name}")
    unguarded = memory.unguarded(names)
    asks = [f"is_plain({', '.join(xs)})"] if unguarded else []
    facts = " and ".join([*tests, *asks])
    names["same"] = memory.guard([arguments[place] for place in owned])
    if names["same"] is None:
        return facts
    nested = " or ".join(f"{x}.is_nested" for x in xs)  # torch's comparison crashes the process on one
    first = f"{unguarded} and " if unguarded else ""
    return f"{first}not ({nested}) and (same({', '.join(xs)}) or {facts})"
