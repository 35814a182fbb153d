"""Precomputed answers for a page without a kernel; what many answers share is stored once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from irscope.report.history import AliasSteps, lifetimes
from irscope.report.view_models import AliasDetail, Detail, EarlierAlias, TextView, TimelineView
from irscope.transforms.history import History

__all__ = ["stored_details"]

_FEW = 60
"""The most writers that a detail holds inline."""


def stored_details(
    text: TextView, timeline: TimelineView | None, details: Iterable[Detail], history: History
) -> tuple[dict[int, Detail], list[list[int]]]:
    """The `details` and `alias_sets` of a view: the answers about every record. Those of earlier states go into its timeline."""
    stored = StoredDetails(text, details)
    if timeline is not None:
        timeline["earlier_aliases"] = [
            EarlierAlias(value=value, alias=stored.shared(alias), until=until)
            for value, alias, until in _earlier_aliases(history)
        ]
    return stored.details, stored.alias_sets


def _earlier_aliases(history: History) -> Iterator[tuple[int, AliasDetail, int]]:
    """The alias details of earlier states, for values whose details a later pass changed."""
    steps = AliasSteps(history)
    ends = [stretch for stretch in lifetimes(history) if stretch.steps and stretch.record.after_merges is None]
    for stretch in ends:
        for value in stretch.record.before.values():
            if value in history.final.names:
                before, after = (steps.detail(value, state) for state in (stretch.first, stretch.last))
                if before is not None and (after is None or steps.visible(before) != steps.visible(after)):
                    yield value.id, before, stretch.last


class StoredDetails:
    """Details by id, with shared alias sets stored once.

    Any two inputs may be the same tensor unless known otherwise: 300 parameters have one alias set of 300.
    """

    def __init__(self, text: TextView, details: Iterable[Detail]) -> None:
        self.alias_sets: list[list[int]] = []
        """Alias sets and sets of writers, by number."""
        self._number: dict[tuple[int, ...], int] = {}
        self._known: dict[int, tuple[list[int], int]] = {}
        """The number of a list by its `id`; the list is kept alive so that the `id` is not reused."""
        printed = {line.strip() for line in text["lines"]}
        self.details = {detail["id"]: self._stored(detail, printed) for detail in details}

    def _stored(self, detail: Detail, printed: set[str]) -> Detail:
        if detail["text"] in printed:
            detail["text"] = ""
        if detail["alias"] is not None:
            detail["alias"] = self.shared(detail["alias"])
        return detail

    def shared(self, alias: AliasDetail) -> AliasDetail:
        """An alias detail whose set and writers are replaced by numbers of shared ones."""
        writers = alias["writers"]
        stored = AliasDetail(
            summary=alias["summary"], alias_set=[], shared_set=self._numbered(alias["alias_set"]), writers=writers,
            points_to=alias["points_to"],
        )  # fmt: skip
        if len(writers) > _FEW:
            stored |= {"writers": [], "shared_writers": self._numbered(writers)}
        return stored

    def _numbered(self, ids: list[int]) -> int:
        known = self._known.get(id(ids))
        if known is not None:
            return known[1]
        number = self._number.setdefault(tuple(sorted(ids)), len(self.alias_sets))
        if number == len(self.alias_sets):
            self.alias_sets.append(ids)
        self._known[id(ids)] = ids, number
        return number
