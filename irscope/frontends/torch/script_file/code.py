"""The code that a saved TorchScript program runs while it is loaded, before it is called.

TorchScript has no access to Python, except to files (`torch.save`, `torch.from_file`). Its importer runs `__setstate__`
of the classes that have one, and evaluates default arguments and the values in class bodies. A file without these is
only data until the program is run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

__all__ = ["acts_when_loaded"]


def acts_when_loaded(source: bytes) -> str:
    """Returns what one source file of an archive does when it is loaded; empty if nothing.

    >>> acts_when_loaded(b"class M(Module):\\n  training : bool\\n  def forward(self, n: int=3) -> int:\\n    return n")
    ''
    >>> acts_when_loaded(b"class M(Module):\\n  def forward(self, n: int=save(1)) -> int:\\n    return n")
    'it evaluates save(1) when it is loaded'
    >>> acts_when_loaded(b"class M(Module):\\n  def forward(self, s: Tensor=CONSTANTS.c0) -> Tensor:\\n    return s")
    ''
    """
    if b"__setstate__" in source:
        return "one of its classes has a __setstate__, which runs when it is loaded"
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return "its code cannot be checked"
    for statement in tree.body:
        body = statement.body if isinstance(statement, ast.ClassDef) else [statement]
        for value in _evaluated(body):
            if not _is_literal(value):
                return f"it evaluates {ast.unparse(value)[:60]} when it is loaded"
    return ""


def _evaluated(body: Iterable[ast.stmt]) -> Iterable[ast.expr]:
    """Yields the expressions of a class body that are evaluated on loading; an unexpected statement yields a name,
    which is refused."""
    for statement in body:
        match statement:
            case ast.FunctionDef(args=given):
                yield from given.defaults
                yield from (default for default in given.kw_defaults if default is not None)
            case ast.Assign(targets=[ast.Subscript(value=ast.Name(id="__annotations__"))]):
                pass  # the type of an attribute whose name is not a Python identifier
            case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value) | ast.Expr(value=value):
                yield value
            case ast.AnnAssign() | ast.Import() | ast.Pass():
                pass
            case _:
                yield ast.Name(type(statement).__name__.lower())


def _is_literal(value: ast.expr) -> bool:
    pending = [value]
    while pending:
        match pending.pop():
            case ast.Constant() | ast.Attribute(value=ast.Name(id="CONSTANTS")):  # the latter is one of the file's own tensors
                pass
            case ast.List(elts=items) | ast.Tuple(elts=items):
                pending += items
            case ast.Dict(keys=keys, values=items):
                pending += [*(key for key in keys if key is not None), *items]
            case ast.UnaryOp(operand=inner) | ast.Call(func=ast.Name(id="annotate"), args=[_, inner], keywords=[]):
                pending.append(inner)
            case _:
                return False
    return True
