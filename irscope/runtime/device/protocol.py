"""What a device offers: whether it is there, what its text of a kernel looks like, and kernels that run."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from irscope.codegen.kernel import KernelSpec, LaunchPlan, SourceText
from irscope.errors import DeviceUnavailable

__all__ = ["NO_MEMORY", "Availability", "Device", "Kernel", "PreparedPlan", "device", "devices"]

NO_MEMORY: Final = "a tensor has no memory: its storage was freed, or a transform of torch's only thinks of it"
"""Why a kernel does not run on an address of zero."""


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether a device can run kernels here; truthy or falsy.

    >>> print(Availability(False, "CuPy is not installed", "pip install 'irscope[cuda13]'"))
    no: CuPy is not installed (pip install 'irscope[cuda13]')
    """

    available: bool
    what: str
    """What is there, or what is missing."""
    fix: str = ""
    """The command that would make it available; empty when there is none, or nothing is missing."""

    def __bool__(self) -> bool:
        return self.available

    def __str__(self) -> str:
        return f"{'yes' if self.available else 'no'}: {self.what}{f' ({self.fix})' if self.fix else ''}"


class Kernel(Protocol):
    """A compiled kernel, good for every size and stride of its spec; safe to call from many threads."""

    @property
    def spec(self) -> KernelSpec: ...

    @property
    def compile_seconds(self) -> float:
        """How long it took to make, from text or from the disk cache."""

    @property
    def from_disk(self) -> bool:
        """Whether the compiler was spared because an earlier process had done its work."""


class PreparedPlan(Protocol):
    """A launch plan whose kernels are compiled and whose arguments are laid out: only pointers are missing."""

    @property
    def plan(self) -> LaunchPlan: ...

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernel of each launch."""

    def __call__(self, outputs: Sequence[int], inputs: Sequence[float]) -> None:
        """Run. `outputs` and `inputs` are addresses of first elements (`data_ptr()`, `ctypes.data`), or numbers for
        scalar inputs.

        The caller has allocated outputs with the plan's types, owns all memory until the call returns (on a GPU:
        until the stream has passed it), and lets no output overlap an input.
        """


class Device(Protocol):
    """A place where kernels run."""

    @property
    def name(self) -> str:
        """`cpu`, `numpy` or `cuda`."""

    def availability(self) -> Availability:
        """Whether kernels can run here; never raises."""

    def source(self, spec: KernelSpec) -> SourceText:
        """The text of a kernel for this device; needs neither the device nor its compiler."""

    def compile(self, spec: KernelSpec) -> Kernel:
        """The kernel, from a cache where possible. Raises DeviceUnavailable."""

    def prepare(self, plan: LaunchPlan) -> PreparedPlan:
        """Compile what a plan needs and lay out its arguments. Raises DeviceUnavailable."""


_HOMES: Final = {
    "cpu": ("irscope.runtime.cpu.device", "CpuDevice"),
    "numpy": ("irscope.runtime.device.numpy_device", "NumpyDevice"),
    "cuda": ("irscope.runtime.cuda.device", "CudaDevice"),
}
"""Each device's module, imported when it is asked for, and its class there."""


def devices() -> tuple[Device, ...]:
    """One of every kind of device, whether it is there or not: `cpu`, `numpy`, `cuda`.

    >>> [each.name for each in devices()]
    ['cpu', 'numpy', 'cuda']
    """
    return tuple(device(name) for name in _HOMES)


def device(name: str) -> Device:
    """A new device of this name, with caches of its own in memory. Raises DeviceUnavailable for a name that there is
    not.

    >>> device("numpy").availability().available
    True
    """
    if name not in _HOMES:
        raise DeviceUnavailable(
            f"there is no device {name!r}",
            hint=f'the devices are {", ".join(_HOMES)}; irs.compile also takes "reference"',
        )
    module, kind = _HOMES[name]
    made: Device = getattr(importlib.import_module(module), kind)()
    return made
