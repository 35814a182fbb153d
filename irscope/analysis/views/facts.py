"""Facts about operands and declared types during a walk over a program: numbers, lists of numbers, layouts of tensors."""

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Any, Final, Literal, NamedTuple

from irscope.analysis.shapes import Shapes
from irscope.ir import INT, NOT_CONSTANT, Dim, Graph, ListType, Node, OptionalType, TensorType, Type, Value, erase_refinements
from irscope.ops.registry import schema_of
from irscope.ops.traits import UNPACKS
from irscope.ops.view_steps import Extent, Layout, Num, Outcome, Step, is_at_least, make_layout, product, quotient, row_major

# Symbolic integers: sizes of tensors that are not known before the run, and sums and products of these.
#
# A number has a name if nothing better is known: `size(%x, 0)` for an extent, which is at least 0; `~%n` for others, of
# unknown sign. The same computation gets the same name, so that a size computed twice is recognised as one number.

Known = Callable[[int], Any]
"""Maps the position of an operand to its known value: a number, a tuple, an object with `shape`, or NOT_CONSTANT."""


def number_of(node: Node, operand: Known, name: str) -> Any:
    """The number, or tuple of numbers, that a node computes; a new name if the op is not one of the few here, and
    NOT_CONSTANT for a list of which nothing is known.
    """
    rule = _RULES.get(node.op)
    found = None
    if rule is not None:
        try:
            found = rule(operand, len(node.inputs))
        except (_NotKnown, IndexError, TypeError):
            found = None
    if found is not None:
        return found
    return Extent.of(f"~{name}") if node.output.type == INT else NOT_CONSTANT


class _NotKnown(Exception):
    """Raised when an operand is not known well enough."""


def _of(given: Any, *kinds: type) -> Any:
    if not isinstance(given, kinds):
        raise _NotKnown
    return given


def _num(given: Any) -> Num:
    return _of(given, int, Extent)  # type: ignore[no-any-return]


def _shape(given: Any) -> tuple[Num, ...]:
    return _of(getattr(given, "shape", None), tuple)  # type: ignore[no-any-return]


def _size(operand: Known, count: int) -> Any:
    shape = _shape(operand(0))
    return shape if count == 1 else shape[_of(operand(1), int)]


def _slice(operand: Known, count: int) -> Any:
    start, end, step = (operand(index) for index in (1, 2, 3))
    return _of(operand(0), tuple)[slice(start, end, step)]


def _plus(operand: Known, count: int) -> Any:
    a, b = operand(0), operand(1)
    return a + b if isinstance(a, tuple) and isinstance(b, tuple) else _num(a) + _num(b)


def _divided(operand: Known, count: int) -> Num:
    a, b = _num(operand(0)), _num(operand(1))
    exact = quotient(a, b)
    if exact is not None:
        return exact
    if isinstance(a, int) and isinstance(b, int) and b:
        return a // b
    return Extent.of(f"{'' if is_at_least(a, 0) and is_at_least(b, 0) else '~'}({a})//({b})")


def _rest(operand: Known, count: int) -> Num:
    a, b = _num(operand(0)), _num(operand(1))
    if quotient(a, b) is not None:
        return 0
    return Extent.of(f"{'' if is_at_least(a, 0) and is_at_least(b, 0) else '~'}({a})%({b})")


def _extreme(name: Literal["min", "max"], operand: Known, count: int) -> Num:
    a, b = _num(operand(0)), _num(operand(1))
    if is_at_least(a, b) or is_at_least(b, a):
        return a if is_at_least(a, b) == (name == "max") else b
    is_positive = (any if name == "max" else all)(is_at_least(each, 0) for each in (a, b))
    return Extent.of(f"{'' if is_positive else '~'}{name}({a}, {b})")


_RULES: Final[Mapping[str, Callable[[Known, int], Any]]] = {
    "aten::size": _size,
    "aten::sym_size": _size,
    "prim::shape": lambda operand, count: _shape(operand(0)),
    "aten::numel": lambda operand, count: product(_shape(operand(0))),
    "aten::sym_numel": lambda operand, count: product(_shape(operand(0))),
    "aten::dim": lambda operand, count: len(_shape(operand(0))),
    "prim::ListConstruct": lambda operand, count: tuple(_num(operand(index)) for index in range(count)),
    "aten::__getitem__": lambda operand, count: _of(operand(0), tuple)[_of(operand(1), int)],
    "aten::slice": _slice,
    "aten::list": lambda operand, count: _of(operand(0), tuple),
    "aten::add": _plus,
    "aten::sub": lambda operand, count: _num(operand(0)) - _num(operand(1)),
    "aten::mul": lambda operand, count: _num(operand(0)) * _num(operand(1)),
    "aten::neg": lambda operand, count: _num(operand(0)) * -1,
    "aten::floordiv": _divided,
    "aten::floor_divide": _divided,
    "aten::remainder": _rest,
    "prim::min": partial(_extreme, "min"),
    "prim::max": partial(_extreme, "max"),
    "aten::Int": lambda operand, count: _num(operand(0)),
    "prim::NumToTensor": lambda operand, count: _num(operand(0)),
    "aten::ScalarImplicit": lambda operand, count: _num(operand(0)),
    "aten::IntImplicit": lambda operand, count: _num(operand(0)),
}


def is_whole_list(type: object) -> bool:
    return isinstance(type, ListType) and type.element == INT


# The placement of one tensor: its buffer and its layout in it.

Kind = Literal["view", "copy", "input"]

Origin = Literal["made", "given", "open"]
"""made: a node of the graph allocates the buffer. given: it existed before the run. open: it may be any buffer, even a
different one each time."""


class Failure(NamedTuple):
    """The step of a view op that is not a view, or need not be one."""

    step: Step
    before: Layout
    outcome: Outcome


class Placement(NamedTuple):
    """The buffer and layout of a tensor: a value, or an item of a list, which has no name yet."""

    kind: Kind
    """`view` includes tensors in an unknown buffer; `copy` includes tensors that may be a view."""
    root: Value | None
    """The value that its offset counts from: an input, the result of the node that allocates the buffer, or else the first
    value whose buffer is not known. None for an item that would be its own root."""
    origin: Origin
    """The origin of the root's buffer."""
    layout: Layout | None
    """The layout; None if not even the number of axes is known."""
    source: Value | None = None
    """The operand that it is a view or a copy of; None if its elements are computed."""
    in_place: bool = False
    """Whether it is the operand itself, after a write."""
    is_decided: bool = True
    """Whether every run makes the same choice between view and copy."""
    failure: Failure | None = None


class Facts:
    """The facts known so far."""

    def __init__(self, graph: Graph, shapes: Shapes, *, rows: bool, unmarked: bool) -> None:
        self.graph = graph
        self.shapes = shapes
        self._rows = rows or bool(graph.functional)
        """Whether tensors that exist before the run are laid out row by row unless their types say otherwise."""
        self.unmarked = unmarked
        """Whether no tensor that exists before the run is marked as a conjugate or as negated."""
        self.of: dict[Value, Placement] = {}
        self._known: dict[Value, Any] = {}
        self._numbers: dict[Value, Any] = {}
        """Whole numbers that are tensors, as traces have them."""
        self.negated: set[Value] = set()
        """Tensors that torch may have marked as negated (parts of conjugates); an op that declares no view computes them first."""
        self.plain: set[Value] = set()
        """Complex tensors that are certainly not marked as conjugates."""
        self.conjugated: set[Value] = set()
        """Complex tensors that certainly are marked as conjugates."""
        self.not_as_typed: Collection[Value] = ()
        """Values whose layout may differ from their types, because another layout is demanded of a value they depend on."""
        self._declared_layouts: dict[tuple[Any, ...], Layout] = {}
        self._layouts: dict[Layout, Layout] = {}
        self.reshaped = shapes.reshaped
        self._written_lists = shapes.written_lists

    def declared(self, value: Value, offset: Num | None) -> Layout | None:
        """The layout that the type declares; if `_rows` is set, values that no node produces default to row by row."""
        type = self.shapes.type(value)
        if isinstance(type, OptionalType):
            type = type.element
        if not isinstance(type, TensorType) or type.shape is None or value in self.reshaped:
            return None
        shape = self._extents(value, type.shape)
        strides: tuple[Num, ...] | None = type.strides if value not in self.not_as_typed else None
        if strides is None and self._rows and value not in self.graph.producer:
            strides = row_major(shape)
        key = shape, strides, offset, type.dtype
        found = self._declared_layouts.get(key)
        if found is None:
            found = self._declared_layouts[key] = self.shared(make_layout(shape, strides, offset, type.dtype))
        return found

    def shared(self, layout: Layout) -> Layout:
        """The interned layout, one object for all equal ones."""
        return self._layouts.setdefault(layout, layout)

    def _extents(self, value: Value, shape: tuple[Dim, ...]) -> tuple[Num, ...]:
        if _WHOLE.issuperset(map(type, shape)):
            return shape  # type: ignore[return-value]
        name = f"%{self.graph.names[value]}"
        return tuple(dim if isinstance(dim, int) else Extent.of(dim or f"size({name}, {axis})") for axis, dim in enumerate(shape))

    def note_number(self, node: Node) -> None:
        """Record integers that a node computes, by name if they are not known."""
        if len(node.outputs) > 1:
            items = self.argument(node.inputs[0]) if node.op in UNPACKS else NOT_CONSTANT
            if isinstance(items, tuple) and len(items) == len(node.outputs):
                self._known.update(zip(node.outputs, items, strict=True))
            return
        (output,) = node.outputs
        found = NOT_CONSTANT if is_tensor(output.type) else self.shapes.known(output)
        if found is NOT_CONSTANT and self.is_trusted(output):
            operand = [self.argument(value) for value in node.inputs]
            found = number_of(node, operand.__getitem__, f"%{self.graph.names[output]}")
        if is_tensor(output.type):
            self._numbers[output] = found
        else:
            self._known[output] = found

    def is_trusted(self, value: Value) -> bool:
        """Whether a value keeps its initial contents: it is not a list that some op may write."""
        if not isinstance(value.type, ListType):
            return True
        return self._written_lists is not None and erase_refinements(value.type) not in self._written_lists

    def device_of(self, value: Value) -> str | None:
        type = self.shapes.type(value)
        return type.device if isinstance(type, TensorType) else None

    def arguments_of(self, node: Node) -> dict[str, Any] | None:
        schema = schema_of(node)
        if schema is None:
            return None
        inputs = node.inputs
        return {
            argument.name: self.argument(inputs[index]) if index < len(inputs) else argument.default
            for index, argument in enumerate(schema.arguments)
            if index
        }

    def argument(self, value: Value) -> Any:
        """The known value of an operand: a number, a list of numbers, a tensor by its layout; else NOT_CONSTANT."""
        known = self._known
        if value in known:
            return known[value]
        found: Any
        if value in self._numbers:
            return self._numbers[value]
        if is_tensor(value.type):
            placement = self.of.get(value)
            found = _Another(placement.layout if placement else None, self.device_of(value))
        else:
            found = self.shapes.known(value)
            if found is NOT_CONSTANT and value.type == INT:
                found = Extent.of(f"~%{self.graph.names[value]}")
        known[value] = found
        return found

    def tensors_of(self, node: Node) -> Iterator[Value]:
        """The tensors that a node computes from, including those in its list operands."""
        for value in node.inputs:
            if is_tensor(value.type):
                yield value
            elif isinstance(value.type, ListType) and is_tensor(value.type.element):
                producer = self.graph.producer.get(value)
                if producer is None or producer.op != "prim::ListConstruct":
                    yield value
                else:
                    yield from producer.inputs


_WHOLE: Final = frozenset({int})


class _Another:
    """A tensor among the arguments of a view op."""

    __slots__ = ("device", "dtype", "shape")

    def __init__(self, layout: Layout | None, device: str | None) -> None:
        self.shape = None if layout is None else layout.shape
        self.dtype = None if layout is None else layout.dtype
        self.device = device


def has_numbers(layout: Layout) -> bool:
    return layout.strides is not None and _WHOLE.issuperset(map(type, (*layout.shape, *layout.strides)))


def is_complex(layout: Layout) -> bool:
    return layout.dtype is not None and layout.dtype.startswith("complex")


def is_tensor(type: Type) -> bool:
    """Whether a type is a tensor or an optional tensor."""
    return type.__class__ is TensorType or (isinstance(type, OptionalType) and isinstance(type.element, TensorType))
