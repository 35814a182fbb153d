"""Models that are switched between training and evaluation after they were captured: the program says so, and stays what it is."""

import gc
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import irscope as irs  # noqa: E402

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
    model, x = nn.Sequential(nn.Linear(4, 4), nn.GELU()), torch.rand(2, 4)
    graph = irs.load(model, x)
    assert graph.modes is None
    run = irs.compile(irs.fuse(graph))
    model.eval()
    assert told(run, x) == []


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
