"""After an interrupt at any moment everything is as it was: what the process shares is unchanged, and the same work succeeds."""

from __future__ import annotations

import gc
import logging
import random
import signal
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import irscope as irs

pytest.importorskip("llvmlite")

from tests.oracles.counts import Counts
from tests.oracles.interrupter import Interrupter

if sys.platform == "win32":
    pytest.skip("signals are told as POSIX has them", allow_module_level=True)

TEXT = """graph(%x : Float(6, 4, strides=[4, 1]), %y : Float(6, 4, strides=[4, 1])):
  %one : int = prim::Constant[value=1]()
  %none : NoneType = prim::Constant()
  %a : Tensor = aten::mul(%x, %y)
  %b : Tensor = aten::tanh(%a)
  %c : Tensor = aten::cumsum(%b, %one, %none)
  %d : Tensor = aten::add(%c, %y, %one)
  %e : Tensor = aten::sigmoid(%d)
  return (%e)
"""

Work = Callable[[], object]
X = np.linspace(-1, 1, 24, dtype=np.float32).reshape(6, 4)


def shared_state() -> dict[str, object]:
    """What all code of a process shares, and an interrupted call might leave behind."""
    state: dict[str, object] = {
        "collector": gc.isenabled(),
        "warnings": list(warnings.filters),
        "streams": (sys.stdout, sys.stderr),
        "floating point": np.geterr(),
        "recursion": sys.getrecursionlimit(),
        "handler": signal.getsignal(signal.SIGINT),
        "trace": sys.gettrace(),
        "threads": sorted(t.name for t in threading.enumerate() if t.name.startswith("irscope-compile")),
        "silent": [name for name, log in logging.root.manager.loggerDict.items() if getattr(log, "disabled", False)],
        "level": logging.root.manager.disable,
    }
    torch = sys.modules.get("torch")
    if torch is not None:
        state |= {
            "gradients": torch.is_grad_enabled(),
            "inference": torch.is_inference_mode_enabled(),
            "dtype": torch.get_default_dtype(),
            "autocast": torch.is_autocast_enabled("cpu"),
            "team": torch.get_num_threads(),
            "modes": torch._C._len_torch_function_stack(),
            "dispatch": torch._C._len_torch_dispatch_stack(),
            "deterministic": torch.are_deterministic_algorithms_enabled(),
        }
    return state


def parsed_and_fused() -> Work:
    return lambda: irs.fuse(irs.parse(TEXT)).graph


def called(given: Callable[[], Any]) -> Work:
    run, x = irs.compile(irs.fuse(irs.parse(TEXT))), given()
    for _ in range(4):
        run(x, x)
    return lambda: run(x, x)


def called_first(given: Callable[[], Any]) -> Work:
    fusion, x = irs.fuse(irs.parse(TEXT.replace("strides=[4, 1]", "requires_grad=0"))), given()
    return lambda: irs.compile(fusion)(x, x)


def referred() -> Work:
    run = irs.compile(irs.parse(TEXT), device="reference")
    return lambda: run(X, X)


def called_in_a_mode() -> Work:
    """Under a mode even the switch of torch's gradients runs Python."""
    work = called(tensors)
    sys.modules["torch"].set_default_device("cpu")
    return work


def compared() -> Work:
    graph, x = irs.parse(TEXT.replace("aten::tanh", "aten::tanh_")), X.copy()

    def work() -> object:
        found = irs.compare(graph, x, x, repeats=1)
        assert (x == X).all()
        return [row.label for row in found.rows]

    return work


def captured() -> Work:
    torch = pytest.importorskip("torch")
    x = torch.ones(3)
    return lambda: irs.load(lambda x: torch.tanh(x) * 2, x, name="captured")


def tensors() -> Any:
    return pytest.importorskip("torch").from_numpy(X.copy())


WORKS: dict[str, Callable[[], Work]] = {
    "parse and fuse": parsed_and_fused,
    "call, NumPy": lambda: called(lambda: X),
    "call, torch": lambda: called(tensors),
    "call in a mode of torch's": called_in_a_mode,
    "compile and call": lambda: called_first(lambda: X),
    "compile and call, torch": lambda: called_first(tensors),
    "reference": referred,
    "compare": compared,
    "capture": captured,
}


@pytest.fixture(autouse=True)
def ctrl_c() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
    if "torch" in sys.modules:
        sys.modules["torch"].set_default_device(None)


def survives(name: str, seconds: float) -> Counts:
    """Interrupts a work at each of its moments, in an order that chance makes, for so long at most."""
    work, interrupter = WORKS[name](), Interrupter()
    right = str(work())
    work()
    before, heard, most = shared_state(), 0, interrupter.moments(work)
    end = time.monotonic() + seconds
    for moment in random.Random(0).sample(range(1, most + 1), most):
        if heard and time.monotonic() > end:
            break
        heard += interrupter.run(work, moment)
        after = shared_state()
        assert after == before, f"moment {moment} of {most}: {[key for key in before if before[key] != after[key]]}"
        assert str(work()) == right, f"moment {moment} of {most}"
    assert heard, "nothing was interrupted"
    return Counts("interrupts", Counter(passed=heard))


@pytest.mark.parametrize("name", WORKS)
def test_an_interrupt_leaves_nothing_behind(name: str, tell: Callable[[Counts], None]) -> None:
    tell(survives(name, 1.0))


@pytest.mark.long
@pytest.mark.filterwarnings(  # Python itself drops an interrupt that comes while it takes a dead object out of a set, and says so
    "ignore:Exception ignored in. <function WeakSet.__init__.<locals>._remove:pytest.PytestUnraisableExceptionWarning"
)
@pytest.mark.parametrize("name", WORKS)
def test_no_interrupt_leaves_anything_behind(name: str, tell: Callable[[Counts], None]) -> None:
    tell(survives(name, 400.0))
