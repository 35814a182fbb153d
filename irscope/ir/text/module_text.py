"""Prints and parses the text of a module: its symbols and constants are written like nodes, its graphs like graphs.

    module "jit_f" = module::attributes[x=1]():
    symbol "F" = flow::executable.export[visibility="public", function_ref="@F"]()
    constant "c" : Float(2) = prim::Constant[value= 1  2 [ CPUFloatType{2} ]]()
    graph "main" StableHLO:
    graph(%x : Tensor):
      return (%x)
    module "ex_0" = module::attributes():
    end
    end

A symbol with a graph of its own ends in a colon, followed by that graph. Lines that begin a part start at the left
margin, and no line of a graph begins like one.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NoReturn

from irscope._base.frozen import EMPTY, FrozenDict
from irscope.errors import ArgumentError, ParseError
from irscope.ir.builder import ModuleBuilder
from irscope.ir.core import Graph, Module, Node, Symbol, Value
from irscope.ir.payload import TensorData
from irscope.ir.text.lexer import quote, unquote
from irscope.ir.text.parser import parse
from irscope.ir.text.printer import print_graph, print_node
from irscope.ir.types import TENSOR, TensorType

_PART: Final = re.compile(r'(module|symbol|constant|graph) ("(?:[^"\\]|\\.)*")(?: |:)(.*)|end\s*')
_MAX_DEPTH: Final = 256


def is_module_text(text: str) -> bool:
    """Whether a text is a module rather than a graph.

    >>> is_module_text('module "m" = module::attributes():\\nend'), is_module_text("graph():\\n  return ()")
    (True, False)
    """
    return text.lstrip().startswith('module "')


def print_module(module: Module) -> str:
    """The text of a module, which `parse_module` reads back to the same structure."""
    return "\n".join(_lines(module))


def _lines(module: Module) -> Iterator[str]:
    stack: list[Iterator[Module]] = [iter((module,))]
    while stack:
        here = next(stack[-1], None)
        if here is None:
            stack.pop()
            if stack:
                yield "end"
            continue
        yield f"module {quote(here.name)} = {_node_text('module::attributes', here.attrs)}:"
        for symbol in here.symbols:
            attrs = {"visibility": symbol.visibility, **symbol.attrs}
            yield f"symbol {quote(symbol.name)} = {_node_text(symbol.kind, attrs)}{':' if symbol.body is not None else ''}"
            if symbol.body is not None:
                yield print_graph(symbol.body)
        for name, payload in here.constants.items():
            yield f"constant {quote(name)} {_constant_line(payload)}"
        for name, graph in here.graphs.items():
            words = [graph.functional, "distinct" if graph.distinct_inputs else ""]
            yield f"graph {quote(name)}{''.join(f' {word}' for word in words if word)}:"
            yield print_graph(graph)
        stack.append(iter(here.modules.values()))


def _node_text(op: str, attrs: Mapping[str, Any]) -> str:
    return print_node(Node(0, op, attrs=FrozenDict(attrs) if attrs else EMPTY), {})


def _constant_line(payload: Any) -> str:
    """`: Float(2) = prim::Constant[…]()`."""
    type = TensorType(payload.dtype, payload.shape, None if payload.shape else ()) if isinstance(payload, TensorData) else TENSOR
    value = Value(0, type, "v")
    return print_node(Node(0, "prim::Constant", (), (value,), FrozenDict(value=payload)), {value: "v"}).removeprefix("%v ")


def parse_module(text: str, *, file: str = "") -> Module:
    """The module that a text describes. Raises ParseError with the line."""
    if not isinstance(text, str):
        raise ArgumentError(f"parse_module takes text, not {type(text).__name__}", hint="print_module writes it")
    return _Reader(text, file).read()


class _Reader:
    """Parses the text, which it splits at the lines that begin a part."""

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self.lines = text.splitlines()
        self.at = 0

    def read(self) -> Module:
        stack: list[ModuleBuilder] = []
        while True:
            while self.at < len(self.lines) and not self.lines[self.at].strip():
                self.at += 1
            if self.at == len(self.lines):
                self.wrong("the text ends before the module does", len(self.lines) - 1)
            line, start = self.lines[self.at], self.at
            found = _PART.fullmatch(line)
            if found is None or (not stack and found.group(1) != "module"):
                self.wrong(f"expected module, symbol, constant, graph or end, found {line[:40]!r}", start)
            self.at += 1
            if found.group(1) is None:
                module = stack.pop().finish()
                if not stack:
                    if any(line.strip() for line in self.lines[self.at :]):
                        self.wrong("expected the end of the text", self.at)
                    return module
                self.put(stack[-1].modules, module.name, module, start)
                continue
            kind, name, rest = found.group(1), unquote(found.group(2)), found.group(3)
            if kind == "module":
                if len(stack) == _MAX_DEPTH:
                    self.wrong(f"modules nest at most {_MAX_DEPTH} deep", start)
                stack.append(ModuleBuilder(name, self.node(rest.removesuffix(":"), start).attrs))
            else:
                self.part(stack[-1], kind, name, rest, start)

    def part(self, here: ModuleBuilder, kind: str, name: str, rest: str, start: int) -> None:
        if kind == "constant":
            self.put(here.constants, name, self.node(f"%v {rest}", start).attrs.get("value"), start)
        elif kind == "symbol":
            node = self.node(rest.removesuffix(":"), start)
            attrs = {key: value for key, value in node.attrs.items() if key != "visibility"}
            body = self.graph(name) if rest.endswith(":") else None
            visibility = str(node.attrs.get("visibility", "public"))
            here.symbols.append(Symbol(name, node.op, visibility, FrozenDict(attrs) if attrs else EMPTY, body))
        else:
            words = rest.removesuffix(":").split()
            graph = self.graph(name)
            functional = next((word for word in words if word != "distinct"), "")
            made = Graph(graph.body, name, {}, "distinct" in words, functional)
            self.put(here.graphs, name, made, start)

    def graph(self, name: str) -> Graph:
        """The graph that begins here, up to the next line that begins a part."""
        start = self.at
        while self.at < len(self.lines) and not _PART.fullmatch(self.lines[self.at]):
            self.at += 1
        try:
            graph = parse("\n".join(self.lines[start : self.at]))
        except ParseError as error:
            what = error.what.partition(": ")[2]
            raise ParseError(
                what, line=start + error.line, column=error.column, source_line=error.where.partition("\n")[0],
                hint=error.hint, file=self.file,
            ) from None  # fmt: skip
        return Graph(graph.body, name)

    def node(self, text: str, line: int) -> Node:
        """A node without operands, written as in a graph."""
        try:
            return next(parse(f"graph():\n  {text.removeprefix('= ')}\n  return ()").nodes())
        except (ParseError, StopIteration) as error:
            self.wrong(getattr(error, "what", "expected a node").rpartition(": ")[2], line)

    def put(self, table: dict[str, Any], name: str, made: Any, line: int) -> None:
        if name in table:
            self.wrong(f"there are two parts with the name {name!r}", line)
        table[name] = made

    def wrong(self, what: str, line: int) -> NoReturn:
        source = self.lines[line][:160] if 0 <= line < len(self.lines) else ""
        raise ParseError(what, line=max(line, 0) + 1, column=1, source_line=source, file=self.file)
