"""Programs around a sample of an op, as texts that torch.export and torch.jit.script both read.

`between`   the op between pointwise ops
`views`     the op on views of larger arguments, which are then written through
`layouts`   the op on arguments that lie oddly: turned, with steps, expanded
`in place`  the op's variant that writes, on an intermediate, on an argument, and on a view of one
"""

import itertools
import linecache
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

KINDS: Final = ("between", "views", "layouts", "in place", "argument in place", "view in place")
_SPAN: Final = itertools.count()


@dataclass(frozen=True)
class Program:
    """A function of tensors as text, in two dialects, with arguments."""

    kind: str
    arguments: list[torch.Tensor]
    plain: str
    """The function `f` for Python; constants and the op stand in `names`."""
    names: dict[str, Any]
    scripted: str
    """The function `f` for TorchScript; empty where a constant or the op has no such form."""

    def function(self) -> Callable[..., Any]:
        return _made(self.plain, {"torch": torch, **self.names})

    def script_function(self) -> Callable[..., Any]:
        return _made(self.scripted, {"torch": torch, "Tensor": torch.Tensor})


def _made(text: str, names: dict[str, Any]) -> Callable[..., Any]:
    """The function, with its text where inspect finds it."""
    file = f"<oracle {next(_SPAN)}>"
    names["__name__"] = "oracle"
    exec(compile(text, file, "exec"), names)
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    made: Callable[..., Any] = names["f"]
    return made


def programs(op: Any, sample: Any, kinds: tuple[str, ...], ordinal: int) -> Iterator[Program]:
    """The programs of one sample that torch runs eagerly; sparse and quantized tensors are left out."""
    leaves, tree = tree_flatten((sample.input, list(sample.args), dict(sample.kwargs)))
    tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
    if any(x.layout != torch.strided or x.is_quantized or x.is_conj() or x.is_neg() for x in tensors):
        return
    for kind in kinds:
        writer = _Writer(op, sample, leaves, tree, ordinal)
        made = writer.program(kind)
        if made is not None:
            yield made


class _Writer:
    def __init__(self, op: Any, sample: Any, leaves: list[Any], tree: Any, ordinal: int) -> None:
        self.op, self.sample, self.leaves, self.tree, self.ordinal = op, sample, leaves, tree, ordinal
        self.tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
        self.constants: dict[str, Any] = {}

    def program(self, kind: str) -> Program | None:
        writes = "in place" in kind
        if writes and (self.op.inplace_variant is None or self.sample.broadcasts_input or not self.input_is_tensor()):
            return None
        if kind in ("views", "layouts", "view in place") and not self.tensors:
            return None
        if kind == "layouts":
            arguments = [odd_layout(x, self.ordinal + i) for i, x in enumerate(self.tensors)]
        elif kind in ("views", "view in place"):
            arguments = [larger(x) for x in self.tensors]
        else:
            arguments = [x.detach().clone() for x in self.tensors]
        arguments = arguments or [torch.ones(3)]
        for choice in range(2 if kind == "views" else 1):
            made = self.written(kind, arguments, choice)
            if made is not None:
                return made
        return None

    def input_is_tensor(self) -> bool:
        return isinstance(self.sample.input, torch.Tensor)

    def written(self, kind: str, arguments: list[torch.Tensor], choice: int) -> Program | None:
        """The program, if torch takes it; `choice` 1 leaves out what not every op's result may have done to it."""
        head, body = f"def f({', '.join(f'x{i}: Tensor' for i in range(len(arguments)))}):\n", list[str]()
        for i, x in enumerate(self.tensors):
            body.append(f"t{i} = {before(f'x{i}', x, arguments[i], kind, first=i == 0)}")
        lines = "".join(f"    {line}\n" for line in body)
        space = {"torch": torch, "Tensor": torch.Tensor}
        plain, script = self.call("in place" in kind)
        names = {**self.constants, "op": self.op.inplace_variant if "in place" in kind else self.op.op}
        try:
            torch.default_generator.manual_seed(0)
            with torch.no_grad():
                copies = [x.clone() for x in arguments] if kind != "layouts" else arguments
                probe = _made(f"{head}{lines}    r = {plain}\n    return r\n", {**space, **names})
                result = probe(*copies)
        except Exception:
            return None
        tail = self.ending(kind, result, choice)
        if tail is None:
            return None
        ends = "".join(f"    {line}\n" for line in tail)
        made, scripted = (f"{head}{lines}    r = {call}\n{ends}" if call else "" for call in (plain, script))
        return Program(kind, arguments, made, {**names, "Tensor": torch.Tensor}, scripted)

    def call(self, in_place: bool) -> tuple[str, str]:
        """The call of the op for Python and for TorchScript; the latter empty where it cannot be written."""
        count, parts, scripted = itertools.count(), list[str](), list[str | None]()
        for leaf in self.leaves:
            if isinstance(leaf, torch.Tensor):
                parts.append(f"t{next(count)}")
                scripted.append(parts[-1])
            else:
                parts.append(f"c{len(self.constants)}")
                self.constants[parts[-1]] = leaf
                scripted.append(_literal(leaf))
        plain = rendered(tree_unflatten(parts, self.tree), "op")
        target = script_target(self.op, in_place)
        if target is None or any(x is None for x in scripted):
            return plain, ""
        return plain, rendered(tree_unflatten(scripted, self.tree), target)

    def ending(self, kind: str, result: Any, choice: int) -> list[str] | None:
        """What follows the op: writes through views, pointwise ops on results, and what is returned."""
        lines, gives = list[str](), list[str]()
        if kind == "views" and self.input_is_tensor() and writable(self.tensors[0]):
            lines.append("t0.mul_(2)")
        if kind == "views" and choice == 0:
            if not (isinstance(result, torch.Tensor) and writable(result)):
                return None
            lines.append("r.add_(1)")
        if isinstance(result, torch.Tensor):
            gives.append(after("r", result))
            if self.ordinal % 2 and "in place" not in kind:
                gives.append("r")
        elif isinstance(result, list | tuple) and result and all(isinstance(x, torch.Tensor) for x in result):
            lines.append(f"{', '.join(f'r{i}' for i in range(len(result)))}, = r" if len(result) > 1 else "r0 = r[0]")
            gives += [after(f"r{i}", x) for i, x in enumerate(result)]
        else:
            gives.append("r")
        if not self.tensors:
            gives.append("x0 + 1.0")
        elif kind == "views" or "in place" in kind or kind == "layouts":
            gives.append(after("t0", self.tensors[0]))
        return [*lines, f"return {', '.join(gives)}"]


def rendered(tree: Any, target: str) -> str:
    """The call of a function, of a method where the name begins with a point, or an attribute where it begins with an equals sign."""
    first, args, kwargs = tree
    rest = [*map(_expression, args), *(f"{name}={_expression(x)}" for name, x in kwargs.items())]
    if target.startswith("="):
        return f"{_expression(first)}.{target[1:]}"
    if target.startswith("."):
        return f"{_expression(first)}{target}({', '.join(rest)})"
    return f"{target}({', '.join([_expression(first), *rest])})"


def _expression(x: Any) -> str:
    if isinstance(x, list | tuple):
        inner = ", ".join(map(_expression, x)) + ("," if isinstance(x, tuple) and len(x) == 1 else "")
        return f"[{inner}]" if isinstance(x, list) else f"({inner})"
    if isinstance(x, dict):
        return "{" + ", ".join(f"{key!r}: {_expression(item)}" for key, item in x.items()) + "}"
    return str(x)


def _literal(x: Any) -> str | None:
    """A constant as TorchScript writes it."""
    match x:
        case float() if not math.isfinite(x):
            return f"float('{x}')"
        case None | bool() | int() | float() | str():
            return repr(x)
        case torch.dtype() | torch.layout() | torch.memory_format():
            return str(x)
        case torch.Size():
            return str(list(x))
        case torch.device():
            return f"torch.device('{x}')"
    return None


def script_target(op: Any, in_place: bool) -> str | None:
    """What TorchScript calls the op: `torch.add`, or `.add_` for a method."""
    if in_place:
        name = getattr(op.inplace_variant, "__name__", "")
        if name.startswith("<") or not name:
            return None
        return f".{name}" if hasattr(torch.Tensor, name) else None
    name = op.name.removeprefix("_refs.")
    if name in ("T", "H", "mT", "mH"):
        return f"={name}"
    scope: Any = torch
    for part in name.split("."):
        scope = getattr(scope, part, None)
        if scope is None:
            break
    if scope is not None:
        return f"torch.{name}"
    return f".{name}" if hasattr(torch.Tensor, name) else None


def before(name: str, x: torch.Tensor, argument: torch.Tensor, kind: str, *, first: bool) -> str:
    """The tensor that the op takes, made from an argument."""
    if kind in ("views", "view in place"):
        if x.ndim == 0:
            return f"{name}[1]"
        return f"{name}[1:-1]" if x.ndim == 1 else f"{name}.transpose(0, 1)[1:-1]"
    if kind == "layouts" or (kind == "argument in place" and first):
        return name
    if x.dtype == torch.bool:
        return f"torch.logical_not(torch.logical_not({name}))"
    if x.dtype.is_floating_point and x.dtype.itemsize == 1:
        return name
    if x.dtype.is_floating_point or x.dtype.is_complex:
        return f"({name} * 0.5) * 2.0"
    return f"({name} + 1) - 1"


def after(name: str, x: torch.Tensor) -> str:
    if x.layout != torch.strided or x.is_quantized or (x.dtype.is_floating_point and x.dtype.itemsize == 1):
        return name
    if x.dtype == torch.bool:
        return f"torch.logical_not({name})"
    return f"{name} * 2.0 - 1.0" if x.dtype.is_floating_point or x.dtype.is_complex else f"{name} + 3"


def writable(x: torch.Tensor) -> bool:
    """Whether numbers can be multiplied into it, each element being a place of its own."""
    if x.layout != torch.strided or x.is_quantized or x.dtype == torch.bool or x.dtype.itemsize == 1:
        return False
    return x.ndim == 0 or not any(size > 1 and step == 0 for size, step in zip(x.shape, x.stride(), strict=True))


def larger(x: torch.Tensor) -> torch.Tensor:
    """A tensor of which `x` is a view: with a row more at both ends, and turned."""
    x = x.detach()
    if x.ndim == 0:
        return torch.stack([x, x, x])
    base = torch.cat([x[:1], x, x[:1]]) if x.shape[0] else x.new_zeros((2, *x.shape[1:]))
    return base.transpose(0, 1).contiguous() if x.ndim > 1 else base


def odd_layout(x: torch.Tensor, kind: int) -> torch.Tensor:
    """The numbers in another layout: turned, with steps, between other memory, or one row for all."""
    x = x.detach()
    if x.ndim == 0:
        return torch.stack([x, x, x])[1]
    if kind % 4 == 0 and x.ndim > 1:
        order = list(range(x.ndim))[::-1]
        return x.permute(order).contiguous().permute(order)
    if kind % 4 == 3 and x.shape[0] and x.dtype.is_floating_point:
        return x[:1].clone().expand(x.shape)
    if kind % 4 == 2:
        memory = torch.cat([x.reshape(-1)[:3], x.reshape(-1), x.reshape(-1)[:3]])
        skip = min(3, x.numel())
        return memory[skip : skip + x.numel()].view(x.shape)
    return torch.stack([x, x], -1)[..., 1]
