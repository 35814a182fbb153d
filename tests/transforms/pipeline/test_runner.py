"""Pipelines: what their text means, what they give, what they say of a mistake, and that a pass with wrong types is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.errors import ArgumentError, PassError, VerifyError
from irscope.ir import Graph, Node, Rewriter, new_id
from irscope.transforms.base import PassRecord
from irscope.transforms.cleanup import remove_dead_nodes
from irscope.transforms.fusion import Fusion
from irscope.transforms.pipeline import PASSES
from tests import case_answers
from tests.conftest import read_sections
from tests.programs import ir

PROGRAM = ir("x | a = neg x; b = relu_ a; c = neg x; d = mul a c | d", "Float(4)")


def test_the_parts_of_a_pipeline_run_in_order() -> None:
    graph = irs.parse(PROGRAM)
    done = irs.Pipeline("functionalize, cse", "fuse{min_size=3,policy=min-bytes}", "dce")(graph, verify_each=True)
    names = [record.name for record in done.records]
    assert names[:2] == ["functionalize", "cse"] and names[-1] == "dce"
    assert done.history.initial is graph and done.graph is done.records[-1].after
    assert isinstance(done.results["fuse"], Fusion) and done.results["fuse"].policy == "min-bytes"
    assert done.stage_of == ("functionalize", "cse", *("fuse",) * (len(names) - 3), "dce")
    assert [remark.rule for remark in done.remarks][:2] == ["pure-twin", "same-value"]
    for before, after in zip(done.records, done.records[1:], strict=False):
        assert before.after is after.before


def test_the_table_has_a_row_a_pass() -> None:
    table = irs.Pipeline("functionalize,cse,dce")(irs.parse(PROGRAM)).table()
    assert list(table["pass"]) == ["functionalize", "cse", "dce"] and list(table["nodes before"]) == [4, 4, 3]
    assert list(table["nodes after"]) == [4, 3, 3] and list(table["passed"]) == [1, 1, 0]


def test_a_function_is_a_pass() -> None:
    def without_relu(graph: Graph) -> Graph:
        rewriter = Rewriter(graph)
        for node in graph.nodes():
            if node.op == "aten::relu":
                rewriter.replace(node.output, node.inputs[0], reason="my own rule")
        return rewriter.finish()

    pipeline = irs.Pipeline("functionalize", without_relu, remove_dead_nodes)
    done = pipeline(irs.parse(PROGRAM))
    assert str(pipeline) == "functionalize,without_relu,remove_dead_nodes"
    assert [record.name for record in done.records] == ["functionalize", "without_relu", "dce"]
    assert not any(node.op == "aten::relu" for node in done.graph.nodes())


def test_a_pipeline_prints_as_it_is_written() -> None:
    text = "functionalize{scatter=false},fuse{policy=min-bytes,min_size=3}"
    assert str(irs.Pipeline(text)) == text
    assert str(irs.Pipeline("")) == ""
    assert irs.Pipeline()(irs.parse(PROGRAM)).records == ()


def test_what_a_pipeline_made_runs_and_is_shown(tmp_path: Path) -> None:
    graph = irs.parse(PROGRAM)
    x = np.array([-2.0, -1.0, 0.0, 3.0], np.float32)
    for text in ("functionalize,cse,fuse,dce", "functionalize"):
        done = irs.Pipeline(text)(graph)
        np.testing.assert_array_equal(irs.compile(done)(x), np.maximum(-x, 0) * -x)
        page = irs.write_report(done, output=tmp_path / "report.html").read_text(encoding="utf-8")
        assert "aten::relu" in page and "aten::relu_" not in page


@pytest.mark.parametrize("name", PASSES)
def test_every_registered_pass_runs_and_has_a_line(name: str) -> None:
    done = irs.Pipeline(name)(irs.parse(PROGRAM), verify_each=True)
    assert done.records[-1].name == {"fuse": "fuse-groups", "prepare-fusion": "functionalize"}.get(name, name)
    assert irs.Pipeline.passes()[name]


MISTAKES = {
    "functionalise": ("no pass 'functionalise'", 0, "did you mean functionalize?"),
    "cse, ": ("expected the name of a pass, found the end", 5, ""),
    "cse dce": ("expected a comma between passes, found 'dce'", 4, ""),
    "{": ("expected the name of a pass", 0, ""),
    "dce,fuse{min_size=x}": ("'min_size' is a whole number, not 'x'", 18, ""),
    "fuse{minsize=3}": ("pass 'fuse' has no option 'minsize'", 5, "did you mean min_size?"),
    "fuse{policy=foo}": ("there is no fusion policy 'foo'", 12, "the policies are greedy, "),
    "fuse{min_size=3": ("found the end of the text", 15, ""),
    "fuse{min_size 3}": ("expected =", 14, ""),
    "cse{a=1}": ("has no option 'a'", 4, "it has no options"),
    "functionalize{scatter=maybe}": ("true or false, not 'maybe'", 22, ""),
}


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_is_shown_with_a_caret(text: str) -> None:
    what, column, hint = MISTAKES[text]
    with pytest.raises(ArgumentError) as caught:
        irs.Pipeline(text)
    assert what in caught.value.what
    assert caught.value.where.splitlines() == [text, " " * column + "^"]
    assert hint in caught.value.hint


def test_other_mistakes_are_reported() -> None:
    with pytest.raises(ArgumentError, match="made of texts and functions, not of int"):
        irs.Pipeline(3)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="Pipeline"):
        irs.Pipeline("cse")("graph()")  # type: ignore[arg-type]
    graph, other = irs.parse(PROGRAM), irs.parse(PROGRAM)

    def gives_nothing(graph: Graph) -> Any:
        return None

    with pytest.raises(PassError, match="'gives_nothing' returned NoneType"):
        irs.Pipeline(gives_nothing)(graph)

    def of_another(graph: Graph) -> PassRecord:
        return PassRecord("of_another", other, other)

    with pytest.raises(PassError, match="starts-from-its-graph"):
        irs.Pipeline(of_another)(graph)

    def breaks(graph: Graph) -> Graph:
        rewriter = Rewriter(graph)
        rewriter.erase(graph.node("a"), reason="oops")
        return rewriter.finish()

    assert irs.Pipeline(breaks)(graph).graph is not graph
    with pytest.raises(PassError, match="after pass 'breaks' the graph breaks a rule"):
        irs.Pipeline(breaks)(graph, verify_each=True)


def test_options_are_the_arguments_of_the_pass_and_stand_with_commas_or_spaces() -> None:
    for text in ("fuse{exact=torch min_size=3}", "fuse{ exact=torch, min_size=3 }"):
        assert irs.Pipeline(text).stages[0].options == {"exact": "torch", "min_size": 3}


PLAIN = Path(__file__).parents[2] / "cases" / "passes"


def squares(graph: Graph) -> PassRecord:
    """x * x becomes `square(x)`, which of bools is a whole number."""
    rewriter = Rewriter(graph)
    for node in graph.nodes():
        if node.op == "aten::mul" and len(set(node.inputs)) == 1:
            square = Node(new_id(), "aten::square", node.inputs[:1], node.outputs)
            rewriter.replace_node(node, [square], reason="a product with itself")
    return PassRecord("squares", graph, rewriter.finish())


@pytest.mark.parametrize("declared", ["Bool(4)", "Tensor"])
def test_a_pipeline_that_verifies_refuses_it(declared: str) -> None:
    graph = irs.parse(f"graph(%x : Bool(4)):\n  %y : {declared} = aten::mul(%x, %x)\n  return (%y)")
    with pytest.raises(PassError, match=r"%y is Bool\(4\) before pass 'squares' and Long\(4\) after it: the element types differ"):
        irs.Pipeline(squares)(graph, verify_each=True)


def test_verify_refuses_what_it_makes() -> None:
    graph = irs.parse("graph(%x : Bool(4)):\n  %y : Bool(4) = aten::mul(%x, %x)\n  return (%y)")
    with pytest.raises(VerifyError, match=r"%y is declared as Bool\(4\), and aten::square makes Long\(4\) of Bool\(4\)"):
        irs.verify(squares(graph).after)


def test_random_programs_refuse_it() -> None:
    pytest.importorskip("torch")
    from tests.transforms.same_meaning import check_pass

    refused = []
    for seed in range(9, 20):
        try:
            check_pass(squares, seed, of_types=True)
        except PassError:
            refused.append(seed)
    assert refused


def test_the_case_files_refuse_it(monkeypatch: pytest.MonkeyPatch) -> None:
    sections = read_sections((PLAIN / "canonicalize-of-every-type.ir").read_text(encoding="utf-8"))
    pipeline = irs.Pipeline
    monkeypatch.setattr(irs, "Pipeline", lambda *parts: pipeline(*parts, squares))
    with pytest.raises(PassError, match="squares"):
        case_answers.passes(sections)
