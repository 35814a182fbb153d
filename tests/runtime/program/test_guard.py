"""Calls with arguments like earlier ones take the fast path and give what the slow one gives; all others do not take it."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pytest

import irscope as irs
from irscope.errors import ArgumentError, RunError
from irscope.runtime.program.bound_program import BoundProgram, as_torch
from irscope.runtime.program.executable import Executable, compile_graph
from irscope.runtime.reference import run_reference
from tests.programs import ir, parsed
from tests.runtime.program.small_program import BODY, CHAIN, arrays, chain, loaded
from tests.work import calls_made

LIBRARIES = pytest.mark.parametrize("library", ["numpy", "torch"])

SEVERAL = ir("x w n:int s:float | a = mm x w; b = relu a; c = add b x n; d = mm c w; e = mul d s | e")


def compiled(*examples: Any, text: str = SEVERAL) -> Executable:
    return irs.compile(irs.fuse(irs.load(text, *examples)))


def expected(x: Any, w: Any, n: int, s: float) -> Any:
    x, w = np.asarray(x), np.asarray(w)
    return (np.maximum(x @ w, 0) + n * x) @ w * s


def square(size: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(size=(size, size)).astype(np.float32)


def converted(library: str, *arguments: Any) -> tuple[Any, ...]:
    if library == "torch":
        pytest.importorskip("torch")
        return tuple(as_torch(list(arguments)))
    return arguments


def is_known(run: Executable, *arguments: Any) -> bool:
    """Whether the function of the last signature takes these arguments."""
    others = object()
    return run._calls.last(arguments, lambda given: others) is not others


@pytest.fixture
def moved(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Gets one entry for each run the long way."""
    runs: list[int] = []
    long = BoundProgram.run

    def run(self: BoundProgram, *rest: Any, **named: Any) -> Any:
        runs.append(1)
        return long(self, *rest, **named)

    monkeypatch.setattr(BoundProgram, "run", run)
    return runs


@LIBRARIES
def test_arguments_like_earlier_ones_go_the_short_way(library: str, moved: list[int]) -> None:
    run = compiled()
    for seed in range(6):
        x, w, n, s = converted(library, square(3, seed), square(3, seed + 1), seed, seed + 0.5)
        np.testing.assert_allclose(np.asarray(run(x, w, n, s)), expected(x, w, n, s), rtol=1e-4, atol=1e-4)
    assert len(moved) == 2


@LIBRARIES
@pytest.mark.parametrize("wrong", ["few", "many", "type", "truth", "shape", "number", "nothing"])
def test_wrong_ones_are_refused_as_ever(library: str, wrong: str) -> None:
    x, w = converted(library, square(4), square(4, 1))
    run = compiled(x, w, 2, 0.5)
    for _ in range(3):
        run(x, w, 2, 0.5)
    bad: dict[str, tuple[Any, ...]] = {
        "few": (x, w, 2), "many": (x, w, 2, 0.5, 1), "type": (x, w, 2.5, 0.5), "truth": (x, w, True, 0.5), "shape": (x[:2], w, 2, 0.5),
        "number": (1, w, 2, 0.5), "nothing": (x, None, 2, 0.5),
    }  # fmt: skip
    for _ in range(3):
        with pytest.raises(ArgumentError):
            run(*bad[wrong])
    np.testing.assert_allclose(np.asarray(run(x, w, 2, 0.5)), expected(x, w, 2, 0.5), rtol=1e-4, atol=1e-4)


def test_an_argument_that_the_program_turns_is_known_as_it_came(torch: Any) -> None:
    text = ir("x | i = 0; j = 1; y = transpose_ x i j; z = mm x x | z y")
    run = irs.compile(irs.parse(text))
    for _ in range(5):
        x = torch.tensor([[1.0, 2.0], [3.0, 4.0]]).t()
        z, y = run(x)
        assert y is x
        assert x.stride() == (2, 1)
        assert torch.equal(z, torch.tensor([[7.0, 10.0], [15.0, 22.0]]))
    assert is_known(run, torch.zeros(2, 2).t())
    assert not is_known(run, torch.zeros(2, 2))


@LIBRARIES
def test_one_array_may_come_twice_and_nested_ones_as_their_parts(library: str) -> None:
    text = SEVERAL.replace("%s : float", "%s : float, %u : Tensor").replace("return (%e)", "return (%e, %u)")
    run = compiled(text=text)
    (x,) = converted(library, square(4))
    for _ in range(4):
        found, same = run(x, x, 1, 2.0, x)
        np.testing.assert_allclose(np.asarray(found), expected(x, x, 1, 2.0), rtol=1e-4, atol=1e-4)
        assert same is x
        found, same = run([x, [x, 1]], 2.0, x)
        np.testing.assert_allclose(np.asarray(found), expected(x, x, 1, 2.0), rtol=1e-4, atol=1e-4)


class Pair(tuple[Any, Any]):
    """A tuple that is made of two values, not of one sequence."""

    def __new__(cls, first: Any, second: Any) -> Pair:
        return super().__new__(cls, (first, second))


class Named(NamedTuple):
    first: Any
    second: Any


@pytest.mark.parametrize("kind", [Pair, Named, lambda first, second: (first, second)])
def test_a_tuple_of_any_class_is_an_argument(kind: Callable[[Any, Any], Any]) -> None:
    text = ir("p:(Tensor, Tensor) | a b = TupleUnpack p; c = sub a b | c")
    given, graph = kind(np.float32([3, 4]), np.float32([1, 1])), irs.parse(text)
    np.testing.assert_array_equal(irs.compile(graph)(given), [2, 3])
    np.testing.assert_array_equal(run_reference(graph, given)[0], [2, 3])


def test_many_threads_call_with_arguments_of_their_own() -> None:
    """They compile, find and run functions and kernels of several layouts, of one program each way."""
    run, one = compiled(), compile_graph(irs.fuse(irs.parse(CHAIN)))

    def work(number: int) -> None:
        for turn in range(40):
            size = 2 + (number + turn // 7) % 3
            x, w = square(size, turn), square(size, turn + 1)
            np.testing.assert_allclose(run(x, w, turn, 0.5), expected(x, w, turn, 0.5), rtol=1e-3, atol=1e-3)
            np.testing.assert_allclose(one(x, w), chain(x, w), rtol=1e-5, atol=1e-6)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))


def test_the_second_call_does_far_less() -> None:
    x, y = arrays((8,), (8,))
    run = loaded(CHAIN, x, y)
    run(x, y)
    run(x, y)
    short, long = calls_made(lambda: run(x, y)), calls_made(lambda: run.run((x, y)))
    assert short <= 30
    assert short < long / 2


@pytest.mark.parametrize(
    ("head", "tail", "wanted"),
    [
        ("%y : Tensor, %x : Tensor", "%c", lambda y, x: chain(x, y)),
        ("%z : Tensor, %x : Tensor, %y : Tensor", "%c, %a", lambda z, x, y: (chain(x, y), np.maximum(x, 0))),
        ("%x : Tensor, %y : Tensor", "%a, %c, %a", lambda x, y: (np.maximum(x, 0), chain(x, y), np.maximum(x, 0))),
    ],
    ids=["swapped", "unused first", "one result twice"],
)
def test_operands_and_results_keep_their_places(head: str, tail: str, wanted: Any) -> None:
    arguments = [array + index for index, array in enumerate(arrays(*[(5, 3)] * head.count(":")))]
    run = loaded(f"graph({head}):\n{BODY}  return ({tail})\n", *arguments)
    for _ in range(3):
        np.testing.assert_allclose(run(*arguments), wanted(*arguments), rtol=1e-6)


def test_each_call_gets_memory_of_its_own() -> None:
    for shape in ((4,), (300, 1000)):
        x, y = arrays(shape, shape)
        run = loaded(CHAIN, x, y)
        results = [run(x * scale, y) for scale in (np.float32(1), np.float32(2), np.float32(3))]
        for scale, result in enumerate(results, 1):
            np.testing.assert_allclose(result, chain(x * np.float32(scale), y), rtol=1e-5)


@LIBRARIES
def test_layouts_of_an_unknown_program_are_distinguished(library: str) -> None:
    x, y = arrays((6, 6), (6, 6))
    run = compile_graph(irs.fuse(irs.parse(CHAIN)))
    unaligned = np.frombuffer(b"\0" + x.tobytes(), np.float32, 36, 1).reshape(6, 6)
    layouts = [
        x, x.T, x[::2, ::2].repeat(2, 0).repeat(2, 1), x.repeat(2, 1)[:, ::2], np.asfortranarray(x), x.astype(np.float64), x[:1].copy(),
        *([x[::-1], np.broadcast_to(x[0], (6, 6)), unaligned] if library == "numpy" else []),
    ]  # fmt: skip
    for _ in range(3):
        for layout in layouts:
            (argument, other) = converted(library, layout, y)
            np.testing.assert_allclose(np.asarray(run(argument, other)), chain(layout, y), rtol=1e-6)
    for size in range(300):
        a, b = arrays((size,), (size,))
        np.testing.assert_allclose(np.asarray(run(*converted(library, a, b))), chain(a, b), rtol=1e-6)


def test_an_element_type_that_pickle_has_made_is_known() -> None:
    """It equals NumPy's own, and is another object."""
    run, x, w = compiled(), square(4), square(4, 1)
    other = pickle.loads(pickle.dumps(x))
    for _ in range(3):
        run(x, w, 2, 0.5)
    assert is_known(run, other, w, 2, 0.5) and not is_known(run, other.astype(np.float64), w, 2, 0.5)


def test_torch_and_numpy_take_turns() -> None:
    pair, numbers = arrays((7,), (7,)), (square(3), square(3, 1), 2, 0.5)
    one, several = loaded(CHAIN, *pair), compiled()
    for turn in range(12):
        library = "torch" if turn // 3 % 2 else "numpy"
        for run, arguments, wanted in ((one, pair, chain(*pair)), (several, numbers, expected(*numbers))):
            chosen = converted(library, *arguments)
            found = run(*chosen)
            assert type(found) is type(chosen[0])
            np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-4, atol=1e-4)
    assert type(one(converted("torch", pair[0])[0], pair[1])) is not np.ndarray, "one of torch's is enough"


def test_results_without_gradients_and_large_ones_are_ordinary_tensors(torch: Any) -> None:
    x = torch.rand(2200, 1000, requires_grad=True).detach()
    run = compile_graph(irs.fuse(irs.parse(CHAIN)))
    for dtype in (torch.float32, torch.bfloat16):
        given = x.to(dtype)
        for _ in range(2):
            result = run(given, given)
            assert not result.requires_grad
            assert (result.dtype, result.shape, result.stride()) == (dtype, given.shape, given.stride())
        assert torch.allclose(result.float(), torch.tanh(given.relu() * given).float(), atol=1e-2)
    assert run.pool is not None
    kept = run.pool.free_bytes
    del result
    assert run.pool.free_bytes >= kept + 2 * x.numel(), "the memory came back"


def test_a_program_that_resizes_its_tensors_has_torchs_own_memory(torch: Any) -> None:
    text = f"""graph(%x : Tensor, %y : Tensor, %size : int[]):
{BODY}
  %d : Tensor = aten::resize_(%c, %size, %none)
  return (%d)
""".replace("  %d :", "  %none : NoneType = prim::Constant()\n  %d :")
    run = compile_graph(irs.fuse(irs.parse(text)))
    x = torch.rand(1200, 1000)
    assert run(x, x, [1300, 1000]).shape == (1300, 1000)


@pytest.mark.parametrize("guards", [True, False])
def test_the_short_way_is_used_in_every_mode_of_torch(guards: bool, monkeypatch: pytest.MonkeyPatch, torch: Any) -> None:
    if not guards:
        monkeypatch.setattr("irscope.runtime.arrays.torch.torch_guards", lambda torch: None)
    x, y = (torch.from_numpy(array) for array in arrays((8,), (8,)))
    run = loaded(CHAIN, x, y)
    run(x, y)
    assert run.is_direct
    wanted = torch.tanh(torch.relu(x) * y)
    for mode in (torch.no_grad(), torch.inference_mode(), torch.enable_grad(), torch.autocast("cpu")):
        with mode:
            torch.testing.assert_close(run(x, y), wanted)
            assert is_known(run, x, y)
    assert not is_known(run, x, y.double())
    assert not is_known(run, x[:4], y)


def test_a_number_may_be_a_tensor_in_one_call_and_a_number_in_the_next(torch: Any) -> None:
    graph = parsed("x s:Scalar | a = mul x s; b = tanh a | b", "Float(3)")
    run, x = irs.compile(irs.fuse(graph)), torch.rand(3)
    for number in (2, np.float64(2.0), 2, torch.tensor(2.0), 2.0, 3):
        torch.testing.assert_close(run(x, number), torch.tanh(x * float(number)))


@LIBRARIES
def test_a_program_of_one_group_knows_calls_with_numbers_and_refuses_those_too_large(library: str, moved: list[int]) -> None:
    run = irs.compile(irs.fuse(irs.parse(CHAIN.replace("%y : Tensor", "%y : int"))))
    (x,) = converted(library, arrays((5,))[0])
    for number in (2, 3, 4, 5):
        np.testing.assert_allclose(np.asarray(run(x, number)), chain(np.asarray(x), number), rtol=1e-6)
    assert len(moved) == 2
    with pytest.raises(RunError, match="FusionGroup failed"):
        run(x, 10**30)
    np.testing.assert_allclose(np.asarray(run(x, 2)), chain(np.asarray(x), 2), rtol=1e-6)
