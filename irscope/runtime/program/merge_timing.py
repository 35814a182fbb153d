"""The measured cost of a shared body to its members: a group with its own kernel against the same group with the shared one.

Both are compiled as separate programs and called in turns on the same random operands, of the types that the group
expects. The fastest turns of each are compared, since other work on the machine disturbs them least.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from irscope.errors import IrscopeError
from irscope.ir import Block, Graph, Node, TensorType, new_id
from irscope.runtime.arrays import extents
from irscope.runtime.timer import measure

__all__ = ["group_alone", "merge_slowdown", "operand_like"]

Compile = Callable[[Graph], Callable[..., Any]]
_MEMBERS = 3
"""Members of a class that are timed: the first, the last and the middle one."""
_TURNS = 60


def merge_slowdown(before: Graph, after: Graph, groups: Sequence[Node], compiled: Compile) -> float | None:
    """Returns how much longer the groups of a class run after merging, as a fraction of their time.

    None where it cannot be measured, because types are unknown or there is no kernel. `after` is the graph in which the
    class's body computes the results of the groups.
    """
    chosen = {id(groups[at]): groups[at] for at in (0, len(groups) // 2, -1)[:_MEMBERS]}
    own = together = 0.0
    for group in chosen.values():
        arguments = [operand_like(value.type, seed) for seed, value in enumerate(group.inputs)]
        if any(argument is None for argument in arguments):
            return None
        try:
            programs = [compiled(group_alone(graph, group)) for graph in (before, after)]
            runs = {name: partial(run, *arguments) for name, run in zip(("own", "class"), programs, strict=True)}
            taken = measure(runs, turns=_TURNS, patience=2.0)
        except IrscopeError:
            return None
        own += min(taken["own"].seconds)
        together += min(taken["class"].seconds)
    return together / own - 1


def group_alone(graph: Graph, group: Node) -> Graph:
    """Returns the node that computes a group's results, with the numbers passed to it, as a graph over the group's operands."""
    node = graph.producer[group.outputs[0]]
    outside = set(group.inputs)
    made = [graph.producer[value] for value in dict.fromkeys(node.inputs) if value not in outside]
    return Graph(Block(new_id(), group.inputs, (*made, node), node.outputs), graph.name)


def operand_like(type: Any, seed: int, dtype: str = "") -> np.ndarray[Any, Any] | float | None:
    """Returns a random value of a type, with its strides, or of another element type; None where the type is incomplete."""
    random = np.random.default_rng(seed)
    if not isinstance(type, TensorType) or not type.is_static or type.dtype is None:
        return {"float": 0.5, "int": 3}.get(str(type))
    try:
        wanted = np.dtype(dtype or type.dtype)
    except TypeError:  # a type that NumPy lacks
        return None
    shape = extents(type)
    values = (random.uniform(0.1, 1.0, shape) if wanted.kind in "fc" else random.integers(0, 2, shape)).astype(wanted)
    if type.strides is None or not values.size:
        return values
    last = sum((size - 1) * step for size, step in zip(shape, type.strides, strict=True))
    steps = [step * wanted.itemsize for step in type.strides]
    made = np.lib.stride_tricks.as_strided(np.zeros(last + 1, wanted), shape, steps)
    made[...] = values
    return made
