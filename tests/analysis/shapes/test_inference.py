"""What is inferred holds on every run; what can be known is known; what is certain to fail is told with its place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from irscope.analysis.shapes.inference import Shapes, infer, refined
from irscope.errors import ArgumentError
from irscope.ir.core import Value
from irscope.ir.payload import NOT_CONSTANT, argument_type
from irscope.ir.text.parser import parse
from irscope.ir.types import TensorType
from irscope.ops.typing.numpy_layout import array_type
from irscope.runtime.reference import run_reference
from tests.random_programs.graphs import programs, random_program


def holds(shapes: Shapes, value: Value, thing: Any) -> None:
    """What the shapes say of a value is true of the thing that it was in a run."""
    known = shapes.known(value)
    if known is not NOT_CONSTANT:
        assert as_payload(thing) == known, (value, thing, known)
    type = shapes.type(value)
    if isinstance(thing, np.ndarray) and isinstance(type, TensorType):
        true = array_type(thing)
        assert type.dtype in (None, true.dtype), (value, str(type), str(true))
        assert true.shape is not None
        if type.shape is not None:
            assert len(type.shape) == len(true.shape), (value, str(type), str(true))
            assert all(dim in (None, size) for dim, size in zip(type.shape, true.shape, strict=True)), (
                value,
                str(type),
                str(true),
            )


def as_payload(thing: Any) -> Any:
    return tuple(map(as_payload, thing)) if isinstance(thing, list | tuple) else thing


@settings(max_examples=150, deadline=None)
@given(programs())
def test_true_of_every_value_in_a_run_of_a_random_program(program: Any) -> None:
    graph = parse(program.text)
    types = {value: argument_type(argument) for value, argument in zip(graph.inputs, program.inputs, strict=True)}
    for given_types in (types, {}):
        shapes = infer(graph, given_types)
        run_reference(graph, *program.fresh(), observe=lambda value, thing, shapes=shapes: holds(shapes, value, thing))
        never = {value for block in shapes.unreached for node in block.nodes for value in node.outputs}
        run_reference(graph, *program.fresh(), observe=lambda value, thing, never=never: unreachable(value, never))


def unreachable(value: Value, never: set[Value]) -> None:
    assert value not in never, f"{value!r} was said never to be made"


def test_refining_a_random_program_keeps_its_meaning_and_verifies() -> None:
    from irscope.ir.verify import verify

    for seed in range(20):
        program = random_program(seed)
        graph = parse(program.text)
        types = {value: argument_type(argument) for value, argument in zip(graph.inputs, program.inputs, strict=True)}
        after, shapes = refined(graph, infer(graph, types))
        verify(after)
        assert [node.id for node in after.nodes()] == [node.id for node in graph.nodes()]
        assert list(after.names.values()) == list(graph.names.values())
        assert shapes is not None and shapes.graph is after
        results = run_reference(
            after, *program.fresh(), observe=lambda value, thing, shapes=shapes: holds(shapes, value, thing)
        )
        for one, other in zip(run_reference(graph, *program.fresh()), results, strict=True):
            np.testing.assert_equal(one, other)


def shapes_of(text: str, *types: str, strict: bool = False) -> Shapes:
    from irscope.ir.text.type_text import parse_type

    graph = parse(text)
    return infer(
        graph, {value: parse_type(type) for value, type in zip(graph.inputs, types, strict=False)}, strict=strict
    )


class TestNumbers:
    def test_size_arithmetic_is_known(self) -> None:
        shapes = shapes_of(
            """graph(%x : Float(2, 3)):
          %zero : int = prim::Constant[value=0]()
          %s : int[] = aten::size(%x)
          %n : int = aten::__getitem__(%s, %zero)
          %m : int = aten::size(%x, %n)
          %two : int = prim::Constant[value=1]()
          %k : int = aten::size(%x, %two)
          %p : int = aten::mul(%n, %k)
          %q : int = aten::floordiv(%p, %n)
          %c : bool = aten::lt(%q, %p)
          return (%c)""".replace("%m : int = aten::size(%x, %n)", "%m : int = aten::dim(%x)")
        )
        assert [shapes.known(name) for name in ("s", "n", "m", "p", "q", "c")] == [(2, 3), 2, 2, 6, 3, True]

    def test_an_element_of_a_tensor_is_not(self) -> None:
        shapes = shapes_of("graph(%x : Long()):\n  %n : int = aten::Int(%x)\n  return (%n)")
        assert shapes.known("n") is NOT_CONSTANT

    def test_division_by_zero_is_unknown_not_an_error(self) -> None:
        shapes = shapes_of("""graph():
          %a : int = prim::Constant[value=1]()
          %b : int = prim::Constant[value=0]()
          %c : int = aten::floordiv(%a, %b)
          return (%c)""")
        assert shapes.known("c") is NOT_CONSTANT
        assert "zero" in {value.name: why for value, why in shapes.unknown}["c"]


BRANCH = """graph(%x : Float(2, 3), %c : bool):
  %one : int = prim::Constant[value=1]()
  %y : Tensor = prim::If(%c)
    block0():
      %a : Tensor = aten::unsqueeze(%x, %one)
      -> (%a)
    block1():
      %b : Tensor = {other}
      -> (%b)
  return (%y)"""


class TestBranches:
    def test_unknown_condition_joins(self) -> None:
        assert str(shapes_of(BRANCH.format(other="aten::unsqueeze(%x, %one)")).type("y")) == "Float(2, 1, 3)"
        assert str(shapes_of(BRANCH.format(other="aten::relu(%x)")).type("y")) == "FloatTensor"

    def test_known_condition_takes_one_side(self) -> None:
        text = BRANCH.format(other="aten::relu(%x)").replace(
            ", %c : bool):", "):\n  %c : bool = prim::Constant[value=1]()"
        )
        shapes = shapes_of(text)
        assert str(shapes.type("y")) == "Float(2, 1, 3)"
        assert shapes.unreached == {shapes.graph.node("y").blocks[1]}
        assert str(shapes.type("b")) == "Tensor"

    def test_a_branch_that_raises_does_not_count(self) -> None:
        text = BRANCH.format(other="prim::Uninitialized()").replace(
            "      -> (%b)",
            '      %m : str = prim::Constant[value="no"]()\n      prim::RaiseException(%m)\n      -> (%b)',
        )
        shapes = shapes_of(text)
        assert str(shapes.type("y")) == "Float(2, 1, 3)"
        assert not shapes.unreached

    def test_an_error_that_only_one_branch_meets_is_not_raised(self) -> None:
        text = BRANCH.format(other="aten::matmul(%x, %x)")
        assert str(shapes_of(text, strict=True).type("b")) == "Tensor"


LOOP = """graph(%x : Float(2, 3), %n : int):
  %t : bool = prim::Constant[value=1]()
  %one : int = prim::Constant[value=1]()
  {count}
  %y : Tensor = prim::Loop(%k, %t, %x)
    block0(%i : int, %a : Tensor):
      %b : Tensor = {step}
      -> (%t, %b)
  return (%y)"""


class TestLoops:
    def test_a_known_count_runs_round_by_round(self) -> None:
        text = LOOP.format(count="%k : int = prim::Constant[value=3]()", step="aten::unsqueeze(%a, %one)")
        assert str(shapes_of(text).type("y")) == "Float(2, 1, 1, 1, 3)"
        assert str(shapes_of(text).type("b")) == "FloatTensor"

    def test_an_unknown_count_includes_no_round_at_all(self) -> None:
        text = LOOP.format(count="%k : int = aten::add(%n, %one)", step="aten::unsqueeze(%a, %one)")
        assert str(shapes_of(text).type("y")) == "FloatTensor"

    def test_what_a_loop_keeps_stays_known(self) -> None:
        text = LOOP.format(count="%k : int = aten::add(%n, %one)", step="aten::relu(%a)")
        assert str(shapes_of(text).type("y")) == "Float(2, 3)"

    def test_a_long_known_count_is_not_run(self) -> None:
        text = LOOP.format(count="%k : int = prim::Constant[value=1000000000]()", step="aten::relu(%a)")
        assert str(shapes_of(text).type("y")) == "Float(2, 3)"


LIST = """graph(%x : Float(2, 3), %c : bool):
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %l : int[] = prim::ListConstruct(%one, %two)
  {write}
  %n : int = aten::len(%l)
  %k : int = aten::__getitem__(%l, %one)
  return (%n, %k)"""

APPEND = "%w : int[] = aten::append(%l, %one)"
BRANCHED = f"prim::If(%c)\n    block0():\n      {APPEND}\n      -> ()\n    block1():\n      -> ()"


class TestLists:
    def test_a_list_that_nobody_writes(self) -> None:
        shapes = shapes_of(LIST.format(write=""))
        assert (shapes.known("l"), shapes.known("n"), shapes.known("k")) == ((1, 2), 2, 2)

    def test_a_write_that_is_certain_is_followed_but_the_list_is_no_constant(self) -> None:
        shapes = shapes_of(LIST.format(write=APPEND))
        assert (shapes.known("l"), shapes.known("n"), shapes.known("k")) == (NOT_CONSTANT, 3, 2)

    def test_a_write_in_a_branch_forgets_the_list(self) -> None:
        shapes = shapes_of(LIST.format(write=BRANCHED))
        assert shapes.known("l") is NOT_CONSTANT
        assert shapes.known("n") is NOT_CONSTANT

    def test_a_write_through_another_name(self) -> None:
        write = (
            "%p : (int[], int) = prim::TupleConstruct(%l, %one)\n"
            "  %q : int[], %r : int = prim::TupleUnpack(%p)\n"
            "  %w : int[] = aten::append(%q, %one)"
        )
        assert shapes_of(LIST.format(write=write)).known("n") == 3

    def test_a_write_through_an_unknown_name_forgets_all_lists_of_the_type(self) -> None:
        text = LIST.format(write="%w : int[] = aten::append(%u, %one)").replace("%c : bool", "%u : int[]")
        assert shapes_of(text).known("n") is NOT_CONSTANT

    def test_a_write_to_a_list_of_another_type_does_not(self) -> None:
        text = LIST.format(write="%w : Tensor[] = aten::append(%u, %x)").replace("%c : bool", "%u : Tensor[]")
        assert shapes_of(text).known("n") == 2

    def test_an_op_nobody_knows_may_write_any_list(self) -> None:
        assert shapes_of(LIST.format(write="%w : int = my::op(%l)")).known("n") is NOT_CONSTANT

    def test_a_list_built_in_a_loop(self) -> None:
        build = (
            "%t : bool = prim::Constant[value=1]()\n  prim::Loop(%two, %t)\n    block0(%i : int):\n"
            "      %w : int[] = aten::append(%l, %i)\n      -> (%t)"
        )
        assert shapes_of(LIST.format(write=build)).known("n") == 4


class TestObjects:
    @pytest.mark.parametrize("write", ["%u : Tensor = aten::t_(%y)", "%u : Tensor = aten::resize_(%y, %s, %none)"])
    def test_an_op_that_changes_the_object_makes_its_shape_unknown(self, write: str) -> None:
        shapes = shapes_of(f"""graph(%x : Float(2, 3)):
          %none : NoneType = prim::Constant()
          %s : int[] = aten::size(%x)
          %y : Tensor = aten::relu(%x)
          {write}
          %z : Tensor = aten::relu(%y)
          return (%z)""")
        assert str(shapes.type("z")) == "FloatTensor"
        assert str(shapes.type("x")) == "Float(2, 3)"


class TestErrors:
    def test_a_mismatch_names_the_node_its_line_and_both_shapes(self) -> None:
        text = "graph(%x : Tensor, %y : Tensor):\n  %z : Tensor = aten::matmul(%x, %y)\n  return (%z)"
        with pytest.raises(ArgumentError) as error:
            shapes_of(text, "Float(2, 3)", "Float(4, 5)", strict=True)
        told = str(error.value)
        assert "aten::matmul" in told and "Float(2, 3)" in told and "Float(4, 5)" in told
        assert "%z : Tensor = aten::matmul(%x, %y)" in told

    def test_without_strict_it_is_a_reason(self) -> None:
        text = "graph(%x : Tensor, %y : Tensor):\n  %z : Tensor = aten::matmul(%x, %y)\n  return (%z)"
        shapes = shapes_of(text, "Float(2, 3)", "Float(4, 5)")
        assert "inner dimensions differ" in {value.name: why for value, why in shapes.unknown}["z"]

    def test_an_op_nobody_knows_is_unknown_for_that_reason(self) -> None:
        shapes = shapes_of("graph(%x : Float(2)):\n  %z : Tensor = my::op(%x)\n  return (%z)")
        assert {value.name: why for value, why in shapes.unknown} == {"z": "nothing is known of my::op"}


def test_torch_tells_what_no_rule_does() -> None:
    pytest.importorskip("torch")
    shapes = shapes_of("graph(%x : Float(4, 3, 3)):\n  %z : Tensor = aten::linalg_inv(%x)\n  return (%z)")
    assert str(shapes.type("z")) == "Float(4, 3, 3)"


def test_deep_nesting_needs_no_python_stack() -> None:
    depth = 3000
    opened = "".join(f"{'  ' * 0}%v{i} : Tensor = prim::If(%c)\nblock0():\n" for i in range(depth))
    closed = "".join(
        f"-> (%{'x' if i == depth - 1 else f'v{i + 1}'})\nblock1():\n-> (%x)\n" for i in reversed(range(depth))
    )
    graph = parse(f"graph(%x : Float(2), %c : bool):\n{opened}{closed}return (%v0)")
    assert str(infer(graph).type("v0")) == "Float(2)"
    assert run_reference(graph, np.ones(2, np.float32), True)[0].tolist() == [1, 1]


def test_loops_inside_loops_are_not_refined_once_for_every_way_through_them() -> None:
    depth = 300  # three rounds a loop, each level inside the other, would be 3 ** 300
    opened = "".join(
        f"%v{i} : Tensor = prim::Loop(%n, %t, %{f'a{i - 1}' if i else 'x'})\nblock0(%i{i} : int, %a{i} : Tensor):\n"
        for i in range(depth)
    )
    closed = "".join(f"-> (%t, %{f'v{i + 1}' if i < depth - 1 else 'r'})\n" for i in reversed(range(depth)))
    step = f"%r : Tensor = aten::unsqueeze(%a{depth - 1}, %i0)\n"
    head = "graph(%x : Float(2, 3), %n : int):\n%t : bool = prim::Constant[value=1]()\n"
    assert str(infer(parse(f"{head}{opened}{step}{closed}return (%v0)")).type("v0")) in ("Tensor", "FloatTensor")


def test_a_branch_that_was_never_entered_before_is_inferred_from_scratch() -> None:
    """Folding and functionalizing a scripted `interpolate` enters branches which the first inference had skipped."""
    torch = pytest.importorskip("torch")

    def resized(x: torch.Tensor):
        doubled = x * 2
        y = torch.nn.functional.interpolate(doubled[..., 1:], size=[5], mode="nearest-exact")
        return y.mul_(2)

    import irscope as irs

    x = torch.rand(1, 2, 4)
    run = irs.compile(irs.fuse(irs.load(torch.jit.script(resized))))
    torch.testing.assert_close(run(x), resized(x))
