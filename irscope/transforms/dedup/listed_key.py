"""Keys of pieces: tuples that are equal exactly when two pieces are the same by `alpha`, for the many without private names.

The tuple lists the piece: attributes, parameters, nodes in order, results. A value is the number of its definition, so that
the k-th definition of one piece corresponds to the k-th of the other: that is the bijection, and equal tuples prove it. Types
and attributes are numbers that equal ones share; they are looked up by content, never by a digest, and each list has its
length in front, so the tuple can be read back.

A piece has no key, and is hashed and matched instead, when it refers to private names of its own (whose meaning belongs to it)
or contains an object of which only the identity is known. Of two pieces that are the same, both or neither have a key.

Keys of one `ListedKeys` are compared with each other only; they cost a tenth of a canonical form and nothing for the proof.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from irscope._base.frozen import EMPTY
from irscope.ir import Block, Graph, Node, TensorData, Type, Value
from irscope.transforms.dedup.encoding import spell_payload, spell_type
from irscope.transforms.dedup.piece import NO_BLOCK, Body, Piece, apart_from_symbols, attrs_of, inner_blocks

__all__ = ["ListedKeys"]


_SMALL: Final = 1 << 12
"""Larger tensors, in bytes, are not written into keys."""


class _NoKeyError(Exception):
    """Raised for a part of a piece that cannot be identified by its content."""


class ListedKeys:
    """Builds the keys of pieces, with numbers for types and attributes."""

    def __init__(self) -> None:
        self._types: dict[int, int] = {}
        """The numbers of known types, by identity."""
        self._spelled: dict[object, int] = {}
        self._alive: list[Type] = []

    def key(self, piece: Piece) -> tuple[object, ...] | None:
        """The key of a piece; None if it has none."""
        places = {name: place for place, name in enumerate(piece.roots)}
        out: list[object] = []
        try:
            self._add_body(piece.body, piece, places, out)
            for name in piece.roots:
                bodies = piece.named.get(name, ())
                if not bodies:
                    return None
                out.append(len(bodies))
                for body in bodies:
                    self._add_body(body, piece, places, out)
        except _NoKeyError:
            return None
        return tuple(out)

    def _add_body(self, body: Body, piece: Piece, places: Mapping[str, int], out: list[object]) -> None:
        block = body.block
        out.append(self._attrs(body.attrs, piece, places) if body.attrs else 0)
        if block is NO_BLOCK:
            out.append("declared")
            return
        number: dict[Value, int] = {}
        place_of, types = number.get, self._types
        self._define(block.params, number, out)
        stack: list[tuple[Block, Iterator[Node]]] = [(block, iter(block.nodes))]
        while stack:
            block, nodes = stack[-1]
            for node in nodes:
                inputs, outputs = node.inputs, node.outputs
                if node.attrs is EMPTY and not node.blocks:  # most have neither, and cost no call
                    attrs_number = 0
                    inner: tuple[Block, ...] = ()
                else:
                    attrs, inner = attrs_of(node), inner_blocks(node)
                    attrs_number = self._attrs(attrs, piece, places) if attrs else 0
                out += (node.op, len(inputs), len(outputs), attrs_number)
                for value in inputs:
                    place = place_of(value)
                    if place is None:
                        out.append("free")
                        self._define((value,), number, out)
                        place = number[value]
                    out.append(place)
                for value in outputs:
                    number[value] = len(number)
                    type = types.get(id(value.type))
                    out.append(self._type(value.type) if type is None else type)
                if inner:
                    out.append(-len(inner))
                    for nested in inner:
                        self._define(nested.params, number, out)
                    stack.extend((nested, iter(nested.nodes)) for nested in reversed(inner))
                    break
            else:
                stack.pop()
                out.append("}")
                self._read(block.returns, number, out)

    def _define(self, values: tuple[Value, ...], number: dict[Value, int], out: list[object]) -> None:
        out.append(len(values))
        for value in values:
            number[value] = len(number)
            out.append(self._type(value.type))

    def _read(self, values: tuple[Value, ...], number: dict[Value, int], out: list[object]) -> None:
        out.append(len(values))
        for value in values:
            if value not in number:
                out.append("free")
                self._define((value,), number, out)
            out.append(number[value])

    def _type(self, type: Type) -> int:
        known = self._types.get(id(type))
        if known is None:
            self._alive.append(type)  # so that no other type gets its identity
            known = self._types[id(type)] = self._numbered(("type", str(spell_type(type, "alpha"))))
        return known

    def _attrs(self, attrs: Mapping[str, Any], piece: Piece, places: Mapping[str, int]) -> int:
        if len(attrs) == 1:
            ((name, payload),) = attrs.items()
            return self._numbered((name, self._payload(payload, piece, places)))
        return self._numbered(tuple([(name, self._payload(attrs[name], piece, places)) for name in sorted(attrs)]))

    def _payload(self, payload: Any, piece: Piece, places: Mapping[str, int]) -> object:
        """The content of a constant, distinguished to the bit and by type."""
        if isinstance(payload, str):
            return "@", self._symbols(payload, piece, places) if "@" in payload and piece.named else payload
        if isinstance(payload, TensorData) and payload.array is not None and payload.array.nbytes <= _SMALL:
            return payload.dtype, tuple(payload.shape), payload.device, payload.array.tobytes()
        if payload is None or isinstance(payload, int | float | complex):
            return spell_payload(payload)
        if isinstance(payload, tuple | list):
            return "(", tuple([self._payload(item, piece, places) for item in payload])
        if isinstance(payload, Mapping):
            return "{", tuple([(key, self._payload(payload[key], piece, places)) for key in sorted(payload)])
        if isinstance(payload, Type):
            return "type", repr(payload)
        if isinstance(payload, Graph):
            return "graph"  # its body is listed with the blocks
        raise _NoKeyError

    def _symbols(self, text: str, piece: Piece, places: Mapping[str, int]) -> object:
        """A text and the names in it: a root as its place, and a name declared elsewhere as itself."""
        if text.startswith('"'):
            return text
        between, names = apart_from_symbols(text)
        if any(name in piece.named and name not in places for name in names):
            raise _NoKeyError
        return between, tuple([places.get(name, name) for name in names])

    def _numbered(self, content: object) -> int:
        return self._spelled.setdefault(content, len(self._spelled) + 1)
