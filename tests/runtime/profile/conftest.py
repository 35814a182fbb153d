"""What tests of profiles have: both ways are measured, however busy the machine is."""

import math
from collections.abc import Iterator

import pytest

from irscope.runtime.profile import measuring


@pytest.fixture(scope="module", autouse=True)
def both_ways() -> Iterator[None]:
    """Nothing is left out because the first call took long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measuring, "_SHORT_NS", math.inf)
        yield
