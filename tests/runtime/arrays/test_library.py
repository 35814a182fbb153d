"""Single nodes: torch's operators by the overload that a node means, NumPy's references, and what is Python's own."""

import numpy as np
import pytest

from irscope.errors import RunError
from irscope.ir.core import Node
from irscope.ir.text.parser import parse
from irscope.runtime.arrays.numpy import NumpyLibrary
from irscope.runtime.arrays.torch import _METHODS, TorchLibrary, library_for


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
