"""Object files from LLVM, emitted by several threads at once.

llvmlite lets one thread into LLVM at a time. LLVM itself requires less: threads must not share a context, or anything
created in it. Here every text has its own context and target machine, and the one call that takes most of the time,
emitting the object file, bypasses llvmlite's lock. Where llvmlite does not expose what this requires, the call uses llvmlite.

An object file may call functions of the C library or of the compiler's runtime that the text does not name: `fmodf`, or
`__truncsfhf2` where the processor has no float16. LLVM's loader makes a jump to address 0 of one that it does not find.
"""

import ctypes
import struct
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any


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


def undefined_symbols(binding: Any, code: bytes) -> list[str]:
    """Returns the functions that an object file calls and does not contain, without the underscore that macOS puts before names.
    Returns none of a format other than ELF and Mach-O of 64 bits."""
    if code[:5] == b"\x7fELF\2":
        parts = {part.name(): part.data() for part in binding.object_file.ObjectFileRef.from_data(code).sections()}
        symbols = struct.iter_unpack("<IBBHQQ", parts.get(b".symtab", b""))
        places, names = [at for at, _, _, section, *_ in symbols if at and not section], parts.get(b".strtab", b"")
    elif code[:4] == b"\xcf\xfa\xed\xfe":
        symbols, names = _mach_symbols(code)
        places = [at + 1 for at, kind, *_ in symbols if kind & 0x0F == 1]
    else:
        return []
    found = [names[at : names.index(b"\0", at)].decode() for at in places]
    return [name for name in found if name != "_GLOBAL_OFFSET_TABLE_"]


def _mach_symbols(code: bytes) -> tuple[Iterator[Any], bytes]:
    """Returns the symbols of a Mach-O file and their names, which its LC_SYMTAB command places."""
    at, (count,) = 32, struct.unpack_from("<I", code, 16)
    for _ in range(count):
        command, size = struct.unpack_from("<II", code, at)
        if command == 2:
            start, symbols, names, length = struct.unpack_from("<IIII", code, at + 8)
            return struct.iter_unpack("<IBBHQ", code[start : start + 16 * symbols]), code[names : names + length]
        at += size
    return iter(()), b""
