"""How long torch.compile takes for an unrolled GRU, beside planning and compiling it here (the shape of pytorch#154652).

    python tests/benchmarks/bench_unrolled.py --steps 50 100 200 400 --limit 120

The program is `bench_fusion.gru`: per step two products, their biases and 12 ops on three gates, all states returned. Torch gets
the same ops as a function. Each number of steps is measured in a process of its own, without any cache of Inductor's on disk, and
is given up after `--limit` seconds of wall time. Seconds are processor time of all threads, compilers that Inductor starts
included, and wall time in brackets; "ours" is fusing the parsed text, and compiling its kernels with an empty cache.
"""

import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.benchmarks.harness import Growth, command, head, in_a_process, row


def processor_seconds() -> float:
    """Of this process and of those that it has waited for."""
    own, others = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def torch_gru(h: Any, xs: list[Any], wi: Any, wh: Any, bi: Any, bh: Any) -> list[Any]:
    """What `bench_fusion.gru` says, in torch."""
    states = []
    for x in xs:
        ri, zi, ni = (x @ wi + bi).chunk(3, 1)
        rh, zh, nh = (h @ wh + bh).chunk(3, 1)
        r, z = (ri + rh).sigmoid(), (zi + zh).sigmoid()
        n = (ni + r * nh).tanh()
        h = n + z * (h - n)
        states.append(h)
    return states


def operands(steps: int) -> tuple[Any, ...]:
    import torch

    torch.manual_seed(0)
    xs = [torch.rand(8, 64) for _ in range(steps)]
    return torch.rand(8, 64), xs, torch.rand(64, 192), torch.rand(64, 192), torch.rand(192), torch.rand(192)


def measure_torch(steps: int) -> dict[str, float]:
    """The first call of a compiled function, less one of the next."""
    import torch

    args = operands(steps)
    expected = torch_gru(*args)[-1]
    torch.compile(lambda x: x.sin() + 1)(torch.rand(8))  # what is imported and started once
    compiled = torch.compile(torch_gru, dynamic=False)
    before, start = processor_seconds(), time.perf_counter()
    with torch.no_grad():
        result = compiled(*args)[-1]
    taken = {"cpu": processor_seconds() - before, "wall": time.perf_counter() - start}
    assert torch.allclose(result, expected, atol=1e-4)
    return taken


def measure_ours(steps: int) -> dict[str, float]:
    """Fusing the graph, then making its kernels."""
    import irscope as irs
    from irscope.runtime.device.kernel_cache import ObjectStore
    from irscope.runtime.program.executable import compile_graph
    from irscope.transforms.fusion import fuse
    from tests.benchmarks.bench_fusion import gru

    fuse(irs.parse("\n".join(gru(2))))
    graph = irs.parse("\n".join(gru(steps)))
    h, xs, *weights = operands(steps)
    before, start = processor_seconds(), time.perf_counter()
    fused = fuse(graph)
    planned = processor_seconds() - before
    with tempfile.TemporaryDirectory() as folder:
        run = compile_graph(fused.graph, store=ObjectStore(Path(folder)))
        result = run(h, *xs, *weights)[-1]
    taken = {"plan": planned, "cpu": processor_seconds() - before, "wall": time.perf_counter() - start}
    assert result.allclose(torch_gru(h, xs, *weights)[-1], atol=1e-4)
    return {**taken, "kernels": len(run.kernels)}


def main() -> None:
    options = command(__doc__)
    options.add_argument("--steps", type=int, nargs="+", default=[50, 100, 200, 400])
    options.add_argument("--limit", type=float, default=120.0)
    options.add_argument("--only", choices=("torch", "ours"))
    chosen = options.parse_args()
    if chosen.only:
        print(json.dumps((measure_torch if chosen.only == "torch" else measure_ours)(chosen.steps[0])))
        return
    head("steps", "torch.compile s", "exponent", "plan s", "ours s", "exponent", "torch / ours")
    growths = {"torch": Growth(), "ours": Growth()}
    for steps in chosen.steps:
        figures, cells = {}, {}
        for way, growth in growths.items():
            with tempfile.TemporaryDirectory() as folder:
                found = figures[way] = in_a_process(
                    __file__, "--only", way, "--steps", steps, limit=chosen.limit, TORCHINDUCTOR_FORCE_DISABLE_CACHES="1",
                    TORCHINDUCTOR_CACHE_DIR=folder, OMP_NUM_THREADS="1",  # threads that wait by spinning would count
                )  # fmt: skip
            told = f"> {chosen.limit:.0f}" if found is None else f"{found['cpu']:.2f} ({found['wall']:.2f})"
            cells[way] = told, found and growth.at(steps, found["cpu"])
        ours, theirs = figures["ours"], figures["torch"]
        row(steps, *cells["torch"], ours and ours["plan"], *cells["ours"], theirs["cpu"] / ours["cpu"] if theirs and ours else None)


if __name__ == "__main__":
    main()
