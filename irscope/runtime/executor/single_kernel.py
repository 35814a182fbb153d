"""The short way through a program that is one kernel.

A call of a kernel takes a microsecond, and checking arguments, choosing a library and walking the program several more.
For a program that is nothing but one fusion group over its own inputs, all that depends on the arguments' types and
layouts alone. The first call goes the long way; what it found out is kept by a signature of the arguments, and a later
call with the same signature goes straight to the kernel. For the signature that was learned last, a call is written out.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final

from irscope.ir import Graph, Node
from irscope.runtime.arrays import Memory
from irscope.runtime.executor.bound_program import BoundProgram
from irscope.runtime.executor.guarded_call import Call, written_call
from irscope.runtime.executor.kernel_calls import BoundPlan, GroupKernels

__all__ = ["DirectCall", "direct_call"]

_MOST: Final = 256
"""Signatures kept; when there are more, all are forgotten and learned again."""


class DirectCall:
    """What is known of calls with arguments seen before; safe to call from many threads."""

    def __init__(self, group: GroupKernels, inputs: int, reads: tuple[int, ...], gives: tuple[int, ...]) -> None:
        """`reads`: the argument behind each operand of the group; `gives`: its result behind each of the program's."""
        self.group = group
        self.reads = reads
        self.gives = gives
        self.in_order = reads == tuple(range(inputs))
        self.memory: Memory | None = None
        """Which makes signatures; None until something has been learned."""
        self.known: dict[Hashable, Callable[[Sequence[Any]], Any]] = {}
        """What runs the program on arguments of a signature."""
        self.quick: Call = _never
        """Runs it on arguments of the signature that was learned last."""

    def learn(self, arguments: Sequence[Any], programs: Mapping[str, BoundProgram]) -> None:
        """Keep what a run has just found out: these arguments are right, and a kernel takes them."""
        owner = next((made.memory for made in programs.values() if all(map(made.memory.owns, arguments))), None)
        if owner is None or not owner.is_plain(arguments) or (self.memory is not None and owner is not self.memory):
            return
        ready = self.group.ready([arguments[index] for index in self.reads], owner)
        if ready is None:
            return
        if len(self.known) >= _MOST:
            self.known = {}
        self.known[owner.signature(arguments)] = self._runner(ready, owner)
        self.memory = owner
        if owner.facts and arguments and ready.makers:
            self.quick = written_call(arguments, self.reads, self.gives, ready, owner)

    def _runner(self, ready: BoundPlan, memory: Memory) -> Callable[[Sequence[Any]], Any]:
        address, addresses, plan, make = memory.address, memory.addresses, ready.plan, ready.make
        reads = None if self.in_order else self.reads

        def one(arguments: Sequence[Any]) -> Any:
            output: Any = make()
            operands = arguments if reads is None else [arguments[index] for index in reads]
            plan((address(output),), addresses(operands))
            return output

        def several(arguments: Sequence[Any]) -> Any:
            outputs: list[Any] = [make() for make in ready.makers]
            operands = [arguments[index] for index in self.reads]
            plan([address(output) for output in outputs], addresses(operands))
            return tuple([outputs[index] for index in self.gives])

        return one if len(ready.makers) == 1 and self.gives == (0,) else several


def _never(arguments: Sequence[Any]) -> Any:
    return None


def direct_call(graph: Graph, groups: Mapping[Node, GroupKernels]) -> DirectCall | None:
    """The short way through a program, if it is one group of its inputs and gives only the group's results."""
    nodes = [node for node in graph.body.nodes if node.op != "prim::Constant"]
    if len(nodes) != 1 or nodes[0] not in groups or graph.bound:
        return None
    (node,) = nodes
    places = {value: index for index, value in enumerate(graph.inputs)}
    results = {value: index for index, value in enumerate(node.outputs)}
    if not all(value in places for value in node.inputs) or not all(value in results for value in graph.body.returns):
        return None
    if len(graph.body.returns) == 1 and len(node.outputs) != 1:
        return None
    reads, gives = tuple(places[value] for value in node.inputs), tuple(results[value] for value in graph.body.returns)
    return DirectCall(groups[node], len(places), reads, gives)
