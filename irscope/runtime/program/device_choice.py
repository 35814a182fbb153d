"""The choice of devices that compile a program's kernels: those that all programs of a process share, or new ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from irscope.ir import Node
from irscope.runtime.cpu import CpuDevice
from irscope.runtime.device import Device, KernelCache, ObjectStore, user_cache_directory
from irscope.runtime.device import device as new_device

__all__ = ["devices_for_groups", "shared_device"]


def devices_for_groups(
    name: str, share: bool, disk_cache: bool, store: ObjectStore | None, threads: int | None = None
) -> Callable[[Node], Device]:
    """Returns a function from a group to the device that compiles its kernels; a new one each if kernels are not shared."""
    if name == "reference":
        return lambda group: new_device("numpy")
    first = shared_device(name, disk_cache=disk_cache)
    if isinstance(first, CpuDevice) and (store is not None or threads not in (None, first.threads)):
        first = CpuDevice(store=store or first.store, threads=threads)
    if share:
        return lambda group: first
    if isinstance(first, CpuDevice):
        kept = first.store
        return lambda group: CpuDevice(store=kept, threads=threads)
    return lambda group: new_device(first.name)


def shared_device(name: str, *, disk_cache: bool = True) -> Device:
    """Returns the shared device of this name, or NumPy's where the processor's compiler is missing.

    A GPU that is absent is returned too: its kernels can be inspected, and a call reports what is missing."""
    device = _SHARED.get((name, user_cache_directory()), lambda: new_device(name))
    availability = device.availability()
    if isinstance(device, CpuDevice):
        if not availability:
            return new_device("numpy")
        return device if disk_cache else CpuDevice(store=_NoStore(device.store.directory))
    return device


_SHARED: Final[KernelCache[Device]] = KernelCache()
"""The devices of this process by name and cache directory: all programs compiled in the process share their kernels."""


class _NoStore(ObjectStore):
    """A store that saves and loads nothing, so that compiling counts as neither a use nor a miss of the directory."""

    def read(self, key: str, *, kernel: bool = True) -> bytes | None:
        return None

    def count(self, *, found: bool) -> None:
        return

    def save(self, key: str, payload: bytes, *, kernel: bool = True) -> bool:
        return False

    def add_note(self, name: str, line: bytes, *, most: int) -> None:
        return
