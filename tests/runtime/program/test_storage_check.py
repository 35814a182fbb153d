"""A call whose memory lies otherwise than was assumed is refused, and one where that makes no difference is not."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("llvmlite")

import irscope as irs  # noqa: E402
from irscope.errors import ArgumentError  # noqa: E402


class Counting(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.full((4, 4), 2.0))
        self.register_buffer("seen", torch.zeros(4, 4))

    def forward(self, x: Any) -> Any:
        self.seen.add_(1.0)
        return torch.tanh(x * self.scale) + x


class Pure(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.full((4, 4), 2.0))

    def forward(self, x: Any) -> Any:
        return torch.tanh(x * self.scale) + x


class Adding(Pure):
    def forward(self, x: Any) -> Any:
        return super().forward(x.add_(1.0))


@pytest.mark.parametrize("calls_before", [0, 1, 3])  # the long way, and the short one
@torch.no_grad()
def test_an_argument_in_a_written_buffer_is_refused(calls_before: int) -> None:
    model, x = Counting(), torch.ones(4, 4)
    program = irs.compile(model, x)
    for _ in range(calls_before):
        program(x)
    with pytest.raises(ArgumentError, match="%x lies in the memory of the parameter %seen, and the program writes it"):
        program(model.seen)
    assert model.seen.tolist() == [[float(calls_before)] * 4] * 4
    expected = torch.tanh(model.scale * model.scale) + model.scale
    assert torch.allclose(program(model.scale), expected)  # which nobody writes


@torch.no_grad()
def test_a_written_argument_in_a_parameter_is_refused() -> None:
    model = Adding()
    program = irs.compile(model, torch.ones(4, 4))
    with pytest.raises(ArgumentError, match="lies in the memory of the parameter %scale"):
        program(model.scale.detach())
    assert torch.allclose(program(torch.zeros(4, 4)), torch.tanh(torch.full((4, 4), 2.0)) + 1.0)


@torch.no_grad()
def test_parameters_that_become_one_are_found_at_the_next_call() -> None:
    model, x = Counting(), torch.ones(4, 4)
    program = irs.compile(model, x)
    program(x)
    model.scale.data = torch.full((4, 4), 3.0)  # other memory, and still its own
    assert torch.allclose(program(x), torch.tanh(x * 3.0) + x)
    model.seen.data = model.scale.data
    with pytest.raises(ArgumentError, match=r"%scale and %seen share memory now, and did not"):
        program(x)
