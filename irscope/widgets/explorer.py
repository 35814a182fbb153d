"""`irs.explore`: text, graph, inspector and tables of one program in one cell, with one selection, shared with Python.

The cell's output has two parts: a picture, hidden while live views are displayed, and the views. A saved notebook without
a kernel, or an untrusted one, shows the picture.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, get_args
from weakref import WeakSet

from irscope._base.concurrency.restored import holding_the_lock, to_stay, without_collector
from irscope._base.escaping import in_script, one_line
from irscope.errors import ArgumentError, MissingExtra, UnknownName
from irscope.report.view_models import Detail, ExplorerView, KernelText, PairDetail, PaneName
from irscope.widgets.beside import answer_beside
from irscope.widgets.forking import Forking
from irscope.widgets.hub import Hub, Runtime, View

if TYPE_CHECKING:
    from IPython.display import HTML

    from irscope.ir import Node, Value
    from irscope.report.pages import Exploration
    from irscope.runtime.profile import Profile

try:
    import anywidget
    import traitlets
except ImportError as error:  # pragma: no cover - the hub raises first
    raise MissingExtra(error.name or "anywidget", extra="lab", purpose="to show linked views in a notebook") from None

__all__ = ["Explorer", "Pane"]

_LONG = 20_000
"""The size of an answer, in characters, from which it is sent as a JSON buffer beside its message, which is parsed once."""
Inspect = Callable[..., Detail | PairDetail]
"""Answers a list of one id with its details, and of two ids with the answers about the pair; a second argument selects a
state of the history."""
KernelIn = Callable[[int, str], KernelText]
"""Returns the kernel text of a node in a language."""
Answer = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Answers a message of the page with the fields of the reply."""
Resolve = Callable[[Any], int]
"""Returns the id of a record given as an id, a Value, a Node or a printed name."""


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
    _shown: Exploration | None = None

    def __init__(
        self,
        view: ExplorerView,
        inspect: Inspect,
        static_html: str | Callable[[], str],
        *,
        resolve: Resolve | None = None,
        kernel_in: KernelIn | None = None,
        questions: Mapping[str, Answer] | None = None,
        records: Callable[[Iterable[int]], list[Value | Node]] | None = None,
        query: Callable[[str], list[Value | Node]] | None = None,
        last_step: int | None = None,
        summary: str = "",
        profile: Profile | None = None,
        measure: Callable[[Profile], Mapping[str, Any]] | None = None,
    ) -> None:
        self._inspect = inspect
        self._questions = {**(questions or {}), **self._branch_questions()}
        self._records = records
        self._query = query
        self._kernel_in = kernel_in
        self._resolve = resolve or int
        self._static_html = static_html
        self._summary = summary or _headline(view)
        self._last_step = len(view["timeline"]["steps"]) if "timeline" in view else last_step
        text = in_script(view)
        step = self._last_step or 0
        self._measure: Callable[[Profile], Mapping[str, Any]] | None = None
        super().__init__(view=text.encode(), hub=Hub(step=step), runtime=Runtime.shared(), step=step, profile=profile)
        self._measure = measure
        self.hub.checks = {"selection": self._ids_of, "step": self._state_of}
        self._links = (
            traitlets.link((self, "selection"), (self.hub, "selection")),
            traitlets.link((self, "step"), (self.hub, "step")),
        )
        self._panes: WeakSet[Pane] = WeakSet()
        self.on_msg(self._answer)

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

    @classmethod
    def of(cls, exploration: Exploration) -> Explorer:
        """The views of an exploration."""
        from irscope.widgets.parts import parts_of

        parts = parts_of(exploration)
        made = cls(parts.pop("view"), parts.pop("inspect"), **parts)
        made._shown = exploration
        made._grow(exploration)
        return made

    def _show(self, exploration: Exploration) -> None:
        """Replace the program shown; the selection is kept, by id or by name."""
        from irscope.widgets.parts import known_in, parts_of

        before, self._shown = self._shown, exploration
        parts, chosen = parts_of(exploration), list(self.selection)
        profile, self._measure = self.profile, None
        view = parts["view"]
        self._inspect, self._kernel_in, self._resolve = parts["inspect"], parts["kernel_in"], parts["resolve"]
        self._questions = {**parts["questions"], **self._branch_questions()}
        self._records, self._query, self._static_html = parts["records"], parts["query"], parts["static_html"]
        self._summary, self._last_step = _headline(view), len(view["timeline"]["steps"]) if "timeline" in view else parts["last_step"]
        if before is not None:
            self.selection = [id for one in chosen if (id := known_in(exploration, before, one)) is not None]
        self.step = self._last_step or 0
        self.view = in_script(view).encode()
        self._measure = parts["measure"]
        if profile is not None:
            try:
                self.measured = in_script(self._measure(profile)).encode()
            except ArgumentError:  # a profile of another program
                self.profile = None

    @traitlets.default("selection")  # type: ignore[untyped-decorator]
    def _nothing(self) -> list[int]:
        return []

    @traitlets.validate("selection")  # type: ignore[untyped-decorator]
    def _ids(self, proposal: Mapping[str, Any]) -> list[int]:
        """Raises UnknownName for a name that the program does not have, or an id unknown to the program and the page."""
        ids = self._ids_of(proposal["value"])
        if self._records is not None and ids != self.hub.selection:
            unknown = [id for id in ids if id >= 0 and not self._records([id])]  # boxes without a record have negative ids
            if unknown:
                raise UnknownName(f"nothing in this program has the id {unknown[0]}", hint="a Value, a Node or a printed name is taken too")
        return ids

    def _ids_of(self, given: Any) -> list[int]:
        several = isinstance(given, Iterable) and not isinstance(given, str)
        return [self._resolve(record) for record in (given if several else [given])]

    @property
    def selected(self) -> list[Value | Node]:
        """The selection as Values and Nodes of the program shown, accepted by every query:
        `db.may_alias(*e.selected)`, `f.why_not(*e.selected)`. Raises UnknownName for an explorer without a program."""
        if self._records is None:
            raise UnknownName("this explorer shows no program of this process", hint="e.selection has the ids")
        return self._records(self.selection)

    def select(self, query: str) -> list[Value | Node]:
        """Select the results of a query in all views, and return them: `e.select("op:conv & bytes>1e6")`.

        Terms are `op:`, `type:`, `name:`, `kind:`, `scope:`, `source:`, `line:`, `group:`, `class:`, `rule:`, `remark:` and
        `is:` (group, write, input, parameter, output, constant, block, unused) with a text; `bytes`, `rank`, `elements`, `inputs`
        and `outputs` with `<`, `>` or `=` and a number; `writes %p`, `reads %p`, `makes %p` and `alias %p`; and plain
        words, searched in printed text. Combine them by `&`, `|`, `!` and brackets. If the program shown has no result, nodes that
        passes removed are found. Raises ArgumentError or UnknownName.
        """
        if self._query is None:
            raise UnknownName("this explorer answers no queries", hint="irs.explore(program) does")
        found = self._query(query)
        self.selection = found
        return found

    @traitlets.validate("step")  # type: ignore[untyped-decorator]
    def _state(self, proposal: Mapping[str, Any]) -> int:
        """Raises ArgumentError for a state that the history does not have."""
        return self._state_of(proposal["value"])

    def _state_of(self, given: Any) -> int:
        step, last = int(given), self._last_step
        if last is None:
            return step
        if not -last - 1 <= step <= last:
            raise ArgumentError(f"there is no step {step}", hint=f"the history has steps 0 to {last}")
        return step if step >= 0 else last + 1 + step

    @traitlets.validate("profile")  # type: ignore[untyped-decorator]
    def _profile_of_this(self, proposal: Mapping[str, Any]) -> Profile:
        """Raises ArgumentError for a value that is not a profile, or a profile of another program; None is accepted."""
        profile: Profile = proposal["value"]
        if self._measure is None:
            return profile
        from irscope.runtime.profile import Profile as Measured

        if not isinstance(profile, Measured):
            raise ArgumentError(f"a profile is what irs.profile gives, not {type(profile).__name__}", hint="e.profile = irs.profile(f, x)")
        self.measured = in_script(self._measure(profile)).encode()
        return profile

    @traitlets.observe("profile")  # type: ignore[untyped-decorator]
    def _without_profile(self, change: Mapping[str, Any]) -> None:
        if change["new"] is None:
            self.measured = b""

    def pane(self, name: str) -> Pane:
        """One pane for a separate cell, linked with the rest.

        `name` is `"text"`, `"graph"`, `"inspector"`, `"tables"`, `"timeline"`, `"time"`, `"classes"` or `"memory"`.
        """
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
        kinds: dict[str, Answer] = {"inspect": self._inspected, "kernel": self._kernel_text}
        kinds.update({kind: partial(self._asked, kind) for kind in self._questions})
        answer = kinds.get(str(message.get("kind")))
        token = message.get("token")
        if answer is None and token is None:
            return

        def reply() -> tuple[Any, ...]:
            try:
                if answer is None:
                    raise UnknownName(f"this explorer answers no {message.get('kind')!r}", hint=f"it answers {', '.join(kinds)}")
                text = in_script({"token": token, **quiet(answer, message)})
                return (json.loads(text),) if len(text) < _LONG else ({"token": token}, [text.encode()])
            except Exception as error:
                return ({"kind": "error", "token": token, "message": f"{type(error).__name__}: {error}"},)

        quiet = to_stay if message.get("kind") == "part" else without_collector
        if message.get("kind") == "part" and message.get("name") != "timing":  # a measurement needs the processor for itself
            answer_beside(reply, lambda made: self.send(*made))
        else:
            self.send(*holding_the_lock(reply))

    def _inspected(self, message: Mapping[str, Any]) -> dict[str, Any]:
        ids = [int(record) for record in message["ids"]]
        kind = "pair" if len(ids) == 2 else "detail"
        state = () if message.get("state") is None else (int(message["state"]),)
        return {"kind": kind, kind: self._inspect(ids, *state)}

    def _asked(self, kind: str, message: Mapping[str, Any]) -> dict[str, Any]:
        return {"kind": kind, **self._questions[kind](message)}

    def _kernel_text(self, message: Mapping[str, Any]) -> dict[str, Any]:
        if self._kernel_in is None:
            raise UnknownName("this explorer has no kernels to show", hint="irs.explore(fusion) does")
        return {"kind": "kernel", "kernel": self._kernel_in(int(message["id"]), str(message["language"]))}

    def _text(self) -> str:
        """The text for a terminal."""
        return repr(self)

    def __repr__(self) -> str:
        return f"Explorer({self._summary})"

    def static(self) -> HTML:
        """The picture that a saved notebook shows without its kernel. An explorer alone in a cell keeps one by itself; inside
        other widgets none does, so place it beside them: `display(e.static(), HBox([e, slider]))`. It is hidden while the cell is live.
        """
        from IPython.display import HTML

        wake = "<p>A picture that was saved with the notebook: run this cell for the live views.</p>"
        picture = self._static_html() if callable(self._static_html) else self._static_html
        return HTML(f'<div class="irs-static">{picture}{wake}</div>')

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
