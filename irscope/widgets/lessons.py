"""A quiz and a story in a notebook cell: the views of a program with a card of questions, or with a bar that records, edits and plays."""

from collections.abc import Callable, Mapping
from typing import Any

from irscope._base.words import in_script
from irscope.widgets.explorer import Explorer
from irscope.widgets.hub import View

# isort: split
import anywidget  # where it is missing, the hub has said what to install
import traitlets


class _Lesson(View):
    """An explorer with something beside it that messages of the page change, and that a saved notebook keeps as text."""

    explorer = anywidget.WidgetTrait().tag(sync=True)

    def __init__(self, explorer: Explorer, kept: Callable[[], dict[str, Any]], **traits: Any) -> None:
        """`kept` returns the saved output as it is now."""
        super().__init__(explorer=explorer, runtime=explorer.runtime, **traits)
        self._kept = kept
        self._update: Callable[[], object] = lambda: None
        self.on_msg(self._heard)

    def _change(self, message: Mapping[str, Any]) -> None:
        raise NotImplementedError

    def _heard(self, _widget: Any, message: Any, _buffers: Any) -> None:
        """Handle a message of the page. A bad message is answered with its error: a view must survive it."""
        try:
            self._change(message)
        except Exception as error:
            self.send({"kind": "error", "message": f"{type(error).__name__}: {error}"})

    def _ipython_display_(self) -> None:
        from IPython.display import display

        handle = display(self._kept(), raw=True, display_id=True)
        if handle is not None:
            self._update = lambda: handle.update(self._kept(), raw=True)
        self.display_live()


class QuizView(_Lesson):
    """Shows one question at a time. The page sends picks; only Python knows the right answer until the user has answered."""

    _given = ("runtime", "explorer", "card")
    card = traitlets.Bytes().tag(sync=True)
    """The question as JSON text."""

    def __init__(self, asked: Any, number: int = 0) -> None:
        """`asked` is what `irscope.teaching.quiz.Shown` is: the explorer and the card of a question, its answer, what a notebook keeps."""
        self._asked = asked
        self.number = number
        super().__init__(asked.explorer(number), asked.mimebundle, card=self._card())

    def _card(self) -> bytes:
        return in_script(self._asked.card(self.number)).encode()

    def show(self, number: int) -> None:
        """Show another question."""
        self.number = number
        with self.hold_sync():
            self.explorer = self._asked.explorer(number)
            self.card = self._card()

    def refresh(self) -> None:
        """Update the views and the saved output with new answers."""
        self.card = self._card()
        self._update()

    def _change(self, message: Mapping[str, Any]) -> None:
        if message["kind"] == "answer":
            self._asked.answer(self.number, [str(pick) for pick in message["picks"]])
        elif message["kind"] == "go":
            self.show(int(message["number"]))


class StoryWidget(_Lesson):
    """The page requests changes and Python makes them; `story` is the current story as JSON text."""

    _given = ("runtime", "explorer", "story")
    story = traitlets.Bytes().tag(sync=True)

    def __init__(self, told: Any, explorer: Explorer) -> None:
        """`told` is an `irscope.teaching.stories.Story`."""
        self._told = told
        super().__init__(explorer, told.kept, story=in_script(told.view()).encode())

    def refresh(self) -> None:
        """Update the bar and the saved output with the current story."""
        self.story = in_script(self._told.view()).encode()
        self._update()

    def _change(self, message: Mapping[str, Any]) -> None:
        told, kind = self._told, message["kind"]
        if kind == "add":
            told.add(
                str(message["text"]), selection=list(message["selection"]), state=message["state"], open=message["open"],
                colour=str(message["colour"]), pane=str(message["pane"]),
            )  # fmt: skip
        elif kind == "edit":
            told.edit(int(message["number"]), text=str(message["text"]))
        elif kind == "move":
            told.move(int(message["number"]), int(message["to"]))
        elif kind == "remove":
            told.remove(int(message["number"]))
        elif kind == "go":
            told.go(int(message["number"]))
