"""What the alias db says of each kind of node, and why; for each "may" a "cannot, because"."""

from __future__ import annotations

import pytest

from irscope.analysis.alias.build.mod_ref import Accesses
from irscope.analysis.alias.query.alias_db import AliasDb
from irscope.errors import UnknownName
from irscope.ir.text.parser import parse
from tests.random_programs.graphs import random_program
from tests.work import calls_made


def db_of(
    body: str, *, inputs: str = "%x : Tensor, %y : Tensor, %c : bool, %n : int", distinct: bool = False
) -> AliasDb:
    lines = "\n".join(f"  {line}" for line in body.strip("\n").splitlines())
    return AliasDb(parse(f"graph({inputs}):\n{lines}\n  return ()"), distinct_inputs=distinct)


# Sharing


def test_a_view_of_a_view_is_a_view() -> None:
    db = db_of("%a : Tensor = aten::neg(%x)\n%b : Tensor = aten::t(%a)\n%d : Tensor = aten::unsqueeze(%b, %n)")
    verdict = db.may_alias("d", "a")
    assert verdict.because == "%d is a view of %b (aten::unsqueeze), and %b is a view of %a (aten::t)"
    assert verdict.witness == (
        *tuple(map(db.graph.value, ("d", "a"))),
        db.graph.node("d"),
        db.graph.value("b"),
        db.graph.node("b"),
    )
    assert db.may_alias("d", "b") and db.must_alias("d", "a")


def test_two_views_of_one_value_say_so_both() -> None:
    db = db_of(
        "%a : Tensor = aten::neg(%x)\n%b : Tensor = aten::slice(%a, %n, %n, %n, %n)\n%u : Tensor = aten::select(%a, %n, %n)"
    )
    assert db.may_alias("b", "u").because == "%b is a view of %a (aten::slice), and %u is a view of %a (aten::select)"


def test_fresh_results_are_different_memory() -> None:
    db = db_of("%a : Tensor = aten::mul(%x, %y)\n%b : Tensor = aten::neg(%a)")
    assert (
        str(db.may_alias("a", "b"))
        == "no, because they are different memory: %a is made by aten::mul, %b is made by aten::neg"
    )
    assert not db.may_contain_alias("b", "x")


def test_inputs_may_be_one_object_unless_promised() -> None:
    assert db_of("%a : Tensor = aten::t(%x)").may_alias("a", "y")
    verdict = db_of("%a : Tensor = aten::t(%x)").may_alias("x", "y")
    assert verdict.because == "%x and %y are both inputs, and two inputs may be the same object"
    db = db_of("%a : Tensor = aten::t(%x)", distinct=True)
    assert not db.may_alias("a", "y") and db.may_alias("a", "x")


def test_numbers_are_never_shared() -> None:
    assert "copied" in db_of("").may_alias("n", "n").because
    assert not db_of("").has_writers("n")


@pytest.mark.parametrize("type", ["Enum<__torch__.Color>", "AnyEnumType", "Function", "Device", "ScalarType", "int?"])
def test_what_cannot_change_is_never_shared(type: str) -> None:
    db = AliasDb(parse(f"graph(%e : {type}, %same : {type}, %x : Tensor, %any : Any):\n  return (%x)"))
    assert not db.may_alias("e", "same") and not db.may_contain_alias("e", ["x", "any"]) and not db.has_writers("e")


def test_a_branch_gives_what_either_block_gives() -> None:
    db = db_of("""
%a : Tensor = aten::neg(%x)
%b : Tensor = aten::neg(%x)
%d : Tensor = aten::neg(%x)
%r : Tensor = prim::If(%c)
  block0():
    -> (%a)
  block1():
    -> (%b)""")
    assert db.may_alias("r", "a").because == "%r may be %a (prim::If)"
    assert db.may_alias("r", "b") and not db.may_alias("a", "b") and not db.may_alias("r", "d")
    assert not db.must_alias("r", "a")


LOOP = """
%a : Tensor = aten::neg(%x)
%b : Tensor = aten::neg(%x)
%o : Tensor = prim::Loop(%n, %c, %a)
  block0(%i : int, %p : Tensor):
    %f : Tensor = aten::mul(%p, %b)
    -> (%c, %f)"""


def test_none_is_no_memory_and_so_is_what_was_never_set() -> None:
    db = db_of(
        """
%none : Tensor? = prim::Constant()
%unset : Tensor = prim::Uninitialized()
%empty : Tensor[] = prim::Uninitialized()
%a : Tensor = aten::neg(%x)
%r : Tensor? = prim::If(%c)
  block0():
    -> (%none)
  block1():
    -> (%a)
%s : Tensor = prim::If(%c)
  block0():
    -> (%unset)
  block1():
    -> (%a)
%t : (Tensor?, Tensor) = prim::TupleConstruct(%none, %a)
%p : Tensor?, %q : Tensor = prim::TupleUnpack(%t)
%e : Tensor = aten::__getitem__(%empty, %n)
%l : Tensor[] = aten::append(%empty, %y)"""
    )
    for name in ("none", "unset"):
        assert not db.may_alias("r", name) and not db.may_alias("s", name)
    assert db.may_alias("r", "s") and db.may_alias("r", "a") and db.may_alias("q", "a")
    assert db.may_alias("r", "a").because == "%r is %a, a result of prim::If"
    assert not db.may_alias("p", "a") and not db.may_alias("p", "none")
    assert db.may_alias("e", "y")  # nobody reads what was never set, and asking is no error


def test_a_loop_may_run_no_round_or_many() -> None:
    db = db_of(LOOP)
    assert db.may_alias("o", "a"), "no round"
    assert db.may_alias("p", "f"), "the round after the first"
    assert db.may_alias("o", "f") and not db.may_alias("o", "b")


def test_what_a_loop_carries_round_unchanged_is_itself() -> None:
    db = db_of("""
%a : Tensor = aten::neg(%x)
%o : Tensor = prim::Loop(%n, %c, %a)
  block0(%i : int, %p : Tensor):
    -> (%c, %p)
%u : Tensor = aten::relu_(%o)""")
    assert db.has_writers("a") and db.locations("o") == (db.graph.value("a"),)


# Containers


def test_a_list_keeps_its_own_contents() -> None:
    db = db_of("""
%a : Tensor = aten::neg(%x)
%b : Tensor = aten::neg(%x)
%l : Tensor[] = prim::ListConstruct(%a)
%m : Tensor[] = prim::ListConstruct(%b)
%e : Tensor = aten::__getitem__(%l, %n)""")
    assert db.may_alias("e", "a") and not db.may_alias("e", "b") and not db.may_alias("e", "x")
    assert db.may_contain_alias("l", "a").because == "%l may hold %a (prim::ListConstruct)"
    assert not db.may_alias("l", "m") and not db.may_contain_alias("l", "m")


def test_a_store_is_seen_through_every_name_of_the_list() -> None:
    db = db_of("""
%a : Tensor = aten::neg(%x)
%l : Tensor[] = prim::ListConstruct()
%m : Tensor[] = prim::ListConstruct()
%r : Tensor[] = prim::If(%c)
  block0():
    -> (%l)
  block1():
    -> (%m)
%s : Tensor[] = aten::append(%r, %a)
%e : Tensor = aten::__getitem__(%l, %n)""")
    assert db.may_alias("e", "a")
    assert db.has_writers("l") and db.has_writers("m") and not db.has_writers("a")


def test_tuples_have_fields() -> None:
    db = db_of("""
%a : Tensor = aten::neg(%x)
%b : Tensor = aten::neg(%x)
%t : (Tensor, Tensor) = prim::TupleConstruct(%a, %b)
%p : Tensor, %q : Tensor = prim::TupleUnpack(%t)
%one : int = prim::Constant[value=1]()
%k : Tensor = prim::TupleIndex(%t, %one)""")
    assert db.may_alias("p", "a") and not db.may_alias("p", "b")
    assert db.may_alias("k", "b") and not db.may_alias("k", "a")
    assert db.may_contain_alias("t", "a") and db.may_contain_alias(["x", "t"], "b")


def test_a_merged_tuple_merges_field_by_field() -> None:
    db = db_of("""
%a : Tensor = aten::neg(%x)
%b : Tensor = aten::neg(%x)
%t : (Tensor, Tensor) = prim::TupleConstruct(%a, %b)
%u : (Tensor, Tensor) = prim::TupleConstruct(%b, %b)
%r : (Tensor, Tensor) = prim::If(%c)
  block0():
    -> (%t)
  block1():
    -> (%u)
%p : Tensor, %q : Tensor = prim::TupleUnpack(%r)""")
    assert db.may_alias("p", "a") and db.may_alias("p", "b")
    assert db.may_alias("q", "b") and not db.may_alias("q", "a")


def test_writing_the_members_of_a_list_argument_reaches_the_tensors() -> None:
    pytest.importorskip("torch", reason="the schema is torch's")
    db = db_of("""
%a : Tensor = aten::neg(%x)
%b : Tensor = aten::neg(%x)
%l : Tensor[] = prim::ListConstruct(%a)
aten::_foreach_neg_(%l)""")
    assert db.has_writers("a") and not db.has_writers("b") and not db.has_writers("l")
    assert db.writes("aten::_foreach_neg_#0") == (db.graph.value("l"),)


def test_any_may_be_whatever_is_in_it() -> None:
    db = db_of(
        "%r : Tensor = prim::unchecked_cast(%a)\n%w : Tensor = aten::relu_(%r)",
        inputs="%x : Tensor, %a : Any, %l : Tensor[]",
    )
    assert db.has_writers("x") and db.has_writers("a")
    assert db.may_contain_alias("r", "l") and db.may_alias("l", "a")


# Code that nobody sees


def test_an_unknown_op_may_write_what_it_was_given_now_or_before() -> None:
    db = db_of("""
%a : Tensor = aten::neg(%x)
%b : Tensor = aten::neg(%x)
%d : Tensor = aten::neg(%x)
%r : Tensor = mine::first(%a)
%s : Tensor = mine::second(%b)""")
    assert db.has_writers("a") and db.has_writers("b") and not db.has_writers("d") and not db.has_writers("x")
    assert len(db.writers("a")) == 2
    assert db.may_alias("s", "a") and not db.may_alias("r", "d")
    assert db.may_alias("a", "b") and not db.may_alias("a", "d")  # the second may have kept the first one's operand
    assert db.may_alias("r", "x").because


TASK = """graph(%x : Tensor):
  %a : Tensor = aten::neg(%x)
  %f : Future(Tensor) = prim::fork_0(%a)
  %r : Tensor = aten::neg(%a)
  %d : Tensor = aten::wait(%f)
  %s : Tensor = aten::neg(%a)
  return (%r, %d, %s)
with prim::fork_0 = graph(%p : Tensor):
  %w : Tensor = aten::relu_(%p)
  return (%w)
"""


def test_a_task_writes_between_its_start_and_the_wait() -> None:
    db = AliasDb(parse(TASK))
    assert db.has_writers("a") and db.may_alias("d", "a") and db.may_contain_alias("f", "a")
    assert not db.can_move_before("s", "d"), "the wait may be what writes %a"
    assert not db.can_move_before("r", "f")


def test_groups_are_read_through() -> None:
    db = AliasDb(
        parse("""graph(%x : Tensor):
  %a : Tensor = aten::neg(%x)
  %b : Tensor = aten::neg(%x)
  %g : Tensor = prim::FusionGroup_0(%a, %b)
  %r : Tensor = aten::neg(%a)
  return (%g, %r)
with prim::FusionGroup_0 = graph(%p : Tensor, %q : Tensor):
  %w : Tensor = aten::relu_(%p)
  %m : Tensor = aten::mul(%w, %q)
  return (%m)
""")
    )
    assert db.has_writers("a") and not db.has_writers("b") and not db.may_alias("g", "a")
    assert db.may_alias("w", "a").because == "%w is %p after aten::relu_, and %p stands for %a in prim::FusionGroup"
    verdict = db.can_move_before("r", "g")
    assert not verdict and "writes %p" in verdict.because


def test_attributes_are_told_apart_by_class_and_name() -> None:
    db = db_of(
        """
%w : Tensor = prim::GetAttr[name="w"](%m)
%v : Tensor = prim::GetAttr[name="v"](%m)
%a : Tensor = aten::neg(%x)
prim::SetAttr[name="w"](%m, %a)
%u : Tensor = prim::GetAttr[name="w"](%m)
%k : Tensor = aten::relu_(%u)""",
        inputs="%m : __torch__.M, %x : Tensor",
    )
    assert db.may_alias("u", "a") and not db.may_alias("v", "a")
    assert db.has_writers("a") and db.has_writers("x"), "the attribute may be the input"
    assert not db.can_move_before("u", "prim::SetAttr#0") and db.can_move_before("a", "v")


# Writes


def test_a_write_is_named_with_its_path() -> None:
    db = db_of(
        "%a : Tensor = aten::neg(%x)\n%b : Tensor = aten::t(%a)\n%w : Tensor = aten::relu_(%b)\n%d : Tensor = aten::neg(%a)"
    )
    verdict = db.has_writers("a")
    assert verdict.because == "aten::relu_ writes %b, and %b is a view of %a (aten::t)"
    assert verdict.witness[0] is db.graph.node("w")
    assert db.writers("a") == (db.graph.node("w"),) and db.writers("d") == ()
    assert db.is_mutable("w") and not db.is_mutable("d")
    assert db.reads("d") == (db.graph.value("a"),) and db.writes("w") == (db.graph.value("b"),)


def norm(flag: str) -> AliasDb:
    return db_of(f"""
%none : NoneType = prim::Constant()
%one : float = prim::Constant[value=1.]()
%t : bool = prim::Constant[value={flag}]()
%m : Tensor = aten::neg(%x)
%v : Tensor = aten::neg(%x)
%r : Tensor = aten::batch_norm(%y, %none, %none, %m, %v, %t, %one, %one, %c)""")


def test_statistics_are_written_unless_the_flag_is_known_to_be_off() -> None:
    assert norm("1").has_writers("m") and norm("1").has_writers("v")
    assert not norm("0").has_writers("m") and not norm("0").has_writers("r")


def test_exchanging_the_storage_is_seen_by_all_names() -> None:
    db = db_of(
        "%a : Tensor = aten::neg(%x)\n%b : Tensor = aten::t(%a)\n%s : Tensor = aten::set_(%a, %y)\n%w : Tensor = aten::relu_(%y)"
    )
    assert db.may_alias("b", "y") and db.has_writers("a")


# Order


def test_a_view_crosses_a_write_of_data_and_not_of_shape() -> None:
    text = "%a : Tensor = aten::neg(%x)\n%v : Tensor = aten::t(%a)\n%w : Tensor = aten::{}(%a{})\n%d : Tensor = aten::neg(%x)"
    assert db_of(text.format("relu_", "")).can_move_after("v", "w")
    refused = db_of(text.format("squeeze_", "")).can_move_after("v", "w")
    assert not refused and "reads the shape of %a" in refused.because


def test_effects_in_blocks_keep_their_order() -> None:
    db = db_of("""
prim::If(%c)
  block0():
    prim::Print(%x)
    -> ()
  block1():
    -> ()
%a : Tensor = aten::neg(%x)
prim::Print(%y)""")
    first, last = db.graph.node("prim::If#0"), db.graph.node("prim::Print#1")
    assert not db.can_move_after(first, last)
    assert db.can_move_after("a", last)


def test_random_draws_keep_their_order() -> None:
    rand = "aten::bernoulli(%x, %g)"
    db = db_of(
        f"%g : Generator? = prim::Constant()\n%a : Tensor = {rand}\n%d : Tensor = aten::neg(%x)\n%b : Tensor = {rand}"
    )
    verdict = db.can_move_after("a", "b")
    assert not verdict and "random" in verdict.because
    assert db.can_move_after("a", "d")


def test_a_write_to_an_input_does_not_cross_an_exception() -> None:
    text = "%a : Tensor = aten::neg(%x)\n{}\nprim::RaiseException(%s, %k)\n%r : Tensor = aten::neg(%x)"
    inputs = "%x : Tensor, %s : str, %k : str?"
    assert not db_of(text.format("%w : Tensor = aten::relu_(%x)"), inputs=inputs).can_move_after(
        "w", "prim::RaiseException#0"
    )
    assert db_of(text.format("%w : Tensor = aten::relu_(%a)"), inputs=inputs).can_move_after(
        "w", "prim::RaiseException#0"
    )


def test_what_moves_along_is_listed() -> None:
    db = db_of("%a : Tensor = aten::neg(%x)\n%b : Tensor = aten::neg(%a)\n%d : Tensor = aten::neg(%x)")
    verdict = db.can_move_after("a", "d")
    assert verdict.witness == (db.graph.node("a"), db.graph.node("b"))
    assert verdict.because == "aten::neg (%b) moves along"


def test_nodes_of_different_blocks_do_not_meet() -> None:
    db = db_of(LOOP)
    assert "different blocks" in db.can_move_before("f", "b").because


# Names


def test_unknown_names_are_errors_that_name_them() -> None:
    db = db_of("%a : Tensor = aten::neg(%x)")
    other = parse("graph(%z : Tensor):\n  %q : Tensor = aten::neg(%z)\n  return (%q)")
    with pytest.raises(UnknownName, match="%zz"):
        db.may_alias("zz", "a")
    with pytest.raises(UnknownName, match="%z is not a value"):
        db.has_writers(other.value("z"))
    with pytest.raises(UnknownName, match="not a node"):
        db.can_move_before(other.node("q"), "a")


def test_the_table_has_a_row_a_value() -> None:
    table = (
        db_of("%a : Tensor = aten::neg(%x)\n%b : Tensor = aten::t(%a)\n%w : Tensor = aten::relu_(%b)")
        .table()
        .set_index("value")
    )
    assert list(table.index) == ["%x", "%y", "%a", "%b", "%w"]
    assert table.loc["%a", "alias set"] == "%a, %b, %w" and table.loc["%a", "writers"] == "aten::relu_ (%w)"
    assert table.loc["%x", "alias set"] == "%x, %y" and table.loc["%b", "locations"] == "%a"


def test_the_table_is_linear_where_everything_may_be_everything() -> None:
    def merging(count: int) -> AliasDb:
        lines = ["graph(%y : Tensor, %c : bool):", "  %r0 : Tensor = aten::neg(%y)"]
        for i in range(count):
            lines += [f"  %r{i + 1} : Tensor = prim::If(%c)", "    block0():"]
            lines += [
                f"      %f{i} : Tensor = aten::relu(%y)",
                f"      -> (%f{i})",
                "    block1():",
                f"      -> (%r{i})",
            ]
        return AliasDb(parse("\n".join([*lines, "  return ()"])))

    def work(count: int) -> int:
        db = merging(count)
        return calls_made(lambda: db.table())

    assert work(1000) <= 2.4 * work(500)
    table = merging(500).table().set_index("value")
    assert table.loc["%r0", "alias set"].endswith("and 481 more")
    assert table.loc["%r500", "alias set"] == "up to 1,001 values" and table.loc["%r500", "locations"] == "more than 20"
    assert table.loc["%y", "alias set"] == "%y" and table.loc["%r500", "writers"] == ""


def test_rows_of_the_table_are_what_the_db_says() -> None:
    for seed in range(12):
        db = AliasDb(parse(random_program(seed, size=12).text))
        table = db.table().set_index("value")
        names = db.graph.names
        for value in db.graph.values():
            if f"%{names[value]}" in table.index and len(db.alias_set(value)) <= 20 and len(db.writers(value)) <= 20:
                row = table.loc[f"%{names[value]}"]
                assert set(row["alias set"].split(", ")) == {f"%{names[other]}" for other in db.alias_set(value)}
                assert row["writers"] == ", ".join(map(db.node_words, db.writers(value)))


def test_what_escapes_is_what_the_caller_can_reach() -> None:
    db = AliasDb(
        parse("""graph(%x : Tensor):
  %a : Tensor = aten::neg(%x)
  %b : Tensor = aten::neg(%x)
  %l : Tensor[] = prim::ListConstruct(%a)
  return (%l)""")
    )
    assert db.escapes("a") and db.escapes("x") and not db.escapes("b")
    assert db.may_alias_wildcard("x") and not db.may_alias_wildcard("a")
    assert db.safe_to_change_aliasing("a", "b") and not db.safe_to_change_aliasing("a", "x")


# Size


def test_deep_programs_are_walked_without_recursion() -> None:
    views = "\n".join(f"  %v{i} : Tensor = aten::t(%v{i - 1})" for i in range(1, 20_000))
    db = AliasDb(parse(f"graph(%v0 : Tensor):\n{views}\n  return (%v0)"))
    assert db.may_alias("v19999", "v0").because.startswith(
        "%v19999 is a view of %v19998 (aten::t), and after 19997 more steps"
    )
    depth = 2_000
    opened = "\n".join(
        f"{' ' * i}%o{i} : Tensor = prim::Loop(%n, %t, %c{i - 1})\n{' ' * i}block0(%i{i} : int, %c{i} : Tensor):"
        for i in range(1, depth)
    )
    closed = "\n".join(
        f"{' ' * i}-> (%t, {f'%o{i + 1}' if i < depth - 1 else '%w'})" for i in reversed(range(1, depth))
    )
    nested = AliasDb(
        parse(
            f"graph(%c0 : Tensor, %n : int, %t : bool):\n{opened}\n%w : Tensor = aten::relu_(%c{depth - 1})\n{closed}\nreturn (%o1)"
        )
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
