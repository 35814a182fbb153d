"""What a node means: the overload by its operand types, the effect by the schema, and the cost of asking."""

import subprocess
import sys
from typing import Any

import pytest

from irscope.ir import (  # isort: skip
    ANY, BOOL, FLOAT, INT, NONE, NUMBER, STR, TENSOR, DictType, ListType, Node, OptionalType, PrimitiveType, TensorType, TupleType, Type,
    Value, new_id,
)  # fmt: skip
from irscope.ops.op import choose_overload, draws_random_numbers
from irscope.ops.registry import bind, category_of, effect_of, known_names, lookup, op_of, overloads, schema_of
from irscope.ops.schemas import parse_schema
from tests.work import calls_made

TENSORS = ListType(TENSOR)
INTS = ListType(INT)


def node(op: str, *types: Type) -> Node:
    return Node(new_id(), op, tuple(Value(new_id(), type) for type in types))


def overload(op: str, *types: Type) -> str | None:
    schema = schema_of(node(op, *types))
    return None if schema is None else schema.full_name


@pytest.mark.parametrize(("op", "types", "expected"), [
    ("aten::add", (TENSOR, TENSOR, INT), "aten::add.Tensor"),
    ("aten::add", (TensorType("float32", (2,)), TensorType("int64", ()), INT), "aten::add.Tensor"),
    ("aten::add", (TENSOR, FLOAT, INT), "aten::add.Scalar"),
    ("aten::add", (TENSOR, TENSOR), "aten::add.Tensor"),
    ("aten::add", (INT, INT), "aten::add.int"),
    ("aten::add", (INT, FLOAT), "aten::add.int_float"),
    ("aten::add", (NUMBER, NUMBER), "aten::add"),
    ("aten::add", (TENSORS, TENSORS), "aten::add.t"),
    ("aten::add", (STR, STR), "aten::add.str"),
    ("aten::select", (TENSOR, INT, INT), "aten::select.int"),
    ("aten::clamp", (TENSOR, NONE, FLOAT), "aten::clamp"),
    ("aten::clamp", (TENSOR, NONE, TENSOR), "aten::clamp.Tensor"),
    ("aten::max", (TENSOR,), "aten::max"),
    ("aten::max", (TENSOR, TENSOR), "aten::max.other"),
    ("aten::max", (TENSOR, INT, BOOL), "aten::max.dim"),
    ("aten::append", (TENSORS, TENSOR), "aten::append.t"),
    ("aten::__getitem__", (DictType(STR, TENSOR), STR), "aten::__getitem__.Dict_str"),
    ("aten::__getitem__", (INTS, INT), "aten::__getitem__.t"),
    ("aten::to", (TENSOR, INT, BOOL, BOOL, NONE), "aten::to.dtype"),
    ("aten::to", (TENSOR, TENSOR, BOOL, BOOL, NONE), "aten::to.other"),
    ("aten::where", (TENSOR,), "aten::where"),
    ("aten::where", (TENSOR, TENSOR, FLOAT), "aten::where.ScalarOther"),
    ("prim::Print", (STR, INT, TENSOR), "prim::Print"),
])  # fmt: skip
def test_the_overload_follows_the_operand_types(op: str, types: tuple[Type, ...], expected: str) -> None:
    assert overload(op, *types) == expected


@pytest.mark.parametrize(("op", "types"), [
    ("aten::relu", (INTS,)), ("aten::relu", (TENSOR, INT)), ("aten::relu", ()), ("aten::append", (INTS, TENSOR)),
    ("aten::add", (STR, TENSOR)), ("my::op", (TENSOR,)),
])  # fmt: skip
def test_operands_that_no_overload_takes_are_opaque(op: str, types: tuple[Type, ...]) -> None:
    assert overload(op, *types) is None
    assert effect_of(node(op, *types)) == "opaque"


@pytest.mark.parametrize(("text", "operand", "fits"), [
    ("int[2] x", INT, True), ("int[2] x", FLOAT, False), ("int[] x", INT, False), ("int[] x", TupleType((INT, INT)), True),
    ("float x", INT, True), ("int x", FLOAT, False), ("Scalar x", TENSOR, True), ("Scalar x", BOOL, True), ("Tensor x", INT, False),
    ("Tensor? x", NONE, True), ("Tensor x", NONE, False), ("Tensor x", OptionalType(TENSOR), False), ("Tensor?[] x", TENSORS, True),
    ("Any x", INTS, True), ("Device? x", PrimitiveType("Device"), True), ("t[] x", TENSORS, True), ("t[] x", TENSOR, False),
])  # fmt: skip
def test_what_an_argument_takes(text: str, operand: Type, fits: bool) -> None:
    assert (choose_overload([parse_schema(f"test::f({text}) -> ()")], [operand]) is not None) == fits


def test_overloads_that_fit_exactly_win_and_a_type_variable_stands_for_one_type() -> None:
    schemas = [parse_schema("test::f.a(float x) -> ()"), parse_schema("test::f.b(int x) -> ()")]
    chosen = choose_overload(schemas, [INT])
    assert chosen is not None and chosen.overload == "b"
    schema = [parse_schema("test::f(t[] a, t b) -> ()")]
    assert choose_overload(schema, [TENSORS, TENSOR]) is not None
    assert choose_overload(schema, [TENSORS, INT]) is None


@pytest.mark.parametrize(("op", "types", "effect"), [
    ("aten::relu", (TENSOR,), "pure"), ("aten::relu_", (TENSOR,), "in-place"), ("aten::t", (TENSOR,), "view"),
    ("aten::dropout", (TENSOR, FLOAT, BOOL), "view"), ("aten::type_as", (TENSOR, TENSOR), "view"),
    ("aten::append", (TENSORS, TENSOR), "in-place"), ("prim::Print", (TENSOR,), "opaque"),
    ("prim::RaiseException", (STR, NONE), "opaque"), ("prim::SetAttr", (ANY, TENSOR), "opaque"),
    ("prim::CallMethod", (ANY, TENSOR), "opaque"), ("^my_function", (TENSOR,), "opaque"), ("c10d::allreduce_", (TENSORS,), "opaque"),
    ("my::op", (TENSOR,), "opaque"),
])  # fmt: skip
def test_effects(op: str, types: tuple[Type, ...], effect: str) -> None:
    assert effect_of(node(op, *types)) == effect


def test_a_batch_norm_writes_its_statistics_unless_it_is_known_not_to_train() -> None:
    optional = OptionalType(TENSOR)
    norm = node("aten::batch_norm", TENSOR, optional, optional, optional, optional, BOOL, FLOAT, FLOAT, BOOL)
    assert effect_of(norm) == "in-place" and effect_of(norm, {"training": True}) == "in-place"
    assert effect_of(norm, {"training": False}) == "pure"


def test_random_ops_and_those_whose_flag_is_off() -> None:
    assert category_of(node("aten::rand_like", TENSOR, NONE, NONE, NONE, NONE, NONE)) == "random"
    assert category_of(node("aten::bernoulli", TENSOR, NONE)) == "random"
    assert draws_random_numbers("aten::dropout", {"train": True})
    assert not draws_random_numbers("aten::dropout", {"train": False})
    assert not draws_random_numbers("aten::scaled_dot_product_attention", {"dropout_p": 0.0})
    assert not draws_random_numbers("aten::relu")


def test_random_ops_are_those_that_torch_tags(torch: Any) -> None:
    missed = []
    for name in {schema.name for schema in torch._C._jit_get_all_schemas() if schema.name.startswith("aten::")}:
        packet = getattr(torch.ops.aten, name.removeprefix("aten::"), None)
        tags = [tag for each in (packet.overloads() if packet else ()) for tag in getattr(packet, each).tags]
        if torch.Tag.nondeterministic_seeded in tags and not draws_random_numbers(name):
            missed.append(name)
    harmless = {"fused_sdp_choice", "softmax_with_shape", "no_dropout_inplace", "attention", "for_mps", "backward"}
    assert [name for name in missed if not any(part in name for part in harmless)] == []


def test_binding_names_operands_and_fills_defaults_at_the_cost_of_a_look_up() -> None:
    add = node("aten::add", TENSOR, TENSOR)
    assert bind(add) == {"self": add.inputs[0], "other": add.inputs[1], "alpha": 1}
    add = node("aten::add_", TensorType("float32", (2, 3)), TensorType("float32", (3,)), INT)
    schema_of(add)
    assert calls_made(lambda: schema_of(add)) <= 12


def test_one_name_with_several_meanings() -> None:
    tensors, numbers = op_of(node("aten::add", TENSOR, TENSOR, INT)), op_of(node("aten::add", INT, INT))
    assert tensors is not None
    assert numbers is not None
    assert (tensors.category, numbers.category) == ("pointwise", "scalar")
    found = lookup("aten::add")
    assert found is not None and found.category == "pointwise"


def test_every_overload_is_declared_once() -> None:
    for name in known_names():
        declared = [schema.overload for schema in overloads(name)]
        assert len(declared) == len(set(declared)), f"{name}: {declared}"


def test_declared_schemas_are_torchs(torch: Any) -> None:
    """What the op files and the bundled text declare is what torch declares, but for corrected annotations."""
    theirs = {parse_schema(str(s)).full_name: parse_schema(str(s)) for s in torch._C._jit_get_all_schemas()}

    def signature(schema: Any) -> Any:
        return [(a.name, a.type, a.default, a.keyword_only, a.length) for a in schema.arguments], [r.type for r in schema.returns]

    for name in known_names():
        for schema in overloads(name):
            if schema.full_name in theirs:
                assert signature(schema) == signature(theirs[schema.full_name]), schema.full_name


def test_an_overload_that_only_torch_knows() -> None:
    pytest.importorskip("torch")
    assert overload("aten::add", TENSOR, TENSOR, INT, TENSOR) == "aten::add.out"
    assert overload("aten::linalg_eig", TENSOR) == "aten::linalg_eig"
    assert effect_of(node("aten::linalg_eig", TENSOR)) == "pure"


@pytest.mark.parametrize("before", ["sys.modules['torch'] = None", ""])
def test_core_ops_need_no_torch_and_do_not_load_it(before: str) -> None:
    program = f"""import sys
{before}
from irscope.ir.core import Node, Value
from irscope.ir.types import TENSOR, INT
from irscope.ops.registry import effect_of, schema_of
add = Node(1, 'aten::add_', (Value(2, TENSOR), Value(3, TENSOR), Value(4, INT)))
assert schema_of(add).full_name == 'aten::add_.Tensor'
schema_of(Node(1, 'stablehlo::add', (Value(2, TENSOR),)))
assert sys.modules.get('torch') is None
assert effect_of(Node(5, 'aten::nobody_knows', (Value(6, TENSOR),))) == 'opaque' or not {before!r}
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_an_op_on_tensors_that_shares_a_name_with_pythons_numbers_is_none_of_them() -> None:
    pytest.importorskip("torch")
    from irscope.ops.python.scalars import OPS
    from irscope.ops.schemas import torch_schemas

    shared = []
    for name in {op.name for op in OPS}:
        for schema in torch_schemas(name):
            returns = [result.type for result in schema.returns]
            if returns and all(isinstance(kind, TensorType) for kind in returns):
                types = [argument.type for argument in schema.arguments]
                assert category_of(node(name, *types)) != "scalar", schema
                shared.append(name)
    assert {"aten::__lshift__", "aten::gcd", "aten::lgamma", "aten::add"} <= set(shared)


def test_an_op_that_writes_its_last_operands_is_distinguished_from_one_that_takes_numbers_there() -> None:
    """`torch.log(x, out=y)` is `aten::log(%x, %y)`, which a table without that overload takes for a logarithm to a base."""
    pytest.importorskip("torch")
    from irscope.analysis.effects import Signatures
    from irscope.ops.schemas import torch_schemas

    same_text = {"aten::max.unary_out", "aten::min.unary_out", "aten::set.out"}  # torch.jit.script cannot call the first two
    signatures, count = Signatures(), 0
    for name in known_names():
        for schema in torch_schemas(name) if name.startswith("aten::") else ():
            places = {i for i, argument in enumerate(schema.arguments) if argument.keyword_only and argument.alias}
            if places and schema.full_name not in same_text:
                call = node(name, *(argument.type for argument in schema.arguments))
                assert {index for index, _ in signatures.of(call).writes} >= places, schema.full_name
                assert effect_of(call) != "pure", schema.full_name
                count += 1
    assert count > 500


def test_views_have_their_rules_whatever_was_imported_before() -> None:
    program = "from irscope.ops.registry import lookup; assert lookup('aten::permute').type_rule and lookup('aten::select').reference"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_without_torch_what_may_write_its_last_operand_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    import irscope.ops.registry as registry

    monkeypatch.setattr(registry, "torch_schemas", lambda name: ())
    registry._choose.cache_clear()
    try:
        assert (schema_of(call := node("aten::log", TENSOR, TENSOR)), effect_of(call)) == (None, "opaque")
        assert overload("aten::add", TENSOR, TENSOR, TENSOR) == "aten::add.Tensor"
    finally:
        registry._choose.cache_clear()
