"""Do the extras resolve, with the lowest versions that they allow and with the newest?

    python tests/extras.py [--python 3.11] [cpu lab …]

asks `uv pip compile` (pip install uv) for each extra of pyproject.toml and prints a line for each; the exit status says whether all did.
Nothing is installed: only what packages say of themselves is read.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
WAYS = {"lowest": "lowest-direct", "newest": "highest"}


def extras() -> list[str]:
    """The names, that of no extra first."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return ["", *project["optional-dependencies"]]


def resolved(extra: str, way: str, python: str) -> tuple[int, str]:
    """How many packages that makes, and what is wrong with it."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "-q", "--no-header", "--no-annotate", "--python-version", python]
    command += ["--resolution", WAYS[way], *(["--extra", extra] if extra else []), "pyproject.toml"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return len(done.stdout.splitlines()), done.stderr.strip() if done.returncode else ""


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("extras", nargs="*", default=extras())
    options.add_argument("--python", default="3.11")
    chosen = options.parse_args()
    if importlib.util.find_spec("uv") is None:
        options.error("uv is not installed: pip install uv")
    failed = 0
    for extra in chosen.extras:
        for way in WAYS:
            count, wrong = resolved(extra, way, chosen.python)
            failed += bool(wrong)
            print(f"{extra or 'no extra':10} {way:7} {wrong or f'{count} packages'}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
