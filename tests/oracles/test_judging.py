"""The oracles themselves: a difference that a caller could see is reported, and a hang or a dead process ends one program only."""

import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tests.oracles import watched as watch  # noqa: E402
from tests.oracles.counts import Counts, table  # noqa: E402
from tests.oracles.judge import Call, fresh, seen  # noqa: E402
from tests.oracles.watched import Ended, Stage, watched  # noqa: E402


def truth(x: torch.Tensor, y: torch.Tensor) -> Any:
    x.t()[0].mul_(2)
    return torch.bernoulli(y.sigmoid()), (x * 3).tanh(), x.sum(1)


def complaint(function: Callable[..., Any]) -> str:
    call = Call(truth, [torch.linspace(-1, 1, 12).view(3, 4), torch.zeros(50, dtype=torch.complex64).real])
    return call.complaint(seen(function, fresh(call.arguments)))


def changed(index: int, change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., Any]:
    def run(x: torch.Tensor, y: torch.Tensor) -> Any:
        found = list(truth(x, y))
        found[index] = change(found[index])
        return tuple(found)

    return run


def test_what_is_right_is_not_complained_of() -> None:
    assert complaint(truth) == "" and complaint(changed(1, lambda y: y * (1 + 1e-7))) == ""
    assert complaint(changed(2, lambda y: y + 1e-7)) == ""


@pytest.mark.parametrize(("index", "change", "said"), [
    (1, lambda y: y + 1e-4, "result 1"), (1, lambda y: y.where(y > -0.5, torch.nan), "result 1"), (1, lambda y: y.double(), "float64"),
    (1, lambda y: y[:2], "(2, 4)"), (1, lambda y: y.t().contiguous().t(), "(1, 3)"), (0, lambda y: 1 - y, "result 0"),
    (2, lambda y: y.tolist(), "results"), (2, lambda y: 7, "not a tensor"),
])  # fmt: skip
def test_what_differs_is_reported(index: int, change: Callable[[torch.Tensor], torch.Tensor], said: str) -> None:
    assert said in complaint(changed(index, change))


def test_writes_and_the_generator_are_reported() -> None:
    assert "the memory of argument 0" in complaint(lambda x, y: truth(x.clone(), y))
    assert "generator" in complaint(lambda x, y: (*truth(x, y), torch.rand(1))[:3])
    base = torch.arange(8.0)

    def first_half(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    call = Call(first_half, [base[:4]])

    def too_far(x: torch.Tensor) -> torch.Tensor:
        x.as_strided((5,), (1,))[4] = 0.0
        return x + 1

    assert "the memory of argument 0" in call.complaint(seen(too_far, fresh(call.arguments)))


def work(job: str, skip: int) -> Iterator[Stage | Ended]:
    for count, name in enumerate(("first", job, "last")):
        if count < skip:
            continue
        yield Stage(name, ours=name != "slow torch")
        if name == "dies":
            os._exit(7)
        while name in ("hangs", "slow torch"):
            time.sleep(0.001)
        if name == "raises":
            raise ZeroDivisionError
        yield Ended(name, "passed")


def test_a_watched_run_goes_on_behind_a_hang_and_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "SECONDS", 0.1)
    found = Counts("watched")
    for end in watched(work, ["a", "dies", "hangs", "slow torch", "raises", "b"], each=4):
        found.add(end.way, end.said, end.program)
    assert dict(found.ways) == {"passed": 6 * 2 + 2 - 1, "crash": 2, "hang": 1, "torch": 1}
    assert [way for way, *_ in found.bad()] == ["crash", "hang", "crash"]
    with pytest.raises(AssertionError, match="hangs"):
        found.assert_sound()


def test_the_table_adds_up() -> None:
    one, two = Counts("a"), Counts("a")
    one.add("passed")
    two.add("refused", "ParseError: line 1", "x")
    assert table([one, Counts.of(two.plain())])[2] == "| a | 2 | 1 | 1 | 0 | 1: ParseError 1 | 0 | 0 | 0 | 0 |"
    with pytest.raises(AssertionError, match="refused"):
        two.assert_sound(most_refused=0.5)


def test_what_torch_reads_beyond_its_arguments_is_not_a_truth() -> None:
    def norm(x: Any, weight: Any) -> Any:
        return torch.ops.aten.native_group_norm(x, weight, None, 1, 6, 3, 2, 0.5)[0]

    x, weight = torch.randn(1, 6, 3), torch.randn(12)
    assert Call(norm, [x, weight[::2]]).reads_beyond and not Call(norm, [x, weight[:6]]).reads_beyond
    assert not Call(lambda x, w: x[0, :, 0] * w, [x, weight[::2]]).reads_beyond
