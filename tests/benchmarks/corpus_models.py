"""A corpus of up to 200 models for `irs.corpus.survey`: transformers configs, torch.nn, NumPy, JAX, ONNX's own models, MLIR text.

    python tests/benchmarks/corpus_models.py OUT [--models 200] [--processes 1,2] [--seconds 300]
    python tests/benchmarks/corpus_models.py OUT/2-1 --write             # the figures of a survey into docs/corpus.md
    python tests/benchmarks/corpus_models.py OUT --fingerprints 1000000  # grouping so many rows, as models write them

Surveys the corpus once for each number of processes, into a folder of its own each, and prints for each: models and nodes, clock and
processor time, the largest memory of a model, and groups, classes and kernels. With 1 and 2 processes the ratio of the clocks is what
a second process gains.

`--write` replaces what stands between `<!-- figures -->` and `<!-- end of figures -->`: what was found, the ladder of classes, how the
time of a model grows with its nodes, and what a process took. The words around it are for people to write, and to read again.

Of the `--fingerprints` a tenth are distinct and three quarters of these the only one of their coarse fingerprint; `classes_of` groups
them. Reading representatives back and proving merges is not in it: that is `irs.dedup`'s, in `bench_dedup.py`.
"""

import importlib.util
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from hashlib import blake2b
from itertools import pairwise, product
from pathlib import Path
from typing import Any, Final

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

import irscope as irs
from irscope.corpus import tables
from tests.benchmarks import corpus_programs as programs
from tests.benchmarks.harness import Growth, command, head, row


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


def compare(models: list[Any], out: Path, processes: Sequence[int], seconds: int) -> None:
    """Surveys with each number of processes. The processor's seconds are those of everything, the models' what each took by itself."""
    head(
        "processes", "models", "left out", "nodes", "clock s", "processor s", "models s", "longest s", "µs a node", "largest MB", "groups",
        "classes", "kernels",
    )  # fmt: skip
    for count in processes:
        before, start = os.times(), time.perf_counter()
        s = irs.corpus.survey(models, out=out / f"{count}-1", processes=count, seconds=seconds)
        clock, whole = time.perf_counter() - start, sum(os.times()[:4]) - sum(before[:4])
        nodes, spent = s.models["nodes"].sum(), s.models["seconds"].sum()
        row(
            count, len(s.models), len(s.failures), nodes, clock, whole, spent, s.models["seconds"].max(), 1e6 * spent / nodes,
            s.models["peak_bytes"].max() / 1e6, len(s.groups), len(s.classes), len(s.kernels),
        )  # fmt: skip


BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"
PAGE: Final = Path(__file__).parents[2] / "docs" / "corpus.md"


def figures(s: Any) -> str:
    models, classes = s.models, s.classes
    several = classes[classes["models"] > 1]
    each = classes["compile_s"] * classes["members"]
    per_model = classes["compile_s"] * classes["models"]
    spent = models["seconds"]
    rows = [
        ("models", f"{len(models)}, {f'{len(s.failures)} left out' if len(s.failures) else 'none left out'}"),
        ("nodes, constants not counted", f"{models['nodes'].sum():,}, of which {models['in_groups'].sum():,.0f} are in groups"),
        ("fusion groups and executables", f"{len(s.groups):,}"),
        ("classes of equal ones, by `alpha`",
         f"{len(classes):,}, of which {len(several):,} are in several models; these have {several['members'].sum():,} of them"),
        ("kernels that `irs.compile` would build", f"**{len(s.kernels):,}**"),
        ("bytes moved, op by op → fused", f"{classes['bytes_before'].sum() / 1e6:,.0f} MB → {classes['bytes_after'].sum() / 1e6:,.0f} MB"),
        ("compiling (estimated): each one, each class in each model, each class once",
         f"{each.sum():,.0f} s, {per_model.sum():,.1f} s, {classes['compile_s'].sum():,.1f} s"),
        ("families of classes that are one hole apart",
         f"{len(s.near)}, the largest of {s.near['classes'].max() if len(s.near) else 0} classes"),
        ("to look at the models",
         f"{spent.sum():,.0f} s of processor time, {spent.median():.1f} s for the middle one, "
         f"{1e6 * spent.sum() / models['nodes'].sum():,.0f} µs a node"),
    ]  # fmt: skip
    ladder = s.ladder()["classes"]
    return "\n\n".join([
        "| | |\n|---|---|\n" + "\n".join(f"| {name} | {told} |" for name, told in rows),
        "Classes by the steps of `irs.dedup`'s ladder, each merge proven; what a step gives up, `survey.ladder()` says:",
        f"| {' | '.join(ladder.index)} |\n{'|---' * len(ladder)}|\n| {' | '.join(f'{count:,}' for count in ladder)} |",
        "Processor time and memory of one process by the size of its model. *Growth* is the slope of the logarithms, of models that "
        "differ in their length alone:",
        sizes(models), growth(models),
    ])  # fmt: skip


def sizes(models: Any) -> str:
    """A row for each size of models: how many, what a node takes, and the most memory."""
    lines = ["| nodes | models | µs a node, median | largest memory of a process |", "|---|---|---|---|"]
    edges = [0, 100, 1000, 3000, 10_000, 30_000, 1 << 40]
    for low, high in pairwise(edges):
        part = models[(models["nodes"] >= low) & (models["nodes"] < high)]
        if len(part):
            each = 1e6 * part["seconds"] / part["nodes"].clip(lower=1)
            name = f"below {high:,}" if not low else f"{low:,} to {high:,}" if high < 1 << 40 else f"{low:,} and more"
            lines.append(f"| {name} | {len(part)} | {each.median():,.0f} | {part['peak_bytes'].max() / 1e6:,.0f} MB |")
    return "\n".join(lines)


def growth(models: Any) -> str:
    """The exponent of time over nodes for each function that was written out to several lengths."""
    kind = models["model"].str.extract(r"^(\w+)\((?:kind=)?'(\w+)', \d+(?:, (.*))?\)$")
    found = []
    for name, part in models.groupby(kind.fillna("").agg(" ".join, axis=1)):
        if name.strip() and part["nodes"].nunique() >= 3:
            slope = np.polyfit(np.log(part["nodes"]), np.log(part["seconds"]), 1)[0]
            found.append((name.split()[0], float(slope)))
    lines = ["| program | growth: median, largest |", "|---|---|"]
    for program in dict.fromkeys(name for name, _ in found):
        slopes = [slope for name, slope in found if name == program]
        lines.append(f"| `{program}` | {np.median(slopes):.2f}, {max(slopes):.2f} |")
    return "\n".join(lines) if found else ""


def write(s: Any) -> None:
    text = PAGE.read_text(encoding="utf-8")
    if BEGIN not in text or END not in text:
        sys.exit(f"{PAGE} has no place for figures: {BEGIN} and {END}")
    made = f"{BEGIN}\n{figures(s)}\n{END}"
    PAGE.write_text(re.sub(f"{BEGIN}.*{END}", lambda _: made, text, flags=re.S), encoding="utf-8")


def bodies(count: int) -> object:
    """So many rows, as pyarrow holds them."""
    pyarrow = tables.arrow()
    distinct = count // 10
    marks = [blake2b(b"%d" % number, digest_size=16).hexdigest() for number in range(distinct)]
    which = [number * 7919 % distinct for number in range(count)]
    values = {
        "model": [f"model {number // 40}" for number in range(count)],
        "fingerprint": [marks[number] for number in which],
        "coarse": [marks[number if number % 4 else number // 400] for number in which],
        "ops": ["add, layer_norm, dropout"] * count, "kind": ["reduction"] * count, "kernels": ["kernel_0"] * count, "text": [""] * count,
        "compile_s": [0.03] * count,
    }  # fmt: skip
    types = {name: getattr(pyarrow, kind)() for name, kind in tables.COLUMNS["bodies"].items()}
    return pyarrow.table({name: pyarrow.array(values.get(name, [1] * count), kind) for name, kind in types.items()})


def group(fingerprints: int) -> None:
    """Prints the processor time for a tenth, a third and all of them, and the exponent of its growth."""
    growth = Growth()
    head("fingerprints", "classes", "processor s", "exponent")
    for share in (10, 3, 1):
        count = fingerprints // share
        rows = bodies(count)
        start = time.process_time()
        classes = tables.classes_of(rows)
        spent = time.process_time() - start
        row(f"{count:,}", f"{len(classes):,}", spent, growth.at(count, spent))


def main() -> None:
    options = command(__doc__)
    options.add_argument("out", type=Path)
    options.add_argument("--models", type=int, default=200)
    options.add_argument("--processes", default="1,2")
    options.add_argument("--seconds", type=int, default=300)
    options.add_argument("--write", action="store_true")
    options.add_argument("--fingerprints", type=int)
    chosen = options.parse_args()
    if chosen.write:
        write(irs.corpus.Survey(chosen.out))
    elif chosen.fingerprints:
        group(chosen.fingerprints)
    else:
        compare(corpus(chosen.models), chosen.out, [int(count) for count in chosen.processes.split(",")], chosen.seconds)


if __name__ == "__main__":
    main()
