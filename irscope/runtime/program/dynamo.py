"""Marks that make `torch.compile` leave a call of a compiled program alone.

Dynamo would otherwise trace into the runtime, where it compiles hundreds of small functions and meets code that it cannot
trace. Instead the call breaks its graph and runs as it would outside of it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

__all__ = ["left_alone", "mark_for_dynamo"]


def mark_for_dynamo(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function, marked as one that Dynamo calls without tracing into it; does not import torch."""
    marked: Any = function
    marked._torchdynamo_disable = True
    marked._torchdynamo_disable_msg = "irscope has compiled what it calls"
    return function


def left_alone(function: Callable[..., Any]) -> None:
    """Makes Dynamo skip the function and its callees when it meets the function first; does nothing without torch."""
    torch = sys.modules.get("torch")
    if torch is None:
        return
    with suppress(Exception):  # private API of torch; slower without it
        frames = torch._C._dynamo.eval_frame
        skip = frames._FrameExecStrategy(frames._FrameAction.SKIP, frames._FrameAction.SKIP)
        frames.set_code_exec_strategy(function.__code__, skip)
