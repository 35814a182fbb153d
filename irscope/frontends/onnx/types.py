"""What a model's file says, untrusted: types and symbolic extents, elements, places in the user's source, and what ONNX itself
infers from it.

An element type that no `aten::` op computes with (float8, int4, strings) keeps its own name. A symbolic extent keeps
its name, written so that it is valid in a type: `past + 1` becomes `past___1`.
"""

import ast
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np

from irscope._base.isolated import machine_memory
from irscope._base.loaded_code import cell_name
from irscope._base.words import byte_count, plural
from irscope.errors import LoadError
from irscope.frontends.emit import Place
from irscope.frontends.refusals import first_line, refuse_pointer, start_of
from irscope.ir import TENSOR, DictType, Dim, ListType, Location, OptionalType, TensorType, Type

ELEMENT_TYPES: Final[Mapping[int, str]] = dict(
    enumerate(
        "float32 uint8 int8 uint16 int16 int32 int64 string bool float16 float64 uint32 uint64 complex64 complex128 bfloat16 "
        "float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz uint4 int4 float4_e2m1fn float8_e8m0fnu uint2 int2 "
        "float6_e2m3fn float6_e3m2fn".split(),
        start=1,
    )
)
"""ONNX's number of each element type, and the IR's name."""

FLOATS: Final = frozenset({"float32", "float64", "float16", "bfloat16"})
INTEGERS: Final = frozenset({"int64", "int32", "int16", "int8", "uint8"})
COMPUTED: Final = FLOATS | INTEGERS | {"bool"}
"""The element types that `aten::` ops compute with; an op on others stays `onnx::`."""

_NOT_A_NAME: Final = re.compile(r"\W")


def type_of(proto: Any) -> Type:
    """Returns the type that a TypeProto describes; a plain tensor if it is empty."""
    kind = proto.WhichOneof("value")
    if kind == "tensor_type":
        return _tensor(proto.tensor_type)
    if kind == "sequence_type":
        return ListType(type_of(proto.sequence_type.elem_type))
    if kind == "optional_type":
        return OptionalType(type_of(proto.optional_type.elem_type))
    if kind == "map_type":
        key = TensorType(ELEMENT_TYPES.get(proto.map_type.key_type), ())
        return DictType(key, type_of(proto.map_type.value_type))
    if kind == "sparse_tensor_type":
        return _tensor(proto.sparse_tensor_type)
    return TENSOR


def _tensor(proto: Any) -> TensorType:
    shape = tuple(map(_extent, proto.shape.dim)) if proto.HasField("shape") else None
    if shape is not None and prod(extent for extent in shape if isinstance(extent, int) and extent) >= 1 << 60:
        raise LoadError(f"a tensor of shape {list(shape)} is larger than any memory", hint="the model is damaged: export it again")
    return TensorType(ELEMENT_TYPES.get(proto.elem_type), shape)


def _extent(dim: Any) -> Dim:
    kind = dim.WhichOneof("value")
    if kind == "dim_value":
        return int(dim.dim_value) if dim.dim_value >= 0 else None
    if kind == "dim_param" and dim.dim_param and not dim.dim_param.startswith("unk__"):
        return symbol(dim.dim_param)
    return None


def symbol(text: str) -> str:
    """Returns a valid name for an extent, with each invalid character written as `_`.

    >>> symbol("batch size"), symbol("2n")
    ('batch_size', '_2n')
    """
    name = _NOT_A_NAME.sub("_", text)
    return f"_{name}" if name[:1].isdigit() else name


def merged(found: Type, inferred: Type) -> Type:
    """Returns the type that follows from the ops, completed by ONNX's own inference where it is open.

    >>> str(merged(TensorType("float32", (None, 3)), TensorType("float32", ("n", 3))))
    'Float(n, 3)'
    """
    if not isinstance(found, TensorType) or not isinstance(inferred, TensorType):
        return found
    dtype = found.dtype or inferred.dtype
    if found.shape is None:
        return found.with_(dtype=dtype, shape=inferred.shape)
    if inferred.shape is None or len(inferred.shape) != len(found.shape):
        return found.with_(dtype=dtype)
    pairs = zip(found.shape, inferred.shape, strict=True)
    return found.with_(dtype=dtype, shape=tuple(b if a is None else a for a, b in pairs))


# ONNX's own inference of a node's results: element types, ranks and symbolic extents, one node at a time.
#
# `onnx.shape_inference` knows every standard op. It is used where irscope's type rules leave something open, and for ops
# that stay `onnx::`. Claims of the file (`value_info`) are not trusted where the ops determine the type.
#
# It is C++ that reads past the end of a shape for an axis out of range (LayerNormalization), for a negative number of
# axes (GatherND), for fewer parts than outputs (Split), and builds a shape of 2^40 extents (Expand). So it is not called
# for a node whose numbers are not in range.

_NUMBERS: Final = {name: number for number, name in ELEMENT_TYPES.items()}
_WORDS: Final = {"float32": "float", "float64": "double"}
"""The element types that ONNX's schemas call differently."""
_MAX_DATA: Final = 1024
"""The most elements of a known input that inference receives: shapes, axes, repeats."""
_WRONG: Final = frozenset({"STFT", "AveragePool", "LpPool", "MaxPool"})
"""Ops for which ONNX infers extents that differ from its own or onnxruntime's results: windows that are dilated with SAME
padding, or that would start in the padding."""


@lru_cache(maxsize=4096)
def schema_of_op(op: str, domain: str, opset: int) -> Any:
    """Returns ONNX's schema of an op in an opset; None for an op that it does not define."""
    import onnx

    try:
        return onnx.defs.get_schema(op, opset, "" if domain == "ai.onnx" else domain)
    except (onnx.defs.SchemaError, TypeError, OverflowError):
        return None


def proto_of(type: Type) -> Any:
    """Returns a type as a TypeProto; None if ONNX has no such type."""
    import onnx

    if isinstance(type, TensorType) and type.dtype in _NUMBERS:
        shape = None if type.shape is None else list(type.shape)
        if shape is not None and any(isinstance(extent, int) and extent >= 2**63 for extent in shape):
            return None
        return onnx.helper.make_tensor_type_proto(_NUMBERS[type.dtype], shape)
    if isinstance(type, ListType) and (inner := proto_of(type.element)) is not None:
        return onnx.helper.make_sequence_type_proto(inner)
    if isinstance(type, OptionalType) and (inner := proto_of(type.element)) is not None:
        return onnx.helper.make_optional_type_proto(inner)
    return None


def inferred(
    node: Any, domain: str, opset: int, inputs: Mapping[str, tuple[Type, np.ndarray[Any, Any] | None]], ir_version: int
) -> Sequence[Type]:
    """Returns the type of each output: as ONNX infers it, else the element type that the op's schema ties to its operands, or
    a plain tensor. Never raises, whatever the node claims."""
    schema = schema_of_op(node.op_type, domain, opset)
    if schema is None:
        return (TENSOR,) * len(node.output)
    found = _by_inference(node, schema, domain, opset, inputs, ir_version)
    tied = _element_types(node, schema, [inputs[name][0] if name else None for name in node.input])
    return [
        type.with_(dtype=dtype) if isinstance(type, TensorType) and type.dtype is None else type
        for type, dtype in zip(found, tied, strict=True)
    ]


def _by_inference(
    node: Any, schema: Any, domain: str, opset: int, inputs: Mapping[str, tuple[Type, np.ndarray[Any, Any] | None]], ir_version: int
) -> Sequence[Type]:
    import onnx

    nothing = (TENSOR,) * len(node.output)
    has_body = any(attribute.HasField("g") for attribute in node.attribute)
    if has_body or not is_sound(node, schema, [type for type, _ in inputs.values()]):
        return nothing
    types = {name: proto for name, (type, _) in inputs.items() if (proto := proto_of(type)) is not None}
    known = {
        name: onnx.numpy_helper.from_array(array)
        for name, (_, array) in inputs.items()
        if array is not None and array.size <= _MAX_DATA and array.dtype.kind in "iufb"
    }
    if len(types) != len(inputs):
        return nothing
    try:
        opsets = [onnx.helper.make_opsetid("" if domain == "ai.onnx" else domain, opset)]
        found = onnx.shape_inference.infer_node_outputs(schema, node, types, known, opset_imports=opsets, ir_version=max(ir_version, 3))
    except Exception:  # its own errors have no common class
        return nothing
    made = [_type_of(found[name]) if name in found else TENSOR for name in node.output]
    if node.op_type in _WRONG:
        made = [type.with_(shape=(None,) * type.rank) if isinstance(type, TensorType) and type.rank is not None else type for type in made]
    return made


def _element_types(node: Any, schema: Any, operands: Sequence[Type | None]) -> Sequence[str | None]:
    """Returns the element type of each output that has that of an operand, or only one possible type; None for others."""
    names = {f"tensor({_WORDS.get(name, name)})": name for name in _NUMBERS}
    allowed = {item.type_param_str: item.allowed_type_strs for item in schema.type_constraints}
    bound = names | {word: names[texts[0]] for word, texts in allowed.items() if len(texts) == 1 and texts[0] in names}
    for index, type in enumerate(operands):
        formal = schema.inputs[min(index, len(schema.inputs) - 1)] if schema.inputs else None
        if formal is None or not formal.is_homogeneous or not isinstance(type, TensorType) or type.dtype is None:
            continue
        if all(text.startswith("tensor(") for text in allowed.get(formal.type_str, ())):
            bound.setdefault(formal.type_str, type.dtype)
    formals = [schema.outputs[min(index, len(schema.outputs) - 1)] for index in range(len(node.output))] if schema.outputs else []
    return [bound.get(formal.type_str) if formal.is_homogeneous else None for formal in formals] or [None] * len(node.output)


def is_sound(node: Any, schema: Any, operands: Sequence[Type]) -> bool:
    """Checks whether the attributes have the declared types and all numbers, axes included, are in range.

    Every axis must be one of the first operand's, or for Unsqueeze of its result; other numbers may be negative only if
    that has a meaning for their attribute.
    """
    if len(node.output) > schema.max_output or not schema.min_input <= len(node.input) <= schema.max_input:
        return False
    tensors = [type for type in operands if isinstance(type, TensorType)]
    rows = [type.shape[0] for type in tensors if type.dtype in ("int64", "int32") and type.shape is not None and len(type.shape) == 1]
    if any(isinstance(extent, int) and extent > _MAX_DATA for extent in rows):  # longer than any shape
        return False
    ranks = [type.rank for type in tensors]
    least = min((rank for rank in ranks[:1] if rank is not None), default=0) if None not in ranks[:1] else 0
    for attribute in node.attribute:
        declared = schema.attributes.get(attribute.name)
        if declared is None or int(getattr(declared.type, "value", declared.type)) != attribute.type:
            return False
        numbers = [attribute.i, *attribute.ints]
        if "axis" in attribute.name or "axes" in attribute.name or attribute.name == "perm":
            room = least + (len(attribute.ints) if node.op_type == "Unsqueeze" else 0)
            if not all(-room <= number < max(room, 1) for number in numbers):
                return False
            continue
        if min(numbers) < (-(2**31) if attribute.name in _SIGNED else 0) or max(numbers) > 2**31:
            return False
        if attribute.name == "num_outputs" and attribute.i != len(node.output):
            return False
    return True


_SIGNED: Final = frozenset({"start", "end", "k", "pads", "starts", "ends", "value_int", "value_ints", "shape", "default_int64"})


def _type_of(proto: Any) -> Type:
    try:
        return type_of(proto)
    except LoadError:  # extents beyond any memory: an op that computes such a tensor fails
        return TENSOR


# Reads a TensorProto's elements as a NumPy array, untrusted: sizes are checked first, then that all bytes are there.
#
# Elements in other files are read only from the model's own folder or below, after symbolic links are resolved.

MAX_SPARSE: Final = 1 << 24
"""The most elements of a sparse tensor that is converted to a dense one."""

_BITS: Final = {
    "int4": 4, "uint4": 4, "float4_e2m1fn": 4, "int2": 2, "uint2": 2, "float16": 16, "bfloat16": 16, "complex64": 64,
    "complex128": 128, "bool": 8, "float6_e2m3fn": 8, "float6_e3m2fn": 8,
}  # fmt: skip
_FIELDS: Final = ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")
_WITHOUT: Final = 'without it: irs.load(…, missing_weights="inputs"), --missing-weights inputs on the command line'
_HINT: Final = "the file is damaged, or was written by a broken exporter: export the model again"


def elements_of(proto: Any, folder: Path | None, what: str) -> np.ndarray[Any, Any]:
    """Returns a copy of the elements of a TensorProto. Raises LoadError, which calls the tensor `what`.

    bfloat16, float8 and smaller are `ml_dtypes` arrays; strings are Python's, in an array of objects.
    """
    from onnx import numpy_helper

    dtype = ELEMENT_TYPES.get(proto.data_type)
    if dtype is None:
        raise LoadError(f"{what} has elements of type {proto.data_type}, which ONNX does not define", hint=_HINT)
    shape = tuple(proto.dims)
    if any(extent < 0 for extent in shape):
        raise LoadError(f"{what} has the shape {list(shape)}", hint=_HINT)
    count = prod(shape)
    if proto.data_location == proto.EXTERNAL:
        return _external(proto, dtype, shape, folder, what)
    present = max((len(getattr(proto, field)) for field in _FIELDS), default=0)
    if (proto.HasField("raw_data") and present * 8 < count * bits_of(dtype)) or (not proto.raw_data and present * 8 < count):
        raise LoadError(f"{what} of shape {list(shape)} should hold {plural(count, 'element')}, and has fewer", hint=_HINT)
    try:
        return np.array(numpy_helper.to_array(proto))
    except Exception as error:  # NumPy's and onnx's complaints about counts and types
        raise LoadError(f"the elements of {what} cannot be read: {first_line(error)[:200]}", hint=_HINT) from None


def is_missing(proto: Any, folder: Path | None) -> bool:
    """Checks whether the elements are in another file, and there is no such file in the model's folder or below."""
    if proto.data_location != proto.EXTERNAL or folder is None:
        return bool(proto.data_location == proto.EXTERNAL)
    location = next((entry.value for entry in proto.external_data if entry.key == "location"), "")
    try:
        return not _inside(location, folder, "a weight").is_file()
    except (LoadError, OSError):  # reading it says what is wrong
        return False


def bits_of(dtype: str) -> int:
    """Returns the number of bits of an element in a file."""
    if dtype in _BITS:
        return _BITS[dtype]
    return 8 if dtype.startswith("float8") else 0 if dtype == "string" else np.dtype(dtype).itemsize * 8


_LONGEST_POINTER: Final = 1024
"""Git LFS's notes are shorter: larger files are not opened to look for one."""


def _external(proto: Any, dtype: str, shape: tuple[int, ...], folder: Path | None, what: str) -> np.ndarray[Any, Any]:
    """Reads elements from another file, and only their bytes."""
    from onnx import TensorProto, numpy_helper

    entries = {entry.key: entry.value for entry in proto.external_data}
    path = _beside(entries.get("location", ""), folder, what)
    size = -(-prod(shape) * bits_of(dtype) // 8)
    try:
        offset, length = int(entries.get("offset", 0)), int(entries.get("length", size))
    except ValueError:
        raise LoadError(f"{what} does not say where in {path.name!r} its elements are", hint=_HINT) from None
    there = path.stat().st_size
    if there < _LONGEST_POINTER:
        refuse_pointer(path, start_of(path))
    if length != size or offset < 0 or offset + length > there:
        what = f"{what} should be {size} bytes at {offset} of {path.name!r}, which has {there}"
        raise LoadError(what, hint="copy the whole file that belongs to the model")
    try:
        if size > machine_memory():
            raise MemoryError
        with path.open("rb") as file:
            file.seek(offset)
            content = file.read(length)
        if bits_of(dtype) >= 8 and dtype in np.sctypeDict:
            return np.frombuffer(bytearray(content), np.dtype(dtype).newbyteorder("<")).astype(dtype, copy=False).reshape(shape)
        return np.array(numpy_helper.to_array(TensorProto(data_type=proto.data_type, dims=shape, raw_data=content)))
    except MemoryError:
        what = f"{what} of shape {list(shape)} takes {byte_count(size)}, more than there is memory for"
        raise LoadError(what, hint=f"move {path.name!r} elsewhere, and read the model {_WITHOUT}") from None


def _beside(location: str, folder: Path | None, what: str) -> Path:
    """Returns the file that a tensor names. Raises LoadError unless it is below the model's folder."""
    if folder is None:
        hint = f"load the model by the path of its file, or onnx.load_external_data_for_model(model, folder) first; {_WITHOUT}"
        raise LoadError(f"the elements of {what} are in another file, {location!r}, of an unknown folder", hint=hint)
    try:
        path = _inside(location, folder, what)
        if path.is_file():
            return path
    except OSError as error:
        raise LoadError(f"the file {location!r} of {what} cannot be opened: {error.strerror}", hint=_HINT) from None
    raise LoadError(f"there is no file {location!r} beside the model, which {what} refers to", hint=f"copy it there; {_WITHOUT}")


def _inside(location: str, folder: Path, what: str) -> Path:
    if not location or "\0" in location or location.startswith(("/", "\\")) or ":" in location:
        raise LoadError(f"{what} names {location!r} as the file of its elements, which is not a relative path", hint=_HINT)
    home = folder.resolve()
    path = (home / location).resolve()
    if not path.is_relative_to(home):
        hint = "a model may read only files in its own folder: put the file there and change the name in the model"
        raise LoadError(f"{what} names a file outside the model's folder: {location!r}", hint=hint)
    return path


def dense_of(proto: Any, folder: Path | None, what: str) -> np.ndarray[Any, Any]:
    """Returns a SparseTensorProto as a dense array. Raises LoadError if it is too large, or has indices out of range."""
    shape = tuple(proto.dims)
    if any(extent < 0 for extent in shape) or prod(shape) > MAX_SPARSE:
        raise LoadError(f"{what} is sparse of shape {list(shape)}, too large to be stored densely", hint="store it densely")
    values = elements_of(proto.values, folder, what)
    places = elements_of(proto.indices, folder, f"the indices of {what}")
    dense = np.zeros(shape, values.dtype)
    try:
        if places.ndim == 2:
            dense[tuple(places.T)] = values
        else:
            dense.reshape(-1)[places] = values
    except (IndexError, ValueError):
        raise LoadError(f"{what} is sparse, and its indices do not fit its shape {list(shape)}", hint=_HINT) from None
    return dense


# The user's source locations of nodes: the exporter's stack traces and module paths, if it wrote them.

_FRAME = re.compile(r'File "([^"\n]+)", line (\d+)')
_MODULE = re.compile(r"[^\w.]+")


def place_of(node: Any, around: Place, outer: str) -> Place:
    """Returns the innermost line of user code in the stack trace that `torch.onnx` may store in a node, else that of the node around it,
    and the module path: from the exporter's metadata, or the folders of a name such as `/encoder/layer.0/MatMul`."""
    noted = {entry.key.rpartition(".")[2]: entry.value for entry in reversed(node.metadata_props)}
    text = noted.get("stack_trace", node.doc_string)
    frames = _FRAME.findall(text) if "line" in text else []
    file, line = ([frame for frame in frames if "/torch/" not in frame[0]] or frames or [("", "0")])[-1]
    scopes, text = None, noted.get("name_scopes", "")
    with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
        scopes = ast.literal_eval(text) if text and len(text) < 10_000 else None
    known = str(scopes[-2]) if isinstance(scopes, list) and len(scopes) > 1 else ""
    path = known or ".".join(part for part in node.name.split("/")[:-1] if part)
    scope = ".".join(part for part in (outer, _MODULE.sub("_", path)) if part)
    return Place(Location(cell_name(file), int(line[:9])) if file else around.location, "", scope)
