"""The plan of the house, where a linter of imports does not see it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from irscope.transforms.pipeline import PASSES

PACKAGE = Path(__file__).parent.parent / "irscope"


def test_no_room_holds_more_than_fourteen_modules() -> None:
    rooms = {path.parent for path in PACKAGE.rglob("*.py")}
    modules = {room: [path for path in room.glob("*.py") if not path.name.startswith("__")] for room in rooms}
    assert len(rooms) > 40
    assert {str(room.relative_to(PACKAGE)): len(found) for room, found in modules.items() if len(found) > 14} == {}


def test_the_beginning_of_a_room_is_its_question_and_no_code() -> None:
    entry = "import lazy_loader\n\n__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)"
    for path in {*PACKAGE.rglob("__init__.py")} - {PACKAGE / "__init__.py"}:
        text = path.read_text()
        question = ast.parse(text).body[0]
        code = "\n".join(text.splitlines()[question.end_lineno :]).strip()
        assert ast.get_docstring(ast.parse(text)) and code in ("", entry), path


def test_the_entry_of_a_room_lists_only_what_others_use() -> None:
    """By `from room import name`, by `room.name` where the room was imported, or in the row of a pass."""
    public = {PACKAGE / "__init__.pyi", PACKAGE / "corpus/__init__.pyi"}
    stubs = {*PACKAGE.rglob("__init__.pyi")} - public
    used = {(f"transforms.{room}".rpartition(".")[2], name) for room, name in (row.home.split(":") for row in PASSES.values())}
    for path in {*PACKAGE.rglob("*.py"), *PACKAGE.rglob("__init__.pyi"), *(PACKAGE.parent / "tests").rglob("*.py")}:
        text = path.read_text()
        for room, name in re.findall(r"import (\w+) as (\w+)", text):
            text = text.replace(f"{name}.", f"{room}.")
        used |= {*_imports(text), *re.findall(r'(\w+)(?:"\))?\.(\w+)', text)}
    listed = {(stub.parent.name, name) for stub in stubs for _, name in _imports(stub.read_text())}
    assert listed - used == set()


def _imports(text: str) -> Iterator[tuple[str, str]]:
    """The last word of the module and the name of each `from … import …`, those in doctests included."""
    for module, names in re.findall(r"from \.?(\S*) import (\([^)]*\)|[^\n]*)", text):
        yield from ((module.rpartition(".")[2], name) for name in re.findall(r"\w+", names))
