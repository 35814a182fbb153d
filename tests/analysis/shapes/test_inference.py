"""What is inferred holds on every run, in linear time; what is known of which program is in `tests/cases/shapes`."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from irscope.analysis.shapes import Shapes, infer, refined
from irscope.errors import ArgumentError
from irscope.ir import NOT_CONSTANT, TensorType, Value, argument_type
from irscope.ir.text import parse
from irscope.ops.numpy_layout import array_type
from irscope.runtime.reference import run_reference
from tests.programs import parsed
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
            assert all(dim in (None, size) for dim, size in zip(type.shape, true.shape, strict=True)), (value, str(type), str(true))


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
    from irscope.ir.invariants import verify

    for seed in range(20):
        program = random_program(seed)
        graph = parse(program.text)
        types = {value: argument_type(argument) for value, argument in zip(graph.inputs, program.inputs, strict=True)}
        after, shapes = refined(graph, infer(graph, types))
        verify(after)
        assert [node.id for node in after.nodes()] == [node.id for node in graph.nodes()]
        assert list(after.names.values()) == list(graph.names.values())
        assert shapes is not None and shapes.graph is after
        results = run_reference(after, *program.fresh(), observe=lambda value, thing, shapes=shapes: holds(shapes, value, thing))
        for one, other in zip(run_reference(graph, *program.fresh()), results, strict=True):
            np.testing.assert_equal(one, other)


def test_a_mismatch_names_the_node_its_line_and_both_shapes() -> None:
    graph = parse("graph(%x : Float(2, 3), %y : Float(4, 5)):\n  %z : Tensor = aten::matmul(%x, %y)\n  return (%z)")
    with pytest.raises(ArgumentError) as error:
        infer(graph, strict=True)
    message = str(error.value)
    assert "aten::matmul" in message and "Float(2, 3)" in message and "Float(4, 5)" in message
    assert "%z : Tensor = aten::matmul(%x, %y)" in message


def test_an_error_that_only_one_branch_meets_is_not_raised() -> None:
    graph = parsed("x:Float(2, 3) c:bool | y = If c {| | x} {| b = matmul x x | b} | y")
    assert str(infer(graph, strict=True).type("b")) == "Tensor"


def test_deep_nesting_needs_no_python_stack() -> None:
    depth = 3000
    opened = "".join(f"{'  ' * 0}%v{i} : Tensor = prim::If(%c)\nblock0():\n" for i in range(depth))
    closed = "".join(f"-> (%{'x' if i == depth - 1 else f'v{i + 1}'})\nblock1():\n-> (%x)\n" for i in reversed(range(depth)))
    graph = parse(f"graph(%x : Float(2), %c : bool):\n{opened}{closed}return (%v0)")
    assert str(infer(graph).type("v0")) == "Float(2)"
    assert run_reference(graph, np.ones(2, np.float32), True)[0].tolist() == [1, 1]


def test_loops_inside_loops_are_not_refined_once_for_every_way_through_them() -> None:
    depth = 300  # three rounds a loop, each level inside the other, would be 3 ** 300
    opened = "".join(
        f"%v{i} : Tensor = prim::Loop(%n, %t, %{f'a{i - 1}' if i else 'x'})\nblock0(%i{i} : int, %a{i} : Tensor):\n" for i in range(depth)
    )
    closed = "".join(f"-> (%t, %{f'v{i + 1}' if i < depth - 1 else 'r'})\n" for i in reversed(range(depth)))
    step = f"%r : Tensor = aten::unsqueeze(%a{depth - 1}, %i0)\n"
    head = "graph(%x : Float(2, 3), %n : int):\n%t : bool = prim::Constant[value=1]()\n"
    assert str(infer(parse(f"{head}{opened}{step}{closed}return (%v0)")).type("v0")) in ("Tensor", "FloatTensor")


def test_a_branch_that_was_never_entered_before_is_inferred_from_scratch(torch: Any) -> None:
    """Folding and functionalizing a scripted `interpolate` enters branches which the first inference had skipped."""

    def resized(x: torch.Tensor):
        doubled = x * 2
        y = torch.nn.functional.interpolate(doubled[..., 1:], size=[5], mode="nearest-exact")
        return y.mul_(2)

    import irscope as irs

    x = torch.rand(1, 2, 4)
    run = irs.compile(irs.fuse(irs.load(torch.jit.script(resized))))
    torch.testing.assert_close(run(x), resized(x))
