"""Grouping fingerprints of a corpus: what a survey does after its models were looked at.

    python tests/benchmarks/bench_corpus_grouping.py [--fingerprints 1000000]

Rows as models write them, of which a tenth are distinct and three quarters of these the only one of their coarse fingerprint, are
grouped into classes by `irscope.corpus.tables.classes_of`. Prints the processor time for a tenth, a third and all of them, and the
exponent of its growth. Reading representatives back and proving merges is not in it: that is `irs.dedup`'s, in `bench_dedup.py`.
"""

from __future__ import annotations

import argparse
import sys
import time
from hashlib import blake2b
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from irscope.corpus.tables import COLUMNS, arrow, classes_of
from tests.benchmarks.harness import Growth


def bodies(count: int) -> object:
    """So many rows, as pyarrow holds them."""
    pyarrow = arrow()
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
    types = {name: getattr(pyarrow, kind)() for name, kind in COLUMNS["bodies"].items()}
    return pyarrow.table({name: pyarrow.array(values.get(name, [1] * count), kind) for name, kind in types.items()})


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--fingerprints", type=int, default=1_000_000)
    chosen = options.parse_args()
    growth = Growth()
    print("| fingerprints | classes | processor s | exponent |\n|---|---|---|---|")
    for share in (10, 3, 1):
        count = chosen.fingerprints // share
        rows = bodies(count)
        start = time.process_time()
        classes = classes_of(rows)
        spent = time.process_time() - start
        print(f"| {count:,} | {len(classes):,} | {spent:.2f} | {growth.at(count, spent):.2f} |", flush=True)


if __name__ == "__main__":
    main()
