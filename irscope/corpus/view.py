"""The view of a survey for its page: the first classes and models, and the tables in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from irscope._base.escaping import shortened
from irscope._base.words import plural
from irscope.display.survey_page import SurveyedClass, SurveyView

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["survey_view"]


_CLASSES: Final = 60
_MODELS: Final = 60
_MEMBERS: Final = 20
_ROWS: Final = 40


def survey_view(survey: Any) -> SurveyView:
    """Returns the data of a `Survey`'s page."""
    classes, groups = survey.classes, survey.groups
    first = classes.head(_CLASSES)
    where = dict(list(groups[groups["class"] < len(first)].groupby("class")))
    counts = groups.groupby(["model", "class"]).size()
    models = [str(name) for name in survey.models["model"].head(_MODELS)]
    columns = [int(number) for number in first.index]
    left_out = f", {len(survey.failures)} left out" if len(survey.failures) else ""
    return {
        "title": f"{plural(len(survey.models), 'model')}{left_out}",
        "summary": survey.summary,
        "classes": [_class(number, row, where[number]) for number, row in enumerate(_rows(first))],
        "rest": max(0, len(classes) - len(first)),
        "models": models,
        "columns": columns,
        "cells": [[int(counts.get((model, number), 0)) for number in columns] for model in models],
        "tables": _tables(survey),
    }


def _rows(frame: pd.DataFrame) -> list[dict[Any, Any]]:
    return frame.to_dict("records")


def _class(number: int, row: dict[Any, Any], where: pd.DataFrame) -> SurveyedClass:
    lines = [f"{each['model']}: group {each['group']}, {each['result']}" for each in _rows(where.head(_MEMBERS))]
    if len(where) > len(lines):
        lines.append(f"and {len(where) - len(lines):,} more")
    return {
        "number": number, "members": int(row["members"]), "models": int(row["models"]), "ops": row["ops"],
        "before": int(row["bytes_before"]), "after": int(row["bytes_after"]), "saved_s": float(row["saved_s"]), "text": row["text"],
        "where": lines,
    }  # fmt: skip


def _tables(survey: Any) -> list[tuple[str, list[str], list[list[str]]]]:
    near, ops = survey.near.head(_ROWS), survey.ops
    missed = survey.remarks[survey.remarks["kind"] == "missed"].head(_ROWS)
    never = ops[ops["in_groups"] == 0].sort_values("alone", ascending=False).head(_ROWS)
    return [
        (
            "Families that are one hole apart",
            ["hole", "values", "classes", "members", "saved"],
            [
                [row["hole"], shortened(row["values"], 80), f"{row['classes']:,}", f"{row['members']:,}", f"{row['saved_s']:.2g} s"]
                for row in _rows(near)
            ],
        ),
        (
            "What was not fused, by rule",
            ["rule", "op", "times", "models", "the first"],
            [[row["rule"], row["op"], f"{row['count']:,}", f"{row['models']:,}", row["example"]] for row in _rows(missed)],
        ),
        (
            "Ops that are in no group",
            ["op", "times", "models", "why the first is not"],
            [[row["op"], f"{row['alone']:,}", f"{row['models']:,}", row["because"]] for row in _rows(never)],
        ),
        (
            "Classes by each relation",
            ["relation", "classes", "largest", "to compile", "what one body gives up"],
            [
                [row["relation"], f"{row['classes']:,}", f"{row['largest']:,}", f"{row['compile_s']:.3g} s", row["gives up"]]
                for row in _rows(survey.ladder().reset_index())
            ],
        ),
        (
            "Models that were left out",
            ["model", "why"],
            [[row["model"], shortened(row["what"], 400)] for row in _rows(survey.failures)],
        ),
    ]
