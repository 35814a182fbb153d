"""Random chains of views over real tensors: the program as text, and what eager torch made of each of its lines."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch

_DTYPES = [torch.float32, torch.float32, torch.float32, torch.float64, torch.int16, torch.uint8, torch.complex64]


@dataclass
class Program:
    """Lines of IR, and the tensor that each name has in eager torch."""

    rng: random.Random
    inputs: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    constants: dict[str, str] = field(default_factory=dict)
    cuts: int = 0

    @property
    def text(self) -> str:
        last = next(reversed(self.tensors))
        return "\n".join([f"graph({', '.join(self.inputs)}):", *self.lines, f"  return (%{last})"])

    def constant(self, value: Any) -> str:
        kinds = {bool: "bool", int: "int", float: "float"}
        if value is None:
            type, text = "NoneType", ""
        elif isinstance(value, list):
            type, text = "int[]", f"[value=[{', '.join(map(str, value))}]]"
        else:
            type, text = kinds[value.__class__], f"[value={int(value) if isinstance(value, bool) else value}]"
        key = f"{type}{text}"
        if key not in self.constants:
            self.constants[key] = f"c{len(self.constants)}"
            self.lines.append(f"  %{self.constants[key]} : {type} = prim::Constant{text}()")
        return self.constants[key]

    def input(self, tensor: torch.Tensor) -> str:
        name = f"x{len(self.inputs)}"
        shape, strides = list(tensor.shape), list(tensor.stride())
        inside = [*map(str, shape), *([f"strides=[{', '.join(map(str, strides))}]"] if shape else []), "device=cpu"]
        self.inputs.append(f"%{name} : {_WORDS[tensor.dtype]}({', '.join(inside)})")
        self.tensors[name] = tensor
        return name

    def call(self, op: str, overload: str, name: str, *arguments: Any) -> str:
        """One line; of an op that gives a list, two, and the name of one item. Raises what torch raises."""
        given = [self.tensors[a] if isinstance(a, str) else a for a in arguments]
        return self.made(op, name, arguments, call_torch(op, overload, self.tensors[name], given))

    def made(self, op: str, name: str, arguments: Sequence[Any], found: Any) -> str:
        """The line of a call whose result is known."""
        operands = [f"%{name}", *(f"%{a}" if isinstance(a, str) else f"%{self.constant(a)}" for a in arguments)]
        if isinstance(found, torch.Tensor):
            result = f"v{len(self.tensors)}"
            self.lines.append(f"  %{result} : Tensor = aten::{op}({', '.join(operands)})")
            self.tensors[result] = found
            return result
        self.cuts += 1
        self.lines.append(f"  %l{self.cuts} : Tensor[] = aten::{op}({', '.join(operands)})")
        names = [f"v{len(self.tensors) + index}" for index in range(len(found))]
        self.lines.append(f"  {', '.join(f'%{n} : Tensor' for n in names)} = prim::ListUnpack(%l{self.cuts})")
        self.tensors.update(zip(names, found, strict=True))
        return self.rng.choice(names)


def call_torch(op: str, overload: str, x: torch.Tensor, given: Sequence[Any]) -> Any:
    """What torch's op gives; a memory format is a number, as in a program."""
    if op == "contiguous":
        return x.contiguous(memory_format=_FORMATS[given[0]])
    return getattr(getattr(torch.ops.aten, op), overload or "default")(x, *given)


def random_tensor(rng: random.Random) -> torch.Tensor:
    """In any order of the axes, with gaps, with repeated axes, with extents of 0 and 1, these of any stride, somewhere in its storage."""
    rank = rng.choice([0, 1, 2, 2, 3, 3, 4, 4, 5])
    sizes = [1, 1, 1, 2, 3, 6] if rng.random() < 0.2 else [1, 2, 2, 3, 4, 4, 6]
    shape = [rng.choice([*sizes, 0] if rng.random() < 0.1 else sizes) for _ in range(rank)]
    order = list(range(rank))
    if rng.random() < 0.5:
        rng.shuffle(order)
    elif rank == 4 and rng.random() < 0.5:
        order = [0, 2, 3, 1]
    strides, step = [0] * rank, 1
    for axis in reversed(order):
        if rng.random() < 0.1:
            continue  # expanded
        strides[axis] = step if shape[axis] != 1 or rng.random() < 0.6 else rng.randrange(1, 40)
        step *= max(shape[axis], 1) + (rng.choice([0, 0, 0, 1, 2]) if rng.random() < 0.3 else 0)
    offset = rng.choice([0, 0, 3])
    reach = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True) if n)
    dtype = rng.choice(_DTYPES)
    return torch.zeros(max(reach, 1) + offset + 8, dtype=dtype).as_strided(shape, strides, offset)


def _factors(rng: random.Random, count: int) -> list[int]:
    """Random extents with this product."""
    sizes: list[int] = []
    while count > 1:
        divisor = rng.choice([d for d in range(2, count + 1) if count % d == 0])
        sizes.append(divisor)
        count //= divisor
    for _ in range(rng.choice([0, 0, 0, 1, 2])):
        sizes.insert(rng.randrange(len(sizes) + 1), 1)
    return sizes


def _new_shape(rng: random.Random, t: torch.Tensor) -> list[int]:
    if t.numel() == 0:
        return rng.choice([[0], [0, 3], [2, 0], list(t.shape)])
    if rng.random() < 0.5 and t.dim() > 1:  # put neighbours together
        axis = rng.randrange(t.dim() - 1)
        return [*t.shape[:axis], t.shape[axis] * t.shape[axis + 1], *t.shape[axis + 2 :]]
    if rng.random() < 0.5 and t.dim():
        axis = rng.randrange(t.dim())
        return [*t.shape[:axis], *_factors(rng, t.shape[axis]), *t.shape[axis + 1 :]]
    sizes = _factors(rng, t.numel())
    if sizes and rng.random() < 0.3:
        sizes[rng.randrange(len(sizes))] = -1
    return sizes


@dataclass(frozen=True)
class At:
    """A tensor and a random axis of it, which `dim` may write from the end."""

    p: Program
    name: str
    axis: int
    dim: int

    @property
    def rng(self) -> random.Random:
        return self.p.rng

    @property
    def t(self) -> torch.Tensor:
        return self.p.tensors[self.name]

    @property
    def rank(self) -> int:
        return self.t.dim()

    @property
    def size(self) -> int:
        return self.t.shape[self.axis]

    def axes(self, count: int) -> list[int]:
        return self.rng.sample(range(self.rank), count)

    def some(self) -> list[int]:
        return self.axes(self.rng.randrange(1, self.rank + 1))

    def below(self, start: int, stop: int) -> int:
        return self.rng.randrange(start, stop)


Arguments = Callable[[At], Sequence[Any]]
_ALONE: Final = "lift data _conj _neg_view mH matrix_H".split()
ARGUMENTS: Final[dict[str, tuple[int, Arguments]]] = {
    **dict.fromkeys("alias detach lift_fresh positive ravel squeeze neg numpy_T t conj real imag".split(), (0, lambda at: [])),
    **dict.fromkeys("atleast_1d atleast_2d atleast_3d view_as_real view_as_complex mT adjoint".split(), (0, lambda at: [])),
    **dict.fromkeys(_ALONE, (0, lambda at: [])),
    "permute": (0, lambda at: [at.axes(at.rank)]),
    **dict.fromkeys(("transpose.int", "swapdims", "swapaxes"), (1, lambda at: [at.dim, at.below(0, at.rank)])),
    **dict.fromkeys(("movedim.int", "moveaxis.int"), (1, lambda at: [at.dim, at.below(0, at.rank)])),
    **dict.fromkeys(("movedim.intlist", "moveaxis.intlist"), (1, lambda at: [some := at.some(), at.axes(len(some))])),
    **dict.fromkeys(("reshape", "view", "_unsafe_view"), (0, lambda at: [_new_shape(at.rng, at.t)])),
    "flatten.using_ints": (0, lambda at: [at.axis, at.below(at.axis, at.rank) if at.rank else 0]),
    "unflatten.int": (1, lambda at: [at.dim, _factors(at.rng, at.size) or [1]]),
    "squeeze.dim": (0, lambda at: [at.dim]), "squeeze.dims": (0, lambda at: [at.axes(at.below(0, at.rank + 1))]),
    "unsqueeze": (0, lambda at: [at.below(-at.rank - 1, at.rank + 1)]),
    **dict.fromkeys(("expand", "broadcast_to"), (0, lambda at: [_wider(at)])),
    **dict.fromkeys(("expand_as", "view_as", "reshape_as"), (0, lambda at: [at.rng.choice(list(at.p.tensors))])),
    "contiguous": (0, lambda at: [at.rng.choice({4: [0, 0, 2], 5: [0, 0, 3]}.get(at.rank, [0]))]),
    "_reshape_alias": (0, lambda at: [list(at.t.shape), list(at.t.stride())]),
    "linalg_diagonal": (2, lambda at: []), "diagonal": (2, lambda at: [at.rng.choice([0, 0, 1, -1, 2, -2]), *at.axes(2)]),
    "unfold": (0, lambda at: [at.dim, at.below(1, at.size + 1), at.rng.choice([1, 1, 2, 3])] if at.rank else [0, 1, 1]),
    "as_strided": (0, lambda at: _strided(at)),
    "as_strided.offset": (0, lambda at: [*_strided(at), at.below(0, at.t.storage_offset() + 1)]),
    "slice.Tensor": (1, lambda at: [
        at.dim, at.rng.choice([None, *range(-at.size - 1, at.size + 2)]), at.rng.choice([None, 2**63 - 1, *range(-at.size, at.size + 2)]),
        at.rng.choice([1, 1, 1, 2, 3]),
    ]),
    "narrow": (1, lambda at: [at.dim, start := at.below(0, at.size + 1), at.below(0, at.size - start + 1)]),
    "select.int": (1, lambda at: [at.dim, at.below(-at.size, at.size)]), "unbind.int": (1, lambda at: [at.dim]),
    **dict.fromkeys(("chunk", "unsafe_chunk", "split.Tensor", "unsafe_split.Tensor"), (1, lambda at: [at.below(1, 4), at.dim])),
    **dict.fromkeys(
        ("split_with_sizes", "unsafe_split_with_sizes"), (1, lambda at: [[cut := at.below(0, at.size + 1), at.size - cut], at.dim])
    ),
    "tensor_split.sections": (1, lambda at: [at.below(1, 4), at.dim]),
    "tensor_split.indices": (1, lambda at: [[at.below(-2, at.size + 2) for _ in range(2)], at.dim]),
    **dict.fromkeys(("hsplit.array", "vsplit.array", "dsplit.array"), (1, lambda at: [[at.below(0, 4)]])),
    **dict.fromkeys(("hsplit.int", "vsplit.int", "dsplit.int"), (1, lambda at: [at.below(1, 4)])),
    "constant_pad_nd": (1, lambda at: [[-1, 0]]),
}  # fmt: skip
"""The arguments of each op by its overload, and the least rank that it takes; what else torch refuses is not written."""
_OFTEN: Final = {
    **dict.fromkeys((*_ALONE, "_reshape_alias", "linalg_diagonal"), 0),  # of kinds that others are of
    **dict.fromkeys("permute reshape slice.Tensor".split(), 6), "contiguous": 4, "view": 4, "flatten.using_ints": 4, "unsqueeze": 4,
    "expand": 4, "select.int": 4,
    **dict.fromkeys((kind for kind in ARGUMENTS if kind[:4] in ("move", "hspl", "vspl", "dspl")), 1),
}  # fmt: skip
_KINDS: Final = [kind for kind in (*ARGUMENTS, "view.dtype", "clone", "to") for _ in range(_OFTEN.get(kind, 2))]

_WORDS: Final = {
    torch.float32: "Float", torch.float64: "Double", torch.int16: "Short", torch.uint8: "Byte", torch.complex64: "ComplexFloat",
}  # fmt: skip
_CODES: Final = {torch.complex128: 10, torch.uint8: 0, torch.int16: 2, torch.float32: 6, torch.float64: 7, torch.complex64: 9}
_FORMATS: Final = (torch.contiguous_format, torch.preserve_format, torch.channels_last, torch.channels_last_3d)


def step(p: Program, name: str) -> str | None:
    """One random op; None where it does not suit the tensor."""
    rng, t = p.rng, p.tensors[name]
    kind = rng.choice(_KINDS)
    if kind.startswith("unsafe_") and any(x.is_complex() and storage_of(x) == storage_of(t) for x in p.tensors.values()):
        return None  # whether these copy depends on a mark of the tensor: see test_a_conjugate_is_not_decided
    if (kind == "constant_pad_nd" and t.dtype not in (torch.float32, torch.float64)) or (t.dim() > 5 and kind in ("unsqueeze", "unfold")):
        return None
    try:
        if kind in ("clone", "to"):
            return _in_a_format(p, name, kind)
        if kind == "view.dtype":
            if t.is_conj() or t.is_neg():
                return None
            dtype = rng.choice([torch.uint8, torch.int16, torch.float32, torch.float64, torch.complex64])
            return p.made("view", name, [_CODES[dtype]], t.view(dtype))
        least, arguments = ARGUMENTS[kind]
        if t.dim() < least or (kind in ("real", "imag") and not t.is_complex()):
            return None
        op, _, overload = kind.partition(".")
        return p.call(op, overload.removeprefix("offset"), name, *arguments(somewhere(p, name)))
    except (RuntimeError, IndexError, ValueError):
        return None


def somewhere(p: Program, name: str) -> At:
    """A random axis of a tensor."""
    rank = p.tensors[name].dim()
    axis = p.rng.randrange(rank) if rank else 0
    return At(p, name, axis, axis - rank if p.rng.random() < 0.3 and rank else axis)


def random_call(op: str, x: torch.Tensor, rng: random.Random) -> tuple[str, list[Any]] | None:
    """An overload of a view op, and arguments besides the tensor; None where it takes no such tensor."""
    kinds = [kind for kind in ARGUMENTS if kind.partition(".")[0] == op]
    assert kinds, f"give ARGUMENTS of tests/random_programs/view_chains.py a row for each overload of {op}"
    kind = rng.choice(kinds)
    least, arguments = ARGUMENTS[kind]
    if x.dim() < least:
        return None
    p = Program(rng, tensors={"x": x, "wider": x.new_empty([2, *x.shape]), "other": torch.empty(x.numel()).reshape(_new_shape(rng, x))})
    try:
        given = arguments(somewhere(p, "x"))
    except (IndexError, ValueError):
        return None
    return kind.partition(".")[2].removeprefix("offset"), [p.tensors[each] if isinstance(each, str) else each for each in given]


def _wider(at: At) -> list[int]:
    sizes = [at.rng.choice([1, 2, 3, 0, -1]) if n == 1 else at.rng.choice([n, -1]) for n in at.t.shape]
    return [at.rng.choice([1, 2]), *sizes] if at.rank < 5 and at.rng.random() < 0.4 else sizes


def _strided(at: At) -> list[list[int]]:
    room = at.t.untyped_storage().nbytes() // at.t.element_size() - at.t.storage_offset()
    sizes = [at.rng.choice([1, 2, 3]) for _ in range(at.rng.randrange(3))]
    strides = [at.rng.choice([0, 1, 2, 3]) for _ in sizes]
    if 1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True)) > room:
        raise ValueError("beyond the storage")
    return [sizes, strides]


def _in_a_format(p: Program, name: str, kind: str) -> str:
    t, rng = p.tensors[name], p.rng
    code = rng.choice([{4: 2, 5: 3}.get(t.dim(), 0), 0, 1])
    if kind == "clone":
        return p.made(kind, name, [code], t.clone(memory_format=_FORMATS[code]))
    copy, dtype = rng.random() < 0.2, rng.choice([t.dtype, t.dtype, t.dtype if t.is_complex() else torch.float64])
    return p.made(kind, name, [_CODES[dtype], False, copy, code], t.to(dtype, copy=copy, memory_format=_FORMATS[code]))


def chains(seed: int, count: int, *, length: int = 8) -> Program:
    """A program of so many independent chains of up to `length` ops."""
    p = Program(random.Random(seed))
    for _ in range(count):
        name = p.input(random_tensor(p.rng))
        for _ in range(p.rng.randrange(1, length + 1)):
            for _ in range(20):
                after = step(p, name)
                if after is not None:
                    break
            else:
                break
            name = after
            if p.tensors[name].numel() > 5000:
                break
    return p


def addresses(tensor: torch.Tensor, root: torch.Tensor) -> frozenset[int]:
    """The bytes of the root's storage that a tensor covers, counted from the root's first element; element by element."""
    item = tensor.element_size()
    first = tensor.storage_offset() * item - root.storage_offset() * root.element_size()
    if tensor.numel() == 0:
        return frozenset()
    places = {first}
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        places = {place + index * stride * item for place in places for index in range(size)} if stride else places
    return frozenset(place + byte for place in places for byte in range(item))


def storage_of(tensor: torch.Tensor) -> int:
    """Which storage it has; of no address, where it is empty."""
    return tensor.untyped_storage()._cdata
