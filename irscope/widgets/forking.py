"""An explorer whose timeline has branches: alternative fusions, and the program after an edit of its text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import traitlets

from irscope._base.escaping import in_script
from irscope.errors import ArgumentError, IrscopeError, ParseError
from irscope.report.view_models import EditTrouble
from irscope.widgets.hub import View

if TYPE_CHECKING:
    import pandas as pd

    from irscope.report.pages import Branch, Branches, Exploration
    from irscope.transforms.fusion import Named, Score

__all__ = ["Forking"]


class Forking(View):
    """The part of an explorer that manages the branches of its timeline."""

    branch = traitlets.Any(0)
    """The branch that is shown; 0 is the program as given. May be set to a `Branch` of `e.branches` or its number."""
    branches_view = traitlets.Bytes().tag(sync=True)
    """The view of the branches as JSON text; empty if there can be none."""

    _tree: Branches | None = None
    _draft: str | None = None
    """An edited text that is not a valid program yet."""
    _bound_to: Callable[[Any], object] | None = None
    """Called with the program as written, after each edit that changes it."""

    def _show(self, exploration: Exploration) -> None:
        """Replace the program shown."""
        raise NotImplementedError

    def _grow(self, exploration: Exploration) -> None:
        """Start with one branch."""
        from irscope.report.pages import Branches

        self._tree = Branches(exploration)
        self._tell()

    @property
    def branches(self) -> Branches:
        """The branches so far, starting with the program as given: `e.branches[1].fusion`, `print(e.branches.code(1))`. Raises
        ArgumentError if the explorer does not show a program of this process."""
        if self._tree is None:
            raise ArgumentError("this explorer has no branches", hint="irs.explore(program) has")
        return self._tree

    def what_if(
        self, *, step: int | None = None, policy: str | Score | None = None, forbid: Iterable[Iterable[Named]] = (),
        force: Iterable[Iterable[Named]] = (), opaque: Iterable[Named] = (), distinct: bool | Iterable[str] | None = None,
        channels_last: Iterable[str] = (),
    ) -> Branch:  # fmt: skip
        """Fuse the program shown with other wishes, as a new branch of the timeline, and show it.

        Takes the arguments of `Fusion.what_if`: merges to forbid or force, another policy, ops to leave to the library,
        inputs that share no memory or are in channels-last layout. With a `step` of the history, merges up to that step are
        kept. `e.compare_branches()` compares the costs of the branches; `e.branch = 0` returns to the first. Merges that
        would be wrong are not done, and the branch's `refused` says why.
        """
        given = {
            "step": step, "policy": policy, "forbid": list(forbid), "force": list(force), "opaque": opaque, "distinct": distinct,
            "channels_last": channels_last,
        }  # fmt: skip
        made = self.branches.what_if(self.branch, **given)
        self.branch = len(self.branches) - 1
        return made

    def edit(self, text: str) -> Branch:
        """Replace the text of the program as written: creates an edited branch, which further edits update.

        Raises ParseError or VerifyError, and then changes nothing.
        """
        made = self.branches.edited(self.branch, text)
        index = self.branches.index_of(made)
        if index == self.branch:
            self._show(made.exploration)
            self._tell()
        self.branch = index
        if self._bound_to is not None:
            self._bound_to(made.fusion.original)
        return made

    def edits_into(self, told: Callable[[Any], object] | None = None) -> None:
        """Start with the editor open; `told` is called with each edited graph."""
        self._bound_to, self.branches.edits = told, True
        self._tell()

    def compare_branches(self, *args: Any, measure: bool | None = None, seconds: float = 2.0) -> pd.DataFrame:
        """The cost of each branch: kernels, library calls, bytes, and their time at 20 GB/s.

        With arguments, or with `measure=True` and those given to `explore`, a call of each is timed as well, alternating.
        """
        if args or measure:
            self.branches.measure(*args, seconds=seconds)
            self._tell()
        return self.branches.table()

    @traitlets.validate("branch")  # type: ignore[untyped-decorator]
    def _branch_of(self, proposal: Mapping[str, Any]) -> int:
        """Raises ArgumentError for an unknown branch."""
        return self.branches.index_of(proposal["value"])

    @traitlets.observe("branch")  # type: ignore[untyped-decorator]
    def _branch_changed(self, change: Mapping[str, Any]) -> None:
        self._show(self.branches[change["new"]].exploration)
        self._tell()

    def _tell(self) -> None:
        """Send the branches to the page."""
        self.branches_view = in_script(self.branches.view(self.branch)).encode()

    # -- requests of the page -------------------------------------------------------------------------------------------------

    def _branch_questions(self) -> dict[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]]:
        """The handlers of a page's requests about branches, by kind."""
        return {
            "what_if": self._asked_what_if, "branch": self._asked_branch, "measure_branches": self._asked_measure,
            "branch_diff": self._asked_diff, "edit": self._asked_edit,
            "written": lambda ask: {"text": self._written()},
        }  # fmt: skip

    def _asked_what_if(self, ask: Mapping[str, Any]) -> Mapping[str, Any]:
        from irscope.report.pages.branches import changes_of

        changes = changes_of(ask["change"], self.branches[self.branch].exploration.records_of)
        return {"refused": list(self.what_if(**changes).refused)}

    def _asked_branch(self, ask: Mapping[str, Any]) -> Mapping[str, Any]:
        self.branch = int(ask["index"])
        return {}

    def _asked_measure(self, ask: Mapping[str, Any]) -> Mapping[str, Any]:
        self.compare_branches(measure=True)
        return {}

    def _asked_diff(self, ask: Mapping[str, Any]) -> Mapping[str, Any]:
        from irscope.report.pages.branches import branch_diff

        return {"diff": branch_diff(self.branches[int(ask["first"])], self.branches[int(ask["second"])])}

    def _asked_edit(self, ask: Mapping[str, Any]) -> Mapping[str, Any]:
        self._draft = text = str(ask["text"])
        try:
            self.edit(text)
        except IrscopeError as error:
            at = (error.line, error.column) if isinstance(error, ParseError) else (0, 0)
            return {"trouble": EditTrouble(message=error.what, hint=error.hint, line=at[0], column=at[1])}
        self._draft = None
        return {"trouble": None}

    def _written(self) -> str:
        """The last edited text if it is not a valid program yet, otherwise the program as written."""
        shown = self.branches[self.branch]
        return self._draft or shown.text or str(shown.fusion.original)
