"""A survey in a notebook: choose a class and a member, and its model opens with that group selected."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.conftest import ACTIVE, Lab

pytest.importorskip("pyarrow")


def test_the_model_of_a_member_opens_with_its_group_selected(lab: Lab, tmp_path: Path) -> None:
    survey = f"s = irs.corpus.survey(MODELS, out={str(tmp_path)!r}, processes=1)\nirs.explore(s)"
    given = "import irscope as irs\nfrom tests.corpus.test_survey import MODELS"
    with lab.shown("survey.ipynb", given, survey, until=".jp-OutputArea-output .widget-vbox button"):
        box = lab.page.locator(f"{ACTIVE} .jp-OutputArea-output .widget-vbox").first
        lists = box.locator("select")
        for row, count in ((1, 1), (0, 2)):
            lists.first.select_option(index=row)
            lab.page.wait_for_function("([e, count]) => e.options.length === count", arg=[lists.nth(1).element_handle(), count])
        lists.nth(1).select_option(index=1)
        box.get_by_role("button", name="Open the model").click()
        lab.page.locator(f"{ACTIVE} .irs-box").first.wait_for(timeout=60_000)
        lab.page.locator(f"{ACTIVE} .irs-line.selected").first.wait_for()
