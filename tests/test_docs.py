"""The pages that people read: their links lead somewhere, and the site builds without a warning."""

import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest

import irscope as irs

ROOT = Path(__file__).parents[1]
PLACES = {"docs": "**/*.md", ".": "*.md", "tests": "**/README.md", "widgets": "README.md", "examples": "*.md", "notebooks": "*.ipynb"}
PAGES = sorted(page for folder, pattern in PLACES.items() for page in (ROOT / folder).glob(pattern))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_what_a_page_links_to_is_there(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:|mailto:|#)([^)#\s]+)", _prose(page)):
        assert (page.parent / target).exists(), target


def test_the_glossary_shows_a_kernel_as_it_is() -> None:
    pytest.importorskip("llvmlite")
    pictures = runpy.run_path(str(ROOT / "docs" / "site" / "glossary_pictures.py"))
    (kernel,) = irs.compile(irs.fuse(irs.parse(pictures["PROGRAM"]))).kernels
    assert f"```text\n{kernel.spec}\n```" in (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")


def _prose(page: Path) -> str:
    """The text of a page; of a notebook, what its cells of text say."""
    text = page.read_text(encoding="utf-8")
    if page.suffix != ".ipynb":
        return text
    return "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown")


def test_a_picture_that_is_in_its_page_is_not_a_link() -> None:
    pytest.importorskip("mkdocs")
    link = runpy.run_path(str(ROOT / "docs" / "site" / "hooks.py"))["_LINK"]
    assert link.search("![png](data:image/png;base64,AAAA)") is None
    assert link.search("![a net](images/net.svg)")[3] == "images/net.svg"


@pytest.mark.long
def test_what_pages_link_to_outside_answers() -> None:
    """Skips, and says what it could not look at, where there is no network."""
    pages = {page: set(re.findall(r"\]\((https?://[^)\s]+)\)", page.read_text(encoding="utf-8"))) for page in PAGES}
    targets = sorted(set().union(*pages.values()))
    silent = []
    for target in targets:
        request = Request(target, headers={"User-Agent": "irscope's tests"})
        try:
            urlopen(request, timeout=20).close()
        except HTTPError as error:
            assert error.code not in (404, 410), f"{target} is gone; it is on {[str(page) for page in pages if target in pages[page]]}"
        except (URLError, OSError):
            silent.append(target)
    if targets and len(silent) == len(targets):
        pytest.skip(f"there is no network: {len(targets)} links to other sites were not looked at")
    assert not silent, silent


@pytest.mark.long
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    """With notebooks as they are stored; `make docs` runs them first."""
    pytest.importorskip("mkdocs")
    pytest.importorskip("mkdocstrings")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", "docs/site/mkdocs.yml", "-d", str(tmp_path)]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"DOCS_RUN": "0", "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False
    )
    assert not done.returncode and "WARNING" not in done.stderr, done.stderr
    assert "ArgumentError" in (tmp_path / "errors.html").read_text(encoding="utf-8")
    assert "may_contain_alias" in (tmp_path / "reference.html").read_text(encoding="utf-8")
