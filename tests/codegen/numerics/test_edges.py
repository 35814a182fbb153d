"""Where arithmetic changes its ways, kernels give what torch gives, in each of the three texts.

The class of a result (NaN, an infinity, the sign of a zero) is torch's, and a number lies within the stated bound of the
exact one (`irscope.ops.accuracy`). torch has two kinds of kernels, for vectors and for single elements, that differ at some
edges; either is right here. What else may differ stands in `OTHERWISE`, with the reason.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from irscope.ops.expr import Expr, evaluate
from irscope.runtime.cpu import CpuDevice
from irscope.runtime.device import ObjectStore
from irscope.runtime.device.numpy_device import NumpyDevice
from tests.codegen.cuda_emulator import AVAILABLE, emulated_device
from tests.codegen.edges import HALVES, Case, cases, eager, grid, single
from tests.codegen.kernels import from_words, plan_of, run
from tests.ops.running_error import unit, with_error

torch = pytest.importorskip("torch")
pytest.importorskip("llvmlite")

Array = np.ndarray[Any, Any]

FLOATS = ("float32", "float64", "float16", "bfloat16")
WHOLES = ("int64", "int32", "int16", "int8", "uint8", "bool")

OTHERWISE = {
    ("fmax", "bfloat16"): "C leaves the sign of a zero open: torch gives the second of two here, else the first, as we do",
    ("fmin", "bfloat16"): "as fmax",
}
"""Ops whose zeros may have the other sign."""

LOST = 100 * 2.0**-126
"""On a GPU the sigmoid is 1 / (1 + e^-x), whose denormal results are 0 once e^-x is infinite, as in torch."""

ROOM = 4.0
"""Units of the last place by which NumPy's float32 functions are off more than those of kernels."""


def device_of(text: str, folder: Path) -> Any:
    if text == "cuda":
        if not AVAILABLE:
            pytest.skip("g++ is not installed; it plays the GPU in this test")
        return emulated_device(folder)
    return NumpyDevice() if text == "numpy" else CpuDevice(store=ObjectStore(folder / "cpu"), threads=1)


@pytest.mark.parametrize(
    ("text", "dtype"), [("cpu", "float32"), ("cpu", "bfloat16"), ("cpu", "int8"), ("numpy", "float32"), ("cuda", "float32")]
)
def test_edges(text: str, dtype: str, tmp_path: Path) -> None:
    assert check(text, device_of(text, tmp_path), dtype, every_number=False) > 150


@pytest.mark.long
@pytest.mark.parametrize("dtype", [*FLOATS, *WHOLES])
@pytest.mark.parametrize("text", ["cpu", "cuda", "numpy"])
def test_edges_with_every_number(text: str, dtype: str, tmp_path: Path) -> None:
    assert check(text, device_of(text, tmp_path), dtype, every_number=True) > 200


def check(text: str, device: Any, dtype: str, *, every_number: bool) -> int:
    return compare(text, device, cases(dtype, every_number=every_number), lambda types: [("", *flat(grid(types)))])


Operands = Callable[[Sequence[str]], Iterable[tuple[str, list[Array], list[Any]]]]
"""Gives for the types of a call's tensors a title, arrays for a kernel, and the same numbers as torch's, for each comparison."""


def flat(tensors: list[Any]) -> tuple[list[Array], list[Any]]:
    """Tensors of one axis as the arrays of a kernel, and as they are."""
    return [words(tensor).reshape(1, -1) for tensor in tensors], tensors


def compare(text: str, device: Any, tried: Iterable[Case], operands_of: Operands) -> int:
    """How many calls were compared; those of operands of the same types share kernels."""
    together: dict[tuple[str, ...], list[Case]] = {}
    for case in tried:
        together.setdefault(tuple(case.types.values()), []).append(case)
    compared, wrong = set[str](), []
    for types, group in together.items():
        for start in range(0, len(group), 16):
            part = group[start : start + 16]
            for title, operands, tensors in operands_of(types):
                plan = plan_of([case.expr for case in part], operands, list(types), operands[0].shape)
                for case, found in zip(part, run(device.prepare(plan), plan, operands), strict=True):
                    theirs = eager(case, tensors) if found.size else []
                    if theirs:
                        compared.add(str(case))
                        wrong += [f"{title}{line}" for line in complaints(case, found.ravel(), theirs, tensors, text)]
    assert not wrong, f"{len(wrong)} calls differ:\n" + "\n".join(wrong[:40])
    return len(compared)


def words(tensor: Any) -> Array:
    return tensor.view(torch.int16).numpy().view(np.uint16) if tensor.dtype == torch.bfloat16 else tensor.numpy()


def numbers(tensor: Any) -> Array:
    return (tensor.double() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def complaints(case: Case, found: Array, theirs: list[Any], tensors: list[Any], text: str) -> list[str]:
    """A line for a call that gives something wrong, with one place where it does."""
    kind = str(theirs[0].dtype).removeprefix("torch.")
    if kind != case.expr.dtype:
        return [f"{case}: {case.expr.dtype} for {kind}"]
    found = from_words(found, kind)
    ways = [numbers(result) for result in theirs]
    if found.dtype.kind != "f":
        wrong = ~np.any([found == way for way in ways], 0)
    else:
        wrong = unequal(case, found, ways, tensors, text)
        for index in np.flatnonzero(wrong):  # torch's vectors and strides apart, single elements may be other again
            at = slice(index, index + 1)
            alone = numbers(single(case, tensors, int(index)))
            wrong[at] = unequal(case, found[at], [alone], [tensor[at] for tensor in tensors], text)
    for index in np.flatnonzero(wrong)[:1]:
        given = [tensor[index].item() for tensor in tensors]
        return [f"{case}: {found[index]!r} for {[w[index].item() for w in ways]} at {given} and {wrong.sum()} places"]
    return []


def unequal(case: Case, found: Array, ways: list[Array], tensors: list[Any], text: str) -> Array:
    """Where a float is of another class than all of torch's, or off by more than the bound."""
    inputs = [numbers(tensor) for tensor in tensors]
    exact, error = with_error(case.expr, inputs, room=ROOM * (text == "numpy"))
    if text == "cuda" and case.expr.dtype in HALVES and has_step(case.expr, lambda step: step.op == "erf"):
        error = error + 0.25 * unit(exact, case.expr.dtype)  # `irscope.codegen.cuda.instruction_text`
    any_zero = (case.op.name.removeprefix("aten::"), case.types[next(iter(case.types))]) in OTHERWISE
    like = np.zeros(found.shape, bool)
    for way in ways:
        like |= same_class(found, way) | (way == 0) & (found == 0) & any_zero
    with np.errstate(all="ignore"):
        near = np.abs(found.astype(np.longdouble) - exact) <= error
    if is_contracted(case.expr):  # what a product alone loses, rounding it together with the sum keeps; both are right
        like |= same_class(found, evaluate(case.expr, inputs)) & (np.isinf(error) | (found == 0))
    if case.expr.dtype in HALVES:  # torch rounds some steps to the half type, and may lose what ours keep
        kept = np.any([np.isinf(way) for way in ways], 0) | (found == 0) & (exact != 0) & (np.signbit(found) == np.signbit(exact))
        like |= near & np.isfinite(found) & np.isfinite(exact) & kept
    near |= ~np.isfinite(found) | ~np.isfinite(exact)
    if text == "cuda" and has_step(case.expr, lambda step: step.op == "sigmoid"):
        near |= (found == 0) & (np.abs(exact) < LOST)
    return ~(like & near)


def same_class(a: Array, b: Array) -> Array:
    """Both NaN, the same infinity, or both finite; zeros of the same sign."""
    zeros = (a != 0) | (b != 0) | (np.signbit(a) == np.signbit(b))
    return (np.isnan(a) & np.isnan(b)) | (np.isinf(a) & (a == b)) | (np.isfinite(a) & np.isfinite(b) & zeros)


def is_contracted(expr: Expr) -> bool:
    """Whether a sum may be rounded together with a product: each way is right."""
    return has_step(expr, lambda step: step.op in ("add", "sub") and any(arg.op == "mul" for arg in step.args))


def has_step(expr: Expr, wanted: Callable[[Expr], bool]) -> bool:
    return wanted(expr) or any(has_step(arg, wanted) for arg in expr.args)
