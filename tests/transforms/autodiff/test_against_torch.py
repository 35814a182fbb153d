"""The subgraphs of real models against torch's own pass on the same graphs: every difference has a known reason.

What torch puts into subgraphs and we leave out can require no gradient (position numbers and masks); torch's pass does
not look. What we leave out of aliases and keep the order of prints for, torch's db does not know of.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.programs import ir

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from torch import nn  # noqa: E402

import irscope as irs  # noqa: E402
from irscope.transforms.autodiff import AutodiffSubgraphs, autodiff_subgraphs  # noqa: E402
from tests.analysis.alias import real_models  # noqa: E402


def mlp() -> Any:
    layers = [nn.Linear(8, 16), nn.ReLU(), nn.Dropout(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 4), nn.Softmax(-1)]
    return torch.jit.script(nn.Sequential(*layers)).inlined_graph


def lstm_cell() -> Any:
    def cell(x: torch.Tensor, h: torch.Tensor, c: torch.Tensor, w: torch.Tensor, u: torch.Tensor, b: torch.Tensor):  # type: ignore[no-untyped-def]
        gates = x.mm(w.t()) + h.mm(u.t()) + b
        i, f, g, o = gates.chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c

    return torch.jit.script(cell).graph


def unrolled_lstm() -> Any:
    def cell(x: torch.Tensor, h: torch.Tensor, c: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        gates = x.mm(w) + h.mm(w)
        i, f, g, o = torch.sigmoid(gates), torch.sigmoid(gates * 2), torch.tanh(gates), torch.sigmoid(gates + 1)
        c = f * c + i * g
        return o * torch.tanh(c), c

    def steps(x: torch.Tensor, h: torch.Tensor, c: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        for _ in range(5):
            h, c = cell(x, h, c, w)
        return h

    return torch.jit.trace(steps, tuple(torch.rand(4, 4) for _ in range(4))).graph


def nodes_of(graph: Any) -> Iterator[Any]:
    for node in graph.nodes():
        yield node
        for block in node.blocks():
            yield from nodes_of(block)


def theirs(graph: Any, threshold: int = 2) -> tuple[int, Counter[str]]:
    """Torch's groups and the ops in them."""
    copy = graph.copy()
    torch._C._jit_pass_create_autodiff_subgraphs(copy, threshold)
    groups = [node.g("Subgraph") for node in nodes_of(copy) if node.kind() == "prim::DifferentiableGraph"]
    return len(groups), Counter(n.kind() for group in groups for n in nodes_of(group) if n.kind() != "prim::Constant")


def ours(found: AutodiffSubgraphs) -> Counter[str]:
    return Counter(node.op for node in found.original.nodes() if found.group_of(node) is not None)


SAME = [
    mlp, lstm_cell, unrolled_lstm, real_models.yolov3, real_models.bert, real_models.resnet, real_models.gru,
    real_models.unet,
]  # fmt: skip


@pytest.mark.parametrize("model", SAME, ids=lambda model: model.__name__)
def test_the_subgraphs_are_torchs(model: Callable[[], Any]) -> None:
    graph = model()
    torch._C._jit_pass_cse(graph)  # torch's pass ends with it
    parsed = irs.parse(str(graph))
    found = autodiff_subgraphs(parsed, requires_grad=parsed.inputs)
    irs.verify(found.graph)
    count, ops = theirs(graph)
    assert (len(found.groups), ours(found)) == (count, ops)


def test_what_torch_groups_for_nothing() -> None:
    """In GPT-2 position numbers and masks are computed from no parameter: torch wraps them, and differentiates nothing."""
    graph = real_models.gpt2()
    found = autodiff_subgraphs(irs.parse(str(graph)))
    _, ops = theirs(graph)
    alone = {node for node in found.original.nodes() if found.group_of(node) is None}
    reasons = {node: refusal.rule if (refusal := found._rules.refusal(node)) else "has no partner" for node in alone}
    expected = Counter(node.op for node, rule in reasons.items() if rule in ("no-gradient", "has no partner"))
    more = ops - ours(found)
    assert more and not more - expected
    assert not ours(found) - ops


ALIASED = ir("x y | a = relu x; b = type_as a y; c = tanh a | a b c")


def test_torch_lets_an_alias_out_that_its_schema_hides() -> None:
    """`type_as` gives its argument where the types agree; torch's schema calls the result fresh."""
    count, ops = theirs(torch._C.parse_ir(ALIASED))
    assert count == 1 and ops["aten::type_as"] == 1
    found = autodiff_subgraphs(irs.parse(ALIASED))
    assert ours(found) == Counter({"aten::relu": 1, "aten::tanh": 1})
    x = torch.rand(3)
    assert torch.relu(x).type_as(x).data_ptr() != x.data_ptr() and x.type_as(x) is x
