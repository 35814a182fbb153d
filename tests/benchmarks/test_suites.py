"""Suites: every competitor of a case computes the same, and the commands measure, print, and write what they measured."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.runtime.reference import run_reference
from tests.benchmarks import kernel_suite
from tests.benchmarks.gpu_suite import dry_run
from tests.benchmarks.kernel_cases import CASES, Case
from tests.benchmarks.kernel_suite import PEERS, peers_of

NAMES = [case.name for case in CASES]


def operands(case: Case, size: int = 5000) -> list[Any]:
    numbers = np.random.default_rng(1)
    return [numbers.standard_normal(shape).astype(np.float32) for shape in case.shapes(size)]


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_a_case_is_one_kernel_that_computes_its_program(case: Case) -> None:
    pytest.importorskip("llvmlite")
    arrays = operands(case)
    (truth,) = run_reference(irs.load(case.text, *arrays), *arrays, precision="float64")
    run = irs.compile(irs.load(case.group_text, *arrays))
    np.testing.assert_allclose(run(*arrays), truth, rtol=2e-5, atol=2e-5 * np.abs(truth).max())
    assert not run.remarks
    assert len(run.kernels) in (1, 2), "a sum over everything may have a second kernel"


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_competitors_compute_the_same(case: Case, torch: Any) -> None:
    arrays = operands(case)
    (truth,) = run_reference(irs.load(case.text, *arrays), *arrays, precision="float64")
    tensors = [torch.from_numpy(array) for array in arrays]
    found, missing = peers_of(case, tensors, ("eager", "jax.jit", "numexpr"), 1)
    assert "eager" in found and set(found) | {name for name, _ in missing} == {"eager", "jax.jit", "numexpr"}
    assert all(reason for _, reason in missing)
    for rival in found.values():
        np.testing.assert_allclose(np.asarray(rival(*tensors)), truth, rtol=2e-5, atol=2e-5 * np.abs(truth).max())
    if case.cupy is not None:
        np.testing.assert_allclose(case.cupy(np)(*arrays), truth, rtol=2e-5, atol=2e-5 * np.abs(truth).max())


def test_a_library_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing_module(name: str) -> None:
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr(kernel_suite, "import_module", missing_module)
    found, missing = peers_of(CASES[0], [], PEERS, 1)
    assert not found
    assert dict(missing)["jax.jit"] == "jax is not installed"
    assert dict(missing)["torch.compile"] == "torch is not installed"


def test_the_command_measures_and_writes(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "out.json"
    kernel_suite.main(["--quick", "--threads", "1", "--cases", "k2", "--peers", "eager", "--json", str(output)])
    printed = capfd.readouterr()
    assert "k2 1e+03 on 1 thread\n" in printed.err and "their time / ours" in printed.out
    assert printed.out.count("k2 1e+03 on 1 thread ") == printed.out.count("k2 1e+06 on 1 thread ") == 1
    assert all(title in printed.out for title in ("quartiles", "of copy", "compile", "launched", "error"))
    assert "a call of the kernel alone takes" in printed.out
    found = json.loads(output.read_text())
    assert [run["size"] for run in found["runs"]] == [1000, 1_000_000]
    assert found["machine"]["cores"] >= 1
    for run in found["runs"]:
        rows = {row["label"]: row for row in run["rows"]}
        assert set(rows) <= {"fused", "eager"} and rows["fused"]["error"] < 1e-6
        assert 0 < rows["fused"]["best"] <= rows["fused"]["median"] and rows["fused"]["copy_fraction"] > 0
    assert found["runs"][0]["kernel_call_us"] > 0


def test_a_dry_run_generates_every_kernel() -> None:
    said: list[str] = []
    found = dry_run(["k1", "k3"], said.append)
    assert [(run["case"], run["dtype"]) for run in found["runs"]] == [
        (case, dtype) for case in ("k1", "k3") for dtype in ("float32", "bfloat16")
    ]
    assert all(run["lines"] > 20 and not run.get("error") for run in found["runs"])
    assert said[0].startswith("4 kernels generated")
