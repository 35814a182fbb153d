"""On a real NVIDIA GPU: kernels against NumPy, whole programs against torch, streams and CUDA graphs.

Skipped where there is none. The same kernels are compared in the emulator (`tests/codegen/cuda/test_emit.py`) and the driver's
code over a fake CuPy (`test_device.py`) everywhere.
"""

import gc
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.codegen.kernel.spec import LaunchPlan
from irscope.errors import IrscopeError
from irscope.ir.types import TensorType
from irscope.runtime.cuda import graph_capture
from irscope.runtime.cuda.device import CudaDevice
from irscope.runtime.device.kernel_cache import ObjectStore
from irscope.runtime.program.executable import compile_graph
from tests.benchmarks.kernel_cases import CASES, Case
from tests.codegen.numerics.test_random import Draw, check_kernel

pytestmark = pytest.mark.cuda
torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("torch sees no GPU", allow_module_level=True)
cupy = pytest.importorskip("cupy")

Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def cuda(tmp_path_factory: pytest.TempPathFactory) -> CudaDevice:
    found = CudaDevice(store=ObjectStore(tmp_path_factory.mktemp("cuda")))
    assert found.availability(), str(found.availability())
    return found


# -- kernels ----------------------------------------------------------------------------------------------------------


def checked_on_gpu(cuda: CudaDevice, draw: Draw, what: str) -> None:
    """Compare with NumPy; the operands' memory is copied as a whole, so that every layout is kept."""
    kept: list[Any] = []

    def prepare(plan: LaunchPlan) -> Any:
        prepared = cuda.prepare(plan)

        def call(outputs: Sequence[int], inputs: Sequence[Any]) -> None:
            given = [address_of(draw.operands, place, kept) for place in inputs]
            results = [cupy.full(max(1, span_of(type)), 0xA5, "uint8") for type in plan.outputs]
            prepared([each.data.ptr for each in results], given)
            for place, type, each in zip(outputs, plan.outputs, results, strict=True):
                host = cupy.asnumpy(each)
                to_memory(place, host[: span_of(type)])

        return call

    check_kernel(draw, prepare, what)


def address_of(operands: Sequence[Array], place: Any, kept: list[Any]) -> Any:
    """The GPU's address of what a host address is the first element of."""
    for array in operands:
        if isinstance(place, int) and array.size and array.ctypes.data == place:
            low, high = getattr(np.lib, "array_utils", np).byte_bounds(array)
            there = cupy.asarray(np.ctypeslib.as_array((np.ctypeslib.ctypes.c_uint8 * (high - low)).from_address(low)))
            kept.append(there)
            return there.data.ptr + (place - low)
    return place


def span_of(type: TensorType) -> int:
    assert type.shape is not None
    assert type.strides is not None
    if 0 in type.shape:
        return 0
    item = np.dtype("uint16" if type.dtype == "bfloat16" else str(type.dtype)).itemsize
    return item * (1 + sum((size - 1) * step for size, step in zip(type.shape, type.strides, strict=True)))


def to_memory(address: int, values: Array) -> None:
    if values.size:
        np.ctypeslib.ctypes.memmove(address, values.ctypes.data, values.nbytes)


@pytest.mark.parametrize("start", range(0, 100, 20))
def test_random_kernels_equal_numpy(cuda: CudaDevice, start: int) -> None:
    for seed in range(start, start + 20):
        checked_on_gpu(cuda, Draw(seed, smooth=seed % 2 == 0), f"seed {seed}")


@pytest.mark.long
@pytest.mark.parametrize("start", range(1000, 3000, 100))
def test_many_random_kernels_equal_numpy(cuda: CudaDevice, start: int) -> None:
    for seed in range(start, start + 100):
        checked_on_gpu(cuda, Draw(seed, smooth=seed % 2 == 0), f"seed {seed}")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("size", [1, 1000, 1 << 20])
def test_the_kernels_of_the_suite(case: Case, dtype: str, size: int) -> None:
    make = torch.Generator("cuda").manual_seed(size)
    args = [torch.randn(s, generator=make, device="cuda").to(getattr(torch, dtype)) for s in case.shapes(size)]
    run = compile_graph(irs.parse(case.group_text), "cuda")
    assert case.torch is not None
    exact = case.torch(torch)(*(x.double() for x in args))
    for _ in range(3):
        found = run(*args)
        assert found.dtype == args[0].dtype
        eps = torch.finfo(found.dtype).eps
        scale = exact.abs().amax() if found.numel() else torch.tensor(0.0)
        assert bool(((found.double() - exact).abs() <= 8 * eps * (exact.abs() + scale)).all())


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "float16"])
@pytest.mark.parametrize("shape", [(4, 16), (1, 16), (64, 64), (5, 2048), (33, 65)])
def test_what_is_computed_of_narrow_numbers_is_as_wide_as_they(shape: tuple[int, int], dtype: str) -> None:
    """NVRTC 13 takes bytes of a vector for 16 bits."""
    x = torch.randint(-99 if dtype != "uint8" else 0, 100, shape).to(getattr(torch, dtype))

    def f(x: Any) -> Any:
        y = 1 - x
        return y.amax(0), y.amin(1), torch.logsumexp(y, 0), y.float(), (y > 3).to(torch.int64) + y.abs()

    found = compile_graph(irs.fuse(irs.load(f, x)), "cuda")(x.cuda())
    for mine, wanted in zip(found, f(x), strict=True):
        torch.testing.assert_close(mine.cpu(), wanted, rtol=2e-3, atol=2e-3)


# -- whole programs ---------------------------------------------------------------------------------------------------


def moved(things: Sequence[Any], device: str, storages: dict[int, Any]) -> list[Any]:
    """Copies on another device with the same strides; tensors of one storage stay of one."""
    found = []
    for x in things:
        if not isinstance(x, torch.Tensor):
            found.append(x)
            continue
        key = x.untyped_storage().data_ptr() or id(x)
        if key not in storages:
            storages[key] = torch.empty(0, dtype=torch.uint8, device=x.device).set_(x.untyped_storage()).to(device)
        bytes_ = storages[key]
        whole = torch.empty(0, dtype=x.dtype, device=device).set_(bytes_.untyped_storage())
        found.append(whole.as_strided(x.shape, x.stride(), x.storage_offset()))
    return found


def on_gpu(run: Callable[..., Any]) -> Callable[..., Any]:
    """`run` for arguments of the processor: they go to the GPU, and what was written comes back into them."""
    from tests.oracles.judge import flat

    def call(*given: Any) -> list[Any]:
        there = moved(given, "cuda", {})
        found = flat(run(*there))
        back: dict[int, Any] = {}
        for mine, its in zip(given, there, strict=True):
            if isinstance(mine, torch.Tensor):
                host = torch.empty(0, dtype=torch.uint8).set_(mine.untyped_storage())
                host.copy_(torch.empty(0, dtype=torch.uint8, device="cuda").set_(its.untyped_storage()))
                back[its.untyped_storage().data_ptr() or id(its)] = host
                if (its.shape, its.stride()) != (mine.shape, mine.stride()):
                    mine.as_strided_(its.shape, its.stride(), its.storage_offset())
        same = {id(its): mine for mine, its in zip(given, there, strict=True)}
        return [same.get(id(x), moved([x], "cpu", back)[0]) for x in found]

    return call


def check_whole(seed: int) -> bool:
    """Whether torch runs this program on the GPU as it does on the processor; raises where we differ."""
    from tests.oracles.whole_programs import Truth, check_call, interpreted, is_taken
    from tests.random_programs.torch_scripts import torch_program

    program = torch_program(seed, 6 + seed % 17)
    if not is_taken(on_gpu(program.eager()), program) or not is_taken(on_gpu(interpreted(program)), program):
        return False  # it makes tensors of the processor and mixes them in, or indexes with masks without dimensions
    try:
        graph = irs.load(program.scripted(), *(() if seed % 3 == 0 else program.arguments))
    except IrscopeError:
        return False
    truth = Truth(program.eager(), program)
    try:
        check_call(on_gpu(program.eager()), truth)  # type: ignore[arg-type]
    except AssertionError:
        return False  # statistics of other types, sums in another order, elements that are written twice
    run = compile_graph(irs.fuse(graph), "cuda")
    for _ in range((1, 3, 7)[seed % 3]):
        check_call(on_gpu(run), truth)  # type: ignore[arg-type]
    return True


def check_programs(monkeypatch: pytest.MonkeyPatch, seeds: range) -> None:
    """Compare with torch; programs that may be replayed are, from the third call on, even where the GPU sets the pace."""
    monkeypatch.setattr(graph_capture, "_SLACK", float("inf"))
    monkeypatch.setattr(graph_capture, "_LEAST", 0.0)
    wrong, ran = [], 0
    for seed in seeds:
        try:
            ran += check_whole(seed)
        except Exception as error:
            wrong.append(f"seed {seed}: {type(error).__name__}: {str(error)[:300]}")
    assert not wrong, f"{len(wrong)} of {ran}:\n" + "\n".join(wrong)
    assert ran >= len(seeds) // 3


@pytest.mark.parametrize("start", range(0, 120, 30))
def test_random_programs_do_what_torch_does(start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    check_programs(monkeypatch, range(start, start + 30))


@pytest.mark.long
@pytest.mark.parametrize("start", range(1000, 9000, 500))
def test_many_random_programs_do_what_torch_does(start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    check_programs(monkeypatch, range(start, start + 500))


def model(name: str) -> tuple[Any, tuple[Any, ...]]:
    torch.manual_seed(0)
    if name == "mlp":
        layers = [torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.LayerNorm(256), torch.nn.Linear(256, 8)]
        return torch.nn.Sequential(*layers, torch.nn.Softmax(-1)), (torch.randn(32, 64),)
    if name == "conv":
        layers = [torch.nn.Conv2d(3, 16, 3), torch.nn.BatchNorm2d(16), torch.nn.SiLU(), torch.nn.Conv2d(16, 8, 3)]
        return torch.nn.Sequential(*layers, torch.nn.LeakyReLU(0.1)), (torch.randn(2, 3, 32, 32),)
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128)
    return transformers.BertModel(config), (torch.randint(0, 1000, (2, 16)),)


@pytest.mark.parametrize("name", ["mlp", "conv", "bert"])
def test_models_on_the_gpu(name: str) -> None:
    made, args = model(name)
    made, args = made.eval().cuda(), tuple(x.cuda() for x in args)
    run = irs.compile(irs.fuse(irs.load(made, *args)), device="cuda")
    assert run.kernels
    with torch.no_grad():
        wanted = made(*args)
    wanted = wanted[0] if not isinstance(wanted, torch.Tensor) else wanted
    for _ in range(3):
        found = run(*args)
        found = found[0] if isinstance(found, tuple | list) else found
        torch.testing.assert_close(found, wanted, rtol=2e-3, atol=2e-3)


# -- streams, graphs, other libraries ---------------------------------------------------------------------------------


def gate(x: Any, y: Any) -> Any:
    return torch.tanh(x) * torch.sigmoid(y) + x


def compiled_gate() -> tuple[Any, tuple[Any, Any]]:
    args = (torch.randn(1 << 20, device="cuda"), torch.randn(1 << 20, device="cuda"))
    return irs.compile(irs.fuse(irs.load(gate, *args)), device="cuda"), args


def test_kernels_run_on_torchs_current_stream() -> None:
    run, (x, y) = compiled_gate()
    run(x, y)
    stream = torch.cuda.Stream()
    for _ in range(20):
        with torch.cuda.stream(stream):
            torch.cuda._sleep(2_000_000)
            x2 = x * 2  # late, on this stream: a kernel on another one would read what is not there yet
            found = run(x2, y)
        stream.synchronize()
        torch.testing.assert_close(found, gate(x * 2, y))


def test_a_graph_of_torchs_own_records_the_kernels() -> None:
    run, (x, y) = compiled_gate()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        run(x, y)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = run(x, y)
    x.copy_(torch.randn_like(x))
    graph.replay()
    torch.cuda.synchronize()
    torch.testing.assert_close(found, gate(x, y))


def test_captured_programs_are_replayed_on_new_arguments() -> None:
    run, (x, y) = compiled_gate()
    replay = run.captured(x, y)
    for _ in range(3):
        x, y = torch.randn_like(x), torch.randn_like(y)
        torch.testing.assert_close(replay(x, y), gate(x, y))


@pytest.fixture(scope="module")
def replayed() -> tuple[Any, Any, Callable[[], Any]]:
    """A model whose calls are replayed by now, the program, and what makes an argument."""
    torch.manual_seed(0)
    layers = [[torch.nn.Linear(64, 64), torch.nn.LayerNorm(64), torch.nn.GELU()] for _ in range(12)]
    made = torch.nn.Sequential(*[each for layer in layers for each in layer]).cuda().eval()
    before, graph_capture._SLACK = graph_capture._SLACK, 1e9  # whoever else uses the GPU
    run = irs.compile(irs.fuse(irs.load(made, torch.randn(32, 64, device="cuda"))), device="cuda")
    for _ in range(6):
        run(torch.randn(32, 64, device="cuda"))
        torch.cuda.synchronize()
    assert run.is_replayed, run.remarks
    graph_capture._SLACK = before
    return made, run, lambda: torch.randn(32, 64, device="cuda")


def close(found: Any, wanted: Any) -> None:
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


def test_replayed_calls_return_new_results(replayed: Any) -> None:
    made, run, new = replayed
    with torch.no_grad():
        args = [new() for _ in range(20)]
        for found, x in [(run(x), x) for x in args]:
            close(found, made(x))
    found = run(args[0])
    close(found, made(args[0]))
    with pytest.raises(RuntimeError, match="computes no gradients"):
        found.sum().backward()


def test_replays_see_what_is_written_to_the_model(replayed: Any) -> None:
    made, run, new = replayed
    weight, x = made[0].weight, new()
    with torch.no_grad():
        before = run(x)
        weight.mul_(2)
        close(run(x), made(x))
        weight.data = weight.data.mT
        close(run(x), made(x))
        weight.data = weight.data.mT.contiguous() / 2
        close(run(x), before)
        torch.backends.cuda.matmul.allow_tf32 = True
        try:
            torch.testing.assert_close(run(x), made(x), rtol=1e-3, atol=1e-3)
            assert not torch.equal(run(x), before), "TensorFloat32 rounds otherwise"
        finally:
            torch.backends.cuda.matmul.allow_tf32 = False
        close(run(x), before)


def test_replays_inside_and_outside_of_inference_mode() -> None:
    made = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(12)], torch.nn.GELU()).cuda().eval()
    run = irs.compile(irs.fuse(irs.load(made, torch.randn(32, 64, device="cuda"))), device="cuda")
    for number in range(12):
        with torch.inference_mode(mode=number % 12 < 6):
            x = torch.randn(32, 64, device="cuda")
            found = run(x)
            close(found, made(x))
            found.mul_(2)
        if number >= 6:
            with torch.inference_mode():
                close(run(x), made(x))


def test_replays_from_streams_and_threads(replayed: Any) -> None:
    made, run, new = replayed
    wrong: list[float] = []

    def work() -> None:
        with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(30):
                torch.cuda._sleep(100_000)
                x = new()
                found, wanted = run(x), made(x)
                torch.cuda.current_stream().synchronize()
                wrong.append(float((found - wanted).abs().max()))

    torch.cuda.synchronize()
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(wrong) == 120
    assert max(wrong) < 1e-3


def test_replays_keep_their_memory_when_torch_empties_its_caches(replayed: Any) -> None:
    made, run, new = replayed
    torch._C._cuda_clearCublasWorkspaces()  # as torch.compile does for CUDA graphs of its own
    torch.cuda.empty_cache()
    others = [torch.full((1 << 22,), float("nan"), device="cuda") for _ in range(16)]
    with torch.no_grad():
        x = new()
        close(run(x), made(x))
    assert all(bool(other.isnan().all()) for other in others)


def test_a_program_is_recorded_after_all_others_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_capture, "_SLACK", 1e9)
    monkeypatch.setattr(graph_capture, "_LEAST", 0.0)
    monkeypatch.setattr(graph_capture, "_lanes", {})  # where those of other tests live
    made = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU()).cuda().eval()
    for _ in range(3):
        run, x = (
            irs.compile(irs.fuse(irs.load(made, torch.randn(32, 64, device="cuda"))), device="cuda"),
            torch.randn(32, 64, device="cuda"),
        )
        with torch.no_grad():
            for _ in range(4):
                close(run(x), made(x))
                torch.cuda.synchronize()
        assert run.is_replayed, run.remarks
        del run
        gc.collect()


def test_random_numbers_go_on_after_a_recording_that_fails() -> None:
    def f(x: Any) -> Any:
        return torch.masked_select(x, x > 0) * 2

    x = torch.randn(1000, device="cuda")
    run = irs.compile(irs.fuse(irs.load(torch.jit.trace(f, x), x)), device="cuda")
    with pytest.raises(IrscopeError, match="cannot be recorded"):
        run.captured(x)
    torch.manual_seed(0)
    found = torch.randn(10, device="cuda")
    torch.manual_seed(0)
    assert torch.equal(found, torch.randn(10, device="cuda"))
    torch.cuda.empty_cache()
    assert bool(torch.full((1 << 24,), 2.0, device="cuda").eq(2).all())


def test_a_program_that_cannot_be_recorded_runs_as_before() -> None:
    def f(x: Any) -> Any:
        kept = torch.masked_select(x, x > 0)  # its size is not known before it runs
        for _ in range(10):
            kept = torch.sin(kept).cumsum(0)
        return kept

    x = torch.randn(1000, device="cuda")
    run, stream = irs.compile(irs.fuse(irs.load(torch.jit.trace(f, x), x)), device="cuda"), torch.cuda.current_stream()
    for _ in range(6):
        x = torch.randn(1000, device="cuda")
        close(run(x), f(x))
        torch.cuda.synchronize()
    assert not run.is_replayed
    assert torch.cuda.current_stream() == stream
    close(x + 1, (x.cpu() + 1).cuda())  # the GPU works on


def test_long_sums_in_parts_are_the_same_every_time() -> None:
    x = torch.randn(1 << 22, device="cuda")
    run = irs.compile(irs.fuse(irs.load(lambda x: (x * 2).sum(), x)), device="cuda")
    first = run(x)
    torch.testing.assert_close(first.double(), (x.double() * 2).sum(), rtol=1e-5, atol=1e-2)
    assert all(bool(run(x) == first) for _ in range(20))


def test_cupys_arrays(tmp_path: Path) -> None:
    x = cupy.linspace(-2, 2, 1000, dtype="float32").reshape(10, 100)
    run = irs.compile(irs.fuse(irs.trace(lambda x: np.exp(x) / (1 + np.exp(x)), (10, 100))), device="cuda")
    found = run(x)
    assert isinstance(found, cupy.ndarray)
    cupy.testing.assert_allclose(found, cupy.exp(x) / (1 + cupy.exp(x)), rtol=1e-5)


def test_jaxs_arrays() -> None:
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("jax sees no GPU")
    x = jax.numpy.linspace(-2, 2, 1000, dtype="float32").reshape(10, 100)
    run = irs.compile(irs.fuse(irs.trace(lambda x: np.exp(x) / (1 + np.exp(x)), (10, 100))), device="cuda")
    found = run(x)
    np.testing.assert_allclose(np.asarray(found), np.asarray(jax.nn.sigmoid(x)), rtol=1e-5)


def test_a_comparison_measures_on_the_gpu() -> None:
    args = (torch.randn(1 << 20, device="cuda"), torch.randn(1 << 20, device="cuda"))
    table = irs.compare(irs.fuse(irs.load(gate, *args)), *args, devices=["cuda"]).table()
    assert len(table) >= 2
