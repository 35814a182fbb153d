"""The passes that a pipeline knows by name: for each, a line of help and the function, whose keywords are its options.

`irscope.transforms.base` documents the contract of a pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from inspect import signature
from types import UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

__all__ = ["PASSES", "Pass"]


@dataclass(frozen=True, slots=True)
class Pass:
    """One registered pass."""

    name: str
    doc: str
    """One line of help."""
    home: str
    """Module and function, imported when the pass is first loaded."""

    def load(self) -> Callable[..., Any]:
        """The function itself."""
        module, _, name = self.home.partition(":")
        function: Callable[..., Any] = getattr(import_module(f"irscope.transforms.{module}"), name)
        return function

    @property
    def options(self) -> Mapping[str, type]:
        """The options that a pipeline's text can set, with their types: the function's arguments, other than the graph,
        that take a word or a number.

        >>> PASSES["autodiff-subgraphs"].options
        {'threshold': <class 'int'>}
        """
        function = self.load()
        hints = get_type_hints(function)
        found = {name: _written_type(hints[name]) for name in [*signature(function).parameters][1:]}
        return {name: kind for name, kind in found.items() if kind is not None}


def _written_type(hint: Any) -> type | None:
    """The first type of a keyword's annotation that can be written in a text; None if there is none."""
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    kinds = tuple(type(get_args(kind)[0]) if get_origin(kind) is Literal else kind for kind in kinds)
    return next((kind for kind in kinds if kind in (bool, int, float, str)), None)


_ALL: Final = (
    Pass("fold-constants", "replaces known numbers by constants, and decided ifs by their branch", "cleanup.fold:fold_constants"),
    Pass(
        "functionalize", "replaces in-place ops by functional variants where the difference is not observable",
        "functionalize:functionalize",
    ),
    Pass("fold-tensors", "replaces small tensors that are the same at every run by constants", "cleanup.fold_tensors:fold_tensors"),
    Pass("canonicalize", "small rewrites: x * 1, transposes that cancel, loops that never run", "cleanup.canonicalize:canonicalize"),
    Pass(
        "recommend-layouts", "makes results of convolutions channels last where that turns copies into views",
        "cleanup.recommend_layouts:recommend_layouts",
    ),
    Pass(
        "channels-last", "lays out operands and results of convolutions channels last, where they would be copied",
        "cleanup.channels_last:channels_last",
    ),
    Pass("cse", "computes equal expressions once", "cleanup.cse:eliminate_common_subexpressions"),
    Pass("pool-constants", "merges equal constants into one that dominates all users", "cleanup.pool_constants:pool_constants"),
    Pass(
        "dedup-constants", "merges equal constant tensors where no run can tell them apart, and parameters that share memory",
        "dedup:merge_constants",
    ),
    Pass("fuse", "groups ops that can run as one kernel", "fusion:fuse"),
    Pass(
        "prepare-fusion", "the first part of fuse: fold-constants, functionalize, dce and fold-tensors",
        "fusion:prepare_fusion",
    ),
    Pass("fuse-groups", "groups ops that can run as one kernel, and does nothing else", "fusion:fuse_groups"),
    Pass("group-views", "groups views that follow one another", "fusion:group_views"),
    Pass("group-pools", "gives each max pooling a kernel of its own, which leaves out the indices of the maxima", "fusion:group_pools"),
    Pass("autodiff-subgraphs", "groups ops that have gradient formulas", "autodiff:autodiff_subgraphs"),
    Pass("dedup", "gives fusion groups of one class one body, with the numbers that differ as parameters", "dedup.rewrite:merge_groups"),
    Pass("normal-form", "puts nodes, operands and constants into a canonical order", "dedup.rewrite:normal_form"),
    Pass("dce", "removes nodes without effects whose results are unused", "cleanup.dce:remove_dead_nodes"),
)  # fmt: skip

PASSES: Final[Mapping[str, Pass]] = {one.name: one for one in _ALL}
"""All passes by name, in the order in which one would usually run them."""
