"""The modes that a model was captured in: training or evaluation, module by module.

A capture fixes what the modules did in their modes at that time: whether dropout drops, which statistics normalise. A
model that is switched later behaves differently, and the program does not. Only modules whose own code reads `training`
are watched, by weak references.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from types import FunctionType
from typing import Any, Final

from irscope.frontends.torch.values import require_torch

__all__ = ["Modes", "modes_of", "roots_of"]

_NAMES: Final = {True: "training", False: "evaluation"}


class Modes:
    """The modes at capture; a call describes a module that has been switched since."""

    def __init__(self, modules: list[tuple[str, Any]]) -> None:
        self.watched = [(weakref.ref(module), path, module.training) for path, module in modules]

    def __call__(self) -> str:
        """Returns a sentence about the first module whose mode has changed; empty if none has."""
        for reference, path, before in self.watched:
            module = reference()
            if module is not None and module.training is not before:
                what = f"module {path!r} of the model" if path else "the model"
                return (
                    f"{what} was captured in {_NAMES[before]} mode and is in {_NAMES[not before]} mode now: the program "
                    "computes as it was captured; load the model again to capture its current mode"
                )
        return ""


def modes_of(source: Any) -> Modes | None:
    """Returns the modes of a module, or of the modules that a function closes over; None if their code does not depend
    on them."""
    found = [
        (f"{path}{'.' * bool(path and inner)}{inner}", module)
        for path, root in roots_of(source)
        for inner, module in root.named_modules()
        if _reads_mode(module)
    ]
    return Modes(found) if found else None


def roots_of(source: Any) -> Iterator[tuple[str, Any]]:
    """Yields a source that is a module, or the modules that a function is a method of or closes over, by its names for
    them."""
    torch = require_torch("to look at a model")
    if isinstance(source, torch.nn.Module):
        yield "", source
        return
    owner = getattr(source, "__self__", None)
    if isinstance(owner, torch.nn.Module):
        yield "", owner
    names = getattr(getattr(source, "__code__", None), "co_freevars", ())
    for name, cell in zip(names, getattr(source, "__closure__", None) or (), strict=False):
        held = cell.cell_contents if _is_filled(cell) else None
        if isinstance(held, torch.nn.Module):
            yield name, held


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _reads_mode(module: Any) -> bool:
    """Checks whether a module's own code, in its class or as scripted, reads its mode."""
    torch = require_torch("to look at a model")
    if isinstance(module, torch.jit.ScriptModule):
        methods = [module._c._get_method(name) for name in module._c._method_names()]
        return any("self.training" in method.code for method in methods)
    return any(
        "training" in member.__code__.co_names
        for owner in type(module).__mro__
        if owner not in (torch.nn.Module, object)
        for member in vars(owner).values()
        if isinstance(member, FunctionType)
    )
