"""Changes a program's assumptions about its inputs: whether they share memory, and how they are laid out in it.

Nothing is checked here. An assumption about sharing is the caller's promise, as `distinct_inputs` of `irs.load` is. A
layout is part of an input's type, and the program then takes only arguments of that type.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from irscope.analysis.per_graph import with_types
from irscope.errors import ArgumentError
from irscope.ir import Graph, TensorType, Type, Value
from irscope.ops.typing.strides import channels_last_strides

__all__ = ["assume"]


def assume(graph: Graph, *, distinct: bool | Iterable[Value | str] | None = None, channels_last: Iterable[Value | str] = ()) -> Graph:
    """Return the graph with other assumptions; values and nodes keep their ids.

    `distinct` is True if no two inputs share memory, False if any two may (even parameters, whose storages `irs.load`
    knows), or lists the inputs that share memory with no other. `channels_last` inputs are batches of images whose channels are
    adjacent in memory; the types of other values are inferred again. Raises ArgumentError or UnknownName.

    >>> from irscope.ir.text.parser import parse
    >>> g = parse("graph(%x : Float(2, 3, 4, 5)):\\n  %y : Float(2, 3, 4, 5) = aten::relu(%x)\\n  return (%y)")
    >>> str(assume(g, channels_last=["x"]).value("y").type)
    'Float(2, 3, 4, 5, strides=[60, 1, 15, 3])'
    """
    if isinstance(distinct, bool):
        graph = replace(graph, distinct_inputs=distinct, storages=graph.storages if distinct else {})
    elif distinct is not None:
        own = [_input(graph, each) for each in ([distinct] if isinstance(distinct, str | Value) else distinct)]
        free = max(graph.storages.values(), default=-1) + 1
        graph = replace(graph, storages={**graph.storages, **{value: free + k for k, value in enumerate(own)}})
    moved = [_input(graph, each) for each in ([channels_last] if isinstance(channels_last, str | Value) else channels_last)]
    return with_types(graph, {value: _channels_last(graph, value) for value in moved}) if moved else graph


def _input(graph: Graph, named: Value | str) -> Value:
    value = graph.value(named)
    if value not in graph.inputs:
        inputs = ", ".join(f"%{graph.names[each]}" for each in graph.inputs[:6])
        raise ArgumentError(f"%{graph.names[value]} is not an input", hint=f"assumptions can be made about {inputs}")
    return value


def _channels_last(graph: Graph, value: Value) -> TensorType:
    type = value.type
    shape = _extents(type)
    if not isinstance(type, TensorType) or len(shape) not in (4, 5):
        what = f"%{graph.names[value]} is {type}, and channels-last is for batches of images (4 axes) or volumes (5) of known size"
        raise ArgumentError(what, hint="load the program with example arguments: then the sizes are known")
    return replace(type, strides=channels_last_strides(shape))


def _extents(type: Type) -> tuple[int, ...]:
    """The extents of a tensor; empty unless all are known."""
    shape = type.shape if isinstance(type, TensorType) else None
    known = tuple(dim for dim in shape or () if isinstance(dim, int))
    return known if shape is not None and len(known) == len(shape) else ()
