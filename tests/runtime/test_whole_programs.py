"""Random programs of torch's, scripted, loaded, fused under every policy, compiled and called, against torch op by op."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("llvmlite")

from tests.runtime.whole_programs import Guard, assert_close, check  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("start", range(0, 120, 40))
def test_random_programs_do_what_torch_does(start: int) -> None:
    assert sum(check(seed) for seed in range(start, start + 40)) >= 15, "groups that run as kernels"


@pytest.mark.long
@pytest.mark.parametrize("start", range(1000, 21_000, 250))
def test_many_random_programs_do_what_torch_does(start: int) -> None:
    for seed in range(start, start + 250):
        check(seed)


def test_what_the_comparison_sees() -> None:
    """A number, a type, a shape, a stride or a byte beside a result that differs is told."""
    x = torch.arange(12.0).view(3, 4)
    assert_close(x, x.clone(), x.double(), "equal")
    for other in (x + 0.01, x.double(), x.t().contiguous().t(), x[:2], x.where(x > 0, torch.nan)):
        with pytest.raises(AssertionError, match="different"):
            assert_close(other, x, x.double(), "different")
    guard = Guard()
    made = guard.make((3,), (1,), torch.float32)
    made.fill_(1.0)
    guard.assert_untouched()
    made.as_strided((4,), (1,), made.storage_offset()).fill_(1.0)
    with pytest.raises(AssertionError, match="beside"):
        guard.assert_untouched()
