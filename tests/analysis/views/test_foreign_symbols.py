"""Programs of other languages with extents that have names: their views are views for all of them."""

from __future__ import annotations

from typing import Any

import pytest

import irscope as irs


def kinds(va: irs.ViewAliases, *names: str) -> list[str]:
    return [va.kind(name) if va.is_decided(name) else "open" for name in names]


def onnx_model(onnx: Any) -> Any:
    helper, types = onnx.helper, onnx.TensorProto

    def numbers(name: str, *values: int) -> Any:
        return helper.make_node("Constant", [], [name], value=helper.make_tensor(name, types.INT64, [len(values)], values))

    nodes = [
        numbers("heads_shape", 0, -1, 4, 2), numbers("row", 0, 0, 8), numbers("image", 0, -1),
        numbers("0", 0), numbers("3", 3), numbers("8", 8), numbers("2", 2),
        helper.make_node("Reshape", ["x", "heads_shape"], ["heads"]),
        helper.make_node("Transpose", ["heads"], ["turned"], perm=[0, 2, 1, 3]),
        helper.make_node("Transpose", ["turned"], ["back"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["back", "row"], ["flat"]),
        helper.make_node("Reshape", ["turned", "image"], ["copied"]),
        helper.make_node("Slice", ["x", "0", "3", "2"], ["left"]),
        helper.make_node("Slice", ["x", "3", "8", "2"], ["right"]),
        helper.make_node("Split", ["x"], ["p", "q"], axis=2, num_outputs=2),
    ]  # fmt: skip
    results = [helper.make_tensor_value_info(name, types.FLOAT, None) for name in ("flat", "copied", "left", "right", "p", "q")]
    given = helper.make_tensor_value_info("x", types.FLOAT, ["b", "n", 8])
    return helper.make_model(helper.make_graph(nodes, "g", [given], results), opset_imports=[helper.make_opsetid("", 18)])


def test_symbolic_extents_of_onnx() -> None:
    onnx = pytest.importorskip("onnx")
    va = irs.ViewAliases(irs.load(onnx_model(onnx)))
    assert kinds(va, "heads", "turned", "back", "flat", "left", "right", "p", "q") == ["view"] * 8
    assert kinds(va, "copied") == ["open"], "a view where n is 1"
    assert va.root("flat") is va.graph.value("x")
    assert str(va.layout("turned")) == "b×4×n×2, strides (8*n, 2, 8, 1), axes in memory order 0 2 1 3"
    assert str(va.bytes("right")) == "20 bytes every 32, b*n times, from byte 12"
    assert not va.overlaps("left", "right")
    assert not va.overlaps("p", "q")
    assert va.overlaps("left", "p")


def test_unknown_extents_of_stablehlo() -> None:
    pytest.importorskip("jaxlib")
    va = irs.ViewAliases(irs.load("""
        module {
          func.func @main(%x: tensor<?x6x8xf32>) -> (tensor<?x8x6xf32>, tensor<?x6x8xf32>, tensor<?x6x8xf32>) {
            %turned = stablehlo.transpose %x, dims = [0, 2, 1] : (tensor<?x6x8xf32>) -> tensor<?x8x6xf32>
            %back = stablehlo.transpose %turned, dims = [0, 2, 1] : (tensor<?x8x6xf32>) -> tensor<?x6x8xf32>
            %made = stablehlo.exponential %x : tensor<?x6x8xf32>
            return %turned, %back, %made : tensor<?x8x6xf32>, tensor<?x6x8xf32>, tensor<?x6x8xf32>
          }
        }"""))
    turned, back, made = (va.graph.names[value] for value in va.graph.outputs)
    assert kinds(va, turned, back, made) == ["view", "view", "copy"]
    assert va.root(back) is va.graph.inputs[0]
    assert va.layout(turned).strides == (48, 1, 8)
    assert va.layout(back).strides == (48, 8, 1)


def test_parts_and_regroupings_of_unknown_extents_of_stablehlo() -> None:
    pytest.importorskip("jaxlib")
    np = pytest.importorskip("numpy")
    graph = irs.load("""
        module {
          func.func @main(%x: tensor<?x6x8xf32>) -> (tensor<2x6x4xf32>, tensor<2x6x4xf32>, tensor<?x8xf32>, tensor<i32>) {
            %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x6x8xf32>) -> tensor<i32>
            %rows = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
            %8 = stablehlo.constant dense<8> : tensor<1xi32>
            %shape = stablehlo.concatenate %rows, %8, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
            %flat = stablehlo.dynamic_reshape %x, %shape : (tensor<?x6x8xf32>, tensor<2xi32>) -> tensor<?x8xf32>
            %left = stablehlo.slice %x [0:2, 0:6, 0:4] : (tensor<?x6x8xf32>) -> tensor<2x6x4xf32>
            %right = stablehlo.slice %x [0:2, 0:6, 4:8] : (tensor<?x6x8xf32>) -> tensor<2x6x4xf32>
            return %left, %right, %flat, %n : tensor<2x6x4xf32>, tensor<2x6x4xf32>, tensor<?x8xf32>, tensor<i32>
          }
        }""")
    va = irs.ViewAliases(graph)
    left, right, flat, _ = (graph.names[value] for value in graph.outputs)
    assert kinds(va, left, right, flat) == ["view"] * 3
    assert all(va.root(name) is graph.inputs[0] for name in (left, right, flat))
    assert not va.overlaps(left, right)
    assert va.overlaps(left, flat)
    x = np.arange(3 * 48, dtype=np.float32).reshape(3, 6, 8)
    for device in ("reference", "cpu"):
        run = irs.compile(irs.fuse(graph), device=device)
        found = [np.asarray(each) for each in run(x)]
        for one, other in zip(found, (x[:2, :, :4], x[:2, :, 4:], x.reshape(-1, 8), 3), strict=True):
            assert np.array_equal(one, other)
        with pytest.raises(irs.errors.RunError, match="narrow"):  # there are no two of them
            run(x[:1])
