"""The device that tests of kernels run on, unless their file has another."""

import pytest

from irscope.runtime.cpu.device import CpuDevice
from irscope.runtime.device.kernel_cache import ObjectStore


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> CpuDevice:
    """The processor, one thread, with nothing in its disk cache."""
    pytest.importorskip("llvmlite")
    return CpuDevice(store=ObjectStore(tmp_path_factory.mktemp("objects") / "cpu"), threads=1)
