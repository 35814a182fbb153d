"""A lecture of five steps about one program, an attention that keeps its keys in a cache: each step is asked first, and then shown.

The questions are one quiz, joined by `+`; the analyses compute their answers, but for that of the lecturer's own. The story has a step
for each, and is one page that plays from disk (`n` and `p`).

    python examples/lecture.py [folder]
"""

import sys
from pathlib import Path

import numpy as np


def attend(cache, key, query):
    rows = cache.reshape(16, 32)
    near = query * 0.25
    rows[3] = np.tanh(key)
    scores = (rows * near).sum(axis=-1)
    weight = np.exp(scores - scores.max())
    turned = cache.transpose(1, 0, 2)
    heads = turned.reshape(4, 128)
    return weight / weight.sum(), heads


def lecture():
    """The questions and the story, in the same order."""
    import irscope as irs

    arrays = [np.ones(shape, np.float32) for shape in ((16, 4, 8), (32,), (32,))]
    g = irs.load(attend, *arrays, distinct_inputs=True)
    f, db, views = irs.fuse(g), irs.AliasDb(g), irs.ViewAliases(g)
    (write,) = db.writers("cache")
    asked = (
        irs.quiz.alias(g, subject="rows", count=1, seed=1)
        + irs.quiz.moves(g, subject=write, count=1, seed=1)
        + irs.quiz.views(g, subject="heads", count=1, seed=1)
        + irs.quiz.fusion(f, subject="weight", count=1, seed=1)
        + irs.quiz.own(
            f, "Which of these would the next call find changed?", subject=write,
            right={"%cache": "its fourth row is the new key"}, wrong={"%key": "it is read", "%query": "it is read"},
        )
    )  # fmt: skip

    told = irs.story(f, title="A cache that is written in place")
    told.add("`%rows` is **the cache under another name**, not a copy of it.", selection=["cache", "rows"], colour="kind")
    told.add("So this writes the cache: who reads it must come after.", selection=write)
    told.add(f"`%heads` is {views.explain('heads')}.", selection="heads")
    told.add("Two kernels, and the calls around them.", selection=f.groups, colour="equal")
    told.add(f"Why two? They are {f.why_not('scores', 'weight')}.", selection=["scores", "weight"], pane="graph")
    return asked, told


def main(folder: str = ".") -> None:
    asked, told = lecture()
    print(asked.text(answers=True))
    print(told, "→", told.save(Path(folder) / "lecture.html"))
    for question in asked.questions:
        assert asked.answer(*question.answer)
    assert (len(asked), len(told), asked.points, told.check()) == (5, 5, 5, [])


if __name__ == "__main__":
    main(*sys.argv[1:])
