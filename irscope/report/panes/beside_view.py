"""Pieces beside each other: the members of a class, and the modules in a box of repeated modules."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import takewhile
from typing import Any, Final

from irscope._base.nested import grouped
from irscope._base.words import plural, shortened
from irscope.errors import UnknownNumber
from irscope.ir import Node, Value
from irscope.ops.traits import PACKS_SEQUENCE
from irscope.report.box_tree import BoxTree
from irscope.report.repeats import ModuleText, told_apart
from irscope.report.view_models import BesideLine, BesideView, PlaceView, RepeatView, VaryingView, Word
from irscope.report.words import short_type
from irscope.transforms.dedup import Match, Piece, SlotPair, format_payload, operand_name

# Two pieces side by side: corresponding lines share a row, with the holes marked in each line.

_MOST_LINES: Final = 160
_LONGEST: Final = 200

Spot = tuple[Node | Value, str, int]  # A place in a piece: a node's operand or attribute, or a value's type.
Pair = tuple[Node | None, Node | None]


def beside_view(left: Piece, right: Piece, found: Match | None, rows: Sequence[SlotPair], heads: Sequence[str], because: str) -> BesideView:
    """The view of two pieces, matched or not, under their `heads`. `rows` are the holes in the order of the hole table; without a match,
    lines correspond by their ops."""
    holes: dict[Spot, int] = {}
    others: dict[Spot, int] = {}
    for number, pair in enumerate(rows):
        subject, part, place, _ = pair.site
        if isinstance(subject, str):
            continue
        holes.setdefault((subject, part, place), number)
        spot = _spot_in(found, pair) if found is not None else None
        if spot is not None:
            others.setdefault(spot, number)
    one, other = _Printer(left, holes), _Printer(right, others)
    if found is None:
        pairs = _alike(left, right)
    else:  # in the order of the left piece; nodes of the right one that its results do not need come last
        pairs = [(node, found.nodes.get(node)) for node in left.nodes]
        met = {node for _, node in pairs}
        pairs += [(None, node) for node in right.nodes if node not in met]
    lines = [BesideLine(left=one.head(), right=other.head(), left_node=0, right_node=0)]
    lines += [
        BesideLine(left=one.line(a), right=other.line(b), left_node=a.id if a is not None else 0, right_node=b.id if b is not None else 0)
        for a, b in pairs[:_MOST_LINES]
    ]
    return BesideView(left=heads[0], right=heads[1], because=because, lines=lines, left_out=max(0, len(pairs) - _MOST_LINES))


def _alike(left: Piece, right: Piece) -> list[Pair]:
    """The longest runs of equal ops. Quadratic, so at most a few hundred lines are compared."""
    one, other = left.nodes[: 2 * _MOST_LINES], right.nodes[: 2 * _MOST_LINES]
    pairs: list[Pair] = []
    at, to = 0, 0
    runs = SequenceMatcher(None, [node.op for node in one], [node.op for node in other], autojunk=False)
    for a, b, size in runs.get_matching_blocks():
        pairs += [(node, None) for node in one[at:a]]
        pairs += [(None, node) for node in other[to:b]]
        pairs += zip(one[a : a + size], other[b : b + size], strict=True)
        at, to = a + size, b + size
    return pairs


def _spot_in(found: Match, pair: SlotPair) -> Spot | None:
    """The place in the right piece that corresponds to a hole of the left one."""
    subject, part, place, _ = pair.site
    there = found.values.get(subject) if isinstance(subject, Value) else found.nodes.get(subject) if isinstance(subject, Node) else None
    return None if there is None else (there, part, place)


class _Printer:
    """Prints the lines of one piece, with constants inline."""

    def __init__(self, piece: Piece, holes: Mapping[Spot, int]) -> None:
        self._piece = piece
        self._holes = holes
        called = [body for name in piece.roots for body in piece.named[name]]
        self._payloads = {value: payload for body in (piece.body, *called) for value, payload in body.constants.items()}
        self._names: dict[Value, str] = dict(piece.graph.names)
        for body in called:
            self._names.update(body.graph.names)

    def head(self) -> list[Word]:
        return [_plain("("), *_listed([self._declared(value) for value in self._piece.block.params]), _plain(")")]

    def line(self, node: Node | None) -> list[Word]:
        if node is None:
            return []
        results = _listed([self._declared(value) for value in node.outputs])
        operands = _listed([[self._operand(node, k)] for k in range(len(node.inputs))])
        attrs = [
            Word(text=shortened(f", {key}={format_payload(value)}", _LONGEST), value=0, hole=self._holes.get((node, key, 0), -1))
            for key, value in (node.attrs or {}).items()
        ]
        return [*results, _plain(" = " if results else ""), _plain(node.op), _plain("("), *operands, *attrs, _plain(")")]

    def _declared(self, value: Value) -> list[Word]:
        hole = self._holes.get((value, "type", 0), -1)
        kind = Word(text=shortened(short_type(value.type), _LONGEST), value=0, hole=hole)
        return [Word(text=self._name(value), value=value.id, hole=-1), _plain(" : "), kind]

    def _operand(self, node: Node, place: int) -> Word:
        value = node.inputs[place]
        text = shortened(format_payload(self._payloads[value]), _LONGEST) if value in self._payloads else self._name(value)
        return Word(text=text, value=value.id, hole=self._holes.get((node, "operand", place), -1))

    def _name(self, value: Value) -> str:
        return f"%{self._names.get(value, value.name)}"


def _listed(parts: Sequence[list[Word]]) -> list[Word]:
    return [word for k, part in enumerate(parts) for word in ([_plain(", "), *part] if k else part)]


def _plain(text: str) -> Word:
    return Word(text=text, value=0, hole=-1)


# The differences between modules folded into one box: constants, types, and the values each is passed.
#
# Nodes correspond as defined by `ModuleText`, so a row is one position in the code of a layer, and a column is one layer. Positions
# that vary in the same way share a row: one determines the others.

_MOST_ROWS: Final = 80
_MOST_PLACES: Final = 48
_LONGEST_VALUE: Final = 60
_ORDER: Final = {"constant": 0, "type": 1, "value": 2, "chain": 3}


def repeat_view(tree: BoxTree, number: int) -> RepeatView:
    """The table of one box of repeated modules."""
    members = tree.members(number)
    paths = list(members.values())
    text, nodes = tree.modules
    places = [nodes[path] for path in members.values()]
    rows = grouped(((kind, values), where) for kind, where, values in _differing(tree, text, places))
    found = sorted(rows.items(), key=lambda row: _ORDER[row[0][0]])
    return RepeatView(
        label=f"{plural(len(places[0]), 'node')} ×{len(places)}", sentence=_sentence(len(places), [kind for (kind, _), _ in found]),
        places=[
            PlaceView(label=shortened(path, 200), short=shortened(short, 200), box=tree.ids[box])
            for (box, path), short in zip(list(members.items())[:_MOST_PLACES], told_apart(paths), strict=False)
        ],
        places_left_out=max(0, len(places) - _MOST_PLACES),
        varying=[_varying(kind, values, where, paths) for (kind, values), where in found[:_MOST_ROWS]],
        left_out=max(0, len(found) - _MOST_ROWS),
    )  # fmt: skip


def _differing(tree: BoxTree, text: ModuleText, places: Sequence[Sequence[Node]]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Each difference between the modules: its kind, its position, and its value in each module."""
    graph = tree.graph
    own = [{value: (column, k) for column, node in enumerate(nodes) for k, value in enumerate(node.outputs)} for nodes in places]
    asked: set[tuple[Value, ...]] = set()
    counts = Counter(node.op for node in places[0])
    for column in zip(*places, strict=True):
        which = f" %{graph.names[column[0].outputs[0]]}" if counts[column[0].op] > 1 and column[0].outputs else ""
        for number in range(len(column[0].inputs)):
            values = tuple([text.maker_side(node.inputs[number]) for node in column])
            if values in asked or len(set(values)) == 1 or values[0] in own[0]:
                continue
            makers = [graph.producer.get(value) for value in values]
            where = f"{operand_name(column[0], number)}{which}"
            if all(maker is not None and maker.op == "prim::Constant" for maker in makers):
                yield from _apart("constant", where, [_payload(maker) for maker in makers if maker is not None])
            else:
                asked.add(values)
                kind = "chain" if _is_chain(values, own) else "value"
                yield from _apart(kind, where, [f"%{graph.names[value]}" for value in values])
        for number in range(len(column[0].outputs)):
            yield from _apart("type", f"result of {column[0].op}{which}", [short_type(node.outputs[number].type) for node in column])
        for key in column[0].attrs:
            yield from _apart("constant", f"{key!r} of {column[0].op}{which}", [format_payload(node.attrs.get(key)) for node in column])


def _apart(kind: str, where: str, values: Sequence[str]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    if any(value != values[0] for value in values):
        yield kind, where, tuple(values)


def _payload(constant: Node) -> str:
    return ", ".join(format_payload(payload) for payload in constant.attrs.values()) or "None"


def _is_chain(values: Sequence[Value], own: Sequence[dict[Value, Any]]) -> bool:
    """Whether each module but the first uses the same result of the previous one."""
    before = [own[place - 1].get(values[place]) for place in range(1, len(values))]
    return None not in before and len(set(before)) == 1


def _sentence(count: int, kinds: Sequence[str]) -> str:
    counts = Counter(kinds)
    nouns = {"constant": ("constant", "constants"), "type": ("type", "types"), "value": ("operand", "operands")}
    parts = [f"one {one}" if counts[kind] == 1 else f"{counts[kind]} {many}" for kind, (one, many) in nouns.items() if counts[kind]]
    differ = " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))
    chain = "; each reads the result of the one before" if counts["chain"] else ""
    return f"{plural(count, 'place')} are the same" + (f" but for {differ}" if differ else "") + chain


def _varying(kind: str, values: Sequence[str], where: Sequence[str], paths: Sequence[str]) -> VaryingView:
    more = f", and {len(where) - 1} more that vary with it" if len(where) > 1 else ""
    name = _shared_name(values) if kind == "value" else ""
    shown = [shortened(value, _LONGEST_VALUE) for value in values[:_MOST_PLACES]]
    own = bool(name) and all(_in_module(value[1:], path) == name for value, path in zip(values, paths, strict=True))
    return VaryingView(kind=kind, where=shortened(f"{where[0]}{more}", 200), name=name, own=own, values=shown)


def _shared_name(values: Sequence[str]) -> str:
    """The common suffix of the values' names after the name of the module: `query.weight` for the weights of twelve layers."""
    reversed_parts = [value.removeprefix("%").split(".")[::-1] for value in values]
    shared = [parts[0] for parts in takewhile(lambda parts: len(set(parts)) == 1, zip(*reversed_parts, strict=False))]
    return ".".join(reversed(shared))


def repeat_beside(tree: BoxTree, number: int, left: int = 0, right: int = 1) -> BesideView:
    """Two of the modules in a box side by side, with what differs marked, but their own parameters. Raises UnknownNumber."""
    paths = list(tree.members(number).values())
    for place in (left, right):
        if not 0 <= place < len(paths):
            raise UnknownNumber(f"the box has no module {place}", hint=f"it has {len(paths)}, counted from 0")
    text, nodes = tree.modules
    sides = [(nodes[paths[place]], paths[place]) for place in (left, right)]
    own = [{value: (k, at) for k, node in enumerate(side) for at, value in enumerate(node.outputs)} for side, _ in sides]
    lines = []
    for pair in list(zip(*(side for side, _ in sides), strict=True))[:_MOST_LINES]:
        words = [_module_line(tree, text, node, path, mine) for node, (_, path), mine in zip(pair, sides, own, strict=True)]
        for a, b in zip(*words, strict=False):  # those in one place of both lines
            if a[1] != b[1]:
                a[0]["hole"] = b[0]["hole"] = 0
        one, other = ([word for word, _ in side] for side in words)
        lines.append(BesideLine(left=one, right=other, left_node=pair[0].id, right_node=pair[1].id))
    short = told_apart(paths)
    differ = sum(any(word["hole"] >= 0 for word in line["left"]) for line in lines)
    because = f"{plural(differ, 'line')} of {len(lines)} differ, apart from names and from parameters of their own"
    left_out = max(0, len(sides[0][0]) - _MOST_LINES)
    return BesideView(left=short[left], right=short[right], because=because, lines=lines, left_out=left_out)


def _module_line(tree: BoxTree, text: ModuleText, node: Node, path: str, own: Mapping[Value, Any]) -> list[tuple[Word, object]]:
    """The words of a line, each with what must be equal in the corresponding line of another module."""
    names = tree.graph.names
    words: list[tuple[Word, object]] = []
    for value in node.outputs:
        kind = short_type(value.type)
        made = Word(text=f"%{names[value]}", value=value.id, hole=-1)
        after = _plain(", " if value is not node.outputs[-1] else " = ")
        words += [(made, 0), (_plain(" : "), 0), (_plain(shortened(kind, _LONGEST)), kind), (after, 0)]
    words += [(_plain(node.op), node.op), (_plain("("), 0)]
    for number, given in enumerate(node.inputs):
        value = text.maker_side(given)
        maker = tree.graph.producer.get(value)
        words += [(_plain(", "), 0)] if number else []
        if maker is not None and maker.op == "prim::Constant":
            payload = _payload(maker)
            words.append((Word(text=shortened(payload, _LONGEST), value=value.id, hole=-1), payload))
        else:
            words.append((Word(text=f"%{names[value]}", value=value.id, hole=-1), _role(tree, text, value, path, own)))
    attrs = [(f", {key}={format_payload(payload)}", payload) for key, payload in node.attrs.items()]
    return [*words, *((_plain(shortened(said, _LONGEST)), said) for said, _ in attrs), (_plain(")"), 0)]


def _role(tree: BoxTree, text: ModuleText, value: Value, path: str, own: Mapping[Value, Any]) -> object:
    """What must be equal of corresponding operands: the place of the op in the module, the members of a list, or the name."""
    if value in own:
        return own[value]
    maker = tree.graph.producer.get(value)
    if maker is not None and maker.op in PACKS_SEQUENCE:
        return tuple(_role(tree, text, text.maker_side(each), path, own) for each in maker.inputs)
    if maker is not None and maker.op == "prim::Constant":
        return _payload(maker)
    return _in_module(tree.graph.names[value], path)


def _in_module(name: str, path: str) -> str:
    """A parameter's name after the path of its module; a name cannot begin with a digit, so those of `0.weight` begin with `_0`."""
    return name.removeprefix("_" * path[:1].isdigit()).removeprefix(f"{path}.")
