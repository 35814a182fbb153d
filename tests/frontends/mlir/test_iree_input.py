"""Functions of JAX as IREE's compiler writes them down first (`linalg`, `tensor`, `arith`, `math`, `scf`), against `jax.jit`."""

import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.errors import ArgumentError, RunError

jax = pytest.importorskip("jax")

from tests.frontends.jax.functions import FUNCTIONS  # noqa: E402

COMPILER = shutil.which("iree-compile", path=str(Path(sys.executable).parent))
OWN = ("iree_linalg_ext",)
"""Dialects that are IREE's alone."""


def _lowered(function: Any, arguments: Any, path: Path) -> bool:
    """Write what IREE makes of a function; whether it takes it."""
    assert COMPILER is not None
    text = str(jax.jit(function).lower(*arguments).compiler_ir(dialect="stablehlo"))
    flags = ["--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=vmvx", "--iree-input-type=stablehlo"]
    command = [COMPILER, *flags, "--compile-to=input", "-", "-o", str(path)]
    return subprocess.run(command, input=text, text=True, capture_output=True, check=False).returncode == 0


def _ending(name: str, path: Path) -> str:
    function, arguments = FUNCTIONS[name]
    if not _lowered(function, arguments, path):
        return "refused by IREE"
    graph = irs.load(path)
    assert isinstance(graph, irs.Graph)
    wanted = [np.asarray(leaf) for leaf in jax.tree_util.tree_leaves(jax.jit(function)(*arguments))]
    try:
        made = irs.compile(graph)(*(np.asarray(leaf) for leaf in jax.tree_util.tree_leaves(arguments)))
    except ArgumentError:
        return "of unsigned arguments"  # MLIR's integers have no sign, and the program takes signed ones
    except RunError:
        kept = {node.op for node in graph.nodes() if node.op.partition("::")[0] not in ("aten", "prim", "prims")}
        assert kept, name
        return "with IREE's own ops" if any(op.startswith(OWN) for op in kept) else f"with {', '.join(sorted(kept))}"
    for found, want in zip(made if isinstance(made, list | tuple) else (made,), wanted, strict=True):
        np.testing.assert_allclose(np.asarray(found), want, rtol=2e-3, atol=2e-4, err_msg=name)
    return "equal"


@pytest.mark.long
@pytest.mark.skipif(COMPILER is None, reason="iree-base-compiler is not installed")
def test_functions_lowered_by_iree_equal_jit(tmp_path: Path) -> None:
    endings = {name: _ending(name, tmp_path / f"{name}.mlir") for name in FUNCTIONS}
    counts = Counter(endings.values())
    print(counts)
    others = {name: ending for name, ending in endings.items() if ending.startswith("with ") and "own" not in ending}
    assert counts["equal"] >= 75, others
