"""Damaged files: programs as torch, ONNX and MLIR write them, with bits turned over, ends truncated, and records exchanged.

In a zip archive (`.pt`, `.pt2`) damage to the bytes is mostly met by the archive's own checksums. So most is done to the
records, and the archive is written again around them: a pickle that is another one, a tensor that is too short, a record that
stands where another belongs. In ONNX models fields are changed, and into MLIR words are inserted.
"""

from __future__ import annotations

import io
import random
import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import torch

KINDS: Final = ("pt", "pt2", "onnx", "mlir", "mlirbc", "ir")
"""Suffixes of files that are damaged."""


@cache
def whole(kind: str) -> tuple[bytes, ...]:
    """Sound files of a kind."""
    return _WRITERS[kind]()


def damaged(kind: str, seed: int) -> bytes:
    """The damaged file of this number."""
    rng = random.Random(f"{kind} {seed}")
    content = rng.choice(whole(kind))
    if zipfile.is_zipfile(io.BytesIO(content)) and rng.random() < 0.75:
        return _records_damaged(content, rng)
    if kind in _BY_KIND and rng.random() < 0.5:
        return _BY_KIND[kind](content, rng)
    return _bytes_damaged(content, rng)


def _bytes_damaged(content: bytes, rng: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        if not changed:
            break
        place, length = rng.randrange(len(changed)), rng.choice((1, 2, 8, 60))
        match rng.choice(("bit", "bit", "byte", "cut", "drop", "twice", "exchange", "number")):
            case "bit":
                changed[place] ^= 1 << rng.randrange(8)
            case "byte":
                changed[place] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            case "cut" if rng.random() < 0.3:
                del changed[place:]
            case "drop":
                del changed[place : place + length]
            case "twice":
                changed[place:place] = changed[place : place + length]
            case "exchange":
                other = rng.randrange(len(changed))
                changed[place : place + length], changed[other : other + length] = (
                    changed[other : other + length], changed[place : place + length],
                )  # fmt: skip
            case "number":
                changed[place : place + 8] = rng.choice((0, 1, 2**31 - 1, 2**40, 2**63 - 1, 2**64 - 1)).to_bytes(8, "little")
    return bytes(changed)


def _records_damaged(content: bytes, rng: random.Random) -> bytes:
    """The same archive with some records changed, exchanged, left out, doubled or under another name."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        records = [(name, archive.read(name)) for name in archive.namelist()]
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        a, b = rng.randrange(len(records)), rng.randrange(len(records))
        (name, held), (other, others) = records[a], records[b]
        match rng.choice(("change", "change", "change", "exchange", "drop", "rename", "empty", "text")):
            case "change":
                records[a] = (name, _bytes_damaged(held, rng))
            case "exchange":
                records[a], records[b] = (name, others), (other, held)
            case "drop" if len(records) > 1:
                del records[a]
            case "rename":
                records[a] = (rng.choice((other, name + "x", name.rpartition("/")[2], "../" + name)), held)
            case "empty":
                records[a] = (name, b"")
            case "text":
                records[a] = (name, _words_exchanged(held, rng))
    return zipped(records)


def _words_exchanged(held: bytes, rng: random.Random) -> bytes:
    """A word in the place of another: code and JSON still read."""
    words = held.split(b" ")
    a, b = rng.randrange(len(words)), rng.randrange(len(words))
    words[a], words[b] = words[b], words[a]
    return b" ".join(words)


_TOKENS: Final = [
    b"{", b"}", b"(", b")", b"<", b">", b"dense<", b"0x", b"-1", b"99999999999999999999", b"tensor<", b"x", b"i1", b"?",
    b"*", b'"', b"#", b"!", b"%", b"@", b"^bb0", b"loc(", b"affine_map<(d0)->(d0 mod 0)>", b"i16777216", b"f32", b",",
    b"\x00", b"\xff", b"complex<", b"dense_resource<x>", b"vector<9223372036854775807xf32>",
    b"tensor<4611686018427387904x4xf32>", b"%q = arith.constant dense<0> : tensor<99999999999xi32>",
]  # fmt: skip


def _words_inserted(content: bytes, rng: random.Random) -> bytes:
    """Words of MLIR, and brackets without end, where they do not belong."""
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 5))):
        place = rng.randrange(len(changed))
        nest = rng.choice((b"(", b"[", b"{", b"tensor<", b"tuple<", b"dense<[")) * rng.choice((99, 99999))
        changed[place:place] = nest if rng.random() < 0.2 else rng.choice(_TOKENS)
    return bytes(changed)


_NUMBERS: Final = (0, 1, -1, 2, 7, 255, 2**31 - 1, 2**62, -(2**63), 2**63 - 1)


def _fields_changed(content: bytes, pick: random.Random) -> bytes:
    """An ONNX model with some fields, anywhere in the tree, set to other values of their kind."""
    import onnx

    made = onnx.ModelProto.FromString(content)
    for _ in range(pick.randint(1, 4)):
        message, depth = made, 0
        while depth < 12:
            depth += 1
            fields = message.ListFields()
            if not fields:
                break
            field, value = pick.choice(fields)
            if field.message_type is not None:
                several = hasattr(value, "__len__")
                message = pick.choice(list(value)) if several else value
                continue
            _change(message, field, value, pick)
            break
    return bytes(made.SerializeToString())


def _change(message: Any, field: Any, value: Any, pick: random.Random) -> None:
    found = type(value[0] if hasattr(value, "append") and len(value) else value)
    new: Any = {
        int: lambda: pick.choice(_NUMBERS), float: lambda: pick.choice([0.0, float("nan"), float("inf"), -1e38]),
        str: lambda: pick.choice(["", "x", "Reshape", "Loop", "a::b", "\u2603", "w"]),
        bytes: lambda: bytes(pick.randrange(256) for _ in range(pick.randrange(9))), bool: lambda: pick.choice([False, True]),
    }.get(found, lambda: value)()  # fmt: skip
    try:
        if hasattr(value, "append"):
            place = pick.randrange(len(value) + 1)
            value.insert(place, new) if pick.random() < 0.5 or place == len(value) else value.__setitem__(place, new)
        else:
            setattr(message, field.name, new)
    except (ValueError, TypeError, OverflowError):
        pass  # the field is of a narrower kind: it stays as it was


_BY_KIND: Final[Mapping[str, Callable[[bytes, random.Random], bytes]]] = {
    "onnx": _fields_changed, "mlir": _words_inserted, "mlirbc": _words_inserted,
}  # fmt: skip


def zipped(records: list[tuple[str, bytes]]) -> bytes:
    """The archive of these records, laid out as torch writes and reads it."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_STORED) as archive:
        for name, content in records:
            info = zipfile.ZipInfo(name)
            # torch reads tensors where they lie: the content of each record begins at a multiple of 64
            info.extra = b"FB" + (gap := (-(held.tell() + 34 + len(name.encode()))) % 64).to_bytes(2, "little") + b"Z" * gap
            archive.writestr(info, content)
    return held.getvalue()


def _torch_model() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    import torch

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(3, 4)
            self.register_buffer("scale", torch.ones(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = torch.relu(self.layer(x)) * self.scale
            y[0] = y[0].sigmoid()
            return torch.cat([y, y.tanh()], 1).sum(1)

    return Model(), (torch.zeros(2, 3),)


def _nested() -> torch.nn.Module:
    """Arguments in containers, a branch, a number as a result."""
    import torch

    class Nested(torch.nn.Module):
        def forward(self, xs: list[torch.Tensor], named: dict[str, torch.Tensor]) -> dict[str, object]:
            y = torch.cond(xs[0].sum() > 0, lambda v: v + 1, lambda v: v - 1, (xs[0],))
            return {"y": y * named["k"], "n": xs[0].shape[0]}

    return Nested()


def _scripted() -> torch.jit.ScriptModule:
    """Branches, loops, containers, an attribute that is written, a method that is called."""
    import torch

    class Cell(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lin = torch.nn.Linear(2, 2)
            self.count = 0
            self.names = ["a", "b"]

        def step(self, x: torch.Tensor, held: dict[str, list[torch.Tensor]]) -> torch.Tensor:
            self.count += 1
            held["a"].append(x)
            return self.lin(x) if self.count < 5 else x.add_(1.5)

        def forward(self, x: torch.Tensor, n: int) -> tuple[torch.Tensor, list[torch.Tensor]]:
            held = {name: [x] for name in self.names}
            for i in range(n):
                x = self.step(x, held)
                while i > 3:
                    i -= 2
            assert x.dim() > 0, "no row"
            return x, held["a"]

    return torch.jit.script(Cell())


def _torchscript() -> tuple[bytes, ...]:
    import torch

    model, args = _torch_model()
    files = []
    for program in (torch.jit.script(model), torch.jit.trace(model, args), _scripted()):
        held = io.BytesIO()
        torch.jit.save(program, held)
        files.append(held.getvalue())
    return tuple(files)


def _exported() -> tuple[bytes, ...]:
    import torch

    model, args = _torch_model()
    rows = torch.export.Dim("rows", min=2)
    programs = [
        torch.export.export(model, args),
        torch.export.export(_nested(), ([torch.zeros(3, 2)], {"k": torch.ones(2)}), strict=False),
        torch.export.export(model, args, dynamic_shapes={"x": {0: rows}}),
    ]
    files = []
    for program in programs:
        held = io.BytesIO()
        torch.export.save(program, held)
        files.append(held.getvalue())
    return tuple(files)


def _onnx() -> tuple[bytes, ...]:
    from tests.frontends.onnx.hostile import sources

    return tuple(model.SerializeToString() for model in sources())


def _mlir_text() -> tuple[bytes, ...]:
    folder = Path(__file__).parents[1] / "frontends" / "mlir" / "samples"
    samples = [path.read_bytes() for path in sorted(folder.glob("*.stablehlo.mlir"))]
    return (*map(str.encode, (*HANDWRITTEN, *of_jax())), *samples)


def _ir_text() -> tuple[bytes, ...]:
    from tests.oracles.mutations import seeds

    return tuple(map(str.encode, seeds()))


def _mlir_bytecode() -> tuple[bytes, ...]:
    from irscope.frontends.mlir.source import new_context, required

    bindings = required("jaxlib")
    files = []
    for text in _mlir_text():
        held = io.BytesIO()
        bindings.ir.Module.parse(text, new_context(bindings)).operation.write_bytecode(held)
        files.append(held.getvalue())
    return tuple(files)


_WRITERS: Final[dict[str, Callable[[], tuple[bytes, ...]]]] = {
    "pt": _torchscript, "pt2": _exported, "onnx": _onnx, "mlir": _mlir_text, "mlirbc": _mlir_bytecode,
    "ir": _ir_text,
}  # fmt: skip


# --- Sound MLIR of many kinds, to be damaged: control flow, symbols, unknown dialects, constants, and what JAX writes.

HANDWRITTEN: Final = tuple(
    (Path(__file__).with_name("mlir") / f"{name}.mlir").read_text(encoding="utf-8")
    for name in ("branches", "loops_and_ifs", "modules", "unknown_dialect", "stablehlo")
)
LOOPS_AND_IFS: Final = HANDWRITTEN[1]


def of_jax() -> Iterator[str]:
    """The StableHLO of functions of JAX's, with its locations."""
    import jax
    import jax.numpy as jnp

    x = jnp.zeros((3, 4), jnp.float32)
    kernel, image = jnp.zeros((2, 1, 2, 2), jnp.float32), jnp.zeros((1, 1, 5, 5), jnp.float32)
    whole = jnp.zeros((3, 4), jnp.int32)

    def loop(x: Any, n: Any) -> Any:
        step = jax.lax.fori_loop(0, n, lambda i, c: jax.lax.cond(i > 2, jnp.sin, jnp.cos, c), x)
        return jax.lax.scan(lambda c, row: (c + row, c * 2), step[0], step)

    functions: list[tuple[Any, tuple[Any, ...]]] = [
        (loop, (x, 3)),
        (lambda x, k: jax.nn.softmax(jnp.sort(x, axis=1)) @ k, (x, x.T)),
        (lambda x, i: x.at[i, 1].add(2.0)[i, ::2].cumsum(1), (x, jnp.zeros((2,), jnp.int32))),
        (lambda x, k: jax.lax.conv(x, k, (1, 1), "SAME").max((2, 3)), (image, kernel)),
        (lambda x: (x.astype(jnp.uint8) >> 1, x % 3 == 0, jnp.pad(x, 1), jax.lax.clamp(1, x, 2)), (whole,)),
    ]
    for function, args in functions:
        yield jax.jit(function).lower(*args).as_text(debug_info=True)
