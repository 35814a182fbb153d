"""Ops that return the tensor itself if it has the requested type, memory format and device, and views between complex and real."""

from __future__ import annotations

from typing import Final

from irscope.ops.typing import dtype_name
from irscope.ops.view_steps.extents import is_at_least
from irscope.ops.view_steps.operand import FRESH, NotKnown, Operand, Rules, Steps, aten, whole
from irscope.ops.view_steps.steps import Dense, Joined, Paired

__all__ = ["RULES"]

_COMPLEX_OF: Final = {"float16": "complex32", "float32": "complex64", "float64": "complex128"}
_REAL_OF: Final = {whole: part for part, whole in _COMPLEX_OF.items()}


def _real(self: Operand) -> Steps:
    if self.dtype is None:
        raise NotKnown
    return (Paired(0, _REAL_OF[self.dtype]),) if self.dtype in _REAL_OF else ()


def _imag(self: Operand) -> Steps:
    return (Paired(1, _REAL_OF[self.dtype or ""]),)


def _as_real(self: Operand) -> Steps:
    return (Paired(None, _REAL_OF[self.dtype or ""]),)


def _as_complex(self: Operand) -> Steps:
    return (Joined(_COMPLEX_OF[self.dtype or ""]),)


def _contiguous(self: Operand) -> Steps:
    wanted = self.whole("memory_format")
    return () if wanted == 1 else (Dense(wanted),)


def _to(self: Operand) -> Steps | str:
    other, given = self.given.get("other"), self.given
    dtype = dtype_name(given.get("dtype"), self.dtype) if other is None else other.dtype
    if given.get("copy", False) is True or (dtype is not None and self.dtype is not None and dtype != self.dtype):
        return FRESH
    device = given.get("device") if other is None else other.device
    if device is not None or other is not None:
        if device is None or self.device is None:
            raise NotKnown
        if str(device) != self.device:
            return FRESH
    if dtype is None or self.dtype is None or given.get("copy", False) is not False:
        raise NotKnown
    wanted = given.get("memory_format")
    if wanted is None or wanted == 1:
        return ()
    return (Dense(whole(wanted), suggested=True),)


def _cpu(self: Operand) -> Steps | str:
    if self.device is None:
        raise NotKnown
    return () if self.device == "cpu" else FRESH


def _dropout(self: Operand) -> Steps | str:
    train, p = self.given["train"], self.given["p"]
    if train is False or p == 0:
        return ()
    if train is not True or not isinstance(p, float | int) or not all(is_at_least(dim, 1) for dim in self.shape):
        raise NotKnown
    return FRESH


RULES: Final[Rules] = {
    **aten({
        "real": _real, "imag": _imag, "view_as_real": _as_real, "view_as_complex": _as_complex,
        "contiguous": _contiguous,
        "to type_as": _to,
        "cpu": _cpu,
        "dropout feature_dropout alpha_dropout feature_alpha_dropout": _dropout,
    }),
    "prims::real": _real,
    "prims::imag": _imag,
}  # fmt: skip
