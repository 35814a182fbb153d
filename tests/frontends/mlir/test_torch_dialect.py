"""Torch-mlir's dialect: its ops are torch's, so torch itself says what they compute."""

import pytest

import irscope as irs
from irscope.errors import ParseError
from irscope.frontends.mlir.source import generic_form, installed

torch = pytest.importorskip("torch")
if not installed():
    pytest.skip("neither jaxlib nor iree-base-compiler is installed", allow_module_level=True)

PRETTY = """module attributes {torch.debug_module_name = "M"} {
  func.func @forward(%arg0: V<[4,8],f32>, %arg1: V<[8,3],f32>, %arg2: V<[4],si64>)
      -> (V<[4,3],f32>, V<[4],f32>, V<[4,4],f32>, V<[4],i1>) {
    %int1 = torch.constant.int 1
    %int-1 = torch.constant.int -1
    %none = torch.constant.none
    %false = torch.constant.bool false
    %float = torch.constant.float 5.000000e-01
    %0 = torch.vtensor.literal(dense<[1.0, 2.0, 3.0]> : tensor<3xf32>) : V<[3],f32>
    %1 = torch.aten.relu %arg0 : V<[4,8],f32> -> V<[4,8],f32>
    %2 = torch.aten.mul.Scalar %1, %float : V<[4,8],f32>, !torch.float -> V<[4,8],f32>
    %3 = torch.aten.add.Tensor %2, %arg0, %int1 : V<[4,8],f32>, V<[4,8],f32>, !torch.int -> V<[4,8],f32>
    %4 = torch.aten.mm %3, %arg1 : V<[4,8],f32>, V<[8,3],f32> -> V<[4,3],f32>
    %5 = torch.aten.add.Tensor %4, %0, %int1 : V<[4,3],f32>, V<[3],f32>, !torch.int -> V<[4,3],f32>
    %6 = torch.prim.ListConstruct %int-1 : (!torch.int) -> !torch.list<int>
    %7 = torch.aten.sum.dim_IntList %5, %6, %false, %none
      : V<[4,3],f32>, !torch.list<int>, !torch.bool, !torch.none -> V<[4],f32>
    %8, %9 = torch.aten.max.dim %arg0, %int1, %false : V<[4,8],f32>, !torch.int, !torch.bool -> V<[4],f32>, V<[4],si64>
    %10 = torch.prim.ListConstruct %8, %8, %8, %8 : (V<[4],f32>, V<[4],f32>, V<[4],f32>, V<[4],f32>) -> !torch.list<vtensor<[4],f32>>
    %11 = torch.aten.stack %10, %int1 : !torch.list<vtensor<[4],f32>>, !torch.int -> V<[4,4],f32>
    %12 = torch.aten.eq.Tensor %9, %arg2 : V<[4],si64>, V<[4],si64> -> V<[4],i1>
    return %5, %7, %11, %12 : V<[4,3],f32>, V<[4],f32>, V<[4,4],f32>, V<[4],i1>
  }
}""".replace("V<", "!torch.vtensor<")


def _one_line(text: str) -> str:
    """An op's types are on the op's line, as torch-mlir writes them."""
    return text.replace("%none\n      :", "%none :")


@pytest.mark.parametrize("text", [_one_line(PRETTY), generic_form(_one_line(PRETTY))], ids=["pretty", "generic"])
def test_ops_of_the_torch_dialect_become_aten_ops(text: str) -> None:
    graph = irs.load(text)
    assert {node.op.partition("::")[0] for node in graph.nodes()} == {"aten", "prim"}
    assert [str(value.type) for value in graph.inputs] == ["Float(4, 8)", "Float(8, 3)", "Long(4)"]
    assert irs.same_structure(irs.parse(str(graph)), graph)
    x, w, i = torch.randn(4, 8), torch.randn(8, 3), torch.arange(4)
    y = (torch.relu(x) * 0.5 + x) @ w + torch.tensor([1.0, 2.0, 3.0])
    most, at = x.max(1)
    for program in (graph, irs.fuse(graph)):
        for found, want in zip(irs.compile(program)(x, w, i), (y, y.sum(-1), torch.stack([most] * 4, 1), at == i), strict=True):
            torch.testing.assert_close(found, want)


@pytest.mark.skipif("iree" in installed(), reason="this package reads every form")
def test_an_unread_form_names_the_package_that_reads_it() -> None:
    with pytest.raises(ParseError) as error:
        irs.load("func.func @f() {\n  torch.prim.Loop %a, %b, init() {\n  } : (!torch.int, !torch.bool) -> ()\n  return\n}")
    assert "iree-base-compiler reads the pretty form" in str(error.value)


def test_unknown_extents_and_writes() -> None:
    graph = irs.load(
        """func.func @f(%x: !torch.tensor<[?,3],f32>) -> !torch.tensor<[?,3],f32> {
  %n = torch.constant.int 1
  %0 = torch.aten.add_.Tensor %x, %x, %n : !torch.tensor<[?,3],f32>, !torch.tensor<[?,3],f32>, !torch.int -> !torch.tensor<[?,3],f32>
  return %x : !torch.tensor<[?,3],f32>
}""",
        torch.ones(2, 3),
    )
    assert graph.functional == "" and irs.AliasDb(graph).has_writers(graph.inputs[0])
    x = torch.ones(2, 3)
    assert irs.compile(graph)(x).tolist() == [[2.0] * 3] * 2 and x.tolist() == [[2.0] * 3] * 2
