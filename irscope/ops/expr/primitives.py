"""The table of primitives: one row per op of an expression, used by the NumPy evaluator, the error bounds, the cost models and the
code generators.

A new primitive is a row here, LLVM text (`irscope.codegen.simd.math_functions`, or a line of `instruction_text` beside it), and
CUDA text (`irscope.codegen.cuda.instruction_text`); `tests/ops/expr/test_primitives.py` says which of them lacks it. Where NumPy has no
such function, `irscope.ops.expr.numpy_eval` defines it. NumPy is not imported here: a kernel from the disk cache must
not wait for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

__all__ = ["COMMUTATIVE", "COMPARISONS", "NO_OPERATION", "PRIMITIVES", "Primitive"]


class Primitive(NamedTuple):
    """One op of an expression."""

    of: Literal["all", "numbers", "floats", "bits", "integers"]
    """Which element types it takes: numbers are all but bool, bits are integers and bool."""
    numpy: str = ""
    """The NumPy function with the same meaning, if there is one."""
    ulps: tuple[float, float] = (0.0, 0.0)
    """The largest error of the generated CPU text in float32 and in float64, in units of the last place; (0, 0) for an exact op."""
    flops: int = 1
    """Additions and multiplications in the float32 code of this package's kernels."""
    cycles: float = 0.5
    """Cycles for one vector register of float32, measured roughly on a core with 512-bit vectors."""
    instructions: int = 1
    """The approximate number of LLVM instructions that it adds to a loop body."""
    commutes: bool = False
    """Whether swapping the operands changes no bit of a result that is a number. `minimum` does not commute: its result for
    0.0 and -0.0 depends on their order."""


_HALF: Final = (0.5, 0.5)

PRIMITIVES: Final[Mapping[str, Primitive]] = {
    "add": Primitive("numbers", "add", _HALF, commutes=True),
    "sub": Primitive("numbers", "subtract", _HALF),
    "mul": Primitive("numbers", "multiply", _HALF, commutes=True),
    "div": Primitive("numbers", "", _HALF, 1, 6.0),
    "fmod": Primitive("numbers", "fmod", cycles=36.0, instructions=85),
    "remainder": Primitive("numbers", "", _HALF, 1, 38.0, 92),
    "neg": Primitive("numbers", "negative"),
    "abs": Primitive("numbers", "abs"),
    "sign": Primitive("numbers"),
    "minimum": Primitive("all", "minimum"),
    "maximum": Primitive("all", "maximum"),
    "floor": Primitive("floats", "floor"),
    "ceil": Primitive("floats", "ceil"),
    "trunc": Primitive("floats", "trunc"),
    "round": Primitive("floats", "round"),
    "reciprocal": Primitive("floats", "", _HALF, 1, 6.0),
    "sqrt": Primitive("floats", "sqrt", _HALF, 2, 8.0),
    "rsqrt": Primitive("floats", "", (1.5, 1.5), 3, 14.0),
    "exp": Primitive("floats", "exp", (1.1, 1.1), 21, 12.0, 25),
    "expm1": Primitive("floats", "expm1", (2.0, 2.0), 22, 14.0, 28),
    "log": Primitive("floats", "log", (1.0, 1.0), 29, 16.0, 30),
    "log1p": Primitive("floats", "log1p", (1.1, 1.1), 36, 24.0, 36),
    "log2": Primitive("floats", "log2", (1.5, 1.5), 30, 17.0, 32),
    "sin": Primitive("floats", "sin", (2.0, 2.5), 21, 26.0, 40),
    "cos": Primitive("floats", "cos", (2.0, 2.5), 21, 26.0, 40),
    "tan": Primitive("floats", "tan", (4.0, 4.0), 22, 34.0, 45),
    "tanh": Primitive("floats", "tanh", (2.0, 3.0), 36, 26.0, 35),
    "sigmoid": Primitive("floats", "", (3.0, 3.0), 23, 20.0, 30),
    "erf": Primitive("floats", "", (1.5, 2.0), 47, 24.0, 45),
    "pow": Primitive("floats", "power", (1.0, 1.0), 100, 110.0, 120),
    "eq": Primitive("all", "equal", commutes=True),
    "ne": Primitive("all", "not_equal", commutes=True),
    "lt": Primitive("all", "less"),
    "le": Primitive("all", "less_equal"),
    "gt": Primitive("all", "greater"),
    "ge": Primitive("all", "greater_equal"),
    "isnan": Primitive("all", "isnan"),
    "where": Primitive("all", "where"),
    "and": Primitive("bits", "bitwise_and", commutes=True),
    "or": Primitive("bits", "bitwise_or", commutes=True),
    "xor": Primitive("bits", "bitwise_xor", commutes=True),
    "not": Primitive("bits", "invert"),
    "shl": Primitive("integers", "left_shift", instructions=3),
    "shr": Primitive("integers", "right_shift", instructions=3),
}
"""The primitives by their name in expressions and kernels; `irscope.ops.expr.expression` defines their meaning."""

NO_OPERATION: Final = frozenset({"input", "scalar", "const", "cast", "count"})
"""The other parts of an expression besides reductions, which compute nothing worth counting."""

COMPARISONS: Final = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
COMMUTATIVE: Final = frozenset(op for op, row in PRIMITIVES.items() if row.commutes)
