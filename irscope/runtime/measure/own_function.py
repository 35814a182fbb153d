"""What the user wrote, as a competitor: the NumPy function itself, `jax.jit` of a JAX function, a torch model in eager mode."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from irscope.ir import Graph
from irscope.runtime.arrays import are_torchs

__all__ = ["OwnFunction", "own_function"]


class OwnFunction:
    """The function or model that a program was read from, called with the arguments as the user passed them."""

    def __init__(self, label: str, function: Callable[..., Any], given: Sequence[Any], flat: Sequence[Any]) -> None:
        self.label = label
        self.function = function
        self._nested = None if len(given) == len(flat) and all(map(_is, given, flat)) else tuple(given)

    def __call__(self, *flat: Any) -> Any:
        return self.function(*(flat if self._nested is None else self._nested))


def _is(one: Any, other: Any) -> bool:
    return one is other


def own_function(graph: Graph, given: Sequence[Any], flat: Sequence[Any]) -> OwnFunction | None:
    """Returns what the user wrote, for arguments as they were given and flattened; None for a program from elsewhere."""
    function = None if graph.origin is None else graph.origin.function
    if function is None:
        return None
    if graph.functional == "StableHLO":
        jax = sys.modules.get("jax")
        if jax is None:
            return None
        jitted = jax.jit(function)
        return OwnFunction("jax.jit", lambda *args: jax.block_until_ready(jitted(*args)), given, flat)
    return OwnFunction("eager" if are_torchs([*flat, *graph.bound.values()]) else "NumPy", function, given, flat)
