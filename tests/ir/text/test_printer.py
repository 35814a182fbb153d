"""Programs into text: torch's form, names that are legal and few, and the way back."""

import keyword
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irscope.ir import GraphBuilder, Opaque, TensorData
from irscope.ir.invariants import verify
from irscope.ir.structural import same_payload, same_structure
from irscope.ir.text import assign_names, parse, parse_type, print_first_lines, print_graph, print_node
from tests.random_programs.graphs import programs
from tests.work import calls_made

TEXT = """\
graph(%x : Float(2, 3),
      %c : bool):
  %k : int = prim::Constant[value=2]() # model.py:1:2
  prim::Print(%k), scope: a.b
  %y : Float(2, 3), %l : int[] = prim::If(%c) # model.py:2:0
    block0():
      %g : Float(2, 3) = prim::FusionGroup[kind="pointwise"](%x, %k)
        block0(%p : Float(2, 3), %q : int):
          %r : Float(2, 3) = aten::mul(%p, %q)
          -> (%r)
      %e : int[] = prim::Constant[value=annotate(List[int], [])]()
      -> (%g, %e)
    block1():
      %f : int[] = prim::Constant[value=[1, 2]]()
      -> (%x, %f)
  return (%y, %l)"""


def test_the_text_is_kept_to_the_letter():
    assert str(parse(TEXT)) == TEXT


def test_locations_can_be_left_out():
    text = print_graph(parse(TEXT), locations=False)
    assert text == re.sub(r"(, scope: a\.b)? # .*|, scope: a\.b", "", TEXT)


@pytest.mark.parametrize("count", [1, 2, 5, 9, 1000])
def test_the_first_lines_are_those_of_the_whole_text(count):
    graph = parse(TEXT)
    assert print_first_lines(graph, count) == print_graph(graph, locations=False).split("\n")[:count]


def test_one_node_is_one_line_without_blocks():
    g = parse(TEXT)
    assert print_node(g.node("y"), g.names) == "%y : Float(2, 3), %l : int[] = prim::If(%c)"


@given(programs(max_size=30))
@settings(max_examples=80, deadline=None)
def test_a_printed_program_reads_back_as_the_same(program):
    g = parse(program.text)
    verify(g)
    text = str(g)
    again = parse(text)
    assert str(again) == text
    assert same_structure(g, again)


@given(programs(max_size=20))
@settings(max_examples=30, deadline=None)
def test_torch_reads_what_is_printed(program):
    torch = pytest.importorskip("torch", reason="the oracle is torch's own parser")
    theirs = torch._C.parse_ir(str(parse(program.text)))
    assert str(theirs) == str(torch._C.parse_ir(program.text))


payloads = st.recursive(
    st.one_of(
        st.integers(-(2**63), 2**63 - 1),
        st.floats(),
        st.complex_numbers(),
        st.text(max_size=8),
        st.booleans(),
        st.none(),
        st.lists(st.floats(width=32), max_size=10).map(lambda xs: TensorData.of(np.array(xs, np.float32))),
        st.lists(st.integers(-128, 127), min_size=4, max_size=4).map(lambda xs: TensorData.of(np.array(xs, np.int8).reshape(2, 2))),
        st.sampled_from(["<object>", "a.b.C", "f(x, [1])"]).map(Opaque),
        st.sampled_from(["int", "Float(2)"]).map(parse_type),
    ),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=6,
)


@given(payloads)
@settings(max_examples=300, deadline=None)
def test_attributes_of_every_kind_read_back(payload):
    b = GraphBuilder()
    b.node("my::op", (), (), attrs={"first": payload, "second": 1})
    g = b.finish([])
    read = parse(str(g)).node("my::op#0").attrs["first"]
    expected = Opaque("a.b.C") if payload == Opaque("a.b.C") else payload
    assert same_payload(_words_as_types(expected), _words_as_types(read)), str(g)


def _words_as_types(payload):
    """Under a key other than `value`, a bare word is a type: the parser cannot know better."""
    if isinstance(payload, tuple):
        return tuple(map(_words_as_types, payload))
    return str(payload.text) if isinstance(payload, Opaque) else str(payload) if hasattr(payload, "name") else payload


@given(
    st.lists(
        st.one_of(
            st.sampled_from(["", "x", "x.1", "x.2", "y", "0", "1", "2", "in", "for.1", "a b", "1a", "x.", ".", "é"]), st.text(max_size=5)
        ),
        max_size=20,
    )
)
@settings(max_examples=200, deadline=None)
def test_names_are_legal_unique_and_kept(given_names):
    b = GraphBuilder()
    values = [b.input(name) for name in given_names]
    names = assign_names(b.finish(values))
    assert list(names) == values and len(set(names.values())) == len(values)
    for value, name in names.items():
        assert re.fullmatch(r"\d+|[A-Za-z_][\w.]*", name, re.ASCII) and not name.endswith(".")
        assert not keyword.iskeyword(name.partition(".")[0])
        legal = re.fullmatch(r"\d+|[A-Za-z_](\w|\.(?=\w))*", value.name, re.ASCII) and not keyword.iskeyword(value.name.split(".")[0])
        if legal and given_names.count(value.name) == 1:
            assert name == value.name or value.name in _sanitised(given_names)


def _sanitised(names):
    """What the illegal ones among these names become."""
    return (
        {re.sub(r"[^\w.]", "_", name, flags=re.ASCII).rstrip(".") for name in names if not re.fullmatch(r"[A-Za-z_]\w*", name)}
        | {f"_{name.lstrip('.')}" for name in names}
        | {f"{name}_" for name in names}
    )


def test_collisions_get_a_suffix_and_the_unnamed_the_smallest_numbers():
    b = GraphBuilder()
    values = [b.input(name) for name in ("x", "", "x", "1", "x.1", "", "x")]
    assert list(assign_names(b.finish(values)).values()) == ["x", "0", "x.2", "1", "x.1", "2", "x.3"]


def test_names_of_many_equal_ones_cost_no_more_than_linear():
    def work(count: int) -> int:
        b = GraphBuilder()
        graph = b.finish([b.input("x") for _ in range(count)])
        assert len(set(assign_names(graph).values())) == count
        return calls_made(lambda: assign_names(graph))

    assert work(20_000) < 12 * work(2_000)
