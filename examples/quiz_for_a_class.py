"""A sheet of questions for each of a class, a key for whoever marks them, and the points of what came back.

Every right answer is computed by the analyses; a seed makes the same sheet again.

    python examples/quiz_for_a_class.py [people]
"""

import sys


def main(people: int = 3) -> None:
    import irscope as irs

    sheets = irs.quiz.sheets(people, count=3, difficulty=2, seed=2026)
    print(sheets[0].text(answers=True))
    for sheet in sheets:
        for number, question in enumerate(sheet.questions):  # a pupil who picks the first option every time
            sheet.answer(question.options[0].name, question=number)
    print(irs.quiz.score(*sheets).to_string(index=False))
    again = irs.quiz.mixed(count=3, difficulty=2, seed=2026)
    assert [question.prompt for question in again.questions] == [question.prompt for question in sheets[0].questions]
    for question in again.questions:
        assert again.answer(*question.answer)
    assert again.points == 3


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
