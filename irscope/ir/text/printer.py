"""Prints a program as TorchScript's text, which `irscope.ir.text.parser` reads back to the same structure.

It differs from torch in four ways: a node without results has no ` = `, the body of a group is printed under its node,
numbers have all their digits, and lines are indented by at most `MAX_INDENT`, so that a deep program is not mostly spaces.
"""

import keyword
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Final

from irscope._base.frozen import EMPTY
from irscope._base.words import one_line
from irscope.ir.core import Block, Graph, Node, Value, steps
from irscope.ir.payload import Opaque
from irscope.ir.text.constant_text import constant_text
from irscope.ir.text.lexer import KEY, quote
from irscope.ir.types import Type

MAX_INDENT: Final = 128
"""Spaces; deeper blocks are printed at this indentation."""

_NAME = rf"(?:\d+|(?!(?:{'|'.join(keyword.kwlist)})\b)[A-Za-z_][\w.]*+(?<!\.))"
_LEGAL = re.compile(rf"{_NAME}(?:\n{_NAME})*+", re.ASCII)
_ILLEGAL = re.compile(r"[^A-Za-z0-9_.]")
_SUFFIX = re.compile(r"\.\d+$")


def print_graph(graph: Graph, *, locations: bool = True) -> str:
    """The text of a program; with `locations`, source places and module paths follow each node."""
    return "\n".join(_lines(graph, None if graph.keeps_given_names else graph.names, locations, sys.maxsize))


def print_first_lines(graph: Graph, count: int) -> list[str]:
    """The first lines of `print_graph` without locations; later lines are not computed."""
    return "\n".join(_lines(graph, graph.names, False, count)).split("\n")[:count]


def _lines(graph: Graph, names: Mapping[Value, str] | None, locations: bool, most: int) -> list[str]:
    writer = _Writer(names, locations)
    params = _NEXT_INPUT.join(writer.declarations(graph.inputs))
    lines = [f"graph({params}):"]
    writer.nested_lines(graph.body, lines, most)
    if len(lines) < most:
        lines.append(f"  return ({writer.operands(graph.outputs)})")
    return lines


_NEXT_INPUT: Final = ",\n      "
_Place = tuple[Block, Iterator[Node], str, Iterator[tuple[int, Block]]]
"""A block being printed: its remaining nodes, its indentation, and the blocks of the same node that follow it."""


class _Writer:
    """Writes lines of one graph; the texts of types and locations are cached by the identity of their records, which is
    faster than by their hash."""

    def __init__(self, names: Mapping[Value, str] | None, locations: bool) -> None:
        self.names = names
        """Names by value; None if each value has its own name, which is faster than a mapping."""
        self.locations = locations
        self.texts: dict[int, str] = {}
        self.constants: dict[tuple[int, int, str], str] = {}

    def type(self, type: Type) -> str:
        text = self.texts.get(id(type))
        if text is None:
            text = self.texts[id(type)] = str(type)
        return text

    def declarations(self, values: tuple[Value, ...]) -> list[str]:
        names = self.names
        return [f"%{value.name if names is None else names[value]} : {self.type(value.type)}" for value in values]

    def operands(self, values: tuple[Value, ...]) -> str:
        names = self.names
        if not values:
            return ""
        return "%" + ", %".join([value.name if names is None else names[value] for value in values])

    def nested_lines(self, body: Block, lines: list[str], most: int) -> None:
        """Writes the nodes of a block and of the blocks inside it, until there are `most` lines."""
        stack: list[_Place] = []
        place: _Place = (body, iter(body.nodes), "  ", iter(()))
        block, nodes, pad, siblings = place
        while True:
            owner = self.lines(islice(nodes, max(0, most - len(lines))), pad, lines)
            if len(lines) >= most:
                return
            if owner is not None:
                stack.append((block, nodes, pad, siblings))
                siblings, pad = enumerate(owner.blocks), f"{pad}    "[:MAX_INDENT]
            elif stack:
                lines.append(f"{pad}-> ({self.operands(block.returns)})")
            else:
                return
            following = next(siblings, None)
            if following is None:
                block, nodes, pad, siblings = stack.pop()
                continue
            index, block = following
            params = ", ".join(self.declarations(block.params)) if block.params else ""
            lines.append(f"{pad[:-2]}block{index}({params}):")
            nodes = iter(block.nodes)

    def lines(self, nodes: Iterator[Node], pad: str, lines: list[str]) -> Node | None:
        """Writes nodes up to and including the first one that has blocks, and returns that one."""
        names, remarks, texts, append = self.names, self.locations, self.texts, lines.append
        type: Type | None = None
        type_text = ""
        for node in nodes:
            outputs, inputs, op = node.outputs, node.inputs, node.op
            if node.attrs is EMPTY and inputs and len(outputs) == 1 and op > "_":  # not a Python op: ^ comes before _
                (value,) = outputs
                if value.type is not type:
                    type = value.type
                    type_text = self.type(type)
                if names is None:
                    line = f"{pad}%{value.name} : {type_text} = {op}(%{', %'.join([value.name for value in inputs])})"
                else:
                    operands = ", %".join([names[value] for value in inputs])
                    line = f"{pad}%{names[value]} : {type_text} = {op}(%{operands})"
            else:
                line = pad + self.line(node)
            if remarks:
                if node.scope:
                    line += self.remark(node)
                elif (location := node.location) is not None:
                    line += texts.get(id(location)) or self.remark(node)
            append(line)
            if node.blocks:
                return node
        return None

    def line(self, node: Node) -> str:
        outputs = node.outputs
        attrs = "" if node.attrs is EMPTY and node.op[0] != "^" else self.attributes(node)
        operands = self.operands(node.inputs) if node.inputs else ""
        if len(outputs) == 1:
            (value,) = outputs
            name = value.name if self.names is None else self.names[value]
            return f"%{name} : {self.type(value.type)} = {node.op}{attrs}({operands})"
        results = ", ".join(self.declarations(outputs))
        return f"{results}{' = ' if results else ''}{node.op}{attrs}({operands})"

    def attributes(self, node: Node) -> str:
        """`[value=1]`; equal constants that share their record and type are written once."""
        payload = node.attrs.get("value")
        if type(payload) is int and len(node.attrs) == 1:
            return f"[value={payload}]"
        if len(node.outputs) != 1:
            return _attributes(node)
        key = (id(node.attrs), id(node.outputs[0].type), node.op)
        text = self.constants.get(key)
        if text is None:
            text = self.constants[key] = _attributes(node)
        return text

    def remark(self, node: Node) -> str:
        """`, scope: a.b # file.py:1:2`."""
        scope = f", scope: {one_line(node.scope)}" if node.scope else ""
        if node.location is None:
            return scope
        text = self.texts.get(id(node.location))
        if text is None:
            text = self.texts[id(node.location)] = f" # {one_line(str(node.location))}"
        return scope + text


def assign_names(graph: Graph, before: Graph | None = None) -> dict[Value, str]:
    """A name for each value, without `%`: its own if no earlier value has it, `x.1` if one has (`_9` where it is the number 9), the
    smallest free number if it has none; values of the graph `before` keep their names. All are names that TorchScript reads.
    """
    values = list(graph.values())
    printed: Mapping[Value, str] = {} if before is None else before.names
    given = [printed.get(value, value.name) for value in values] if printed else [value.name for value in values]
    different = set(given)
    if _are_legal(different):
        if len(different) == len(given):
            return dict(zip(values, given, strict=True))
    else:
        legal = {name: _legal(name) for name in different}
        given = [legal[name] for name in given]
    return _resolve(values, given, printed, frozenset() if before is None else before.numbers_gone)


def named_as(graph: Graph, before: Graph) -> Graph:
    """A graph that was just made, with the values of the one before named as there, and no number of one that is gone given to
    another, so that what is said of either fits both."""
    if graph is not before:
        names = assign_names(graph, before)
        gone = before.numbers_gone.union(filter(str.isdecimal, before.names.values())).difference(names.values())
        vars(graph).pop("_value_by_name", None)
        vars(graph).update(names=names, numbers_gone=gone, keeps_given_names=False)
    return graph


def number_values(graph: Graph) -> None:
    """Gives the unnamed values of a graph that was just read the numbers that they are printed with, in the order of the program: from
    then on each is called so in what every pass makes of the graph, and where it is shown without one."""
    if all(value.name for value in graph.values()):
        return
    for value, name in graph.names.items():
        if not value.name:
            object.__setattr__(value, "name", name)
    vars(graph).pop("keeps_given_names", None)


def copy_name(name: str) -> str:
    """The name of a copy of a value: a number belongs to one value alone.

    >>> copy_name("x"), copy_name("9")
    ('x', '_9')
    """
    return f"_{name}" if name.isdecimal() else name


def keeps_given_names(graph: Graph) -> bool:
    """Whether all names can be printed as given: legal and distinct."""
    given = [value.name for value in graph.values()]
    return len(set(given)) == len(given) and _are_legal(given)


def _are_legal(names: Collection[str]) -> bool:
    """Whether TorchScript reads all of these names, checked at once, which is faster than one by one."""
    lines = "\n".join(names)
    return len(names) == lines.count("\n") + 1 and _LEGAL.fullmatch(lines) is not None


def _legal(name: str) -> str:
    """The name with everything replaced that TorchScript would not read."""
    if name.isdecimal() and name.isascii():
        return name
    name = _ILLEGAL.sub("_", name).rstrip(".")
    if not name:
        return ""
    if not (name[0].isalpha() or name[0] == "_"):
        name = f"_{name.lstrip('.')}"
    first, dot, rest = name.partition(".")
    return f"{first}_{dot}{rest}" if keyword.iskeyword(first) else name


def _resolve(values: list[Value], wanted: list[str], printed: Mapping[Value, str], gone: frozenset[str]) -> dict[Value, str]:
    """Unique names for values, some of which have the same wanted name or none; a name wanted once is kept."""
    names = dict(zip(values, wanted, strict=True))
    taken = {*wanted, *printed.values(), *gone}
    owners = {"", *(printed[value] for value in values if value in printed)}
    suffixes: dict[str, int] = {}
    number = 0
    several = {name for name, count in Counter(wanted).items() if count > 1 or not name}
    for value in [value for value, name in names.items() if name in several and value not in printed]:
        name = names[value]
        if name not in owners:
            owners.add(name)
            continue
        if name:
            name = copy_name(name)
            base = _SUFFIX.sub("", name) if "." in name else name
            suffix = suffixes.get(base, 0)
            while name in taken:
                suffix += 1
                name = f"{base}.{suffix}"
            suffixes[base] = suffix
        else:
            while str(number) in taken:
                number += 1
            name = str(number)
        taken.add(name)
        names[value] = name
    return names


def print_node(node: Node, names: Mapping[Value, str]) -> str:
    """The line of one node, without its blocks, its location and indentation."""
    return _Writer(names, False).line(node)


def _attributes(node: Node) -> str:
    """`[value=1]`; the arguments of a Python op follow in brackets of their own."""
    type = node.outputs[0].type if len(node.outputs) == 1 else None
    is_python = node.op[0] == "^"
    inside = ", ".join(
        [
            f"{key if KEY.fullmatch(key) else quote(key)}={constant_text(value, type if key == 'value' else None)}"
            for key, value in node.attrs.items()
            if not (is_python and key == "arguments")
        ]
    )
    text = f"[{inside}]" if inside else ""
    if not is_python:
        return text
    arguments = node.attrs.get("arguments")
    return f"{text}({' '.join(arguments.text.splitlines()) if isinstance(arguments, Opaque) else ''})"


# Prints a few lines of a program around marked places: the *where* of every error about a graph.

_CONTEXT = 2


class _Names(dict[Value, str]):
    """Names with a default for values that the graph does not define: a broken graph must print, too."""

    def __missing__(self, value: Value) -> str:
        return value.name or f"#{value.id}"


def excerpt(graph: Graph, marks: Mapping[Node | Block, str], *, context: int = _CONTEXT) -> str:
    """The lines of marked nodes and of the ends of marked blocks, each with `>` and its note, and the lines around them.

    >>> from irscope.ir.text.parser import parse
    >>> g = parse("graph(%x : Tensor):\\n  %y : Tensor = aten::relu(%x)\\n  return (%y)")
    >>> print(excerpt(g, {g.node("y"): "this one"}))
        graph(%x : Tensor):
    >     %y : Tensor = aten::relu(%x)    this one
          return (%y)
    """
    notes: dict[int, str] = {}
    for row, step in enumerate(step for step in steps(graph) if step.kind != "done"):  # one for each line
        subject: Node | Block | None = {"node": step.node, "leave": step.block}.get(step.kind)
        if subject is not None and subject in marks:
            notes[row] = marks[subject]
    near = {row + shift for row in notes for shift in range(-context, context + 1)}
    lines = _lines(graph, _Names(graph.names), False, max(near, default=-1) + 1)
    lines[0] = lines[0].replace(_NEXT_INPUT, ", ")
    shown = sorted(near & set(range(len(lines))))
    found: list[str] = []
    for index, row in enumerate(shown):
        if index and row > shown[index - 1] + 1:
            found.append("    …")
        line = f"{'>' if row in notes else ' '}   {lines[row]}"
        found.append(f"{line}    {notes[row]}" if notes.get(row) else line)
    return "\n".join(found)
