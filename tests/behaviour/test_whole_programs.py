"""Random programs of torch's, scripted, loaded, fused under every policy, compiled and called, against torch op by op."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("llvmlite")

from tests.behaviour.rounding import near, rounded_runs, spread  # noqa: E402
from tests.behaviour.whole_programs import Guard, Outcome, Truth, assert_alike, check, check_program, is_close  # noqa: E402
from tests.random_programs.torch_scripts import TorchProgram  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("one_thread")]

MOST_UNSURE = 0.02
"""The share of programs that may have a number which roundings decide."""
MOST_CHANGED = 0.03
"""The share of programs that torch's compiler may make others of."""


def checked(seeds: range) -> Outcome:
    found = Outcome()
    for seed in seeds:
        try:
            found += check(seed)
        except Exception as error:
            error.add_note(f"seed {seed}: tests.behaviour.whole_programs.check({seed})")
            raise
    return found


@pytest.mark.parametrize("start", range(0, 320, 80))
def test_random_programs_do_what_torch_does(start: int) -> None:
    found = checked(range(start, start + 80))
    assert found.groups >= 50, "groups that run as kernels"
    assert found.unsure + found.changed <= 6, found


@pytest.mark.long
@pytest.mark.parametrize("start", range(1000, 21_000, 250))
def test_many_random_programs_do_what_torch_does(start: int) -> None:
    found = checked(range(start, start + 250))
    assert found.unsure <= MOST_UNSURE * found.programs, found
    assert found.changed <= MOST_CHANGED * found.programs, found


def x_of(*shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(1)) * 4 - 2


def test_where_roundings_decide_a_number_anything_like_it_is_right() -> None:
    """Products of the same two factors in another order tie, and norms of equal rows are norms of roundings."""
    tie = """def f(x: Tensor, n: int, flag: bool):
    y = torch.tanh(torch.atan2(x, x)).prod(1)
    values, places = torch.min(y, 2)
    return values, places
"""
    norm = """def f(x: Tensor, n: int, flag: bool):
    y = x - x.mean(-2, keepdim=True)
    z = torch.nn.functional.instance_norm(torch.stack([torch.tanh(y), y, y - 1], 1))
    return y, torch.nn.functional.layer_norm(z, [z.size(-2), z.size(-1)])
"""
    for text, x in ((tie, x_of(16, 4, 2, 8)), (norm, x_of(1, 5).expand(16, 5))):
        program = TorchProgram(text, (x, 0, False))
        assert check_program(program, 1).groups >= 1
        truth = Truth(program.eager(), program)
        calm, decided = (spread(truth.wanted[i], [run[i] for run in truth.runs]) for i in (0, 1))
        assert calm.max() < 1e-4
        assert bool((decided > 0).any())


def test_where_they_do_not_a_few_units_are_told() -> None:
    program = TorchProgram(
        "def f(x: Tensor, n: int, flag: bool):\n    y = torch.softmax(torch.exp(x).sum(0), 0)\n    return y, y.argmax(), y > 0.1\n",
        (x_of(7, 9), 0, False),
    )
    truth = Truth(program.eager(), program)
    y, place, mask = truth.wanted
    truth.judge([y, place, mask], truth.given)
    for other in ([y * (1 + 4e-5), place, mask], [y, place + 1, mask], [y, place, ~mask], [y + torch.nan, place, mask]):
        with pytest.raises(AssertionError, match="which roundings move by"):
            truth.judge(other, truth.given)


def test_what_roundings_leave_alone() -> None:
    """Copies, choices, writes of them, and what they write into, are as exact as they were."""
    x = x_of(4, 6)

    def run() -> list[torch.Tensor]:
        y = x.clone()
        y[1:].copy_(x[:3].relu())
        y.t()[0].clamp_(-1, 1)
        return [torch.cat([y, x.flip(0)]), y > x, y.sum(), torch.maximum(x, y).amax(1)]

    first = run()
    runs = rounded_runs(run)
    moved = [bool((spread(a, [run[index] for run in runs]) > 0).any()) for index, a in enumerate(first)]
    assert moved == [False, False, True, False]
    assert not near(first[0] + 1e-6, first[0], None, torch.zeros(8, 6)).any()


def test_what_the_comparison_sees() -> None:
    """A number, a type, a shape, a stride or a byte beside a result that differs is told."""
    x = torch.arange(12.0).view(3, 4)
    assert is_close(x, x.clone(), x.double())
    for other in (x + 0.01, x.where(x > 0, torch.nan), x * (1 + 1e-6)):
        assert not is_close(other, x, x.double())
    for other in (x.double(), x.t().contiguous().t(), x[:2]):
        with pytest.raises(AssertionError, match="different"):
            assert_alike(other, x, "different")
    guard = Guard()
    made = guard.make((3,), (1,), torch.float32)
    made.fill_(1.0)
    guard.assert_untouched()
    guard.buffers[0][64 + 3 * 4] = 0  # behind the margin and three numbers
    with pytest.raises(AssertionError, match="beside"):
        guard.assert_untouched()
