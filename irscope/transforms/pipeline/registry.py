"""The passes that a pipeline knows by name: what each does, in a line, which options it takes, and how to run it.

A pass takes a graph and gives its record, or a result with a `history` of records (`fuse` folds constants first).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final

__all__ = ["PASSES", "Pass"]


@dataclass(frozen=True, slots=True)
class Pass:
    """One registered pass."""

    name: str
    doc: str
    """What it does, in a line."""
    home: str
    """Module and function, loaded when the pass first runs."""
    options: Mapping[str, type] = field(default_factory=dict)
    """The options that a pipeline's text can give, with their types."""

    def load(self) -> Callable[..., Any]:
        """The function itself."""
        module, _, name = self.home.partition(":")
        function: Callable[..., Any] = getattr(import_module(f"irscope.transforms.{module}"), name)
        return function


_ALL: Final = (
    Pass("fold-constants", "replaces known numbers by constants, and decided ifs by their branch", "cleanup.fold:fold_constants"),
    Pass(
        "functionalize", "replaces in-place ops by functional variants where the difference is not observable",
        "functionalize:functionalize", {"scatter": bool},
    ),
    Pass("fold-tensors", "computes small tensors that are the same at every run", "cleanup.fold_tensors:fold_tensors"),
    Pass("canonicalize", "small rewrites: x * 1, transposes that cancel, loops without a round", "cleanup.canonicalize:canonicalize"),
    Pass("cse", "computes equal expressions once", "cleanup.cse:eliminate_common_subexpressions"),
    Pass("pool-constants", "merges equal constants that dominate their users", "cleanup.pool_constants:pool_constants"),
    Pass(
        "fuse", "groups ops that can run as one kernel", "fusion:fuse",
        {"policy": str, "min_size": int, "max_arguments": int, "max_nodes": int},
    ),
    Pass(
        "prepare-fusion", "does what fuse begins with: fold-constants, functionalize, dce and fold-tensors",
        "fusion:prepare_fusion", {"policy": str, "min_size": int, "max_arguments": int, "max_nodes": int},
    ),
    Pass(
        "fuse-groups", "groups ops that can run as one kernel, and does nothing else", "fusion:fuse_groups",
        {"policy": str, "min_size": int, "max_arguments": int, "max_nodes": int},
    ),
    Pass("group-views", "groups views that follow one another", "fusion:group_views"),
    Pass(
        "autodiff-subgraphs", "groups ops that have gradient formulas",
        "autodiff:autodiff_subgraphs", {"threshold": int},
    ),
    Pass("dedup", "gives fusion groups of one class one body, with numbers for parameters", "dedup.rewrite:merge_groups", {"step": str}),
    Pass("dce", "removes nodes without effects whose results are unused", "cleanup.dce:remove_dead_nodes"),
)  # fmt: skip

PASSES: Final[Mapping[str, Pass]] = {one.name: one for one in _ALL}
"""All passes by name, in the order in which one would usually run them."""
