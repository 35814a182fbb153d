"""A program sorted into classes by the pieces that are asked for: groups, functions, executables, regions, kernels, constants."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args, overload

from irscope._base.concurrency.restored import without_collector
from irscope.errors import ArgumentError
from irscope.ir import Graph, Module, Node
from irscope.ir.module import entry
from irscope.transforms.dedup import constants
from irscope.transforms.dedup import regions as repeated  # both load what is asked of them
from irscope.transforms.dedup.classes import Ladder
from irscope.transforms.dedup.dedup_pass import Dedup, EquivalenceClass, known_relation
from irscope.transforms.dedup.piece import Piece
from irscope.transforms.dedup.steps import Relation
from irscope.transforms.dedup.units import KernelPieces, kernel_pieces, pieces_of

if TYPE_CHECKING:
    from irscope.transforms.dedup.constants import ConstantDedup, ConstantStep
    from irscope.transforms.dedup.regions import RegionPieces

__all__ = ["Unit", "dedup"]

Unit = Literal["auto", "groups", "regions", "scopes", "kernels", "constants"]


@overload
def dedup(
    source: Any, *, relation: ConstantStep | None = None, unit: Literal["constants"]
) -> ConstantDedup: ...
@overload
def dedup(source: Any, *, relation: Relation = "alpha", unit: Unit = "auto") -> Dedup: ...
def dedup(source: Any, *, relation: Any = None, unit: Unit = "auto") -> Dedup | ConstantDedup:
    """Sort the pieces of a program into classes of equal ones.

    What the pieces are, `unit` says:

        auto        the fusion groups of a graph (or of what `fuse` gives), or a graph without groups as a whole; the modules
                    inside of a module, or its graphs if there are none; of what `compile` gives, its kernels
        groups      the same, for the graph of what was compiled; of a module the groups of all its graphs, several models together
        regions     the repeated regions of a graph, found without being marked (`irscope.transforms.dedup.regions`)
        scopes      the parts of a graph that belong to one module of the model, at every depth
        kernels     the kernels that were generated; those that differ early may have one machine code
        constants   parameters, buffers and literals, by content (`irscope.transforms.dedup.constants`)

    `relation` is a step of the ladder: `text`, `alpha` (which is meant if nothing is said), `symbols`, `order`, `arguments`,
    `constants`, `extents`, `free`, `layout` or `dtype` (`irscope.transforms.dedup.steps`); for constants it is `tied`, `equal`
    (which is meant), `transposed`, `cast` or `part`. Linear in the size of the program.

    >>> import irscope as irs
    >>> text = "graph(%a : Tensor):\\n  %b : Tensor = aten::relu(%a)\\n  return (%b)"
    >>> d = dedup(irs.Module({"f": irs.parse(text), "g": irs.parse(text.replace("%a", "%x"))}))
    >>> [cls.members for cls in d.classes]
    [('f', 'g')]
    """
    if unit not in get_args(Unit):
        raise ArgumentError(f"there is no unit {unit!r}", hint=f"choose one of {', '.join(get_args(Unit))}")
    generated = None if isinstance(source, Graph | Module) else getattr(source, "kernels", None)
    program = source if isinstance(source, Graph | Module) else getattr(source, "graph", None)
    if not isinstance(program, Graph | Module):
        hint = "irs.load(program, *example_arguments) makes a Graph of a model or a file"
        what = "a Graph, a Fusion, a Module or what irs.compile gives"
        raise ArgumentError(f"dedup works on {what}, not on {type(source).__name__}", hint=hint)
    if unit == "constants":
        return constants.constant_classes(program, relation or "equal")
    relation = known_relation(relation or "alpha")
    if unit == "kernels" and generated is None:
        raise ArgumentError(
            'unit="kernels" takes a compiled program', hint="irs.dedup(irs.compile(program)) sorts the kernels that were made"
        )
    if generated is not None and unit in ("auto", "kernels"):
        kernels = kernel_pieces(generated)
        return _sorted_into_classes(kernels.module, relation, kernels.pieces, kernels.note, kernels=kernels)
    if unit in ("regions", "scopes"):
        graph = program if isinstance(program, Graph) else program.graphs[entry(program)]  # the one meant from outside
        found = without_collector(repeated.region_pieces if unit == "regions" else repeated.scope_pieces, graph)
        return _sorted_into_classes(graph, relation, found.pieces, found.note, regions=found)
    return without_collector(_of_itself, program, relation, groups=unit == "groups")


def _of_itself(program: Graph | Module, relation: Relation, *, groups: bool) -> Dedup:
    """The pieces that a program is sorted into by itself: of a module they may be a hundred thousand."""
    pieces, note = pieces_of(program, groups=groups)
    return _sorted_into_classes(program, relation, pieces, note)


def _sorted_into_classes(
    program: Graph | Module, relation: Relation, pieces: Mapping[Node | str, Piece], note: str,
    *, regions: RegionPieces | None = None, kernels: KernelPieces | None = None,
) -> Dedup:  # fmt: skip
    ladder = Ladder(pieces)
    found = sorted(ladder.classes(relation), key=lambda members: -len(members))
    classes = [
        EquivalenceClass(i, members, members[0], partial(ladder.fingerprint, members, relation))
        for i, members in enumerate(found)
    ]
    return Dedup(program, relation, tuple(classes), note, ladder, dedup, regions, kernels)
