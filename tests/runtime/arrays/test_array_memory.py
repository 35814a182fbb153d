"""How kernels see tensors: what tells two arguments apart, at one stroke or fact by fact."""

from itertools import product
from typing import Any

import pytest

from irscope._base.nested import torch_guards
from irscope.runtime.arrays.torch import TorchMemory


def tensors() -> list[Any]:
    """Tensors of which most pairs differ in one thing."""
    torch = pytest.importorskip("torch")

    class Own(torch.Tensor):  # type: ignore[misc, name-defined]
        pass

    like = torch.arange(6.0).reshape(2, 3)
    with torch.inference_mode():
        inference = torch.ones(2, 3)
    return [
        like, like + 1, like.double(), like.reshape(3, 2), like.reshape(3, 2).t(), like[None], like[:1], like[:, :2],
        torch.zeros(4, 6)[::2, ::2], torch._neg_view(like), like.to("meta"), like.to_sparse(), like.as_subclass(Own),
        torch.nn.Parameter(like), torch.nn.Parameter(like, requires_grad=False), like.clone().requires_grad_(),
        torch.zeros(2, 3, dtype=torch.int32), torch.zeros(0, 3), torch.zeros(2, 1).expand(2, 3), torch.tensor(1.0),
        inference, like.to(torch.complex64), like.to(torch.complex64).conj(),
    ]  # fmt: skip


def facts(memory: TorchMemory, tensor: Any) -> tuple[Any, ...] | None:
    """All that a guard compares of a tensor; None for one that has no strides."""
    try:
        return tuple(eval(f"tensor.{fact}", {"tensor": tensor}) for fact in memory.facts)
    except RuntimeError:
        return None


def test_what_is_the_same_at_one_stroke_has_the_same_facts() -> None:
    torch = pytest.importorskip("torch")
    memory = TorchMemory("cpu")
    if memory.guards is None:
        pytest.skip("this torch has no guards")
    same, told = 0, 0
    for one, other in product(tensors(), tensors()):
        if facts(memory, one) is None:
            continue
        guard = memory.guards([one])
        with torch.no_grad():
            inside = memory.guards([one], inside=True)
            assert inside(one), "weights that require gradients, too"
            assert not inside(other) or facts(memory, one) == facts(memory, other)
        if guard(other):
            assert facts(memory, one) == facts(memory, other)
            assert one.device == other.device
            same += 1
        else:
            told += 1
    assert same >= 20, "each is the same as itself"
    assert told > same


def test_several_arguments_are_compared_each_with_its_own() -> None:
    pytest.importorskip("torch")
    memory = TorchMemory("cpu")
    if memory.guards is None:
        pytest.skip("this torch has no guards")
    one, other = tensors()[0], tensors()[3]
    guard = memory.guards([one, other])
    assert guard(one + 1, other + 1) and not guard(other, one) and not guard(one, 3)


def test_a_torch_without_guards_or_with_others_is_not_asked(monkeypatch: pytest.MonkeyPatch, torch: Any) -> None:
    class Agreeable:
        def __init__(self, *arguments: Any, **more: Any) -> None:
            pass

        def check(self, *arguments: Any) -> bool:
            return True

    monkeypatch.setattr(torch._C._dynamo.guards, "TensorGuards", Agreeable)
    assert torch_guards(torch) is None
    monkeypatch.delattr(torch._C._dynamo.guards, "TensorGuards")
    assert torch_guards(torch) is None
