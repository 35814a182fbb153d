"""The canonical form of a piece of program: a byte string that two pieces share when a relation holds between them.

*The form.* `irscope.transforms.dedup.piece` lists the relations and what each forgets. For the first three a piece is a
list: parameters, nodes in order, results. For the others it is a set of terms (`irscope.transforms.dedup.terms`).

*Equal forms mean equal pieces* up to `symbols`. Numbering values by their definition is injective, every field is written
with its length or an end mark, and floats by their bits: the form can be read back, so equal forms are the same piece up
to what the relation forgets. A payload that cannot be read back (an object with known text only, a tensor without its
elements) is written as its identity, and so equals itself only. From `order` on, the form consists of digests of terms,
each of its op, attributes, result types and its operands' digests; it also says which results are the same value. From
`arguments` on, parameters of one type are distinguished by their uses, to a fixpoint; for `extents` the form has, for each
size, the set of its places. Forms of pieces that are not the same may then be equal, which is harmless: forms only select
what to compare, and `irscope.transforms.dedup.matching` proves each merge with a bijection.

*Limits.* Sums that are associated differently are different.

*Fingerprints* are 16 bytes of BLAKE2 of the form, computed in linear time. IREE's pass omits symbol names from its comparison,
and merges programs that compute different numbers; here a name is compared by its meaning.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain
from typing import Any, Final

from irscope._base.frozen import EMPTY
from irscope.ir import Block, Node, TensorData, Type, Value
from irscope.ir.module import reference_to
from irscope.ir.structural import inner_blocks
from irscope.transforms.dedup.encoding import digest, is_spelled, prefixed, spell_attrs, spell_payload, split_leaf, split_type
from irscope.transforms.dedup.piece import HOLED, NO_BLOCK, RANK, Body, Piece, Relation, all_nodes, apart_from_symbols, attrs_of, kept_in
from irscope.transforms.dedup.terms import Leaf, Operand, Term, flow_of

Symbols = Callable[[str], str] | None
"""Spells the text of an attribute that names symbols; None leaves it as it is."""
_ROUNDS: Final = 8


def fingerprint(piece: Piece, relation: Relation) -> bytes:
    """Returns sixteen bytes that pieces share when the relation holds between them, and otherwise rarely."""
    return digest(canonical_form(piece, relation))


def has_stable_fingerprint(piece: Piece) -> bool:
    """Whether the fingerprint is the same in every process: the piece has no constant known only by object identity."""
    bodies = piece.bodies
    attrs = [*(body.attrs for body in bodies), *(node.attrs for body in bodies for node in all_nodes(body.block))]
    return all(is_spelled(payload) for each in attrs for payload in each.values())


def canonical_form(piece: Piece, relation: Relation) -> bytes:
    is_listed, symbols = RANK[relation] < RANK["order"], spelling_of(piece, relation)
    permuted = RANK[relation] >= RANK["arguments"] and may_permute(piece)

    def form(body: Body) -> bytes:
        return _listed(body, relation, symbols) if is_listed else colors_of(piece, body, relation, permuted=permuted).form

    parts = [b"" if is_listed else b"~", form(piece.body)]
    for name in piece.roots:
        bodies = piece.named.get(name, ())
        parts.append(b"r%d:" % len(bodies) + (prefixed(name) if relation == "text" else b""))
        parts += map(form, bodies)
    return b"".join(parts)


# --- names of symbols ---------------------------------------------------------------------------------------------------


def renamed_symbols(text: str, renamed: Mapping[str, str]) -> str:
    """Returns the text with some of its symbols renamed.

    >>> renamed_symbols("@ex_1::@G", {"ex_1": "ex_0"})
    '@ex_0::@G'
    """
    between, names = apart_from_symbols(text)
    spelled = [reference_to(renamed.get(name, name)) for name in names]
    return "".join(chain.from_iterable(zip(between, (*spelled, ""), strict=True)))


def without_symbols(text: str) -> str:
    """Returns the text with the same name for every symbol."""
    return renamed_symbols(text, dict.fromkeys(apart_from_symbols(text)[1], "#"))


def spelling_of(piece: Piece, relation: Relation) -> Symbols:
    """Returns the spelling of names in attributes: a root by its place, another declared name by its meaning, the rest as is."""
    if not piece.named or relation == "text":
        return None
    roots = {name: f"#{place}" for place, name in enumerate(piece.roots)}

    def spelled(text: str) -> str:
        renamed = {}
        for name in apart_from_symbols(text)[1]:
            if name in roots:
                renamed[name] = roots[name]
            elif name in piece.named and relation != "alpha":
                renamed[name] = _meaning(*piece.named[name], relation=relation)
        return renamed_symbols(text, renamed) if renamed else text

    return spelled


@kept_in(4096)
def _meaning(first: Body, *others: Body, relation: Relation) -> str:
    """A digest of the bodies behind a name, ignoring the names in them; it only selects, like every digest."""
    bodies = (first, *others)
    if RANK[relation] < RANK["order"]:
        return digest(*(_listed(body, relation, without_symbols) for body in bodies)).hex()
    return digest(*(Colors(body, relation, False, without_symbols).form for body in bodies)).hex()


def may_permute(piece: Piece) -> bool:
    """Whether callers can be changed to pass the arguments in another order: nothing inside calls a root, and no declaration
    says how its arguments are passed."""
    if not piece.named:
        return True
    own = set(piece.roots) or {str(piece.member)}
    declared = [body for name in piece.roots for body in piece.named.get(name, ())]
    if any(body.attrs.keys() - _PLAIN for body in declared):
        return False
    found: set[str] = set()
    todo = [piece.body, *declared]
    while todo:
        for name in todo.pop().called - found:
            found.add(name)
            todo.extend(piece.named.get(name, ()))
    return not found & own


_PLAIN: Final = frozenset({"declared by", "visibility", "function_ref", "distinct_inputs", "value", "module"})
"""The attributes of a declaration that do not describe its arguments."""


# --- listing a block in order ---------------------------------------------------------------------------------------

Token = bytes | str | int
"""A part of a list: bytes as they are, the name of an op, the number of a value, or the complement of a count."""


class _InFull:
    """Spells types and attributes in bytes that can be read back but for what the relation takes out."""

    def __init__(self, relation: Relation, symbols: Symbols) -> None:
        self._relation, self._symbols = relation, symbols
        self.types: dict[int, Token] = {}
        """The types that were spelled before, by identity."""

    def type(self, type: Type) -> Token:
        """A type that is not among `types`, with its end mark or length."""
        spelled = self.types[id(type)] = prefixed(split_type(type, self._relation)[0])
        return spelled

    def attrs(self, attrs: Mapping[str, Any]) -> Token:
        """Attributes that are not empty."""
        return spell_attrs(attrs, self._relation, self._symbols)


def _list_body(body: Body, spelling: "_InFull | Keys", out: list[Token], names: Mapping[Value, str] | None = None) -> list[Token]:
    """Adds the block to `out` as tokens, with the `names` of values where they count. A value is the number of its definition, so that
    the k-th definition of one piece corresponds to the k-th of another with the same list: that is their bijection."""
    spelled: Token = spelling.attrs(body.attrs) if body.attrs else _NO_ATTRS
    if body.block is NO_BLOCK:
        out += (spelled, b"{", ~0, b"}", ~0)
        return out
    out += (spelled, b"{")
    number: dict[Value, int] = {}
    add, known, spell, number_of = out.append, spelling.types.get, spelling.type, number.__getitem__
    _define(body.block.params, number, spelling, out, names)
    stack: list[tuple[Block, Iterator[Node]]] = [(body.block, iter(body.block.nodes))]
    while stack:
        block, nodes = stack[-1]
        for node in nodes:
            inputs, outputs = node.inputs, node.outputs
            try:  # this loop is what sorting a program costs: most nodes need no call
                out += (node.op, ~len(inputs), *map(number_of, inputs))
            except KeyError:
                _define_outer(inputs, number, spelling, out, names)
                out += (node.op, ~len(inputs), *map(number_of, inputs))
            if node.attrs is EMPTY:
                spelled, inner = _NO_ATTRS, node.blocks
            else:
                attrs, inner = attrs_of(node), inner_blocks(node)
                spelled = spelling.attrs(attrs) if attrs else _NO_ATTRS
            if len(outputs) == 1 and names is None:  # as `_define` does it
                number[outputs[0]] = len(number)
                out += (spelled, ~1, known(id(outputs[0].type)) or spell(outputs[0].type))
            else:
                add(spelled)
                _define(outputs, number, spelling, out, names)
            if inner:
                stack.extend((nested, iter(nested.nodes)) for nested in reversed(inner))
                out += (b"[", ~len(inner))
                for nested in inner:
                    add(b"{")
                    _define(nested.params, number, spelling, out, names)
                break
        else:
            stack.pop()
            add(b"}")
            if not number.keys() >= set(block.returns):
                _define_outer(block.returns, number, spelling, out, names)
            out += (~len(block.returns), *map(number_of, block.returns))
    return out


def _define(
    values: Collection[Value], number: dict[Value, int], spelling: "_InFull | Keys", out: list[Token], names: Mapping[Value, str] | None
) -> None:
    out.append(~len(values))
    for value in values:
        number[value] = len(number)
        out.append(spelling.types.get(id(value.type)) or spelling.type(value.type))
        if names is not None:
            out.append(prefixed(names.get(value) or value.name or ""))


def _define_outer(values: Iterable[Value], number: dict[Value, int], *rest: Any) -> None:
    """Numbers the values from outside the piece where they are first read."""
    rest[1].append(b"!")
    _define(dict.fromkeys(value for value in values if value not in number), number, *rest)


_op: Final = lru_cache(maxsize=1 << 12)(prefixed)


def _listed(body: Body, relation: Relation, symbols: Symbols) -> bytes:
    """The list of a body as prefix-free bytes."""
    tokens = _list_body(body, _InFull(relation, symbols), [], body.graph.names if relation == "text" else None)
    spelled = (
        token if isinstance(token, bytes) else _op(token) if isinstance(token, str) else b"%d;" % token if token >= 0 else b"%d:" % ~token
        for token in tokens
    )  # fmt: skip
    return b"".join(spelled)


_NO_ATTRS: Final[Token] = spell_attrs({})


# --- short lists that prove ---------------------------------------------------------------------------------------------


class _NoKeyError(Exception):
    """Raised for a part of a piece that cannot be identified by its content."""


class Keys:
    """Builds *keys*: lists that are equal exactly when two pieces are the same by `alpha`, so that they need no other proof.

    Types and attributes are numbers that equal ones share; they are looked up by content, never by a digest. A piece has no key,
    and is hashed and matched instead, when it refers to private names of its own (whose meaning belongs to it) or contains an
    object of which only the identity is known. Of two pieces that are the same, both or neither have a key. Keys of one `Keys`
    are compared with each other only; they cost half a canonical form and nothing for the proof.
    """

    def __init__(self) -> None:
        self.types: dict[int, Token] = {}
        self._numbers: dict[object, int] = {}
        self._alive: list[Type] = []
        self._piece: Piece
        self._places: dict[str, int] = {}

    def key(self, piece: Piece) -> tuple[Token, ...] | None:
        self._piece, self._places = piece, {name: place for place, name in enumerate(piece.roots)}
        named = [piece.named.get(name, ()) for name in piece.roots]
        if not all(named):
            return None
        try:
            out = _list_body(piece.body, self, [])
            for bodies in named:
                out.append(len(bodies))
                for body in bodies:
                    _list_body(body, self, out)
        except _NoKeyError:
            return None
        return tuple(out)

    def type(self, type: Type) -> Token:
        self._alive.append(type)  # so that no other type gets its identity
        number = self.types[id(type)] = self._number(("type", split_type(type, "alpha")[0]))
        return number

    def attrs(self, attrs: Mapping[str, Any]) -> Token:
        """The number of some attributes."""
        return self._number(tuple([(name, self._payload(attrs[name])) for name in sorted(attrs)]))

    def _payload(self, payload: Any) -> object:
        """The content of a constant, distinguished to the bit and by type."""
        if isinstance(payload, str):
            return "@", self._spell_names(payload) if "@" in payload and self._piece.named else payload
        if isinstance(payload, TensorData) and payload.array is not None and payload.array.nbytes <= _SMALL:
            return payload.dtype, tuple(payload.shape), payload.device, payload.array.tobytes()
        if isinstance(payload, tuple | list):
            return "(", tuple([self._payload(item) for item in payload])
        if isinstance(payload, Mapping):
            return "{", tuple([(key, self._payload(payload[key])) for key in sorted(payload)])
        if isinstance(payload, TensorData) or not is_spelled(payload):
            raise _NoKeyError
        return spell_payload(payload)

    def _spell_names(self, text: str) -> object:
        """A text and the names in it: a root as its place, and a name declared elsewhere as itself."""
        if text.startswith('"'):
            return text
        between, names = apart_from_symbols(text)
        if any(name in self._piece.named and name not in self._places for name in names):
            raise _NoKeyError
        return between, tuple([self._places.get(name, name) for name in names])

    def _number(self, content: object) -> int:
        return self._numbers.setdefault(content, len(self._numbers) + 1)


_SMALL: Final = 1 << 12
"""Larger tensors, in bytes, are not written into keys."""


# --- terms ----------------------------------------------------------------------------------------------------------


class Colors:
    """A digest for each term of a body under a relation: equal for terms that may correspond."""

    def __init__(self, body: Body, relation: Relation, permuted: bool, symbols: Symbols, *, merged: bool | None = None) -> None:
        """`permuted`: whether parameters may be reordered; `merged`: whether equal terms are merged, where that is allowed."""
        self.flow = flow_of(body, merged=relation not in HOLED if merged is None else merged)
        self.relation = relation
        self.permuted = permuted
        self._symbols = symbols
        self._types: dict[Type, bytes] = {}
        self._heads = {number: self._head(self.flow.terms[number]) for number in self.flow.needed}
        self.of: dict[int, bytes] = {}
        self._fill({})
        if permuted:
            self._refine()

    def operand(self, operand: Operand) -> bytes:
        if isinstance(operand, Leaf):
            return b"c" + split_leaf(operand.payload, operand.role, self.relation)[0] + self._type(operand.type)
        return self.of[operand.term] + b"%d;" % operand.output

    @property
    def form(self) -> bytes:
        """The form of the body: parameters, results, which results are one value, the final state, and the number of terms."""
        flow = self.flow
        out = [spell_attrs(flow.body.attrs, self.relation, self._symbols), b"%d:" % len(flow.top.params)]
        params = [self.of.get(number) or self._param(flow.terms[number]) for number in flow.top.params]
        out.extend(sorted(params) if self.permuted else params)
        first: dict[Value, int] = {}
        for place, (operand, value) in enumerate(zip(flow.top.returns, flow.top.block.returns, strict=True)):
            out.append(self.operand(operand) + b"%d;" % first.setdefault(value, place))
        out.append(b"." if flow.top.end is None else self.operand(flow.top.end))
        if not flow.merged:
            out.append(b"%d" % len(flow.needed))
        if self.relation == "extents":
            out.append(self._pattern())
        return b"".join(out)

    def _head(self, term: Term) -> bytes:
        if term.node is None:
            return self._param(term)
        node = term.node
        attrs = spell_attrs(attrs_of(node), self.relation, self._symbols)
        counts = b"%d:%d:%d:%d:" % (len(term.operands), len(node.outputs), term.ordered, len(term.regions))
        return b"".join((prefixed(node.op), attrs, counts, *(self._type(value.type) for value in node.outputs)))

    def _param(self, term: Term) -> bytes:
        if term.value is None:
            return digest(b"start")
        place = -1 if term.top and self.permuted else term.place
        return digest(b"p%d;" % place, self._type(term.value.type))

    def _type(self, type: Type) -> bytes:
        spelled = self._types.get(type)
        if spelled is None:
            spelled = self._types[type] = prefixed(split_type(type, self.relation)[0])
        return spelled

    def _fill(self, own: Mapping[int, bytes]) -> None:
        """Compute the digests of all terms; `own` has those of some parameters."""
        of = self.of
        for number in self.flow.needed:
            term = self.flow.terms[number]
            if term.node is None:
                of[number] = own.get(number, self._heads[number])
                continue
            operands = [self.operand(operand) for operand in term.operands]
            if term.exchanges:
                operands[:2] = sorted(operands[:2])
            for region in term.regions:
                operands += [b"[%d:" % len(region.params), *(self.operand(operand) for operand in region.returns)]
                operands.append(b"]" if region.end is None else self.operand(region.end))
            of[number] = digest(self._heads[number], *operands)

    def _refine(self) -> None:
        """Distinguish parameters by their uses, until no further ones differ."""
        flow = self.flow
        needed = set(flow.needed)
        open_terms = ((number, flow.terms[number]) for number in flow.needed)  # which only their types distinguish so far
        params = [n for n, term in open_terms if term.node is None and term.value is not None and (term.top or term.place < 0)]
        colors = {number: self.of[number] for number in params}
        distinct = len(set(colors.values()))
        for _ in range(_ROUNDS):
            if distinct == len(params):
                return
            uses: dict[int, list[bytes]] = {number: [] for number in params}
            for number in flow.needed:
                term = flow.terms[number]
                for place, operand in enumerate(term.operands):
                    if not isinstance(operand, Leaf) and operand.term in uses:
                        at = 0 if term.exchanges and place < 2 else place
                        uses[operand.term].append(self.of[number] + b"%d" % at)
            for place, operand in enumerate(flow.top.returns):
                if not isinstance(operand, Leaf) and operand.term in uses:
                    uses[operand.term].append(b"r%d" % place)
            colors = {number: digest(colors[number], *sorted(uses[number])) for number in params if number in needed}
            self._fill(colors)
            if len(set(colors.values())) == distinct:
                return
            distinct = len(set(colors.values()))

    def _pattern(self) -> bytes:
        """A digest of the sets of places with equal sizes, without the sizes."""
        places: dict[Any, list[bytes]] = {}
        for number in self.flow.needed:
            color = self.of[number]
            term = self.flow.terms[number]
            values = term.node.outputs if term.node is not None else () if term.value is None else (term.value,)
            for output, value in enumerate(values):
                for slot in split_type(value.type, self.relation)[1]:
                    if slot.kind == "extent":
                        places.setdefault(slot.value, []).append(color + b"%d.%d" % (output, slot.index))
        return digest(*sorted(digest(*sorted(found)) for found in places.values()))


@kept_in(512)
def colors_of(piece: Piece, body: Body, relation: Relation, *, permuted: bool) -> Colors:
    return Colors(body, relation, permuted, spelling_of(piece, relation))
