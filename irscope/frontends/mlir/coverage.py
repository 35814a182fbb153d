"""The documentation's table of what each op of each MLIR dialect becomes.

`python -m irscope.frontends.mlir.coverage > docs/coverage/mlir.md` regenerates it; it needs jaxlib, whose bindings list
the ops.
"""

import inspect
import signal
from collections.abc import Iterator
from importlib import import_module
from typing import Final

from irscope.frontends.mlir.control import CHOICES, CONTROL, JUMPS, SWITCHES
from irscope.frontends.mlir.ops_linalg import LOOP_NESTS
from irscope.frontends.mlir.source import rules

DIALECTS: Final = ("stablehlo", "chlo", "arith", "math", "scf", "cf", "func")
"""The dialects whose ops jaxlib's bindings list."""

_HEAD: Final = """# MLIR: which ops become what

Generated from the code by `python -m irscope.frontends.mlir.coverage`. An op with a rule becomes `aten` ops that
compute the same result, for the element types and extents that torch supports; otherwise (unsigned numbers in `arith`,
total orders, unknown extents) this one op is kept. Extents become known with example arguments, `irs.load(path, x, y)`.
A kept op has its own name, attributes and regions; the analyses assume that it may do anything or, if its dialect has no
memory, that it accesses none. JAX runs kept ops of StableHLO and CHLO if it is installed, including its own custom calls;
not ops that communicate with other devices, nor custom calls that another program registered.
"""


def table() -> str:
    """Returns the page in Markdown."""
    parts = [_HEAD]
    for dialect in DIALECTS:
        names = list(_ops(dialect))
        known = sum(_meaning(name) != "" for name in names)
        parts.append(f"\n## {dialect}: {known} of {len(names)}\n\n| op | becomes |\n|---|---|")
        parts.extend(f"| `{name}` | {_meaning(name) or 'kept'} |" for name in names)
    control, meanings = rules()
    known_names = {*meanings, *control, *JUMPS, *CHOICES, *SWITCHES}
    others = sorted(name for name in known_names if name.partition(".")[0] not in DIALECTS)
    parts.append("\n## Other dialects\n\n| op | becomes |\n|---|---|")
    parts.extend(f"| `{name}` | {_meaning(name)} |" for name in others)
    return "\n".join(parts) + "\n"


def _ops(dialect: str) -> Iterator[str]:
    module = import_module(f"jaxlib.mlir.dialects._{dialect}_ops_gen")
    yield from sorted({thing.OPERATION_NAME for thing in vars(module).values() if isinstance(getattr(thing, "OPERATION_NAME", None), str)})


def _meaning(name: str) -> str:
    """Returns in a few words what an op becomes; empty if it is kept."""
    if name in CONTROL:
        return "`prim::If` or `prim::Loop`, or its own region inlined"
    if name in LOOP_NESTS:
        return "`aten` ops on whole tensors, outside of executables"
    if name in JUMPS | CHOICES | SWITCHES:
        return "`prim::If` or `prim::Loop` where structured, otherwise an error"
    if name == "func.call":
        return "a call, which the alias db follows and `inlined` opens"
    rule = rules()[1].get(name)
    if rule is None:
        return ""
    single, summary = getattr(rule, "becomes", ""), (inspect.getdoc(rule) or "").partition("\n")[0]
    return f"`aten::{single}`" if single else f"`aten` ops: {summary[0].lower()}{summary[1:]}" if summary else "`aten` ops"


if __name__ == "__main__":
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `… | head` ends it, without a traceback
    print(table(), end="")
