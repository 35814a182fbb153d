"""The ladder on executables: pairs that IREE merges wrongly stay apart; pairs it misses become equal at the expected relation."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.ir.text import parse_module
from irscope.transforms.dedup import RANK, RELATIONS, Dedup, Relation, dedup, match

HANDLE = "!iree_tensor_ext.dispatch.tensor<{}only:tensor<{}>>"


def function(
    name: str, body: str, *, dims: str = "4", dtype: str = "Float", element: str = "f32", order: tuple[int, int, int] = (0, 1, 2)
) -> str:
    """A kernel as IREE writes them: two operands are loaded, the body makes %r of %a and %b, the result is stored."""
    shape = ", ".join(dims.split("x"))
    zeros, ones = ", ".join("0" for _ in dims.split("x")), ", ".join("1" for _ in dims.split("x"))
    places = f"static_offsets=[{zeros}], static_sizes=[{shape}], static_strides=[{ones}]"
    handles = [HANDLE.format(kind, f"{dims}x{element}") for kind in ("read", "read", "write")]
    names = ["%x", "%y", "%z"]
    params = ", ".join(f"{names[i]} : {handles[i]}" for i in order)
    return f"""graph "{name}":
graph({params}):
  %one : int = prim::Constant[value=1]()
  %a : {dtype}({shape}) = iree_tensor_ext::dispatch.tensor.load[{places}](%x)
  %b : {dtype}({shape}) = iree_tensor_ext::dispatch.tensor.load[{places}](%y)
{body.replace("T", f"{dtype}({shape})")}
  iree_tensor_ext::dispatch.tensor.store[{places}](%r, %z)
  return ()
"""


def executable(name: str, exports: str, *functions: str) -> str:
    declared = "".join(
        f'symbol "{one}" = flow::executable.export[visibility="public", function_ref="@{one}"]()\n' for one in exports.split()
    )
    return f'module "{name}" = module::attributes():\n{declared}{"".join(functions)}end\n'


def pieces(*executables: str) -> Dedup:
    return dedup(parse_module('module "all" = module::attributes():\n' + "".join(executables) + "end\n"))


def step_of(d: Dedup, a: str = "e0", b: str = "e1") -> Relation | None:
    """The finest relation by which two pieces are the same."""
    for relation in RELATIONS:
        if match(d.piece(a), d.piece(b), relation) is not None:
            return relation
    return None


ADD, SUB = "  %r : T = aten::add(%a, %b, %one)", "  %r : T = aten::sub(%a, %b, %one)"

MET: dict[str, tuple[dict[str, Any], dict[str, Any], Relation]] = {
    "permuted parameters": ({}, {"order": (2, 0, 1)}, "arguments"), "a size": ({}, {"dims": "8"}, "extents"),
    "sizes that are equal in one": ({"dims": "4x4"}, {"dims": "4x8"}, "free"), "a size of one": ({}, {"dims": "1"}, "free"),
    "an element type": ({}, {"dtype": "Double", "element": "f64"}, "dtype"),
}  # fmt: skip
"""How two kernels are written; `nasty_pairs.txt` asks of plain programs."""


@pytest.mark.parametrize("what", MET)
def test_pairs_are_the_same_from_the_expected_relation_on(what: str) -> None:
    ours, theirs, step = MET[what]
    d = pieces(executable("e0", "f", function("f", SUB, **ours)), executable("e1", "g", function("g", SUB, **theirs)))
    assert step_of(d) == step
    assert d.ladder()["classes"].tolist() == [1 + (RANK[relation] < RANK[step]) for relation in RELATIONS]
    verdict = d.why_not("e0", "e1")
    assert not verdict and f"{step!r}" in verdict.because


def test_executables_with_variables_are_not_merged() -> None:
    state = 'symbol "v" = util::global[visibility="private", is_mutable=1, type="f32"]()\n'
    d = pieces(executable("e0", "f", state, function("f", ADD)), executable("e1", "f", state, function("f", ADD)))
    assert step_of(d) is None


GRAPH = """graph(%x : Float(2, 3, strides=[3, 1]), %y : Float(2, 3, strides=[3, 1])):
  %k : float = prim::Constant[value={}]()
  %one : int = prim::Constant[value=1]()
  %a : Float(2, 3, strides=[3, 1]) = aten::mul(%x, %k)
  %b : Float(2, 3, strides=[3, 1]) = aten::mul(%y, %k2)
  %c : Float(2, 3, strides=[3, 1]) = aten::{}
  return (%c)"""


def graph(k: float, k2: float, last: str) -> irs.Graph:
    text = GRAPH.format(k, last).replace("%one :", f"%k2 : float = prim::Constant[value={k2}]()\n  %one :")
    return irs.parse(text)


def test_exchanging_operands_keeps_the_holes_few() -> None:
    """%x · 0.5 + %y · 0.25 against %y · 0.125 + %x · 0.5: one number differs, in whatever order the lines are."""
    ours, theirs = graph(0.5, 0.25, "add(%a, %b, %one)"), graph(0.5, 0.125, "add(%b, %a, %one)")
    d = dedup(irs.Module({"f": ours, "g": theirs}))
    met = match(d.piece("f"), d.piece("g"), "constants")
    assert met is not None
    assert [hole.values for hole in met.holes] == [(0.25, 0.125)]
    assert "0.25 against 0.125" in d.difference("f", "g").because


def test_a_constant_tensor_is_a_hole_of_its_size() -> None:
    from irscope.ir.builder import GraphBuilder
    from irscope.ir.payload import TensorData
    from irscope.ir.types import TensorType

    def program(*numbers: float) -> irs.Graph:
        b = GraphBuilder()
        type = TensorType("float32", (len(numbers),), (1,))
        x = b.input("x", type)
        return b.finish([b.op("aten::mul", x, b.constant(TensorData.of(np.array(numbers, np.float32)), type), type=type)])

    d = dedup(irs.Module({"f": program(1, 2), "g": program(1, 3), "h": program(1, 2, 3)}))
    assert step_of(d, "f", "g") == "constants" and step_of(d, "f", "h") == "extents"


SAMPLES = Path(__file__).parent / "samples"


@pytest.mark.parametrize(("name", "count", "alpha", "constants", "extents"), [
    ("resnet18", 33, 30, 30, 11),
    ("quant24", 24, 24, 1, 1),
])  # fmt: skip
def test_executables_of_real_models(name: str, count: int, alpha: int, constants: int, extents: int) -> None:
    """IREE's executables as they are before its own pass, which leaves as many as `alpha` does."""
    d = dedup(parse_module((SAMPLES / f"{name}.flow.ir").read_text()))
    assert len(d._pieces) == count and len(d.classes) == alpha
    ladder = d.ladder()["classes"]
    assert [ladder[step] for step in ("text", "alpha", "constants", "extents")] == [count, alpha, constants, extents]
    assert ladder.is_monotonic_decreasing
