"""FX graphs as text: the Python in which torch prints them (`print_readable`), as in its logs. The text is parsed, never run.

Each line is a node: a call of an op by its full name, `torch.ops.aten.add.Tensor(a, b)`, whose result has an annotation such as
`"f32[8, 16][16, 1]cpu"` (element type, sizes, strides, device). Comments above it name the user's line. Ops that have the meaning of an
`aten::` op become that op; others stay under their own names, as ops about which nothing is known.
"""

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from irscope._base.loaded_code import cell_name
from irscope._base.nested import leaves
from irscope.errors import LoadError
from irscope.frontends.emit import CODES, Emitter, Place, Refused
from irscope.frontends.torch.export_importer import LAYOUTS, MEMORY_FORMATS, SYMBOLIC_OPS
from irscope.ir import ANY, BOOL, DEVICE, FLOAT, INT, NONE, TENSOR, Graph, ListType, Location, Node, OptionalType, TensorType, Type, Value
from irscope.ir.types import REQUIRED, OpSchema
from irscope.ops.registry import overloads

_HINT: Final = "the graph's text may be cut off or changed: write the log again"
_MOST_LETTERS: Final = 1 << 27
_FORWARD: Final = "forward"
_UNNAMED: Final = re.compile(r"^ *class <lambda>\(", re.M)
"""How FX prints the class of a graph that has no name."""


class FxText(NamedTuple):
    """A graph that was read from text."""

    graph: Graph
    nodes: Mapping[str, tuple[Node, ...]]
    """The nodes that each FX node became, by its name; none for one that takes a result out of several."""
    unknown: tuple[str, ...]
    """Targets that have no meaning here, as the text writes them, sorted."""


def read_fx_text(text: str, name: str) -> FxText:
    """Returns the graph of the first class in a text. Raises LoadError, with the line, for what FX does not print."""
    lines = text.replace("\r", "\n").split("\n")
    forward = _forward_of(text)
    reader = _Reader(name, lines)
    try:
        return reader.run(forward)
    except (Refused, KeyError, TypeError, AttributeError, IndexError, ValueError, OverflowError, RecursionError) as error:
        raise reader.unread(reader.line, f"{type(error).__name__}: {str(error)[:200]}") from None


def _forward_of(text: str) -> ast.FunctionDef:
    if len(text) > _MOST_LETTERS:
        raise LoadError(f"the graph's text has {len(text):,} letters, more than {_MOST_LETTERS:,}", hint=_HINT)
    try:
        tree = ast.parse(_UNNAMED.sub(lambda found: found[0].replace("<lambda>", "Graph"), text))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        said = error.msg if isinstance(error, SyntaxError) else str(error) or type(error).__name__
        where = (error.text or "").strip()[:200] if isinstance(error, SyntaxError) else ""
        raise LoadError(f"the text of an FX graph is no Python: {said}", where=where, hint=_HINT) from None
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    for node in classes[0].body if classes else tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == _FORWARD:
            return node
    raise LoadError("the text holds no FX graph: it has no class with a function forward", where=text[:200], hint=_HINT)


@dataclass(frozen=True)
class _Named:
    """A constant that FX writes by a name of torch's: `torch.float32`, `device(type='cpu')`."""

    payload: Any
    type: Type


_OPERATORS: Final[Mapping[type, str]] = {
    ast.Add: "aten::add", ast.Sub: "aten::sub", ast.Mult: "aten::mul", ast.Div: "aten::div", ast.FloorDiv: "aten::floordiv",
    ast.Mod: "aten::remainder", ast.Pow: "aten::pow", ast.BitAnd: "aten::__and__", ast.BitOr: "aten::__or__",
    ast.LShift: "aten::__lshift__", ast.RShift: "aten::__rshift__", ast.Eq: "aten::eq", ast.NotEq: "aten::ne", ast.Lt: "aten::lt",
    ast.LtE: "aten::le", ast.Gt: "aten::gt", ast.GtE: "aten::ge", ast.USub: "aten::neg", ast.Not: "aten::__not__",
}  # fmt: skip
_NUMBERS: Final = {"inf": float("inf"), "nan": float("nan")}
_CALLED: Final = {
    **{f"torch.{name}": op for name, op in SYMBOLIC_OPS.items()},
    "math.ceil": "aten::ceil", "math.floor": "aten::floor", "math.trunc": "aten::Int", "math.sqrt": "aten::sqrt",
}  # fmt: skip
_FILE: Final = re.compile(r"^\s*#.*?\bFile: (?P<file>.*):(?P<line>\d+) in (?P<function>.*?)(?:, code: .*)?$")


class _Reader:
    """The reading of one graph: the value of each name so far, and what was not understood."""

    def __init__(self, name: str, lines: Sequence[str]) -> None:
        self.lines = lines
        self.emit = Emitter(name if name.isidentifier() else "graph")
        self.env: dict[str, Any] = dict(_NUMBERS)
        self.made: dict[str, tuple[Node, ...]] = {}
        self.unknown: set[str] = set()
        self.items: dict[str, dict[int, Type]] = {}
        """The types of the results that the graph takes out of each node with several."""
        self.line = 0
        self.places = self.read_places()

    def read_places(self) -> list[Location | None]:
        """Returns the user's line of each line of the text: that of the last comment above it."""
        places: list[Location | None] = []
        place = None
        for line in self.lines:
            if line.lstrip().startswith("#"):
                found = _FILE.match(line)
                place = Location(cell_name(found["file"]), int(found["line"])) if found else None
            places.append(place)
        return places

    def run(self, forward: ast.FunctionDef) -> FxText:
        for default in forward.args.defaults:
            if not isinstance(default, ast.Constant):
                raise self.unread(default.lineno, "an input has a default that is not a constant")
        for arg in forward.args.args[1:]:
            self.line = arg.lineno
            self.env[arg.arg] = self.emit.input(arg.arg, self.annotated(arg.annotation))
        self.find_items(forward.body)
        for statement in forward.body:
            self.line = statement.lineno
            if isinstance(statement, ast.Return):
                given = self.expression(statement.value) if statement.value is not None else ()
                outputs = [self.value(each) for each in (given if isinstance(given, tuple | list) else (given,))]
                return FxText(self.emit.build.finish(outputs), self.made, tuple(sorted(self.unknown)))
            self.statement(statement)
        raise LoadError("the text of an FX graph ends before it returns", where=self.lines[self.line - 1][:200], hint=_HINT)

    def find_items(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            taken = getattr(statement, "value", None)
            if isinstance(statement, ast.AnnAssign | ast.Assign) and isinstance(taken, ast.Subscript) and isinstance(taken.value, ast.Name):
                index = taken.slice.value if isinstance(taken.slice, ast.Constant) else None
                if isinstance(index, int):
                    self.items.setdefault(taken.value.id, {})[index] = self.annotated(getattr(statement, "annotation", None))

    def statement(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.AnnAssign):
            target: ast.expr = statement.target
            annotation: ast.expr | None = statement.annotation
        elif isinstance(statement, ast.Assign):
            target, annotation = statement.targets[0], None
            if isinstance(statement.value, ast.Constant) and statement.value.value is None:
                return  # FX drops what is not read again
        else:
            raise self.unread(statement.lineno, "it is not an assignment")
        if not isinstance(target, ast.Name) or statement.value is None:
            raise self.unread(statement.lineno, "it assigns to something other than a name")
        name = target.id
        mark = self.emit.build.mark()
        self.emit.place = Place(self.places[statement.lineno - 1], name)
        self.env[name] = self.node(name, statement.value, self.annotated(annotation) if annotation is not None else None)
        self.made[name] = tuple(node for node in self.emit.build.since(mark) if node.op not in ("prim::Constant", "prim::ListConstruct"))

    # Nodes

    def node(self, name: str, expression: ast.expr, type: Type | None) -> Any:
        """Returns what one FX node makes: a value, several in a tuple, or a constant."""
        if isinstance(expression, ast.Call):
            target = dotted(expression.func)
            if not target or target.startswith("."):
                raise Refused("it calls something that has no name")
            args = [self.expression(arg) for arg in expression.args]
            kwargs = {str(each.arg): self.expression(each.value) for each in expression.keywords}
            if target in ("device", "torch.device"):
                return self.expression(expression)
            if target in _CALLED:
                return self.emit.op(_CALLED[target], *map(self.value, args), type=type or INT)
            if target.startswith("torch.ops."):
                return self.op(name, target.removeprefix("torch.ops."), args, kwargs, type)
            return self.kept(name, f"python::{target}", target, [*args, *kwargs.values()], type)
        if isinstance(expression, ast.Subscript):
            held, index = self.expression(expression.value), self.expression(expression.slice)
            is_plain = isinstance(held, tuple | list) and isinstance(index, int)
            return held[index] if is_plain else self.emit.op("aten::__getitem__", self.value(held), self.value(index), type=type or TENSOR)
        if isinstance(expression, ast.BinOp):
            return self.arithmetic(expression.op, (expression.left, expression.right), type or INT)
        if isinstance(expression, ast.Compare) and len(expression.ops) == 1:
            compared = type if type is not None and type != INT else BOOL
            return self.arithmetic(expression.ops[0], (expression.left, expression.comparators[0]), compared)
        if isinstance(expression, ast.UnaryOp) and isinstance(expression.operand, ast.Name):
            return self.arithmetic(expression.op, (expression.operand,), type or INT)
        if isinstance(expression, ast.Attribute) and dotted(expression).startswith("self."):
            self.unknown.add(dotted(expression))
            return self.emit.input(name, type or TENSOR)  # a constant of the module, whose elements the text does not have
        return self.expression(expression)

    def arithmetic(self, operator: ast.AST, operands: Sequence[ast.expr], type: Type) -> Value:
        return self.emit.op(_OPERATORS[operator.__class__], *[self.value(self.expression(each)) for each in operands], type=type)

    def op(self, name: str, target: str, args: list[Any], kwargs: dict[str, Any], type: Type | None) -> Any:
        """Returns the results of an op of torch's registry, with every argument of its schema."""
        space, _, rest = target.partition(".")
        op, _, overload = rest.partition(".")
        if rewrite := _REWRITES.get(f"{space}::{op}"):
            made = rewrite(self, name, args, kwargs, type)
            if made is not None:
                return made
        schema = next((each for each in overloads(f"{space}::{op}") if each.overload == overload.replace("default", "")), None)
        if schema is None:
            return self.kept(name, f"{space}::{op}", f"torch.ops.{target}", [*args, *kwargs.values()], type)
        inputs = self.arguments(schema, args, kwargs)
        if len(schema.returns) == 1 and isinstance(schema.returns[0].type, ListType):
            return self.emit.node(schema.name, inputs, (schema.returns[0].type,))[0]
        if len(schema.returns) == 1:
            return self.emit.node(schema.name, inputs, (type if type is not None else schema.returns[0].type,))[0]
        taken = self.items.get(name, {})
        types = [taken.get(at, each.type) for at, each in enumerate(schema.returns)]
        made = self.emit.node(schema.name, inputs, types, names=[f"{name}.{at}" for at in range(len(types))])
        return made or None

    def arguments(self, schema: OpSchema, args: list[Any], kwargs: dict[str, Any]) -> list[Value]:
        if len(args) > len(schema.arguments) or kwargs.keys() - {each.name for each in schema.arguments}:
            raise Refused(f"{schema.full_name} does not take these arguments")
        inputs = []
        for index, argument in enumerate(schema.arguments):
            given = args[index] if index < len(args) else kwargs.get(argument.name, argument.default)
            if given is REQUIRED:
                raise Refused(f"{schema.full_name} lacks its argument {argument.name}")
            inputs.append(self.value(given, argument.type))
        return inputs

    def kept(self, name: str, op: str, target: str, given: list[Any], type: Type | None) -> Any:
        """Returns the results of an op without a meaning here, which takes what the text gives it."""
        self.unknown.add(target)
        inputs = [self.value(each) for each in leaves(given)]
        taken = self.items.get(name)
        if taken is None:
            return self.emit.node(op, inputs, (type if type is not None else TENSOR,))[0]
        count = min(max(taken) + 1, 1 << 12)
        return self.emit.node(op, inputs, [taken.get(at, TENSOR) for at in range(count)], names=[f"{name}.{at}" for at in range(count)])

    # Operands

    def expression(self, expression: ast.expr) -> Any:
        """Returns an argument: a value, a constant, or a list of them."""
        if isinstance(expression, ast.Name):
            if expression.id not in self.env:
                raise self.unread(expression.lineno, f"{expression.id} is not defined")
            return self.env[expression.id]
        if isinstance(expression, ast.Constant):
            return expression.value
        if isinstance(expression, ast.List | ast.Tuple):
            return [self.expression(each) for each in expression.elts]
        if isinstance(expression, ast.UnaryOp) and isinstance(expression.op, ast.USub):
            return -self.expression(expression.operand)
        if isinstance(expression, ast.Attribute):
            return self.named(dotted(expression))
        if isinstance(expression, ast.Call) and dotted(expression.func) in ("device", "torch.device"):
            given = [self.expression(each) for each in (*expression.args, *(each.value for each in expression.keywords))]
            return _Named(":".join(map(str, given)), DEVICE)
        raise self.unread(expression.lineno, f"{ast.unparse(expression)[:80]} is not an argument as FX prints them")

    def named(self, text: str) -> _Named:
        name = text.removeprefix("torch.")
        for names in (MEMORY_FORMATS, LAYOUTS):
            if name in names:
                return _Named(names.index(name), INT)
        if name not in CODES:
            raise Refused(f"{text} is not a constant of torch's")
        return _Named(CODES[name], INT)

    def value(self, given: Any, type: Type = ANY) -> Value:
        """Returns an argument as a value of the graph; `type` is that of the schema."""
        wanted = type.element if isinstance(type, OptionalType) else type
        if isinstance(given, Value):
            return given
        if isinstance(given, _Named):
            return self.emit.constant(given.payload, given.type)
        if isinstance(given, list | tuple):
            element = wanted.element if isinstance(wanted, ListType) else ANY
            if any(isinstance(each, Value | list | tuple | _Named) or each is None for each in given):
                items = [self.value(each, element) for each in given]
                kind = ListType(element if element != ANY else items[0].type)
                return self.emit.node("prim::ListConstruct", items, (kind,), names=[""])[0]
            if element == FLOAT:
                given = [float(each) for each in given]
            return self.emit.list(list(given), element if not given and element != ANY else None)
        if given is None:
            return self.emit.constant(None, NONE)
        if wanted == FLOAT and given.__class__ is int:
            given = float(given)
        return self.emit.constant(given)

    # Types

    def annotated(self, annotation: ast.expr | None) -> Type:
        text = annotation.value if isinstance(annotation, ast.Constant) else ""
        return annotated_type(text) if isinstance(text, str) else TENSOR

    def unread(self, line: int, why: str) -> LoadError:
        where = self.lines[line - 1].strip()[:200] if 0 < line <= len(self.lines) else ""
        return LoadError(f"line {line} of an FX graph's text is none that FX prints: {why}", where=where, hint=_HINT)


def dotted(expression: ast.expr) -> str:
    """Returns a name with its attributes, `torch.ops.aten.add.Tensor`; those of something without a name begin with a dot."""
    parts: list[str] = []
    while isinstance(expression, ast.Attribute):
        parts.append(expression.attr)
        expression = expression.value
    return ".".join([expression.id if isinstance(expression, ast.Name) else "", *reversed(parts)])


_DTYPES: Final = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "c128": "complex128", "c64": "complex64", "c32": "complex32",
    "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
    "b8": "bool",
    "f8e4m3fn": "float8_e4m3fn", "f8e5m2": "float8_e5m2", "f8e4m3fnuz": "float8_e4m3fnuz", "f8e5m2fnuz": "float8_e5m2fnuz",
}  # fmt: skip
_TENSOR: Final = re.compile(r"^(?:\w+\()?(\w+)\[([^\[\]]*)\](?:\[([^\[\]]*)\])?([\w:]*)")


def annotated_type(text: str) -> Type:
    """Returns the type that FX's annotation of a value says: a tensor's, an integer for a size, or any tensor.

    >>> print(annotated_type("f32[s0, 16][16, 1]cuda:0"), annotated_type("Sym(s0)"), annotated_type("bf16[2*s0]"))
    Float(s0, 16, strides=[16, 1], device=cuda:0) int BFloat16(*)
    """
    if text.startswith("Sym("):
        return BOOL if any(sign in text for sign in "<>=") else INT
    found = _TENSOR.match(text)
    dtype = _DTYPES.get(found[1]) if found else None
    if found is None or dtype is None:
        return TENSOR
    shape = tuple(int(each) if each.isdigit() else each if each.isidentifier() else None for each in _parts(found[2]))
    strides = _parts(found[3]) if found[3] is not None else []
    known = found[3] is not None and len(strides) == len(shape) and all(each.isdigit() for each in strides)
    return TensorType(dtype, shape, tuple(map(int, strides)) if known else None, found[4] or None)


def _parts(text: str) -> list[str]:
    return [each.strip() for each in text.split(",")] if text.strip() else []


# Ops that Inductor puts in the place of others


def _convert(reader: _Reader, name: str, args: list[Any], kwargs: dict[str, Any], type: Type | None) -> Any:
    """A conversion makes a new tensor also where the element type stays."""
    value, dtype = args
    stays = isinstance(value.type, TensorType) and dtype.payload == CODES.get(value.type.dtype or "")
    operands = [value, reader.value(dtype), *(reader.emit.constant(each) for each in (False, stays, None))]
    return reader.emit.node("aten::to", operands, (type if type is not None else TENSOR,))[0]


def _count(reader: _Reader, name: str, args: list[Any], kwargs: dict[str, Any], type: Type | None) -> Any:
    """A count of elements becomes a range, if all is known."""
    length, start, step = args[0], kwargs["start"], kwargs["step"]
    if not all(each.__class__ is int for each in (length, start, step)):
        return None
    operands = [start, start + length * step, step, kwargs["dtype"], None, kwargs["device"], False]
    return reader.emit.node("aten::arange", [reader.value(each) for each in operands], (type if type is not None else TENSOR,))[0]


def _pool(reader: _Reader, name: str, args: list[Any], kwargs: dict[str, Any], type: Type | None) -> Any:
    """A maximum over windows with places within them is one with indices, where only the maximum is read."""
    taken = reader.items.get(name, {})
    if taken.keys() - {0} or kwargs or not 5 <= len(args) <= 6:
        return None
    schema = next(each for each in overloads("aten::max_pool2d_with_indices") if not each.overload)
    operands = reader.arguments(schema, [*args[:5], args[5] if len(args) > 5 else False], {})
    return reader.emit.node(schema.name, operands, [taken.get(0, TENSOR), TENSOR], names=[f"{name}.0", f"{name}.1"])


def _number_minus(reader: _Reader, name: str, args: list[Any], kwargs: dict[str, Any], type: Type | None) -> Any:
    """A number minus a tensor, which FX writes as the difference of two tensors."""
    if len(args) != 2 or not isinstance(args[0], int | float):
        return None
    operands = [reader.value(each) for each in (args[1], args[0], kwargs.get("alpha", 1))]
    return reader.emit.node("aten::rsub", operands, (type if type is not None else TENSOR,))[0]


_Rewrite = Callable[[_Reader, str, list[Any], dict[str, Any], Type | None], Any]
_REWRITES: Final[Mapping[str, _Rewrite]] = {
    "aten::sub": _number_minus,
    "prims::convert_element_type": _convert,
    "prims::iota": _count,
    "prims::_low_memory_max_pool_with_offsets": _pool,
}
