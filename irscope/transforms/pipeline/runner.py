"""Runs passes one after another, given as a text such as `functionalize,cse,fuse{min_size=3},dce` or as functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any

from irscope._base.progress import progress
from irscope._base.words import plural
from irscope.analysis.per_graph import leads
from irscope.errors import ArgumentError, IrscopeError, PassError, loading
from irscope.ir import Graph, graph_of
from irscope.ops.check import verify
from irscope.transforms.base import PassRecord, Remark, check_types
from irscope.transforms.history import History
from irscope.transforms.pipeline.parser import parse_pipeline
from irscope.transforms.pipeline.registry import PASSES, Pass

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Pipeline", "Pipelined", "Stage"]


@dataclass(frozen=True, slots=True)
class Stage:
    """One pass of a pipeline with its options."""

    name: str
    run: Callable[[Graph], Any] = field(repr=False)
    """Takes a graph; returns a graph, a `PassRecord`, a `History`, or a result that has one."""
    options: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        options = ",".join(f"{name}={_option_text(value)}" for name, value in self.options.items())
        return f"{self.name}{{{options}}}" if options else self.name


@dataclass(frozen=True)
class Pipelined:
    """The result of a pipeline on a graph."""

    history: History
    """One record for each pass, including those that a stage itself runs (such as folding before fusion)."""
    results: Mapping[str, Any] = field(repr=False)
    """The result of each stage, by its name (the last of that name), such as the `Fusion` of `fuse`."""
    stage_of: tuple[str, ...] = field(repr=False)
    """The name of the stage that each record belongs to."""

    def __deepcopy__(self, memo: object) -> Pipelined:
        return self  # it is frozen, as is all that it holds

    def __reduce__(self) -> str:
        what = "what a Pipeline made cannot be pickled: it answers questions from what is known of the ops in this process"
        raise ArgumentError(what, hint="pickle result.graph, or the graph that it was made of, and run the pipeline again")

    @property
    def graph(self) -> Graph:
        """The graph after the last pass."""
        return self.history.final

    @property
    def records(self) -> tuple[PassRecord, ...]:
        """The record of each pass, in order."""
        return self.history.records

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """The remarks of all passes in order."""
        return self.history.remarks

    def table(self) -> pd.DataFrame:
        """One row per pass: nodes before and after over all blocks, seconds, and the number of remarks of each kind."""
        with loading("pandas"):
            from irscope._base.tables import Table

        rows = []
        for record in self.records:
            kinds = Counter(remark.kind for remark in record.remarks)
            rows.append(
                {
                    "pass": record.name, "nodes before": len(record.before.position),
                    "nodes after": len(record.after.position), "seconds": record.seconds,
                    "passed": kinds["passed"], "missed": kinds["missed"],
                }
            )  # fmt: skip
        columns = ["pass", "nodes before", "nodes after", "seconds", "passed", "missed"]
        return Table(rows, columns=columns)

    def __repr__(self) -> str:
        nodes = f"{len(self.history.initial.position)} → {plural(len(self.graph.position), 'node')}"
        return f"<Pipelined {self.graph.name!r}: {', '.join(record.name for record in self.records) or 'no passes'}; {nodes}>"


class Pipeline:
    """Passes to run one after the other.

    Each part is a text of pass names with options in braces, or a function from a graph to a graph or to a record.
    `Pipeline.passes()` lists the names. Raises ArgumentError for an unknown name, option or value.

    >>> import irscope as irs
    >>> g = irs.parse('''graph(%x : Float(4)):
    ...   %a : Float(4) = aten::neg(%x)
    ...   %b : Float(4) = aten::relu_(%a)
    ...   %c : Float(4) = aten::neg(%x)
    ...   %d : Float(4) = aten::mul(%a, %c)
    ...   return (%d)''')
    >>> done = Pipeline("functionalize,cse,dce")(g)
    >>> print(done.graph)
    graph(%x : Float(4)):
      %a : Float(4) = aten::neg(%x)
      %b : Float(4) = aten::relu(%a)
      %d : Float(4) = aten::mul(%b, %a)
      return (%d)
    >>> Pipeline("cse", lambda graph: graph, "fuse{min_size=3}")
    Pipeline('cse,<lambda>,fuse{min_size=3}')
    """

    def __init__(self, *parts: str | Callable[[Graph], Any]) -> None:
        stages: list[Stage] = []
        for part in parts:
            if isinstance(part, str):
                stages.extend(_stage(known, options) for known, options in parse_pipeline(part))
            elif callable(part):
                stages.append(Stage(getattr(part, "__name__", type(part).__name__), part))
            else:
                raise ArgumentError(
                    f"a pipeline is made of texts and functions, not of {type(part).__name__}",
                    hint='Pipeline("functionalize,cse", my_pass, "dce")',
                )
        self.stages = tuple(stages)

    @staticmethod
    def passes() -> Mapping[str, str]:
        """The names of all passes, with a line about each."""
        return {name: known.doc for name, known in PASSES.items()}

    def __call__(self, graph: Graph, *, verify_each: bool = False) -> Pipelined:
        """Run all passes; with `verify_each`, verify the graph after each and compare the types of values with those before;
        raises PassError that names the pass that broke them."""
        graph = graph_of(graph, "Pipeline")
        history = History(graph)
        results: dict[str, Any] = {}
        stage_of: list[str] = []
        with progress(len(self.stages), "passes") as step:
            for stage in self.stages:
                results[stage.name], records = _run(stage, history.final)
                for record in records:
                    history = history.then(record)
                    stage_of.append(stage.name)
                if verify_each:
                    _check(stage, records)
                step()
        return Pipelined(history, results, tuple(stage_of))

    def __str__(self) -> str:
        return ",".join(map(str, self.stages))

    def __repr__(self) -> str:
        return f"Pipeline({str(self)!r})"


def _stage(known: Pass, options: Mapping[str, Any]) -> Stage:
    run = known.load()

    def stage(graph: Graph) -> Any:
        result = run(graph, **options)
        if isinstance(result, PassRecord):
            leads(result)
        return result

    return Stage(known.name, stage, options)


def _run(stage: Stage, graph: Graph) -> tuple[Any, Sequence[PassRecord]]:
    """Run a stage; return its result and the records in it, which lead from the given graph to the next."""
    started = perf_counter()
    result = stage.run(graph)
    seconds = perf_counter() - started
    history = result if isinstance(result, History) else getattr(result, "history", None)
    if isinstance(result, Graph):
        records: tuple[PassRecord, ...] = (PassRecord(stage.name, graph, result, seconds=seconds),)
    elif isinstance(result, PassRecord):
        records = (result,)
    elif isinstance(history, History):
        records = history.records
    else:
        raise PassError(
            f"pass {stage.name!r} returned {type(result).__name__}", rule="gives-a-graph",
            hint="a pass returns a Graph, a PassRecord, a History, or a result with a history",
        )  # fmt: skip
    before = graph
    for record in records:
        if record.before is not before:
            what = f"pass {stage.name!r} returned the record of a graph that is not its input"
            raise PassError(
                what, rule="starts-from-its-graph", hint="its records must start from the input graph, in order"
            )
        before = record.after
    return result, records


def _check(stage: Stage, records: Sequence[PassRecord]) -> None:
    for record in records:
        check_types(record)
    try:
        if records:
            verify(records[-1].after)
    except IrscopeError as error:
        what = f"after pass {stage.name!r} the graph breaks a rule: {error.what}"
        raise PassError(
            what, where=error.where, rule=error.rule, hint="run the passes before it alone, then this one"
        ) from error


def _option_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
