"""Object files from LLVM, by several threads at once.

llvmlite lets one thread into LLVM at a time. LLVM itself asks for less: threads must not share a context, and what is made
in it. Here every text gets a context and a target machine of its own, and the one call that takes most of the time, making
the object file, goes around llvmlite's lock. Where llvmlite does not show what that takes, it goes through it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

__all__ = ["emitted_object", "own_context"]


def own_context(binding: Any) -> Any:
    """A context for one text; nothing that belongs to another thread may be made in it."""
    return binding.create_context()


def emitted_object(machine: Any, module: Any) -> bytes:
    """The object file of a module that has a context of its own. Raises RuntimeError with what LLVM says."""
    emit = _unlocked_emit()
    if emit is None:
        return bytes(machine.emit_object(module))
    from llvmlite.binding import ffi

    with ffi.OutputString() as trouble:
        memory = emit(machine, module, 1, trouble)
        if not memory:
            raise RuntimeError(str(trouble))
    try:
        start, size = ffi.lib.LLVMPY_GetBufferStart(memory), ffi.lib.LLVMPY_GetBufferSize(memory)
        return ctypes.string_at(start, size)
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(memory)


@cache
def _unlocked_emit() -> Callable[..., Any] | None:
    """LLVM's function that makes object files, without llvmlite's lock around it."""
    from llvmlite.binding import ffi

    try:
        locked = ffi.lib.LLVMPY_TargetMachineEmitToMemory
        library = ctypes.CDLL(ffi.lib._name, handle=ffi.lib._handle)
        function = library.LLVMPY_TargetMachineEmitToMemory
        function.argtypes, function.restype = list(locked.argtypes), locked.restype
    except (AttributeError, TypeError):
        return None
    return function
