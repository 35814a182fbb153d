"""Text of small random programs, written line by line with the shape of every tensor known."""

from __future__ import annotations

import random
import re
import string
from collections.abc import Sequence

__all__ = ["Draft", "Named"]

Shape = tuple[int, ...]
Named = tuple[str, Shape]
"""A tensor by its name, and its shape."""

_UNARY = ("relu", "tanh", "sigmoid", "neg", "abs")
_LETTERS = [letter for letter in string.ascii_lowercase if letter not in "flnotwxyz"]


class Draft:
    """A program under construction: its lines so far, and the tensors that the next line may use."""

    def __init__(self, rng: random.Random, *inputs: Named) -> None:
        self.rng = rng
        self.params = [f"%{name} : {_typed(shape)}" for name, shape in inputs]
        self.tensors: list[Named] = [(f"%{name}", shape) for name, shape in inputs]
        self.lines: list[str] = []
        self._constants: dict[tuple[str, str], str] = {}
        self._made = 0
        self._writes = 0

    def name(self) -> str:
        """Returns the next unused letter; `%a1` after the last one."""
        around, letter = divmod(self._made, len(_LETTERS))
        self._made += 1
        return f"%{_LETTERS[letter]}{around or ''}"

    def constant(self, type: str, value: object) -> str:
        """Returns the name of a constant, which shows its value; the program has each constant once."""
        digits = "_".join(str(value).strip("[]").replace("-", "minus_").replace(".", "_").split(", "))
        name = {"bool": "%true", "NoneType": "%none", "int[]": f"%size_{digits}"}.get(type, f"%{type}{digits}")
        return self._constants.setdefault((type, str(value)), name)

    def number(self, value: int) -> str:
        return self.constant("int", value)

    def sizes(self, shape: Sequence[int]) -> str:
        return self.constant("int[]", list(shape))

    def tensor(self, call: str, shape: Shape, *, write: bool = False) -> Named:
        """Adds a line that computes a tensor; a write's result is called `%w`."""
        self._writes += write
        name = f"%w{self._writes}" if write else self.name()
        self.lines.append(f"  {name} : Tensor = {call}")
        self.tensors.append((name, shape))
        return self.tensors[-1]

    def pick(self, shape: Shape | None = None, *, rank: int = 0) -> Named:
        """Draws a tensor; later ones are more likely."""
        fit = [t for t in self.tensors if (shape is None or t[1] == shape) and len(t[1]) >= rank]
        return self.rng.choices(fit, [1 + k for k in range(len(fit))])[0]

    # Lines

    def unary(self, of: Named | None = None) -> Named:
        name, shape = of or self.pick()
        return self.tensor(f"aten::{self.rng.choice(_UNARY)}({name})", shape)

    def binary(self, of: Named | None = None) -> Named:
        name, shape = of or self.pick()
        other, _ = self.pick(shape)
        op = self.rng.choice([f"mul({name}, {other})", f"add({name}, {other}, {self.number(1)})"])
        return self.tensor(f"aten::{op}", shape)

    def view(self) -> Named:
        """Adds a transpose, a row, a half, or one more axis."""
        name, shape = self.pick(rank=1)
        kind = self.rng.randrange(4 if len(shape) > 1 else 2)
        if kind == 0 and len(shape) < 4:
            return self.tensor(f"aten::unsqueeze({name}, {self.number(0)})", (1, *shape))
        if kind == 1 or kind == 0:
            half = max(1, shape[0] // 2)
            zero, one = self.number(0), self.number(1)
            return self.tensor(f"aten::slice({name}, {zero}, {zero}, {self.number(half)}, {one})", (half, *shape[1:]))
        if kind == 2:
            return self.transposed((name, shape))
        return self.tensor(f"aten::select({name}, {self.number(0)}, {self.number(0)})", shape[1:])

    def transposed(self, of: Named) -> Named:
        name, shape = of
        return self.tensor(
            f"aten::transpose({name}, {self.number(0)}, {self.number(1)})", (shape[1], shape[0], *shape[2:])
        )

    def write(self, of: Named | None = None) -> Named:
        """Adds an in-place op, which returns its operand."""
        name, shape = of or self.pick()
        op = self.rng.choice(["relu_", "tanh_", "neg_", "zero_"])
        return self.tensor(f"aten::{op}({name})", shape, write=True)

    def product(self, of: Named) -> Named:
        """Adds a product of square matrices, which runs through the array library."""
        name, shape = of
        other, _ = self.pick(shape)
        return self.tensor(f"aten::mm({name}, {other})", shape)

    def branch(self) -> Named:
        """Adds an `if` of which one branch yields a new tensor, the other an existing one."""
        first, shape = self.pick()
        other, _ = self.pick(shape)
        inner, result = self.name(), self.name()
        self.lines += [
            f"  {result} : Tensor = prim::If(%flag)", "    block0():",
            f"      {inner} : Tensor = aten::{self.rng.choice(_UNARY)}({first})", f"      -> ({inner})",
            "    block1():", f"      -> ({other})",
        ]  # fmt: skip
        self.tensors.append((result, shape))
        return self.tensors[-1]

    def loop(self) -> Named:
        """Adds a loop that starts from one tensor; each iteration computes another or yields a view."""
        start, shape = self.pick()
        result, now, made = self.name(), self.name(), self.name()
        true = self.constant("bool", 1)
        self.lines += [
            f"  {result} : Tensor = prim::Loop(%n, {true}, {start})", f"    block0(%i{result[1:]} : int, {now} : Tensor):",
            f"      {made} : Tensor = aten::{self.rng.choice([*_UNARY, 'detach'])}({now})", f"      -> ({true}, {made})",
        ]  # fmt: skip
        self.tensors.append((result, shape))
        return self.tensors[-1]

    def listed(self) -> Named:
        """Packs two tensors into a list and takes one out."""
        first, shape = self.pick()
        other, _ = self.pick(shape)
        held = f"%list{len(self.lines)}"
        self.lines.append(f"  {held} : Tensor[] = prim::ListConstruct({first}, {other})")
        return self.tensor(f"aten::__getitem__({held}, {self.number(self.rng.randrange(2))})", shape)

    # The whole

    def unused(self) -> list[Named]:
        """Returns the computed tensors without users."""
        taken = set(re.findall(r"%\w+", " ".join(line.partition(" = ")[2] for line in self.lines)))
        return [
            tensor
            for tensor in self.tensors
            if tensor[0] not in taken and any(tensor[0] in line for line in self.lines)
        ]

    def text(self, *results: Named) -> str:
        """Returns the program with these tensors, or the last one, as results, and with the flag and count its lines
        need as inputs."""
        body = "\n".join(self.lines)
        params = [
            *self.params,
            *(["%flag : bool"] if "prim::If" in body else []),
            *(["%n : int"] if "prim::Loop" in body else []),
        ]
        constants = "".join(f"  {name} : {_constant(type, value)}\n" for (type, value), name in self._constants.items())
        names = ", ".join(name for name, _ in results or self.tensors[-1:])
        return f"graph({', '.join(params)}):\n{constants}{body}\n  return ({names})\n"


def _typed(shape: Shape) -> str:
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return f"Float({', '.join(map(str, shape))}, strides=[{', '.join(map(str, reversed(strides)))}])"


def _constant(type: str, value: str) -> str:
    return "NoneType = prim::Constant()" if type == "NoneType" else f"{type} = prim::Constant[value={value}]()"
