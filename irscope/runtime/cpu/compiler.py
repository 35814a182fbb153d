"""LLVM for this machine's processor, through llvmlite: the host description, and text compiled to loaded machine code.

Machine code is kept on disk under the text, the processor, and the versions of llvmlite and LLVM. No optimisation pass
runs over a text: it is emitted as it should run.
"""

import mmap
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeVar

from irscope._base.running import interrupts_deferred
from irscope.codegen.llvm import Target
from irscope.errors import CodegenError, MissingExtra
from irscope.runtime.cpu.emit_object import emitted_object, own_context, undefined_symbols
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

    def restricted_to(self, features: Collection[str]) -> "Host":
        """Returns the processor with none but these of LLVM's features: kernels for it run here and on any that has them."""
        own = [name[1:] for name in self.features.split(",") if name.startswith("+")]
        switched = {name: name in features for name in own}
        rest = [name for name in self.features.split(",") if name.startswith("-")]
        text = ",".join([*rest, *(f"{'+' if has else '-'}{name}" for name, has in switched.items())])
        return replace(self, features=text, target=_target(switched, self.triple))


class MachineCode(NamedTuple):
    """A callable function of machine code."""

    address: int
    machine: Any
    """The owner of the code: keep it alive as long as the function may run."""
    from_disk: bool
    """Whether it was loaded from the disk cache."""


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
            return str(machine.emit_assembly(binding.parse_assembly(text, own_context(binding))))

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
    """Returns the result of a call into LLVM that an interrupt cannot break.

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


def object_file(text: str, host: Host) -> bytes:
    """Returns an object file, with no optimisation pass over the text."""
    binding = _llvm()
    machine = _machine(binding, host)
    module = binding.parse_assembly(text, own_context(binding))
    module.triple = host.triple
    module.data_layout = str(machine.target_data)
    return emitted_object(machine, module)


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
