"""What Dynamo says about its own work: where it broke the graph, what it guards on, and what made it compile again.

Dynamo writes a record of each such event for `TORCH_TRACE`, since torch 2.6 in nearly the same words. The same records are read here
from a log file and, with `listening`, from this process, so that both are understood by one text. `torch._dynamo.explain` is not used:
it begins and ends with a reset, which throws away what the user has compiled.

Dynamo keeps what it compiled on the code object, and there is no way to take one entry off again. So a program is observed as a copy
that has a code object of its own (`with_own_code`), which takes its entries with it when it goes.
"""

import copy
import inspect
import logging
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import CellType, FunctionType, MethodType
from typing import Any, Final, NamedTuple

from irscope._base.nested import grouped
from irscope._base.words import listed, plural
from irscope.compilers.record import Break
from irscope.errors import LoadError
from irscope.files import parse_json
from irscope.frontends.torch.export_importer import place_of
from irscope.ir import Location, Node

_HEARD: Final = frozenset({"dynamo_graph_break_reason", "recompile_reasons", "compilation_metrics", "dynamo_cpp_guards_str"})


class TraceRecord(NamedTuple):
    """One record of torch's structured trace."""

    kind: str
    """What it is about; of an artifact its name."""
    fields: Any
    """The JSON beside the payload."""
    id: str
    """The compile that it belongs to, `frame/compile`: `0/1` is the second compile of the first frame; empty if none."""
    payload: str


@dataclass(frozen=True, slots=True)
class Compile:
    """One compile of a frame: of a function, or of what follows a break in it."""

    id: str
    """`frame/compile`, as in torch's own logs."""
    function: str
    guards: tuple[str, ...]
    """What must hold about the user's values for it to be used again, in words; that torch's modes are as they were is left out."""
    seconds: float | None
    recompiled_because: tuple[str, ...]
    """What no longer held of earlier compiles; empty for the first."""


def breaks_and_compiles(records: Iterable[TraceRecord]) -> tuple[tuple[Break, ...], tuple[Compile, ...]]:
    """Returns the breaks, of which those at one line with one reason are one, and the compiles, both in the order of the records."""
    breaks: dict[object, Break] = {}
    guards: dict[str, tuple[str, ...]] = {}
    reasons: dict[str, tuple[str, ...]] = {}
    compiles: dict[str, Compile] = {}
    for kind, fields, id, payload in records:
        if kind == "dynamo_graph_break_reason":
            made = read_break(payload)
            key = (made.reason, made.frames[-1:])
            breaks[key] = replace(made, times=breaks[key].times + 1) if key in breaks else made
        elif kind == "recompile_reasons":
            said: Any = payload  # one reason is written as it is, several as a list
            with suppress(LoadError):
                said = parse_json(payload, "reasons", hint="")
            reasons[id] = _as_reasons(said if isinstance(said, list) else [said])
        elif kind == "dynamo_cpp_guards_str":
            guards[id] = read_guards(payload)
        elif kind == "compilation_metrics" and isinstance(fields, dict) and fields.get("co_name"):
            compiles[id] = _read_compile(id, fields, guards.get(id, ()), reasons.get(id, ()))
    return tuple(breaks.values()), tuple(compiles.values())


# Breaks


_PLACE: Final = re.compile(r'^[^\S\n]*File "(.*?)", line (\d{1,9})(?:, in (.*))?$', re.M)
_REASON: Final = re.compile(r"^(?:Graph Break )?Reason: (.*?)(?=^User code traceback:|\Z)", re.S | re.M)
_BEFORE_REASON: Final = ("Encountered graph break when", "Failed to handle graph break gracefully")
_SKIPPED: Final = "The graph break occurred in the following user code:"


def read_break(text: str) -> Break:
    """Returns what a message of Dynamo's about a break says. Such messages are prose with fixed headings.

    >>> made = read_break('''Graph break in user code at m.py:3
    ... Graph Break Reason: Data-dependent branching
    ...   Explanation: Detected a branch on the
    ...     value of a tensor.
    ...   Hint: Use `torch.cond`.
    ...
    ... User code traceback:
    ...   File "m.py", line 3, in f
    ...     if y.sum() > 0:
    ... ''')
    >>> print(made, made.hints, made.explanation)
    Data-dependent branching at m.py:3 ('Use `torch.cond`.',) Detected a branch on the value of a tensor.
    """
    told, _, stack = text.partition("\nTraceback (most recent call last)")
    found = _REASON.search(told)
    message = found[1] if found else told.partition(_SKIPPED)[0]
    _, heading, after = told.partition("User code traceback:")
    where = after if heading else told.partition(_SKIPPED)[2] or told
    explanation = re.search(r"Explanation: (.*?)(?=\n[^\S\n]*(?:Hint|Developer|For more)|\n\n|\Z)", message, re.S)
    hints = re.findall(r"Hint: (.*?)(?=\n[^\S\n]*(?:Hint|Developer|For more)|\n\n|\Z)", message, re.S)
    lines = [line.strip() for line in message.splitlines() if line.strip() and not line.startswith(_BEFORE_REASON)]
    if not found and (cause := _innermost_message(stack)):
        lines = [cause]  # the message about a frame that is skipped has its reason in the exception alone
    return Break(
        lines[0] if lines else "torch does not say why", _flowing(explanation[1]) if explanation else "", tuple(map(_flowing, hints)),
        _users_frames(where),
    )  # fmt: skip


def _innermost_message(stack: str) -> str:
    """Returns the first line of what the last exception of a printed stack says, without its class."""
    last = stack.rpartition("Traceback (most recent call last)")[2] or stack
    for line in last.splitlines():
        if line and not line.startswith((" ", ":")):
            return re.sub(r"^[\w.]+: ", "", line).strip()
    return ""


def _users_frames(text: str) -> tuple[tuple[str, int, str], ...]:
    """Returns the frames of a printed stack after the last one of torch, irscope or a notebook's own machinery."""
    frames: list[tuple[str, int, str]] = []
    for file, line, function in _PLACE.findall(text):
        if "/torch/_dynamo/polyfills/" in file.replace("\\", "/"):  # traced in place of a builtin that the user calls
            continue
        if file.startswith(_OURS) or any(part in file.replace("\\", "/") for part in _MACHINERY):
            frames.clear()
            continue
        if function in ("_wrapped_call_impl", "_call_impl"):  # how a module calls its forward
            continue
        resumed = _resumed(function)
        frames.append((file, int(line), resumed[0] if resumed else function))
    return tuple(frames)


_OURS: Final = f"{Path(__file__).parents[1]}{os.sep}"
_MACHINERY: Final = ("/torch/_dynamo/", "/IPython/", "/ipykernel/")


def _flowing(text: str) -> str:
    return " ".join(text.split())


_RESUMED: Final = re.compile(r"torch_dynamo_resume_in_(\w+?)_at_(\d{1,9})")


def _resumed(function: str) -> tuple[str, int] | None:
    """Returns the function of which one of Dynamo's is the rest after a break, and the line from which on."""
    found = _RESUMED.fullmatch(function)
    return (found[1], int(found[2])) if found else None


# Guards


_LEAF: Final = re.compile(r"^(?:\| )*\+- ([A-Z_]+): (.*)$")
_ABOUT_TORCH: Final = (
    "___check_global_state", "utils_device.", "___check_torch_function_mode_stack", "_dynamo_", "torch._", "___get_current_stream",
    "_modules, ", "_parameters, ", "_buffers, ", "'forward', ", "G['torch']", "G['__builtins_dict__", "G['__import_torch", "G['___",
    "G['__as_tensor", "G['_functorch",
)  # fmt: skip
"""Parts of checks that torch's own modes, modules and functions are what they were."""
_TENSOR: Final = re.compile(
    r"check_tensor\((?P<name>.*), (?P<type>[\w.]+), DispatchKeySet\((?P<keys>[^)]*)\), torch\.(?P<dtype>\w+), device=(?P<device>\w+), "
    r"requires_grad=(?P<grad>\w+), size=\[(?P<size>.*?)\], stride=\[(?P<stride>.*?)\]\)"
)


def read_guards(tree: str) -> tuple[str, ...]:
    """Returns the guards about the user's values in words, out of the tree of checks that Dynamo prints.

    >>> read_guards('''TREE_GUARD_MANAGER:
    ... +- RootGuardManager
    ... | +- GLOBAL_STATE: ___check_global_state()
    ... | +- GuardManager: source=L['x'], accessed_by=FrameLocalsGuardAccessor(key='x', framelocals_idx=0)
    ... | | +- EQUALS_MATCH: L['n'] == 3        # return x * n  # m.py:2 in f''')
    ('n == 3',)
    """
    found: dict[str, None] = {}
    for line in tree.splitlines():
        leaf = _LEAF.match(line)
        text, _, place = leaf[2].partition("  # ") if leaf else ("", "", "")
        if not text.strip() or any(word in text for word in _ABOUT_TORCH):
            continue
        hint = place.partition(" (HINT: ")[2]
        kind = hint.removesuffix(")").removeprefix("type ") if hint.startswith("type ") else ""
        found[guard_words(text.strip()).replace("of the same type", f"of type {kind}" if kind else "of the same type")] = None
    return tuple(found)


def guard_words(text: str) -> str:
    """Returns what a check of Dynamo's asks, in words where they are known, else as it is, about the user's own names.

    >>> keys = "DispatchKeySet(CPU), torch.float32, device=None, requires_grad=False"
    >>> guard_words(f"check_tensor(L['x'], Tensor, {keys}, size=[None, 16], stride=[16, 1])")
    'x is a float32 tensor of (any, 16), strides (16, 1), on the CPU, without gradient'
    >>> guard_words("___check_obj_id(G['scale'], 94)"), guard_words("2 <= L['self']._modules['fc'].weight.size()[0]")
    ('scale is the same object', '2 <= self.fc.weight.size()[0]')
    """
    if tensor := _TENSOR.match(text):
        keys = tensor["keys"].split(", ")
        device = "CPU" if "CPU" in keys else f"GPU {tensor['device']}" if "CUDA" in keys else keys[0]
        sizes, strides = (tensor[each].replace("None", "any") for each in ("size", "stride"))
        gradient = "with" if tensor["grad"] == "True" else "without"
        subject = f"{_users_name(tensor['name'])} is a {tensor['dtype']} tensor"
        return f"{subject} of ({sizes}), strides ({strides}), on the {device}, {gradient} gradient"
    name = _users_name
    for pattern, words in _WORDS:
        if found := re.match(pattern, text):
            return words.format(*map(name, found.groups()))
    return name(text)


_WORDS: Final = (
    (r"___check_obj_id\((.*), \d+\)", "{0} is the same object"),
    (r"___check_type_id\((.*), \d+\)(?:, type=.*)?$", "{0} is of the same type"),
    (r"check_no_aliasing\((.*)\)$", "no two of {0} are one tensor"),
    (r"hasattr\((.*), '(\w+)'\) == False", "{0} has no {1}"),
    (r"len\((.*)\) == (\d+)", "{0} has {1} elements"),
    (r"not ___dict_contains\((.*), (.*)\)$", "{1} has no {0}"),
    (r"___dict_contains\((.*), (.*)\)$", "{1} has {0}"),
)


def _users_name(text: str) -> str:
    """Returns a text of Dynamo's with its ways into frames and modules written as the user would."""
    text = re.sub(r"\b[LG]\['(\w+)'\]", r"\1", text)
    text = re.sub(r"(?:\.__dict__)?(?:\._modules|\._parameters|\._buffers|\.__dict__)\['(\w+)'\]", r".\1", text)
    return re.sub(r"\b___(?=\w)", "", text)


# Compiles


def _read_compile(id: str, fields: dict[str, Any], guards: tuple[str, ...], reasons: tuple[str, ...]) -> Compile:
    def number(key: str) -> Any:
        found = fields.get(key)
        return found if isinstance(found, int | float) and -1e15 < found < 1e15 else None  # neither NaN nor infinity

    function = str(fields["co_name"])
    if resumed := _resumed(function):
        function = f"{resumed[0]} from line {resumed[1]}"
    spent = number("duration_us")
    seconds = spent / 1e6 if spent is not None else number("entire_frame_compile_time_s")
    said = fields.get("recompile_reason")
    if not reasons and isinstance(said, str):
        reasons = _as_reasons([said])
    return Compile(id, function, guards, seconds, reasons)


def recompiles(compiles: Sequence[Compile]) -> list[str]:
    """Returns how often functions were compiled, and a sentence for each time after the first, which has Dynamo's own words; nothing if
    each was compiled once."""
    again = [each for each in compiles if each.recompiled_because]
    said = [f"{each.function} was compiled again ([{each.id}]), since: {'; '.join(each.recompiled_because)}" for each in again]
    return [f"{plural(len(compiles), 'compile')}, {len(again)} of them again: what they were made for had changed", *said] if again else []


_USERS_STACK: Final = re.compile(r"^[^\S\n]*User stack trace:\n(?:(?!\s*-?\s*\d+/\d+: ).*\n?)*", re.M)


def _as_reasons(said: list[Any]) -> tuple[str, ...]:
    """Returns each reason without the compile that it is about and the line that it quotes.

    >>> _as_reasons(["0/0: L['n'] == 2  # return x * n  # m.py:2 in f", "0/0: tensor 'x' dtype mismatch. expected Float, actual Double"])
    ('n == 2 no longer holds', "tensor 'x' dtype mismatch. expected Float, actual Double")
    """
    found: dict[str, None] = {}
    texts = [_USERS_STACK.sub("", str(each)) for each in said]
    for line in (line for text in texts for line in text.splitlines()):
        text = re.sub(r"^\s*-?\s*(?:\d+/\d+: )?", "", line.partition("  # ")[0]).strip()
        text = re.sub(r"^_*check_type_id\((.*), \d+\), type=<class '(.*)'>.*", r"\1 is not a \2", text)
        text = re.sub(r"^_*check_obj_id\((.*), \d+\).*", r"\1 is another object", text)
        text = re.sub(r"^len\((.*)\) != (\d+)$", r"len(\1) == \2", text)  # of a dictionary torch says what is so now
        text = text.replace("a tensor type, ' but", "a tensor type, but")
        if text:
            found[_users_name(text) + (" no longer holds" if _CHECK.match(text) else "")] = None
    return tuple(found)


_CHECK: Final = re.compile(r"not |\S+ is \S+$|[\w.]+\(.*\)$|.* (?:==|[<>]=?) ")
"""What was checked, where torch says that and not what is so now."""


# In this process


@contextmanager
def listening(torch: Any) -> Iterator[list[TraceRecord]]:
    """A `with` during which the records of this thread's compiles are added to a list. The user's own trace log does not get them, and
    Dynamo's counters, and what it learned about sizes that change, are afterwards what they were."""
    here, records = threading.get_ident(), list[TraceRecord]()

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.thread == here and (made := _heard(record)):
                records.append(made)

    def is_others(record: logging.LogRecord) -> bool:
        fields = getattr(record, "metadata", None) or {}
        return record.thread != here or "str" in fields or "dump_file" in fields  # which later records refer to

    log, listener = logging.getLogger("torch.__trace"), Listener(logging.DEBUG)
    with ExitStack() as stack, _unchanged(torch):
        for handler in log.handlers:
            handler.addFilter(is_others)
            stack.callback(handler.removeFilter, is_others)
        log.addHandler(listener)
        stack.callback(log.removeHandler, listener)
        yield records


@contextmanager
def _unchanged(torch: Any) -> Iterator[None]:
    """Puts back what Dynamo keeps of each compile beside the code: counters, reasons of breaks, and the sizes that it has seen of each
    function, by which it decides what to compile as dynamic, whatever code object it is."""
    utils, pgo = torch._dynamo.utils, torch._dynamo.pgo
    counters = {key: value.copy() for key, value in utils.counters.items()}
    breaks, sizes = len(utils.graph_break_reasons), copy.deepcopy(pgo._CODE_STATE)
    try:
        yield
    finally:
        utils.counters.clear()
        utils.counters.update(counters)
        del utils.graph_break_reasons[breaks:]
        pgo._CODE_STATE = sizes


def _heard(record: logging.LogRecord) -> TraceRecord | None:
    fields = dict(getattr(record, "metadata", None) or {})
    kind = next((key for key in ("artifact", *_HEARD) if key in fields), "")
    about = fields.get(kind)
    name = about.get("name", "") if kind == "artifact" and isinstance(about, dict) else kind
    if name not in _HEARD:
        return None
    return TraceRecord(name, about, compile_id(fields), getattr(record, "payload", None) or "")


def compile_id(fields: dict[str, Any]) -> str:
    """Returns the compile that a record belongs to, as torch prints it.

    >>> compile_id({"frame_id": 0, "frame_compile_id": 1}), compile_id({"compiled_autograd_id": 2})
    ('0/1', '!2')
    """
    frame, again, backward = (fields.get(key) for key in ("frame_id", "frame_compile_id", "compiled_autograd_id"))
    inner = f"{frame}/{again}" if frame is not None else ""
    return inner if backward is None else f"!{backward}/{inner}".rstrip("/")


def original_of(compiled: Any) -> Any:
    """Returns the function or module that was given to `torch.compile`, or the module that was compiled in place; None for what was not
    compiled, or is kept apart from the compiler."""
    held = getattr(compiled, "__dict__", {})  # a proxy has every attribute that it is asked for
    if type(compiled).__name__ == "OptimizedModule":
        return compiled._orig_mod
    if held.get("_compiled_call_impl") is not None:
        return compiled
    return None if held.get("_torchdynamo_disable") else held.get("_torchdynamo_orig_callable")


def with_own_code(function: Callable[..., Any]) -> Any:
    """Returns the same function, method or module with a code object of its own; what has no code in Python is returned as it is."""
    torch = sys.modules["torch"]
    if isinstance(function, torch.nn.Module):
        made = copy.copy(function)
        forward = function.__dict__.get("forward") or MethodType(type(function).forward, made)
        if getattr(forward, "__self__", None) is function:
            forward = MethodType(forward.__func__, made)
        made.__dict__["forward"] = with_own_code(forward)
        made.__dict__.pop("_compiled_call_impl", None)
        return made
    if isinstance(function, MethodType):
        return MethodType(_copied(function.__func__), function.__self__) if isinstance(function.__func__, FunctionType) else function
    return _copied(function) if isinstance(function, FunctionType) else function


def _copied(function: FunctionType) -> FunctionType:
    made = FunctionType(function.__code__.replace(), function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    made.__qualname__, made.__module__ = function.__qualname__, function.__module__
    return made


def objects_used(original: Any) -> list[tuple[str, Any]]:
    """Returns a module, the object of a method, and what a function has in its closure and reads of its globals, each with the beginning of
    the names that the user has for what it holds."""
    holder, function = getattr(original, "__self__", original), inspect.unwrap(getattr(original, "__func__", original))
    code, known = getattr(function, "__code__", None), getattr(function, "__globals__", {})
    cells = zip(getattr(code, "co_freevars", ()), getattr(function, "__closure__", None) or (), strict=False)
    found = [("", holder)] + [(f"{name}.", cell.cell_contents) for name, cell in cells if cell != CellType()]
    return found + [(f"{name}.", known[name]) for name in getattr(code, "co_names", ()) if name in known]


def optimizers_used(original: Any) -> list[Any]:
    """Returns those of torch's optimizers that a function uses, or whose method it is."""
    return [each for _, each in objects_used(original) if isinstance(each, sys.modules["torch"].optim.Optimizer)]


def tensors_held(original: Any) -> dict[str, Any]:
    """Returns the tensors that a function uses which are no arguments, and those that the modules and optimizers hold which it uses, or
    whose method it is, by the user's names for them.

    >>> import torch
    >>> layer = torch.nn.Linear(2, 2, bias=False)
    >>> optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    >>> list(tensors_held(layer)), list(tensors_held(optimizer.step)), list(tensors_held(lambda: (layer, optimizer.step())))
    (['weight'], ['param0'], ['layer.weight'])
    """
    torch, found = sys.modules["torch"], dict[str, Any]()
    for prefix, module in objects_used(original):
        if isinstance(module, torch.Tensor):
            found[prefix.strip(".")] = module
        if isinstance(module, torch.nn.Module):
            found |= {prefix + path: tensor for path, tensor in (*module.named_parameters(), *module.named_buffers())}
    path_of = {id(tensor): path for path, tensor in found.items()}
    for optimizer in optimizers_used(original):
        for number, group in enumerate(optimizer.param_groups):
            called = group.get("param_names") or [f"param{index}" for index in range(len(group["params"]))]
            for name, parameter in zip(called, group["params"], strict=True):
                path = path_of.get(id(parameter), f"group{number}.{name}" if len(optimizer.param_groups) > 1 else name)
                state = {"grad": parameter.grad, **optimizer.state.get(parameter, {})}
                found |= {path: parameter, **{f"{path}.{key}": each for key, each in state.items() if isinstance(each, torch.Tensor)}}
    return found


def users_names(module: Any) -> dict[int, str]:
    """Returns the names that a user has for the tensors that a graph of Dynamo's is compiled for, by identity: of a variable, or of what an
    object holds (`"cache.keys.0"`)."""
    found = dict[int, str]()
    for node in module.graph.nodes:
        given = node.meta.get("grapharg") if node.op == "placeholder" else None
        source = getattr(given, "source", None)
        name = getattr(source, "name", "")
        path = re.sub(r"\W+", ".", _users_name(str(name() if callable(name) else name))).strip(".").removeprefix("self.")
        if given is not None and "(" not in str(name) and "___" not in str(name) and path.partition(".")[0].isidentifier():
            found[id(given.example)] = path
    return found


def users_ops(nodes_of: Mapping[Any, tuple[Node, ...]]) -> Mapping[str, tuple[Node, ...]]:
    """Returns the nodes that FX nodes became, by what the user called that these were made of: a function of torch (`gelu`), as Dynamo
    saw it, and the op that it became first."""
    found: dict[str, dict[Node, None]] = {}
    for fx, nodes in nodes_of.items():
        for name in _users_op(fx):
            found.setdefault(name, {}).update(dict.fromkeys(nodes))
    return {name: tuple(nodes) for name, nodes in found.items()}


def _users_op(fx: Any) -> frozenset[str]:
    """Returns what the user called that an FX node was made of."""
    stack: Sequence[Any] = fx.meta.get("source_fn_stack") or fx.meta.get("fwd_source_fn_stack") or ()
    title, made = stack[-1] if stack else ("", "")
    first = str(fx.meta.get("original_aten") or "")
    return frozenset({str(title), getattr(made, "__name__", ""), first.partition(".")[2].partition(".")[0]} - {""})


def forward_ops(backward: Mapping[Any, Sequence[Node]], forward: Mapping[Any, Sequence[Node]]) -> Iterator[tuple[Node, tuple[Node, ...]]]:
    """Yields for each node of a backward program those of the forward program that autograd has the same number for; both are given as what
    each FX node became."""
    of: dict[Any, dict[Node, None]] = {}
    for node, nodes in forward.items():
        of.setdefault(node.meta.get("seq_nr"), {}).update(dict.fromkeys(nodes))
    of.pop(None, None)
    for node, nodes in backward.items():
        number, is_sum = node.meta.get("seq_nr"), node.meta.get("is_gradient_acc")
        if number in of and not is_sum and node.meta.get("partitioner_tag") == "is_backward":
            yield from ((each, tuple(of[number])) for each in nodes)


# AOTAutograd's graph, and what Inductor's rewrites made of it


class SeenOp(NamedTuple):
    """An op of the graph that AOTAutograd gave, before Inductor's rewrites, which change the graph itself."""

    name: str
    target: str
    reads: tuple[str, ...]
    shape: str
    """Its arguments, without the names of those that it reads."""
    location: Location | None
    scope: str
    called: frozenset[str]
    """What the user called it, or that it was made of."""

    @classmethod
    def of(cls, node: Any) -> "SeenOp":
        reads = list[str]()

        def hole(each: Any) -> str:
            reads.append(each.name)
            return "%"

        arguments = sys.modules["torch"].fx.map_arg((node.args, node.kwargs), hole)
        return cls(node.name, str(node.target), tuple(reads), repr(arguments), *place_of(node), _users_op(node))


def ops_of(module: Any) -> list[SeenOp]:
    """The calls of a graph, and its results as the last."""
    return [SeenOp.of(node) for node in module.graph.nodes if node.op in ("call_function", "output")]


_RESHAPES: Final = {"aten.view.default", "aten.reshape.default"}
"""Inductor makes one of the other everywhere: the same op under the same name."""


class Rewrites:
    """What each op that vanished became, by what those that read it read now."""

    def __init__(self, before: Sequence[SeenOp], module: Any) -> None:
        """`before` are the ops before Inductor's rewrites, `module` is the graph after them."""
        self.before = {op.name: op for op in before}
        self.after = {node.name: node for node in module.graph.nodes}
        self.readers = grouped((read, op) for op in before for read in dict.fromkeys(op.reads))
        self.twins = self._twins()
        self.constant: set[str] = set()
        for op in before:
            if all(read in self.constant or getattr(self.after.get(read), "op", "") == "get_attr" for read in op.reads):
                self.constant.add(op.name)
        self.into: dict[str, tuple[str, ...]] = {}
        for op in reversed(before):
            if not self.is_kept(op):
                self.into[op.name] = self._into(op)

    def is_kept(self, op: SeenOp) -> bool:
        now = str(self.after[op.name].target) if op.name in self.after else ""
        return op.target in (now, now.replace("_.", ".")) or {now, op.target} == _RESHAPES  # in place where nothing else reads the operand

    def _twins(self) -> dict[str, str]:
        """For ops that vanished, one of the same arguments that did not."""
        first: dict[tuple[Any, ...], str] = {}
        found: dict[str, str] = {}
        for op in self.before.values():
            key = op.target, op.shape, tuple(found.get(read, read) for read in op.reads)
            other = first.setdefault(key, op.name)
            if other != op.name and not self.is_kept(op):
                found[op.name] = other
        return found

    def _into(self, op: SeenOp) -> tuple[str, ...]:
        """The names that those that read an op read now in its place, or that these have become."""
        if op.name in self.twins:
            return (self.twins[op.name],)
        found: dict[str, None] = {}
        for reader in self.readers.get(op.name, ()):
            if not self.is_kept(reader):
                found.update(dict.fromkeys(name for name in self.into.get(reader.name, ()) if name not in self.before))
                continue
            now = SeenOp.of(self.after[reader.name]).reads
            if len(now) == len(reader.reads):
                found.update(dict.fromkeys(new for old, new in zip(reader.reads, now, strict=True) if old == op.name))
            else:
                found.update(dict.fromkeys(new for new in now if new not in self.before and new not in reader.reads))
        return tuple(found)

    def because(self, op: SeenOp, called: Mapping[str, str]) -> str:
        """Why an op vanished; `called` names the inputs of the program."""
        now = [self.after[name] for name in self.into[op.name] if name in self.after]
        results = [f"{each.args[0].name}.{each.args[1]}" if "getitem" in each.name else called.get(each.name, each.name) for each in now]
        names = listed([f"%{each}" for each in results])
        if op.name in self.twins:
            return f"{names} computes the same, and is computed once"
        if not self.readers.get(op.name):
            return "nothing read its result"
        if op.name in self.constant:
            return "it depends on no input: its result is a constant"
        if not names:
            return ""
        if {*self.into[op.name]} <= {self.twins.get(read, read) for read in op.reads}:
            return f"what read it reads {names} instead, which is the same"
        return f"rewritten: {names} computes it" + ("" if all(map(self.is_kept, self.readers[op.name])) else ", with what read it")
