"""Arguments that are tensors of some kind, but not the plain ones that kernels are made for.

Each either gives what torch gives op by op, or one error of irscope's; and the next call with plain ones is right.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("llvmlite")

import irscope as irs  # noqa: E402
from irscope.errors import ArgumentError, IrscopeError, RunError  # noqa: E402
from irscope.runtime.program.executable import Executable  # noqa: E402
from tests.programs import parsed  # noqa: E402


class Named(torch.Tensor):  # type: ignore[misc]
    """A subclass that adds nothing."""


def one_kernel(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x * 2 + y) * x


def rows(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x + y, -1).sum(0)


def between(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.relu(torch.relu(x) + y) @ torch.ones(y.shape[-1], 3, dtype=y.dtype)


def written(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.add_(y)
    return torch.tanh(x) * 2


PROGRAMS = (one_kernel, rows, between, written)
SHAPE = (4, 6)


def plain() -> Any:
    return torch.rand(SHAPE, generator=torch.Generator().manual_seed(3)) - 0.5


def frozen(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    array.flags.writeable = False
    return array


def nested(x: Any) -> Any:
    return torch.nested.nested_tensor([x[0], x[1]])


TENSORS: dict[str, Callable[[Any], Any]] = {
    "meta": lambda x: x.to("meta"),
    "sparse": lambda x: x.to_sparse(),
    "sparse rows": lambda x: x.to_sparse_csr(),
    "nested": nested,
    "blocked": lambda x: x.to_mkldnn(),
    "quantised": lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.quint8),
    "complex": lambda x: x.to(torch.complex64),
    "eight bits": lambda x: x.to(torch.float8_e4m3fn),
    "unsigned": lambda x: (x * 9 + 9).to(torch.uint64),
    "wants a gradient": lambda x: x.clone().requires_grad_(),
    "inside autograd": lambda x: x.clone().requires_grad_() * 1,
    "parameter": lambda x: torch.nn.Parameter(x.clone()),
    "subclass": lambda x: x.clone().as_subclass(Named),
    "other sign": lambda x: torch._neg_view(x),
    "zeros without memory": lambda x: torch._efficientzerotensor(x.shape),
    "one row": lambda x: x[:1].expand(SHAPE),
    "overlapping rows": lambda x: x.reshape(-1)[:10].as_strided(SHAPE, (1, 1)),
    "turned": lambda x: x.t().contiguous().t(),
    "no elements": lambda x: x[:0],
    "no dimensions": lambda x: torch.tensor(0.5),
    "sixty-five dimensions": lambda x: x[0].reshape([1] * 64 + [6]),
}
ARRAYS: dict[str, Callable[[Any], Any]] = {
    "read-only": lambda x: frozen(x.numpy().copy()),
    "other byte order": lambda x: x.numpy().astype(">f4"),
    "backwards": lambda x: x.numpy()[::-1, ::-1],
    "long double": lambda x: x.numpy().astype(np.longdouble),
    "objects": lambda x: x.numpy().astype(object),
    "strings": lambda x: np.array(["a"] * 6),
    "dates": lambda x: np.array(["2020-01-01"] * 6, dtype="datetime64[D]"),
    "records": lambda x: np.zeros(6, dtype=[("a", "f4")]),
    "field of records": lambda x: np.zeros(24, dtype=[("a", "f4"), ("b", "u1")])["a"].reshape(SHAPE),
    "masked": lambda x: np.ma.masked_array(x.numpy(), x.numpy() > 0),
    "matrix": lambda x: np.matrix(x.numpy()),
}
OTHERS: dict[str, Any] = {"None": None, "list": [[0.5] * 6] * 4, "dict": {"a": 1}, "text": "x", "huge": 10**30, "type": torch.float32}


def compiled(function: Callable[..., Any], *, typed: bool) -> Executable:
    scripted = torch.jit.script(function)
    return irs.compile(irs.fuse(irs.load(scripted, plain(), plain()) if typed else irs.load(scripted)))


def same(found: Any, wanted: Any) -> bool:
    if isinstance(found, np.ndarray):
        found = ordinary(found)
    if (found.dtype, found.shape, found.is_meta) != (wanted.dtype, wanted.shape, wanted.is_meta):
        return False
    if wanted.layout != torch.strided:
        found, wanted = found.to_dense(), wanted.to_dense()
    return bool(wanted.is_meta or (found.double() - wanted.double()).abs().nan_to_num().reshape(-1).sum() < 1e-3)


def outcome(run: Callable[..., Any], arguments: list[Any]) -> Any:
    """A result, or the error that there is instead."""
    try:
        with torch.no_grad():
            return run(*arguments)
    except Exception as error:
        return error


def ordinary(array: Any) -> Any:
    wide = array.dtype == np.longdouble
    return torch.tensor(array.astype(np.float64 if wide else array.dtype.newbyteorder("=")))


def given(make: Callable[[Any], Any], places: tuple[int, ...]) -> list[Any]:
    return [make(plain()) if place in places else plain() for place in (0, 1)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("typed", [False, True], ids=["any types", "types known"])
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda function: function.__name__)
def test_odd_tensors_are_right_or_refused(function: Callable[..., Any], typed: bool) -> None:
    run = compiled(function, typed=typed)
    wanted = function(plain(), plain())
    worked = set()
    for name, make in TENSORS.items():
        for places in ((0,), (1,), (0, 1)):
            eager, found = outcome(function, given(make, places)), outcome(run, given(make, places))
            if isinstance(found, Exception):
                assert isinstance(found, IrscopeError), (name, repr(found))
                assert len(str(found)) < 1500, name
            elif isinstance(eager, torch.Tensor) and (name, function) != ("overlapping rows", written):
                assert same(found, eager), (name, places, found, eager)
                worked.add(name)
            assert same(run(plain(), plain()), wanted), f"the call after one with {name}"
    assert worked >= {"wants a gradient", "inside autograd", "parameter", "subclass"}
    assert typed or worked >= {"meta", "turned", "no elements", "other sign", "no dimensions"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("typed", [False, True], ids=["any types", "types known"])
def test_odd_arrays_are_right_or_refused(typed: bool) -> None:
    for function in PROGRAMS:
        run = compiled(function, typed=typed)
        wanted = function(plain(), plain())
        for name, make in {**ARRAYS, **{name: lambda x, other=other: other for name, other in OTHERS.items()}}.items():
            for places in ((0,), (1,), (0, 1)):
                found = outcome(run, given(make, places))
                if not isinstance(found, IrscopeError):
                    assert not isinstance(found, Exception), (function, name, repr(found))
                    arguments = [x if isinstance(x, torch.Tensor) else ordinary(x) for x in given(make, places)]
                    assert same(found, function(*arguments)), (function, name, places, found)
                assert same(run(plain(), plain()), wanted), f"the call after one with {name}"


def test_read_only_arrays_are_not_written() -> None:
    """Torch's own `from_numpy` writes into them, and ends the process where the memory is read-only in truth."""
    run = compiled(written, typed=False)
    array = frozen(plain().numpy().copy())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = run(array, plain())
    assert same(found, written(plain(), plain()))
    assert torch.equal(torch.tensor(array), plain())


@pytest.mark.filterwarnings("ignore")
def test_odd_examples_are_taken_or_refused() -> None:
    text = "graph(%x : Tensor, %y : Tensor):\n  %a : Tensor = aten::tanh(%x)\n  return (%a)\n"
    for name, make in {**TENSORS, **ARRAYS}.items():
        odd = make(plain())
        try:
            str(irs.fuse(irs.load(text, odd, odd)).graph)
        except IrscopeError as error:
            assert "%x" in str(error), name
            assert name in ("nested", "objects", "strings", "dates", "records", "long double", "other byte order"), name


@pytest.mark.parametrize("typed", [False, True], ids=["any types", "types known"])
@pytest.mark.parametrize(
    ("name", "way"), [("sparse", "to_dense"), ("sparse rows", "to_dense"), ("blocked", "to_dense"), ("quantised", "dequantize")]
)
def test_tensors_without_plain_elements_are_refused_in_one_sentence(name: str, way: str, typed: bool) -> None:
    run = compiled(PROGRAMS[0], typed=typed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, about sparse rows
        odd = TENSORS[name](plain())
    with pytest.raises(ArgumentError, match=f"programs run on dense tensors(.|\n)*{way}") as refused:
        run(odd, plain())
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("size", [(4, 6), (900, 1100)], ids=["on this thread", "on several"])
@pytest.mark.parametrize("calls", [1, 4])  # a program is written out after some
@pytest.mark.parametrize("function", [one_kernel, between], ids=lambda function: function.__name__)
def test_a_tensor_without_memory_ends_the_call_and_not_the_process(function: Callable[..., Any], calls: int, size: tuple[int, int]) -> None:
    x, y = torch.rand(size), torch.rand(size)
    run = irs.compile(irs.fuse(irs.load(torch.jit.script(function), x, y)))
    for _ in range(calls):
        wanted = run(x, y)
    lost = x.clone()
    lost.untyped_storage().resize_(0)
    with pytest.raises(IrscopeError, match="no memory"):
        run(lost, y)
    torch.testing.assert_close(torch.func.functionalize(run)(x, y), wanted)
    assert torch.equal(run(x, y), wanted)


def scaled(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.special.erfcx(x) + y


def test_read_only_arrays_give_no_warning_where_torch_computes() -> None:
    run = compiled(scaled, typed=False)
    array = frozen(plain().numpy().copy())
    torch.set_warn_always(True)  # it warns once a process otherwise
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = run(array, plain())
    finally:
        torch.set_warn_always(False)
    assert same(found, scaled(plain(), plain()))


RESHAPED = {
    "t_": "c = neg x; d = t_ c | c d",
    "squeeze_": "c = neg x; d = squeeze_ c | c d",
    "in a list": "o = 0; c = neg x; l:Tensor[] = ListConstruct c x; d = t_ c; e = __getitem__ l o | e d",
    "in a tuple": "c = neg x; p:(Tensor, Tensor) = TupleConstruct c x; d = t_ c; e f = TupleUnpack p | e f",
    "of a view": "z = 0; o = 1; c = transpose x z o; d = t_ c; e = exp c | c e x",
    "of a kernel's result": "z = 0; a = exp x; b = mul a x; c = unsqueeze_ b z; e = neg b | b e",
}


@pytest.mark.parametrize("name", RESHAPED)
@pytest.mark.parametrize("shape", [(8, 4), (8, 1)])
def test_what_changes_shape_does_so_under_all_its_names(name: str, shape: tuple[int, int]) -> None:
    graph, x = parsed(f"x | {RESHAPED[name]}"), torch.randn(shape)
    want = [y.numpy() for y in irs.compile(graph)(x)]
    for program in (graph, irs.fuse(graph)):
        for run in (irs.compile(program), irs.compile(program, device="reference")):
            for found, there in zip(run(x.numpy()), want, strict=True):
                np.testing.assert_allclose(found, there, rtol=1e-6)
                assert found.shape == there.shape


def test_an_array_whose_shape_an_op_would_change_is_refused() -> None:
    run = irs.compile(parsed("x | d = t_ x; e = neg x | d e"))
    with pytest.raises(RunError, match="t_ changes the shape of %x, which is read again"):
        run(np.ones((2, 3), np.float32))
