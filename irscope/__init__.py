"""irscope: see what may share memory, what fuses, what repeats and what it costs in an ML compiler's IR, and why.

    >>> import irscope as irs
    >>> g = irs.parse("graph(%x : Tensor):\\n  %y : Tensor = aten::relu(%x)\\n  return (%y)")
    >>> bool(irs.AliasDb(g).may_alias("x", "y"))
    False

Everything here is imported on first use; `import irscope` loads nothing heavy.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from irscope.analysis.alias import AliasDb
    from irscope.errors import IrscopeError
    from irscope.frontends.text import parse
    from irscope.frontends.tracing import trace
    from irscope.ir.builder import GraphBuilder
    from irscope.ir.core import Block, Graph, Module, Node, Value
    from irscope.ir.structural import same_structure
    from irscope.ops.accuracy import error_bound
    from irscope.ops.node_check import verify
    from irscope.runtime.base import devices
    from irscope.session import compare, compile, explore, load, timeline, write_report
    from irscope.transforms.autodiff import AutodiffSubgraphs, autodiff_subgraphs
    from irscope.transforms.dedup import Dedup, dedup
    from irscope.transforms.functionalize import functionalize
    from irscope.transforms.fusion import Fusion, fuse
    from irscope.transforms.pipeline import Pipeline, Pipelined

__version__ = "0.1.0"

_HOMES = {
    "irscope.analysis.alias": ("AliasDb",),
    "irscope.errors": ("IrscopeError",),
    "irscope.frontends.text": ("parse",),
    "irscope.frontends.tracing": ("trace",),
    "irscope.ir.builder": ("GraphBuilder",),
    "irscope.ir.core": ("Block", "Graph", "Module", "Node", "Value"),
    "irscope.ir.structural": ("same_structure",),
    "irscope.ops.accuracy": ("error_bound",),
    "irscope.ops.node_check": ("verify",),
    "irscope.runtime.base": ("devices",),
    "irscope.session": ("compare", "compile", "explore", "load", "timeline", "write_report"),
    "irscope.transforms.dedup": ("Dedup", "dedup"),
    "irscope.transforms.fusion": ("Fusion", "fuse"),
    "irscope.transforms.autodiff": ("AutodiffSubgraphs", "autodiff_subgraphs"),
    "irscope.transforms.functionalize": ("functionalize",),
    "irscope.transforms.pipeline": ("Pipeline", "Pipelined"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AliasDb",
    "AutodiffSubgraphs",
    "Block",
    "Dedup",
    "Fusion",
    "Graph",
    "GraphBuilder",
    "IrscopeError",
    "Module",
    "Node",
    "Pipeline",
    "Pipelined",
    "Value",
    "autodiff_subgraphs",
    "compare",
    "compile",
    "dedup",
    "devices",
    "error_bound",
    "explore",
    "functionalize",
    "fuse",
    "load",
    "parse",
    "same_structure",
    "timeline",
    "trace",
    "verify",
    "write_report",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'irscope' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


def load_ipython_extension(shell: Any) -> None:
    """What `%load_ext irscope` runs: adds `%%ir` and `%irscope`."""
    import_module("irscope.magics").load(shell)


def _show_richly() -> None:
    """In a notebook, let graphs and results draw themselves; costs nothing anywhere else."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is not None:
        import_module("irscope.display.ipython").register(shell)
        import_module("irscope.widgets.shown").register(shell)


_show_richly()
