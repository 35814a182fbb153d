"""What a device is asked: its availability, its text of a kernel, and kernels that run."""

import importlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from irscope.codegen.kernel import KernelSpec, LaunchPlan, SourceText
from irscope.errors import DeviceUnavailable, public
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


class HostKernel:
    """What a kernel is asked, with the answers of one of the processor, which its spec alone describes. A kernel is valid for every
    size and stride of its spec, and thread-safe; `compile_seconds` is the time to build it, or to load it where it is `from_disk`."""

    spec: KernelSpec
    source: SourceText | None = None
    """The compiled text, if the device would not emit the same again for the spec."""
    facts: Any = None
    """The compiler's facts, as `KernelFacts`; None where they are to be counted in the machine code."""
    summary = ""
    """The facts in a few words; empty where there are none."""
    registers: int | None = None
    """Registers per thread on a GPU."""
    spill_bytes: int | None = None
    """Bytes that a GPU thread spills because registers run out."""

    @property
    def name(self) -> str:
        """The name of its function in its text."""
        return self.spec.name


class PreparedPlan:
    """A launch plan whose kernels are compiled and whose arguments are laid out: only pointers are missing."""

    plan: LaunchPlan
    kernels: tuple[Any, ...]
    """The kernels of all launches."""
    single: Any = None
    """The only launch (`irscope.runtime.cpu.launch.LaunchCall`), if it runs on the calling thread and nothing else has to be done."""
    serial: Sequence[Any] = ()
    """All launches in order, if each is one call on the calling thread; empty otherwise."""
    threads: int = 1
    """The number of processor threads that its longest launch is split over; 1 where a GPU does the work."""

    def on(self, owner: Any) -> "PreparedPlan":
        """Returns the plan for arrays of this library, which has its own streams and memory on a GPU."""
        return self

    def __call__(self, outputs: Sequence[int], inputs: Sequence[float]) -> None:
        """Runs the plan. `outputs` and `inputs` are addresses of first elements (`data_ptr()`, `ctypes.data`), or numbers
        for scalar inputs.

        The caller has allocated outputs with the plan's types, owns all memory until the call returns (on a GPU:
        until the stream has passed it), and lets no output overlap an input.
        """
        raise NotImplementedError


class Device:
    """A device that compiles and runs kernels."""

    name: ClassVar[str]
    """`cpu`, `numpy` or `cuda`."""
    store: ObjectStore | None = None
    """The disk cache of compiled kernels, for later processes."""

    def __repr__(self) -> str:
        return f"<{self.name}: {self.availability()}>"

    def availability(self) -> Availability:
        """Returns whether kernels can run here; never raises."""
        raise NotImplementedError

    def source(self, spec: KernelSpec) -> SourceText:
        """Returns the text of a kernel for this device; needs neither the device nor its compiler."""
        raise NotImplementedError

    def compile(self, spec: KernelSpec) -> Any:
        """Returns the kernel, from a cache where possible. Raises DeviceUnavailable."""
        raise NotImplementedError

    def prepare(self, plan: LaunchPlan) -> PreparedPlan:
        """Compiles the kernels of a plan and lays out its arguments. Raises DeviceUnavailable."""
        raise NotImplementedError

    def prepare_together(self, plans: Iterable[LaunchPlan]) -> None:
        """Compiles the kernels of many plans at once, where that is faster than one by one; `prepare` finds them."""


_HOMES: Final = {
    "cpu": ("irscope.runtime.cpu.device", "CpuDevice"),
    "numpy": ("irscope.runtime.device.numpy_device", "NumpyDevice"),
    "cuda": ("irscope.runtime.cuda.device", "CudaDevice"),
}
"""Each device's module, imported on demand, and its class there."""


@public
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
