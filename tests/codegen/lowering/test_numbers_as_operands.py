"""A number that a kernel takes as a constant it also takes as an operand, unless the trait says that it decides what is computed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from irscope._base.frozen import EMPTY, FrozenDict
from irscope.codegen.lowering import spec_of_group
from irscope.errors import IrscopeError
from irscope.ir import (
    BOOL,
    FLOAT,
    INT,
    NONE,
    NUMBER,
    REQUIRED,
    STR,
    Block,
    ListType,
    Node,
    OpSchema,
    OptionalType,
    TensorType,
    Type,
    Value,
    new_id,
)  # fmt: skip
from irscope.ops.registry import known_names, overloads
from irscope.ops.traits import DECIDES

TENSOR = TensorType("float32", (4, 8), (8, 1))
TYPES: dict[type, Type] = {float: FLOAT, int: INT, bool: BOOL, type(None): NONE, str: STR}


def bare(type: Type) -> Type:
    while isinstance(type, OptionalType):
        type = type.element
    return type


def numbers() -> Iterator[tuple[OpSchema, int]]:
    """Every argument of every schema that is a number, of ops that write nothing."""
    for name in sorted(known_names()):
        for schema in overloads(name):
            if schema.returns and not schema.is_mutable:
                yield from (
                    (schema, place) for place, each in enumerate(schema.arguments) if bare(each.type) in (FLOAT, NUMBER)
                )


def group(schema: OpSchema, place: int, *, operand: bool) -> Node:
    """One op as a group, with 0.5 for the number: a constant of the body, or an operand."""
    params, nodes, inputs = [], [], []
    for index, argument in enumerate(schema.arguments):
        type = bare(argument.type)
        if isinstance(type, TensorType) or (operand and index == place):
            params.append(Value(new_id(), TENSOR if isinstance(type, TensorType) else FLOAT))
            inputs.append(params[-1])
            continue
        default = None if argument.default is REQUIRED else argument.default
        given = 0.5 if index == place or (default is None and type in (FLOAT, NUMBER)) else default
        stored = int(given) if isinstance(given, bool) else given
        value = Value(new_id(), TYPES.get(given.__class__, ListType(INT)))
        nodes.append(
            Node(new_id(), "prim::Constant", (), (value,), EMPTY if given is None else FrozenDict(value=stored))
        )
        inputs.append(value)
    outputs = tuple(Value(new_id(), TENSOR) for _ in schema.returns)
    nodes.append(Node(new_id(), schema.name, tuple(inputs), outputs))
    block = Block(new_id(), tuple(params), tuple(nodes), outputs[:1])
    return Node(new_id(), "prim::FusionGroup", tuple(params), outputs[:1], FrozenDict(kind="pointwise"), (block,))


def has_kernel(node: Node) -> bool:
    try:
        spec_of_group(node, [value.type for value in node.inputs])
    except IrscopeError:
        return False
    return True


@pytest.mark.filterwarnings("ignore")
def test_numbers_may_be_operands_unless_they_decide() -> None:
    tried = 0
    for schema, place in numbers():
        try:
            constant = has_kernel(group(schema, place, operand=False))
        except (AssertionError, IndexError, TypeError, ValueError):
            continue  # not an op that takes tensors like these
        if not constant:
            continue
        tried += 1
        decides = schema.arguments[place].name in DECIDES.get(schema.name, ())
        assert has_kernel(group(schema, place, operand=True)) != decides, (
            schema.full_name,
            schema.arguments[place].name,
        )
    assert tried > 50
