"""The program for another layout of an argument: channels last instead of row by row, or any order of its axes.

The types of the arguments are changed, and the types of all values that may depend on them lose their strides: loaded programs
record the layouts of the run that they were exported from. Only what then follows from the ops' type rules is claimed.

**Dependent values** are all results of nodes that use such a value, directly or in a block. If a tensor could bypass this, in a
list that some node writes or through an unknown op, the types of all results lose their strides.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from irscope.analysis.shapes import Shapes, infer, refined, retyped
from irscope.errors import ArgumentError
from irscope.ir import Graph, ListType, Node, OptionalType, TensorType, Type, Value, with_inner
from irscope.ops.registry import effect_of
from irscope.ops.view_steps import Layout, memory_order, row_major

# A layout that a value must have, demanded by a caller, a kernel or a user.


@dataclass(frozen=True, slots=True)
class Demand:
    """The order of the axes in memory, the slowest first, and a flag for each in that order.

    A flag is True (the next index is just past everything that the axes after it cover), False (it may be further away), or None
    (the axis has one index, or all its indices are the same elements). A demand that allows gaps is also met without them.
    """

    order: tuple[int, ...]
    contiguity: tuple[bool | None, ...]

    def is_met(self, layout: Layout) -> bool:
        """Whether a layout meets the demand; axes of one index never matter."""
        shape, strides = layout.shape, layout.strides
        if strides is None or len(shape) != len(self.order):
            return False
        flag = dict(zip(self.order, self.contiguity, strict=True))
        moving = [axis for axis in self.order if shape[axis] != 1 and not (flag[axis] is None and strides[axis] == 0)]
        inner = [axis for axis in layout.order if axis in moving]
        if [axis for axis in moving if strides[axis] != 0] != [axis for axis in inner if strides[axis] != 0]:
            return False
        past: object = 1
        for axis in reversed(moving):
            if flag[axis] is True and strides[axis] != past:
                return False
            past = strides[axis] * shape[axis]
        return True

    def layout(self, like: Layout) -> Layout:
        """The dense layout with the extents of `like` that meets the demand."""
        strides = row_major([like.shape[axis] for axis in self.order])
        back = tuple(strides[self.order.index(axis)] for axis in range(len(self.order)))
        return Layout(like.shape, back, 0, like.dtype)


def as_demand(given: Demand | Sequence[int] | str, rank: int) -> Demand:
    """A demand for a dense layout from an order of the axes or `"rows"`, `"columns"` or `"channels_last"`; a `Demand` as it is.

    >>> as_demand("channels_last", 4).order, as_demand("columns", 3).order
    ((0, 2, 3, 1), (2, 1, 0))
    """
    if isinstance(given, Demand):
        return given
    if isinstance(given, str):
        if given not in ("rows", "columns", "channels_last") or (given == "channels_last" and rank not in (4, 5)):
            raise ArgumentError(
                f"{given!r} is not a layout of a tensor of {rank} axes",
                hint="'rows', 'columns', 'channels_last' (rank 4 or 5), or the axes in memory order",
            )
        order = tuple(range(rank))[::-1] if given == "columns" else memory_order(2 * (given == "channels_last"), rank)
    else:
        order = tuple(given)
    if sorted(order) != list(range(rank)):
        raise ArgumentError(f"{order} does not name each of {rank} axes once", hint="give the axes in memory order, the slowest first")
    return Demand(order, (True,) * rank)


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
    return with_new_strides(graph, {value: _laid_out_as(value.type, demand) for value, demand in demands.items()})


def with_new_strides(graph: Graph, types: Mapping[Value, Type], *, strict: bool = False) -> tuple[Graph, Shapes]:
    """The graph with these types, and those inferred from them instead of the recorded ones, and its inferred shapes.

    With `strict` raises ArgumentError for a shape error that then occurs in every run.
    """
    lost = {value: _without_strides(value.type) for value in following(graph, types.keys())}
    before = retyped(graph, lost | dict(types))
    shapes = infer(before, strict=strict)
    after, known = refined(before, shapes)
    return after, known or infer(after)


def _laid_out_as(type: Type, demand: Demand) -> Type:
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
        effects = ((inner, effect_of(inner)) for inner, _, _ in inside if not inner.blocks)
        # an operand may be reached through a list or an unknown op, so that nodes that do not name it may return it
        if any(e == "opaque" or (e == "in-place" and any(isinstance(v.type, ListType) for v in inner.inputs)) for inner, e in effects):
            return [value for value in graph.values() if value not in graph.inputs]
        follows.update(value for _, _, bound in inside for value in bound)
    return [value for value in graph.values() if value in follows and value not in graph.inputs]


def _inside(node: Node) -> Iterator[tuple[Node, list[Value], list[Value]]]:
    """A node and all nodes in its blocks, each with the values that it or its blocks' returns use, and those it binds."""
    for here in with_inner(node):
        read = [*here.inputs, *(value for block in here.blocks for value in block.returns)]
        yield here, read, [*here.outputs, *(value for block in here.blocks for value in block.params)]
