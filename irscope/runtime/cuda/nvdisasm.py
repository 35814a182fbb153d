"""SASS, the GPU's real machine code: extracted from a cubin by NVIDIA's disassembler, where available.

`nvdisasm` also reports the source line of each instruction; `cuobjdump` does not. Both are small programs that need no GPU.
They are searched for on PATH, in the pip packages of CUDA and of Triton, and in CUDA's default install folder.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from irscope.errors import DeviceUnavailable

__all__ = ["disassembled", "disassembler"]

INSTALL: Final = "pip install nvidia-cuda-nvdisasm, or put the bin folder of a CUDA toolkit on PATH"
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
        raise DeviceUnavailable("no disassembler for GPU code was found", hint=INSTALL)
    with TemporaryDirectory(prefix="irscope-") as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin + b"\0")  # CuPy leaves out the last byte
        try:
            done = subprocess.run(
                [*command, str(path)], capture_output=True, text=True, check=False, timeout=_SECONDS
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise DeviceUnavailable(f"{command[0]} does not run: {error}", hint=INSTALL) from None
    if done.returncode:
        reason = (done.stderr or done.stdout).strip().splitlines()
        raise DeviceUnavailable(
            f"{command[0]} refuses the code: {reason[0] if reason else 'it gives no reason'}", hint=INSTALL
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
