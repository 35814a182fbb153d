"""The errors that irscope raises for its user's mistakes.

    IrscopeError
    ├── LoadError             a source that does not exist, or that no frontend reads
    ├── CaptureError          a user's function or model could not become a graph
    ├── ParseError            text that is not IR; carries line and column, prints a caret
    ├── VerifyError           a graph that breaks an invariant; carries the rule's name
    ├── UnknownName           a value, node or op name that the graph does not have
    │   └── UnknownNumber     an index past the end of a list, such as that of kernels
    ├── ArgumentError         example arguments of the wrong number, type or shape
    ├── PassError             a pass broke a promise; carries the pass and the step
    ├── CodegenError          no emission rule for this op on this target
    ├── RunError              an op failed while the program ran; names the node
    ├── MissingExtra          an optional package is not installed; carries the command that installs it
    └── DeviceUnavailable     what is missing, and what works instead

All have the same parts: *what* happened, *where* (an excerpt of the IR or text), *why* (the rule), *what now* (a hint).
Our own mistakes are assertions. Control characters in text that an error quotes from a file are escaped when it is printed,
so that a terminal takes no commands from it.
"""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from types import UnionType
from typing import TYPE_CHECKING, Any, Final, Literal, ParamSpec, TypeVar, Union, get_args, get_origin

from irscope._base.results import Numbered
from irscope._base.words import marked, printable

if TYPE_CHECKING:
    import pandas as pd


class IrscopeError(Exception):
    """A mistake that the user can fix, described as what, where, why and what now.

    Notebooks show the message alone: IPython asks for `_render_traceback_` before it prints a traceback.

    >>> print(IrscopeError("%t3 is used before it is defined", rule="defs-dominate-uses", hint="move its producer up"))
    %t3 is used before it is defined   [defs-dominate-uses]
      hint: move its producer up
    """

    def __init__(self, what: str, *, where: str = "", rule: str = "", hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        """One sentence: what went wrong."""
        self.where = where
        """The text or IR around the place, with the place marked; may be several lines."""
        self.rule = rule
        """The stable name of the broken rule; empty if there is none."""
        self.hint = hint
        """What the user can do now."""

    def __str__(self) -> str:
        parts = [f"{self.what}   [{self.rule}]" if self.rule else self.what]
        if self.where:
            parts += ["", *(f"  {line}".rstrip() for line in printable(self.where).split("\n")), ""]
        if self.hint:
            parts.append(f"  hint: {self.hint}")
        return printable("\n".join(parts))

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


class LoadError(IrscopeError):
    """The source does not exist, or no frontend reads it."""


class CaptureError(IrscopeError):
    """The user's function or model could not become a graph."""


class ParseError(IrscopeError):
    """Text that is not IR.

    `line` and `column` count from 1; `where` shows the line with a caret under the column.
    """

    def __init__(self, what: str, *, line: int, column: int, source_line: str = "", hint: str = "", file: str = "") -> None:
        place = f"{file}:{line}:{column}" if file else f"line {line}, column {column}"
        super().__init__(f"{place}: {what}", where=marked(source_line, column), hint=hint)
        self.line = line
        self.column = column


class VerifyError(IrscopeError):
    """A graph breaks an invariant; `rule` names it."""


class UnknownName(IrscopeError, KeyError):
    """No value, node or op of this name; `hint` lists near misses."""

    __str__ = IrscopeError.__str__  # KeyError would print the repr of its argument


class UnknownNumber(UnknownName, IndexError):
    """No item of a list has this number."""


Numbered.unknown = UnknownNumber


class ArgumentError(IrscopeError, TypeError):
    """Arguments of the wrong number, type or shape."""


_P = ParamSpec("_P")
_R = TypeVar("_R")


def public(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorates a function for users: a call that does not fit its parameters is an ArgumentError, with the call that does. So is
    another thing than True or False where that is asked for, and a failure of a call with a value of another type than annotated."""
    flags = [name for name, kind in function.__annotations__.items() if kind in (bool, "bool") and name != "return"]

    @wraps(function)
    def call(*args: _P.args, **named: _P.kwargs) -> _R:
        for flag in flags if named else ():
            if type(named.get(flag, True)).__name__ not in ("bool", "bool_"):  # NumPy's too
                what = f"{flag} is True or False, not {named[flag]!r:.60}"
                raise ArgumentError(what, hint=f"{_name_of(function)}(…, {flag}=True)")
        try:
            return function(*args, **named)
        except (TypeError, AttributeError, ValueError, LookupError, RuntimeError) as error:
            if isinstance(error, IrscopeError):
                raise
            wrong = _wrong_call(function, args, named) or _wrong_value(function, args, named)
            if wrong is None:
                raise
        raise wrong from None

    return call


def _wrong_call(function: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]) -> ArgumentError | None:
    """The error for arguments that do not fit a function's parameters; None if they fit.

    >>> print(_wrong_call(lambda graph, policy="greedy": graph, [], {"polcy": "min-bytes"}))
    <lambda>(): missing a required argument: 'graph'
      hint: did you mean policy? <lambda>(graph, policy=…)
    """
    from difflib import get_close_matches
    from inspect import signature

    called = signature(function)
    try:
        called.bind(*args, **named)
    except TypeError as error:
        wrong = str(error).partition(". Did")[0]  # Python 3.14 suggests a name as well
    else:
        return None
    unknown = next((each for each in named if each not in called.parameters), "")
    near = get_close_matches(unknown, [name for name in called.parameters if name != "self"], 1)
    hint = f"{f'did you mean {near[0]}? ' if near else ''}{_call_of(function)}"
    if "many" in wrong and {"graph", "program", "source"} & {*[name for name in called.parameters if name != "self"][:1]}:
        hint = f"of a model: {_name_of(function)}(irs.load(model, x)); {hint}"
    return ArgumentError(f"{_name_of(function)}(): {wrong}", hint=hint)


def _wrong_value(function: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]) -> ArgumentError | None:
    """The error for the first argument that its annotation excludes; None if there is none, or if that cannot be told."""
    from inspect import Parameter, formatannotation, signature

    known, called = function.__globals__, signature(function)
    for name, value in called.bind(*args, **named).arguments.items():
        kind: Any = function.__annotations__.get(name, "Any")
        words = kind if isinstance(kind, str) else formatannotation(kind)
        kinds = [word.strip() for word in re.split(r"\|(?![^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*\])", words)]
        several = called.parameters[name].kind is Parameter.VAR_POSITIONAL
        wrong = [each for each in (value if several else [value]) if not any(_fits(each, word, known) for word in kinds)]
        if called.parameters[name].kind is not Parameter.VAR_KEYWORD and wrong:
            named_kinds = {word: known[word] for word in kinds if get_origin(known.get(word)) in (Literal, Union, UnionType)}
            meant = kind if get_origin(kind) is Literal else named_kinds.get(words)
            told = " or ".join(map(repr, get_args(meant))) if get_origin(meant) is Literal else ""
            told = told or re.sub(r"\b\w+\.", "", " | ".join(str(named_kinds.get(word, word)) for word in kinds)).replace(" | ", " or ")
            return ArgumentError(f"{_name_of(function)}(): {name} is {told}, not {wrong[0]!r:.60}", hint=_call_of(function))
    return None


def _fits(value: Any, word: str, known: Mapping[str, Any]) -> bool:
    """Whether a value may be of a type that is named; yes for a name that says nothing about it."""
    import builtins
    import collections.abc
    from operator import index

    name = word.partition("[")[0].rpartition(".")[2]
    if name == "None":
        return value is None
    if name == "Literal":
        return isinstance(value, str | bool) and f"{value!r}".replace("'", '"') in word.replace("'", '"')
    found = known.get(name, getattr(collections.abc, name, getattr(builtins, name, None)))
    try:
        if found in (int, float):
            return isinstance(index(value) if found is int else value.__float__(), found)
        if get_origin(found) is Literal:
            return isinstance(value, str) and value in get_args(found)
        if name in ("Iterable", "Sequence", "Collection") and hasattr(value, "__array__"):  # of names, which no array of numbers has
            return False
        if getattr(found, "_is_protocol", False):
            return all(hasattr(value, member) for member in vars(found) if not member.startswith("_"))
        kinds = [get_origin(each) or each for each in (get_args(found) if get_origin(found) in (Union, UnionType) else [found])]
        return not all(isinstance(each, type) and not isinstance(value, each) for each in kinds)
    except (TypeError, AttributeError):  # not a number
        return found not in (int, float)


def _call_of(function: Callable[..., Any]) -> str:
    """How a user calls it."""
    from inspect import Parameter, signature

    def word(parameter: Parameter) -> str:
        stars = "*" * ((parameter.kind is Parameter.VAR_POSITIONAL) + 2 * (parameter.kind is Parameter.VAR_KEYWORD))
        by_name = not stars and (parameter.kind is Parameter.KEYWORD_ONLY or parameter.default is not Parameter.empty)
        return f"{stars}{parameter.name}{'=…' if by_name else ''}"

    parameters = [each for each in signature(function).parameters.values() if each.name != "self"]
    return f"{_name_of(function)}({', '.join(map(word, parameters))})"


def _name_of(function: Callable[..., Any]) -> str:
    """What a user calls: a method by the name that the documentation gives to an object of its class."""
    *classes, name = re.sub(r"\.__\w+__$", "", function.__qualname__).rpartition(".")
    verb = re.fullmatch(r"_(\w+)Verb", classes[0] or name)
    owner = f"irs.{verb[1].lower()}" if verb else _VARIABLES.get(classes[0], classes[0])
    if verb and not classes[0]:
        return owner
    if not owner and name in getattr(sys.modules.get("irscope"), "__all__", ()):
        owner = "irs"
    return f"{owner}.{name}" if owner else name


_VARIABLES: Final = {
    "Comparison": "c", "Dedup": "d", "Executable": "run", "Explorer": "e", "Fusion": "f", "Profile": "p", "Questions": "db",
    "AliasDb": "db", "Quiz": "q", "Story": "s", "ViewAliases": "va",
}  # fmt: skip


class PassError(IrscopeError):
    """A pass broke a promise: its result does not verify, or an edit names a node of another graph."""


class CodegenError(IrscopeError):
    """No emission rule for this op, dtype or layout on this target."""


class RunError(IrscopeError):
    """An op failed while the program ran; `where` shows its node."""


class MissingExtra(IrscopeError, ImportError):
    """An optional package is not installed, or cannot be loaded: the ImportError that is being handled says which.

    >>> print(MissingExtra("torch", extra="torch", purpose="to load a scripted module"))
    the package 'torch' is needed to load a scripted module, and it is not installed
      hint: pip install 'irscope[torch]'
    """

    def __init__(self, package: str, *, extra: str, purpose: str) -> None:
        why = _why_not_loaded(package)
        super().__init__(
            f"the package {package!r} is needed {purpose}, and it {f'cannot be loaded: {why}' if why else 'is not installed'}",
            hint=_LOAD_AGAIN if why else f"pip install 'irscope[{extra}]'",
        )
        self.package = package
        self.extra = extra


def _why_not_loaded(package: str) -> str:
    """Returns why the import of a package fails that is being handled; empty if the package is not there."""
    error = sys.exc_info()[1]
    name = package.replace("-", "_")
    if not isinstance(error, ImportError):
        return ""
    if isinstance(error, ModuleNotFoundError) and f"{name}_".startswith((error.name or name).partition(".")[0] + "_"):
        return ""  # `iree-base-compiler` is imported as `iree`
    return (str(error).splitlines() or [type(error).__name__])[0]


_LOAD_AGAIN: Final = "give the process more memory (`ulimit -v`), load the package before memory gets short, or install it again"


class DeviceUnavailable(IrscopeError):
    """A device or its compiler is missing; the hint says what still works."""


def new_table(data: Any = None, **options: Any) -> "pd.DataFrame":
    """Returns a DataFrame that prints whole (`irscope._base.tables.Table`), of which the operands are those of pandas.

    Pandas is always installed, but in a process with little memory left its own libraries may not load; that is an error here.
    """
    try:
        from irscope._base.tables import Table
    except (ImportError, MemoryError) as error:
        reason = str(error).splitlines()[0] if str(error) else "there is not enough memory"
        raise IrscopeError(f"the package 'pandas' cannot be loaded: {reason}", hint=_LOAD_AGAIN) from None
    return Table(data, **options)
