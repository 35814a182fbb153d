"""Models of transformers with random weights, exported and traced: loaded, aliased, fused, deduplicated, compiled, run."""

import logging
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("llvmlite")
pytest.importorskip("transformers")

import irscope as irs  # noqa: E402
from irscope.runtime.device import ObjectStore  # noqa: E402
from irscope.runtime.program.executable import compile_graph  # noqa: E402
from tests.oracles.architectures import ARCHITECTURES, Architecture, make  # noqa: E402
from tests.oracles.counts import Counts, outcome  # noqa: E402
from tests.oracles.judge import Call, fresh, seen  # noqa: E402

IN_SUITE = ("BERT", "GPT-2", "Swin", "ConvNeXt")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """One thread, and none of the warnings that models of others give."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    logging.getLogger("transformers").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    torch.set_num_threads(before)


def captured(model: Any, arguments: list[Any], way: str) -> Any:
    """What torch makes of the model."""
    if way == "export":
        return torch.export.export(model, tuple(fresh(arguments)), strict=False)
    return torch.jit.trace(model, tuple(fresh(arguments)), check_trace=False)


def judge(architecture: Architecture, found: Counts) -> None:
    model, arguments = make(architecture)
    call = Call(model, list(arguments))
    for way in ("export", "trace"):
        name = f"{architecture.name} by {way}"
        try:
            with torch.no_grad():
                source = captured(model, list(arguments), way)
        except Exception as error:
            found.add("torch", outcome(error)[1], name)
            continue
        try:
            complaint = whole_path(source, call)
        except Exception as error:
            found.add(*outcome(error), name)
        else:
            found.add("wrong" if complaint else "passed", complaint, name)


def whole_path(source: Any, call: Call) -> str:
    """What the compiled program does otherwise than the model, in two calls; and that each analysis has an answer."""
    graph = irs.load(source, *call.arguments)
    irs.verify(graph)
    db = irs.AliasDb(graph)
    first = next(node for node in graph.nodes() if node.outputs)
    assert db.explain(first.outputs[0], first.outputs[0]).because
    fusion = irs.fuse(graph)
    assert fusion.groups
    merged = irs.dedup(fusion)
    assert 0 < len(merged.classes) <= len(fusion.groups)
    executable = compile_graph(fusion, "cpu", store=ObjectStore(None))
    first_call, second_call = (seen(executable, fresh(call.arguments)) for _ in range(2))
    return call.complaint(first_call) or call.complaint(second_call)


MODELS = [pytest.param(a, marks=() if a.name in IN_SUITE else pytest.mark.long, id=a.name) for a in ARCHITECTURES]


@pytest.mark.parametrize("architecture", MODELS)
def test_a_model(architecture: Architecture, tell: Callable[[Counts], None]) -> None:
    found = Counts("architectures")
    judge(architecture, found)
    tell(found)
    found.assert_sound(most_refused=0)
    assert found.ways["passed"] >= (2 if architecture.name in IN_SUITE else 1)
