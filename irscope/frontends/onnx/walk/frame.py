"""The context of a node of a model, and the protocol between the parts of the walk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from irscope.errors import LoadError
from irscope.frontends.emit import Emitter
from irscope.frontends.onnx.building.call import Call
from irscope.frontends.onnx.building.held import Held
from irscope.frontends.onnx.building.values import Values
from irscope.ir import Type

__all__ = ["Frame", "Walk"]


@dataclass(frozen=True)
class Frame:
    """The context of a node: the names it sees, the opset versions, and the attributes of the function around it."""

    names: dict[str, Held]
    outer: tuple[dict[str, Held], ...]
    """The names of the bodies around it, innermost first."""
    opsets: Mapping[str, int]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    told: Mapping[str, Type] = field(default_factory=dict)
    """The types that the file declares for its names; used for ops that ONNX does not define."""
    scope: str = ""
    depth: int = 0

    def inner(self, names: dict[str, Held], told: Mapping[str, Type]) -> Frame:
        """Returns the frame of a body inside this one."""
        return replace(self, names=names, outer=(self.names, *self.outer), told=told, depth=self.depth + 1)

    def find(self, name: str) -> Held | None:
        for names in (self.names, *self.outer):
            if name in names:
                return names[name]
        return None


class Walk(Protocol):
    """The walk over a model, as far as control flow, functions and opaque ops need it."""

    emit: Emitter
    values: Values
    refusals: list[tuple[str, str, str]]
    """Name and op of each node that stayed `onnx::`, and why it has no `aten::` meaning."""

    def nodes(self, nodes: Sequence[Any], frame: Frame) -> None:
        """Append a body's nodes to the open block."""

    def initializers(self, graph: Any, frame: Frame) -> None:
        """Define a body's weights."""

    def found(self, frame: Frame, name: str, where: str = "") -> Held:
        """Return the meaning of a name. Raises LoadError for a name that is not defined."""

    def told_types(self, graph: Any) -> Mapping[str, Type]:
        """Return the types that the file declares for the names of a body."""

    def told(self, call: Call, domain: str) -> Sequence[Type]:
        """Return the types that ONNX infers for a node's outputs."""

    def error(self, what: str, where: str, hint: str = "") -> LoadError:
        """Return an error that names the file and the node."""
