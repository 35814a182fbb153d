"""Lists the ops that a kernel computes bit for bit as torch's own CPU loops do, anywhere in a tensor.

An exact kernel rounds each op to its element type and never contracts a product and a sum. So an op of one rounding step has
the bits that IEEE 754 prescribes, and so it has in torch. Ops with several steps are listed if torch performs the same
steps in the same order, both in its vector loops and for the remaining elements. The others stay with torch:

* functions for which torch uses its own polynomials (`exp`, `tanh`, ...), and roots: with MKL they are up to one unit off;
* float sums and products of many elements, whose order is torch's own;
* a product and a sum in one op (`addcmul`, `lerp`, `add` with an `alpha`): whether they round together depends on the
  processor, and on the element's position in the tensor;
* the larger of two floats: of 0 and -0 torch takes one in vectors and the other elsewhere;
* float remainders: torch returns NaN for quotients that are too large, again in vectors only;
* floats to whole numbers: the result of a number out of range depends on the processor.

`tests/behaviour/test_exact.py` tests every op of this list on every element type, with the extremes of each, against torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from irscope.errors import ArgumentError
from irscope.ops.expr import REDUCTIONS, Expr
from irscope.ops.typing import is_integral

__all__ = ["Exact", "is_exact", "why_inexact"]

Exact = Literal["torch"] | None
"""The library whose bits a program must reproduce; None leaves kernels free to be more exact."""

_HALVES: Final = frozenset({"float16", "bfloat16"})
_LEAVES: Final = frozenset({"input", "scalar", "const", "cast", "count"})


def is_exact(given: object) -> bool:
    """Whether torch's bits are required. Raises ArgumentError for anything but `"torch"` and None."""
    if given in (None, "torch"):
        return given is not None
    raise ArgumentError(f"exact={given!r} is not a choice", hint='exact is "torch" or None')


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
    """Return why a kernel's result of an op may differ from torch's in bits, as a phrase that follows its name; empty if it does not.

    >>> from irscope.ops.expr.expression import call, input_element
    >>> x = input_element(0, "float32")
    >>> why_inexact("aten::mul", [x * x]), why_inexact("aten::exp", [call("exp", x)])
    ('', "has bits that only torch's own loop gives")
    """
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
    seen: dict[int, Expr] = {}
    todo = list(exprs)
    while todo:
        here = todo.pop()
        if id(here) not in seen:
            seen[id(here)] = here
            todo.extend(here.args)
    every = list(seen.values())
    casts = [(part.args[0].dtype, part.dtype) for part in every if part.op == "cast"]
    return _Parts(
        steps=tuple(part.op for part in every if part.op not in _LEAVES),
        tensors=len({part.value for part in every if part.op == "input"}),
        has_floats=any(not is_integral(part.dtype) for part in every),
        has_halves=any(part.dtype in _HALVES for part in every),
        cuts=any(not is_integral(source) and is_integral(target) and target != "bool" for source, target in casts),
    )


def _always(parts: _Parts) -> bool:
    return True


def _whole(parts: _Parts) -> bool:
    return not parts.has_floats


def _sum(parts: _Parts) -> bool:
    """Accept a sum without an `alpha`, or of whole numbers."""
    return "mul" not in parts.steps or not parts.has_floats


def _quotient(parts: _Parts) -> bool:
    """Refuse the truncated or floored quotient of two tensors of halves: torch rounds each step there, unlike with a number operand."""
    return len(parts.steps) == 1 or not parts.has_halves or parts.tensors == 1


def _between_numbers(parts: _Parts) -> bool:
    return not parts.has_floats or parts.tensors == 1


def _root(parts: _Parts) -> bool:
    return not parts.has_halves


def _power(parts: _Parts) -> bool:
    """Accept powers that are products and quotients, for halves a single one."""
    plain = set(parts.steps) <= {"mul", "div", "reciprocal", "add"}
    return plain and (len(parts.steps) == 1 or not parts.has_halves)


def _quotient_added(parts: _Parts) -> bool:
    return set(parts.steps) <= {"add", "div"} and not parts.has_halves


_TESTS: Final[tuple[tuple[Callable[[_Parts], bool], str], ...]] = (
    (
        _always,
        """abs absolute neg negative sign square reciprocal relu relu6 hardtanh hardsigmoid hardswish leaky_relu threshold
        threshold_backward floor ceil trunc fix round frac isnan isinf isfinite nan_to_num logical_and logical_or logical_xor
        logical_not bitwise_and bitwise_or bitwise_xor bitwise_not __and__ __or__ __xor__ eq ne lt le gt ge greater
        greater_equal less less_equal not_equal where masked_fill mul multiply to type_as _to_copy clone convert_element_type""",
    ),
    (_sum, "add sub subtract rsub"),
    (_quotient, "div divide true_divide floor_divide"),
    (_between_numbers, "clamp clip clamp_min clamp_max"),
    (_whole, "maximum minimum max min fmax fmin fmod remainder addcmul"),
    (_root, "rsqrt"),
    (_power, "pow"),
    (_quotient_added, "addcdiv"),
)
_ALLOWED: Final = {name: test for test, names in _TESTS for name in names.split()}
_ORDER_FREE: Final = frozenset("any all sum prod amax amin aminmax max min argmax argmin count_nonzero".split())
"""Reductions whose result does not depend on the order, for whole numbers and bools."""
