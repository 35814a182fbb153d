"""The NumPy interpreter means what torch means: random programs, scripted functions, errors with their place."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import irscope as irs
from irscope.analysis.shapes import infer
from irscope.errors import RunError
from irscope.ir import TensorType, argument_type
from irscope.ir.text import parse
from irscope.ops.registry import schema_of
from irscope.runtime.measure.accuracy import float64_results
from irscope.runtime.reference import run_reference
from tests.programs import parsed
from tests.random_programs.graphs import programs
from tests.transforms.fusion.judges import as_torch

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402


def same(ours: Any, theirs: Any, rtol: float = 1e-5, atol: float = 1e-5) -> None:
    """The same values, with the same structure."""
    if isinstance(theirs, Tensor):
        assert isinstance(ours, np.ndarray), type(ours)
        assert ours.dtype == theirs.numpy().dtype
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=rtol, atol=atol)
    elif isinstance(theirs, list | tuple):
        assert type(ours) is type(theirs) and len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            same(one, other, rtol, atol)
    elif isinstance(theirs, dict):
        assert list(ours) == list(theirs)
        same(list(ours.values()), list(theirs.values()), rtol, atol)
    else:
        assert type(ours) is type(theirs) and ours == pytest.approx(theirs, nan_ok=True)


@settings(max_examples=150, deadline=None)
@given(programs())
def test_a_random_program_gives_and_writes_what_torch_gives_and_writes(program: Any) -> None:
    function = torch._C._create_function_from_graph("program", torch._C.parse_ir(program.text))
    given_torch, given_numpy = program.fresh(), program.fresh()
    with np.errstate(all="ignore"), torch.jit.optimized_execution(False):  # torch's optimiser breaks such programs
        expected = function(*as_torch(given_torch))
        graph = parse(program.text)
        found = run_reference(graph, *given_numpy)
    expected = (expected,) if len(graph.outputs) == 1 else expected
    for ours, theirs in zip(found, expected, strict=True):
        same(ours, theirs, 1e-4, 1e-4)
    for ours, theirs in zip(given_numpy, as_torch(given_torch), strict=True):
        same(ours, theirs, 1e-4, 1e-4)
    types = {value: argument_type(argument) for value, argument in zip(graph.inputs, program.inputs, strict=True)}
    shapes = infer(graph, types)
    for value, theirs in zip(graph.outputs, expected, strict=True):
        inferred = shapes.type(value)
        if isinstance(theirs, Tensor) and isinstance(inferred, TensorType) and inferred.strides is not None:
            assert inferred.strides == theirs.stride()


def scripted(function: Any, *args: Any) -> None:
    """The scripted function, through our loader and interpreter, gives what torch gives."""
    from irscope import frontends

    script = torch.jit.script(function)
    graph = frontends.load(script, *args)
    found = run_reference(graph, *[a.numpy().copy() if isinstance(a, Tensor) else a for a in args])
    expected = script(*[a.clone() if isinstance(a, Tensor) else a for a in args])
    same(found[0] if len(graph.outputs) == 1 else tuple(found), expected)
    infer(graph, {value: argument_type(a) for value, a in zip(graph.free_inputs, args, strict=True)}, strict=True)


def collatz(n: int) -> int:
    count = 0
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        count += 1
    return count


def early(x: Tensor, limit: int) -> tuple[Tensor, int]:
    for i in range(10):
        if i > limit:
            return x, i
        if i % 2 == 0:
            continue
        x = x * 2 + i
        if float(x.sum()) > 1000.0:
            break
    return x, -1


def containers(x: Tensor) -> tuple[dict[str, Tensor], list[Tensor], int]:
    rows = list(x.unbind(0))
    rows.append(rows[0] + 1)
    rows.insert(1, rows.pop())
    rows[0] = rows[-1] * 2
    rows.extend([x[0], x[1]])
    same = rows
    same += [x[2]]
    named = {"a": rows[0], "b": x.sum()}
    named["c"] = rows[1:3][0]
    if "b" in named:
        named["b"] += 1.0
    total = 0
    for key in named:
        total += len(key) + len(rows)
    return named, rows[::2], total


def numbers(a: int, b: float, x: Tensor) -> tuple[float, int, str, list[int], bool]:
    c = a / 3 + b // 2.0 - (a % 4) ** 2
    d = max(a, 3) - min(int(b), -a) + abs(-a) + (a << 2) ^ 5
    text = "{} and {}".format(a, "b").upper()
    return c, d, text, [x.size(0), x.dim(), x.numel()] + [i * i for i in range(a)], x.dtype == torch.float32


X = torch.arange(12.0).reshape(4, 3) - 5


@pytest.mark.parametrize(
    ("function", "args"),
    [(collatz, (27,)), (early, (X, 3)), (early, (X, 20)), (containers, (X,)), (numbers, (7, 2.5, X))],
    ids=lambda part: getattr(part, "__name__", ""),
)
def test_scripted_control_flow_and_containers(function: Any, args: tuple[Any, ...]) -> None:
    scripted(function, *args)


class Mixed(torch.nn.Module):
    """A little of everything that image models do."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.up = torch.nn.Upsample(scale_factor=2.0)
        self.pool = torch.nn.MaxPool2d(2)
        self.last = torch.nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.nn.functional.leaky_relu(self.norm(self.conv(x)), 0.1)
        y = self.pool(self.up(y)) + y
        y[:, 0:2] = torch.sigmoid(y[:, 0:2])
        return torch.softmax(self.last(y.mean([2, 3])), -1)


@pytest.mark.parametrize("training", [False, True])
def test_a_module_moves_its_statistics_only_in_training(training: bool) -> None:
    from irscope import frontends

    torch.manual_seed(0)
    model = Mixed().train(training)
    x = torch.randn(2, 3, 8, 8)
    graph = frontends.load(torch.jit.script(model), x)
    before = model.norm.running_mean.clone()
    with torch.no_grad():
        found = run_reference(graph, x.numpy())
        moved = model.norm.running_mean.clone()
        model.norm.running_mean.copy_(before)
        expected = model(x)
    same(found[0], expected)
    assert torch.equal(moved, before) != training
    torch.testing.assert_close(moved, model.norm.running_mean, rtol=1e-4, atol=1e-5)


def test_float64_computes_in_float64_throughout() -> None:
    torch.manual_seed(0)
    from irscope import frontends

    model = Mixed().eval()
    x = torch.randn(2, 3, 8, 8)
    graph = frontends.load(torch.jit.script(model), x)
    seen: set[str] = set()
    (found,) = run_reference(graph, x.numpy(), precision="float64", observe=lambda value, thing: seen.add(str(getattr(thing, "dtype", ""))))
    assert not seen & {"float32", "float16"}
    with torch.no_grad():
        np.testing.assert_allclose(found, model.double()(x.double()).numpy(), rtol=1e-12)


def test_float64_changes_requested_types_and_leaves_whole_numbers() -> None:
    graph = parsed("x i | half = 5; int = 3; f = False; n = None; y = to x half f f n; z = to x int f f n | y z i")
    found = run_reference(graph, np.array([1.1], np.float32), np.array([2]), precision="float64")
    assert [str(array.dtype) for array in found] == ["float64", "int32", "int64"]


def test_what_a_program_raises_is_said() -> None:
    graph = parse('graph(%x : Tensor):\n  %m : str = prim::Constant[value="too long"]()\n  prim::RaiseException(%m)\n  return (%x)')
    with pytest.raises(RunError, match="the program raises Exception: too long"):
        run_reference(graph, np.ones(2))


def test_a_fusion_group_runs_its_block() -> None:
    graph = parsed("x y | z = FusionGroup x y {a b | c = mul a b; d = tanh c | d} | z")
    x = np.linspace(-1, 1, 4, dtype=np.float32)
    np.testing.assert_allclose(run_reference(graph, x, x)[0], np.tanh(x * x), rtol=1e-6)
    assert str(infer(graph, {value: argument_type(x) for value in graph.inputs}).type("z")) == "Float(4, strides=[1], device=cpu)"


SCATTERED = [
    lambda x, i, r=reduce, s=own: torch.ones(4, 6).scatter_reduce(0, i, x, r, include_self=s)
    for reduce in ("sum", "prod", "mean", "amax", "amin")
    for own in (True, False)
]
RARE = [
    lambda x: torch.fft.fft(x), lambda x: torch.fft.ifft(x, n=9, norm="forward"), lambda x: torch.fft.rfft2(x, norm="ortho"),
    lambda x: torch.fft.irfft(torch.fft.rfft(x)), lambda x: torch.fft.irfftn(torch.fft.rfftn(x, dim=(0, 1)), s=(4, 5), dim=(0, 1)),
    lambda x: torch.fft.fftn(x, s=(3,)), lambda x: torch.nextafter(x, x + 1), lambda x: torch.lgamma(x), lambda x: torch.digamma(x),
    lambda x: torch.erfinv(torch.tanh(x)), lambda x: x.view(torch.int32) * 2, lambda x: x.view(torch.float64).view(torch.int64),
    lambda x: (x.view(torch.int32) & 0x7FFFFFFF).view(torch.float32), lambda x: torch.linalg.det(x[:, :4]),
    lambda x: torch.special.i0(x), lambda x: torch.complex(x, x * 2) * 1, lambda x: torch.sgn(torch.complex(x, -x)),
    lambda x: torch.complex(x, -x).abs(), lambda x: torch.view_as_real(torch.complex(x, -x)) + 1,
    lambda x: torch.view_as_complex(x.reshape(4, 3, 2)).imag * 2, lambda x: torch.conj_physical(torch.complex(x, x)) + x,
]  # fmt: skip


@pytest.mark.parametrize("function", RARE + SCATTERED)
def test_ops_that_few_programs_have_mean_what_torch_means_in_double_too(function: Any) -> None:
    given = [torch.linspace(-2, 3, 24).reshape(4, 6), torch.arange(24).reshape(4, 6) * 7 % 4][: function.__code__.co_argcount]
    given = given if function in SCATTERED else given[:1]
    graph = irs.load(function, *given)
    wanted = function(*given).resolve_conj().numpy()
    (found,) = run_reference(graph, *(tensor.numpy() for tensor in given))
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=1e-6)
    if "aten::view.dtype" in {schema.full_name for node in graph.nodes() if (schema := schema_of(node))}:
        return  # the bits of a float have no truth in float64
    (truth,) = run_reference(graph, *(tensor.numpy() for tensor in given), precision="float64")
    np.testing.assert_allclose(truth.astype(wanted.dtype), wanted, rtol=2e-5, atol=1e-6)
    results = float64_results(graph, given)
    if isinstance(results, str):
        assert "aten::nextafter" in results  # its steps are those of float32, in which no error can be told
        return
    (theirs,) = results
    np.testing.assert_allclose(theirs.astype(wanted.dtype), wanted, rtol=2e-5, atol=1e-6)


def test_a_random_program_of_jax_has_a_truth() -> None:
    jax = pytest.importorskip("jax")
    graph = irs.load(lambda x: x + jax.random.normal(jax.random.key(0), (3,)), jax.numpy.ones(3))
    (truth,) = run_reference(graph, np.ones(3, np.float32), precision="float64")
    np.testing.assert_allclose(truth, 1 + np.asarray(jax.random.normal(jax.random.key(0), (3,))), rtol=1e-5)
