"""A corpus of up to 200 models for `irs.corpus.survey`: transformers configs, torch.nn, NumPy, JAX, ONNX's own models, MLIR text.

    python tests/benchmarks/corpus_models.py OUT [--models 200] [--processes 1,2] [--seconds 300]

Surveys the corpus once for each number of processes, into a folder of its own each, and prints for each: models and nodes, clock and
processor time, the largest memory of a model, and groups, classes and kernels. With 1 and 2 processes the ratio of the clocks is what
a second process gains. `--parts` surveys an eighth, a quarter and a half first, which shows how the time grows with the nodes.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Final

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parent)]

import corpus_programs as programs  # noqa: E402

import irscope as irs  # noqa: E402

__all__ = ["corpus"]

def onnx_models() -> Iterator[Path]:
    """The models that the onnx package tests itself with."""
    try:
        import onnx
    except ImportError:
        return
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data"
    yield from sorted(path for kind in ("simple", "light") for path in (folder / kind).rglob("*.onnx"))


def mlir_files() -> list[Path]:
    """StableHLO, and where IREE's dialects can be read, modules of its executables before it merges them."""
    found = sorted((Path(__file__).parents[1] / "frontends" / "mlir" / "samples").glob("*.mlir"))
    return [path for path in found if path.name.endswith(".stablehlo.mlir") or importlib.util.find_spec("iree")]


def _made() -> Iterator[Callable[[], Any]]:
    for kind in programs.ENCODERS:
        for hidden, layers in ((32, 2), (64, 2), (64, 12), (32, 24)):
            yield partial(programs.language_model, kind, hidden, layers)
    yield partial(programs.language_model, "Bert", 32, 48)
    for kind, hidden, layers in product(("ViT", "DeiT"), (16, 32), (2, 12)):
        yield partial(programs.vision_model, kind, hidden, layers)
    for activation, norm, layers in product(("GELU", "SiLU"), ("layer", "rms"), (3, 24)):
        yield partial(programs.perceptron, activation, norm, 32, layers)
    for activation, width, layers in product(("ReLU", "SiLU"), (8,), (2, 24)):
        yield partial(programs.convolutions, activation, width, layers)
    for activation, width, norm_first in product(("relu", "gelu"), (32,), (False, True)):
        yield partial(programs.encoder_layer, activation, width, norm_first)
    for blocks in (8, 16, 24):
        yield partial(programs.inception, 8, blocks, 4)
    for kind, steps in product(("rnn", "gru", "lstm"), (500, 1000, 1500)):
        yield partial(programs.recurrent, kind, steps, 16)
    for make in (programs.array_function, programs.jax_function, programs.mlir_text):
        for kind, nodes, (rows, columns) in product(programs.STEPS, SIZES, ((4, 64), (16, 128))):
            yield partial(make, kind, nodes, rows, columns)
    for kind, nodes in product(("residual", "cell"), SIZES[1:]):
        yield partial(programs.onnx_graph, kind, nodes, 32)


SIZES: Final = (2000, 6000, 12000)
"""About how many ops the functions of arrays have."""


def corpus(most: int = 200) -> list[Any]:
    """The sources, mixed, so that a part of them is like the whole."""
    made: list[Any] = [*_made(), *onnx_models(), *mlir_files()]
    mixed = sorted(range(len(made)), key=lambda place: (place * 0.6180339887) % 1.0)
    return [made[place] for place in mixed[:most]]


def surveyed(models: list[Any], out: Path, processes: int, seconds: int) -> tuple[Any, float, float]:
    """The survey, its clock and its processor time."""
    before, start = os.times(), time.perf_counter()
    found = irs.corpus.survey(models, out=out, processes=processes, seconds=seconds)
    after = os.times()
    spent = sum(after[:4]) - sum(before[:4])
    return found, time.perf_counter() - start, spent


COLUMNS: Final = (
    "processes", "models", "left out", "nodes", "clock s", "processor s", "models s", "longest s", "µs a node", "largest MB", "groups",
    "classes", "kernels",
)  # fmt: skip
"""The processor's seconds are those of everything, those of the models what each took by itself."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("out", type=Path)
    options.add_argument("--models", type=int, default=200)
    options.add_argument("--processes", default="1,2")
    options.add_argument("--seconds", type=int, default=300)
    options.add_argument("--parts", action="store_true")
    chosen = options.parse_args()
    models = corpus(chosen.models)
    shares = (8, 4, 2, 1) if chosen.parts else (1,)
    print("| " + " | ".join(COLUMNS) + " |\n" + "|---" * len(COLUMNS) + "|")
    for processes in map(int, chosen.processes.split(",")):
        for share in shares:
            folder = chosen.out / f"{processes}-{share}"
            s, clock, whole = surveyed(models[: len(models) // share], folder, processes, chosen.seconds)
            nodes, spent = s.models["nodes"].sum(), s.models["seconds"].sum()
            cells = [
                processes, len(s.models), len(s.failures), nodes, f"{clock:.1f}", f"{whole:.1f}", f"{spent:.1f}",
                f"{s.models['seconds'].max():.1f}", f"{1e6 * spent / nodes:.0f}",
                f"{s.models['peak_bytes'].max() / 1e6:.0f}", len(s.groups), len(s.classes), len(s.kernels),
            ]  # fmt: skip
            print("| " + " | ".join(map(str, cells)) + " |", flush=True)


if __name__ == "__main__":
    main()
