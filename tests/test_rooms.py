"""The plan of the house, where a linter of imports does not see it."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "irscope"


def test_no_room_holds_more_than_fourteen_modules() -> None:
    rooms = {path.parent for path in PACKAGE.rglob("*.py")}
    modules = {room: [path for path in room.glob("*.py") if not path.name.startswith("__")] for room in rooms}
    assert len(rooms) > 40
    assert {str(room.relative_to(PACKAGE)): len(found) for room, found in modules.items() if len(found) > 14} == {}
