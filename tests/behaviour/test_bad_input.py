"""What a person gets wrong, from the file's name to the last argument: each mistake is one error that says what now.

`refused` is the bar: an IrscopeError with a sentence and something to go by (a hint, or the place), and nothing of our
own code in what a notebook shows.
"""

import importlib.util
import itertools
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import irscope as irs
from irscope import cli, magics

from irscope.errors import (  # isort: skip
    ArgumentError, CaptureError, DeviceUnavailable, IrscopeError, LoadError, ParseError, RunError, UnknownName, UnknownNumber, VerifyError,
)  # fmt: skip
from tests.programs import ir

PROGRAM = ir(
    "x:Float(4, 8, strides=[8, 1], device=cpu) | one = 1; zero = 0; row = select x zero zero; a = sigmoid row; b = mul a row | b",
    "Float(8, strides=[1], device=cpu)",
)
HAS_MLIR = any(importlib.util.find_spec(package) for package in ("iree", "jaxlib"))
CHAIN = "graph(%x : Tensor, %y : Tensor):\n  %m : Tensor = OP\n  %z : Tensor = aten::tanh(%m)\n  return (%z)"


def refused(kind: type[IrscopeError], action: Callable[[], object], *words: str) -> str:
    """What the user reads; `words` must be in it."""
    with pytest.raises(IrscopeError) as caught:
        action()
    error = caught.value
    assert type(error) is kind, repr(error)
    assert error.what.strip() and (error.hint or error.where)
    assert error.__context__ is None or error.__suppress_context__, "a traceback of ours would be shown"
    shown = "\n".join(error._render_traceback_())
    assert "Traceback" not in shown
    assert f"{Path(irs.__file__).parent}/" not in shown
    assert "None" not in error.hint
    for word in words:
        assert word in shown, shown
    return shown


# -- files and sources ------------------------------------------------------------------------------------------------


def test_files_that_are_not_programs(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).bytes(3000)
    for suffix in (".ir", ".pt", ".pt2", ".onnx", ".mlir", ".mlirbc"):
        (tmp_path / f"noise{suffix}").write_bytes(b"\xff" + noise)
        (tmp_path / f"empty{suffix}").write_bytes(b"")
    (tmp_path / "plain").write_text(f"A program: {PROGRAM}")
    refused(LoadError, lambda: irs.load(tmp_path / "nosie.ir"), "noise.ir")
    refused(LoadError, lambda: irs.load("/nowhere/at/all.ir"), "no folder")
    refused(LoadError, lambda: irs.load(tmp_path), "folder")
    refused(LoadError, lambda: irs.load("a" * 5000 + ".ir"), "too long")
    refused(LoadError, lambda: irs.load("hello"), "graph(")
    refused(LoadError, lambda: irs.load(tmp_path / "noise.ir"), "UTF-8")
    refused(LoadError, lambda: irs.load(tmp_path / "noise.onnx"), "ONNX")
    if HAS_MLIR:
        refused(LoadError, lambda: irs.load(tmp_path / "noise.mlir"), "neither MLIR text nor bytecode")
    refused(LoadError, lambda: irs.load(tmp_path / "plain"), ".pt2")
    refused(ParseError, lambda: irs.load(tmp_path / "empty.ir"), "empty.ir:1:1")
    refused(ParseError, lambda: irs.load(""), "no text")


@pytest.mark.parametrize("suffix", [".ir", pytest.param(".mlir", marks=pytest.mark.skipif(not HAS_MLIR, reason="nothing reads MLIR"))])
def test_what_an_error_quotes_of_a_file_gives_a_terminal_no_commands(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"bad{suffix}"
    start = "graph(%x" if suffix == ".ir" else "module {"
    path.write_text(f"{start} \x1b]0;owned\x07 ?\u202e\u2028\x0c !\n", encoding="utf-8")
    with pytest.raises(ParseError) as caught:
        irs.load(path)
    shown = str(caught.value)
    assert "\\x1b]0;owned\\x07" in shown
    assert not [letter for letter in shown if not letter.isprintable() and letter != "\n"]
    quoted, caret = next(pair for pair in itertools.pairwise(shown.splitlines()) if pair[1].strip() == "^")
    assert quoted[caret.index("^") :].startswith("\\x1b")


def test_torch_files_that_are_not_programs(tmp_path: Path, torch: Any) -> None:
    model, x = torch.nn.Linear(2, 2), torch.zeros(1, 2)
    torch.jit.script(model).save(str(tmp_path / "good.pt"))
    torch.export.save(torch.export.export(model, (x,)), tmp_path / "good.pt2")
    torch.save(model.state_dict(), tmp_path / "state.pt")
    refused(LoadError, lambda: irs.load(tmp_path / "state.pt"), "torch.jit.script")
    for suffix in (".pt", ".pt2"):
        whole = (tmp_path / f"good{suffix}").read_bytes()
        assert irs.load(tmp_path / f"good{suffix}").free_inputs
        for name, content in {"half": whole[: len(whole) // 2], "empty": b"", "noise": bytes(range(256)) * 9}.items():
            path = tmp_path / f"{name}{suffix}"
            path.write_bytes(content)
            shown = refused(LoadError, lambda path=path: irs.load(path), "save it again")  # type: ignore[misc]
            assert len(shown) < 400


def test_text_with_a_byte_order_mark_or_the_other_line_ends_is_read(tmp_path: Path) -> None:
    (tmp_path / "mark.ir").write_bytes(b"\xef\xbb\xbf" + PROGRAM.replace("\n", "\r\n").encode())
    assert irs.same_structure(irs.load(tmp_path / "mark.ir"), irs.parse(PROGRAM))


@pytest.mark.parametrize("source", [None, 3, [1], b"graph", object(), np.zeros(2), len, lambda x: x, dict])
def test_sources_that_no_frontend_reads(source: object) -> None:
    refused(LoadError, lambda: irs.load(source))
    refused(LoadError, lambda: irs.load(np.zeros(2), np.tanh), "the program comes first")
    refused(LoadError, lambda: irs.explore(source))
    refused(LoadError, lambda: irs.load(len, object()), "torch")


@pytest.mark.parametrize("verb", [irs.compile, irs.compare, irs.AliasDb, irs.verify, irs.fuse, irs.dedup, irs.parse])
@pytest.mark.parametrize("thing", [None, 3, b"text", object()])
def test_verbs_that_need_a_graph(verb: Callable[[Any], object], thing: object) -> None:
    refused(ArgumentError, lambda: verb(thing), "irs.load")


# -- text -------------------------------------------------------------------------------------------------------------


def test_a_graph_that_breaks_an_invariant_does_not_load() -> None:
    no_else = "graph(%c : bool):\n  %y : int = prim::If(%c)\n    block0():\n      -> ()\n  return (%y)"
    refused(VerifyError, lambda: irs.load(no_else), "block-arity", ">")
    wrong = "graph(%x : Tensor, %c : bool):\n  %y : int = prim::If(%c)\n    block0():\n      -> (%x)\n    block1():\n"
    refused(VerifyError, lambda: irs.load(wrong + "      -> (%x)\n  return (%y)"), "return-types")
    graph, other = irs.parse(PROGRAM), irs.parse(PROGRAM)
    swapped = irs.Graph(irs.Block(graph.body.id, graph.body.params, other.body.nodes, graph.body.returns), "swapped")
    refused(VerifyError, lambda: irs.load(swapped), "defs-dominate-uses")


# -- names ------------------------------------------------------------------------------------------------------------

GRAPH, OTHER = irs.parse(PROGRAM), irs.parse(PROGRAM)
DB, FUSION = irs.AliasDb(GRAPH), irs.fuse(GRAPH)
DEDUP = irs.dedup(FUSION)
ASKED: dict[str, Callable[[Any], object]] = {
    "value": GRAPH.value,
    "node": GRAPH.node,
    "may_alias": lambda name: DB.may_alias("row", name),
    "may_contain_alias": lambda name: DB.may_contain_alias(name, "row"),
    "must_alias": lambda name: DB.must_alias("row", name),
    "explain": lambda name: DB.explain("row", name),
    "has_writers": DB.has_writers,
    "is_written": DB.is_written,
    "writers": DB.writers,
    "points_to": DB.points_to,
    "locations": DB.locations,
    "alias_set": DB.alias_set,
    "escapes": DB.escapes,
    "may_alias_wildcard": DB.may_alias_wildcard,
    "is_mutable": DB.is_mutable,
    "reads": DB.reads,
    "writes": DB.writes,
    "can_move_before": lambda name: DB.can_move_before(name, "b"),
    "can_move_after": lambda name: DB.can_move_after("b", name),
    "safe_to_change_aliasing": lambda name: DB.safe_to_change_aliasing("row", name),
    "why_not": lambda name: FUSION.why_not("a", name),
    "why_alone": FUSION.why_alone,
    "group_of": FUSION.group_of,
    "class_of": DEDUP.class_of,
    "difference": lambda name: DEDUP.difference("b", name),
}


@pytest.mark.parametrize("question", ASKED)
def test_names_that_the_graph_does_not_have(question: str) -> None:
    ask = ASKED[question]
    refused(UnknownName, lambda: ask("rwo"), "%rwo", "did you mean", "%row")
    refused(UnknownName, lambda: ask("%"))
    refused(UnknownName, lambda: ask(OTHER.value("row")))
    for thing in (None, 3, object()):
        refused(ArgumentError, lambda thing=thing: ask(thing), "printed name")  # type: ignore[misc]
    if question not in ("value", "is_written") and "alias" not in question:
        assert ask("b") is not NotImplemented
    if question in ("node", "is_mutable", "reads", "can_move_before", "why_alone", "class_of"):
        refused(UnknownName, lambda: ask("aten::mul_#7"), "aten::mul")
        refused(UnknownName, lambda: ask("aten::mul#7"), "there is one")
        refused(UnknownName, lambda: ask(OTHER.node("row")))


def test_arguments_of_a_program_given_by_name() -> None:
    refused(ArgumentError, lambda: irs.load(lambda x, mask: x * mask, np.ones(3), mask=np.ones(3)), "'mask'", "by position")
    refused(ArgumentError, lambda: irs.explore(PROGRAM, scale=2.0), "'scale'")


def test_names_in_other_places() -> None:
    run = irs.compile(FUSION)
    assert run.source(0) == run.source(-1)
    for index in (5, -3, "a", None):
        refused(UnknownNumber, lambda index=index: run.source(index), "there is")  # type: ignore[misc]
    refused(ArgumentError, lambda: irs.fuse(GRAPH, policy="best"), "greedy")
    refused(ArgumentError, lambda: irs.dedup(GRAPH, relation="beta"), "alpha")  # type: ignore[arg-type]
    refused(DeviceUnavailable, lambda: irs.compile(GRAPH, device="tpu"), "cpu")
    refused(DeviceUnavailable, lambda: irs.compare(GRAPH, np.zeros((4, 8), np.float32), devices="tpu"), "'tpu'")
    refused(ArgumentError, lambda: irs.compare(GRAPH, np.zeros((4, 8), np.float32), repeats=0))
    refused(ArgumentError, lambda: irs.fuse(GRAPH, policy=lambda candidate: np.ones(2)), "scores a merge")
    refused(LoadError, lambda: irs.load(name="a"), "got none")
    refused(ArgumentError, lambda: irs.same_structure(GRAPH, 3), "not on int")
    refused(ArgumentError, lambda: GRAPH.to_svg(3), "not by int")  # type: ignore[arg-type]
    refused(ArgumentError, lambda: GRAPH.to_svg("a.png"), "end in .svg")
    flags: dict[str, list[Any]] = {
        "freeze": [irs.compile, irs.fuse], "view_groups": [irs.fuse], "share_kernels": [irs.compile], "backward": [irs.load],
        "keep_memory": [irs.compare],
    }  # fmt: skip
    for flag, verbs in flags.items():
        for verb, bad in itertools.product(verbs, ("x", None, 2)):
            refused(ArgumentError, lambda verb=verb, flag=flag, bad=bad: verb(GRAPH, **{flag: bad}), "True or False", f"{flag}=True")  # type: ignore[misc]
    profile = irs.profile(FUSION, np.zeros((4, 8), np.float32), seconds=0.01)
    refused(ArgumentError, lambda: profile.top(np.array([1, 2])), "number of nodes")
    refused(ArgumentError, lambda: profile.try_("row"), "not a remark")


def test_a_number_past_the_end_says_what_there_is() -> None:
    for there, names in (
        (FUSION.groups, "%b"), (DEDUP.classes, "%b ×1"), (DEDUP.classes[0], "%b"), (FUSION.remarks, "0"),
        (irs.compile(FUSION).kernels, "0"), (irs.autodiff_subgraphs(GRAPH, 1).groups, "%b"),
    ):  # fmt: skip
        for number in (99, -99, "b"):
            refused(UnknownNumber, lambda there=there, number=number: there[number], repr(number), "there is 1, number 0", names)  # type: ignore[misc]
        assert there[-1] is there[0] and list(there[:1]) == [there[0]]
    refused(UnknownNumber, lambda: irs.fuse(irs.parse("graph(%x : Tensor):\n  return (%x)")).groups[0], "there are none")


def test_a_selection_that_is_not_there() -> None:
    pytest.importorskip("anywidget")
    explorer = irs.explore(FUSION)
    explorer.selection = None
    assert explorer.selection == []
    explorer.selection = "row"
    for bad in ("rwo", OTHER.value("row"), ["row", "rwo"]):
        refused(UnknownName, lambda bad=bad: setattr(explorer, "selection", bad))  # type: ignore[misc]
    assert explorer.selection == [GRAPH.value("row").id]
    refused(UnknownName, lambda: explorer.pane("grpah"), "graph")
    for bad in ("a", None, 1.5, 9):
        refused(ArgumentError, lambda bad=bad: setattr(explorer, "step", bad), "steps 0 to 2")  # type: ignore[misc]
        refused(ArgumentError, lambda bad=bad: setattr(explorer, "branch", bad), repr(bad))  # type: ignore[misc]
        refused(UnknownNumber, lambda bad=bad: explorer.branches[bad], repr(bad))  # type: ignore[misc]
    for bad, said in (("slection", "e.selection"), ("colour", "e.paint")):
        refused(ArgumentError, lambda bad=bad: setattr(explorer, bad, "a"), said)  # type: ignore[misc]
    refused(ArgumentError, lambda: explorer.select(3), "not int")
    refused(ArgumentError, lambda: explorer.select("op:"), "op:conv")
    refused(ArgumentError, lambda: explorer.select("kernel:"), "is:group")
    refused(ArgumentError, lambda: explorer.select("colour:"), "the fields are")
    refused(ArgumentError, lambda: explorer.what_if(forbid=3), "list of pairs")
    refused(ArgumentError, lambda: irs.explore(FUSION, 3), "%x")
    refused(ArgumentError, lambda: irs.explore(FUSION, threads="x"), "threads=1")
    assert (explorer.step, explorer.branch) == (2, 0)


MISSPELT: dict[str, tuple[str, tuple[Callable[..., object], ...]]] = {
    "polcy": ("policy", (lambda **named: irs.fuse(GRAPH, **named), FUSION.what_if)),
    "relaton": ("relation", (lambda **named: irs.dedup(FUSION, **named),)),
    "second": ("seconds", (lambda **named: irs.profile(FUSION, GOOD, **named),)),
    "devise": ("device", (lambda **named: irs.compile(FUSION, **named),)),
    "subjct": ("subject", (lambda **named: irs.quiz.alias(GRAPH, **named),)),
    "mesure": ("measure", (lambda **named: irs.explore(FUSION, **named), lambda **named: irs.write_report(FUSION, **named))),
}


@pytest.mark.parametrize("word", MISSPELT)
def test_a_misspelt_keyword_is_reported_with_the_right_one(word: str) -> None:
    meant, calls = MISSPELT[word]
    for call in calls:
        refused(ArgumentError, lambda call=call: call(**{word: None}), word, f"did you mean {meant}")  # type: ignore[misc]


@pytest.mark.parametrize("verb", [
    irs.fuse, irs.dedup, irs.compare, irs.compile, irs.diff, irs.decisions, irs.explore, irs.profile, irs.timeline, irs.write_report,
    irs.memory_plan, irs.functionalize, irs.verify, irs.parse, irs.trace, irs.AliasDb, irs.ViewAliases, irs.quiz.own, FUSION.why_not,
    DB.explain,
])  # fmt: skip
def test_a_call_without_what_it_needs(verb: Callable[..., object]) -> None:
    refused(ArgumentError, verb, "missing a required argument")


def test_a_value_that_its_annotation_excludes() -> None:
    any_: Any = 3
    several = np.zeros(2)
    compared = irs.compare(FUSION, GOOD, repeats=1)
    for action, words in {
        lambda: irs.fuse(GRAPH, min_size=several): ("min_size is int", "fuse(graph, policy=…"),
        lambda: FUSION.what_if(distinct=any_): ("distinct is bool or Iterable[Value or str] or None", "3"),
        lambda: DB.table(any_): ("db.table(): values is Iterable[Value or str] or None", "3"),
        lambda: irs.memory_plan(GRAPH, is_told=any_): ("is_told is Callable[[Node], bool] or None", "3"),
        lambda: irs.quiz.own(FUSION, "q", subject="a", right=any_, wrong={}): ("right is Mapping[str, str]", "3"),
        lambda: compared.chart(theme=any_): ("theme is 'light' or 'dark'", "3"),
        lambda: compared.roofline(any_): ("others is Comparison", "3"),
        lambda: irs.fuse(GRAPH, exact=several): ("exact=array", "leave it out"),
        lambda: DB.index_of(any_): ("by itself or by its printed name, not by int",),
        lambda: irs.dedup(GRAPH).size_by("alpha", [any_]): ("d.size_by(): member is Node or str", "3"),
        lambda: irs.ViewAliases(GRAPH, layouts=cast("Any", "x")): ("layouts is Mapping[Value, Demand or Sequence[int] or str]", "'x'"),
        lambda: DB.to_graphviz(any_): ("values is Value or str or Sequence[Value or str] or None", "3"),
        lambda: DB.follow(any_): ("record is Record", "3"),
        lambda: irs.diff(GRAPH, OTHER).of(cast("Any", several)): ("kind is 'kept' or 'changed' or 'new' or 'gone'", "array"),
        lambda: FUSION.made(cast("Any", [])): ("node is Node, not []",),
        lambda: irs.compile(FUSION).run(any_): ("args is Sequence[Any]", "3"),
    }.items():
        refused(ArgumentError, action, *words)
    for line in (9999, "a"):
        refused(UnknownNumber, lambda line=line: irs.compile(FUSION).source(0).node_of(line), repr(line))  # type: ignore[misc]
    refused(UnknownNumber, lambda: FUSION.history.graph(99), "99")


def test_an_error_of_the_users_own_function_stays_what_it_is() -> None:
    with pytest.raises(TypeError, match="missing 1 required") as caught:
        irs.fuse(GRAPH, policy=lambda candidate, wanted: 1)  # type: ignore[arg-type, misc]
    assert not isinstance(caught.value, IrscopeError)


# -- arguments --------------------------------------------------------------------------------------------------------

GOOD = np.zeros((4, 8), np.float32)
WRONG: dict[str, tuple[Any, ...]] = {
    "None": (None,), "too many": (GOOD, GOOD), "a list of numbers": ([1.0, 2.0],), "a text": ("x",), "an object": (object(),),
    "element type": (GOOD.astype(np.float64),), "shape": (np.zeros((4, 9), np.float32),), "rank": (np.zeros(4, np.float32),),
    "a number": (1.0,),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_arguments_that_do_not_fit(case: str) -> None:
    wrong = WRONG[case]
    name = () if case == "too many" else ("%x", "Float(4, 8")
    refused(ArgumentError, lambda: irs.load(PROGRAM, *wrong), *name)
    refused(ArgumentError, lambda: irs.compile(FUSION)(*wrong), "%x")
    refused(ArgumentError, lambda: irs.compile(FUSION, device="reference")(*wrong), "%x")
    refused(ArgumentError, lambda: irs.compare(FUSION, *wrong), "%x")
    refused(ArgumentError, lambda: irs.explore(GRAPH, *wrong))


def test_no_arguments_or_a_layout_that_the_program_was_not_loaded_for() -> None:
    refused(ArgumentError, lambda: irs.compile(FUSION)(), "%x", "takes 1 argument and got 0")
    refused(ArgumentError, lambda: irs.compare(FUSION), "%x")
    turned = np.zeros((8, 4), np.float32).T
    refused(ArgumentError, lambda: irs.compile(FUSION)(turned), "strides=[1, 4]")
    assert irs.compile(irs.fuse(irs.load(PROGRAM, turned)))(turned).shape == (8,)


@pytest.mark.parametrize("how", ["script", "export"])
def test_models_with_arguments_that_do_not_fit(how: str, torch: Any) -> None:
    model, x = torch.nn.Linear(2, 3), torch.zeros(1, 2)
    source = torch.jit.script(model) if how == "script" else model
    wrong = CaptureError if how == "export" else ArgumentError
    refused(wrong, lambda: irs.load(source, None))
    refused(wrong, lambda: irs.load(source, torch.zeros(1, 5)))
    refused(ArgumentError, lambda: irs.load(source, x, x), "2 example arguments", "takes 1")
    if how == "export":
        refused(ArgumentError, lambda: irs.load(source), "input")
    else:
        for thing in ("x", [1, 2], object(), 3):
            refused(ArgumentError, lambda thing=thing: irs.load(source, thing), "Tensor")  # type: ignore[misc]
    run = irs.compile(irs.load(source, x))
    refused(ArgumentError, lambda: run(torch.zeros(2, 2)), "(2, 2")
    refused(ArgumentError, lambda: run(x.double()), "Double")


def test_a_number_that_export_has_baked_in(torch: Any) -> None:
    run = irs.compile(irs.load(lambda x, n: x * n, torch.ones(2), 3))
    assert run(torch.ones(2), 3).tolist() == [3.0, 3.0]
    refused(RunError, lambda: run(torch.ones(2), 4), "export it again")


# -- ops --------------------------------------------------------------------------------------------------------------


def test_an_unknown_op_is_carried_along() -> None:
    graph = irs.load(PROGRAM.replace("aten::sigmoid(%row)", "foo::bar(%row, %x)"), GOOD)
    db = irs.AliasDb(graph)
    for question in (db.may_alias("a", "row"), db.may_alias("a", "x"), db.has_writers("x"), db.has_writers("a")):
        assert question and question.because
    assert not db.can_move_before("b", "a")
    fusion = irs.fuse(graph)
    assert not fusion.why_not("a", "b") and len(irs.dedup(fusion)) >= 1 and "foo::bar" in str(fusion.graph)
    for device in ("cpu", "reference"):
        run = irs.compile(fusion, device=device)
        refused(RunError, lambda run=run: run(GOOD), "foo::bar", "%a")  # type: ignore[misc]
    refused(RunError, lambda: irs.compare(fusion, GOOD), "foo::bar", "%a")


@pytest.mark.parametrize(("library", "device"), [("numpy", "cpu"), ("numpy", "reference"), ("torch", "cpu")])
@pytest.mark.parametrize("op", ["aten::mul(%x, %y)", "aten::matmul(%x, %y)"])
def test_an_op_that_fails(op: str, library: str, device: str) -> None:
    x, y = np.zeros((2, 3), np.float32), np.zeros((2, 4), np.float32)
    if library == "torch":
        torch = pytest.importorskip("torch")
        x, y = torch.from_numpy(x), torch.from_numpy(y)
    run = irs.compile(irs.fuse(irs.load(CHAIN.replace("OP", op))), device=device)
    refused(RunError, lambda: run(x, y), op.partition("(")[0], "%m")
    refused(ArgumentError, lambda: irs.load(CHAIN.replace("OP", op), x, y), op.partition("(")[0], "%m")


# -- models that cannot be captured -----------------------------------------------------------------------------------


def test_models_that_cannot_be_captured(torch: Any) -> None:
    x = torch.ones(2)

    def branches(x: Any) -> Any:
        return x + 1 if x.sum() > 0 else x - 1

    def leaves_torch(x: Any) -> Any:
        return torch.from_numpy(np.sin(x.numpy()))

    def fails(x: Any) -> Any:
        raise ValueError("a message of its own")

    refused(CaptureError, lambda: irs.load(branches, x), "branches", "torch.jit.script")
    refused(CaptureError, lambda: irs.load(leaves_torch, x), "leaves_torch")
    refused(CaptureError, lambda: irs.load(fails, x), "a message of its own")
    refused(CaptureError, lambda: irs.load(lambda x: object(), x), "return tensors")
    refused(CaptureError, lambda: irs.load(torch.nn.Linear(1, 2), np.zeros(1)), "pass tensors")
    refused(CaptureError, lambda: irs.load(torch.nn.Module(), x), "forward")
    refused(LoadError, lambda: irs.load(torch.jit.script(torch.nn.Module())), "forward")
    refused(CaptureError, lambda: irs.load(torch.func.grad(lambda x: (x * x).sum()), x))

    def interrupted(x: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        irs.load(interrupted, x)


# -- packages that are not installed ----------------------------------------------------------------------------------

WITHOUT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
import numpy as np
import irscope as irs
from irscope.errors import MissingExtra

def missing(action, command):
    try:
        action()
    except MissingExtra as error:
        assert command in error.hint, error
    else:
        raise AssertionError("nothing was missed")

x = np.ones((4, 8), np.float32)
g = irs.load({program!r}, x)
f = irs.fuse(g)
want = irs.compile(g, device="reference")(x)
np.testing.assert_allclose(irs.compile(f)(x), want, rtol=1e-5)
c = irs.compare(f, x, repeats=1)
{then}
"""


@pytest.mark.parametrize(
    ("absent", "then"),
    [
        (
            ("torch", "llvmlite", "anywidget", "ipywidgets", "matplotlib", "IPython", "cupy", "graphviz"),
            """
            missing(lambda: irs.load(FILE), "irscope[torch]")
            missing(lambda: irs.load(FILE + "2"), "irscope[torch]")
            missing(lambda: irs.explore(f), "irscope[lab]")
            missing(c.chart, "irscope[lab]")
            assert irs.write_report(f, output=FILE + ".html").stat().st_size > 1000
            assert repr(c) and len(c.table()) == 3 and "relu" not in str(g)
            """,
        ),
        (("anywidget",), "missing(lambda: irs.explore(g), 'irscope[lab]')"),
        (("torch",), "assert len(irs.compile(f).kernels) == 1"),
        (("llvmlite",), "assert all(not d.availability() or d.availability().what for d in irs.devices())"),
    ],
    ids=["all", "anywidget", "torch", "llvmlite"],
)
def test_without_optional_packages(absent: tuple[str, ...], then: str, tmp_path: Path) -> None:
    for suffix in (".pt", ".pt2"):
        (tmp_path / f"model{suffix}").write_bytes(b"PK")
    body = textwrap.dedent(then).replace("FILE", repr(str(tmp_path / "model.pt")))
    code = WITHOUT.format(absent=absent, program=PROGRAM, then=body)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_a_table_where_pandas_cannot_be_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """As under a small limit of memory."""
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.delitem(sys.modules, "irscope._base.tables", raising=False)  # which imports it
    db = irs.AliasDb(irs.parse(PROGRAM))
    with pytest.raises(irs.IrscopeError, match="'pandas' cannot be loaded"):
        db.table()


class _Shell:
    """What the magics ask of IPython."""

    def ev(self, word: str) -> object:
        return eval(word, {"irs": irs, "graph": GRAPH})


@pytest.mark.parametrize("line", ["", "nope", "graph np.zeros(2, 3)", "graph 1/0"])
def test_a_magic_with_words_that_mean_nothing(line: str) -> None:
    refused(ArgumentError, lambda: magics._explore(_Shell(), line), "%irscope f x y")


# -- what cannot be written, copied or made ---------------------------------------------------------------------------


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("command", [["show"], ["show", "--fused"], ["opt", "-p", "dce"]])
def test_an_output_that_is_full(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "p.ir").write_text(PROGRAM)
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "irscope", command[0], str(tmp_path / "p.ir"), *command[1:]], stdout=full,
            stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.splitlines() == ["irscope: the output cannot be written: No space left on device"]


@pytest.mark.parametrize("given", [
    "float32[99999999999,99999999]", "float32[" + "1," * 71 + "]", "int8[9223372036854775807]", "float32[-1]", "object[3]",
    "U9[2]", "bool[" + "9" * 5000 + "]", "complex64[2]", "datetime64[3]",
], ids=lambda text: text[:20])  # fmt: skip
def test_example_arrays_that_cannot_be(tmp_path: Path, given: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.ir").write_text(PROGRAM)
    assert cli.main(["show", str(tmp_path / "p.ir"), "--input", given]) == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said and len(said) < 500


def test_what_cannot_be_pickled_says_so_and_copies_are_the_thing_itself() -> None:
    import copy
    import pickle

    fusion = irs.fuse(irs.parse(PROGRAM))
    run = irs.compile(fusion)
    for thing in (fusion, run, irs.autodiff_subgraphs(fusion.original), irs.Pipeline("fuse,dce")(fusion.original)):
        assert copy.deepcopy(thing) is thing
        shown = refused(ArgumentError, lambda thing=thing: pickle.dumps(thing), "graph")  # type: ignore[misc]
        assert "pickled" in shown
    graph = pickle.loads(pickle.dumps(fusion.graph))
    assert irs.same_structure(graph, fusion.graph)


def test_messages_of_the_page_that_make_no_sense() -> None:
    pytest.importorskip("anywidget")
    explorer = irs.explore(irs.parse(PROGRAM))
    for message in (None, 3, "text", [], {}, {"kind": []}, {"kind": "inspect"}, {"kind": "inspect", "ids": [10**9]}, {"kind": "kernel"}):
        explorer._answer(explorer, message, [])
    explorer.close()


def scaled(x: Any, *, by: Any) -> Any:
    return x * by


def test_an_argument_taken_by_name_has_a_hint_that_works_as_it_stands(torch: Any) -> None:
    for x in (np.ones(3, np.float32), torch.ones(3)):
        with pytest.raises(ArgumentError) as caught:
            irs.load(scaled, x)
        call = caught.value.hint.partition(": ")[2]
        g = eval(call, {"irs": irs, "f": scaled, "x": x, "by": x + 1})  # as a person would run it
        assert (np.asarray(irs.compile(g)(x, x + 1)) == 2).all()
    shown = refused(LoadError, lambda: irs.load(irs.fuse(irs.parse(PROGRAM))), "its program is .graph")  # type: ignore[arg-type]
    assert "Fusion" in shown


def test_a_program_for_a_gpu_that_is_absent_is_not_said_to_be_compiled() -> None:
    made = irs.compile(irs.parse(PROGRAM), device="cuda")
    try:
        made(np.ones((4, 8), np.float32))
    except DeviceUnavailable:
        assert "not compiled" in repr(made)
    else:
        assert ", compiled in " in repr(made)


def test_numbers_and_names_of_a_fusion_that_make_no_sense() -> None:
    g: Any = irs.parse(PROGRAM)
    f: Any = irs.fuse(g)
    refused(ArgumentError, lambda: irs.fuse(g, min_size="2"), "min_size", "'2'")  # type: ignore[arg-type]
    refused(ArgumentError, lambda: irs.fuse(g, max_nodes=None), "max_nodes")  # type: ignore[arg-type]
    refused(ArgumentError, lambda: irs.fuse(g, opaque=3), "3 names no nodes")  # type: ignore[arg-type]
    refused(ArgumentError, lambda: f.what_if(step="1"), "no step '1'")
    refused(ArgumentError, lambda: f.history.graph_after("1"), "no step '1'")
    refused(ArgumentError, lambda: f.table(bandwidth=True), "True is not a bandwidth")


def test_values_that_no_public_function_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    g: Any = irs.parse(PROGRAM)
    for score, said in (("x", "'x'"), (float("nan"), "nan"), ([1], "[1]")):
        refused(ArgumentError, lambda score=score: irs.fuse(g, policy=lambda _: score), said, "a number; 0 declines")  # type: ignore[misc]
    assert irs.fuse(g, policy=lambda _: np.float32(2)).groups and not irs.fuse(g, policy=lambda _: None).groups
    refused(ArgumentError, lambda: irs.quiz.alias(g, count="x"), "'x'", "1 to 10,000")  # type: ignore[arg-type]
    refused(ArgumentError, lambda: irs.quiz.alias(seed="x"), "'x'", "whole number")  # type: ignore[arg-type]
    refused(ArgumentError, lambda: irs.error_bound(3), "3", 'irs.error_bound("exp")')  # type: ignore[arg-type]
    refused(ArgumentError, lambda: irs.error_bound("epx"), "aten::epx", 'irs.error_bound("exp")')
    refused(ArgumentError, lambda: irs.load(PROGRAM, name=3), "3", 'name="model"')  # type: ignore[call-overload]
    for verb in (irs.explore, irs.timeline, irs.write_report):
        for source in (g, FUSION):
            refused(ArgumentError, lambda verb=verb, source=source: verb(source, step=99), "'step'")  # type: ignore[misc]
    for verb in (irs.explore, irs.write_report):
        refused(ArgumentError, lambda verb=verb: verb(g, measure="sometimes"), "'sometimes'", "True, False or None")  # type: ignore[misc]
    for sources in (3, None, b"graph"):
        refused(ArgumentError, lambda sources=sources: irs.corpus.survey(sources), repr(sources), "functions that build")  # type: ignore[misc]
    assert not list(tmp_path.iterdir())
    p = irs.profile(g, GOOD, seconds=0.01)
    for count in ("3", -1, None, 2.5):
        refused(ArgumentError, lambda count=count: p.top(count), repr(count), "p.top(10)")  # type: ignore[misc]
    assert len(p.top(1)) == 1
