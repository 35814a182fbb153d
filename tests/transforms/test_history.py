"""Going back is an index, and every value can be followed forward."""

import pytest

from irscope.ir.core import Graph
from irscope.ir.rewriter import Rewriter
from irscope.ir.text.parser import parse
from irscope.transforms.base import History, PassRecord

PROGRAM = """graph(%x : Tensor):
  %a : Tensor = aten::relu(%x)
  %b : Tensor = aten::relu(%x)
  %c : Tensor = aten::tanh(%b)
  return (%c)"""


def step(graph: Graph, old: str, new: str) -> PassRecord:
    rewriter = Rewriter(graph)
    rewriter.replace(graph.value(old), graph.value(new), reason="the same")
    rewriter.erase(graph.node(old), reason="a duplicate")
    return PassRecord("cse", graph, rewriter.finish(), rewriter.edits)


def test_each_step_is_there_and_the_first_is_untouched() -> None:
    graph = parse(PROGRAM)
    history = History(graph).then(step(graph, "b", "a"))
    assert len(history) == 1
    assert history.graph(0) is graph
    assert history.graph(1) is history.final
    assert str(history.graph(0)) == PROGRAM


def test_a_value_is_followed_through_replacements_and_ends_where_it_is_gone() -> None:
    graph = parse(PROGRAM)
    history = History(graph).then(step(graph, "b", "a"))
    assert history.forward(graph.value("b")) is graph.value("a")
    assert history.forward(graph.value("c")) is graph.value("c")
    rewriter = Rewriter(history.final)
    rewriter.replace(graph.value("c"), graph.value("x"), reason="so")
    rewriter.erase(history.final.node("c"), reason="unread")
    rewriter.erase(history.final.node("a"), reason="unread")
    history = history.then(PassRecord("dce", history.final, rewriter.finish(), rewriter.edits))
    assert history.forward(graph.value("a")) is None
    assert history.forward(graph.value("a"), until=1) is graph.value("a")


def test_a_step_must_start_where_the_last_one_ended() -> None:
    graph = parse(PROGRAM)
    history = History(graph).then(step(graph, "b", "a"))
    with pytest.raises(AssertionError, match="start from the last graph"):
        history.then(step(parse(PROGRAM), "b", "a"))
