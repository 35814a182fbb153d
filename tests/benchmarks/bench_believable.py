"""Are times those of a quiet machine? The README's cells, notebooks 04 and 10 and `irscope profile`, alone and beside busy programs.

    python tests/benchmarks/bench_believable.py [--only README,04,10,terminal] [--busy 2] [--rounds 1]

Everything that measures in them is run in a process of its own: alone, and then while as many other processes as there are
processors compute. A pair is believable if it names the same winner (or one of those that it does not tell apart) and the same
slowest line first, and no ratio is off by more than 1.5, where both give one. Run it on a quiet machine: what is measured
"alone" says whether it was.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from argparse import SUPPRESS
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.benchmarks.harness import ROOT, command, in_a_process

MOST = 1.5
EQUAL = 0.85
"""Lines that take this part of the slowest one's time are as slow."""
SLOW = """import torch


class Neighbours(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(64, 64)

    def forward(self, x):
        apart = (x[:, None, :] - x[None, :, :]).pow(2).sum(-1)
        near = torch.softmax(-apart, -1)
        copied = x.transpose(0, 1).contiguous().transpose(0, 1)
        return torch.relu(self.inner(near @ copied))
"""
RATIO = re.compile(r"([\d,.]+)× as fast")


def main() -> None:
    parser = command(__doc__)
    parser.add_argument("--only", default="README,04,10,terminal")
    parser.add_argument("--busy", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--run", help=SUPPRESS)
    options = parser.parse_args()
    if options.run:
        print(json.dumps(measured(options.run)))
        return
    wrong = 0
    for where in options.only.split(","):
        for _ in range(options.rounds):
            alone = in_a_process(__file__, "--run", where)
            others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(options.busy)]
            try:
                beside = in_a_process(__file__, "--run", where)
            finally:
                for other in others:
                    other.kill()
                    other.wait()
            for one, two in zip(alone, beside, strict=True):
                found = list(differences(one, two))
                wrong += len(found)
                print(f"{where:9}{one['what']:10}{'; '.join(found) or 'same'}", flush=True)
                print(f"{'':11}alone:  {one['text']}\n{'':11}beside: {two['text']}")
    print(f"{wrong} differences")
    sys.exit(wrong > 0)


def differences(one: dict[str, Any], two: dict[str, Any]) -> Iterator[str]:
    """Yields in words what two measurements of one cell say differently."""
    if not {*one["winners"]} & {*two["winners"]}:
        yield f"the winner was {one['winners']}, and is {two['winners']}"
    if one["first"] != two["first"] and not {*one["first"]} & {*two["first"]}:
        yield f"first was {one['first']}, and is {two['first']}"
    for label in {*one["ratios"]} & {*two["ratios"]}:
        off = one["ratios"][label] / two["ratios"][label]
        if not 1 / MOST <= off <= MOST:
            yield f"{label} was {one['ratios'][label]} times as fast, and is {two['ratios'][label]}"


def measured(where: str) -> list[dict[str, Any]]:
    """Runs the cells, and returns what each comparison and profile says."""
    import irscope as irs
    import irscope.session as session

    found: list[dict[str, Any]] = []
    compare, profile = session.compare, session.profile

    def compared(*args: Any, **options: Any) -> Any:
        made = compare(*args, **options)
        found.append(of_comparison(made))
        return made

    def profiled(*args: Any, **options: Any) -> Any:
        made = profile(*args, **options)
        found.append(of_profile(made))
        return made

    irs.compare, irs.profile = compared, profiled  # type: ignore[assignment]
    with redirect_stdout(StringIO()), tempfile.TemporaryDirectory() as folder:
        if where == "terminal":
            from irscope.cli import main as irscope

            (Path(folder) / "slowmodel.py").write_text(SLOW)
            irscope(["profile", f"{folder}/slowmodel.py:Neighbours", "--args", "float32[384,64]"])
            return found
        names: dict[str, Any] = {"__name__": "__main__"}
        for number, cell in enumerate(cells(where)):
            path = Path(folder) / f"cell{number}.py"  # torch.jit.script reads its functions' source
            path.write_text(cell)
            exec(compile(cell, str(path), "exec"), names)
    return found


def cells(where: str) -> Iterator[str]:
    """Yields the cells of the short sessions that measure, or all cells of a notebook."""
    if where == "README":
        for cell in re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "sessions.md").read_text(), re.DOTALL):
            if "irs.compare(" in cell or "irs.profile(" in cell:
                yield cell
        return
    (path,) = (ROOT / "notebooks").glob(f"{where}_*.ipynb")
    for cell in json.loads(path.read_text())["cells"]:
        if cell["cell_type"] == "code":
            yield "".join(cell["source"])


def of_comparison(made: Any) -> dict[str, Any]:
    best = min(made.rows, key=lambda row: row.median)
    return {
        "what": "compare", "first": [], "winners": [row.label for row in made.rows if row.spread.against(best.spread) == "the same"],
        "ratios": ratios((row.label, row.note) for row in made.rows),
        "text": ", ".join(f"{row.label} {row.median:.3g} ms {row.note}".rstrip() for row in made.rows),
    }  # fmt: skip


def of_profile(made: Any) -> dict[str, Any]:
    lines = made.table("line", way="op by op")
    words = made.verdict()
    return {
        "what": "profile", "first": [Path(str(line)).name for line in lines["line"][lines["ms"] > EQUAL * lines["ms"].max()]],
        "winners": sorted(made.ways) if "no difference" in words or "noisy" in words else [
            min(made.ways, key=lambda way: made.total(way).median)
        ],
        "ratios": ratios([("fused", words)]), "text": words,
    }  # fmt: skip


def ratios(notes: Any) -> dict[str, float]:
    return {label: float(match[1].replace(",", "")) for label, note in notes if (match := RATIO.search(note))}


if __name__ == "__main__":
    main()
