"""The pages of what each op of ONNX and of MLIR's dialects becomes, made from the code: `python docs/site/coverage_pages.py onnx` prints
docs/coverage/onnx.md, and `mlir`, which needs jaxlib, docs/coverage/mlir.md.

With the path of an ONNX model it lists which of its ops stay `onnx::`, and why.
"""

import ast
import inspect
import signal
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any, Final

from irscope.errors import IrscopeError
from irscope.frontends.mlir.control import CHOICES, CONTROL, JUMPS, SWITCHES
from irscope.frontends.mlir.ops_linalg import LOOP_NESTS
from irscope.frontends.mlir.source import rules
from irscope.frontends.onnx.call import builders
from irscope.frontends.onnx.control import STRUCTURED
from irscope.frontends.onnx.source import model_of
from irscope.ops.registry import overloads

DIALECTS: Final = ("stablehlo", "chlo", "arith", "math", "scf", "cf", "func")
"""The dialects whose ops jaxlib's bindings list."""

_MLIR: Final = """# MLIR: which ops become what

Generated from the code by `python docs/site/coverage_pages.py mlir`. An op with a rule becomes `aten` ops that
compute the same result, for the element types and extents that torch supports; otherwise (unsigned numbers in `arith`,
total orders, unknown extents) this one op is kept. Extents become known with example arguments, `irs.load(path, x, y)`.
A kept op has its own name, attributes and regions; the analyses assume that it may do anything or, if its dialect has no
memory, that it accesses none. JAX runs kept ops of StableHLO and CHLO if it is installed, including its own custom calls;
not ops that communicate with other devices, nor custom calls that another program registered.
"""


def mlir_table() -> str:
    """Returns the page in Markdown."""
    parts = [_MLIR]
    for dialect in DIALECTS:
        names = list(_ops(dialect))
        known = sum(_meaning(name) != "" for name in names)
        parts.append(f"\n## {dialect}: {known} of {len(names)}\n\n| op | becomes |\n|---|---|")
        parts.extend(f"| `{name}` | {_meaning(name) or 'kept'} |" for name in names)
    control, meanings = rules()
    known_names = {*meanings, *control, *JUMPS, *CHOICES, *SWITCHES}
    others = sorted(name for name in known_names if name.partition(".")[0] not in DIALECTS)
    parts.append("\n## Other dialects\n\n| op | becomes |\n|---|---|")
    parts.extend(f"| `{name}` | {_meaning(name)} |" for name in others)
    return "\n".join(parts) + "\n"


def _ops(dialect: str) -> Iterator[str]:
    module = import_module(f"jaxlib.mlir.dialects._{dialect}_ops_gen")
    yield from sorted({thing.OPERATION_NAME for thing in vars(module).values() if isinstance(getattr(thing, "OPERATION_NAME", None), str)})


def _meaning(name: str) -> str:
    """Returns in a few words what an op becomes; empty if it is kept."""
    if name in CONTROL:
        return "`prim::If` or `prim::Loop`, or its own region inlined"
    if name in LOOP_NESTS:
        return "`aten` ops on whole tensors, outside of executables"
    if name in JUMPS | CHOICES | SWITCHES:
        return "`prim::If` or `prim::Loop` where structured, otherwise an error"
    if name == "func.call":
        return "a call, which the alias db follows and `inlined` opens"
    rule = rules()[1].get(name)
    if rule is None:
        return ""
    single, summary = _single(rule), (inspect.getdoc(rule) or "").partition("\n")[0] if isinstance(rule, FunctionType) else ""
    return f"`aten::{single}`" if single else f"`aten` ops: {summary[0].lower()}{summary[1:]}" if summary else "`aten` ops"


def _single(rule: Any) -> str:
    """Returns the op of torch's that a row of MLIR's tables names, also through what restricts it; empty if there is none."""
    while isinstance(rule, partial) and rule.func.__name__ in ("_broadcasting", "_guarded"):
        rule = rule.args[0]
    return rule.args[0] if isinstance(rule, partial) and rule.func.__name__ in ("_simple", "_extreme") else ""


_CALLS = ("op", "ops")


@dataclass(frozen=True)
class Row:
    """One op of the table."""

    domain: str
    op: str
    version: int
    """The opset that introduced its current version."""
    kind: str
    """`aten`, `control flow`, `definition` (by ONNX's own function, if all of that is aten), or `onnx::`."""
    ops: tuple[str, ...]
    """The `aten::` ops that its builders may append, over all attributes."""


def rows() -> Sequence[Row]:
    """Returns a row for every op that the installed onnx defines, ONNX's own domain first."""
    import onnx

    newest: dict[tuple[str, str], Any] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        key = schema.domain, schema.name
        if not schema.deprecated and schema.since_version >= getattr(newest.get(key), "since_version", 0):
            newest[key] = schema
    return [_row(schema) for _, schema in sorted(newest.items())]


def _row(schema: Any) -> Row:
    found = builders().get(schema.name, ()) if schema.domain == "" else ()
    ops = tuple(sorted({op for _, builder in found for op in appended(builder)}))
    kind = "aten" if found else "onnx::"
    if schema.domain == "" and schema.name in STRUCTURED:
        kind, ops = "control flow", ("prim::If" if schema.name == "If" else "prim::Loop",)
    elif not found and (schema.has_function or schema.has_context_dependent_function):
        kind = "definition"
    return Row(schema.domain or "ai.onnx", schema.name, schema.since_version, kind, ops)


def appended(builder: Callable[..., Any]) -> set[str]:
    """Returns the ops named in a builder, and in the functions of its file that it calls."""
    found, seen = set[str](), set[Any]()
    waiting: list[Any] = [builder]
    while waiting:
        here = waiting.pop()
        if isinstance(here, partial):
            found.update(item for item in here.args if isinstance(item, str))
            waiting += [here.func, *(item for item in here.args if callable(item))]
        elif isinstance(here, FunctionType) and here not in seen:
            seen.add(here)
            tree = ast.parse(textwrap.dedent(inspect.getsource(here)))
            found.update(_named(tree))
            names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
            waiting += [item for name in names if (item := here.__globals__.get(name)) and _is_near(item, here)]
    return {name.removeprefix("aten::") for name in found if "onnx" not in name}


def _is_near(item: Any, to: FunctionType) -> bool:
    return isinstance(item, FunctionType) and item.__module__ == to.__module__ and not inspect.isclass(item)


def _named(tree: ast.AST) -> Iterator[str]:
    """Yields the first arguments of appending calls, from every branch of a conditional; numbers in a name are `*`."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name):  # a function of the file that takes the op to append
            names = [text for arg in node.args for text in _texts(arg)]
            yield from (text for text in names if text.isidentifier() and overloads(f"aten::{text}"))
        elif isinstance(node.func, ast.Attribute) and node.func.attr in _CALLS and node.args:
            yield from _texts(node.args[0])
        elif isinstance(node.func, ast.Attribute) and node.func.attr == "cast":
            yield "to"


def _texts(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from _texts(node.body)
        yield from _texts(node.orelse)
    elif isinstance(node, ast.JoinedStr):
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else "*" for part in node.values)


def onnx_table() -> str:
    """Returns the rows as a Markdown page."""
    import onnx

    all_rows = rows()
    counts = {kind: sum(row.kind == kind for row in all_rows) for kind in ("aten", "control flow", "definition", "onnx::")}
    summary = ", ".join(f"{number} {kind}" for kind, number in counts.items())
    head = f"""# ONNX ops

Written by `python docs/site/coverage_pages.py onnx`, for onnx {onnx.__version__}: {summary}.

* **aten**: the op becomes these `aten::` ops, or some of them, depending on its attributes and opset. If they ask for something that no
  `aten::` op does, the op stays `onnx::`: `[n for n in irs.load("model.onnx").nodes() if n.op.startswith("onnx::")]` are these nodes,
  and in a checkout `python docs/site/coverage_pages.py model.onnx` says why.
* **control flow**: it becomes a node with blocks.
* **definition**: ONNX defines the op by other ops. It becomes those, if all of them have an `aten::` meaning.
* **onnx::**: the op stays as it is, with its attributes. It is functional, so the alias db treats its results as new memory, and it
  runs in onnxruntime, or if that is not installed or lacks the op in ONNX's reference implementation; a form that the latter ignores (the
  lengths of an LSTM's sequences) is refused. `executable.remarks` says which of the two runs it.

| domain | op | as of opset | becomes | |
|---|---|---|---|---|
"""
    lines = (f"| {r.domain} | {r.op} | {r.version} | {r.kind} | {' '.join(r.ops)} |" for r in all_rows)
    return head + "\n".join(lines) + "\n"


def refusals(path: Path) -> Sequence[tuple[str, str, str]]:
    """Returns name and op of each node of a model that stays `onnx::`, and why. Raises LoadError for a file that cannot be read."""
    import onnx

    from irscope.frontends.onnx.importer import Importer

    importer = Importer(model_of(path, onnx), STRUCTURED, path.parent, "graph", str(path), without_weights=True)
    importer.run()
    return importer.refusals


def main(asked: str = "--help") -> None:
    if asked in ("-h", "--help"):
        print(__doc__)
        return
    if asked in TABLES:
        print(TABLES[asked](), end="")
        return
    try:
        found = refusals(Path(asked))
    except IrscopeError as error:
        sys.exit(str(error))
    print("\n".join(f"{op} {name!r}: {why}" for name, op, why in found) or "every op has an aten:: meaning")


TABLES: Final = {"mlir": mlir_table, "onnx": onnx_table}

if __name__ == "__main__":
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `… | head` ends it, without a traceback
    main(*sys.argv[1:])
