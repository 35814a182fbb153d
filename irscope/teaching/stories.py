"""`irs.story`: a recorded walk through a program that `explore` takes; its steps are edited, checked against a program, and saved."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

from irscope.errors import ArgumentError, MissingExtra, public
from irscope.files import as_path, read_text, write_file
from irscope.ir import Node, Value
from irscope.report.view_models import PaneName, StoryStep, StoryView
from irscope.teaching.story_formats import Names, Step, notebook, page, picture_and_text, steps_from, steps_text

if TYPE_CHECKING:
    from irscope.report.pages import Exploration


class Story:
    """A walk through one program, step by step. A cell that ends with it shows the explorer with a bar of steps; `add` records one.

    >>> import irscope as irs
    >>> g = irs.parse('''graph(%x : Float(2, 3)):
    ...   %a : Tensor = aten::t(%x)
    ...   %b : Tensor = aten::relu_(%a)
    ...   return (%b)''')
    >>> s = irs.story(g, title="A write through a view")
    >>> s.add("`%a` is another view of `%x`.", selection=["x", "a"])
    >>> s.add("So this writes `%x`.", selection="node %b")
    >>> s
    <Story 'A write through a view': 2 steps>
    >>> s.check()
    []
    """

    def __init__(self, exploration: "Exploration", title: str) -> None:
        self.exploration = exploration
        self.title = title
        self.steps: tuple[Step, ...] = ()
        self.at = -1
        """The step that is shown; -1 before the first."""
        self.names = Names(exploration.graph)
        self.on_change: list[Callable[[], object]] = []
        """Called after each change; widgets that show the story register here."""

    def __len__(self) -> int:
        return len(self.steps)

    def _changed(self, steps: Iterable[Step], at: int) -> None:
        self.steps = tuple(steps)
        self.at = max(-1, min(at, len(self.steps) - 1))
        for callback in self.on_change:
            callback()

    # Recording

    @public
    def add(
        self, text: str, *, selection: Any = (), state: int | None = None, open: Iterable[Any] | None = None,
        colour: str = "kind", pane: str = "", at: int | None = None,
    ) -> None:  # fmt: skip
        """Record a view: the selection (names, Values, Nodes or ids), the state of the history, the open boxes, what
        colour means, the one pane to show, and a sentence in Markdown. `at` inserts it before that step instead of at
        the end.

        Raises UnknownName for anything that the program does not have, and ArgumentError for an unknown state, pane or colour.
        """
        several = selection if isinstance(selection, Iterable) and not isinstance(selection, str) else [selection]
        last = self.exploration.fusion.history.count
        if not isinstance(text, str):
            raise ArgumentError(f"a step tells a text, not {type(text).__name__}", hint='s.add("This writes `%x`.", selection="x")')
        if state is not None and not (hasattr(state, "__index__") and -last - 1 <= state <= last):
            raise ArgumentError(f"there is no state {state!r}", hint=f"the history has states 0 to {last}")
        if pane and pane not in get_args(PaneName):
            raise ArgumentError(f"there is no pane {pane!r}", hint=f"the panes are {', '.join(get_args(PaneName))}")
        _check_colour(colour)
        step = Step(
            text, tuple(map(self._name, several)), state if state is None or state >= 0 else last + 1 + state,
            None if open is None else tuple(map(self._name, open)), colour, pane,
        )  # fmt: skip
        place = len(self.steps) if at is None else self._place(at)
        self._changed([*self.steps[:place], step, *self.steps[place:]], place)

    def _name(self, record: Any) -> str:
        if isinstance(record, str):
            if (found := self.names.id(record)) is not None:
                return self.names.of(found)
            return self.names.of(self.exploration.resolve(record))
        return self.names.of(record.id if isinstance(record, Value | Node) else int(record))

    @public
    def edit(self, number: int, **changes: Any) -> None:
        """Change a step's text, colour, pane or state: `s.edit(2, text="...")`."""
        number = self._place(number)
        unknown = changes.keys() - {"text", "colour", "pane", "state"}
        if unknown:
            hint = "text, colour, pane and state can be changed; add another step for the rest"
            raise ArgumentError(f"a step has no {sorted(unknown)[0]}", hint=hint)
        _check_colour(changes.get("colour", "kind"))
        self._changed([*self.steps[:number], replace(self.steps[number], **changes), *self.steps[number + 1 :]], number)

    def move(self, number: int, to: int) -> None:
        """Move a step to another position."""
        number, to = self._place(number), self._place(to)
        rest = [*self.steps[:number], *self.steps[number + 1 :]]
        self._changed([*rest[:to], self.steps[number], *rest[to:]], to)

    def remove(self, number: int) -> None:
        """Remove a step."""
        number = self._place(number)
        self._changed([*self.steps[:number], *self.steps[number + 1 :]], number - 1 if number else 0)

    def go(self, number: int) -> None:
        """Show a step; -1 is the last."""
        self._changed(self.steps, self._place(number))

    def _place(self, number: int) -> int:
        if not hasattr(number, "__index__") or not -len(self.steps) <= number < len(self.steps):
            hint = f"they are counted from 0 to {len(self.steps) - 1}" if self.steps else "there are none yet: s.add(text) adds one"
            raise ArgumentError(f"there is no step {number!r}", hint=hint)
        return number % len(self.steps)

    # Against the program

    def check(self) -> list[str]:
        """Return a sentence for each name in a step that the program no longer has; steps are counted from 1, as in the
        bar."""
        last, found = self.exploration.fusion.history.count, []
        for number, step in enumerate(self.steps, 1):
            found += [f"step {number} selected {name}, which is gone" for name in step.selection if self.names.id(name) is None]
            found += [f"step {number} opened {name}, which is gone" for name in step.open or () if self.names.id(name) is None]
            if step.state is not None and step.state > last:
                found.append(f"step {number} showed state {step.state} of the history, which has {last} now")
        return found

    def view(self) -> StoryView:
        """Return the story for a page; names that the program no longer has are left out."""
        last = self.exploration.fusion.history.count

        def known(names: Iterable[str]) -> list[int]:
            return [id for name in names if (id := self.names.id(name)) is not None]

        steps = [
            StoryStep(
                text=step.text, selection=known(step.selection), step=None if step.state is None else min(step.state, last),
                open=None if step.open is None else known(step.open), colour=step.colour, pane=step.pane,
            )
            for step in self.steps
        ]  # fmt: skip
        return StoryView(title=self.title, steps=steps, problems=self.check(), at=self.at)

    # Saving

    def to_json(self) -> str:
        """Return the steps as JSON text, without the program."""
        return steps_text(self.title, self.exploration.graph.name, self.steps)

    @public
    def save(self, path: str | Path) -> Path:
        """Write the story: as one page that plays from disk with no kernel (`.html`), as a notebook (`.ipynb`), or as JSON (`.json`),
        which `irs.story.read` takes. Raises ArgumentError for another ending, and for a place that cannot be written."""
        path = as_path(path)
        texts: Mapping[str, Callable[[], str]] = {
            ".html": lambda: page(self.exploration, self.view()),
            ".ipynb": lambda: json.dumps(self.to_notebook(), indent=1) + "\n",
            ".json": self.to_json,
        }
        if path.suffix not in texts:
            raise ArgumentError(f"{path.name!r} is not a file that a story is saved in", hint=f"its name ends in {', '.join(texts)}")
        return write_file(path, texts[path.suffix]())

    def to_notebook(self) -> dict[str, Any]:
        """Return the story as a notebook: for each step, a cell of text and one that shows the view. `save("x.ipynb")`
        writes it."""
        return notebook(self.exploration, self.title, self.steps)

    def load(self, text: str) -> "Story":
        """Replace title and steps by those of a JSON text. Raises LoadError for a text that is not a story."""
        self.title, steps = steps_from(text)
        self._changed(steps, -1)
        return self

    def __repr__(self) -> str:
        return f"<Story {self.title!r}: {len(self.steps)} step{'' if len(self.steps) == 1 else 's'}>"

    def __str__(self) -> str:
        """Format the steps with their selections, for a terminal."""
        selected = [f"   [{', '.join(step.selection)}]" if step.selection else "" for step in self.steps]
        lines = [f"{k}. {step.text}{names}" for k, (step, names) in enumerate(zip(self.steps, selected, strict=True), 1)]
        return "\n".join([self.title, *lines, *self.check()])

    def _ipython_display_(self) -> None:
        """Show the explorer with the story's bar at its first step, or a picture and the text if widgets are not installed."""
        from IPython.display import display

        self.at = 0 if self.steps else -1
        try:
            from irscope.widgets.explorer import Explorer
            from irscope.widgets.lessons import StoryWidget
        except MissingExtra:
            display(self.kept(), raw=True)
            return
        widget = StoryWidget(self, Explorer(self.exploration))
        self.on_change.append(widget.refresh)
        display(widget)

    def kept(self) -> dict[str, Any]:
        """Return what a notebook keeps under two MIME types: the steps as text, and the picture of the program with
        them."""
        return {"text/plain": str(self), "text/html": picture_and_text(self.exploration, str(self))}


_COLOURS: Final = ("kind", "equal", "pass", "paint", "compared", "time", "bytes", "memory", "roof")
"""What colour may mean: the kind of an op, its class, forward or backward, `e.paint`, the other compiler, a profile's measures."""


def _check_colour(colour: str) -> None:
    if colour not in _COLOURS:
        raise ArgumentError(f"colour cannot mean {colour!r}", hint=f"it means one of {', '.join(_COLOURS)}")


class _StoryVerb:
    """Record a walk through a program, and replay it.

    Takes anything that `irs.explore` takes. The result shows the explorer with a bar: "add this view" records the
    selection, the step, the open boxes, the colour, the pane and a sentence in Markdown; steps can be reordered, edited
    and played with `n` and `p`. `s.add(text, selection=...)` does the same in Python. `s.save("x.html")` writes one
    page that plays from disk with no kernel, `s.save("x.ipynb")` a notebook, `s.save("x.json")` the steps, which
    `irs.story.read("x.json", program)` applies to the current program; `s.check()` lists names that it no longer has.

    >>> import irscope as irs
    >>> g = irs.parse("graph(%x : Tensor):\\n  %y : Tensor = aten::relu(%x)\\n  return (%y)")
    >>> s = irs.story(g)
    >>> s.add("It all begins with **%x**.", selection="x")
    >>> print(s)
    graph
    1. It all begins with **%x**.   [%x]
    """

    def __call__(self, source: Any = None, *example_args: Any, title: str = "", measure: bool = False, **options: Any) -> Story:
        from irscope.session import exploration

        if source is None:
            raise ArgumentError("a story is told about a program", hint="irs.story(f), or irs.story(model, x)")

        found = exploration(source, example_args, measure="at once" if measure else "never", **options)
        return Story(found, title or found.graph.name)

    @public
    def read(self, path: str | Path, source: Any, *example_args: Any, **options: Any) -> Story:
        """Apply a saved story to a program, which may have changed: `check()` lists names in the steps that it no longer has.

        Raises LoadError for a file that cannot be read or is not a story.
        """
        text = read_text(path, hint="give what s.save('x.json') wrote", kind="a story")
        return self(source, *example_args, **options).load(text)

    def __repr__(self) -> str:
        return "irs.story: a recorded walk through a program"


story = _StoryVerb()
