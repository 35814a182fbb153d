"""Notebooks as readers run them in a real Lab: every cell, and the questions drawn. The tour has a file of its own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.browser.conftest import ACTIVE, ROOT, Lab

pytest.importorskip("torch", reason="torch is not installed: pip install 'irscope[tour]'")

SECONDS = 240


@pytest.mark.parametrize(("name", "questions"), [("06_reading_an_ir", 3), ("01_alias", 3)])
def test_a_notebook_runs_in_a_real_lab(lab: Lab, tmp_path: Path, name: str, questions: int) -> None:
    """Each quiz is shown by the explorer's views, and no cell fails."""
    (lab.root / "notebooks").mkdir(exist_ok=True)
    shutil.copy(ROOT / "notebooks" / f"{name}.ipynb", lab.root / "notebooks")
    lab.reopen(f"notebooks/{name}.ipynb")
    lab.run_to_the_end(SECONDS)
    asking = lab.page.locator(f"{ACTIVE} .irs-asking")
    lab.page.wait_for_function(
        "([where, count]) => document.querySelectorAll(where).length === count", arg=[f"{ACTIVE} .irs-asking", questions]
    )
    for number in range(questions):
        asking.nth(number).scroll_into_view_if_needed()
        asking.nth(number).locator(".irs-box").first.wait_for()
        asking.nth(number).screenshot(path=tmp_path / f"{name} {number}.png")
    assert not lab.errors and not lab.outside
    lab.close()
