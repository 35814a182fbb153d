"""What a reduction gathers in, in every target: of which type an accumulator is, and what it starts with."""

from __future__ import annotations

from irscope.codegen.kernel.spec import ITEM_SIZE, KernelSpec, is_float

__all__ = ["accumulated_dtype", "neutral_value"]


def accumulated_dtype(spec: KernelSpec, index: int) -> str:
    """The element type that a reduction compares or adds."""
    return spec.instructions[spec.instructions[index].args[0]].dtype


def neutral_value(op: str, dtype: str) -> float:
    """The value that changes nothing: 0 for a sum, 1 for a product, for an extreme or its position what all others beat.

    >>> neutral_value("reduce_sum", "int8"), neutral_value("reduce_max", "uint8"), neutral_value("reduce_argmin", "float32")
    (0, 0, inf)
    """
    extreme = op[-3:]
    if extreme not in ("max", "min"):
        return {"reduce_sum": 0, "reduce_prod": 1, "reduce_any": 0, "reduce_all": 1}[op]
    if is_float(dtype):
        return float("-inf") if extreme == "max" else float("inf")
    bits = 1 if dtype == "bool" else 8 * ITEM_SIZE[dtype]
    low, high = (0, 2**bits - 1) if dtype in ("uint8", "bool") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return low if extreme == "max" else high
