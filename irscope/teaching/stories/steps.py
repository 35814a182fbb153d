"""One step of a story, and the JSON form of several."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from irscope.errors import LoadError
from irscope.files import parse_json

__all__ = ["Step", "steps_from", "steps_text"]

_VERSION = 1
"""The version of the JSON format."""


@dataclass(frozen=True)
class Step:
    """One view and its sentence. Records are named by names that outlast the process (`Names`)."""

    text: str
    """In Markdown."""
    selection: tuple[str, ...] = ()
    state: int | None = None
    """The state of the program's history, numbered as in `explorer.step`; None leaves it unchanged."""
    open: tuple[str, ...] | None = None
    """The boxes that are open; None leaves them unchanged."""
    colour: str = "kind"
    pane: str = ""
    """The one pane to show; empty for all."""


def steps_text(title: str, program: str, steps: Sequence[Step]) -> str:
    """Returns the steps as JSON text, without the program."""
    record = {"irscope story": _VERSION, "title": title, "program": program, "steps": [asdict(step) for step in steps]}
    return json.dumps(record, indent=1, ensure_ascii=False) + "\n"


def steps_from(text: str) -> tuple[str, tuple[Step, ...]]:
    """Parses the title and the steps of a JSON text. Raises LoadError for a text that is not a story."""
    record = parse_json(text, "the text is not a story", hint="give what s.save('x.json') wrote")
    try:
        version, title, steps = record["irscope story"], str(record["title"]), tuple(map(_step, record["steps"]))
    except (ValueError, KeyError, TypeError) as error:
        raise LoadError(f"the text is not a story: {error!s}", hint="give what s.save('x.json') wrote") from None
    if version != _VERSION:
        what = f"the story has version {version}, and this irscope reads version {_VERSION}"
        raise LoadError(what, hint="save it with this version of irscope")
    return title, steps


def _step(record: Any) -> Step:
    known = {field.name for field in fields(Step)}
    if not isinstance(record, Mapping) or not record.keys() <= known or "text" not in record:
        raise KeyError("a step has fields that are not known")
    selection, opened, state = record.get("selection", ()), record.get("open"), record.get("state")
    words = (record["text"], record.get("colour", "kind"), record.get("pane", ""), *selection, *(opened or ()))
    if not all(isinstance(word, str) for word in words) or not (state is None or isinstance(state, int)):
        raise TypeError("a field of a step has another type")
    return Step(
        record["text"],
        tuple(selection),
        state,
        None if opened is None else tuple(opened),
        record.get("colour", "kind"),
        record.get("pane", ""),
    )
