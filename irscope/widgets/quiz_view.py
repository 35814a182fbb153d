"""A quiz in a notebook cell: the current question beside the views of its program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from irscope._base.escaping import in_script
from irscope.errors import MissingExtra
from irscope.report.view_models import CardView
from irscope.widgets.explorer import Explorer
from irscope.widgets.hub import View

try:
    import anywidget
    import traitlets
except ImportError as error:  # pragma: no cover - the hub raises first
    raise MissingExtra(error.name or "anywidget", extra="lab", purpose="to ask in a notebook") from None

__all__ = ["Asked", "QuizView"]


class Asked(Protocol):
    """The questions of a quiz, by number."""

    def explorer(self, number: int) -> Explorer:
        """The views of a question's program, the same object each time."""

    def card(self, number: int) -> CardView:
        """The current state of a question."""

    def answer(self, number: int, picks: Sequence[str]) -> None:
        """Record an answer; raises an IrscopeError if it is not one of the options."""

    def mimebundle(self) -> dict[str, Any]:
        """The saved output: the questions, and the answers so far."""


class QuizView(View):
    """Shows one question at a time. The page sends picks; only Python knows the right answer until the user has answered."""

    _given = ("runtime", "explorer", "card")
    explorer = anywidget.WidgetTrait().tag(sync=True)
    card = traitlets.Bytes().tag(sync=True)
    """The question as JSON text."""

    def __init__(self, asked: Asked, number: int = 0) -> None:
        self._asked = asked
        self.number = number
        first = asked.explorer(number)
        super().__init__(explorer=first, runtime=first.runtime, card=self._card())
        self._update: Callable[[], object] = lambda: None
        self.on_msg(self._heard)

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

    def _heard(self, _widget: Any, message: Any, _buffers: Any) -> None:
        """Handle a message of the page. A bad message is answered with its error: a view must survive it."""
        try:
            if message["kind"] == "answer":
                self._asked.answer(self.number, [str(pick) for pick in message["picks"]])
            elif message["kind"] == "go":
                self.show(int(message["number"]))
        except Exception as error:
            self.send({"kind": "error", "message": f"{type(error).__name__}: {error}"})

    def _ipython_display_(self) -> None:
        from IPython.display import display

        handle = display(self._asked.mimebundle(), raw=True, display_id=True)
        if handle is not None:
            self._update = lambda: handle.update(self._asked.mimebundle(), raw=True)
        live = self._repr_mimebundle_()
        if live is not None:
            data, metadata = live
            data = {kind: content for kind, content in data.items() if kind != "text/plain"}
            display(data, metadata=metadata, raw=True)
