"""The suite of kernels: every case at every size on some threads, ours beside the installed competitors, with tables and JSON.

    python tests/benchmarks/kernel_suite.py [--quick] [--threads 1 2] [--cases k1 softmax] [--peers eager] [--json FILE]

The first line is the machine; each case at each size is one `irs.compare`, printed as it prints itself; for the smallest size the time of
our kernel alone is added. Ours is the compiled program, called with tensors like the others. The tables at the end are geometric means of
the others' times over ours: above one, ours is faster. On a busy machine the medians reflect the load; the JSON also has the fastest turns,
and a second table uses them. GB/s, GFLOP/s and compiling from the disk cache are in the JSON.
"""

import json
import math
import os
import sys
import time
from argparse import SUPPRESS
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
from tests.benchmarks.harness import command, head, in_a_process, row
from tests.benchmarks.kernel_cases import CASES, Case, chosen
from tests.benchmarks.separate_process import told

Function = Callable[..., Any]

_SIZES: Final = (1_000, 100_000, 10_000_000)
_QUICK_SIZES: Final = (1_000, 1_000_000)
OURS: Final = "fused"
KINDS: Final = {"median": "by medians", "best": "by quickest turns"}


def run_suite(threads: Sequence[int], options: Mapping[str, Any]) -> dict[str, Any]:
    """Runs the suite, and prints its tables. Returns everything as plain data."""
    machine = describe()
    load = machine["load"][0] if machine["load"] else 0.0
    print(f"{machine['cpu']}, {machine['cores']} processors, load {load:g}; {', '.join(machine['features'])}")
    print(", ".join(f"{name} {version}" for name, version in machine["versions"].items()))
    found: dict[str, Any] = {"suite": "kernels", "machine": machine, "quick": options["quick"], "runs": []}
    for count in threads:  # in a process of its own each: some libraries decide about threads at import time
        found["runs"] += in_a_process(__file__, "--run", json.dumps({**options, "threads": count}))
    found["load_after"] = describe()["load"]
    for run in found["runs"]:
        print(f"\n{run.pop('text')}")
        if run["kernel_call_us"] is not None:
            print(f"a call of the kernel alone takes {run['kernel_call_us']:.2f} µs")
    for kind, words in KINDS.items():
        print(f"\ntheir time / ours, {words}")
        summarize(found["runs"], kind)
    return found


# -- measuring --------------------------------------------------------------------------------------------------------


def measure(*, threads: int, names: Sequence[str], peers: Sequence[str], quick: bool, rotate: bool) -> list[dict[str, Any]]:
    """Runs in the process of one thread count."""
    _use(threads)
    runs = []
    for case in chosen(names):
        for size in _QUICK_SIZES if quick else _SIZES:
            name = f"{case.name} {size:.0e} on {threads} thread{'s' * (threads > 1)}"
            print(name, file=sys.stderr, flush=True)
            operands = _operands(case, size)
            graph = load(case.group_text, *operands, name=case.name)
            functions, missing = peers_of(case, operands, peers, threads)
            found = compare(graph, *operands, peers=functions, repeats=3 if quick else 9, ways=("fused",), rotate=rotate)
            found = replace(found, name=name, missing=(*missing, *found.missing))
            call = _kernel_call(graph, operands) if size <= 10_000 else None
            given = {"case": case.name, "size": size, "threads": threads, "kernel_call_us": call, "text": str(found)}
            runs.append({**given, **found.to_json()})
    return runs


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
    types = made._groups[groups[0]].known_types() if len(groups) == 1 else None
    plan = None if types is None else made._groups[groups[0]].plan(types)
    if plan is None or len(plan.plan.outputs) != 1 or len(groups[0].inputs) != len(operands):
        return None
    pointers = [int(np.asarray(operand).ctypes.data) for operand in operands]
    result = (int(np.asarray(output).ctypes.data),)
    best = float("inf")
    for _ in range(15):
        start = time.perf_counter()
        for _ in range(1000):
            plan(result, pointers)
        best = min(best, (time.perf_counter() - start) / 1000)
    return best * 1e6


# -- competitors: operands are torch tensors (or arrays, without torch); JAX and numexpr get their own copies once ------


def peers_of(case: Case, operands: Sequence[Any], wanted: Sequence[str], threads: int) -> tuple[dict[str, Function], list[tuple[str, str]]]:
    """Returns functions by name, and the competitors that cannot take part with the reason."""
    found: dict[str, Function] = {}
    missing: list[tuple[str, str]] = []
    for name in wanted:
        try:
            found[name] = _MAKERS[name](case, operands, threads)
        except ModuleNotFoundError as error:
            missing.append((name, f"{error.name} is not installed"))
        except Exception as error:
            missing.append((name, told(error)))
    return found, missing


def _eager(case: Case, operands: Sequence[Any], threads: int) -> Function:
    return case.torch(import_module("torch"))


def _compiled(case: Case, operands: Sequence[Any], threads: int) -> Function:
    torch = import_module("torch")
    torch._dynamo.reset()
    compiled: Function = torch.compile(case.torch(torch), dynamic=False)
    return compiled


def _jax(case: Case, operands: Sequence[Any], threads: int) -> Function:
    jax, jnp = import_module("jax"), import_module("jax.numpy")
    jitted = jax.jit(case.jax(jax, jnp))
    own = [jnp.asarray(np.asarray(operand)) for operand in operands]
    return lambda *_: jitted(*own).block_until_ready()


def _numexpr(case: Case, operands: Sequence[Any], threads: int) -> Function:
    numexpr = import_module("numexpr")
    if not case.numexpr:
        raise NotImplementedError("numexpr lacks one of its functions")
    numexpr.set_num_threads(threads)
    own = {f"x{index}": np.asarray(operand) for index, operand in enumerate(operands)}
    return lambda *_: numexpr.evaluate(case.numexpr, local_dict=own)


_MAKERS: Final = {"eager": _eager, "torch.compile": _compiled, "jax.jit": _jax, "numexpr": _numexpr}
PEERS: Final = tuple(_MAKERS)


# -- tables -----------------------------------------------------------------------------------------------------------


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def rows_of(run: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["label"]: row for row in run["rows"]}


def ratios(runs: Iterable[Mapping[str, Any]], peer: str, kind: str) -> list[float]:
    """A competitor's time over ours; `kind` is `median` or `best`."""
    return [rows[peer][kind] / rows[OURS][kind] for rows in map(rows_of, runs) if peer in rows]


def summarize(runs: Sequence[Mapping[str, Any]], kind: str) -> None:
    """Prints geometric means and worst cases by threads and elements."""
    peers = [label for label in dict.fromkeys(row["label"] for run in runs for row in run["rows"]) if label != OURS]
    head("threads", "elements", *(cell for peer in peers for cell in (peer, "worst")), "cases")
    for key in [*dict.fromkeys((run["threads"], run["size"]) for run in runs), None]:
        some = [run for run in runs if key is None or (run["threads"], run["size"]) == key]
        cells = []
        for peer in peers:
            found = ratios(some, peer, kind)
            cells += [f"{geometric_mean(found):.2f}", f"{min(found):.2f}"] if found else [None, None]
        row(*(("all", "all") if key is None else (key[0], f"{key[1]:.0e}".replace("e+0", "e"))), *cells, len(some))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = command(__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer sizes and repetitions: under two minutes")
    parser.add_argument("--threads", nargs="+", type=int, default=(1, 2))
    parser.add_argument("--cases", nargs="+", default=(), choices=[case.name for case in CASES])
    parser.add_argument("--peers", nargs="*", default=PEERS, choices=PEERS, help="only these competitors; none times irscope alone")
    parser.add_argument("--rotate", action="store_true", help="rotate the operands, so that none is found in a cache")
    parser.add_argument("--json", type=Path, help="write the machine and all figures to a file")
    parser.add_argument("--run", type=json.loads, help=SUPPRESS)
    options = parser.parse_args(arguments)
    if options.run:
        print(json.dumps(measure(**options.run)))
        return
    given = {"names": options.cases, "peers": options.peers, "quick": options.quick, "rotate": options.rotate}
    found = run_suite(options.threads, given)
    if options.json:
        options.json.write_text(json.dumps(found) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
