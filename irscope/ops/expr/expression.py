"""Expressions of one element of an op's result over one table of primitives, which kernels evaluate, and what they cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from irscope.errors import ArgumentError, CodegenError
from irscope.ir import ITEM_SIZE
from irscope.ops.type_rules import DIMENSIONED, NUMBER_STRENGTH, ZERO_DIM, is_integral

# The table of primitives: one row per op of an expression, used by the NumPy evaluator, the error bounds, the cost models and the
# code generators.
#
# A new primitive is a row here, LLVM text (`irscope.codegen.llvm.math_functions`, or a line of `instruction_text` beside it), and
# CUDA text (`irscope.codegen.cuda.instruction_text`); `tests/ops/expr/test_primitives.py` says which of them lacks it. Where NumPy has no
# such function, `irscope.ops.expr.numpy_eval` defines it. NumPy is not imported here: a kernel from the disk cache must
# not wait for it.


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

_LANES: Final = 16
"""The float32 numbers of the register for which cycles are counted."""
_OTHER_CYCLES: Final = {"input": 1.0, "const": 0.0}

COMPARISONS: Final = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
COMMUTATIVE: Final = frozenset(op for op, row in PRIMITIVES.items() if row.commutes)


# Expressions of one element of an op's result, which kernels evaluate (and NumPy: `irscope.ops.expr.numpy_eval`).
#
# An expression is a DAG: a subexpression that is used twice is the same object. Its leaves are `input` (an element of the tensor
# operand with index `value`), `scalar` (the number operand with index `value`, known when the kernel runs) and `const`.
# Every part computes in its own `dtype`, on parts of that type, with these exceptions: comparisons and `isnan` take any type
# and return bool, `where` takes a bool first, and `cast` changes the type. Halves are computed in float32, with explicit casts.
#
# | op | meaning |
# |---|---|
# | add sub mul neg abs | wrap around on integers; on bool only `and or xor not` are used |
# | div | floats: IEEE. Integers: as in C, and only with a divisor that is known to be neither 0 nor -1 |
# | fmod remainder | sign of the dividend, of the divisor; on integers only as `div` |
# | minimum maximum | NaN if either is NaN |
# | sign | 0 for NaN and zeros |
# | round | halves to even; floor ceil trunc round are for floats only |
# | pow | C's `pow`, floats only |
# | exp log sqrt sin tanh erf, and the other functions of `PRIMITIVES` | floats only |
# | eq ne lt le gt ge | IEEE: a NaN is only `ne` |
# | and or xor not | bitwise on integers |
# | shl shr | integers; by the width or more, or by a negative number: every bit is shifted out, `shr` leaves the sign |
# | cast | float to integer truncates (out of range: any value); anything to bool is `!= 0`, so NaN is true |
#
# A reduction or a normalisation also reads elements at other positions: `reduce_sum`, `reduce_prod`, `reduce_max`,
# `reduce_min`, `reduce_any`, `reduce_all`, `reduce_argmax` and `reduce_argmin` have one argument, and in `value` the axes
# (of the op's first tensor operand, counted from the front, ascending) that they reduce. Their result is the
# same at all positions along these axes, as if the axes stayed with extent 1; the op's type says whether its result still
# has them. All reductions in one expression have the same axes.
#
# | op | meaning |
# |---|---|
# | reduce_sum reduce_prod | in the argument's type; 0 and 1 when there are no elements |
# | reduce_max reduce_min | NaN if any is NaN; the caller must not pass zero elements |
# | reduce_any reduce_all | of bools |
# | reduce_argmax reduce_argmin | int64: the position of the first best one (or NaN), counting along the axes in row-major order |
# | count | how many elements `value` reduces, in any float type; its argument is not read |

POSITIONS: Final = frozenset({"reduce_argmax", "reduce_argmin"})
REDUCTIONS: Final = POSITIONS | {"reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_any", "reduce_all"}
"""The ops that reduce the elements along some axes."""


class NoExpression(CodegenError):
    """Raised for a call of an op that cannot be part of a kernel; `what` gives the reason, as text for a remark."""


def _operator(op: str) -> tuple[Callable[[Expr, Expr | float], Expr], Callable[[Expr, float], Expr]]:
    """Return the methods of an operator, with the expression first and second."""
    return lambda self, other: call(op, self, other), lambda self, other: call(op, other, self)


@dataclass(frozen=True, eq=False, slots=True)
class Expr:
    """The value of one element. Python's operators build new expressions; a number combined with an expression takes its type.

    >>> x = input_element(0, "float32")
    >>> print(x * 2.0 + x)
    (%0 * 2.0f) + %0
    """

    op: str
    args: tuple[Expr, ...]
    dtype: str
    value: Any = None
    """The number of a `const`; the operand index of an `input` or `scalar`; the axes of a reduction or `count`."""
    strength: int = DIMENSIONED
    """How it takes part in type promotion (`irscope.ops.type_rules`): as a tensor, a 0-dim tensor, or a number."""
    rank: int | None = None
    """For an `input`: the number of dimensions of the operand, if known."""

    __add__, __radd__ = _operator("add")
    __sub__, __rsub__ = _operator("sub")
    __mul__, __rmul__ = _operator("mul")
    __truediv__, __rtruediv__ = _operator("div")
    __lt__, __gt__ = (_operator(op)[0] for op in ("lt", "gt"))
    __le__, __ge__ = (_operator(op)[0] for op in ("le", "ge"))
    __and__, __or__, __xor__ = (_operator(op)[0] for op in ("and", "or", "xor"))

    def __neg__(self) -> Expr:
        return call("neg", self)

    def __invert__(self) -> Expr:
        return call("not", self)

    def __str__(self) -> str:
        return _text(self)


def input_element(index: int, dtype: str, *, rank: int | None = None) -> Expr:
    """Return the element of tensor operand `index` at the computed position; `rank` 0 means that it has no dimensions."""
    return Expr("input", (), dtype, index, ZERO_DIM if rank == 0 else DIMENSIONED, rank)


def number(index: int, dtype: str) -> Expr:
    """Return the number operand `index`, known when the kernel runs: `float64`, `int64` or `bool`."""
    return Expr("scalar", (), dtype, index, NUMBER_STRENGTH)


def const(value: Any, dtype: str) -> Expr:
    """Return a constant of the given type; a whole number wraps around into it. Raises NoExpression for a complex number, and
    for a number that is not finite if the type is integral.

    >>> const(-1, "uint8").value
    255
    """
    if isinstance(value, complex):
        raise NoExpression(f"{value} is a complex number, and kernels compute real ones")
    if dtype == "bool" or not is_integral(dtype):
        return Expr("const", (), dtype, bool(value) if dtype == "bool" else float(value), NUMBER_STRENGTH)
    if isinstance(value, float) and not math.isfinite(value):
        raise NoExpression(f"{value} is not a number of {dtype}")
    bits = int(dtype.lstrip("uint"))
    low = int(value) & ((1 << bits) - 1)
    return Expr("const", (), dtype, low - (1 << bits) if low >> (bits - 1) and dtype[0] == "i" else low, NUMBER_STRENGTH)


def lift(value: Any, dtype: str) -> Expr:
    """Return a number or an expression as an expression of this type."""
    return cast(value, dtype) if isinstance(value, Expr) else const(value, dtype)


def cast(operand: Expr, dtype: str) -> Expr:
    """Return the same value in another type, or the operand itself if it has that type.

    >>> print(cast(input_element(0, "float16"), "float32"))
    float32(%0)
    """
    if operand.dtype == dtype:
        return operand
    if operand.op == "const" and (is_integral(operand.dtype) or (operand.dtype, dtype) == ("float64", "float32")):
        return const(operand.value, dtype)
    return Expr("cast", (operand,), dtype, None, operand.strength)


ON_ARRAYS: Final[dict[str, Callable[..., Any]]] = {}
"""The function of NumPy's arrays that computes each op of the first table; `irscope.ops.expr.numpy_eval` enters them."""


def call(op: str, *operands: Expr | float) -> Expr:
    """Return an op of the first table on operands of one type; numbers among them take the type of the first expression.

    Of arrays it returns an array, so that a formula of these ops computes in NumPy too. Raises NoExpression for a type that the op does
    not take.
    """
    dtype = next((operand.dtype for operand in operands if isinstance(operand, Expr)), None)
    if dtype is None:
        return ON_ARRAYS[op](*operands)  # type: ignore[no-any-return]
    takes = PRIMITIVES[op].of
    refused = {"floats", "numbers", "integers"} if dtype == "bool" else {"floats"} if is_integral(dtype) else {"bits", "integers"}
    if takes in refused:
        raise NoExpression(f"kernels do not compute {op} of {dtype} elements")
    args = tuple(operand if isinstance(operand, Expr) else const(operand, dtype) for operand in operands)
    assert all(arg.dtype == dtype for arg in args), f"{op} of mixed types {[arg.dtype for arg in args]}"
    result = "bool" if op in COMPARISONS or op == "isnan" else dtype
    return Expr(op, args, result, None, max(arg.strength for arg in args))


def where(condition: Any, chosen: Any, otherwise: Any) -> Expr:
    """Return `chosen` where the condition holds, `otherwise` elsewhere; at least one of them is an expression, or all are arrays."""
    if not isinstance(condition, Expr):
        return call("where", condition, chosen, otherwise)
    assert condition.dtype == "bool"
    dtype = next((operand.dtype for operand in (chosen, otherwise) if isinstance(operand, Expr)), None)
    if dtype is None:
        hint = f"write const({chosen}, x.dtype), which arrays do not take: the op then needs numpy= too"
        raise ArgumentError(f"nothing says of which element type {chosen} or {otherwise} is", hint=hint)
    args = (condition, lift(chosen, dtype), lift(otherwise, dtype))
    return Expr("where", args, dtype, None, max(arg.strength for arg in args))


def reduce(op: str, operand: Expr, axes: Sequence[int]) -> Expr:
    """Return an op of the second table along these axes; along none, the operand itself (for argmax and argmin, position 0).

    >>> print(reduce("reduce_sum", input_element(0, "float32"), (0, 2)))
    reduce_sum[0, 2](%0)
    """
    assert op in REDUCTIONS
    assert operand.dtype == "bool" or op not in ("reduce_any", "reduce_all")
    dtype = "int64" if op in POSITIONS else operand.dtype
    if not axes:
        return const(0, dtype) if op in POSITIONS else operand
    return Expr(op, (operand,), dtype, tuple(axes), operand.strength)


def count(operand: Expr, axes: Sequence[int], dtype: str) -> Expr:
    """Return how many elements a reduction along these axes reduces, as a float."""
    assert not is_integral(dtype)
    return Expr("count", (operand,), dtype, tuple(axes), NUMBER_STRENGTH) if axes else const(1, dtype)


def reduced_axes(expr: Expr) -> tuple[int, ...]:
    """Return the axes that an expression reduces; empty for an expression without reductions.

    >>> reduced_axes(input_element(0, "float32") / reduce("reduce_sum", input_element(0, "float32"), (1,)))
    (1,)
    """
    return next((tuple(part.value) for part in subexpressions([expr]) if part.op in REDUCTIONS), ())


_SYMBOLS: Final = dict(
    zip("add sub mul div eq ne lt le gt ge and or xor shl shr".split(), "+ - * / == != < <= > >= & | ^ << >>".split(), strict=True)
)


def _text(expr: Expr) -> str:
    """Format the expression as one line; shared parts are repeated. Recursion is fine: expressions of one op are small and shallow."""
    if expr.op in ("input", "scalar"):
        return f"%{expr.value}"
    if expr.op == "const":
        return f"{expr.value}f" if expr.dtype == "float32" else str(expr.value)
    parts = [_text(arg) for arg in expr.args]
    if expr.op in _SYMBOLS:
        wrapped = [f"({part})" if arg.op in _SYMBOLS else part for arg, part in zip(expr.args, parts, strict=True)]
        return f" {_SYMBOLS[expr.op]} ".join(wrapped)
    if isinstance(expr.value, tuple):
        return f"{expr.op}{list(expr.value)}({parts[0]})"
    return f"{expr.dtype if expr.op == 'cast' else expr.op}({', '.join(parts)})"


# Cost model of expressions: the arithmetic that a kernel does for them per point.


def cycles_of(op: str, dtype: str) -> float:
    """Return the cycles of an op of expressions or kernels, for as many elements as a vector register has in float32.

    >>> cycles_of("exp", "float32"), cycles_of("exp", "float64"), cycles_of("const", "float32")
    (12.0, 24.0, 0.0)
    """
    each = PRIMITIVES[op].cycles if op in PRIMITIVES else _OTHER_CYCLES.get(op, 0.5)
    return each * max(ITEM_SIZE[dtype], 4) / 4


def cycles_at_a_point(results: Sequence[Expr]) -> float:
    """Return the cycles of one core for the operations of the expressions at one point, where whole registers are computed.

    >>> cycles_at_a_point([call("tanh", input_element(0, "float32"))])
    1.625
    """
    return sum(cycles_of(expr.op, expr.dtype) for expr, _ in _distinct(results) if expr.op not in NO_OPERATION) / _LANES


def flops_at_a_point(results: Sequence[Expr]) -> int:
    """Return the additions and multiplications per point that is computed or reduced; values shared by a whole row are not
    counted.

    >>> x = input_element(0, "float32")
    >>> flops_at_a_point([call("exp", x) * 2.0]), flops_at_a_point([call("exp", reduce("reduce_sum", x, (0,)))])
    (22, 1)
    >>> flops_at_a_point([(x - 1.0) * (x - 1.0)])
    2
    """
    moves: list[bool] = []
    total = 0
    for expr, args in _distinct(results):
        has_points = expr.op == "input" or any(moves[arg] for arg in args)
        moves.append(has_points and expr.op not in REDUCTIONS and expr.op != "count")
        if has_points and expr.op not in NO_OPERATION:
            total += PRIMITIVES[expr.op].flops if expr.op in PRIMITIVES else 1
    return total


def _distinct(results: Sequence[Expr]) -> Iterator[tuple[Expr, list[int]]]:
    """Yields what a kernel computes once, operands first, each with the places of its operands: `x - m` written twice is one."""
    place: dict[int, int] = {}
    known: dict[object, int] = {}
    for expr in reversed(subexpressions(results)):
        args = [place[id(arg)] for arg in expr.args]
        key = expr.op, expr.dtype, expr.value, *args
        if key not in known:
            known[key] = len(known)
            yield expr, args
        place[id(expr)] = known[key]


def subexpressions(results: Sequence[Expr]) -> list[Expr]:
    """Return every subexpression once, each before its operands."""
    order: list[Expr] = []
    seen: set[int] = set()
    todo = [(expr, False) for expr in results]
    while todo:
        here, is_done = todo.pop()
        if is_done:
            order.append(here)
        elif id(here) not in seen:
            seen.add(id(here))
            todo.append((here, True))
            todo.extend((arg, False) for arg in here.args)
    return order[::-1]
