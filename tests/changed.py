"""Prints the tests of what changed since a commit: changed tests, docstrings of changed modules, tests of their rooms.

    python tests/changed.py [main]

A module's tests are in the folder of `tests/` that mirrors its own. What other rooms notice is for `make test`.
"""

import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def changed_files(since: str) -> list[str]:
    """Files that differ from where this branch left `since`, and those that are not tracked yet."""
    base = _git("merge-base", since, "HEAD") or ["HEAD"]
    return [*_git("diff", "--name-only", "--diff-filter=d", base[0]), *_git("ls-files", "--others", "--exclude-standard")]


def selection_of(files: Iterable[str]) -> Iterator[str]:
    """What pytest is given for them."""
    for file in files:
        path = Path(file)
        if path.suffix == ".ir" and path.parts[:2] == ("tests", "cases"):
            yield file
        elif path.parts[0] == "tests" and path.suffix == ".py":
            own = path if path.name.startswith("test_") else path.with_name(f"test_{path.name}")
            if (ROOT / own).exists():
                yield str(own)
        elif path.parts[0] == "irscope" and path.suffix in (".py", ".pyi"):
            if path.suffix == ".py":
                yield file
            mirror = Path("tests", *path.parts[1:-1])
            if len(path.parts) > 2 and (ROOT / mirror).exists():
                yield str(mirror)
        elif path.parts[0] == "widgets":
            yield "tests/widgets"
        elif file == "README.md":
            yield "tests/test_readme.py"


def _git(*words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.split("\n")[:-1] if done.returncode == 0 else []


if __name__ == "__main__":
    print(*sorted(set(selection_of(changed_files(sys.argv[1] if len(sys.argv) > 1 else "main")))))
