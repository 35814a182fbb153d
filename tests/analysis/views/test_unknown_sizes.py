"""Views of programs whose sizes are known only at run time or have names, and of arguments that lie otherwise."""

from typing import Any

import pytest

import irscope as irs
from irscope.errors import ArgumentError
from irscope.ir import TensorType
from tests.programs import ir, parsed


def kinds(va: irs.ViewAliases, *names: str) -> list[str]:
    return [va.kind(name) if va.is_decided(name) else "open" for name in names]


@pytest.mark.filterwarnings("ignore")
def test_dynamic_dimensions_of_an_exported_program(torch: Any) -> None:
    class Heads(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            batch, length, _ = x.shape
            heads = x.view(batch, length, 12, -1).permute(0, 2, 1, 3)
            back = heads.permute(0, 2, 1, 3).reshape(batch, length, 768)
            return back, heads.reshape(batch, length * 768), x[:, :, :64], x[:, :, 64:]

    dims = {"x": {0: torch.export.Dim("batch", min=2, max=64), 1: torch.export.Dim("length", min=2, max=99)}}
    graph = irs.load(torch.export.export(Heads(), (torch.randn(4, 5, 768),), dynamic_shapes=dims))
    back, flat, left, right = graph.outputs
    for rows in (False, True):
        va = irs.ViewAliases(graph, rows=rows)
        names = [graph.names[value] for value in (back, flat, left, right)]
        assert kinds(va, *names) == ["view", "open", "view", "view"]
        assert va.root(back) is graph.free_inputs[0]


def test_sizes_that_a_program_asks_for() -> None:
    va = irs.ViewAliases(
        parsed(
            "x:Float(*, *) | 0 = 0; 1 = 1; 2 = 2; m1 = -1; n:int = size x 0; c:int = size x 1; h:int = floordiv c 2; "
            "s:int[] = ListConstruct n 2 h; a = view x s; b = transpose a 1 2; d = contiguous b 0; t:int[] = ListConstruct n m1; "
            "e = reshape d t; u:int[] = ListConstruct n c; back = reshape a u; flat = reshape b u | e back flat"
        )
    )
    assert kinds(va, "a", "b", "back", "flat") == ["view", "view", "view", "open"]
    assert va.root("e") is va.graph.value("d") and "known only at run time" in str(va.explain("flat"))


def test_parts_along_an_axis_of_any_extent_share_no_byte() -> None:
    program = ir(
        "x:Float(b, 6, d) | 0 = 0; 1 = 1; 2 = 2; 3 = 3; 6 = 6; left = slice x 1 0 2 1; right = slice x 1 2 6 1; more = slice x 1 1 3 1; "
        "even = slice x 1 0 6 2; odd = slice x 1 1 6 2 | left right more even odd"
    )
    va = irs.ViewAliases(irs.parse(program), rows=True)
    assert str(va.bytes("right")) == "16*d bytes every 24*d, b times, from byte 8*d"
    pairs = ("left right", "left more", "right more", "even odd", "even left", "odd right")
    assert [pair for pair in pairs if not va.overlaps(*pair.split())] == ["left right", "even odd"]
    assert va.overlaps("left", "right").witness[2:] == (va.bytes("left"), va.bytes("right"))
    assert va.overlaps("left", "right").because.startswith("in the buffer of %x, %left covers 8*d bytes every 24*d, b times")
    assert irs.ViewAliases(irs.parse(program)).overlaps("left", "right"), "where not even the order of the axes is known"


def test_names_may_stand_for_other_numbers_in_each_round() -> None:
    va = irs.ViewAliases(parsed(
        "x:Float(b, 6) n go:bool | 0 = 0; 1 = 1; Loop n go {i | next = add i 1; a:Tensor = select x 0 i; b:Tensor = select x 0 next; "
        "c:Tensor = add_ a b 1 | go} | x", "int"
    ), rows=True)  # fmt: skip
    assert va.overlaps("a", "b")


def test_a_traced_function_does_not_promise_strides() -> None:
    graph = irs.trace(lambda x: (x.reshape(4, 2, 4), x.T, x.reshape(-1)), (4, 8))
    names = [graph.names[value] for value in graph.outputs]
    assert kinds(irs.ViewAliases(graph), *names) == ["view", "view", "open"]
    assert kinds(irs.ViewAliases(graph, rows=True), *names) == ["view", "view", "view"]


def test_languages_without_memory_lie_row_by_row() -> None:
    jax = pytest.importorskip("jax")
    graph = irs.load(lambda x: x.reshape(2, 2, 8).transpose(2, 0, 1), jax.numpy.ones((4, 8)))
    va = irs.ViewAliases(graph)
    assert va.layout(graph.inputs[0]).strides == (8, 1)  # type: ignore[union-attr]
    assert kinds(va, graph.names[graph.outputs[0]]) == ["view"]


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
    assert not va.overlaps("left", "right") and not va.overlaps("p", "q") and va.overlaps("left", "p")


def test_unknown_extents_of_stablehlo() -> None:
    pytest.importorskip("jaxlib")
    va = irs.ViewAliases(
        irs.load("""
        module {
          func.func @main(%x: tensor<?x6x8xf32>) -> (tensor<?x8x6xf32>, tensor<?x6x8xf32>, tensor<?x6x8xf32>) {
            %turned = stablehlo.transpose %x, dims = [0, 2, 1] : (tensor<?x6x8xf32>) -> tensor<?x8x6xf32>
            %back = stablehlo.transpose %turned, dims = [0, 2, 1] : (tensor<?x8x6xf32>) -> tensor<?x6x8xf32>
            %made = stablehlo.exponential %x : tensor<?x6x8xf32>
            return %turned, %back, %made : tensor<?x8x6xf32>, tensor<?x6x8xf32>, tensor<?x6x8xf32>
          }
        }""")
    )
    turned, back, made = (va.graph.names[value] for value in va.graph.outputs)
    assert kinds(va, turned, back, made) == ["view", "view", "copy"]
    assert va.root(back) is va.graph.inputs[0] and va.layout(turned).strides == (48, 1, 8)
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
    assert not va.overlaps(left, right) and va.overlaps(left, flat)
    x = np.arange(3 * 48, dtype=np.float32).reshape(3, 6, 8)
    for device in ("reference", "cpu"):
        run = irs.compile(irs.fuse(graph), device=device)
        found = [np.asarray(each) for each in run(x)]
        for one, other in zip(found, (x[:2, :, :4], x[:2, :, 4:], x.reshape(-1, 8), 3), strict=True):
            assert np.array_equal(one, other)
        with pytest.raises(irs.errors.RunError, match="narrow"):  # there are no two of them
            run(x[:1])


@pytest.mark.filterwarnings("ignore")
def test_a_model_as_if_its_input_were_channels_last(torch: Any) -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = torch.nn.Conv2d(3, 8, 3)
            self.norm = torch.nn.BatchNorm2d(8)
            self.pool = torch.nn.MaxPool2d(2)

        def forward(self, x: Any, y: Any) -> Any:
            z = self.pool(torch.relu(self.norm(self.a(x))))
            left, right = z.chunk(2, 1)
            parts = [left * 2, right + 1]
            return z.permute(0, 2, 3, 1).reshape(-1, 8), z.flatten(1), torch.cat(parts, 1), y.t().reshape(-1)

    x, y = torch.rand(2, 3, 16, 16), torch.rand(4, 5)
    last = x.to(memory_format=torch.channels_last)
    model = Net().eval()
    given, laid_out = irs.load(model, x, y), irs.load(model, last, y)
    now, then, real = irs.ViewAliases(given), irs.ViewAliases(given, layouts={"x": "channels_last"}), irs.ViewAliases(laid_out)
    assert [now.kind(value) for value in given.outputs] == ["copy", "view", "copy", "copy"]
    assert [then.kind(value) for value in given.outputs] == ["view", "copy", "copy", "copy"]
    assert [real.kind(value) for value in laid_out.outputs] == ["view", "copy", "copy", "copy"]
    assert [then.layout(value) for value in given.outputs] == [real.layout(value) for value in laid_out.outputs]
    assert all(then.layout(value).strides is not None for value in then.tensors())  # type: ignore[union-attr]
    for name in ("conv2d", "batch_norm", "relu", "max_pool2d", "mul", "add", "cat"):
        assert then.layout(name) == real.layout(name) != now.layout(name), name
    assert str(irs.ViewAliases(given, layouts={"x": "rows"}).graph) == str(given)


def test_what_went_through_a_list_tells_no_strides() -> None:
    g = parsed(
        "x y i:int | l:Tensor[] = ListConstruct y; z = exp x; w:Tensor[] = append l z; a = neg y; b = __getitem__ l i | a b",
        "Float(2, 3, strides=[3, 1])",
    )
    after = irs.ViewAliases(g, layouts={"x": (1, 0)}).graph
    strides = {name: type.strides for name in "xyzab" if isinstance(type := after.value(name).type, TensorType)}
    assert (strides["x"], strides["y"], strides["z"], strides["b"]) == ((1, 2), (3, 1), (1, 2), None)


def test_values_of_the_program_stand_for_those_of_the_assumption() -> None:
    g = parsed("x:Float(*, 3, *, *) | d = [0, 2, 3, 1]; p = permute x d; f = 0; c = contiguous p f | c")
    assert not irs.ViewAliases(g).is_decided("c")
    va = irs.ViewAliases(g, layouts={g.value("x"): "channels_last"})
    assert va.kind(g.value("c")) == "view" and va.is_decided("c") and va.static_kind("c") == "view"


def test_what_cannot_be_assumed_is_refused() -> None:
    g = irs.parse("graph(%x : Float(2, 3), %n : int, %t : Tensor):\n  %y : Tensor = aten::exp(%x)\n  return (%y)")
    for layouts, words in (
        ({"y": (1, 0)}, "not an input"), ({"n": (0,)}, "rank is not known"), ({"t": "rows"}, "rank is not known"),
        ({"x": (0, 0)}, "each of 2 axes"), ({"x": "channels_last"}, "not a layout of a tensor of 2 axes"),
    ):  # fmt: skip
        with pytest.raises(ArgumentError, match=words):
            irs.ViewAliases(g, layouts=layouts)


def test_an_update_is_a_view_of_its_operand() -> None:
    va = irs.ViewAliases(
        parsed(
            "cache:Float(4, 8, strides=[8, 1]) row:Float(8, strides=[1]) | 0 = 0; 2 = 2; b = False; place = select cache 0 2; "
            "new = copy_ place row b | new"
        )
    )
    assert va.root("new") is va.graph.value("cache") and str(va.bytes("new")) == "bytes 64–95"
