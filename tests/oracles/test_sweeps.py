"""Every op of torch, of NumPy as it is traced, of ONNX and of StableHLO, against those who define them; each sweep says what it asks."""

from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from tests.oracles import numpy_sweep as asked
from tests.oracles.counts import Counts, counted


class Sweep(NamedTuple):
    """A module that writes its counts, in a process of its own since it forks: the long run is cut into so many shares."""

    module: str
    needs: tuple[str, ...]
    shares: int
    most_refused: float
    options: tuple[str, ...] = ()

    def counts(self, folder: Path, *options: str) -> Counts:
        for name in self.needs:
            pytest.importorskip(name)
        return counted(f"tests.oracles.{self.module}", folder, *options)


TORCH: Final = ("torch", "expecttest")
ONNX: Final = ("onnx", "onnxruntime", "torch")
SWEEPS: Final = {
    "opinfo": Sweep("opinfo_run", TORCH, 10, 0.002, ("--rounds", "6")),  # forty samples of each op, and one in each other element type
    "onnx": Sweep("onnx_sweep", ONNX, 8, 0.02),
    # forms that ONNX's reference implementation does not compute are refused
    "onnx without onnxruntime": Sweep("onnx_sweep", ONNX, 8, 0.1, ("--without-onnxruntime",)),
    "stablehlo": Sweep("stablehlo_run", ("jax", "torch"), 12, 0.02),
}


@pytest.mark.parametrize(("name", "options", "most_refused", "passed"), [
    ("opinfo", "--rounds 1 --share 7/120", 0.002, 30), ("onnx", "Hardmax Sign Unique Upsample", 0.0, 100),
    ("stablehlo", "--share 17/120", 0.05, 30),
], ids=["opinfo", "onnx", "stablehlo"])  # fmt: skip
def test_a_slice(name: str, options: str, most_refused: float, passed: int, tmp_path: Path, tell: Callable[[Counts], None]) -> None:
    found = SWEEPS[name].counts(tmp_path, *options.split())
    tell(found)
    found.assert_sound(most_refused=most_refused)
    assert found.ways["passed"] > passed


@pytest.mark.long
@pytest.mark.parametrize(("name", "share"), [(name, share) for name, sweep in SWEEPS.items() for share in range(sweep.shares)])
def test_every_op(name: str, share: int, tmp_path: Path, tell: Callable[[Counts], None]) -> None:
    sweep = SWEEPS[name]
    found = sweep.counts(tmp_path, "--share", f"{share}/{sweep.shares}", *sweep.options)
    tell(found)
    found.assert_sound(most_refused=sweep.most_refused)


@pytest.mark.parametrize(("got", "want", "right"), [
    ([1.0, np.nan], [1.0, np.nan], True), ([np.nan, 1.0], [0.0, 1.0], False), ([1.0, np.inf], [1.0, -np.inf], False),
    ([1.0, 2.0], [1.0, 2.0001], False), ([1, 2], [1, 3], False), ([1, 2], [1.0, 2.0], False), ([True], [False], False),
    ([0.0], [1e-45], True), ([1 + 1j], [1 + 2j], False),
])  # fmt: skip
def test_the_comparison_of_stablehlo_itself(got: list[object], want: list[object], right: bool) -> None:
    pytest.importorskip("jax")
    from tests.oracles.stablehlo_run import differs

    single = {"float64": "float32", "complex128": "complex64"}
    one, other = (np.array(each).astype(single.get(str(np.array(each).dtype), np.array(each).dtype)) for each in (got, want))
    assert (not differs(one, other)) == right


# -- NumPy, in this process ---------------------------------------------------------------------------------------------

of_numpy = pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.0.0", reason="traced functions promote as NumPy 2 does")
quietly = pytest.mark.filterwarnings("ignore")
KINDS = {kind.__name__: kind for kind in (asked.unary, asked.numbers, asked.operators, asked.calls, asked.members)}


@of_numpy
@quietly
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "float16", "float32", "complex64"])
def test_some_functions_are_numpys(dtype: str, tell: Callable[[Counts], None]) -> None:
    found = Counts("NumPy: a slice")
    for place, kind in enumerate((*KINDS.values(), lambda first: asked.binary(first, "int64"))):
        asked.sweep(list(kind(dtype))[place :: 1 if kind is asked.unary else 53], found)
    tell(found)
    found.assert_sound(most_refused=0.01)
    assert found.ways["passed"] > 400


@of_numpy
@quietly
@pytest.mark.long
@pytest.mark.parametrize("dtype", asked.DTYPES)
@pytest.mark.parametrize("kind", [*KINDS, "binary"])
def test_every_function_is_numpys(kind: str, dtype: str, tell: Callable[[Counts], None]) -> None:
    """Of one element type, and of two."""
    found = Counts(f"NumPy: {kind}")
    for cases in [asked.binary(dtype, second) for second in asked.DTYPES] if kind == "binary" else [KINDS[kind](dtype)]:
        asked.sweep(cases, found, fused=kind != "members")  # which are the functions again
    tell(found)
    found.assert_sound(most_refused=0.0 if kind == "binary" else 0.01)
