"""Torch's operators and tensors: nodes without a kernel run through its dispatcher, kernels on the memory of its tensors."""

import importlib.util
from collections.abc import Callable, Hashable, Sequence
from functools import cached_property, partial
from typing import Any, Final

import numpy as np

from irscope._base.nested import torch_guards
from irscope.codegen.kernel import ITEM_SIZE
from irscope.errors import RunError
from irscope.ir import Node, OpSchema, TensorData, TensorType, Type
from irscope.ops.op import PYTHON_CATEGORIES
from irscope.ops.registry import category_of, op_of, schema_of
from irscope.ops.type_rules import DTYPE_CODES
from irscope.runtime.arrays.dlpack import is_jaxs
from irscope.runtime.arrays.library import (
    Allocate,
    Function,
    Library,
    Memory,
    are_torchs,
    extents,
    number_type,
    python_function,
    unknown_op,
    without_elements,
)
from irscope.runtime.arrays.numpy import NumpyLibrary, NumpyMemory
from irscope.runtime.arrays.onednn import by_torch, is_layer, is_product, layer, product
from irscope.runtime.arrays.pool import BufferPool
from irscope.runtime.arrays.surroundings import Surroundings
from irscope.runtime.foreign_ops import SMALL_FLOATS, array_of, foreign_function, on_torch, plainly_typed, tensor_of

_POOLED: Final = 4 << 20
"""Bytes from which torch results are allocated from a pool: smaller ones are cheaper from torch's own allocator, whose
larger blocks cost a page fault every 4 KiB each time."""
_WIDER: Final = {5: 7, 6: 7, 15: 7, 8: 10, 9: 10}
"""The numbers of float64 and complex128, by those of the smaller floating-point types."""
_WIDE_UNSIGNED: Final = frozenset({"uint16", "uint32", "uint64"})
"""Element types for which torch has few ops."""
_ALIKE: Final = frozenset(
    f"aten::{name}"
    for name in "neg abs sqrt relu clamp add sub mul div minimum maximum leaky_relu sigmoid tanh erf silu gelu hardswish".split()
)
"""Ops of floats that torch computes as NumPy does, to the bit where IEEE 754 says the result, and else within a few roundings."""
_METHODS: Final = {
    ("aten::select", "int"): "select", ("aten::unsqueeze", ""): "unsqueeze", ("aten::squeeze", "dim"): "squeeze",
    ("aten::transpose", "int"): "transpose", ("aten::permute", ""): "permute", ("aten::view", ""): "view",
    ("aten::reshape", ""): "reshape", ("aten::t", ""): "t", ("aten::clone", ""): "clone", ("aten::copy_", ""): "copy_",
}  # fmt: skip
"""Overloads that are called as methods of a tensor, with their positional operands: Python's bindings take half the time to parse
them. The ops are cheap, and programs that write row by row consist of them."""


def library_for(values: Sequence[object]) -> Library:
    """Returns torch if any of the values is a torch tensor or holds one (a scripted module), otherwise NumPy."""
    return TorchLibrary() if are_torchs(values) else NumpyLibrary(lend=lent_by_torch)


class TorchLibrary(Library):
    """Torch's own operators, without gradients.

    With `double`, everything in a smaller floating-point type is computed in float64: the reference for rounding errors.
    """

    name = "torch"

    def __init__(self, *, double: bool = False, device: str = "", lent: bool = False, quick: bool = False) -> None:
        """`device`: where tensors go that the program places on the processor, or makes without saying where; empty leaves them there.
        `lent`: the program's tensors share the memory of arrays, and NumPy computes pointwise ops and what torch refuses, such as
        products of two types.
        `quick`: another op of torch's may stand for one that the program names, where it is quicker and differs in rounding alone."""
        import torch

        self.torch = torch
        self.double = double
        self.device = device
        self.lent = lent
        self.quick = quick

    def function(self, node: Node) -> Function:
        native = python_function(node) or self._own(node)
        if native is not None:
            return native
        foreign = foreign_function(node)
        if foreign is not None:
            return on_torch(foreign, self.torch, self.device)
        op, schema = op_of(node), schema_of(node)
        if node.op == "irscope::convolution":
            return by_torch(node, self.torch)
        if is_layer(node) and (self.double or self.device or not self.torch.backends.mkldnn.is_available()):
            return on_torch(NumpyLibrary().function(node), self.torch, self.device)
        if schema is None and op is not None and op.schemas and op.reference is not None:
            return self._chosen_at_each_call(node, op.reference)
        reads_tensors = any(isinstance(value.type, TensorType) for value in node.inputs)
        is_python = op is not None and (op.category != "scalar" or not reads_tensors)
        if op is not None and op.reference is not None and is_python and op.category in PYTHON_CATEGORIES:
            return op.reference
        has_reference = op is not None and op.reference is not None
        try:
            function = self._registered(node, schema)
        except RunError:
            if not (self.lent and has_reference):
                raise
            return on_torch(NumpyLibrary().function(node), self.torch, self.device)  # an op that the user registered here
        if is_layer(node):
            return layer(node, function)
        if self.quick and is_product(node):
            function = product(node, function, self.torch)
        kinds = {value.type.dtype for value in (*node.inputs, *node.outputs) if isinstance(value.type, TensorType)}
        if self.lent and has_reference:
            # NumPy computes pointwise ops for arrays, as torch's vectors give NaN for remainders by the smallest numbers, and einsum, as
            # torch adds up products of small integers in int64
            is_numpys = (category_of(node) == "pointwise" or node.op == "aten::einsum") and not (schema is not None and schema.is_mutable)
            if not is_numpys or not kinds.isdisjoint(SMALL_FLOATS):
                return self._or_numpy(node, function, "")
            is_alike = schema is not None and schema.name in _ALIKE and schema.overload in ("", "Tensor", "Scalar")
            return self._by_numpy(node, function, is_alike=is_alike and kinds in ({"float32"}, {"float64"}))
        if not self.device and not kinds.isdisjoint(_WIDE_UNSIGNED):
            function = self._or_numpy(node, function, "not implemented for 'UInt")
        if not self.double or schema is None:
            return function
        return _bits(function) if schema.full_name == "aten::view.dtype" else self._in_double(function, schema)

    def constant(self, node: Node) -> Any:
        made = super().constant(node)
        if node.outputs and str(node.output.type) == "Device" and isinstance(made, str):
            return self.torch.device(self.device if self.device and made == "cpu" else made)
        return made

    def _tensor(self, payload: TensorData) -> Any:
        tensor = payload.original
        if not isinstance(tensor, self.torch.Tensor):
            if payload.array is None:
                raise without_elements(payload)
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
            return lambda x, dim=None: list(x.shape) if dim is None else x.shape[dim]
        if node.op == "aten::dim":
            return lambda x: x.dim()
        if node.op == "aten::_reshape_alias":
            return lambda x, size, stride: x.as_strided(size, stride, x.storage_offset())  # checks bounds, which torch's own does not
        if node.op == "prim::NumToTensor":
            return self.torch.tensor  # type: ignore[no-any-return]
        if node.op in ("aten::tensor", "aten::as_tensor") and not isinstance(node.inputs[0].type, TensorType):
            return self._new_tensor
        return None

    def _new_tensor(self, data: Any, dtype: int | None = None, device: Any = None, requires_grad: bool = False) -> Any:
        kind = None if dtype is None else getattr(self.torch, DTYPE_CODES[dtype])
        return self.torch.tensor(data, dtype=kind, device=device or self.device or None)

    def _registered(self, node: Node, schema: OpSchema | None) -> Function:
        """Returns the operator from torch's registry; keyword-only arguments are passed by name."""
        bindings = self.torch._C
        if schema is None:
            found, _ = bindings._jit_get_operation(node.op)
            if found is None:
                raise unknown_op(node, "torch")
            return found  # type: ignore[no-any-return]
        try:
            found = bindings._get_operation_overload(schema.name, schema.overload)[0]
        except (RuntimeError, TypeError):
            raise unknown_op(node, "torch") from None
        method = _METHODS.get((schema.name, schema.overload))
        short = found if method is None else getattr(self.torch.Tensor, method)
        given = schema.arguments[: len(node.inputs)]
        names = [argument.name for argument in given if argument.keyword_only]
        plain = len(given) - len(names)
        makes_alone = self.device != "" and not any(isinstance(value.type, TensorType) for value in node.inputs)
        if makes_alone and any(argument.name == "device" for argument in schema.arguments):
            return partial(self._made, found, [argument.name for argument in given])
        if not names or schema.is_vararg:
            return short  # type: ignore[no-any-return]
        if len(names) == 1:  # most often the `alpha` of a sum, which is 1: this halves the time of the call
            name, usual = names[0], given[-1].default
            return lambda *operands: (
                short(*operands[:plain]) if operands[plain] is usual else found(*operands[:plain], **{name: operands[plain]})
            )
        return lambda *operands: found(*operands[:plain], **dict(zip(names, operands[plain:], strict=True)))

    def _made(self, function: Function, names: Sequence[str], *operands: Any) -> Any:
        """Calls an op that makes a tensor of numbers alone, on the device if the program does not say where."""
        given = dict(zip(names, operands, strict=True))
        if given.get("device") is None:
            given["device"] = self.torch.device(self.device)
        return function(**given)

    def _by_numpy(self, node: Node, function: Function, *, is_alike: bool) -> Function:
        """Returns NumPy's function, with torch's in its place for operands whose elements NumPy has not, and where both are alike."""
        numpys = on_torch(NumpyLibrary().function(node), self.torch, self.device)
        small = {getattr(self.torch, name) for name in SMALL_FLOATS if hasattr(self.torch, name)}
        if is_alike and (len(node.inputs) < 3 or node.op == "aten::clamp"):
            return self._or_numpy(node, function, "")

        def run(*operands: Any) -> Any:
            is_same = (is_alike and operands[2] == 1) or any(getattr(operand, "dtype", None) in small for operand in operands)
            return (function if is_same else numpys)(*operands)

        return run

    def _or_numpy(self, node: Node, function: Function, refusal: str) -> Function:
        """Returns the function, with NumPy's in its place where torch's raises an error with these words: for element types that
        torch has, and this op of torch has not."""

        def run(*operands: Any) -> Any:
            try:
                return function(*operands)
            except RuntimeError as error:
                if refusal not in str(error):
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


def _bits(function: Function) -> Function:
    """Returns the view as another element type, of whole numbers alone."""

    def run(tensor: Any, dtype: int) -> Any:
        if tensor.is_floating_point() or tensor.is_complex():
            raise RunError("it reads the bits of floats, which float64 has otherwise")
        return function(tensor, dtype)

    return run


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


class TorchMemory(Memory):
    """Torch's tensors and its allocator, with a pool for large results on the processor."""

    library = "torch"
    facts: tuple[str, ...] = ("__class__", "dtype", "shape", "stride()", "is_cpu", "is_neg()", "_is_zerotensor()")
    address_text = "{}.data_ptr()"

    def __init__(
        self, device: str, *, may_be_negated: bool = False, pool: BufferPool | None = None,
        surroundings: Surroundings | None = None,
    ) -> None:  # fmt: skip
        """`may_be_negated`: whether the program creates tensors that store their elements with the sign flipped."""
        import torch

        self.surroundings = surroundings
        self.torch = torch
        self.may_be_negated = may_be_negated
        self.pool = pool if device == "cpu" else None
        self.tensor = torch.Tensor
        self.plain = (torch.Tensor, torch.nn.Parameter)
        self.device = device
        if device != "cpu":
            self.facts = tuple(["device" if fact == "is_cpu" else fact for fact in self.facts])
        self.dtypes = {name: getattr(torch, name) for name in ITEM_SIZE}
        self.empty = _quick_empty(torch) if device == "cpu" else None
        self.guards = torch_guards(torch)

    def key(self, operands: Sequence[Any]) -> Hashable:
        if not self.may_be_negated:
            try:
                return tuple([(x.dtype, x.shape, x.stride(), x.is_cpu, x.__class__) for x in operands])
            except AttributeError:
                pass  # numbers among them
        tensor = self.tensor
        if self.may_be_negated and any(isinstance(x, tensor) and x.is_neg() for x in operands):
            return None  # no plan exists for it
        return tuple([(x.dtype, x.shape, x.stride(), x.is_cpu, x.__class__) if isinstance(x, tensor) else type(x) for x in operands])

    def quick_test(self, xs: Sequence[str], arguments: Sequence[Any], names: dict[str, Any], *, inside: bool = False) -> str:
        if self.guards is None:
            return ""
        names["same"] = self.guards(arguments, inside)
        nested = " or ".join([f"{x}.is_nested" for x in xs])  # torch's comparison crashes the process on one
        return f"not ({nested}) and same({', '.join(xs)})"

    def is_plain(self, arguments: Sequence[Any]) -> bool:
        return self.surroundings is None or self.surroundings.is_plain(*arguments)

    def unguarded(self, names: dict[str, Any]) -> str:
        return "" if self.surroundings is None else self.surroundings.unguarded(names)

    def owns(self, argument: Any) -> bool:
        return type(argument) in self.plain and not argument._is_zerotensor()

    def type_of(self, operand: Any) -> Type | None:
        if not isinstance(operand, self.tensor):
            return number_type(operand)
        elsewhere = operand.device.type != self.device or type(operand) not in self.plain
        if elsewhere or operand.layout != self.torch.strided or operand.is_neg() or operand.is_quantized:
            return None
        return TensorType(str(operand.dtype).removeprefix("torch."), tuple(operand.shape), tuple(operand.stride()))

    def maker(self, type: TensorType) -> Allocate:
        assert type.dtype is not None
        shape, dtype = extents(type), self.dtypes[type.dtype]
        if self.pool is None or (type.nbytes or 0) < _POOLED:
            if self.empty is not None:
                return partial(self.empty, shape, type.strides, dtype)
            where = self.torch.device(self.device)
            pattern = self.torch.empty((), dtype=dtype, device=where).expand(shape)  # one element, whatever the shape
            if self.torch.empty_like(pattern).stride() == type.strides:
                return partial(self.torch.empty_like, pattern)  # a quarter faster than `empty_strided`
            return partial(self.torch.empty_strided, shape, type.strides, dtype=dtype, device=where)
        take = partial(self.pool.empty, shape, type.dtype, type.strides)
        wrap = self.torch.from_numpy
        return (lambda: wrap(take()).view(dtype)) if type.dtype == "bfloat16" else lambda: wrap(take())

    def address(self, tensor: Any) -> int:
        return tensor.data_ptr()  # type: ignore[no-any-return]

    @cached_property
    def alias(self) -> Callable[..., Any]:
        """Returns a view of a plain tensor, of some extents and strides, from so many elements behind its first."""
        return _quick_alias(self.torch)

    def dispatch_keys(self, tensor: Any) -> Hashable:
        """Returns what torch chooses the kernels of an op by."""
        return self.torch._C._dispatch_keys(tensor).raw_repr()  # type: ignore[no-any-return]

    def offset(self, tensor: Any, view: Any) -> int | None:
        is_same = type(view) is self.tensor and view.dtype == tensor.dtype and view.is_neg() == tensor.is_neg()
        if not is_same or view.untyped_storage()._cdata != tensor.untyped_storage()._cdata or view.is_conj() != tensor.is_conj():
            return None
        return (view.storage_offset() - tensor.storage_offset()) * view.element_size()  # type: ignore[no-any-return]


class LentArrays(NumpyMemory):
    """NumPy's arrays as the arguments of a program that torch runs on their memory: what tells them apart."""

    facts: tuple[str, ...] = (*NumpyMemory.facts, "flags.writeable")

    def __init__(self, surroundings: Surroundings | None) -> None:
        super().__init__(BufferPool(limit_bytes=0))
        self.surroundings = surroundings

    def key(self, operands: Sequence[Any]) -> Hashable:
        return super().key(operands), tuple([x.flags.writeable for x in operands if isinstance(x, np.ndarray)])

    def owns(self, argument: Any) -> bool:
        return type(argument) is np.ndarray and argument.dtype.isnative

    def is_plain(self, arguments: Sequence[Any]) -> bool:
        return self.surroundings is None or self.surroundings.is_plain()

    def unguarded(self, names: dict[str, Any]) -> str:
        if self.surroundings is None:
            return ""
        is_plain = self.surroundings.is_plain
        names["is_plain"] = lambda *arrays: is_plain()
        return "is_plain()"


def _quick_empty(torch: Any) -> Callable[..., Any] | None:
    """Returns the allocator of Inductor's programs, at half the cost of `torch.empty_like`, if this torch has it."""
    try:
        empty: Callable[..., Any] = torch._C._dynamo.guards._empty_strided_cpu
        made = empty((2, 3), (1, 2), torch.bfloat16)
        same = (made.shape, made.stride(), made.dtype) == ((2, 3), (1, 2), torch.bfloat16) and made.is_cpu
    except Exception:  # private API of torch
        return None
    return empty if same else None


def _quick_alias(torch: Any) -> Callable[..., Any]:
    """Returns what views a tensor's memory in Inductor's programs, at half the cost of `torch.as_strided`, if this torch has it."""
    try:
        alias: Callable[..., Any] = torch._C._dynamo.guards._reinterpret_tensor
        base = torch.arange(12.0)[2:]
        made = alias(base, (2, 3), (1, 2), 1)
        found = made.tolist(), made.stride(), made.dtype, made.untyped_storage()._cdata
        if found == ([[3, 5, 7], [4, 6, 8]], (1, 2), base.dtype, base.untyped_storage()._cdata):
            return alias
    except Exception:  # private API of torch
        pass
    return lambda tensor, shape, strides, offset: tensor.as_strided(shape, strides, tensor.storage_offset() + offset)


def as_torch_on_gpu(value: Any, *, may_write: bool = False) -> Any:
    """Returns an array of another library as a tensor that shares its memory, or as a copy if it is immutable and may be
    written; anything else unchanged."""
    import torch

    if hasattr(value, "__dlpack__") and not isinstance(value, torch.Tensor | np.ndarray | np.generic):
        tensor = torch.from_dlpack(value)
        return tensor.clone() if may_write and is_jaxs(value) else tensor
    return value
