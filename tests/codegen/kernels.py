"""Kernels from expressions and groups from a few lines of Python, operands in every layout, and ways to run their plans."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from irscope.codegen.kernel import KernelSpec, Launch, LaunchPlan, Operand, Result, stride_classes, trimmed
from irscope.codegen.kernel.loops import collapse_loops
from irscope.codegen.kernel.spec import row_limit
from irscope.codegen.lowering import spec_of_group
from irscope.codegen.lowering.index_propagation import InstructionList
from irscope.ir import BOOL, FLOAT, INT, TENSOR, GraphBuilder, Node, TensorType, Type, Value
from irscope.ops.expr import Expr, evaluate, round_to
from irscope.ops.type_rules import contiguous_strides

Array = np.ndarray[Any, Any]

CANARY = 0xA5


def group(body: Callable[..., Any], inputs: Sequence[Type]) -> Node:
    """The group whose block `body(builder, *params)` writes; it gives the block's result or results."""
    builder = GraphBuilder()
    outer = [builder.input(f"x{i}", type) for i, type in enumerate(inputs)]
    with builder.block([(f"p{i}", type) for i, type in enumerate(inputs)]) as block:
        results = body(builder, *block.params)
        results = [results] if isinstance(results, Value) else list(results)
        block.returns(results)
    outputs = builder.node("prim::FusionGroup", outer, [TENSOR] * len(results), [block], attrs={"kind": "pointwise"})
    return next(node for node in builder.finish(outputs).nodes() if node.op == "prim::FusionGroup")


def call(builder: GraphBuilder, op: str, *args: Any) -> Value:
    """One node; plain Python arguments become constants."""
    values = [arg if isinstance(arg, Value) else builder.constant(arg) for arg in args]
    return builder.op(op if "::" in op else f"aten::{op}", *values)


def type_of(array: Any, dtype: str | None = None) -> Type:
    if isinstance(array, bool):
        return BOOL
    if isinstance(array, int):
        return INT
    if isinstance(array, float):
        return FLOAT
    strides = tuple(step // array.itemsize for step in array.strides)
    return TensorType(dtype or str(array.dtype), array.shape, strides)


def planned(body: Callable[..., Any], *operands: Any) -> LaunchPlan:
    """The plan of the group that `body` writes, for these operands: arrays, numbers, or types of either."""
    types = [operand if isinstance(operand, Type) else type_of(operand) for operand in operands]
    return spec_of_group(group(body, [TENSOR if isinstance(type, TensorType) else type for type in types]), types)


def results(device: Any, body: Callable[..., Any], *operands: Any) -> list[Array]:
    """What a group's kernels make of these operands."""
    plan = planned(body, *operands)
    return run(device.prepare(plan), plan, operands)


def dense(*shape: int, dtype: str = "float32") -> TensorType:
    return TensorType(dtype, shape, contiguous_strides(shape))


def run(prepared: Any, plan: LaunchPlan, inputs: Sequence[Any]) -> list[Array]:
    """Run a prepared plan into fresh arrays, and check that nothing around them was written."""
    pairs = [guarded(type) for type in plan.outputs]
    prepared([array.ctypes.data for _, array in pairs], [x.ctypes.data if isinstance(x, np.ndarray) else x for x in inputs])
    for memory, array in pairs:
        check_guard(memory, array)
    return [array for _, array in pairs]


def guarded(type: TensorType, *, guard: int = 256) -> tuple[Array, Array]:
    """An array of this type, not aligned to more than its elements, in the middle of memory filled with canaries."""
    name = "uint16" if type.dtype == "bfloat16" else str(type.dtype)
    item = np.dtype(name).itemsize
    assert type.shape is not None
    assert type.strides is not None
    assert type.numel is not None
    memory = np.full(type.numel * item + 2 * guard + item, CANARY, np.uint8)
    steps = tuple(stride * item for stride in type.strides)
    start = guard + item - memory.ctypes.data % item
    return memory, np.ndarray(tuple(type.shape), name, memory, start, steps)  # type: ignore[arg-type]


def check_guard(memory: Array, array: Array) -> None:
    """The bytes around an array are as they were."""
    start, stop = (place - memory.ctypes.data for place in getattr(np.lib, "array_utils", np).byte_bounds(array))
    assert (memory[:start] == CANARY).all(), "written before the array"
    assert (memory[stop:] == CANARY).all(), "written behind the array"


FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8")

LAYOUTS = ("dense", "sliced", "transposed", "row", "column", "point")


def plan_of(exprs: Sequence[Expr], operands: Sequence[Array], dtypes: Sequence[str], shape: tuple[int, ...]) -> LaunchPlan:
    """One kernel for expressions of one shape, from operands already broadcast to it; results are row-major."""
    out = contiguous_strides(shape)
    steps = [tuple(step // array.itemsize for step in array.strides) for array in operands]
    steps = [tuple(0 if size == 1 else step for size, step in zip(shape, own, strict=True)) for own in steps]
    sizes, strides = collapse_loops(shape, [out] * len(exprs) + steps)
    code = InstructionList()
    leaves = {index: code.input(index, dtype) for index, dtype in enumerate(dtypes)}
    results = [code.splice(expr, leaves, node=number) for number, expr in enumerate(exprs)]
    instructions, at = trimmed(code.steps, results)
    spec = KernelSpec(
        tuple(Operand(dtype, "tensor", stride_classes(own)) for dtype, own in zip(dtypes, strides[len(exprs) :], strict=True)),
        instructions,
        tuple(Result(expr.dtype, stride_classes(strides[i]), at[results[i]]) for i, expr in enumerate(exprs)),
        len(sizes),
        row_limit=row_limit(sizes),
    )
    launch = Launch(spec, sizes, tuple(range(len(operands))), tuple(range(len(exprs))), strides)
    return LaunchPlan((launch,), tuple(TensorType(expr.dtype, shape, out) for expr in exprs), len(operands))


def laid_out(values: Array, layout: str, shape: tuple[int, ...]) -> Array:
    """The values in some layout, broadcast to `shape`, and not aligned to more than an element."""
    item = values.dtype.itemsize
    rows, columns = shape
    if layout == "sliced":
        memory = np.zeros((rows * 2 + 1, columns * 3 + 2), values.dtype)
        view = memory[1::2, 1:-1:3][:rows, :columns]
    elif layout == "transposed":
        view = np.zeros((columns, rows), values.dtype).T
    else:
        memory = np.zeros(rows * columns * item + 64 + item, np.uint8)
        view = memory[item : item + rows * columns * item].view(values.dtype).reshape(shape)
    if layout in ("row", "column", "point"):
        part = {"row": values[:1], "column": values[:, :1], "point": values[:1, :1]}[layout]
        return np.broadcast_to(part.copy(), shape)
    view[...] = values
    return view


def sample(dtype: str, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Numbers of a type, bfloat16 as its words."""
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        values = rng.integers(-9, 10, shape)
        return np.where(rng.random(shape) < 0.1, rng.choice([info.min, info.max], shape), np.maximum(values, info.min)).astype(dtype)
    values = np.where(rng.random(shape) < 0.15, rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0], shape), rng.normal(0, 3, shape))
    return to_words(round_to(values, dtype), dtype)


def to_words(array: Array, dtype: str) -> Array:
    """bfloat16 numbers, held as float32, as the words that lie in memory."""
    return (np.ascontiguousarray(array).view(np.uint32) >> 16).astype(np.uint16) if dtype == "bfloat16" else array


def from_words(array: Array, dtype: str) -> Array:
    """The numbers that words in memory stand for."""
    return (np.ascontiguousarray(array).astype(np.uint32) << 16).view(np.float32) if dtype == "bfloat16" else array


def check_exprs(prepare: Any, exprs: Sequence[Expr], operands: Sequence[Array], dtypes: Sequence[str], shape: tuple[int, ...]) -> None:
    """A kernel of these expressions gives what NumPy makes of them: equal bits, or one unit apart where a product and a sum were
    rounded together."""
    plan = plan_of(exprs, operands, dtypes, shape)
    for expr, got, want in zip(exprs, run(prepare(plan), plan, operands), expected(exprs, operands, dtypes, shape), strict=True):
        same(from_words(got, expr.dtype), want, f"{expr} in {expr.dtype} at {shape}")


def same(got: Array, want: Array, what: str) -> None:
    """Equal bits, or one unit apart where a product and a sum were rounded together."""
    if np.issubdtype(want.dtype, np.floating):
        np.testing.assert_allclose(got, want, rtol=2 * float(np.finfo(want.dtype).eps), atol=0, err_msg=what)
    else:
        np.testing.assert_array_equal(got, want, err_msg=what)


def expected(exprs: Sequence[Expr], operands: Sequence[Array], dtypes: Sequence[str], shape: tuple[int, ...]) -> list[Array]:
    """What NumPy makes of the expressions."""
    values = [from_words(array, dtype) for array, dtype in zip(operands, dtypes, strict=True)]
    return [np.broadcast_to(evaluate(expr, values), shape) for expr in exprs]
