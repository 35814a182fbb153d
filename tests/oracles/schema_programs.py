"""Programs of one op each, called with whatever its schema lets through: a hostile text need not begin as a good one.

The op is any that irscope knows; each argument has the type that the schema names and a value that a user or an attacker may
write: extents below zero, axes far off, steps of zero, numbers that stand for no element type, no layout and no memory format.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from irscope.ir import OpSchema
from irscope.ops.registry import known_names, overloads

__all__ = ["schema_program"]

_DTYPES: Final = "Float Float Float Double Half Long Int Bool Byte ComplexFloat BFloat16".split()
_SHAPES: Final = "|1|0|3|2, 3|3, 3|0, 3|3, 0|2, 3, 4|1, 3, 4|2, 0, 4|2, 4, 3, 3|0, 4, 3, 3|5, 1".split("|")
_INTS: Final = (0, 0, 1, 1, 1, 2, 3, -1, -1, -2, 4, 5, 7, 100, -100, 2**31, 2**63 - 1, -(2**63), 10**9, 10**12)
_FLOATS: Final = "0.0 0.5 1.0 -1.0 -0.0 1e-05 1e300 -1e300 inf nan 3.0".split()
_TEXTS: Final = "none|mean|constant|reflect|circular|floor||tanh|{}|{0.__class__}|%d|a->a".split("|")
_READERS: Final = ("neg", "abs", "relu", "sigmoid", "isnan", "square", "t")


class _NoValue(Exception):
    """An argument is of a type that no text has a value of."""


class _Program:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.inputs: list[str] = []
        self.lines: list[str] = []
        self.shape = rng.choice(_SHAPES)

    def named(self) -> str:
        return f"%v{len(self.lines) + len(self.inputs)}"

    def constant(self, type: str, value: str) -> str:
        name = self.named()
        self.lines.append(f"  {name} : {type} = prim::Constant{f'[value={value}]' if value else ''}()")
        return name

    def number(self, type: str) -> str:
        if type == "bool":
            return self.rng.choice("01")
        return str(self.rng.choice(_INTS)) if type == "int" else self.rng.choice(_FLOATS)

    def operand(self, type: str) -> str:
        rng = self.rng
        if type.endswith("?"):
            return self.constant("NoneType", "") if rng.random() < 0.5 else self.operand(type[:-1])
        if type == "Tensor":
            shape = self.shape if rng.random() < 0.6 else rng.choice(_SHAPES)
            self.inputs.append(f"%x{len(self.inputs)} : {rng.choice(_DTYPES)}({shape})")
            return self.inputs[-1].partition(" ")[0]
        if type.endswith("[]"):
            return self.several(type[:-2], rng.randrange(5))
        if type in ("Scalar", "number"):
            type = rng.choice(("int", "float"))
        if type in ("int", "float", "bool"):
            return self.constant(type, self.number(type))
        if type in ("str", "Device"):
            return self.constant(type, '"cpu"' if type == "Device" else f'"{rng.choice(_TEXTS)}"')
        raise _NoValue(type)

    def several(self, element: str, count: int) -> str:
        if element in ("int", "float", "bool"):
            return self.constant(f"{element}[]", f"[{', '.join(self.number(element) for _ in range(count))}]")
        operands = [self.operand(element) for _ in range(count)]
        name = self.named()
        self.lines.append(f"  {name} : {element}[] = prim::ListConstruct({', '.join(operands)})")
        return name

    def text(self, schema: OpSchema) -> str:
        operands = [self.operand(str(argument.type)) for argument in schema.arguments]
        results = [(f"%r{index}", str(result.type)) for index, result in enumerate(schema.returns)]
        told = ", ".join(f"{name} : {type}" for name, type in results)
        self.lines.append(f"  {told}{' = ' * bool(told)}{schema.name}({', '.join(operands)})")
        for name, type in results:
            if type == "Tensor":
                self.lines.append(f"  {name}n : Tensor = aten::{self.rng.choice(_READERS)}({name})")
        given = _returned(results)
        return f"graph({', '.join(self.inputs)}):\n" + "\n".join(self.lines) + f"\n  return ({given})\n"


def _returned(results: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{name}n" if type == "Tensor" else name for name, type in results)


def schema_program(seed: int) -> str:
    """The program of this number."""
    rng = random.Random(seed)
    names = [name for name in known_names() if name.startswith("aten::")]
    while True:
        schemas = overloads(rng.choice(names))
        try:
            return _Program(rng).text(rng.choice(schemas))
        except (_NoValue, IndexError):
            continue
