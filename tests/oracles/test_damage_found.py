"""Programs that once ended in an exception of our internals, cut down to the lines that matter; each names what it broke."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

import irscope as irs
from tests.oracles.damaged_files import whole, zipped
from tests.oracles.everything import trouble

GROUPED = """graph(%x : Float(2, 3)):
  %a : Float(2, 3) = aten::relu(%x)
  %b : Float(2, 3) = aten::tanh(%a)
  %s : Float(2, 3) = aten::cumsum(%b, %one, %none)
  %c : Float(2, 3) = aten::exp(%s)
  %d : Float(2, 3) = aten::neg(%c)
  return (%d)""".replace(
    "  %s", "  %one : int = prim::Constant[value=1]()\n  %none : NoneType = prim::Constant()\n  %s"
)


@pytest.mark.parametrize("view_groups", [False, True])
def test_a_program_that_has_groups_is_shown_fused_again_and_compiled(view_groups: bool) -> None:
    once = irs.fuse(irs.parse(GROUPED), view_groups=view_groups)
    assert len(once.groups) == 2
    for graph in (once.graph, irs.parse(str(once.graph))):
        assert trouble(str(graph), compiled=True) == ""
        again = irs.fuse(graph, view_groups=view_groups)
        assert again.groups == ()
        assert str(again.graph) == str(graph)
        inside = again.why_not("a", "b.1")
        assert inside
        assert "%b" in inside.because
        apart = again.obstacle("a", "s")
        assert apart is not None
        assert apart.rule == "given-group"
        assert "already" in apart.because
        assert again.why_alone("a")
        assert again.group_of("a") is graph.node("b")


def test_a_loop_in_a_group_stays_as_it_is() -> None:
    """Groups are not made inside of groups, nor inside of what nobody knows."""
    body = """
      %i : Float(2, 3) = prim::If(%c)
        block0():
          %p : Float(2, 3) = aten::relu(%y)
          %q : Float(2, 3) = aten::tanh(%p)
          -> (%q)
        block1():
          -> (%y)
      -> (%i)"""
    for op in ("prim::FusionGroup", "my::region"):
        text = f"graph(%x : Float(2, 3), %c.1 : bool):\n  %z : Float(2, 3) = {op}(%x, %c.1)\n"
        text += f"    block0(%y : Float(2, 3), %c : bool):{body}\n  return (%z)"
        fusion = irs.fuse(irs.parse(text))
        assert fusion.groups == ()
        assert fusion.obstacle("p", "q").rule == "given-group" if op == "my::region" else fusion.why_not("p", "q")
        assert trouble(text) == ""


CONSTANTS = """
  %one : int = prim::Constant[value=1]()
  %text : str = prim::Constant[value="a"]()
  %none : NoneType = prim::Constant()
  %half : float = prim::Constant[value=0.5]()"""


@pytest.mark.parametrize(
    ("lines", "rule"),
    [
        ("%r : int = prim::GetAttr[value=0]()", "operand-count"),
        ("prim::SetAttr[name=\"a\"]()", "operand-count"),
        ("%r : NoneType = aten::mul_(%x, %half)", "result-kind"),
        ("%r : __torch__.M = aten::sigmoid_(%x)", "result-kind"),
        ("%r : Any = aten::add(%x, %one, %one)", "result-kind"),
        ("%r : Tensor = aten::add(%x, %x, %none)", "operand-kind"),
        ("%r : Tensor = aten::add(%x, %x, %text)", "operand-kind"),
        ("%r : int = prim::Constant[value=[0.5]]()", "constant-kind"),
        ("%r : int = prim::Constant[value={}]()", "constant-kind"),
        ("%r : int = prim::Constant[val0=1]()", "constant-kind"),
        ("%r : float = prim::Constant[value={}]()", "constant-kind"),
        ("%r : float = prim::Constant[value=None]()", "constant-kind"),
        ("%r : int = prim::Constant[value=1" + "0" * 200 + "]()", "constant-kind"),
        ("%r : Float(3, 4) = prim::Constant[value=1]()", "constant-kind"),
        ("%r : Tensor, %s : Tensor = prim::TupleUnpack(%x)", "operand-kind"),
        ("%r : (Tensor, Tensor) = prim::TupleConstruct(%x)", "operand-count"),
        ("%r : Tensor[] = prim::ListConstruct(%text)", "operand-kind"),
        ("%r : Float(-1) = foreign::op(%x)", "extent"),
    ],
)
def test_what_the_analyses_tripped_over_is_refused(lines: str, rule: str) -> None:
    text = f"graph(%x : Float(2, 3)):{CONSTANTS}\n  {lines}\n  return (%x)"
    with pytest.raises(irs.IrscopeError) as caught:
        irs.load(text)
    assert caught.value.rule == rule, str(caught.value)
    assert trouble(text) == ""


def test_a_tensor_where_a_number_is_wanted_is_carried_along() -> None:
    """The tracer writes such programs: they load, and nothing that looks at them fails."""
    text = """graph(%x : Float(2), %y : Float(2), %t : Bool(3, 4)):
  %a : Float(2) = aten::relu(%x)
  %s : Float(2) = aten::add(%a, %y, %t)
  %f : Float(2) = aten::mul(%a, %s)
  return (%f)"""
    assert trouble(text) == ""


@pytest.mark.parametrize("declared", ["Tenso", "Any", "__torch__.M", "Tensor?"])
def test_a_view_of_what_may_be_anything_given_to_unseen_code(declared: str) -> None:
    text = f"""graph(%x : Tensor):
  %a : {declared} = my::makes(%x)
  %n : {declared} = aten::neg(%x)
  %v : Tensor = aten::t(%a)
  %w : Tensor = aten::t(%n)
  %b : Tensor = prim::unchecked_cast(%a)
  my::knows(%a, %n, %b)
  %u : Tensor = aten::relu_(%b)
  return (%v)"""
    if declared in ("Tenso", "Any"):
        db = irs.AliasDb(irs.load(text))
        assert db.may_alias("v", "b") and db.may_alias("v", "u")
        assert db.has_writers("v") and db.has_writers("w")
    assert trouble(text) == ""


@pytest.mark.parametrize(
    "patch",
    [
        "aten::slice_scatter(%x, %part, %axis, %none, %two, %half)",
        "aten::slice_scatter(%x, %part, %half, %none, %two, %axis)",
        "aten::slice_scatter(%x, %part, %axis, %none, %two, %zero)",
        "aten::slice_scatter(%x, %part, %axis, %none, %two, %none)",
        "aten::slice_scatter(%x, %part, %axis, %none, %two, %least)",
        "aten::select_scatter(%x, %row, %half, %axis)",
        "aten::select_scatter(%x, %row, %axis, %half)",
    ],
)
def test_a_range_is_replaced_from_somewhere_between_two_places(patch: str) -> None:
    text = f"""graph(%x : Float(4, 6), %part : Float(4, 2), %row : Float(4)):
  %axis : int = prim::Constant[value=1]()
  %zero : int = prim::Constant[value=0]()
  %least : int = prim::Constant[value=-9223372036854775808]()
  %two : int = prim::Constant[value=2]()
  %none : NoneType = prim::Constant()
  %half : float = prim::Constant[value=0.5]()
  %a : Float(4, 6) = aten::neg(%x)
  %p : Float(4, 6) = {patch}
  %r : Float(4, 6) = aten::mul(%p, %a)
  return (%r)"""
    assert trouble(text, compiled=True) == ""


@pytest.mark.parametrize(("given", "columns"), [("", 6), (", %axis", 6), (", %axis, %two", 4), (", %axis, %none, %two", 2)])
def test_a_range_is_replaced_with_operands_left_out(given: str, columns: int) -> None:
    rows = 4
    graph = irs.parse(f"""graph(%x : Float({rows}, 6), %part : Float({rows}, {columns})):
  %axis : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %none : NoneType = prim::Constant()
  %a : Float({rows}, 6) = aten::neg(%x)
  %p : Float({rows}, 6) = aten::slice_scatter(%x, %part{given})
  %r : Float({rows}, 6) = aten::mul(%p, %a)
  return (%r)""")
    pick = np.random.default_rng(0)
    args = [pick.normal(size=size).astype(np.float32) for size in ((rows, 6), (rows, columns))]
    expected = irs.compile(graph, device="reference")(*args)
    np.testing.assert_array_equal(irs.compile(irs.fuse(graph))(*args), expected)


@pytest.mark.parametrize("parts", [1, 3])
def test_a_list_that_is_unpacked_as_one_of_another_length(parts: int) -> None:
    """The group has no kernel, and its nodes say at their place what is wrong."""
    text = f"""graph(%x : Float(2, 6, strides=[6, 1])):
  %one : int = prim::Constant[value=1]()
  %parts : int = prim::Constant[value={parts}]()
  %g : Float(2, 6) = aten::neg(%x)
  %l : Tensor[] = aten::chunk(%g, %parts, %one)
  %a : Float(2, 3, strides=[6, 1]), %b : Float(2, 3, strides=[6, 1]) = prim::ListUnpack(%l)
  %s : Float(2, 3) = aten::sigmoid(%a)
  %t : Float(2, 3) = aten::tanh(%b)
  %r : Float(2, 3) = aten::mul(%s, %t)
  return (%r)"""
    assert trouble(text, compiled=True) == ""
    with pytest.raises(irs.IrscopeError, match=f"unpack {parts} values into 2"):
        irs.compile(irs.fuse(irs.parse(text)))(np.zeros((2, 6), np.float32))


@pytest.mark.parametrize(("groups", "eps"), [("%x", "%half"), ("%one", "%x"), ("%none", "%half"), ("%half", "%half")])
def test_a_group_norm_whose_numbers_are_none(groups: str, eps: str) -> None:
    text = f"""graph(%x : Float(2, 3)):{CONSTANTS}
  %on : bool = prim::Constant[value=1]()
  %a : Float(2, 3) = aten::relu(%x)
  %n : Float(2, 3) = aten::group_norm(%a, {groups}, %none, %none, {eps}, %on)
  %r : Float(2, 3) = aten::exp(%n)
  return (%r)"""
    assert trouble(text, compiled=True) == ""


@pytest.mark.torch
@pytest.mark.parametrize(
    ("record", "part", "other", "told"),
    [
        ("models/model.json", b"aten.relu.default", b"aten.nope.default", "aten.nope"),
        ("models/model.json", b'"as_tensor": {"name": "x"}', b'"as_tensor": {"name": "z"}', "KeyError: 'z'"),
        ("models/model.json", b'"graph_module"', b'"graph_modul"', "graph_module"),
        ("models/model.json", b'"schema_version": {"major": 8', b'"schema_version": {"major": 80', "80"),
        ("data/weights/model_weights_config.json", b"}", b"", "model_weights_config.json is damaged"),
        ("data/weights/model_weights_config.json", b'"as_int": 4', b'"as_int": 400', "out of bounds"),
    ],
)
def test_a_damaged_program_of_torch_export_is_told_in_a_few_lines(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], record: str, part: bytes, other: bytes, told: str
) -> None:
    """What torch says of it holds the program, its own stack and, in its log, both once more."""
    with zipfile.ZipFile(io.BytesIO(whole("pt2")[0])) as archive:
        records = [(name, archive.read(name)) for name in archive.namelist()]
    assert any(name.endswith(record) and part in held for name, held in records)
    damaged = [(name, held.replace(part, other) if name.endswith(record) else held) for name, held in records]
    path = tmp_path / "damaged.pt2"
    path.write_bytes(zipped(damaged))
    with pytest.raises(irs.IrscopeError) as caught:
        irs.load(path)
    said = str(caught.value)
    assert told in said
    assert "Traceback" not in said and "Original exception" not in said and len(said) < 1500
    printed = capfd.readouterr()
    assert printed.out + printed.err == ""


def test_a_number_that_its_type_does_not_hold_is_infinite() -> None:
    text = """graph(%x : Half(1)):
  %c : Half(1) = prim::Constant[value= 1e+10 [ CPUHalfType{1} ]]()
  %y : Half(1) = aten::mul(%x, %c)
  return (%y)"""
    assert trouble(text, compiled=True) == ""


def test_bytecode_with_a_name_that_is_no_text(tmp_path: Path) -> None:
    pytest.importorskip("jaxlib")
    content = next(found for found in whole("mlirbc") if b"main" in found)
    path = tmp_path / "damaged.mlirbc"
    path.write_bytes(content.replace(b"main", b"m\xff\xfen"))
    with pytest.raises(irs.IrscopeError):
        irs.load(path)


@pytest.mark.parametrize(
    ("call", "result"),
    [
        ("aten::select(%a, %zero, %zero)", "Tensor"), ("aten::slice(%a, %zero, %zero, %one, %one)", "Tensor"),
        ("aten::narrow(%a, %zero, %zero, %one)", "Tensor"), ("aten::unbind(%a, %zero)", "Tensor[]"),
        ("aten::split(%a, %one, %zero)", "Tensor[]"), ("aten::unflatten(%a, %zero, %six)", "Tensor"),
    ],
)  # fmt: skip
def test_a_number_that_a_type_calls_a_matrix_has_no_parts(call: str, result: str) -> None:
    text = f"""graph(%x : Tensor):
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %six : int[] = prim::Constant[value=[6]]()
  %a : Float(2, 3, strides=[3, 1], device=cpu) = aten::neg(%x)
  %b : Float(2, 3, strides=[3, 1], device=cpu) = aten::relu_(%a)
  %r : {result} = {call}
  return (%r)"""
    assert trouble(text) == ""
    irs.ViewAliases(irs.parse(text))


@pytest.mark.parametrize(
    "text",
    [
        """graph(%x : Float(2, 3, strides=[3, 1]), %y : Float(3, 2, strides=[2, 1])):
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %t : Float(3, 2) = aten::transpose(%x, %zero, %one)
  %b : Float() = aten::mul(%t, %y)
  return (%b)""",
        """graph(%x : Float(2, 3, strides=[3, 1]), %n : int):
  %true : bool = prim::Constant[value=1]()
  %two : complex = prim::Constant[value=2]()
  %a : Tensor = aten::neg(%x)
  prim::Loop(%n, %true)
    block0(%i : int):
      %b : Tensor = aten::add_(%a, %i, %two)
      -> (%true)
  return (%a)""",
        """graph(%x : Float(4, 4, strides=[4, 1])):
  %none : NoneType = prim::Constant()
  %no : bool = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %rows : int[] = prim::ListConstruct(%one)
  %s : Float(9223372036854775807) = aten::sum(%x, %rows, %no, %none)
  %c : Float(4, 4) = aten::add(%x, %s, %one)
  return (%c)""",
    ],
    ids=["a matrix that is declared a number", "a complex factor of real numbers", "more bytes than 64 bits count"],
)
def test_types_that_no_run_gives_end_in_no_exception_of_ours(text: str) -> None:
    assert trouble(text, compiled=True) == ""


@pytest.mark.parametrize(
    "call",
    [
        "unbind(%h, %zero)", "split(%h, %one, %zero)", "chunk(%h, %many, %zero)", "unsafe_chunk(%x, %zero, %zero)",
        "unsafe_split(%h, %one, %zero)", "tensor_split(%h, %many, %zero)", "tensor_split(%x, %zero, %zero)",
        "vsplit(%x, %many)", "vsplit(%x, %zero)", "dsplit(%x, %places)", "dsplit(%x, %one)",
    ],
)  # fmt: skip
def test_a_line_that_cuts_into_very_many_pieces_or_none_is_shown(call: str) -> None:
    text = f"""graph(%x : Float(4, 4, strides=[4, 1]), %h : Float(1099511627776, strides=[1])):
  %many : int = prim::Constant[value=1000000000000]()
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %places : int[] = prim::Constant[value=[4, -1]]()
  %r : Tensor[] = aten::{call}
  return (%r)"""
    assert trouble(text) == ""


@pytest.mark.parametrize(
    "call",
    [
        "_reshape_alias(%x, %four, %three)", "as_strided(%x, %four, %four, %zero)", "as_strided(%x, %ones, %two, %zero)",
        "unfold(%x, %zero, %zero, %zero)", "movedim(%x, %two, %ones)", "movedim(%x, %two, %two)",
    ],
)  # fmt: skip
def test_a_view_that_no_tensor_has_is_shown(call: str) -> None:
    text = f"""graph(%x : Float(4, 4, strides=[4, 1])):
  %zero : int = prim::Constant[value=0]()
  %four : int[] = prim::Constant[value=[-3, 0, -100, -1]]()
  %three : int[] = prim::Constant[value=[1, 9223372036854775807, -1]]()
  %ones : int[] = prim::Constant[value=[1, 1, 1]]()
  %two : int[] = prim::Constant[value=[0, 0]]()
  %r : Tensor = aten::{call}
  return (%r)"""
    assert trouble(text) == ""


@pytest.mark.parametrize(
    "call",
    [
        "ones(%sizes, %none, %none, %none, %none)", "zeros(%sizes, %none, %none, %none, %none)",
        "full(%sizes, %one, %none, %none, %none, %none)",
        "new_full(%x, %sizes, %one, %none, %none, %none, %none)", "new_ones(%x, %large, %none, %none, %none, %none)",
        "eye(%minus, %none, %none, %none, %none)", "full_like(%b, %minus, %none, %none, %none, %none, %none)",
        "avg_pool2d(%x, %two, %no_steps, %none_at_all, %yes, %yes, %none)", "max_pool2d(%x, %two, %no_steps, %none_at_all, %two, %yes)",
        "group_norm(%x, %zero, %none, %none, %half, %yes)", "threshold(%i, %inf, %one)",
        "instance_norm(%e, %none, %none, %none, %none, %yes, %half, %half, %yes)", "cat(%l, %one)",
    ],
)  # fmt: skip
def test_numbers_that_no_tensor_and_no_window_has_are_shown(call: str) -> None:
    text = f"""graph(%x : Float(2, 4, 3, 3), %b : Byte(2), %i : Int(2, 3), %e : Float(2, 0, 3), %s : Half()):
  %none : NoneType = prim::Constant()
  %yes : bool = prim::Constant[value=1]()
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %minus : int = prim::Constant[value=-1]()
  %half : float = prim::Constant[value=0.5]()
  %inf : float = prim::Constant[value=inf]()
  %sizes : int[] = prim::Constant[value=[5, 1, -3]]()
  %large : int[] = prim::Constant[value=[100, 5, -1, 9223372036854775807]]()
  %two : int[] = prim::Constant[value=[2, 2]]()
  %no_steps : int[] = prim::Constant[value=[0, 0]]()
  %none_at_all : int[] = prim::Constant[value=[0, 0]]()
  %l : Tensor[] = prim::ListConstruct(%s)
  %y : Tensor = aten::exp(%e)
  %r : Tensor = aten::{call}
  %q : Tensor = aten::neg(%r)
  %t : Tensor = aten::square(%q)
  return (%t, %y)"""
    assert trouble(text) == ""


@pytest.mark.parametrize(("kind", "zero"), [("float", "0."), ("int", "0")])
def test_an_op_that_its_numbers_leave_undefined_stays_with_the_library(kind: str, zero: str) -> None:
    """`celu` divides by its alpha, and torch refuses 0 when it runs."""
    text = f"graph(%x : Double(4)):\n  %a : {kind} = prim::Constant[value={zero}]()\n"
    text += "  %c : Double(4) = aten::celu(%x, %a)\n  %e : Double(4) = aten::exp(%c)\n  return (%e)"
    assert trouble(text, compiled=True) == ""
    (remark,) = [remark for remark in irs.fuse(irs.parse(text)).remarks if remark.rule == "no-expression"]
    assert "not defined for these numbers" in remark.because


@pytest.mark.parametrize(("type", "memory_format"), [("Half(3)", 3), ("Float(2, 3, 4)", 2), ("Float(2, 3, 4, 5)", 3)])
def test_a_channels_last_copy_of_another_rank_is_refused(type: str, memory_format: int) -> None:
    text = f"graph(%x : {type}):\n  %f : int = prim::Constant[value={memory_format}]()\n  %n : NoneType = prim::Constant()\n"
    text += "  %l : Tensor = aten::full_like(%x, %f, %n, %n, %n, %n, %f)\n  %c : Tensor = aten::abs(%l)\n  return (%c)"
    assert trouble(text, compiled=True) == ""
