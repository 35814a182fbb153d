"""The user's source locations of nodes: the exporter's stack traces and module paths, if it wrote them."""

from __future__ import annotations

import ast
import re
from typing import Any

from irscope.ir import Location

__all__ = ["location_of", "scope_of"]

_FRAME = re.compile(r'File "([^"\n]+)", line (\d+)')
_MODULE = re.compile(r"[^\w.]+")


def location_of(node: Any) -> Location | None:
    """Returns the innermost line of user code in the stack trace that `torch.onnx` may store in a node."""
    text = next((entry.value for entry in node.metadata_props if entry.key.endswith("stack_trace")), node.doc_string)
    frames = _FRAME.findall(text) if "line" in text else []
    users = [frame for frame in frames if "/torch/" not in frame[0]]
    file, line = (users or frames or [("", "0")])[-1]
    return Location(file, int(line[:9])) if file else None


def scope_of(node: Any, outer: str = "") -> str:
    """Returns the module path: from the exporter's metadata, or the folders of a name such as
    `/encoder/layer.0/MatMul`."""
    path = _noted(node) or ".".join(part for part in node.name.split("/")[:-1] if part)
    return ".".join(part for part in (outer, _MODULE.sub("_", path)) if part)


def _noted(node: Any) -> str:
    text = next((entry.value for entry in node.metadata_props if entry.key.endswith("name_scopes")), "")
    try:
        scopes = ast.literal_eval(text) if text and len(text) < 10_000 else None
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return ""
    return str(scopes[-2]) if isinstance(scopes, list) and len(scopes) > 1 else ""
