"""Single nodes: torch's operators by the overload that a node means, NumPy's references, and what is Python's own."""

from typing import Any

import numpy as np
import pytest

from irscope.errors import RunError
from irscope.ir.core import Node
from irscope.ir.text.parser import parse
from irscope.ir.types import FLOAT, INT, NONE, STR, TENSOR, DictType, ListType, OptionalType, TupleType, Type, UnionType
from irscope.ops.registry import lookup
from irscope.runtime.arrays.library import is_a, unpacked
from irscope.runtime.arrays.numpy import NumpyLibrary
from irscope.runtime.arrays.numpy_calls import by_position, decided
from irscope.runtime.arrays.torch import _METHODS, TorchLibrary, library_for
from irscope.runtime.program.executable import compile_graph
from irscope.runtime.reference import run_reference
from tests.programs import parsed


def last(line: str, params: str = "%x : Tensor") -> Node:
    """The last of the lines of a program."""
    graph = parse(f"graph({params}):\n{line}\n  return ()")
    return graph.body.nodes[-1]


def test_methods_of_tensors_do_what_their_overloads_do():
    """The same elements in the same memory, at the same strides."""
    torch = pytest.importorskip("torch")
    operands = {
        "select": "1 -2", "unsqueeze": "-1", "squeeze": "1", "transpose": "0 -1", "permute": "[1,0]", "view": "[3,-1]", "reshape": "[3,2]",
        "t": "", "clone": "0", "copy_": "",
    }  # fmt: skip
    assert set(_METHODS.values()) == set(operands)
    for (name, overload), method in _METHODS.items():
        rest = [eval(each) for each in operands[method].split()]
        rest += [torch.ones(3, 2), False] if method == "copy_" else []
        kinds = ["Tensor" if isinstance(each, torch.Tensor) else "int[]" if isinstance(each, list) else "int" for each in rest]
        params = ", ".join(f"%{place} : {kind}" for place, kind in enumerate(["Tensor", *kinds]))
        node = last(f"  %y : Tensor = {name}({', '.join(f'%{place}' for place in range(len(rest) + 1))})", params)
        x, given = torch.arange(6.0).reshape(2, 3).t(), {"memory_format": 0} if method == "clone" else {}
        found = TorchLibrary().function(node)(x, *rest)
        expected = torch._C._get_operation_overload(name, overload)[0](x, *([] if given else rest), **given)
        assert (found.shape, found.stride()) == (expected.shape, expected.stride())
        assert torch.equal(found, expected) and (found.data_ptr() == expected.data_ptr()) == (method != "clone")
        if given:
            assert TorchLibrary().function(node)(x, None).stride() == x.stride()


def _libraries() -> list[object]:
    pytest.importorskip("torch")
    return [TorchLibrary(), NumpyLibrary()]


@pytest.mark.parametrize(("line", "params", "operands", "expected"), [
    ("%y : Tensor[] = prim::ListConstruct(%a, %b)", "%a : Tensor, %b : Tensor", (1, 2), [1, 2]),
    ("%y : (int, int) = prim::TupleConstruct(%a, %b)", "%a : int, %b : int", (1, 2), (1, 2)),
    ("%y : Dict(str, int) = prim::DictConstruct(%a, %b)", "%a : str, %b : int", ("k", 2), {"k": 2}),
    ("%y : int, %z : int = prim::TupleUnpack(%a)", "%a : (int, int)", ((1, 2),), (1, 2)),
    ("%y : int = aten::__getitem__(%a, %b)", "%a : int[], %b : int", ([4, 5], -1), 5),
    ("%y : str = aten::format(%a, %b)", "%a : str, %b : int", ("n={}", 3), "n=3"),
    ("%y : bool = aten::__contains__(%a, %b)", "%a : str[], %b : str", (["a"], "b"), False),
    ("%y : bool = prim::isinstance[types=[int]](%a)", "%a : Any", (True,), False),
    ("%y : bool = prim::isinstance[types=[int, NoneType]](%a)", "%a : Any", (None,), True),
])  # fmt: skip
def test_pythons_own(line: str, params: str, operands: tuple[object, ...], expected: object):
    for library in _libraries():
        assert library.function(last(f"  {line}", params))(*operands) == expected


@pytest.mark.parametrize(("line", "expected"), [
    ("%y : int = prim::Constant[value=3]()", 3),
    ("%y : bool = prim::Constant[value=1]()", True),
    ("%y : NoneType = prim::Constant()", None),
    ("%y : Tensor? = prim::Constant()", None),
    ("%y : int[]? = prim::Constant()", None),
    ("%y : int[] = prim::Constant[value=[1, 2]]()", [1, 2]),
    ("%y : (int, bool) = prim::Constant[value=(1, 0)]()", (1, False)),
    ('%y : str = prim::Constant[value="a"]()', "a"),
])  # fmt: skip
def test_constants(line: str, expected: object):
    for library in _libraries():
        made = library.constant(last(f"  {line}"))
        assert made == expected and type(made) is type(expected)


def test_tensors_keep_their_identity_and_choose_the_library() -> None:
    torch = pytest.importorskip("torch")
    node = last("  %y : bool = aten::__isnot__(%x, %z)", "%x : Tensor, %z : Tensor")
    for library, x in ((TorchLibrary(), torch.ones(2)), (NumpyLibrary(), np.ones(2))):
        assert library.function(node)(x, x) is False and library.function(node)(x, x + 0) is True
    node = last("  %y : Tensor = prim::unchecked_cast(%x)", "%x : Tensor")
    for library, x in ((TorchLibrary(), torch.nn.Parameter(torch.ones(2))), (NumpyLibrary(), np.ones(2))):
        assert library.function(node)(x) is x
    node = last('  %y : Device = prim::Constant[value="cpu"]()')
    assert TorchLibrary().constant(node) == torch.device("cpu")
    assert library_for([1, np.zeros(2)]).name == "numpy"
    assert library_for([np.zeros(2), [{"a": torch.zeros(2)}]]).name == "torch"


def test_unknown_ops_and_exceptions_of_the_program_are_named() -> None:
    for library in _libraries():
        with pytest.raises(RunError, match="my::op"):
            library.function(last("  %y : Tensor = my::op(%x)"))
    node = last("  prim::RaiseException(%m, %c)", "%m : str, %c : str")
    with pytest.raises(RunError, match="ValueError: too small"):
        NumpyLibrary().function(node)("too small", "builtins.ValueError")


@pytest.mark.parametrize("line", [
    "aten::zeros(%sizes, %none, %none, %none, %none)", "aten::zeros(%sizes)", "aten::full(%sizes, %n, %none, %none, %none, %none)",
    "aten::arange(%n, %none, %none, %cpu, %none)", "aten::rand(%sizes, %none, %none, %none, %none)", "aten::tensor(%n, %none, %none, %no)",
    "aten::eye(%n, %none, %none, %none, %none)", "aten::empty(%sizes, %none, %none, %none, %none, %none)",
])  # fmt: skip
def test_what_a_program_makes_is_where_its_arguments_are_moved(line: str) -> None:
    pytest.importorskip("torch")
    graph = parse(f"""graph(%n : int, %sizes : int[], %no : bool):
  %none : NoneType = prim::Constant()
  %cpu : Device = prim::Constant[value="cpu"]()
  %y : Tensor = {line}
  return (%y)""")
    library = TorchLibrary(device="meta")
    values = dict(zip(graph.inputs, (3, [2, 3], False), strict=True))
    values |= {node.output: library.constant(node) for node in graph.body.nodes[:2]}
    node = graph.body.nodes[2]
    assert library.function(node)(*[values[value] for value in node.inputs]).device.type == "meta"


def test_a_registered_op_of_another_library_runs():
    torch = pytest.importorskip("torch")
    with torch.library._scoped_library("irscope_test", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
        node = last("  %y : Tensor = irscope_test::twice(%x)")
        assert TorchLibrary().function(node)(torch.ones(2)).tolist() == [2.0, 2.0]


def test_double_asks_for_float64_where_the_program_asks_for_less():
    torch = pytest.importorskip("torch")
    line = "  %y : Tensor = aten::to(%x, %d, %a, %b, %n)"
    node = last(line, "%x : Tensor, %d : int, %a : bool, %b : bool, %n : NoneType")
    library = TorchLibrary(double=True)
    assert library.function(node)(torch.ones(2, dtype=torch.int64), 6, False, False, None).dtype == torch.float64
    assert library.function(node)(torch.ones(2), 3, False, False, None).dtype == torch.int32


# --- What a constant is in a running program, and of which type a value is: the same for the reference and for every library.


@pytest.mark.parametrize(("value", "type", "expected"), [
    ({"a": 1}, DictType(STR, INT), True), ({"a": 1.0}, DictType(STR, INT), False), ([], DictType(STR, INT), False),
    (1, UnionType((INT, STR)), True), (1.5, UnionType((INT, STR)), False), (True, INT, False),
    (np.float32(1), TENSOR, False), (np.ones(1), TENSOR, True), (None, OptionalType(TENSOR), True),
    ((1, "a"), TupleType((INT, STR)), True), ((1,), TupleType((INT, STR)), False), (None, NONE, True),
])  # fmt: skip
def test_of_which_type_a_value_is(value: Any, type: Type, expected: bool) -> None:
    assert is_a(value, type) is expected


@pytest.mark.parametrize(("payload", "type", "expected"), [
    ((1, 2), TupleType((INT, FLOAT)), (1, 2.0)), ((1, 2), OptionalType(TupleType((INT, INT))), (1, 2)),
    (((1,), (2, 3)), ListType(ListType(INT)), [[1], [2, 3]]), ((), ListType(INT), []),
])  # fmt: skip
def test_what_a_payload_becomes(payload: Any, type: Type, expected: Any) -> None:
    found = unpacked(payload, type, repr)
    assert found == expected and found.__class__ is expected.__class__


def test_the_reference_and_the_library_hold_the_same() -> None:
    g = parse("graph():\n  %c : (int[], float)? = prim::Constant[value=([1, 2], 3)]()\n  return (%c)")
    (found,) = run_reference(g)
    assert found == NumpyLibrary().constant(g.node("c")) == ([1, 2], 3.0)


# --- What NumPy's references decide once: operands of every kind get what the reference gives, and errors stay.


class Counted:
    """A call of an op, and how often its reference answered."""

    def __init__(self, name, *names, **rest):
        op = lookup(name)
        self.count = 0
        self.reference = by_position(op.reference, names, rest, makes_array=True)
        self.call = decided(op, names, rest, self.counting)

    def counting(self, *given):
        self.count += 1
        return self.reference(*given)

    def check(self, *given):
        """The result is the reference's; returns whether the reference was asked for it."""
        before = self.count
        found = self.call(*given)
        wanted = self.reference(*given)
        assert (found.dtype, found.shape, found.strides) == (wanted.dtype, wanted.shape, wanted.strides)
        assert found.tobytes() == wanted.tobytes()
        return self.count > before


def test_operands_of_a_kind_are_looked_at_once():
    add = Counted("aten::add", "self", "other", "alpha")
    x, row, whole, zero_dim = np.ones((2, 3), np.float32), np.ones(3), np.arange(3), np.array(2.5)
    for other in (x, row, whole, zero_dim, 2, 0.1, True):
        assert add.check(x, other, 1) and not add.check(x + 1, other, 1)
    assert not add.check(x, row, 1), "earlier ones are kept"
    assert add.check(whole, 0.5, 1)
    assert add.check(whole, row, 2), "there are enough of them: the reference answers"
    assert add.check(whole, row, 2)


def test_numbers_may_differ_from_call_to_call():
    mul = Counted("aten::mul", "self", "other")
    x = np.ones(3, np.float32)
    mul.check(x, 0.5)
    for number in (0.1, -0.0, 0.0, float("nan"), float("inf"), 1e300):
        with np.errstate(over="ignore"):
            assert not mul.check(x, number)
    assert mul.check(x, 2) and mul.check(x, True), "these are other types"


def test_halves_and_arrays_of_subclasses_are_left_to_the_reference():
    add = Counted("aten::add", "self", "other", alpha=1)
    for x in (np.ones(3, np.float16), np.ones(3, np.float32).view(np.recarray)):
        assert all(add.check(x, x) for _ in range(3))


def test_a_write_is_into_the_operand():
    add = Counted("aten::add_", "self", "other", alpha=1)
    x = np.zeros(3, np.float32)
    for turn in range(1, 4):
        assert add.call(x, np.ones(3)) is x
        assert x.tolist() == [turn] * 3
    assert add.count == 1


@pytest.mark.parametrize(("name", "arguments"), [
    ("reshape", {"shape": [3, -1]}), ("permute", {"dims": [1, 0]}), ("unsqueeze", {"dim": 1}), ("select", {"dim": 1, "index": -1}),
    ("slice", {"dim": 1, "start": 1, "end": None, "step": 2}), ("expand", {"size": [2, 2, 3]}), ("diagonal", {}),
    ("narrow", {"dim": 1, "start": 1, "length": 2}), ("flatten", {}), ("contiguous", {}),
])  # fmt: skip
def test_views_are_views_of_the_same_memory(name, arguments):
    call = Counted(f"aten::{name}", "self", *arguments)
    for make in (lambda: np.arange(6.0).reshape(2, 3), lambda: np.arange(12.0).reshape(2, 6)[:, ::2], lambda: np.arange(6).reshape(3, 2).T):
        for turn in range(3):
            x = make()
            asked = call.check(x, *arguments.values())
            found, wanted = call.call(x, *arguments.values()), call.reference(x, *arguments.values())
            assert np.may_share_memory(found, x) == np.may_share_memory(wanted, x)
            if np.may_share_memory(found, x):
                assert found.__array_interface__["data"] == wanted.__array_interface__["data"]
            assert turn == 0 or not asked or not x.flags.c_contiguous


def test_errors_are_the_references():
    reshape, add = Counted("aten::reshape", "self", "shape"), Counted("aten::add", "self", "other", "alpha")
    x = np.ones((2, 3), np.float32)
    for call, good, bad in ((reshape, [x, [6]], [x, [4]]), (add, [x, x, 1], [x, np.ones(4, np.float32), 1])):
        errors = []
        call.check(*good)
        for run in (call.reference, call.call, call.call):
            with pytest.raises(Exception, match=r"4") as caught:
                run(*bad)
            errors.append((caught.type, str(caught.value)))
        assert len(set(errors)) == 1


def test_a_program_that_grows_its_arrays(monkeypatch):
    monkeypatch.setattr("irscope.runtime.program.executable.torch_is_there", lambda: False)
    g = parsed("x y | one = 1; minus = [-1]; z = add x y one; w = reshape z minus | w")
    x = compile_graph(g, use_kernels=False)
    for size in range(1, 30):
        for kind in (np.float32, np.int64):
            found = x(np.full((size, 2), 3, kind), np.ones((size, 1), kind))
            assert found.dtype == kind and found.tolist() == [4] * (2 * size)
