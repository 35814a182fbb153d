"""The suite of kernels: every case at every size on some threads, ours beside the installed competitors, with tables and JSON.

    python tests/benchmarks/kernel_suite.py [--quick] [--threads 1 2] [--cases k1 softmax] [--peers eager] [--json FILE]

The first line is the machine; each table has a line for each case and size with every competitor's time, ours as a
fraction of the machine's copy, and ours against the best of the others. Summaries are geometric means of the others' times
over ours: above one, ours is faster. On a busy machine the medians reflect the load; the JSON also has the fastest turns,
and a second summary uses them. Ours is the compiled program, called with tensors like the others; for the smallest size
the time of its kernel alone is added.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from irscope.runtime.machine import describe
from irscope.runtime.measure import compare
from irscope.runtime.program import compile_graph
from irscope.session import load
from tests.benchmarks.harness import aligned
from tests.benchmarks.kernel_cases import CASES, Case, chosen

ROOT: Final = Path(__file__).parents[2]
Function = Callable[..., Any]

_SIZES: Final = (1_000, 100_000, 10_000_000)
_QUICK_SIZES: Final = (1_000, 1_000_000)
OURS: Final = "fused"


def run_suite(
    *, quick: bool = False, threads: Sequence[int] = (1, 2), peers: Sequence[str] | None = None, names: Sequence[str] = (),
    rotate: bool = False, say: Callable[[str], object] = print,
) -> dict[str, Any]:  # fmt: skip
    """Runs the suite; `say` gets the tables. Returns everything as plain data."""
    found: dict[str, Any] = {"suite": "kernels", "machine": describe(), "quick": quick, "runs": []}
    say(_machine_line(found["machine"]))
    options = {"quick": quick, "peers": PEERS if peers is None else list(peers), "names": list(names), "rotate": rotate}
    for count in threads:
        found["runs"] += _in_a_process(count, options)
    found["load_after"] = describe()["load"]
    say(_kernel_table(found["runs"]))
    say(_summary(found["runs"]))
    return found


def _in_a_process(threads: int, options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The runs of one thread count, in a process of their own: some libraries decide about threads at import time."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "runs.json"
        code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tests.benchmarks.kernel_suite import measure; measure(*sys.argv[1:])"
        subprocess.run([sys.executable, "-c", code, str(threads), json.dumps(options), str(output)], check=True)
        found: list[dict[str, Any]] = json.loads(output.read_text())
        return found


# -- measuring --------------------------------------------------------------------------------------------------------


def measure(threads_text: str, options_text: str, output: str) -> None:
    """Runs in the process of one thread count."""
    threads, options = int(threads_text), json.loads(options_text)
    _use(threads)
    runs = []
    for case in chosen(options["names"]):
        for size in _QUICK_SIZES if options["quick"] else _SIZES:
            print(f"{case.name} {size:.0e} on {threads} thread{'s' * (threads > 1)}", file=sys.stderr, flush=True)
            operands = _operands(case, size)
            graph = load(case.group_text, *operands, name=case.name)
            functions, missing = peers_of(case, operands, options["peers"], threads)
            found = compare(
                graph, *operands, peers=functions, repeats=3 if options["quick"] else 9, ways=("fused",),
                rotate=options["rotate"],
            )  # fmt: skip
            call = _kernel_call(graph, operands) if size <= 10_000 else None
            found = replace(found, missing=(*missing, *found.missing))
            runs.append({"case": case.name, "size": size, "threads": threads, "kernel_call_us": call, **found.to_json()})
    Path(output).write_text(json.dumps(runs))


def _use(threads: int) -> None:
    """Restricts this process to this many processors, and torch to as many threads."""
    if hasattr(os, "sched_setaffinity"):
        mine = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, mine[:threads])
    if find_spec("torch") is not None:
        import torch

        torch.set_num_threads(threads)


def _operands(case: Case, size: int) -> list[Any]:
    numbers = np.random.default_rng(0)
    arrays = [numbers.standard_normal(shape, np.float32) * np.float32(2) for shape in case.shapes(size)]
    if find_spec("torch") is None:
        return arrays
    import torch

    return [torch.from_numpy(array) for array in arrays]


def _kernel_call(program: Any, operands: Sequence[Any]) -> float | None:
    """Returns the microseconds of one call of a program's only kernel: the best of several turns."""
    made = compile_graph(program)
    output = made(*operands)
    groups = [node for node in made.graph.nodes() if node.op == "prim::FusionGroup"]
    plan = made.plan_of(groups[0]) if len(groups) == 1 else None
    if plan is None or len(plan.plan.outputs) != 1 or len(groups[0].inputs) != len(operands):
        return None
    pointers = [_address(operand) for operand in operands]
    result = (_address(output),)
    best = float("inf")
    for _ in range(15):
        start = time.perf_counter()
        for _ in range(1000):
            plan(result, pointers)
        best = min(best, (time.perf_counter() - start) / 1000)
    return best * 1e6


def _address(tensor: Any) -> int:
    return int(tensor.data_ptr() if hasattr(tensor, "data_ptr") else tensor.ctypes.data)


# -- competitors: operands are torch tensors (or arrays, without torch); JAX and numexpr get their own copies once ------


def peers_of(case: Case, operands: Sequence[Any], wanted: Sequence[str], threads: int) -> tuple[dict[str, Function], list[tuple[str, str]]]:
    """Returns functions by name, and the competitors that cannot take part with the reason."""
    found: dict[str, Function] = {}
    missing: list[tuple[str, str]] = []
    for name in wanted:
        try:
            found[name] = _MAKERS[name](case, operands, threads)
        except _Missing as reason:
            missing.append((name, str(reason)))
        except Exception as error:
            missing.append((name, f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"))
    return found, missing


class _Missing(Exception):
    """The reason why a competitor does not take part."""


def _needs(package: str) -> None:
    if find_spec(package) is None:
        raise _Missing(f"{package} is not installed")


def _eager(case: Case, operands: Sequence[Any], threads: int) -> Function:
    _needs("torch")
    torch = import_module("torch")
    if case.torch is None:
        raise _Missing("torch has no such op")
    return case.torch(torch)


def _compiled(case: Case, operands: Sequence[Any], threads: int) -> Function:
    _needs("torch")
    torch = import_module("torch")
    torch._dynamo.reset()
    compiled: Function = torch.compile(_eager(case, operands, threads), dynamic=False)
    return compiled


def _jax(case: Case, operands: Sequence[Any], threads: int) -> Function:
    _needs("jax")
    jax, jnp = import_module("jax"), import_module("jax.numpy")
    if case.jax is None:
        raise _Missing("no expression for it in JAX")
    jitted = jax.jit(case.jax(jax, jnp))
    own = [jnp.asarray(np.asarray(operand)) for operand in operands]
    return lambda *_: jitted(*own).block_until_ready()


def _numexpr(case: Case, operands: Sequence[Any], threads: int) -> Function:
    _needs("numexpr")
    numexpr = import_module("numexpr")
    if not case.numexpr:
        raise _Missing("numexpr lacks one of its functions")
    numexpr.set_num_threads(threads)
    own = {f"x{index}": np.asarray(operand) for index, operand in enumerate(operands)}
    return lambda *_: numexpr.evaluate(case.numexpr, local_dict=own)


_MAKERS: Final = {"eager": _eager, "torch.compile": _compiled, "jax.jit": _jax, "numexpr": _numexpr}
PEERS: Final = tuple(_MAKERS)


# -- tables -----------------------------------------------------------------------------------------------------------


def _machine_line(machine: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    load = machine["load"][0] if machine["load"] else 0.0
    return f"{machine['cpu']}, {machine['cores']} processors, load {load:g}; {', '.join(machine['features'])}\n{versions}"


def _kernel_table(runs: Sequence[Mapping[str, Any]]) -> str:
    peers = _labels(runs)
    titles = ["case", "size", "threads", "irscope", "of copy", "call", *peers, "best / ours", "error"]
    lines = []
    for run in runs:
        rows = rows_of(run)
        ours = rows[OURS]
        best = min((rows[peer]["median"] for peer in peers if peer in rows), default=None)
        call = run.get("kernel_call_us")
        lines.append([
            run["case"], f"{run['size']:.0e}", str(run["threads"]), _us(ours["median"]), _number(ours["copy_fraction"]),
            "" if call is None else f"{call:.2f}", *(_us(rows[peer]["median"]) if peer in rows else "-" for peer in peers),
            "-" if best is None else f"{best / ours['median']:.2f}", _error(ours["error"]),
        ])  # fmt: skip
    notes = dict.fromkeys(f"{label}: {why}" for run in runs for label, why in run["missing"])
    return "\n".join(["medians in µs", aligned([titles, *lines]), *notes, "", "ours", _own_table(runs)])


def _own_table(runs: Sequence[Mapping[str, Any]]) -> str:
    """Returns all measurements of our runs: times in µs, compiling in ms, cold and from the disk cache."""
    lines = [["case", "size", "threads", "median", "quartiles", "GB/s", "of copy", "GFLOP/s", "cold ms", "warm ms", "launched", "error"]]
    for run in runs:
        ours = rows_of(run)[OURS]
        lines.append([
            run["case"], f"{run['size']:.0e}", str(run["threads"]), _us(ours["median"]),
            f"{_us(ours['low'])} – {_us(ours['high'])}", _number(ours["bandwidth"], 1), _number(ours["copy_fraction"]),
            _number(ours["gflops"], 1), _number(ours["compile"], 1), _number(ours["warm_compile"], 1),
            str(ours["launched"]), _error(ours["error"]),
        ])  # fmt: skip
    return aligned(lines)


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def rows_of(run: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["label"]: row for row in run["rows"]}


def ratios(runs: Iterable[Mapping[str, Any]], peer: str, kind: str) -> list[float]:
    """A competitor's time over ours; `kind` is `median` or `best`."""
    return [rows[peer][kind] / rows[OURS][kind] for rows in map(rows_of, runs) if peer in rows]


def _summary(runs: Sequence[Mapping[str, Any]]) -> str:
    lines = [["their time / ours", "by medians", "worst", "by quickest turns", "worst", "cases"]]
    for peer in _labels(runs):
        median, best = ratios(runs, peer, "median"), ratios(runs, peer, "best")
        figures = geometric_mean(median), min(median), geometric_mean(best), min(best)
        lines.append([peer, *(f"{figure:.2f}" for figure in figures), str(len(median))])
    return aligned(lines)


def _labels(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the competitors other than ours, in order of appearance."""
    return [label for label in dict.fromkeys(row["label"] for run in runs for row in run["rows"]) if label != OURS]


def _us(milliseconds: float) -> str:
    return f"{milliseconds * 1e3:,.1f}" if milliseconds < 0.1 else f"{milliseconds * 1e3:,.0f}"


def _number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _error(value: float | None) -> str:
    return "-" if value is None else f"{value:.1e}"


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer sizes and repetitions: under two minutes")
    parser.add_argument("--threads", nargs="+", type=int, default=(1, 2))
    parser.add_argument("--cases", nargs="+", default=(), choices=[case.name for case in CASES])
    parser.add_argument("--peers", nargs="*", choices=PEERS, help="only these competitors; none times irscope alone")
    parser.add_argument("--rotate", action="store_true", help="rotate the operands, so that none is found in a cache")
    parser.add_argument("--json", type=Path, help="write the machine and all figures to a file")
    options = parser.parse_args(arguments)
    found = run_suite(quick=options.quick, threads=options.threads, peers=options.peers, names=options.cases, rotate=options.rotate)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return found


if __name__ == "__main__":
    main()
