"""Traced functions: the graph gives the results of the function on NumPy arrays, element types included."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.analysis.shapes import infer
from irscope.errors import ArgumentError, CaptureError, LoadError, RunError
from irscope.frontends.tracing import trace
from irscope.ir import Graph, TensorType
from irscope.ir.structural import same_structure
from irscope.runtime.reference import run_reference
from tests.frontends.tracing.corpus import CORPUS, Example

as_numpy_2 = pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) < "2.0.0", reason="graphs promote as NumPy 2, whatever NumPy is installed"
)


def arrays(described: Any, rng: np.random.Generator, dtype: Any = np.float64) -> Any:
    """Arrays for shapes, inside containers too; arrays are copied."""
    if isinstance(described, np.ndarray):
        return described.copy()
    if isinstance(described, tuple) and all(isinstance(extent, int) for extent in described):
        return np.asarray(rng.uniform(-2, 2, described), dtype)
    if isinstance(described, dict):
        return {key: arrays(item, rng, dtype) for key, item in described.items()}
    return type(described)([arrays(item, rng, dtype) for item in described])


def leaves(thing: Any) -> list[Any]:
    if isinstance(thing, list | tuple):
        return [leaf for item in thing for leaf in leaves(item)]
    return [leaf for item in thing.values() for leaf in leaves(item)] if isinstance(thing, dict) else [thing]


def run(graph: Graph, arguments: Any) -> Any:
    results = run_reference(graph, *leaves(list(arguments)))
    return results if len(results) > 1 else results[0]


def assert_equal(found: Any, wanted: Any, tolerance: float) -> None:
    assert type(found) is type(wanted) or not isinstance(wanted, list | tuple | dict)
    for ours, theirs in zip(leaves(found), leaves(wanted), strict=True):
        if isinstance(theirs, np.ndarray | np.generic):
            assert (str(ours.dtype).removeprefix("torch."), tuple(ours.shape)) == (str(theirs.dtype), theirs.shape)
        np.testing.assert_allclose(np.asarray(ours), theirs, rtol=tolerance, atol=tolerance)


def names(example: Example) -> str:
    return example[0].__name__


@as_numpy_2
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("way", ["float64", "float32", "fused", "torch"])
@pytest.mark.parametrize("example", CORPUS, ids=names)
def test_the_graph_gives_the_results_of_the_function(example: Example, way: str) -> None:
    """In NumPy's references, in kernels, and in torch, to which the casts leave nothing to promote."""
    function, described = example
    given = arrays(described, np.random.default_rng(0), np.float64 if way == "float64" else np.float32)
    graph = trace(function, *given)
    mine, theirs = arrays(given, np.random.default_rng()), arrays(given, np.random.default_rng())
    if way == "torch":
        torch = pytest.importorskip("torch")
        mine = [torch.from_numpy(np.array(leaf)) for leaf in leaves(list(mine))]
    found = run(graph, mine) if way.startswith("float") else irs.compile(irs.fuse(graph) if way == "fused" else graph)(*mine)
    tolerance = {"float64": 1e-12, "float32": 1e-5}.get(way, 1e-4)
    assert_equal(leaves(found), leaves(function(*theirs)), tolerance)
    assert_equal(leaves(list(mine)), leaves(list(theirs)), tolerance)  # a function that writes its argument still does
    assert same_structure(irs.parse(str(graph)), graph) or graph.bound


@pytest.mark.parametrize("example", CORPUS, ids=names)
def test_types_are_those_that_the_ops_have(example: Example) -> None:
    """The declared types are NumPy's; inference knows the ops alone."""
    function, described = example
    graph = trace(function, *described)
    shapes = infer(graph)
    for value in graph.values():
        if isinstance(value.type, TensorType):
            found = shapes.type(value)
            assert isinstance(found, TensorType)
            assert (found.dtype, found.shape) == (value.type.dtype, value.type.shape), graph.producer.get(value)


def test_arguments_are_described_by_shapes_texts_and_arrays() -> None:
    graph = trace(lambda a, b, c, d: (a, b, c, d), (4, 8), "float64[2,3]", np.zeros(2, np.int8), "int32")
    assert [str(value.type) for value in graph.inputs] == ["Float(4, 8)", "Double(2, 3)", "Char(2)", "Int()"]
    assert [value.name for value in graph.inputs] == ["a", "b", "c", "d"]


def test_keywords_are_passed_on_and_fixed() -> None:
    def scaled(x, factor=1.0, *, axis):  # type: ignore[no-untyped-def]
        return (x * factor).sum(axis)

    graph = trace(scaled, (2, 3), factor=2.5, axis=1)
    x = np.ones((2, 3), np.float32)
    assert run_reference(graph, x)[0].tolist() == [7.5, 7.5]
    assert [value.name for value in graph.inputs] == ["x"]


def test_every_node_knows_its_line_and_its_function() -> None:
    def inner(y):  # type: ignore[no-untyped-def]
        return np.exp(y)

    def outer(x):  # type: ignore[no-untyped-def]
        middle = inner(x)
        return middle + 1

    graph = trace(outer, (2,))
    exp, add = graph.node("aten::exp"), graph.node("aten::add")
    first = outer.__code__.co_firstlineno
    assert exp.location is not None and exp.location.file == __file__ and exp.location.line == inner.__code__.co_firstlineno + 1
    assert add.location is not None and add.location.line == first + 2
    assert (exp.scope, add.scope) == ("inner", "")
    assert graph.names[exp.output] == "middle"


def test_results_are_named_after_the_last_variables() -> None:
    def both(x: Any) -> Any:
        middle = np.exp(x)
        left, right = middle * 2, middle - 1
        return left, right

    graph = irs.trace(both, (3,))
    assert [graph.names[value] for value in graph.outputs] == ["left", "right"]


def test_captured_arrays_are_bound_inputs_or_several_constants_where_they_change() -> None:
    weights = np.arange(6.0).reshape(2, 3)
    graph = trace(lambda x: x @ weights + weights[0] + x @ weights, "float64[4,2]")
    assert [value.name for value in graph.free_inputs] == ["x"]
    assert [held.tolist() for held in graph.bound.values() if held.ndim == 2] == [weights.tolist()]

    def stepping(x):  # type: ignore[no-untyped-def]
        step = np.zeros(2)
        for number in range(3):
            step[:] = number
            x = x * 2 + step
        return x

    assert run_reference(trace(stepping, "float64[2]"), np.ones(2))[0].tolist() == stepping(np.ones(2)).tolist()


def test_nan_and_infinity_constants_read_back() -> None:
    graph = trace(lambda x: np.where(x > 0, np.nan, x) + np.full_like(x, np.inf) + np.minimum(x, -np.inf), (2,))
    assert same_structure(irs.parse(str(graph)), graph)


def test_numbers_in_the_program_are_numbers_in_the_graph() -> None:
    graph = trace(lambda x: x * 2 + 1, "float32[3]")
    assert [node.op for node in graph.nodes() if node.op != "prim::Constant"] == ["aten::mul", "aten::add"]
    assert not graph.bound


def test_views_stay_views() -> None:
    graph = trace(lambda x: (x[1:], x.T, x.reshape(-1)), (2, 3))
    db = irs.AliasDb(graph)
    assert all(db.may_alias(value, graph.inputs[0]) for value in graph.outputs)
    graph = trace(lambda x: (x.copy(), x + 0, x.astype("float32"), +x, x.flatten()), (2, 3))
    db = irs.AliasDb(graph)
    assert not any(db.may_alias(value, graph.inputs[0]) for value in graph.outputs)


def ran(function: Callable[..., Any], *given: Any) -> Any:
    """The result of a traced function, fused into kernels where they compute it."""
    return irs.compile(irs.fuse(irs.trace(function, *given), min_size=1))(*given)


@as_numpy_2
@pytest.mark.parametrize(("function", "given"), [
    (np.sign, np.array([np.nan, -0.0, -3, np.inf])), (np.reciprocal, np.array([2, 1, -1], np.int8)),
    (np.reciprocal, np.array([1, 2], np.uint32)), (lambda x: x**2, np.array([True, False])),
    (lambda x: x // (x - 1), np.array([1, 2, 3])), (lambda x: x % (x - 1), np.array([1, 2, 3])), (lambda x: x // 0, np.array([5])),
    (lambda x: x % np.array([-2.0, 2.0]), np.array([4.0, -4.0])), (lambda x: x % -1.5, np.array([-0.0, 3.0, 2])),
    (lambda x: x == 300, np.array([44], np.uint8)), (lambda x: x > -1, np.array([255], np.uint8)),
    (lambda x: np.clip(x, 0, 300), np.array([-1, 100], np.int8)), (lambda x: x * 0.1, np.array([3.0], np.float16)),
    (lambda x: x**-0.5, np.array([-np.inf, -0.0, 4])), (np.round, np.array([True])),
    (lambda x: x.mean(dtype=np.int8), np.array([100, 100])), (lambda x: x << x, np.array([1, 70])),
    (lambda x: x.var(axis=()), np.array([1.0, 2])), (np.linalg.norm, np.array([100, 100], np.int8)),
    (lambda x: x.max(axis=-1), np.array(3)),
    (lambda x: x.__array_namespace__().arange(0, 2.5, 2, dtype=np.int64), np.array([1.0])),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_results_where_numpy_differs_from_torch(function: Callable[..., Any], given: Any) -> None:
    found, wanted = np.asarray(ran(function, given)), np.asarray(function(given))
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_array_equal(found, wanted)
    if wanted.dtype.kind == "f":
        assert np.signbit(found).tolist() == np.signbit(wanted).tolist()


def test_parts_of_complex_numbers_are_views() -> None:
    def doubled(z: Any) -> Any:
        z.real *= 2
        z.imag[0] = 7
        return z.conj()

    z, same = np.array([1 + 2j, 3 - 4j]), np.array([1 + 2j, 3 - 4j])
    graph = trace(doubled, z)
    assert irs.compile(irs.fuse(graph))(z).tolist() == doubled(same).tolist()
    assert z.tolist() == same.tolist()
    real = trace(lambda z: (z.real, z.imag), "complex64[3]")
    db = irs.AliasDb(real)
    assert all(db.may_alias(value, real.inputs[0]) for value in real.outputs)
    with pytest.raises(ArgumentError, match="broadcast"):
        trace(lambda x: x.imag.fill(1), (3,))


def test_integers_have_no_negative_powers_as_in_numpy() -> None:
    bases, powers = np.array([2, 3]), np.array([2, 3])
    compiled = irs.compile(irs.fuse(trace(lambda x, n: x**n, bases, powers)))
    assert compiled(bases, powers).tolist() == [4, 27]
    with pytest.raises(RunError, match="no negative integer powers"):
        compiled(bases, -powers)
    with pytest.raises(ArgumentError, match="no negative integer powers") as caught:
        trace(lambda x: x**-1, "int64[3]")
    assert "x.astype(float)" in str(caught.value)


def test_load_traces_a_function_called_with_numpy_arrays() -> None:
    graph = irs.load(lambda x: np.tanh(x) * 2, np.zeros((2, 3), np.float32))
    assert str(graph.inputs[0].type) == "Float(2, 3, strides=[3, 1], device=cpu)"
    assert [node.op for node in graph.nodes() if node.op != "prim::Constant"] == ["aten::tanh", "aten::mul"]
    nested = irs.load(lambda p: p["a"] + p["b"][0], {"a": np.ones(3), "b": [np.ones(3)]})
    assert [value.name for value in nested.inputs] == ["p_a", "p_b_0"]
    with pytest.raises(LoadError):
        irs.load(lambda x: x, "no array")


def line_of(text: str) -> str:
    return f"{__file__}:{next(i for i, line in enumerate(open(__file__), 1) if text in line and 'line_of' not in line)}"  # noqa: PTH123


REFUSED: list[tuple[Callable[..., Any], str]] = [
    (lambda x: x if x.sum() > 0 else -x, "depends on array data"),
    (lambda x: [x[0] for _ in range(int(x[0, 0]))], "turned into an int"),
    (lambda x: float(x.sum()), "turned into a float"),
    (lambda x: x[x > 0], "whose shape depends on data"),
    (lambda x: np.nonzero(x), "np.nonzero cannot be traced"),
    (lambda x: np.asarray(x) + 1, "cannot become a NumPy array"),
    (lambda x: x.item(), "an element is taken out"),
    (lambda x: x.tolist(), "an element is taken out"),
    (lambda x: np.where(x > 0), "whose shape depends on data"),
    (lambda x: np.gcd(x, x), "no op for np.gcd"),
    (lambda x: np.add(x, 1, where=np.ones((2, 3), bool) & False), "where="),
    (lambda x: np.sum(x, initial=3.0), "initial="),
    (lambda x: x.reshape(2, 3, order="F"), "order 'F'"),
    (lambda x: np.add.accumulate(x), "np.add.accumulate"),
    (lambda x: x[np.array([0]), np.array([1])], "several arrays"),
    (lambda x: x.__setitem__(x > 0, 0), "written through an array of indices"),
    (lambda x: (x[::-1], x.__setitem__(0, 1)), "written after a view that the graph copies"),
    (lambda x: np.add(x, 1, out=np.ones((2, 3))), "into a NumPy array"),
    (lambda x: x.astype(np.longdouble), "cannot be part of a graph"),
    (lambda x: x + np.ones(3, np.longdouble), "cannot be part of a graph"),
    (lambda x: object(), "returns an object of type object"),
    (lambda x: None, "returns an object of type NoneType"),
    (lambda x: [[x[0], x[1]][i] for i in x], "used as a Python number"),
    (lambda x: x.foo(), "has no 'foo' that can be traced"),
]
WRONG: list[tuple[Callable[..., Any], str]] = [
    (lambda x: x + np.ones((4, 5)), "do not broadcast: 2 against 4"),
    (lambda x: x.sum(axis=2), "axis 2 is out of bounds"),
    (lambda x: x.reshape(5), "cannot be reshaped"),
    (lambda x: x[5], "out of bounds for axis 0"),
    (lambda x: x[0, 0, 0], "3 indices"),
    (lambda x: x["a"], "index of type str"),
    (lambda x: x @ x, "inner dimensions differ: 3 against 2"),
    (lambda x: np.concatenate([x, x[0]]), r"shapes \(2, 3\), \(3,\) cannot be joined"),
    (lambda x: np.concatenate([[], x]), "cannot be joined along axis 0"),
    (lambda x: np.stack([x, x[0]]), r"shapes \(2, 3\), \(3,\) cannot be stacked"),
    (lambda x: np.einsum("ij,kj->iz", x, x), "or one that no array has"),
    (lambda x: np.einsum("ij->jj", x), "names an axis of the result twice"),
    (lambda x: x.squeeze(0), "cannot be squeezed"),
    (lambda x: np.broadcast_to(x[0], (2, 3))[1].fill(3), "that was broadcast is written"),
    (lambda x: x + "a", "type str is used as an array"),
    (lambda x: x.__setitem__(0, np.ones(5)), "does not fit|do not broadcast"),
    (lambda x: np.add(x.astype(np.int64), 0.5, out=x.astype(np.int64)), "same_kind"),
]


@pytest.mark.parametrize(("function", "what"), REFUSED, ids=[what for _, what in REFUSED])
def test_functions_that_need_the_elements_are_refused_with_the_line(function: Callable[..., Any], what: str) -> None:
    with pytest.raises(CaptureError) as caught:
        trace(function, (2, 3))
    assert re.search(what, caught.value.what)  # its text has the test's own line, too
    if "returns an object" not in what:
        assert f"{__file__}:{function.__code__.co_firstlineno}" in caught.value.where
        assert caught.value.hint


@pytest.mark.parametrize(("function", "what"), WRONG, ids=[what for _, what in WRONG])
def test_calls_that_numpy_refuses_are_refused_with_the_line(function: Callable[..., Any], what: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        trace(function, (2, 3))
    assert re.search(what, caught.value.what)
    assert f"{__file__}:{function.__code__.co_firstlineno}" in caught.value.where


@pytest.mark.parametrize(("arguments", "what"), [
    ((3.5,), "does not describe an array"), (("float99[2]",), "does not describe an array"),
    (("float32[a]",), "does not describe an array"),
    (((-1, 2),), "negative extent"), ((object(),), "does not describe an array"), ((), "cannot be called"),
    (((2,), (2,)), "cannot be called"), ((np.array(["a"]),), "cannot be part of a graph"),
    (("bfloat16[2]",), "NumPy has no element type"),
])  # fmt: skip
def test_wrong_descriptions(arguments: tuple[Any, ...], what: str) -> None:
    with pytest.raises(ArgumentError, match=what):
        trace(lambda x: x, *arguments)


def test_arrays_do_not_outlive_their_trace() -> None:
    kept = []
    trace(lambda x: kept.append(x) or x, (2,))  # type: ignore[func-returns-value]
    with pytest.raises(CaptureError, match="after the trace of its function has ended"):
        kept[0] + 1
    with pytest.raises(CaptureError, match=r"another trace|has ended"):
        trace(lambda x: x + kept[0], (2,))
    with pytest.raises(ArgumentError, match="takes a function"):
        trace("f", (2,))  # type: ignore[arg-type]


def test_a_function_that_calls_torch_says_how_to_load_it(torch: Any) -> None:
    with pytest.raises(CaptureError, match="torch's tanh") as caught:
        irs.trace(lambda x: torch.tanh(x), (3,))
    assert "irs.load(function, *tensors)" in str(caught.value)


def test_a_function_that_calls_jax_says_how_to_load_it() -> None:
    jax = pytest.importorskip("jax")
    for function in (lambda x: jax.nn.gelu(x), lambda x: jax.numpy.tanh(x)):
        with pytest.raises(CaptureError, match="JAX takes arrays of its own") as caught:
            irs.trace(function, (3,))
        assert "irs.load(jax.jit(function)" in str(caught.value) and "test_tracing.py" in str(caught.value)
    with pytest.raises(TypeError, match="unsupported operand"):
        irs.trace(lambda x: x + 1 + (1 + "a"), (3,))  # type: ignore[operator]


def test_float64_becomes_the_nearest_float16_in_one_rounding() -> None:
    """Numbers on, beside and near every middle between two float16: float32 cannot tell those from the middle."""
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float64)
    middles = np.append((halves[1:] + halves[:-1]) / 2, [65520, 2.0**-25])
    near = [middles * (1 + sign * 2.0**-power) for power in (24, 25, 30, 52) for sign in (-1, 1)]
    x = np.concatenate([halves, middles, *near, [np.inf, np.nan, 1e300, 5e-324]])
    x = np.concatenate([x, -x])
    with np.errstate(over="ignore"):
        wanted = x.astype(np.float16)
    graph = irs.trace(lambda x: x.astype(np.float16), x)
    for device in ("cpu", "reference"):
        found = irs.compile(irs.fuse(graph), device=device)(x)
        same = (found.view(np.uint16) == wanted.view(np.uint16)) | (np.isnan(found) & np.isnan(wanted))
        assert same.all(), (device, x[~same][:5], found[~same][:5], wanted[~same][:5])
