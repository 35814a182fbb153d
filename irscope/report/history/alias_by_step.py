"""What may share memory in any state of a history, in terms of its last graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache

from irscope._base.verdict import Verdict
from irscope.analysis.alias import AliasDb
from irscope.ir import Graph, Value
from irscope.report.panes import AliasViews
from irscope.report.value_names import Renaming, names_in
from irscope.report.view_models import AliasDetail
from irscope.transforms.history import History

__all__ = ["AliasSteps", "stands_for"]

_MOST_STATES = 8
"""The number of alias dbs to keep: stepping back and forth asks about the same few states."""


_State = tuple[
    AliasViews, Mapping[int, int], Mapping[int, Value], Renaming, dict[int, tuple[list[int], list[int]]]
]
"""The views of a state; ids mapped to the ids they stand for; values by id; names; alias sets in ids of the last graph, by identity."""


class AliasSteps:
    """Alias details of the values of a history, state by state.

    Each state has its own graph and alias db. A value inside a fusion group may stand for an input or a result of the
    group; in a state where the group does not exist, or is smaller, the value it stands for is used.
    """

    def __init__(self, history: History) -> None:
        self._history = history
        self._at = lru_cache(maxsize=_MOST_STATES)(self._made)
        self._seen_of: dict[int, tuple[list[int], frozenset[int]]] = {}
        """Keyed by the `id` of a list, which is kept alive in the entry."""

    def detail(self, value: Value, state: int) -> AliasDetail | None:
        """The alias detail, in a state, of a value of the last graph; None if it does not exist there or has no memory."""
        views, meant, by_id, rename, renamed = self._at(state)
        here = by_id.get(value.id) or by_id.get(self._outside.get(value.id, 0))
        found = views.detail(here) if here is not None else None
        if found is None:
            return None
        points = found["points_to"]
        points["labels"] = [rename(label) for label in points["labels"]]
        points["records"] = [meant.get(id, id) for id in points["records"]]
        ids = found["alias_set"]
        if id(ids) not in renamed:  # all values that share memory have one list, and usually all of them are asked about
            renamed[id(ids)] = ids, _once(meant.get(other, other) for other in ids)
        return AliasDetail(
            summary=rename(found["summary"]), alias_set=renamed[id(ids)][1], writers=found["writers"], points_to=points,
        )  # fmt: skip

    def pair(self, a: Value | None, b: Value | None, state: int) -> Verdict | None:
        """Whether two values may share memory in a state; None if one of them does not exist there or has no memory."""
        views, _, by_id, rename, _ = self._at(state)
        first, second = (by_id.get(value.id) or by_id.get(self._outside.get(value.id, 0)) if value else None for value in (a, b))
        if first is None or second is None:
            return None
        verdict = views.db.explain(first, second)
        return Verdict(verdict.holds, rename(verdict.because), verdict.witness)

    def visible(self, alias: AliasDetail) -> tuple[frozenset[int], frozenset[int]]:
        """The values and writers of a detail that exist in the last graph and so can be shown there, one id each."""
        return self._seen(alias["alias_set"], self._outside), self._seen(alias["writers"], {})

    def _seen(self, ids: list[int], outside: Mapping[int, int]) -> frozenset[int]:
        known = self._seen_of.get(id(ids))
        if known is None:
            known = ids, frozenset(outside.get(other, other) for other in ids if other in self._last)
            self._seen_of[id(ids)] = known
        return known[1]

    @cached_property
    def _last(self) -> frozenset[int]:
        graph = self._history.final
        return frozenset([*(value.id for value in graph.values()), *(node.id for node in graph.nodes())])

    def _made(self, state: int) -> _State:
        graph = self._history.graph_after(state)
        kept = {value.id for value in self._history.final.values()}
        meant = {id: other for id, other in stands_for(graph).items() if id not in kept}
        by_id = {value.id: value for value in graph.values()}
        called = {id: self._names.get(meant.get(id, id), "") or graph.names[value] for id, value in by_id.items()}
        return AliasViews(AliasDb(graph)), meant, by_id, Renaming(graph, called), {}

    @cached_property
    def _names(self) -> Mapping[int, str]:
        return {value.id: name for value, name in names_in(self._history).items()}

    @cached_property
    def _outside(self) -> Mapping[int, int]:
        return stands_for(self._history.final)


def stands_for(graph: Graph) -> dict[int, int]:
    """Maps each value inside a fusion group that is an input or result of the group to that input or result.

    >>> import irscope as irs
    >>> f = irs.fuse(irs.parse('''graph(%x : Tensor):
    ...   %a : Tensor = aten::relu(%x)
    ...   %b : Tensor = aten::tanh(%a)
    ...   return (%b)'''))
    >>> {f.graph.value(name).id for name in ("x", "b")} == set(stands_for(f.graph).values())
    True
    """
    found: dict[int, int] = {}
    for node in graph.nodes():
        if node.op.endswith("Group") and len(node.blocks) == 1:
            (block,) = node.blocks
            found.update((a.id, b.id) for a, b in zip(block.params, node.inputs, strict=True) if a is not b)
            found.update((a.id, b.id) for a, b in zip(block.returns, node.outputs, strict=True) if a is not b)
    return found


def _once(ids: Iterable[int]) -> list[int]:
    return list(dict.fromkeys(ids))
