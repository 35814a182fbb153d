"""Writes the figures of a surveyed corpus into docs/corpus.md.

    python tests/benchmarks/corpus_findings.py OUT/2-1 [--page docs/corpus.md]

What stands between `<!-- figures -->` and `<!-- end of figures -->` is replaced: the table of what was found, the ladder of classes, how
the time of a model grows with its nodes, and what a process took. The words around it are for people to write, and to read again.
"""

from __future__ import annotations

import argparse
import re
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from irscope.corpus import Survey  # noqa: E402

BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"


def figures(s: Survey) -> str:
    """The tables, as Markdown."""
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
        ("bytes moved, op by op → fused",
         f"{classes['bytes_before'].sum() / 1e6:,.0f} MB → {classes['bytes_after'].sum() / 1e6:,.0f} MB"),
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


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("survey", type=Path)
    options.add_argument("--page", type=Path, default=ROOT / "docs" / "corpus.md")
    chosen = options.parse_args()
    text = chosen.page.read_text(encoding="utf-8")
    if BEGIN not in text or END not in text:
        sys.exit(f"{chosen.page} has no place for figures: {BEGIN} and {END}")
    made = f"{BEGIN}\n{figures(Survey(chosen.survey))}\n{END}"
    chosen.page.write_text(re.sub(f"{BEGIN}.*{END}", lambda _: made, text, flags=re.S), encoding="utf-8")


if __name__ == "__main__":
    main()
