"""Ctrl-C during a compilation, a call or an exploration ends it, and everything works when asked again."""

import _thread
import threading
from collections.abc import Callable

import numpy as np
import pytest

import irscope as irs
from irscope.runtime.device import ObjectStore
from irscope.runtime.program.executable import Executable, compile_graph

pytest.importorskip("llvmlite")
pytestmark = [
    pytest.mark.usefixtures("ctrl_c"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]  # Python drops an interrupt in __del__

X = np.linspace(-1, 1, 1 << 18, dtype=np.float32).reshape(512, 512)
CHAIN = "".join(f"  %v{n + 1} : Tensor = aten::{('tanh', 'sigmoid', 'relu')[n % 3]}(%v{n})\n" for n in range(200))


def program(scale: float) -> irs.Fusion:
    """A product, a sum along rows and a chain of 200 ops; another `scale` needs other kernels."""
    return irs.fuse(
        irs.parse(f"""graph(%x : Float(512, 512, strides=[512, 1])):
  %k : float = prim::Constant[value={scale}]()
  %one : int = prim::Constant[value=1]()
  %none : NoneType = prim::Constant()
  %a : Tensor = aten::mul(%x, %k)
  %b : Tensor = aten::tanh(%a)
  %v0 : Tensor = aten::cumsum(%b, %one, %none)
{CHAIN}  return (%v200)
""")
    )


def compiled(scale: float) -> Executable:
    return compile_graph(program(scale), share_kernels=False, store=ObjectStore(None))


def interrupt(work: Callable[[], object], seconds: float) -> None:
    """Repeat work until Ctrl-C, pressed after some seconds, ends it.

    It is pressed again only when work returned all the same, where Python dropped it: never twice in one call, nor after the end."""

    def repeat() -> None:
        while True:
            presser = threading.Timer(seconds, _thread.interrupt_main)
            presser.start()
            while presser.is_alive():
                work()

    with pytest.raises(KeyboardInterrupt):
        repeat()


def test_during_a_compilation() -> None:
    for trial, seconds in enumerate((0.01, 0.05, 0.1, 0.2)):
        interrupt(lambda scale=trial + 1.5: compiled(scale), seconds)
        assert compiled(trial + 1.5)(X).shape == X.shape


def test_during_a_call() -> None:
    run = compiled(0.5)
    expected = run(X)
    for seconds in (0.001, 0.003, 0.01, 0.03):
        interrupt(lambda: run(X), seconds)
        np.testing.assert_array_equal(run(X), expected)


def test_during_an_exploration() -> None:
    pytest.importorskip("anywidget")
    graph = program(0.5).original
    expected = repr(irs.explore(graph))
    for seconds in (0.01, 0.1, 0.2, 0.4):
        interrupt(lambda: irs.explore(graph), seconds)
        assert repr(irs.explore(graph)) == expected
