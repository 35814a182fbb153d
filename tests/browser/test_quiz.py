"""A quiz in a real Lab: every kind solved by keyboard alone, picked by mouse, answered with the witness; answers outlast a save."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.conftest import ACTIVE, Lab, expect, prints

ASKED = f"{ACTIVE} .irs-asking"
CELL = """
import irscope as irs
kinds = ["alias", "views", "fusion", "moves", "same", "speed"]
q = irs.quiz.mixed(count=len(kinds), seed=4, kinds=kinds)
q
"""
LAST = 5
LONG = """
import irscope as irs
lines = "".join(f"  %v{k} : Tensor = aten::relu(%v{k - 1})\\n" for k in range(1, 600))
g = irs.parse(f"graph(%v0 : Tensor):\\n{lines}  %t : Tensor = aten::t(%v500)\\n  return (%t, %v599)")
irs.quiz.alias(g, subject="v500")
"""


def test_of_a_long_program_the_views_show_what_is_asked_about(lab: Lab, tmp_path: Path) -> None:
    with lab.shown("long.ipynb", LONG, until=".irs-asking .irs-line.lit:has-text('%v500 = ')"):
        lab.page.locator(f"{ASKED} .irs-box.lit, {ASKED} .irs-box.holding").first.wait_for()
        lab.page.screenshot(path=tmp_path / "long.png")


@pytest.fixture(scope="module")
def quiz(lab: Lab) -> Iterator[Lab]:
    with lab.shown("quiz.ipynb", CELL, until=".irs-asking .irs-option"):
        yield lab


def _tab_to(lab: Lab, what: str) -> None:
    """Press Tab until something of this kind has the focus."""
    for _ in range(30):
        if lab.page.evaluate("what => document.activeElement.matches(what)", what):
            return
        lab.page.keyboard.press("Tab")
    raise AssertionError(f"Tab does not lead to {what}")


def _answer_by_keys(lab: Lab, number: int) -> None:
    """Pick the right options with their digits, and press Enter."""
    right = json.loads(lab.python(f"import json; print(json.dumps(q.questions[{number}].answer))"))
    names = lab.page.locator(f"{ASKED} .irs-option code").all_inner_texts()
    lab.page.wait_for_function("() => document.activeElement.matches('.irs-option input')")
    for name in right:
        lab.page.keyboard.press(str(names.index(name) + 1))
    lab.page.keyboard.press("Enter")
    lab.page.locator(f"{ASKED} .irs-judgement.right").wait_for()


def test_a_wrong_pick_in_the_views_is_answered_with_its_witness(quiz: Lab, tmp_path: Path) -> None:
    page = quiz.page
    wrong = quiz.python("print(next(o.name for o in q.questions[0].options if not o.verdict))")
    page.locator(f"{ASKED} .irs-line .irs-t-value", has_text=wrong).first.click()
    picked = page.locator(f"{ASKED} .irs-option:has(:checked) code")
    expect(picked).to_have_text([wrong])
    page.screenshot(path=tmp_path / "asking.png")
    page.locator(f"{ASKED} .irs-check").click()
    page.locator(f"{ASKED} .irs-judgement.wrong").wait_for()
    page.locator(f"{ASKED} .irs-said-wrong", has_text=wrong).wait_for()
    page.locator(f"{ASKED} .irs-line.lit, {ASKED} .irs-box.lit").first.wait_for(state="attached")
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        quiz.theme(theme)
        page.screenshot(path=tmp_path / f"answered {theme}.png")
    prints(quiz, "q.judgements[0].picks, bool(q.judgements[0])", f"('{wrong}',) False")


def test_questions_are_solved_by_keyboard_alone(quiz: Lab) -> None:
    page = quiz.page
    for number in range(1, LAST + 1):
        _tab_to(quiz, ".irs-quiz-steps button:last-child")
        page.keyboard.press("Enter")
        page.locator(f"{ASKED} .irs-title", has_text=f"Question {number + 1} of {LAST + 1}").wait_for()
        page.locator(f"{ASKED} .irs-option").first.wait_for()
        _answer_by_keys(quiz, number)
    prints(quiz, "[q.questions[k].kind for k in q.judgements if q.judgements[k]] == kinds[1:]", "True")
    assert not quiz.errors, quiz.errors


def test_a_saved_notebook_keeps_the_answers(quiz: Lab) -> None:
    quiz.save()
    points = float(quiz.python("print(q.points)"))
    saved = quiz.python("print(irs.quiz.score('quiz.ipynb')[['seed', 'answered', 'points']].values.tolist())")
    assert json.loads(saved) == [[4, LAST + 1, points]]
    quiz.reload()
    quiz.page.locator(f"{ACTIVE} .jp-OutputArea").first.wait_for(timeout=60_000)
    quiz.page.locator(f"{ACTIVE} pre", has_text="answered: ").first.wait_for(state="attached", timeout=60_000)
