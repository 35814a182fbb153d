"""Parses a program from TorchScript's text.

    graph  = "graph(" params "):" statements "return (" names ")" { "with" op "=" graph }
    node   = [ results "=" ] op [ "[" attributes "]" ] "(" names ")" { block }
    block  = "block0(" params "):" statements "-> (" names ")"

Almost every line of a large program has one form, `%a : Type = ns::op[value=1](%b, %c) # file.py:1:2`; one regular
expression matches it whole. A line that does not match, or uses an undefined name, is read again by a cursor that reports
the error. Indentation is ignored. Blocks are kept on a list of open frames, so that they nest without a limit.

A name is visible to the end of its block. Torch prints the graph of a fusion group after the graph that uses it
(`prim::FusionGroup_0(%a)` … `with prim::FusionGroup_0 = graph(%b : Tensor)`): here it becomes the block of the node.
"""

import re
from collections.abc import Mapping
from typing import Any

from irscope._base.frozen import EMPTY, FrozenDict
from irscope._base.running import without_collector
from irscope._base.words import plural
from irscope.errors import ArgumentError, ParseError
from irscope.ir.core import Block, Graph, Location, Node, Value, make_block, make_node, make_value, new_id
from irscope.ir.payload import Opaque
from irscope.ir.text.constant_text import read_constant, typed
from irscope.ir.text.lexer import KEY, NAME, Cursor
from irscope.ir.text.type_text import parse_type, read_type
from irscope.ir.types import TENSOR, Type

_LINE = re.compile(
    rf"""[ \t\n]*
    (?:%({NAME})[ ]:[ ]([^%\n#]+?)[ ]=[ ])?                            # one result
    ([A-Za-z_]\w*::\w+)                                                # op
    (?:\[value=(-?\d{{1,18}}(?:\.\d*)?(?:e[+-]?\d+)?|"[^"\\\n]*")\])?  # a plain constant
    \(((?:%{NAME}(?:,[ ]%{NAME})*+)?+)\)                               # operands
    (?:,[ ]scope:[ ]([^\s#]+))?
    (?:[ ]\#[ ]([^\n]*))?[ \t]*(?:\n|\Z)""",
    re.VERBOSE,
)
_OPERANDS = re.compile(rf"[ ]*\(((?:%{NAME}(?:, %{NAME})*+)?+)\)")
_NAME = re.compile(rf"%({NAME})")
_LITERAL = re.compile(r"-?[\d.]+(?:e[-+]?\d+)?|\"[^\"]*\"")
_OP = re.compile(r"\^?[A-Za-z_][\w.]*(?:::[\w.]+)*")
_PYTHON_ARGUMENTS = re.compile(rf"\(([^\n]*)\)(?=\((?:%{NAME}(?:, %{NAME})*+)?+\))")
"""Torch prints the arguments of a Python op without quotes, so that only the operands after them show where they end."""
_BLOCK = re.compile(r"block\d*\(")
_RETURN = re.compile(r"return\b")
_WITH = re.compile(r"with\s+([A-Za-z_][\w.]*(?:::[\w.]+)*)\s*=")
_GRAPH = re.compile(r"graph\b")
_SCOPE = re.compile(r",[ \t]*scope:[ \t]*([^\n#]*)")
_TAIL = re.compile(r"[ \t]*#[ \t]*([^\n]*)")
_LOCATION = re.compile(r"(.*):(\d{1,9}):(\d{1,9})\s*")
_NUMBERED = re.compile(r"(.+)_\d+")
_RENAME = "each value has one definition; rename one of them"


def parse(text: str, *, file: str = "") -> Graph:
    """The graph that a text describes; `str(graph)` is the inverse.

    Raises ParseError with line, column and a caret, whatever the text; `file` is the name shown there.
    """
    if not isinstance(text, str):
        raise ArgumentError(f"parse takes IR text, not {type(text).__name__}", hint="irs.load reads files, models and functions")
    with without_collector():
        return _Reader(text, file).program()


class _Frame:
    """A block whose end has not been read yet."""

    __slots__ = ("blocks", "nodes", "opened_at", "owner", "params")

    def __init__(self, owner: Node | None, params: tuple[Value, ...], opened_at: int) -> None:
        self.owner = owner
        self.params = params
        self.opened_at = opened_at
        self.nodes: list[Node] = []
        self.blocks: list[Block] = []
        """The finished blocks of the last node, to which more may be added."""


class _Reader:
    """Reads one program; `visible` maps names to values at the current place."""

    def __init__(self, text: str, file: str) -> None:
        self.cursor = Cursor(text, file=file)
        self.visible: dict[str, Value] = {}
        self.locations: dict[str, Location | None] = {}
        self.constants: dict[tuple[str, Type], Mapping[str, Any]] = {}
        self.has_groups = _WITH.search(text) is not None
        self.references: dict[str, Node] = {}
        """Nodes of the graph being read, by op, whose op ends in a number: `prim::FusionGroup_0`."""

    def program(self) -> Graph:
        """Read the main graph and the groups that follow it."""
        main, waiting = self.graph(), [self.references]
        while waiting:
            found = self.cursor.match(_WITH)
            if found is None:
                break
            while waiting and found.group(1) not in waiting[-1]:
                waiting.pop()
            if not waiting:
                self.cursor.wrong(f"no node above is {found.group(1)}", found.start(1))
            owner = waiting[-1].pop(found.group(1))
            self.visible, self.references = {}, {}
            body = self.graph()
            _complete(owner, self.fitted(owner, body, found.start(1)))
            object.__setattr__(owner, "op", owner.op.rpartition("_")[0])
            waiting.append(self.references)
        if self.cursor.skip() != len(self.cursor.text):
            self.cursor.fail("the end of the text")
        return Graph(main)

    def fitted(self, owner: Node, body: Block, pos: int) -> Block:
        """The body as a block of its node, without the further results that torch keeps for the backward pass."""
        if len(body.params) != len(owner.inputs):
            have = f"this graph has {plural(len(body.params), 'input')}"
            self.cursor.wrong(f"{have}, and {owner.op} has {plural(len(owner.inputs), 'operand')}", pos)
        if len(body.returns) < len(owner.outputs):
            have = f"this graph has {plural(len(body.returns), 'result')}"
            self.cursor.wrong(f"{have}, and {owner.op} has {len(owner.outputs)}", pos)
        return make_block(body.id, body.params, body.nodes, body.returns[: len(owner.outputs)])

    def graph(self) -> Block:
        cursor = self.cursor
        cursor.demand(_GRAPH, "'graph('")
        cursor.expect("(")
        frames = [_Frame(None, self.params(), cursor.pos)]
        cursor.expect(":")
        while True:
            self.lines(frames[-1].nodes)
            start = cursor.text[cursor.skip() : cursor.pos + 2]
            if start == "->" and len(frames) > 1:
                self.close(frames)
            elif start == "re" and cursor.match(_RETURN):
                if len(frames) > 1:
                    cursor.wrong("the block opened here has no '-> (…)'", frames[-1].opened_at)
                returns = self.operands()
                return make_block(new_id(), frames[0].params, tuple(frames[0].nodes), returns)
            elif start == "bl" and frames[-1].nodes and cursor.match(_BLOCK):
                self.open(frames)
            else:
                self.node(frames)

    def lines(self, nodes: list[Node]) -> None:
        """Read lines of the usual form, and leave the cursor before the first other line."""
        visible, locations, constants = self.visible, self.locations, self.constants
        match, pos, text, has_groups = _LINE.match, self.cursor.pos, self.cursor.text, self.has_groups
        append = nodes.append
        while True:
            found = match(text, pos)
            if found is None:
                break
            name, type_text, op, constant, operands, scope, comment = found.groups()
            if (name is not None and name in visible) or (has_groups and _NUMBERED.fullmatch(op)):
                break
            try:
                inputs = tuple([visible[word] for word in operands[1:].split(", %")]) if operands else ()
                type = parse_type(type_text) if name is not None else TENSOR
            except (KeyError, ParseError):
                break  # the cursor reads the line again and reports the error
            if constant is None:
                attrs: Mapping[str, Any] = EMPTY
            else:
                known = constants.get((constant, type))
                if known is None:
                    payload: Any = constant[1:-1]
                    if constant[0] != '"':
                        payload = typed(int(constant) if constant.lstrip("-").isdigit() else float(constant), type)
                    known = constants[constant, type] = FrozenDict(value=payload)
                attrs = known
            outputs: tuple[Value, ...] = ()
            if name is not None:
                value = visible[name] = make_value(new_id(), type, name)
                outputs = (value,)
            location = None
            if comment is not None:
                location = locations[comment] if comment in locations else self.location(comment)
            append(make_node(new_id(), op, inputs, outputs, attrs, (), location, scope or ""))
            pos = found.end()
        self.cursor.pos = pos

    def open(self, frames: list[_Frame]) -> None:
        """Enter a block of the node read last; the node's results are not visible inside."""
        frame = frames[-1]
        opened_at = self.cursor.pos
        owner = frame.nodes[-1]
        if not frame.blocks:
            for value in owner.outputs:
                del self.visible[value.name]
        params = self.params()
        self.cursor.expect(":")
        frames.append(_Frame(owner, params, opened_at))

    def close(self, frames: list[_Frame]) -> None:
        """End the innermost block; the last block of a node completes the node."""
        cursor = self.cursor
        cursor.expect("->")
        returns = self.operands()
        frame = frames.pop()
        for param in frame.params:
            del self.visible[param.name]
        for node in frame.nodes:
            for value in node.outputs:
                del self.visible[value.name]
        outer = frames[-1]
        outer.blocks.append(make_block(new_id(), frame.params, tuple(frame.nodes), returns))
        if cursor.match(_BLOCK):
            self.open(frames)
            return
        assert frame.owner is not None  # only the outermost frame has none
        _complete(frame.owner, *outer.blocks)
        outer.blocks = []
        for value in frame.owner.outputs:
            self.declare(value, cursor.pos)

    def node(self, frames: list[_Frame]) -> None:
        cursor = self.cursor
        inside = len(frames) > 1
        results = self.results(inside)
        start = cursor.skip()
        op = cursor.demand(_OP, "an op" if results else _expected_statement(inside))
        if "::" not in op and not op.startswith("^"):
            cursor.pos = start
            cursor.fail("an op such as aten::relu" if results else _expected_statement(inside))
        attrs = self.attributes(results)
        if op.startswith("^"):
            arguments = cursor.match(_PYTHON_ARGUMENTS)
            if arguments is None:
                cursor.fail("the arguments of a Python op and its operands, such as (2)(%x)")
            attrs |= {"arguments": Opaque(arguments.group(1))} if arguments.group(1) else {}
        inputs = self.operands()
        for value in results:
            self.declare(value, start)
        scope, location = self.remark()
        outputs = tuple(results)
        node = make_node(new_id(), op, inputs, outputs, FrozenDict(attrs) if attrs else EMPTY, (), location, scope)
        if self.has_groups and _NUMBERED.fullmatch(op):
            self.references[op] = node
        frames[-1].nodes.append(node)

    def results(self, inside: bool) -> list[Value]:
        """Read `%a : Tensor, %b : int =`, or nothing; torch prints ` = ` even before a node with no result."""
        cursor = self.cursor
        results: list[Value] = []
        if cursor.take("="):
            return results
        while cursor.at("%"):
            results.append(self.declaration())
            if not cursor.take(","):
                break
        if results:
            cursor.expect("=", ",")
        return results

    def declaration(self) -> Value:
        """Read `%a : Tensor`; a name without a type is a Tensor."""
        cursor = self.cursor
        start = cursor.skip()
        found = cursor.match(_NAME)
        if found is None:
            cursor.fail("a value such as %x")
        if found.group(1) in self.visible:
            cursor.wrong(f"%{found.group(1)} is defined twice", start, hint=_RENAME)
        type = read_type(cursor) if cursor.take(":") else TENSOR
        return make_value(new_id(), type, found.group(1))

    def declare(self, value: Value, pos: int) -> None:
        if value.name in self.visible:
            self.cursor.wrong(f"%{value.name} is defined twice", pos, hint=_RENAME)
        self.visible[value.name] = value

    def params(self) -> tuple[Value, ...]:
        """Read declarations up to the closing bracket; they are visible from here on."""
        params: list[Value] = []
        for start in self.cursor.row(")"):
            params.append(self.declaration())
            self.declare(params[-1], start)
        return tuple(params)

    def operands(self) -> tuple[Value, ...]:
        """Read `(%a, %b)`."""
        cursor = self.cursor
        plain = _OPERANDS.match(cursor.text, cursor.pos)
        if plain is not None:
            words = plain.group(1)
            operands = [self.visible.get(word) for word in words[1:].split(", %")] if words else []
            if None not in operands:
                cursor.pos = plain.end()
                return tuple(operands)  # type: ignore[arg-type]
        cursor.expect("(")
        read: list[Value] = []
        for start in cursor.row(")"):
            found = cursor.match(_NAME)
            if found is None:
                literal = cursor.match(_LITERAL)
                if literal is not None:
                    hint = f"give it a name in a line above: %c = prim::Constant[value={literal.group()}]()"
                    cursor.wrong(f"expected a value such as %x, found {literal.group()!r}", start, hint=hint)
                cursor.fail("a value such as %x")
            value = self.visible.get(found.group(1))
            if value is None:
                hint = "a value is visible from its definition to the end of the block that defines it"
                cursor.wrong(f"%{found.group(1)} is not defined here", start, hint=hint)
            read.append(value)
        return tuple(read)

    def attributes(self, results: list[Value]) -> dict[str, Any]:
        """Read `[value=1, name="x"]`, or nothing."""
        cursor = self.cursor
        attrs: dict[str, Any] = {}
        if not cursor.take("["):
            return attrs
        type = results[0].type if len(results) == 1 else None
        for start in cursor.row("]"):
            key = cursor.string() if cursor.at('"') else cursor.demand(KEY, "the name of an attribute")
            if key in attrs:
                cursor.wrong(f"the attribute {key!r} is given twice", start)
            cursor.expect("=")
            attrs[key] = read_constant(cursor, type, key=key)
        return attrs

    def remark(self) -> tuple[str, Location | None]:
        """Read the rest of a node's line: `, scope: a.b # file.py:1:2`."""
        cursor = self.cursor
        scope = _SCOPE.match(cursor.text, cursor.pos)
        if scope is not None:
            cursor.pos = scope.end()
        tail = _TAIL.match(cursor.text, cursor.pos)
        if tail is not None:
            cursor.pos = tail.end()
        return scope.group(1).strip() if scope else "", self.location(tail.group(1)) if tail else None

    def location(self, comment: str) -> Location | None:
        """The location that a comment names, the same record each time; None for other comments."""
        if comment not in self.locations:
            found = _LOCATION.fullmatch(comment)
            place = Location(found.group(1), int(found.group(2)), int(found.group(3))) if found else None
            self.locations[comment] = place
        return self.locations[comment]


def _complete(node: Node, *blocks: Block) -> None:
    """Set the blocks of a node. It has not been published yet, so that it may still change."""
    object.__setattr__(node, "blocks", blocks)


def _expected_statement(inside: bool) -> str:
    return "a node, a block or '-> (…)'" if inside else "a node, a block or 'return (…)'"
