"""NVRTC: CUDA text to machine code, with the assembler's report of registers and spills, and the code disassembled. Needs no GPU.

Kernels are compiled by `cupy.cuda.nvrtc` rather than `RawModule`, which always flushes denormals to zero.
"""

import importlib.util
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from irscope.errors import DeviceUnavailable
from irscope.runtime.arrays import imported_cupy

INSTALL: Final = "pip install 'irscope[cuda13]'   (or cuda12, by the driver)"
OPTIONS: Final = ("--std=c++17", "--fmad=true", "--prec-div=true", "--prec-sqrt=true", "--ftz=false")


@dataclass(frozen=True, slots=True)
class Resources:
    """The resources of a multiprocessor that one entry uses.

    >>> print(Resources(32, 0, 0, 1024))
    32 registers, no spills, 1,024 B shared
    """

    registers: int
    """Per thread."""
    spill_bytes: int
    """Bytes that a thread writes to memory and reads again because registers run out."""
    stack_bytes: int
    """Local memory of a thread, such as an array that is not in registers."""
    shared_bytes: int

    def __str__(self) -> str:
        spills = f"{self.spill_bytes} B spilled" if self.spill_bytes else "no spills"
        local = f", {self.stack_bytes} B of local memory" if self.stack_bytes else ""
        shared = f", {self.shared_bytes:,} B shared" if self.shared_bytes else ""
        return f"{self.registers} registers, {spills}{local}{shared}"


@dataclass(frozen=True, slots=True)
class Compiled:
    """A module of one or more kernels."""

    code: bytes
    """The cubin."""
    ptx: str
    """The code for a virtual GPU, for reading; empty when the code came from the disk cache."""
    resources: dict[str, Resources]
    """By entry."""

    def packed(self) -> bytes:
        """Returns the module as one string of bytes for the disk cache."""
        head = json.dumps({name: asdict(found) for name, found in self.resources.items()}).encode()
        return len(head).to_bytes(4, "little") + head + self.code

    @classmethod
    def unpacked(cls, data: bytes) -> "Compiled":
        """Restores a module from `packed`, without PTX."""
        length = int.from_bytes(data[:4], "little")
        found = json.loads(data[4 : 4 + length])
        return cls(data[4 + length :], "", {name: Resources(**each) for name, each in found.items()})


class Nvrtc:
    """NVIDIA's compiler as a library.

    >>> Nvrtc()
    <NVRTC through CuPy>
    """

    def __repr__(self) -> str:
        return "<NVRTC through CuPy>"

    def version(self) -> str:
        """Returns the version, which is part of the cache key. Raises DeviceUnavailable or MissingExtra if it is missing."""
        nvrtc = imported_cupy().cuda.nvrtc
        try:
            return f"nvrtc {'.'.join(map(str, nvrtc.getVersion()))}"
        except Exception as error:  # CuPy's loader has its own error type for a missing library
            raise _no_nvrtc(error) from None

    def compile(self, text: str, architecture: str, *, lines: bool = False) -> Compiled:
        """Returns machine code for one compute capability ("80", "90", "100"); `lines` adds source lines to both texts."""
        nvrtc = imported_cupy().cuda.nvrtc
        options: tuple[str, ...] = (*OPTIONS, f"--gpu-architecture=sm_{architecture}", "--ptxas-options=-v")
        if lines:
            options = (*options, "--generate-line-info")
        try:
            found = _compiled(nvrtc, text, options)
            if found.resources:
                return found
            # NVRTC 13.0 keeps what a process compiled before, and says nothing of it again
            with suppress(nvrtc.NVRTCError):  # an older one has neither the cache nor the option
                return _compiled(nvrtc, text, (*options, "--no-cache"))
            return found
        except nvrtc.NVRTCError as error:
            if "INVALID_OPTION" in str(error):
                raise DeviceUnavailable(
                    f"this NVRTC cannot compile for compute capability {architecture}", hint="pip install --upgrade nvidia-cuda-nvrtc"
                ) from None
            raise


def _compiled(nvrtc: Any, text: str, options: tuple[str, ...]) -> Compiled:
    """Runs the compiler once. Raises its NVRTCError for an unknown option."""
    try:
        program = nvrtc.createProgram(text, "kernel.cu", (), ())
    except Exception as error:
        raise _no_nvrtc(error) from None
    try:
        nvrtc.compileProgram(program, options)
        ptx, log = nvrtc.getPTX(program), nvrtc.getProgramLog(program)
        return Compiled(bytes(nvrtc.getCUBIN(program)), _text(ptx), read_resources(_text(log)))
    except nvrtc.NVRTCError as error:
        if "INVALID_OPTION" in str(error):
            raise
        raise AssertionError(f"NVRTC rejects the generated CUDA: {error}\n{nvrtc.getProgramLog(program)}") from None
    finally:
        nvrtc.destroyProgram(program)


def read_resources(log: str) -> dict[str, Resources]:
    """Parses the assembler's `-v` output, by entry.

    >>> log = "info : Compiling entry function 'k' for 'sm_90'\\ninfo : Function properties for k\\n"
    >>> log += " 8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\\n Used 12 registers, 256 bytes smem"
    >>> read_resources(log)["k"]
    Resources(registers=12, spill_bytes=8, stack_bytes=8, shared_bytes=256)
    """
    found: dict[str, Resources] = {}
    for part in re.split(r"Compiling entry function '", log)[1:]:
        name = part[: part.index("'")]
        numbers = {
            word: int(match.group(1)) if (match := re.search(pattern, part)) else 0
            for word, pattern in (
                ("registers", r"Used (\d+) registers"), ("stores", r"(\d+) bytes spill stores"),
                ("loads", r"(\d+) bytes spill loads"), ("stack", r"(\d+) bytes stack frame"),
                ("shared", r"(\d+) bytes smem"),
            )
        }  # fmt: skip
        spilled = numbers["stores"] + numbers["loads"]
        found[name] = Resources(numbers["registers"], spilled, numbers["stack"], numbers["shared"])
    return found


def _no_nvrtc(error: Exception) -> DeviceUnavailable:
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return DeviceUnavailable(f"NVRTC cannot be loaded: {reason}", hint=f"{INSTALL}, or pip install nvidia-cuda-nvrtc")


def _text(given: bytes | str) -> str:
    return (given.decode() if isinstance(given, bytes) else given).rstrip("\0")


# SASS, the GPU's real machine code: extracted from a cubin by NVIDIA's disassembler, where available.
#
# `nvdisasm` also reports the source line of each instruction; `cuobjdump` does not. Both are small programs that need no GPU.
# They are searched for on PATH, in the pip packages of CUDA and of Triton, and in CUDA's default install folder.

INSTALL_DISASSEMBLER: Final = "pip install nvidia-cuda-nvdisasm, or put the bin folder of a CUDA toolkit on PATH"
_PROGRAMS: Final = {"nvdisasm": ("-c", "-gi"), "cuobjdump": ("-sass",)}
_SECONDS: Final = 60


def disassembler() -> tuple[str, ...] | None:
    """Returns the command that disassembles a cubin, without the file name; None where there is none."""
    places = [str(place) for place in _places()]
    for name, options in _PROGRAMS.items():
        found = shutil.which(name) or shutil.which(name, path=os.pathsep.join(places))
        if found:
            return (found, *options)
    return None


def disassembled(cubin: bytes) -> str:
    """Returns the disassembler's output. Raises DeviceUnavailable where there is none, or if it does not support the GPU."""
    command = disassembler()
    if command is None:
        raise DeviceUnavailable("no disassembler for GPU code was found", hint=INSTALL_DISASSEMBLER)
    with TemporaryDirectory(prefix="irscope-") as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin + b"\0")  # CuPy leaves out the last byte
        try:
            done = subprocess.run(
                [*command, str(path)], capture_output=True, text=True, check=False, timeout=_SECONDS
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise DeviceUnavailable(f"{command[0]} does not run: {error}", hint=INSTALL_DISASSEMBLER) from None
    if done.returncode:
        reason = (done.stderr or done.stdout).strip().splitlines()
        raise DeviceUnavailable(
            f"{command[0]} refuses the code: {reason[0] if reason else 'it gives no reason'}", hint=INSTALL_DISASSEMBLER
        )
    return done.stdout


def _places() -> Iterator[Path]:
    """Yields the folders in which pip packages and CUDA's installer put the programs."""
    nvidia = importlib.util.find_spec("nvidia")
    for root in (nvidia.submodule_search_locations if nvidia else None) or ():
        yield from sorted(Path(root).glob("*/bin"), reverse=True)
    triton = importlib.util.find_spec("triton")
    for root in (triton.submodule_search_locations if triton else None) or ():
        yield Path(root) / "backends" / "nvidia" / "bin"
    yield Path("/usr/local/cuda/bin")
