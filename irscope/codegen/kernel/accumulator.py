"""The accumulators of a reduction, for every target: their element type and their neutral value."""

from __future__ import annotations

from irscope.codegen.kernel.spec import ITEM_SIZE, KernelSpec, is_float

__all__ = ["accumulated_dtype", "neutral_value"]


def accumulated_dtype(spec: KernelSpec, index: int) -> str:
    """Return the element type that a reduction compares or adds."""
    return spec.instructions[spec.instructions[index].args[0]].dtype


def neutral_value(op: str, dtype: str) -> float:
    """Return the neutral value: 0 for a sum, 1 for a product; for an extreme or its position, the value that every other beats.

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
