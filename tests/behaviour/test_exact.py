"""`exact="torch"`: every op that stays in kernels gives eager torch's bits, for the extremes of every element type."""

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("llvmlite")

import irscope as irs  # noqa: E402
from irscope.codegen.lowering import spec_of_group  # noqa: E402
from irscope.errors import ArgumentError, CodegenError  # noqa: E402
from irscope.ir import TENSOR, TensorType  # noqa: E402
from irscope.runtime.cpu import CpuDevice  # noqa: E402
from irscope.runtime.device import Device, ObjectStore  # noqa: E402
from tests.codegen.cuda_emulator import AVAILABLE, emulated_device  # noqa: E402
from tests.codegen.kernels import call, group  # noqa: E402

FLOATS: Final = ("float32", "float64", "float16", "bfloat16")
WHOLE: Final = ("int8", "uint8", "int16", "int32", "int64", "bool")
TYPES: Final = FLOATS + WHOLE
CODES: Final = {
    "uint8": 0, "int8": 1, "int16": 2, "int32": 3, "int64": 4, "float16": 5, "float32": 6, "float64": 7, "bool": 11,
    "bfloat16": 15,
}  # fmt: skip
RANDOM: Final = 400


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> CpuDevice:
    """The processor, with nothing in its disk cache."""
    return CpuDevice(store=ObjectStore(tmp_path_factory.mktemp("objects") / "cpu"))


def extremes(dtype: str) -> Any:
    """Zeros, ones, halves between whole numbers, denormal numbers, the largest, infinities, NaN, the ends of integers."""
    kind = getattr(torch, dtype)
    if dtype == "bool":
        return torch.tensor([False, True] * 4)
    if dtype in WHOLE:
        ends = torch.iinfo(kind)
        signed = [-1, -2, -3, -7, -100] if ends.min else []
        return torch.tensor([0, 1, 2, 3, 5, 7, 100, 127, ends.max, ends.max - 1, ends.min, ends.min + 1, *signed], dtype=kind)
    most, tiny, eps = (getattr(torch.finfo(kind), name) for name in ("max", "tiny", "eps"))
    sizes = [0.0, 1.0, 0.5, 1.5, 2.5, 3.0, 7.0, 1 / 3, 0.1, 1e-3, 100.7, 1234.5, most, most / 2, tiny, tiny / 2, tiny * eps, eps]
    sizes += [1 + eps, 1 - eps / 2, float("inf"), 255.0, 256.0, 257.0, 65504.0, 0.49999997, 2.0**31, 2.0**63]
    both = [sign * size for size in sizes for sign in (1, -1)]
    return torch.tensor([*both, float("nan")], dtype=torch.float64).to(kind)


def spread(dtype: str, count: int, seed: int) -> Any:
    """Random numbers of many sizes."""
    kind, generator = getattr(torch, dtype), torch.Generator().manual_seed(seed)
    if dtype == "bool":
        return torch.rand(count, generator=generator) > 0.5
    if dtype in WHOLE:
        ends = torch.iinfo(kind)
        low, high = max(ends.min, -(2**62)), min(ends.max, 2**62)
        return torch.randint(low, high, (count,), generator=generator).to(kind)
    sizes = 10 ** (torch.rand(count, generator=generator, dtype=torch.float64) * 8 - 4)
    return (torch.randn(count, generator=generator, dtype=torch.float64) * sizes).to(kind)


def operands(dtypes: Sequence[str]) -> list[Any]:
    """Each extreme of the first with each of the second, and random numbers."""
    each = [extremes(dtype) for dtype in dtypes]
    pairs = list(itertools.product(*(range(len(values)) for values in each[:2])))
    picked = [[place[k] if k < 2 else sum(place) % len(values) for place in pairs] for k, values in enumerate(each)]
    return [torch.cat([v[p], spread(d, RANDOM, k)]) for k, (v, p, d) in enumerate(zip(each, picked, dtypes, strict=True))]


def layouts(flat: Sequence[Any]) -> Iterator[list[Any]]:
    """In a row, the last few (which no vector holds), apart, and as matrices that lie in different orders."""
    yield list(flat)
    yield [each[-5:] for each in flat]
    yield [torch.stack([each, each], -1)[..., 0] for each in flat]
    count = flat[0].numel() // 4 * 4
    yield [each[:count].reshape(4, -1).t() if k % 2 == 0 else each[:count].reshape(-1, 4) for k, each in enumerate(flat)]


def bits(tensor: Any) -> Any:
    """What distinguishes 0 from -0 and not one NaN from another."""
    if not tensor.dtype.is_floating_point:
        return tensor
    words = tensor.contiguous().view({2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]).clone()
    return words.masked_fill_(tensor.isnan(), -77)


def computed(device: Device, op: str, arguments: Sequence[Any], given: Sequence[Any]) -> Any:
    """The op's result by a kernel. Raises CodegenError where it would stay with torch."""

    def body(builder: Any, *params: Any) -> Any:
        given = [params[int(each[1:])] if isinstance(each, str) and each[0] == "%" else each for each in arguments]
        return call(builder, op, *given)

    types = [TensorType(str(x.dtype).removeprefix("torch."), tuple(x.shape), tuple(x.stride())) for x in given]
    plan = spec_of_group(group(body, [TENSOR] * len(given)), types, exact=True)
    (type,) = plan.outputs
    result = torch.empty_strided(type.shape, type.strides, dtype=getattr(torch, str(type.dtype)))
    device.prepare(plan)([result.data_ptr()], [x.data_ptr() for x in given])
    return result


Case = tuple[str, tuple[Any, ...], Callable[..., Any]]
_F: Final = torch.nn.functional

UNARY: Final[tuple[Case, ...]] = (
    *((name, ("%0",), getattr(torch, name)) for name in (
        "abs neg sign square reciprocal relu floor ceil trunc round frac isnan isinf isfinite logical_not bitwise_not rsqrt"
    ).split()),
    ("relu6", ("%0",), _F.relu6), ("hardsigmoid", ("%0",), _F.hardsigmoid), ("hardswish", ("%0",), _F.hardswish),
    ("hardtanh", ("%0", -0.3, 0.7), lambda x: _F.hardtanh(x, -0.3, 0.7)),
    ("leaky_relu", ("%0", 0.01), _F.leaky_relu), ("threshold", ("%0", 0.1, 20.0), lambda x: _F.threshold(x, 0.1, 20.0)),
    ("clamp", ("%0", -1.0, 1.0), lambda x: x.clamp(-1.0, 1.0)), ("clamp_min", ("%0", 0), lambda x: x.clamp_min(0)),
    ("clamp", ("%0", None, 2.5), lambda x: x.clamp(None, 2.5)), ("clamp_min", ("%0", -0.0), lambda x: x.clamp_min(-0.0)),
    ("clamp_max", ("%0", 0.0), lambda x: x.clamp_max(0.0)), ("nan_to_num", ("%0", 1.5, 2.5, -3.0), lambda x: x.nan_to_num(1.5, 2.5, -3.0)),
    ("nan_to_num", ("%0", None, None, None), torch.nan_to_num),
    *(("pow", ("%0", power), lambda x, power=power: x**power) for power in (2, 3, -1, -2)),
)  # fmt: skip
WITH_NUMBER: Final[tuple[Case, ...]] = tuple(
    (op, ("%0", number, *more), lambda x, f=function, number=number: f(x, number))
    for op, more, function in (
        ("add", (1,), torch.add), ("sub", (1,), torch.sub), ("rsub", (1,), torch.rsub), ("mul", (), torch.mul),
        ("div", (), torch.div), ("floor_divide", (), torch.floor_divide), ("eq", (), torch.eq), ("lt", (), torch.lt),
        ("div", ("floor",), lambda x, y: torch.div(x, y, rounding_mode="floor")),
        ("div", ("trunc",), lambda x, y: torch.div(x, y, rounding_mode="trunc")),
        ("fmod", (), torch.fmod), ("remainder", (), torch.remainder),
    )
    for number in (3, 0.1, -7, 1e30)  # the least integer divided by -1 ends torch's process
)  # fmt: skip
BINARY: Final[tuple[Case, ...]] = (
    *((name, ("%0", "%1", *more), getattr(torch, name)) for name, more in (
        ("add", (1,)), ("sub", (1,)), ("rsub", (1,)), ("mul", ()), ("div", ()), ("floor_divide", ()), ("maximum", ()),
        ("minimum", ()), ("fmax", ()), ("eq", ()), ("ne", ()), ("lt", ()), ("le", ()), ("gt", ()), ("ge", ()),
        ("logical_and", ()), ("logical_or", ()), ("logical_xor", ()), ("bitwise_and", ()), ("bitwise_xor", ()),
    )),
    ("add", ("%0", "%1", 3), lambda x, y: torch.add(x, y, alpha=3)),
    ("div", ("%0", "%1", "floor"), lambda x, y: torch.div(x, y, rounding_mode="floor")),
    ("div", ("%0", "%1", "trunc"), lambda x, y: torch.div(x, y, rounding_mode="trunc")),
    ("threshold_backward", ("%0", "%1", 0.0), lambda x, y: torch.ops.aten.threshold_backward(x, y, 0.0)),
    ("clamp_min", ("%0", "%1"), torch.clamp_min),
)  # fmt: skip
TERNARY: Final[tuple[Case, ...]] = (
    ("addcmul", ("%0", "%1", "%2", 1), torch.addcmul), ("addcdiv", ("%0", "%1", "%2", 1), torch.addcdiv),
    ("clamp", ("%0", "%1", "%2"), torch.clamp),
)  # fmt: skip
MIXED: Final = (
    ("float16", "float32"), ("bfloat16", "float32"), ("float32", "float64"), ("int64", "float32"), ("int32", "float16"),
    ("uint8", "int8"), ("float16", "bfloat16"), ("bool", "float32"), ("float64", "bfloat16"),
)  # fmt: skip


def check(device: Device, case: Case, dtypes: Sequence[str], laid: slice = slice(None)) -> int:
    """How many layouts of the op have torch's bits: all, or none if the op stays with torch."""
    return min(agrees(device, case, tensors) for tensors in list(layouts(operands(dtypes)))[laid])


def agrees(device: Device, case: Case, tensors: Sequence[Any]) -> int:
    """1 if a kernel of the op has torch's bits, 0 if torch has no such op or the op stays with torch."""
    op, arguments, eager = case
    try:
        want = eager(*tensors)
    except (RuntimeError, TypeError, NotImplementedError):
        return 0
    try:
        found = computed(device, op, arguments, tensors)
    except CodegenError:
        return 0
    assert found.dtype == want.dtype
    differ = (bits(found) != bits(want)).nonzero()
    if len(differ):
        at = tuple(differ[0].tolist())
        read = [x[at].item() if x.dim() else x.item() for x in tensors]
        raise AssertionError(f"{op}{arguments} of {read}, {want.dtype}: {found[at].item()}, and torch {want[at].item()}")
    return 1


CASTS: Final[tuple[Case, ...]] = tuple(
    ("to", ("%0", CODES[target], False, False, None), lambda x, target=target: x.to(getattr(torch, target))) for target in TYPES
)
ORDER_FREE: Final[tuple[Case, ...]] = (
    ("sum", ("%0", [0], False, None), lambda x: x.sum(0)), ("prod", ("%0", 0, False, None), lambda x: x.prod(0)),
    ("amax", ("%0", [0], False), lambda x: x.amax(0)), ("amin", ("%0", [-1], True), lambda x: x.amin(-1, keepdim=True)),
    ("argmax", ("%0", 0, False), lambda x: x.argmax(0)), ("any", ("%0", 0, False), lambda x: x.any(0)),
    ("all", ("%0", 0, False), lambda x: x.all(0)),
)  # fmt: skip


def runs(name: str, cases: Sequence[Case], operands: int, suite: str, least: int, dtypes: Sequence[str] = TYPES) -> list[Any]:
    """A run for each element type, those that the suite does not name in the long run alone."""
    kinds = [(dtype, () if dtype in suite.split() else pytest.mark.long) for dtype in dtypes]
    return [pytest.param(cases, [dtype] * operands, least, id=f"{name}-{dtype}", marks=marks) for dtype, marks in kinds]


@pytest.mark.parametrize(("cases", "dtypes", "least"), [
    *runs("of one operand", UNARY, 1, "float32", 23, FLOATS[:2]),
    *runs("of one operand", UNARY, 1, "float16 bfloat16 int8", 8, TYPES[2:]),
    *runs("with a number", WITH_NUMBER, 1, "float32 float16", 20),
    *runs("of two operands", BINARY, 2, "float32 bfloat16", 12),
    *runs("of three operands", TERNARY, 3, "float32 float64 int32", 1, ("float32", "float64", "int32")),
    *runs("to a type", CASTS, 1, " ".join(TYPES), 5),
    *runs("in any order", ORDER_FREE, 1, "int8 uint8 int64 bool", 3, ("int8", "uint8", "int64", "bool")),
    *runs("in any order", ORDER_FREE, 1, "float16", 0, ("float16",)),
    *(pytest.param(BINARY, dtypes, 8, id=f"of two types-{'-'.join(dtypes)}", marks=pytest.mark.long) for dtypes in MIXED),
])  # fmt: skip
def test_ops_have_torchs_bits(device: CpuDevice, cases: Sequence[Case], dtypes: Sequence[str], least: int) -> None:
    assert sum(check(device, case, dtypes) for case in cases) >= least


@pytest.mark.parametrize(("dtype", "other"), [
    ("float16", "float32"), ("bfloat16", "float64"), ("bfloat16", "float16"), ("float32", "float64"), ("int8", "float32"),
    *(pytest.param(d, o, marks=pytest.mark.long) for d in TYPES for o in ("float32", "float64", "int64", "bool")),
])  # fmt: skip
def test_a_tensor_without_dimensions_as_first_or_second_operand(device: CpuDevice, dtype: str, other: str) -> None:
    """Torch rounds the first to the promoted type, and takes the second as it is into products and quotients."""
    many, found = torch.cat([extremes(dtype), spread(dtype, RANDOM, 1)]), 0
    for case in (*BINARY[:6], *BINARY[9:12]):
        for number in (0.1, -3.3, 257.0):
            one = torch.tensor(number, dtype=torch.float64).to(getattr(torch, other))
            for tensors in ([many, one], [one, many]):
                found += agrees(device, case, tensors)
    assert found >= 12


STAYS: Final[dict[str, Callable[[Any], Any]]] = {
    "exp": torch.exp, "tanh": torch.tanh, "sqrt": torch.sqrt, "gelu": _F.gelu, "sum": lambda x: x.sum(-1),
    "softmax": lambda x: x.softmax(-1),
    "maximum": lambda x: torch.maximum(x, -x), "lerp": lambda x: torch.lerp(x, -x, 0.3), "alpha": lambda x: torch.add(x, x, alpha=3),
    "addcmul": lambda x: torch.addcmul(x, x, x), "fmod": lambda x: torch.fmod(x, 3.0), "int": lambda x: (x.int() + 1) * 2,
    "batch_norm": lambda x: _F.batch_norm(x, x[0], x[0].abs()), "group_norm": lambda x: _F.group_norm(x, 2), "elu": _F.elu,
}  # fmt: skip


@pytest.mark.parametrize("name", STAYS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_what_stays_with_torch_is_said(name: str, dtype: str) -> None:
    x = spread(dtype, 24, 1).reshape(6, 4)

    def between(x: Any) -> Any:
        return STAYS[name](x * 3 + 1) * 2 - 1

    run = irs.compile(between, x, exact="torch")
    assert torch.equal(bits(run(x)), bits(between(x)))
    assert any(remark.rule == "inexact" for remark in run.remarks), run.remarks
    assert all("rounded" in str(kernel.spec) for kernel in run.kernels)


def test_the_extremes_of_the_issue() -> None:
    x = torch.tensor([3.4e38, -3.4e38, 1.5, 1e-45, -0.0])
    run = irs.compile(lambda x: (x - x * 2.0) / 2.0, x, exact="torch")
    assert len(run.kernels) == 1
    assert torch.equal(bits(run(x)), bits((x - x * 2.0) / 2.0))
    half = spread("float16", 1000, 2)
    run = irs.compile(lambda x, y: (x * y) // 3 + x, half, half.flip(0), exact="torch")
    assert len(run.kernels) == 1
    assert torch.equal(bits(run(half, half.flip(0))), bits((half * half.flip(0)) // 3 + half))


STEPS: Final[tuple[Callable[[Any, Any], Any], ...]] = (
    lambda x, y: x * y, lambda x, y: x + y, lambda x, y: x - y * 2.0, lambda x, y: x / y, lambda x, y: x * 0.1 + y,
    lambda x, y: torch.relu(x) - y, lambda x, y: torch.where(x > y, x, y * x), lambda x, y: x.clamp(-3.0, 7.5) + y,
    lambda x, y: _F.leaky_relu(x, 0.1) * y, lambda x, y: -x + y.abs(), lambda x, y: x**2 - y, lambda x, y: _F.hardswish(x) + y,
    lambda x, y: x.to(torch.float32).to(x.dtype) * y, lambda x, y: x.round() + y.frac(), lambda x, y: 1.5 - x, lambda x, y: x // 3,
    lambda x, y: x.to(torch.bfloat16).to(x.dtype) - y, lambda x, y: torch.reciprocal(x) * y, lambda x, y: x.mul_(y).add_(1),
)  # fmt: skip


def chain(seed: int) -> Callable[[Any, Any], Any]:
    steps = random.Random(seed).choices(STEPS, k=8)

    def run(x: Any, y: Any) -> Any:
        x, y = x.clone(), y * 1
        for step in steps:
            x, y = step(x, y), x
        return x + y, y

    return run


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.long) for n in range(1, 30))])
def test_chains_of_ops(dtype: str, seed: int) -> None:
    function = chain(seed)
    for tensors in layouts(operands([dtype, dtype])):
        run = irs.compile(function, *tensors, exact="torch")
        assert run.kernels
        for found, want in zip(run(*tensors), function(*tensors), strict=True):
            assert torch.equal(bits(found), bits(want))
            assert found.stride() == want.stride()


@pytest.mark.skipif(not AVAILABLE, reason="g++ is not installed; it plays the GPU in this test")
@pytest.mark.parametrize("dtype", FLOATS)
def test_the_text_for_gpus_rounds_each_step(dtype: str, tmp_path: Any) -> None:
    device = emulated_device(tmp_path)
    for case in (BINARY[0], BINARY[3], BINARY[4]):
        assert check(device, case, [dtype, dtype], slice(0, 3))

    def body(builder: Any, x: Any, y: Any) -> Any:
        return call(builder, "sub", x, call(builder, "mul", y, 2.0), 1)

    x, y = operands([dtype, dtype])
    types = [TensorType(dtype, tuple(t.shape), tuple(t.stride())) for t in (x, y)]
    plan = spec_of_group(group(body, [TENSOR] * 2), types, exact=True)
    result = torch.empty_like(x)
    device.prepare(plan)([result.data_ptr()], [x.data_ptr(), y.data_ptr()])
    assert torch.equal(bits(result), bits(x - y * 2.0))
    text = device.source(plan.specs[0]).text
    assert "__dmul_rn(" in text if dtype == "float64" else "__fmul_rn(" in text


def test_a_fusion_and_a_comparison_take_it_too() -> None:
    x = spread("float16", 100, 3)

    def function(x: Any) -> Any:
        return torch.exp(x * 0.1 + x) * x + 1

    fusion = irs.fuse(irs.load(function, x))
    assert fusion.exactly(None) is fusion
    exact = fusion.exactly("torch")
    assert len(exact.groups) == 2 and exact.exactly("torch") is exact
    want = bits(function(x))
    for program in (fusion, exact, fusion.graph):
        run = irs.compile(program, exact="torch")
        assert torch.equal(bits(run(x)), want)
        assert any(remark.rule == "inexact" for remark in run.remarks)
    rows = irs.compare(fusion, x, repeats=1, exact="torch").rows
    assert [row.kernels for row in rows] == [0, 2, 2, 0]


def test_equal_specs_of_other_exactness_are_other_kernels() -> None:
    x = spread("float32", 8, 1)
    graph = irs.load(lambda x: x * 2.0 - x, x)
    plain, exact = (irs.compile(irs.fuse(graph), exact=how).kernels[0].spec for how in (None, "torch"))
    assert plain != exact and plain.fingerprint != exact.fingerprint
    assert plain.instructions == exact.instructions


@pytest.mark.parametrize("misuse", [
    lambda g, x: irs.compile(g, exact="numpy"), lambda g, x: irs.compile(g, exact="torch", device="reference"),
    lambda g, x: irs.compile(g, exact="torch")(x.numpy()), lambda g, x: irs.fuse(g, exact=True),
])  # fmt: skip
def test_misuse_is_refused(misuse: Callable[[Any, Any], Any]) -> None:
    x = spread("float32", 8, 1)
    graph = irs.load(lambda x: x * 2.0 - x, x)
    with pytest.raises(ArgumentError) as caught:
        misuse(graph, x)
    assert caught.value.hint
