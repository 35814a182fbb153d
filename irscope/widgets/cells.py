"""Cells that end with a history or a survey, displayed as widgets. Importing this module imports no widget."""

from __future__ import annotations

from typing import Any, Final

from irscope.errors import IrscopeError, MissingExtra


def register(shell: Any) -> None:
    """Register the timeline as the display of a History in an IPython shell."""
    shell.display_formatter.ipython_display_formatter.for_type_by_name("irscope.transforms.history", "History", _history)


def _history(history: Any) -> None:
    """Display the timeline of a history, or its picture and text without widgets."""
    from IPython.display import display

    try:
        from irscope.widgets.explorer import Timeline
    except MissingExtra:
        from irscope.display.html import static_html
        from irscope.display.text import overview
        from irscope.report.pages.parts import history_view

        view = history_view(history)
        display({"text/html": static_html(view), "text/plain": overview(view)}, raw=True)
    else:
        display(Timeline(history))


_CLASSES: Final = 300
_MEMBERS: Final = 300


def survey_box(survey: Any, overview: str) -> Any:
    """Lists to choose a class and a member from, and a button that opens its model with that group selected, below an overview.

    `survey` has `.classes`, `.groups` and `.explore(model, group)`. Raises MissingExtra.
    """
    try:
        import ipywidgets
    except ImportError as error:
        raise MissingExtra(error.name or "ipywidgets", extra="lab", purpose="to choose classes of a survey in a notebook") from None
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
