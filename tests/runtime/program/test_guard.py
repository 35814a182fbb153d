"""The short way into a program: taken for arguments like earlier ones, and for no others."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.errors import ArgumentError
from irscope.runtime.program.bound_program import BoundProgram, as_torch
from irscope.runtime.program.executable import Executable
from irscope.runtime.program.guard import MISSED

LIBRARIES = pytest.mark.parametrize("library", ["numpy", pytest.param("torch", marks=pytest.mark.torch)])

TEXT = """graph(%x : Tensor, %w : Tensor, %n : int, %s : float):
  %a : Tensor = aten::mm(%x, %w)
  %b : Tensor = aten::relu(%a)
  %c : Tensor = aten::add(%b, %x, %n)
  %d : Tensor = aten::mm(%c, %w)
  %e : Tensor = aten::mul(%d, %s)
  return (%e)
"""


def compiled(*examples: Any, text: str = TEXT) -> Executable:
    return irs.compile(irs.fuse(irs.load(text, *examples)))


def expected(x: Any, w: Any, n: int, s: float) -> Any:
    x, w = np.asarray(x), np.asarray(w)
    return (np.maximum(x @ w, 0) + n * x) @ w * s


def square(size: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(size=(size, size)).astype(np.float32)


def given(library: str, *arguments: Any) -> tuple[Any, ...]:
    if library == "torch":
        pytest.importorskip("torch")
        return tuple(as_torch(list(arguments)))
    return arguments


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
        x, w, n, s = given(library, square(3, seed), square(3, seed + 1), seed, seed + 0.5)
        np.testing.assert_allclose(np.asarray(run(x, w, n, s)), expected(x, w, n, s), rtol=1e-4, atol=1e-4)
    assert len(moved) == 2


@LIBRARIES
def test_others_go_the_long_way(library: str, moved: list[int]) -> None:
    run = compiled()
    x, w = given(library, square(4), square(4, 1))
    for _ in range(3):
        run(x, w, 2, 0.5)
    moved.clear()
    run(x, w, 2, 0.5)
    assert not moved
    wide = given(library, square(4).astype(np.float64), square(4, 1).astype(np.float64))
    for other in ((x, w, 2, 1), (x.T, w, 2, 0.5), (*wide, 2, 0.5)):
        run(x, w, 2, 0.5)
        before = len(moved)
        found = run(*other)
        assert len(moved) == before + 1
        np.testing.assert_allclose(np.asarray(found), expected(*other), rtol=1e-4, atol=1e-4)


@LIBRARIES
@pytest.mark.parametrize("wrong", ["few", "many", "type", "truth", "shape", "number", "nothing"])
def test_wrong_ones_are_refused_as_ever(library: str, wrong: str) -> None:
    x, w = given(library, square(4), square(4, 1))
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


@pytest.mark.torch
def test_an_argument_that_the_program_turns_is_known_as_it_came() -> None:
    torch = pytest.importorskip("torch")
    text = """graph(%x : Tensor):
      %i : int = prim::Constant[value=0]()
      %j : int = prim::Constant[value=1]()
      %y : Tensor = aten::transpose_(%x, %i, %j)
      %z : Tensor = aten::mm(%x, %x)
      return (%z, %y)
    """
    run = irs.compile(irs.parse(text))
    for _ in range(5):
        x = torch.tensor([[1.0, 2.0], [3.0, 4.0]]).t()
        z, y = run(x)
        assert y is x
        assert x.stride() == (2, 1)
        assert torch.equal(z, torch.tensor([[7.0, 10.0], [15.0, 22.0]]))
    assert run._calls.quick((torch.zeros(2, 2).t(),)) is not MISSED
    assert run._calls.quick((torch.zeros(2, 2),)) is MISSED


@LIBRARIES
def test_one_array_may_come_twice_and_nested_ones_as_their_parts(library: str) -> None:
    text = TEXT.replace("%s : float", "%s : float, %u : Tensor").replace("return (%e)", "return (%e, %u)")
    run = compiled(text=text)
    (x,) = given(library, square(4))
    for _ in range(4):
        found, same = run(x, x, 1, 2.0, x)
        np.testing.assert_allclose(np.asarray(found), expected(x, x, 1, 2.0), rtol=1e-4, atol=1e-4)
        assert same is x
        found, same = run([x, [x, 1]], 2.0, x)
        np.testing.assert_allclose(np.asarray(found), expected(x, x, 1, 2.0), rtol=1e-4, atol=1e-4)


@pytest.mark.torch
def test_torch_and_numpy_take_turns() -> None:
    run = compiled()
    arrays = (square(3), square(3, 1), 2, 0.5)
    tensors = given("torch", *arrays)
    for turn in range(12):
        chosen = tensors if turn // 3 % 2 else arrays
        found = run(*chosen)
        assert type(found) is type(chosen[0])
        np.testing.assert_allclose(np.asarray(found), expected(*arrays), rtol=1e-4, atol=1e-4)


def test_many_threads_call_with_arguments_of_their_own() -> None:
    run, wrong = compiled(), list[str]()

    def work(size: int) -> None:
        for turn in range(40):
            x, w = square(size, turn), square(size, turn + 1)
            try:
                np.testing.assert_allclose(run(x, w, turn, 0.5), expected(x, w, turn, 0.5), rtol=1e-3, atol=1e-3)
            except Exception as error:
                wrong.append(repr(error))

    threads = [threading.Thread(target=work, args=(2 + number % 3,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong[0]
