"""Damaged IR texts: a program of the tests, changed a little, as a hand or a broken exporter would change it.

A text is taken apart into words (values, types, ops, numbers, strings, punctuation) and lines; a mutation replaces, drops,
doubles or exchanges some of them, or takes a line of another program over with its operands renamed to what is there. Most
results still read as programs: names stay defined more often than chance would have it, and what breaks is what an op is given.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from tests.conftest import read_sections
from tests.random_programs.graphs import FEATURES, MORE_FEATURES, random_program

__all__ = ["mutated", "seeds"]

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
    texts = [read_sections(path.read_text(encoding="utf-8")).get("input", "") for path in sorted(folder.rglob("*.ir"))]
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
