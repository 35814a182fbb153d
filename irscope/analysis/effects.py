"""What one node reads, writes and calls, by its op alone."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from irscope.ir import (
    BOOL,
    COMPLEX,
    FLOAT,
    INT,
    NUMBER,
    REQUIRED,
    STR,
    AliasAnnotation,
    Argument,
    ClassType,
    Graph,
    ListType,
    Node,
    OpSchema,
    OptionalType,
    PrimitiveType,
    TensorType,
    Type,
    Value,
    parts,
    walk,
)
from irscope.ir.module import symbol_name
from irscope.ops.op import counts_with_results, has_side_effects
from irscope.ops.registry import effect_of, functional_source, overloads, schema_of
from irscope.ops.traits import (
    CHANGES_RANDOM_STATE,
    KNOWN_SIDE_EFFECTS,
    LIKE_ANOTHER,
    OBJECT_READERS,
    OBJECT_WRITERS,
    READ_NOTHING,
    READS_SHAPE,
    SHAPE_READERS,
)

# Effects of ops that their schemas do not state: unseen code, ending the program, reading less than everything.

ReadKind = Literal["deep", "shape", "object", "none"]
"""deep: data and shape of every tensor operand and of all contents of containers. shape: tensors' shapes alone.
object: which objects a container holds, not those objects. none: operands are passed on unread."""


def reads_by_name(op: str) -> ReadKind | None:
    """How an op with a rule of its own reads its operands, whatever its schema; None for ordinary ops."""
    if op in READ_NOTHING:
        return "none"
    if op.startswith("prim::") and (op in READS_SHAPE or op in SHAPE_READERS):
        return "shape"
    return "object" if op == "prim::ListUnpack" else None


def is_fully_opaque(op: str) -> bool:
    """Whether the op runs unseen code: calls, other processes, later execution."""
    return has_side_effects(op) and op not in KNOWN_SIDE_EFFECTS


def changes_random_state(op: str) -> bool:
    """Whether the op may set or use the random state without a draw that the graph sees."""
    return op in CHANGES_RANDOM_STATE or is_fully_opaque(op)


# The callee of a call, by the name that the program's text gives it, and the operands that the call passes.


def callee_of(graph: Graph, node: Node) -> str | None:
    """The name of the program that a node calls; None for other nodes, and for callees known only at run time.

    A function has its own name, a method its class and name (`__torch__.Net.forward`), a symbol its name without `@`.
    """
    naming = CALLS.get(node.op)
    return naming(graph, node) if naming is not None else None


def operands_of(node: Node) -> tuple[Value, ...]:
    """The operands that a call passes to the callee's parameters, in order; the object of a method is the first."""
    return node.inputs[1:] if node.op == "prim::CallFunction" else node.inputs


def calls_in(graph: Graph) -> Iterator[tuple[Node, str]]:
    """The calls of a program whose callee has a name, in textual order."""
    for node in graph.nodes():
        if node.op in CALLS:
            name = callee_of(graph, node)
            if name is not None:
                yield node, name


def _function(graph: Graph, node: Node) -> str | None:
    made = graph.producer.get(node.inputs[0]) if node.inputs else None
    name = made.attrs.get("name") if made is not None and made.op == "prim::Constant" else None
    return name if isinstance(name, str) else None


def _method(graph: Graph, node: Node) -> str | None:
    holder, name = node.inputs[0].type if node.inputs else None, node.attrs.get("name")
    return f"{holder.name}.{name}" if isinstance(holder, ClassType) and isinstance(name, str) else None


def _symbol(graph: Graph, node: Node) -> str | None:
    name = node.attrs.get("callee")
    return symbol_name(name) if isinstance(name, str) else None


CALLS: Final[Mapping[str, Callable[[Graph, Node], str | None]]] = {
    "prim::CallFunction": _function,
    "prim::CallMethod": _method,
    "func::call": _symbol,
    "util::call": _symbol,
}
"""The ops that run another program."""


# The memory effects of one op: which operands its results share, what it reads and writes, and its other effects.
#
# They come from the op's schema (`irscope.ops.registry`, corrected by the overlay), compiled once per overload into a
# `MemorySignature`; structured nodes and constructors have rules of their own in `irscope.analysis.alias`. This
# module knows ops, not programs: whether two operands are the same memory is decided by the points-to graph.
#
# Parts of an operand. A list is an object with contents: `append` writes the object and not the tensors in it,
# `_foreach_add_` writes the tensors and not the object. The data of a tensor is distinguished from its shape (extents, strides,
# storage): taking a view reads the shape alone, so that it may cross a write of data, while `transpose_`
# or an `out=` argument, which may be resized, write both.

Part = Literal[0, 1]
OBJECT: Final[Part] = 0
"""The operand itself: a tensor's memory, a list's slots."""
CONTENTS: Final[Part] = 1
"""The contents of the operand, which is a container."""

Source = tuple[int, Part]
"""An operand's position, and the part of it."""


@dataclass(frozen=True, slots=True)
class MemorySignature:
    """The effects of one overload on the memory of its operands."""

    results: tuple[tuple[Source, ...], ...] = ()
    """For each declared result, the operands that it may be; empty: fresh memory."""
    held: tuple[tuple[Source, ...], ...] = ()
    """For each declared result that is a list, the operands that it may hold besides fresh memory."""
    writes: tuple[Source, ...] = ()
    stores: tuple[int, ...] = ()
    """Operands that may be stored in an unknown place: `(a -> *)`."""
    reads: ReadKind = "deep"
    is_pure: bool = False
    """Nothing written, every result fresh and with fresh contents: the alias analysis can skip the node."""
    is_container: bool = False
    """Stores into or loads from containers: results and stores follow from the operands' own types."""
    is_opaque: bool = False
    """May do anything to its operands."""
    writes_shape: bool = False
    """Whether its writes may change shape or storage, not only data."""


PURE: Final = MemorySignature(is_pure=True)
PASSED_ON: Final = MemorySignature(is_pure=True, reads="none")
OPAQUE: Final = MemorySignature(is_opaque=True, writes_shape=True)

_TYPE_VARIABLES: Final = frozenset({"t", "t1", "t2", "tVal", "T"})
_IMMUTABLE: Final[frozenset[Type]] = frozenset({INT, FLOAT, BOOL, COMPLEX, STR, NUMBER, PrimitiveType("Device"), PrimitiveType("NoneType")})


def is_type_variable(type: Type) -> bool:
    """Whether a schema's type stands for any type, as `t` does in `t[](a!) self`."""
    return isinstance(type, PrimitiveType) and type.name in _TYPE_VARIABLES


class Signatures:
    """The signature of each node of one program; asks the registry once per op name and overload."""

    def __init__(self) -> None:
        self._candidates: dict[tuple[str, int, type | None], tuple[MemorySignature, ...]] = {}
        self._of_schema: dict[int, tuple[OpSchema, MemorySignature]] = {}

    def of(self, node: Node) -> MemorySignature:
        """The signature of the node; conservative if nothing is known about the op."""
        candidates = self.candidates(node.op, len(node.inputs))
        return candidates[0] if len(candidates) == 1 else self._chosen(node)

    def candidates(self, op: str, operands: int, first: type | None = None) -> tuple[MemorySignature, ...]:
        """The distinct signatures of the overloads that take this many operands; `first` is the class of the first one's
        type.

        Empty for an unknown op.
        """
        key = (op, operands, first)
        found = self._candidates.get(key)
        if found is None:
            if is_fully_opaque(op):
                found = (OPAQUE,)
            else:
                found = tuple(dict.fromkeys(compile_signature(s) for s in overloads(op) if fits(s, operands, first)))
                if found and operands in counts_with_results(overloads(op)):
                    found = (*found, OPAQUE)  # the last operands may be written: `_chosen` asks for the overload
                found = found or ((PURE,) if functional_source(op) else ())
            self._candidates[key] = found
        return found

    def _chosen(self, node: Node) -> MemorySignature:
        schema = schema_of(node)
        if schema is None:
            return OPAQUE if effect_of(node) != "pure" else PASSED_ON if node.op in READ_NOTHING else PURE
        kept = self._of_schema.get(id(schema))
        if kept is None:
            kept = self._of_schema[id(schema)] = (schema, compile_signature(schema))
        return kept[1]


def fits(schema: OpSchema, operands: int, first: type | None = None) -> bool:
    """Whether an overload may take this many operands, the first of a type of this class.

    Errs towards yes: it only rejects a list for a tensor parameter, and a tensor for a list or number parameter.
    """
    if operands > len(schema.arguments):
        return schema.is_vararg
    if any(argument.default is REQUIRED for argument in schema.arguments[operands:]):
        return False
    if first not in (TensorType, ListType) or not operands:
        return True
    wanted = schema.arguments[0].type
    while isinstance(wanted, OptionalType):
        wanted = wanted.element
    return not isinstance(wanted, TensorType) if first is ListType else not isinstance(wanted, ListType) and wanted not in _IMMUTABLE


def compile_signature(schema: OpSchema) -> MemorySignature:
    """The memory effects of an overload, from its annotations."""
    if is_fully_opaque(schema.name) or schema.is_varret:  # results that are not declared may be anything
        return OPAQUE
    letters = _letters(schema)
    results = tuple(_sources(result.alias, letters) for result in schema.returns)
    held = tuple(_sources(result.alias.element if result.alias else None, letters) for result in schema.returns)
    writes = tuple(write for index, argument in enumerate(schema.arguments) for write in _writes(index, argument))
    stores = tuple(i for i, argument in enumerate(schema.arguments) if _is_stored(argument, schema))
    container = _is_container(schema)
    reads = _read_kind(schema, container)
    pure = not (any(results) or any(held) or writes or stores or container)
    if pure and reads == "deep":
        return PURE
    resizes = bool(writes) and (schema.name in OBJECT_WRITERS or any(schema.arguments[i].keyword_only for i, _ in writes))
    return MemorySignature(results, held, writes, stores, reads, pure, container, False, resizes)


def _letters(schema: OpSchema) -> dict[str, list[Source]]:
    """The operands, or parts of operands, that each letter of the annotations means when the op starts."""
    found: dict[str, list[Source]] = {}
    for index, argument in enumerate(schema.arguments):
        alias = argument.alias
        if alias is None:
            continue
        for letter in alias.before:
            found.setdefault(letter, []).append((index, OBJECT))
        for letter in alias.element.before if alias.element else ():
            found.setdefault(letter, []).append((index, CONTENTS))
    return found


def _sources(alias: AliasAnnotation | None, letters: Mapping[str, list[Source]]) -> tuple[Source, ...]:
    if alias is None:
        return ()
    return tuple(source for letter in sorted(alias.after | alias.before) for source in letters.get(letter, ()))


def _writes(index: int, argument: Argument) -> list[Source]:
    alias, found = argument.alias, list[Source]()
    while alias is not None:
        if alias.is_write:
            found.append((index, CONTENTS if found or alias is not argument.alias else OBJECT))
        alias = alias.element
    return found


def _is_stored(argument: Argument, schema: OpSchema) -> bool:
    """Whether `(a -> *)` stores the operand in an unknown place; if a result's annotation names a, that result holds it
    instead."""
    alias = argument.alias
    if alias is None or "*" not in alias.after:
        return False
    given = [part for result in schema.returns if result.alias is not None for part in (result.alias, result.alias.element)]
    return all(part is None or not alias.before & part.before for part in given)


def _is_container(schema: OpSchema) -> bool:
    """Whether the op moves elements into or out of containers."""
    if any(is_type_variable(part) for declared in (*schema.arguments, *schema.returns) for part in walk(declared.type)):
        return True
    if any(r.alias is not None and "*" in (r.alias.before | r.alias.after) for r in schema.returns):
        return True
    takes = any(_holds_memory(a.type) for a in schema.arguments)
    gives = any(_holds_memory(r.type) and not (r.alias is not None and r.alias.names_memory) for r in schema.returns)
    return takes and gives and not schema.name.startswith("aten::_foreach_")


def _holds_memory(type: Type) -> bool:
    """Whether a value of this type may hold another with memory of its own, or may be of any type; an optional tensor does not."""
    while isinstance(type, OptionalType):
        type = type.element
    if isinstance(type, PrimitiveType):
        return type not in _IMMUTABLE and type.name in ("Any", "AnyListType", "AnyTupleType", "AnyClassType")
    return any(part not in _IMMUTABLE for part in parts(type))


def _read_kind(schema: OpSchema, container: bool) -> ReadKind:
    name = schema.name
    if name in READ_NOTHING:
        return "none"
    if (container and name in OBJECT_READERS) or (name == "aten::len" and not isinstance(schema.arguments[0].type, TensorType)):
        return "object"
    if name in SHAPE_READERS or (name in READS_SHAPE and not container):
        tensors = sum(isinstance(argument.type, TensorType) for argument in schema.arguments)
        return "shape" if tensors < 2 or name in LIKE_ANOTHER else "deep"
    return "deep"
