"""What the analyses found of a graph, found once: graphs are frozen, so what is true of one stays true.

Results are kept in the graph object itself, and go when it goes; a copy or a pickle of a graph begins without any. Two
threads that ask at once may both work, and get the same result.

**From one graph to the next.** `leads` takes note that a pass made one graph of another. If the alias db of the graph before
is at hand, that of the graph after follows from it in time linear in the edits (`AliasDb.follow`). Types and known numbers
are handed on by passes that keep them (`PassRecord.keeps_facts`), otherwise by nodes that did not change (`infer_after`).
What followed answers as what is new; to draw the points-to graph, a new one is better, which has no classes left over from
names that are gone. Only a weak reference goes back, so that a graph keeps none that came before it: where the record is
gone, the analysis runs anew.
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
    """What `leads` wants to know of a pass."""

    @property
    def keeps_facts(self) -> bool: ...


class _Kept(dict[Hashable, Any]):
    """The results for one graph; those of a copy of it are none of theirs."""

    def __init__(self, owner: Graph | None = None) -> None:
        super().__init__()
        self.owner = None if owner is None else ref(owner)

    def __reduce__(self) -> tuple[type[_Kept], tuple[()]]:
        return _Kept, ()


def once(graph: Graph, question: Hashable, answer: Callable[[], T]) -> T:
    """The answer to a question about a graph, worked out when it is first asked.

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
    """The alias db of a graph, as `AliasDb(graph)` makes it; one that the graph's pass leads to, if there is one."""
    return once(graph, AliasDb, lambda: _followed(graph) or AliasDb(graph))


def shapes_of(graph: Graph) -> Shapes:
    """What follows from the declared types of a graph's inputs, as `infer(graph)` finds it."""
    return once(graph, Shapes, lambda: _handed_on(graph) or infer(graph))


def with_types(graph: Graph, input_types: Mapping[Value, Type]) -> Graph:
    """The graph with the types that follow from those of its inputs written into it; what was found stays known of it.

    Raises ArgumentError for a shape error that every such run must meet.
    """
    after, shapes = refined(graph, infer(graph, input_types, strict=True))
    if shapes is not None:
        once(after, Shapes, lambda: shapes)
    return after


def with_layouts(graph: Graph, layouts: Layouts) -> Graph:
    """The program as it would be if these arguments lay otherwise, with the types that follow; what was found stays known of it.

    Layouts are told as `ViewAliases(layouts=…)` takes them. Raises ArgumentError for what is no argument. What torch left out when the
    program was exported stays out: a `contiguous()` that did nothing for the example would copy here, and is not there.

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
    """Take note that a pass led from one graph to another; its edits must be complete, as those of a `Rewriter` are."""
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
