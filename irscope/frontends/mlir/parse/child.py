"""A file parsed in a process of its own, which may die of it: MLIR's parser aborts on some garbled input.

Run as a script, with the name of a package and Python's path as arguments and the file on standard input. Prints what
the parser says about a file that is none, and nothing about one that is fine. Imports nothing of irscope's.
"""

from __future__ import annotations

import json
import sys
import threading
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

STACK = 4 << 20
"""Bytes of stack; less than any thread of the user's has, so that what is parsed here is parsed there."""


def main() -> None:
    """Parses standard input; the exit status is 0 if that worked, 1 if the parser refused, anything else is a crash."""
    package, path, home = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
    sys.path[:] = path
    _limit(int(sys.argv[4]), int(sys.argv[5]))
    content = sys.stdin.buffer.read()
    said: list[str] = []
    threading.stack_size(STACK)
    worker = threading.Thread(target=_parse, args=(package, home, content, said))
    worker.start()
    worker.join()
    if said:
        sys.stdout.buffer.write(said[0].encode("utf-8", "replace"))
        sys.stdout.flush()
        sys.exit(1)


def _parse(package: str, home: str, content: bytes, said: list[str]) -> None:
    try:
        bindings = _loaded(home)
        found = bindings.required(package)
        found.ir.Module.parse(content, bindings.new_context(found))
    except BaseException as error:
        said.append(str(error) or type(error).__name__)


def _loaded(home: str) -> Any:
    """`irscope.frontends.mlir.parse.bindings`, without the packages around it, which would take longer than the parser."""
    spec = spec_from_file_location("irscope_mlir_bindings", home)
    assert spec is not None and spec.loader is not None  # the file is there
    module = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _limit(memory: int, seconds: int) -> None:
    try:
        import resource
    except ImportError:  # not on this system
        return
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main()
