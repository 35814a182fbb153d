"""Random programs for torch.jit.script, written statement by statement while torch runs them: scripts, images, reductions.

Each statement is tried in torch as soon as it is written; one that torch refuses, or whose numbers run off, is dropped.
So no rule of shapes or element types is repeated here, and anything that torch takes can be drawn: reductions, norms,
softmax, views, joins, in-place writes through views, half types, integers, masks, tensors of no and of one element,
arguments that lie strangely or share memory, lists, tuples, dictionaries, numbers and sizes read at run time, ifs and loops.
"""

from __future__ import annotations

import copy
import random
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from tests.random_programs import torch_statements as tables

_MOST_ELEMENTS: Final = 6000
_LARGEST: Final = 300.0
_TYPES: Final = "float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool".split()


@dataclass(frozen=True)
class TorchProgram:
    """A program in Python's text and arguments for it."""

    text: str
    arguments: tuple[Any, ...]
    """Tensors, then an int `n` and a bool `flag`."""

    def fresh(self) -> tuple[Any, ...]:
        """New arguments with the same numbers, lying and sharing memory as the originals do."""
        return copied(self.arguments)

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
        return TorchProgram(text.replace(".float()", ".double()"), copied(self.arguments, wide=True))


def copied(arguments: Sequence[Any], *, wide: bool = False) -> tuple[Any, ...]:
    """Copies of arguments, lying and sharing memory as the originals do; with doubles in place of shorter floats if `wide`."""
    memories: dict[tuple[int, torch.dtype], torch.Tensor] = {}
    made: dict[int, Any] = {}
    for x in arguments:
        if isinstance(x, torch.Tensor) and id(x) not in made:
            key, dtype = (x.untyped_storage()._cdata, x.dtype), x.dtype
            if wide and (dtype.is_floating_point or dtype.is_complex):
                dtype = torch.complex128 if dtype.is_complex else torch.float64
            memory = memories.setdefault(key, whole(x).to(dtype, copy=True))
            made[id(x)] = memory.as_strided(x.shape, x.stride(), x.storage_offset())
    return tuple(made.get(id(x), x) for x in arguments)


def whole(x: torch.Tensor) -> torch.Tensor:
    """All of the memory that a tensor lies in."""
    return torch.empty(0, dtype=x.dtype).set_(x.untyped_storage())


def torch_program(seed: int, size: int = 14) -> TorchProgram:
    """The program of this seed, of about `size` statements."""
    with torch.no_grad():
        return Writer(random.Random(seed)).program(size)


def image_program(seed: int, size: int = 14) -> TorchProgram:
    """One over batches of images: convolutions, pooling and norms between the views, writes and loops of other programs."""
    with torch.no_grad():
        return _Images(random.Random(seed)).program(size)


def reduction_program(seed: int, size: int = 0) -> TorchProgram:
    """A reduction with every flag that it has, of any element type and odd shapes, between pointwise ops. Torch may refuse it."""
    rng = random.Random(seed)
    rank = rng.choice([0, 1, 1, 2, 2, 3, 3, 4])
    shape = [rng.choice([0, 1, 2, 3, 5, 8, 17, 33, 2, 3, 4]) for _ in range(rank)]
    axis = rng.randrange(-rank, rank) if rank else 0
    some = rng.sample(range(rank), rng.randint(1, rank)) if rank else [0]
    listed = str([d - rank if rng.random() < 0.5 and rank else d for d in some])
    dims = rng.choice([listed, listed, listed, "[]", "None"])
    holes = {
        "k": rng.random() < 0.5, "d": axis, "D": dims, "A": "()" if dims == "None" else dims, "t": f"torch.{rng.choice(_TYPES)}",
        "f": f"torch.{rng.choice(_TYPES[:3])}", "c": rng.choice(["0", "1", "2", "1.5", "-1"]),
        "o": rng.choice(["0", "1", "2", "3", "0.5", "float('inf')", "-float('inf')", "-1.0", "2.5"]),
    }  # fmt: skip
    made = rng.choice(tables.REDUCTIONS)
    for hole, value in holes.items():
        made = made.replace("{" + hole + "}", str(value))
    before = rng.choice(["", "", "x = x * 2", "x = torch.abs(x)", "x = x + 1"])
    after = rng.choice(["y", "y * 2", "torch.tanh(y)", "y + 1"])
    text = f"def f(x: Tensor, n: int, flag: bool):\n    {before or 'pass'}\n    y = {made}\n    return y, {after}\n"
    return TorchProgram(text, (_reduced(rng, seed, shape), 1, True))


def _reduced(rng: random.Random, seed: int, shape: list[int]) -> torch.Tensor:
    make = torch.Generator().manual_seed(seed)
    dtype = getattr(torch, rng.choice(_TYPES))
    x = torch.rand(shape, generator=make) * 6 - 3
    if dtype.is_floating_point and rng.random() < 0.15:
        x[torch.rand(shape, generator=make) < 0.1] = rng.choice([float("nan"), float("inf"), -float("inf")])
    x = (x.abs() if dtype == torch.uint8 else x).to(dtype)
    return x.transpose(0, -1) if len(shape) > 1 and rng.random() < 0.4 else x


class Writer:
    """Writes one program."""

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
                return [f"{indent}{part}\n" for part in line.split("\n")]
        return []

    def line(self, space: dict[str, Any]) -> tuple[str, list[str]]:
        draw = self.rng.random()
        if draw < 0.13:
            return self.filled(self.rng.choice(tables.WRITE), space, write=True), []
        if draw < 0.20:
            text, count = self.rng.choice(tables.SPLIT)
            made = [self.name() for _ in range(count)]
            return self.filled(named(text, made), space), made
        if draw < 0.24:
            text = self.rng.choice(tables.BLOCK)
            made = [self.name() for mark in ("{a}", "{b}") if mark in text]
            return self.filled(named(text, made), space), made
        kinds = {
            kind: weight
            for kind, (weight, _) in tables.KINDS.items()
            if kind not in ("steps", "compare") or self.mode == "mixed" or self.rng.random() < 0.3
        }
        kind = self.rng.choices(list(kinds), list(kinds.values()))[0]
        made = [self.name()]
        return f"{made[0]} = {self.filled(self.rng.choice(tables.KINDS[kind][1]), space)}", made

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
        question = self.rng.choice(["flag", "n > 1", "not flag", f"bool({self.pick(space)}.sum() > 0)", f"{like}.size(0) > 2"])
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
        head = [f"{indent}{result} = {like}\n", f"{indent}for i in range({self.rng.choice(['n', '2', '1', '0', '3'])}):\n"]
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
            with warnings.catch_warnings():
                warnings.filterwarnings("error", "An output with one or more elements was resized")
                exec(text, space)
            space.pop("__builtins__", None)
            for name in set(space) - kept.keys() - set(made):
                del space[name]  # what only the statement itself uses
            fine = all(self.tame(space[name]) for name in {*self.tensors(space), *made})
        except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError, UserWarning):
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


class _Images(Writer):
    """Numbers are whole, or halves a few times over, and stay small, so that sums are exact in any order and a program that is laid
    out otherwise has the same bits; one program in five has norms and means as well, whose roundings show."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.rough = rng.random() < 0.2
        self.odd, self.mode = False, "float"
        self.dtypes = [rng.choice([torch.float32, torch.float32, torch.float32, torch.float64])]
        self.channels = [rng.choice([1, 2, 3, 4, 6, 8]) for _ in range(2)]
        self.writes = rng.choice([0.0, 0.05, 0.12, 0.25])
        self.views = rng.choice([0.2, 0.5, 1.0, 3.0])
        self.plain, self.convolves = rng.random() < 0.6, False

    def arguments(self) -> tuple[torch.Tensor, ...]:
        rng, dtype = self.rng, self.dtypes[0]
        a, b = self.channels
        shape = [rng.choice([1, 2, 2, 3]), a, *(rng.choice([1, 3, 4, 5, 6, 8]) for _ in range(2))]
        found = [self.laid_out(shape, dtype)]
        draw = rng.random()
        if draw < 0.2:
            found.append(self.part(found[0]))
        elif draw < 0.6:
            found.append(self.laid_out([shape[0], rng.choice([a, b]), *shape[2:]], dtype))
        for there, here in ((a, a), (b, a), (a, b)):
            size = rng.choice([1, 3, 3])
            found.append(self.laid_out([there, here, size, size], dtype).clamp(-1, 1))
        found += [self.laid_out([1 if rng.random() < 0.1 else rng.choice([a, b])], dtype) for _ in range(2)]
        return tuple(found)

    def laid_out(self, shape: list[int], dtype: torch.dtype) -> torch.Tensor:
        draw = self.rng.random()
        if self.plain or draw < 0.4:
            return self.numbers(torch.Size(shape).numel(), dtype).view(shape)
        if draw < 0.7 and len(shape) == 4:
            return self.numbers(torch.Size(shape).numel(), dtype).view(shape).contiguous(memory_format=torch.channels_last)
        return super().laid_out(shape, dtype)

    def numbers(self, count: int, dtype: torch.dtype) -> torch.Tensor:
        make = torch.Generator().manual_seed(self.rng.randrange(1 << 30))
        return torch.randint(-3, 4, (count,), generator=make).to(dtype)

    def line(self, space: dict[str, Any]) -> tuple[str, list[str]]:
        rng, draw = self.rng, self.rng.random()
        if draw < self.writes:
            return self.filled(rng.choice(tables.IMAGE_WRITE), space, write=True), []
        if draw < self.writes + 0.04:
            text, count = rng.choice(tables.IMAGE_SPLIT)
            made = [self.name() for _ in range(count)]
            return self.filled(named(text, made), space), made
        if draw < self.writes + 0.06:
            text = rng.choice(tables.BLOCK)
            made = [self.name() for mark in ("{a}", "{b}") if mark in text]
            return self.filled(named(text, made), space), made
        kinds = tables.IMAGE_KINDS | ({"rough": (2, tables.IMAGE_ROUGH)} if self.rough else {})
        weights = [weight * (self.views if kind == "view" else 1) for kind, (weight, _) in kinds.items()]
        kind = rng.choices(list(kinds), weights)[0]
        made = [self.name()]
        self.convolves = kind == "conv"
        text = self.filled(rng.choice(kinds[kind][1]), space)
        self.convolves = False
        return f"{made[0]} = {text}", made

    def pick(self, space: dict[str, Any], wanted: Any = lambda x: True) -> str:
        """Images rather than weights and sums."""
        if self.rng.random() < 0.85:
            images = [name for name in self.tensors(space) if space[name].ndim == 4 and name not in self.weights(space)]
            if self.convolves:
                images = [name for name in images if space[name].size(1) in self.channels and min(space[name].shape[2:]) > 1]
            fitting = [name for name in images if wanted(space[name])]
            if fitting:
                return self.rng.choice(fitting[-4:] if self.rng.random() < 0.7 else fitting)
        return super().pick(space, wanted)

    def weights(self, space: dict[str, Any]) -> list[str]:
        found = [name for name in self.tensors(space) if name.startswith("x") and name != "x0" and space[name].ndim]
        return [name for name in found if space[name].size(-1) in (1, 3)]

    def filled(self, text: str, space: dict[str, Any], *, write: bool = False) -> str:
        found = super().filled(text, space, write=write)
        if "{" not in found:
            return found
        rng, vectors = self.rng, [name for name in self.tensors(space) if space[name].ndim == 1] or ["x0"]
        words = set(re.findall(r"\w+", found))
        about = next((name for name in self.tensors(space) if name in words), "x0")
        channels = space[about].size(1) if space[about].ndim > 1 else 1
        weights = [name for name in self.weights(space) if space[name].ndim == 4] or ["x0"]
        w = rng.choice([name for name in weights if space[name].size(1) == channels] or weights)
        thin = [name for name in weights if space[name].size(0) == channels] or ["x0"]
        radius = space[w].size(-1) // 2 if rng.random() < 0.8 else 0
        v, u = rng.choice(vectors), rng.choice(vectors)
        values = {"w": w, "v": v, "u": f"({u} * 0 + 3)", "dw": f"{rng.choice(thin)}[:, :1]", "r": radius}
        for key, value in values.items():
            found = found.replace("{" + key + "}", str(value))
        return found

    def tame(self, x: Any) -> bool:
        if not super().tame(x) or self.rough:
            return super().tame(x) and x.numel() < 3000
        few = (x.double() * 64) % 1 == 0
        return x.numel() < 3000 and bool(few.all())


def named(text: str, made: list[str]) -> str:
    """A statement with the names of what it makes."""
    return text.replace("{a}", made[0]).replace("{b}", made[min(1, len(made) - 1)]).replace("{c}", made[-1])


def _broadcasts(first: torch.Size, second: torch.Size) -> bool:
    return all(a == b or 1 in (a, b) for a, b in zip(reversed(first), reversed(second), strict=False))
