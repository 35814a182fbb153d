"""Reductions and normalisations in groups: torch's values, element types and shapes, in every layout."""

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.codegen.kernel import LaunchPlan
from irscope.errors import CodegenError
from irscope.ir import TENSOR, GraphBuilder, TensorType
from irscope.runtime.device import Device
from irscope.runtime.device.numpy_device import NumpyDevice
from tests.codegen.kernels import call, dense, from_words, planned, run, type_of
from tests.programs import parsed

pytestmark = pytest.mark.filterwarnings("ignore:var\\(\\)")
torch = pytest.importorskip("torch")

Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module", params=["numpy", "cpu"])
def device(request: pytest.FixtureRequest, device: Device) -> Device:
    return NumpyDevice() if request.param == "numpy" else device


def check(device: Device, body: Callable[..., Any], eager: Callable[..., Any], *inputs: Any, rtol: float = 2e-6) -> LaunchPlan:
    """The group gives what torch gives in float64, with torch's element types and shapes."""
    plan = planned(body, *inputs)
    found = run(device.prepare(plan), plan, inputs)
    tensors = [torch.from_numpy(np.array(value)) if isinstance(value, np.ndarray) else value for value in inputs]
    wide = [value.double() if isinstance(value, torch.Tensor) and value.dtype == torch.float32 else value for value in tensors]
    plain, exact = eager(*tensors), eager(*wide)
    plain, exact = (each if isinstance(each, tuple) else (each,) for each in (plain, exact))
    for array, type, narrow, want in zip(found, plan.outputs, plain, exact, strict=True):
        assert (f"torch.{type.dtype}", type.shape) == (str(narrow.dtype), tuple(narrow.shape))
        if want.is_floating_point():
            sizes = [each[each.isfinite()].abs() for each in (want, *wide) if isinstance(each, torch.Tensor)]
            scale = max((float(each.max()) for each in sizes if each.numel()), default=0.0)
            np.testing.assert_allclose(array, want.numpy(), rtol=rtol * 8, atol=rtol * scale)
        else:
            np.testing.assert_array_equal(array, want.numpy())
    return plan


def normal(*shape: int, dtype: Any = np.float32) -> Array:
    rng = np.random.default_rng(sum(shape))
    if dtype is np.bool_:
        return rng.random(shape) < 0.9
    if np.issubdtype(dtype, np.integer):
        return rng.integers(0, 7, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "contiguous": lambda x: x,
    "transposed": lambda x: np.ascontiguousarray(x.T).T,
    "sliced": lambda x: np.repeat(np.repeat(x, 2, axis=-1), 3, axis=0)[1::3, ..., ::2],
    "expanded": lambda x: np.broadcast_to(x[:, :1].copy(), x.shape),
}

SHAPES = [(2, 70, 33), (1, 1, 1), (300, 2, 3)]
DIMS: list[Any] = [None, -1, 0, 1, [0, 2], [0, 1, 2], []]

OPS: dict[str, tuple[Any, Any]] = {
    "sum": (lambda b, x, d, k: call(b, "sum", x, d, k, None), lambda x, d, k: torch.sum(x, d, k)),
    "mean": (lambda b, x, d, k: call(b, "mean", x, d, k, None), lambda x, d, k: torch.mean(x, d, k)),
    "amax": (lambda b, x, d, k: call(b, "amax", x, d or [], k), lambda x, d, k: torch.amax(x, d or [], k)),
    "amin": (lambda b, x, d, k: call(b, "amin", x, d or [], k), lambda x, d, k: torch.amin(x, d or [], k)),
    "var": (lambda b, x, d, k: call(b, "var", x, d, 1, k), lambda x, d, k: torch.var(x, dim=d, correction=1, keepdim=k)),
    "norm": (
        lambda b, x, d, k: call(b, "linalg_vector_norm", x, 2, d or None, k, None),
        lambda x, d, k: torch.linalg.vector_norm(x, 2, d or None, k),
    ),
    "logsumexp": (lambda b, x, d, k: call(b, "logsumexp", x, d or [0, 1, 2], k), lambda x, d, k: torch.logsumexp(x, d or [0, 1, 2], k)),
}


def dims(dim: Any) -> Any:
    return [dim] if isinstance(dim, int) else dim


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_reductions_equal_torch(device: Device, op: str, layout: str) -> None:
    body, eager = OPS[op]
    for number, (shape, dim) in enumerate(product(SHAPES, DIMS)):
        bound = {"d": dims(dim), "k": number % 3 == 0}
        check(device, partial(body, **bound), partial(eager, **bound), LAYOUTS[layout](normal(*shape)))


DTYPES = ("float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")


def small_numbers(dtype: str, layout: str) -> tuple[Array, Any]:
    """Small whole numbers in a type and layout, as memory and as a tensor."""
    rng = np.random.default_rng(3)
    wide = torch.from_numpy(rng.integers(0, 4, (6, 37, 5)).astype(np.float64))
    tensor = wide.to(getattr(torch, dtype)) if dtype != "bool" else wide > 0
    memory = tensor.view(torch.int16).numpy().view(np.uint16) if dtype == "bfloat16" else tensor.numpy()
    seen = LAYOUTS[layout](memory)
    copied = torch.from_numpy(np.array(seen).view(np.int16) if dtype == "bfloat16" else np.array(seen))
    return seen, copied.view(torch.bfloat16) if dtype == "bfloat16" else copied


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "expanded"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_element_type_reduces_as_in_torch(device: Device, dtype: str, layout: str) -> None:
    """Sums of whole numbers are int64; halves are gathered in float32 and rounded once."""
    array, tensor = small_numbers(dtype, layout)
    ops: dict[str, tuple[Any, Any]] = {
        "sum": (lambda b, x: call(b, "sum", x, [1], False, None), lambda x: x.sum(1)),
        "prod": (lambda b, x: call(b, "prod", x, 2, True, None), lambda x: x.prod(2, keepdim=True)),
        "amax": (lambda b, x: call(b, "amax", x, [0, 2], False), lambda x: x.amax((0, 2))),
        "amin": (lambda b, x: call(b, "amin", x, [1], False), lambda x: x.amin(1)),
        "argmax": (lambda b, x: call(b, "argmax", x, 1, False), lambda x: x.argmax(1)),
        "argmin": (lambda b, x: call(b, "argmin", x, None, False), lambda x: x.argmin()),
        "any": (lambda b, x: call(b, "any", x, 1, False), lambda x: x.any(1)),
        "all": (lambda b, x: call(b, "all", x, 2, False), lambda x: x.all(2)),
        "count_nonzero": (lambda b, x: call(b, "count_nonzero", x, [0, 1]), lambda x: x.count_nonzero((0, 1))),
    }
    for name, (body, eager) in ops.items():
        if dtype == "bool" and name.startswith("arg"):
            continue
        plan = planned(body, type_of(array, dtype))
        (found,) = run(device.prepare(plan), plan, [array])
        want = eager(tensor)
        assert f"torch.{plan.outputs[0].dtype}" == str(want.dtype), name
        numbers = from_words(found, str(plan.outputs[0].dtype))
        exact = eager(tensor.double()).to(want.dtype) if want.is_floating_point() else want
        np.testing.assert_array_equal(numbers, exact.double().numpy(), err_msg=name)


PAIRS: dict[str, tuple[Any, Any]] = {
    "max": (lambda b, x, d: both(b, "aten::max", x, d), lambda x, d: tuple(torch.max(x, d))),
    "min": (lambda b, x, d: both(b, "aten::min", x, d), lambda x, d: tuple(torch.min(x, d))),
}


def both(builder: GraphBuilder, op: str, x: Any, dim: int) -> Any:
    """Values and indices."""
    keep, axis = builder.constant(False), builder.constant(dim)
    return builder.node(op, [x, axis, keep], [TENSOR, TENSOR])


@pytest.mark.parametrize("word", PAIRS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_first_of_equals_is_named(device: Device, word: str, layout: str) -> None:
    body, eager = PAIRS[word]
    for shape in [(3, 70), (70, 3), (40, 40), (1, 9)]:
        x = LAYOUTS[layout](np.random.default_rng(1).integers(-3, 3, shape).astype(np.float32))
        for dim in (0, -1):
            check(device, partial(body, d=dim), partial(eager, d=dim), x)


def test_nan_wins_and_its_first_place_is_named(device: Device) -> None:
    x = normal(4, 90)
    x[1, 37], x[1, 70], x[3, 0], x[2, :] = np.nan, np.nan, np.nan, -np.inf
    for dim in (0, 1):
        check(device, partial(PAIRS["max"][0], d=dim), partial(PAIRS["max"][1], d=dim), x)
        check(device, partial(PAIRS["min"][0], d=dim), partial(PAIRS["min"][1], d=dim), x)


F = torch.nn.functional
NORMALISATIONS: dict[str, tuple[Any, Any]] = {
    "softmax": (lambda b, x, d: call(b, "softmax", x, d, None), lambda x, d: torch.softmax(x, d)),
    "log_softmax": (lambda b, x, d: call(b, "log_softmax", x, d, None), lambda x, d: torch.log_softmax(x, d)),
    "layer_norm": (lambda b, x, d: call(b, "layer_norm", x, [33], None, None, 1e-5, False), lambda x, d: F.layer_norm(x, (33,))),
    "written out": (
        lambda b, x, d: call(b, "div", call(b, "exp", x), call(b, "sum", call(b, "exp", x), [d], True, None)),
        lambda x, d: x.exp() / x.exp().sum(d, keepdim=True),
    ),
}


@pytest.mark.parametrize("op", NORMALISATIONS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_normalisations_equal_torch(device: Device, op: str, layout: str) -> None:
    body, eager = NORMALISATIONS[op]
    for shape, dim in product([(5, 7, 33), (2, 130, 33)], (0, 1, -1)):
        check(device, partial(body, d=dim), partial(eager, d=dim), LAYOUTS[layout](normal(*shape)), rtol=4e-6)


def test_layer_norm_with_statistics_and_weights(device: Device) -> None:
    x, weight, bias = normal(6, 5, 100), normal(100), normal(100)

    def body(b: GraphBuilder, x: Any, w: Any, c: Any) -> Any:
        shape, eps = b.constant([100]), b.constant(1e-5)
        return b.node("aten::native_layer_norm", [x, shape, w, c, eps], [TENSOR] * 3)

    plan = check(device, body, lambda x, w, c: torch.native_layer_norm(x, [100], w, c, 1e-5), x, weight, bias)
    assert len(plan.launches) == 1
    x[[0, 1, 2, 3], 0, [5, 99, 0, 50]] = [np.inf, -np.inf, np.nan, np.inf]
    made = run(device.prepare(plan), plan, (x, weight, bias))
    wanted = torch.native_layer_norm(torch.tensor(x), [100], torch.tensor(weight), torch.tensor(bias), 1e-5)
    for ours, torchs in zip(made, wanted, strict=True):
        np.testing.assert_array_equal(np.isnan(ours), torchs.isnan().numpy())
        assert not np.isinf(ours).any()
    check(
        device, lambda b, x, w: call(b, "rms_norm", x, [5, 100], w, None), lambda x, w: F.rms_norm(x, (5, 100), w),
        x, normal(5, 100),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("dtype", "spelling"), [("float16", "Half"), ("bfloat16", "BFloat16"), ("float32", "Float"), ("float64", "Double")]
)
def test_the_epsilon_of_an_rms_norm_is_that_of_the_type_it_is_computed_in(dtype: str, spelling: str) -> None:
    x = torch.full((4, 8), 0.01, dtype=getattr(torch, dtype))
    graph = parsed(f"x:{spelling}(4, 8, strides=[8, 1]) | sizes = [8]; none = None; y = rms_norm x sizes none none; z = neg y | z")
    want = -torch.rms_norm(x, [8])
    program = irs.compile(irs.fuse(graph))
    torch.testing.assert_close(program(x), want)
    assert len(program.kernels) == 1
    if dtype != "bfloat16":
        torch.testing.assert_close(irs.compile(graph, device="reference")(x), want)


def test_prologue_epilogue_and_several_results_share_a_launch(device: Device) -> None:
    def body(b: GraphBuilder, x: Any, y: Any) -> Any:
        shifted = call(b, "add", call(b, "mul", x, 2.0), y, 1)
        total = call(b, "sum", shifted, [1], True, None)
        peak = call(b, "amax", shifted, [1], False)
        return [call(b, "div", shifted, total), call(b, "relu", peak), shifted]

    def eager(x: Any, y: Any) -> Any:
        shifted = x * 2 + y
        return shifted / shifted.sum(1, keepdim=True), torch.relu(shifted.amax(1)), shifted

    plan = check(device, body, eager, np.abs(normal(9, 75)) + 1, np.abs(normal(75)), rtol=4e-6)
    assert [launch.writes for launch in plan.launches] == [(0, 1, 2)]


def test_nothing_to_gather(device: Device) -> None:
    """Where no row is there, nothing is written; rows of no elements are left to the library, and not read."""
    for shape, dim in [((0, 3), 1), ((3, 0), 0)]:
        for name in ("sum", "mean"):
            body, eager = OPS[name]
            check(device, partial(body, d=[dim], k=False), partial(eager, d=[dim], k=False), np.zeros(shape, np.float32))
    for name, why in [("sum", "a reduction over an empty axis"), ("amax", "cannot take the maximum over an empty axis")]:
        with pytest.raises(CodegenError, match=why):
            planned(partial(OPS[name][0], d=[1], k=False), TensorType("float32", (3, 0), (1, 1)))


def test_no_kernel_for_results_without_elements() -> None:
    for shape, strides in [((17, 0, 2), (1, 17, 17)), ((2, 0, 8), (0, 8, 1)), ((0, 1, 5), (5, 5, 1))]:
        plan = planned(lambda b, x: [call(b, "softmax", x, 2, None), call(b, "relu", x)], TensorType("float32", shape, strides))
        assert (plan.launches, [output.shape for output in plan.outputs]) == ((), [shape, shape])


def test_nothing_to_gather_beside_as_many_results() -> None:
    """Torch's tensors without elements have no address: what reads one of their elements ends the process."""
    graph = parsed("x y:Float() | z = mul y x; any:Bool() = any z | z any", "Float(0, strides=[1])")
    program = irs.compile(irs.fuse(graph))
    z, found = program(torch.empty(0), torch.tensor(2.0))
    assert (z.numel(), bool(found)) == (0, False)
    assert [remark.rule for remark in program.remarks] == ["codegen-empty"]


def test_a_reduction_of_something_broadcast_counts_every_repetition(device: Device) -> None:
    def body(b: GraphBuilder, x: Any, y: Any) -> Any:
        return call(b, "sum", call(b, "mul", x, y), [0], False, None)

    check(device, body, lambda x, y: (x * y).sum(0), normal(1, 40), normal(50, 1))
    check(device, body, lambda x, y: (x * y).sum(0), normal(40), normal(50, 1))


def test_a_long_sum_is_nearly_exact(device: Device) -> None:
    x = np.random.default_rng(0).random(3_000_000, np.float32)
    check(device, lambda b, x: call(b, "sum", x, None), torch.sum, x, rtol=3e-7)


@pytest.mark.parametrize("length", [(1 << 18) - 1, 1 << 18, (1 << 18) + 77])
def test_a_long_row_is_read_in_several_places(device: Device, length: int) -> None:
    x, y = normal(length) + np.arange(length, dtype=np.float32) % 7, normal(length + 1)[1:]
    x[length - 3] = 50.0

    def body(b: GraphBuilder, x: Any, y: Any) -> Any:
        product = call(b, "mul", x, y)
        return [call(b, "sum", product, None), call(b, "amax", x, [0], False), call(b, "logsumexp", x, [0], False)]

    check(device, body, lambda x, y: ((x * y).sum(), x.amax(0), x.logsumexp(0)), x, y)
    whole = np.arange(length) % 1000
    check(device, lambda b, x: call(b, "sum", x, None), lambda x: x.sum(), whole)
    check(device, lambda b, x: call(b, "argmax", x, 0, False), lambda x: x.argmax(0), x)


def test_one_kernel_for_every_size(device: Device) -> None:
    """Extents are arguments: only what a short row would waste is distinguished."""
    body, eager = NORMALISATIONS["softmax"]
    plans = [check(device, partial(body, d=1), partial(eager, d=1), normal(rows, 1000 + rows)) for rows in (1, 2, 70)]
    assert len({spec for plan in plans[1:] for spec in plan.specs}) == 1
    assert planned(partial(body, d=1), dense(9, 5)).specs != plans[1].specs


def test_a_row_longer_than_memory_is_only_numbers() -> None:
    """Offsets and strides beyond 2^31 elements are planned as they are; nothing is allocated for it."""
    (launch,) = planned(
        lambda b, x: call(b, "sum", call(b, "select", x, 0, 2), [0], False, None), dense(3, 50_000, 100_000)
    ).launches  # fmt: skip
    assert launch.sizes == (50_000, 100_000) and launch.offsets == (0, 10_000_000_000)
