"""Graphs built from Python are those of the same text; edits do what they say, leave the old graph alone, and share what did not change."""

import numpy as np
import pytest

from irscope.errors import PassError

from irscope.ir import (  # isort: skip
    BOOL, INT, NOT_CONSTANT, TENSOR, Created, Graph, GraphBuilder, Node, Rewriter, TensorData, Value, argument_type, constant_of, new_id,
    payload_type,
)  # fmt: skip
from irscope.ir.invariants import verify
from irscope.ir.structural import same_structure
from irscope.ir.text import parse
from irscope.ir.text.printer import MAX_INDENT
from tests.programs import ir


def loop() -> Graph:
    b = GraphBuilder("f")
    x, count = b.input("x"), b.input("count", INT)
    true = b.constant(True, name="true")
    with b.block([("i", INT), ("carried", TENSOR)]) as body:
        next_value = b.op("aten::neg", body.params[1], name="n")
        body.returns([true, next_value])
    (result,) = b.node("prim::Loop", [count, true, x], [TENSOR], [body], names=["r"])
    return b.finish([result], bound={x: 1})


def test_a_loop_is_the_one_that_its_text_gives() -> None:
    built = loop()
    verify(built)
    text = """graph(%x : Tensor,
      %count : int):
  %true : bool = prim::Constant[value=1]()
  %r : Tensor = prim::Loop(%count, %true, %x)
    block0(%i : int, %carried : Tensor):
      %n : Tensor = aten::neg(%carried)
      -> (%true, %n)
  return (%r)"""
    assert same_structure(built, parse(text))
    assert str(built) == text
    assert [value.name for value in built.free_inputs] == ["count"]


def test_an_open_block_is_a_mistake_of_ours() -> None:
    b = GraphBuilder()
    with b.block(), pytest.raises(AssertionError, match="still open"):
        b.finish([])


@pytest.mark.parametrize(
    ("payload", "type"),
    [(True, "bool"), (3, "int"), (0.5, "float"), ("s", "str"), (None, "NoneType"), ([1, 2], "int[]"), ((1.5,), "float[]")],
)
def test_constants_know_their_type_and_come_back(payload: object, type: str) -> None:
    b = GraphBuilder()
    value = b.constant(payload)
    graph = b.finish([value])
    assert str(value.type) == type == str(payload_type(payload))
    expected = tuple(payload) if isinstance(payload, list) else payload
    assert constant_of(graph, value) == expected
    back = parse(str(graph))
    assert constant_of(back, back.outputs[0]) == expected


def test_what_is_computed_is_not_a_constant() -> None:
    graph = parse("graph(%x : Tensor):\n  %y : Tensor = aten::neg(%x)\n  return (%y)")
    assert constant_of(graph, graph.value("y")) is NOT_CONSTANT


def test_tensors_compare_by_their_elements() -> None:
    one = TensorData.of(np.array([1.0, np.nan], np.float32))
    assert one == TensorData.of(np.array([1.0, np.nan], np.float32))
    assert one != TensorData.of(np.array([1.0, 2.0], np.float32))
    assert one != TensorData.of(np.array([1.0, np.nan], np.float64))
    assert len({one, TensorData.of(np.array([1.0, np.nan], np.float32))}) == 1


def test_arguments_of_any_array_library_have_a_type() -> None:
    array = np.zeros((2, 3), np.float32)
    assert str(argument_type(array.T)) == "Float(3, 2, strides=[1, 3], device=cpu)"
    assert argument_type(True) == BOOL
    torch = pytest.importorskip("torch")
    assert str(argument_type(torch.zeros(2, 3, dtype=torch.bfloat16))) == "BFloat16(2, 3, strides=[3, 1], device=cpu)"


PROGRAM = ir("x c:bool | a = relu x; b = relu x; r = If c {| d = mul b x | d} {| | b}; e = tanh a | r e")


@pytest.fixture
def graph() -> Graph:
    return parse(PROGRAM)


def fresh(op: str, *inputs: Value, name: str = "") -> Node:
    return Node(new_id(), op, inputs, (Value(new_id(), TENSOR, name),))


def test_what_no_edit_touches_is_the_same_object_and_promises_survive(graph: Graph) -> None:
    assert Rewriter(graph).finish() is graph
    before = str(graph)
    rewriter = Rewriter(graph)
    rewriter.replace(graph.value("b"), graph.value("a"), reason="the same")
    rewriter.erase(graph.node("b"), reason="the same")
    after = rewriter.finish()
    assert after.node("a") is graph.node("a") and after.node("e") is graph.node("e")
    assert after.node("r").id == graph.node("r").id and after.node("r") is not graph.node("r")
    assert str(graph) == before
    bound = Graph(graph.body, "f", {graph.value("x"): 1}, distinct_inputs=True)
    rewriter = Rewriter(bound)
    rewriter.erase(bound.node("e"), reason="unwanted")
    after = rewriter.finish()
    assert (after.name, after.bound, after.distinct_inputs) == ("f", bound.bound, True)


def test_replacements_lead_to_the_last_and_are_seen_by_inserted_nodes(graph: Graph) -> None:
    rewriter = Rewriter(graph)
    rewriter.replace(graph.value("e"), graph.value("b"), reason="first")
    rewriter.replace(graph.value("b"), graph.value("a"), reason="then")
    assert rewriter.resolve(graph.value("e")) is graph.value("a")
    assert rewriter.finish().outputs[1] is graph.value("a")
    rewriter = Rewriter(graph)
    rewriter.insert_before(graph.node("e"), fresh("aten::neg", graph.value("b"), name="n"), reason="wanted")
    rewriter.replace(graph.value("b"), graph.value("a"), reason="the same")
    assert rewriter.finish().node("n").inputs == (graph.value("a"),)


def test_a_replacement_of_itself_and_a_node_of_another_graph_are_refused(graph: Graph) -> None:
    rewriter = Rewriter(graph)
    rewriter.replace(graph.value("b"), graph.value("a"), reason="once")
    with pytest.raises(PassError, match="replace-is-acyclic"):
        rewriter.replace(graph.value("a"), graph.value("b"), reason="and back")
    with pytest.raises(PassError, match="edit-own-graph"):
        Rewriter(graph).erase(parse(PROGRAM).node("a"), reason="not mine")


def test_nodes_are_inserted_on_both_sides_in_order(graph: Graph) -> None:
    rewriter = Rewriter(graph)
    anchor = graph.node("e")
    for name in ("p", "q"):
        rewriter.insert_before(anchor, fresh("aten::neg", graph.value("a"), name=name), reason="wanted")
    rewriter.insert_after(anchor, fresh("aten::neg", graph.value("e"), name="s"), reason="wanted")
    after = rewriter.finish()
    verify(after)
    assert [after.names[node.outputs[0]] for node in after.body.nodes] == ["a", "b", "r", "p", "q", "e", "s"]
    assert [type(edit) for edit in rewriter.edits] == [Created] * 3


def test_deep_blocks_need_no_deep_stack() -> None:
    """They are read, verified, printed, compared and rewritten, and their lines are not mostly spaces."""
    depth = 10_000
    opened, closed = "  prim::If(%c)\n    block0():\n" * depth, "-> ()\nblock1():\n-> ()\n" * depth
    head = "graph(%x : Tensor, %c : bool):\n  %y : Tensor = aten::neg(%x)\n"
    graph = parse(f"{head}{opened}%z : Tensor = aten::neg(%y)\n{closed}  return (%x)")
    verify(graph)
    text = str(graph)
    assert max(map(len, text.splitlines())) <= MAX_INDENT + 40
    assert same_structure(graph, parse(text))
    rewriter = Rewriter(graph)
    rewriter.replace(graph.value("y"), graph.value("x"), reason="so")
    assert rewriter.finish().node("z").inputs == (graph.value("x"),)


def test_nothing_is_inserted_beside_a_node_that_a_new_list_leaves_out() -> None:
    graph = parse("graph(%x : Tensor):\n  %a : Tensor = aten::neg(%x)\n  %b : Tensor = aten::relu(%x)\n  return (%b)")
    new = parse("graph(%x : Tensor):\n  %n : Tensor = aten::exp(%x)\n  return (%n)").node("n")
    a, b = graph.body.nodes
    for insert in (Rewriter.insert_before, Rewriter.insert_after):
        rewriter = Rewriter(graph)
        insert(rewriter, a, new, reason="so")
        rewriter.set_nodes(graph.body, [b], ())
        with pytest.raises(PassError, match="anchor-stays"):
            rewriter.finish()
        beside = Rewriter(graph)
        insert(beside, b, new, reason="so")
        beside.set_nodes(graph.body, [b], ())
        assert set(beside.finish().body.nodes) == {new, b}
