"""A pass that is wrong about element types is refused by each net that every pass gets."""

from __future__ import annotations

from pathlib import Path

import pytest

import irscope as irs
from irscope.errors import PassError, VerifyError
from irscope.ir.core import Graph, Node, new_id
from irscope.ir.rewriter import Rewriter
from irscope.transforms.base import PassRecord
from tests import case_answers
from tests.conftest import read_sections

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


@pytest.mark.torch
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
