"""The plan of the house, where a linter of imports does not see it."""

import ast
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from types import FrameType
from typing import TypeVar

import numpy as np
import pytest

import irscope as irs
from irscope.transforms.pipeline import PASSES

T = TypeVar("T")

PACKAGE = Path(__file__).parent.parent / "irscope"


MOST_MODULES, LEAST_LINES, MOST_LINES = 10, 80, 650

SHORT = {
    "_base/tables.py",  # its class needs pandas, which reading a program must not import
    "frontends/text.py",  # a frontend is a module, and this one needs no more
}


def test_a_room_has_few_modules_and_each_is_a_chapter() -> None:
    """Too many modules are too many doors; too short ones are half a thought, too long ones are more than one."""
    modules = [path for path in PACKAGE.rglob("*.py") if not path.name.startswith("__")]
    rooms = Counter(path.parent.relative_to(PACKAGE) for path in modules)
    assert len(rooms) > 40
    assert {str(room): count for room, count in rooms.items() if count > MOST_MODULES} == {}
    lines = {str(path.relative_to(PACKAGE)): path.read_text().count("\n") for path in modules}
    assert {name: count for name, count in lines.items() if not LEAST_LINES <= count <= MOST_LINES and name not in SHORT} == {}


def test_pytest_goes_into_every_folder_of_tests(request: pytest.FixtureRequest) -> None:
    """It leaves out folders that are called `build`, and others, without a word."""
    skipped = request.config.getini("norecursedirs")
    folders = {path.parent for path in Path(__file__).parent.rglob("test_*.py")}
    assert not [folder for folder in folders if any(fnmatch(folder.name, name) for name in skipped)]


def test_a_small_program_goes_through_few_files() -> None:
    """A reader who follows a softmax reads these files: imports, what is loaded once in a process, and the decorator of public functions,
    which passes a call on, do not count."""

    def softmax(x: np.ndarray) -> np.ndarray:
        e = np.exp(x - x.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)

    x = np.ones((64, 32), np.float32)
    irs.compile(irs.fuse(irs.load(softmax, x)))(x)
    graph = irs.load(softmax, x)
    fusion, fusing = _files_entered(lambda: irs.fuse(graph))
    _, compiling = _files_entered(lambda: irs.compile(fusion))
    assert len(fusing) <= 40, sorted(fusing)
    assert len(compiling) <= 35, sorted(compiling)


def _files_entered(work: Callable[[], T]) -> tuple[T, set[str]]:
    entered = set[str]()

    def enter(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            entered.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(enter)
    try:
        result = work()
    finally:
        sys.setprofile(before)
    return result, {name for name in entered if name.startswith(str(PACKAGE)) and not name.endswith(("__init__.py", "errors.py"))}


def test_no_module_is_called_like_its_one_function() -> None:
    """`from room import name` would give the module or the function, by what was imported before."""
    modules = {path: re.findall(r"^(?:def|class) ([^\W_]\w*)", path.read_text(), re.MULTILINE) for path in PACKAGE.rglob("*.py")}
    assert [path for path, public in modules.items() if public == [path.stem]] == []


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
    """The last word of the module and each name, without its `as`, of each `from … import …`, those in doctests included."""
    for module, names in re.findall(r"from \.?(\S*) import (\([^)]*\)|[^\n]*)", text):
        yield from ((module.rpartition(".")[2], name) for name in re.findall(r"(?<! as )\b(?!as\b)\w+", names))
