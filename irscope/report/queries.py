"""Answers queries about one program: each term is a set of nodes and values, and operators are set arithmetic.

Combined with nodes, a value counts as its producer, so `alias %a & op:relu` finds the relus among the producers of values that
may share memory with `%a`. Results are in program order.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from difflib import get_close_matches
from functools import cached_property
from itertools import islice
from math import prod
from operator import eq, ge, gt, le, lt
from typing import TYPE_CHECKING, Any

from irscope._base.frozen import EMPTY
from irscope._base.nested import grouped
from irscope.analysis.alias import AliasDb
from irscope.errors import ArgumentError, IrscopeError
from irscope.ir import GROUPS, Graph, Node, TensorType, Type, Value
from irscope.ir.text import print_graph
from irscope.ops.type_rules import static_shape
from irscope.report.box_tree import node_lines, writes_memory
from irscope.report.query_language import Combined, Query, Term, parse_query
from irscope.report.words import kind_of, names_in, records_of, short_type

if TYPE_CHECKING:
    from irscope.transforms.base import History
    from irscope.transforms.dedup import Dedup

Found = frozenset[Node | Value]
_COMPARE: Mapping[str, Callable[[float, float], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge, "=": eq}
_UNITS = {"k": 1e3, "M": 1e6, "G": 1e9}
_FEW = 500
_LONG = 100_000  # The longest program, in nodes, that is also searched as written.
_REMARKS = ("passed", "missed", "analysis")


class Queries:
    """The queries of one graph; `history` and `dedup` answer about remarks and classes."""

    def __init__(
        self, graph: Graph, history: History | None = None, dedup: Callable[[], Dedup] | None = None,
        db: Callable[[], AliasDb] | None = None, buffers: Mapping[str, Node] = EMPTY,
    ) -> None:  # fmt: skip
        self.graph = graph
        self._buffers = buffers
        """Nodes by names that another compiler has for what it keeps of them."""
        self._history = history
        self._dedup = dedup
        self._make_db = db or (lambda: AliasDb(graph))

    def __call__(self, query: str) -> list[Node | Value]:
        """The nodes and values that a query finds, in program order. Raises ArgumentError, or UnknownName for a name."""
        if not isinstance(query, str):
            raise ArgumentError(f"a query is a text, not {type(query).__name__}", hint='g.select("op:relu")')
        if not query.strip():
            return []
        found = self._found(parse_query(query))
        if _has(found, Value):
            return sorted(found, key=self._stands if len(found) < _FEW else self._place.__getitem__)
        if len(found) > len(self.nodes) // 32:  # a scan over all nodes is faster than sorting
            return [node for node in self.nodes if node in found]
        lines = self.line_of
        return sorted(found, key=lambda record: lines[record.id])

    def in_any_state(self, query: str) -> list[Node | Value]:
        """The results of a query; if the program has none, those in the program as written. Raises as a call does."""
        try:
            found, error = self(query), None
        except IrscopeError as raised:
            found, error = [], raised
        if not found and self.as_written is not None:
            with suppress(IrscopeError):
                found = self.as_written(query)
        if error is not None and not found:
            raise error
        return found

    def examples(self, most: int = 6) -> list[tuple[str, str]]:
        """Queries that find something in this program, each with what it finds.

        >>> import irscope as irs
        >>> g = irs.parse("graph(%x : Float(8)):\\n  %a : Float(8) = aten::relu_(%x)\\n  return (%a)")
        >>> [query for query, _ in Queries(g).examples(3)]
        ['op:relu_ & bytes>=32B', 'is:write', 'alias %x']
        """
        nodes = [node for node in self.nodes if node.op != "prim::Constant" and node.op not in GROUPS]
        op = Counter(node.op for node in nodes if node.outputs and isinstance(node.outputs[0].type, TensorType)).most_common(1)
        sizes = [size for node in nodes if op and node.op == op[0][0] and (size := getattr(node.outputs[0].type, "nbytes", None))]
        word, large = op[0][0].partition("::")[2] if op else "", max(sizes, default=0)
        value = f"%{self.graph.names[self.graph.free_inputs[0]]}" if self.graph.free_inputs else ""
        scope = next((node.scope for node in nodes if node.scope), "")
        line = next((f"{node.location.short}:" for node in nodes if node.location is not None), "")
        asked = [
            (f"op:{word}{f' & bytes>={_floor(large)}' if large else ''}", f"the largest results of {word}" if large else f"all {word}"),
            ("is:write", "what writes memory that others may see"),
            (f"alias {value}", f"values that may share memory with {value}"),
            (f"reads {value} | writes {value}", f"users of {value}, and what writes its memory"),
            ("remark:missed", "what was not fused, though it might have been"),
            (f"scope:{scope} & kind:pointwise", f"pointwise ops of the module {scope}"),
            (f"source:{line}", "what one line of the source became"),
            ("class:0", "the groups of the largest equivalence class"),
            ("is:group", "all fusion groups"),
            ("kind:matmul | kind:convolution", "products and convolutions"),
            ("is:unused", "what nobody reads"),
            ("is:parameter", "weights of the model"),
        ]  # fmt: skip
        return list(islice((pair for pair in asked if self._finds(pair[0])), most))

    def _finds(self, query: str) -> bool:
        with suppress(IrscopeError):
            return bool(self(query))
        return False

    @cached_property
    def as_written(self) -> Queries | None:
        """The queries of the program before the first pass; None if no pass changed it, or if it is so long that the first
        query takes over a second."""
        initial = self.graph if self._history is None else self._history.initial
        return None if initial is self.graph or len(self.nodes) > _LONG else Queries(initial)

    @cached_property
    def names(self) -> Mapping[Value, str]:
        """The name of each value of the history, the same in every state."""
        return self.graph.names if self._history is None else names_in(self._history)

    def prepare(self) -> None:
        """Build the indexes that the first query of each kind would wait for."""
        self.small_lines, self.of_op, self.of_types, self.of_place, self.value_of, records_of(self.graph)
        self._db, self.graph.users, self.graph.producer, self.graph.block_of, self.graph.owner  # noqa: B018

    def _stands(self, record: Node | Value) -> tuple[int, int]:
        """The entry of `_place` for one record, without computing the rest."""
        lines = self.line_of
        if isinstance(record, Node):
            return lines[record.id], -1
        maker = self.graph.producer.get(record)
        return self._place[record] if maker is None else (lines[maker.id], maker.outputs.index(record))

    @cached_property
    def _place(self) -> Mapping[Node | Value, tuple[int, int]]:
        """The sort key of each record: its line, nodes before their results."""
        lines = self.line_of
        placed: dict[Node | Value, tuple[int, int]] = {value: (-1, k) for k, value in enumerate(self.graph.values())}
        for node in self.nodes:
            placed[node] = lines[node.id], -1
            placed.update((value, (lines[node.id], k)) for k, value in enumerate(node.outputs))
            placed.update((value, (lines[node.id], len(node.outputs) + k)) for block in node.blocks for k, value in enumerate(block.params))
        return placed

    # The index: nodes by op, type, module and line, so that a term examines each of these once and not each node

    @cached_property
    def nodes(self) -> list[Node]:
        return list(self.graph.nodes())

    @cached_property
    def lines(self) -> list[str]:
        return print_graph(self.graph, locations=False).split("\n")

    @cached_property
    def line_of(self) -> Mapping[int, int]:
        return node_lines(self.graph)

    @cached_property
    def small_lines(self) -> list[str]:
        """The line of each node in lower case, in the order of `nodes`."""
        lines, of = "\n".join(self.lines).lower().split("\n"), self.line_of
        return [lines[of[node.id]] for node in self.nodes]

    @cached_property
    def value_of(self) -> Mapping[str, Value]:
        """Values by their printed names."""
        return {name: value for value, name in self.graph.names.items()}

    @cached_property
    def of_op(self) -> Mapping[str, list[Node]]:
        return grouped((node.op, node) for node in self.nodes)

    @cached_property
    def of_types(self) -> list[tuple[Type, list[Node]]]:
        """Types, each with the nodes that produce it; equal types may appear twice."""
        found: dict[int, tuple[Type, list[Node]]] = {}
        for node in self.nodes:
            for value in node.outputs:
                known = found.get(id(value.type))
                if known is None:
                    known = found[id(value.type)] = value.type, []
                known[1].append(node)
        return [*found.values()]

    @cached_property
    def of_place(self) -> Mapping[str, list[Node]]:
        """Nodes by module and by source location, both in lower case."""
        return grouped((told.lower(), node) for node in self.nodes for told in (node.scope, str(node.location or "")) if told)

    @cached_property
    def _db(self) -> AliasDb:
        return self._make_db()

    def _found(self, query: Query) -> Found:
        match query:
            case Term():
                return frozenset(self._term(query))
            case Combined("!", (part, *_)):
                found = self._found(part)
                if found and not _has(found, Node):
                    return frozenset(self.graph.values()) - found
                return frozenset(self.nodes) - self._as_nodes(found)
            case Combined("|", parts):
                return frozenset().union(*map(self._found, parts))
            case Combined(_, parts):
                sets = [self._found(part) for part in parts]
                if any(_has(found, Node) for found in sets):
                    sets = [self._as_nodes(found) for found in sets]
                return frozenset.intersection(*sets)

    def _as_nodes(self, found: Found) -> Found:
        if not _has(found, Value):
            return found
        producer = self.graph.producer
        return frozenset(
            record if isinstance(record, Node) else producer[record] for record in found if isinstance(record, Node) or record in producer
        )

    def _term(self, term: Term) -> Iterable[Node | Value]:
        if term.relation and term.relation != ":":
            return self._amount(term)
        if term.field in ("op", "name", "scope", "rule"):
            return self._matched(term.field, term.text)
        if term.field in ("line", "class", "group"):
            return self._numbered(term.field, *_range(term.text))
        if not term.field and not term.relation:
            found = list(self._word(term.text))
            if not found and term.meant:  # an operator or a unit
                raise ArgumentError(f"{term.text!r} does not occur in this program, and is not understood as a query", hint=term.meant)
            return found
        graph, nodes = self.graph, self.nodes
        ask: dict[str, Callable[[str], Iterable[Node | Value]]] = {
            "": self._word, "remark": self._remark, "is": self._is,
            "reads": lambda name: (use.user for use in graph.users.get(graph.value(name), ()) if isinstance(use.user, Node)),
            "makes": lambda name: filter(None, [graph.producer.get(graph.value(name))]),
            "source": lambda text: (node for node in nodes if node.location is not None and text.lower() in f"{node.location}:".lower()),
            "type": lambda text: self._of_type(text.lower().replace(" ", "")),
            "kind": lambda text: (node for node in nodes if not node.blocks and kind_of(graph, node) == text),
            "writes": lambda name: self._db.writers(graph.value(name)),
            "alias": lambda name: self._db.alias_set(graph.value(name)),
        }  # fmt: skip
        return ask[term.field](term.text)

    def _word(self, text: str) -> Iterable[Node | Value]:
        """Matches everything printed about a node (names, op, types, constants), its type as boxes show it, its module and its
        source; matches inputs by their declaration."""
        exact = self.value_of.get(text.removeprefix("%"))
        wanted = text.lower()
        for value in self.graph.inputs:
            if wanted in f"%{self.graph.names[value]} : {value.type}".lower():
                yield value
        yield from (node for node, line in zip(self.nodes, self.small_lines, strict=True) if wanted in line)
        for told, nodes in self.of_place.items():
            if wanted in told:
                yield from nodes
        yield from self._of_type(wanted)
        if text in self._buffers:
            yield self._buffers[text]
        if exact is not None and text.startswith("%"):
            yield exact

    def _matched(self, field: str, text: str) -> Iterable[Node | Value]:
        """What has an op, a name, a module or a rule with this text, or that a regular expression finds."""
        has = _matcher(text.removeprefix("%") if field == "name" else text)
        match field:
            case "op":
                return (node for op, nodes in self.of_op.items() if has(op) for node in nodes)
            case "name":
                return (value for name, value in self.value_of.items() if has(name))
            case "scope":
                return (node for node in self.nodes if node.scope and has(node.scope))
        return self._remarked(lambda remark: has(remark.rule))

    def _numbered(self, field: str, first: float, last: float) -> Iterable[Node]:
        """The nodes of some lines or classes, or the groups of these numbers with what is in them."""
        lines, groups = self.line_of, self._groups() if field == "group" else []
        if field == "line":
            return (node for node in self.nodes if first <= lines[node.id] + 1 <= last)
        if field == "group":
            return (node for group in groups[int(first) : int(min(last, len(groups))) + 1] for node in (group, *group.blocks[0].nodes))
        if self._dedup is None:
            raise ArgumentError("this program has no classes to ask for", hint="irs.explore(irs.fuse(g)) has")
        return (member for cls in self._dedup().classes if first <= cls.index <= last for member in cls.members if isinstance(member, Node))

    def _of_type(self, wanted: str) -> Iterator[Node]:
        for type, nodes in self.of_types:
            short = short_type(type).lower()
            if wanted in short or wanted in short.replace(" ", "") or wanted in str(type).lower().replace(" ", ""):
                yield from nodes

    def _groups(self) -> list[Node]:
        if not any(op in GROUPS for op in self.of_op):
            return []
        return [node for node in self.nodes if node.op in GROUPS]

    def _remarked(self, holds: Callable[[Any], bool]) -> Iterable[Node | Value]:
        remarks = self._history.remarks if self._history is not None else ()
        here = records_of(self.graph)
        return (here[remark.subject.id] for remark in remarks if holds(remark) and remark.subject.id in here)

    def _remark(self, text: str) -> Iterable[Node | Value]:
        if text not in _REMARKS:
            raise ArgumentError(f"there is no kind of remarks {text!r}", hint=f"the kinds are {', '.join(_REMARKS)}")
        return self._remarked(lambda remark: bool(remark.kind == text))

    def _is(self, text: str) -> Iterable[Node | Value]:
        graph = self.graph
        kinds: dict[str, Callable[[], Iterable[Node | Value]]] = {
            "group": self._groups,
            "write": lambda: (node for node in self.nodes if writes_memory(graph, node)),
            "input": lambda: graph.free_inputs, "parameter": lambda: graph.bound, "output": lambda: graph.outputs,
            "constant": lambda: (node for node in self.nodes if node.op == "prim::Constant"),
            "block": lambda: (node for node in self.nodes if node.blocks and node.op not in GROUPS),
            "unused": lambda: (node for node in self.nodes if graph.users.keys().isdisjoint(node.outputs)),
        }  # fmt: skip
        kinds["in-place"] = kinds["write"]
        if text not in kinds:
            near = [f"is:{kind}" for kind in get_close_matches(text, kinds, 1)] or [f"there are {', '.join(kinds)}"]
            raise ArgumentError(f"there is no is:{text}", hint=near[0])
        return kinds[text]()

    def _amount(self, term: Term) -> Iterable[Node]:
        compare, wanted = _COMPARE[term.relation], _number(term.text)
        if term.field in ("inputs", "outputs"):
            return (node for node in self.nodes if compare(len(getattr(node, term.field)), wanted))
        measure = _AMOUNTS[term.field]
        amounts = ((measure(type), nodes) for type, nodes in self.of_types if isinstance(type, TensorType))
        return (node for amount, nodes in amounts if amount is not None and compare(amount, wanted) for node in nodes)


def _has(found: Found, kind: type) -> bool:
    return kind in set(map(type, found))


_AMOUNTS: Mapping[str, Callable[[TensorType], float | None]] = {
    "bytes": lambda type: type.nbytes,
    "rank": lambda type: None if type.shape is None else len(type.shape),
    "elements": lambda type: None if (shape := static_shape(type)) is None else prod(shape),
}


def _matcher(text: str) -> Callable[[str], bool]:
    """Matches a plain text like `conv` anywhere; `/^aten::add$/` is a regular expression."""
    if len(text) > 2 and text.startswith("/") and text.endswith("/"):
        try:
            pattern = re.compile(text[1:-1])
        except re.error as error:
            raise ArgumentError(f"{text} is not a regular expression: {error}", hint="op:/^aten::add_?$/") from None
        return lambda told: pattern.search(told) is not None
    wanted = text.lower()
    return lambda told: wanted in told.lower()


def _range(text: str) -> tuple[float, float]:
    first, dash, last = text.partition("-")
    try:
        return int(first), (int(last) if last else float("inf")) if dash else int(first)
    except ValueError:
        raise ArgumentError(f"{text!r} is neither a number nor a range", hint="line:78 or line:78-90") from None


def _floor(count: int) -> str:
    """A number of bytes, rounded down to whole units, as a query takes it.

    >>> _floor(32), _floor(16_777_216)
    ('32B', '16MB')
    """
    unit = next((unit for unit in "GMk" if count >= _UNITS[unit]), "")
    return f"{int(count / _UNITS.get(unit, 1))}{unit}B"


def _number(text: str) -> float:
    found = re.fullmatch(r"([-+\d._eE]+)([kMG]?)B?", text)
    try:
        assert found is not None
        return float(found[1]) * _UNITS.get(found[2], 1.0)
    except (ValueError, AssertionError):
        raise ArgumentError(f"{text!r} is not a number", hint="bytes>1e6, or bytes>1MB") from None
