"""What a device offers: whether it is there, what its text of a kernel looks like, and kernels that run."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from irscope.codegen.kernel import KernelSpec, Launch, LaunchPlan, SourceText
from irscope.errors import DeviceUnavailable
from irscope.runtime.device.kernel_cache import ObjectStore

__all__ = [
    "NO_MEMORY", "Availability", "Device", "HostKernel", "HostPlan", "Kernel", "OnlyLaunch", "PreparedPlan", "device", "devices",
]  # fmt: skip

NO_MEMORY: Final = "a tensor has no memory: its storage was freed, or a torch transform holds only a symbolic reference to it"
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

    @property
    def name(self) -> str:
        """What it is called in its text."""

    @property
    def source(self) -> SourceText | None:
        """The text that was compiled, if the device would not write the same again for the spec."""

    @property
    def facts(self) -> Any:
        """What the compiler says of it, as `KernelFacts`; None where that is to be counted in the machine code."""

    @property
    def summary(self) -> str:
        """The facts in some words; empty where there are none."""

    @property
    def registers(self) -> int | None:
        """Of a thread on a GPU."""

    @property
    def spill_bytes(self) -> int | None:
        """What a thread on a GPU stores for want of registers."""


class HostKernel:
    """What a kernel of the processor has none of: it goes by its spec."""

    spec: KernelSpec
    source: SourceText | None = None
    facts: Any = None
    summary = ""
    registers: int | None = None
    spill_bytes: int | None = None

    @property
    def name(self) -> str:
        """That of the spec."""
        return self.spec.name


class OnlyLaunch(Protocol):
    """The one launch of a plan, into which a caller may jump with the addresses in the kernel's own order."""

    @property
    def jump(self) -> Any: ...

    @property
    def launch(self) -> Launch: ...

    @property
    def moved(self) -> Sequence[int]:
        """How many bytes after each address its first element lies."""


class PreparedPlan(Protocol):
    """A launch plan whose kernels are compiled and whose arguments are laid out: only pointers are missing."""

    @property
    def plan(self) -> LaunchPlan: ...

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernel of each launch."""

    @property
    def single(self) -> OnlyLaunch | None:
        """The only launch, if it runs on the calling thread and nothing but it has to be done."""

    @property
    def threads(self) -> int:
        """Over how many threads of the processor its longest launch is shared out; 1 where a GPU does the work."""

    def on(self, owner: Any) -> PreparedPlan:
        """The plan for arrays of this library, of which a GPU has streams and memory of its own."""

    def __call__(self, outputs: Sequence[int], inputs: Sequence[float]) -> None:
        """Run. `outputs` and `inputs` are addresses of first elements (`data_ptr()`, `ctypes.data`), or numbers for
        scalar inputs.

        The caller has allocated outputs with the plan's types, owns all memory until the call returns (on a GPU:
        until the stream has passed it), and lets no output overlap an input.
        """


class HostPlan:
    """What a plan of the processor does as most do."""

    single: OnlyLaunch | None = None
    threads: int = 1

    def on(self, owner: Any) -> Any:
        """Itself: all libraries share the processor's memory."""
        return self


class Device(Protocol):
    """A place where kernels run."""

    @property
    def store(self) -> ObjectStore | None:
        """Where compiled kernels are kept for later processes."""

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

    def prepare_together(self, plans: Iterable[LaunchPlan]) -> None:
        """Compile the kernels of many plans at once, where that takes less time than one by one; `prepare` finds them."""


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
