"""The measurements of a program: a part of its view that may arrive later than the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, TypedDict

from irscope.report.pages.exploration import Exploration
from irscope.report.pages.program_index import ProgramIndex
from irscope.report.panes import Heat, profile_view
from irscope.report.view_models import ProfileView
from irscope.runtime.profile import Profile

__all__ = ["MeasuredPart", "Measurements", "measured_part"]


class MeasuredPart(TypedDict):
    """The fields of an `ExplorerView` that hold measurements."""

    profile: ProfileView
    opens: str


def measured_part(exploration: Exploration, heat: Heat, *, whole: bool) -> MeasuredPart:
    """The profile of a program, with the heat of every box if the page holds the `whole` program."""
    profile = exploration.profile
    assert profile is not None, "there is no such part before something was measured"
    files = {node.location.file for node in exploration.graph.nodes() if node.location is not None}
    return {"profile": heat.put(profile_view(profile, exploration.records), files, whole=whole), "opens": "Time"}


class Measurements:
    """The profile an explorer shows, which may be replaced."""

    def __init__(self, exploration: Exploration, index: ProgramIndex) -> None:
        self._of = exploration
        self._index = index
        self._heat: Heat | None = None

    @cached_property
    def _boxes(self) -> list[tuple[int, int]]:
        tree = self._index.tree
        around = [tree.ids[box] if box >= 0 else 0 for box in tree.parent.tolist()]
        return list(zip(tree.ids, around, strict=True))

    def part(self, profile: Profile, *, whole: bool) -> MeasuredPart:
        """Show a profile. Raises ArgumentError for a profile of another program."""
        self._of = self._of.with_profile(profile)
        self._heat = Heat(profile, self._boxes, self._of.way)
        return measured_part(self._of, self._heat, whole=whole)

    def of(self, ids: Iterable[int]) -> dict[int, list[float]]:
        """The heat of some boxes and nodes."""
        if self._heat is None and self._of.profile is not None:
            self._heat = Heat(self._of.profile, self._boxes, self._of.way)
        return {} if self._heat is None else self._heat.of(ids)

    def answer(self, ask: Mapping[str, Any]) -> Mapping[str, Any]:
        """Answers a page's request for the heat of what it shows."""
        return {"heat": self.of([int(id) for id in ask["ids"]])}
