"""Details for a page without a kernel: every answer ahead, and what many answers share told once."""

from __future__ import annotations

from collections.abc import Iterable

from irscope.report.view_models import AliasDetail, Detail, TextView

__all__ = ["StoredDetails"]


class StoredDetails:
    """Details by id, with the alias sets that they share.

    Two inputs of a model may be the same tensor as far as anybody knows: each of 300 parameters has the same 300 others.
    """

    def __init__(self, text: TextView, details: Iterable[Detail]) -> None:
        self.alias_sets: list[list[int]] = []
        """Alias sets by number."""
        self._number: dict[tuple[int, ...], int] = {}
        printed = {line.strip() for line in text["lines"]}
        self.details = {detail["id"]: self._stored(detail, printed) for detail in details}

    def _stored(self, detail: Detail, printed: set[str]) -> Detail:
        if detail["text"] in printed:
            detail["text"] = ""
        alias = detail["alias"]
        if alias is not None:
            key = tuple(sorted(alias["alias_set"]))
            number = self._number.setdefault(key, len(self.alias_sets))
            if number == len(self.alias_sets):
                self.alias_sets.append(alias["alias_set"])
            detail["alias"] = AliasDetail(
                summary=alias["summary"], alias_set=[], shared_set=number, writers=alias["writers"],
                points_to=alias["points_to"],
            )  # fmt: skip
        return detail
