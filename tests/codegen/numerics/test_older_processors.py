"""Kernels as older x86 processors run them, each in a process of its own, which a false claim of a text would end."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processors import PROCESSORS, restricted_to
from tests.work import some

pytest.importorskip("llvmlite")
pytestmark = pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="takes features from an x86 processor")

ROOT = Path(__file__).parents[3]
SLICE = (
    *(f"tests/codegen/llvm/test_reductions.py::test_every_element_type[{dtype}-256 bits]" for dtype in ("int8", "float16")),
    "tests/codegen/numerics/test_random.py::test_random_kernels_equal_numpy[0-exact]",
    *(f"tests/codegen/llvm/test_math_functions.py::test_error_stays_within_the_stated_bound[log2-{x}]" for x in ("float32", "float64")),
    *(f"tests/runtime/cpu/test_layers.py::test_convolutions_of_random_extents[{seed}]" for seed in (0, 5)),
)


@pytest.mark.parametrize("name", some(["nehalem", "haswell"], 1))
def test_a_slice_of_the_numerics(name: str) -> None:
    check(name, *SLICE)


@pytest.mark.long
@pytest.mark.parametrize("name", PROCESSORS)
def test_the_numerics(name: str) -> None:
    check(name, *(f"tests/codegen/{room}" for room in ("numerics", "llvm", "kernel")))


def check(name: str, *tests: str) -> None:
    from irscope.runtime.cpu.compiler import this_host

    host = this_host()
    if missing := PROCESSORS[name] - {feature[1:] for feature in host.features.split(",") if feature.startswith("+")}:
        pytest.skip(f"this processor lacks {', '.join(sorted(missing))}")
    assert restricted_to(host, PROCESSORS[name]).target.vector_bytes == (32 if name == "haswell" else 16)
    command = [sys.executable, "-m", "pytest", "-p", "tests.processors", "--processor", name, "-q", "-n", "0", "-x", "--no-header"]
    own = f"--deselect={Path(__file__).relative_to(ROOT)}"
    found = subprocess.run([*command, own, *tests], cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 0, f"pytest on {name} ended with {found.returncode}\n{found.stdout[-4000:]}\n{found.stderr[-2000:]}"
