"""On real models we never give up more than torch's alias db does, except where it is wrong, or knows what no text tells.

Ten thousand pairs of names a model are asked of both; `judge` says what may differ.
"""

from typing import Any

import pytest

from tests.programs import ir

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.analysis.alias.judge import compared  # noqa: E402
from tests.analysis.alias.real_models import MODELS  # noqa: E402

PAIRS = 10_000
OCCURS = {"greedy_decoder": ("torch is wrong", 500), "lstm": ("more precise", 3000), "bert": ("what modules hold", 100)}
"""Each kind of disagreement, and in how many pairs of which model at least."""


@pytest.mark.parametrize("model", MODELS)
def test_no_answer_about_a_real_model_gives_up_more_than_torchs(model: str) -> None:
    found = compared(MODELS[model](), PAIRS)
    assert found.unexplained == [] and found.pairs.total() == PAIRS
    kind, least = OCCURS.get(model, ("the same", 1))
    assert found.pairs[kind] >= least


def test_an_answer_that_gives_up_more_is_noticed() -> None:
    """Two fresh tensors, one of which we are made to take for unknown memory: an op that torch knows and we do not."""
    graph = torch._C.parse_ir(ir("x | a = neg x; b = neg x | a b"))
    assert compared(graph, 100).unexplained == []

    class Renamed:
        """The same graph with a text that says less."""

        def __getattr__(self, name: str) -> Any:
            return getattr(graph, name)

        def __str__(self) -> str:
            return str(graph).replace("aten::neg", "my::op")

    assert compared(Renamed(), 100).unexplained
