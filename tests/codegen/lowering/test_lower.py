"""Plans of fusion groups: torch's values, types and strides for every kind of operand; clear refusals for the rest."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from irscope.codegen.kernel import LaunchPlan
from irscope.codegen.lowering import spec_of_group
from irscope.errors import CodegenError
from irscope.ir import TENSOR, TensorType, Value
from irscope.runtime.cpu import CpuDevice
from tests.codegen.kernels import call, dense, group, planned, run

torch = pytest.importorskip("torch")
pytest.importorskip("llvmlite")

Array = np.ndarray[Any, Any]


def check(device: CpuDevice, body: Callable[..., Any], eager: Callable[..., Any], *inputs: Any) -> LaunchPlan:
    """The group gives what torch gives: values, element types and strides."""
    plan = planned(body, *inputs)
    found = run(device.prepare(plan), plan, inputs)
    want = eager(*(torch.from_numpy(value) if isinstance(value, np.ndarray) else value for value in inputs))
    for array, type, tensor in zip(found, plan.outputs, want if isinstance(want, tuple) else (want,), strict=True):
        assert (f"torch.{type.dtype}", type.shape, type.strides) == (str(tensor.dtype), tuple(tensor.shape), tensor.stride())
        np.testing.assert_allclose(array, tensor.numpy(), rtol=5e-6, atol=1e-6)
    return plan


def normal(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


VIEWS: dict[str, Callable[[Array], Array]] = {
    "contiguous": lambda x: x,
    "transposed": lambda x: np.ascontiguousarray(x.T).T,
    "channels last": lambda x: np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2),
    "sliced": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "expanded": lambda x: np.broadcast_to(x[:1].copy(), x.shape),
}


@pytest.mark.parametrize("first", VIEWS)
@pytest.mark.parametrize("second", VIEWS)
def test_results_lie_in_memory_as_torch_lays_them(device: CpuDevice, first: str, second: str) -> None:
    x, y = (VIEWS[name](normal(2, 3, 4, 5)) for name in (first, second))
    check(device, lambda b, x, y: call(b, "mul", call(b, "add", x, y, 1), x), lambda x, y: (x + y) * x, _writable(x), _writable(y))


def _writable(x: Array) -> Array:
    """The same view; torch warns of arrays that NumPy protects."""
    x.flags.writeable = True
    return x


def batch_norm(builder: Any, x: Value, weight: Value, bias: Value, mean: Value, variance: Value) -> Value:
    y = call(builder, "batch_norm", x, weight, bias, mean, variance, False, 0.1, 1e-5, False)
    return call(builder, "leaky_relu", y, 0.1)


def eager_batch_norm(x: Any, weight: Any, bias: Any, mean: Any, variance: Any) -> Any:
    functional = torch.nn.functional
    return functional.leaky_relu(functional.batch_norm(x, mean, variance, weight, bias, False, 0.1, 1e-5), 0.1)


@pytest.mark.parametrize("view", ["contiguous", "channels last"])
@pytest.mark.parametrize("batch", [1, 3])
def test_batch_norm_reads_its_vectors_along_the_channels(device: CpuDevice, view: str, batch: int) -> None:
    x = VIEWS[view](normal(batch, 6, 9, 9))
    plan = check(device, batch_norm, eager_batch_norm, x, normal(6), normal(6) * 2, normal(6) + 1, np.abs(normal(6)) + 0.5)
    if view == "contiguous":
        rsqrt = next(i for i, step in enumerate(plan.specs[0].instructions) if step.op == "rsqrt")
        assert plan.specs[0].inputs[0].pattern[-1] == 0, "a vector along the channels stands still in the innermost loop"
        assert rsqrt


def test_outputs_of_several_shapes_need_several_kernels(device: CpuDevice) -> None:
    def body(builder: Any, x: Value, y: Value) -> list[Value]:
        inner = call(builder, "tanh", x)
        wide = call(builder, "mul", inner, y)
        return [inner, wide, call(builder, "neg", wide)]

    plan = check(device, body, lambda x, y: (x.tanh(), x.tanh() * y, -(x.tanh() * y)), normal(6), normal(3, 6))
    assert [len(launch.writes) for launch in plan.launches] == [1, 2]


def test_numbers_are_given_at_run_time(device: CpuDevice) -> None:
    def body(builder: Any, x: Value, scale: Value, count: Value) -> Value:
        return call(builder, "add", call(builder, "mul", x, scale), count, 1)

    first = check(device, body, lambda x, scale, count: x * scale + count, normal(9), 2.5, 3)
    again = check(device, body, lambda x, scale, count: x * scale + count, normal(9), -1.25, 7)
    assert first.specs == again.specs


def test_equal_groups_of_other_sizes_share_a_kernel() -> None:
    def plan(*shape: int) -> LaunchPlan:
        return planned(lambda b, x, y: call(b, "mul", call(b, "sigmoid", x), y), dense(*shape), dense(*shape))

    assert plan(8).specs == plan(3, 5).specs == plan(2, 3, 4).specs == plan(1).specs
    assert len({*plan(8).specs, *plan(3, 5).specs}) == 1


def test_groups_of_other_layouts_or_ops_do_not() -> None:
    def plan(op: str, y: Array) -> LaunchPlan:
        return planned(lambda b, x, y: call(b, "mul", call(b, op, x), y), dense(4, 4), y)

    base = plan("sigmoid", normal(4, 4)).specs
    assert base != plan("tanh", normal(4, 4)).specs and base != plan("sigmoid", normal(4)).specs
    assert base != plan("sigmoid", normal(4, 4).astype(np.float64)).specs


@pytest.mark.parametrize(("body", "types", "why"), [
    (lambda b, x: call(b, "cumsum", x, -1, None), [dense(3, 3)], "no kernel computes aten::cumsum"),
    (lambda b, x, w: call(b, "batch_norm", x, None, None, w, w, False, 0.1, 1e-5, True), [dense(3)] * 2, "axis 1 of a result with 1"),
    (lambda b, x: call(b, "relu", x), [TensorType("float32")], "element type and the shape"),
    (lambda b, x: call(b, "relu", x), [dense(3, dtype="complex64")], "complex64"),
    (lambda b, x: call(b, "sum", call(b, "sum", x, [1], False, None), [0], False, None), [dense(8, 8)], "reduction"),
    (lambda b, x: call(b, "expand", call(b, "sum", x, [1], True, None), [8, 5], False), [dense(8, 8)], "repeats the results"),
    (lambda b, x: call(b, "neg", call(b, "as_strided", x, [2], [1], 0)), [dense(2, 2)], "no kernel computes aten::as_strided"),
    (lambda b, x: call(b, "reshape", call(b, "tanh", x), [6, 20]), [dense(4, 3, 10)], "mixes dimensions"),
])  # fmt: skip
def test_what_is_refused_says_why(body: Any, types: Any, why: str) -> None:
    with pytest.raises(CodegenError, match=why):
        planned(body, *types)


def test_a_plan_wants_a_type_for_each_input() -> None:
    with pytest.raises(CodegenError, match="1 inputs, and 0 types"):
        spec_of_group(group(lambda b, x: call(b, "relu", x), [TENSOR]), [])


def test_nodes_of_lines_are_positions_in_the_block(device: CpuDevice) -> None:
    made = group(lambda b, x: call(b, "tanh", call(b, "exp", x)), [TENSOR])
    source = device.source(spec_of_group(made, [dense(4)]).specs[0])
    used = {node for node in source.line_nodes if node >= 0}
    assert used == {index for index, node in enumerate(made.blocks[0].nodes) if node.op in ("aten::exp", "aten::tanh")}


@pytest.mark.parametrize(("shape", "strides"), [
    ((5, 10, 6), (10, 1, 0)), ((5, 10, 6), (0, 6, 1)), ((4, 3), (0, 0)), ((0,), (0,)), ((1, 3), (0, 1)), ((8, 5), (1, 1)),
    ((6,), (3,)),
])  # fmt: skip
def test_an_operand_that_is_a_result_as_it_is_keeps_its_layout(device: CpuDevice, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
    """`to` of a tensor that has the type is that tensor: repeated elements are written once each, gaps are left."""
    memory = np.arange(1 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True) if n), dtype=np.float32)
    x = np.lib.stride_tricks.as_strided(memory, shape, tuple(4 * step for step in strides))

    def body(b: Any, x: Value) -> Any:
        same = call(b, "aten::to", x, 6, False, False, None)
        return same, call(b, "aten::mul", same, x)

    plan = planned(body, TensorType("float32", shape, strides))
    assert plan.outputs[0].strides == strides
    same, squared = run(device.prepare(plan), plan, [x])
    np.testing.assert_array_equal(same, x)
    np.testing.assert_array_equal(squared, x * x)
