"""What one op does with its operands: which it writes, may keep or give back, or only reads; and which of them never change."""

from __future__ import annotations

from irscope.analysis.effects import is_fully_opaque
from irscope.analysis.per_graph import alias_db_of
from irscope.ir import Graph, ListType, Node, OpSchema, OptionalType, TensorType, Type, Value
from irscope.ops.registry import effect_of, schema_of
from irscope.ops.traits import SHAPE_READERS

__all__ = ["Operands", "is_steady", "written_operands"]


def _writes_first_only(schema: OpSchema) -> bool:
    first, *others = schema.arguments
    if first.alias is None or not first.alias.is_write or any(argument.alias for argument in others):
        return False
    given = [result.alias for result in schema.returns if result.alias is not None]
    return len(schema.returns) <= 1 and all(alias.before == first.alias.before for alias in given)


def written_operands(node: Node, schema: OpSchema | None) -> list[Value]:
    if schema is None:
        return []
    pairs = zip(schema.arguments, node.inputs, strict=False)
    return [value for argument, value in pairs if argument.alias is not None and argument.alias.has_write]


class Operands:
    """What the ops of one graph do with their operands, each schema looked at once."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[int, ...] | None] = {}
        self._writes_first: dict[int, bool] = {}
        self._schemas: list[OpSchema] = []
        """Those looked at, so that no other gets the identity of one."""

    def kept(self, node: Node) -> tuple[Value, ...]:
        """The operands of which the node may keep or give back the memory, or write it as it likes."""
        op, inputs = node.op, node.inputs
        if op.startswith("prim::"):
            return () if op == "prim::Print" or op in SHAPE_READERS else inputs
        schema = None if node.blocks else schema_of(node)
        if schema is None:
            return inputs
        if id(schema) not in self._kept:
            self._schemas.append(schema)
            self._kept[id(schema)] = _kept_places(op, schema)
        places = self._kept[id(schema)]
        if places is None:
            return inputs
        named, given = len(schema.arguments), len(inputs)
        kept = tuple(inputs[place] for place in places if place < given) if places else ()
        return kept + inputs[named:] if given > named else kept

    def writes_first_only(self, schema: OpSchema) -> bool:
        """Whether an op writes its first operand and gives that back, and nothing else of any operand."""
        if id(schema) not in self._writes_first:
            self._schemas.append(schema)
            self._writes_first[id(schema)] = _writes_first_only(schema)
        return self._writes_first[id(schema)]


def _kept_places(op: str, schema: OpSchema) -> tuple[int, ...] | None:
    """The places of the operands that an op may keep; None for all."""
    if op in SHAPE_READERS:
        return ()
    if schema.is_vararg or is_fully_opaque(op):
        return None
    return tuple(i for i, a in enumerate(schema.arguments) if a.alias is not None or not _is_tensor(a.type))


def _is_tensor(type: Type) -> bool:
    return isinstance(type.element if isinstance(type, OptionalType) else type, TensorType)


def is_steady(graph: Graph, value: Value) -> bool:
    """Whether an operand is the same whenever it is read: a number, or a list that nobody writes."""
    type = value.type.element if isinstance(value.type, OptionalType) else value.type
    if isinstance(type, TensorType):
        return False
    if not isinstance(type, ListType):
        return True
    maker = graph.producer.get(value)
    if maker is not None and maker.op in ("prim::Constant", "prim::ListConstruct"):
        users = (use.user for use in graph.users.get(value, ()))
        if all(isinstance(user, Node) and _leaves_alone(user, value) for user in users):
            return True
    return not alias_db_of(graph).is_written(value)


def _leaves_alone(node: Node, value: Value) -> bool:
    """Whether a node only reads a list of numbers: it neither writes nor keeps it, nor gives it back."""
    if node.blocks or not node.op.startswith("aten::") or effect_of(node) not in ("pure", "view"):
        return False
    schema = schema_of(node)
    if schema is None or schema.is_vararg:
        return False
    pairs = zip(schema.arguments, node.inputs, strict=False)
    return not any(argument.alias for argument, operand in pairs if operand is value)
