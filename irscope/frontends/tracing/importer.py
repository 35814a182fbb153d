"""The recorder of a trace: nodes, constants, and the line of the user's source that each came from.

An array of the function is a `Traced`: it has a shape and an element type, and no elements. Values are named after the
variables that hold them: whenever a node is recorded, the local variables of the calling frame are examined, and an
array without a name takes that of its variable. The traced function's variables are examined once more after it has
returned, because nothing is recorded after its last assignment.
"""

import linecache
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, Final
from weakref import ref

import numpy as np

from irscope._base.loaded_code import cell_name
from irscope.errors import ArgumentError, CaptureError
from irscope.frontends.emit import CODES, Emitter, Place, Refused
from irscope.ir import DTYPES, NONE, TENSOR, Graph, Location, OptionalType, TensorData, TensorType, Type, Value

_HERE: Final = str(Path(__file__).parents[1])
_NUMPY: Final = str(Path(np.__file__).parent)


class Traced:
    """An array of the function that is being traced."""

    __slots__ = ("__weakref__", "dtype", "is_number", "origin", "read_only", "record", "root", "shape", "value")

    def __init__(self, record: "Recorder", value: Value, dtype: np.dtype[Any], shape: tuple[int, ...], root: object) -> None:
        self.record = record
        self.value = value
        self.dtype = dtype
        self.shape = shape
        self.root = root
        """Identifies the memory: a view has the root of its base."""
        self.origin: tuple[Value, object] | None = None
        """The value it was indexed from, and the key; None if it was not."""
        self.read_only = False
        """True for broadcast arrays and views of them, whose elements share memory."""
        self.is_number = False
        """Whether NumPy gives a number here, which no write changes: `x[0]` of a vector, `x.sum()`."""

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        count = 1
        for extent in self.shape:
            count *= extent
        return count


class Recorder:
    """Appends nodes as the function runs; `finish` returns the graph."""

    def __init__(self, kind: type[Traced], entry: Any = None) -> None:
        self._kind = kind
        self._entry = entry  # the code object of the traced function: frames inside it are scopes
        self._emit = Emitter("traced", self._place)
        self._inputs: list[Value] = []
        self._names: dict[Value, str] = {}
        """The variable that held each value first: values get their names at the end."""
        self._frame: FrameType | None = None
        """The frame of the traced function; a frame that is referenced keeps its variables after the return."""
        self._arrays: dict[int, tuple[Any, Traced]] = {}  # holds the array, so that its id is not reused
        self._bound: dict[Value, Any] = {}
        self._numbers: dict[int, list[ref[Traced]]] = {}
        """By the identity of the memory that they were read from, which lives as long as one of them."""
        self.copied_view = ""
        """The line of the first view that is a copy in the graph; after it no array may be written."""
        self.is_open = True

    # Arrays

    def input(self, name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Traced:
        value = self._emit.input(name, tensor_type(dtype, shape))
        self._inputs.append(value)
        self._names[value] = name
        return self._kind(self, value, dtype, shape, object())

    def op(self, name: str, *operands: Any, root: object = None) -> Any:
        """Record a node with one array as its result: fresh memory, or that of `root`."""
        return self.ops(name, 1, *operands, root=root)[0]

    def ops(self, name: str, count: int, *operands: Any, root: object = None) -> list[Any]:
        """Record a node whose results are arrays; operands are arrays, plain Python values, and lists of these."""
        inputs = self._inputs_of(operands)
        try:
            made = self._emit.ops(name, count, *inputs)
        except Refused as why:
            raise refused(str(why), wrong_arguments=True) from None
        return [self._array_of(value, root) for value in made]

    def node(self, name: str, operands: Sequence[Any], types: Sequence[Type]) -> tuple[Value, ...]:
        """Record a node whose results have these types."""
        return self._emit.node(name, self._inputs_of(operands), types)

    def _inputs_of(self, operands: Sequence[Any]) -> tuple[Value, ...]:
        if not self.is_open:
            raise refused("an array is used after the trace of its function has ended", "return it from there")
        place = self._place()
        inputs = tuple(self.value_of(operand) for operand in operands)
        self._emit.place = place
        return inputs

    def _array_of(self, value: Value, root: object = None) -> Traced:
        assert isinstance(value.type, TensorType) and value.type.shape is not None, value.type
        shape = tuple(extent for extent in value.type.shape if isinstance(extent, int))
        return self._kind(self, value, np.dtype(value.type.dtype), shape, root or object())

    def array(self, given: Any) -> Any:
        """Return a NumPy array from outside the trace as an input bound to it; numbers become constants."""
        held = np.asarray(given)
        refuse_if(str(held.dtype) not in DTYPES, f"an array of {held.dtype} cannot be part of a graph", "use a numeric element type")
        if held.ndim == 0:
            return self._kind(self, self.constant(TensorData.of(held.copy())), held.dtype, (), object())
        made = self._arrays.get(id(given), (None, None))[1]
        known = self._bound[made.value] if made is not None else None
        same = known is not None and known.shape == held.shape and known.dtype == held.dtype and known.tobytes() == held.tobytes()
        if made is None or not same:  # the function may have changed it since
            made = self.input(f"constant{len(self._bound)}", held.dtype, held.shape)
            self._bound[made.value] = held.copy()
            self._arrays[id(given)] = (given, made)
        return made

    def number(self, made: Traced) -> Traced:
        """Say that NumPy gives a number here."""
        made.is_number = True
        self._numbers.setdefault(id(made.root), []).append(ref(made))
        return made

    def keep_numbers(self, root: object) -> None:
        """Copy the numbers that were read out of memory before it is written; those that nobody holds any more are forgotten."""
        for number in [each() for each in self._numbers.pop(id(root), ())]:
            if number is not None and number.root is root:
                number.value, number.root = self.op("aten::clone", number, None).value, object()

    def constant(self, payload: Any, type: Type | None = None) -> Value:
        """Return a constant, which is recorded once."""
        if isinstance(payload, np.generic):
            payload = payload.item()
        return self._emit.constant(list(payload) if isinstance(payload, tuple) else payload, type)

    def note_copied_view(self) -> None:
        """Note that the last node is a copy in the graph but a view in NumPy: from now on writes are refused."""
        frame = user_frame()
        if frame is not None and not self.copied_view:
            self.copied_view = f"{frame.f_code.co_filename}:{frame.f_lineno}"

    def value_of(self, operand: Any) -> Value:
        """Return the value of an operand: an array's, a constant, or a constructed list."""
        if isinstance(operand, Value):
            return operand
        if isinstance(operand, Traced):
            if operand.record is not self:
                what = "an array of another trace is used"
                raise refused(what, "return the array from that function, or trace both as one")
            return operand.value
        if isinstance(operand, list | tuple) and any(isinstance(item, Traced) for item in operand):
            inside: Type = OptionalType(TENSOR) if any(item is None for item in operand) else TENSOR
            items = tuple(self.constant(None, NONE) if item is None else self.value_of(item) for item in operand)
            self._emit.place = self._place()
            return self._emit.list(items, inside)
        return self.constant(operand)

    # The user's source

    def _place(self) -> Place:
        """Return the current line, and the functions around it, from the traced one inwards."""
        frame = user_frame()
        if frame is None:
            return Place()
        self._name_locals(frame)
        location = Location(cell_name(frame.f_code.co_filename), frame.f_lineno, live=True)
        scope: list[str] = []
        here: FrameType | None = frame
        while here is not None and here.f_code is not self._entry:
            if not here.f_code.co_name.startswith("<") and not _is_ours(here):
                scope.append(here.f_code.co_name)
            here = here.f_back
        if here is None:
            return Place(location)
        self._frame = here
        return Place(location, "", ".".join(reversed(scope)))

    def _name_locals(self, frame: FrameType) -> None:
        for name, held in frame.f_locals.items():
            if isinstance(held, Traced) and held.record is self and held.value not in self._names and name.isidentifier():
                self._names[held.value] = name

    # The end

    def finish(self, name: str, outputs: Sequence[Value]) -> Graph:
        """Return the graph, with values named after the variables that held them."""
        self.is_open = False
        if self._frame is not None:
            self._name_locals(self._frame)
            self._frame = None
        taken = {value.name for value in self._inputs}
        wanted: dict[Value, tuple[str, Type]] = {}
        for value in sorted(self._names.keys() - set(self._inputs), key=lambda value: value.id):
            variable = self._names[value]
            if variable not in taken:
                wanted[value] = variable, value.type
                taken.add(variable)
        new = self._emit.rename((0, 0), wanted)
        made = self._emit.build.finish([new.get(value, value) for value in outputs], bound=self._bound)
        return replace(made, name=name)


def tensor_type(dtype: np.dtype[Any], shape: Sequence[int]) -> TensorType:
    """Return the type of an array, without a layout."""
    refuse_if(str(dtype) not in DTYPES, f"an array of {dtype} cannot be part of a graph", "use a numeric element type")
    return TensorType(str(dtype), tuple(shape))


def code_of(dtype: np.dtype[Any]) -> int:
    """Return the number that ops use for an element type."""
    code = CODES.get(str(dtype))
    if code is None:
        raise refused(f"an array of {dtype} cannot be part of a graph", "use a numeric element type")
    return code


def user_frame() -> FrameType | None:
    """Return the innermost frame outside the tracer and NumPy."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_ours(frame):
        frame = frame.f_back
    return frame


def _is_ours(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith((_HERE, _NUMPY, "<__array_function__"))


def refused(what: str, hint: str = "", *, wrong_arguments: bool = False) -> CaptureError | ArgumentError:
    """Return the error for something that cannot be traced, with the user's line."""
    frame = user_frame()
    where = ""
    if frame is not None:
        file, line = frame.f_code.co_filename, frame.f_lineno
        where = f"{cell_name(file)}:{line}\n    {linecache.getline(file, line).strip()}".rstrip()
    kind = ArgumentError if wrong_arguments else CaptureError
    return kind(what, where=where, hint=hint)


def refuse_if(holds: object, what: str, hint: str = "", *, wrong_arguments: bool = False) -> None:
    """Raise the error for something that cannot be traced, if it holds."""
    if holds:
        raise refused(what, hint, wrong_arguments=wrong_arguments)
