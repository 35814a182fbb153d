"""CUDA text: run as plain C++ it equals NumPy, with and without vectors; it names its nodes; NVRTC, where it is,
accepts it.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from irscope.codegen.cuda.emit import emit_cuda
from irscope.codegen.cuda.schedule import schedule_of, stride_arguments, vector_lanes
from irscope.codegen.facts import code_sizes, cuda_facts
from irscope.codegen.kernel.spec import LaunchPlan
from irscope.errors import ArgumentError
from irscope.ops.expr.expression import call, cast, input_element
from irscope.runtime.cuda.device import CudaDevice
from irscope.runtime.cuda.launch import laid_out as step_of
from irscope.runtime.device.kernel_cache import ObjectStore
from tests.codegen.cuda_emulator import AVAILABLE, EmulatedPlan, emulated_device
from tests.codegen.kernels import FLOATS, INTEGERS, LAYOUTS, check_exprs, expected, from_words, laid_out, plan_of, same, sample
from tests.codegen.llvm.test_emit import exprs_of, float_exprs, integer_exprs

needs_compiler = pytest.mark.skipif(not AVAILABLE, reason="g++ is not installed; it plays the GPU in this test")

DTYPES = (*FLOATS, *INTEGERS, "bool")
SHAPE = (5, 40)


@needs_compiler
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_op_on_every_type(dtype: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    layout = LAYOUTS[1 + DTYPES.index(dtype) % (len(LAYOUTS) - 1)]
    operands = [laid_out(sample(dtype, SHAPE, rng), layout, SHAPE), laid_out(sample(dtype, SHAPE, rng), "dense", SHAPE)]
    check_exprs(lambda plan: EmulatedPlan(plan, tmp_path, vector=False), exprs_of(dtype), operands, [dtype] * 2, SHAPE)


@needs_compiler
@pytest.mark.parametrize(("dtype", "layout"), [("float32", "dense"), ("float16", "row"), ("bfloat16", "column"), ("int8", "dense")])
def test_vectors_give_what_single_elements_give(dtype: str, layout: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    exprs = float_exprs(dtype)[:6] if dtype in FLOATS else integer_exprs(dtype)[:6]
    for shape in ((4, 64), (1, 1003), (1, 7)):
        operands = [np.broadcast_to(aligned(laid_out(sample(dtype, shape, rng), layout, shape)), shape) for _ in range(2)]
        plan = plan_of(exprs, operands, [dtype] * 2, shape)
        emulated = EmulatedPlan(plan, tmp_path, vector=True)
        outputs = [aligned(np.zeros(shape, operands[0].dtype)) for _ in exprs]
        emulated([array.ctypes.data for array in outputs], [array.ctypes.data for array in operands])
        assert emulated.used_vectors == 1
        for expr, got, want in zip(exprs, outputs, expected(exprs, operands, [dtype] * 2, shape), strict=True):
            same(from_words(got, expr.dtype), want, f"{expr} at {shape}")


def aligned(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array at an address that is a multiple of 16, with its broadcast dimensions kept."""
    kept = array[tuple(slice(None) if step else slice(0, 1) for step in array.strides)]
    memory = np.zeros(kept.nbytes + 16, np.uint8)
    start = -memory.ctypes.data % 16
    copy = np.ndarray(kept.shape, kept.dtype, memory, start)
    copy[...] = kept
    return copy


def test_vectors_need_alignment_and_whole_rows() -> None:
    x = input_element(0, "float32")

    def wants_vectors(plan: LaunchPlan, outputs: list[int], inputs: list[int]) -> bool:
        launch = plan.launches[0]
        return step_of(None, launch, schedule_of(launch, multiprocessors=0)).arguments(outputs, inputs)[0]

    dense = plan_of([x * 2.0], [np.zeros((4, 9), np.float32)], ["float32"], (4, 9))
    assert wants_vectors(dense, [1024], [4096]) and not wants_vectors(dense, [1024], [4100])
    assert not wants_vectors(dense, [1032], [4096])
    for outputs, inputs in (([1024], [0]), ([0], [4096])):
        with pytest.raises(ArgumentError, match="no memory"):
            wants_vectors(dense, outputs, inputs)
    row = plan_of(
        [x * input_element(1, "float32")],
        [np.zeros((4, 9), np.float32), np.broadcast_to(np.zeros(9, np.float32), (4, 9))],
        ["float32"] * 2,
        (4, 9),
    )
    assert not wants_vectors(row, [1024], [4096, 8192]), "rows of 9 are not whole vectors of 4"
    turned = plan_of([x * 2.0], [np.zeros((9, 4), np.float32).T], ["float32"], (4, 9)).launches[0]
    assert vector_lanes(turned.spec) == 0
    with pytest.raises(ArgumentError, match="input 0 starts at 0x1001, which is not aligned"):
        wants_vectors(dense, [1024], [4097])


def test_text_has_no_includes_and_names_its_nodes() -> None:
    x = input_element(0, "float16")
    exprs = [cast(call("exp", cast(x, "float32")), "float16"), call("isnan", x)]
    spec = plan_of(exprs, [np.zeros((4, 4), np.float16).T], ["float16"], (4, 4)).specs[0]
    source = emit_cuda(spec)
    lines = source.text.splitlines()
    assert "#include" not in source.text
    assert [lines[line].strip() for line in source.lines_of(0) if "expf" in lines[line]]
    assert len(lines) == len(source.line_nodes)
    assert list(stride_arguments(spec)) == [(0, 0), (1, 0), (2, 0), (2, 1)], "only strides that the spec does not know"


@needs_compiler
@pytest.mark.long
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_op_on_every_type_in_every_layout(dtype: str, layout: str, tmp_path: Path) -> None:
    from tests.codegen.llvm.test_emit import test_every_op_on_every_type_in_every_layout as check

    check(emulated_device(tmp_path), dtype, layout)


@needs_compiler
@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (1, 1), (1, 3), (7, 1), (1, 1021), (13, 257)])
def test_no_elements_one_and_odd_numbers_of_them(shape: tuple[int, int], tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    for dtype, layout in (("float32", "dense"), ("bfloat16", "row"), ("int8", "transposed"), ("float64", "column")):
        operands = [laid_out(sample(dtype, shape, rng), each, shape) for each in (layout, "dense")]
        x, y = input_element(0, dtype), input_element(1, dtype)
        wide = "float32" if dtype == "bfloat16" else dtype
        exprs = [cast(cast(x, wide) + cast(y, wide), dtype), call("lt", x, y)]
        check_exprs(lambda plan: EmulatedPlan(plan, tmp_path, vector=True), exprs, operands, [dtype] * 2, shape)


def test_a_kernel_says_what_it_moves_and_what_sets_its_pace() -> None:
    x = np.zeros((64, 1024), np.float32)
    plan = plan_of([call("exp", input_element(0, "float32")) * 2.0], [x], ["float32"], x.shape)
    (launch,) = plan.launches
    schedule = schedule_of(launch)
    unknown = cuda_facts(launch.spec, schedule, "", None)
    assert (unknown.bytes, unknown.operations, unknown.bound) == (8, 2, "")
    lanes = schedule.width * schedule.repeat
    assert cuda_facts(launch.spec, schedule, "", (20 * lanes, lanes)).bound == "memory"
    busy = cuda_facts(launch.spec, schedule, "", (120 * lanes, lanes))
    assert busy.bound == "issue" and "a copy would be 1.5 times as fast" in busy.because


def test_no_machine_code_is_not_an_elf_file() -> None:
    assert code_sizes(b"not a cubin") == {}


# -- with the compiler ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("architecture", ["80", "90", "100"])
def test_nvrtc_compiles_the_kernels_of_the_suite_without_spills(architecture: str, tmp_path: Path) -> None:
    pytest.importorskip("cupy", reason="CuPy is not installed; it brings NVRTC to this test")
    from tests.benchmarks.gpu_suite import plans_of, programs

    device = CudaDevice(store=ObjectStore(tmp_path / "cuda"))
    kernels = [
        kernel
        for size in (1 << 14, 1 << 20, 1 << 28)
        for _, _, graph in programs((), size)
        for plan in plans_of(graph)
        for kernel in device.kernels_of(plan, architecture=architecture)
    ]
    assert len(kernels) > 20
    for kernel in kernels:
        assert kernel.spill_bytes == 0, kernel
        assert all(each.stack_bytes == 0 for each in kernel.resources.values()), kernel
        assert kernel.facts.instructions > 0
    assert ".entry" in kernels[0].ptx.text


def test_nvrtc_accepts_every_op() -> None:
    pytest.importorskip("cupy", reason="CuPy is not installed; it brings NVRTC to this test")
    for dtype in DTYPES:
        operand = np.zeros(SHAPE, np.uint16 if dtype == "bfloat16" else dtype)
        spec = plan_of(exprs_of(dtype), [operand] * 2, [dtype] * 2, SHAPE).specs[0]
        for architecture in ("80", "90", "100"):
            device = CudaDevice()
            code = device.compiler.compile(device.source(spec).text, architecture).code
            assert code_sizes(code), "a cubin with instructions"
