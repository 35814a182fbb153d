"""Strings, types, constant tensors and excerpts: the parts of which a text is read and written."""

import zlib
from base64 import urlsafe_b64encode

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from irscope.errors import ParseError

from irscope.ir import (  # isort: skip
    ANY, BOOL, DEVICE, DTYPES, FLOAT, INT, NONE, NUMBER, STR, AwaitType, ClassType, DictType, FutureType, ListType, Opaque, OptionalType,
    RRefType, TensorData, TensorType, TupleType, UnionType, steps,
)  # fmt: skip
from irscope.ir.structural import same_payload
from irscope.ir.text import parse, parse_type
from irscope.ir.text.constant_text import MAX_PACKED, MAX_SHOWN, packed, tensor_text
from irscope.ir.text.lexer import Cursor, quote, unquote
from irscope.ir.text.printer import excerpt
from irscope.ir.text.type_text import annotation


@given(st.text())
@example('\\"\n\x00\x7f\ud800é')
@settings(max_examples=300, deadline=None)
def test_quoting_is_undone_by_unquoting(text):
    literal = quote(text)
    assert "\n" not in literal
    assert Cursor(literal).string() == text or any("\ud800" <= char <= "\udfff" for char in text)


@given(st.binary(max_size=20).map(lambda data: data.decode("utf-8", "replace")))
@settings(max_examples=100, deadline=None)
def test_bytes_as_torch_prints_them(text):
    """A negative char: each octal digit is a remainder of a negative number, counted down from `0`."""
    escaped = ""
    for byte in text.encode():
        number = byte - 256 if byte > 127 else byte
        digits = [int(number / 64), int((number - 64 * int(number / 64)) / 8), number - 8 * int(number / 8)]
        escaped += "\\" + "".join(chr(ord("0") + digit) for digit in digits)
    assert unquote(f'"{escaped}"') == text


def test_comments_and_spaces_mean_nothing():
    cursor = Cursor(" # a\n\t# b\n x")
    assert cursor.take("x") and cursor.skip() == len(cursor.text)


@pytest.mark.parametrize(("text", "word"), [("a, b", "a"), ("f(x, [1]), y", "f(x, [1])"), ('"a,]" ]', '"a,]"'), ("<x y>]", "<x y>")])
def test_balanced_text_ends_where_its_brackets_do(text, word):
    assert Cursor(text).balanced() == word


def test_balanced_text_that_never_ends():
    with pytest.raises(ParseError, match="expected a closing bracket"):
        Cursor("f(").balanced()


tensors = st.builds(
    TensorType,
    st.one_of(st.none(), st.sampled_from(sorted(DTYPES))),
    st.none(),
    st.none(),
    st.sampled_from([None, "cpu", "cuda:1"]),
    st.sampled_from([None, True, False]),
    st.booleans(),
)
dims = st.lists(st.one_of(st.integers(0, 2**40), st.none(), st.sampled_from(["SS(-1)", "s0"])), max_size=4).map(tuple)
ranked = st.builds(
    lambda tensor, shape, strided: tensor.with_(
        shape=shape,
        strides=tuple(range(len(shape))) if strided or not shape else None,
        dtype=tensor.dtype if shape else tensor.dtype or "float32",
    ),
    tensors,
    dims,
    st.booleans(),
)
simple = st.one_of(tensors, ranked, st.sampled_from([ANY, BOOL, DEVICE, FLOAT, INT, NONE, NUMBER, STR, ClassType("__torch__.a.M")]))
types = st.recursive(
    simple,
    lambda inner: st.one_of(
        *(st.builds(kind, inner) for kind in (ListType, OptionalType, FutureType, AwaitType, RRefType)),
        st.builds(DictType, inner, inner),
        st.lists(inner, max_size=3).map(lambda xs: TupleType(tuple(xs))),
        st.lists(inner, min_size=1, max_size=3).map(lambda xs: UnionType(tuple(xs))),
    ),
    max_leaves=5,
)


@given(types)
@settings(max_examples=300, deadline=None)
def test_what_a_type_prints_reads_back(type):
    assert parse_type(str(type)) == type


@pytest.mark.parametrize("text", [
    "Float(2, *, strides=[3, 1], requires_grad=0, device=cuda:0)", "Float()", "FloatTensor", "Tensor(requires_grad=1)",
    "Tensor[Undefined]", "Float(SS(-1), 2)[]", "Dict(str, Tensor?[])?", "()", "(int)", "NamedTuple(a : Tensor, b : (int, str))",
    "Union(int[], int, str)", "Future[Tensor]", "Await(Tensor)", "RRef[Tensor]", "Enum<__torch__.Color>", "InterfaceType<I>",
    "__torch__.___torch_mangle_0.M[]", "Tensor(2, *)", "BFloat16(1, requires_grad=0)", "t[]", "AnyEnumType",
])  # fmt: skip
def test_the_words_of_torch_are_kept(text):
    assert str(parse_type(text)) == text


@pytest.mark.parametrize(("text", "same"), [
    ("Optional[Tensor]", "Tensor?"), ("List[Dict[str, int]]", "Dict(str, int)[]"), ("Tuple[int, str]", "(int, str)"),
    ("Future(Tensor)", "Future[Tensor]"), ("Union[int, str]", "Union(int, str)"), ("number", "Scalar"), (" int [ ] ", "int[]"),
])  # fmt: skip
def test_other_spellings(text, same):
    assert str(parse_type(text)) == same


def test_a_named_tuple_knows_its_elements():
    assert parse_type("NamedTuple(a : Tensor, b : int)").elements == (TensorType(), INT)


@pytest.mark.parametrize(
    "text", ["", "int[", "int]", "Dict(str)", "Float(2", "Float(2,strides=[1,1])", "Float(x=1)", "(int", "int int", "%x"]
)
def test_what_is_not_a_type_is_refused(text):
    with pytest.raises(ParseError, match="line 1, column"):
        parse_type(text)


def test_annotations_are_those_of_python():
    assert annotation(parse_type("Dict(str, (Float(2), int?)[])")) == "Dict[str, List[Tuple[Tensor, Optional[int]]]]"


TENSOR_TEXT_DTYPES = ["float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64"]


def read(text: str, type: str = "Tensor") -> object:
    return parse(f"graph():\n  %c : {type} = prim::Constant[value={text}]()\n  return (%c)").node("c").attrs["value"]


@given(
    st.sampled_from(TENSOR_TEXT_DTYPES).flatmap(
        lambda dtype: arrays.arrays(dtype, arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
    )
)
@settings(max_examples=200, deadline=None)
def test_what_is_printed_has_the_same_elements(array):
    tensor = TensorData.of(array)
    type = TensorType(tensor.dtype, tensor.shape)
    back = read(tensor_text(tensor, type), str(type))
    assert same_payload(back, tensor)


def test_many_elements_are_packed_unless_they_are_a_frontends_or_too_many():
    few, many = np.arange(MAX_SHOWN), np.arange(MAX_SHOWN + 1)
    assert "<" not in tensor_text(TensorData.of(few), None)
    assert tensor_text(TensorData.of(many), None).startswith("<Tensor CPULongType{11} ")
    assert tensor_text(TensorData("int64", many.shape, many, original=many), None) == "<Tensor>"
    assert tensor_text(TensorData.of(np.zeros(MAX_PACKED + 1)), None) == "<Tensor>"
    assert len(tensor_text(TensorData.of(np.tri(64, dtype=np.bool_)), None)) < 400


def test_every_bit_of_packed_elements_is_kept():
    bits = np.array([0x7FC00001, 0xFF800001, 0x80000000, 1] * 5, np.uint32)
    back = read(tensor_text(TensorData.of(bits.view(np.float32)), None))
    assert back.array.view(np.uint32).tolist() == bits.tolist()  # type: ignore[attr-defined]


@pytest.mark.parametrize(("dtype", "bits"), [
    ("float32", [0x7FC00001, 0x3F800000]), ("float32", [0xFFC00000]), ("float16", [0x7E01]), ("bfloat16", [0xFFC0, 0x3F80]),
    ("float64", [0x7FF8000000000001]),
])  # fmt: skip
def test_a_nan_that_the_word_does_not_hold_is_packed(dtype, bits):
    held = np.array(bits, {"bfloat16": "uint16", "float16": "uint16", "float32": "uint32", "float64": "uint64"}[dtype])
    array = held if dtype == "bfloat16" else held.view(dtype)
    for type in (TensorType(), TensorType(dtype, array.shape)):
        back = read(tensor_text(TensorData(dtype, array.shape, array), type), str(type))
        assert back.array.view(held.dtype).tolist() == bits
    assert "nan" in tensor_text(TensorData.of(np.array([np.nan, -np.inf], np.float32)), None)


ZEROS = packed(np.zeros(20))
MANY = urlsafe_b64encode(zlib.compress(bytes(1 << 20))).decode()


@pytest.mark.parametrize("inside", [
    f"CPULongType{{21}} {ZEROS}", f"CPULongType{{3000000000}} {ZEROS}", f"CPULongType{{20}} {MANY}", f"CPULongType{{20}} {ZEROS[:-4]}",
    "CPULongType{20} abc", f"CPUOddType{{20}} {ZEROS}",
])  # fmt: skip
def test_letters_that_are_not_those_of_the_tensor_are_refused(inside):
    with pytest.raises(ParseError, match=r"these letters are not|is not a device and an element type"):
        read(f"<Tensor {inside}>")


def test_bfloat16_is_read_to_the_nearest_even():
    torch = pytest.importorskip("torch", reason="the oracle is torch's rounding")
    numbers = [1.00390625, 1.01171875, 3.389e38, -1e-40, 0.1, float("inf")]
    back = read(f" {' '.join(map(str, numbers))} [ CPUBFloat16Type{{6}} ]")
    expected = torch.tensor(numbers, dtype=torch.bfloat16).view(torch.uint16).numpy()
    np.testing.assert_array_equal(back.array, expected)  # type: ignore[attr-defined]
    assert same_payload(read(tensor_text(back, None)), back)  # type: ignore[arg-type]


def test_a_single_element_needs_the_type_of_its_value():
    tensor = TensorData.of(np.float32([[0.1]]))
    assert tensor_text(tensor, TensorType("float32", (1, 1))) == "{0.1}"
    assert tensor_text(tensor, TensorType("float64", (1, 1))) == " 0.1 [ CPUFloatType{1,1} ]"
    assert tensor_text(tensor, None) == " 0.1 [ CPUFloatType{1,1} ]"


@pytest.mark.parametrize("text", [
    "1 1 [ QuantizedCPUQInt8Type{2}, qscheme: per_tensor_affine, scale: 0.1, zero_point: 0 ]",
    "1 1 [ CPUFloat8_e4m3fnType{2} ]",
    "[ SparseCPUFloatType{} indices: 1 2 [ CPULongType{2} ] ]",
])  # fmt: skip
def test_what_numpy_cannot_hold_stays_text(text):
    assert read(text) == Opaque(text)


def test_torch_prints_only_the_real_parts_of_complex_tensors_so_that_they_are_unknown():
    back = read(" 1  0 [ CPUComplexFloatType{2} ]")
    assert isinstance(back, TensorData) and (back.dtype, back.shape, back.array) == ("complex64", (2,), None)


def test_wide_rows_that_torch_splits_into_columns():
    torch = pytest.importorskip("torch", reason="the oracle is torch's own printer")
    graph = torch._C.Graph()
    node = graph.create("prim::Constant")
    node.t_("value", torch.arange(10.0).double().reshape(1, 10) * 1e70 / 7)
    node.output().inferTypeFrom(node.t("value"))
    graph.insertNode(node)
    graph.registerOutput(node.output())
    assert "Columns" in str(graph)
    back = parse(str(graph)).node("0").attrs["value"]
    np.testing.assert_allclose(back.array, node.t("value").numpy(), rtol=1e-3)


def test_several_rows_split_into_columns_are_out_of_order_and_so_unknown():
    back = read("Columns 1 to 2  1  2  4  5 Columns 3 to 3  3  6 [ CPULongType{2,3} ]")
    assert isinstance(back, TensorData) and (back.shape, back.array) == ((2, 3), None)


def test_a_negative_zero_that_torch_prints_without_a_point_stays_negative():
    def elements(text):
        head = "graph():\n  %c : Tensor = prim::Constant[value="
        return parse(f"{head}{text}]()\n  return (%c)").node("c").attrs["value"].array

    assert np.signbit(elements(" 1 -0 [ CPUFloatType{2} ]")).tolist() == [False, True]
    assert elements(" 1 -0 [ CPULongType{2} ]").tolist() == [1, 0]


G = parse("""graph(%c : bool, %x : Tensor):
  %a : Tensor = aten::relu(%x)
  %b : Tensor = aten::relu(%a)
  %d : Tensor = prim::If(%c)
    block0():
      %e : Tensor = aten::neg(%b)
      -> (%e)
    block1():
      -> (%b)
  %f : Tensor = aten::relu(%d)
  %g : Tensor = aten::relu(%f)
  return (%g)""")


def test_far_places_are_shown_apart():
    assert excerpt(G, {G.node("a"): "one", G.node("g"): "two"}, context=0) == (
        ">     %a : Tensor = aten::relu(%x)    one\n    …\n>     %g : Tensor = aten::relu(%f)    two"
    )


def test_the_end_of_a_block_can_be_marked():
    assert excerpt(G, {G.node("d").blocks[1]: "gives %b"}, context=1) == (
        "        block1():\n>         -> (%b)    gives %b\n      %f : Tensor = aten::relu(%d)"
    )


def test_results_are_done_after_the_blocks_and_before_the_next_node():
    kinds = [(step.kind, step.node.op if step.node else "") for step in steps(G)]
    assert kinds.index(("done", "prim::If")) == kinds.index(("leave", "prim::If"), kinds.index(("leave", "prim::If")) + 1) + 1
    assert [step.node for step in steps(G) if step.kind == "node"] == list(G.nodes())
