"""Infers the result types of ops without a type rule by running them in torch on `meta` tensors, which have no elements.

The program may come from anyone, so running an op must have no effect: no memory is filled, no file opened (`aten::from_file`), no
random number drawn. An op therefore runs only if its results are on `meta`, either because an operand is a tensor or because
it takes a device, which is then `meta` whatever the program says. Numbers that encode an object of torch are passed as that object:
torch trusts such numbers, and an invalid one ends the process. Some kernels, those of `torch.func` and of quantised cells, end
the process when called out of context, so only ops that are known without torch are run.
"""

import importlib.util
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from irscope.ir import DEVICE, Argument, Node, OptionalType, TensorType
from irscope.ops.registry import effect_of, known_names, schema_of
from irscope.ops.type_rules import DTYPE_CODES, Abstract, Unknown, contiguous_strides, refined, static_shape

_NAMES: Final[Mapping[str, Mapping[int, str]]] = {
    "ScalarType": DTYPE_CODES,
    "Layout": dict(enumerate("strided sparse_coo sparse_csr _mkldnn sparse_csc sparse_bsr sparse_bsc jagged".split())),
    "MemoryFormat": dict(enumerate("contiguous_format preserve_format channels_last channels_last_3d".split())),
}
"""The names in torch of the objects that numbers encode, by type word in schemas."""


_FATAL: Final = frozenset({"aten::_add_batch_dim", "aten::_remove_batch_dim", "aten::range", "aten::_ncf_unsqueeze"})
"""Ops that are not run: they look up a missing level of `torch.func`, divide by a step that the element type rounds to 0, or add
any number of axes (torch 2.13)."""


class _NoMeta(Exception):
    """Raised if the op cannot run on `meta` with these operands."""


@lru_cache(maxsize=1)
def has_torch() -> bool:
    """Whether torch is installed; does not import it."""
    return importlib.util.find_spec("torch") is not None


@lru_cache(maxsize=1)
def _asked_for() -> frozenset[str]:
    return frozenset(known_names()) - _FATAL


def meta_types(node: Node, operands: Sequence[Abstract]) -> Sequence[Abstract] | None:
    """Return what is known about each result, or None."""
    schema = schema_of(node)
    if schema is None or not schema.name.startswith("aten::") or node.op not in _asked_for() or not has_torch():
        return None
    if effect_of(node) not in ("pure", "view") or not any(isinstance(output.type, TensorType) for output in node.outputs):
        return None
    return _run(schema.name.removeprefix("aten::"), schema.overload, schema.arguments, operands, len(node.outputs))


def _run(name: str, overload: str, declared: Sequence[Argument], operands: Sequence[Abstract], count: int) -> Sequence[Abstract] | None:
    import torch

    try:
        given = _on_meta(torch, declared, operands)
        keyword = {argument.name: given.pop(argument.name) for argument in declared if argument.keyword_only and argument.name in given}
        packet = getattr(torch.ops.aten, name)
        with torch.no_grad():
            result = getattr(packet, overload or "default")(*given.values(), **keyword)
    except Exception:  # torch raises errors of any class for an op without a meta kernel
        return None
    results = result if count != 1 else (result,)
    return [_fact(item) for item in results] if len(results) == count else None


def _on_meta(torch: Any, declared: Sequence[Argument], operands: Sequence[Abstract]) -> dict[str, Any]:
    """Return the arguments by name, with `meta` as the device. Raises _NoMeta if the results would be on another device."""
    given = {a.name: _object(torch, a, operand) for a, operand in zip(declared, operands, strict=False)}
    devices = [argument.name for argument in declared if argument.type in (DEVICE, OptionalType(DEVICE))]
    if not devices and not any(map(_has_tensor, given.values())):
        raise _NoMeta  # it takes neither a tensor nor a device
    return given | dict.fromkeys(devices, torch.device("meta"))


def _object(torch: Any, argument: Argument, operand: Abstract) -> Any:
    """Return an operand as torch expects it: a tensor on `meta`, or the object that a number encodes."""
    names = _NAMES.get(argument.word)
    if names is None or not isinstance(operand, int):
        return _meta(torch, operand)
    found = getattr(torch, names.get(operand, ""), None)
    if found is None:
        raise _NoMeta
    return found


def _has_tensor(given: Any) -> bool:
    return any(map(_has_tensor, given)) if isinstance(given, list) else hasattr(given, "is_meta")


def _meta(torch: Any, operand: Abstract) -> Any:
    if isinstance(operand, TensorType):
        shape = static_shape(operand)
        if shape is None or operand.dtype is None:
            raise _NoMeta
        return torch.empty_strided(shape, operand.strides or contiguous_strides(shape), dtype=getattr(torch, operand.dtype), device="meta")
    if isinstance(operand, Unknown):
        raise _NoMeta
    if isinstance(operand, list | tuple):
        return [_meta(torch, item) for item in operand]
    return operand


def _fact(result: Any) -> Abstract:
    """Convert torch's result, without strides: those of a meta kernel need not be those of the kernel that runs."""
    if isinstance(result, list | tuple):
        return [_fact(item) for item in result]
    if hasattr(result, "dtype") and hasattr(result, "shape"):
        return refined(str(result.dtype).removeprefix("torch."), tuple(result.shape))
    return result
