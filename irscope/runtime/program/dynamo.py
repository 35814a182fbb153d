"""`torch.compile` leaves a call of a compiled program alone.

Dynamo would otherwise follow it into the runtime, where it compiles hundreds of small functions and meets what it cannot
follow. The call breaks its graph instead, and runs as it would outside.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

__all__ = ["left_alone", "mark_for_dynamo"]


def mark_for_dynamo(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, marked as one that Dynamo calls and does not look into; imports no torch."""
    marked: Any = function
    marked._torchdynamo_disable = True
    marked._torchdynamo_disable_msg = "irscope has compiled what it calls"
    return function


def left_alone(function: Callable[..., Any]) -> None:
    """See to it that Dynamo does not compile the function, nor what that calls, where it meets it first; if torch is there."""
    torch = sys.modules.get("torch")
    if torch is None:
        return
    with suppress(Exception):  # it is torch's own affair, and slower without
        frames = torch._C._dynamo.eval_frame
        skip = frames._FrameExecStrategy(frames._FrameAction.SKIP, frames._FrameAction.SKIP)
        frames.set_code_exec_strategy(function.__code__, skip)
