"""A story in a notebook cell: the explorer with a bar that records, edits and plays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from irscope._base.escaping import in_script
from irscope.errors import MissingExtra
from irscope.report.view_models import StoryView
from irscope.widgets.explorer import Explorer
from irscope.widgets.hub import View

try:
    import anywidget
    import traitlets
except ImportError as error:  # pragma: no cover - the hub raises first
    raise MissingExtra(error.name or "anywidget", extra="lab", purpose="to tell a story in a notebook") from None

__all__ = ["StoryWidget", "Told"]


class Told(Protocol):
    """A story that the bar shows and changes."""

    def view(self) -> StoryView: ...
    def add(
        self,
        text: str,
        *,
        selection: Any = (),
        state: int | None = None,
        open: Any = None,
        colour: str = "kind",
        pane: str = "",
        at: int | None = None,
    ) -> None: ...
    def edit(self, number: int, **changes: Any) -> None: ...
    def move(self, number: int, to: int) -> None: ...
    def remove(self, number: int) -> None: ...
    def go(self, number: int) -> None: ...
    def kept(self) -> dict[str, Any]: ...


class StoryWidget(View):
    """The page requests changes and Python makes them; `story` is the current story as JSON text."""

    _given = ("runtime", "explorer", "story")
    explorer = anywidget.WidgetTrait().tag(sync=True)
    story = traitlets.Bytes().tag(sync=True)

    def __init__(self, told: Told, explorer: Explorer) -> None:
        self._told = told
        super().__init__(explorer=explorer, runtime=explorer.runtime, story=in_script(told.view()).encode())
        self._update: Callable[[], object] = lambda: None
        self.on_msg(self._heard)

    def refresh(self) -> None:
        """Update the bar and the saved output with the current story."""
        self.story = in_script(self._told.view()).encode()
        self._update()

    def _heard(self, _widget: Any, message: Any, _buffers: Any) -> None:
        """Handle a message of the bar. A bad message is answered with its error."""
        try:
            self._change(message)
        except Exception as error:
            self.send({"kind": "error", "message": f"{type(error).__name__}: {error}"})

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

    def _ipython_display_(self) -> None:
        from IPython.display import display

        handle = display(self._told.kept(), raw=True, display_id=True)
        if handle is not None:
            self._update = lambda: handle.update(self._told.kept(), raw=True)
        live = self._repr_mimebundle_()
        if live is not None:
            data, metadata = live
            data = {kind: content for kind, content in data.items() if kind != "text/plain"}
            display(data, metadata=metadata, raw=True)
