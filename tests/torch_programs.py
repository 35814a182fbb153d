"""Random programs for torch.jit.script, written statement by statement while torch runs them.

Each statement is tried in torch as soon as it is written; one that torch refuses, or whose numbers run off, is dropped.
So no rule of shapes or element types is repeated here, and anything that torch takes can be drawn: reductions, norms,
softmax, views, joins, in-place writes through views, half types, integers, masks, tensors of no and of one element,
arguments that lie strangely or share memory, lists, sizes read at run time, ifs and loops.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import torch

__all__ = ["TorchProgram", "torch_program"]

_MOST_ELEMENTS: Final = 6000
_LARGEST: Final = 300.0

_UNARY: Final = (
    "torch.relu({x})", "torch.tanh({x})", "torch.sigmoid({x})", "-{x}", "torch.abs({x})", "torch.sin({x})",
    "torch.cos({x})", "torch.sqrt(torch.abs({x}))", "torch.rsqrt(torch.abs({x}) + 1)", "torch.exp(-torch.abs({x}))",
    "torch.erf({x})", "torch.log1p(torch.abs({x}))", "torch.reciprocal(torch.abs({x}) + 1)", "torch.square({x})",
    "torch.nn.functional.gelu({x})", "torch.nn.functional.silu({x})", "torch.nn.functional.leaky_relu({x}, 0.1)",
    "torch.nn.functional.hardswish({x})", "torch.nn.functional.elu({x})", "torch.nn.functional.softplus({x})",
    "torch.clamp({x}, -1, 1)", "torch.clamp({x}, min=0)", "{x} + 1", "{x} * 0.5", "1 - {x}", "{x} / 2", "{x} ** 2",
    "{x} * 3", "2.5 - {x}", "torch.nn.functional.hardtanh({x})", "torch.expm1(-torch.abs({x}))",
    "torch.nn.functional.gelu({x}, approximate='tanh')", "torch.nan_to_num({x})", "torch.isnan({x})",
)  # fmt: skip
_STEPS: Final = (
    "torch.floor({x})", "torch.round({x})", "torch.ceil({x})", "torch.sign({x})", "{x} > 0.1", "{x} <= 0", "{x} != 1",
    "torch.logical_not({x})", "torch.trunc({x})", "{x} // 2", "{x} % 3", "torch.bitwise_not({x})", "{x} == 0",
    "torch.frac({x})",
)  # fmt: skip
_BINARY: Final = (
    "{x} + {y}", "{x} - {y}", "{x} * torch.tanh({y})", "{x} * {y}", "torch.maximum({x}, {y})", "torch.minimum({x}, {y})",
    "torch.add({x}, {y}, alpha=2)", "torch.where({m}, {x}, {y})", "{x} / (torch.abs({y}) + 1)", "torch.atan2({x}, {y})",
    "torch.lerp({x}, {y}, 0.25)", "torch.addcmul({x}, {y}, {x}, value=0.5)", "torch.sub({x}, {y}, alpha=3)",
    "torch.where({m}, {x}, 0.5)", "torch.where({m}, 1.0, {y})", "{x}.masked_fill({m}, 0.25)", "torch.hypot({x}, {y})",
)  # fmt: skip
_COMPARE: Final = (
    "{x} > {y}", "{x} <= {y}", "{x} == {y}", "{x} & {y}", "{x} | {y}", "{x} ^ {y}", "torch.logical_and({x}, {y})",
    "torch.logical_or({x}, {y})", "torch.fmod({x}, torch.abs({y}) + 1)", "torch.remainder({x}, torch.abs({y}) + 1)",
    "{x} // (torch.abs({y}) + 1)",
)  # fmt: skip
_CONVERT: Final = ("{x}.float()", "{x}.to({t})", "{x}.to({y}.dtype)", "{x}.type_as({y})", "{x}.double()")
_REDUCE: Final = (
    "{x}.sum({d}, keepdim={k})", "{x}.mean({d}, keepdim={k})", "{x}.amax({d}, keepdim={k})", "{x}.amin({d}, keepdim={k})",
    "{x}.sum()", "{x}.mean()", "{x}.max()", "{x}.min()", "{x}.sum({ds}, keepdim={k})", "{x}.mean({ds}, keepdim={k})",
    "{x}.amax({ds}, keepdim={k})", "torch.var({x}, {d}, unbiased=False, keepdim={k})", "torch.std({x}, {d}, keepdim={k})",
    "{x}.any({d}, keepdim={k})", "{x}.all({d}, keepdim={k})", "{x}.any()", "{x}.argmax({d}, keepdim={k})",
    "{x}.argmin({d}, keepdim={k})", "torch.logsumexp({x}, {d}, keepdim={k})", "{x}.norm(2, {d}, keepdim={k})",
    "torch.linalg.vector_norm({x}, 2, {ds}, {k})", "torch.tanh({x}).prod({d}, keepdim={k})", "{x}.cumsum({d})",
    "torch.logsumexp({x}, {ds}, keepdim={k})", "{x}.sum({d}, keepdim={k}, dtype=torch.float64)",
    "{x} - {x}.mean({d}, keepdim=True)", "{x} / ({x}.norm(2, {d}, keepdim=True) + 1)", "{x}.prod()", "{x}.argmax()",
    "torch.linalg.vector_norm({x}, 1, {ds}, {k})", "torch.var({x}, {ds}, correction=1, keepdim={k})",
    "torch.count_nonzero({x}, {d})", "{x} - {x}.amax({ds}, keepdim=True)",
)  # fmt: skip
_NORM: Final = (
    "torch.softmax({x}, {d})", "torch.log_softmax({x}, {d})", "torch.nn.functional.layer_norm({x}, [{x}.size(-1)])",
    "torch.nn.functional.layer_norm({x}, [{x}.size(-1)], {y}, {z})", "torch.nn.functional.group_norm({x}, {n})",
    "torch.nn.functional.batch_norm({x}, {y}, torch.abs({z}))", "torch.rms_norm({x}, [{x}.size(-1)])",
    "torch.nn.functional.layer_norm({x}, [{x}.size(-2), {x}.size(-1)])", "torch.nn.functional.softmax({x}, {d})",
    "torch.softmax({x}, {d}, dtype=torch.float32)", "torch.nn.functional.instance_norm({x})",
    "torch.nn.functional.normalize({x}, 2.0, {d})", "torch.exp({x} - {x}.amax({d}, keepdim=True))",
)  # fmt: skip
_VIEW: Final = (
    "{x}.transpose({d}, {e})", "{x}.permute({p})", "{x}.t()", "{x}.select({d}, {i})", "{x}[{i}]", "{x}.unsqueeze({d})",
    "{x}.squeeze({d})", "{x}.expand_as({y})", "{x}.flatten()", "{x}.view(-1)", "{x}.reshape({x}.size(0), -1)",
    "{x}.narrow({d}, 0, 1)", "{x}[..., {i}]", "{x}[::2]", "{x}[..., 1:]", "{x}[:, :{n}]", "{x}.view({x}.size(0), -1)",
    "{x}.unsqueeze(0).expand(2, {q})", "{x}.reshape({y}.shape)", "{x}.view_as({y})", "{x}.diagonal()", "{x}.flip({d})",
    "{x}.contiguous()", "{x}.clone()", "{x}.movedim({d}, {e})", "{x}[:, None]", "{x}.squeeze()", "{x}.flatten({d})",
    "{x}.unflatten({d}, (-1, 1))", "{x}[1:]", "{x}[..., -1]", "{x}.reshape(-1)", "{x}.mT", "{x}.detach()",
    "{x}.repeat(2, {q1})",
)  # fmt: skip
_SPLIT: Final = (
    ("{a}, {b} = {x}.chunk(2, {d})", 2), ("{a}, {b} = {x}.split({h}, {d})", 2), ("{a}, {b}, {c} = {x}.chunk(3, {d})", 3),
    ("{a}, {b} = {x}.unbind({d})", 2), ("{a}, {b} = {x}.max({d}, keepdim={k})", 2), ("{a}, {b} = torch.min({x}, {d})", 2),
    ("{a}, {b} = torch.var_mean({x}, {d}, unbiased=False, keepdim={k})", 2), ("{a}, {b}, {c} = {x}.unbind({d})", 3),
    ("{a}, {b}, {c} = torch.native_layer_norm({x}, [{x}.size(-1)], None, None, 1e-5)", 3),
    ("{a}, {b} = {x}.tensor_split(2, {d})", 2), ("{a}, {b} = {x}.split_with_sizes([1, {h}], {d})", 2),
)  # fmt: skip
_JOIN: Final = (
    "torch.cat([{x}, {y}], {d})", "torch.stack([{x}, {y}], {d})", "torch.cat([{x}, {x} + 1, {y}], {d})",
    "torch.cat([torch.relu({x}), {x} * 2], {d})", "torch.stack([torch.tanh({x}), {x}, {x} - 1], {d})",
    "torch.cat([{x}, {y}, {z}])", "torch.cat({x}.chunk(2, {d})[::-1], {d})", "torch.stack({x}.unbind({d}), -1)",
)  # fmt: skip
_MAKE: Final = (
    "torch.zeros_like({x})", "torch.ones_like({x})", "torch.full_like({x}, 0.5)", "torch.zeros({x}.size(0), 3)",
    "torch.arange({x}.size(-1))", "{x} * {x}.size(0)", "torch.zeros({x}.shape, dtype={x}.dtype)", "{x} / {x}.numel()",
    "torch.tril(torch.ones({x}.size(-1), {x}.size(-1)))", "{x}.new_zeros({x}.shape)",
)  # fmt: skip
_OTHER: Final = ("{x} @ {y}", "torch.nn.functional.linear({x}, {y})", "torch.matmul({x}, {x}.mT)", "{x} + n", "{x} * n")
_WRITE: Final = (
    "{x}.add_({y})", "{x}.mul_(0.5)", "{x}.relu_()", "{x}.sigmoid_()", "{x}.tanh_()", "{x}.fill_(0.25)", "{x}.zero_()",
    "{x}.clamp_(-1, 1)", "{x}.copy_({y})", "{x}[0].copy_({y})", "{x}[0] = 0.5", "{x}[:, 0].mul_(2)", "{x} += {y}", "{x} *= 0.5",
    "{x}[..., 0] += 1", "{x}.masked_fill_({m}, 0.5)", "{x}.transpose({d}, {e}).add_(1)", "{x}.div_(2)", "{x}.sub_({y})",
    "{x}[::2] = 1", "{x}[..., 1:] -= 0.5", "{x}.neg_()", "{x}.unsqueeze_({d})", "{x}[1:].copy_({y})", "{x}.select({d}, 0).copy_({y})",
    "{x}.view(-1).add_(1)", "{x}.chunk(2, {d})[0].add_(1)", "{x}[:, 0] = {x}.sum(-1)", "{x}.addcmul_({y}, {y})", "{x} -= {x}.mean()",
)  # fmt: skip

_KINDS: Final[dict[str, tuple[float, tuple[str, ...]]]] = {
    "unary": (5, _UNARY), "steps": (0.7, _STEPS), "binary": (4, _BINARY), "compare": (0.7, _COMPARE),
    "convert": (0.5, _CONVERT), "reduce": (2.5, _REDUCE), "norm": (1.5, _NORM), "view": (4, _VIEW), "join": (1.2, _JOIN),
    "make": (0.5, _MAKE), "other": (0.4, _OTHER),
}  # fmt: skip


@dataclass(frozen=True)
class TorchProgram:
    """A program in Python's text and arguments for it."""

    text: str
    arguments: tuple[Any, ...]
    """Tensors, then an int `n` and a bool `flag`."""

    def fresh(self) -> tuple[Any, ...]:
        """New arguments with the same numbers, lying and sharing memory as the originals do."""
        return copy.deepcopy(self.arguments)

    def eager(self) -> Callable[..., Any]:
        """The program as a function that torch runs op by op."""
        space: dict[str, Any] = {"torch": torch, "Tensor": torch.Tensor}
        exec(self.text, space)
        found: Callable[..., Any] = space["f"]
        return found

    def scripted(self) -> Any:
        """The program as a function of TorchScript's."""
        return torch.jit.CompilationUnit(self.text).f

    def exact(self) -> TorchProgram:
        """The same program in double precision."""
        text = self.text
        for short in ("torch.float16", "torch.bfloat16", "torch.float32"):
            text = text.replace(short, "torch.float64")
        return TorchProgram(text.replace(".float()", ".double()"), widened(self.arguments))

    def shaken(self) -> tuple[Any, ...]:
        """New arguments whose numbers differ from the originals in the last places."""
        arguments = self.fresh()
        make = torch.Generator().manual_seed(0)
        for x in {x.untyped_storage().data_ptr(): x for x in arguments if isinstance(x, torch.Tensor)}.values():
            if x.is_floating_point():
                whole = torch.empty(0, dtype=x.dtype).set_(x.untyped_storage())
                noise = torch.rand(whole.shape, generator=make, dtype=torch.float64) * 20 - 10
                whole.copy_(whole.double() * (1 + noise * torch.finfo(x.dtype).eps))
        return arguments


def widened(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Copies of arguments with doubles in place of shorter floats; those that share memory still do."""
    wide: dict[int, torch.Tensor] = {}
    found = []
    for x in arguments:
        if not isinstance(x, torch.Tensor):
            found.append(x)
            continue
        whole = torch.empty(0, dtype=x.dtype).set_(x.untyped_storage())
        dtype = torch.float64 if x.is_floating_point() else x.dtype
        base = wide.setdefault(
            x.untyped_storage().data_ptr() if x.untyped_storage().nbytes() else id(x), whole.to(dtype, copy=True)
        )
        found.append(base.as_strided(x.shape, x.stride(), x.storage_offset()))
    return tuple(found)


def torch_program(seed: int, size: int = 14) -> TorchProgram:
    """The program of this seed, of about `size` statements."""
    with torch.no_grad():
        return _Writer(random.Random(seed)).program(size)


class _Writer:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.count = 0
        mode = rng.choice(["float", "float", "float", "mixed", "half"])
        half = rng.choice([torch.float16, torch.bfloat16])
        self.dtypes = {
            "float": [torch.float32] * 6 + [torch.bool],
            "half": [half, half, half, torch.float32],
            "mixed": [torch.float32, torch.float32, torch.float64, half, torch.int64, torch.int32, torch.uint8,
                      torch.int8, torch.int16, torch.bool],
        }[mode]  # fmt: skip
        self.mode = mode
        self.odd = rng.random() < 0.08
        sizes = [1, 2, 3, 4, 5, 8, 16, 17, 33, 2, 3, 4] + ([0] if rng.random() < 0.25 else [])
        self.base = [rng.choice(sizes) for _ in range(rng.choice([1, 2, 2, 3, 3, 4]))]

    def program(self, size: int) -> TorchProgram:
        arguments = self.arguments()
        names = [f"x{i}" for i in range(len(arguments))]
        space: dict[str, Any] = {"torch": torch, "n": self.rng.randint(0, 3), "flag": self.rng.random() < 0.5}
        arguments = (*arguments, space["n"], space["flag"])
        space.update(zip(names, copy.deepcopy(arguments[:-2]), strict=True))
        lines = self.statements(space, size, "    ")
        tensors = self.tensors(space)
        results = self.rng.sample(tensors[-8:], min(len(tensors[-8:]), self.rng.randint(1, 4)))
        if tensors[-1] not in results:
            results.append(tensors[-1])
        head = f"def f({', '.join(f'{name}: Tensor' for name in names)}, n: int, flag: bool):\n"
        return TorchProgram(f"{head}{''.join(lines)}    return {', '.join(results)}\n", arguments)

    # -- arguments -------------------------------------------------------------------------------------------------

    def arguments(self) -> tuple[torch.Tensor, ...]:
        found: list[torch.Tensor] = []
        for _ in range(self.rng.randint(1, 4)):
            if found and self.rng.random() < 0.15:
                found.append(self.part(self.rng.choice(found)))
            else:
                found.append(self.laid_out(self.shape(), self.rng.choice(self.dtypes)))
        return tuple(found)

    def shape(self) -> list[int]:
        shape = list(self.base)
        draw = self.rng.random()
        if draw < 0.25:
            shape = [1 if self.rng.random() < 0.4 else size for size in shape]
        elif draw < 0.4:
            shape = shape[self.rng.randint(0, len(shape)) :]
        elif draw < 0.5:
            self.rng.shuffle(shape)
        while torch.Size(shape).numel() > 2500:
            shape[shape.index(max(shape))] = 2
        return shape

    def part(self, x: torch.Tensor) -> torch.Tensor:
        if x.ndim == 0 or self.rng.random() < 0.3:
            return x.view(x.shape)
        if x.ndim > 1 and self.rng.random() < 0.4:
            return x.transpose(0, 1)
        return x[: max(1, x.shape[0] // 2)] if self.rng.random() < 0.5 else x[x.shape[0] // 2 :]

    def laid_out(self, shape: list[int], dtype: torch.dtype) -> torch.Tensor:
        """Numbers in some layout, in a buffer with room on both sides."""
        kind = self.rng.choice(["plain", "plain", "plain", "padded", "turned", "stepped", "broadcast"])
        order = list(range(len(shape)))
        if kind == "turned":
            self.rng.shuffle(order)
        room = [shape[i] * (2 if kind == "stepped" else 1) + (1 if kind in ("padded", "stepped") else 0) for i in order]
        if kind == "broadcast" and shape:
            room[self.rng.randrange(len(shape))] = 1
        total, margin = torch.Size(room).numel(), self.rng.choice([0, 3, 16])
        memory = self.numbers(total + 2 * margin, dtype)
        whole = memory[margin : margin + total].view(room)
        if kind == "broadcast":
            whole = whole.expand(shape)
        step = 2 if kind == "stepped" else 1
        whole = whole[tuple(slice(0, shape[i] * step, step) for i in order)] if kind != "plain" else whole
        back = [order.index(i) for i in range(len(order))]
        return whole.permute(back)

    def numbers(self, count: int, dtype: torch.dtype) -> torch.Tensor:
        make = torch.Generator().manual_seed(self.rng.randrange(1 << 30))
        if dtype == torch.bool:
            return torch.rand(count, generator=make) < 0.5
        if not dtype.is_floating_point:
            return torch.randint(0 if dtype == torch.uint8 else -4, 9, (count,), generator=make).to(dtype)
        numbers = (torch.rand(count, generator=make) * 4 - 2).to(dtype)
        if self.odd:
            for value in (float("nan"), float("inf"), -float("inf"), -0.0):
                numbers[torch.rand(count, generator=make) < 0.03] = value
        return numbers

    # -- statements ------------------------------------------------------------------------------------------------

    def statements(self, space: dict[str, Any], size: int, indent: str) -> list[str]:
        lines: list[str] = []
        for _ in range(size):
            draw = self.rng.random()
            if draw < 0.06 and len(indent) < 12:
                made = self.branch(space, indent)
            elif draw < 0.12 and len(indent) < 12:
                made = self.loop(space, indent)
            else:
                made = self.simple(space, indent)
            lines += made
        return lines

    def tensors(self, space: dict[str, Any]) -> list[str]:
        return [name for name, x in space.items() if isinstance(x, torch.Tensor)]

    def pick(self, space: dict[str, Any], wanted: Callable[[torch.Tensor], bool] = lambda x: True) -> str:
        names = self.tensors(space)
        fitting = [name for name in names if wanted(space[name])] or names
        return self.rng.choice(fitting[-4:] if self.rng.random() < 0.6 else fitting)

    def simple(self, space: dict[str, Any], indent: str) -> list[str]:
        for _ in range(12):
            line, made = self.line(space)
            if self.run(line, space, made):
                return [f"{indent}{line}\n"]
        return []

    def line(self, space: dict[str, Any]) -> tuple[str, list[str]]:
        draw = self.rng.random()
        if draw < 0.13:
            return self.filled(self.rng.choice(_WRITE), space, write=True), []
        if draw < 0.20:
            text, count = self.rng.choice(_SPLIT)
            made = [self.name() for _ in range(count)]
            text = text.replace("{a}", made[0]).replace("{b}", made[1]).replace("{c}", made[-1])
            return self.filled(text, space), made
        kinds = {
            kind: weight
            for kind, (weight, _) in _KINDS.items()
            if kind not in ("steps", "compare") or self.mode == "mixed" or self.rng.random() < 0.3
        }
        kind = self.rng.choices(list(kinds), list(kinds.values()))[0]
        made = [self.name()]
        return f"{made[0]} = {self.filled(self.rng.choice(_KINDS[kind][1]), space)}", made

    def filled(self, text: str, space: dict[str, Any], *, write: bool = False) -> str:
        x = self.pick(space)
        rank = space[x].ndim
        shape = space[x].shape
        y = self.pick(space, lambda other: self.rng.random() < 0.1 or _broadcasts(other.shape, shape))
        z = self.pick(space, lambda other: other.shape == space[y].shape)
        m = self.pick(space, lambda other: other.dtype == torch.bool)
        mask = m if space[m].dtype == torch.bool else f"({m} > 0)"
        if write and space[y].untyped_storage().data_ptr() == space[x].untyped_storage().data_ptr():
            y = f"{y}.clone()"
        axes = [self.rng.randrange(rank) if rank else 0 for _ in range(2)]
        signed = [axis - rank if self.rng.random() < 0.4 and rank else axis for axis in axes]
        several = sorted(self.rng.sample(range(rank), self.rng.randint(1, rank))) if rank else [0]
        order = self.rng.sample(range(rank), rank)
        extent = shape[axes[0]] if rank else 1
        values = {
            "x": x, "y": y, "z": z, "m": mask, "d": signed[0], "e": signed[1], "k": self.rng.random() < 0.5,
            "ds": several, "p": ", ".join(map(str, order)) or "0", "i": self.rng.choice([0, 0, 1, -1]),
            "n": self.rng.choice([1, 1, 2, 3]), "h": max(1, (extent + 1) // 2), "q": ", ".join(["-1"] * rank),
            "q1": ", ".join(["1"] * rank), "t": self.rng.choice(self.dtypes),
        }  # fmt: skip
        for key, value in values.items():
            text = text.replace("{" + key + "}", str(value))
        return text

    def branch(self, space: dict[str, Any], indent: str) -> list[str]:
        like, result = self.pick(space), self.name()
        question = self.rng.choice(
            ["flag", "n > 1", "not flag", f"bool({self.pick(space)}.sum() > 0)", f"{like}.size(0) > 2"]
        )
        lines = [f"{indent}if {question}:\n"]
        for _ in range(2):
            inner = copy.deepcopy({key: value for key, value in space.items() if key != "torch"}) | {"torch": torch}
            lines += self.statements(inner, self.rng.randint(1, 4), indent + "    ")
            lines += [f"{indent}    {result} = {self.same(inner, space[like], like)}\n", f"{indent}else:\n"]
        return self.tried(lines[:-1], space, result, indent)

    def loop(self, space: dict[str, Any], indent: str) -> list[str]:
        like, result = self.pick(space), self.name()
        inner = copy.deepcopy({key: value for key, value in space.items() if key != "torch"}) | {"torch": torch}
        inner[result] = inner[like]
        head = [
            f"{indent}{result} = {like}\n",
            f"{indent}for i in range({self.rng.choice(['n', '2', '1', '0', '3'])}):\n",
        ]
        body = self.statements(inner, self.rng.randint(1, 4), indent + "    ")
        last = f"{indent}    {result} = {self.same(inner, space[like], like)}\n"
        return self.tried([*head, *body, last], space, result, indent)

    def same(self, space: dict[str, Any], like: torch.Tensor, name: str) -> str:
        """A tensor of the shape and element type of another, recent ones more often."""
        fitting = [t for t in self.tensors(space) if space[t].shape == like.shape and space[t].dtype == like.dtype]
        return self.rng.choice(fitting[-3:]) if fitting else f"{name}.clone()"

    def tried(self, lines: list[str], space: dict[str, Any], result: str, indent: str) -> list[str]:
        text = "".join(line[len(indent) :] for line in lines)
        known = set(space)
        fine = self.run(text, space, [result])
        for name in set(space) - known - {result}:
            del space[name]
        return lines if fine else []

    def run(self, text: str, space: dict[str, Any], made: list[str]) -> bool:
        """Whether torch takes the statement and its numbers stay small; if not, everything is as before."""
        kept = copy.deepcopy({key: value for key, value in space.items() if key != "torch"}) | {"torch": torch}
        try:
            exec(text, space)
            space.pop("__builtins__", None)
            fine = all(self.tame(space[name]) for name in {*self.tensors(space), *made})
        except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError):
            fine = False
        if not fine:
            space.clear()
            space.update(kept)
        return fine

    def tame(self, x: Any) -> bool:
        if not isinstance(x, torch.Tensor) or x.numel() > _MOST_ELEMENTS or x.ndim > 5 or x.is_complex():
            return False
        if not x.is_floating_point() or x.numel() == 0:
            return bool(x.dtype == torch.bool or x.numel() == 0 or x.abs().max() < 100 or x.dtype == torch.int64)
        finite = x.detach().double()
        if self.odd:
            finite = finite[finite.isfinite()]
            return finite.numel() == 0 or bool(finite.abs().max() < _LARGEST)
        return bool(finite.isfinite().all()) and bool(finite.abs().max() < _LARGEST)

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"


def _broadcasts(first: torch.Size, second: torch.Size) -> bool:
    return all(a == b or 1 in (a, b) for a, b in zip(reversed(first), reversed(second), strict=False))
