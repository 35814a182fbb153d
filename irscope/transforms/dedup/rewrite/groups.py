"""Gives the fusion groups of one class one body, in a graph or in the functions of a module, so that one kernel serves them.

Each class has a leader, its first group. The other groups get the leader's body instead of their own; numbers that differ
between them become parameters, which each group passes from a constant in front of it; operands are put in the leader's order.
Constants that are equal in all groups of a class stay in the body.

*Soundness.* A `Match` of leader and member says that the member's body is the leader's with other values in the holes, up to the
order of independent nodes and of commutative operands, on which no bit depends (`flow`). Parameters and operands are passed as
the match says, and results keep their places.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any

from irscope._base.frozen import FrozenDict
from irscope._base.words import plural
from irscope.errors import ArgumentError
from irscope.ir import Graph, Module, Node, Rewriter, Value, make_node, make_value, new_id
from irscope.transforms.base import PassRecord, Remark
from irscope.transforms.dedup.classes import Ladder, Members
from irscope.transforms.dedup.matching import match
from irscope.transforms.dedup.piece import Piece
from irscope.transforms.dedup.rewrite.group_body import BodyCopy, constant_node, passed
from irscope.transforms.dedup.rewrite.parameters import class_holes
from irscope.transforms.dedup.steps import RANK, RELATIONS, Relation
from irscope.transforms.dedup.units import pieces_of

__all__ = ["Choice", "merge_groups", "merge_groups_of_all"]

Choice = Mapping[Members, Relation]
"""The step at which each class is merged, by its members."""


def merge_groups(graph: Graph, *, step: Relation = "constants", chosen: Choice | None = None) -> PassRecord:
    """Give the groups of each class one body, with a remark for each class merged and each group left out.

    `step` is the relation whose classes are merged; `chosen` gives classes with a step each, and all other groups stay as they are.

    >>> import irscope as irs
    >>> g = irs.parse('''graph(%x : Float(4)):
    ...   %a : Float(4) = prim::FusionGroup[kind="pointwise"](%x)
    ...     block0(%p : Float(4)):
    ...       %k : float = prim::Constant[value=0.5]()
    ...       %q : Float(4) = aten::mul(%p, %k)
    ...       -> (%q)
    ...   %b : Float(4) = prim::FusionGroup[kind="pointwise"](%a)
    ...     block0(%r : Float(4)):
    ...       %l : float = prim::Constant[value=0.25]()
    ...       %s : Float(4) = aten::mul(%r, %l)
    ...       -> (%s)
    ...   return (%b)''')
    >>> record = merge_groups(g)
    >>> [remark.because for remark in record.remarks if remark.kind == "passed"]
    ['the body of %a serves 2 groups, with 1 parameter in place of a number']
    >>> len(irs.dedup(record.after).classes)
    1
    """
    started = perf_counter()
    if step not in RELATIONS:
        raise ArgumentError(f"there is no step {step!r}", hint=f"choose one of {', '.join(RELATIONS)}")
    pieces, _ = pieces_of(graph)
    groups: dict[Node | str, Piece] = {member: piece for member, piece in pieces.items() if isinstance(member, Node)}
    if chosen is None:
        chosen = dict.fromkeys(Ladder(groups).classes(step), step)
    rewriter = Rewriter(graph)
    remarks: list[Remark] = []
    for members, relation in chosen.items():
        if len(members) > 1:
            _merge({graph: rewriter}, [groups[member] for member in members], relation, remarks)
    after = rewriter.finish()
    return PassRecord("dedup", graph, after, rewriter.edits, tuple(remarks), perf_counter() - started)


def merge_groups_of_all(module: Module, ladder: Ladder, chosen: Choice) -> tuple[Module, tuple[str, ...]]:
    """Merge the groups of all functions of a module, or of several models, whatever function a group is in. Returns the module, and
    the remarks as text with the pieces' names."""
    rewriters = {graph: Rewriter(graph) for graph in module.graphs.values()}
    names: dict[Node | None, str] = {}
    for member, piece in ladder.pieces.items():
        names.setdefault(piece.group, str(member))
    remarks: list[Remark] = []
    for members, relation in chosen.items():
        if len(members) > 1:
            _merge(rewriters, [ladder.pieces[member] for member in members], relation, remarks)
    made = {graph: rewriter.finish() for graph, rewriter in rewriters.items()}
    texts = tuple(
        f"{remark.kind} [{remark.rule}] {names[remark.subject]}: {remark.because}"
        for remark in remarks if isinstance(remark.subject, Node)
    )  # fmt: skip
    return replace(module, graphs={name: made[graph] for name, graph in module.graphs.items()}), texts


def _merge(
    rewriters: Mapping[Graph, Rewriter], pieces: Sequence[Piece], relation: Relation, remarks: list[Remark]
) -> None:
    """Merge one class; by relations finer than `order`, groups have a common body already."""
    if RANK[relation] < RANK["order"]:
        return
    holes = class_holes(pieces, relation)
    left_out = [piece for piece in pieces if piece not in holes.members]
    remarks.extend(
        _missed(piece, "no-direct-match", "it corresponds to the leader only through a third group") for piece in left_out
    )
    body = BodyCopy(holes)
    because = body.why_not()
    if because or len(holes.members) < 2:
        remarks.append(_missed(holes.leader, "body", because or "no other group matches it"))
        return
    if not body.rows and all(_has_body(holes.leader, piece) for piece in holes.members[1:]):
        return
    done: dict[Node, None] = {}
    for place, (piece, found) in enumerate(zip(holes.members, holes.matches, strict=True)):
        node = _node(piece)
        if node not in done:  # a graph may have two names
            done[node] = None
            nodes = _group(node, body, place, found.arguments)
            rewriters[piece.graph].replace_node(node, nodes, reason=_reason(holes.leader, piece, body))
    what = f", with {plural(len(body.rows), 'parameter')} in place of a number" if body.rows else ""
    because = f"the body of {_name(holes.leader)} serves {plural(len(holes.members), 'group')}{what}"
    remarks.append(Remark("passed", "one-body", _node(holes.leader), because, tuple(done)))


def _has_body(leader: Piece, piece: Piece) -> bool:
    """Whether a group has the leader's body as it is."""
    return match(leader, piece, "alpha") is not None


def _group(node: Node, body: BodyCopy, place: int, arguments: Sequence[int]) -> list[Node]:
    """The nodes of a member with the leader's body, preceded by the constants that it passes."""
    made: list[Node] = []
    types = body.parameter_types()

    def operand(value: Any, number: int) -> Value:
        made.append(constant_node(value, make_value(new_id(), types[number], "")))
        return made[-1].output

    extra = passed(body.rows, place, operand)
    inputs = (*(node.inputs[at] for at in arguments), *extra)
    block = body.of(body.holes.matches[place])
    made.append(
        make_node(new_id(), node.op, inputs, node.outputs, FrozenDict(node.attrs), (block,), node.location, node.scope)
    )
    return made


def _reason(leader: Piece, member: Piece, body: BodyCopy) -> str:
    rest = f", which reads {plural(len(body.rows), 'number')} from operands now" if body.rows else ""
    if member is leader:
        return f"the body of its class{rest}"
    return f"runs the body of {_name(leader)} with operands of its own{rest}"


def _name(piece: Piece) -> str:
    return piece.member if isinstance(piece.member, str) else piece.label


def _node(piece: Piece) -> Node:
    assert piece.group is not None
    return piece.group


def _missed(piece: Piece, rule: str, because: str) -> Remark:
    return Remark("missed", rule, _node(piece), because)
