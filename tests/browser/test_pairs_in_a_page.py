"""A page without Python answers about any two things that it shows as Python does: may they alias, are they fused, are they the same."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

import irscope as irs
from irscope.report.pages import Exploration, Inspection
from tests.browser.conftest import opened
from tests.browser.pages import program

KINDS = (("alias", "May they alias?"), ("fusion", "Fused together?"), ("same", "The same?"))
NAMES = ["x", "scaled0", "bent0", "product0", "scaled1", "bent1", "row", "written", "turned", "copied"]
NOT_ANSWERED = "not stored in this page"


@pytest.fixture(scope="module")
def asked(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Any, Inspection]]:
    """A report, the graph that it shows, and what answers for it in Python."""
    fusion = irs.fuse(program())
    report = irs.write_report(fusion, output=tmp_path_factory.mktemp("report") / "pairs.html")
    with opened(browser, Path(report).as_uri(), ".irs-box") as page:
        yield page, fusion.graph, Inspection(Exploration(fusion))


def said(page: Any, record: int) -> dict[str, bool | None]:
    """What the page says of the pair; None where it says that the question does not apply."""
    page.locator(f".irs-chips [data-record='{record}'], .irs-verdict").first.wait_for()
    found: dict[str, bool | None] = {}
    for kind, question in KINDS:
        verdict = page.locator(".irs-verdict", has_text=question)
        words = verdict.inner_text()
        assert NOT_ANSWERED not in words, words
        found[kind] = True if f"{question} yes" in words else False if f"{question} no" in words else None
    return found


def test_every_pair_is_answered_as_in_python(asked: tuple[Any, Any, Inspection]) -> None:
    page, graph, inspection = asked
    ids = {name: graph.value(name).id for name in NAMES if name in graph.names.values()}
    assert len(ids) >= 9
    wrong = {}
    for one, other in combinations(ids, 2):
        page.locator(f".irs-text [data-record='{ids[one]}']").first.click()
        page.locator(f".irs-text [data-record='{ids[other]}']").first.click(modifiers=["Shift"])
        page.locator(".irs-subject h3", has_text=f"%{other}").wait_for()
        pair = inspection.pair(ids[one], ids[other])
        expected = {kind: None if pair[kind] is None else pair[kind]["holds"] for kind, _ in KINDS}  # type: ignore[literal-required]
        if (told := said(page, ids[other])) != expected:
            wrong[one, other] = told, expected
    assert not wrong, wrong


def test_two_nodes_are_compared_by_their_memory(asked: tuple[Any, Any, Inspection]) -> None:
    """A node stands for its first result."""
    page, _graph, _ = asked
    line = ".irs-text .irs-line"
    page.locator(line, has_text="aten::select").locator("code").click(position={"x": 2, "y": 6})
    page.locator(line, has_text="aten::relu_").locator("code").click(position={"x": 2, "y": 6}, modifiers=["Shift"])
    page.locator(".irs-verdict", has_text="May they alias? yes").wait_for()


def test_groups_that_meet_later_show_the_step_and_its_price(asked: tuple[Any, Any, Inspection]) -> None:
    page, _graph, _ = asked
    page.locator(".irs-text [data-record]", has_text="%bent0").first.click()
    page.locator(".irs-text [data-record]", has_text="%bent1").first.click(modifiers=["Shift"])
    page.locator(".irs-verdict", has_text="only from step 'constants' on, which gives up constants known to the compiler").wait_for()
