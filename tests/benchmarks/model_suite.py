"""Whole models: the effect of fusion and shared kernels beside torch op by op, the model itself and torch.compile.

    python tests/benchmarks/model_suite.py [--threads 1 2] [--models YOLOv3 LSTM-100] [--peers eager torch.compile] [--json FILE]

The models are those of the examples (YOLOv3 with Darknet-53 at a small image, a hand-written LSTM over 100 steps, a
BERT encoder of four layers) and a tiny vision transformer of the transformers package; all with random weights.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))

from irscope.runtime.machine import describe
from irscope.runtime.measure import compare
from irscope.session import load
from irscope.transforms.fusion import fuse
from tests.benchmarks.harness import aligned
from tests.benchmarks.models import Model, bert, lstm, vit, yolov3

PEERS: Final = ("eager", "torch.compile")


MODELS: Final[Mapping[str, Callable[[], Model]]] = {
    "YOLOv3": partial(yolov3, 32, 80, 160), "LSTM-100": partial(lstm, 100, 64, 128), "BERT-4": partial(bert, 4, 256, (2, 64)),
    "ViT-tiny": partial(vit, 12, 192, 3, 768, 224, 16, 1, attn_implementation="eager"),
}  # fmt: skip


def model_runs(threads: int, names: Sequence[str], peers: Sequence[str], rounds: int) -> list[dict[str, Any]]:
    """Measures in this process."""
    torch.set_num_threads(threads)
    runs = []
    for name in names or MODELS:
        print(name, file=sys.stderr, flush=True)
        torch.manual_seed(0)
        model, args = MODELS[name]()
        model = model.eval()
        source = torch.jit.script(model) if name == "YOLOv3" else model
        others = {"torch.compile": torch.compile(model)} if "torch.compile" in peers else {}
        eager = model if "eager" in peers else None
        found = compare(fuse(load(source, *args, name=name)), *args, eager=eager, peers=others, repeats=rounds)
        runs.append({"case": name, "threads": threads, **replace(found, name=name).to_json()})
    return runs


def _model_table(runs: Sequence[Mapping[str, Any]]) -> str:
    lines = [["model", "threads", "way", "median ms", "quartiles", "launched", "kernels", "compile ms", "peak MB", "error"]]
    for run in runs:
        for row in run["rows"]:
            peak = "" if row["peak_bytes"] is None else f"{row['peak_bytes'] / 1e6:.1f}"
            lines.append([
                run["case"], str(run["threads"]), row["label"], f"{row['median']:.3g}",
                f"{row['low']:.3g} – {row['high']:.3g}", str(row["launched"] or ""), str(row["kernels"] or ""),
                f"{row['compile']:.3g}", peak, "-" if row["error"] is None else f"{row['error']:.1e}",
            ])  # fmt: skip
    notes = dict.fromkeys(f"{label}: {why}" for run in runs for label, why in run["missing"])
    return "\n".join([aligned(lines), *notes])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--threads", nargs="+", type=int, default=(1, 2))
    parser.add_argument("--models", nargs="+", default=(), choices=MODELS)
    parser.add_argument("--peers", nargs="*", default=PEERS, choices=PEERS)
    parser.add_argument("--json", type=Path, help="write the machine and all figures to a file")
    options = parser.parse_args()
    found: dict[str, Any] = {"suite": "models", "machine": describe(), "quick": options.quick, "runs": []}
    for count in options.threads:
        found["runs"] += model_runs(count, options.models, options.peers, 3 if options.quick else 7)
    found["load_after"] = describe()["load"]
    print(_model_table(found["runs"]))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
