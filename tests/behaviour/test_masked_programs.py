"""Programs of `torch.masked` and of extents that depend on elements, captured by export: eager's answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("llvmlite")

import irscope as irs  # noqa: E402

pytestmark = pytest.mark.torch

_FIRST: Final[dict[str, tuple[Any, ...]]] = {"norm": (2.0,), "normalize": (2.0,)}
REDUCED: Final = (
    "sum prod amax amin mean norm var std median logsumexp cumsum cumprod softmax log_softmax softmin normalize argmax argmin"
).split()


def masked(name: str) -> Callable[..., Any]:
    op = getattr(torch.masked, name)
    return lambda x, m: op(x, *_FIRST.get(name, ()), dim=-1, mask=m)


def check(function: Callable[..., Any], *arguments: Any) -> None:
    want = function(*(argument.clone() for argument in arguments))
    graph = irs.load(function, *(argument.clone() for argument in arguments))
    for program in (graph, irs.fuse(graph)):
        found = irs.compile(program)(*(argument.clone() for argument in arguments))
        torch.testing.assert_close(found, want, equal_nan=True)
        assert found.stride() == want.stride()


def sample(*shape: int, dtype: Any = torch.float32) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape))).to(dtype)


@pytest.mark.parametrize("name", REDUCED)
@pytest.mark.parametrize("mask", [(5, 10, 1), *(pytest.param(m, marks=pytest.mark.long) for m in ((10, 1), (1, 1, 5), ()))])
def test_a_mask_that_is_repeated_along_dimensions(name: str, mask: tuple[int, ...]) -> None:
    check(masked(name), sample(5, 10, 5), sample(*mask) > -0.5)


def test_a_mask_of_a_sum_of_exponentials_is_repeated() -> None:
    def both(x: Any, y: Any, m: Any) -> Any:
        return torch.masked.logaddexp(x, y, input_mask=m, other_mask=~m)

    check(both, sample(5, 10, 5), sample(5, 10, 5) * 2, sample(5, 10, 1) > 0)


@pytest.mark.parametrize(("shape", "mask"), [((10,), (10,)), ((), (10,)), ((5,), (3, 5)), ((3, 1), (4,)), ((3, 5), (5,))])
def test_a_mask_may_select_more_elements_than_the_operand_has(shape: tuple[int, ...], mask: tuple[int, ...]) -> None:
    check(lambda x, m: torch.masked_select(x, m) * 2, sample(*shape), sample(*mask) > -9)
    check(lambda x, m: torch.masked_select(x, m).relu() + 1, sample(*shape), sample(*mask) > 0)


def test_what_the_program_itself_asserts_of_an_extent_stays() -> None:
    def few(x: Any, m: Any) -> Any:
        found = torch.masked_select(x, m)
        torch._check(found.shape[0] <= 3)
        return found * 2

    x, m = sample(2, 5), torch.tensor([True, False, False, False, False])
    graph = irs.load(few, x, m)
    torch.testing.assert_close(irs.compile(irs.fuse(graph))(x, m), few(x, m))
    with pytest.raises(irs.errors.RunError, match="u0 <= 3"):
        irs.compile(irs.fuse(graph))(x, ~m)


@pytest.mark.parametrize("name", ["nonzero", "boolean index", "item", "repeat_interleave", "unique"])
def test_extents_that_depend_on_elements(name: str) -> None:
    functions: dict[str, Callable[..., Any]] = {
        "nonzero": lambda x: torch.nonzero(x > 0) + 1,
        "boolean index": lambda x: x[x > 0] * 2,
        "item": lambda x: x + x.sum().item(),
        "repeat_interleave": lambda x: torch.repeat_interleave(x, (x.flatten() > 0).long() + 1, 0).relu(),
        "unique": lambda x: torch.unique(x.round()) + 1,
    }
    check(functions[name], sample(6))
