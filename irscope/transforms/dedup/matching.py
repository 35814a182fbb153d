"""Proof that two pieces are the same by a relation: a bijection of their values, nodes, blocks and symbols, with the holes.

    match(left, right, "constants")      # a Match with .values .nodes .blocks .symbols .holes, or None

This walks both pieces side by side and trusts no digest. Each value of one must correspond to exactly one value of the other, in
both directions, and everything that the relation does not forget must be equal at each step. Up to `symbols` the pieces are
walked in listed order (`pairing.Listing`), from `order` on from the results down their terms (`terms`).

*Choices* (the operands of a commutative op, the parameters from `arguments` on): digests say which choices can succeed. Choices
that they leave open are postponed until everything else is decided; then operands that are equal to the bit are paired first,
which keeps the list of holes short. A choice that fails is retried differently a few times; after that the result is None, which
may leave equal pieces unmerged but is never wrong.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from irscope.ir import Block, Node, Value
from irscope.ir.text import print_node
from irscope.transforms.dedup.form import Colors, colors_of, may_permute, spelling_of
from irscope.transforms.dedup.pairing import ABSENT, Listing, Pairs, SymbolMap, pair_leaves, pair_types, same_bits, same_identities
from irscope.transforms.dedup.piece import RANK, RELATIONS, Body, Hole, HoleKind, Piece, Relation, Site, SlotPair, attrs_of, operand_name
from irscope.transforms.dedup.terms import Leaf, Operand, Ref, Term

_ATTEMPTS: Final = 8


@dataclass(frozen=True, eq=False)
class Match:
    """Two pieces that are the same by a relation."""

    left: Piece
    right: Piece
    step: Relation
    values: Mapping[Value, Value]
    """Maps each value of the left piece that its results need to the corresponding one of the right piece; where equal values are
    merged, several may map to the same."""
    nodes: Mapping[Node, Node]
    blocks: Mapping[Block, Block]
    symbols: Mapping[str, str]
    """Maps each name that the left piece declares and refers to, to the corresponding one of the right piece."""
    slots: tuple[SlotPair, ...]
    """Every part that the relation takes out, with its values on both sides."""

    @cached_property
    def holes(self) -> tuple[Hole, ...]:
        """The slots with different values, in the left piece's order."""
        return tuple(pair.hole(self.place(pair.site, pair.kind)) for pair in self.slots if not same_bits(pair.left, pair.right))

    @property
    def arguments(self) -> tuple[int, ...]:
        """For each parameter of the left piece, the place of the corresponding parameter of the right piece."""
        places = {value: place for place, value in enumerate(self.right.block.params)}
        return tuple(places[self.values[value]] for value in self.left.block.params)

    def place(self, site: Site, kind: HoleKind = "extent") -> str:
        """Returns a place in the left piece, in words; for a type, `kind` names the part of it."""
        subject, part, place, index = site
        if isinstance(subject, Value):
            words = _PART_WORDS.get(kind, f"{'dimension' if part == 'type' else part} {index}")
            return f"{words} of %{self._name(subject)}"
        if isinstance(subject, str):
            return f"{subject}, number {place}" if part == "result" else f"attribute {part!r} of {subject}"
        if part == "operand":
            return operand_name(subject, place)
        return f"attribute {part!r} of {subject.op}" if subject.op != "prim::Constant" else f"constant %{self._name(subject.output)}"

    def _name(self, value: Value) -> str:
        return next((body.graph.names[value] for body in self.left.bodies if value in body.graph.names), value.name)


_PART_WORDS: Final[Mapping[HoleKind, str]] = {"dtype": "element type", "layout": "strides"}


def match(left: Piece, right: Piece, step: Relation) -> Match | None:
    """Returns how two pieces correspond by a relation; None if they do not, or if no correspondence was found."""
    if RANK[step] < RANK["order"]:
        walk = Listing(left, right, step).run()
        return None if walk.holes else Match(left, right, step, walk.partner, walk.nodes, walk.blocks, walk.symbols.to, ())
    for attempt in range(_ATTEMPTS):
        search = _Search(left, right, step, attempt)
        if search.run():
            return Match(left, right, step, search.values, search.nodes, search.blocks, search.symbols.to, tuple(search.slots))
        if not search.choices >> attempt:  # no other choice is left
            return None
    return None


class _Search:
    """One walk down the terms of two pieces, body by body from their results, with the choices of one attempt."""

    def __init__(self, left: Piece, right: Piece, step: Relation, attempt: int) -> None:
        self.left, self.right, self.step, self.attempt = left, right, step, attempt
        self.choices = 0
        """The number of open choices so far."""
        self.values: dict[Value, Value] = {}
        self.nodes: dict[Node, Node] = {}
        self.blocks: dict[Block, Block] = {}
        self.slots: list[SlotPair] = []
        self.symbols = SymbolMap(left, right, step)

    def run(self) -> bool:
        """Walk all bodies, and return whether the pieces correspond."""
        if not self.symbols.agrees:
            return False
        may = RANK[self.step] >= RANK["arguments"] and may_permute(self.left) and may_permute(self.right)
        roots = {self.left.body, *(body for name in self.left.roots for body in self.left.named.get(name, ()))}
        for left, right in self.symbols.bodies(self.left.body, self.right.body):
            if not self._bodies(left, right, permuted=may and left in roots):
                return False
        extents = [pair for pair in self.slots if pair.kind == "extent"]  # equal ones are equal on the other side, distinct ones distinct
        return self.step != "extents" or same_identities([pair.left for pair in extents], [pair.right for pair in extents])

    def _bodies(self, left: Body, right: Body, *, permuted: bool) -> bool:
        """Return whether two bodies correspond, and add the corresponding parts."""
        self.permuted = permuted
        self.ours = colors_of(self.left, left, self.step, permuted=permuted)
        self.theirs = colors_of(self.right, right, self.step, permuted=permuted)
        self.partner: dict[int, int] = {}
        self.back: dict[int, int] = {}
        self.pending: list[tuple[Operand, Operand, Site]] = []
        self.open: list[tuple[int, int]] = []
        """The commutative terms whose operands could be paired either way."""
        self._exact: tuple[Colors, Colors] | None = None
        a, b = self.ours.flow.top, self.theirs.flow.top
        if len(a.params) != len(b.params) or len(a.returns) != len(b.returns) or (a.end is None) != (b.end is None):
            return False
        if not same_identities(left.block.returns, right.block.returns):
            return False
        if not self._attributes(left.attrs, right.attrs, "the piece"):
            return False
        self.blocks[left.block] = right.block
        if not permuted and not all(map(self._term, a.params, b.params)):
            return False
        self._results(a.returns, b.returns, "the results", 0)
        if a.end is not None and b.end is not None:
            self.pending.append((a.end, b.end, _NOWHERE))
        while self.pending or self.open:
            if not self.pending:
                self._choose(*self.open.pop())
            if not self._operand(*self.pending.pop()):
                return False
        if not self._rest(a.params, b.params):
            return False
        self._record()
        return True

    def _results(self, xs: tuple[Operand, ...], ys: tuple[Operand, ...], subject: Node | str, block: int) -> None:
        part = "result" if isinstance(subject, str) else f"block {block}"
        pairs = enumerate(zip(xs, ys, strict=True))
        self.pending.extend((x, y, Site(subject, part, place, 0)) for place, (x, y) in pairs)

    def _operand(self, x: Operand, y: Operand, site: Site) -> bool:
        if isinstance(x, Leaf) or isinstance(y, Leaf):
            if not isinstance(x, Leaf) or not isinstance(y, Leaf):
                return False
            pairs = pair_leaves(x, y, self.step)
            return pairs is not None and self._slots(pairs, site)
        return x.output == y.output and self._term(x.term, y.term)

    def _term(self, a: int, b: int) -> bool:
        """Pair two terms if they are the same apart from their operands, and queue the operands."""
        if a in self.partner or b in self.back:
            return self.partner.get(a) == b and self.back.get(b) == a
        x, y = self.ours.flow.terms[a], self.theirs.flow.terms[b]
        self.partner[a], self.back[b] = b, a
        if x.node is None or y.node is None:
            return x.node is y.node and self._parameter(x, y)
        if not self._same_node(x, y) or not self._regions(x, y):
            return False
        if x.exchanges:
            ways = self._ways(a, b)
            if len(ways) > 1:
                self.open.append((a, b))
            else:
                self._pair_operands(a, b, exchanged=ways == [True])
        for place in range(2 if x.exchanges else 0, len(x.operands)):
            self.pending.append((x.operands[place], y.operands[place], Site(x.node, "operand", place, 0)))
        return True

    def _parameter(self, x: Term, y: Term) -> bool:
        if (x.value is None) != (y.value is None) or x.top != y.top:
            return False
        if not (x.top and self.permuted) and x.place != y.place:
            return False
        return x.value is None or y.value is None or self._types(x.value, y.value)

    def _same_node(self, x: Term, y: Term) -> bool:
        one, other = x.node, y.node
        assert one is not None and other is not None
        counts = [(len(t.operands), len(t.regions), t.ordered, t.exchanges) for t in (x, y)]
        if one.op != other.op or len(one.outputs) != len(other.outputs) or counts[0] != counts[1]:
            return False
        if not all(map(self._types, one.outputs, other.outputs)):
            return False
        return self._attributes(attrs_of(one), attrs_of(other), one)

    def _regions(self, x: Term, y: Term) -> bool:
        assert x.node is not None
        for number, (one, other) in enumerate(zip(x.regions, y.regions, strict=True)):
            counts = [(len(r.params), len(r.returns), r.end is None) for r in (one, other)]
            if counts[0] != counts[1] or not same_identities(one.block.returns, other.block.returns):
                return False
            if not all(map(self._term, one.params, other.params)):
                return False
            self.blocks[one.block] = other.block
            self._results(one.returns, other.returns, x.node, number)
            if one.end is not None and other.end is not None:
                self.pending.append((one.end, other.end, _NOWHERE))
        return True

    # -- choices

    def _choose(self, a: int, b: int) -> None:
        """Decide an open term: as earlier decisions demand, or with the fewest holes."""
        ways = self._ways(a, b)
        if len(ways) == 2:
            exchanged = self._score(a, b, exchanged=True) > self._score(a, b, exchanged=False)
            if self.attempt >> self.choices & 1:
                exchanged = not exchanged
            self.choices += 1
            ways = [exchanged]
        self._pair_operands(a, b, exchanged=ways == [True])

    def _pair_operands(self, a: int, b: int, *, exchanged: bool) -> None:
        x, y = self.ours.flow.terms[a], self.theirs.flow.terms[b]
        assert x.node is not None
        for place in range(2):
            other = y.operands[1 - place if exchanged else place]
            self.pending.append((x.operands[place], other, Site(x.node, "operand", place, 0)))

    def _ways(self, a: int, b: int) -> list[bool]:
        """The ways to pair the operands of a commutative term: False for in order, True for exchanged."""
        x, y = self.ours.flow.terms[a].operands[:2], self.theirs.flow.terms[b].operands[:2]
        straight = self._may_pair(x[0], y[0]) and self._may_pair(x[1], y[1])
        crossed = self._may_pair(x[0], y[1]) and self._may_pair(x[1], y[0])
        return [exchanged for exchanged, can in ((False, straight), (True, crossed)) if can]

    def _may_pair(self, x: Operand, y: Operand) -> bool:
        if isinstance(x, Ref) and isinstance(y, Ref) and (x.term in self.partner or y.term in self.back):
            return x.output == y.output and self.partner.get(x.term) == y.term and self.back.get(y.term) == x.term
        return self.ours.operand(x) == self.theirs.operand(y)

    def _score(self, a: int, b: int, *, exchanged: bool) -> int:
        """The number of operands that are the same to the bit when paired this way."""
        ours, theirs = self._colors()
        x, y = self.ours.flow.terms[a].operands[:2], self.theirs.flow.terms[b].operands[:2]
        pairs = zip(x, reversed(y) if exchanged else y, strict=True)
        return sum(ours.operand(one) == theirs.operand(other) for one, other in pairs)

    def _colors(self) -> tuple[Colors, Colors]:
        """Digests that distinguish everything that could be a hole."""
        if self._exact is None:
            step: Relation = "arguments" if self.permuted else "order"
            ours, theirs = self.ours.flow, self.theirs.flow
            self._exact = (
                Colors(ours.body, step, self.permuted, spelling_of(self.left, step), merged=ours.merged),
                Colors(theirs.body, step, self.permuted, spelling_of(self.right, step), merged=theirs.merged),
            )
        return self._exact

    # -- recording what corresponds

    def _rest(self, a: tuple[int, ...], b: tuple[int, ...]) -> bool:
        """Pair the parameters without needed uses, each with the first of its type."""
        others = [number for number in b if number not in self.back]
        for number in a:
            if number in self.partner:
                continue
            x = self.ours.flow.terms[number].value
            for other in others:
                y = self.theirs.flow.terms[other].value
                if x is not None and y is not None and pair_types(x.type, y.type, self.step) is not None:
                    others.remove(other)
                    if not self._term(number, other):
                        return False
                    break
            else:
                return False
        return not others

    def _record(self) -> None:
        """Record the corresponding values and nodes from the paired terms."""
        of: dict[tuple[int, int], Value] = {}
        for value, operand in self.theirs.flow.of.items():
            if isinstance(operand, Ref):
                of.setdefault(operand, value)
        for value, operand in self.ours.flow.of.items():
            if isinstance(operand, Ref) and operand.term in self.partner:
                self.values[value] = of[Ref(self.partner[operand.term], operand.output)]
        for a, b in self.partner.items():
            one, other = self.ours.flow.terms[a].node, self.theirs.flow.terms[b].node
            if one is not None and other is not None:
                self.nodes[one] = other

    def _types(self, x: Value, y: Value) -> bool:
        pairs = pair_types(x.type, y.type, self.step)
        return pairs is not None and self._slots(pairs, Site(x, "type", 0, 0))

    def _attributes(self, a: Mapping[str, object], b: Mapping[str, object], subject: Node | str) -> bool:
        if not a and not b:
            return True
        for key in sorted({*a, *b}):
            pairs = self.symbols.pair_attribute(key, a.get(key, ABSENT), b.get(key, ABSENT))
            if pairs is None:
                return False
            self.slots += [SlotPair(x.kind, Site(subject, key, 0, i), x.value, y.value) for i, (x, y) in enumerate(pairs)]
        return True

    def _slots(self, pairs: Pairs, site: Site) -> bool:
        self.slots += [SlotPair(x.kind, site._replace(index=x.index), x.value, y.value) for x, y in pairs]
        return True


_NOWHERE: Final = Site("the state at the end", "result", 0, 0)


# --- questions about two pieces ---------------------------------------------------------------------------------------


def differences(left: Piece, right: Piece, relation: Relation = "alpha") -> Listing:
    """Returns the comparison of two pieces in listed order, with their differences."""
    return Listing(left, right, relation).run()


def meeting(left: Piece, right: Piece, since: Relation = "text") -> Match | None:
    """Returns the match by the finest relation, from `since` on, by which two pieces are the same; None if there is none."""
    for relation in RELATIONS[RANK[since] :]:
        found = match(left, right, relation)
        if found is not None:
            return found
    return None


def excerpt(left: Piece, right: Piece, apart: tuple[Node | None, Node | None]) -> str:
    """Returns the two lines at which pieces diverge, as a clause; empty where there is no such line."""
    lines = [_line(piece, node) for piece, node in zip((left, right), apart, strict=True)]
    return f", at `{lines[0]}` and at `{lines[1]}`" if any(apart) else ""


def _line(piece: Piece, node: Node | None) -> str:
    if node is None:
        return "the end"
    graph = next((body.graph for body in piece.bodies if node in body.graph.position), piece.graph)
    mine = (each for each in graph.nodes() if each.id == node.id or (each.op == "prim::Constant" and each.attrs is node.attrs))
    node = next(mine, node)  # the nodes of a region are copies, over constants of its own
    text = print_node(node, {value: graph.names.get(value, value.name) for value in (*node.outputs, *node.inputs)})
    return text if len(text) <= 120 else f"{text[:117]}..."
