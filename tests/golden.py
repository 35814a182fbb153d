"""Golden outputs: everything that irscope shows of a set of programs, in files, to compare two states of the code.

    python tests/golden.py write FOLDER       before a change that should change nothing
    python tests/golden.py compare FOLDER     after it: the outputs that differ, with their first different lines

Of each program: its text and that of its fusion, remarks, steps, the tables of the analyses, fingerprints by each relation, the texts of
its kernels for this processor and for a GPU, and the view model of its explorer, which reports and saved notebooks are made of. The
programs are the case files, random programs, and models of transformers with random weights where it is installed. Ids are numbered by
their first occurrence, and measured times are left out, so that equal outputs are equal files.
"""

import difflib
import itertools
import json
import random
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import irscope.ir.core

_FIRST_ID = 10**15
irscope.ir.core.new_id = itertools.count(_FIRST_ID).__next__  # before others take it: ids are told from other numbers

import irscope as irs  # noqa: E402
from irscope.ir import Graph, Module  # noqa: E402
from irscope.report.pages import Exploration  # noqa: E402
from irscope.report.pages.parts import explorer_view  # noqa: E402
from irscope.transforms.dedup import RELATIONS  # noqa: E402

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
RANDOM_PROGRAMS = 40
_MEASURED = ("seconds",)
"""Keys of view models whose values are times of this run."""


def programs() -> Iterator[tuple[str, Callable[[], Any]]]:
    from tests.conftest import read_sections
    from tests.random_programs.graphs import random_program

    for path in sorted(path for folder in ("alias", "fusion", "passes") for path in (ROOT / "tests/cases" / folder).glob("*.ir")):
        text = read_sections(path.read_text(encoding="utf-8")).get("input", "")
        yield f"cases/{path.parent.name}/{path.stem}", lambda text=text: irs.load(text)
    for seed in range(RANDOM_PROGRAMS):
        yield f"random/{seed}", lambda seed=seed: irs.parse(random_program(seed).with_types().text)
    yield from _models()


def _models() -> Iterator[tuple[str, Callable[[], Any]]]:
    try:
        import torch
        import transformers
    except ImportError:
        return
    ids = torch.arange(16)[None]
    configs = {
        "gpt2": (transformers.GPT2Config(n_layer=2, n_embd=32, n_head=2, vocab_size=64, use_cache=False), transformers.GPT2Model, ids),
        "bert": (
            transformers.BertConfig(num_hidden_layers=2, hidden_size=32, num_attention_heads=2, intermediate_size=64, vocab_size=64),
            transformers.BertModel, ids,
        ),
        "convnext": (
            transformers.ConvNextConfig(hidden_sizes=[8, 16, 16, 16], depths=[1, 1, 2, 1]),
            transformers.ConvNextModel, torch.linspace(-1, 1, 3 * 32 * 32).reshape(1, 3, 32, 32),
        ),
    }  # fmt: skip
    for name, (config, model, argument) in configs.items():
        yield f"models/{name}", lambda config=config, model=model, argument=argument: irs.load(model(config).eval(), argument)


def outputs(source: Any) -> Iterator[tuple[str, str]]:
    """The name and text of each output of a program."""
    yield "text", str(source)
    graphs = source.graphs if isinstance(source, Module) else {"": source}
    for name, graph in graphs.items():
        yield from ((f"{name}.{what}".strip("."), text) for what, text in _of_graph(graph))


def _of_graph(graph: Graph) -> Iterator[tuple[str, str]]:
    fusion = irs.fuse(graph)
    yield "fused", str(fusion.graph)
    yield "remarks", "\n".join(map(str, fusion.remarks))
    yield "steps", "\n".join(f"{step.pass_name} {step.rule}: {step.because} ({step.bytes_saved})" for step in fusion.history.steps)
    yield "groups", fusion.table().to_csv()
    yield "alias", irs.AliasDb(graph).table().to_csv()
    yield "views", irs.ViewAliases(graph).table().to_csv()
    yield "memory", irs.memory_plan(fusion).table().to_csv()
    yield "dedup", "\n".join(_fingerprints(fusion))
    yield "kernels", "\n".join(_kernels(fusion))
    yield "view", json.dumps(_plain(explorer_view(Exploration(fusion), details=True)), indent=1, ensure_ascii=False)


def _fingerprints(fusion: irs.Fusion) -> Iterator[str]:
    for relation in RELATIONS:
        found = irs.dedup(fusion, relation=relation)
        yield from (f"{relation} {cls.index}: {', '.join(found.piece(member).label for member in cls.members)}" for cls in found.classes)
        yield from (f"{relation} {cls.index}: {cls.fingerprint}" for cls in found.classes)


def _kernels(fusion: irs.Fusion) -> Iterator[str]:
    for device in ("cpu", "cuda"):
        run = irs.compile(fusion, device=device, freeze=False)
        yield from (f"{device} {k}: {kernel.spec}\n{kernel.source}" for k, kernel in enumerate(run.kernels))


def _plain(view: Any) -> Any:
    """A view without measured times."""
    if isinstance(view, dict):
        return {key: None if key in _MEASURED else _plain(item) for key, item in view.items()}
    return [_plain(item) for item in view] if isinstance(view, list | tuple) else view


def numbered(text: str) -> str:
    """The text with ids numbered by their first occurrence, and without the path of this checkout."""
    numbers: dict[str, str] = {}
    return re.sub(r"\b1\d{15}\b", lambda found: numbers.setdefault(found[0], f"#{len(numbers)}"), text.replace(f"{ROOT}/", ""))


def write(folder: Path) -> int:
    """Writes all outputs, and deletes those of programs that are gone; an error is an output, too. Returns how many there are."""
    made: set[Path] = set()
    for name, load in programs():
        random.seed(0)
        found: list[tuple[str, str]] = []
        try:
            found.extend(outputs(load()))
        except irs.IrscopeError as error:
            found.append(("error", f"{type(error).__name__}: {error}"))
        for what, text in found:
            path = folder / name / f"{what}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(numbered(text), encoding="utf-8", errors="backslashreplace")
            made.add(path)
        print(f"{name}: {len(found)} outputs", flush=True)
    for path in set(folder.glob("*/**/*.txt")) - made:
        path.unlink()
    return len(made)


def compare(before: Path, after: Path) -> int:
    """Prints the outputs that differ. Returns how many do."""
    names = sorted({path.relative_to(folder) for folder in (before, after) for path in folder.rglob("*.txt")})
    different = 0
    for name in names:
        texts = [(folder / name).read_text(encoding="utf-8") if (folder / name).exists() else "" for folder in (before, after)]
        if texts[0] != texts[1]:
            different += 1
            print(f"--- {name}")
            print("\n".join(itertools.islice(difflib.unified_diff(*(text.splitlines() for text in texts), lineterm="", n=0), 2, 14)))
    print(f"{different} of {len(names)} outputs differ")
    return different


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("write", "compare"):
        sys.exit(__doc__)
    if sys.argv[1] == "write":
        print(f"{write(Path(sys.argv[2]))} outputs")
    else:
        with tempfile.TemporaryDirectory() as made:
            write(Path(made))
            sys.exit(bool(compare(Path(sys.argv[2]), Path(made))))
