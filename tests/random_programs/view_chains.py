"""Random chains of views over real tensors: the program as text, and what eager torch made of each of its lines."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

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
        """One line; of an op that gives a list, two, and the name of one item."""
        given = [self.tensors[a] if isinstance(a, str) else a for a in arguments]
        function = getattr(getattr(torch.ops.aten, op), overload or "default")
        found = function(self.tensors[name], *given)
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


def step(p: Program, name: str) -> str | None:
    """One random op; None where it does not suit the tensor."""
    rng, t = p.rng, p.tensors[name]
    rank, shape = t.dim(), list(t.shape)
    axis = rng.randrange(rank) if rank else 0
    sign = axis - rank if rng.random() < 0.3 and rank else axis
    kind = rng.choice(_KINDS)
    if kind.startswith("unsafe_") and any(x.is_complex() and storage_of(x) == storage_of(t) for x in p.tensors.values()):
        return None  # whether these copy depends on a mark of the tensor: see test_a_conjugate_is_not_decided
    if kind in ("alias", "detach", "lift_fresh", "positive", "ravel", "squeeze", "neg") and (kind != "positive" or t.dtype != torch.bool):
        return p.call(kind, "", name)
    if kind == "mT" or kind == "adjoint" or kind == "t" or kind == "numpy_T":
        suits = {"mT": rank >= 2, "adjoint": rank >= 2, "t": rank <= 2, "numpy_T": True}[kind]
        return p.call(kind, "", name) if suits else None
    if kind == "permute":
        return p.call("permute", "", name, rng.sample(range(rank), rank))
    if kind in ("transpose", "swapdims", "swapaxes"):
        if not rank:
            return None
        return p.call(kind, "int" if kind == "transpose" else "", name, sign, rng.randrange(rank))
    if kind in ("movedim", "moveaxis"):
        if not rank:
            return None
        if rng.random() < 0.5:
            return p.call(kind, "int", name, sign, rng.randrange(rank))
        some = rng.sample(range(rank), rng.randrange(1, rank + 1))
        return p.call(kind, "intlist", name, some, rng.sample(range(rank), len(some)))
    if kind in ("reshape", "view", "_unsafe_view"):
        sizes = _new_shape(rng, t)
        if kind != "reshape":
            try:
                t.view(sizes)
            except RuntimeError:
                return None
        return p.call(kind, "", name, sizes)
    if kind == "flatten":
        last = rng.randrange(axis, rank) if rank else 0
        return p.call("flatten", "using_ints", name, axis, last)
    if kind == "unflatten":
        if not rank or not shape[axis]:
            return None
        return p.call("unflatten", "int", name, sign, _factors(rng, shape[axis]) or [1])
    if kind == "squeeze.dim":
        return p.call("squeeze", "dim", name, sign)
    if kind == "squeeze.dims":
        return p.call("squeeze", "dims", name, rng.sample(range(rank), rng.randrange(rank + 1)))
    if kind == "unsqueeze":
        return p.call("unsqueeze", "", name, rng.randrange(-rank - 1, rank + 1)) if rank < 6 else None
    if kind in ("atleast_1d", "atleast_2d", "atleast_3d"):
        return p.call(kind, "", name)
    if kind in ("expand", "broadcast_to"):
        sizes = [rng.choice([1, 2, 3, 0, -1]) if n == 1 else rng.choice([n, -1]) for n in shape]
        if rank < 5 and rng.random() < 0.4:
            sizes = [rng.choice([1, 2]), *sizes]
        return p.call(kind, "", name, sizes)
    if kind in ("expand_as", "view_as", "reshape_as"):
        other = rng.choice(list(p.tensors))
        try:
            getattr(t, kind)(p.tensors[other])
        except RuntimeError:
            return None
        return p.call(kind, "", name, other)
    if kind == "diagonal":
        if rank < 2:
            return None
        a, b = rng.sample(range(rank), 2)
        return p.call("diagonal", "", name, rng.choice([0, 0, 1, -1, 2, -2]), a, b)
    if kind == "unfold":
        if rank == 0:
            return p.call("unfold", "", name, 0, 1, 1)
        if not shape[axis] or rank > 5:
            return None
        return p.call("unfold", "", name, sign, rng.randrange(1, shape[axis] + 1), rng.choice([1, 1, 2, 3]))
    if kind in ("as_strided", "as_strided.offset"):
        room = t.untyped_storage().nbytes() // t.element_size() - t.storage_offset()
        sizes = [rng.choice([1, 2, 3]) for _ in range(rng.randrange(3))]
        strides = [rng.choice([0, 1, 2, 3]) for _ in sizes]
        if 1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True)) > room:
            return None
        if kind == "as_strided":
            return p.call("as_strided", "", name, sizes, strides)
        return p.call("as_strided", "", name, sizes, strides, rng.randrange(t.storage_offset() + 1))
    if kind in ("view.dtype", "view_as_real", "view_as_complex", "real", "imag", "conj"):
        return _of_another_type(p, name, kind)
    if kind in ("contiguous", "clone", "to"):
        return _in_a_format(p, name, kind)
    if not rank:
        return None
    if kind == "slice":
        start = rng.choice([None, *range(-shape[axis] - 1, shape[axis] + 2)])
        end = rng.choice([None, 2**63 - 1, *range(-shape[axis], shape[axis] + 2)])
        return p.call("slice", "Tensor", name, sign, start, end, rng.choice([1, 1, 1, 2, 3]))
    if kind == "narrow":
        start = rng.randrange(shape[axis] + 1)
        return p.call("narrow", "", name, sign, start, rng.randrange(shape[axis] - start + 1))
    if kind == "select":
        return p.call("select", "int", name, sign, rng.randrange(-shape[axis], shape[axis])) if shape[axis] else None
    if kind == "unbind":
        return p.call("unbind", "int", name, sign) if shape[axis] else None
    if kind in ("chunk", "unsafe_chunk"):
        return p.call(kind, "", name, rng.randrange(1, 4), sign)
    if kind in ("split", "unsafe_split"):
        return p.call(kind, "Tensor", name, rng.randrange(1, 4), sign)
    if kind in ("split_with_sizes", "unsafe_split_with_sizes"):
        cut = rng.randrange(shape[axis] + 1)
        return p.call(kind, "", name, [cut, shape[axis] - cut], sign)
    if kind == "tensor_split":
        return p.call("tensor_split", "sections", name, rng.randrange(1, 4), sign)
    if kind == "tensor_split.indices":
        return p.call("tensor_split", "indices", name, [rng.randrange(-2, shape[axis] + 2) for _ in range(2)], sign)
    if kind in ("hsplit", "vsplit", "dsplit"):
        least, along = {"hsplit": (1, 0 if rank == 1 else 1), "vsplit": (2, 0), "dsplit": (3, 2)}[kind]
        if rank < least:
            return None
        if rng.random() < 0.5:
            return p.call(kind, "array", name, [rng.randrange(shape[along] + 1)])
        ways = [n for n in range(1, 4) if shape[along] % n == 0]
        return p.call(kind, "int", name, rng.choice(ways))
    if kind == "pad":
        if t.dtype not in (torch.float32, torch.float64) or shape[-1] < 2:
            return None
        return p.call("constant_pad_nd", "", name, [-1, 0])
    raise AssertionError(kind)


_KINDS = """
alias detach lift_fresh positive ravel squeeze neg mT adjoint t numpy_T permute permute permute transpose swapdims
swapaxes movedim moveaxis reshape reshape reshape reshape view view _unsafe_view flatten flatten unflatten squeeze.dim
squeeze.dims unsqueeze unsqueeze atleast_1d atleast_2d atleast_3d expand expand broadcast_to expand_as view_as
reshape_as diagonal unfold as_strided as_strided.offset view.dtype view_as_real view_as_complex real imag conj
contiguous contiguous clone to slice slice slice narrow select select unbind chunk unsafe_chunk split unsafe_split
split_with_sizes unsafe_split_with_sizes tensor_split tensor_split.indices hsplit vsplit dsplit pad
""".split()

_WORDS = {
    torch.float32: "Float", torch.float64: "Double", torch.int16: "Short", torch.uint8: "Byte", torch.complex64: "ComplexFloat",
}  # fmt: skip
_CODES = {torch.complex128: 10, torch.uint8: 0, torch.int16: 2, torch.float32: 6, torch.float64: 7, torch.complex64: 9}


def _of_another_type(p: Program, name: str, kind: str) -> str | None:
    t = p.tensors[name]
    try:
        if kind == "view.dtype":
            if t.is_conj() or t.is_neg():
                return None
            dtype = p.rng.choice([torch.uint8, torch.int16, torch.float32, torch.float64, torch.complex64])
            t.view(dtype)
            found = t.view(dtype)
            result = f"v{len(p.tensors)}"
            p.lines.append(f"  %{result} : Tensor = aten::view(%{name}, %{p.constant(_CODES[dtype])})")
            p.tensors[result] = found
            return result
        if kind in ("conj", "real", "imag"):
            if kind != "conj" and not t.is_complex():
                return None
            return p.call(kind, "", name) if kind == "conj" else _by_name(p, name, kind)
        return p.call(kind, "", name)
    except RuntimeError:
        return None


def _by_name(p: Program, name: str, op: str) -> str:
    result = f"v{len(p.tensors)}"
    p.lines.append(f"  %{result} : Tensor = aten::{op}(%{name})")
    p.tensors[result] = getattr(p.tensors[name], op)
    return result


_FORMATS = {0: torch.contiguous_format, 1: torch.preserve_format, 2: torch.channels_last, 3: torch.channels_last_3d}


def _in_a_format(p: Program, name: str, kind: str) -> str | None:
    t = p.tensors[name]
    choices = [0, 0, 2] if t.dim() == 4 else [0, 0, 3] if t.dim() == 5 else [0]
    code = p.rng.choice(choices)
    result = f"v{len(p.tensors)}"
    if kind == "contiguous":
        line, found = f"aten::contiguous(%{name}, %{p.constant(code)})", t.contiguous(memory_format=_FORMATS[code])
    elif kind == "clone":
        code = p.rng.choice([code, 1])
        line, found = f"aten::clone(%{name}, %{p.constant(code)})", t.clone(memory_format=_FORMATS[code])
    else:
        code, copy = p.rng.choice([code, 1, 1]), p.rng.random() < 0.2
        dtype = p.rng.choice([t.dtype, t.dtype, torch.float64])
        if t.is_complex():
            dtype = t.dtype
        operands = [_CODES[dtype], False, copy, code]
        text = ", ".join(f"%{p.constant(each)}" for each in operands)
        line, found = f"aten::to(%{name}, {text})", t.to(dtype, copy=copy, memory_format=_FORMATS[code])
    p.lines.append(f"  %{result} : Tensor = {line}")
    p.tensors[result] = found
    return result


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

