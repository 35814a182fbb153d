"""Whole models: the effect of fusion and shared kernels beside torch op by op, the model itself and torch.compile.

    python tests/benchmarks/model_suite.py [--threads 1 2] [--models YOLOv3 LSTM-100] [--peers eager torch.compile] [--json FILE]

`frozen` is what `irs.compile` makes: batch norms folded, convolutions channels last and oneDNN's.

The models are those of the examples (YOLOv3 with Darknet-53 at a small image, a hand-written LSTM over 100 steps, a
BERT encoder of four layers) and small models of the transformers package; all with random weights.
"""

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
from tests.benchmarks.harness import command
from tests.benchmarks.models import Model, bert, convnext, gpt2, llama, lstm, mobilenet, resnet, seeded, vit, whisper, yolov3

PEERS: Final = ("eager", "torch.compile")

MODELS: Final[Mapping[str, Callable[[], Model]]] = {
    "YOLOv3": partial(yolov3, 32, 80, 160), "LSTM-100": partial(lstm, 100, 64, 128), "BERT-4": partial(bert, 4, 256, (2, 64)),
    "ViT-tiny": partial(vit, 12, 192, 3, 768, 224, 16, 1, attn_implementation="eager"),
    "GPT-2": partial(gpt2, 4, 256, (2, 64), positions=64), "Llama": partial(llama, 4, 256, (2, 64)),
    "Whisper": partial(whisper, 4, 128, 200, 80), "ResNet": partial(resnet, (32, 64, 128), size=96),
    "MobileNetV2": partial(mobilenet, size=96), "ConvNeXt": partial(convnext, (32, 64, 128, 256), size=96),
}  # fmt: skip


def model_runs(threads: int, names: Sequence[str], peers: Sequence[str], rounds: int) -> list[dict[str, Any]]:
    """Measures in this process, and prints each comparison as it prints itself; the JSON has the peak memory too."""
    torch.set_num_threads(threads)
    runs = []
    for name in names or MODELS:
        model, args = seeded(MODELS[name])
        source = torch.jit.script(model) if name == "YOLOv3" else model
        graph = load(source, *args, name=name)
        others = {"torch.compile": torch.compile(model)} if "torch.compile" in peers else {}
        eager = model if "eager" in peers else None
        found = compare(fuse(graph), *args, eager=eager, peers=others, repeats=rounds)
        found = replace(found, name=f"{name}, {threads} thread{'s' * (threads > 1)}")
        print(found, end="\n\n", flush=True)
        runs.append({"case": name, "threads": threads, **found.to_json()})
    return runs


def main() -> None:
    parser = command(__doc__)
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
    if options.json:
        options.json.write_text(json.dumps(found) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
