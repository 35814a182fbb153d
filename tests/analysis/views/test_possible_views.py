"""What a copy could be a view of: the layout that is claimed, read from the buffer, is what torch copies."""

import random

import pytest
import torch

import irscope as irs
from irscope.analysis.views import ViewAliases


def claimed(f: object, x: torch.Tensor) -> torch.Tensor | None:
    """The result of `f` as the view that it could be; None where the analysis knows of none."""
    g = irs.load(f, x)
    verdict = ViewAliases(g).could_be_view(g.outputs[0])
    if not verdict:
        return None
    source, layout = verdict.witness
    assert source.name in verdict.because
    return x.as_strided(layout.shape, layout.strides, layout.offset // x.element_size())


@pytest.mark.parametrize("seed", range(12))
def test_a_negative_padding_is_a_slice(seed: int) -> None:
    rng = random.Random(seed)
    x = torch.randn(6, 7, 8).permute(rng.sample(range(3), 3))
    pads = [rng.randint(-2, 0) for _ in range(2 * rng.randint(1, 3))]
    found = claimed(lambda t: torch.constant_pad_nd(t, pads), x)
    assert found is not None and torch.equal(found, torch.constant_pad_nd(x, pads))
    assert claimed(lambda t: torch.constant_pad_nd(t, [*pads, 1, 0][-2 * x.dim() :]), x) is None


@pytest.mark.parametrize("seed", range(12))
def test_adjacent_parts_joined_are_one_view(seed: int) -> None:
    rng = random.Random(seed)
    x = torch.randn(6, 7, 8).permute(rng.sample(range(3), 3))
    axis, first = rng.randrange(3), rng.randint(0, 1)
    middle, end = first + 2, x.shape[axis]
    parts = [(first, middle), (middle, end)]
    joined = lambda order: lambda t: torch.cat([t.narrow(axis, start, stop - start) for start, stop in order], axis)  # noqa: E731
    found = claimed(joined(parts), x)
    assert found is not None and torch.equal(found, joined(parts)(x))
    assert claimed(joined(parts[::-1]), x) is None, "the parts are in another order"
