"""The findings of a survey: tables that are read on demand, the way back into each model, and its page."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from irscope._base.words import byte_count, plural, shortened
from irscope.corpus.sources import Settings, Source
from irscope.corpus.tables import MANIFEST, TABLES, read_rows
from irscope.display.survey_page import SurveyedClass, SurveyView, survey_cell, survey_html
from irscope.errors import ArgumentError, LoadError, UnknownName, UnknownNumber, public
from irscope.files import read_json, write_file

if TYPE_CHECKING:
    import pandas as pd

    from irscope.ir import Graph
    from irscope.transforms.fusion import Fusion
    from irscope.widgets.explorer import Explorer


class Survey:
    """The commonalities of many models. `Survey(folder)` reads an earlier survey.

    Sizes are in bytes, times in seconds; compile times are estimates (see `irs.dedup(f).ladder()`).
    """

    def __init__(self, out: str | Path, sources: Mapping[str, tuple[Source, Settings]] | None = None) -> None:
        self.out = Path(out)
        """The folder of the survey."""
        self._sources = sources or {}
        done = None
        with suppress(LoadError):
            manifest = read_json(self.out / MANIFEST, hint="", kind="a survey")
            done = manifest.get("done") if isinstance(manifest, dict) else None
        if not isinstance(done, bool):
            what = f"the folder {str(out)!r} holds no survey"
            raise LoadError(what, hint="irs.corpus.survey(sources, out=folder) makes one")
        if not done and not (self.out / TABLES).exists():
            what = f"the survey in {str(out)!r} was interrupted before its tables were written"
            raise LoadError(what, hint="run it again with the same sources: finished models are not repeated")

    @cached_property
    def classes(self) -> pd.DataFrame:
        """One row for each class of equal groups, whatever their models; the class with the most members first.

        `members` is the number of its groups, `models` the number of models with it, `bytes_before` and `bytes_after` the traffic of
        all members op by op and fused (an unknown extent counts as 64), `compile_s` the time to compile one, `saved_s` the time
        saved by compiling it once instead of once in each model, `first` a model that has it, `kernels` its compiled kernels, `text`
        a program with only this group.
        """
        frame = self._table("classes")
        frame["saved_s"] = frame["compile_s"] * (frame["models"] - 1)
        frame = frame.sort_values(["members", "fingerprint"], ascending=[False, True], ignore_index=True)
        frame.index.name = "class"
        order = ["members", "models", "nodes", "ops", "kind", "bytes_before", "bytes_after", "compile_s", "saved_s", "first"]
        return frame[[*order, "kernels", "fingerprint", "text"]]

    @cached_property
    def kernels(self) -> pd.DataFrame:
        """One row for each kernel that `irs.compile` would build: the number of models, groups and classes that it serves.

        Kernels take sizes as arguments, so several classes may share one.
        """
        launches = self._table("launches").groupby("kernel").agg(groups=("groups", "sum"), models=("model", "nunique"))
        named = self.classes["kernels"].str.split().explode().dropna()
        launches["classes"] = named.groupby(named).size().reindex(launches.index).fillna(0).astype(int)
        return launches.sort_values(["groups", "kernel"], ascending=[False, True]).reset_index()

    @cached_property
    def models(self) -> pd.DataFrame:
        """One row for each model that could be examined, in the order of the sources."""
        return self._table("models")

    @cached_property
    def groups(self) -> pd.DataFrame:
        """One row for each fusion group: its model, its number and result there, and its class."""
        frame = self._table("groups")
        frame["class"] = frame.pop("fingerprint").map(self._number_of)
        return frame

    @cached_property
    def near(self) -> pd.DataFrame:
        """One row for each family of classes that are equal except for one hole: its place, its values, the classes, and the saving
        of one body for all of them."""
        frame, number = self._table("near"), self._number_of
        frame["members of"] = [[number[mark] for mark in marks.split()] for marks in frame.pop("fingerprints")]
        frame = frame.rename(columns={"compile_s": "saved_s"})
        return frame.sort_values(["saved_s", "members", "hole"], ascending=[False, False, True], ignore_index=True)

    @cached_property
    def remarks(self) -> pd.DataFrame:
        """Fused and missed decisions, counted by rule and op over all models, with the first in words."""
        return _count(self._table("remarks"), ["kind", "rule", "op"], {"count": "sum"}, "example")

    @cached_property
    def ops(self) -> pd.DataFrame:
        """One row for each op: how often it is in a group and how often alone, and why the first one alone is."""
        frame = self._table("ops").sort_values("because", key=lambda text: text == "", kind="stable")
        return _count(frame, ["op"], {"in_groups": "sum", "alone": "sum"}, "because")

    @cached_property
    def failures(self) -> pd.DataFrame:
        """One row for each model that was left out, and why."""
        return self._table("failures")

    def ladder(self) -> pd.DataFrame:
        """Returns how many classes there are by each relation of `irs.dedup`, and the time to compile one body for each.

        By `arguments` and finer relations classes are interchangeable; by coarser ones they differ in holes. Every merge is proven.
        """
        from irscope.transforms.dedup import GIVES_UP, RELATIONS

        frame = self._table("ladder").groupby("relation").agg({"classes": "sum", "largest": "max", "compile_s": "sum"})
        frame = frame.reindex([relation for relation in RELATIONS if relation in frame.index])
        frame["gives up"] = [GIVES_UP[relation] for relation in frame.index]
        return frame

    def fusion(self, model: str) -> Fusion:
        """Loads and fuses a model again. Raises UnknownName, or any error of loading it."""
        from irscope.corpus.examine import fuse_by, program_of
        from irscope.errors import IrscopeError
        from irscope.ir import Graph

        source, settings = self._source(model)
        program = program_of(source, settings)
        if not isinstance(program, Graph):
            raise IrscopeError(f"{model!r} is a module of executables: nothing of it is fused", hint="irs.dedup(irs.load(path))")
        return fuse_by(program, settings.policy)

    @public
    def explore(self, model: str | int, group: int | None = None) -> Explorer:
        """Opens the explorer of a model with one of its groups selected; for a class number, of the first model that has it."""
        from irscope.ir import GROUPS
        from irscope.session import explore

        if isinstance(model, int):
            found = self._members(model)
            model, group = str(found["model"].iloc[0]), int(found["group"].iloc[0])
        fusion = self.fusion(model)
        shown = explore(fusion)
        if group is not None:
            nodes = [node for node in fusion.graph.nodes() if node.op in GROUPS and node.blocks]
            if not 0 <= group < len(nodes):
                raise UnknownNumber(f"{model!r} has no group {group}", hint=f"it has {len(nodes)}, counted from 0")
            shown.selection = nodes[group]
        return shown

    def write(self, output: str | Path) -> Path:
        """Writes the page of this survey, which needs no script and no network; returns its path. Raises ArgumentError."""
        return write_file(output, survey_html(_view(self)))

    @public
    def program(self, cls: int) -> Graph:
        """Returns a graph with only a group of a class: to show, compile, or compare. Raises UnknownNumber."""
        from irscope.frontends.text import parse

        self._members(cls)
        text = self.classes["text"].iloc[cls]
        if not text:
            raise UnknownName(f"class {cls} is kept without its text", hint="survey.explore(class) opens it in its model")
        return parse(text)

    @cached_property
    def _number_of(self) -> dict[str, int]:
        """The number of the class with each fingerprint."""
        return dict(zip(self.classes["fingerprint"], self.classes.index, strict=True))

    def _members(self, cls: int) -> pd.DataFrame:
        if not 0 <= cls < len(self.classes):
            raise UnknownNumber(f"there is no class {cls}", hint=f"there are {len(self.classes)}, counted from 0")
        return self.groups[self.groups["class"] == cls]

    def _source(self, model: str) -> tuple[Source, Settings]:
        if model in self._sources:
            return self._sources[model]
        known = self.models.set_index("model")
        if model not in known.index:
            raise UnknownName(f"there is no model {model!r} in the survey", hint="survey.models lists them")
        path = str(known.loc[model, "source"])
        if not path:
            raise ArgumentError(f"{model!r} was built by a function, which this survey does not have", hint="make the survey again")
        return Source(model, str(known.loc[model, "key"]), path), Settings()

    def _table(self, name: str) -> pd.DataFrame:
        frame: pd.DataFrame = read_rows(self.out / TABLES / name, name).to_pandas()
        return frame

    def _repr_html_(self) -> str:
        return survey_cell(_view(self))

    def _explored_(self) -> Any:
        """Returns the widget that `irs.explore` shows: its classes, and the explorer of the chosen one."""
        from irscope.widgets.explorer import survey_box

        return survey_box(self, self._repr_html_())

    def __repr__(self) -> str:
        left_out = f", {len(self.failures)} left out" if len(self.failures) else ""
        return f"<Survey of {plural(len(self.models), 'model')}{left_out}: {self.summary}>"

    @property
    def summary(self) -> str:
        """The main numbers, in a line."""
        classes = self.classes
        once, each = classes["compile_s"].sum(), (classes["compile_s"] * classes["models"]).sum()
        moved = f"{byte_count(classes['bytes_before'].sum())} → {byte_count(classes['bytes_after'].sum())} moved"
        return (
            f"{plural(int(classes['members'].sum()), 'group')} in {plural(len(classes), 'class', 'classes')}, "
            f"{plural(len(self.kernels), 'kernel')}; {moved}; "
            f"compiling each class once takes about {once:.3g} s, in each model {each:.3g} s"
        )


def _count(frame: pd.DataFrame, by: list[str], sums: dict[str, Any], words: str) -> pd.DataFrame:
    found = frame.groupby(by, sort=False).agg({**sums, "model": "nunique", words: "first"}).rename(columns={"model": "models"})
    first = next(iter(sums))
    return found.reset_index().sort_values([first, *by], ascending=[False, *[True for _ in by]], ignore_index=True)


# -- the page ---------------------------------------------------------------------------------------------------------

_CLASSES: Final = 60
_MODELS: Final = 60
_MEMBERS: Final = 20
_ROWS: Final = 40


def _view(survey: Survey) -> SurveyView:
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


def _tables(survey: Survey) -> list[tuple[str, list[str], list[list[str]]]]:
    near, ops = survey.near.head(_ROWS), survey.ops
    missed = survey.remarks[survey.remarks["kind"] == "missed"].head(_ROWS)
    never = ops[ops["in_groups"] == 0].sort_values("alone", ascending=False).head(_ROWS)
    families = [
        [row["hole"], shortened(row["values"], 80), f"{row['classes']:,}", f"{row['members']:,}", f"{row['saved_s']:.2g} s"]
        for row in _rows(near)
    ]
    unfused = [[row["rule"], row["op"], f"{row['count']:,}", f"{row['models']:,}", row["example"]] for row in _rows(missed)]
    alone = [[row["op"], f"{row['alone']:,}", f"{row['models']:,}", row["because"]] for row in _rows(never)]
    steps = [
        [row["relation"], f"{row['classes']:,}", f"{row['largest']:,}", f"{row['compile_s']:.3g} s", row["gives up"]]
        for row in _rows(survey.ladder().reset_index())
    ]
    left_out = [[row["model"], shortened(row["what"], 400)] for row in _rows(survey.failures)]
    return [
        ("Families that are one hole apart", ["hole", "values", "classes", "members", "saved"], families),
        ("What was not fused, by rule", ["rule", "op", "times", "models", "the first"], unfused),
        ("Ops that are in no group", ["op", "times", "models", "why the first is not"], alone),
        ("Classes by each relation", ["relation", "classes", "largest", "to compile", "what one body gives up"], steps),
        ("Models that were left out", ["model", "why"], left_out),
    ]
