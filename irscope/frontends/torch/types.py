"""Conversion of torch's tensors, element types and plain values, for all torch frontends."""

from collections.abc import Mapping
from typing import Any

from irscope.errors import MissingExtra
from irscope.ir import Opaque, TensorData, TensorType, Value


def require_torch(purpose: str) -> Any:
    """Imports and returns torch. Raises MissingExtra if it is not installed."""
    try:
        import torch
    except ImportError:
        raise MissingExtra("torch", extra="torch", purpose=purpose) from None
    return torch


def dtype_name(dtype: Any) -> str:
    """Returns the IR's name of a torch element type: torch's own, without `torch.`."""
    return str(dtype).removeprefix("torch.")


def tensor_type(tensor: Any) -> TensorType:
    """Returns the type of a concrete tensor, strides and device included; a sparse tensor has no strides."""
    torch = require_torch("to describe a tensor")
    strided = tensor.layout == torch.strided
    strides = tuple(tensor.stride()) if strided else None
    return TensorType(dtype_name(tensor.dtype), tuple(tensor.shape), strides, str(tensor.device))


def tensor_data(tensor: Any) -> TensorData:
    """Returns a constant of a tensor; its array shares the tensor's memory wherever NumPy can express it."""
    return TensorData(dtype_name(tensor.dtype), tuple(tensor.shape), _array(tensor), str(tensor.device), tensor)


def tied_names(bound: Mapping[Value, Any], state: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Maps each input's name to the other names in the model's state for the same memory with the same layout."""
    inputs = {value.name for value in bound}
    known = {_place(held): value.name or "" for value, held in reversed(list(bound.items()))}
    tied: dict[str, tuple[str, ...]] = {}
    for name, held in state.items():
        first = known.get(_place(held))
        if first is not None and name not in inputs:
            tied[first] = (*tied.get(first, ()), name)
    return tied


def _place(held: Any) -> tuple[Any, ...]:
    """Returns a key that is equal for tensors with the same memory and layout; without an address, for the same object."""
    try:
        start = held.data_ptr() if held.numel() else 0
        return (start, held.dtype, tuple(held.shape), held.stride()) if start else (id(held),)
    except (AttributeError, RuntimeError):  # not a tensor, or one without storage
        return (id(held),)


def _array(tensor: Any) -> Any:
    torch = require_torch("to read a tensor")
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.device.type == "meta":
        return None
    plain = tensor.detach().cpu().resolve_conj().resolve_neg()
    if plain.dtype == torch.bfloat16:
        return plain.view(torch.uint16).numpy()
    try:
        return plain.numpy()
    except TypeError:  # float8 and other types that NumPy lacks: return their bits
        return plain.contiguous().view(torch.uint8).numpy() if plain.element_size() == 1 else None


def payload_of(value: Any) -> Any:
    """Converts a plain torch value to a constant's payload: lists as tuples, devices as text."""
    if value is None or isinstance(value, int | float | complex | str):
        return value
    if isinstance(value, list | tuple):
        return tuple(payload_of(item) for item in value)
    kind = type(value).__name__
    if kind in ("device", "layout", "memory_format"):
        return str(value)
    return tensor_data(value) if hasattr(value, "stride") else Opaque(str(value), value)
