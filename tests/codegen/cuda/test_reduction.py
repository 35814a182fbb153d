"""The CUDA text of reductions, views and joins equals torch in every layout, run by the emulator behind the real
launcher: rows of a few lanes, a warp, a block, and longer than registers; columns; launches cut into parts.
"""

from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from irscope.ir.types import TensorType
from irscope.runtime.cuda.device import CudaDevice
from tests.codegen import kernels as groups
from tests.codegen.cuda_emulator import AVAILABLE, EmulatedGpu, emulated_device
from tests.codegen.kernels import Array, call
from tests.codegen.lowering import test_views as test_views_in_groups
from tests.codegen.numerics import test_reductions
from tests.codegen.numerics.test_random import check_reductions
from tests.codegen.numerics.test_reductions import LAYOUTS, NORMALISATIONS, OPS, PAIRS, both, check, dims, normal
from tests.work import blocks, long, some

pytestmark = [
    pytest.mark.filterwarnings("ignore:var\\(\\)"),
    pytest.mark.skipif(not AVAILABLE, reason="g++ is not installed; it plays the GPU in this test"),
]
torch = pytest.importorskip("torch")
F = torch.nn.functional


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> CudaDevice:
    return emulated_device(tmp_path_factory.mktemp("emulated"))


@pytest.fixture(autouse=True)
def aligned_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results start at multiples of 64 bytes, as they do on a GPU, so that vectors can be used."""
    plain = groups.guarded

    def guarded(type: TensorType, *, guard: int = 256) -> tuple[Array, Array]:
        memory, array = plain(type, guard=guard + 64)
        start = guard - memory[guard:].ctypes.data % 64 + 64
        return memory, np.ndarray(array.shape, array.dtype, memory, start, array.strides)

    monkeypatch.setattr(groups, "guarded", guarded)


def launches(device: CudaDevice) -> list[tuple[str, tuple[int, int], int, int]]:
    """Entry, grid, block and stream of what was launched since `entries` was asked."""
    gpu = device._gpu
    assert isinstance(gpu, EmulatedGpu)
    return gpu.launched


def entries(device: CudaDevice) -> list[str]:
    gpu = device._gpu
    assert isinstance(gpu, EmulatedGpu)
    names = [name for name, *_ in gpu.launched]
    gpu.launched.clear()
    return names


# -- reductions -------------------------------------------------------------------------------------------------------

SHAPES = [(2, 70, 33), (1, 1, 1), (4, 1, 132), (24, 8, 40)]


@pytest.mark.parametrize("op", ["sum", "amax", "var", "logsumexp"])
def test_reductions_equal_torch(device: CudaDevice, op: str) -> None:
    body, eager = OPS[op]
    layout = list(LAYOUTS)[list(OPS).index(op) % len(LAYOUTS)]
    for number, (shape, dim) in enumerate(product(SHAPES, test_reductions.DIMS)):
        bound = {"d": dims(dim), "k": number % 3 == 0}
        check(device, partial(body, **bound), partial(eager, **bound), LAYOUTS[layout](normal(*shape)))


@pytest.mark.long
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_reductions_equal_torch_in_every_layout(device: CudaDevice, op: str, layout: str) -> None:
    test_reductions.test_reductions_equal_torch(device, op, layout)


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int64", "int8", "bool"])
def test_every_element_type(device: CudaDevice, dtype: str) -> None:
    test_reductions.test_every_element_type_reduces_as_in_torch(device, dtype, "contiguous")


@pytest.mark.long
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "expanded"])
@pytest.mark.parametrize("dtype", test_reductions.DTYPES)
def test_every_element_type_in_every_layout(device: CudaDevice, dtype: str, layout: str) -> None:
    test_reductions.test_every_element_type_reduces_as_in_torch(device, dtype, layout)


def test_positions(device: CudaDevice) -> None:
    test_reductions.test_nan_wins_and_its_first_place_is_named(device)
    body, eager = PAIRS["max"]
    for shape, layout in product([(3, 72), (72, 4), (1, 9), (2, 3000)], ("contiguous", "sliced")):
        x = LAYOUTS[layout](np.random.default_rng(1).integers(-3, 3, shape).astype(np.float32))
        for dim in (0, -1):
            check(device, partial(body, d=dim), partial(eager, d=dim), x)


def test_nothing_to_gather(device: CudaDevice) -> None:
    test_reductions.test_nothing_to_gather(device)


@pytest.mark.parametrize("op", NORMALISATIONS)
def test_normalisations_equal_torch(device: CudaDevice, op: str) -> None:
    body, eager = NORMALISATIONS[op]
    layouts = ("contiguous", "transposed") if op == "softmax" else ("sliced",)
    for layout, shape, dim in product(layouts, [(5, 7, 33), (2, 130, 33)], (0, 1, -1)):
        check(device, partial(body, d=dim), partial(eager, d=dim), LAYOUTS[layout](normal(*shape)), rtol=4e-6)


def test_layer_norm_and_several_results(device: CudaDevice) -> None:
    test_reductions.test_layer_norm_with_statistics_and_weights(device)
    test_reductions.test_prologue_epilogue_and_several_results_share_a_launch(device)
    test_reductions.test_a_reduction_of_something_broadcast_counts_every_repetition(device)


# -- every way to lay rows over threads -------------------------------------------------------------------------------

LENGTHS = {
    4: "t1hw", 16: "t4hw", 100: "t32h", 128: "t32hw", 1024: "t32hw", 1028: "t128h", 4096: "t256hw", 10_000: "t1024h",
    16_384: "t1024hw", 20_000: "t512",
}  # fmt: skip


@pytest.mark.parametrize("length", LENGTHS)
def test_rows_of_every_length(device: CudaDevice, length: int, tmp_path: Path) -> None:
    """Softmax of rows that are a few lanes', a warp's, a block's, and longer than its registers; aligned and not."""
    body, eager = NORMALISATIONS["softmax"]
    busy = emulated_device(tmp_path, multiprocessors=0)  # where none is idle, as few threads as can be share a row
    for rows in (1, 5):
        x = normal(rows, length)
        check(busy, partial(body, d=-1), partial(eager, d=-1), x, rtol=4e-6)
        (name,) = entries(busy)
        assert name.split("_")[2].endswith(LENGTHS[length])
        assert name.endswith("_vector")
        for each in (x, x.astype(np.float64)):
            check(device, partial(body, d=-1), partial(eager, d=-1), each, rtol=4e-6)
    entries(device)
    odd = normal(3, length + 1)[:, 1:]
    check(device, partial(body, d=-1), partial(eager, d=-1), odd, rtol=4e-6)
    assert not any(name.endswith("_vector") for name in entries(device))


def test_columns_with_and_without_vectors(device: CudaDevice) -> None:
    for shape in [(200, 64), (200, 5), (3, 1000), (7, 12, 8), (33, 1, 4)]:
        for name in ("sum", "var"):
            body, eager = OPS[name]
            check(device, partial(body, d=[0], k=False), partial(eager, d=[0], k=False), normal(*shape))
        body, eager = NORMALISATIONS["softmax"]
        check(device, partial(body, d=0), partial(eager, d=0), normal(*shape), rtol=4e-6)
    assert any(name.endswith("_vector") and "_c4" in name for name in entries(device))
    body, eager = NORMALISATIONS["softmax"]
    for shape in [(50, 9, 3), (37, 5, 4), (3, 40, 1)]:
        check(device, partial(body, d=1), partial(eager, d=1), normal(*shape), rtol=4e-6)
    assert all(block >= 128 for _, _, block, _ in launches(device)), "several tiles of few columns share a block"


# -- cut into parts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(100_000,), (100_003,), (40_000, 3), (2, 50_000), (3, 9_000, 4)])
def test_long_reductions_are_cut_and_give_the_same_bits_every_time(device: CudaDevice, shape: tuple[int, ...]) -> None:
    x = normal(*shape)
    for dim in ([0], [-1]):
        for name in ("sum", "amax", "var"):
            body, eager = OPS[name]
            check(device, partial(body, d=dim, k=False), partial(eager, d=dim, k=False), x, rtol=4e-6)
    body, eager = NORMALISATIONS["softmax"]
    check(device, partial(body, d=-1), partial(eager, d=-1), x, rtol=4e-6)
    long = max(shape) == shape[0]
    if long:
        assert any("p" in name.split("_")[2] for name in entries(device)), "some launch was partial"


def test_what_is_written_once_is_computed_where_the_parts_are_gathered(device: CudaDevice) -> None:
    """With operands that only the kept loops step through, a reduction of a reduction, and results at every point."""

    def body(b: Any, x: Any, w: Any) -> Any:
        total = call(b, "mul", call(b, "sum", x, [1], False, None), w)
        spread = call(b, "add", call(b, "var", x, [1], 1, False), w, 1)
        place = call(b, "argmax", x, 1, False)
        return [total, spread, place, call(b, "logsumexp", x, [1], False)]

    def eager(x: Any, w: Any) -> Any:
        return x.sum(1) * w, x.var(1) + w, x.argmax(1), torch.logsumexp(x, 1)

    x, w = normal(2, 60_000), normal(2)
    entries(device)
    check(device, body, eager, x, w, rtol=4e-6)
    partial_of = [name.split("_")[2] for name in entries(device)]
    assert sum("p" in code for code in partial_of) == 2, "two passes"
    assert len(partial_of) == 4, "each is gathered by one launch, and nothing else is launched"

    def whole(b: Any, x: Any, w: Any) -> Any:
        total = call(b, "sum", x, [1], True, None)
        return [call(b, "squeeze", total, 1), call(b, "div", x, total)]

    check(device, whole, lambda x, w: (x.sum(1), x / x.sum(1, keepdim=True)), x * 0 + 1, w, rtol=4e-6)


def test_the_place_of_the_largest_in_a_long_row(device: CudaDevice) -> None:
    x = np.random.default_rng(2).integers(-50, 50, 80_000).astype(np.float32)
    check(device, lambda b, x: call(b, "argmax", x, None, False), torch.argmax, x)
    check(device, lambda b, x: call(b, "argmin", x, None, False), torch.argmin, x)
    check(device, lambda b, x: both(b, "aten::max", x, 0), lambda x: tuple(torch.max(x, 0)), x.reshape(-1, 2))
    assert any("p" in name.split("_")[2] for name in entries(device))


def test_a_long_sum_is_nearly_exact(device: CudaDevice) -> None:
    x = np.random.default_rng(0).random(2_000_000, np.float32)
    check(device, lambda b, x: call(b, "sum", x, None), torch.sum, x, rtol=3e-7)


# -- views and joins --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", test_views_in_groups.SEEN)
def test_views(device: CudaDevice, name: str) -> None:
    test_views_in_groups.test_a_view_of_an_input_and_of_a_computed_value(device, name)


def test_joins(device: CudaDevice) -> None:
    test_views_in_groups.test_a_join_takes_the_common_type_and_skips_what_is_empty(device)


# -- random groups ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seeds", [*some(blocks(0, 2, 12), 1), *long(blocks(400, 50, 12))], ids=str)
def test_random_groups(device: CudaDevice, seeds: range) -> None:
    assert sum(check_reductions(device, seed) for seed in seeds) >= (8 if seeds.start < 400 else 0)


# -- what the schedule promises ---------------------------------------------------------------------------------------


def test_every_warp_reaches_its_shuffles_when_rows_end_inside_a_block(device: CudaDevice) -> None:
    """The emulator ends a run in which a warp waits for a thread that has left."""
    body, eager = OPS["sum"]
    for rows, length in product((1, 2, 3, 33), (3, 20, 300)):
        check(device, partial(body, d=[1], k=False), partial(eager, d=[1], k=False), normal(rows, length))
