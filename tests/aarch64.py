"""Do the kernels compute on 64-bit Arm what they compute here? Their tests, under an emulator.

    python tests/aarch64.py [--folder ~/.cache/irscope-aarch64] [tests/codegen/numerics …]

fetches Debian's arm64 Python and wheels for it into the folder (apt-get and pip, nothing is installed) and runs pytest there
by `qemu-aarch64` (apt-get install qemu-user). Everything but the processor is real: Python, NumPy, LLVM and the C library of
arm64. Torch is not there, and the C++ compiler is that of this machine: tests that need either are left out. It takes about ten times as
long as here.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTHON = "3.11"
DEBIAN = f"""python{PYTHON}-minimal libpython{PYTHON}-minimal libpython{PYTHON}-stdlib libc6 libgcc-s1 libstdc++6 zlib1g libexpat1
    libffi8 libssl3 libbz2-1.0 liblzma5 libsqlite3-0 libuuid1 libcrypt1""".split()
"""Debian 12's names."""
WHEELS = ("numpy", "llvmlite", "pandas", "lazy-loader", "ml_dtypes", "pytest", "hypothesis")
TESTS = (
    "tests/codegen/llvm", "tests/codegen/kernel", "tests/runtime/cpu/test_emit_object.py",
    "tests/codegen/numerics/test_random.py",
)  # fmt: skip


def fetch_python(folder: Path) -> None:
    """Unpacks the packages of Debian that Python needs, by way of lists of our own."""
    for part in ("lists/partial", "cache/archives/partial", "debs"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    where = {"State::lists": "lists", "Cache": "cache"}
    options = [f"-oDir::{key}={folder / part}" for key, part in where.items()]
    options += ["-oDir::State::status=/dev/null", "-oAPT::Architecture=arm64", "-oAPT::Architectures::=arm64"]
    subprocess.run(["apt-get", "-qq", *options, "update"], check=True)
    subprocess.run(["apt-get", "-qq", *options, "download", *DEBIAN], check=True, cwd=folder / "debs")
    for package in sorted((folder / "debs").glob("*.deb")):
        subprocess.run(["dpkg", "-x", package, folder / "root"], check=True)


def fetch_wheels(folder: Path) -> None:
    """Unpacks wheels for arm64; those that need no system are the same everywhere."""
    systems = [f"--platform=manylinux_2_{version}_aarch64" for version in (17, 24, 26, 27, 28)] + ["--platform=manylinux2014_aarch64"]
    command = [sys.executable, "-m", "pip", "install", "-q", "--only-binary=:all:", f"--python-version={PYTHON}", *systems]
    subprocess.run([*command, f"--target={folder / 'packages'}", *WHEELS], check=True)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("tests", nargs="*", default=TESTS)
    options.add_argument("--folder", type=Path, default=Path.home() / ".cache" / "irscope-aarch64")
    chosen = options.parse_args()
    if missing := [tool for tool in ("qemu-aarch64", "apt-get", "dpkg") if shutil.which(tool) is None]:
        options.error(f"this needs {' and '.join(missing)}: on Debian, apt-get install qemu-user")
    folder = chosen.folder.resolve()
    if not (folder / "root").exists():
        fetch_python(folder)
    if not (folder / "packages").exists():
        fetch_wheels(folder)
    paths = os.pathsep.join([str(folder / "packages"), str(ROOT)])
    python = ["qemu-aarch64", "-L", str(folder / "root"), str(folder / "root" / "usr" / "bin" / f"python{PYTHON}")]
    command = [*python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "not cuda", *chosen.tests]
    surroundings = {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, cwd=ROOT, env=surroundings, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
