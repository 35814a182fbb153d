"""Captures on several threads: each alone, no matter whose model it is."""

import copy
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import irscope as irs
from irscope.frontends.torch.capture import CAPTURE_LOCK

torch = pytest.importorskip("torch")


def model() -> Any:
    return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU()).eval()


def counted(x):
    return x + 1 if int(x.sum()) > 0 else x  # torch.export refuses it, torch.jit.script takes it


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("shared", [True, False], ids=["one model", "a model each"])
def test_loading_in_threads_does_not_change_the_models(shared: bool) -> None:
    first, x = model(), torch.randn(4, 8)
    models = [first if shared else copy.deepcopy(first) for _ in range(4)]
    wanted, weights = first(x), [each[0].weight for each in models]

    def load(place: int) -> None:
        for turn in range(3):
            if (place + turn) % 3 == 2:
                graph = irs.load(models[place], x, backward=True, loss=torch.nn.functional.mse_loss, targets=(x,))
                assert graph.gradients
            else:
                torch.testing.assert_close(irs.compile(irs.load(models[place], x))(x), wanted)
            assert irs.load(counted, x.abs()).outputs

    streams = sys.stdout, sys.stderr
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(load, range(4)))
    assert (sys.stdout, sys.stderr) == streams
    assert [each[0].weight for each in models] == weights or all(a is b[0].weight for a, b in zip(weights, models, strict=True))
    assert type(first(x)) is torch.Tensor and torch.equal(first(x), wanted)


@pytest.mark.skipif(sys.platform == "win32", reason="no timers there")
def test_ctrl_c_ends_the_wait_for_another_thread() -> None:
    inside, go = threading.Event(), threading.Event()

    def hold() -> None:
        with CAPTURE_LOCK:
            inside.set()
            go.wait(20)

    holder = threading.Thread(target=hold)
    holder.start()
    inside.wait(20)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt):
            irs.load(model(), torch.randn(4, 8))
    finally:
        signal.signal(signal.SIGALRM, before)
        go.set()
        holder.join()
    assert irs.load(model(), torch.randn(4, 8)).outputs
