"""Which ops of which dialects mean something here, as the table in the documentation.

`python -m irscope.frontends.mlir.coverage > docs/coverage/mlir.md` writes it anew; it needs jaxlib, whose bindings list the ops.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import Final

from irscope.frontends.mlir.control.branches import CHOICES, JUMPS, SWITCHES
from irscope.frontends.mlir.control.loop_nests import LOOP_NESTS
from irscope.frontends.mlir.control.structured import CONTROL
from irscope.frontends.mlir.meaning.table import MEANINGS

__all__ = ["DIALECTS", "table"]

DIALECTS: Final = ("stablehlo", "chlo", "arith", "math", "scf", "cf", "func")
"""Those that jaxlib's bindings list."""

_HEAD: Final = """# MLIR: which ops become what

Generated from the code by `python -m irscope.frontends.mlir.coverage`. An op with a rule becomes `aten` ops that compute the
same, for the element types and extents that torch has; where it does not (unsigned numbers in `arith`, total orders, extents
that are not known), this one op is kept. A kept op has its own name, its attributes and regions, and is taken to do anything,
or nothing to memory if its dialect has none. Kept ops of StableHLO and CHLO are run by JAX where that is installed, JAX's own
custom calls among them; not those that talk to other devices, and no custom call that another program registered.
"""


def table() -> str:
    """The page, in Markdown."""
    parts = [_HEAD]
    for dialect in DIALECTS:
        names = list(_ops(dialect))
        known = sum(_told(name) != "" for name in names)
        parts.append(f"\n## {dialect}: {known} of {len(names)}\n\n| op | becomes |\n|---|---|")
        parts.extend(f"| `{name}` | {_told(name) or 'kept'} |" for name in names)
    known_names = {*MEANINGS, *CONTROL, *LOOP_NESTS, *JUMPS, *CHOICES, *SWITCHES}
    others = sorted(name for name in known_names if name.partition(".")[0] not in DIALECTS)
    parts.append("\n## Other dialects\n\n| op | becomes |\n|---|---|")
    parts.extend(f"| `{name}` | {_told(name)} |" for name in others)
    return "\n".join(parts) + "\n"


def _ops(dialect: str) -> Iterator[str]:
    module = import_module(f"jaxlib.mlir.dialects._{dialect}_ops_gen")
    yield from sorted({
        thing.OPERATION_NAME for thing in vars(module).values() if isinstance(getattr(thing, "OPERATION_NAME", None), str)
    })


def _told(name: str) -> str:
    """What an op becomes, in a few words."""
    if name in CONTROL:
        return "`prim::If` or `prim::Loop`, or its own region inlined"
    if name in LOOP_NESTS:
        return "`aten` ops on whole tensors, outside of executables"
    if name in JUMPS | CHOICES | SWITCHES:
        return "`prim::If` or `prim::Loop` where structured, otherwise an error"
    if name == "func.call":
        return "a call, which the alias db follows and `inlined` opens"
    rule = MEANINGS.get(name)
    if rule is None:
        return ""
    single, told = getattr(rule, "becomes", ""), (inspect.getdoc(rule) or "").partition("\n")[0]
    return f"`aten::{single}`" if single else f"`aten` ops: {told[0].lower()}{told[1:]}" if told else "`aten` ops"


if __name__ == "__main__":
    print(table(), end="")
