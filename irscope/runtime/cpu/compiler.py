"""LLVM for this machine's processor, through llvmlite: the host description, and text compiled to loaded machine code.

Machine code is kept on disk under the text, the processor, and the versions of llvmlite and LLVM. No optimisation pass
runs over a text: it is emitted as it should run.
"""

import ctypes
import mmap
import struct
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Final, TypeVar

from irscope._base.running import interrupts_deferred
from irscope.codegen.llvm import Target
from irscope.errors import CodegenError, MissingExtra
from irscope.runtime.device import ObjectStore

T = TypeVar("T")

_COMPILER_BYTES: Final = 24 << 20
_BYTES_PER_LETTER: Final = 400
"""Memory that LLVM needs to build and load an object file: a constant part, and a part for each character of the text."""


@dataclass(frozen=True)
class Host:
    """The processor, as LLVM names it."""

    cpu: str
    features: str
    target: Target
    triple: str
    """The architecture and the system: the format of object files."""
    versions: str
    """Of llvmlite and LLVM: part of the cache key of compiled code."""

    @property
    def name(self) -> str:
        """The processor with the width of its vectors."""
        return f"{self.cpu}, {self.target.vector_bytes * 8}-bit vectors"


@dataclass(frozen=True, eq=False)
class MachineCode:
    """A callable function of machine code."""

    address: int
    machine: Any
    """The owner of the code: keep it alive as long as the function may run."""
    from_disk: bool
    """Whether it was loaded from the disk cache."""

    def function(self, kind: Any, result: Any, *arguments: Any) -> Any:
        """Returns it as a function that keeps the code alive; `kind` is CFUNCTYPE, or PYFUNCTYPE, which keeps other threads waiting."""
        made = kind(result, *arguments)(self.address)
        made.owner = self.machine
        return made

    @cached_property
    def call(self) -> Callable[[bytes, int], None]:
        """`kernel(data, dims)`, while other Python threads run."""
        return self.function(ctypes.CFUNCTYPE, None, ctypes.c_char_p, ctypes.c_void_p)  # type: ignore[no-any-return]

    @cached_property
    def call_holding(self) -> Callable[[bytes, int], None]:
        """`kernel(data, dims)`, while other Python threads wait: cheaper for short kernels."""
        return self.function(ctypes.PYFUNCTYPE, None, ctypes.c_char_p, ctypes.c_void_p)  # type: ignore[no-any-return]


class CpuCompiler:
    """Compiles text to machine code, and keeps it in a store."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store

    @cached_property
    def host(self) -> Host:
        """The processor. Raises MissingExtra without llvmlite."""
        return with_llvm(this_host)

    def code(self, text: str, symbol: str, *, kernel: bool = True) -> MachineCode:
        """Returns a function of a text, from disk or from LLVM; counts kernels. Raises CodegenError when memory for compiling
        is short."""
        size = _COMPILER_BYTES + _BYTES_PER_LETTER * len(text)
        try:
            mmap.mmap(-1, size).close()  # LLVM terminates the process on a failed allocation
        except (MemoryError, OSError) as error:
            raise CodegenError(
                f"there is no memory to compile a kernel in: {size >> 20} MiB are needed ({error})", rule="no-memory",
                hint="free some, or raise the limit (ulimit -v)",
            ) from None  # fmt: skip
        return with_llvm(lambda: self._code(text, symbol, kernel))

    def assembly(self, text: str) -> str:
        """Returns LLVM's assembly of a text, for reading."""
        host = self.host

        def emitted() -> str:
            binding = _llvm()
            machine = _machine(binding, host)
            machine.set_asm_verbosity(True)
            return str(machine.emit_assembly(binding.parse_assembly(text, binding.create_context())))

        return with_llvm(emitted)

    def _code(self, text: str, symbol: str, kernel: bool) -> MachineCode:
        host = self.host
        key = "\n".join((host.versions, host.triple, host.cpu, host.features, text))
        code = self.store.read(key, kernel=kernel)
        found = loaded(code, symbol, host) if code is not None else None
        if kernel:
            self.store.count(found=found is not None)
        if found is not None:
            return MachineCode(*found, from_disk=True)
        code = object_file(text, host)
        found = loaded(code, symbol, host)
        assert found is not None, "an object file that LLVM has just made must load"
        self.store.save(key, code, kernel=kernel)
        return MachineCode(*found, from_disk=False)


_DISUSED: Final[deque[Any]] = deque()
"""Owners of machine code that is no longer called, freed where nothing interrupts LLVM."""


def with_llvm(work: Callable[[], T]) -> T:
    """Returns the result of a call into LLVM that neither Ctrl-C nor another signal whose handler raises can break.

    LLVM and llvmlite have locks of their own: a process that is forked while another thread compiles cannot compile.
    """
    with interrupts_deferred(however_often=True):
        _DISUSED.clear()
        return work()


class _Owner:
    """Owns machine code. LLVM must not be interrupted while it frees the code, and Python may free objects at any point."""

    __slots__ = ("engine",)

    def __init__(self, engine: Any) -> None:
        self.engine = engine

    def __del__(self, put: Callable[[Any], None] = _DISUSED.append) -> None:
        put(self.engine)


def _llvm() -> Any:
    try:
        import llvmlite.binding as binding
    except ImportError:
        raise MissingExtra("llvmlite", extra="cpu", purpose="to compile kernels for the processor") from None
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding


def this_host() -> Host:
    """Returns the processor as LLVM sees it. Raises MissingExtra without llvmlite."""
    binding = _llvm()
    import llvmlite

    features = binding.get_host_cpu_features()
    triple = binding.get_process_triple()
    llvm = ".".join(map(str, binding.llvm_version_info))
    return Host(
        binding.get_host_cpu_name(), features.flatten(), _target(features, triple), triple, f"llvmlite {llvmlite.__version__}, LLVM {llvm}"
    )


def _target(features: Mapping[str, bool], triple: str) -> Target:
    if all(features.get(name) for name in ("avx512f", "avx512vl", "avx512bw", "avx512dq", "f16c")):
        return Target(64, native_half=True, masks=True, registers=4)
    if features.get("avx2"):
        return Target(32, bool(features.get("f16c")))
    return Target(native_half="aarch64" in triple or "arm64" in triple)


def _machine(binding: Any, host: Host) -> Any:
    return binding.Target.from_triple(host.triple).create_target_machine(
        cpu=host.cpu, features=host.features, opt=3, codemodel="jitdefault", jit=True
    )


def loaded(code: bytes, symbol: str, host: Host) -> tuple[int, Any] | None:
    """Returns the address of a symbol in an object file, and the owner of its memory; None if the file lacks the symbol.
    Raises CodegenError if the file calls a function that this process does not have."""
    binding = _llvm()
    module = binding.parse_assembly("")
    module.triple = host.triple
    engine = binding.create_mcjit_compiler(module, _machine(binding, host))
    try:
        engine.add_object_file(binding.object_file.ObjectFileRef.from_data(code))
    except RuntimeError:
        return None
    missing = [name for name in undefined_symbols(binding, code) if not binding.address_of_symbol(name)]
    if missing:
        raise CodegenError(
            f"a kernel for {host.name} calls {', '.join(missing)}, which neither the C library of this system nor this process has",
            rule="missing-symbol", hint="run the program with device='numpy'",
        )  # fmt: skip
    engine.finalize_object()
    address = engine.get_function_address(symbol)
    return (address, _Owner(engine)) if address else None


# Object files from LLVM, emitted by several threads at once.
#
# llvmlite lets one thread into LLVM at a time. LLVM itself requires less: threads must not share a context, or anything
# created in it. Here every text has its own context and target machine, and the one call that takes most of the time,
# emitting the object file, bypasses llvmlite's lock. Where llvmlite does not expose what this requires, the call uses llvmlite.
#
# An object file may call functions of the C library or of the compiler's runtime that the text does not name: `fmodf`, or
# `__truncsfhf2` where the processor has no float16. LLVM's loader makes a jump to address 0 of one that it does not find.


def object_file(text: str, host: Host) -> bytes:
    """Returns an object file, with no optimisation pass over the text. Raises RuntimeError with LLVM's message."""
    binding = _llvm()
    machine = _machine(binding, host)
    module = binding.parse_assembly(text, binding.create_context())
    module.triple = host.triple
    module.data_layout = str(machine.target_data)
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
