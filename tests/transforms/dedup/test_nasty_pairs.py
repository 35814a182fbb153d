"""Pairs of small programs that a careless key would merge or keep apart; torch in float64 is the judge.

A pair is two programs in shorthand, `x=mul a b; y=add_ x 2 1 | y`: a line for each node, numbers and lists in their places, and the
results behind the bar. The first step of the ladder at which the two meet must be the one that the pair names, or none. Whatever is
merged is run: results, strides, types, which are one memory, and what is left in the arguments must be the same, with the
numbers of one put into the holes of the other.
"""

import re
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import irscope as irs
from irscope.ir import GraphBuilder, TensorData, TensorType
from irscope.ir.text import parse_module
from irscope.transforms.dedup import RELATIONS, Match, Relation, dedup, match
from irscope.transforms.dedup.rewrite import normal_form
from tests.transforms.dedup.test_mutations import with_holes_filled
from tests.transforms.same_meaning import observed

torch = pytest.importorskip("torch")

SQUARE: Final = "Double(4, 4, strides=[4, 1])"
_TYPES: Final = {
    bool: "bool", int: "int", float: "float", str: "str", type(None): "NoneType",
}  # fmt: skip
_NUMBER: Final = re.compile(r"True|False|None|-?(\d[\d.e+-]*|inf|nan)$|\[.*\]$|'.*'$")


def text_of(shorthand: str, heads: dict[str, str]) -> str:
    """The program in IR text; arguments are the names that are read and not made, in the order a, b, c."""
    body, _, results = shorthand.partition("|")
    names = [name.strip() for name in results.split()]
    lines, made, read = list[str](), set[str](), dict[str, None]()
    constants = 0
    for statement in filter(None, (each.strip() for each in body.split(";"))):
        outs, _, call = statement.rpartition("=") if re.match(r"\w[\w ]*=", statement) else ("", "", statement)
        op, *given = re.findall(r"\[[^\]]*\]|'[^']*'|\S+", call)
        operands = []
        for one in given:
            if _NUMBER.match(one):
                value = eval(one, {"inf": float("inf"), "nan": float("nan"), "__builtins__": {}})
                kind = _TYPES.get(type(value)) or ("float[]" if any(isinstance(v, float) for v in value) else "int[]")
                written = "" if value is None else f"[value={int(value) if kind == 'bool' else one.replace(chr(39), chr(34))}]"
                lines.append(f"  %k{constants} : {kind} = prim::Constant{written}()")
                operands.append(f"%k{constants}")
                constants += 1
            else:
                operands.append(f"%{one}")
                if one not in made:
                    read[one] = None
        made |= set(outs.split())
        default = "Tensor[]" if op == "ListConstruct" else "Tensor"
        kinds = ", ".join(f"%{name} : {heads.get(name, default)}" for name in outs.split())
        space = "" if "::" in op else "prim::" if op[0].isupper() else "aten::"
        lines.append(f"  {kinds}{' = ' if kinds else ''}{space}{op}({', '.join(operands)})")
    read.update((name, None) for name in names if name not in made)
    params = ", ".join(f"%{name} : {heads.get(name, SQUARE)}" for name in sorted({*read, *heads.get("args", "").split()}))
    return f"graph({params}):\n" + "\n".join(lines) + f"\n  return ({', '.join(f'%{name}' for name in names)})"


def arguments(graph: irs.Graph) -> list[Any]:
    """Numbers of both signs, zeros of both signs among them, that lie as the types say."""
    made = []
    for place, value in enumerate(graph.inputs):
        type = value.type
        if not isinstance(type, TensorType):
            made.append(True)
            continue
        drawn = torch.Generator().manual_seed(place)
        shape = tuple(type.shape)
        dtype = getattr(torch, str(type.dtype))
        if dtype.is_floating_point:
            tensor = torch.randn(shape, generator=drawn, dtype=torch.float64).to(dtype)
            flat, zeros = tensor.view(-1), torch.tensor([0.0, -0.0] if place % 2 else [-0.0, 0.0], dtype=dtype)
            flat[:2] = zeros[: flat[:2].numel()]
        else:
            tensor = torch.randint(0, 2 if dtype == torch.bool else 4, shape, generator=drawn).to(dtype)
        strides = type.strides
        lies = torch.empty_strided(shape, strides, dtype=dtype) if strides else torch.empty(shape, dtype=dtype)
        made.append(lies.copy_(tensor))
    return made


def seen(graph: irs.Graph, given: list[Any], *, aliased: bool = False) -> list[Any]:
    """What a caller sees; with `aliased`, all arguments that lie alike are one tensor, the one with the largest numbers."""
    own = [each if each is True else each.clone(memory_format=torch.preserve_format) for each in given]
    if aliased:
        tensors = sorted((each for each in own if each is not True), key=lambda each: each.flatten().tolist())
        first = {(each.dtype, each.shape, each.stride()): each for each in tensors}
        own = [each if each is True else first[each.dtype, each.shape, each.stride()] for each in own]
    torch.manual_seed(0)
    return observed(graph, own)


def check(a: irs.Graph, b: irs.Graph, found: Match) -> None:
    """The two compute the same, as the match says: arguments in its order, its holes filled."""
    ours = arguments(a)
    theirs: list[Any] = [None] * len(ours)
    for place, at in enumerate(found.arguments):
        theirs[at] = ours[place]
    left: irs.Graph | None = a
    if found.holes:
        left, theirs = with_holes_filled(found), arguments(b)
        if left is None:
            return
        ours = [theirs[at] for at in found.arguments]
    assert left is not None
    count = len(b.outputs)
    for aliased in (False, True):
        one, other = seen(left, ours, aliased=aliased), seen(b, theirs, aliased=aliased)
        if found.arguments == tuple(range(len(ours))):
            assert one == other, f"merged by {found.step}, and computes something else:\n{a}\n{b}"
            continue
        one, other = ([each[1:] for each in which] for which in (one, other))  # memories are numbered as they are met
        if not aliased and len(one) == count + len(ours):
            other = [*other[:count], *(other[count + at] for at in found.arguments)]
        assert one[:count] == other[:count] and (aliased or one == other), f"merged by {found.step}:\n{a}\n{b}"


def first_met(a: irs.Graph, b: irs.Graph) -> Match | None:
    """How two meet at the finest step; from there on they are one class, whichever comes first."""
    ladders = [dedup(irs.Module({"f": one, "g": other})) for one, other in ((a, b), (b, a))]
    joined = [[len(d.members(relation)) == 1 for relation in RELATIONS[1:]] for d in ladders]
    assert joined[0] == joined[1] == sorted(joined[0]), f"{joined}:\n{a}\n{b}"
    d = ladders[0]
    return next((met for relation in RELATIONS[1:] if (met := match(d.piece("f"), d.piece("g"), relation)) is not None), None)


def met(a: irs.Graph, b: irs.Graph) -> str:
    """The step at which two meet, `never` if there is none; what is merged computes the same."""
    found = first_met(a, b)
    if found is None:
        return "never"
    check(a, b, found)
    return found.step


PAIRS: Final = (Path(__file__).parent / "nasty_pairs.txt").read_text().splitlines()
_SHORT: Final = {
    "square": SQUARE, "turned": "Double(4, 4, strides=[1, 4])", "whole": "Long(4, strides=[1])", "truths": "Bool(4, strides=[1])",
}  # fmt: skip


def heads_of(text: str) -> dict[str, str]:
    named = (each.partition(":") for each in text.split(";"))
    return {name.strip(): _SHORT.get(type.strip(), type.strip()) for name, _, type in named if name.strip()}


@pytest.mark.parametrize("start", range(0, len(PAIRS), 20))
def test_pairs_are_the_same_from_the_listed_relation_on_and_compute_the_same(start: int) -> None:
    """Each line: the step, two programs, and what their arguments are where they are not square matrices (for both, or each)."""
    for line in PAIRS[start : start + 20]:
        step, a, b, *heads = (part.strip() for part in line.split(" # "))
        types = [heads_of(text) for text in heads] or [{}]
        assert met(irs.parse(text_of(a, types[0])), irs.parse(text_of(b, types[-1]))) == step, line


def branches(then: str, other: str, first: str = "", condition: str = "%c") -> str:
    return f"""graph(%a : {SQUARE}, %b : {SQUARE}, %c : bool):
  %one : int = prim::Constant[value=1]()
{first}  %r : {SQUARE} = prim::If({condition})
    block0():
      %x : {SQUARE} = aten::{then}
      -> (%x)
    block1():
      %y : {SQUARE} = aten::{other}
      -> (%y)
  return (%r)"""


def rounds(params: str = "%p %q", start: str = "%a, %b", count: int = 3, back: str = "%n, %m", begun: str = "%t") -> str:
    p, q = params.split()
    return f"""graph(%a : {SQUARE}, %b : {SQUARE}):
  %one : int = prim::Constant[value=1]()
  %k : int = prim::Constant[value={count}]()
  %t : bool = prim::Constant[value=1]()
  %f : bool = prim::Constant[value=0]()
  %r : {SQUARE}, %w : {SQUARE} = prim::Loop(%k, {begun}, {start})
    block0(%i : int, {p} : {SQUARE}, {q} : {SQUARE}):
      %n : {SQUARE} = aten::sub(%p, %q, %one)
      %m : {SQUARE} = aten::tanh(%p)
      -> (%t, {back})
  return (%r, %w)"""


@pytest.mark.parametrize(("a", "b", "step"), [
    (branches("neg(%a)", "tanh(%a)"), branches("tanh(%a)", "neg(%a)"), "never"),
    (branches("neg(%a)", "tanh(%a)"), branches("neg(%a)", "tanh(%a)").replace("%x", "%q"), "alpha"),
    (branches("neg(%a)", "tanh(%b)"), branches("neg(%b)", "tanh(%a)"), "arguments"),
    (branches("neg(%a)", "tanh(%a)"), branches("neg(%a)", "tanh(%a)", "  %n : bool = aten::__not__(%c)\n", "%n"), "never"),
    (branches("mul(%a, %b)", "tanh(%a)"), branches("mul(%b, %a)", "tanh(%a)"), "order"),
    (branches("sub(%a, %b, %one)", "tanh(%a)"), branches("sub(%b, %a, %one)", "tanh(%a)"), "never"),
    (branches("neg_(%a)", "tanh(%a)"), branches("neg(%a)", "tanh_(%a)"), "never"),
    (branches("neg_(%a)", "tanh(%a)"), branches("neg_(%a)", "tanh(%b)"), "never"),
    (rounds(), rounds(), "alpha"),
    (rounds(), rounds(start="%b, %a"), "arguments"),
    (rounds(), rounds("%q %p"), "never"),
    (rounds(), rounds(back="%m, %n"), "never"),
    (rounds(), rounds(begun="%f"), "never"),
    (rounds(), rounds(count=4), "never"),
    (rounds(), rounds().replace("return (%r, %w)", "return (%w, %r)"), "never"),
])  # fmt: skip
def test_blocks_are_compared_with_the_node_that_owns_them(a: str, b: str, step: str) -> None:
    assert met(irs.parse(a), irs.parse(b)) == step


def foreign(*lines: str, results: str = "%x") -> irs.Graph:
    return irs.parse("graph(%a : Tensor, %b : Tensor):\n  " + "\n  ".join(lines) + f"\n  return ({results})")


@pytest.mark.parametrize(("a", "b"), [
    ("[k=1]", "[k=2]"), ("[k=1]", "[k=1.0]"), ("[k=1]", '[k="1"]'), ("[k=1]", "[j=1]"), ("[k=1]", ""), ("[k=[1, 2]]", "[k=[2, 1]]"),
    ("[k=[1]]", "[k=[1, 1]]"), ("[k=[1]]", "[k=1]"), ('[callee="@exp"]', '[callee="@log"]'), ("[k=[[1], [2]]]", "[k=[[1, 2]]]"),
])  # fmt: skip
def test_all_attributes_of_unknown_ops_are_compared(a: str, b: str) -> None:
    assert first_met(foreign(f"%x : Tensor = foo::f{a}(%a)"), foreign(f"%x : Tensor = foo::f{b}(%a)")) is None


def test_unknown_ops_keep_their_order_and_number() -> None:
    f, g, again = "%x : Tensor = foo::f(%a)", "%y : Tensor = foo::g(%b)", "%y : Tensor = foo::f(%a)"
    load, store = '%x : Tensor = util::global.load[global="@g"]()', 'util::global.store[global="@g"](%a)'
    assert first_met(foreign(f, g, results="%x, %y"), foreign(g, f, results="%x, %y")) is None
    assert first_met(foreign(f, again, results="%x, %y"), foreign(f, results="%x, %x")) is None
    assert first_met(foreign(f, results="%a"), foreign(results="%a")) is None
    assert first_met(foreign(load, store), foreign(store, load)) is None
    assert first_met(foreign(load), foreign(load.replace("@g", "@h"))) is None
    swapped = first_met(foreign("%x : Tensor = foo::f(%a, %b)"), foreign("%x : Tensor = foo::f(%b, %a)"))
    assert swapped is not None and swapped.step == "arguments"


def test_constant_tensors_are_compared_bit_by_bit() -> None:
    def scaled(elements: Any) -> irs.Graph:
        b = GraphBuilder()
        return b.finish([b.op("aten::mul", b.input("a"), b.constant(TensorData.of(elements), TensorType(str(elements.dtype), (2,))))])

    quiet = [np.array([bits, 0], np.uint32).view(np.float32) for bits in (0x7FC00000, 0x7FC00001, 0, 0x80000000)]
    for place, one in enumerate(quiet):
        for at, other in enumerate(quiet):
            found = first_met(scaled(one), scaled(other.copy()))
            assert found is not None and found.step == ("alpha" if at == place else "constants")
    found = first_met(scaled(np.ones(2, np.int64)), scaled(np.ones(2, np.float64)))
    assert found is not None and found.step == "dtype"


ADD, SUB = "aten::add(%x, %y, %one)", "aten::sub(%x, %y, %one)"


def function(name: str, *calls: str, private: bool = False) -> str:
    """`%r` is the last of some calls, the ones before it `%p0`, `%p1`."""
    lines = "".join(f"  %{'r' if call is calls[-1] else f'p{place}'} : Float(4) = {call}\n" for place, call in enumerate(calls))
    declared = f'symbol "{name}" = func::func[visibility="private"]()\n' if private else ""
    head = "graph(%x : Float(4), %y : Float(4)):\n  %one : int = prim::Constant[value=1]()\n"
    return f'{declared}graph "{name}":\n{head}{lines}  return (%r)\n'


def calls(name: str, first: str = "%x") -> str:
    return f'func::call[callee="@{name}"]({first}, %y)'


def both(h: str, k: str) -> str:
    return function("f", calls(h), calls(k), "aten::div(%p0, %p1)")


def helper(name: str, *lines: str) -> str:
    return function(name, *lines, private=True)


def again(name: str, op: str, other: str) -> str:
    return helper(name, f"aten::{op}(%x)", calls(other, "%p0"))


def executable(name: str, exports: str, *functions: str) -> str:
    declared = "".join(
        f'symbol "{export}" = flow::executable.export[visibility="public", function_ref="@{of}"]()\n'
        for export, of in (each.split(":") for each in exports.split())
    )
    return f'module "{name}" = module::attributes():\n{declared}{"".join(functions)}end\n'


ADDS, SUBTRACTS = helper("h", ADD), helper("k", SUB)
BACK = helper("h", SUB.replace("%x, %y", "%y, %x"))


@pytest.mark.parametrize(("a", "b", "step"), [
    (("F:f G:g", function("f", ADD), function("g", SUB)), ("F:g G:f", function("f", ADD), function("g", SUB)), None),
    (("F:f G:g", function("f", ADD), function("g", SUB)), ("F:f G:g", function("f", SUB), function("g", ADD)), None),
    (("F:f G:g", function("f", ADD), function("g", SUB)), ("F:f G:g", function("g", SUB), function("f", ADD)), "text"),
    (("F:f", function("f", ADD), function("g", SUB)), ("F:f G:g", function("f", ADD), function("g", SUB)), None),
    (("F:f", both("h", "k"), ADDS, SUBTRACTS), ("F:f", both("h", "k"), helper("h", SUB), helper("k", ADD)), None),
    (("F:f", both("h", "k"), ADDS, SUBTRACTS), ("F:f", both("k", "h"), helper("h", SUB), helper("k", ADD)), "symbols"),
    (("F:f", both("h", "k"), ADDS, SUBTRACTS), ("F:f", both("h", "h"), ADDS, SUBTRACTS), None),
    (("F:f", both("h", "k"), ADDS, helper("k", ADD)), ("F:f", both("h", "h"), ADDS), None),
    (
        ("F:f", function("f", calls("h")), again("h", "exp", "k"), again("k", "tanh", "h")),
        ("F:f", function("f", calls("h")), again("h", "tanh", "k"), again("k", "exp", "h")), None,
    ),
    (
        ("F:f", function("f", calls("h")), again("h", "exp", "k"), again("k", "tanh", "h")),
        ("F:f", function("f", calls("k")), again("h", "tanh", "k"), again("k", "exp", "h")), "symbols",
    ),
    (
        ("F:f", function("f", calls("h")), again("h", "exp", "k"), again("k", "tanh", "h")),
        ("F:f", function("f", calls("k")), again("h", "exp", "k"), again("k", "tanh", "h")), None,
    ),
    (("F:f", function("f", calls("f"))), ("F:f", function("f", calls("h")), helper("h", calls("h"))), None),
    (("F:f", function("f", calls("sin"))), ("F:f", function("f", calls("cos"))), None),
    (("F:f", function("f", calls("h")), helper("h", SUB)), ("F:f", function("f", calls("h")), BACK), None),
])  # fmt: skip
def test_the_meanings_of_names_must_correspond(a: tuple[str, ...], b: tuple[str, ...], step: Relation | None) -> None:
    d = dedup(parse_module(f'module "all" = module::attributes():\n{executable("a", *a)}{executable("b", *b)}end\n'))
    assert next((relation for relation in RELATIONS if match(d.piece("a"), d.piece("b"), relation) is not None), None) == step


def test_a_normal_form_does_not_exchange_operands_of_different_layouts() -> None:
    """The result lies as the first of them; a program in its normal form gives results that lie as before."""
    heads = {"a": SQUARE, "b": _SHORT["turned"]}
    for shorthand in ("x=mul a b | x", "x=mul b a | x", "y=t a; x=add y a 1 | x", "y=t a; x=add a y 1 | x"):
        graph = irs.parse(text_of(shorthand, heads))
        assert seen(normal_form(graph).after, arguments(graph)) == seen(graph, arguments(graph))
