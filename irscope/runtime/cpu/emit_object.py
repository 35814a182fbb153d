"""Object files from LLVM, emitted by several threads at once.

llvmlite lets one thread into LLVM at a time. LLVM itself requires less: threads must not share a context, or anything
created in it. Here every text has its own context and target machine, and the one call that takes most of the time,
emitting the object file, bypasses llvmlite's lock. Where llvmlite does not expose what this requires, the call uses llvmlite.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

__all__ = ["emitted_object", "own_context"]


def own_context(binding: Any) -> Any:
    """Returns a context for one text; no object of another thread may be created in it."""
    return binding.create_context()


def emitted_object(machine: Any, module: Any) -> bytes:
    """Returns the object file of a module that has its own context. Raises RuntimeError with LLVM's message."""
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
    """Returns LLVM's function that emits object files, without llvmlite's lock around it."""
    from llvmlite.binding import ffi

    try:
        locked = ffi.lib.LLVMPY_TargetMachineEmitToMemory
        library = ctypes.CDLL(ffi.lib._name, handle=ffi.lib._handle)
        function = library.LLVMPY_TargetMachineEmitToMemory
        function.argtypes, function.restype = list(locked.argtypes), locked.restype
    except (AttributeError, TypeError):
        return None
    return function
