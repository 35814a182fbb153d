"""Launching on a GPU, with a driver that writes down what it is asked and runs kernels in the emulator: streams, memory
between launches, modules, the disk cache, graphs, other libraries' arrays, and what is said when something is missing.
"""

import re
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from irscope.codegen.kernel.spec import LaunchPlan
from irscope.codegen.lowering.lower import spec_of_group
from irscope.errors import ArgumentError, DeviceUnavailable, MissingExtra, RunError, UnknownName
from irscope.ir.text.parser import parse
from irscope.ir.types import TENSOR, TensorType
from irscope.ops.expr.expression import input_element
from irscope.runtime.arrays.cupy import CupyMemory, dtype_of
from irscope.runtime.cuda.device import CudaDevice
from irscope.runtime.cuda.launch import CudaPlan, CupyGpu
from irscope.runtime.cuda.nvrtc import Compiled, Resources
from irscope.runtime.device.kernel_cache import ObjectStore
from irscope.runtime.measure.benchmark import compare
from irscope.runtime.program.executable import Executable, compile_graph
from irscope.session import load
from irscope.transforms.fusion import fuse
from tests.codegen.cuda_emulator import AVAILABLE, EmulatedCompiler
from tests.codegen.kernels import call, group, plan_of
from tests.programs import ir
from tests.runtime.cuda.fake_cupy import FakeArray, FakeCupy, FakeStream

Array = np.ndarray[Any, Any]
emulated = pytest.mark.skipif(not AVAILABLE, reason="g++ is not installed; it plays the GPU in this test")

TEXT = ir("x w | last = -1; none = None; one = 1; y = add x w one; z = softmax y last none; r = tanh z | r")


class CountingCompiler(EmulatedCompiler):
    """Counts modules, and says what an assembler would."""

    def __init__(self) -> None:
        self.modules: list[int] = []

    def compile(self, text: str, architecture: str, *, lines: bool = False) -> Compiled:
        made = super().compile(text, architecture)
        names = re.findall(r"__launch_bounds__\(\d+, \d+\) (\w+)\(", text)
        self.modules.append(len(names))
        return Compiled(made.code, f"// PTX of {len(names)} entries", {name: Resources(40, 0, 0, 0) for name in names})


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> FakeCupy:
    return installed(FakeCupy(), monkeypatch)


def installed(fake: FakeCupy, monkeypatch: pytest.MonkeyPatch) -> FakeCupy:
    monkeypatch.setitem(sys.modules, "cupy", fake)
    return fake


def device_of(folder: Path, compiler: EmulatedCompiler | None = None) -> CudaDevice:
    """A device with the real driver code over whatever CuPy there is."""
    return CudaDevice(store=ObjectStore(folder / "cuda"), compiler=compiler or CountingCompiler())


def doubling(folder: Path) -> tuple[Array, LaunchPlan, CudaPlan]:
    """The operand of a multiplication by 2, its plan, and what runs it."""
    x = np.ones((4, 4), np.float32)
    plan = plan_of([input_element(0, "float32") * 2.0], [x], ["float32"], x.shape)
    return x, plan, device_of(folder).prepare(plan)


def long_sum(folder: Path) -> tuple[Array, LaunchPlan, CudaPlan]:
    """The operand of a sum that is cut into parts, its plan, and what runs it."""
    x = (np.arange(100_000) % 7).astype(np.float32)
    plan = plan_for(total, x.shape)
    return x, plan, device_of(folder).prepare(plan)


def plan_for(body: Any, *shapes: tuple[int, ...]) -> LaunchPlan:
    """The plan of a group over row-major float32 inputs."""
    types = [TensorType("float32", shape, tuple(np.zeros(shape, "f4").strides[i] // 4 for i in range(len(shape)))) for shape in shapes]
    return spec_of_group(group(body, [TENSOR] * len(shapes)), types)


def total(b: Any, x: Any) -> Any:
    return call(b, "sum", x, None)


def run_on(plan: LaunchPlan, prepared: Any, *inputs: Array) -> list[Array]:
    outputs = [FakeArray(type.shape, type.dtype) for type in plan.outputs]
    prepared([array.data.ptr for array in outputs], [array.ctypes.data for array in inputs])
    return [array.host for array in outputs]


def launches(cupy: FakeCupy) -> list[Any]:
    """What was launched, in order."""
    return [each for each in cupy.calls if each[0] == "launch"]


def fake_torch(*, capturing: bool = False) -> SimpleNamespace:
    """As much of torch as the driver's code looks at."""
    cuda = SimpleNamespace(
        is_initialized=lambda: True, is_current_stream_capturing=lambda: capturing, OutOfMemoryError=MemoryError,
    )  # fmt: skip

    def empty(nbytes: int, dtype: Any, device: str) -> Any:
        memory = np.zeros(nbytes + 256, np.uint8)
        start = memory[-memory.ctypes.data % 256 :]
        return SimpleNamespace(memory=memory, data_ptr=lambda: start.ctypes.data)

    return SimpleNamespace(cuda=cuda, empty=empty, uint8="uint8", _C=SimpleNamespace(_cuda_getCurrentRawStream=lambda device: 5))


# -- the driver -------------------------------------------------------------------------------------------------------


@emulated
def test_arguments_are_numbers_of_the_sizes_that_the_text_declares(cupy: FakeCupy, tmp_path: Path) -> None:
    x = np.linspace(-1, 1, 6000, dtype=np.float32).reshape(3, 2000)
    plan = plan_of([input_element(0, "float32") * 2.0], [x], ["float32"], x.shape)
    np.testing.assert_array_equal(run_on(plan, device_of(tmp_path).prepare(plan), x)[0], x * 2)
    (_, name, grid, block, args, stream) = launches(cupy)[0]
    assert (grid, block, stream) == ((6, 1, 1), (256, 1, 1), 0)
    assert name.endswith("_vector")
    assert [type(arg) for arg in args] == [int, int, int], "CuPy takes an int as 64 bits"


@emulated
def test_kernels_run_on_the_stream_that_the_caller_uses(cupy: FakeCupy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x, plan, prepared = doubling(tmp_path)
    monkeypatch.setitem(sys.modules, "torch", fake_torch())
    run_on(plan, prepared, x)
    with FakeStream(cupy, 9):
        run_on(plan, prepared, x)
    assert [each[5] for each in launches(cupy)] == [5, 9], "CuPy's stream if one is in use, else torch's"


@emulated
def test_a_plan_for_one_librarys_arrays_runs_on_its_stream_whatever_the_others_use(
    cupy: FakeCupy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, plan, prepared = long_sum(tmp_path)
    monkeypatch.setitem(sys.modules, "torch", fake_torch())
    with FakeStream(cupy, 9):
        assert run_on(plan, prepared.on("torch"), x)[0] == np.sum(x, dtype=np.float64)
    assert {each[5] for each in launches(cupy)} == {5}
    assert not [each for each in cupy.calls if each[0] == "alloc"], "torch's allocator gave the memory"
    assert run_on(plan, prepared.on("cupy"), x)[0] == np.sum(x, dtype=np.float64)
    assert {each[5] for each in launches(cupy)[2:]} == {0}
    assert [each for each in cupy.calls if each[0] == "alloc"]


@emulated
def test_threads_that_share_a_stream_do_not_share_what_lies_between_launches(
    cupy: FakeCupy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second thread comes in the middle of the first one's launches."""
    x, plan, prepared = long_sum(tmp_path)
    plain, started, seen = CupyGpu.launch, threading.Event(), threading.Event()

    def launch(gpu: CupyGpu, entry: Any, *more: Any) -> None:
        plain(gpu, entry, *more)
        if not started.is_set():
            started.set()
            seen.wait(0.05)

    monkeypatch.setattr(CupyGpu, "launch", launch)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(run_on, plan, prepared, x)
        assert started.wait(10)
        second = pool.submit(run_on, plan, prepared, x * 2)
        assert first.result()[0] * 2 == second.result()[0] == 2 * np.sum(x, dtype=np.float64)
    order = [each[4][0] for each in launches(cupy)]
    assert order[:2] != order[2:]
    results = [int(launches(cupy)[place][4][0]) for place in (1, 3)]
    assert len(set(results)) == 2, "each call's launches stand together"


@emulated
def test_a_thread_whose_gpu_is_another_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Modules are loaded by threads of a pool, and CUDA gives each new thread the first GPU."""
    cupy = installed(FakeCupy(devices=2), monkeypatch)
    cupy.here = 1
    x, _, prepared = doubling(tmp_path)
    assert prepared.gpu is not None and prepared.gpu.key == (1, "90")
    outputs = FakeArray(x.shape, x.dtype)
    cupy.owners = {outputs.data.ptr: 1, x.ctypes.data: 1}
    with ThreadPoolExecutor(1) as pool:
        pool.submit(prepared, [outputs.data.ptr], [x.ctypes.data]).result()
    np.testing.assert_array_equal(outputs.host, x * 2)


@emulated
def test_code_that_the_driver_does_not_load(cupy: FakeCupy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(module: Any, cubin: bytes) -> None:
        raise RuntimeError("CUDA_ERROR_NO_BINARY_FOR_GPU")

    monkeypatch.setattr("tests.runtime.cuda.fake_cupy.FakeModule.load", refuse)
    with pytest.raises(RunError, match=r"does not load code for compute capability 90.*NO_BINARY"):
        doubling(tmp_path)


@emulated
def test_memory_between_launches_is_kept_for_each_stream(cupy: FakeCupy, tmp_path: Path) -> None:
    x, plan, prepared = long_sum(tmp_path)
    assert [kernel.schedule.partial for kernel in prepared.kernels] == [True, False]
    for _ in range(2):
        assert run_on(plan, prepared, x)[0] == np.sum(x, dtype=np.float64)
    with FakeStream(cupy, 3):
        run_on(plan, prepared, x)
    allocated = [each for each in cupy.calls if each[0] == "alloc"]
    assert [stream for _, _, stream in allocated] == [0, 3]
    assert len(launches(cupy)) == 6


@emulated
def test_beside_torch_its_allocator_gives_the_memory_and_a_graph_of_its_own_has_its_own(
    cupy: FakeCupy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, plan, prepared = long_sum(tmp_path)
    monkeypatch.setitem(sys.modules, "torch", fake_torch())
    for _ in range(2):
        assert run_on(plan, prepared, x)[0] == np.sum(x, dtype=np.float64)
    assert [list(prepared._leases), prepared._of_graphs] == [[5], []]
    monkeypatch.setitem(sys.modules, "torch", fake_torch(capturing=True))
    for _ in range(2):
        run_on(plan, prepared, x)
    assert len({lease.ptr for lease in prepared._of_graphs} | {prepared._leases[5].ptr}) == 3
    assert not [each for each in cupy.calls if each[0] == "alloc"]


@emulated
def test_no_memory_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cupy = installed(FakeCupy(memory_limit=16), monkeypatch)
    x, plan, prepared = long_sum(tmp_path)
    with pytest.raises(RunError, match=r"the GPU has no .* bytes left"):
        run_on(plan, prepared, x)
    assert not launches(cupy)
    cupy.limit = 1 << 30
    assert run_on(plan, prepared, x)[0] == np.sum(x, dtype=np.float64), "the next call works"


@emulated
def test_addresses_that_no_kernel_takes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cupy = installed(FakeCupy(devices=2), monkeypatch)
    x, _, prepared = doubling(tmp_path)
    with pytest.raises(ArgumentError, match=r"input 0 starts at .* not aligned to its elements of 4 bytes"):
        prepared([4096], [x.ctypes.data + 2])
    cupy.owners[x.ctypes.data] = 1
    with pytest.raises(ArgumentError, match="input 0 lies in GPU 1, and the kernel runs on GPU 0"):
        prepared([4096], [x.ctypes.data])
    assert not launches(cupy)


@emulated
def test_a_driver_that_refuses(cupy: FakeCupy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x, plan, prepared = doubling(tmp_path)

    def refuse(*given: Any) -> None:
        raise ValueError("CUDA_ERROR_ILLEGAL_ADDRESS")

    monkeypatch.setattr(CupyGpu, "launch", refuse)
    with pytest.raises(RunError, match=r"the driver refuses to launch kernel_.*ILLEGAL_ADDRESS"):
        run_on(plan, prepared, x)


# -- modules and the cache --------------------------------------------------------------------------------------------


def several() -> list[LaunchPlan]:
    """Plans with kernels of their own."""
    x = np.zeros((8, 40), np.float32)
    kernels = [input_element(0, "float32") * float(i) for i in range(10)]
    return [plan_of([kernel], [x], ["float32"], x.shape) for kernel in kernels]


@emulated
def test_kernels_that_are_prepared_together_share_modules(cupy: FakeCupy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    compiler = CountingCompiler()
    device = device_of(tmp_path, compiler)
    plans = several()
    device.prepare_together(plans)
    assert compiler.modules == [8, 2], "eight kernels of one entry, as they are small, then two"
    x = np.ones((8, 40), np.float32)
    for factor, plan in enumerate(plans):
        np.testing.assert_array_equal(run_on(plan, device.prepare(plan), x)[0], x * factor)
    assert len(compiler.modules) == 2
    assert [each[0] for each in cupy.calls].count("load") == 2


@emulated
def test_a_later_process_compiles_nothing_and_damage_is_mended(cupy: FakeCupy, tmp_path: Path) -> None:
    device_of(tmp_path).prepare_together(several())
    compiler = CountingCompiler()
    later = device_of(tmp_path, compiler)
    counted = later.store.summary()
    assert (counted.entries, counted.hits, counted.misses) == (10, 0, 10), "a module is no kernel"
    first, *rest = later.misses.misses()
    assert len(rest) == 9 and "same but for" in rest[0].differs and rest[0].nearest == first.kernel
    kernels = [kernel for plan in several() for kernel in later.prepare(plan).kernels]
    assert compiler.modules == []
    assert all(kernel.from_disk and kernel.registers == 40 for kernel in kernels)
    for path in (tmp_path / "cuda").iterdir():
        path.write_bytes(path.read_bytes()[:-3])
    mended = device_of(tmp_path, compiler)
    x = np.ones((8, 40), np.float32)
    np.testing.assert_array_equal(run_on(several()[3], mended.prepare(several()[3]), x)[0], x * 3)
    assert compiler.modules == [1]


@emulated
def test_many_threads_compile_each_kernel_once(cupy: FakeCupy, tmp_path: Path) -> None:
    compiler = CountingCompiler()
    device = device_of(tmp_path, compiler)
    with ThreadPoolExecutor(8) as pool:
        jobs = [pool.submit(device.prepare_together, several()[start : start + 5]) for start in (0, 3, 5, 0, 2, 5, 1, 4)]
        prepared = [pool.submit(device.prepare, plan) for plan in several()]
        assert all(job.result() is None for job in jobs)
        kernels = [kernel for job in prepared for kernel in job.result().kernels]
    assert len(kernels) == 10
    assert sum(compiler.modules) == 10, "each compiled once"


# -- without a GPU ----------------------------------------------------------------------------------------------------


def fused(*arguments: Any) -> Any:
    return fuse(load(TEXT, *arguments))


def test_without_cupy_a_program_shows_its_text_and_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    x, w = np.zeros((8, 64), np.float32), np.zeros(64, np.float32)
    made = compile_graph(fused(x, w), "cuda")
    assert "__global__" in made.source(0).text and made.kernels[0].registers is None
    assert "without NVRTC" in repr(made.kernels[0])
    with pytest.raises(MissingExtra, match="cupy"):
        _ = made.kernels[0].ptx
    with pytest.raises(DeviceUnavailable, match="CuPy is not installed") as error:
        made(x, w)
    assert "pip install 'irscope[cuda13]'" in error.value.hint
    with pytest.raises(DeviceUnavailable, match="CuPy is not installed"):
        made.captured(x, w)
    with pytest.raises(DeviceUnavailable, match="no CUDA graph"):
        compile_graph(fused(x, w), "cpu").captured(x, w)
    with pytest.raises(UnknownName, match="has no PTX"):
        _ = compile_graph(fused(x, w), "cpu").kernels[0].ptx


@emulated
def test_with_a_compiler_and_no_gpu_there_are_registers_and_ptx(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    installed(FakeCupy(devices=0), monkeypatch)
    plan = plan_for(total, (100_000,))
    prepared = device_of(tmp_path).prepare(plan)
    assert [kernel.architecture for kernel in prepared.kernels] == ["90"] * 2
    assert prepared.kernels[0].registers == 40 and prepared.kernels[0].spill_bytes == 0
    assert "PTX" in prepared.kernels[0].ptx.text and "40 registers, no spills" in repr(prepared.kernels[0])
    with pytest.raises(DeviceUnavailable, match="CuPy finds no GPU"):
        prepared([4096], [4096])


# -- whole programs ---------------------------------------------------------------------------------------------------


def on_the_fake(cupy: FakeCupy, monkeypatch: pytest.MonkeyPatch, folder: Path, program_: Any) -> Executable:
    """A program on the fake GPU, with a cache directory and so a device of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    monkeypatch.setattr("irscope.runtime.cuda.device.Nvrtc", CountingCompiler)
    return compile_graph(program_, "cuda")


@pytest.fixture
def compiled(cupy: FakeCupy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Executable:
    x, w = np.zeros((8, 64), np.float32), np.zeros(64, np.float32)
    return on_the_fake(cupy, monkeypatch, tmp_path, fused(x, w))


def numbers() -> Sequence[Array]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((8, 64)).astype(np.float32), rng.standard_normal(64).astype(np.float32)


def wanted(x: Array, w: Array) -> Array:
    y = np.exp(x.astype(np.float64) + w)
    return np.tanh(y / y.sum(-1, keepdims=True))


class Foreign:
    """An array of another library, on the processor or on the GPU."""

    def __init__(self, array: Array, *, on_gpu: bool = True) -> None:
        self.host, self.dtype, self.shape, self.on_gpu = array, array.dtype, array.shape, on_gpu
        self.streams: list[Any] = []

    def __dlpack__(self, *, stream: Any = None, **more: Any) -> Any:
        self.streams.append(stream)
        return self.host.__dlpack__(**(more if np.lib.NumpyVersion(np.__version__) >= "2.1.0" else {}))  # as that NumPy takes

    def __dlpack_device__(self) -> Any:
        return (2, 0) if self.on_gpu else (1, 0)


@emulated
def test_arrays_of_numpy_cupy_and_others(cupy: FakeCupy, compiled: Executable) -> None:
    x, w = numbers()
    copied = compiled(x, w)
    assert type(copied) is np.ndarray
    np.testing.assert_allclose(copied, wanted(x, w), rtol=3e-6)
    on_gpu = cupy.asarray(x), cupy.asarray(w)
    kept = compiled(*on_gpu)
    assert isinstance(kept, FakeArray), "arrays of the GPU stay there"
    np.testing.assert_array_equal(kept.host, copied)
    given = Foreign(x), Foreign(w)
    with FakeStream(cupy, 9):
        shared = compiled(*given)
    np.testing.assert_array_equal(shared, copied)
    assert x.ctypes.data in [int(arg) for arg in launches(cupy)[-1][4]], "its memory is read where it lies"
    assert [each.streams for each in given] == [[9], [9]], "its library is told which stream will read it"
    elsewhere = compiled(Foreign(x, on_gpu=False), Foreign(w, on_gpu=False))
    np.testing.assert_array_equal(elsewhere, copied)
    assert x.ctypes.data not in [int(arg) for arg in launches(cupy)[-1][4]], "what lies on the processor is copied"


@emulated
def test_arrays_of_jax_come_back_as_jaxs(cupy: FakeCupy, compiled: Executable, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in says that its arrays lie on the GPU, which no JAX here has."""

    class JaxArray(Foreign):
        pass

    taken: list[Any] = []
    jax = SimpleNamespace(
        Array=JaxArray, dlpack=SimpleNamespace(from_dlpack=lambda given: taken.append(given) or JaxArray(given.host)),
        numpy=SimpleNamespace(asarray=lambda given: JaxArray(given, on_gpu=False)),
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "jax", jax)
    x, w = numbers()
    there = compiled(JaxArray(x), JaxArray(w))
    assert isinstance(there, JaxArray)
    assert isinstance(taken[0], FakeArray), "shared, not copied"
    np.testing.assert_allclose(there.host, wanted(x, w), rtol=3e-6)
    here = compiled(JaxArray(x, on_gpu=False), w)
    assert isinstance(here, JaxArray) and not here.on_gpu
    assert len(taken) == 1
    np.testing.assert_array_equal(here.host, there.host)


@emulated
def test_what_another_library_lends_is_kept_until_the_kernels_are_done(cupy: FakeCupy, compiled: Executable) -> None:
    x, w = numbers()
    memory = compiled._program("numpy").memory
    assert isinstance(memory, CupyMemory)
    cupy.idle = False
    for _ in range(2):
        compiled(Foreign(x), Foreign(w))
    assert [len(shared) for _, shared in memory.in_use] == [2, 2]
    compiled(cupy.asarray(x), cupy.asarray(w))
    assert len(memory.in_use) == 2, "CuPy's own are given back on its stream"
    cupy.idle = True
    compiled(Foreign(x), Foreign(w))
    assert not memory.in_use


@emulated
def test_jaxs_arrays_are_never_written(cupy: FakeCupy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class JaxArray(Foreign):
        pass

    jax = SimpleNamespace(
        Array=JaxArray, dlpack=SimpleNamespace(from_dlpack=lambda given: JaxArray(given.host))
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "jax", jax)
    x, w = numbers()
    made = on_the_fake(cupy, monkeypatch, tmp_path, fuse(load(WRITES, x, w)))
    before = x.copy()
    found = made(JaxArray(x), JaxArray(w))
    np.testing.assert_array_equal(x, before)
    np.testing.assert_allclose(found.host, np.tanh(before + w) * w, rtol=1e-5)
    made(Foreign(x), Foreign(w))
    np.testing.assert_array_equal(x, before + w, "an array that may be written is")


BFLOATS = ir("x:BFloat16(4, 40, strides=[40, 1]) w:BFloat16(40, strides=[1]) | one = 1; y = add x w one; z = tanh y | z")


@emulated
def test_bfloat16_of_a_package_that_jax_and_cupy_use(cupy: FakeCupy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    kind = pytest.importorskip("ml_dtypes").bfloat16
    made = on_the_fake(cupy, monkeypatch, tmp_path, fuse(parse(BFLOATS)))
    x, w = np.linspace(-2, 2, 160).reshape(4, 40).astype(kind), np.linspace(0, 1, 40).astype(kind)
    found = made(cupy.asarray(x), cupy.asarray(w))
    assert found.dtype == kind
    want = np.tanh((x.astype(np.float64) + w.astype(np.float64)).astype(kind).astype(np.float64))
    np.testing.assert_allclose(found.host.astype(np.float64), want, rtol=2**-7)
    assert len(launches(cupy)) == 1
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(ArgumentError, match="no bfloat16 without the package ml_dtypes"):
        dtype_of("bfloat16")


@emulated
def test_real_jaxs_arrays_on_the_processor(cupy: FakeCupy, compiled: Executable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    jnp = pytest.importorskip("jax.numpy", reason="JAX is not installed; its arrays are the arguments of this test")
    import jax

    x, w = numbers()
    jnp_array = partial(jax.device_put, device=jax.devices("cpu")[0])  # where there is a GPU, JAX would use it
    found = compiled(jnp_array(x), jnp_array(w))
    assert type(found) is type(jnp_array(x))
    np.testing.assert_allclose(np.asarray(found), wanted(x, w), rtol=3e-6)
    made = on_the_fake(cupy, monkeypatch, tmp_path, fuse(parse(BFLOATS)))
    a, b = jnp_array(x[:4, :40].astype(jnp.bfloat16)), jnp_array(w[:40].astype(jnp.bfloat16))
    half = made(a, b)
    assert half.dtype == jnp.bfloat16
    want = np.tanh(np.asarray(a, np.float64) + np.asarray(b, np.float64))
    np.testing.assert_allclose(np.asarray(half, np.float64), want, rtol=2**-6)


LIBRARY = ir(
    "x w | zero = 0; one = 1; two = 2; t = transpose x zero one; row = select t zero one; add = add_ row w one; p = mm x t; "
    "both:Tensor[] = chunk p two zero; a b = ListUnpack both; c = t b; r = matmul a c | r t add"
)


@emulated
def test_nodes_without_a_kernel_run_on_the_processor_and_keep_views(
    cupy: FakeCupy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    x = np.random.default_rng(3).standard_normal((4, 6)).astype(np.float32)
    w = np.arange(4, dtype=np.float32)
    made = on_the_fake(cupy, monkeypatch, tmp_path, load(LIBRARY, x, w))
    given = cupy.asarray(x)
    product, turned, row = made(given, cupy.asarray(w))
    changed = x.copy()
    changed[:, 1] += w
    np.testing.assert_array_equal(given.host, changed, "a write through a view is seen in the argument")
    assert turned.data.ptr == given.data.ptr
    assert (turned.shape, turned.strides) == ((6, 4), (4, 24)), "a view has no memory of its own"
    assert row.data.ptr == given.data.ptr + 4
    square = changed @ changed.T
    np.testing.assert_allclose(product.host, square[:2] @ square[2:].T, rtol=1e-5)
    with pytest.raises(RunError, match="cannot be recorded as a CUDA graph"):
        made.captured(given, cupy.asarray(w))


@emulated
def test_a_program_of_cupys_arrays_leaves_torchs_stream_alone(
    cupy: FakeCupy, compiled: Executable, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, w = numbers()
    monkeypatch.setattr("irscope.runtime.cuda.launch.sys", SimpleNamespace(modules={"torch": fake_torch()}))
    compiled(cupy.asarray(x), cupy.asarray(w))
    assert [each[5] for each in launches(cupy)] == [0]


WRITES = ir("x w | one = 1; y = add_ x w one; z = tanh y; r = mul z w | r")


@emulated
@pytest.mark.parametrize("text", [TEXT, WRITES], ids=["reads", "writes its argument"])
def test_a_comparison_of_programs_on_arrays_of_cupy(cupy: FakeCupy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("irscope.runtime.cuda.device.Nvrtc", CountingCompiler)
    x, w = numbers()
    given = cupy.asarray(x), cupy.asarray(w)
    found = compare(fuse(load(text, x, w)), *given, devices=["cuda"], repeats=1, rotate=text is TEXT)
    assert [row.label for row in found.rows] == ["op by op", "fused", "fused + dedup"]
    assert not found.missing
    assert [row.launched for row in found.rows][1:] == [1, 1] if text is TEXT else True
    for row in found.rows:
        assert row.error is not None and row.error < 1e-6 and row.peak_bytes
    np.testing.assert_array_equal(given[0].host, x, "what a program writes is restored")


@emulated
def test_a_graph_is_replayed_on_new_arguments(cupy: FakeCupy, compiled: Executable) -> None:
    x, w = numbers()
    graph = compiled.captured(cupy.asarray(x), cupy.asarray(w))
    before = len(launches(cupy))
    for scale in (1.0, 2.0, -1.0):
        found = graph(cupy.asarray(x * np.float32(scale)), cupy.asarray(w))
        np.testing.assert_allclose(found.host, wanted(x * np.float32(scale), w), rtol=3e-6)
        assert found is graph.results
    np.testing.assert_allclose(graph().host, wanted(-x, w), rtol=3e-6)
    assert len(launches(cupy)) == before, "a replay asks for no launch"
    with pytest.raises(ArgumentError, match=r"argument 0 was .* and is"):
        graph(cupy.asarray(x[:4]), cupy.asarray(w))
    with pytest.raises(ArgumentError, match="2 arguments and got 1"):
        graph(cupy.asarray(x))


@emulated
def test_memory_between_the_launches_of_a_graph_is_the_graphs_own(cupy: FakeCupy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    x = (np.arange(50_000) % 7).astype(np.float32)
    text = "graph(%x : Tensor):\n  %n : NoneType = prim::Constant()\n  %a : Tensor = aten::abs(%x)\n"
    text += "  %s : Tensor = aten::sum(%a, %n)\n  return (%s)\n"
    made = on_the_fake(cupy, monkeypatch, tmp_path, fuse(load(text, x)))
    graph = made.captured(cupy.asarray(x))
    assert len(graph._kept) == 1, "the partial sums live as long as the graph, and those of the runs before do not"
    assert graph(cupy.asarray(x * 2)).host == 2 * np.sum(x, dtype=np.float64)
    devices = [kernel.device for kernel in made.kernels]
    assert all(device.held.leases is None for device in devices if isinstance(device, CudaDevice))
