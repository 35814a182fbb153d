from .elementwise import Kind as Kind, conversion as conversion, require_float as require_float, require_known as require_known
from .elementwise import result_type as result_type
from .expression import COMMUTATIVE as COMMUTATIVE, NO_OPERATION as NO_OPERATION, ON_ARRAYS as ON_ARRAYS, POSITIONS as POSITIONS
from .expression import PRIMITIVES as PRIMITIVES
from .expression import REDUCTIONS as REDUCTIONS, Expr as Expr, NoExpression as NoExpression, call as call, cast as cast, const as const
from .expression import cycles_at_a_point as cycles_at_a_point, cycles_of as cycles_of
from .expression import flops_at_a_point as flops_at_a_point, input_element as input_element
from .expression import lift as lift, number as number, reduced_axes as reduced_axes, where as where
from .numpy_eval import apply as apply, digamma as digamma, erf as erf, erfc as erfc, erfinv as erfinv, evaluate as evaluate
from .numpy_eval import lgamma as lgamma, reduce_array as reduce_array, remainder as remainder, round_to as round_to
from .reductions import affine as affine
