"""What all tests of the widgets have: a thread without a loop, as in a script, and messages of a page."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def without_a_loop() -> Iterator[None]:
    """A browser test of the same process leaves playwright's loop running, and widgets answer in a loop where there is one."""
    running = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    yield
    asyncio._set_running_loop(running)


def asked(widget: Any, *messages: Any) -> list[Any]:
    """What a page gets for its messages, also what it gets later."""
    sent: list[Any] = []
    widget.send = lambda content, buffers=None: sent.append(json.loads(buffers[0]) if buffers else content)
    for message in messages:
        widget._handle_custom_msg(message, [])
    return sent
