"""Reference results without rounding errors, and the distance of other results from them."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np

from irscope._base.nested import by_storage, leaves, map_leaves
from irscope._base.words import plural
from irscope.analysis.per_graph import alias_db_of
from irscope.errors import IrscopeError
from irscope.ir import Graph, Node, constant_of
from irscope.ops.op import draws_random_numbers
from irscope.ops.registry import constant_arguments
from irscope.ops.traits import PACKS
from irscope.runtime.arrays import TorchLibrary, is_foreign, is_torch_tensor, library_for, off_the_gpu, on_host, python_function
from irscope.runtime.foreign_ops import plain_array
from irscope.runtime.program import as_torch, flatten
from irscope.runtime.reference import run_reference

Arrays = list[np.ndarray[Any, Any]]
_EPS: Final = float(np.finfo(np.float64).eps)
_JUMP: Final = 1 << 16
"""How many roundings of the largest number still are rounding; a comparison with the other result moves more."""
_MASK: Final = 1e30
"""From here on a number stands for infinity, as in masks of attention, and does not cancel."""
_DISTURBED_RUNS: Final = 3
"""One may by chance round as the undisturbed one."""
_ROUNDINGS: Final = 1e3
"""Two programs differ by more than roundings where they do by more of the element type's smallest steps than this."""


@dataclass(frozen=True, slots=True)
class Distance:
    """How far some results are from others."""

    relative: float
    """The largest difference, relative to the largest element of its result, or to what cancels in it (`cancelled`); infinite
    where one of the two is NaN, infinite, or of another shape."""
    absolute: float
    words: str = ""
    """What a largest difference does not say: `NaN in 16 of 16`, `3 of 9 differ`."""


def float64_results(graph: Graph, args: Sequence[Any]) -> Arrays | str:
    """Returns the program's results computed in float64 throughout, on copies; the reason in words if there is no such run."""
    drawing = next((node for node in graph.nodes() if draws_random_numbers(node.op, constant_arguments(graph, node))), None)
    if drawing is not None:
        return f"{drawing.op} draws other random numbers in each run"
    for node in graph.nodes():  # the neighbour of a number, and the type's largest number instead of infinity
        ends = [constant_of(graph, value) for value in node.inputs[2:]] if node.op == "aten::nan_to_num" else [0, 0]
        if node.op == "aten::nextafter" or len(ends) < 2 or any(end is None for end in ends):
            return f"{node.op} gives numbers that depend on the element type"
    if _writes_shared(graph, args):
        return "the program may write a storage that tensors share, and copies in float64 share none"
    try:
        return _in_double(graph, args)
    except IrscopeError as error:
        return error.what
    except Exception as error:  # torch and the libraries of kept ops raise anything, and the times are known all the same
        return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"


def _writes_shared(graph: Graph, args: Sequence[Any]) -> bool:
    """Checks whether a tensor that may be written has memory in common with another, or elements in common with itself."""
    given = [*zip(graph.free_inputs, args, strict=True), *graph.bound.items()]
    held = {(value, place): leaf for value, arg in given for place, leaf in enumerate(leaves(arg))}
    storages = by_storage(held)
    counts = Counter(storages.values())

    def overlaps(tensor: Any) -> bool:
        steps = tensor.stride() if is_torch_tensor(tensor) else [step // tensor.itemsize for step in tensor.strides]
        reach = 1 + sum((size - 1) * abs(step) for size, step in zip(tensor.shape, steps, strict=True))
        return bool(0 < reach < prod(tensor.shape))

    shared = [key for key, number in storages.items() if counts[number] > 1 or overlaps(held[key])]
    return any(map(alias_db_of(graph).has_writers, dict.fromkeys(value for value, _ in shared)))


def cancelled(graph: Graph, args: Sequence[Any], truth: Arrays) -> list[float]:
    """Returns for each result of the float64 run the size of what cancels in it, and 0 where its digits hold. None hold if it changes by
    as much as it is when each number that goes in changes by a rounding: that is then a rounding of what cancels.
    """
    disturbed, moved = _Disturbed(), [0.0] * len(truth)
    try:
        for _ in range(_DISTURBED_RUNS):
            with np.errstate(all="ignore"):
                found = zip(moved, _in_double(graph, args, disturbed), truth, strict=True)
                moved = [max(by, _largest(each - true)) if true.dtype.kind in "fc" else 0.0 for by, each, true in found]
    except Exception:  # whatever float64_results takes from torch; the errors then stay as they are
        return [0.0] * len(truth)
    most = _JUMP * disturbed.largest  # more is no rounding of any number: a comparison or a floor gave the other result
    return [
        min(by / _EPS, disturbed.largest) if _largest(true) <= 4 * by and by / _EPS <= most else 0.0
        for by, true in zip(moved, truth, strict=True)
    ]


class _Disturbed:
    """Changes what goes into float64 runs by a rounding, and keeps the largest number that it has seen."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(0)
        self.largest = 0.0

    def change(self, value: Any) -> Any:
        """Returns the float64 copy of a tensor with each element changed by a rounding or none, and anything else as it is."""
        made = _double(value)
        if is_torch_tensor(made) and (made.is_floating_point() or made.is_complex()):
            made.mul_(as_torch(np.asarray(self.factors(tuple(made.shape)))).to(made.device))
        return self.see(made)

    def change_array(self, value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The same without torch."""
        value = _array(value)
        return np.asarray(self.see(value * self.factors(value.shape))) if value.dtype.kind in "fc" else value

    def factors(self, shape: tuple[int, ...]) -> Any:
        """One rounding more, less or none, for each element."""
        return 1 + _EPS * self.random.integers(-1, 2, shape)

    def see(self, found: Any) -> Any:
        sizes = map(_largest, arrays([found]))
        self.largest = max([self.largest, *(size for size in sizes if size < _MASK)])
        return found


def _largest(array: np.ndarray[Any, Any]) -> float:
    """Returns the largest finite magnitude of real or complex numbers, 0 without any."""
    return float(np.max(np.abs(array), initial=0.0, where=np.isfinite(array))) if array.dtype.kind in "fc" else 0.0


def _in_double(graph: Graph, args: Sequence[Any], disturbed: _Disturbed | None = None) -> Arrays:
    if library_for([*args, *graph.bound.values()]).name == "torch":
        return _in_torch(graph, args, disturbed)
    given = [off_the_gpu(on_host(arg)) for arg in args]
    if disturbed is None:
        return arrays(run_reference(graph, *given, precision="float64"))
    given = [map_leaves(lambda leaf: disturbed.change_array(leaf) if isinstance(leaf, np.ndarray) else leaf, arg) for arg in given]
    return arrays(run_reference(graph, *given, precision="float64", observe=lambda _, found: disturbed.see(found)))


def _in_torch(graph: Graph, args: Sequence[Any], disturbed: _Disturbed | None) -> Arrays:
    """Runs through torch. A parameter that nothing writes is not copied: each op converts what it reads."""
    library = _InDouble(disturbed)
    writes = alias_db_of(graph).has_writers
    double = disturbed.change if disturbed else _double
    bound = {value: map_leaves(double, held) if disturbed or writes(value) else as_torch(held) for value, held in graph.bound.items()}
    code = flatten(graph.body, library, bound=bound)
    slots = code.template.copy()
    given = iter(args)
    for slot, value in zip(code.inputs, graph.inputs, strict=True):
        slots[slot] = bound[value] if value in bound else map_leaves(double, next(given))
    with library.torch.no_grad():
        code.run(slots)
    return arrays([map_leaves(_double, slots[slot]) for slot in code.outputs])


class _InDouble(TorchLibrary):
    """Torch's operators, which read float64 for every smaller floating-point type, and give it."""

    def __init__(self, disturbed: _Disturbed | None) -> None:
        super().__init__(double=True)
        self.see: Callable[[Any], Any] = disturbed.see if disturbed else lambda found: found

    def function(self, node: Node) -> Callable[..., Any]:
        function = super().function(node)
        if node.op in PACKS or python_function(node) is not None:  # containers keep the identity of what they hold
            return function
        return lambda *operands: self.see(_widen(function(*map(_widen, operands))))


def _widen(value: Any) -> Any:
    """Returns a tensor of a smaller floating-point type, or a list with such, in float64; anything else as it is."""
    if is_torch_tensor(value):
        return value.to(wide) if (wide := _wide_type(value)) is not value.dtype else value
    if isinstance(value, list | tuple):
        made = [_widen(item) for item in value]
        return type(value)(made) if any(new is not old for new, old in zip(made, value, strict=True)) else value
    return value


def _wide_type(tensor: Any) -> Any:
    torch = sys.modules["torch"]
    return torch.float64 if tensor.is_floating_point() else torch.complex128 if tensor.is_complex() else tensor.dtype


def _double(value: Any) -> Any:
    """Returns a float64 copy of a floating-point tensor, a copy of any other tensor, and anything else unchanged."""
    if isinstance(value, np.ndarray) or is_foreign(value):
        value = as_torch(on_host(value))
    if is_torch_tensor(value):
        return value.detach().to(_wide_type(value), copy=True)
    return value


def not_returned(graph: Graph, given_back: Sequence[int | None]) -> list[str]:
    """Returns the names of the results of a graph that are none of what a call returns; `given_back` says which result each of that is."""
    given = {graph.outputs[place] for place in given_back if place is not None}
    return list(dict.fromkeys(f"%{graph.names[each]}" for each in graph.outputs if each not in given))


def distance(results: Sequence[np.ndarray[Any, Any] | None], truth: Arrays, scales: Sequence[float] = ()) -> Distance | None:
    """Returns the largest relative and absolute difference over all results, and how many elements differ otherwise; None
    without results. A result that is None is not compared. A scale is the least that a difference of that result is relative to.
    """
    if len(results) != len(truth):
        return Distance(np.inf, np.inf, f"{plural(len(results), 'result')} instead of {len(truth)}")
    pairs = enumerate(zip(results, truth, scales or [0.0] * len(truth), strict=True))
    found = {place: _of_one(one, true, least) for place, (one, true, least) in pairs if one is not None}
    if not found:
        return None
    words = [f"result {place}: {each.words}" if len(truth) > 1 else each.words for place, each in found.items() if each.words]
    return Distance(max(each.relative for each in found.values()), max(each.absolute for each in found.values()), ", ".join(words))


def _of_one(result: np.ndarray[Any, Any], true: np.ndarray[Any, Any], least: float) -> Distance:
    if result.shape != true.shape:
        return Distance(np.inf, np.inf, f"shape {result.shape} instead of {true.shape}")
    if true.size == 0:
        return Distance(0.0, 0.0)
    wide = np.complex128 if "c" in (result.dtype.kind, true.dtype.kind) else np.float64
    exact = result.dtype.kind in "biu" and true.dtype.kind in "biu"
    with np.errstate(all="ignore"):
        a, b = result.astype(wide), true.astype(wide)
        same = result == true if exact else (a == b) | (np.isnan(a) & np.isnan(b))
        apart = np.where(same, 0.0, np.abs(a - b))
    apart = np.where(np.isnan(apart), np.inf, apart)
    if exact:  # neighbours among large whole numbers are one in float64
        apart = np.where(same, 0.0, np.maximum(apart, 1.0))
    largest = float(apart.max())
    with np.errstate(all="ignore"):
        relative = float(np.divide(largest, max(_largest(b), least, np.finfo(np.float64).tiny)))
    return Distance(relative, largest, ", ".join(_counts(a, b, same, exact)))


def _counts(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], same: np.ndarray[Any, Any], exact: bool) -> Iterator[str]:
    if exact:
        if not same.all():
            yield f"{np.count_nonzero(~same)} of {same.size} differ"
        return
    for what, count in (
        ("NaN", np.isnan(a) & ~np.isnan(b)), ("a number for NaN", ~np.isnan(a) & np.isnan(b)),
        ("infinite", np.isinf(a) & np.isfinite(b)), ("finite for infinite", np.isfinite(a) & np.isinf(b)),
        ("the other infinity", np.isinf(a) & np.isinf(b) & ~same),
    ):  # fmt: skip
        if count.any():
            yield f"{what} in {np.count_nonzero(count)} of {same.size}"


def difference(results: Arrays, others: Arrays, scales: Sequence[float] = ()) -> str:
    """Returns in words how two runs of one program differ by more than some roundings, or an empty text."""
    found = distance(results, others, scales)
    if found is None or found.words:
        return "" if found is None else found.words
    kinds = [np.finfo(each.dtype).eps for each in results if each.dtype.kind in "fc" and each.size]
    far = found.relative > _ROUNDINGS * max(map(float, kinds), default=0.0)
    return f"by {found.relative:.1e} of the largest element" if far else ""


def arrays(results: Any) -> Arrays:
    """Returns every tensor and number among the results, as NumPy arrays, in order."""
    return [_array(leaf) for leaf in leaves(results)]


def _array(leaf: Any) -> np.ndarray[Any, Any]:
    if is_torch_tensor(leaf):
        return plain_array(leaf)
    leaf = off_the_gpu(leaf)
    is_number = isinstance(leaf, np.generic | bool | int | float | complex) or hasattr(leaf, "__array__")
    found = np.asarray(leaf) if is_number else np.empty(0, bool)
    return found.astype(np.float32) if found.dtype.kind == "V" else found  # the small floats of `ml_dtypes`
