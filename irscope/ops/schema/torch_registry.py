"""The schemas of torch's own registry, for ops that irscope does not bundle; empty where torch is not installed.

Loading torch takes seconds, so it is loaded only for a name in one of torch's own namespaces. For other namespaces
(operator libraries) the registry is consulted only when the program has loaded torch already.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import Any, Final

from irscope.ir import OpSchema
from irscope.ops.schema.parser import parse_schema

__all__ = ["torch_schemas"]

_NAMESPACES: Final = frozenset({"aten", "prim", "prims", "quantized", "_quantized"})


def torch_schemas(name: str) -> tuple[OpSchema, ...]:
    """Return all overloads that torch has registered under a name, in its order and not corrected (see `corrections`).

    >>> torch_schemas("nobody::knows")
    ()
    """
    torch = _torch_for(name)
    if torch is None:
        return ()
    return tuple(parse_schema(str(schema)) for schema in torch._C._jit_get_schemas_for_operator(name))


def _torch_for(name: str) -> Any:
    if name.count("::") != 1:
        return None  # such as `^f`, a call of Python
    loaded = sys.modules.get("torch")
    if loaded is not None:
        return loaded
    if name.partition("::")[0] not in _NAMESPACES or importlib.util.find_spec("torch") is None:
        return None
    return importlib.import_module("torch")
