"""Equal executables of one module: classes by `alpha` here, beside IREE's own pass over the same text.

    python tests/benchmarks/bench_dedup.py --iree-opt PATH [--sizes 100 1000 10000] [--limit 900] [--only none shape]
    python tests/benchmarks/bench_dedup.py --ours-only --sizes 100000 --only none
    python tests/benchmarks/bench_dedup.py --fingerprints 1000000
    python tests/benchmarks/bench_dedup.py --lstm 100

Modules of `flow.executable`s, each with one export and a function of eight elementwise ops, and one caller:

    none    all equal
    const   all distinct, by the constant that the last op adds
    shape   all distinct, by the extent
    op      all distinct, by the eight ops, of which the last differ first: IREE's hash of the first few sorts most of them
    late    all distinct, by nine ops behind eight that are equal: behind what IREE hashes

`iree-opt` is that of the wheel `iree-base-compiler`, with `--iree-flow-deduplicate-executables` alone, on one thread; its time is
the share of the process's processor time that `--mlir-timing` says of the pass, ours the processor time of `irs.dedup(module)`:
pieces, keys, classes. Reading is given beside both. The text is read in its generic form where the installed bindings know no
dialect of IREE's. The longest runs come last. `--lstm` compiles the fused LSTM of the examples, unrolled to so many steps, with a
kernel for each group and with a kernel for each class, nothing cached: processor seconds of `irs.compile` alone.
"""

import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import irscope as irs
from irscope.errors import ParseError
from irscope.runtime.device import ObjectStore
from irscope.runtime.program.executable import compile_graph
from irscope.transforms.dedup import RELATIONS
from tests.benchmarks.harness import command, head, milliseconds, row

FAMILIES = ("none", "shape", "op", "late", "const")
OPS = ("addf", "subf", "mulf", "divf")
LENGTH = 8
DIGITS = 9
"""How many ops tell 10^5 executables apart; eight of four kinds tell 65,536."""


def text_of(count: int, family: str) -> str:
    lines: list[str] = []
    calls: list[tuple[str, int]] = []
    for number in range(count):
        extent = 16 + number if family == "shape" else 64
        tensor = f"tensor<{extent}xf32>"
        lines += [
            f"flow.executable private @ex_{number} {{", f"  flow.executable.export public @entry_{number}", "  builtin.module {",
            f"    func.func @entry_{number}(%a: {tensor}, %b: {tensor}) -> {tensor} {{", *body(number, family, tensor), "    }", "  }", "}",
        ]  # fmt: skip
        calls.append((tensor, extent))
    arguments = dict.fromkeys(calls)
    head = ", ".join(f"%x{extent}: {tensor}" for tensor, extent in arguments)
    lines.append(f"util.func public @main(%n: index, {head}) {{")
    for number, (tensor, extent) in enumerate(calls):
        x = f"%x{extent}"
        lines.append(f"  %r{number} = flow.dispatch @ex_{number}::@entry_{number}[%n]({x}, {x}) : ({tensor}, {tensor}) -> {tensor}")
        lines.append(f"  util.optimization_barrier %r{number} : {tensor}")
    return "\n".join([*lines, "  util.return", "}", ""])


def body(number: int, family: str, tensor: str) -> Iterator[str]:
    """Eight ops in a chain, or seventeen."""
    last = "%a"
    length = LENGTH + DIGITS if family == "late" else LENGTH
    for place in range(length):
        digit = length - 1 - place  # the last op has the lowest digit, so that neighbours differ late
        told = family == "op" or (family == "late" and digit < DIGITS)
        op = OPS[number // 4**digit % 4] if told else OPS[place % 4]
        yield f"      %v{place} = arith.{op} {last}, %b : {tensor}"
        last = f"%v{place}"
    if family == "const":
        yield f"      %c = arith.constant dense<{number}.5> : {tensor}"
        yield f"      %s = arith.addf {last}, %c : {tensor}"
        last = "%s"
    yield f"      return {last} : {tensor}"


def iree_seconds(tool: str, path: Path, limit: float) -> tuple[float | None, float | None, int | None]:
    """Of its pass and of its parser, and how many executables it leaves; None if it took too long."""
    result = path.with_suffix(".out.mlir")
    command = [
        tool, "--pass-pipeline=builtin.module(iree-flow-deduplicate-executables)", "--mlir-timing", "--mlir-disable-threading",
        str(path), "-o", str(result),
    ]  # fmt: skip
    before = _of_children()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=True)
    except subprocess.TimeoutExpired:
        return None, None, None
    found = {name: float(seconds) for seconds, name in re.findall(r"([\d.]+) \([ \d.]+%\)\s+(\w+)", done.stderr)}
    left = sum(line.lstrip().startswith("flow.executable private") for line in result.open())
    share = (_of_children() - before) / found["Total"]  # the clock runs on while others have the processor
    return found["DeduplicateExecutablesPass"] * share, found["Parser"] * share, left


def _of_children() -> float:
    """Processor seconds of the processes that were waited for."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def loaded(path: Path, tool: str | None) -> Any:
    """The module, read in the pretty form if that can be read here."""
    try:
        return irs.load(str(path), name="bench")
    except ParseError:
        if tool is None:
            raise
        generic = path.with_suffix(".generic.mlir")
        subprocess.run([tool, "--mlir-print-op-generic", str(path), "-o", str(generic)], check=True)
        return irs.load(str(generic), name="bench")


def measure(sizes: list[int], families: list[str], tool: str | None, limit: float) -> None:
    loaded_once = irs.dedup(irs.Module({"f": irs.parse("graph(%x : Tensor):\n  return (%x)")}))
    assert len(loaded_once) == 1
    head("family", "size", "left", "read s", "ours s", "µs each", "IREE reads s", "IREE s", "left", "IREE / ours")
    with tempfile.TemporaryDirectory() as folder:
        for size, family in sorted(((s, f) for s in sizes for f in families), key=lambda run: (run[0], FAMILIES.index(run[1]))):
            path = Path(folder) / f"{family}_{size}.mlir"
            path.write_text(text_of(size, family))
            start = time.process_time()
            module = loaded(path, tool)
            read = time.process_time() - start
            ours, classes = min(milliseconds(irs.dedup, lambda module=module: module, 3)) / 1000, irs.dedup(module)
            theirs, parser, left = iree_seconds(tool, path, limit) if tool else (None, None, None)
            cells = [f"> {limit:.0f}" if tool and each is None else each for each in (parser, theirs)]
            row(family, size, len(classes), read, ours, ours / size * 1e6, *cells, left, theirs and theirs / ours)
            for file in Path(folder).iterdir():
                file.unlink()


def fingerprints(count: int) -> None:
    """Grouping so many pieces by fingerprint: sixteen random bytes each, of which every tenth repeats another."""
    random = os.urandom(16 * count)
    marks = [random[16 * place : 16 * place + 16] for place in range(count)]
    marks[::10] = marks[5::10]

    def grouped(marks: list[bytes]) -> dict[bytes, list[int]]:
        buckets: dict[bytes, list[int]] = {}
        for place, mark in enumerate(marks):
            buckets.setdefault(mark, []).append(place)
        return buckets

    taken = min(milliseconds(grouped, lambda: marks, 3)) / 1000
    print(f"{count} fingerprints in {len(set(marks))} groups: {taken:.2f} s")


def lstm(steps: int) -> None:
    """What equal groups save in compiling."""
    import torch

    from tests.benchmarks.models import lstm as model_of

    model, arguments = model_of(steps, 64, 128)
    graph = irs.load(model, *arguments)
    irs.compile(irs.load(lambda x: x.sin() + 1, torch.rand(8)))  # what is loaded once
    taken = {}
    for shared in (False, True):
        made = partial(compile_graph, share_kernels=shared, store=ObjectStore(None))
        taken[shared] = min(milliseconds(made, lambda: irs.fuse(graph), 3)) / 1000  # kernels are planned once for each
        print(f"share_kernels={shared}: {len(made(irs.fuse(graph)).kernels)} kernels, {taken[shared]:.3f} s")
    print(f"{taken[False] / taken[True]:.1f} times as fast with reuse")


def main() -> None:
    options = command(__doc__)
    options.add_argument("--iree-opt")
    options.add_argument("--ours-only", action="store_true")
    options.add_argument("--sizes", type=int, nargs="+", default=[100, 1000, 10000])
    options.add_argument("--only", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    options.add_argument("--limit", type=float, default=900.0)
    options.add_argument("--fingerprints", type=int, default=0)
    options.add_argument("--lstm", type=int, default=0)
    chosen = options.parse_args()
    if chosen.fingerprints:
        fingerprints(chosen.fingerprints)
        return
    if chosen.lstm:
        lstm(chosen.lstm)
        return
    if not chosen.ours_only and not chosen.iree_opt:
        options.error("--iree-opt says where IREE's tool is; --ours-only does without")
    assert RELATIONS[1] == "alpha"
    measure(chosen.sizes, chosen.only, chosen.iree_opt, chosen.limit)


if __name__ == "__main__":
    main()
