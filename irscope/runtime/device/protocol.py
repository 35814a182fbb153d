"""The interface of a device: its availability, its text of a kernel, and kernels that run."""

import importlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from irscope.codegen.kernel import KernelSpec, Launch, LaunchPlan, SourceText
from irscope.errors import DeviceUnavailable
from irscope.runtime.device.kernel_cache import ObjectStore

NO_MEMORY: Final = "a tensor has no memory: its storage was freed, or a torch transform holds only a symbolic reference to it"
"""The reason why a kernel does not run on an address of zero."""


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether a device can run kernels here; truthy or falsy.

    >>> print(Availability(False, "CuPy is not installed", "pip install 'irscope[cuda13]'"))
    no: CuPy is not installed (pip install 'irscope[cuda13]')
    """

    available: bool
    what: str
    """The hardware or software found, or missing."""
    fix: str = ""
    """The command that would make it available; empty when there is none, or nothing is missing."""

    def __bool__(self) -> bool:
        return self.available

    def __str__(self) -> str:
        return f"{'yes' if self.available else 'no'}: {self.what}{f' ({self.fix})' if self.fix else ''}"


class Kernel(Protocol):
    """A compiled kernel, valid for every size and stride of its spec; thread-safe."""

    @property
    def spec(self) -> KernelSpec: ...

    @property
    def compile_seconds(self) -> float:
        """The time to build it, from text or from the disk cache."""

    @property
    def from_disk(self) -> bool:
        """Whether it was loaded from the disk cache, where an earlier process had saved it."""

    @property
    def name(self) -> str:
        """The name of its function in its text."""

    @property
    def source(self) -> SourceText | None:
        """The compiled text, if the device would not emit the same again for the spec."""

    @property
    def facts(self) -> Any:
        """The compiler's facts, as `KernelFacts`; None where they are to be counted in the machine code."""

    @property
    def summary(self) -> str:
        """The facts in a few words; empty where there are none."""

    @property
    def registers(self) -> int | None:
        """Registers per thread on a GPU."""

    @property
    def spill_bytes(self) -> int | None:
        """Bytes that a GPU thread spills because registers run out."""


class HostKernel:
    """Defaults for a kernel of the processor, which is described by its spec alone."""

    spec: KernelSpec
    source: SourceText | None = None
    facts: Any = None
    summary = ""
    registers: int | None = None
    spill_bytes: int | None = None

    @property
    def name(self) -> str:
        return self.spec.name


class OnlyLaunch(Protocol):
    """The only launch of a plan, for callers that call its kernel themselves: `function(pack(*words), dims_address)`, where
    words are addresses and numbers in the kernel's own order."""

    @property
    def function(self) -> Any: ...

    @property
    def address(self) -> int:
        """The address of the kernel's machine code; 0 where the processor does not run it."""

    @property
    def pack(self) -> Any: ...

    @property
    def dims_address(self) -> int: ...

    @property
    def addresses(self) -> Sequence[int]:
        """The words, by position, that are addresses and must not be 0."""

    @property
    def launch(self) -> Launch: ...

    @property
    def moved(self) -> Sequence[int]:
        """The bytes from each address to its first element."""


class PreparedPlan(Protocol):
    """A launch plan whose kernels are compiled and whose arguments are laid out: only pointers are missing."""

    @property
    def plan(self) -> LaunchPlan: ...

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels of all launches."""

    @property
    def single(self) -> OnlyLaunch | None:
        """The only launch, if it runs on the calling thread and nothing else has to be done."""

    @property
    def serial(self) -> Sequence[OnlyLaunch]:
        """All launches in order, if each is one call on the calling thread; empty otherwise."""

    @property
    def threads(self) -> int:
        """The number of processor threads that its longest launch is split over; 1 where a GPU does the work."""

    def on(self, owner: Any) -> "PreparedPlan":
        """Returns the plan for arrays of this library, which has its own streams and memory on a GPU."""

    def __call__(self, outputs: Sequence[int], inputs: Sequence[float]) -> None:
        """Runs the plan. `outputs` and `inputs` are addresses of first elements (`data_ptr()`, `ctypes.data`), or numbers
        for scalar inputs.

        The caller has allocated outputs with the plan's types, owns all memory until the call returns (on a GPU:
        until the stream has passed it), and lets no output overlap an input.
        """


class HostPlan:
    """Defaults for a plan of the processor."""

    single: OnlyLaunch | None = None
    serial: Sequence[OnlyLaunch] = ()
    threads: int = 1

    def on(self, owner: Any) -> Any:
        """Returns itself: all libraries share the processor's memory."""
        return self


class Device(Protocol):
    """A device that compiles and runs kernels."""

    @property
    def store(self) -> ObjectStore | None:
        """The disk cache of compiled kernels, for later processes."""

    @property
    def name(self) -> str:
        """`cpu`, `numpy` or `cuda`."""

    def availability(self) -> Availability:
        """Returns whether kernels can run here; never raises."""

    def source(self, spec: KernelSpec) -> SourceText:
        """Returns the text of a kernel for this device; needs neither the device nor its compiler."""

    def compile(self, spec: KernelSpec) -> Kernel:
        """Returns the kernel, from a cache where possible. Raises DeviceUnavailable."""

    def prepare(self, plan: LaunchPlan) -> PreparedPlan:
        """Compiles the kernels of a plan and lays out its arguments. Raises DeviceUnavailable."""

    def prepare_together(self, plans: Iterable[LaunchPlan]) -> None:
        """Compiles the kernels of many plans at once, where that is faster than one by one; `prepare` finds them."""


_HOMES: Final = {
    "cpu": ("irscope.runtime.cpu.device", "CpuDevice"),
    "numpy": ("irscope.runtime.device.numpy_device", "NumpyDevice"),
    "cuda": ("irscope.runtime.cuda.device", "CudaDevice"),
}
"""Each device's module, imported on demand, and its class there."""


def devices() -> tuple[Device, ...]:
    """Returns one device of every kind, whether available or not: `cpu`, `numpy`, `cuda`.

    >>> [each.name for each in devices()]
    ['cpu', 'numpy', 'cuda']
    """
    return tuple(device(name) for name in _HOMES)


def device(name: str) -> Device:
    """Returns a new device of this name, with its own caches in memory. Raises DeviceUnavailable for an unknown name.

    >>> device("numpy").availability().available
    True
    """
    if name not in _HOMES:
        raise DeviceUnavailable(
            f"there is no device {name!r}", hint=f'the devices are {", ".join(_HOMES)}; irs.compile also takes "reference"'
        )
    module, kind = _HOMES[name]
    made: Device = getattr(importlib.import_module(module), kind)()
    return made
