"""Parses a file in a separate process, which may crash: MLIR's parser aborts on some garbled input.

Run as a script, with the file on standard input, and as arguments the names of packages and Python's path as JSON, the
file of the bindings, limits of memory and time, and the shapes for which to narrow the module (null: not at all). Prints
the name of the first package that reads the file, or the first package's error if none does.
"""

from __future__ import annotations

import json
import sys
import threading
from contextlib import suppress
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

NOT_READY = 3
"""The exit status if no parser could be started."""
STACK = 4 << 20
"""Bytes of stack; less than any thread of the user has, so that a file that is parsed here can be parsed there."""


def main() -> None:
    """Parses standard input; the exit status is 0 if that worked, 1 if every parser refused, NOT_READY if no parser could be
    started, which the last line of standard error explains; anything else is a crash."""
    packages, path, home = json.loads(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3]
    sys.path[:] = path
    _limit(int(sys.argv[4]), int(sys.argv[5]))
    content = sys.stdin.buffer.read()
    answer: list[str] = []
    threading.stack_size(STACK)
    worker = threading.Thread(target=_parse, args=(packages, home, content, answer, json.loads(sys.argv[6])))
    worker.start()
    worker.join()
    if not answer:
        sys.exit(NOT_READY)
    sys.stdout.buffer.write(answer[0].encode("utf-8", "replace"))
    sys.stdout.flush()
    sys.exit(0 if answer[0] in packages else 1)


def _parse(packages: list[str], home: str, content: bytes, answer: list[str], shapes: list[Any] | None = None) -> None:
    refusals, troubles = list[str](), list[str]()
    for package in packages:
        try:
            bindings = _loaded(home)
            found = bindings.required(package)
            context = bindings.new_context(found)
        except BaseException as error:
            troubles.append(f"{package}: {type(error).__name__}: {error}".replace("\n", " "))
            continue
        try:
            module = found.ir.Module.parse(content, context)
            if shapes is not None:
                bindings.narrowed(found, module, shapes)
        except BaseException as error:
            refusals.append(str(error) or type(error).__name__)
        else:
            answer.append(package)
            return
    answer += refusals[:1]
    print("; ".join(troubles), file=sys.stderr)


def _loaded(home: str) -> Any:
    """Loads `irscope.frontends.mlir.parse.bindings` without the packages around it, whose import would take longer than
    parsing."""
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
    limits = {resource.RLIMIT_CPU: seconds, resource.RLIMIT_CORE: 0}
    if sys.platform.startswith("linux"):  # macOS has this limit, and refuses to set it
        limits[resource.RLIMIT_AS] = memory
    for which, limit in limits.items():
        most = resource.getrlimit(which)[1]
        limit = limit if most == resource.RLIM_INFINITY else min(limit, most)
        with suppress(ValueError, OSError):
            resource.setrlimit(which, (limit, limit))


if __name__ == "__main__":
    main()
