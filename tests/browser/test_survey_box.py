"""A survey in a notebook: choose a class and a member, and its model opens with that group selected."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.conftest import ACTIVE, Lab

pytest.importorskip("pyarrow")


def test_the_model_of_a_member_opens_with_its_group_selected(lab: Lab, tmp_path: Path) -> None:
    lab.open("survey.ipynb", "import irscope as irs\nfrom tests.corpus.test_survey import MODELS\n"
             f"s = irs.corpus.survey(MODELS, out={str(tmp_path)!r}, processes=1)\nirs.explore(s)")  # fmt: skip
    lab.run_all()
    box = lab.page.locator(f"{ACTIVE} .jp-OutputArea-output .widget-vbox").first
    button = box.get_by_role("button", name="Open the model")
    button.wait_for(timeout=60_000)
    lists = box.locator("select")
    lists.first.select_option(index=1)
    lab.page.wait_for_function("e => e.options.length === 1", arg=lists.nth(1).element_handle())
    lists.first.select_option(index=0)
    lab.page.wait_for_function("e => e.options.length === 2", arg=lists.nth(1).element_handle())
    lists.nth(1).select_option(index=1)
    button.click()
    lab.page.locator(f"{ACTIVE} .irs-box").first.wait_for(timeout=60_000)
    lab.page.locator(f"{ACTIVE} .irs-line.selected").first.wait_for()
    lab.close()
    assert lab.errors == []
