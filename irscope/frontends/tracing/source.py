"""Tracing of plain Python functions over arrays: the function runs once, on arrays that record what is done with them.

*Traced:* operators, NumPy's functions (through `__array_ufunc__` and `__array_function__`), the array API
(`x.__array_namespace__()`), indexing, and writes into arrays, which stay writes: views see them. Shapes are plain
numbers, so that Python's loops and ifs over shapes, and over arguments that are not arrays, just run.

*Semantics:* the graph computes what NumPy computes, element types included: promotion is NumPy's, made explicit by
casts. NumPy arrays from outside the function become inputs that are bound to them.

*Refused:* whatever would need the elements: `if x.sum() > 0`, `float(x)`, masks as indices. The error names the line.
"""

import inspect
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from irscope._base.loaded_code import cell_name
from irscope._base.nested import leaves
from irscope._base.words import by_position
from irscope.errors import ArgumentError, CaptureError, public
from irscope.frontends.tracing.importer import Recorder, Traced
from irscope.ir import DTYPES, STR, TENSOR, DictType, Graph, ListType, Origin, TensorType, TupleType, Type, Value, nested_paths
from irscope.ops.node_check import verify

name: Final = "Python function over arrays"
suffixes: Final = ()
_SPEC: Final = re.compile(r"\s*(\w+)\s*(?:\[([\d\s,]*)\])?\s*")
_METHODS: Final = "arrays have NumPy's methods and operators, and NumPy's functions take them; other code has to stay outside"
_HOW: Final = "describe an array by its shape (4, 8), by 'float32[4, 8]', or by an array like it"


def reads(source: object, args: Sequence[object]) -> bool:
    """Accepts a function called with NumPy arrays, directly or in lists, tuples and dictionaries."""
    if not callable(source) or isinstance(source, type) or hasattr(source, "lower"):
        return False
    torch = sys.modules.get("torch")
    parts = list(leaves(args))
    if torch is not None and any(isinstance(part, torch.Tensor) for part in parts):
        return False
    return any(isinstance(part, np.ndarray) for part in parts)


def load(source: Any, args: Sequence[Any], *, name: str | None = None) -> Graph:
    """Returns the graph of a function as `trace` records it."""
    graph = trace(source, *args)
    return replace(graph, name=name) if name else graph


@public
def trace(function: Callable[..., Any], *arguments: Any, **options: Any) -> Graph:
    """Record what a plain Python function over arrays does, without running it on data and without torch.

    Each argument describes an array: a shape (float32), `"float64[4, 8]"`, or an array like it; lists, tuples and dictionaries of these are
    passed as such, with one input for each array. `options` are passed to the function unchanged. The graph computes what NumPy 2 would,
    whose rules of promotion hold with an older one, too. Raises CaptureError, with the line, for what cannot be traced.

    >>> import numpy as np
    >>> def softmax(x):
    ...     e = np.exp(x - x.max(axis=-1, keepdims=True))
    ...     return e / e.sum(axis=-1, keepdims=True)
    >>> g = trace(softmax, (4, 8))
    >>> [node.op for node in g.nodes() if node.op != "prim::Constant"]
    ['aten::amax', 'aten::sub', 'aten::exp', 'aten::sum', 'aten::div']
    >>> str(g.value("e").type), g.node("e").location.line
    ('Float(4, 8)', 2)
    """
    from irscope.frontends.tracing.array import Array

    if not callable(function):
        raise ArgumentError(f"trace takes a function, not an object of type {type(function).__name__}", hint="irs.trace(function, (4, 8))")
    title = str(getattr(function, "__name__", type(function).__name__))
    record = Recorder(Array, getattr(function, "__code__", None))
    given = [_made(record, argument, name) for argument, name in zip(arguments, _names(function, arguments, options, title), strict=True)]
    try:
        result = function(*given, **options)
    except AttributeError as error:
        if not isinstance(error.obj, Traced):
            raise
        frame = traceback.extract_tb(error.__traceback__)[-1]
        what = f"an array has no {error.name!r} that can be traced"
        raise CaptureError(what, where=_where(frame), hint=_METHODS) from None
    except (TypeError, ValueError) as error:
        frames = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)]
        first = next((place for place, name in enumerate(frames) if name.partition(".")[0] == "jax"), len(frames))
        if first == len(frames) and "valid JAX type" not in str(error):  # JAX hides its frames in some errors
            raise
        frame = traceback.extract_tb(error.__traceback__)[first - 1]
        what = "JAX takes arrays of its own, and tracing gives NumPy-like ones"
        raise CaptureError(what, where=_where(frame), hint="irs.load(jax.jit(function), *arrays)") from None
    parts = result if isinstance(result, tuple) and len(result) > 1 else (result,)
    outputs = [_returned(record, part, title) for part in parts]
    graph = record.finish(title if title.isidentifier() else "traced", outputs)
    origin = Origin(partial(function, **options) if options else function)
    graph = replace(graph, argument_paths=nested_paths(given, len(graph.inputs)), origin=origin)
    verify(graph)
    return graph


def _where(frame: traceback.FrameSummary) -> str:
    return f"{cell_name(frame.filename)}:{frame.lineno}\n    {frame.line}"


def _names(function: Callable[..., Any], arguments: Sequence[Any], options: dict[str, Any], title: str) -> list[str]:
    """Returns the parameter name of each argument. Raises ArgumentError if the function cannot be called with them."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return [f"x{index}" for index in range(len(arguments))]
    try:
        bound = signature.bind(*arguments, **options)
    except TypeError as error:
        what = f"{title} cannot be called with these arguments: {error}"
        raise ArgumentError(what, hint=by_position(signature) or f"it takes {signature}") from None
    names: list[str] = []
    for parameter, value in bound.arguments.items():
        kind = signature.parameters[parameter].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            names += [f"{parameter}{index}" for index in range(len(value))]
        elif kind is not inspect.Parameter.VAR_KEYWORD and len(names) < len(arguments):
            names.append(parameter)
    return names


def _made(record: Recorder, described: Any, name: str) -> Any:
    """Returns the traced array, or the container of arrays, that an argument describes."""
    if isinstance(described, np.ndarray | np.generic):
        made = _input(record, name, described.dtype, described.shape)
        return record.number(made) if isinstance(described, np.generic) else made
    if isinstance(described, tuple) and all(isinstance(extent, int | np.integer) for extent in described):
        if any(extent < 0 for extent in described):
            raise ArgumentError(f"the shape {described} of {name} has a negative extent", hint=_HOW)
        return _input(record, name, np.dtype(np.float32), tuple(map(int, described)))
    if isinstance(described, str):
        return _input(record, name, *_parsed(described, name))
    if isinstance(described, list | tuple):
        parts = [_made(record, item, f"{name}_{index}") for index, item in enumerate(described)]
        return type(described)(*parts) if hasattr(described, "_fields") else type(described)(parts)
    if isinstance(described, dict):
        return {key: _made(record, item, f"{name}_{key}") for key, item in described.items()}
    kind = type(described).__name__
    if isinstance(described, bool | int | float | complex):
        hint = f"pass it by keyword, {name}={described!r}, and the graph is for this number; a vector of 4 is (4,)"
        raise ArgumentError(f"the number {described!r} for {name} does not describe an array", hint=hint)
    raise ArgumentError(f"an object of type {kind} for {name} does not describe an array", hint=_HOW)


def _parsed(text: str, name: str) -> tuple[np.dtype[Any], tuple[int, ...]]:
    found = _SPEC.fullmatch(text)
    if found is None or found[1] not in DTYPES:
        raise ArgumentError(f"{text!r} for {name} does not describe an array", hint=_HOW)
    if not _is_numpys(found[1]):
        raise ArgumentError(f"NumPy has no element type {found[1]}", hint=_HOW)
    return np.dtype(found[1]), tuple(int(part) for part in (found[2] or "").split(",") if part.strip())


def _is_numpys(dtype: str) -> bool:
    """Checks whether NumPy itself has a numeric type of this name; importing other packages can add types."""
    try:
        return np.dtype(dtype).kind in "biufc"
    except TypeError:
        return False


def _input(record: Recorder, name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Traced:
    if str(dtype) not in DTYPES:
        raise ArgumentError(f"an array of {dtype} for {name} cannot be part of a graph", hint="use a numeric element type")
    clean = re.sub(r"\W", "_", name)
    return record.input(clean if clean.isidentifier() else f"x_{clean}", dtype, shape)


def _returned(record: Recorder, result: Any, title: str) -> Value:
    """Returns a result of the function (an array, a number, or a container of these) as one value of the graph."""
    if isinstance(result, Traced):
        return record.value_of(result)
    if isinstance(result, np.ndarray | np.generic):
        return record.value_of(record.array(result))
    if isinstance(result, bool | int | float | complex | str):
        return record.constant(result)
    if isinstance(result, tuple) and result:
        parts = [_returned(record, part, title) for part in result]
        return record.node("prim::TupleConstruct", parts, [TupleType(tuple(part.type for part in parts))])[0]
    if isinstance(result, list) and result:
        parts = [_returned(record, part, title) for part in result]
        return record.node("prim::ListConstruct", parts, [ListType(_common(parts, title))])[0]
    if isinstance(result, dict) and result and all(isinstance(key, str) for key in result):
        parts = [_returned(record, part, title) for part in result.values()]
        keys = [record.constant(key) for key in result]
        operands = [value for pair in zip(keys, parts, strict=True) for value in pair]
        return record.node("prim::DictConstruct", operands, [DictType(STR, _common(parts, title))])[0]
    what = f"{title} returns an object of type {type(result).__name__}, which a graph cannot return"
    raise CaptureError(what, hint="return arrays, numbers, or tuples, lists and dictionaries (with str keys) of them")


def _common(parts: Sequence[Value], title: str) -> Type:
    """Returns the one element type of a list or dictionary."""
    if all(isinstance(part.type, TensorType) for part in parts):
        return TENSOR
    if len({part.type for part in parts}) > 1:
        kinds = ", ".join(sorted({str(part.type) for part in parts}))
        raise CaptureError(f"{title} returns a list or dictionary of several kinds: {kinds}", hint="return a tuple")
    return parts[0].type
