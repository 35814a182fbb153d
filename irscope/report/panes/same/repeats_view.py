"""The differences between modules folded into one box: constants, types, and the values each is passed.

Nodes correspond as defined by `ModuleText`, so a row is one position in the code of a layer, and a column is one layer. Positions
that vary in the same way share a row: one determines the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any, Final

from irscope._base.escaping import shortened
from irscope.ir import Node, Value
from irscope.report.boxes import BoxTree, ModuleText
from irscope.report.view_models import PlaceView, RepeatView, VaryingView
from irscope.report.words import plural, short_type
from irscope.transforms.dedup.holes import operand_name, told

__all__ = ["repeat_view"]

_MOST_ROWS: Final = 80
_MOST_PLACES: Final = 48
_LONGEST: Final = 60
_ORDER: Final = {"constant": 0, "type": 1, "value": 2, "chain": 3}
_Row = tuple[str, tuple[str, ...]]
"""The kind of difference, and its value in each module."""


def repeat_view(tree: BoxTree, number: int) -> RepeatView:
    """The table of one box of repeated modules.

    >>> import irscope as irs
    >>> lines = "".join(f"  %t{k} : Float(4) = aten::tanh(%x{k})\\n  %k{k} : float = prim::Constant[value=0.{k + 1}]()\\n"
    ...                 f"  %e{k} : Float(4) = aten::mul(%t{k}, %k{k})\\n  %x{k + 1} : Float(4) = aten::neg(%e{k})\\n" for k in range(3))
    >>> tree = BoxTree(irs.parse(f"graph(%x0 : Float(4)):\\n{lines}  return (%x3)"))
    >>> view = repeat_view(tree, tree.kinds.index("repeat"))
    >>> view["sentence"]
    '3 places are the same but for one constant; each reads what the one before makes'
    >>> [(row["where"], row["values"]) for row in view["varying"]]
    [("'other' of aten::mul", ['0.1', '0.2', '0.3']), ("'self' of aten::tanh", ['%x0', '%x1', '%x2'])]
    """
    members = tree.members(number)
    text, nodes = tree.modules
    places = [nodes[path] for path in members.values()]
    rows: dict[_Row, list[str]] = {}
    for kind, where, values in _differing(tree, text, places):
        rows.setdefault((kind, values), []).append(where)
    found = sorted(rows.items(), key=lambda row: _ORDER[row[0][0]])
    return RepeatView(
        label=f"{plural(len(places[0]), 'node')} ×{len(places)}", sentence=_sentence(len(places), [kind for (kind, _), _ in found]),
        places=[PlaceView(label=shortened(path, 200), box=tree.ids[box]) for box, path in list(members.items())[:_MOST_PLACES]],
        places_left_out=max(0, len(places) - _MOST_PLACES),
        varying=[_varying(kind, values, where) for (kind, values), where in found[:_MOST_ROWS]],
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
            yield from _apart("constant", f"{key!r} of {column[0].op}{which}", [told(node.attrs.get(key)) for node in column])


def _apart(kind: str, where: str, values: Sequence[str]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    if any(value != values[0] for value in values):
        yield kind, where, tuple(values)


def _payload(constant: Node) -> str:
    return ", ".join(told(payload) for payload in constant.attrs.values()) or "None"


def _is_chain(values: Sequence[Value], own: Sequence[dict[Value, Any]]) -> bool:
    """Whether each module but the first uses the same result of the previous one."""
    return len({own[place - 1].get(values[place]) for place in range(1, len(values))} | {None}) == 2 and all(
        values[place] in own[place - 1] for place in range(1, len(values))
    )


def _sentence(count: int, kinds: Sequence[str]) -> str:
    """A sentence that names the differences."""
    counts = Counter(kinds)
    nouns = {"constant": ("constant", "constants"), "type": ("type", "types"), "value": ("value that they use", "values that they use")}
    parts = [f"one {one}" if counts[kind] == 1 else f"{counts[kind]} {many}" for kind, (one, many) in nouns.items() if counts[kind]]
    differ = " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))
    chain = "; each reads what the one before makes" if counts["chain"] else ""
    return f"{plural(count, 'place')} are the same" + (f" but for {differ}" if differ else "") + chain


def _varying(kind: str, values: Sequence[str], where: Sequence[str]) -> VaryingView:
    more = f", and {len(where) - 1} more that vary with it" if len(where) > 1 else ""
    name = _shared_name(values) if kind == "value" else ""
    shown = [shortened(value, _LONGEST) for value in values[:_MOST_PLACES]]
    return VaryingView(kind=kind, where=shortened(f"{where[0]}{more}", 200), name=name, values=shown)


def _shared_name(values: Sequence[str]) -> str:
    """The common suffix of the values' names after the name of the module: `query.weight` for the weights of twelve layers."""
    reversed_parts = [value.removeprefix("%").split(".")[::-1] for value in values]
    shared = [parts[0] for parts in takewhile(lambda parts: len(set(parts)) == 1, zip(*reversed_parts, strict=False))]
    return ".".join(reversed(shared))
