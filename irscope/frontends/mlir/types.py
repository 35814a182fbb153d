"""What MLIR's types, constants, attributes and locations become.

A tensor of an element type that the IR has is a `TensorType`; so is a plain number, as a tensor of rank 0, which keeps
its width (`f32` is `Float()`). `index` is an `int`. Torch-mlir's types are torch's (`!torch.list<int>` is `int[]`).
Everything else keeps MLIR's spelling, with a `!` before it: `!hal.buffer_view`, `!memref<4xf32>`, `!tensor<4xf32,
"encoding">`, and for a function's `!function<(f32) -> f32>`. The analyses assume nothing about what such a type refers to.
"""

import json
import math
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, lru_cache
from math import prod
from typing import Any, Final

import numpy as np

from irscope._base.frozen import EMPTY, FrozenDict
from irscope._base.loaded_code import cell_name
from irscope.errors import LoadError
from irscope.frontends.emit import Place
from irscope.ir import INT, TENSOR, ClassType, DictType, ListType, Location, OptionalType, TensorData, TensorType, TupleType, Type
from irscope.ir.types import PrimitiveType
from irscope.ops.expr.numpy_eval import round_to

ELEMENTS: Final = {
    "si8": "int8", "si16": "int16", "si32": "int32", "si64": "int64",  # torch-mlir's spelling; the last of a name is written
    "f16": "float16", "f32": "float32", "f64": "float64", "bf16": "bfloat16", "i1": "bool", "i8": "int8", "i16": "int16",
    "i32": "int32", "i64": "int64", "ui8": "uint8", "ui16": "uint16", "ui32": "uint32", "ui64": "uint64",
    "i4": "int4", "ui4": "uint4", "i2": "int2", "ui2": "uint2",
    "f8E4M3FN": "float8_e4m3fn", "f8E5M2": "float8_e5m2", "f8E4M3FNUZ": "float8_e4m3fnuz", "f8E5M2FNUZ": "float8_e5m2fnuz",
    "f8E8M0FNU": "float8_e8m0fnu", "f8E4M3": "float8_e4m3", "f8E3M4": "float8_e3m4", "f8E4M3B11FNUZ": "float8_e4m3b11fnuz",
    "f4E2M1FN": "float4_e2m1fn", "complex<f32>": "complex64", "complex<f64>": "complex128",
}  # fmt: skip
"""Maps MLIR's spelling of each element type to the IR's name. Others have none: `index` elements, quantised ones."""


_PYTHON: Final = {name: name for name in ("int", "float", "bool", "str", "Device", "Generator")} | {
    "none": "NoneType", "number": "Scalar", "any": "Any",
}  # fmt: skip
_TENSOR: Final = re.compile(r"(?:\[((?:\?|\d+)(?:\s*,\s*(?:\?|\d+))*|)\]|\*|unk)(?:,\s*(.+))?")


def torch_type(text: str) -> Type | None:
    """Returns the type that torch-mlir spells so; None if there is none.

    >>> str(torch_type("!torch.vtensor<[4,?],f32>")), str(torch_type("!torch.list<optional<int>>"))
    ('Float(4, *)', 'int?[]')
    """
    name, _, inside = text.removeprefix("!").removeprefix("torch.").partition("<")
    inside = inside[:-1]
    if name in _PYTHON and not inside:
        return PrimitiveType(_PYTHON[name])
    if name in ("vtensor", "tensor"):
        return _torch_tensor(inside)
    parts = [torch_type(part) for part in apart(inside)]
    known = [part for part in parts if part is not None]
    if not known or len(known) != len(parts):
        return None
    if name == "tuple":
        return TupleType(tuple(known))
    if name == "dict" and len(known) == 2:
        return DictType(*known)
    kind = {"list": ListType, "optional": OptionalType}.get(name)
    return kind(known[0]) if kind is not None and len(known) == 1 else None


def _torch_tensor(inside: str) -> TensorType | None:
    found = _TENSOR.fullmatch(inside)
    if found is None:
        return None if inside else TENSOR
    dims, element = found.groups()
    dtype = None if element in (None, "unk") else ELEMENTS.get(element)
    if dtype is None and element not in (None, "unk"):
        return None
    if dims is None:
        return TensorType(dtype)
    shape = tuple(None if dim.strip() == "?" else int(dim) for dim in dims.split(",") if dim.strip())
    return TensorType(dtype, shape, None if shape else ())


def apart(text: str) -> list[str]:
    """Returns the parts of a list of types, between commas that are not inside of brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "<[(") - (letter in ">])")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def read_type(ir: Any, type: Any) -> Type:
    """Returns what a type becomes; `ir` is the bindings' module."""
    text = str(type)
    if isinstance(type, ir.RankedTensorType) and type.encoding is None:
        element = ELEMENTS.get(str(type.element_type))
        if element is not None:
            shape = tuple(None if type.is_dynamic_dim(i) else type.get_dim_size(i) for i in range(type.rank))
            return TensorType(element, shape, None if shape else ())
    elif isinstance(type, ir.UnrankedTensorType):
        element = ELEMENTS.get(str(type.element_type))
        if element is not None:
            return TensorType(element)
    elif text in ELEMENTS:
        return TensorType(ELEMENTS[text], (), ())
    elif text == "index":
        return INT
    elif isinstance(type, ir.FunctionType):
        return ClassType(f"!function<{text}>")
    made = torch_type(text) if text.startswith("!torch.") else None
    return made if made is not None else ClassType(text if text.startswith("!") else f"!{text}")


# Detects names that are not UTF-8 before the bindings are asked for them.
#
# MLIR's names are bytes. Some of jaxlib's functions that return one as a string (of a location, of an entry in a
# dictionary) end the process if it is not UTF-8, as in damaged bytecode. MLIR prints such bytes by number.

_ESCAPED = re.compile(rb"\\(\\|[0-9A-F]{2})")
"""A byte that MLIR prints by number: any that is not printable ASCII."""


def check_utf8(printed: object) -> None:
    """Raises UnicodeDecodeError if MLIR's text of an object has bytes that are not UTF-8.

    >>> check_utf8(r'loc("gr\\C3\\B6\\C3\\9Fe.py":1:2)')
    """
    text = str(printed)
    if "\\" in text:
        unescaped(text)


def unescaped(text: str) -> str:
    """Decodes the bytes that MLIR prints by number. Raises UnicodeDecodeError if they are not UTF-8.

    >>> unescaped(r"gr\\C3\\B6\\C3\\9Fe \\22x\\22")
    'größe "x"'
    """
    return _ESCAPED.sub(lambda found: b"\\" if found[1] == b"\\" else bytes.fromhex(found[1].decode()), text.encode()).decode()


# Reads constant tensors of MLIR bit-exactly: `dense<…>`.
#
# NumPy reads the common ones through the bindings' buffers. Element types without a buffer (bfloat16, the eight- and
# four-bit types, complex numbers) are read from the text, which is exact: MLIR writes a float in decimal only if that
# rounds back to the same bits, and otherwise in hexadecimal, and many elements as one string of bytes.

MAX_ELEMENTS: Final = 1 << 28
"""The most elements of a constant that becomes an array; a larger one stays a text."""
MAX_SPLAT: Final = 1 << 16
"""The most elements of a splat that becomes an array; a larger one stays a text."""

_STORAGE: Final = {"bfloat16": "uint16"}
_SINGLE = re.compile(r"[\w.+-]+|\([\w.+-]+,\s*[\w.+-]+\)")
_DENSE = re.compile(r"dense<(.*)> : tensor<((?:\d+x)*)(.+)>", re.DOTALL)


def _by_buffer(attribute: Any) -> TensorData | None:
    shaped = attribute.type
    element = ELEMENTS.get(str(shaped.element_type))
    shape = tuple(shaped.shape)
    if element is None or element in _STORAGE or prod(shape) > (MAX_SPLAT if attribute.is_splat else MAX_ELEMENTS):
        return None
    try:
        array = np.array(attribute)
    except (TypeError, ValueError, BufferError, RuntimeError):
        return None
    if array.shape != shape or str(array.dtype) != element:
        return None
    return TensorData(element, shape, array)


def splat_data(text: str) -> TensorData | None:
    """Returns the element of a splat constant's text as a tensor of rank 0; None for any other text.

    >>> float(splat_data("dense<0xFF800000> : tensor<99999x99999xf32>").array)
    -inf
    """
    found = _DENSE.fullmatch(text)
    if found is None or not _SINGLE.fullmatch(found.group(1)):
        return None
    return dense_data(f"dense<{found.group(1)}> : tensor<{found.group(3)}>")


def dense_data(text: str) -> TensorData | None:
    """Returns the elements in the text of a dense attribute; None if there is no array type for them, and the text is kept."""
    found = _DENSE.fullmatch(text)
    if found is None:
        return None
    body, dims, element_text = found.groups()
    element = ELEMENTS.get(element_text)
    shape, storage = tuple(map(int, dims.split("x")[:-1])), _stored_as(element)
    if element is None or storage is None or prod(shape) > (MAX_SPLAT if _SINGLE.fullmatch(body) else MAX_ELEMENTS):
        return None
    elements = _elements(body, element, storage, prod(shape))
    return None if elements is None else TensorData(element, shape, elements.reshape(shape))


def _stored_as(element: str | None) -> np.dtype[Any] | None:
    """Returns NumPy's type for the elements; None if it has none of its own."""
    try:
        storage = None if element is None else np.dtype(_STORAGE.get(element, element))
    except TypeError:
        return None
    return storage if storage is not None and storage.isbuiltin == 1 else None


def _elements(body: str, element: str, storage: np.dtype[Any], count: int) -> np.ndarray[Any, Any] | None:
    """Returns the elements in row-major order; a single one is repeated."""
    packed = re.fullmatch(r'"0x([0-9A-Fa-f]*)"', body)
    if packed is not None:
        made = np.frombuffer(bytes.fromhex(packed.group(1)), storage.newbyteorder("<")).astype(storage)
    else:
        words = re.findall(r"[\w.+-]+", body)
        if element.startswith("complex"):
            part = "float32" if element == "complex64" else "float64"
            parts = np.array([_float_bits(word, part) for word in words], f"uint{np.dtype(part).itemsize * 8}")
            made = parts.view(part).view(storage)
        elif storage.kind == "f" or element == "bfloat16":
            bits = [_float_bits(word, element) for word in words]
            made = np.array(bits, f"uint{storage.itemsize * 8}").view(storage)
        else:
            made = np.array([{"true": 1, "false": 0}[word] if word in ("true", "false") else int(word, 0) for word in words], storage)
    if made.size == 1 and count != 1:
        made = np.full(count, made[0])
    return made if made.size == count else None


def bfloat16_bits(number: float) -> int:
    """Returns the bits of the nearest bfloat16, of two the even one.

    >>> hex(bfloat16_bits(1.28906)), hex(bfloat16_bits(1 / 3)), hex(bfloat16_bits(float("-inf")))
    ('0x3fa5', '0x3eab', '0xff80')
    """
    return int(round_to(np.array(number, np.float32), "bfloat16").view(np.uint32)) >> 16


def _float_bits(word: str, element: str) -> int:
    """Returns the bits of one element as a number.

    >>> hex(_float_bits("0xFF80", "bfloat16")), hex(_float_bits("1.28906", "bfloat16")), hex(_float_bits("-0.0", "float32"))
    ('0xff80', '0x3fa5', '0x80000000')
    """
    if word.startswith("0x"):
        return int(word, 16)
    if element == "bfloat16":
        return bfloat16_bits(float(word))
    kind, unsigned = {"float16": ("<e", "<H"), "float32": ("<f", "<I"), "float64": ("<d", "<Q")}[element]
    return int(struct.unpack(unsigned, struct.pack(kind, float(word)))[0])


# Reads the blobs at the end of a file, `{-# dialect_resources: … #-}`, that `dense_resource<name>` refers to.
#
# The bindings do not expose them, so they are read from the module's text, once, when the first one is needed.

_BLOB = re.compile(r'([\w.$-]+|"(?:[^"\\]|\\.)*"):\s*"0x([0-9A-Fa-f]*)"')
_NAMED = re.compile(r"dense_resource<(.*)> : (?:tensor|vector)<((?:\d+x)*)(.+)>", re.DOTALL)
_ALIGNMENT = 4
"""The number of bytes before the data, which hold its alignment."""


def _resource(text: str, blobs: Mapping[str, str]) -> TensorData | None:
    """Returns the data of an attribute's text; None if there is no such blob, or its size differs."""
    named = _NAMED.fullmatch(text)
    if named is None:
        return None
    name, dims, element = named.group(1), named.group(2), ELEMENTS.get(named.group(3))
    shape = tuple(map(int, dims.split("x")[:-1]))
    letters, storage = blobs.get(name), _stored_as(element)
    if letters is None or element is None or storage is None or prod(shape) > MAX_ELEMENTS or len(letters) % 2:
        return None
    content = bytes.fromhex(letters)[_ALIGNMENT:]
    if len(content) != prod(shape) * storage.itemsize:
        return None
    return TensorData(element, shape, np.frombuffer(content, storage.newbyteorder("<")).astype(storage).reshape(shape))


# Finds the properties of ops whose dialects the bindings do not know: `"my.op"() <{axis = 1 : i64}>`.
#
# The bindings omit them from the attributes of such an op, but return each one by its name. The names are in the module's
# text, which is printed once, in generic form, when the first such op is read: there every op begins a line.

_OP: Final = re.compile(r'\s*(?:%[^"=]*= )?"((?:[^"\\]|\\.)*)"\([^)]*\)(?:\[[^\]]*\])?(?: <\{(.*))?')
_NAME: Final = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([\w.$-]+))')
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|->|[][(){}<>,]')
_CLOSES: Final = {"]": "[", ")": "(", "}": "{", ">": "<"}
_ELEMENTS: Final = 4
"""The most elements of a constant that is printed."""


def _properties(ir: Any, root: Any) -> dict[Any, tuple[str, ...]]:
    """Returns the names by op, for ops under a root that have properties."""
    text = root.get_asm(
        print_generic_op_form=True, use_local_scope=True, assume_verified=True, enable_debug_info=False,
        large_elements_limit=_ELEMENTS, large_resource_limit=_ELEMENTS,
    )  # fmt: skip
    heads = [found for found in map(_OP.match, text.splitlines()) if found is not None]
    if not any(head.group(2) for head in heads):
        return {}
    operations = operations_under(ir, root)
    if len(operations) != len(heads):  # a name or an attribute that does not print in one line
        raise LoadError("the properties of ops cannot be read from the module's text", hint="write attributes without `<` `>`")
    pairs = zip(operations, heads, strict=True)
    return {op.operation: tuple(names_in(head.group(2))) for op, head in pairs if head.group(2)}


def operations_under(ir: Any, root: Any) -> list[Any]:
    """Returns an op and all ops in its regions, as a text has them."""
    found = list[Any]()

    def note(operation: Any) -> Any:
        found.append(operation)
        return ir.WalkResult.ADVANCE

    root.walk(note, ir.WalkOrder.PRE_ORDER)
    return found


def names_in(text: str) -> Iterator[str]:
    """Yields the names of a dictionary's entries, from its text after the opening brace.

    >>> list(names_in('axis = 1 : i64, flag, "odd name" = {a = "}"}, map = affine_map<(d0) -> (d0)>}> : () -> ()'))
    ['axis', 'flag', 'odd name', 'map']
    """
    at = 0
    while (found := _NAME.match(text, at)) is not None:
        quoted, plain = found.groups()
        yield plain if plain is not None else unescaped(quoted)
        at = _behind_entry(text, found.end())
        if text[at : at + 1] != ",":
            return
        at += 1


def _behind_entry(text: str, start: int) -> int:
    """Returns the position of the comma or brace that ends an entry."""
    opened: list[str] = []
    for token in _TOKEN.finditer(text, start):
        mark = token.group()
        if mark in "[({<":
            opened.append(mark)
        elif mark in _CLOSES:
            if opened and opened[-1] == _CLOSES[mark]:
                opened.pop()
            elif not opened and mark == "}":
                return token.start()
        elif mark == "," and not opened:
            return token.start()
    return len(text)


# Converts MLIR's attributes to payloads of a node: readable, frozen, and injective (distinct attributes stay distinct).
#
# A 64-bit integer becomes an int, a 64-bit float a float, an array a tuple, a dictionary a mapping, a dense tensor a
# tensor. Everything else is its MLIR text (`1 : i32`, `affine_map<(d0) -> (d0)>`, `@f`, `unit`). A string is kept without
# quotes if it cannot be mistaken for such a text, and with them otherwise.

_PLAIN = re.compile(r"[A-Za-z_][\w./ -]*")
_WORDS = re.compile(r"(?:[su]?i|b?f|tf)\d+\w*|index|none|unit|true|false|inf|nan", re.IGNORECASE)
_MAX_DEPTH: Final = 64


class AttributeReader:
    """Reads the attributes of the ops under one root, each once."""

    def __init__(self, ir: Any, root: Any) -> None:
        self._ir, self._root = ir, root
        self._known: dict[Any, Any] = {}
        self._registered: dict[str, bool] = {}

    @cached_property
    def _blobs(self) -> dict[str, str]:
        return dict(_BLOB.findall(str(self._root).rpartition("{-#")[2]))

    @cached_property
    def _found(self) -> dict[Any, tuple[str, ...]]:
        return _properties(self._ir, self._root)

    def of(self, operation: Any, skip: frozenset[str] = frozenset()) -> Any:
        """Returns the attributes of an op by name, properties included, in MLIR's order, which is alphabetical."""
        names = self._names(operation)
        made = {name: self.read(attribute_of(operation, name)) for name in names if name not in skip}
        return FrozenDict(made) if made else EMPTY

    def has_any(self, operation: Any) -> bool:
        """Checks whether an op has attributes or properties."""
        return len(operation.attributes) > 0 or len(self._names(operation)) > 0

    def _names(self, operation: Any) -> list[str]:
        attributes, name = operation.attributes, operation.name
        known = self._registered.get(name)
        if known is None:
            known = self._registered[name] = operation.context.is_registered_operation(name)
        others = () if known else self._found.get(operation, ())  # which the bindings do not list among the attributes
        listed = [getattr(entry, "name", entry) for entry in attributes] if len(attributes) else []
        return sorted((*listed, *others)) if others else listed

    def read(self, attribute: Any) -> Any:
        """Converts one attribute; a text if the bindings could not build the attribute."""
        if isinstance(attribute, str):
            made = dense_data(attribute)
            return attribute if made is None else made
        try:
            return self._known[attribute]
        except KeyError:
            made = self._known[attribute] = self._read(attribute, 0)
            return made

    def _read(self, attribute: Any, depth: int) -> Any:
        ir = self._ir
        if depth > _MAX_DEPTH:
            return str(attribute)
        if isinstance(attribute, ir.BoolAttr):
            return bool(attribute.value)
        if isinstance(attribute, ir.IntegerAttr):
            return int(attribute.value) if str(attribute.type) == "i64" else str(attribute)
        if isinstance(attribute, ir.FloatAttr):
            value = float(attribute.value)
            return value if str(attribute.type) == "f64" and math.isfinite(value) else str(attribute)
        if isinstance(attribute, ir.StringAttr):
            return _string(attribute)
        if isinstance(attribute, ir.ArrayAttr):
            return tuple(self._read(item, depth + 1) for item in _items(attribute))
        if isinstance(attribute, ir.DenseI64ArrayAttr):
            return tuple(attribute)
        if isinstance(attribute, ir.DictAttr):
            check_utf8(attribute)
            return FrozenDict({attribute[i].name: self._read(attribute[i].attr, depth + 1) for i in range(len(attribute))})
        if isinstance(attribute, ir.DenseElementsAttr):
            made = _by_buffer(attribute)
            made = dense_data(str(attribute)) if made is None else made
            return str(attribute) if made is None else made
        text = str(attribute)
        made = _resource(text, self._blobs) if text.startswith("dense_resource<") else None
        return text if made is None else made


def attribute_of(operation: Any, name: str) -> Any:
    """Returns one attribute, or None if the op does not have it; its text if the bindings cannot cast it (dense complex numbers)."""
    try:
        return operation.attributes.get(name)
    except (TypeError, ValueError) as error:
        found = re.search(r"Attribute\((.*)\)\)$", str(error), re.DOTALL)
        return found.group(1) if found is not None else f"<{name}>"


def _items(attribute: Any) -> list[Any]:
    try:
        return list(attribute)
    except (TypeError, ValueError):
        return []


def _string(attribute: Any) -> str:
    """Returns a string attribute, in quotes if it could be the text of another attribute.

    >>> class Quoted: value = "@f"
    >>> _string(Quoted())
    '"@f"'
    """
    text = attribute.value
    if isinstance(text, bytes):  # not UTF-8
        return str(attribute)
    return text if is_plain_string(text) else json.dumps(text)


def is_plain_string(text: str) -> bool:
    """Checks whether a kept text is an unquoted string: no other attribute has such a text.

    >>> is_plain_string("lapack_sgetrf"), is_plain_string("unit"), is_plain_string("76 : ui8")
    (True, False, False)
    """
    return bool(_PLAIN.fullmatch(text)) and not _WORDS.fullmatch(text)


# Converts MLIR's locations to a location in a source, a name, and a path of scopes.
#
# A location may be a file's line, a name around another location (JAX names each op after the functions and loops around
# it, `jit(f)/while/body/add`), a call site, or several locations fused. The location used is the innermost one in a file; the name of a
# place is the last part of the innermost name, such as `add`, and its scope the parts before it without the outermost function's, such as
# `while.body`.

_CALLS = re.compile(r"(?:(?:p?jit|vmap|jvp|transpose|remat|checkpoint|custom_jvp|custom_vjp)\()*")
_OUTERMOST = re.compile(r"^p?jit\(")
_MAX_STEPS = 64


def read_place(ir: Any, file: str, location: Any, is_live: Callable[[str], bool] = lambda _: False) -> Place:
    """Returns what a location becomes; `file` replaces the name that MLIR gives to a text, and `is_live` says which files hold code that is
    loaded in this process.

    Raises UnicodeDecodeError for a name that is not UTF-8, for which the bindings would end the process."""
    check_utf8(location)
    name = ""
    for _ in range(_MAX_STEPS):
        if isinstance(location, ir.FileLineColLoc):  # nearly every op of a text
            break
        if isinstance(location, ir.NameLoc):
            name = name or str(location.name_str)
            location = location.child_loc
        elif isinstance(location, ir.CallSiteLoc):
            location = location.callee
        elif isinstance(location, ir.FusedLoc):
            inner = list(location.locations)
            if not inner:
                break
            location = next((part for part in inner if not isinstance(part, ir.UnknownLoc)), inner[0])
        else:
            break
    found = None
    if isinstance(location, ir.FileLineColLoc):
        named = location.filename
        named = str(getattr(named, "value", named))
        shown = (file or "<mlir>") if named in ("-", "") else cell_name(named)
        found = Location(shown, location.start_line, location.start_col, live=is_live(named))
    return Place(found, *split_name(name))


@lru_cache(maxsize=4096)  # ops of one place of the source share it, and most have none
def split_name(name: str) -> tuple[str, str]:
    """Returns the last part of a path of names, and the parts before it.

    >>> split_name("jit(f)/while/body/add"), split_name("x"), split_name("jit(f)/jit(g)/sin")
    (('add', 'while.body'), ('x', ''), ('sin', 'g'))
    >>> split_name("jit(f)/transpose(jvp(block))/mul"), split_name("jvp(block)/mul")  # of a gradient, and in a function of its own
    (('mul', 'block'), ('mul', 'block'))
    """
    *path, last = name.rstrip(":").split("/")
    if path and _OUTERMOST.match(path[0]):
        del path[0]
    plain = [_plain(part) for part in path]
    return _plain(last), ".".join(part for part in plain if part)


def _plain(part: str) -> str:
    opened = _CALLS.match(part)
    depth = opened[0].count("(") if opened is not None else 0
    if opened is not None and part.endswith(")" * depth):
        part = part[opened.end() : len(part) - depth]
    return re.sub(r"[\s#,()]+", "_", part).strip("_")
