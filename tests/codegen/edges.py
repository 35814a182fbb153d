"""Every pointwise op on every tuple of the numbers where arithmetic changes its ways, and what torch gives for them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any, Final

import numpy as np
import pytest

from irscope.ir import Argument, OpSchema, OptionalType, TensorType
from irscope.ops.expr import Expr, NoExpression, input_element
from irscope.ops.op import Op
from tests.ops.oracle import POINTWISE

torch = pytest.importorskip("torch")
Array = np.ndarray[Any, Any]
Tensor = Any

HALVES: Final = ("float16", "bfloat16")

_WORDS: Final[dict[str, list[Any]]] = {
    "rounding_mode": ["floor", "trunc", None], "approximate": ["none", "tanh"], "decimals": [0], "eps": [1e-5],
    "exponent": [2, 3, 0.5, -1, 0, 2.5, -2, -0.5, 1, 4, -3, float("inf")], "alpha": [1, 2, -0.3],
}  # fmt: skip
_FLOATS: Final = [2.5, -0.0, 0.0, float("inf"), -1.0, 1e30, 0.1, float("nan")]
_WHOLES: Final = [3, 1, -7, 0, 2, 100]


@dataclass(frozen=True)
class Case:
    """One call of one overload: its numbers, and the types of its tensors."""

    op: Op
    schema: OpSchema
    numbers: dict[str, Any]
    types: dict[str, str]
    expr: Expr

    def __str__(self) -> str:
        return f"{self.schema.full_name} {self.numbers} of {'/'.join(self.types.values())}"


def edges(dtype: str) -> Tensor:
    """Zeros, the ends of the denormals and of the normal numbers, neighbours of 1, halves, what is not exact any more."""
    kind = getattr(torch, dtype)
    if dtype == "bool":
        return torch.tensor([False, True])
    if not kind.is_floating_point:
        low, high = torch.iinfo(kind).min, torch.iinfo(kind).max
        some = {low, low + 1, high, high - 1, *range(-3, 4), 7, -7, 10, *(2**k for k in range(4, 62, 3)), 2**24 + 1}
        return torch.tensor(sorted(n for n in some if low <= n <= high), dtype=kind)
    facts = torch.finfo(kind)
    small = facts.smallest_normal
    sizes = [0.0, small * facts.eps, small - small * facts.eps, small, facts.eps / 2, 1e-4, 0.1, 0.5, 1 - facts.eps / 2, 1.0,
             1 + facts.eps, 1.5, 2.0, 2.5, 3.0, 6.0, 10.0, 20.0, 88.5, 1e20, 2.0**24 - 1, 2.0**24 + 1, 2.0**53 - 1,
             facts.max / 2, facts.max, float("inf"), float("nan")]  # fmt: skip
    both = torch.tensor([sign * size for size in sizes for sign in (1, -1)], dtype=torch.float64).to(kind)
    return both[~(both.isinf() & torch.tensor([s for s in sizes for _ in range(2)]).isfinite())]


def cases(dtype: str, *, every_number: bool) -> Iterator[Case]:
    """The calls of all overloads that write nothing and that kernels compute."""
    for op in POINTWISE:
        if op.expression is None or op.effect != "pure" or op.category != "pointwise" or op.operand_axes:
            continue
        for schema in op.schemas if op.name.startswith("aten::") else ():
            tensors = [a.name for a in schema.arguments if isinstance(_plain(a), TensorType)]
            types = {name: "bool" if name in ("mask", "condition") else dtype for name in tensors}
            rest = [a for a in schema.arguments if a.name not in types]
            for numbers in _choices(rest, dtype, every_number) if tensors else ():
                leaves = {name: input_element(i, kind, rank=1) for i, (name, kind) in enumerate(types.items())}
                try:
                    yield Case(op, schema, numbers, types, op.expression(**leaves, **numbers))
                except NoExpression:
                    continue


def _plain(argument: Argument) -> Any:
    return argument.type.element if isinstance(argument.type, OptionalType) else argument.type


def _choices(arguments: Sequence[Argument], dtype: str, every_number: bool) -> Iterator[dict[str, Any]]:
    """Numbers side by side, not each with each."""
    is_float = getattr(torch, dtype).is_floating_point
    lists = {}
    for position, argument in enumerate(arguments):
        own = _WORDS.get(argument.name)
        if own is None:
            own = [False] if str(_plain(argument)) == "bool" else _FLOATS if is_float else _WHOLES
            own = own[position % len(own) :] + own[: position % len(own)]
        lists[argument.name] = own if every_number or argument.name in _WORDS else own[:3]
    length = max(map(len, lists.values()), default=1)
    for row in zip(*(islice(cycle(own), length) for own in lists.values()), strict=True):
        yield dict(zip(lists, row, strict=True))
    if not lists:
        yield {}


def grid(types: Sequence[str]) -> list[Tensor]:
    """Every tuple of edge numbers, one tensor an operand; of three operands every third number."""
    own = [edges(kind) for kind in types]
    own = [numbers[::3] if len(types) > 2 and len(numbers) > 9 else numbers for numbers in own]
    places = np.meshgrid(*(np.arange(len(numbers)) for numbers in own), indexing="ij")
    return [numbers[torch.from_numpy(place.ravel())] for numbers, place in zip(own, places, strict=True)]


def eager(case: Case, tensors: Sequence[Tensor]) -> list[Tensor]:
    """torch's result in vectors and in single elements, which differ; none where torch refuses the call."""
    found = []
    for way in (_long, _spread):
        try:
            found.append(_called(case, [way(tensor) for tensor in tensors])[: tensors[0].numel()])
        except (RuntimeError, ZeroDivisionError, OverflowError):
            continue
    return found


def single(case: Case, tensors: Sequence[Tensor], index: int) -> Tensor:
    """torch's result for the tuple at one place, alone."""
    return _called(case, [tensor[index : index + 1].clone() for tensor in tensors])


def _called(case: Case, tensors: Sequence[Tensor]) -> Tensor:
    overload = getattr(getattr(torch.ops.aten, case.op.name.removeprefix("aten::")), case.schema.overload or "default")
    given = {**dict(zip(case.types, tensors, strict=True)), **case.numbers}
    plain = [given[a.name] for a in case.schema.arguments if not a.keyword_only]
    result: Tensor = overload(*plain, **{a.name: given[a.name] for a in case.schema.arguments if a.keyword_only})
    return result


def _long(tensor: Tensor) -> Tensor:
    """With 64 more elements behind it, so that none of its own is in the rest that fills no vector."""
    return torch.cat([tensor, tensor[torch.arange(64) % tensor.numel()]])


def _spread(tensor: Tensor) -> Tensor:
    wide = tensor.new_empty(2 * tensor.numel())[::2]
    return wide.copy_(tensor)
