"""Nested values and calls, the memory of the tensors in them as ranges of addresses, values by their keys, and what is reached from some.

A program may be nested a hundred thousand deep, so what walks one does without the Python stack; values are not (`map_leaves`)."""

import inspect
import re
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """The values by their keys, both in the order of the pairs.

    >>> grouped((len(word), word) for word in ("relu", "add", "tanh"))
    {4: ['relu', 'tanh'], 3: ['add']}
    """
    found: dict[K, list[V]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def reached(starts: Iterable[K], onward: Callable[[K], Iterable[K]]) -> dict[K, None]:
    """All that one gets to from some values, these included, in the order in which it is met: the last ones first.

    >>> [*reached([8], lambda number: [number // 2] if number % 2 == 0 else [])]
    [8, 4, 2, 1]
    """
    found, waiting = dict[K, None](), list(starts)
    while waiting:
        here = waiting.pop()
        if here not in found:
            found[here] = None
            waiting += onward(here)
    return found


def leaves(nested: Any) -> Iterator[Any]:
    """The leaves of a nested value, in order; a value that is not a container is its own leaf.

    >>> list(leaves([1, {"a": (2, [3])}, "45"])), list(leaves(6))
    ([1, 2, 3, '45'], [6])
    """
    stack = [nested]
    while stack:
        item = stack.pop()
        if isinstance(item, list | tuple):
            stack.extend(reversed(item))
        elif isinstance(item, dict):
            stack.extend(reversed(item.values()))
        else:
            yield item


def map_leaves(change: Callable[[Any], Any], nested: Any) -> Any:
    """The same containers, new ones, with each leaf changed; of a class of one's own that is no named tuple, plain ones.

    >>> map_leaves(str, [1, {"a": (2, [3])}])
    ['1', {'a': ('2', ['3'])}]
    """
    if isinstance(nested, list | tuple):
        changed = [map_leaves(change, item) for item in nested]
        return changed if isinstance(nested, list) else getattr(nested, "_make", tuple)(changed)
    if isinstance(nested, dict):
        return {key: map_leaves(change, item) for key, item in nested.items()}
    return change(nested)


def leaves_by_path(nested: Any) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """The same leaves, each with its path: indexes of lists, field names of named tuples, keys of dictionaries.

    >>> list(leaves_by_path([1, {"a": (2, [3])}]))
    [((0,), 1), ((1, 'a', 0), 2), ((1, 'a', 1, 0), 3)]
    """
    stack: list[tuple[tuple[Any, ...], Any]] = [((), nested)]
    while stack:
        path, item = stack.pop()
        if isinstance(item, list | tuple):
            inside = list(zip(getattr(item, "_fields", range(len(item))), item, strict=True))
        elif isinstance(item, dict):
            inside = list(item.items())
        else:
            yield path, item
            continue
        stack.extend(((*path, key), part) for key, part in reversed(inside))


def step_of(part: Any) -> Any:
    """One step of a path as torch and JAX describe it: a key, an index, or a field name."""
    return getattr(part, "key", getattr(part, "idx", getattr(part, "name", part)))


def argument_names(function: Any, paths: Sequence[Any], nameless: str = "arg") -> list[str]:
    """Names such as `x`, `params.w`, `layers.0.b` for the leaves of the arguments of a function or module: the parameter and the path."""
    try:
        parameters = list(inspect.signature(getattr(function, "forward", function)).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    plain = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    names = []
    for first, *rest in paths:
        head = plain[first.idx] if first.idx < len(plain) else f"{nameless}{first.idx}"
        names.append(".".join(re.sub(r"\W", "_", str(part)) for part in (head, *map(step_of, rest)) if str(part)))
    return names


# Interpreters of nested blocks are written as if they recursed: a generator yields the generator to run, and is sent its result.
Call = Generator["Call", Any, Any]
"""A call in progress: yields calls, is sent their results, returns its own."""


def run(call: Call) -> Any:
    """The result of a call and of all calls inside it.

    >>> def total(n):
    ...     return 0 if n == 0 else n + (yield total(n - 1))
    >>> run(total(10_000))
    50005000
    """
    stack = [call]
    result: Any = None
    try:
        while stack:
            try:
                inner = stack[-1].send(result)
            except StopIteration as end:
                stack.pop()
                result = end.value
            else:
                stack.append(inner)
                result = None
    finally:
        while stack:  # innermost first, so that closing does not recurse either
            stack.pop().close()
    return result


# The memory of a tensor as a range of addresses, and the tensors that share memory.
#
# The range is the whole allocated block behind a tensor: torch's storage, the array that owns the memory of a
# NumPy array, CuPy's block. Two ranges that share no address share no memory; the only exception, two mappings of one file at
# different addresses, cannot be detected.

_Key = TypeVar("_Key", bound=Hashable)

_UNKNOWN = (AttributeError, NotImplementedError, RuntimeError, TypeError, ValueError)
"""Exceptions of tensors without memory of their own (fake, sparse, wrapped ones) when their address is requested."""


def is_fixed(array: Any) -> bool:
    """Whether this is an array of NumPy whose memory nobody can write."""
    while isinstance(array, np.ndarray) and not array.flags.writeable:
        if not isinstance(array.base, np.ndarray):
            return True
        array = array.base
    return False


def address_range(tensor: Any) -> tuple[int, int] | None:
    """The first and the end address of the block behind a tensor, in bytes; None if unknown, as for meta tensors."""
    try:
        if isinstance(tensor, np.ndarray):
            whole = tensor
            while isinstance(whole.base, np.ndarray):
                whole = whole.base
            return _span(whole)
        if hasattr(tensor, "untyped_storage"):
            storage = tensor.untyped_storage()
            return _from(storage.data_ptr(), storage.nbytes())
        block = tensor.data.mem  # CuPy's
        return _from(int(block.ptr), int(block.size))
    except _UNKNOWN:
        return None


def _span(array: np.ndarray[Any, Any]) -> tuple[int, int]:
    """The bytes between an array's lowest and highest element."""
    start = array.ctypes.data
    if not array.size:
        return start, start
    reaches = [(size - 1) * step for size, step in zip(array.shape, array.strides, strict=True)]
    return start + sum(r for r in reaches if r < 0), start + sum(r for r in reaches if r > 0) + array.itemsize


def _from(start: int, size: int) -> tuple[int, int] | None:
    return (start, start + size) if start or not size else None


def by_storage(tensors: Mapping[_Key, Any]) -> dict[_Key, int]:
    """Numbers the tensors with known addresses, with equal numbers for those whose blocks have an address in common."""
    known = {key: found for key, tensor in tensors.items() if (found := address_range(tensor)) is not None}
    group_of: dict[_Key, int] = {}
    group, reach = -1, -1
    for key, (start, end) in sorted(known.items(), key=lambda item: item[1]):
        if start == end:  # no bytes, so nothing in common with others
            continue
        if start >= reach:
            group += 1
        group_of[key], reach = group, max(reach, end)
    numbers: dict[Hashable, int] = {}
    return {key: numbers.setdefault(group_of.get(key, (key,)), len(numbers)) for key in known}


def torch_guards(torch: Any) -> Callable[..., Callable[..., bool]] | None:
    """Returns the guard of Dynamo's programs, at a third of the cost of comparing facts, if this torch has it.

    It compares class, dispatch keys (which encode device, layout, sign and the call's surroundings), element type, shape,
    strides, and that no gradient is required; inside of a run, that one is required of the same, which torch 2.13 looks at there, too."""

    def made(arguments: Sequence[Any], inside: bool = False) -> Callable[..., bool]:
        if inside and (same := guard(arguments))(*arguments):
            return same
        return guard([_without_gradient(torch, argument) for argument in arguments])

    def guard(wanted: Sequence[Any]) -> Callable[..., bool]:
        guards = torch._C._dynamo.guards.TensorGuards(*wanted, dynamic_dims_sizes=None, dynamic_dims_strides=None)
        return guards.check  # type: ignore[no-any-return]

    try:
        like = torch.empty(2, 3)
        same = made([like])
        others = [like.t(), like[:1], like.double(), torch._neg_view(like), torch.empty(2, 3, device="meta")]
        others.append(torch.nn.Parameter(like, requires_grad=False))
        is_right = same(torch.empty(2, 3)) is True and not any(map(same, others))
    except Exception:  # private API of torch
        return None
    return made if is_right else None


def _without_gradient(torch: Any, tensor: Any) -> Any:
    """Returns a tensor of the same class that requires no gradient: a guard for one that does assumes gradients are recorded."""
    if not tensor.requires_grad:
        return tensor
    plain = tensor.detach()
    return torch.nn.Parameter(plain, requires_grad=False) if isinstance(tensor, torch.nn.Parameter) else plain
