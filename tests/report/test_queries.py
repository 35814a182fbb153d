"""Queries find what a scan by hand finds, and say what is wrong with those that mean nothing."""

import pytest

import irscope as irs
from irscope.errors import ArgumentError, UnknownName
from irscope.ir import Node, Value
from irscope.report.queries import Queries
from tests.programs import parsed

TEXT = """graph(%x : Float(4, 8), %p.1 : Float(8)):
  %one : int = prim::Constant[value=1]()
  %a : Float(4, 8) = aten::relu(%x), scope: net.layers.0
  %b : Float(4, 8) = aten::add_(%a, %p.1, %one), scope: net.layers.1
  %c : Float(4, 4) = aten::matmul(%b, %x) # net.py:78:4
  %d : Float(8) = aten::mul_(%p.1, %p.1)
  %e : Float(4, 8) = aten::add(%a, %b, %one)
  return (%c, %e)"""


@pytest.fixture(scope="module")
def graph() -> irs.Graph:
    return irs.parse(TEXT.replace("%c : Float(4, 4) = aten::matmul(%b, %x)", "%c : Tensor = aten::matmul(%b, %x)"))


def told(found: list[Node | Value]) -> list[str]:
    return [f"%{record.name}" if isinstance(record, Value) else f"{record.op}→{record.outputs[0].name}" for record in found]


@pytest.mark.parametrize(("query", "wanted"), [
    ("op:add", ["aten::add_→b", "aten::add→e"]),
    ("op:/^aten::add$/", ["aten::add→e"]),
    ("aten::add_", ["aten::add_→b"]),
    ("writes %p.1", ["aten::mul_→d"]),
    ("writes a", ["aten::add_→b"]),
    ("reads %a & !op:add_", ["aten::add→e"]),
    ("makes %c", ["aten::matmul→c"]),
    ("bytes>=128", ["aten::relu→a", "aten::add_→b", "aten::add→e"]),
    ("bytes>0.1kB & op:add", ["aten::add_→b", "aten::add→e"]),
    ("rank=1", ["aten::mul_→d"]),
    ("elements<9", ["aten::mul_→d"]),
    ("type:f32[8]", ["aten::mul_→d"]),
    ('type:"f32[4, 8]" & op:relu', ["aten::relu→a"]),
    ("line:4", ["aten::relu→a"]),
    ("line:4-5", ["aten::relu→a", "aten::add_→b"]),
    ("source:net.py:78", ["aten::matmul→c"]),
    ("net.py", ["aten::matmul→c"]),
    ("scope:layers.1", ["aten::add_→b"]),
    ("is:write", ["aten::add_→b", "aten::mul_→d"]),
    ("kind:matmul | is:constant", ["prim::Constant→one", "aten::matmul→c"]),
    ("(op:relu | op:mul_) !scope:net", ["aten::mul_→d"]),
    ("alias %a & op:add_", ["aten::add_→b"]),
    ("is:input", ["%x", "%p.1"]),
    ("is:unused", ["aten::mul_→d"]),
    ("outputs=1 & inputs>2", ["aten::add_→b", "aten::add→e"]),
    ("", []),
    ("nowhere", []),
])  # fmt: skip
def test_a_query_finds_what_it_says(graph: irs.Graph, query: str, wanted: list[str]) -> None:
    assert told(graph.select(query)) == wanted


def test_alias_finds_what_the_alias_db_says(graph: irs.Graph) -> None:
    db = irs.AliasDb(graph)
    for value in graph.values():
        if db.is_memory(value):
            assert set(graph.select(f"alias %{graph.names[value]}")) == set(db.alias_set(value))


MEANINGLESS = [
    "op:add &", "(op:add", "op:add)", "fruit:apple", "weight>3", "line:ten", "bytes>1e", "is:large", "op:/(/", "remark:sad", "class:1", "|",
]  # fmt: skip


@pytest.mark.parametrize("query", MEANINGLESS)
def test_a_query_that_means_nothing_says_so(graph: irs.Graph, query: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        graph.select(query)
    assert "hint" in str(caught.value)


def test_a_name_that_is_not_there_is_named(graph: irs.Graph) -> None:
    with pytest.raises(UnknownName, match="nothing_here"):
        graph.select("writes %nothing_here")


def test_remarks_and_classes_are_asked_of_a_fusion() -> None:
    g = parsed("x | a = relu x; b = tanh a; m = matmul b b; c = relu m; d = tanh c | d", "Float(4, 4)")
    f = irs.fuse(g)
    ask = Queries(f.graph, f.history, lambda: irs.dedup(f))
    assert ask("class:0") == list(f.groups) == ask("is:group") and ask("group:1 & is:group") == [f.groups[1]]
    missed = {remark.subject for remark in f.remarks if remark.kind == "missed"}
    here = {node.id for node in f.graph.nodes()}
    assert {record.id for record in ask("remark:missed")} == {subject.id for subject in missed} & here
    rules = {remark.rule for remark in f.remarks if remark.kind == "missed"}
    for rule in rules:
        assert {record.id for record in ask(f"rule:{rule}")} <= {record.id for record in f.graph.nodes()} | {v.id for v in f.graph.values()}


@pytest.mark.parametrize(("query", "valid"), [
    ("op=tanh", "op:tanh"), ("op==tanh", "op:tanh"), ("type=f32 & relu", "type:f32 & relu"), ("op:tanh and bytes>10", "op:tanh & bytes>10"),
    ("op:relu or op:tanh", "op:relu | op:tanh"), ("not op:tanh", "!op:tanh"), ("op:relu, op:tanh", "op:relu | op:tanh"),
    ("bytes:32", "bytes=32"), ("bytes>1 MB", "bytes>1MB"), ("writes", "is:write"), ("is:writes", "is:write"),
    ("ops:tanh", "op:tanh"), ("alias", None),
])  # fmt: skip
def test_what_is_not_understood_is_an_error_whose_hint_is_a_query(query: str, valid: str | None) -> None:
    ask = parsed("x | a = relu_ x; b = tanh a | b", "Float(8)").select
    with pytest.raises(ArgumentError) as raised:
        ask(query)
    hint = str(raised.value.hint)
    assert hint.split(",")[0] == (valid or "alias %p")
    if valid:
        ask(valid)


def test_a_word_of_the_program_is_a_word_whatever_it_means_elsewhere() -> None:
    ask = irs.parse("graph(%writes : Float(8)):\n  %and : Float(8) = aten::__and__(%writes, %writes)\n  return (%and)").select
    assert [len(ask(query)) for query in ("writes", "and", "relu", '"op=conv"')] == [2, 1, 0, 0]
