"""Damaged IR texts, and programs of one op with any arguments that its schema names."""

import random
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from irscope.ir import OpSchema
from irscope.ops.registry import known_names, overloads
from tests.conftest import read_sections
from tests.random_programs.graphs import FEATURES, MORE_FEATURES, random_program

_WORD: Final = re.compile(r'%[\w.]+|"(?:\\.|[^"\\\n])*"|[A-Za-z_][\w.]*(?:::\w+)+|-?\d+(?:\.\d*)?(?:e[+-]?\d+)?|\w+|\s+|.')
_NUMBERS: Final = (
    "0", "-1", "1", "2", "3", "-7", "0.5", "-0.0", "1e300", "nan", "inf", "-inf", "9223372036854775807", "9223372036854775808",
    "-9223372036854775808", "4294967296", "100000000000", "1" + "0" * 200, "255", "11",
)  # fmt: skip
_PAYLOADS: Final = (
    '"aa"', '""', '"cpu"', "[1, 2]", "[]", "[0.5]", '["a"]', "None", "annotate(List[int], [])", "<Tensor>", "{}", "True", "[[1], [2]]",
)  # fmt: skip
_TYPES: Final = (
    "Tensor", "int", "float", "bool", "str", "NoneType", "Device", "Scalar", "complex", "Any", "int[]", "Tensor[]", "float[]", "str[]",
    "Tensor?", "int?", "int[]?", "(Tensor, Tensor)", "(int, Tensor[])", "Dict(str, Tensor)", "Float(3, 4)", "Float(4)", "Float(0)",
    "Float(*, 4)", "Float(-1)", "Long(3)", "Bool(3, 4)", "ComplexFloat(3)", "Half(3, 4)", "Float(3, 4, strides=[1, 3])",
    "Float(2, strides=[-2])", "Float()", "Double(9223372036854775807, 9223372036854775807)", "Tenso", "__torch__.M", "Future[Tensor]",
    "Tensor[][]", "Int(3, strides=[0])", "Generator",
)  # fmt: skip
_OPS: Final = (
    "prim::ListConstruct prim::TupleConstruct prim::TupleUnpack prim::ListUnpack prim::TupleIndex prim::GetAttr prim::SetAttr "
    "prim::CallMethod prim::CallFunction prim::If prim::Loop prim::FusionGroup prim::DifferentiableGraph prim::fork prim::Constant "
    "prim::unchecked_cast prim::DictConstruct prim::Print prim::RaiseException prim::NumToTensor prim::device prim::dtype prim::shape "
    "aten::Int aten::Float aten::Bool aten::len aten::size aten::append aten::__getitem__ aten::_set_item aten::mul aten::add aten::add_ "
    "aten::mul_ aten::copy_ aten::relu_ aten::relu aten::sum aten::mean aten::softmax aten::matmul aten::linear aten::conv2d aten::cat "
    "aten::stack aten::slice aten::select aten::view aten::reshape aten::permute aten::transpose aten::expand aten::as_strided "
    "aten::index_put_ aten::index aten::chunk aten::split aten::unbind aten::to aten::zeros aten::ones aten::full aten::rand_like "
    "aten::dropout aten::layer_norm aten::group_norm aten::batch_norm aten::where aten::masked_fill aten::clone aten::contiguous "
    "aten::slice_scatter aten::select_scatter aten::item aten::pow aten::div aten::sub aten::rsub aten::clamp aten::arange aten::range "
    "aten::__range_length aten::__derive_index aten::floordiv aten::ne aten::eq aten::lt aten::__not__ aten::__is__ aten::format "
    "aten::detach aten::squeeze aten::unsqueeze aten::flatten aten::max_pool2d aten::embedding aten::gather aten::lstm aten::topk "
    "aten::_scaled_dot_product_attention foreign::region my::op ^Mine prim::min prim::max aten::keys aten::pop aten::insert aten::sort"
).split()  # fmt: skip

Mutation = Callable[[list[str], random.Random], None]


@cache
def seeds() -> tuple[str, ...]:
    """Programs to damage: the inputs of the case files, and random programs with every feature."""
    folder = Path(__file__).parents[1] / "cases"
    paths = [path for path in sorted(folder.rglob("*.ir")) if path.parent.name not in ("refused", "damaged")]
    texts = [read_sections(path.read_text(encoding="utf-8")).get("input", "") for path in paths]
    texts += [random_program(seed, features=FEATURES | MORE_FEATURES).with_types().text for seed in range(40)]
    return tuple(text for text in texts if text.startswith("graph(") and "LINE" not in text and len(text) < 6000)


def mutated(seed: int) -> str:
    """The damaged program of this number."""
    rng = random.Random(seed)
    lines = rng.choice(seeds()).splitlines()
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5))):
        rng.choice(_MUTATIONS)(lines, rng)
    return "\n".join(lines)


def _line(lines: Sequence[str], rng: random.Random) -> int:
    return rng.randrange(len(lines))


def _replaced(lines: list[str], rng: random.Random, kind: str, words: Sequence[str]) -> None:
    """One word of a kind becomes one of these."""
    index = _line(lines, rng)
    found = [match for match in _WORD.finditer(lines[index]) if re.fullmatch(kind, match[0])]
    if found:
        match = rng.choice(found)
        lines[index] = lines[index][: match.start()] + rng.choice(words) + lines[index][match.end() :]


def _another_number(lines: list[str], rng: random.Random) -> None:
    _replaced(lines, rng, r"-?\d[\d.e+-]*", (*_NUMBERS, *_PAYLOADS))


def _another_op(lines: list[str], rng: random.Random) -> None:
    _replaced(lines, rng, r"[a-z_]+(::\w+)+", _OPS)


def _another_type(lines: list[str], rng: random.Random) -> None:
    index = _line(lines, rng)
    found = list(re.finditer(r" : ((?:[\w.]+(?:\((?:[^()]|\([^()]*\))*\))?|\([^()]*\))[?\[\]]*)", lines[index]))
    if found:
        start, end = rng.choice(found).span(1)
        lines[index] = lines[index][:start] + rng.choice(_TYPES) + lines[index][end:]


def _another_value(lines: list[str], rng: random.Random) -> None:
    _replaced(lines, rng, r"%[\w.]+", _names(lines) or ["%x"])


def _names(lines: Sequence[str]) -> list[str]:
    return sorted(set(re.findall(r"%[\w.]+", "\n".join(lines))))


def _operand_more(lines: list[str], rng: random.Random) -> None:
    index = _line(lines, rng)
    before, bracket, rest = lines[index].rpartition(")")
    comma = "" if before.endswith("(") else ", "
    lines[index] = f"{before}{comma}{rng.choice(_names(lines) or ['%x'])}{bracket}{rest}"


def _operand_less(lines: list[str], rng: random.Random) -> None:
    index = _line(lines, rng)
    found = list(re.finditer(r"%[\w.]+(, )?(?=[%)])", lines[index]))
    if found:
        match = rng.choice(found)
        lines[index] = (lines[index][: match.start()] + lines[index][match.end() :]).replace(", )", ")")


def _results_more(lines: list[str], rng: random.Random) -> None:
    index = _line(lines, rng)
    head, equals, rest = lines[index].partition(" = ")
    if equals:
        lines[index] = f"{head}, %extra{rng.randrange(99)} : {rng.choice(_TYPES)} = {rest}"


def _results_less(lines: list[str], rng: random.Random) -> None:
    index = _line(lines, rng)
    lines[index] = re.sub(r"%[^=]*= ", "", lines[index], count=1)


def _line_less(lines: list[str], rng: random.Random) -> None:
    if len(lines) > 1:
        del lines[_line(lines, rng)]


def _line_twice(lines: list[str], rng: random.Random) -> None:
    text = lines[_line(lines, rng)]
    if rng.random() < 0.8:
        text = re.sub(r"(%[\w.]+)( :[^=]* =)", rf"%new{rng.randrange(999)}\2", text, count=1)
    lines.insert(_line(lines, rng), text)


def _lines_exchanged(lines: list[str], rng: random.Random) -> None:
    a, b = _line(lines, rng), _line(lines, rng)
    lines[a], lines[b] = lines[b], lines[a]


def _foreign_line(lines: list[str], rng: random.Random) -> None:
    """A line of another program, its operands renamed to values of this one, whatever their types."""
    text = rng.choice(rng.choice(seeds()).splitlines())
    head, equals, rest = text.partition(" = ")
    names = _names(lines) or ["%x"]
    rest = re.sub(r"%[\w.]+", lambda _: rng.choice(names), rest)
    head = re.sub(r"%[\w.]+", lambda _: f"%new{rng.randrange(999)}", head)
    lines.insert(rng.randrange(1, len(lines)) if len(lines) > 1 else 0, head + equals + rest)


def _called(lines: list[str], rng: random.Random) -> None:
    """A new node: an op, some operands, some results, and a user that takes what it made."""
    names = _names(lines) or ["%x"]
    count = rng.randrange(4)
    head = ", ".join(f"%new{rng.randrange(9999)} : {rng.choice(_TYPES)}" for _ in range(count))
    attribute = rng.choice(("", "", "", f"[value={rng.choice(_NUMBERS + _PAYLOADS)}]", '[name="a"]'))
    operands = ", ".join(rng.choice(names) for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 4, 6))))
    blocks = ["    block0():", f"      -> ({', '.join(names[: rng.randrange(2)])})"] * rng.choice((0, 0, 0, 1, 2))
    place = rng.randrange(1, len(lines)) if len(lines) > 1 else 0
    lines[place:place] = [f"  {head}{' = ' if head else ''}{rng.choice(_OPS)}{attribute}({operands})", *blocks]


def _noise(lines: list[str], rng: random.Random) -> None:
    index = _line(lines, rng)
    text = lines[index]
    place = rng.randrange(len(text) + 1)
    end = min(len(text), place + rng.randrange(3))
    lines[index] = text[:place] + rng.choice(("", *'()%[], 0-\\"\0é:=*')) + text[end:]


_MUTATIONS: Final[tuple[Mutation, ...]] = (
    _another_number, _another_number, _another_op, _another_op, _another_type, _another_type, _another_value, _another_value,
    _operand_more, _operand_less, _operand_less, _results_more, _results_less, _line_less, _line_twice, _lines_exchanged,
    _foreign_line, _foreign_line, _called, _called, _noise,
)  # fmt: skip


_DTYPES: Final = "Float Float Float Double Half Long Int Bool Byte ComplexFloat BFloat16".split()
_SHAPES: Final = "|1|0|3|2, 3|3, 3|0, 3|3, 0|2, 3, 4|1, 3, 4|2, 0, 4|2, 4, 3, 3|0, 4, 3, 3|5, 1".split("|")
_INTS: Final = (0, 0, 1, 1, 1, 2, 3, -1, -1, -2, 4, 5, 7, 100, -100, 2**31, 2**63 - 1, -(2**63), 10**9, 10**12)
_FLOATS: Final = "0.0 0.5 1.0 -1.0 -0.0 1e-05 1e300 -1e300 inf nan 3.0".split()
_TEXTS: Final = "none|mean|constant|reflect|circular|floor||tanh|{}|{0.__class__}|%d|a->a".split("|")
_READERS: Final = ("neg", "abs", "relu", "sigmoid", "isnan", "square", "t")


class _NoValue(Exception):
    """An argument is of a type that no text has a value of."""


class _Program:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.inputs: list[str] = []
        self.lines: list[str] = []
        self.shape = rng.choice(_SHAPES)

    def named(self) -> str:
        return f"%v{len(self.lines) + len(self.inputs)}"

    def constant(self, type: str, value: str) -> str:
        name = self.named()
        self.lines.append(f"  {name} : {type} = prim::Constant{f'[value={value}]' if value else ''}()")
        return name

    def number(self, type: str) -> str:
        if type == "bool":
            return self.rng.choice("01")
        return str(self.rng.choice(_INTS)) if type == "int" else self.rng.choice(_FLOATS)

    def operand(self, type: str) -> str:
        rng = self.rng
        if type.endswith("?"):
            return self.constant("NoneType", "") if rng.random() < 0.5 else self.operand(type[:-1])
        if type == "Tensor":
            shape = self.shape if rng.random() < 0.6 else rng.choice(_SHAPES)
            self.inputs.append(f"%x{len(self.inputs)} : {rng.choice(_DTYPES)}({shape})")
            return self.inputs[-1].partition(" ")[0]
        if type.endswith("[]"):
            return self.several(type[:-2], rng.randrange(5))
        if type in ("Scalar", "number"):
            type = rng.choice(("int", "float"))
        if type in ("int", "float", "bool"):
            return self.constant(type, self.number(type))
        if type in ("str", "Device"):
            return self.constant(type, '"cpu"' if type == "Device" else f'"{rng.choice(_TEXTS)}"')
        raise _NoValue(type)

    def several(self, element: str, count: int) -> str:
        if element in ("int", "float", "bool"):
            return self.constant(f"{element}[]", f"[{', '.join(self.number(element) for _ in range(count))}]")
        operands = [self.operand(element) for _ in range(count)]
        name = self.named()
        self.lines.append(f"  {name} : {element}[] = prim::ListConstruct({', '.join(operands)})")
        return name

    def text(self, schema: OpSchema) -> str:
        operands = [self.operand(str(argument.type)) for argument in schema.arguments]
        results = [(f"%r{index}", str(result.type)) for index, result in enumerate(schema.returns)]
        told = ", ".join(f"{name} : {type}" for name, type in results)
        self.lines.append(f"  {told}{' = ' * bool(told)}{schema.name}({', '.join(operands)})")
        for name, type in results:
            if type == "Tensor":
                self.lines.append(f"  {name}n : Tensor = aten::{self.rng.choice(_READERS)}({name})")
        given = _returned(results)
        return f"graph({', '.join(self.inputs)}):\n" + "\n".join(self.lines) + f"\n  return ({given})\n"


def _returned(results: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{name}n" if type == "Tensor" else name for name, type in results)


def schema_program(seed: int) -> str:
    """The program of this number."""
    rng = random.Random(seed)
    names = [name for name in known_names() if name.startswith("aten::")]
    while True:
        schemas = overloads(rng.choice(names))
        try:
            return _Program(rng).text(rng.choice(schemas))
        except (_NoValue, IndexError):
            continue
