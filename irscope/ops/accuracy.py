"""Error bounds of kernels: the largest error of each step of an expression, in units of the last place of its result.

An op of one step has the bound of that step. An op of several steps has no single bound: `1 + erf(x)` suffers cancellation
in any library. For such an op, the formula is reported with the bound of each step. Halves are computed in float32 and rounded
once. A product and a sum may be rounded together where the machine can, so a result may survive that the product alone would
lose (by overflow or underflow).

A fused kernel promises these bounds for the steps of each op, and no rounding between ops that op-by-op execution would
not have. Halves are not rounded between the ops of a kernel, a product need not be rounded before it is added, and denormal
numbers are never flushed. So results differ visibly from torch's where its roundings lose much (`x - y * 2.0` at the ends of
the type, `(x * y) // 3` of halves), or where two equal roundings cancel op by op (`x * x - y * y` with x = y).
`irs.compile(program, exact="torch")` reproduces torch's bits instead: see `irscope.ops.exactness`.

The bounds are those of the CPU text, tested against higher precision: all 2^32 float32 numbers, all halves,
float64 numbers of every size (`tests/codegen/simd/test_math_functions.py`). Text for GPUs calls NVIDIA's functions, whose bounds
are listed in the CUDA programming guide under "Mathematical Functions". Its sigmoid returns 0 where the result would be denormal,
and a GELU of halves may be off by a quarter of a unit more (`irscope.codegen.cuda.instruction_text`). Where no compiler is
installed, NumPy's functions are used, which are off by up to four units more.

A conversion of float64 to float16 rounds to float32 first, as in torch on x86-64, in JAX and in ONNX Runtime (torch on 64-bit Arm rounds
once); it rounds once in a traced NumPy function, as NumPy does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from irscope._base.frozen import FrozenDict
from irscope.errors import ArgumentError
from irscope.ir import REQUIRED, OpSchema, OptionalType, TensorType
from irscope.ops.exactness import why_inexact
from irscope.ops.expr import PRIMITIVES, Expr, NoExpression, input_element, number
from irscope.ops.registry import lookup
from irscope.ops.typing import is_integral

__all__ = ["STEP_ULPS", "ErrorBound", "error_bound"]

STEP_ULPS: Final[Mapping[str, tuple[float, float]]] = FrozenDict({op: row.ulps for op, row in PRIMITIVES.items() if any(row.ulps)})
"""The largest error in float32 and in float64 of each step that rounds. All other steps are exact."""

_BITS: Final = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}


@dataclass(frozen=True)
class ErrorBound:
    """The error bound of one op on elements of one type."""

    op: str
    dtype: str
    """The element type of the operands."""
    result: str
    """The element type of the result."""
    formula: str
    """The formula of one element, in the names of the op's arguments."""
    steps: Mapping[str, float]
    """The kinds of steps that round, with the largest error of one, in units of the last place of its result."""
    computed_in: str
    """The element type of the steps; where it is not that of the result, the result is rounded once more."""
    rounding_steps: int
    """How many steps round."""
    inexact: str = ""
    """Why the op stays with torch in a program compiled with `exact="torch"`, as a phrase that follows its name; empty if
    its kernel then reproduces torch's bits."""

    @property
    def ulps(self) -> float | None:
        """The largest error of the result in units of its last place; None where the errors of several steps add up.

        >>> error_bound("tanh").ulps, error_bound("relu").ulps, error_bound("gelu").ulps
        (2.0, 0, None)
        """
        if self.rounding_steps > 1:
            return None
        own = sum(self.steps.values())
        if self.computed_in == self.result or not own:
            return own
        return 0.5 + own * 2.0 ** (_BITS[self.result] - _BITS[self.computed_in])

    def __str__(self) -> str:
        head = f"{self.op} of {self.dtype} is {self.formula}"
        if not self.steps:
            return f"{head}, exact"
        wide = (
            ""
            if self.computed_in == self.result
            else f", computed in {self.computed_in} and rounded once to {self.result}"
        )
        if self.ulps is not None:
            return f"{head}, at most {self.ulps:.3g} ulp off{wide}"
        each = ", ".join(f"{step} {ulps:g}" for step, ulps in self.steps.items())
        return f"{head}, where each step is off at most by these ulp: {each}{wide}"


def error_bound(op: str, dtype: str = "float32", **arguments: Any) -> ErrorBound:
    """Return the error bound of the kernel of a pointwise op, in units of the last place (ulp); `arguments` are its numbers and flags.

    A kernel of several ops keeps these bounds for each step, and between ops it rounds no more often than op-by-op execution:
    halves not at all, a product and a sum perhaps together. `irs.compile(..., exact="torch")` reproduces torch's bits.

    >>> print(error_bound("exp"))
    aten::exp of float32 is exp(self), at most 1.1 ulp off
    >>> error_bound("exp").inexact, error_bound("mul").inexact
    ("has bits that only torch's own loop gives", '')
    >>> print(error_bound("silu"))
    aten::silu of float32 is self * sigmoid(self), where each step is off at most by these ulp: mul 0.5, sigmoid 3
    """
    name = op if "::" in op else f"aten::{op}"
    found = lookup(name)
    if found is None:
        raise ArgumentError(f"{name} is not an op that irscope knows")
    if found.expression is None or found.category != "pointwise":
        raise ArgumentError(f"the error of {name} has no bound here: it is not a pointwise op that kernels compute")
    complaint = ""
    for schema in found.schemas:
        try:
            given, names = _filled(schema, dtype, arguments)
            expr = found.expression(**given)
        except NoExpression as error:
            complaint = complaint or error.what
        else:
            return _bound(name, dtype, expr, names)
    raise ArgumentError(f"no kernel computes this call of {name}: {complaint}")


def _filled(schema: OpSchema, dtype: str, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return a value for each argument, and the names of those that are only known when the kernel runs."""
    unknown = sorted(set(arguments) - {argument.name for argument in schema.arguments})
    if unknown:
        raise NoExpression(f"{schema.full_name} has no argument {unknown[0]!r}")
    given: dict[str, Any] = {}
    late: list[str] = []
    for argument in schema.arguments:
        kind = argument.type.element if isinstance(argument.type, OptionalType) else argument.type
        if argument.name in arguments:
            given[argument.name] = arguments[argument.name]
        elif argument.default is not REQUIRED:
            given[argument.name] = argument.default
        elif str(kind) in ("bool", "int"):
            given[argument.name] = 0 if str(kind) == "int" else False
        else:
            is_tensor = isinstance(kind, TensorType)
            given[argument.name] = (
                input_element(len(late), dtype, rank=1) if is_tensor else number(len(late), "float64")
            )
            late.append(argument.name)
    return given, late


def _bound(name: str, dtype: str, expr: Expr, names: list[str]) -> ErrorBound:
    inner = expr.args[0] if expr.op == "cast" else expr
    steps: dict[str, float] = {}
    seen: dict[int, Expr] = {}
    todo = [inner]
    while todo:
        here = todo.pop()
        if id(here) not in seen:
            seen[id(here)] = here
            todo.extend(reversed(here.args))
            if here.op in STEP_ULPS and not is_integral(here.dtype):
                steps[here.op] = STEP_ULPS[here.op][here.dtype == "float64"]
    rounding = sum(each.op in steps for each in seen.values())
    formula = str(inner)
    for index, argument in enumerate(names):
        formula = formula.replace(f"%{index}", argument)
    inexact = why_inexact(name, [expr])
    return ErrorBound(name, dtype, expr.dtype, formula, FrozenDict(steps), inner.dtype, rounding, inexact)
