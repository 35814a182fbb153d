"""Analysis results cached per graph, and the assumptions about a program's inputs on which they rest."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import replace
from functools import wraps
from typing import Any, TypeVar, cast
from weakref import ref

from irscope.analysis.alias import AliasDb
from irscope.analysis.alias.points_to import Record
from irscope.analysis.shapes import Shapes, infer, infer_after, refined
from irscope.analysis.views import ViewAliases
from irscope.errors import ArgumentError
from irscope.ir import Graph, TensorType, Type, Value
from irscope.ops.type_rules import channels_last_strides, static_shape

# Analysis results cached per graph: graphs are frozen, so a result never becomes stale.
#
# Results are kept in the graph object itself and die with it; a copy or a pickle of a graph starts without any. Two
# threads that ask at the same time may both compute a result, and get the same one.
#
# **From one graph to the next.** `leads` records that a pass turned one graph into another. If the alias db of the graph before
# exists, the db of the graph after is derived from it in time linear in the edits (`AliasDb.follow`). Types and known numbers
# are carried over whole by passes that keep them (`PassRecord.keeps_facts`), and otherwise for the nodes that did not change
# (`infer_after`). A derived db answers as a new one does; for drawing the points-to graph a new one is better, since it has no
# classes left over from names that no longer exist. The reference to the record is weak, so that a graph keeps no earlier graph
# alive: once the record is gone, the analysis runs from scratch.

T = TypeVar("T")


class _Kept(dict[Hashable, Any]):
    """The results for one graph; a copy of the graph does not share them."""

    def __init__(self, owner: Graph | None = None) -> None:
        super().__init__()
        self.owner = None if owner is None else ref(owner)

    def __reduce__(self) -> "tuple[type[_Kept], tuple[()]]":
        return _Kept, ()


def once(graph: Graph, question: Hashable, answer: Callable[[], T]) -> T:
    """The answer to a question about a graph, computed when it is first asked."""
    known = _kept(graph)
    if question in known:
        return cast(T, known[question])
    return cast(T, known.setdefault(question, answer()))


def per_graph(function: Callable[[Graph], T]) -> Callable[[Graph], T]:
    """Decorates a function of a graph that is computed when it is first asked."""

    @wraps(function)
    def kept(graph: Graph) -> T:
        return once(graph, function, lambda: function(graph))

    return kept


def alias_db_of(graph: Graph) -> AliasDb:
    """The alias db of a graph, equivalent to `AliasDb(graph)`; derived from the db before the graph's pass, if there is one."""
    return once(graph, AliasDb, lambda: _followed(graph) or AliasDb(graph))


def shapes_of(graph: Graph) -> Shapes:
    """The shapes inferred from the declared types of a graph's inputs, as `infer(graph)` returns them."""
    return once(graph, Shapes, lambda: _handed_on(graph) or infer(graph))


def views_of(graph: Graph) -> ViewAliases:
    """The buffer and layout of each tensor, by the types that `shapes_of` infers."""
    return once(graph, ViewAliases, lambda: ViewAliases(graph, shapes_of(graph)))


def with_types(graph: Graph, input_types: Mapping[Value, Type]) -> Graph:
    """The graph with the types inferred from these input types written into it; the inference result is cached for it.

    Raises ArgumentError for a shape error that occurs in every such run.
    """
    after, shapes = refined(graph, infer(graph, input_types, strict=True))
    if shapes is not None:
        once(after, Shapes, lambda: shapes)
    return after


def leads(record: Record) -> None:
    """Record that a pass turned one graph into another; its edits must be complete, as those of a `Rewriter` are."""
    if record.after is not record.before:
        _kept(record.after)[leads] = ref(record)


def _kept(graph: Graph) -> _Kept:
    found: _Kept | None = vars(graph).get("_kept")
    if found is not None and found.owner is not None and found.owner() is graph:
        return found
    if found is not None:
        vars(graph).pop("_kept", None)
    fresh: _Kept = vars(graph).setdefault("_kept", _Kept(graph))
    return fresh


def _lead_to(graph: Graph) -> Record | None:
    reference = _kept(graph).get(leads)
    return None if reference is None else reference()


def _followed(graph: Graph) -> AliasDb | None:
    lead = _lead_to(graph)
    db = None if lead is None else _kept(lead.before).get(AliasDb)
    return None if lead is None or db is None else db.follow(lead)


def _handed_on(graph: Graph) -> Shapes | None:
    lead, keeps = _lead_to(graph), True
    while lead is not None:
        keeps = keeps and lead.keeps_facts
        shapes = _kept(lead.before).get(Shapes)
        if shapes is not None:
            return replace(shapes, graph=graph) if keeps else infer_after(shapes, graph)
        lead = _lead_to(lead.before)
    return None


# Changes a program's assumptions about its inputs: whether they share memory, and how they are laid out in it.
#
# Nothing is checked here. An assumption about sharing is the caller's promise, as `distinct_inputs` of `irs.load` is. A
# layout is part of an input's type, and the program then takes only arguments of that type.


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
    shape = static_shape(type)
    if not isinstance(type, TensorType) or shape is None or len(shape) not in (4, 5):
        what = f"%{graph.names[value]} is {type}, and channels-last is for batches of images (4 axes) or volumes (5) of known size"
        raise ArgumentError(what, hint="load the program with example arguments: then the sizes are known")
    return replace(type, strides=channels_last_strides(shape))
