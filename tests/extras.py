"""Do the extras resolve, with the lowest versions that they allow and with the newest? Do they work with the lowest?

    python tests/extras.py [--python 3.11] [cpu lab …]
    python tests/extras.py --run [cpu onnx …] [-- tests/ir -q …]

asks `uv pip compile` (pip install uv) for each extra of pyproject.toml and prints a line for each; the exit status says whether all did.
Nothing is installed: only what packages say of themselves is read. With `--run`, the lowest versions of the extras (`cpu` without any)
are installed into a folder of their own, and the tests run with them that need no torch, or those after `--`.
"""

import argparse
import importlib.util
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
WAYS = {"lowest": "lowest-direct", "newest": "highest"}
TOOLS = ["pytest>=8.2", "pytest-xdist>=3.6", "hypothesis>=6.100", "expecttest>=0.2"]
TESTS = ["-q", "-n", "2", "--doctest-ignore-import-errors", "-m", "not long and not browser and not cuda", "tests", "irscope"]


def extras() -> list[str]:
    """The names, that of no extra first."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return ["", *project["optional-dependencies"]]


def resolved(extras: list[str], way: str, python: str) -> tuple[list[str], str]:
    """The packages that makes, and what is wrong with it."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "-q", "--no-header", "--no-annotate", "--python-version", python]
    command += ["--resolution", WAYS[way], *(part for extra in extras if extra for part in ("--extra", extra)), "pyproject.toml"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.splitlines(), done.stderr.strip() if done.returncode else ""


def run_with_lowest(extras: list[str], python: str, tests: list[str]) -> int:
    """Runs tests where nothing is installed but the lowest versions of some extras, and what the tests themselves import."""
    packages, wrong = resolved(extras, "lowest", python)
    if wrong:
        print(wrong)
        return 1
    print(" ".join(packages), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        own = str(Path(folder, "bin", "python"))
        uv = [sys.executable, "-m", "uv"]
        subprocess.run([*uv, "venv", "-q", "--python", python, folder], check=True)
        subprocess.run([*uv, "pip", "install", "-q", "--python", own, *packages, *TOOLS], check=True)
        return subprocess.run([own, "-m", "pytest", "-p", "no:cacheprovider", *tests], cwd=ROOT, check=False).returncode


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("extras", nargs="*")
    options.add_argument("--python", default="3.11")
    options.add_argument("--run", action="store_true", help="run tests with the lowest versions")
    given = sys.argv[1:]
    cut = given.index("--") if "--" in given else len(given)
    chosen, tests = options.parse_args(given[:cut]), given[cut + 1 :]
    if importlib.util.find_spec("uv") is None:
        options.error("uv is not installed: pip install uv")
    if chosen.run:
        return run_with_lowest(chosen.extras or ["cpu"], chosen.python, tests or TESTS)
    failed = 0
    for extra in chosen.extras or extras():
        for way in WAYS:
            packages, wrong = resolved([extra], way, chosen.python)
            failed += bool(wrong)
            print(f"{extra or 'no extra':10} {way:7} {wrong or f'{len(packages)} packages'}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
