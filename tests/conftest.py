"""Case files: `tests/cases/<pass>/*.ir`, one claim a file, checked against what the pass says today.

A file has sections, each after a line `--- name`. The first lines, before any section, are the claim. `tests/case_answers.py`
answers with the sections that follow the input; `pytest --bless` writes its answers into the files, and the diff shows what changed.
"""

import importlib.util
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# A busy machine must not fail a test, nor may luck: the suite tries the same examples each time, `-m long` tries others.
settings.register_profile("irscope", deadline=None, derandomize=True)
settings.register_profile("irscope-long", deadline=None, derandomize=False)

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

Sections = dict[str, str]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bless", action="store_true", help="write what the passes say today into the case files")


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("irscope-long" if "long" in config.option.markexpr.replace("not long", "") else "irscope")


_WITHOUT_LAB = {f"tests/browser/test_{name}.py" for name in ("accessible", "notebook_7", "page", "speedscope")}


def _needs_lab(nodeid: str) -> bool:
    return nodeid.startswith("tests/browser/") and nodeid.split("::")[0] not in _WITHOUT_LAB


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Files are shared out whole; those of `tests/browser` that share one Lab go to one process, in their order."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "tests/browser" if _needs_lab(nodeid) else str(super()._split_scope(nodeid))

    return Scheduling(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What one process does for half of the time begins first, where there are several."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: not _needs_lab(item.nodeid))


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.suffix == ".ir" and file_path.parent.parent.name == "cases":
        return CaseFile.from_parent(parent, path=file_path)
    return None


@pytest.fixture
def unless_browsed(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Skips what a test of `tests/browser` does in the same session, and looks at besides; give the end of its name."""

    def skip(name: str) -> None:
        there = any(map(shutil.which, BROWSERS)) and all(map(importlib.util.find_spec, ("playwright", "jupyterlab")))
        if there and any(item.nodeid.startswith("tests/browser") and item.nodeid.endswith(name) for item in request.session.items):
            pytest.skip(f"a browser shows it: {name} in tests/browser")

    return skip


class CaseFile(pytest.File):
    def collect(self) -> Iterator[pytest.Item]:
        yield CaseItem.from_parent(self, name=self.path.stem)


class CaseItem(pytest.Item):
    def runtest(self) -> None:
        sections = read_sections(self.path.read_text(encoding="utf-8"))
        if "needs" in sections:  # a package whose schemas or meanings the answer comes from
            pytest.importorskip(sections["needs"])
        from tests.case_answers import ANSWERS

        found = {**sections, **ANSWERS[self.path.parent.name](sections)}
        if self.config.getoption("--bless"):
            self.path.write_text(write_sections(found), encoding="utf-8")
            return
        for name, text in found.items():
            assert text == sections.get(name, ""), f"{name}:\n{text}\n--- and the file says\n{sections.get(name, '')}"

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> str:
        if excinfo.errisinstance(AssertionError):
            return f"{self.path}\n{excinfo.value}\n(if that is right now: pytest --bless {self.path})"
        return str(super().repr_failure(excinfo, style))

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, f"{self.path.parent.name}: {self.name}"


def read_sections(text: str) -> Sections:
    """The sections of a case file by name; what stands before the first is the `claim`."""
    sections: Sections = {}
    name, lines = "claim", list[str]()
    for line in text.splitlines():
        if line.startswith("--- "):
            sections[name] = "\n".join(lines).strip("\n")
            name, lines = line.removeprefix("--- ").strip(), []
        else:
            lines.append(line.rstrip())
    sections[name] = "\n".join(lines).strip("\n")
    return sections


def write_sections(sections: Sections) -> str:
    parts = [sections["claim"], *(f"--- {name}\n{text}".rstrip("\n") for name, text in sections.items() if name != "claim")]
    return "\n".join(parts) + "\n"


@pytest.fixture(scope="session")
def torch() -> Any:
    """PyTorch; without it, the test is skipped."""
    return pytest.importorskip("torch")


@pytest.fixture
def one_thread(torch: Any) -> Iterator[None]:
    """Torch with one thread: where programs are small, others would only spin."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt, also where a shell has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def without_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which CuPy is not installed."""
    from irscope.errors import MissingExtra
    from irscope.runtime.cuda import nvrtc

    def missing() -> None:
        raise MissingExtra("cupy", extra="cuda13", purpose="to run kernels on a GPU")

    monkeypatch.setattr(nvrtc, "imported_cupy", missing)
