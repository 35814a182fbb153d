"""Quizzes: what an answer is worth, what is said of it, the text form, sets, and what bad input gets."""

import json
import re
from pathlib import Path

import pytest

import irscope as irs
from irscope.errors import ArgumentError, LoadError
from irscope.teaching.kinds import BRACKETS, MOST_OPTIONS, example_arguments, speed_question
from irscope.teaching.quiz import MIME
from tests.programs import ir, parsed

HALVES = ir(
    "x:Float(4, 6, strides=[6, 1]) | zero = 0; one = 1; two = 2; all = [-1]; a = relu x; b = slice a zero zero two one; "
    "c = transpose a zero one; w = relu_ b; d = tanh c; e = sigmoid d; f = reshape c all; g = reshape b all | e f g"
)

graph = irs.parse(HALVES)


def test_a_question_of_one_s_own_is_joined_with_others() -> None:
    wrong = {"%d": "tanh is new", "a copy": "no"}
    asked = irs.quiz.own(graph, "What is %w?", right={"a write": "relu_ writes %b"}, wrong=wrong, subject="w")
    quiz = asked + irs.quiz.views(graph, count=1, seed=1) + asked
    assert (len(quiz), quiz.title, [question.kind for question in quiz.questions]) == (3, "own + views", ["own", "views", "own"])
    (question,) = asked.questions
    assert [(option.name, option.text) for option in question.options] == [("%d", ""), ("a", "a copy"), ("b", "a write")]
    assert quiz.answer("b") and quiz.points == 1 and not asked.points
    assert "relu_ writes %b" in str(quiz.answer("%d", question=2))
    for others in ({}, {"a write": "twice"}):
        with pytest.raises(ArgumentError, match="at least two answers"):
            irs.quiz.own(graph, "?", right={"a write": "it is"}, wrong=others)
    with pytest.raises(TypeError):
        asked + 1


def test_each_right_option_is_what_the_analysis_answers() -> None:
    db, fused = irs.AliasDb(graph), irs.fuse(graph)
    (asked,) = irs.quiz.alias(graph, subject="b").questions
    assert all(bool(option.verdict) == bool(db.may_alias("b", option.record)) for option in asked.options)
    assert set(asked.answer) == {"%a", "%c", "%w", "%g"}
    (asked,) = irs.quiz.moves(graph, subject="w").questions
    assert all(bool(option.verdict) == bool(db.can_move_before("w", option.record)) for option in asked.options)
    (asked,) = irs.quiz.fusion(fused, subject="d").questions
    assert asked.answer == ("%e",)


def test_a_view_question_has_one_answer_with_the_step_that_failed() -> None:
    (asked,) = irs.quiz.views(graph, subject="f").questions
    wrong = asked.judge(["view"])
    assert not wrong and wrong.points == 0 and "puts axes 0 and 1" in str(wrong)
    assert asked.judge(["copy"])
    (asked,) = irs.quiz.views(graph, subject="g").questions
    assert asked.answer == ("view",)


def test_wrong_picks_take_away_what_right_ones_give_and_none_goes_below_zero() -> None:
    (asked,) = irs.quiz.alias(graph, subject="b").questions
    assert asked.judge(["%a", "c", "%w", "%g"]).points == 1 and asked.judge(["%a", "%x"]).points == 0
    assert asked.judge(["%a", "%c", "%x"]).points == pytest.approx(1 / 4)
    judged = asked.judge(["%a", "%x"])
    assert [(remark.option.name, remark.mark) for remark in judged.remarks] == [
        ("%x", "wrong"), ("%a", "right"), ("%c", "missed"), ("%w", "missed"), ("%g", "missed"),
    ]  # fmt: skip
    assert {graph.value("x"), graph.value("b")} <= {*judged.witness}


def test_the_first_answer_counts_and_a_second_is_only_judged() -> None:
    quiz = irs.quiz.alias(graph, subject="b")
    heard: list[int] = []
    quiz.on_answer.append(lambda: heard.append(1))
    assert not quiz.answer("%x") and quiz.answer("%a", "%c", "%w", "%g", question=0).points == 1
    assert (quiz.points, quiz.next, len(heard)) == (0, None, 1)


def test_a_program_without_such_a_question_says_so() -> None:
    bare = irs.parse("graph(%x : Tensor):\n  %a : Tensor = aten::relu(%x)\n  return (%a)")
    for kind in ("moves", "views", "same", "fusion"):
        with pytest.raises(ArgumentError, match="no question of the kind"):
            getattr(irs.quiz, kind)(bare)
    with pytest.raises(ArgumentError, match="does not say its sizes"):
        irs.quiz.speed(bare)


@pytest.mark.parametrize(("ask", "says"), [
    (lambda: irs.quiz.alias(difficulty=4), "difficulty"),
    (lambda: irs.quiz.alias(count=0), "questions"),
    (lambda: irs.quiz.alias(subject="a"), "subject"),
    (lambda: irs.quiz.alias("no graph"), "works on a Graph"),
    (lambda: irs.quiz.mixed(kinds=["nonsense"]), "nonsense"),
    (lambda: irs.quiz.mixed(kinds=[]), "no kinds"),
    (lambda: irs.quiz.alias(graph).answer("%nothing"), "not an answer"),
    (lambda: irs.quiz.alias(graph).answer(question=7), "no question 7"),
    (lambda: irs.quiz.views(graph, subject="f").answer("view", "copy"), "2 answers"),
])  # fmt: skip
def test_mistakes_are_reported_in_the_users_terms(ask, says) -> None:
    with pytest.raises(ArgumentError, match=says):
        ask()


def test_the_text_has_the_program_the_options_and_the_key() -> None:
    quiz = irs.quiz.alias(graph, subject="b")
    assert "%w : Tensor = aten::relu_(%b)" in quiz.text() and "right: %a, %c, %w, %g" not in quiz.text()
    assert "right: %a, %c, %w, %g" in quiz.text(answers=True)


def test_a_long_program_is_shown_around_what_is_asked() -> None:
    lines = [f"  %v{k} : Tensor = aten::relu(%v{k - 1})" for k in range(1, 3000)]
    long = irs.parse("graph(%v0 : Tensor):\n" + "\n".join(lines) + "\n  %t : Tensor = aten::t(%v7)\n  return (%t, %v2999)")
    (asked,) = irs.quiz.alias(long, subject="t").questions
    assert len(asked.options) == MOST_OPTIONS
    assert asked.answer == ("%v7",), "the right one is among those drawn"
    assert len(asked.text().split("\n")) < 70


def test_asking_in_a_terminal_goes_on_after_a_mistyped_answer() -> None:
    quiz = irs.quiz.alias(graph, subject="b", seed=0)
    said, shown = iter(["%nonsense", "%a, %c %w,g"]), []
    assert quiz.ask(lambda prompt: next(said), shown.append) == 1
    assert any("not an answer" in line for line in shown)
    assert shown[-1] == "1 of 1 answered, 1 point"


def test_asking_ends_with_the_input() -> None:
    def ended(prompt: str) -> str:
        raise EOFError

    assert irs.quiz.alias(graph, subject="b").ask(ended, lambda line: None) == 0


def test_sheets_for_a_class_are_different_and_can_be_made_again() -> None:
    sheets = irs.quiz.sheets(3, count=4, seed=10)
    assert len({sheet.text() for sheet in sheets}) == 3
    assert irs.quiz.mixed(count=4, seed=11).text() == sheets[1].text()


def test_a_saved_notebook_gives_the_answers_again(tmp_path: Path) -> None:
    quiz = irs.quiz.alias(graph, subject="b", seed=3)
    quiz.answer("%a")
    output = {"output_type": "display_data", "metadata": {}, "data": json.loads(json.dumps(quiz.kept()))}
    path = tmp_path / "answered.ipynb"
    path.write_text(json.dumps({"cells": [{"cell_type": "code", "outputs": [output]}, {"cell_type": "markdown"}]}))
    (row,) = irs.quiz.score(path).to_dict("records")
    assert (row["notebook"], row["seed"], row["answered"]) == ("answered.ipynb", 3, 1)
    again = irs.quiz.alias(graph, subject="b", seed=3).restore(output["data"][MIME])
    assert again.judgements[0].picks == ("%a",)
    with pytest.raises(ArgumentError, match="other questions"):
        irs.quiz.alias(graph, subject="c").restore(output["data"][MIME])


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"cells": [{"outputs": [{"data": {"application/vnd.irscope.quiz+json": {}}}]}]}', '{"cells": [1]}']
)
def test_a_file_that_is_not_such_a_notebook_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "x.ipynb"
    path.write_text(content)
    with pytest.raises(LoadError, match="not a notebook"):
        irs.quiz.score(path)
    with pytest.raises(LoadError, match="cannot be read"):
        irs.quiz.score(tmp_path / "nowhere.ipynb")


def test_the_right_speed_is_the_one_that_was_measured() -> None:
    fused = irs.fuse(parsed("x:Float(256, 256, strides=[256, 1]) | a = relu x; b = tanh a; c = mul b x | c"))
    asked = speed_question(fused, example_arguments(fused.original, 0), repeats=3)
    told = re.search(r"fused is ([\d.]+) times as fast here", asked.options[0].verdict.because)
    assert told
    within = [option.name for option, (low, high) in zip(asked.options, BRACKETS, strict=True) if low <= float(told[1]) < high]
    assert set(within) <= set(asked.answer), "the best turns are right; so is what the quartiles come near"
    assert asked.judge([asked.answer[0]]).points == 1


def test_a_quiz_of_no_kind_says_what_the_kinds_are() -> None:
    with pytest.raises(ArgumentError, match=r"irs\.quiz\.mixed.*\.alias, \.moves"):
        irs.quiz(graph)
