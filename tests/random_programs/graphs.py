"""Random programs for property tests: TorchScript's text, and arguments with which it runs.

What they contain (each a *feature* that can be left out): broadcasting pointwise ops; `views` (select, slice, transpose,
permute, unsqueeze, view, reshape, expand, unbind); `in-place` ops on values, views, inputs and elements of containers;
`lists` (construct, append, get, set, concatenate, unpack, as inputs), `tuples`, `dicts`; `if` and `loop`, nested, with trip
counts from none to three that partly come from arguments, with and without results; `reductions`; `matmul`; `select`
(compare and where); `aliased-inputs` (arguments that are views of each other). Only when asked for (`MORE_FEATURES`), so that
seeds keep their programs: `norms` (softmax, layer and group norm, variance, maximum with its place, sums over several
axes) and `joins` (chunk, split, cat, stack); and `types`, see below.

With `types`, tensors are bools, integers, halves, floats and complex numbers; ops are those of which torch, asked with tensors of ones,
makes something, so that promotion, numbers of another kind, casts and writes into another type are torch's own.

What they keep: without `types`, every value is float32 (or a Python number that steers control flow), every shape is known when the
program is made, and so every program runs in torch, and its numbers stay finite: no division, no branch on tensor data.
Torch refuses writes through expanded tensors and writes whose operand partly overlaps the target; so an operand that
may overlap is cloned first. Names, the order of statements and which memory is shared are what is random.

To run one in torch: `torch._C._create_function_from_graph("f", torch._C.parse_ir(text))` under `torch.no_grad()`, with
`torch._C._get_graph_executor_optimize(False)`, for torch's optimiser is one of the things that such programs break.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import numpy as np
import pytest
from hypothesis import strategies as st

FEATURES: Final = frozenset(
    {"views", "in-place", "lists", "tuples", "dicts", "if", "loop", "reductions", "matmul", "select", "aliased-inputs"}
)

MORE_FEATURES: Final = frozenset({"norms", "joins", "types"})

NAMES: Final = {
    "bool": "Bool", "uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long", "float16": "Half",
    "bfloat16": "BFloat16", "float32": "Float", "float64": "Double", "complex64": "ComplexFloat", "complex128": "ComplexDouble",
}  # fmt: skip
"""The element types, with their names in IR text; no argument is a bfloat16, which NumPy lacks."""
_CODES: Final = (11, 0, 1, 3, 4, 5, 6, 7, 15)
"""TorchScript's numbers of the types that are cast to."""
_ONE: Final = "neg abs square relu tanh sigmoid logical_not bitwise_not sign isnan".split()
_TWO: Final = "add sub mul maximum minimum eq lt ge bitwise_and bitwise_or bitwise_xor logical_and where".split()
_WRITES: Final = "add_ sub_ mul_ copy_ relu_ neg_ zero_ logical_not_ bitwise_and_ eq_ square_ tanh_".split()

Shape = tuple[int, ...]


class Program(NamedTuple):
    """A program and arguments for it; `text, inputs = program` works."""

    text: str
    inputs: tuple[Any, ...]
    """Arrays, lists of them, ints and bools, in the order of the graph's inputs; arrays may share memory."""

    def fresh(self) -> tuple[Any, ...]:
        """New arguments with the same numbers, sharing memory as the originals do; a program may write its arguments."""
        bases: dict[int, np.ndarray[Any, Any]] = {}
        return tuple(_copied(value, bases) for value in self.inputs)

    def with_types(self) -> Program:
        """The same program with the shapes and strides of its arguments in the text."""
        head, _, body = self.text.partition("\n")
        params = head.removeprefix("graph(").removesuffix("):").split(", ")
        typed = [
            param.replace(": Tensor", f": {_type_of(value)}") if isinstance(value, np.ndarray) else param
            for param, value in zip(params, self.inputs, strict=True)
        ]
        return Program(f"graph({', '.join(typed)}):\n{body}", self.inputs)


def _type_of(array: np.ndarray[Any, Any]) -> str:
    if array.ndim == 0:
        return f"{NAMES[str(array.dtype)]}()"
    strides = ", ".join(str(step // array.itemsize) for step in array.strides)
    return f"{NAMES[str(array.dtype)]}({', '.join(map(str, array.shape))}, strides=[{strides}])"


def _copied(value: Any, bases: dict[int, np.ndarray[Any, Any]]) -> Any:
    if isinstance(value, list):
        return [_copied(item, bases) for item in value]
    if not isinstance(value, np.ndarray):
        return value
    base = value if value.base is None else value.base
    copy = bases.setdefault(id(base), base.copy())
    if base is value:
        return copy
    offset = value.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    return np.ndarray(value.shape, value.dtype, buffer=copy, offset=offset, strides=value.strides)


def programs(*, max_size: int = 25, features: Iterable[str] = FEATURES) -> st.SearchStrategy[Program]:
    """Random programs of up to `max_size` statements; a failing one shrinks to fewer statements."""
    chosen = frozenset(features)
    return st.builds(
        lambda size, seed: random_program(seed, size=size, features=chosen), st.integers(1, max_size), st.integers(0, 2**32 - 1)
    )


def random_program(seed: int, *, size: int = 15, features: Iterable[str] = FEATURES) -> Program:
    """The program of this seed: about `size` statements, and the constants that they need.

    >>> text, inputs = random_program(0, size=3, features=())
    >>> text.splitlines()[0].startswith("graph(%")
    True
    """
    unknown = set(features) - FEATURES - MORE_FEATURES
    assert not unknown, f"no such features: {sorted(unknown)}"
    return _Generator(random.Random(seed), frozenset(features)).program(size)


@dataclass(frozen=True)
class _Tensor:
    """What is known of a tensor while the program is made."""

    name: str
    shape: Shape
    roots: frozenset[int]
    """The buffers that it may lie in; empty: any."""
    contiguous: bool = False
    overlapping: bool = False
    """Whether elements share memory (expand): torch does not write those."""
    dtype: str = "float32"

    @property
    def kind(self) -> _Kind:
        return _Kind(self.shape, self.dtype)


class _Kind(NamedTuple):
    """What two tensors have in common of which either may stand for the other."""

    shape: Shape
    dtype: str


@dataclass(frozen=True)
class _List:
    name: str
    kind: _Kind
    """All elements are of this one."""
    length: int
    """It has at least so many."""


@dataclass(frozen=True)
class _Tuple:
    name: str
    kinds: tuple[_Kind, ...]


@dataclass(frozen=True)
class _Dict:
    name: str
    kind: _Kind
    keys: tuple[str, ...]


@dataclass
class _Scope:
    """What is visible at a place."""

    tensors: list[_Tensor] = field(default_factory=list)
    lists: list[_List] = field(default_factory=list)
    tuples: list[_Tuple] = field(default_factory=list)
    dicts: list[_Dict] = field(default_factory=list)
    ints: list[str] = field(default_factory=list)
    bools: list[str] = field(default_factory=list)

    def inner(self) -> _Scope:
        """A copy to which a block adds its own; in there, it is unknown which buffers are meant."""
        forgotten = [replace(tensor, roots=frozenset()) for tensor in self.tensors]
        return _Scope(forgotten, list(self.lists), list(self.tuples), list(self.dicts), list(self.ints), list(self.bools))


class _Generator:
    """Writes one program statement by statement; a statement that finds no fitting values writes a pointwise op."""

    def __init__(self, rng: random.Random, features: frozenset[str]) -> None:
        self.rng = rng
        self.features = features
        self.count = 0
        self.constants: dict[str, str] = {}
        self.lines: list[str] = []
        self.depth = 0
        self.buffers = 0

    def program(self, size: int) -> Program:
        scope = _Scope()
        params, inputs = self.inputs(scope)
        self.statements(scope, size)
        result = self.result(scope)
        head = f"graph({', '.join(params)}):\n"
        constants = "".join(f"  {name} : {text}\n" for text, name in self.constants.items())
        body = "".join(f"{line}\n" for line in self.lines)
        return Program(f"{head}{constants}{body}  return ({result})\n", tuple(inputs))

    def inputs(self, scope: _Scope) -> tuple[list[str], list[Any]]:
        """Two to four tensors, a count, a flag, perhaps a list."""
        numbers = np.random.default_rng(self.rng.randrange(2**32))
        params: list[str] = []
        inputs: list[Any] = []
        for _ in range(self.rng.randint(2, 4)):
            known = [(tensor, array) for tensor, array in zip(scope.tensors, inputs, strict=True) if array.base is None]
            shape = self.shape()
            array = numbers.uniform(-1, 1, shape).astype(np.float32)
            if "types" in self.features:
                array = _of_type(array, self.rng.choice([name for name in NAMES if name != "bfloat16"]))
            roots = self.new_buffer()
            if known and "aliased-inputs" in self.features and self.rng.random() < 0.5:
                tensor, base = self.rng.choice(known)
                array = base[...] if base.ndim == 0 or self.rng.random() < 0.5 else base[: self.rng.randint(1, base.shape[0])]
                roots = tensor.roots
            scope.tensors.append(_Tensor(self.name("x"), array.shape, roots, contiguous=True, dtype=str(array.dtype)))
            params.append(f"{scope.tensors[-1].name} : Tensor")
            inputs.append(array)
        scope.ints.append(self.name("n"))
        scope.bools.append(self.name("flag"))
        params += [f"{scope.ints[-1]} : int", f"{scope.bools[-1]} : bool"]
        inputs += [self.rng.randint(0, 3), self.rng.random() < 0.5]
        if "lists" in self.features and self.rng.random() < 0.3:
            tensor, array = scope.tensors[0], inputs[0]
            shared = "aliased-inputs" in self.features and self.rng.random() < 0.5
            scope.lists.append(_List(self.name("xs"), tensor.kind, 2))
            if shared:  # then every buffer may be written through the list
                scope.tensors = [replace(tensor, roots=frozenset()) for tensor in scope.tensors]
            params.append(f"{scope.lists[-1].name} : Tensor[]")
            inputs.append([array if shared else array.copy(), numbers.uniform(-1, 1, array.shape).astype(array.dtype)])
        return params, inputs

    def result(self, scope: _Scope) -> str:
        """One tensor, or a tuple of some and perhaps a list; torch's functions have one result."""
        tensors = [tensor.name for tensor in scope.tensors[-6:]]
        chosen = self.rng.sample(tensors, min(len(tensors), self.rng.randint(1, 3)))
        types = ["Tensor"] * len(chosen)
        if scope.lists and self.rng.random() < 0.5:
            chosen.append(self.rng.choice(scope.lists).name)
            types.append("Tensor[]")
        if len(chosen) == 1:
            return chosen[0]
        return self.statement(f"({', '.join(types)})", f"prim::TupleConstruct({', '.join(chosen)})", "r")

    # -- statements ------------------------------------------------------------------------------------------------

    def statements(self, scope: _Scope, budget: int) -> None:
        makers: dict[str, tuple[float, Callable[[_Scope, int], int]]] = {
            "": (4, self.pointwise), "views": (3, self.view), "in-place": (3, self.write), "lists": (2, self.list_statement),
            "tuples": (0.7, self.tuple_statement), "dicts": (1, self.dict_statement), "reductions": (0.7, self.reduction),
            "matmul": (0.5, self.matmul), "select": (0.7, self.select), "if": (1, self.if_statement), "loop": (1, self.loop_statement),
            "norms": (2, self.norm), "joins": (1.5, self.join),
        }  # fmt: skip
        if "types" in self.features:
            makers |= {"": (6, self.typed), "in-place": (3, self.typed_write), "reductions": (1, self.typed_reduction)}
            makers = {feature: made for feature, made in makers.items() if feature not in ("matmul", "select", "norms")}
        usable = [maker for feature, maker in makers.items() if not feature or feature in self.features]
        while budget > 0:
            (maker,) = self.rng.choices([maker for _, maker in usable], [weight for weight, _ in usable])
            if self.depth >= 2 and maker in (self.if_statement, self.loop_statement):
                maker = usable[0][1]
            budget -= maker(scope, budget)

    def pointwise(self, scope: _Scope, budget: int) -> int:
        if "types" in self.features:  # what other statements fall back to: torch neither orders nor compares complex numbers
            return self.typed(scope, budget)
        tensor = self.pick(scope)
        kind = self.rng.randrange(4)
        if kind == 0:
            op = self.rng.choice(["relu", "tanh", "sigmoid", "neg", "abs"])
            self.fresh(scope, f"aten::{op}({tensor.name})", tensor.shape)
            return 1
        if kind == 1:
            number = self.constant("float", self.rng.choice(["0.5", "2.", "-1.5"]))
            op = self.rng.choice([f"add({tensor.name}, {number}, {self.number(1)})", f"mul({tensor.name}, {number})"])
            self.fresh(scope, f"aten::{op}", tensor.shape)
            return 1
        other = self.partner(scope, tensor.shape)
        shape = np.broadcast_shapes(tensor.shape, other.shape)
        if kind == 2:  # the product of a tensor and a number below one: loops do not run off to infinity
            other = self.fresh(scope, f"aten::tanh({other.name})", other.shape)
            self.fresh(scope, f"aten::mul({tensor.name}, {other.name})", shape)
            return 2
        op = self.rng.choice(["add", "sub", "maximum", "minimum"])
        alpha = f", {self.number(self.rng.choice([1, 1, 2]))}" if op in ("add", "sub") else ""
        self.fresh(scope, f"aten::{op}({tensor.name}, {other.name}{alpha})", shape)
        return 1

    def view(self, scope: _Scope, budget: int) -> int:
        tensor = self.pick(scope)
        rank = len(tensor.shape)
        maker = self.rng.choice(
            [self.unsqueeze, self.reshape, self.expand]
            if rank == 0
            else [self.unsqueeze, self.reshape, self.expand, self.pick_one, self.cut, self.cut, self.swap, self.permute, self.unbind]
        )
        maker(scope, tensor)
        return 1

    def pick_one(self, scope: _Scope, tensor: _Tensor) -> None:
        dim = self.rng.randrange(len(tensor.shape))
        index = self.rng.randrange(tensor.shape[dim])
        shape = tensor.shape[:dim] + tensor.shape[dim + 1 :]
        text = f"aten::select({tensor.name}, {self.number(dim)}, {self.number(index)})"
        self.same_memory(scope, text, tensor, shape, contiguous=dim == 0)

    def cut(self, scope: _Scope, tensor: _Tensor) -> None:
        dim = self.rng.randrange(len(tensor.shape))
        extent = tensor.shape[dim]
        start, step = self.rng.randrange(extent), self.rng.choice([1, 1, 2])
        end = self.rng.randint(start + 1, extent)
        shape = (*tensor.shape[:dim], -(-(end - start) // step), *tensor.shape[dim + 1 :])
        numbers = ", ".join(self.number(number) for number in (dim, start, end, step))
        self.same_memory(scope, f"aten::slice({tensor.name}, {numbers})", tensor, shape, contiguous=dim == 0 and step == 1)

    def swap(self, scope: _Scope, tensor: _Tensor) -> None:
        first, second = (self.rng.randrange(len(tensor.shape)) for _ in range(2))
        shape = list(tensor.shape)
        shape[first], shape[second] = shape[second], shape[first]
        text = f"aten::transpose({tensor.name}, {self.number(first)}, {self.number(second)})"
        self.same_memory(scope, text, tensor, tuple(shape), contiguous=first == second)

    def permute(self, scope: _Scope, tensor: _Tensor) -> None:
        order = self.rng.sample(range(len(tensor.shape)), len(tensor.shape))
        shape = tuple(tensor.shape[dim] for dim in order)
        self.same_memory(scope, f"aten::permute({tensor.name}, {self.ints(order)})", tensor, shape, contiguous=False)

    def unsqueeze(self, scope: _Scope, tensor: _Tensor) -> None:
        if len(tensor.shape) >= 4:
            self.reshape(scope, tensor)
            return
        dim = self.rng.randint(0, len(tensor.shape))
        shape = (*tensor.shape[:dim], 1, *tensor.shape[dim:])
        self.same_memory(scope, f"aten::unsqueeze({tensor.name}, {self.number(dim)})", tensor, shape)

    def reshape(self, scope: _Scope, tensor: _Tensor) -> None:
        """A view where the tensor is contiguous; `reshape` copies where it must."""
        size = int(np.prod(tensor.shape))
        divisors = [number for number in range(1, size + 1) if size % number == 0]
        first = self.rng.choice(divisors)
        shape = self.rng.choice([(size,), (first, size // first)])
        op = "view" if tensor.contiguous and self.rng.random() < 0.7 else "reshape"
        self.same_memory(scope, f"aten::{op}({tensor.name}, {self.ints(shape)})", tensor, shape)

    def expand(self, scope: _Scope, tensor: _Tensor) -> None:
        shape = tuple(self.rng.choice([2, 3]) if extent == 1 else extent for extent in tensor.shape)
        if len(shape) < 3:
            shape = (self.rng.choice([1, 2]), *shape)
        text = f"aten::expand({tensor.name}, {self.ints(shape)}, {self.constant('bool', '0')})"
        self.same_memory(scope, text, tensor, shape, contiguous=False, overlapping=True)

    def unbind(self, scope: _Scope, tensor: _Tensor) -> None:
        dim = self.rng.randrange(len(tensor.shape))
        shape = tensor.shape[:dim] + tensor.shape[dim + 1 :]
        found = self.statement("Tensor[]", f"aten::unbind({tensor.name}, {self.number(dim)})")
        parts = [self.name("v") for _ in range(tensor.shape[dim])]
        self.line(f"{', '.join(f'{part} : Tensor' for part in parts)} = prim::ListUnpack({found})")
        scope.tensors += [replace(tensor, name=part, shape=shape, contiguous=False) for part in parts]

    def write(self, scope: _Scope, budget: int) -> int:
        """An in-place op; its result is the tensor itself under a new name."""
        target = self.pick(scope, lambda tensor: not tensor.overlapping)
        kind = self.rng.randrange(3)
        if kind == 0:
            op, *given = [self.rng.choice(["relu_", "tanh_", "sigmoid_", "neg_", "zero_"])]
        elif kind == 1:
            number = self.constant("float", self.rng.choice(["0.5", "-0.5", "1."]))
            op, *given = self.rng.choice([["add_", number, self.number(1)], ["mul_", number], ["fill_", number]])
        else:
            other, one = self.operand_of_write(scope, target), self.number(1)
            op, *given = self.rng.choice([["add_", other, one], ["sub_", other, one], ["copy_", other, self.constant("bool", "0")]])
        text = f"aten::{op}({', '.join([target.name, *given])})"
        if self.rng.random() < 0.6:
            self.same_memory(scope, text, target, target.shape)
        else:  # the result is not used, as after `x += 1` on a view
            self.statement("Tensor", text)
        return 1

    def operand_of_write(self, scope: _Scope, target: _Tensor) -> str:
        """A value that broadcasts to the target and does not partly overlap it."""
        fitting = [tensor for tensor in scope.tensors if _broadcasts_to(tensor.shape, target.shape)]
        other = self.rng.choice(fitting)
        apart = target.roots and other.roots and not (target.roots & other.roots)
        if other.name == target.name or apart:
            return other.name
        return self.fresh(scope, f"aten::clone({other.name}, {self.none()})", other.shape, dtype=other.dtype).name

    def reduction(self, scope: _Scope, budget: int) -> int:
        tensor = self.pick(scope, lambda tensor: bool(tensor.shape))
        if not tensor.shape:
            return self.pointwise(scope, budget)
        dim, keep = self.rng.randrange(len(tensor.shape)), self.rng.random() < 0.5
        shape = (*tensor.shape[:dim], *([1] if keep else []), *tensor.shape[dim + 1 :])
        op = self.rng.choice(["sum", "mean", "amax"])
        dtype = "" if op == "amax" else f", {self.none()}"
        text = f"aten::{op}({tensor.name}, {self.ints([dim])}, {self.constant('bool', str(int(keep)))}{dtype})"
        self.fresh(scope, text, shape)
        return 1

    def norm(self, scope: _Scope, budget: int) -> int:
        """Something that gathers along one or several axes, as one op."""
        tensor = self.pick(scope, lambda tensor: bool(tensor.shape))
        rank = len(tensor.shape)
        if not rank:
            return self.pointwise(scope, budget)
        axes = sorted(self.rng.sample(range(rank), self.rng.randint(1, rank)))
        keep = self.rng.random() < 0.5
        kept = tuple(1 if axis in axes else size for axis, size in enumerate(tensor.shape))
        gone = tuple(size for axis, size in enumerate(tensor.shape) if axis not in axes)
        flag, none, x = self.constant("bool", str(int(keep))), self.none(), tensor.name
        off, tiny = self.constant("bool", "0"), self.constant("float", "0.1")
        kind = self.rng.randrange(6)
        if kind == 0:
            op = self.rng.choice(["softmax", "log_softmax"])
            self.fresh(scope, f"aten::{op}({x}, {self.number(axes[0])}, {none})", tensor.shape)
        elif kind == 1:
            last = self.ints(tensor.shape[axes[0] :])
            self.fresh(scope, f"aten::layer_norm({x}, {last}, {none}, {none}, {tiny}, {off})", tensor.shape)
        elif kind == 2:
            op = self.rng.choice(["sum", "mean", "amax", "amin"])
            dtype = "" if op in ("amax", "amin") else f", {none}"
            self.fresh(scope, f"aten::{op}({x}, {self.ints(axes)}, {flag}{dtype})", kept if keep else gone)
        elif kind == 3:
            text = f"aten::var({x}, {self.ints(axes)}, {off}, {flag})"
            self.fresh(scope, text, kept if keep else gone)
        elif kind == 4:
            axis = axes[0]
            shape = (*tensor.shape[:axis], *([1] if keep else []), *tensor.shape[axis + 1 :])
            value, place = self.name("m"), self.name("at")
            self.line(f"{value} : Tensor, {place} : Tensor = aten::max({x}, {self.number(axis)}, {flag})")
            scope.tensors.append(_Tensor(value, shape, self.new_buffer()))
        elif rank < 2 or np.prod(tensor.shape[1:]) < 2:  # torch does not normalise a single element
            return self.pointwise(scope, budget)
        else:
            groups = self.number(self.rng.choice([n for n in (1, 2, 3) if tensor.shape[1] % n == 0]))
            if np.prod(tensor.shape[1:]) // tensor.shape[1] < 2:
                groups = self.number(1)
            self.fresh(scope, f"aten::group_norm({x}, {groups}, {none}, {none}, {tiny}, {off})", tensor.shape)
        return 1

    def join(self, scope: _Scope, budget: int) -> int:
        """Cut a tensor into a list that is unpacked, or make one of several."""
        tensor = self.pick(scope, lambda tensor: bool(tensor.shape))
        if not tensor.shape:
            return self.pointwise(scope, budget)
        dim = self.rng.randrange(len(tensor.shape))
        extent = tensor.shape[dim]
        if self.rng.random() < 0.5 and extent > 1:
            found = self.statement("Tensor[]", f"aten::chunk({tensor.name}, {self.number(extent)}, {self.number(dim)})")
            shape = (*tensor.shape[:dim], 1, *tensor.shape[dim + 1 :])
            parts = [self.name("v") for _ in range(extent)]
            self.line(f"{', '.join(f'{part} : Tensor' for part in parts)} = prim::ListUnpack({found})")
            scope.tensors += [replace(tensor, name=part, shape=shape, contiguous=False) for part in parts]
            return 1
        other, axis = self.like(scope, tensor.kind), self.number(dim)
        xs = self.statement("Tensor[]", f"prim::ListConstruct({tensor.name}, {other})", "xs")
        if self.rng.random() < 0.5 and extent < 4:
            shape = (*tensor.shape[:dim], 2 * extent, *tensor.shape[dim + 1 :])
            self.fresh(scope, f"aten::cat({xs}, {axis})", shape, dtype=tensor.dtype)
        elif len(tensor.shape) < 4:
            self.fresh(scope, f"aten::stack({xs}, {axis})", (*tensor.shape[:dim], 2, *tensor.shape[dim:]), dtype=tensor.dtype)
        return 1

    def matmul(self, scope: _Scope, budget: int) -> int:
        left = self.pick(scope, lambda tensor: len(tensor.shape) == 2)
        right = self.pick(scope, lambda tensor: len(tensor.shape) == 2 and tensor.shape[0] == left.shape[-1:][0])
        if len(left.shape) != 2 or len(right.shape) != 2 or left.shape[1] != right.shape[0]:
            return self.pointwise(scope, budget)
        small = self.fresh(scope, f"aten::tanh({right.name})", right.shape)
        self.fresh(scope, f"aten::mm({left.name}, {small.name})", (left.shape[0], right.shape[1]))
        return 2

    def select(self, scope: _Scope, budget: int) -> int:
        tensor = self.pick(scope)
        other = self.partner(scope, tensor.shape)
        mask = self.statement("Tensor", f"aten::gt({tensor.name}, {self.constant('float', '0.25')})")
        shape = np.broadcast_shapes(tensor.shape, other.shape)
        self.fresh(scope, f"aten::where({mask}, {tensor.name}, {other.name})", shape)
        return 2

    # -- of any element type ---------------------------------------------------------------------------------------

    def typed(self, scope: _Scope, budget: int) -> int:
        """A pointwise op of tensors and numbers, a cast or a shift."""
        tensor = self.pick(scope)
        made: _Tensor | None = None
        kind = self.rng.randrange(6)
        if kind == 0:
            made = self.called(scope, self.rng.choice(_ONE), tensor)
        elif kind == 1:
            made = self.called(scope, "mul", tensor, self.rng.choice([2, 0.5, -1]))
        elif kind == 2:
            op, number = self.rng.choice([("add", 2), ("add", 0.5), ("sub", 1), ("gt", 0.25), ("__lshift__", 1), ("__rshift__", 2)])
            made = self.called(scope, op, tensor, number, *([1] if op in ("add", "sub") else []))
        elif kind == 3:  # what is cast to integers is small: beyond them, casts have no defined result
            bounded = self.called(scope, "tanh", tensor) or tensor
            if bounded.dtype[:7] != "complex":
                made = self.called(scope, "to", bounded, self.rng.choice(_CODES), False, False, None)
                if made:  # to its own type, it is the tensor itself
                    scope.tensors[-1] = replace(made, roots=frozenset(), overlapping=bounded.overlapping)
        else:
            op = self.rng.choice(_TWO)
            other = tensor if self.rng.random() < 0.25 else self.partner(scope, tensor.shape)
            if op == "where":
                mask = self.pick(scope, lambda one: one.dtype == "bool" and _broadcast_size(one.shape, tensor.shape) <= 64)
                made = self.called(scope, op, mask, tensor, other) if mask.dtype == "bool" else None
            else:
                made = self.called(scope, op, tensor, other, *([1] if op in ("add", "sub") else []))
        if made is None:
            self.called(scope, "clone", tensor, None)
        return 1

    def typed_write(self, scope: _Scope, budget: int) -> int:
        """An in-place op, whose operands may have another element type than the target."""
        target = self.pick(scope, lambda tensor: not tensor.overlapping)
        op = self.rng.choice(_WRITES)
        if op in ("add_", "sub_", "mul_", "copy_", "bitwise_and_", "eq_"):
            name = self.operand_of_write(scope, target)
            other = next(tensor for tensor in scope.tensors if tensor.name == name)
            rest: list[Any] = [1] if op in ("add_", "sub_") else [False] if op == "copy_" else []
            kinds = [next(k for k, word in enumerate(("bool", "int", "float", "complex")) if word in one.dtype) for one in (target, other)]
            made = None if op == "copy_" and kinds[0] < kinds[1] else self.text_of(op, target, other, *rest)
        else:
            made = self.text_of(op, target)
        if made is None:
            made = self.text_of("zero_", target)
        assert made is not None
        self.same_memory(scope, made[0], target, target.shape)
        return 1

    def typed_reduction(self, scope: _Scope, budget: int) -> int:
        tensor = self.pick(scope, lambda tensor: bool(tensor.shape))
        op, dims = self.rng.choice(["sum", "mean", "amax", "any", "prod"]), list(range(len(tensor.shape)))
        if dims:
            dim, keep = self.rng.choice(dims), self.rng.random() < 0.5
            axes: Any = dim if op in ("any", "prod") else [dim]
            if self.called(scope, op, tensor, axes, keep, *([None] if op in ("sum", "mean", "prod") else [])):
                return 1
        return self.typed(scope, budget)

    def called(self, scope: _Scope, op: str, *given: Any) -> _Tensor | None:
        """A statement whose result is memory of its own, if torch accepts it."""
        made = self.text_of(op, *given)
        return made and self.fresh(scope, made[0], made[1].shape, dtype=made[1].dtype)

    def text_of(self, op: str, *given: Any) -> tuple[str, _Kind] | None:
        """The text of a call and what it makes; None if torch refuses it."""
        torch = pytest.importorskip("torch")
        ones = [torch.ones(one.shape, dtype=getattr(torch, one.dtype)) if isinstance(one, _Tensor) else one for one in given]
        try:
            made = getattr(torch.ops.aten, op)(*ones)
        except (RuntimeError, TypeError, IndexError):
            return None
        spelled = ", ".join(one.name if isinstance(one, _Tensor) else self.spelled(one) for one in given)
        return f"aten::{op}({spelled})", _Kind(tuple(made.shape), str(made.dtype).removeprefix("torch."))

    def spelled(self, argument: Any) -> str:
        if isinstance(argument, list):
            return self.ints(argument)
        if isinstance(argument, bool):
            return self.constant("bool", str(int(argument)))
        if argument is None:
            return self.none()
        return self.number(argument) if isinstance(argument, int) else self.constant("float", str(argument))

    # -- containers ------------------------------------------------------------------------------------------------

    def list_statement(self, scope: _Scope, budget: int) -> int:
        if not scope.lists or self.rng.random() < 0.25:
            tensor = self.pick(scope, lambda tensor: not tensor.overlapping)
            elements = [tensor.name] + [self.like(scope, tensor.kind) for _ in range(self.rng.randint(0, 2))]
            name = self.statement("Tensor[]", f"prim::ListConstruct({', '.join(elements)})", "xs")
            scope.lists.append(_List(name, tensor.kind, len(elements)))
            self.escape(scope)
            return 1
        xs = self.rng.choice(scope.lists)
        index = self.number(self.rng.randrange(xs.length)) if self.rng.random() < 0.8 else self.number(-1)
        kind = self.rng.randrange(6)
        if kind < 3:
            self.from_container(scope, f"aten::__getitem__({xs.name}, {index})", xs.kind)
        elif kind == 3:
            self.statement("Tensor[]", f"aten::append({xs.name}, {self.like(scope, xs.kind)})")
            self.escape(scope)
        elif kind == 4:
            self.statement("Tensor[]", f"aten::_set_item({xs.name}, {index}, {self.like(scope, xs.kind)})")
            self.escape(scope)
        else:
            other = self.rng.choice([other for other in scope.lists if other.kind == xs.kind])
            name = self.statement("Tensor[]", f"aten::add({xs.name}, {other.name})", "xs")
            scope.lists.append(_List(name, xs.kind, xs.length + other.length))
            scope.ints.append(self.statement("int", f"aten::len({xs.name})", "n"))
        return 1

    def tuple_statement(self, scope: _Scope, budget: int) -> int:
        if not scope.tuples or self.rng.random() < 0.5:
            members = [self.pick(scope, lambda tensor: not tensor.overlapping) for _ in range(self.rng.randint(1, 3))]
            text = f"prim::TupleConstruct({', '.join(tensor.name for tensor in members)})"
            name = self.statement(f"({', '.join('Tensor' for _ in members)})", text, "t")
            scope.tuples.append(_Tuple(name, tuple(tensor.kind for tensor in members)))
            self.escape(scope)
            return 1
        chosen = self.rng.choice(scope.tuples)
        if self.rng.random() < 0.5:
            index = self.rng.randrange(len(chosen.kinds))
            self.from_container(scope, f"prim::TupleIndex({chosen.name}, {self.number(index)})", chosen.kinds[index])
            return 1
        parts = [self.name("u") for _ in chosen.kinds]
        self.line(f"{', '.join(f'{part} : Tensor' for part in parts)} = prim::TupleUnpack({chosen.name})")
        scope.tensors += [_anywhere(part, kind) for part, kind in zip(parts, chosen.kinds, strict=True)]
        return 1

    def dict_statement(self, scope: _Scope, budget: int) -> int:
        if not scope.dicts or self.rng.random() < 0.3:
            tensor = self.pick(scope, lambda tensor: not tensor.overlapping)
            keys = ("a", "b")[: self.rng.randint(1, 2)]
            pairs = ", ".join(f"{self.string(key)}, {self.like(scope, tensor.kind)}" for key in keys)
            name = self.statement("Dict(str, Tensor)", f"prim::DictConstruct({pairs})", "d")
            scope.dicts.append(_Dict(name, tensor.kind, keys))
            self.escape(scope)
            return 1
        chosen = self.rng.choice(scope.dicts)
        key = self.string(self.rng.choice(chosen.keys))
        if self.rng.random() < 0.6:
            self.from_container(scope, f"aten::__getitem__({chosen.name}, {key})", chosen.kind)
        else:
            self.line(f"aten::_set_item({chosen.name}, {key}, {self.like(scope, chosen.kind)})")
            self.escape(scope)
        return 1

    # -- control flow ----------------------------------------------------------------------------------------------

    def if_statement(self, scope: _Scope, budget: int) -> int:
        share = max(1, budget // 3)
        kinds = [self.pick(scope).kind for _ in range(self.rng.randint(0, 2))]
        results = [self.name("p") for _ in kinds]
        head = f"{', '.join(f'{name} : Tensor' for name in results)}{' = ' if results else ''}prim::If({self.condition(scope)})"
        self.line(head)
        self.depth += 1
        for index in range(2):
            self.block(f"block{index}():")
            inner = scope.inner()
            self.statements(inner, self.rng.randint(0, share))
            self.returns([self.like(inner, kind) for kind in kinds])
        self.depth -= 1
        scope.tensors += [_anywhere(name, kind) for name, kind in zip(results, kinds, strict=True)]
        self.escape(scope)
        return share

    def loop_statement(self, scope: _Scope, budget: int) -> int:
        share = max(1, budget // 3)
        kinds = [self.pick(scope).kind for _ in range(self.rng.randint(0, 2))]
        carried = [self.like(scope, kind) for kind in kinds]
        trips = self.rng.choice([self.number(self.rng.randint(0, 3)), scope.ints[0]])
        start = self.constant("bool", "1") if self.rng.random() < 0.8 else self.condition(scope)
        results = [self.name("p") for _ in kinds]
        declared = f"{', '.join(f'{name} : Tensor' for name in results)}{' = ' if results else ''}"
        self.line(f"{declared}prim::Loop({', '.join([trips, start, *carried])})")
        self.depth += 1
        counter, params = self.name("i"), [self.name("c") for _ in kinds]
        self.block(f"block0({', '.join([f'{counter} : int', *(f'{name} : Tensor' for name in params)])}):")
        inner = scope.inner()
        inner.ints.append(counter)
        inner.tensors += [_anywhere(name, kind) for name, kind in zip(params, kinds, strict=True)]
        self.statements(inner, self.rng.randint(1, share))
        again = self.constant("bool", "1") if self.rng.random() < 0.7 else self.condition(inner)
        self.returns([again, *(self.like(inner, kind) for kind in kinds)])
        self.depth -= 1
        scope.tensors += [_anywhere(name, kind) for name, kind in zip(results, kinds, strict=True)]
        self.escape(scope)
        return share

    def condition(self, scope: _Scope) -> str:
        if self.rng.random() < 0.5:
            return self.rng.choice(scope.bools)
        op = self.rng.choice(["lt", "gt", "eq"])
        return self.statement("bool", f"aten::{op}({self.rng.choice(scope.ints)}, {self.number(self.rng.randint(0, 2))})", "b")

    # -- parts -----------------------------------------------------------------------------------------------------

    def escape(self, scope: _Scope) -> None:
        """After a tensor went into a container or through a block, anything may share its memory."""
        scope.tensors = [replace(tensor, roots=frozenset()) for tensor in scope.tensors]

    def pick(self, scope: _Scope, wanted: Callable[[_Tensor], bool] = lambda tensor: True) -> _Tensor:
        """A tensor, recent ones more often; one that is not wanted only if there is no other."""
        fitting = [tensor for tensor in scope.tensors if wanted(tensor)] or scope.tensors
        return self.rng.choice(fitting[-5:] if self.rng.random() < 0.6 else fitting)

    def partner(self, scope: _Scope, shape: Shape) -> _Tensor:
        """A tensor that broadcasts with the shape, to something small if there is one."""
        sizes = [_broadcast_size(tensor.shape, shape) for tensor in scope.tensors]
        most = max(64.0, min(sizes))
        return self.pick(scope, lambda tensor: _broadcast_size(tensor.shape, shape) <= most)

    def like(self, scope: _Scope, kind: _Kind) -> str:
        """A tensor of just this kind whose elements do not share memory."""
        fitting = [tensor.name for tensor in scope.tensors if tensor.kind == kind and not tensor.overlapping]
        if fitting and self.rng.random() < 0.9:
            return self.rng.choice(fitting)
        source = next(tensor for tensor in scope.tensors if tensor.kind == kind)
        op = "logical_not" if kind.dtype == "bool" else "neg"
        return self.fresh(scope, f"aten::{op}({source.name})", kind.shape, contiguous=False, dtype=kind.dtype).name

    def fresh(self, scope: _Scope, text: str, shape: Iterable[int], *, contiguous: bool = False, dtype: str = "float32") -> _Tensor:
        """A statement whose result is memory of its own."""
        tensor = _Tensor(self.statement("Tensor", text), tuple(shape), self.new_buffer(), contiguous, dtype=dtype)
        scope.tensors.append(tensor)
        return tensor

    def from_container(self, scope: _Scope, text: str, kind: _Kind) -> None:
        scope.tensors.append(_anywhere(self.statement("Tensor", text), kind))

    def same_memory(
        self, scope: _Scope, text: str, tensor: _Tensor, shape: Iterable[int], *, contiguous: bool = True, overlapping: bool = False
    ) -> None:
        """A statement whose result lies in the memory of `tensor`."""
        made = replace(tensor, name=self.statement("Tensor", text), shape=tuple(shape))
        scope.tensors.append(replace(made, contiguous=made.contiguous and contiguous, overlapping=made.overlapping or overlapping))

    def new_buffer(self) -> frozenset[int]:
        self.buffers += 1
        return frozenset({self.buffers})

    def shape(self) -> Shape:
        return tuple(self.rng.choice([1, 2, 3]) for _ in range(self.rng.choice([0, 1, 2, 2, 2, 3])))

    def name(self, stem: str) -> str:
        self.count += 1
        return f"%{stem}.{self.count}" if self.rng.random() < 0.8 else f"%{self.count}"

    def number(self, number: int) -> str:
        return self.constant("int", str(number))

    def string(self, text: str) -> str:
        return self.constant("str", f'"{text}"')

    def none(self) -> str:
        return self.constant("NoneType", "")

    def ints(self, numbers: Iterable[int]) -> str:
        return self.statement("int[]", f"prim::ListConstruct({', '.join(self.number(number) for number in numbers)})", "s")

    def constant(self, type: str, text: str) -> str:
        spelling = f"{type} = prim::Constant{f'[value={text}]' if text else ''}()"
        if spelling not in self.constants:
            self.constants[spelling] = self.name("k")
        return self.constants[spelling]

    def statement(self, type: str, text: str, stem: str = "v") -> str:
        name = self.name(stem)
        self.line(f"{name} : {type} = {text}")
        return name

    def line(self, text: str) -> None:
        self.lines.append("  " + "    " * self.depth + text)

    def block(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def returns(self, names: list[str]) -> None:
        self.line(f"-> ({', '.join(names)})")


def _broadcast_size(first: Shape, second: Shape) -> float:
    try:
        return float(np.prod(np.broadcast_shapes(first, second)))
    except ValueError:
        return float("inf")


def _broadcasts_to(shape: Shape, target: Shape) -> bool:
    return _broadcast_size(shape, target) < float("inf") and np.broadcast_shapes(shape, target) == target


def _anywhere(name: str, kind: _Kind) -> _Tensor:
    return _Tensor(name, kind.shape, frozenset(), dtype=kind.dtype)


def _of_type(array: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    """Numbers between -1 and 1 as small numbers of another type."""
    scaled = array > 0 if dtype == "bool" else np.abs(array * 5) if dtype == "uint8" else array * 5 if "int" in dtype else array
    return np.asarray(scaled * (1 + 0.5j) if "complex" in dtype else scaled).astype(dtype)
