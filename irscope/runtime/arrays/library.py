"""What a program needs of an array library: its ops and constants, and how kernels get at operands and allocate results.

Nodes without a kernel of ours run as Python functions of their operands. Torch runs such a node if the program came from torch,
by the overload that the node means, looked up once; otherwise NumPy does, by the op's own reference. Containers, numbers and the
program's own objects are Python objects in both cases, and are kept by identity, so a write through one name is visible through
all: ops whose semantics are in their attributes, in the number of results, or outside the program run here whatever the library.

The key of a kernel's call holds all that the kernel depends on: its operands' element types, shapes and strides. It is computed
for every call whose operands may have changed, so tenths of microseconds matter: an attribute of a tensor takes 0.05,
the address of an array 0.1, an empty tensor 0.6.
"""

import sys
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, Final, Literal

import numpy as np

from irscope._base.nested import leaves
from irscope._base.words import plural
from irscope.errors import RunError
from irscope.ir import BOOL, FLOAT, INT, NONE, Node, Opaque, TensorData, TensorType, Type, constant_value
from irscope.ir.types import DictType, ListType, OptionalType, TupleType, UnionType
from irscope.ops.registry import by_operands

Function = Callable[..., Any]
"""Takes a node's operands in order; returns its result, or a sequence of several."""
Allocate = Callable[[], Any]
"""Returns a new tensor with undefined elements."""
LIBRARY_NAMES: Final = {"torch": "torch", "numpy": "NumPy", "cupy": "CuPy"}
"""The libraries as sentences name them."""


class Library:
    """The library that computes the tensors of a program."""

    name: str

    def function(self, node: Node) -> Function:
        """Returns the function that computes the node. Raises RunError for an unknown op."""
        raise NotImplementedError

    def constant(self, node: Node) -> Any:
        """Returns the value of a `prim::Constant` as the running program has it: lists are lists, tensors are the library's."""
        return unpacked(constant_value(node), node.outputs[0].type if node.outputs else NONE, self._tensor)

    def _tensor(self, payload: TensorData) -> Any:
        raise NotImplementedError

    def _chosen_at_each_call(self, node: Node, otherwise: Function) -> Function:
        """Returns a function that selects the overload by the operands of each call: the declared types, such as `Any`, do not say it."""

        def run(*given: Any) -> Any:
            called = by_operands(node, given)
            return (otherwise if called is node else self.function(called))(*given)

        return run


class Memory:
    """The access of groups to operands and results; one subclass for each array library."""

    library: Literal["torch", "cupy", "numpy"]
    """The library of the tensors, and on a GPU, of the stream that their kernels run on."""
    facts: tuple[str, ...]
    """The attributes and calls that say all that a program's checks and plans depend on, of an argument that this memory owns."""
    address_text = "address({})"
    """Python source for the address of a tensor, where `address` is this memory's own method."""

    def key(self, operands: Sequence[Any]) -> Hashable:
        """Returns the key that a plan depends on, at low cost."""
        raise NotImplementedError

    def owns(self, argument: Any) -> bool:
        """Checks whether `facts` describe this argument completely."""
        raise NotImplementedError

    def types(self, operands: Sequence[Any]) -> tuple[Type, ...] | None:
        """Returns the operands' types; None if a kernel cannot read one of them in place."""
        types = [self.type_of(operand) for operand in operands]
        return None if None in types else tuple(types)  # type: ignore[arg-type]

    def type_of(self, operand: Any) -> Type | None:
        raise NotImplementedError

    def quick_test(self, xs: Sequence[str], arguments: Sequence[Any], names: dict[str, Any], *, inside: bool = False) -> str:
        """Returns a Python condition that holds only where the variables `xs` equal these arguments in all `facts`, but not always,
        and takes less time than comparing those; empty where there is none. Adds what it needs to `names`. `inside`: it is asked in a
        run, where no gradients are recorded."""
        return ""

    def is_plain(self, arguments: Sequence[Any]) -> bool:
        """Checks whether no torch mode or transform that kernels cannot see applies to a call with these owned arguments."""
        return True

    def unguarded(self, names: dict[str, Any]) -> str:
        """Returns a Python condition for the parts of the surroundings that `guard` does not see, if any."""
        return ""

    def maker(self, type: TensorType) -> Allocate:
        raise NotImplementedError

    def address(self, tensor: Any) -> int:
        """Returns the address of a tensor's first element."""
        raise NotImplementedError

    def offset(self, tensor: Any, view: Any) -> int | None:
        """Returns the bytes from the first element of a tensor to that of another in its memory, of the same type; None if it is not."""
        return None


def number_type(value: Any) -> Type:
    """Returns the type of a number among a group's operands."""
    return BOOL if isinstance(value, bool) else INT if isinstance(value, int) else FLOAT


def strided_type(array: Any) -> TensorType | None:
    """Returns the type of an array of NumPy or CuPy; None if elements run backwards, or do not lie whole elements apart."""
    item = array.itemsize
    if any(step < 0 or step % item for step in array.strides):
        return None
    return TensorType(str(array.dtype), array.shape, tuple(step // item for step in array.strides))


def extents(type: TensorType) -> tuple[int, ...]:
    """Returns the sizes of a result, which a plan always knows."""
    assert type.shape is not None
    assert type.is_static, "the results of a plan have known sizes"
    return tuple(int(dim) for dim in type.shape if isinstance(dim, int))


def is_torch_tensor(value: object) -> bool:
    """Checks whether this is a torch tensor; does not import torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def are_torchs(values: Sequence[object]) -> bool:
    """Checks whether any of the values is torch's, or holds a value that is."""
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    return any(isinstance(leaf, torch.Tensor | torch.ScriptObject) for leaf in leaves(values))


def python_function(node: Node) -> Callable[..., Any] | None:
    """Returns the function that runs such a node on its operands; None for every other node."""
    match node.op:
        case "prim::ListUnpack" | "prim::TupleUnpack":
            return partial(_unpack, len(node.outputs))
        case "prim::ConstantChunk":
            return partial(_chunk, node)
        case "prim::TupleSlice":
            return itemgetter(slice(node.attrs["beg"], node.attrs["end"]))
        case "aten::__is__" | "aten::__isnot__" if any(isinstance(value.type, TensorType) for value in node.inputs):
            wanted = node.op == "aten::__is__"
            return lambda a, b: (a is b) == wanted
        case "prim::Uninitialized":
            return lambda: None if len(node.outputs) == 1 else (None,) * len(node.outputs)
        case "prim::TimePoint":
            return lambda: 0
        case "prim::Print":
            return lambda *items: print(*items)
        case "prim::RaiseException":
            return _raise
        case "aten::warn":
            return lambda message, *rest: warnings.warn(str(message), stacklevel=2)
        case "prim::isinstance":
            types = node.attrs.get("types", ())
            return lambda value: any(is_a(value, type) for type in (types if isinstance(types, tuple) else (types,)))
        case "prim::GetAttr":
            return lambda holder, name=node.attrs["name"]: holder.getattr(name)
        case "prim::SetAttr":
            return lambda holder, value, name=node.attrs["name"]: holder.setattr(name, value)
        case "prim::CallMethod":
            return lambda holder, *args, name=node.attrs["name"]: holder._get_method(name)(*args)
    return None


def _unpack(count: int, items: Sequence[Any]) -> Any:
    """Returns the items of a list or tuple; a single item is returned alone, as for every node with one result."""
    if len(items) != count:
        raise RunError(f"cannot unpack {plural(len(items), 'value')} into {count}")
    return items[0] if count == 1 else items


def _chunk(node: Node, tensor: Any) -> Any:
    """`prim::ConstantChunk`: pieces of equal size, the last one possibly smaller."""
    count, dim = int(node.attrs["chunks"]), int(node.attrs["dim"])
    step = -(-tensor.shape[dim] // count)
    index: list[Any] = [slice(None)] * len(tensor.shape)
    pieces = []
    for start in range(0, step * count, step):
        index[dim] = slice(start, start + step)
        pieces.append(tensor[tuple(index)])
    return _unpack(len(node.outputs), pieces)


def _raise(message: Any, kind: Any = None) -> None:
    name = f"{kind}".rpartition(".")[2] if kind else "Exception"
    raise RunError(f"the program raises {name}: {message}", hint="the program's own check failed on these arguments")


def without_elements(payload: TensorData) -> RunError:
    return RunError(f"the text has only the size of the constant {payload.dtype}{list(payload.shape)}, not its elements")


def unknown_op(node: Node, where: str) -> RunError:
    if node.op.startswith("prim::"):  # TorchScript's own: no library could register it
        hint = "objects that a script makes (torch.autocast is one) do not run: load the model itself, irs.load(model, x)"
    else:
        hint = "import the library that registers it, or register a schema and a NumPy reference for it"
    return RunError(f"{where} has no operator {node.op}", where=repr(node), rule="unknown-op", hint=hint)


# Constants in the form that a running program uses, and type checks of values at run time.

_PYTHON_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "int": (int,), "float": (float,), "complex": (complex,), "str": (str,), "bool": (bool,), "Scalar": (int, float, complex),
    "NoneType": (type(None),),
}  # fmt: skip


def unpacked(payload: Any, kind: Type, tensor: Callable[[TensorData], Any]) -> Any:
    """Returns a constant's payload as the running program has it: lists are lists, and `tensor` converts tensors."""
    if isinstance(kind, OptionalType):
        kind = kind.element
    match payload:
        case TensorData():
            return tensor(payload)
        case Opaque(_, original):
            return original
        case tuple():
            element = kind.element if isinstance(kind, ListType) else NONE
            kinds = kind.elements if isinstance(kind, TupleType) else (element,) * len(payload)
            items = tuple(unpacked(item, inner, tensor) for item, inner in zip(payload, kinds, strict=True))
            return items if isinstance(kind, TupleType) else list(items)
        case int() if kind == BOOL:
            return bool(payload)
        case int() if kind == FLOAT:
            return float(payload)
    return payload


def elements(data: TensorData) -> np.ndarray[Any, Any]:
    """Returns the elements of a constant tensor that has them; bfloat16, which NumPy lacks, as float32."""
    assert data.array is not None
    return (data.array.astype(np.uint32) << 16).view(np.float32) if data.dtype == "bfloat16" else data.array


def is_a(value: Any, type: Type) -> bool:
    """Checks whether a value is of a type, as TorchScript does; checks every element of a container."""
    match type:
        case TensorType():
            return hasattr(value, "dtype") and hasattr(value, "shape") and not isinstance(value, np.generic)
        case OptionalType(element):
            return value is None or is_a(value, element)
        case UnionType(members):
            return any(is_a(value, member) for member in members)
        case ListType(element):
            return isinstance(value, list) and all(is_a(item, element) for item in value)
        case DictType(_, element):
            return isinstance(value, dict) and all(is_a(item, element) for item in value.values())
        case TupleType(kinds):
            same = isinstance(value, tuple) and len(value) == len(kinds)
            return same and all(is_a(item, element) for item, element in zip(value, kinds, strict=True))
    if type == INT and isinstance(value, bool):
        return False
    if str(type) == "Device":  # torch's own, or its name where there is no torch
        return isinstance(value, str) or value.__class__.__name__ == "device"
    return isinstance(value, _PYTHON_TYPES.get(str(type), ()))
