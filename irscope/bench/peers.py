"""The competitors of a case, as functions of its operands; each unavailable one is named with the reason.

Operands are torch tensors on the processor (or arrays, without torch). JAX and numexpr get their own copies once, before
anything is timed, and a call waits until the result is available.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

from irscope.bench.cases import Case

__all__ = ["PEERS", "peers_of"]

Function = Callable[..., Any]

PEERS: Final = ("eager", "torch.compile", "jax.jit", "numexpr")


def peers_of(
    case: Case, operands: Sequence[Any], wanted: Sequence[str], threads: int
) -> tuple[dict[str, Function], list[tuple[str, str]]]:
    """Returns functions by name, and the competitors that cannot take part with the reason."""
    found: dict[str, Function] = {}
    missing: list[tuple[str, str]] = []
    for name in wanted:
        try:
            found[name] = _MAKERS[name](case, operands, threads)
        except _Missing as reason:
            missing.append((name, str(reason)))
        except Exception as error:
            missing.append((name, f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"))
    return found, missing


class _Missing(Exception):
    """The reason why a competitor does not take part."""


def _needs(package: str) -> None:
    if find_spec(package) is None:
        raise _Missing(f"{package} is not installed")


def _eager(case: Case, operands: Sequence[Any], threads: int) -> Function:
    _needs("torch")
    torch = import_module("torch")
    if case.torch is None:
        raise _Missing("torch has no such op")
    return case.torch(torch)


def _compiled(case: Case, operands: Sequence[Any], threads: int) -> Function:
    _needs("torch")
    torch = import_module("torch")
    torch._dynamo.reset()
    compiled: Function = torch.compile(_eager(case, operands, threads), dynamic=False)
    return compiled


def _jax(case: Case, operands: Sequence[Any], threads: int) -> Function:
    _needs("jax")
    jax, jnp = import_module("jax"), import_module("jax.numpy")
    if case.jax is None:
        raise _Missing("no expression for it in JAX")
    jitted = jax.jit(case.jax(jax, jnp))
    own = [jnp.asarray(np.asarray(operand)) for operand in operands]
    return lambda *_: jitted(*own).block_until_ready()


def _numexpr(case: Case, operands: Sequence[Any], threads: int) -> Function:
    _needs("numexpr")
    numexpr = import_module("numexpr")
    if not case.numexpr:
        raise _Missing("numexpr lacks one of its functions")
    numexpr.set_num_threads(threads)
    own = {f"x{index}": np.asarray(operand) for index, operand in enumerate(operands)}
    return lambda *_: numexpr.evaluate(case.numexpr, local_dict=own)


_MAKERS: Final = {"eager": _eager, "torch.compile": _compiled, "jax.jit": _jax, "numexpr": _numexpr}
