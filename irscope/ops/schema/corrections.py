"""Corrections of wrong schemas: ops that return an argument's memory, or write it, though torch declares neither.

Torch's registry declares the results of most of these as new tensors. In fact they may return the argument itself or
a view of it, and a pass that believes the schema reorders a write past a read. Writes that happen only under a flag (to the
statistics of a batch normalisation) are in `irscope.ops.schema.op`. Each line was found by execution:
`tests/ops/schema/test_schemas.py` runs every overload that it can create inputs for, compares storages, and fails for one
whose schema is wrong and not corrected here.

Only the annotations of a line are used, by argument name and result position, so that they also apply to a torch version with
other arguments.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from importlib.resources import files
from typing import Any, Final

from irscope.ir import Argument, OpSchema, TensorType
from irscope.ops.schema.op import Category, Op, effect_of_schemas
from irscope.ops.schema.parser import parse_schema, parse_schemas

# The bundled schemas, one per line of `core_schemas.txt`, so that the core ops are known without torch.

@lru_cache(maxsize=1)
def bundled_texts() -> Mapping[str, tuple[str, ...]]:
    """Return the lines by op name, not yet parsed, because a program uses few of them."""
    table: dict[str, list[str]] = {}
    for line in files("irscope.ops.schema").joinpath("core_schemas.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            table.setdefault(line.partition("(")[0].partition(".")[0], []).append(line)
    return {name: tuple(lines) for name, lines in table.items()}


def without_tensors(schema: OpSchema) -> bool:
    """Whether the schema computes with numbers, strings and containers only.

    >>> texts = "aten::neg.int(int a) -> int", "aten::neg(Tensor self) -> Tensor"
    >>> [without_tensors(parse_schema(text)) for text in texts]
    [True, False]
    """
    types = [item.type for item in (*schema.arguments, *schema.returns)]
    return not any(isinstance(type, TensorType) for type in types)


def define_positional(
    name: str,
    function: Callable[..., Any],
    *,
    category: Category,
    type_rule: Callable[..., Any] | None,
    keep: Callable[[OpSchema], bool] = without_tensors,
) -> Op:
    """Return the op of this name over the bundled overloads that `keep` allows; one Python function computes them all.

    Overloads name their arguments differently (`a`, `self`, `l`), so the function takes them by position.

    >>> define_positional("aten::neg", lambda a: -a, category="scalar", type_rule=None).reference(a=2)
    -2
    """
    schemas = tuple(filter(keep, map(parse_schema, bundled_texts().get(name, ()))))

    def reference(*given: Any, **named: Any) -> Any:
        return function(*given, *named.values())

    return Op(name, schemas, category, effect_of_schemas(schemas), type_rule, reference)


_CORRECTIONS: Final = """
# the argument itself when nothing is dropped
aten::dropout(Tensor(a) input, float p, bool train) -> Tensor(a)
aten::alpha_dropout(Tensor(a) input, float p, bool train) -> Tensor(a)
aten::feature_dropout(Tensor(a) input, float p, bool train) -> Tensor(a)
aten::feature_alpha_dropout(Tensor(a) input, float p, bool train) -> Tensor(a)
# the argument itself when it has the wanted element type, rank, size, layout or device already
aten::type_as(Tensor(a) self, Tensor other) -> Tensor(a)
aten::_cast_Byte(Tensor(a) self, bool non_blocking=False) -> Tensor(a)
aten::_cast_Char(Tensor(a) self, bool non_blocking=False) -> Tensor(a)
aten::_cast_Double(Tensor(a) self, bool non_blocking=False) -> Tensor(a)
aten::_cast_Float(Tensor(a) self, bool non_blocking=False) -> Tensor(a)
aten::_cast_Half(Tensor(a) self, bool non_blocking=False) -> Tensor(a)
aten::_cast_Int(Tensor(a) self, bool non_blocking=False) -> Tensor(a)
aten::_cast_Long(Tensor(a) self, bool non_blocking=False) -> Tensor(a)
aten::_cast_Short(Tensor(a) self, bool non_blocking=False) -> Tensor(a)
aten::_saturate_weight_to_fp16(Tensor(a) weight) -> Tensor(a)
aten::atleast_1d(Tensor(a) self) -> Tensor(a)
aten::atleast_1d.Sequence(Tensor(a)[] tensors) -> Tensor(a)[]
aten::atleast_2d(Tensor(a) self) -> Tensor(a)
aten::atleast_2d.Sequence(Tensor(a)[] tensors) -> Tensor(a)[]
aten::atleast_3d(Tensor(a) self) -> Tensor(a)
aten::atleast_3d.Sequence(Tensor(a)[] tensors) -> Tensor(a)[]
aten::sum_to_size(Tensor(a) self, SymInt[] size) -> Tensor(a)
aten::conj_physical(Tensor(a) self) -> Tensor(a)
aten::to_dense(Tensor(a) self, ScalarType? dtype=None, *, bool? masked_grad=None) -> Tensor(a)
aten::dequantize.self(Tensor(a) self) -> Tensor(a)
aten::dequantize.tensor(Tensor(a) qtensor) -> Tensor(a)
aten::dequantize.tensors(Tensor(a)[] tensors) -> Tensor(a)[]
aten::dequantize.list(Tensor(a)[] qtensors) -> Tensor(a)[]
aten::dequantize.any(Any(a) tensors) -> Any(a)
aten::_to_cpu(Tensor(a)[] tensors) -> Tensor(a)[]
# views by another name
aten::data(Tensor(a) self) -> Tensor(a)
aten::lift(Tensor(a) self) -> Tensor(a)
aten::_unsafe_view(Tensor(a) self, SymInt[] size) -> Tensor(a)
aten::unsafe_chunk(Tensor(a) self, int chunks, int dim=0) -> Tensor(a)[]
aten::unsafe_split.Tensor(Tensor(a) self, SymInt split_size, int dim=0) -> Tensor(a)[]
aten::unsafe_split_with_sizes(Tensor(a) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]
aten::unflatten_dense_tensors(Tensor(a) flat, Tensor[] tensors) -> Tensor(a)[]
# views when there is nothing to join, to repeat or to multiply
aten::flatten_dense_tensors(Tensor(a)[] tensors) -> Tensor(a)
aten::broadcast_tensors(Tensor(a)[] tensors) -> Tensor(a)[]
aten::cartesian_prod(Tensor(a)[] tensors) -> Tensor(a)
aten::meshgrid(Tensor(a)[] tensors) -> Tensor(a)[]
aten::meshgrid.indexing(Tensor(a)[] tensors, *, str indexing) -> Tensor(a)[]
aten::einsum(str equation, Tensor(a)[] tensors, *, int[]? path=None) -> Tensor(a)
# a new container with the old tensors in it
aten::sorted.Tensor(Tensor(a)[] input) -> Tensor(a)[]
aten::_pack_sequence(Tensor(a) output, Tensor(b) batch_sizes, Tensor(c)? sorted_indices, Tensor(d)?
    unsorted_indices) -> (Tensor(a), Tensor(b), Tensor(c)?, Tensor(d)?)
aten::set.source_Tensor(Tensor self, Tensor(a) source) -> Tensor(a)
# writes that are not told
aten::_no_grad_embedding_renorm_(Tensor(a!) weight, Tensor input, float max_norm, float norm_type) -> Tensor(a!)
aten::batch_norm_update_stats(Tensor input, Tensor(a!)? running_mean, Tensor(b!)? running_var, float momentum) ->
    (Tensor, Tensor)
aten::batch_norm_gather_stats(Tensor input, Tensor mean, Tensor invstd, Tensor(a!)? running_mean, Tensor(b!)?
    running_var, float momentum, float eps, int count) -> (Tensor, Tensor)
aten::batch_norm_gather_stats_with_counts(Tensor input, Tensor mean, Tensor invstd, Tensor(a!)? running_mean,
    Tensor(b!)? running_var, float momentum, float eps, Tensor counts) -> (Tensor, Tensor)
aten::batch_norm_update_stats.out(Tensor input, Tensor(c!)? running_mean, Tensor(d!)? running_var, float momentum,
    *, Tensor(a!) out0, Tensor(b!) out1) -> (Tensor(a!), Tensor(b!))
aten::batch_norm_gather_stats.out(Tensor input, Tensor mean, Tensor invstd, Tensor(c!)? running_mean, Tensor(d!)?
    running_var, float momentum, float eps, int count, *, Tensor(a!) out0, Tensor(b!) out1) -> (Tensor(a!),
    Tensor(b!))
aten::batch_norm_gather_stats_with_counts.out(Tensor input, Tensor mean, Tensor invstd, Tensor(c!)? running_mean,
    Tensor(d!)? running_var, float momentum, float eps, Tensor counts, *, Tensor(a!) out0, Tensor(b!) out1) ->
    (Tensor(a!), Tensor(b!))
"""


def corrected(schema: OpSchema) -> OpSchema:
    """Return the schema with correct alias annotations: itself, unless a correction is known.

    >>> from irscope.ops.schema.parser import parse_schema
    >>> str(corrected(parse_schema("aten::type_as(Tensor self, Tensor other) -> Tensor")).returns[0].alias)
    '(a)'
    """
    truth = _corrections().get(schema.full_name)
    if truth is None:
        return schema
    by_name = {argument.name: argument for argument in truth.arguments}
    return replace(
        schema,
        arguments=tuple(_annotated(argument, by_name.get(argument.name)) for argument in schema.arguments),
        returns=tuple(map(_annotated, schema.returns, truth.returns)),
    )


def overlaid_names() -> tuple[str, ...]:
    """Return the full names of the overloads that are corrected, sorted."""
    return tuple(sorted(_corrections()))


def _annotated(argument: Argument, truth: Argument | None) -> Argument:
    return argument if truth is None else replace(argument, alias=truth.alias)


@lru_cache(maxsize=1)
def _corrections() -> Mapping[str, OpSchema]:
    one_a_line = _CORRECTIONS.replace("\n    ", " ")
    return {schema.full_name: schema for schema in parse_schemas(one_a_line)}


# The schemas of torch's own registry, for ops that irscope does not bundle; empty where torch is not installed.
#
# Loading torch takes seconds, so it is loaded only for a name in one of torch's own namespaces. For other namespaces
# (operator libraries) the registry is consulted only when the program has loaded torch already.

_NAMESPACES: Final = frozenset({"aten", "prim", "prims", "quantized", "_quantized"})


def torch_schemas(name: str) -> tuple[OpSchema, ...]:
    """Return all overloads that torch has registered under a name, in its order and not corrected (see `corrections`).

    >>> torch_schemas("nobody::knows")
    ()
    """
    torch = _torch_for(name)
    if torch is None:
        return ()
    return tuple(parse_schema(str(schema)) for schema in torch._C._jit_get_schemas_for_operator(name))


def _torch_for(name: str) -> Any:
    if name.count("::") != 1:
        return None  # such as `^f`, a call of Python
    loaded = sys.modules.get("torch")
    if loaded is not None:
        return loaded
    if name.partition("::")[0] not in _NAMESPACES or importlib.util.find_spec("torch") is None:
        return None
    return importlib.import_module("torch")
