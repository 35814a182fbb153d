"""Parses types: TorchScript's printed form and Python's annotations.

`str(type)` is the inverse of the former; `annotation` writes the latter, which is used inside `annotate(…)`.
"""

import re
from collections.abc import Callable
from difflib import get_close_matches
from functools import lru_cache

from irscope.ir.text.lexer import Cursor
from irscope.ir.types import (
    DTYPES,
    NUMBER,
    AwaitType,
    ClassType,
    DictType,
    Dim,
    FutureType,
    ListType,
    OptionalType,
    PrimitiveType,
    RRefType,
    TensorType,
    TupleType,
    Type,
    UnionType,
)

_DTYPE_OF: dict[str, str | None] = {"Tensor": None}
_DTYPE_OF |= {word: dtype for dtype, word in DTYPES.items()}
_DTYPE_OF |= {f"{word}Tensor": dtype for dtype, word in DTYPES.items()}
_IDENT = re.compile(r"[A-Za-z_][\w.]*(?:<[\w.]*>)?")
_DIALECT_TYPE = re.compile(r"![A-Za-z_][\w.$-]*")
_ANGLES = re.compile(r'"(?:[^"\\\n]|\\.)*"|->|[<>]|\n')
_INT = re.compile(r"-?\d{1,19}(?![\w.])")
_DIM = re.compile(r"\*|-?\d{1,19}(?![\w.])|SS\(-?\d{1,19}\)|[A-Za-z_]\w*(?!\w|=)")
_DEVICE = re.compile(r"[a-z]+(?::\d+)?")
_BIT = re.compile("[01]")
_FIELD = re.compile(r"(strides|requires_grad|device)=")
_FIELD_NAME = re.compile(r"[A-Za-z_]\w*")
_CONTAINERS: dict[str, Callable[[Type], Type]] = {
    "Future": FutureType,
    "Await": AwaitType,
    "RRef": RRefType,
    "Optional": OptionalType,
    "List": ListType,
}


@lru_cache(maxsize=4096)
def parse_type(text: str) -> Type:
    """The type that a text describes, as TorchScript prints it or as a Python annotation."""
    cursor = Cursor(text)
    type = read_type(cursor)
    if cursor.skip() != len(text):
        cursor.fail("the end of the type")
    return type


def read_type(cursor: Cursor) -> Type:
    """Read the type that starts at the cursor; recurses to the depth of the type, which the cursor limits."""
    return _read(cursor)[0]


def _read(cursor: Cursor) -> tuple[Type, int]:
    """Read a type and its height, so that `int[][][]…` is refused as `List[List[…]]` is."""
    cursor.enter()
    type, height = _read_base(cursor)
    while True:
        if cursor.take("?"):
            type = OptionalType(type)
        elif cursor.take("["):
            cursor.expect("]")
            type = ListType(type)
        else:
            break
        height += 1
        if height > cursor.MAX_DEPTH:
            cursor.wrong(f"types and constants nest at most {cursor.MAX_DEPTH} deep")
    cursor.depth -= 1
    return type, height


def _read_base(cursor: Cursor) -> tuple[Type, int]:
    if cursor.take("("):
        elements, height = _read_row(cursor, ")")
        return TupleType(elements), height
    if cursor.at("!"):
        return _read_dialect_type(cursor), 1
    word = cursor.demand(_IDENT, "a type")
    if word == "NamedTuple" and cursor.take("("):
        return _read_named_tuple(cursor)
    if word in _DTYPE_OF:
        return _read_tensor(cursor, word), 1
    if word in _CONTAINERS or word in ("Dict", "Union", "Tuple"):
        return _read_container(cursor, word)
    if cursor.at("("):
        near = get_close_matches(word, [*_DTYPE_OF, *_CONTAINERS, "Dict", "Union", "Tuple"], n=1)
        hint = f"did you mean {near[0]}?" if near else f"tensor types are {', '.join(list(_DTYPE_OF)[:6])}, …"
        cursor.wrong(f"{word!r} is not a type with parameters", hint=hint)
    if word == "number":  # an older spelling of Scalar
        return NUMBER, 1
    return ClassType(word) if "." in word or "<" in word else PrimitiveType(word), 1


def _read_dialect_type(cursor: Cursor) -> Type:
    """Read a type of another dialect, kept as text: `!hal.buffer_view`, `!memref<4x?xf32>`."""
    start = cursor.skip()
    cursor.demand(_DIALECT_TYPE, "the name of a type after '!'")
    opened = 0
    for found in _ANGLES.finditer(cursor.text, cursor.pos):
        mark = found.group()
        if opened == 0 and (mark != "<" or found.start() != cursor.pos):
            break
        opened += {"<": 1, ">": -1}.get(mark, 0)
        if mark == "\n":
            break
        if opened == 0:
            cursor.pos = found.end()
            break
    if opened:
        cursor.fail("the '>' that closes this type")
    return ClassType(cursor.text[start : cursor.pos])


def _read_row(cursor: Cursor, end: str) -> tuple[tuple[Type, ...], int]:
    """Read types between commas up to and including the closing bracket, with the height of a type around them."""
    read = [_read(cursor) for _ in cursor.row(end)]
    return tuple(element for element, _ in read), 1 + max((height for _, height in read), default=0)


def _read_container(cursor: Cursor, word: str) -> tuple[Type, int]:
    """Read `Dict(str, int)` as TorchScript prints it, or `Dict[str, int]` as Python does."""
    start = cursor.pos
    if cursor.take("["):
        elements, height = _read_row(cursor, "]")
    elif cursor.take("("):
        elements, height = _read_row(cursor, ")")
    else:
        return PrimitiveType(word), 1
    if word == "Tuple":
        return TupleType(elements), height
    if word == "Union":
        return UnionType(elements), height
    if len(elements) != (2 if word == "Dict" else 1):
        cursor.wrong(f"{word} takes {'two types' if word == 'Dict' else 'one type'}, not {len(elements)}", start)
    return (DictType(*elements) if word == "Dict" else _CONTAINERS[word](elements[0])), height


def _read_named_tuple(cursor: Cursor) -> tuple[Type, int]:
    """Read `NamedTuple(a : Tensor, b : int)`; the whole text is its name, because torch prints no other."""
    fields, elements, tallest = [], [], 0
    for _ in cursor.row(")"):
        field = cursor.demand(_FIELD_NAME, "the name of a field")
        cursor.expect(":")
        element, height = _read(cursor)
        fields.append(f"{field} : {element}")
        elements.append(element)
        tallest = max(tallest, height)
    return TupleType(tuple(elements), f"NamedTuple({', '.join(fields)})"), tallest + 1


def _read_tensor(cursor: Cursor, word: str) -> Type:
    """Read a tensor type: `Float(2, *, strides=[3, 1], requires_grad=0, device=cpu)`, `Tensor`, `FloatTensor`, `Float()`."""
    shape: list[Dim] = []
    fields: dict[str, str | tuple[int, ...]] = {}
    inside = cursor.take("(")
    for _ in cursor.row(")") if inside else ():
        field = cursor.match(_FIELD)
        if field is not None:
            fields[field.group(1)] = _read_refinement(cursor, field.group(1))
        else:
            dim = cursor.demand(_DIM, "an extent, '*', 'strides=', 'requires_grad=' or 'device='")
            shape.append(None if dim == "*" else int(dim) if dim.lstrip("-").isdigit() else dim)
    strides, grad, device = fields.get("strides"), fields.get("requires_grad"), fields.get("device")
    if isinstance(strides, tuple) and len(strides) != len(shape):
        cursor.wrong(f"a tensor type of rank {len(shape)} has {len(strides)} strides")
    ranked = (inside and not word.endswith("Tensor")) or bool(shape)
    if ranked and not shape:
        strides = ()  # torch prints no strides of a 0-dimensional tensor, but they are known to be empty
    return TensorType(
        _DTYPE_OF[word],
        tuple(shape) if ranked else None,
        strides if isinstance(strides, tuple) else None,
        device if isinstance(device, str) else None,
        None if grad is None else grad == "1",
        cursor.take("[Undefined]"),
    )


def _read_refinement(cursor: Cursor, field: str) -> str | tuple[int, ...]:
    if field == "device":
        return cursor.demand(_DEVICE, "a device such as 'cuda:0'")
    if field == "requires_grad":
        return cursor.demand(_BIT, "0 or 1")
    cursor.expect("[")
    return tuple([int(cursor.demand(_INT, "a stride")) for _ in cursor.row("]")])


def annotation(type: Type) -> str:
    """The type as a Python annotation in TorchScript code.

    >>> annotation(parse_type("Dict(str, int?[])"))
    'Dict[str, List[Optional[int]]]'
    """
    match type:
        case TensorType():
            return "Tensor"
        case ListType(element):
            return f"List[{annotation(element)}]"
        case OptionalType(element):
            return f"Optional[{annotation(element)}]"
        case DictType(key, value):
            return f"Dict[{annotation(key)}, {annotation(value)}]"
        case TupleType(elements, ""):
            return f"Tuple[{', '.join(map(annotation, elements)) or '()'}]"
        case UnionType(members):
            return f"Union[{', '.join(map(annotation, members))}]"
    return str(type)
