"""The check that a `.pt2` file is only data, so that loading it runs no code of its author.

`torch.export.load` runs content of a file in four places: pickles (example inputs, odd weights and constants,
everything in the format before torch 2.8), compiled libraries of AOTInductor, sizes that are evaluated as Python text
(`expr_str`), and names that become Python text when FX writes the program as a function. Here every record is checked
before torch sees it: torch's `weights_only` reader must accept the pickles, sizes must be arithmetic on symbols, trees
of arguments must consist of Python's own containers, targets must be ops, and names must be names. Anything not known
to be harmless is refused; with `trust` nothing is checked. Check and load use the same bytes and the same reader.
"""

from __future__ import annotations

import ast
import io
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from irscope.errors import LoadError
from irscope.files import read_file
from irscope.frontends.torch.values import require_torch
from irscope.frontends.trust import not_trusted

__all__ = ["load_program", "reason_to_distrust"]

_AGAIN: Final = "save it again with torch.export.save"
_DAMAGED: Final = " is damaged"
_NAME: Final = re.compile(r"[\w.@]*")
_TARGET: Final = re.compile(r"(torch\.ops(\.\w+){2,3}|_operator\.\w+|math\.\w+|torch\._?sym_\w+)")
_FREE: Final = frozenset(
    "stack_trace nn_module_stack source_fn_stack torch_fn custom from_node guards_code torch_version as_string as_strings "
    "parameter_name buffer_name tensor_constant_name custom_obj_name fqn path_name".split()
)
"""Keys whose strings torch neither evaluates nor writes into the text of a function."""
_TREES: Final = frozenset(("in_spec", "out_spec"))
_CONTAINERS: Final = frozenset(
    (None, "builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict", "collections.deque")
)
_SYMPY: Final = frozenset(
    "Symbol Integer Rational Float Add Mul Pow Max Min Abs Eq Ne Equality Unequality Lt Le Gt Ge StrictLessThan LessThan "
    "StrictGreaterThan GreaterThan And Or Not Piecewise ExprCondPair ceiling floor FloorDiv ModularIndexing Where PythonMod "
    "Mod CleanDiv CeilToInt FloorToInt CeilDiv LShift RShift PowByNatural FloatPow FloatTrueDiv IntTrueDiv "
    "IsNonOverlappingAndDenseIndicator TruncToFloat TruncToInt RoundToInt RoundDecimal ToFloat Identity".split()
)
_SYMBOL: Final = re.compile(r"[a-z]{1,3}\d+|oo|int_oo|true|false")
_POWERS: Final = frozenset(("Pow", "PowByNatural", "FloatPow", "LShift"))
_LONGEST_SIZE: Final = 4000
"""The most characters of one size; longer ones take sympy seconds."""
_HIGHEST_POWER: Final = 8
_DEEPEST_POWER: Final = 2


def load_program(path: Path, *, trust: bool) -> Any:
    """Loads the ExportedProgram in a file. Raises LoadError if it is damaged, or would run code without `trust`."""
    torch = require_torch("to load an exported program")
    if not zipfile.is_zipfile(path):
        what = f"{str(path)!r} is not a file that torch.export.save wrote, or a damaged one"
        raise LoadError(what, hint=_AGAIN)
    if trust:
        return torch.export.load(str(path))
    from torch.export.pt2_archive._package import load_pt2

    data = read_file(path)
    records = _records(path, data)
    why = reason_to_distrust(records)
    if why.endswith(_DAMAGED):
        raise LoadError(f"{str(path)!r} is not a program that this torch reads: {why}", hint=_AGAIN)
    if why:
        raise not_trusted(path, why)
    data.seek(0)
    return load_pt2(data).exported_programs["model"]


def _records(path: Path, data: io.BytesIO) -> dict[str, bytes]:
    """Reads every record with torch's own reader: another archive reader might see different content."""
    torch = require_torch("to load an exported program")
    try:
        reader = torch._C.PyTorchFileReader(data)
        return {name: reader.get_record(name) for name in reader.get_all_records()}
    except RuntimeError:
        if "serialized_exported_program.json" in zipfile.ZipFile(data).namelist():
            raise not_trusted(path, "it was written before torch 2.8, in a format of pickles") from None
        raise LoadError(
            f"{str(path)!r} is not a program that this torch reads, or a damaged one", hint=_AGAIN
        ) from None


def reason_to_distrust(records: dict[str, bytes]) -> str:
    """Returns why a file might run code when it is loaded; empty if it is only data.

    >>> reason_to_distrust({"data/aotinductor/model/wrapper.so": b""})
    'it holds compiled libraries (data/aotinductor/model/wrapper.so)'
    """
    if "models/model.json" not in records:
        foreign = next((name for name in records if name.startswith("data/aotinductor/")), "")
        return f"it holds compiled libraries ({foreign})" if foreign else "it is not an archive of torch.export.save"
    for name, record in records.items():
        why = _distrusted_record(name, record)
        if why:
            return why
    return ""


def _distrusted_record(name: str, record: bytes) -> str:
    if name.startswith("data/aotinductor/"):
        return f"it holds compiled libraries ({name})"
    if name.endswith(".pt"):
        return "" if not record or _is_plain_data(record) else f"{name} is a pickle that builds more than tensors"
    if name.endswith("_config.json") and name.startswith("data/"):
        return _distrusted_payloads(name, _json(record))
    if name.startswith("models/"):
        found = _json(record)
        return next(_strange(found, ""), "") if isinstance(found, dict) else f"{name}{_DAMAGED}"
    return ""


def _json(record: bytes) -> Any:
    try:
        return json.loads(record)
    except (ValueError, RecursionError):
        return None


def _is_plain_data(record: bytes) -> bool:
    """Checks whether torch's restricted reader takes a pickle; it builds tensors and Python containers, and calls
    nothing else."""
    torch = require_torch("to load an exported program")
    try:
        torch.load(io.BytesIO(record), weights_only=True)
    except Exception:
        return False
    return True


def _distrusted_payloads(name: str, found: Any) -> str:
    payloads = found.get("config") if isinstance(found, dict) else None
    if not isinstance(payloads, dict):
        return f"{name}{_DAMAGED}"
    for key, payload in payloads.items():
        if not isinstance(payload, dict) or payload.get("use_pickle") is not False:
            return f"{key!r} in {name} is a pickle"
        if not str(payload.get("path_name")).startswith(("weight_", "tensor_")):
            return f"{key!r} in {name} is an object"
    return ""


def _strange(root: Any, key: str) -> Iterator[str]:
    """Yields why a program could be more than data, from all its strings and keys and how torch uses them."""
    pending = [(root, key, "")]
    while pending:
        found, key, above = pending.pop()
        if isinstance(found, list):
            pending.extend((item, key, above) for item in found)
        elif isinstance(found, dict):
            for inner, item in found.items():
                if key == "range_constraints":
                    if not _is_size(inner):
                        yield f"a size is {_cut(inner)}"
                elif key not in _FREE and not _NAME.fullmatch(inner):
                    yield f"a name is {_cut(inner)}"
                pending.append((item, inner, key))
        elif isinstance(found, str) and not _is_harmless(found, key):
            yield f"{key} is {_cut(found)}"


def _is_harmless(text: str, key: str) -> bool:
    if key in _FREE:
        return True
    if key in _TREES:
        return not text or _is_tree(text)
    if key == "expr_str":
        return _is_size(text)
    if key in ("target", "as_operator") and text.startswith(("torch", "_operator", "math", "#")):
        return _TARGET.fullmatch(text) is not None
    return _NAME.fullmatch(text) is not None


def _is_tree(text: str) -> bool:
    """Checks whether a tree of arguments consists of Python's own containers: other types import what they name."""
    try:
        _, root = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return False
    pending = [root]
    while pending:
        tree = pending.pop()
        if (
            not isinstance(tree, dict)
            or not isinstance(tree.get("type"), str | None)
            or tree["type"] not in _CONTAINERS
        ):
            return False
        if "__enum__" in str(tree.get("context")) or "\\" in str(tree.get("context")):
            return False  # an escaped character could spell it
        children = tree.get("children_spec")
        if not isinstance(children, list):
            return False
        pending.extend(children)
    return True


def _is_size(text: str) -> bool:
    """Checks whether a size is arithmetic on numbers and symbols, with powers that are quick to compute.

    >>> _is_size("Add(Integer(2), Symbol('s0', integer=True))"), _is_size("s0*2 + 1"), _is_size("__import__('os')")
    (True, True, False)
    """
    if len(text) > _LONGEST_SIZE:
        return False
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    pending: list[tuple[ast.expr, int]] = [(tree, 0)]
    while pending:
        node, powers = pending.pop()
        inside = _arithmetic(node)
        if inside is None:
            return False
        if _is_power(node):
            powers += 1
            exponent = inside[1] if len(inside) > 1 else None
            if powers > _DEEPEST_POWER or not _is_small(exponent):
                return False
        pending.extend((each, powers) for each in inside)
    return True


def _arithmetic(node: ast.expr) -> list[ast.expr] | None:
    """Returns the operands of an arithmetic expression; None for anything else."""
    match node:
        case ast.Constant(value=bool() | int() | float()):
            return []
        case ast.Name(id=name) if _SYMBOL.fullmatch(name):
            return []
        case ast.BinOp(left=left, right=right):
            return [left, right]
        case ast.UnaryOp(operand=operand):
            return [operand]
        case ast.Compare(left=left, comparators=rest):
            return [left, *rest]
        case ast.Call(func=ast.Name(id="Symbol"), args=[ast.Constant(value=str(name))]) if re.fullmatch(r"\w+", name):
            return [] if all(isinstance(word.value, ast.Constant) for word in node.keywords) else None
        case ast.Call(func=ast.Name(id="Float"), args=[ast.Constant(value=str(digits))]) if re.fullmatch(
            r"[\d.e+-]+", digits
        ):
            return [word.value for word in node.keywords]
        case ast.Call(func=ast.Name(id=name), args=args) if name in _SYMPY:
            return [*args, *(word.value for word in node.keywords)]
    return None


def _is_power(node: ast.expr) -> bool:
    match node:
        case ast.BinOp(op=ast.Pow() | ast.LShift()):
            return True
        case ast.Call(func=ast.Name(id=name)):
            return name in _POWERS
    return False


def _is_small(node: ast.expr | None) -> bool:
    """Checks whether an exponent is a small number, in any spelling."""
    match node:
        case ast.Constant(value=int() | float() as number):
            return abs(number) <= _HIGHEST_POWER
        case ast.UnaryOp(operand=inner) | ast.Call(func=ast.Name(id="Integer"), args=[inner]):
            return _is_small(inner)
        case ast.Call(func=ast.Name(id="Rational"), args=[inner, _]):
            return _is_small(inner)
    return False


def _cut(text: str) -> str:
    return ascii(text if len(text) < 60 else f"{text[:60]}…")
