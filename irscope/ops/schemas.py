"""The schemas of ops: parsed from text, bundled or of torch's own registry, and corrected where they are wrong.

A schema is a text such as `aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)`. The grammar is that of
TorchScript's schema parser; all several thousand strings of its registry are parsed without loss:

    schema   = name ["." overload] "(" arguments ")" "->" results
    argument = "*" | "..." | type [name] ["=" default]
    type     = base { "?" | "[" [length] "]" | annotation }
    base     = word | word "(" types ")" | "(" types ")"
    annotation = "(" set ["!"] ["->" set] ")"        set = "*" | letter { "|" letter }

An annotation belongs to the type on its left: in `Tensor(a!)[](b)` the list is of set b and its tensors, which are
written, of set a. Types are those that TorchScript computes with: `SymInt`, `ScalarType`, `MemoryFormat` and `Layout`
are `int`, `Dimname` is `str`.
"""

import ast
import importlib
import importlib.util
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from importlib.resources import files
from typing import Any, Final

from irscope._base.nested import grouped
from irscope.ir import (
    BOOL,
    FLOAT,
    INT,
    NUMBER,
    REQUIRED,
    STR,
    TENSOR,
    AliasAnnotation,
    Argument,
    AwaitType,
    ClassType,
    DictType,
    FutureType,
    ListType,
    OpSchema,
    OptionalType,
    PrimitiveType,
    RRefType,
    TupleType,
    Type,
    UnionType,
)
from irscope.ir.text.lexer import Cursor

_WORDS: Final[dict[str, Type]] = {
    "Tensor": TENSOR,
    **dict.fromkeys(("int", "SymInt", "ScalarType", "MemoryFormat", "Layout"), INT),
    **dict.fromkeys(("float", "SymFloat"), FLOAT),
    **dict.fromkeys(("bool", "SymBool"), BOOL),
    **dict.fromkeys(("str", "Dimname"), STR),
    **dict.fromkeys(("Scalar", "number"), NUMBER),
}
"""The names that do not denote a primitive type of the same name."""

_NAMED_DEFAULTS: Final = {
    "None": None, "True": True, "False": False, "nan": float("nan"), "inf": float("inf"),
    "Mean": 1, "Sum": 2, "strided": 0, "contiguous_format": 0, "preserve_format": 1, "long": 4,
}  # fmt: skip

_WRAPPERS: Final = {"Future": FutureType, "Await": AwaitType, "RRef": RRefType}

_WORD: Final = re.compile(r"[A-Za-z_][\w.]*(?:::[\w.]+)?")
_NUMBER: Final = re.compile(r"-inf\b|-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?j?")
_STRING: Final = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'""")
_NAMED: Final = re.compile(rf"(?:{'|'.join(_NAMED_DEFAULTS)})\b")


def parse_schema(text: str) -> OpSchema:
    """Return the schema that a text declares.

    Raises ParseError with the column at which the text stops being a schema.
    """
    return _Reader(text).schema()


class _Reader(Cursor):
    """A recursive-descent parser of one schema."""

    def schema(self) -> OpSchema:
        space, _, rest = self.demand(_WORD, "the op's name, such as 'aten::add.Tensor'").rpartition("::")
        name, _, overload = rest.partition(".")
        full = f"{space}::{name}" if space else name
        arguments, is_vararg = self.arguments()
        self.expect("->")
        returns, is_varret = self.returns()
        if self.skip() < len(self.text):
            self.fail("the end of the schema")
        return OpSchema(full, overload, arguments, returns, is_vararg, is_varret)

    def arguments(self) -> tuple[tuple[Argument, ...], bool]:
        self.expect("(")
        found: list[Argument] = []
        keyword_only = is_vararg = False
        for _ in self.row(")"):
            if self.take("*"):
                keyword_only = True
            elif self.take("..."):
                is_vararg = True
            else:
                found.append(self.argument(keyword_only, needs_name=True))
        return tuple(found), is_vararg

    def returns(self) -> tuple[tuple[Argument, ...], bool]:
        if self.take("..."):
            return (), True
        if not self.at("(") or not self.text.rstrip().endswith(")"):  # `(int, t)[]` is one result, `(int, t)` are two
            return (self.argument(False, needs_name=False),), False
        self.expect("(")
        found = [None if self.take("...") else self.argument(False, needs_name=False) for _ in self.row(")")]
        return tuple(each for each in found if each is not None), None in found

    def argument(self, keyword_only: bool, *, needs_name: bool) -> Argument:
        first = _WORD.match(self.text, self.skip())
        type, alias, length = self.type()
        name = self.match(_WORD)
        if name is None and needs_name:
            self.fail("the argument's name")
        default: Any = REQUIRED
        if self.take("="):
            default = self.default()
            if length is not None and default is not None and not isinstance(default, tuple):
                default = (default,) * length
        return Argument(name[0] if name else "", type, alias, default, keyword_only, length, first[0] if first else "(")

    def type(self) -> tuple[Type, AliasAnnotation | None, int | None]:
        """Parse a type; return it with the annotation of the whole and, for a list, its fixed length."""
        type = self.base_type()
        alias = length = None
        while (mark := self.text[self.skip() : self.pos + 1]) in ("?", "[", "("):
            if mark == "(":
                alias = self.annotation(alias.element if alias is not None else None)
            elif self.take("?"):
                type = OptionalType(type)
            else:
                self.expect("[")
                number = self.match(_NUMBER)
                length = int(number[0]) if number else None
                self.expect("]")
                type = ListType(type)
                alias = AliasAnnotation(element=alias) if alias is not None else None
        return type, alias, length

    def base_type(self) -> Type:
        if self.at("("):
            return TupleType(self.types("(", ")"))
        word = self.demand(_WORD, "a type")
        if word == "Dict":
            key, value = self.types("(", ")")
            return DictType(key, value)
        if word in _WRAPPERS:
            (inner,) = self.types("(", ")")
            return _WRAPPERS[word](inner)
        if word == "Union":
            return UnionType(self.types("[", "]"))
        if word.startswith("__torch__"):
            return ClassType(word)
        return _WORDS.get(word) or PrimitiveType(word)

    def types(self, opening: str, closing: str) -> tuple[Type, ...]:
        self.expect(opening)
        return tuple([self.type()[0] for _ in self.row(closing)])

    def annotation(self, element: AliasAnnotation | None) -> AliasAnnotation:
        self.expect("(")
        before = self.alias_set()
        is_write = self.take("!")
        after = self.alias_set() if self.take("->") else before
        self.expect(")")
        return AliasAnnotation(before, after, is_write, element)

    def alias_set(self) -> frozenset[str]:
        found: set[str] = set()
        while not found or self.take("|"):
            found.add("*" if self.take("*") else self.demand(_WORD, "an alias set, such as 'a' or '*'"))
        return frozenset(found)

    def default(self) -> Any:
        if self.take("["):
            return tuple([self.default() for _ in self.row("]")])
        if (found := self.match(_STRING)) is not None:
            return ast.literal_eval(found[0].replace("\n", "\\n"))
        if (found := self.match(_NUMBER)) is not None:
            text = found[0]
            return complex(text) if text.endswith("j") else int(text) if text.lstrip("-").isdigit() else float(text)
        return _NAMED_DEFAULTS[self.demand(_NAMED, "a default value")]


# The bundled schemas, one per line of `core_schemas.txt`, so that the core ops are known without torch.


@lru_cache(maxsize=1)
def bundled_texts() -> Mapping[str, tuple[str, ...]]:
    """Return the lines by op name, not yet parsed, because a program uses few of them."""
    lines = files("irscope.ops").joinpath("core_schemas.txt").read_text(encoding="utf-8").splitlines()
    table = grouped((line.partition("(")[0].partition(".")[0], line) for line in lines if line and not line.startswith("#"))
    return {name: tuple(lines) for name, lines in table.items()}


def bundled_text(name: str) -> str | None:
    """Return the line of an overload by its full name; None if there is none.

    >>> bundled_text("aten::relu_")
    'aten::relu_(Tensor(a!) self) -> Tensor(a!)'
    """
    return next((text for text in bundled_texts().get(name.partition(".")[0], ()) if text.partition("(")[0] == name), None)


# Corrections of wrong schemas: ops that return an argument's memory, or write it, though torch declares neither.
#
# Torch's registry declares the results of most of these as new tensors. In fact they may return the argument itself or
# a view of it, and a pass that believes the schema reorders a write past a read. Writes that happen only under a flag (to the
# statistics of a batch normalisation) are in `irscope.ops.op`. Each line was found by execution:
# `tests/ops/schema/test_schemas.py` runs every overload that it can create inputs for, compares storages, and fails for one
# whose schema is wrong and not corrected here. Only the annotations of a line are used, by argument name and result position, so that
# they also apply to a torch version with other arguments.

_RETURNS_FIRST: Final = frozenset(
    f"aten::{name}"
    for name in """
    dropout alpha_dropout feature_dropout feature_alpha_dropout
    type_as _cast_Byte _cast_Char _cast_Double _cast_Float _cast_Half _cast_Int _cast_Long _cast_Short _saturate_weight_to_fp16
    atleast_1d atleast_1d.Sequence atleast_2d atleast_2d.Sequence atleast_3d atleast_3d.Sequence sum_to_size conj_physical to_dense
    dequantize.self dequantize.tensor dequantize.tensors dequantize.list dequantize.any _to_cpu
    data lift _unsafe_view unsafe_chunk unsafe_split.Tensor unsafe_split_with_sizes unflatten_dense_tensors
    flatten_dense_tensors broadcast_tensors cartesian_prod meshgrid meshgrid.indexing sorted.Tensor""".split()
)
"""The result is the first argument, a view of it, or a container of its tensors: always, or when nothing is dropped, joined or
repeated, or when the argument has the wanted element type, rank, size, layout or device already."""

_CORRECTIONS: Final = """
# a view when there is nothing to multiply
aten::einsum(str equation, Tensor(a)[] tensors, *, int[]? path=None) -> Tensor(a)
# containers with the old tensors in them
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

    >>> corrected(parse_schema("aten::type_as(Tensor self, Tensor other) -> Tensor")).returns[0].alias.before
    frozenset({'a'})
    """
    if schema.full_name in _RETURNS_FIRST:
        first, *others = schema.arguments
        result = schema.returns[0]
        return replace(schema, arguments=(_sharing(first), *others), returns=(_sharing(result),))
    truth = _corrections().get(schema.full_name)
    if truth is None:
        return schema
    aliases = {argument.name: argument.alias for argument in truth.arguments}
    return replace(
        schema,
        arguments=tuple(replace(argument, alias=aliases.get(argument.name, argument.alias)) for argument in schema.arguments),
        returns=tuple(replace(result, alias=true.alias) for result, true in zip(schema.returns, truth.returns, strict=False)),
    )


def _sharing(argument: Argument) -> Argument:
    """Return an argument or a result in the alias set that both are in; of a list, its elements are."""
    shared = AliasAnnotation(frozenset("a"), frozenset("a"))
    return replace(argument, alias=AliasAnnotation(element=shared) if isinstance(argument.type, ListType) else shared)


def overlaid_names() -> tuple[str, ...]:
    """Return the full names of the overloads that are corrected, sorted."""
    return tuple(sorted({*_corrections(), *_RETURNS_FIRST}))


@lru_cache(maxsize=1)
def _corrections() -> Mapping[str, OpSchema]:
    lines = _CORRECTIONS.replace("\n    ", " ").split("\n")
    return {schema.full_name: schema for schema in map(parse_schema, filter(lambda line: line and line[0] != "#", lines))}


# The schemas of torch's own registry, for ops that irscope does not bundle; empty where torch is not installed.
#
# Loading torch takes seconds, so it is loaded only for a name in one of torch's own namespaces. For other namespaces
# (operator libraries) the registry is consulted only when the program has loaded torch already.

_NAMESPACES: Final = frozenset({"aten", "prim", "prims", "quantized", "_quantized"})


def torch_schemas(name: str) -> tuple[OpSchema, ...]:
    """Return all overloads that torch has registered under a name, in its order and not corrected (see `corrected`)."""
    torch = sys.modules.get("torch")
    if name.count("::") != 1:
        return ()  # such as `^f`, a call of Python
    if torch is None:
        if name.partition("::")[0] not in _NAMESPACES or importlib.util.find_spec("torch") is None:
            return ()
        torch = importlib.import_module("torch")
    return tuple(parse_schema(str(schema)) for schema in torch._C._jit_get_schemas_for_operator(name))
