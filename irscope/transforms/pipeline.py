"""Runs passes one after another, given as a text such as `functionalize,cse,fuse{min_size=3},dce` or as functions."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import import_module
from inspect import signature
from time import perf_counter
from types import UnionType
from typing import Any, Final, Literal, NoReturn, Union, get_args, get_origin, get_type_hints

import pandas as pd

from irscope._base.running import progress
from irscope._base.words import plural
from irscope.analysis.per_graph import leads
from irscope.errors import ArgumentError, IrscopeError, PassError, new_table, public
from irscope.ir import Graph, graph_of
from irscope.ir.text.lexer import Cursor
from irscope.ops.node_check import verify
from irscope.transforms.base import History, PassRecord, Remarks, Unpicklable, check_types
from irscope.transforms.fusion import POLICIES

# The passes that a pipeline knows by name: for each, a line of help and the function, whose keywords are its options.
#
# `irscope.transforms.base` documents the contract of a pass.


@dataclass(frozen=True, slots=True)
class Pass:
    name: str
    doc: str
    """One line of help."""
    home: str
    """Module and function, imported when the pass is first loaded."""

    def load(self) -> Callable[..., Any]:
        """The function itself."""
        module, _, name = self.home.partition(":")
        function: Callable[..., Any] = getattr(import_module(f"irscope.transforms.{module}"), name)
        return function

    @property
    def options(self) -> Mapping[str, type]:
        """The options that a pipeline's text can set, with their types: the function's arguments, other than the graph,
        that take a word or a number.

        >>> PASSES["autodiff-subgraphs"].options
        {'threshold': <class 'int'>}
        """
        function = self.load()
        hints = get_type_hints(function)
        found = {name: _written_type(hints[name]) for name in [*signature(function).parameters][1:]}
        return {name: kind for name, kind in found.items() if kind is not None}


def _written_type(hint: Any) -> type | None:
    """The first type of a keyword's annotation that can be written in a text; None if there is none."""
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    kinds = tuple(type(get_args(kind)[0]) if get_origin(kind) is Literal else kind for kind in kinds)
    return next((kind for kind in kinds if kind in (bool, int, float, str)), None)


PASSES: Final[Mapping[str, Pass]] = {one.name: one for one in (
    Pass("fold-constants", "replaces known numbers by constants, and decided ifs by their branch", "cleanup.fold:fold_constants"),
    Pass(
        "tables-of-lists", "writes lists that a loop of kernels fills in a known number of turns as tables, whose rows it writes",
        "cleanup:tables_of_lists",
    ),
    Pass(
        "expand-recurrent", "writes small recurrent layers as loops, for kernels; results differ by rounding",
        "cleanup:expand_recurrent",
    ),
    Pass(
        "expand-loop-products", "writes small matrix products in loops as sums of products, for kernels; results differ by rounding",
        "cleanup.loop_products:expand_loop_products",
    ),
    Pass(
        "functionalize", "replaces in-place ops by functional variants where the difference is not observable",
        "functionalize:functionalize",
    ),
    Pass("fold-tensors", "replaces small tensors that are the same at every run by constants", "cleanup.fold:fold_tensors"),
    Pass("canonicalize", "small rewrites: x * 1, transposes that cancel, loops that never run", "cleanup.canonicalize:canonicalize"),
    Pass(
        "recommend-layouts", "makes results of convolutions channels last where that turns copies into views",
        "cleanup.layouts:recommend_layouts",
    ),
    Pass(
        "channels-last", "lays out operands and results of convolutions channels last, where they would be copied",
        "cleanup.channels_last:channels_last",
    ),
    Pass(
        "restore-exported", "puts back products of rows, biases and group norms that an exporter took apart; results differ by rounding",
        "cleanup.exported:restore_exported",
    ),
    Pass("fold-weights", "moves the elements of weights that nobody can write once, not at each call", "cleanup.fold:fold_weights"),
    Pass(
        "fold-batch-norm", "gives batch norms to the convolution or linear before them, by other weights; results differ by rounding",
        "cleanup.batch_norm:fold_batch_norm",
    ),
    Pass(
        "onednn", "gives convolutions and linears to oneDNN or kernels of our own with what follows them; results differ by rounding",
        "cleanup.onednn:use_onednn",
    ),
    Pass("cse", "computes equal expressions once", "cleanup.cse:eliminate_common_subexpressions"),
    Pass("pool-constants", "merges equal constants into one that dominates all users", "cleanup.cse:pool_constants"),
    Pass(
        "dedup-constants", "merges equal constant tensors where no run can tell them apart, and parameters that share memory",
        "dedup:merge_constants",
    ),
    Pass("fuse", "groups ops that can run as one kernel", "fusion:fuse"),
    Pass(
        "prepare-fusion",
        "the first part of fuse: fold-constants, expand-recurrent, tables-of-lists, expand-loop-products, functionalize, dce, fold-tensors",
        "fusion:prepare_fusion",
    ),
    Pass("fuse-groups", "groups ops that can run as one kernel, and does nothing else", "fusion:fuse_groups"),
    Pass("group-turns", "gives each op of a loop a kernel, where kernels compute all else of a turn", "fusion:group_turns"),
    Pass("group-alone", "gives an op that is in no group a kernel, where that is quicker than the library's op", "fusion:group_alone"),
    Pass("group-views", "groups views that follow one another", "fusion:group_views"),
    Pass("group-pools", "gives each max pooling a kernel of its own, which leaves out the indices of the maxima", "fusion:group_pools"),
    Pass("autodiff-subgraphs", "groups ops that have gradient formulas", "autodiff:autodiff_subgraphs"),
    Pass("dedup", "gives fusion groups of one class one body, with the numbers that differ as parameters", "dedup.rewrite:merge_groups"),
    Pass("normal-form", "puts nodes, operands and constants into a canonical order", "dedup.rewrite:normal_form"),
    Pass("dce", "removes nodes without effects whose results are unused", "cleanup.fold:remove_dead_nodes"),
)}  # fmt: skip
"""All passes by name, in the order in which one would usually run them."""


# Parses the text of a pipeline: names of passes separated by commas, each with its options in braces, separated by
# commas or spaces.
#
# functionalize, cse, fuse{policy=min-bytes min_size=3}, dce

_NAME: Final = re.compile(r"[A-Za-z_][\w-]*")
_VALUE: Final = re.compile(rf"{_NAME.pattern}|[-+]?[\d.][\w.+-]*|\S")
_WORDS: Final = {"true": True, "false": False, "yes": True, "no": False, "1": True, "0": False}


def parse_pipeline(text: str) -> list[tuple[Pass, dict[str, Any]]]:
    """Returns the passes of a text with their options; raises ArgumentError with a caret under the mistake.

    >>> [(known.name, options) for known, options in parse_pipeline("cse, fuse{min_size=3}")]
    [('cse', {}), ('fuse', {'min_size': 3})]
    """
    reader, found = _Reader(text), list[tuple[Pass, dict[str, Any]]]()
    is_next = bool(text.strip())
    while is_next:
        start, name = reader.skip(), reader.demand(_NAME, "the name of a pass")
        known = PASSES.get(name)
        if known is None:
            reader.wrong(f"there is no pass {name!r}", start, hint=_near(name, PASSES))
        options: dict[str, Any] = {}
        if reader.take("{"):
            while not reader.take("}"):
                if options:
                    reader.take(",")  # or a space, as MLIR writes it
                key, value = _option(reader, name, known.options)
                options[key] = value
        found.append((known, options))
        is_next = reader.take(",")
    if reader.skip() < len(text):
        reader.fail("a comma between passes")
    return found


def _option(reader: "_Reader", name: str, kinds: Mapping[str, type]) -> tuple[str, Any]:
    start, key = reader.skip(), reader.demand(_NAME, "the name of an option, or }")
    wanted = kinds.get(key)
    if wanted is None:
        reader.wrong(f"pass {name!r} has no option {key!r}", start, hint=_near(key, kinds) if kinds else "it has no options")
    if not reader.take("="):
        reader.fail(f"= and a value for {key!r}")
    start, text = reader.skip(), reader.demand(_VALUE, f"a value for {key!r}")
    if key == "policy" and text not in POLICIES:
        reader.wrong(f"there is no fusion policy {text!r}", start, hint=f"the policies are {', '.join(POLICIES)}")
    try:
        return key, _WORDS[text.lower()] if wanted is bool else wanted(text)
    except (KeyError, ValueError):
        words = {bool: "true or false", int: "a whole number", float: "a number", str: "a word"}
        reader.wrong(f"{key!r} is {words[wanted]}, not {text!r}", start, hint=f"{name}{{{key}=…}}")


def _near(name: str, known: Mapping[str, Any]) -> str:
    near = get_close_matches(name, known, n=2)
    question = f"did you mean {' or '.join(near)}? " if near else ""
    return f"{question}there are: {', '.join(known)}"


class _Reader(Cursor):
    """The text of a pipeline, token by token."""

    def wrong(self, what: str, pos: int | None = None, *, hint: str = "") -> NoReturn:
        """Raises ArgumentError with a caret at `pos`, or here."""
        hint = hint or "a pipeline is written like functionalize,cse,fuse{min_size=3},dce"
        raise ArgumentError(what, where=f"{self.text}\n{' ' * (self.pos if pos is None else pos)}^", hint=hint)


@dataclass(frozen=True, slots=True)
class Stage:
    """One pass of a pipeline with its options."""

    name: str
    run: Callable[[Graph], Any] = field(repr=False)
    """Takes a graph; returns a graph, a `PassRecord`, a `History`, or a result that has one."""
    options: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in self.options.items()}
        options = ",".join(f"{name}={text}" for name, text in texts.items())
        return f"{self.name}{{{options}}}" if options else self.name


@dataclass(frozen=True)
class Pipelined(Unpicklable):
    """The result of a pipeline on a graph."""

    history: History
    """One record for each pass, including those that a stage itself runs (such as folding before fusion)."""
    results: Mapping[str, Any] = field(repr=False)
    """The result of each stage, by its name (the last of that name), such as the `Fusion` of `fuse`."""
    stage_of: tuple[str, ...] = field(repr=False)
    """The name of the stage that each record belongs to."""

    pickle_instead = "pickle result.graph, or the graph that it was made of, and run the pipeline again"

    @property
    def graph(self) -> Graph:
        """The graph after the last pass."""
        return self.history.final

    @property
    def records(self) -> tuple[PassRecord, ...]:
        """The record of each pass, in order."""
        return self.history.records

    @property
    def remarks(self) -> Remarks:
        """The remarks of all passes in order."""
        return self.history.remarks

    def table(self) -> pd.DataFrame:
        """One row per pass: nodes before and after over all blocks, seconds, and the number of remarks of each kind."""
        rows = []
        for record in self.records:
            kinds = Counter(remark.kind for remark in record.remarks)
            nodes = len(record.before.position), len(record.after.position)
            rows.append((record.name, *nodes, record.seconds, kinds["passed"], kinds["missed"]))
        columns = ["pass", "nodes before", "nodes after", "seconds", "passed", "missed"]
        return new_table(rows, columns=columns)

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
                stages.extend(_compose(known, options) for known, options in parse_pipeline(part))
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

    @public
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


def _compose(known: Pass, options: Mapping[str, Any]) -> Stage:
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
            raise PassError(what, rule="starts-from-its-graph", hint="its records must start from the input graph, in order")
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
        raise PassError(what, where=error.where, rule=error.rule, hint="run the passes before it alone, then this one") from error
