from .cost import (
    count_operations,
    flops_at_a_point,
)
from .elementwise import (
    Kind,
    conversion,
    require_float,
    require_known,
    result_type,
)
from .expression import (
    POSITIONS,
    REDUCTIONS,
    Expr,
    NoExpression,
    call,
    cast,
    const,
    input_element,
    lift,
    number,
    reduced_axes,
    where,
)
from .numpy_eval import (
    apply,
    evaluate,
    reduce_array,
    remainder,
    round_to,
)
from .primitives import (
    COMMUTATIVE,
    NO_OPERATION,
    PRIMITIVES,
)
from .reductions import (
    affine,
)
from .special import (
    digamma,
    erf,
    erfc,
    erfinv,
    lgamma,
    sigmoid,
)

__all__ = [
    "COMMUTATIVE",
    "Expr",
    "Kind",
    "NO_OPERATION",
    "NoExpression",
    "POSITIONS",
    "PRIMITIVES",
    "REDUCTIONS",
    "affine",
    "apply",
    "call",
    "cast",
    "const",
    "conversion",
    "count_operations",
    "digamma",
    "erf",
    "erfc",
    "erfinv",
    "evaluate",
    "flops_at_a_point",
    "reduce_array",
    "input_element",
    "lgamma",
    "lift",
    "number",
    "reduced_axes",
    "remainder",
    "require_float",
    "require_known",
    "result_type",
    "round_to",
    "sigmoid",
    "where",
]
