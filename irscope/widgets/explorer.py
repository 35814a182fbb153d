"""`irs.explore`: text, graph, inspector and tables of one program in one cell, with one selection, shared with Python.

The cell's output has two parts: a picture, hidden while live views are displayed, and the views. A saved notebook without
a kernel, or an untrusted one, shows the picture.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, get_args
from weakref import WeakSet

from irscope._base.running import without_collector
from irscope._base.words import in_script, one_line
from irscope.display.html import saved_part, static_html
from irscope.display.text import overview
from irscope.errors import ArgumentError, IrscopeError, ParseError, UnknownName, public
from irscope.report.pages import Branch, Branches, Exploration, Page, ProgramPage, history_page
from irscope.report.pages.branches import branch_diff, changes_of
from irscope.report.pages.side_by_side import Correspondence
from irscope.report.view_models import EditTrouble, PaneName
from irscope.runtime.profile import Profile
from irscope.transforms.base import History
from irscope.widgets.hub import Hub, Runtime, View, answer_beside, display_live

# isort: split
import anywidget  # where it is missing, the hub has said what to install
import traitlets

if TYPE_CHECKING:
    import pandas as pd
    from IPython.display import HTML

    from irscope.ir import Graph, Node, Value
    from irscope.transforms.fusion import Named, Score

_LONG = 20_000  # The size of an answer, in characters, from which it is sent as a JSON buffer beside its message, which is parsed once.


class _Given(traitlets.Any):  # type: ignore[misc]
    """What may be given in several forms; a method of the explorer says what is wrong with a value, None too."""

    allow_none = False


class Explorer(View):
    """Linked views of one program. `selection` holds the selected ids; setting it selects in every view."""

    _given = ("view", "hub", "runtime", "measured", "branches_view")
    view = traitlets.Bytes().tag(sync=True)
    """The view model as JSON text, parsed once by the browser and by no trait."""
    hub = anywidget.WidgetTrait().tag(sync=True)
    selection: Any = _Given()
    """Ids of the selected records. May be set to one or several ids, Values, Nodes or printed names."""
    step: Any = _Given(0)
    """The state of the program that is shown: 0 as loaded, k after k steps of its history. Initially the last state.

    Negative numbers count from the end: -1 is the last state.
    """
    profile = traitlets.Any(None, allow_none=True)
    """A profile of the program, from `irs.profile`. It adds colours by time, bytes, memory or share of the roofline, and a Time
    table. `irs.explore(p)` starts with one; `e.profile = p` adds it later."""
    measured = traitlets.Bytes().tag(sync=True)
    """The part of the view that a profile set later adds, as JSON text."""

    branch: Any = _Given(0)
    """The branch that is shown; 0 is the program as given. May be set to a `Branch` of `e.branches` or its number."""
    branches_view = traitlets.Bytes().tag(sync=True)
    """The view of the branches as JSON text; empty if there can be none."""

    _tree: Branches | None = None
    _draft: str | None = None  # An edited text that is not a valid program yet.
    _bound_to: Callable[[Any], object] | None = None  # Called with the program as written, after each edit that changes it.
    _links: tuple[traitlets.link, ...] = ()
    _is_open = False  # Whether a new profile is checked and shown.

    def __init__(self, shown: Exploration | Page) -> None:
        with without_collector():
            self._page = page = ProgramPage(shown) if isinstance(shown, Exploration) else shown
        step, profile = page.last_step or 0, page.exploration.profile if page.exploration is not None else None
        self._added: dict[str, Any] = {}
        super().__init__(view=in_script(page.view).encode(), hub=Hub(step=step), runtime=Runtime.shared(), step=step, profile=profile)
        self._is_open = True
        _keep_pictures()
        self.hub.checks = {"selection": self._ids_of, "step": self._state_of}
        self._links = (traitlets.link((self, "selection"), (self.hub, "selection")), traitlets.link((self, "step"), (self.hub, "step")))
        self._panes: WeakSet[Pane] = WeakSet()
        self.on_msg(self._answer)
        if page.exploration is not None:
            self._tree = Branches(page.exploration)
            self._tell()

    def __setattr__(self, name: str, value: Any) -> None:
        """Raises ArgumentError for a public name that an explorer does not have, which would change nothing that one sees."""
        if name[:1] != "_" and not hasattr(type(self), name):
            near = get_close_matches(name, ("selection", "step", "branch", "profile", "layout"), 1)
            known = 'it has selection, step, branch and profile; e.paint({"relu": 0.5}) colours'
            hint = f"did you mean e.{near[0]}?" if near else known
            raise ArgumentError(f"an explorer has no {name!r}", hint=hint)
        super().__setattr__(name, value)

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

    def _show(self, exploration: Exploration, match: Correspondence | None = None) -> None:
        """Replace the program shown; the selection is kept, by id, by what is matched in another compiler's program, or by name."""
        with without_collector():
            page = ProgramPage(exploration)
        before, chosen = self._page.exploration, list(self.selection)
        self._page = page
        if before is not None:
            self.selection = list(dict.fromkeys(id for one in chosen for id in exploration.known_as(one, before, match)))
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
        return [self._page.resolve(record) for record in (given if several else [] if given is None else [given])]

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

    @property
    def _graph(self) -> Graph | None:
        """The program shown, for the completion of its names."""
        return None if self._page.exploration is None else self._page.exploration.graph

    @property
    def buffers(self) -> Mapping[str, Node]:
        """The nodes by another compiler's names for what it keeps of them, which `selection` takes: Inductor's `buf0`."""
        return {} if self._page.exploration is None else self._page.exploration.buffers

    @public
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
        last = self._page.last_step
        if not hasattr(given, "__index__") or (last is not None and not -last - 1 <= given <= last):
            hint = "a step is a whole number" if last is None else f"the history has steps 0 to {last}"
            raise ArgumentError(f"there is no step {given!r}", hint=hint)
        step: int = given.__index__()
        return step if last is None or step >= 0 else last + 1 + step

    @traitlets.validate("profile")  # type: ignore[untyped-decorator]
    def _profile_of_this(self, proposal: Mapping[str, Any]) -> Profile:
        """Raises ArgumentError for a value that is not a profile, or a profile of another program; None is accepted."""
        profile: Profile = proposal["value"]
        if not self._is_open or not isinstance(self._page, ProgramPage):
            return profile
        if not isinstance(profile, Profile):
            raise ArgumentError(f"a profile is what irs.profile gives, not {type(profile).__name__}", hint="e.profile = irs.profile(f, x)")
        self._added.update(self._page.measure(profile))
        self.measured = in_script(self._added).encode()
        return profile

    @traitlets.observe("profile")  # type: ignore[untyped-decorator]
    def _without_profile(self, change: Mapping[str, Any]) -> None:
        if change["new"] is None:
            self._added = {name: part for name, part in self._added.items() if name == "paint"}
            self.measured = in_script({"profile": None, "opens": None, **self._added}).encode() if self._added else b""

    @public
    def paint(self, values: Any, name: str = "") -> None:
        """Colour the graph by a number for each of some nodes: a dictionary or a pandas Series by node, value, printed name or id, such
        as a column of a table that is indexed by names. `None` takes the colours away; a box around others has their largest number;
        NaN and infinity are left out.

        Raises ArgumentError for what is no number, and UnknownName for what the program does not have.
        """
        if values is None:
            self._added.pop("paint", None)
        else:
            given = dict(values.items()) if hasattr(values, "items") else None
            if given is None:
                what = f"a number for each node is a dictionary or a Series, not {type(values).__name__}"
                raise ArgumentError(what, hint='e.paint({"relu": 0.5}), or e.paint(table.set_index("name")["bytes"])')
            found = {self._page.resolve(key): _number(key, value) for key, value in given.items()}
            found = {id: number for id, number in found.items() if isfinite(number)}
            if not found or not isinstance(self._page, ProgramPage):
                raise ArgumentError("there is nothing to paint", hint='give numbers of nodes: e.paint({"relu": 0.5})')
            self._added["paint"] = self._page.painted(found, name or str(getattr(values, "name", None) or "value"))
        self.measured = in_script({"paint": None, **self._added}).encode()

    @public
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
                with without_collector():
                    answer = answers[kind](message)
                text = in_script({"token": token, "kind": kind, **answer})
                return (json.loads(text),) if len(text) < _LONG else ({"token": token}, [text.encode()])
            except Exception as error:
                return ({"kind": "error", "token": token, "message": f"{type(error).__name__}: {error}"},)

        if kind == "part" and message.get("name") != "timing":  # a measurement needs the processor for itself
            answer_beside(reply, lambda made: self.send(*made))
        else:
            self.send(*reply())

    # Branches of the timeline: alternative fusions, and the program after an edit of its text

    @property
    def branches(self) -> Branches:
        """The branches so far, starting with the program as given: `e.branches[1].fusion`, `print(e.branches.code(1))`. Raises
        ArgumentError if the explorer does not show a program of this process."""
        if self._tree is None:
            raise ArgumentError("this explorer has no branches", hint="irs.explore(program) has")
        return self._tree

    @public
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
            "step": step, "policy": policy, "forbid": forbid, "force": force, "opaque": opaque, "distinct": distinct,
            "channels_last": channels_last,
        }  # fmt: skip
        made = self.branches.what_if(self.branch, **given)
        self.branch = len(self.branches) - 1
        return made

    @public
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

    @public
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
        new, old = self.branches[change["new"]], change["old"]
        self._show(new.exploration, self.branches.match(old, change["new"]) if 0 <= old < len(self.branches) else None)
        self._tell()

    def _tell(self) -> None:
        """Send the branches to the page."""
        self.branches_view = in_script(self.branches.view(self.branch)).encode()

    def _branch_questions(self) -> dict[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]]:
        """The handlers of a page's requests about branches, by kind."""

        def what_if(ask: Mapping[str, Any]) -> Mapping[str, Any]:
            changes = changes_of(ask["change"], self.branches[self.branch].exploration.records_of)
            return {"refused": list(self.what_if(**changes).refused)}

        def branch(ask: Mapping[str, Any]) -> Mapping[str, Any]:
            self.branch = int(ask["index"])
            return {}

        def measure_branches(_: Mapping[str, Any]) -> Mapping[str, Any]:
            self.compare_branches(measure=True)
            return {}

        return {
            "what_if": what_if, "branch": branch, "measure_branches": measure_branches, "edit": self._asked_edit,
            "branch_diff": lambda ask: {"diff": branch_diff(self.branches[int(ask["first"])], self.branches[int(ask["second"])])},
            "program": self._asked_program, "written": lambda ask: {"text": self._written()},
        }  # fmt: skip

    def _asked_program(self, ask: Mapping[str, Any]) -> Mapping[str, Any]:
        """Show another of the programs that a compiler made, with branches of its own."""
        shown = self.branches[0].exploration
        if shown.decisions is None:
            raise UnknownName("this explorer shows one program", hint="irs.explore(irs.decisions(…)) shows all that were compiled")
        index = int(ask["index"]) % len(shown.decisions.programs)
        fusion = shown.decisions.programs[index].fusion
        other = Exploration(fusion, sources=shown.sources, decisions=shown.decisions, chosen=index, beside=shown.beside)
        self._tree = Branches(other)
        if self.branch:
            self.branch = 0
        else:
            self._show(other)
            self._tell()
        return {}

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

    # The output of a cell

    def _text(self) -> str:
        return repr(self)

    def __repr__(self) -> str:
        view = self._page.view
        words = [one_line(view["title"]), *(f"{count['value']} {count['label']}" for count in view["headline"])]
        return f"{type(self).__name__}({' · '.join(words)})"

    def static(self) -> HTML:
        """The picture that a saved notebook shows without its kernel. An explorer keeps one by itself, alone in a cell and inside of
        boxes and tabs. It is hidden while the cell is live."""
        from IPython.display import HTML

        wake = "<p>A picture that was saved with the notebook: run this cell for the live views.</p>"
        return HTML(saved_part(f"{static_html(self._page.view)}{wake}"))

    def _ipython_display_(self) -> None:
        from IPython.display import display

        display({"text/html": self.static().data, "text/plain": self._text()}, raw=True)
        self.display_live()


def _keep_pictures() -> None:
    """Let boxes and tabs of widgets display the pictures of the explorers in them, which a saved notebook shows."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is not None:
        shell.display_formatter.ipython_display_formatter.for_type_by_name("ipywidgets.widgets.widget_box", "Box", _display_box)


def _display_box(box: Any) -> None:
    from IPython.display import display

    inside: list[Any] = [box]
    for widget in inside:
        inside += getattr(widget, "children", ())
    explorers = [widget for widget in inside if isinstance(widget, Explorer)]
    for each in explorers:
        display({"text/html": each.static().data, "text/plain": each._text()}, raw=True)
    display_live(box, text=not explorers)


def _number(key: Any, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ArgumentError(f"the value of {key!r} is not a number: {value!r}", hint="a number for each node") from None


class Pane(View):
    """One pane of an explorer, with the explorer's view, selection and answers."""

    _given = ("explorer", "runtime", "pane")
    explorer = anywidget.WidgetTrait().tag(sync=True)
    pane = traitlets.Enum(get_args(PaneName)).tag(sync=True)

    def __repr__(self) -> str:
        return f"{self.explorer!r}.pane({self.pane!r})"


# `irs.timeline`: the history of a program in one cell, scrubbed step by step in text, graph and alias view.


class Timeline(Explorer):
    """The steps of a history. `step` is the state that is shown, in all views and in Python.

    The step determines the text (merged lines have the bar of their part; lines keep the names they had before grouping;
    lines that passes removed are struck out once they are gone; values that no longer need memory are dotted), the graph
    (the colour of each part; groups are frames until they are complete), and the alias set of the selected value. With a
    kernel the alias set comes from the alias db of that state's graph; a page without one has it for the last state and
    for those before passes that changed it (merges change no alias set). The boxes of the graph are always those of the
    last state, faint before they are created; removed nodes have no box. Kernels, classes and remarks are about the last
    state.
    """

    def __init__(self, history: History) -> None:
        super().__init__(history_page(history))

    def _text(self) -> str:
        return overview(self._page.view)


_CLASSES: Final = 300
_MEMBERS: Final = 300


def survey_box(survey: Any, overview: str) -> Any:
    """Lists to choose a class and a member from, and a button that opens its model with that group selected, below an overview.

    `survey` has `.classes`, `.groups` and `.explore(model, group)`.
    """
    import ipywidgets
    from IPython.display import display

    def label(row: Any) -> str:
        return f"{row.Index}: {row.members:,} × {row.ops}, in {row.models:,} models"

    wide = ipywidgets.Layout(width="95%", max_width="70em")
    cls = ipywidgets.Dropdown(
        options=[(label(row), row.Index) for row in survey.classes.head(_CLASSES).itertuples()], description="class", layout=wide
    )
    member = ipywidgets.Dropdown(description="member", layout=wide)
    button = ipywidgets.Button(description="Open the model", tooltip="load it again and show it with this group selected")
    below = ipywidgets.Output()

    def list_members(_: Any = None) -> None:
        rows = survey.groups[survey.groups["class"] == cls.value].head(_MEMBERS)
        member.options = [(f"{row.model}: group {row.group}, {row.result}", (row.model, row.group)) for row in rows.itertuples()]
        member.index = 0 if member.options else None

    def open_model(_: Any) -> None:
        below.clear_output()
        with below:
            try:
                display(survey.explore(*member.value))
            except IrscopeError as error:
                print(error)

    list_members()
    cls.observe(list_members, "value")
    button.on_click(open_model)
    button.disabled = not len(survey.classes)
    return ipywidgets.VBox([ipywidgets.HTML(overview), cls, member, button, below])
