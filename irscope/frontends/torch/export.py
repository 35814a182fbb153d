"""torch.export: exported programs, their `.pt2` files, and modules and functions, which are exported when they are
loaded."""

from __future__ import annotations

import inspect
import os
import sys
import sysconfig
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any, Final, TypeVar

from irscope._base.concurrency.restored import with_attributes
from irscope._base.loaded_code import loaded_files
from irscope._base.warned import warn_caller
from irscope.errors import ArgumentError, CaptureError, LoadError
from irscope.frontends.torch import torchscript
from irscope.frontends.torch.capture import alone, captured, without_autocast
from irscope.frontends.torch.exported_file import load_program
from irscope.frontends.torch.fx_import import import_exported
from irscope.frontends.torch.modes import modes_of
from irscope.frontends.torch.values import require_torch
from irscope.ir import Graph, TensorType, flatten_arguments

__all__ = ["check_arguments", "load", "may_run_code", "name", "reads", "recognizes", "suffixes", "surroundings_of", "trimmed"]

T = TypeVar("T")

name: Final = "torch.export program"
suffixes: Final = (".pt2",)
may_run_code: Final = True
_NOISE: Final = (
    "The error above",
    "For C++ stack",
    "Traceback",
    "For more information",
    "  File ",
    "from user code",
    "Caused by",
    "consider using data-dependent",
)
"""Beginnings of the lines from which torch's messages address torch's own developers."""


def reads(source: object, args: Sequence[object]) -> bool:
    """Accepts an ExportedProgram, an nn.Module, a function called with tensors, or a file that `torch.export.save`
    wrote."""
    if isinstance(source, Path):
        return source.suffix.lower() in (*suffixes, ".pt")
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    if isinstance(source, torch.export.ExportedProgram | torch.nn.Module):
        return True
    return callable(source) and any(isinstance(leaf, torch.Tensor) for leaf in torch.utils._pytree.tree_leaves(args))


def recognizes(path: Path, start: bytes) -> bool:
    """Checks whether a file is an archive of `torch.export.save`."""
    return start.startswith(torchscript.ZIP) and torchscript.is_exported(torchscript.members_of(path))


def load(source: Any, args: Sequence[Any], *, name: str | None = None, trust: bool = False) -> Graph:
    """Returns the program as torch.export captured it, not decomposed; nested arguments are one input per leaf.

    `trust` lets a file run its author's code: see `exported_file`.

    Raises CaptureError if torch.export fails, ArgumentError for missing or wrong example arguments, LoadError for a
    file that is not an exported program.
    """
    torch = require_torch("to load an exported program")
    is_checked = isinstance(source, Path) and not trust
    if isinstance(source, Path):
        name, source, known = name or source.stem, _open(source, trust), frozenset[str]()
    else:
        known = loaded_files()
    if isinstance(source, torch.export.ExportedProgram):
        if not is_checked:  # decomposing runs the program, on fake tensors
            source = alone(lambda: without_autocast(source, name or "the program"))
        graph = import_exported(source, name or "exported", known.__contains__)
        if args and len(flatten_arguments(args, graph)) != len(graph.free_inputs):
            _complain(args, [f"{graph.names[value]}: {value.type}" for value in graph.free_inputs])
        return graph
    if isinstance(source, type) and issubclass(source, torch.nn.Module):
        what = f"{source.__name__} is the class of a model; load needs an instance"
        raise ArgumentError(what, hint=f"irs.load({source.__name__}(), x), with the arguments of its constructor in the parentheses")
    title = name or str(getattr(source, "__name__", type(source).__name__))
    return alone(lambda: _captured(source, args, title))


def _ran(file: str) -> bool:
    """All locations in a capture are from frames that just ran in this process."""
    return True


def _captured(source: Any, args: Sequence[Any], title: str) -> Graph:
    torch, modes = require_torch("to export a model"), modes_of(source)
    is_module = isinstance(source, torch.nn.Module)
    check_arguments(source.forward if is_module else source, args, title)
    model = source if is_module else _as_module(source)
    apart = _apart(model, tuple(args))
    name = title if title.isidentifier() else "exported"
    try:
        program = captured(lambda: _with_places(lambda: torch.export.export(model, apart, strict=False)))
        program = without_autocast(program, title, surroundings=True)
    except Exception as error:
        place, advice = _failed_at(error), _advice(error)
        if _needs_a_number(error):
            try:
                graph = _scripted(source, args, name)
            except Exception as refusal:
                reason = trimmed(str(refusal), 1).strip().rstrip(":")
                advice = f"write it with torch.cond or with tensors (torch.jit.script does not take it either: {reason})"
            else:
                _tell_scripted(title, place)
                return replace(graph, modes=modes or graph.modes)
        what = f"torch.export cannot capture {title}"
        where = trimmed(str(error)) + (f"\n\n{place[0]}\n    {place[1]}" if place else "")
        raise CaptureError(what, where=where, hint=advice) from None
    return replace(import_exported(program, name, _ran), modes=modes)


def _needs_a_number(error: Exception) -> bool:
    """Checks whether a program depends on a number in a tensor (branches on it, computes with it), which torch.export
    cannot follow."""
    text = f"{type(error).__name__}: {error}"
    return "GuardOnDataDependent" in text or "data-dependent" in text or "control flow" in text


def _scripted(source: Any, args: Sequence[Any], name: str) -> Graph:
    """Returns the program as torch.jit.script compiles it. Raises if that fails, or reads a number as a tensor."""
    torch = require_torch("to script a model")
    parameters = inspect.signature(source.forward if isinstance(source, torch.nn.Module) else source).parameters
    for each in parameters.values():
        if each.default is None and each.annotation is each.empty:  # torch always reads it as a tensor, even if undefined
            raise ArgumentError(f"{each.name}=None is read as a tensor; write {each.name}: torch.Tensor | None = None")
    graph = torchscript.load(captured(lambda: torch.jit.script(source)), args, name=name)
    for parameter, arg, value in zip(parameters, args, graph.free_inputs, strict=False):
        if isinstance(arg, torch.Tensor) != isinstance(value.type, TensorType):
            hint = f"write {parameter}: {'torch.Tensor' if isinstance(arg, torch.Tensor) else type(arg).__name__}"
            raise ArgumentError(f"{parameter} is not annotated, and is read as {value.type}", hint=hint)
    return graph


def _tell_scripted(title: str, place: tuple[str, str] | None) -> None:
    at = f" at {place[0]}" if place else ""
    warn_caller(
        f"{title} uses a number read from a tensor{at}, which torch.export cannot follow: torch.jit.script captured it"
    )


def _failed_at(error: Exception) -> tuple[str, str] | None:
    """Returns the innermost location in the user's code at which it failed, and that line."""
    torch = require_torch("to export a model")
    ours, its = Path(__file__).parents[2], Path(str(torch.__file__)).parent
    skipped = (f"{ours}{os.sep}", f"{its}{os.sep}", "<")
    library = sysconfig.get_path("stdlib")
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        is_python = frame.filename.startswith(library) and "site-packages" not in frame.filename
        if not is_python and not frame.filename.startswith(skipped):
            return f"{frame.filename}:{frame.lineno}", frame.line or ""
    return None


def _with_places(work: Callable[[], T]) -> T:
    """Returns the result of a call during which each node records the innermost line of the user's code that it comes
    from.

    Torch itself keeps only the frames of functions called `forward`: for a plain function it keeps none, and for a
    model's helper the line that calls it.
    """
    torch = require_torch("to export a model")
    tracer = torch.fx.proxy.TracerBase
    if not hasattr(tracer, "_filter_traceback_frames"):  # before torch 2.9, which has no such step
        return work()
    skipped = (f"{Path(str(torch.__file__)).parent}{os.sep}", "torch/", "<eval_with_key>")

    def kept(self: Any, frames: Any) -> Any:
        inside = list(takewhile(lambda frame: frame.filename != __file__, reversed(frames)))
        users = [frame for frame in inside if not frame.filename.startswith(skipped)]
        modules = [frame for frame in inside if frame.name == "forward"]  # torch's own modules, if there is no other location
        return traceback.StackSummary.from_list((users or modules)[:1])

    return with_attributes([tracer], "_filter_traceback_frames", kept, work)


def _apart(model: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Returns the example arguments, without duplicates, and without tensors of the model itself.

    torch.export distinguishes tensors by identity: a tensor that is passed twice becomes one input, and so does a
    parameter that is passed as an argument. Other tensors would then be mistaken for each other at each call. For a
    non-leaf tensor of autograd it asks for a gradient, about which torch warns.
    """
    torch = require_torch("to export a model")
    leaves, shape = torch.utils._pytree.tree_flatten(args)
    seen = {id(held) for held in (*model.parameters(), *model.buffers())}
    for place, leaf in enumerate(leaves):
        if not isinstance(leaf, torch.Tensor):
            continue
        if id(leaf) in seen or not leaf.is_leaf:
            leaves[place] = _alias(leaf)
        seen.add(id(leaf))
    made: tuple[Any, ...] = torch.utils._pytree.tree_unflatten(leaves, shape)
    return made


def _alias(tensor: Any) -> Any:
    """Returns another tensor of the same memory, which requires a gradient if the tensor does."""
    return tensor.detach().requires_grad_(tensor.requires_grad)


def check_arguments(function: Callable[..., Any], args: Sequence[Any], title: str) -> None:
    """Raises ArgumentError unless the function can be called with just these arguments."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    parameters = signature.parameters.values()
    expected = [str(parameter) for parameter in parameters]
    needed = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if needed and not args:
        raise ArgumentError(
            f"{title} needs example arguments to be captured: it takes {', '.join(expected)}",
            hint=f"irs.load({'model' if inspect.ismethod(function) else title}, {', '.join(f'<{p}>' for p in signature.parameters)})",
        )
    why = ""
    try:
        signature.bind(*args)
    except TypeError as error:
        why = str(error)
    if why:
        _complain(args, expected, why)


def _complain(args: Sequence[Any], expected: Sequence[str], why: str = "") -> None:
    count = f"{len(args)} example argument{'s' * (len(args) != 1)}"
    what = f"{count} for a program that takes {len(expected)}" + (f": {why}" if why else "")
    raise ArgumentError(what, hint=f"pass {', '.join(expected) or 'none'}")


def _as_module(function: Callable[..., Any]) -> Any:
    """Returns a module whose forward is the function, with its signature: torch.export takes only modules, and names
    inputs by it."""
    torch = require_torch("to export a function")

    class Function(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, *args: Any) -> Any:
            return function(*args)

    module = Function()
    with suppress(TypeError, ValueError):  # torch's built-in functions have no readable signature
        own = inspect.signature(function)
        first = inspect.Parameter("_module", inspect.Parameter.POSITIONAL_ONLY)
        Function.forward.__signature__ = own.replace(parameters=[first, *own.parameters.values()])  # type: ignore[attr-defined]
    return module


def trimmed(message: str, lines: int = 8) -> str:
    """Returns torch's message without its stack, its advice for torch's developers and its blank lines."""
    kept: list[str] = []
    for line in message.splitlines():
        if line.startswith(_NOISE):
            break
        if line.strip():
            kept.append(line.rstrip())
    return "\n".join(kept[:lines])


def surroundings_of(error: Exception) -> str:
    """Returns what to change in this process if that, and not the model, is the reason of a failure; otherwise nothing."""
    if isinstance(error, RecursionError):
        return "the model may be fine: give Python a deeper stack with sys.setrecursionlimit"
    try:
        Path.cwd()
    except OSError:
        return "the working directory of this process is gone, and torch asks for it: os.chdir to one that exists"
    return ""


def _advice(error: Exception) -> str:
    text = f"{type(error).__name__}: {error}"
    if "not a known type" in text:
        return "return tensors and numbers, in lists, tuples and dictionaries if there are several"
    if "Unsupported input type" in text:
        return "pass tensors and numbers, in lists, tuples and dictionaries if you like"
    return surroundings_of(error) or "check that the model runs with these arguments; torch.jit.script(model) takes other constructs"


def _open(path: Path, trust: bool) -> Any:
    try:
        return captured(lambda: load_program(path, trust=trust))
    except LoadError:
        raise
    except Exception as error:
        what = f"{str(path)!r} is not a program that this torch reads"
        summary, _, stack = str(error).partition("Traceback (most recent")
        summary = trimmed(summary.replace("Original exception", ""))
        parts = (stack.strip().splitlines()[-1], summary) if stack else (f"{type(error).__name__}: {summary}",)
        text = "\n".join(part[:_MOST_SAID] for part in parts)
        raise LoadError(what, where=text, hint="save it again with torch.export.save") from None


_MOST_SAID: Final = 600
"""The most characters shown of each part of torch's message, which includes the program and its history."""
