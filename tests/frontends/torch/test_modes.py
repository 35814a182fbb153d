"""Models that are switched between training and evaluation after they were captured: the program says so, and stays what it is."""

import copy
import gc
import signal
import sys
import threading
import warnings
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import irscope as irs
from irscope.frontends.torch.capture import CAPTURE_LOCK

torch = pytest.importorskip("torch")


nn = torch.nn


def net() -> Any:
    return nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Tanh(), nn.Dropout(0.5)))


def told(run: Callable[..., Any], x: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(x)
    return [str(warning.message) for warning in caught]


@pytest.mark.parametrize("made", [lambda model: model, torch.jit.script], ids=["exported", "scripted"])
@pytest.mark.parametrize("training", [True, False])
def test_switching_a_model_warns_once_per_switch(training: bool, made: Callable[[Any], Any]) -> None:
    model, x = made(net().train(training)), torch.rand(64, 4)
    run = irs.compile(model, x)
    assert [told(run, x) for _ in range(4)] == [[]] * 4
    model.train(not training)
    (said,) = told(run, x)
    before, after = ("training", "evaluation") if training else ("evaluation", "training")
    assert f"'1.1' of the model was captured in {before} mode and is in {after} mode now" in said
    assert told(run, x) == []
    assert bool((run(x) == 0).float().mean() > 0.3) is training, "it computes as it was captured"
    model.train(training)
    assert told(run, x) == []
    getattr(getattr(model, "1"), "1").train(not training)
    assert len(told(run, x)) == 1


def test_modes_without_effect_are_not_watched() -> None:
    model, x = nn.Sequential(nn.Softmax(-1), nn.GELU()), torch.rand(2, 4)
    graph = irs.load(model, x)
    assert graph.modes is None
    run = irs.compile(irs.fuse(graph))
    model.eval()
    assert told(run, x) == []


@pytest.mark.parametrize(
    ("replacing", "name"),
    [
        (lambda model: model.load_state_dict({k: v * 2 for k, v in model.state_dict().items()}, assign=True), "0.weight"),
        (lambda model: setattr(model[1][0], "bias", nn.Parameter(torch.ones(4))), "1.0.bias"),
        (lambda model: model.double().float(), "1.1.running_mean"),
    ],
)
def test_tensors_that_a_model_replaces_are_named_once(replacing: Callable[[Any], object], name: str) -> None:
    model, x = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))).eval(), torch.rand(8, 4)
    run = irs.compile(model, x)
    before = run(x)
    with torch.no_grad():
        model[0].weight.mul_(2)  # a write counts, and is no replacement
    assert told(run, x) == []
    torch.testing.assert_close(run(x), model(x))
    with torch.no_grad():
        model[0].weight.div_(2)
    replacing(model)
    (said,) = told(run, x)
    assert said.startswith(f"{name} of the model is another tensor than the one that was captured")
    assert told(run, x) == []
    torch.testing.assert_close(run(x), before)


def test_modules_behind_functions_and_methods_are_watched() -> None:
    model, x = net(), torch.rand(2, 4)
    for source, path in ((lambda v: model(v) + 1, "model.1.1"), (model.forward, "1.1")):
        model.train()
        run = irs.compile(source, x)
        model.eval()
        assert [path in said for said in told(run, x)] == [True]


def test_own_code_that_reads_its_mode_is_watched() -> None:
    class Own(nn.Module):
        def forward(self, x: Any) -> Any:
            return x * 2 if self.training else x

    model, x = Own(), torch.rand(3)
    run = irs.compile(irs.fuse(irs.load(model, x)))
    model.eval()
    (said,) = told(run, x)
    assert said.startswith("the model was captured in training mode")
    assert torch.equal(run(x), x * 2)


def test_watching_modes_keeps_no_model_alive() -> None:
    model, x = net(), torch.rand(2, 4)
    run = irs.compile(model, x)
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None
    assert told(run, x) == []


# --- Captures on several threads: each alone, no matter whose model it is.


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
    assert all(a is b[0].weight for a, b in zip(weights, models, strict=True))
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
