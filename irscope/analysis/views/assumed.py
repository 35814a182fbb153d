"""The program for another layout of an argument: channels last instead of row by row, or any order of its axes.

The types of the arguments are changed, and the types of all values that may depend on them lose their strides: loaded programs
record the layouts of the run that they were exported from. Only what then follows from the ops' type rules is claimed.

**Dependent values** are all results of nodes that use such a value, directly or in a block. If a tensor could bypass this, in a
list that some node writes or through an unknown op, the types of all results lose their strides.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from irscope.analysis.shapes import Shapes, infer, refined, retyped
from irscope.analysis.views.demand import Demand, as_demand
from irscope.errors import ArgumentError
from irscope.ir import Graph, ListType, Node, OptionalType, TensorType, Type, Value
from irscope.ops.registry import effect_of
from irscope.ops.view_steps import Layout

__all__ = ["Layouts", "demands_of", "following", "with_new_strides", "with_strides_of"]

Layouts: TypeAlias = Mapping[Value, Demand | Sequence[int] | str] | Mapping[str, Demand | Sequence[int] | str]
"""Layouts by value: the axes in memory order, the slowest first, `"rows"`, `"columns"`, `"channels_last"`, or a `Demand`."""


def demands_of(graph: Graph, given: Layouts, shapes: Shapes) -> dict[Value, Demand]:
    """The demanded layout of each of these values. Raises ArgumentError if not even the number of axes is known."""
    found: dict[Value, Demand] = {}
    for name, demand in given.items():
        value = graph.value(name)
        type = shapes.type(value)
        if isinstance(demand, Demand):
            found[value] = demand
        elif not isinstance(type, TensorType) or type.rank is None:
            raise ArgumentError(f"a layout is given for %{graph.names[value]}, whose rank is not known")
        else:
            found[value] = as_demand(demand, type.rank)
    return found


def with_strides_of(graph: Graph, demands: Mapping[Value, Demand]) -> tuple[Graph, Shapes]:
    """The graph with these layouts of inputs and the types that follow, and its inferred shapes; ids and names stay.

    Raises ArgumentError for a value that is not an input, or for a parameter, whose layout is fixed.
    """
    for value in demands:
        name = f"%{graph.names[value]}"
        if value not in graph.inputs:
            raise ArgumentError(f"{name} is not an input of the program", hint="`demands` is for values that nodes make")
        if value in graph.bound:
            raise ArgumentError(f"{name} is a parameter, whose layout is fixed", hint="change the model: model.to(memory_format=…)")
    return with_new_strides(graph, {value: _lying_so(value.type, demand) for value, demand in demands.items()})


def with_new_strides(graph: Graph, types: Mapping[Value, Type], *, strict: bool = False) -> tuple[Graph, Shapes]:
    """The graph with these types, and those inferred from them instead of the recorded ones, and its inferred shapes.

    With `strict` raises ArgumentError for a shape error that then occurs in every run.
    """
    lost = {value: _without_strides(value.type) for value in following(graph, types.keys())}
    before = retyped(graph, lost | dict(types))
    shapes = infer(before, strict=strict)
    after, known = refined(before, shapes)
    return after, known or infer(after)


def _lying_so(type: Type, demand: Demand) -> Type:
    if not isinstance(type, TensorType) or type.shape is None:
        return type
    if not all(isinstance(size, int) for size in type.shape):
        return replace(type, strides=None)
    layout = demand.layout(Layout(tuple(type.shape), None, 0, type.dtype))  # type: ignore[arg-type]
    return replace(type, strides=layout.strides)  # type: ignore[arg-type]


def _without_strides(type: Type) -> Type:
    if isinstance(type, OptionalType):
        return OptionalType(_without_strides(type.element))
    return replace(type, strides=None) if isinstance(type, TensorType) and type.strides is not None else type


def following(graph: Graph, sources: Collection[Value]) -> list[Value]:
    """All values whose layout may change with that of these, in textual order; these are included unless they are inputs."""
    follows = set(sources)
    for node in graph.body.nodes:
        if not node.blocks and follows.isdisjoint(node.inputs):
            continue
        inside = list(_inside(node))
        if all(follows.isdisjoint(read) for _, read, _ in inside):
            continue
        if any(_hides(inner) for inner, _, _ in inside):
            return [value for value in graph.values() if value not in graph.inputs]
        follows.update(value for _, _, bound in inside for value in bound)
    return [value for value in graph.values() if value in follows and value not in graph.inputs]


def _inside(node: Node) -> Iterator[tuple[Node, list[Value], list[Value]]]:
    """A node and all nodes in its blocks, each with the values that it or its blocks' returns use, and those it binds."""
    todo = [node]
    while todo:
        here = todo.pop()
        read = [*here.inputs, *(value for block in here.blocks for value in block.returns)]
        yield here, read, [*here.outputs, *(value for block in here.blocks for value in block.params)]
        todo.extend(inner for block in here.blocks for inner in block.nodes)


def _hides(node: Node) -> bool:
    """Whether an operand may come out of another node that does not use it."""
    if node.blocks:
        return False
    effect = effect_of(node)
    return effect == "opaque" or (effect == "in-place" and any(isinstance(value.type, ListType) for value in node.inputs))
