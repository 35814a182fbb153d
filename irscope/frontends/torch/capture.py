"""The one place at a time where torch captures a program.

torch.export, `make_fx` and `torch.jit.script` change the state of the process: they put fake tensors into the parameters of the
user's modules, patch `Module.__call__`, and keep a stack of tracers. Two threads in them at once take each other's fake tensors for
parameters, which stay in the model for good. So every capture of irscope runs alone. A capture of the user's own, or a call of the
same model, on another thread is not held back; a process that is forked meanwhile cannot capture.

torch.export keeps autocast as a mode (`without_autocast`): here it becomes the casts that it stands for. torch itself replaces it,
when it decomposes a program with an empty table: it runs the ops on fake tensors below autocast, and records the casts. In-place
ops become out-of-place ones on the way.
"""

from __future__ import annotations

import io
import logging
import operator
import sys
import threading
import warnings
import weakref
from collections.abc import Collection, Iterator
from contextlib import contextmanager, redirect_stderr, suppress
from types import FunctionType
from typing import Any, Final

from irscope._base.running import interrupts_deferred
from irscope._base.words import warn_caller
from irscope.frontends.torch.types import require_torch

CAPTURE_LOCK: Final = threading.RLock()
"""Held while a live model is read or captured. Ctrl-C ends a wait for it."""


@contextmanager
def capturing() -> Iterator[None]:
    """A `with` around a call into torch's capture, which runs alone and is not interrupted half-way. Its log lines are left out, and its
    output to the error stream is passed on only if it succeeds: a failure is described by the error that is raised."""
    known = logging.getLogger("torch").manager.loggerDict.items()
    loggers = [log for name, log in known if name.partition(".")[0] == "torch" and isinstance(log, logging.Logger)]
    before, said = [log.disabled for log in loggers], io.StringIO()
    with CAPTURE_LOCK:
        try:
            for log in loggers:
                log.disabled = True
            with interrupts_deferred(), redirect_stderr(said):
                yield
        finally:
            for log, was_disabled in zip(loggers, before, strict=True):
                log.disabled = was_disabled
    sys.stderr.write(said.getvalue())


def without_autocast(program: Any, title: str, *, surroundings: bool = False) -> Any:
    """Returns an ExportedProgram with casts where autocast is on; with `surroundings` also those of a `with torch.autocast` around the
    capture, which torch.export does not see. A program without autocast is returned as it is."""
    torch = require_torch("to load an exported program")
    nodes = [node for part in program.graph_module.modules() for node in getattr(getattr(part, "graph", None), "nodes", ())]
    devices = {getattr(getattr(node.meta.get("val"), "device", None), "type", "") for node in nodes}
    is_on = surroundings and any(map(torch.is_autocast_enabled, devices & {"cpu", "cuda"}))
    if not is_on and not any(getattr(node.target, "__name__", "") == "wrap_with_autocast" and node.args[2] for node in nodes):
        return program
    if any(getattr(getattr(node.target, "_schema", None), "is_mutable", False) for node in nodes):
        warn_caller(f"{title} runs under autocast: its casts are ops of the program, and its in-place ops became out-of-place ones")
    with capturing():
        return _decomposed(torch, program)


def _decomposed(torch: Any, program: Any) -> Any:
    """Runs regions node by node, so that the new nodes keep the lines and modules of the old ones."""
    regions = [type(torch.ops.higher_order.wrap_with_autocast), type(torch.ops.higher_order.wrap_with_set_grad_enabled)]
    own = {region: region.__call__ for region in regions}

    def call(region: Any, *args: Any, **kwargs: Any) -> Any:
        args = tuple(torch.fx.Interpreter(arg).run if isinstance(arg, torch.fx.GraphModule) else arg for arg in args)
        return own[type(region)](region, *args, **kwargs)

    with warnings.catch_warnings():  # torch warns of its own deprecations
        warnings.simplefilter("ignore")
        try:
            for region in regions:
                region.__call__ = call
            return program.run_decompositions({})
        finally:
            for region in regions:
                region.__call__ = own[region]


# The state that a model was captured in: training or evaluation, module by module, and which tensors it holds.
#
# A capture fixes what the modules did in their modes at that time: whether dropout drops, which statistics normalise. A
# model that is switched later behaves differently, and the program does not. Only modules whose own code reads `training`
# are watched, by weak references. The program computes with the tensors that the model held; what is written to them counts, but a
# model may hold others later: `load_state_dict(assign=True)`, a new `nn.Parameter`, and buffers after `model.half().float()`.

_NAMES: Final = {True: "training", False: "evaluation"}


class Modes:
    """The modes and tensors at capture; a call describes what has been switched or replaced since."""

    def __init__(self, modules: list[tuple[str, Any]]) -> None:
        self.watched = [(weakref.ref(module), path, module.training) for path, module in modules]
        self.paths: list[str] = []
        """For each tensor, the path of its module; then the module's dictionary that has it, and its name there."""
        self.holders: list[dict[str, Any]] = []
        self.names: list[str] = []
        self.tensors: list[Any] = []

    def __call__(self) -> str:
        """Returns a sentence about the first module whose mode has changed, or tensor that is another; empty if none has."""
        for reference, path, before in self.watched:
            module = reference()
            if module is not None and module.training is not before:
                what = f"module {path!r} of the model" if path else "the model"
                return (
                    f"{what} was captured in {_NAMES[before]} mode and is in {_NAMES[not before]} mode now: the program "
                    "computes as it was captured; load the model again to capture its current mode"
                )
        are_same = list(map(operator.is_, map(dict.get, self.holders, self.names), self.tensors))
        if all(are_same):
            return ""
        place = are_same.index(False)
        path, name = self.paths[place], self.names[place]
        return (
            f"{f'{path}.' * bool(path)}{name} of the model is another tensor than the one that was captured, with which the program "
            "computes; load the model again, or write into its tensors: load_state_dict without assign=True, p.copy_(new)"
        )

    def holding(self, source: Any, bound: Collection[Any]) -> Modes | None:
        """Returns the same with the places where the modules of a source hold these tensors; None if nothing is left to watch."""
        torch, ours = require_torch("to look at a model"), {id(tensor) for tensor in bound}
        for path, module in _modules_of(source):
            if isinstance(module, torch.jit.ScriptModule):
                continue
            for holder in (module._parameters, module._buffers):
                for name, tensor in holder.items():
                    if id(tensor) in ours:
                        self.paths.append(path)
                        self.holders.append(holder)
                        self.names.append(name)
                        self.tensors.append(tensor)
        return self if self.watched or self.tensors else None


def modes_of(source: Any) -> Modes:
    """Returns the modes of a module, or of the modules that a function closes over, whose code depends on them."""
    return Modes([(path, module) for path, module in _modules_of(source) if _reads_mode(module)])


def _modules_of(source: Any) -> Iterator[tuple[str, Any]]:
    """Yields all modules of a source, with their paths."""
    for path, root in roots_of(source):
        for inner, module in root.named_modules():
            yield f"{path}{'.' * bool(path and inner)}{inner}", module


def roots_of(source: Any) -> Iterator[tuple[str, Any]]:
    """Yields a source that is a module, or the modules that a function is a method of or closes over, by its names for them."""
    torch = require_torch("to look at a model")
    if isinstance(source, torch.nn.Module):
        yield "", source
        return
    owner = getattr(source, "__self__", None)
    if isinstance(owner, torch.nn.Module):
        yield "", owner
    names = getattr(getattr(source, "__code__", None), "co_freevars", ())
    for name, cell in zip(names, getattr(source, "__closure__", None) or (), strict=False):
        with suppress(ValueError):  # a variable that has no value yet
            if isinstance(cell.cell_contents, torch.nn.Module):
                yield name, cell.cell_contents


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
