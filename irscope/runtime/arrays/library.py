"""Nodes without a kernel of ours, each as a Python function of its operands.

Torch runs such a node if the program came from torch, by the overload that the node means, looked up once; otherwise NumPy
does, by the op's own reference. Containers, numbers and the program's own objects are Python objects in both cases, and
are kept by identity, so a write through one name is visible through all.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import numpy as np

from irscope._base.leaves import leaves
from irscope.errors import RunError
from irscope.ir import (
    NONE,
    Node,
    OpSchema,
    TensorData,
    TensorType,
    Value,
    constant_value,
)
from irscope.ops.registry import by_operands, op_of, schema_of
from irscope.ops.typing import DTYPE_CODES
from irscope.runtime.arrays.python_ops import python_function
from irscope.runtime.constants import elements, unpacked
from irscope.runtime.foreign_ops import array_of, foreign_function, on_torch, plainly_typed, tensor_of

__all__ = ["Library", "NumpyLibrary", "TorchLibrary", "are_torchs", "is_torch_tensor", "lent_by_torch", "library_for"]

Function = Callable[..., Any]
"""Takes a node's operands in order; returns its result, or a sequence of several."""

_WIDER: Final = {5: 7, 6: 7, 15: 7, 8: 10, 9: 10}
"""The numbers of float64 and complex128, by those of the smaller floating-point types."""
_PYTHON_CATEGORIES: Final = ("container", "scalar", "control")


class Library(Protocol):
    """The library that computes the tensors of a program."""

    name: str

    def function(self, node: Node) -> Function:
        """Returns the function that computes the node. Raises RunError for an unknown op."""

    def constant(self, node: Node) -> Any:
        """Returns the value of a `prim::Constant`."""


def is_torch_tensor(value: object) -> bool:
    """Checks whether this is a torch tensor; does not import torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def library_for(values: Sequence[object]) -> Library:
    """Returns torch if any of the values is a torch tensor or holds one (a scripted module), otherwise NumPy."""
    return TorchLibrary() if are_torchs(values) else NumpyLibrary()


def are_torchs(values: Sequence[object]) -> bool:
    """Checks whether any of the values is torch's, or holds a value that is."""
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    return any(isinstance(leaf, torch.Tensor | torch.ScriptObject) for leaf in leaves(values))


class NumpyLibrary:
    """The NumPy references of `irscope.ops`.

    >>> from irscope.ir.text.parser import parse
    >>> g = parse("graph(%x : Tensor):\\n  %y : Tensor = aten::relu(%x)\\n  return (%y)")
    >>> NumpyLibrary().function(g.node("y"))(np.array([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """

    name = "numpy"

    def function(self, node: Node) -> Function:
        native = python_function(node)
        if native is not None:
            return native
        op, schema = op_of(node), schema_of(node)
        if op is None or op.reference is None:
            found = foreign_function(node) or lent_by_torch(node)
            if found is None:
                raise _unknown(node, "NumPy")
            return found
        reference = op.reference
        if node.op == "prim::NumToTensor":
            return np.asarray
        if schema is None and op.schemas:
            return _chosen_at_each_call(self, node, reference)
        if schema is None or schema.is_vararg:
            return reference
        names = [argument.name for argument in schema.arguments]
        rest = {argument.name: argument.default for argument in schema.arguments[len(node.inputs) :]}
        if op.category in _PYTHON_CATEGORIES and not rest:
            return lambda *given: reference(**dict(zip(names, given, strict=True)))
        arrays = tuple(isinstance(value.type, TensorType) for value in node.outputs)

        def run(*given: Any) -> Any:
            result = reference(**dict(zip(names, given, strict=False)), **rest)
            return np.asarray(result) if arrays == (True,) and isinstance(result, np.generic) else result

        return run

    def constant(self, node: Node) -> Any:
        return _constant(node, self._tensor)

    def _tensor(self, payload: TensorData) -> Any:
        if payload.array is None:
            raise RunError(f"the text has only the size of the constant {node_text(payload)}, not its elements")
        return elements(payload)


def _chosen_at_each_call(library: Library, node: Node, otherwise: Function) -> Function:
    """Returns a function that selects the overload by the operands of each call: the declared types, such as `Any`, do not say it."""

    def run(*given: Any) -> Any:
        called = by_operands(node, given)
        return (otherwise if called is node else library.function(called))(*given)

    return run


class TorchLibrary:
    """Torch's own operators, without gradients.

    With `double`, everything in a smaller floating-point type is computed in float64: the reference for rounding errors.
    """

    name = "torch"

    def __init__(self, *, double: bool = False, device: str = "") -> None:
        """`device`: where to move tensors that the program places on the processor; empty leaves them there."""
        import torch

        self.torch = torch
        self.double = double
        self.device = device

    def function(self, node: Node) -> Function:
        native = python_function(node) or self._own(node)
        if native is not None:
            return native
        foreign = foreign_function(node)
        if foreign is not None:
            return on_torch(foreign, self.torch, self.device)
        op, schema = op_of(node), schema_of(node)
        if schema is None and op is not None and op.schemas and op.reference is not None:
            return _chosen_at_each_call(self, node, op.reference)
        reads_tensors = any(isinstance(value.type, TensorType) for value in node.inputs)
        is_python = op is not None and (op.category != "scalar" or not reads_tensors)
        if op is not None and op.reference is not None and is_python and op.category in _PYTHON_CATEGORIES:
            return op.reference
        function = self._registered(node, schema)
        kinds = {value.type.dtype for value in (*node.inputs, *node.outputs) if isinstance(value.type, TensorType)}
        if not self.device and not kinds.isdisjoint(_WIDE_UNSIGNED):
            function = self._or_numpy(node, function)
        if not self.double or schema is None:
            return function
        return _bits(function) if schema.full_name == "aten::view.dtype" else self._in_double(function, schema)

    def constant(self, node: Node) -> Any:
        made = _constant(node, self._tensor)
        if node.outputs and str(node.output.type) == "Device" and isinstance(made, str):
            return self.torch.device(self.device if self.device and made == "cpu" else made)
        return made

    def _tensor(self, payload: TensorData) -> Any:
        tensor = payload.original
        if not isinstance(tensor, self.torch.Tensor):
            if payload.array is None:
                raise RunError(f"the text has only the size of the constant {node_text(payload)}, not its elements")
            tensor = self.torch.from_numpy(plainly_typed(np.array(payload.array)))
            if payload.dtype == "bfloat16":
                tensor = tensor.view(self.torch.bfloat16)
        tensor = tensor.detach()
        if self.double and (tensor.is_floating_point() or tensor.is_complex()):
            tensor = tensor.to(self.torch.complex128 if tensor.is_complex() else self.torch.float64)
        return tensor.to(self.device) if self.device else tensor

    def _own(self, node: Node) -> Function | None:
        """Returns functions for ops that Python computes faster than the dispatcher, or whose schema accepts any list."""
        if node.op == "aten::size":
            return _size
        if node.op == "aten::dim":
            return lambda x: x.dim()
        if node.op == "aten::_reshape_alias":
            return _reshape_alias
        if node.op == "prim::NumToTensor":
            return self.torch.tensor  # type: ignore[no-any-return]
        if node.op in ("aten::tensor", "aten::as_tensor") and not isinstance(node.inputs[0].type, TensorType):
            return self._new_tensor
        return None

    def _new_tensor(self, data: Any, dtype: int | None = None, device: Any = None, requires_grad: bool = False) -> Any:
        kind = None if dtype is None else getattr(self.torch, DTYPE_CODES[dtype])
        return self.torch.tensor(data, dtype=kind, device=device)

    def _registered(self, node: Node, schema: OpSchema | None) -> Function:
        """Returns the operator from torch's registry; keyword-only arguments are passed by name."""
        bindings = self.torch._C
        if schema is None:
            found, _ = bindings._jit_get_operation(node.op)
            if found is None:
                raise _unknown(node, "torch")
            return found  # type: ignore[no-any-return]
        try:
            found = bindings._get_operation_overload(schema.name, schema.overload)[0]
        except (RuntimeError, TypeError):
            raise _unknown(node, "torch") from None
        method = _METHODS.get((schema.name, schema.overload))
        short = found if method is None else getattr(self.torch.Tensor, method)
        given = schema.arguments[: len(node.inputs)]
        names = [argument.name for argument in given if argument.keyword_only]
        plain = len(given) - len(names)
        if not names or schema.is_vararg:
            return short  # type: ignore[no-any-return]

        if len(names) == 1:  # most often the `alpha` of a sum, which is 1: this halves the time of the call
            name, usual = names[0], given[-1].default
            return lambda *operands: (
                short(*operands[:plain]) if operands[plain] is usual else found(*operands[:plain], **{name: operands[plain]})
            )
        return lambda *operands: found(*operands[:plain], **dict(zip(names, operands[plain:], strict=True)))

    def _or_numpy(self, node: Node, function: Function) -> Function:
        """Returns the function, with NumPy's in its place for element types that torch has, and this op of torch has not."""

        def run(*operands: Any) -> Any:
            try:
                return function(*operands)
            except RuntimeError as error:
                if "not implemented for 'UInt" not in str(error):
                    raise
            return on_torch(NumpyLibrary().function(node), self.torch, self.device)(*operands)

        return run

    def _in_double(self, function: Function, schema: OpSchema) -> Function:
        """Returns the function with float64 in place of every floating-point type that the program requests by number."""
        positions = [index for index, argument in enumerate(schema.arguments) if argument.name == "dtype"]
        if not positions:
            return function
        (position,) = positions

        def run(*operands: Any) -> Any:
            wide = _WIDER.get(operands[position]) if len(operands) > position else None
            if wide is not None:
                operands = (*operands[:position], wide, *operands[position + 1 :])
            return function(*operands)

        return run


_WIDE_UNSIGNED: Final = frozenset({"uint16", "uint32", "uint64"})
"""Element types for which torch has few ops."""


def _bits(function: Function) -> Function:
    """Returns the view as another element type, of whole numbers alone."""

    def run(tensor: Any, dtype: int) -> Any:
        if tensor.is_floating_point() or tensor.is_complex():
            raise RunError("it reads the bits of floats, which float64 has otherwise")
        return function(tensor, dtype)

    return run


_METHODS: Final = {
    ("aten::select", "int"): "select", ("aten::unsqueeze", ""): "unsqueeze", ("aten::squeeze", "dim"): "squeeze",
    ("aten::transpose", "int"): "transpose", ("aten::permute", ""): "permute", ("aten::view", ""): "view",
    ("aten::reshape", ""): "reshape", ("aten::t", ""): "t", ("aten::clone", ""): "clone", ("aten::copy_", ""): "copy_",
}  # fmt: skip
"""Overloads that are called as methods of a tensor, with their positional operands: Python's bindings take half the time to parse
them. The ops are cheap, and programs that write row by row consist of them."""


def _size(tensor: Any, dim: int | None = None) -> Any:
    return list(tensor.shape) if dim is None else tensor.shape[dim]


def _reshape_alias(tensor: Any, size: Sequence[int], stride: Sequence[int]) -> Any:
    """Compute `_reshape_alias` by `as_strided`, which checks bounds; torch's own may read beyond the memory."""
    return tensor.as_strided(size, stride, tensor.storage_offset())


def _constant(node: Node, tensor: Callable[[TensorData], Any]) -> Any:
    """Returns a payload as the running program has it: lists are lists, tensors are the library's."""
    payload = constant_value(node)
    kind = node.outputs[0].type if node.outputs else NONE
    return unpacked(payload, kind, tensor)


def node_text(subject: Value | TensorData) -> str:
    """Returns the text by which an error names a value or a constant tensor."""
    return repr(subject) if isinstance(subject, Value) else f"{subject.dtype}{list(subject.shape)}"


def _unknown(node: Node, where: str) -> RunError:
    if node.op.startswith("prim::"):  # TorchScript's own: no library could register it
        hint = "objects that a script makes (torch.autocast is one) do not run: load the model itself, irs.load(model, x)"
    else:
        hint = "import the library that registers it, or register a schema and a NumPy reference for it"
    return RunError(f"{where} has no operator {node.op}", where=repr(node), rule="unknown-op", hint=hint)


def lent_by_torch(node: Node, *, double: bool = False) -> Callable[..., Any] | None:
    """Returns torch's operator as a function of NumPy arrays, which may return views of them; None without torch."""
    if importlib.util.find_spec("torch") is None or not node.op.startswith("aten::"):
        return None
    import torch

    try:
        function = TorchLibrary(double=double).function(node)
    except RunError:
        return None

    def run(*operands: Any) -> Any:
        return array_of(function(*(tensor_of(operand, torch, "") for operand in operands)))

    return run
