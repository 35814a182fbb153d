"""Analysis results cached per graph: graphs are frozen, so a result never becomes stale.

Results are kept in the graph object itself and die with it; a copy or a pickle of a graph starts without any. Two
threads that ask at the same time may both compute a result, and get the same one.

**From one graph to the next.** `leads` records that a pass turned one graph into another. If the alias db of the graph before
exists, the db of the graph after is derived from it in time linear in the edits (`AliasDb.follow`). Types and known numbers
are carried over whole by passes that keep them (`PassRecord.keeps_facts`), and otherwise for the nodes that did not change
(`infer_after`). A derived db answers as a new one does; for drawing the points-to graph a new one is better, since it has no
classes left over from names that no longer exist. The reference to the record is weak, so that a graph keeps no earlier graph
alive: once the record is gone, the analysis runs from scratch.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import Any, Protocol, TypeVar, cast
from weakref import ref

from irscope.analysis.alias.incremental import Record
from irscope.analysis.alias.query import AliasDb
from irscope.analysis.shapes import Shapes, infer, infer_after, refined
from irscope.analysis.views import Layouts, demands_of, with_strides_of
from irscope.ir import Graph, Type, Value

__all__ = ["alias_db_of", "leads", "once", "shapes_of", "with_layouts", "with_types"]

T = TypeVar("T")


class _Lead(Record, Protocol):
    """The part of a pass's record that `leads` uses."""

    @property
    def keeps_facts(self) -> bool: ...


class _Kept(dict[Hashable, Any]):
    """The results for one graph; a copy of the graph does not share them."""

    def __init__(self, owner: Graph | None = None) -> None:
        super().__init__()
        self.owner = None if owner is None else ref(owner)

    def __reduce__(self) -> tuple[type[_Kept], tuple[()]]:
        return _Kept, ()


def once(graph: Graph, question: Hashable, answer: Callable[[], T]) -> T:
    """The answer to a question about a graph, computed when it is first asked.

    >>> from irscope.ir.text.parser import parse
    >>> g = parse("graph(%x : Tensor):\\n  return (%x)")
    >>> once(g, "inputs", lambda: len(g.inputs)), once(g, "inputs", lambda: None)
    (1, 1)
    """
    known = _kept(graph)
    if question in known:
        return cast(T, known[question])
    return cast(T, known.setdefault(question, answer()))


def alias_db_of(graph: Graph) -> AliasDb:
    """The alias db of a graph, equivalent to `AliasDb(graph)`; derived from the db before the graph's pass, if there is one."""
    return once(graph, AliasDb, lambda: _followed(graph) or AliasDb(graph))


def shapes_of(graph: Graph) -> Shapes:
    """The shapes inferred from the declared types of a graph's inputs, as `infer(graph)` returns them."""
    return once(graph, Shapes, lambda: _handed_on(graph) or infer(graph))


def with_types(graph: Graph, input_types: Mapping[Value, Type]) -> Graph:
    """The graph with the types inferred from these input types written into it; the inference result is cached for it.

    Raises ArgumentError for a shape error that occurs in every such run.
    """
    after, shapes = refined(graph, infer(graph, input_types, strict=True))
    if shapes is not None:
        once(after, Shapes, lambda: shapes)
    return after


def with_layouts(graph: Graph, layouts: Layouts) -> Graph:
    """The program for other layouts of these arguments, with the types that follow; the inference result is cached for it.

    Layouts are given as to `ViewAliases(layouts=…)`. Raises ArgumentError for a name that is not an argument. Ops that torch dropped
    when it exported the program stay dropped: a `contiguous()` that did nothing for the example would copy here, and is missing.

    >>> from irscope.ir.text.parser import parse
    >>> g = parse('''graph(%x : Float(2, 3, 4, 5, strides=[60, 20, 5, 1])):
    ...   %y : Float(2, 3, 4, 5, strides=[60, 20, 5, 1]) = aten::exp(%x)
    ...   return (%y)''')
    >>> print(with_layouts(g, {"x": "channels_last"}))
    graph(%x : Float(2, 3, 4, 5, strides=[60, 1, 15, 3])):
      %y : Float(2, 3, 4, 5, strides=[60, 1, 15, 3]) = aten::exp(%x)
      return (%y)
    """
    after, shapes = with_strides_of(graph, demands_of(graph, layouts, shapes_of(graph)))
    once(after, Shapes, lambda: shapes)
    return after


def leads(record: _Lead) -> None:
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


def _lead_to(graph: Graph) -> _Lead | None:
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
