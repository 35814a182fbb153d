"""What all tests of the widgets have: a thread without a loop, as in a script."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def without_a_loop() -> Iterator[None]:
    """A browser test of the same process leaves playwright's loop running, and widgets answer in a loop where there is one."""
    running = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    yield
    asyncio._set_running_loop(running)
