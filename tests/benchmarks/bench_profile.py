"""What profiles are worth: do the parts sum to the whole, is the order torch.profiler's, were predictions right?

    python tests/benchmarks/bench_profile.py [--seconds 4] [--models BERT,GRU] [--busy] [--planted]

One thread. On a busy machine `--busy` takes its processor time for a clock, which costs a microsecond a node; torch's trace has
its own clock. For each model: the sum of all parts by the whole call, of medians and of the best runs, op by op and fused; Spearman's rank
correlation of the ten slowest classes of equal nodes with torch.profiler's traces of the eager model (`rank` says how); what
measuring costs a node. With `--planted`, the programs of `tests/runtime/profile/planted.py`: the place of the first remark that names the
planted line, and for each remark that can be tried what it predicted and what came of it.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[2]))

import irscope as irs
from irscope.runtime.profile import way as way_module
from irscope.runtime.profile.way import Stopwatch
from tests.benchmarks import models
from tests.benchmarks.harness import command, head, row


def chain() -> Any:
    def pointwise(x: Any) -> Any:
        for _ in range(20):
            x = torch.tanh(x * 1.01 + 0.1)
        return x

    return pointwise, (torch.randn(512, 512),)


MODELS: dict[str, Callable[[], Any]] = {
    "YOLOv3": models.yolov3, "LSTM-100": partial(models.lstm, 100, 32, 64), "BERT": models.MODELS["bert"],
    "BERT-base": partial(models.bert, 12, 768, (1, 128), attention="sdpa"), "ViT": models.vit, "GRU": models.gru, "chain": chain,
}  # fmt: skip


def main() -> None:
    parser = command(__doc__)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--planted", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.busy:
        way_module.stopwatch = lambda device, is_torch: Stopwatch(time.thread_time_ns)  # type: ignore[assignment]
    if options.planted:
        planted(options.seconds)
        return
    head("model", "way", "nodes", "whole ms", "parts / whole", "of best runs", "ns a node", "order")
    for name in options.models.split(","):
        model, args = MODELS[name]()
        model = model.eval() if isinstance(model, torch.nn.Module) else model
        graph = irs.load(model, *args)
        p = irs.profile(graph, *args, seconds=options.seconds)
        for label, way in p.ways.items():
            ratio, low = way.parts_of_call, float(np.min(way.parts_by_run)) / min(way.whole)
            told = rank(p, graph, model, args) if label == "op by op" else ""
            row(name, label, len(way.nodes), way.total.median / 1e6, ratio, low, way.watch.cost, told)


def rank(p: Any, graph: Any, model: Any, args: Any, turns: int = 6) -> str:
    """Spearman's correlation over the ten slowest classes of equal nodes that both see: of twenty equal ones any order is right.

    Our runs and torch.profiler's of the eager model take turns in one process, and medians are compared. Ours have the call from
    Python, where torch's clock does not run; what torch records inside of an op stays in theirs. Beside it, of those pairs of the
    ten whose middle halves are apart in our runs, how many are in the same order in torch's.
    """
    from torch.profiler import ProfilerActivity, profile

    numbers, way = p.class_numbers("op by op"), p.ways["op by op"]
    calls, before = max(4, min(20, round(5e8 / way.total.median))), way.runs
    seen: dict[Any, list[float]] = {}
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        for _ in range(turns):
            for _ in range(calls):
                way.run_timed(args)
            with profile(activities=[ProfilerActivity.CPU]) as trace:
                for _ in range(calls):
                    model(*args)
            path = Path(folder) / "trace.json"
            trace.export_chrome_trace(str(path))
            for node, times in irs.profile.read(path, graph).times.items():
                seen.setdefault(node, []).extend(times)
    alike: dict[int, list[int]] = {}
    for index, measured in enumerate(p.rows("op by op")):
        if measured.node in seen and measured.launches:
            alike.setdefault(numbers[measured.node.id], []).append(index)
    nodes, busy = way.nodes, way.busy[before:]
    ours = {key: busy[:, rows].sum(axis=1) for key, rows in alike.items()}
    theirs = {key: sum(np.median(seen[nodes[index]]) for index in rows) for key, rows in alike.items()}
    both = sorted(ours, key=lambda key: -np.median(ours[key]))[:10]
    if len(both) < 3:
        return "fewer than three classes"
    a, b = (np.argsort(np.argsort(side)) for side in ([np.median(ours[key]) for key in both], [theirs[key] for key in both]))
    sure = [theirs[x] > theirs[y] for x, y in combinations(both, 2) if np.quantile(ours[x], 0.25) > np.quantile(ours[y], 0.75)]
    return f"rank correlation {np.corrcoef(a, b)[0, 1]:.2f}, {sum(sure)} of {len(sure)} sure pairs alike"


def planted(seconds: float) -> None:
    from tests.runtime.profile.planted import PLANTED, slow_lines

    head("program", "place", "rule", "predicted ms", "came ms", "holds")
    right = tried = first = 0
    for name, (program, args) in PLANTED.items():
        p = irs.profile(program, *args, seconds=seconds / 4)
        wanted = slow_lines(program)
        place = next((i for i, r in enumerate(p.remarks) if wanted & {line.line for line in r.lines}), None)
        first += place is not None and place < 2
        remark = None if place is None else p.remarks[place]
        predicted = came = holds = None
        if remark is not None and (remark.change is not None or remark.rule == "fuse"):
            trial = p.try_(remark, seconds=seconds / 4)
            tried, right = tried + 1, right + trial.holds
            predicted, came, holds = remark.gain_ns / 1e6, trial.gain_ns / 1e6, "yes" if trial.holds else "no"
        row(name, place, remark and remark.rule, predicted, came, holds)
    print(f"the line is in the first or second remark of {first} of {len(PLANTED)}; of {tried} predictions tried {right} held")


if __name__ == "__main__":
    main()
