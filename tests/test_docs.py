"""The pages that people read: their links lead somewhere, and the site builds without a warning."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md"), *(ROOT / "tests").rglob("README.md"), ROOT / "widgets" / "README.md"])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_what_a_page_links_to_is_there(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:|mailto:|#)([^)#\s]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


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
