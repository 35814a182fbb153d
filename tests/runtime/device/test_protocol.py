"""Devices: every kind is listed, none raises when asked whether it is there, all that are there compute the same."""

import sys
from pathlib import Path

import numpy as np
import pytest

from irscope.errors import DeviceUnavailable, MissingExtra
from irscope.ops.expr.expression import call, input_element
from irscope.runtime.cuda.device import CudaDevice
from irscope.runtime.device.kernel_cache import ObjectStore
from irscope.runtime.device.protocol import devices
from tests.codegen.kernels import plan_of, run


def test_every_device_says_whether_it_is_there() -> None:
    for each in devices():
        here = each.availability()
        assert here.what
        assert here.available or here.fix


def test_available_devices_agree_on_the_processor() -> None:
    values = np.linspace(-2, 2, 60, dtype=np.float32).reshape(3, 20)
    plan = plan_of([call("sigmoid", input_element(0, "float32"))], [values], ["float32"], values.shape)
    results = [run(each.prepare(plan), plan, [values])[0] for each in devices() if each.name != "cuda" and each.availability()]
    for result in results:
        np.testing.assert_allclose(result, 1 / (1 + np.exp(-values)), rtol=1e-6)


def test_without_cupy_the_text_is_still_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    cuda = CudaDevice(store=ObjectStore(tmp_path / "cuda"))
    here = cuda.availability()
    assert not here
    assert "pip install 'irscope[cuda13]'" in here.fix
    spec = plan_of([input_element(0, "float32") * 2.0], [np.zeros((2, 2), np.float32)], ["float32"], (2, 2)).specs[0]
    assert "__global__" in cuda.source(spec).text
    with pytest.raises(DeviceUnavailable, match="CuPy is not installed"):
        cuda.compile(spec)
    with pytest.raises(MissingExtra):
        cuda.machine_code(spec)


@pytest.mark.cuda
def test_a_gpu_gives_numpys_results(tmp_path: Path) -> None:
    cuda = CudaDevice(store=ObjectStore(tmp_path / "cuda"))
    if not cuda.availability():
        pytest.skip(f"no GPU: {cuda.availability()}")
    import cupy

    values = np.random.default_rng(0).normal(size=(3, 1001)).astype(np.float32)
    plan = plan_of([call("tanh", input_element(0, "float32"))], [values], ["float32"], values.shape)
    given, result = cupy.asarray(values), cupy.empty(values.shape, "float32")
    cuda.prepare(plan)([result.data.ptr], [given.data.ptr])
    np.testing.assert_allclose(cupy.asnumpy(result), np.tanh(values), rtol=1e-6)
