"""Error bounds of kernels, in units of the last place, and the ops that a kernel computes bit for bit as torch's own loops do."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from irscope._base.frozen import FrozenDict
from irscope.errors import ArgumentError, public
from irscope.ir import REQUIRED, OpSchema, OptionalType, TensorType
from irscope.ops.expr import NO_OPERATION, PRIMITIVES, REDUCTIONS, Expr, NoExpression, input_element, number
from irscope.ops.expr.expression import subexpressions
from irscope.ops.registry import lookup
from irscope.ops.type_rules import is_integral

# Lists the ops that a kernel computes bit for bit as torch's own CPU loops do, anywhere in a tensor.
#
# An exact kernel rounds each op to its element type and never contracts a product and a sum. So an op of one rounding step has
# the bits that IEEE 754 prescribes, and so it has in torch. Ops with several steps are listed if torch performs the same
# steps in the same order, both in its vector loops and for the remaining elements. The others stay with torch:
#
# * functions for which torch uses its own polynomials (`exp`, `tanh`, ...), and roots: with MKL they are up to one unit off;
# * float sums and products of many elements, whose order is torch's own;
# * a product and a sum in one op (`addcmul`, `lerp`, `add` with an `alpha`): whether they round together depends on the
#   processor, and on the element's position in the tensor;
# * the larger of two floats: of 0 and -0 torch takes one in vectors and the other elsewhere;
# * float remainders: torch returns NaN for quotients that are too large, again in vectors only;
# * floats to whole numbers: the result of a number out of range depends on the processor.
#
# `tests/behaviour/test_exact.py` tests every op of this list on every element type, with the extremes of each, against torch.

Exact = Literal["torch"] | None
"""The library whose bits a program must reproduce; None leaves kernels free to be more exact."""

_HALVES: Final = frozenset({"float16", "bfloat16"})


def is_exact(given: object) -> bool:
    """Whether torch's bits are required. Raises ArgumentError for anything but `"torch"` and None."""
    if given is None or (isinstance(given, str) and given == "torch"):
        return given is not None
    raise ArgumentError(f"exact={given!r} is not a choice", hint='give exact="torch", or leave it out')


@dataclass(frozen=True, slots=True)
class _Parts:
    """The properties of an op's expressions that exactness depends on."""

    steps: tuple[str, ...]
    """The op of each distinct subexpression that computes."""
    tensors: int
    """How many tensor operands it reads."""
    has_floats: bool
    """Whether any operand, intermediate value or result is a float; a condition is not."""
    has_halves: bool
    cuts: bool
    """Whether a float becomes a whole number."""


def why_inexact(op: str, exprs: Sequence[Expr]) -> str:
    """Return why a kernel's result of an op may differ from torch's in bits, as a phrase that follows its name; empty if it does not."""
    parts = _parts(exprs)
    if parts.cuts:
        return "converts floats to whole numbers, and torch's result for a float out of range depends on the processor"
    if not parts.steps:
        return ""
    name = op.rpartition("::")[2].rstrip("_")
    if REDUCTIONS & set(parts.steps):
        return "" if name in _ORDER_FREE and not parts.has_floats else "adds up or compares floats in an order of torch's own"
    test = _ALLOWED.get(name)
    return "" if test is not None and test(parts) else "has bits that only torch's own loop gives"


def _parts(exprs: Sequence[Expr]) -> _Parts:
    every = subexpressions(exprs)
    casts = [(part.args[0].dtype, part.dtype) for part in every if part.op == "cast"]
    return _Parts(
        steps=tuple(part.op for part in every if part.op not in NO_OPERATION),
        tensors=len({part.value for part in every if part.op == "input"}),
        has_floats=any(not is_integral(part.dtype) for part in every),
        has_halves=any(part.dtype in _HALVES for part in every),
        cuts=any(not is_integral(source) and is_integral(target) and target != "bool" for source, target in casts),
    )


_TESTS: Final[tuple[tuple[Callable[[_Parts], bool], str], ...]] = (
    (
        lambda parts: True,
        """abs absolute neg negative sign square reciprocal relu relu6 hardtanh hardsigmoid hardswish leaky_relu threshold
        threshold_backward floor ceil trunc fix round frac isnan isinf isfinite nan_to_num logical_and logical_or logical_xor
        logical_not bitwise_and bitwise_or bitwise_xor bitwise_not __and__ __or__ __xor__ eq ne lt le gt ge greater
        greater_equal less less_equal not_equal where masked_fill mul multiply to type_as _to_copy clone convert_element_type""",
    ),
    # a sum without an `alpha`, or of whole numbers
    (lambda parts: "mul" not in parts.steps or not parts.has_floats, "add sub subtract rsub"),
    # not the truncated or floored quotient of two tensors of halves: torch rounds each step there, unlike with a number operand
    (lambda parts: len(parts.steps) == 1 or not parts.has_halves or parts.tensors == 1, "div divide true_divide floor_divide"),
    (lambda parts: not parts.has_floats or parts.tensors == 1, "clamp clip clamp_min clamp_max"),
    (lambda parts: not parts.has_floats, "maximum minimum max min fmax fmin fmod remainder addcmul"),
    (lambda parts: not parts.has_halves, "rsqrt"),
    # powers that are products and quotients, for halves a single one
    (lambda parts: set(parts.steps) <= {"mul", "div", "reciprocal", "add"} and (len(parts.steps) == 1 or not parts.has_halves), "pow"),
    (lambda parts: set(parts.steps) <= {"add", "div"} and not parts.has_halves, "addcdiv"),
)
_ALLOWED: Final = {name: test for test, names in _TESTS for name in names.split()}
_ORDER_FREE: Final = frozenset("any all sum prod amax amin aminmax max min argmax argmin count_nonzero".split())
"""Reductions whose result does not depend on the order, for whole numbers and bools."""


# Error bounds of kernels: the largest error of each step of an expression, in units of the last place of its result.
#
# An op of one step has the bound of that step. An op of several steps has no single bound: `1 + erf(x)` suffers cancellation
# in any library. For such an op, the formula is reported with the bound of each step. Halves are computed in float32 and rounded
# once. A product and a sum may be rounded together where the machine can, so a result may survive that the product alone would
# lose (by overflow or underflow).
#
# A fused kernel promises these bounds for the steps of each op, and no rounding between ops that op-by-op execution would
# not have. Halves are not rounded between the ops of a kernel, a product need not be rounded before it is added, and denormal
# numbers are never flushed. So results differ visibly from torch's where its roundings lose much (`x - y * 2.0` at the ends of
# the type, `(x * y) // 3` of halves), or where two equal roundings cancel op by op (`x * x - y * y` with x = y).
# `irs.compile(program, exact="torch")` reproduces torch's bits instead: see `irscope.ops.accuracy`.
#
# The bounds are those of the CPU text, tested against higher precision: all 2^32 float32 numbers, all halves,
# float64 numbers of every size (`tests/codegen/llvm/test_math_functions.py`). Text for GPUs calls NVIDIA's functions, whose bounds
# are listed in the CUDA programming guide under "Mathematical Functions". Its sigmoid returns 0 where the result would be denormal,
# and a GELU of halves may be off by a quarter of a unit more (`irscope.codegen.cuda.instruction_text`). Where no compiler is
# installed, NumPy's functions are used, which are off by up to four units more.
#
# A conversion of float64 to float16 rounds to float32 first, as in torch on x86-64, in JAX and in ONNX Runtime (torch on 64-bit Arm
# rounds once); it rounds once in a traced NumPy function, as NumPy does.

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
        wide = "" if self.computed_in == self.result else f", computed in {self.computed_in} and rounded once to {self.result}"
        if self.ulps is not None:
            return f"{head}, at most {self.ulps:.3g} ulp off{wide}"
        each = ", ".join(f"{step} {ulps:g}" for step, ulps in self.steps.items())
        return f"{head}, where each step is off at most by these ulp: {each}{wide}"


@public
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
    hint = 'irs.error_bound("exp") and irs.error_bound("aten::exp", "float16") ask about an op by its name'
    if not isinstance(op, str):
        raise ArgumentError(f"{op!r} is not the name of an op", hint=hint)
    name = op if "::" in op else f"aten::{op}"
    found = lookup(name)
    if found is None:
        raise ArgumentError(f"{name} is not an op that irscope knows", hint=hint)
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
            given[argument.name] = input_element(len(late), dtype, rank=1) if is_tensor else number(len(late), "float64")
            late.append(argument.name)
    return given, late


def _bound(name: str, dtype: str, expr: Expr, names: list[str]) -> ErrorBound:
    inner = expr.args[0] if expr.op == "cast" else expr
    every = subexpressions([inner])
    steps = {part.op: STEP_ULPS[part.op][part.dtype == "float64"] for part in every if part.op in STEP_ULPS and not is_integral(part.dtype)}
    rounding = sum(part.op in steps for part in every)
    formula = str(inner)
    for index, argument in enumerate(names):
        formula = formula.replace(f"%{index}", argument)
    inexact = why_inexact(name, [expr])
    return ErrorBound(name, dtype, expr.dtype, formula, FrozenDict(steps), inner.dtype, rounding, inexact)
