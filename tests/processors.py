"""Kernels as older processors of the same family run them: a plugin of pytest that takes features from this one.

    pytest -p tests.processors --processor nehalem tests/codegen/numerics

A false claim of the text may end the process, so tests run it in a process of their own.
"""

from collections.abc import Collection
from dataclasses import replace
from typing import Any, Final

import pytest

_PLAIN: Final = frozenset("64bit cmov cx8 fxsr mmx sse sse2".split())
_NEHALEM: Final = _PLAIN | frozenset("cx16 crc32 popcnt sahf sse3 sse4.1 sse4.2 ssse3".split())
_HASWELL: Final = _NEHALEM | frozenset("aes avx avx2 bmi bmi2 f16c fma fsgsbase invpcid lzcnt movbe pclmul rdrnd xsave xsaveopt".split())
PROCESSORS: Final = {"x86-64": _PLAIN, "nehalem": _NEHALEM, "haswell": _HASWELL}
"""The features that LLVM gives each processor. Before Haswell there is no fused multiply-add and no float16; plain x86-64 rounds
to integers in the C library."""


def restricted_to(host: Any, features: Collection[str]) -> Any:
    """Returns the processor with none but these of LLVM's features: kernels for it run here and on any that has them."""
    from irscope.runtime.cpu import compiler

    switched = {name[1:]: name[1:] in features for name in host.features.split(",") if name.startswith("+")}
    rest = [name for name in host.features.split(",") if name.startswith("-")]
    text = ",".join([*rest, *(f"{'+' if has else '-'}{name}" for name, has in switched.items())])
    return replace(host, features=text, target=compiler._target(switched, host.triple))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--processor", choices=PROCESSORS, help="compile kernels for an older x86 processor")


def pytest_configure(config: pytest.Config) -> None:
    name = config.getoption("--processor")
    if name is None:
        return
    from irscope.runtime.cpu import compiler

    host = restricted_to(compiler.this_host(), PROCESSORS[name])

    def restricted() -> Any:
        return host

    compiler.this_host = restricted


def pytest_report_header(config: pytest.Config) -> str:
    from irscope.runtime.cpu import compiler

    return f"kernels for {compiler.this_host().name}"
