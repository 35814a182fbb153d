"""torch.export: exported programs, their `.pt2` files, and modules and functions, which are exported when they are loaded."""

import ast
import inspect
import io
import json
import os
import re
import sys
import traceback
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any, Final, TypeVar

from irscope._base.loaded_code import loaded_files
from irscope._base.running import progress
from irscope._base.words import by_position, plural, warn_caller
from irscope.errors import ArgumentError, CaptureError, LoadError
from irscope.files import read_file
from irscope.frontends.refusals import failed_at, not_trusted
from irscope.frontends.torch.capture import CAPTURE_LOCK, capturing, modes_of, without_autocast
from irscope.frontends.torch.export_importer import import_exported
from irscope.frontends.torch.script_source import ZIP, is_exported, members_of
from irscope.frontends.torch.script_source import load as load_script
from irscope.frontends.torch.types import require_torch
from irscope.ir import Graph, TensorType, flatten_arguments

T = TypeVar("T")

name: Final = "torch.export program"
suffixes: Final = (".pt2",)
may_run_code: Final = True
_NOISE: Final = (
    "The error above", "For C++ stack", "Traceback", "For more information", "  File ", "from user code", "Caused by",
    "consider using data-dependent",
)  # fmt: skip
"""Beginnings of the lines from which torch's messages address torch's own developers."""


def reads(source: object, args: Sequence[object]) -> bool:
    """Accepts an ExportedProgram, an nn.Module, a function called with tensors, or a file that `torch.export.save` wrote."""
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
    return start.startswith(ZIP) and is_exported(members_of(path))


def load(source: Any, args: Sequence[Any], *, name: str | None = None, trust: bool = False) -> Graph:
    """Returns the program as torch.export captured it, not decomposed; nested arguments are one input per leaf.

    `trust` lets a file run its author's code: see `reason_to_distrust`.

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
            with CAPTURE_LOCK:
                source = without_autocast(source, name or "the program")
        graph = import_exported(source, name or "exported", known.__contains__, had_gradients=True)
        if args and len(flatten_arguments(args, graph)) != len(graph.free_inputs):
            _complain(args, [f"{graph.names[value]}: {value.type}" for value in graph.free_inputs])
        return graph
    if isinstance(source, type) and issubclass(source, torch.nn.Module):
        what = f"{source.__name__} is the class of a model; load needs an instance"
        raise ArgumentError(what, hint=f"irs.load({source.__name__}(), x), with the arguments of its constructor in the parentheses")
    title = name or str(getattr(source, "__name__", type(source).__name__))
    with CAPTURE_LOCK:
        return _captured(source, args, title)


def _captured(source: Any, args: Sequence[Any], title: str) -> Graph:
    torch, modes = require_torch("to export a model"), modes_of(source)
    is_module = isinstance(source, torch.nn.Module)
    check_arguments(source.forward if is_module else source, args, title)
    model = source if is_module else _as_module(source)
    apart = _apart(model, tuple(args))
    name = title if title.isidentifier() else "exported"
    try:
        # as the program will run: with gradients, attention may take another kernel, whose result has other strides
        with progress(0, "capturing with torch.export") as step, capturing(), _recording_places(step), torch.no_grad():
            program = torch.export.export(model, apart, strict=False)
        program = without_autocast(program, title, surroundings=True)
    except Exception as error:
        place, advice = failed_at(error, torch), _advice(error)
        said = f"{type(error).__name__}: {error}"
        if "GuardOnDataDependent" in said or "data-dependent" in said or "control flow" in said:  # on a number in a tensor
            try:
                graph = _scripted(source, args, name)
            except Exception as refusal:
                reason = trimmed(str(refusal), 1).strip().rstrip(":")
                advice = f"write it with torch.cond or with tensors (torch.jit.script does not take it either: {reason})"
            else:
                at = f" at {place[0]}" if place else ""
                what = f"{title} reads a number from a tensor{at} and goes on with it in Python, which torch.export cannot capture"
                warn_caller(f"{what}; torch.jit.script did, with all branches. Nothing is wrong with the program")
                return replace(graph, modes=modes.holding(source, graph.bound.values()))
        what = f"torch.export cannot capture {title}"
        where = trimmed(str(error)).replace("FakeTensor", "Tensor") + (f"\n\n{place[0]}\n    {place[1]}" if place else "")
        raise CaptureError(what, where=where, hint=advice) from None
    graph = import_exported(program, name, lambda _: True)  # its locations are frames that just ran here
    return replace(graph, modes=modes.holding(source, graph.bound.values()))


def _scripted(source: Any, args: Sequence[Any], name: str) -> Graph:
    """Returns the program as torch.jit.script compiles it. Raises if that fails, or reads a number as a tensor."""
    torch = require_torch("to script a model")
    parameters = inspect.signature(source.forward if isinstance(source, torch.nn.Module) else source).parameters
    for each in parameters.values():
        if each.default is None and each.annotation is each.empty:  # torch always reads it as a tensor, even if undefined
            raise ArgumentError(f"{each.name}=None is read as a tensor; write {each.name}: torch.Tensor | None = None")
    with capturing():
        scripted = torch.jit.script(source)
    graph = load_script(scripted, args, name=name)
    for parameter, arg, value in zip(parameters, args, graph.free_inputs, strict=False):
        if isinstance(arg, torch.Tensor) != isinstance(value.type, TensorType):
            hint = f"write {parameter}: {'torch.Tensor' if isinstance(arg, torch.Tensor) else type(arg).__name__}"
            raise ArgumentError(f"{parameter} is not annotated, and is read as {value.type}", hint=hint)
    return graph


@contextmanager
def _recording_places(step: Callable[[], object]) -> Iterator[None]:
    """A `with` during which each node records the innermost line of the user's code that it comes from, and counts as a step.

    Torch itself keeps only the frames of functions called `forward`: for a plain function it keeps none, and for a
    model's helper the line that calls it.
    """
    torch = require_torch("to export a model")
    tracer = torch.fx.proxy.TracerBase
    before = getattr(tracer, "_filter_traceback_frames", None)
    if before is None:  # before torch 2.9, which has no such step
        yield
        return
    skipped = (f"{Path(str(torch.__file__)).parent}{os.sep}", "torch/", "<eval_with_key>")

    def kept(self: Any, frames: Any) -> Any:
        step()
        inside = list(takewhile(lambda frame: frame.filename != __file__, reversed(frames)))
        users = [frame for frame in inside if not frame.filename.startswith(skipped)]
        modules = [frame for frame in inside if frame.name == "forward"]  # torch's own modules, if there is no other location
        return traceback.StackSummary.from_list((users or modules)[:1])

    try:
        tracer._filter_traceback_frames = kept
        yield
    finally:
        tracer._filter_traceback_frames = before


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
            leaves[place] = leaf.detach().requires_grad_(leaf.requires_grad)  # another tensor of the same memory
        seen.add(id(leaf))
    made: tuple[Any, ...] = torch.utils._pytree.tree_unflatten(leaves, shape)
    return made


def check_arguments(function: Callable[..., Any], args: Sequence[Any], title: str, call: str = "irs.load") -> None:
    """Raises ArgumentError unless the function can be called with just these arguments."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    parameters = signature.parameters.values()
    expected = [str(parameter) for parameter in parameters]
    needed = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if needed and not args:
        given = title.replace(type(function.__self__).__name__, "model") if inspect.ismethod(function) else title
        raise ArgumentError(
            f"{title} needs example arguments to be captured: it takes {', '.join(expected)}",
            hint=f"{call}({given}, {', '.join(signature.parameters)}), with tensors or arrays of the sizes that you mean, such as "
            "torch.zeros(2, 3)",
        )
    why = ""
    try:
        signature.bind(*args)
    except TypeError as error:
        why = str(error)
    if why:
        _complain(args, expected, why, by_position(signature, call))


def _complain(args: Sequence[Any], expected: Sequence[str], why: str = "", hint: str = "") -> None:
    what = f"{plural(len(args), 'example argument')} for a program that takes {len(expected)}" + (f": {why}" if why else "")
    raise ArgumentError(what, hint=hint or f"pass {', '.join(expected) or 'none'}")


def _as_module(function: Callable[..., Any]) -> Any:
    """Returns a module whose forward is the function, with its signature: torch.export takes only modules, and names inputs by it."""
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
        with capturing():
            return load_program(path, trust=trust)
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


# The check that a `.pt2` file is only data, so that loading it runs no code of its author.
#
# `torch.export.load` runs content of a file in four places: pickles (example inputs, odd weights and constants,
# everything in the format before torch 2.8), compiled libraries of AOTInductor, sizes that are evaluated as Python text
# (`expr_str`), and names that become Python text when FX writes the program as a function. Here every record is checked
# before torch sees it: torch's `weights_only` reader must accept the pickles, sizes must be arithmetic on symbols, trees
# of arguments must consist of Python's own containers, targets must be ops, and names must be names. Anything not known
# to be harmless is refused; with `trust` nothing is checked. Check and load use the same bytes and the same reader.

_AGAIN: Final = "save it again with torch.export.save"
_DAMAGED: Final = " is damaged"
_NAME: Final = re.compile(r"[\w.@]*")
_TARGET: Final = re.compile(r"(torch\.ops(\.\w+){2,3}|_operator\.\w+|math\.\w+|torch\._?sym_\w+)")
_FREE: Final = frozenset(
    "stack_trace nn_module_stack source_fn_stack torch_fn custom from_node guards_code torch_version as_string as_strings "
    "parameter_name buffer_name tensor_constant_name custom_obj_name fqn path_name".split()
)
"""Keys whose strings torch neither evaluates nor writes into the text of a function."""
_TREES: Final = frozenset(("in_spec", "out_spec"))
_CONTAINERS: Final = frozenset((None, "builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict", "collections.deque"))
_SYMPY: Final = frozenset(
    "Symbol Integer Rational Float Add Mul Pow Max Min Abs Eq Ne Equality Unequality Lt Le Gt Ge StrictLessThan LessThan "
    "StrictGreaterThan GreaterThan And Or Not Piecewise ExprCondPair ceiling floor FloorDiv ModularIndexing Where PythonMod "
    "Mod CleanDiv CeilToInt FloorToInt CeilDiv LShift RShift PowByNatural FloatPow FloatTrueDiv IntTrueDiv "
    "IsNonOverlappingAndDenseIndicator TruncToFloat TruncToInt RoundToInt RoundDecimal ToFloat Identity".split()
)
_SYMBOL: Final = re.compile(r"[a-z]{1,3}\d+|oo|int_oo|true|false")
_POWERS: Final = frozenset(("Pow", "PowByNatural", "FloatPow", "LShift"))
_LONGEST_SIZE: Final = 4000
"""The most characters of one size; longer ones take sympy seconds."""
_HIGHEST_POWER: Final = 8
_DEEPEST_POWER: Final = 2


def load_program(path: Path, *, trust: bool) -> Any:
    """Loads the ExportedProgram in a file. Raises LoadError if it is damaged, or would run code without `trust`."""
    torch = require_torch("to load an exported program")
    if not zipfile.is_zipfile(path):
        what = f"{str(path)!r} is not a file that torch.export.save wrote, or a damaged one"
        raise LoadError(what, hint=_AGAIN)
    if trust:
        return torch.export.load(str(path))
    from torch.export.pt2_archive._package import load_pt2

    data = read_file(path)
    records = _records(path, data)
    why = reason_to_distrust(records)
    if why.endswith(_DAMAGED):
        raise LoadError(f"{str(path)!r} is not a program that this torch reads: {why}", hint=_AGAIN)
    if why:
        raise not_trusted(path, why)
    data.seek(0)
    return load_pt2(data).exported_programs["model"]


def _records(path: Path, data: io.BytesIO) -> dict[str, bytes]:
    """Reads every record with torch's own reader: another archive reader might see different content."""
    torch = require_torch("to load an exported program")
    try:
        reader = torch._C.PyTorchFileReader(data)
        return {name: reader.get_record(name) for name in reader.get_all_records()}
    except RuntimeError:
        if "serialized_exported_program.json" in zipfile.ZipFile(data).namelist():
            raise not_trusted(path, "it was written before torch 2.8, in a format of pickles") from None
        raise LoadError(f"{str(path)!r} is not a program that this torch reads, or a damaged one", hint=_AGAIN) from None


def reason_to_distrust(records: dict[str, bytes]) -> str:
    """Returns why a file might run code when it is loaded; empty if it is only data.

    >>> reason_to_distrust({"data/aotinductor/model/wrapper.so": b""})
    'it holds compiled libraries (data/aotinductor/model/wrapper.so)'
    """
    if "models/model.json" not in records:
        foreign = next((name for name in records if name.startswith("data/aotinductor/")), "")
        return f"it holds compiled libraries ({foreign})" if foreign else "it is not an archive of torch.export.save"
    for name, record in records.items():
        why = _distrusted_record(name, record)
        if why:
            return why
    return ""


def _distrusted_record(name: str, record: bytes) -> str:
    if name.startswith("data/aotinductor/"):
        return f"it holds compiled libraries ({name})"
    if name.endswith(".pt"):
        return "" if not record or _is_plain_data(record) else f"{name} is a pickle that builds more than tensors"
    if name.endswith("_config.json") and name.startswith("data/"):
        return _distrusted_payloads(name, _json(record))
    if name.startswith("models/"):
        found = _json(record)
        return next(_strange(found, ""), "") if isinstance(found, dict) else f"{name}{_DAMAGED}"
    return ""


def _json(record: bytes) -> Any:
    try:
        return json.loads(record)
    except (ValueError, RecursionError):
        return None


def _is_plain_data(record: bytes) -> bool:
    """Checks whether torch's restricted reader takes a pickle; it builds tensors and Python containers, and calls nothing else."""
    torch = require_torch("to load an exported program")
    try:
        torch.load(io.BytesIO(record), weights_only=True)
    except Exception:
        return False
    return True


def _distrusted_payloads(name: str, found: Any) -> str:
    payloads = found.get("config") if isinstance(found, dict) else None
    if not isinstance(payloads, dict):
        return f"{name}{_DAMAGED}"
    for key, payload in payloads.items():
        if not isinstance(payload, dict) or payload.get("use_pickle") is not False:
            return f"{key!r} in {name} is a pickle"
        if not str(payload.get("path_name")).startswith(("weight_", "tensor_")):
            return f"{key!r} in {name} is an object"
    return ""


def _strange(root: Any, key: str) -> Iterator[str]:
    """Yields why a program could be more than data, from all its strings and keys and how torch uses them."""
    pending = [(root, key, "")]
    while pending:
        found, key, above = pending.pop()
        if isinstance(found, list):
            pending.extend((item, key, above) for item in found)
        elif isinstance(found, dict):
            for inner, item in found.items():
                if key == "range_constraints":
                    if not _is_size(inner):
                        yield f"a size is {_cut(inner)}"
                elif key not in _FREE and not _NAME.fullmatch(inner):
                    yield f"a name is {_cut(inner)}"
                pending.append((item, inner, key))
        elif isinstance(found, str) and not _is_harmless(found, key):
            yield f"{key} is {_cut(found)}"


def _is_harmless(text: str, key: str) -> bool:
    if key in _FREE:
        return True
    if key in _TREES:
        return not text or _is_tree(text)
    if key == "expr_str":
        return _is_size(text)
    if key in ("target", "as_operator") and text.startswith(("torch", "_operator", "math", "#")):
        return _TARGET.fullmatch(text) is not None
    return _NAME.fullmatch(text) is not None


def _is_tree(text: str) -> bool:
    """Checks whether a tree of arguments consists of Python's own containers: other types import what they name."""
    try:
        _, root = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return False
    pending = [root]
    while pending:
        tree = pending.pop()
        if not isinstance(tree, dict) or not isinstance(tree.get("type"), str | None) or tree["type"] not in _CONTAINERS:
            return False
        if "__enum__" in str(tree.get("context")) or "\\" in str(tree.get("context")):
            return False  # an escaped character could spell it
        children = tree.get("children_spec")
        if not isinstance(children, list):
            return False
        pending.extend(children)
    return True


def _is_size(text: str) -> bool:
    """Checks whether a size is arithmetic on numbers and symbols, with powers that are quick to compute.

    >>> _is_size("Add(Integer(2), Symbol('s0', integer=True))"), _is_size("s0*2 + 1"), _is_size("__import__('os')")
    (True, True, False)
    """
    if len(text) > _LONGEST_SIZE:
        return False
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    pending: list[tuple[ast.expr, int]] = [(tree, 0)]
    while pending:
        node, powers = pending.pop()
        inside = _arithmetic(node)
        if inside is None:
            return False
        if _is_power(node):
            powers += 1
            exponent = inside[1] if len(inside) > 1 else None
            if powers > _DEEPEST_POWER or not _is_small(exponent):
                return False
        pending.extend((each, powers) for each in inside)
    return True


def _arithmetic(node: ast.expr) -> list[ast.expr] | None:
    """Returns the operands of an arithmetic expression; None for anything else."""
    match node:
        case ast.Constant(value=bool() | int() | float()):
            return []
        case ast.Name(id=name) if _SYMBOL.fullmatch(name):
            return []
        case ast.BinOp(left=left, right=right):
            return [left, right]
        case ast.UnaryOp(operand=operand):
            return [operand]
        case ast.Compare(left=left, comparators=rest):
            return [left, *rest]
        case ast.Call(func=ast.Name(id="Symbol"), args=[ast.Constant(value=str(name))]) if re.fullmatch(r"\w+", name):
            return [] if all(isinstance(word.value, ast.Constant) for word in node.keywords) else None
        case ast.Call(func=ast.Name(id="Float"), args=[ast.Constant(value=str(digits))]) if re.fullmatch(r"[\d.e+-]+", digits):
            return [word.value for word in node.keywords]
        case ast.Call(func=ast.Name(id=name), args=args) if name in _SYMPY:
            return [*args, *(word.value for word in node.keywords)]
    return None


def _is_power(node: ast.expr) -> bool:
    match node:
        case ast.BinOp(op=ast.Pow() | ast.LShift()):
            return True
        case ast.Call(func=ast.Name(id=name)):
            return name in _POWERS
    return False


def _is_small(node: ast.expr | None) -> bool:
    """Checks whether an exponent is a small number, in any spelling."""
    match node:
        case ast.Constant(value=int() | float() as number):
            return abs(number) <= _HIGHEST_POWER
        case ast.UnaryOp(operand=inner) | ast.Call(func=ast.Name(id="Integer"), args=[inner]):
            return _is_small(inner)
        case ast.Call(func=ast.Name(id="Rational"), args=[inner, _]):
            return _is_small(inner)
    return False


def _cut(text: str) -> str:
    return ascii(text if len(text) < 60 else f"{text[:60]}…")
