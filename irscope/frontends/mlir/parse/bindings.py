"""MLIR's own Python bindings: the two packages that ship them, and what each can read.

`iree.compiler.ir` reads the pretty form of every dialect used here. `jaxlib.mlir.ir` reads the pretty form of StableHLO
and of the upstream dialects it has registered, and any dialect's generic form. Both have the same API.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from irscope.errors import MissingExtra

__all__ = ["BYTECODE", "Bindings", "bindings_of", "installed", "narrowed", "new_context", "required"]

BYTECODE: Final = b"ML\xefR"
"""The first bytes of bytecode."""
_PACKAGES: Final = {"iree": "iree.compiler.ir", "jaxlib": "jaxlib.mlir.ir"}
"""Maps a package's name to its module; the one that reads more dialects is first."""


@dataclass(frozen=True, slots=True)
class Bindings:
    """The MLIR bindings of one package."""

    name: str
    """`"iree"` or `"jaxlib"`."""
    ir: Any
    """The module with Context, Module, Operation, and the classes of types, attributes and locations."""


def installed() -> tuple[str, ...]:
    """Returns the names of the installed packages, the one that reads more dialects first; imports neither."""
    return tuple(name for name, module in _PACKAGES.items() if _is_there(module))


def required(name: str = "") -> Bindings:
    """Returns the bindings of this name, which are installed, or the best ones.

    Raises MissingExtra if there are none, ImportError if those of this name do not load."""
    if name:
        return Bindings(name, import_module(_PACKAGES[name]))
    for known in installed():
        with suppress(ImportError):
            return Bindings(known, import_module(_PACKAGES[known]))
    raise MissingExtra("iree-base-compiler", extra="mlir", purpose="to read MLIR (jaxlib, of the extra 'jax', will do too)")


def bindings_of(source: object) -> Bindings | None:
    """Returns the bindings that an operation or module belongs to; None for anything else."""
    home = type(source).__module__
    name = next((name for name in _PACKAGES if home.startswith(f"{name}.")), "")
    loaded = sys.modules.get(_PACKAGES[name]) if name else None
    return Bindings(name, loaded) if loaded is not None and hasattr(source, "operation") else None


def new_context(bindings: Bindings) -> Any:
    """Creates a context with all dialects of the package, which accepts unknown ones in generic form."""
    ir = bindings.ir
    context = ir.Context()
    context.enable_multithreading(False)
    context.allow_unregistered_dialects = True
    if bindings.name == "jaxlib":
        registry = ir.DialectRegistry()
        for register in _registrations("register_dialects"):
            register(registry)
        context.append_dialect_registry(registry)
        context.load_all_available_dialects()
        for register in _registrations("register_dialect", "register_mhlo_dialect"):
            register(context)
    return context


def narrowed(bindings: Bindings, module: Any, shapes: Sequence[Sequence[int] | None]) -> Any:
    """Returns the module for arguments of these extents (None: unknown), with all extents that follow from them as types; the
    module itself where upstream's passes cannot tell.

    They look at the function `main`, or at the only one, and only jaxlib's package has them.
    """
    functions = [op.operation for op in module.body.operations if op.operation.name == "func.func"]
    main = next((op for op in functions if op.attributes["sym_name"].value == "main" or len(functions) == 1), None)
    if main is None or bindings.name != "jaxlib" or not len(main.regions[0].blocks):
        return module
    inputs = [argument.type for argument in main.regions[0].blocks[0].arguments]
    types = [_narrow(bindings.ir, *pair) for pair in zip(inputs, shapes, strict=True)] if len(shapes) == len(inputs) else inputs
    made = module.operation.clone()
    refine = "stablehlo-refine-shapes"
    passes = f"func.func(shape-legalize-to-stablehlo),{refine},func.func(stablehlo-canonicalize-dynamism),{refine}"
    if types != inputs:
        passes = f"stablehlo-refine-arguments{{types={','.join(map(str, types))}}},{passes}"
    try:
        import_module("jaxlib.mlir._mlir_libs._stablehlo").register_stablehlo_passes()
        manager = import_module("jaxlib.mlir.passmanager").PassManager
        manager.parse(f"builtin.module({passes})", module.context).run(made)
    except (ImportError, AttributeError, ValueError, RuntimeError, bindings.ir.MLIRError):
        return module
    return made


def _narrow(ir: Any, type: Any, shape: Sequence[int] | None) -> Any:
    """Returns a tensor's type with these extents in place of unknown ones; the type itself if they do not fit."""
    if shape is None or not isinstance(type, ir.RankedTensorType) or type.rank != len(shape):
        return type
    known = [None if type.is_dynamic_dim(axis) else type.get_dim_size(axis) for axis in range(type.rank)]
    if any(have not in (None, extent) for have, extent in zip(known, shape, strict=True)) or None not in known:
        return type
    with type.context, ir.Location.unknown():
        return ir.RankedTensorType.get(list(shape), type.element_type)


def _registrations(*functions: str) -> Iterator[Any]:
    """Yields the functions of these names in jaxlib's extension modules, which differ between versions."""
    for module in ("_jax_mlir_ext", "_stablehlo", "_chlo", "_mlirHlo", "_sdy", "_sdyMpmd"):
        with suppress(ImportError):
            loaded = import_module(f"jaxlib.mlir._mlir_libs.{module}")
            yield from (getattr(loaded, function) for function in functions if hasattr(loaded, function))


def _is_there(module: str) -> bool:
    try:
        return find_spec(module.rpartition(".")[0]) is not None
    except (ImportError, ValueError):
        return False
