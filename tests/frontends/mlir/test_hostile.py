"""Truncated, garbled and hostile files: each an error of ours, quickly and without a crash."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import irscope as irs
from irscope.errors import IrscopeError, LoadError
from irscope.frontends.mlir import source
from irscope.frontends.mlir.source import BYTECODE, installed, new_context, required

if not installed():
    pytest.skip("neither jaxlib nor iree-base-compiler is installed", allow_module_level=True)

SAMPLES = sorted((Path(__file__).parent / "samples").glob("*.stablehlo.mlir"))
TOKENS = [
    b"{", b"}", b"(", b")", b"<", b">", b"dense<", b"0x", b"-1", b"99999999999999999999", b"tensor<", b"x", b"i1", b"?",
    b"*", b'"', b"#", b"!", b"%", b"@", b"^bb0", b"loc(", b"affine_map<(d0)->(d0 mod 0)>", b"i16777216", b"f32", b",",
    b"\x00", b"\xff", b"complex<", b"dense_resource<x>", b"vector<9223372036854775807xf32>",
    b"tensor<4611686018427387904x4xf32>", b"%q = arith.constant dense<0> : tensor<99999999999xi32>",
]  # fmt: skip


def _bytecode(text: bytes) -> bytes:
    import io

    bindings = required()
    held = io.BytesIO()
    bindings.ir.Module.parse(text, new_context(bindings)).operation.write_bytecode(held)
    return held.getvalue()


def _mutations(seed: int, count: int) -> Iterator[bytes]:
    """Files with words of MLIR, and brackets without end, where they do not belong; `tests/oracles/damaged_files.py` changes bytes."""
    rng = random.Random(seed)
    texts = [path.read_bytes() for path in SAMPLES]
    sources = [*texts, *map(_bytecode, texts)]
    for _ in range(count):
        content = bytearray(rng.choice(sources))
        for _ in range(rng.choice([1, 1, 2, 5])):
            place = rng.randrange(len(content))
            nest = rng.choice([b"(", b"[", b"{", b"tensor<", b"tuple<", b"dense<["]) * rng.choice([99, 99999])
            content[place:place] = nest if rng.random() < 0.2 else rng.choice(TOKENS)
        yield bytes(content)


def _check(content: bytes, tmp: Path) -> bool:
    """Whether the file was refused; anything but a program or an error of ours fails."""
    path = tmp / ("m.mlirbc" if content.startswith(BYTECODE) else "m.mlir")
    path.write_bytes(content)
    try:
        irs.load(path)
    except IrscopeError as error:
        assert str(error)
        return True
    return False


def test_some_garbled_files_raise_an_irscope_error(tmp_path: Path) -> None:
    assert sum(_check(content, tmp_path) for content in _mutations(0, 5)) >= 3


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 26))
def test_garbled_files_raise_an_irscope_error(seed: int, tmp_path: Path) -> None:
    refused = 0
    for content in _mutations(seed, 100):
        started = time.process_time()
        refused += _check(content, tmp_path)
        assert time.process_time() - started < 2
    assert refused > 50


def _loaded_with(limit: str, amount: int) -> str:
    """What a process with a hard limit says of a sound file."""
    code = f"import resource; resource.setrlimit(resource.{limit}, ({amount}, {amount}))\n"
    code += f"import irscope as irs\ntry: print(irs.load({str(SAMPLES[0])!r}))\nexcept irs.errors.LoadError as error: print(error)"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such limits")
@pytest.mark.parametrize(("limit", "amount"), [("RLIMIT_AS", 2_900_000_000), ("RLIMIT_CPU", 9)])
def test_a_file_is_read_under_sufficient_resource_limits(limit: str, amount: int) -> None:
    assert _loaded_with(limit, amount).startswith(("graph(", "module "))


def test_a_parser_that_cannot_start_is_reported_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str = "") -> None:
        raise ImportError(f"no {name}")

    monkeypatch.setattr(source, "required", missing)
    with pytest.raises(LoadError, match=r"parser cannot be started.*ImportError: no"):
        irs.load(SAMPLES[0])


def test_a_crash_of_the_parser_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "new_context", lambda bindings: os.abort())
    with pytest.raises(LoadError, match=r"parser fail: it crashes with signal 6"):
        irs.load(SAMPLES[0])
