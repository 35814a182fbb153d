"""Gives the fusion groups of one class one body, in a graph or in the functions of a module, so that one kernel serves them.

Each class has a leader, its first group. The other groups get the leader's body instead of their own; numbers that differ
between them become parameters, which each group passes from a constant in front of it; operands are put in the leader's order.
Constants that are equal in all groups of a class stay in the body.

*Soundness.* A `Match` of leader and member says that the member's body is the leader's with other values in the holes, up to the
order of independent nodes and of commutative operands, on which no bit depends (`terms`). Parameters and operands are passed as
the match says, and results keep their places.

*Copies.* All copies of the leader's block have the same nodes in the same order on the same operands, so that one kernel serves
them. Differences that are not parameters of a kernel (an extent, a size that is an operand, a layout) keep the member's own
values.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from irscope._base.frozen import FrozenDict
from irscope._base.words import plural
from irscope.errors import ArgumentError
from irscope.ir import FLOAT, INT, Block, Graph, Module, Node, Rewriter, TensorData, Type, Value, make_block, make_node, make_value, new_id
from irscope.transforms.base import PassRecord, Remark, timed
from irscope.transforms.cleanup import constant_node
from irscope.transforms.dedup.classes import Ladder, Members, pieces_of
from irscope.transforms.dedup.encoding import split_leaf
from irscope.transforms.dedup.matching import Match, match
from irscope.transforms.dedup.piece import RANK, RELATIONS, Piece, Relation, Site
from irscope.transforms.dedup.rewrite.parameters import ClassHoles, HoleRow, class_holes
from irscope.transforms.dedup.terms import Leaf, flow_of

# --- copies of the leader's body --------------------------------------------------------------------------------------


def is_parameter(row: HoleRow) -> bool:
    """Whether a hole becomes a parameter: varying data that is an operand of a node."""
    return row.parameter is not None and row.kind == "constant" and row.site.part == "operand"


def parameter_type(value: Any, leaf: Type) -> Type:
    """Returns the type of a parameter that replaces a constant."""
    return FLOAT if isinstance(value, float) else INT if type(value) is int else leaf


class BodyCopy:
    """Copies of the leader's block, one for each member of its class."""

    def __init__(self, holes: ClassHoles) -> None:
        self.holes = holes
        self.flow = flow_of(holes.leader.body, merged=False)
        self.terms = {term.node: term for term in self.flow.terms if term.node is not None}
        self.rows, self.number = holes.passed(is_parameter)

    def parameter_types(self) -> list[Type]:
        inputs = [(row.values[0], row.site.subject.inputs[row.site.place]) for row in self.rows if isinstance(row.site.subject, Node)]
        return [parameter_type(number, value.type) for number, value in inputs]

    def why_not(self) -> str:
        """Returns why the leader's block cannot be copied; empty if it can."""
        if any(term.regions for term in self.flow.terms):
            return "its body has blocks inside"
        if any(isinstance(operand, Leaf) for operand in self.flow.top.returns):
            return "a result of it is a constant"
        if any(term.place < 0 and term.value is not None for term in self.flow.terms):
            return "it reads values that are not its operands"
        return ""

    def of(self, found: Match) -> Block:
        """The leader's block with the types and places in the source of the member that was found to match it."""
        leader, needed = self.holes.leader.block, {self.flow.terms[number].node for number in self.flow.needed}
        slots = {(pair.kind, pair.site): pair.right for pair in found.slots}
        env: dict[Value, Value] = {}
        nodes: list[Node] = []
        constants: dict[tuple[Any, ...], Value] = {}

        def copied(value: Value) -> Value:
            theirs = found.values.get(value, value)
            env[value] = make_value(new_id(), theirs.type, theirs.name)
            return env[value]

        def operand(node: Node, place: int, value: Value) -> Value:
            leaf = self.terms[node].operands[place]
            if not isinstance(leaf, Leaf):
                return env[value]
            number = self.number.get(Site(node, "operand", place, 0))
            if number is not None:
                return extra[number]
            payload = leaf.payload
            _, taken = split_leaf(payload, leaf.role, found.step)
            if taken:  # the member's own
                parts = [slots.get((slot.kind, Site(node, "operand", place, slot.index)), slot.value) for slot in taken]
                payload = tuple(parts) if isinstance(payload, tuple | list) else parts[0]
            key = (leaf.type, payload if isinstance(payload, TensorData) else repr(payload))
            if key not in constants:
                constants[key] = make_value(new_id(), leaf.type, "")
                nodes.append(constant_node(constants[key], payload))
            return constants[key]

        params = list(map(copied, leader.params))
        extra = [make_value(new_id(), type, "") for type in self.parameter_types()]
        for node in (node for node in leader.nodes if node in needed):
            other = found.nodes.get(node, node)
            inputs = tuple([operand(node, place, value) for place, value in enumerate(node.inputs)])
            outputs = tuple(map(copied, node.outputs))
            nodes.append(make_node(new_id(), node.op, inputs, outputs, other.attrs, (), other.location, other.scope))
        returns = tuple([env[value] for value in leader.returns])
        return make_block(new_id(), (*params, *extra), tuple(nodes), returns)


Choice = Mapping[Members, Relation]
"""The step at which each class is merged, by its members."""


@timed
def merge_groups(graph: Graph, *, step: Relation = "constants", chosen: Choice | None = None) -> PassRecord:
    """Give the groups of each class one body, with a remark for each class merged and each group left out.

    `step` is the relation whose classes are merged; `chosen` gives classes with a step each, and all other groups stay as they are.
    """
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
    return PassRecord("dedup", graph, after, rewriter.edits, tuple(remarks))


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


def _merge(rewriters: Mapping[Graph, Rewriter], pieces: Sequence[Piece], relation: Relation, remarks: list[Remark]) -> None:
    """Merge one class; by relations finer than `order`, groups have a common body already."""
    if RANK[relation] < RANK["order"]:
        return
    holes = class_holes(pieces, relation)
    left_out = [piece for piece in pieces if piece not in holes.members]
    remarks.extend(_missed(piece, "no-direct-match", "it corresponds to the leader only through a third group") for piece in left_out)
    body = BodyCopy(holes)
    because = body.why_not()
    if because or len(holes.members) < 2:
        remarks.append(_missed(holes.leader, "body", because or "no other group matches it"))
        return
    if not body.rows and all(match(holes.leader, piece, "alpha") for piece in holes.members[1:]):
        return  # all have the leader's body as it is
    done: dict[Node, None] = {}
    name = holes.leader.member if isinstance(holes.leader.member, str) else holes.leader.label
    for place, (piece, found) in enumerate(zip(holes.members, holes.matches, strict=True)):
        node = _node(piece)
        if node not in done:  # a graph may have two names
            done[node] = None
            nodes = _group(node, body, place, found.arguments)
            rest = f", which reads {plural(len(body.rows), 'number')} from operands now" if body.rows else ""
            runs = "the body of its class" if piece is holes.leader else f"runs the body of {name} with operands of its own"
            rewriters[piece.graph].replace_node(node, nodes, reason=runs + rest)
    what = f", with {plural(len(body.rows), 'parameter')} in place of a number" if body.rows else ""
    because = f"the body of {name} serves {plural(len(holes.members), 'group')}{what}"
    remarks.append(Remark("passed", "one-body", _node(holes.leader), because, tuple(done)))


def _group(node: Node, body: BodyCopy, place: int, arguments: Sequence[int]) -> list[Node]:
    """The nodes of a member with the leader's body, preceded by the constants that it passes."""
    pairs = zip(body.rows, body.parameter_types(), strict=True)
    made = [constant_node(make_value(new_id(), type, ""), row.values[place]) for row, type in pairs]
    inputs = (*(node.inputs[at] for at in arguments), *(constant.output for constant in made))
    block = body.of(body.holes.matches[place])
    made.append(make_node(new_id(), node.op, inputs, node.outputs, FrozenDict(node.attrs), (block,), node.location, node.scope))
    return made


def _node(piece: Piece) -> Node:
    assert piece.group is not None
    return piece.group


def _missed(piece: Piece, rule: str, because: str) -> Remark:
    return Remark("missed", rule, _node(piece), because)
