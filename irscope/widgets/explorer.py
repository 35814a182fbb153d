"""`irs.explore`: text, graph, inspector and tables of one program in one cell, with one selection, shared with Python.

The cell's output has two parts: a picture, hidden while live views are displayed, and the views. A saved notebook without
a kernel, or an untrusted one, shows the picture.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, get_args
from weakref import WeakSet

from irscope._base.concurrency.restored import without_collector
from irscope._base.escaping import in_script, one_line
from irscope.display.html import static_html
from irscope.errors import ArgumentError, MissingExtra, UnknownName
from irscope.report.pages import Exploration, Page, ProgramPage
from irscope.report.view_models import ExplorerView, PaneName
from irscope.runtime.profile import Profile
from irscope.widgets.beside import answer_beside
from irscope.widgets.forking import Forking
from irscope.widgets.hub import Hub, Runtime, View

if TYPE_CHECKING:
    from IPython.display import HTML

    from irscope.ir import Node, Value

try:
    import anywidget
    import traitlets
except ImportError as error:  # pragma: no cover - the hub raises first
    raise MissingExtra(error.name or "anywidget", extra="lab", purpose="to show linked views in a notebook") from None

__all__ = ["Explorer", "Pane"]

_LONG = 20_000
"""The size of an answer, in characters, from which it is sent as a JSON buffer beside its message, which is parsed once."""

class Explorer(Forking):
    """Linked views of one program. `selection` holds the selected ids; setting it selects in every view."""

    _given = ("view", "hub", "runtime", "measured", "branches_view")
    view = traitlets.Bytes().tag(sync=True)
    """The view model as JSON text, parsed once by the browser and by no trait."""
    hub = anywidget.WidgetTrait().tag(sync=True)
    selection = traitlets.Any()
    """Ids of the selected records. May be set to one or several ids, Values, Nodes or printed names."""
    step = traitlets.Int(0)
    """The state of the program that is shown: 0 as loaded, k after k steps of its history. Initially the last state.

    Negative numbers count from the end: -1 is the last state.
    """
    profile = traitlets.Any(None, allow_none=True)
    """A profile of the program, from `irs.profile`. It adds colours by time, bytes, memory or share of the roofline, and a Time
    table. `irs.explore(p)` starts with one; `e.profile = p` adds it later."""
    measured = traitlets.Bytes().tag(sync=True)
    """The part of the view that a profile set later adds, as JSON text."""

    _links: tuple[traitlets.link, ...] = ()
    _is_open = False
    """Whether a new profile is checked and shown."""

    def __init__(self, shown: Exploration | Page) -> None:
        self._page = page = ProgramPage(shown) if isinstance(shown, Exploration) else shown
        step, profile = page.last_step or 0, page.exploration.profile if page.exploration is not None else None
        super().__init__(view=in_script(page.view).encode(), hub=Hub(step=step), runtime=Runtime.shared(), step=step, profile=profile)
        self._is_open = True
        self.hub.checks = {"selection": self._ids_of, "step": self._state_of}
        self._links = (
            traitlets.link((self, "selection"), (self.hub, "selection")),
            traitlets.link((self, "step"), (self.hub, "step")),
        )
        self._panes: WeakSet[Pane] = WeakSet()
        self.on_msg(self._answer)
        if page.exploration is not None:
            self._grow(page.exploration)

    def close(self) -> None:
        """Remove the views from the page, including panes in other cells, and release the program and its analyses."""
        links, self._links = self._links, ()
        for link in links:
            link.unlink()
        if links:
            self.hub.checks = {}
        for widget in (*self._panes, self.hub) if links else ():
            widget.close()
        super().close()

    def _show(self, exploration: Exploration) -> None:
        """Replace the program shown; the selection is kept, by id or by name."""
        page, before, chosen = ProgramPage(exploration), self._page.exploration, list(self.selection)
        self._page = page
        if before is not None:
            self.selection = [id for one in chosen if (id := exploration.known_as(one, before)) is not None]
        self.step = page.last_step or 0
        self.view = in_script(page.view).encode()
        if self.profile is not None:
            try:
                self.measured = in_script(page.measure(self.profile)).encode()
            except ArgumentError:  # a profile of another program
                self.profile = None

    @traitlets.default("selection")  # type: ignore[untyped-decorator]
    def _nothing(self) -> list[int]:
        return []

    @traitlets.validate("selection")  # type: ignore[untyped-decorator]
    def _ids(self, proposal: Mapping[str, Any]) -> list[int]:
        """Raises UnknownName for a name that the program does not have, or an id unknown to the program and the page."""
        ids = self._ids_of(proposal["value"])
        program = self._page.exploration
        if program is not None and ids != self.hub.selection:
            unknown = [id for id in ids if id >= 0 and not program.records_of([id])]  # boxes without a record have negative ids
            if unknown:
                raise UnknownName(f"nothing in this program has the id {unknown[0]}", hint="a Value, a Node or a printed name is taken too")
        return ids

    def _ids_of(self, given: Any) -> list[int]:
        several = isinstance(given, Iterable) and not isinstance(given, str)
        return [self._page.resolve(record) for record in (given if several else [given])]

    @property
    def selected(self) -> list[Value | Node]:
        """The selection as Values and Nodes of the program shown, accepted by every query:
        `db.may_alias(*e.selected)`, `f.why_not(*e.selected)`. Raises UnknownName for an explorer without a program."""
        return self._program.records_of(self.selection)

    @property
    def _program(self) -> Exploration:
        if self._page.exploration is None:
            raise UnknownName("this explorer shows no program of this process", hint="e.selection has the ids")
        return self._page.exploration

    def select(self, query: str) -> list[Value | Node]:
        """Select the results of a query in all views, and return them: `e.select("op:conv & bytes>1e6")`.

        Terms are `op:`, `type:`, `name:`, `kind:`, `scope:`, `source:`, `line:`, `group:`, `class:`, `rule:`, `remark:` and
        `is:` (group, write, input, parameter, output, constant, block, unused) with a text; `bytes`, `rank`, `elements`, `inputs`
        and `outputs` with `<`, `>` or `=` and a number; `writes %p`, `reads %p`, `makes %p` and `alias %p`; and plain
        words, searched in printed text. Combine them by `&`, `|`, `!` and brackets. If the program shown has no result, nodes that
        passes removed are found. Raises ArgumentError or UnknownName.
        """
        found = self._program.queries.in_any_state(query)
        self.selection = found
        return found

    @traitlets.validate("step")  # type: ignore[untyped-decorator]
    def _state(self, proposal: Mapping[str, Any]) -> int:
        """Raises ArgumentError for a state that the history does not have."""
        return self._state_of(proposal["value"])

    def _state_of(self, given: Any) -> int:
        step, last = int(given), self._page.last_step
        if last is None:
            return step
        if not -last - 1 <= step <= last:
            raise ArgumentError(f"there is no step {step}", hint=f"the history has steps 0 to {last}")
        return step if step >= 0 else last + 1 + step

    @traitlets.validate("profile")  # type: ignore[untyped-decorator]
    def _profile_of_this(self, proposal: Mapping[str, Any]) -> Profile:
        """Raises ArgumentError for a value that is not a profile, or a profile of another program; None is accepted."""
        profile: Profile = proposal["value"]
        if not self._is_open or not isinstance(self._page, ProgramPage):
            return profile
        if not isinstance(profile, Profile):
            raise ArgumentError(f"a profile is what irs.profile gives, not {type(profile).__name__}", hint="e.profile = irs.profile(f, x)")
        self.measured = in_script(self._page.measure(profile)).encode()
        return profile

    @traitlets.observe("profile")  # type: ignore[untyped-decorator]
    def _without_profile(self, change: Mapping[str, Any]) -> None:
        if change["new"] is None:
            self.measured = b""

    def pane(self, name: str) -> Pane:
        """One pane for a separate cell, linked with the rest: `e.pane("graph")`. Raises UnknownName for another name than those of
        the panes, and lists these."""
        panes = Pane.pane.values
        if name not in panes:
            raise UnknownName(f"there is no pane {name!r}", hint=f"the panes are {', '.join(panes)}")
        pane = Pane(explorer=self, runtime=self.runtime, pane=name)
        self._panes.add(pane)
        return pane

    def _answer(self, _widget: Any, message: Any, _buffers: Any) -> None:
        """Answer a request of the page. Any error becomes the answer: a view must survive a bad request."""
        if not isinstance(message, Mapping):
            return
        kind, token = str(message.get("kind")), message.get("token")
        answers = {**self._page.answers, **self._branch_questions()}
        if kind not in answers and token is None:
            return

        def reply() -> tuple[Any, ...]:
            try:
                if kind not in answers:
                    raise UnknownName(f"this explorer answers no {message.get('kind')!r}", hint=f"it answers {', '.join(answers)}")
                text = in_script({"token": token, "kind": kind, **without_collector(answers[kind], message)})
                return (json.loads(text),) if len(text) < _LONG else ({"token": token}, [text.encode()])
            except Exception as error:
                return ({"kind": "error", "token": token, "message": f"{type(error).__name__}: {error}"},)

        if kind == "part" and message.get("name") != "timing":  # a measurement needs the processor for itself
            answer_beside(reply, lambda made: self.send(*made))
        else:
            self.send(*reply())

    def _text(self) -> str:
        """The text for a terminal."""
        return repr(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({_headline(self._page.view)})"

    def static(self) -> HTML:
        """The picture that a saved notebook shows without its kernel. An explorer alone in a cell keeps one by itself; inside
        other widgets none does, so place it beside them: `display(e.static(), HBox([e, slider]))`. It is hidden while the cell is live.
        """
        from IPython.display import HTML

        wake = "<p>A picture that was saved with the notebook: run this cell for the live views.</p>"
        return HTML(f'<div class="irs-static">{static_html(self._page.view)}{wake}</div>')

    def _ipython_display_(self) -> None:
        from IPython.display import display

        display({"text/html": self.static().data, "text/plain": self._text()}, raw=True)
        live = self._repr_mimebundle_()
        if live is not None:
            data, metadata = live
            data = {kind: content for kind, content in data.items() if kind != "text/plain"}  # displayed above
            display(data, metadata=metadata, raw=True)


class Pane(View):
    """One pane of an explorer, with the explorer's view, selection and answers."""

    _given = ("explorer", "runtime", "pane")
    explorer = anywidget.WidgetTrait().tag(sync=True)
    pane = traitlets.Enum(get_args(PaneName)).tag(sync=True)

    def __repr__(self) -> str:
        return f"{self.explorer!r}.pane({self.pane!r})"


def _headline(view: ExplorerView) -> str:
    return " · ".join([one_line(view["title"]), *(f"{count['value']} {count['label']}" for count in view["headline"])])
