"""Witnesses, tables and costs of the alias db; what it says of each kind of node, and why, is in `tests/cases/alias`."""

import pytest

from irscope.analysis.alias.alias_db import AliasDb
from irscope.analysis.alias.points_to.mod_ref import Accesses
from irscope.ir.text.parser import parse
from tests.random_programs.graphs import random_program
from tests.work import calls_made


def db_of(body: str, *, inputs: str = "%x : Tensor, %y : Tensor, %c : bool, %n : int", distinct: bool = False) -> AliasDb:
    lines = "\n".join(f"  {line}" for line in body.strip("\n").splitlines())
    return AliasDb(parse(f"graph({inputs}):\n{lines}\n  return ()"), distinct_inputs=distinct)


def test_a_view_of_a_view_is_a_view() -> None:
    db = db_of("%a : Tensor = aten::neg(%x)\n%b : Tensor = aten::t(%a)\n%d : Tensor = aten::unsqueeze(%b, %n)")
    verdict = db.may_alias("d", "a")
    assert verdict.because == "%d is a view of %b (aten::unsqueeze), and %b is a view of %a (aten::t)"
    assert verdict.witness == (*tuple(map(db.graph.value, ("d", "a"))), db.graph.node("d"), db.graph.value("b"), db.graph.node("b"))
    assert db.may_alias("d", "b") and db.must_alias("d", "a")


def test_inputs_may_be_one_object_unless_promised() -> None:
    assert db_of("%a : Tensor = aten::t(%x)").may_alias("a", "y")
    verdict = db_of("%a : Tensor = aten::t(%x)").may_alias("x", "y")
    assert verdict.because == "%x and %y are both inputs, and two inputs may be the same object"
    db = db_of("%a : Tensor = aten::t(%x)", distinct=True)
    assert not db.may_alias("a", "y") and db.may_alias("a", "x")


@pytest.mark.parametrize("type", ["Enum<__torch__.Color>", "AnyEnumType", "Function", "Device", "ScalarType", "int?"])
def test_what_cannot_change_is_never_shared(type: str) -> None:
    db = AliasDb(parse(f"graph(%e : {type}, %same : {type}, %x : Tensor, %any : Any):\n  return (%x)"))
    assert not db.may_alias("e", "same") and not db.may_contain_alias("e", ["x", "any"]) and not db.has_writers("e")


# Writes


def test_a_write_is_named_with_its_path() -> None:
    db = db_of("%a : Tensor = aten::neg(%x)\n%b : Tensor = aten::t(%a)\n%w : Tensor = aten::relu_(%b)\n%d : Tensor = aten::neg(%a)")
    verdict = db.has_writers("a")
    assert verdict.because == "aten::relu_ (%w) writes %b, and %b is a view of %a (aten::t)"
    assert verdict.witness[0] is db.graph.node("w")
    assert db.writers("a") == (db.graph.node("w"),) and db.writers("d") == ()
    assert db.is_mutable("w") and not db.is_mutable("d")
    assert db.reads("d") == (db.graph.value("a"),) and db.writes("w") == (db.graph.value("b"),)


# Order


def test_views_and_writes_cross_what_they_may_and_what_moves_along_is_listed() -> None:
    text = "%a : Tensor = aten::neg(%x)\n%v : Tensor = aten::t(%a)\n%w : Tensor = aten::{}(%a{})\n%d : Tensor = aten::neg(%x)"
    assert db_of(text.format("relu_", "")).can_move_after("v", "w")
    refused = db_of(text.format("squeeze_", "")).can_move_after("v", "w")
    assert not refused and "reads the shape of %a" in refused.because
    text = "%a : Tensor = aten::neg(%x)\n{}\nprim::RaiseException(%s, %k)\n%r : Tensor = aten::neg(%x)"
    inputs = "%x : Tensor, %s : str, %k : str?"
    assert not db_of(text.format("%w : Tensor = aten::relu_(%x)"), inputs=inputs).can_move_after("w", "prim::RaiseException#0")
    assert db_of(text.format("%w : Tensor = aten::relu_(%a)"), inputs=inputs).can_move_after("w", "prim::RaiseException#0")
    db = db_of("%a : Tensor = aten::neg(%x)\n%b : Tensor = aten::neg(%a)\n%d : Tensor = aten::neg(%x)")
    verdict = db.can_move_after("a", "d")
    assert verdict.witness == (db.graph.node("a"), db.graph.node("b"))
    assert verdict.because == "aten::neg (%b) moves along"


def test_rows_of_the_table_are_what_the_db_says() -> None:
    table = db_of("%a : Tensor = aten::neg(%x)\n%b : Tensor = aten::t(%a)\n%w : Tensor = aten::relu_(%b)").table().set_index("value")
    assert list(table.index) == ["%x", "%y", "%a", "%b", "%w"]
    assert table.loc["%a", "alias set"] == "%a, %b, %w" and table.loc["%a", "writers"] == "aten::relu_ (%w)"
    assert table.loc["%x", "alias set"] == "%x, %y" and table.loc["%b", "locations"] == "%a"
    for seed in range(12):
        db = AliasDb(parse(random_program(seed, size=12).text))
        table = db.table().set_index("value")
        names = db.graph.names
        for value in db.graph.values():
            if f"%{names[value]}" in table.index and len(db.alias_set(value)) <= 20 and len(db.writers(value)) <= 20:
                row = table.loc[f"%{names[value]}"]
                assert set(row["alias set"].split(", ")) == {f"%{names[other]}" for other in db.alias_set(value)}
                assert row["writers"] == ", ".join(map(db.node_words, db.writers(value)))


def test_the_table_is_linear_where_everything_may_be_everything() -> None:
    def merging(count: int) -> AliasDb:
        lines = ["graph(%y : Tensor, %c : bool):", "  %r0 : Tensor = aten::neg(%y)"]
        for i in range(count):
            lines += [f"  %r{i + 1} : Tensor = prim::If(%c)", "    block0():"]
            lines += [f"      %f{i} : Tensor = aten::relu(%y)", f"      -> (%f{i})", "    block1():", f"      -> (%r{i})"]
        return AliasDb(parse("\n".join([*lines, "  return ()"])))

    def work(count: int) -> int:
        db = merging(count)
        return calls_made(lambda: db.table())

    assert work(1000) <= 2.4 * work(500)
    table = merging(500).table().set_index("value")
    assert table.loc["%r0", "alias set"].endswith("and 481 more")
    assert table.loc["%r500", "alias set"] == "up to 1,001 values" and table.loc["%r500", "locations"] == "more than 20"
    assert table.loc["%y", "alias set"] == "%y" and table.loc["%r500", "writers"] == ""


# Size


def test_deep_programs_are_walked_without_recursion() -> None:
    views = "\n".join(f"  %v{i} : Tensor = aten::t(%v{i - 1})" for i in range(1, 20_000))
    db = AliasDb(parse(f"graph(%v0 : Tensor):\n{views}\n  return (%v0)"))
    assert db.may_alias("v19999", "v0").because.startswith("%v19999 is a view of %v19998 (aten::t), and 19,997 steps later")
    depth = 2_000
    opened = "\n".join(
        f"{' ' * i}%o{i} : Tensor = prim::Loop(%n, %t, %c{i - 1})\n{' ' * i}block0(%i{i} : int, %c{i} : Tensor):" for i in range(1, depth)
    )
    closed = "\n".join(f"{' ' * i}-> (%t, {f'%o{i + 1}' if i < depth - 1 else '%w'})" for i in reversed(range(1, depth)))
    nested = AliasDb(
        parse(f"graph(%c0 : Tensor, %n : int, %t : bool):\n{opened}\n%w : Tensor = aten::relu_(%c{depth - 1})\n{closed}\nreturn (%o1)")
    )
    assert nested.has_writers("c0") and nested.may_alias("o1", "c0")


def test_each_node_of_nested_ifs_is_looked_at_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    depth, looked = 60, []
    text = ["graph(%x : Tensor, %c : bool):", "  %y0 : Tensor = aten::relu(%x)"]
    for level in range(1, depth):
        text.append(f"{'    ' * (level - 1)}  %y{level} : Tensor = prim::If(%c)")
        text.append(f"{'    ' * level}block0():")
        text.append(f"{'    ' * level}  %z{level} : Tensor = aten::tanh(%x)")
    for level in reversed(range(1, depth)):
        inner = f"y{level + 1}" if level + 1 < depth else f"z{level}"
        text += [f"{'    ' * level}  -> (%{inner})", f"{'    ' * level}block1():", f"{'    ' * level}  -> (%x)"]
    graph = parse("\n".join([*text, "  return (%y1)"]))
    own = Accesses._own
    monkeypatch.setattr(Accesses, "_own", lambda self, node: looked.append(node) or own(self, node))
    db = AliasDb(graph)
    for node in graph.nodes():  # from the outside in: what is inside must be found on the way
        db.accesses(node)
    assert len(looked) <= 3 * len(graph.position)


def test_the_points_to_graph_as_text_for_graphviz() -> None:
    db = db_of(
        "%a : Tensor = aten::neg(%x)\n%l : Tensor[] = prim::ListConstruct(%a, %y)\n%w : Tensor = aten::relu_(%a)\n"
        "%u : Tensor = aten::neg(%x)"
    )
    text = db.dot()
    classes = {value: db.sealed.class_of[db.sealed.element_of[db.graph.value(value)]] for value in ("x", "a", "l")}
    cell = db.sealed.class_of[db.sealed.cells[db.sealed.element_of[db.graph.value("l")]]]
    assert f'c{classes["x"]} [label="%x\\n%y" peripheries=2]' in text
    assert f'c{classes["a"]} [label="%a\\n%w" penwidth=2]' in text
    assert f'c{cell} [label="what %l holds" penwidth=2]' in text
    assert f"c{classes['l']} -> c{cell} [style=dashed]" in text
    assert f"c{cell} -> c{classes['a']}\n" in text and "%u" not in text
    assert db.dot("a").count("label=") == 1
