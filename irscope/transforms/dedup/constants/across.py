"""Merges constants that are the same in several functions of a module, so that they are stored once.

Each function has its own `prim::Constant`, so one node cannot replace another function's. The payload is shared instead: the
node of one function gets the payload of the other's, so that both have one array in memory. A constant that follows from a
constant of another function is computed from a node with that one's payload, inserted in its place.

Neither may be written, and no caller of its function may get hold of either, as they share memory from then on. Inputs belong to
the caller, and stay. The data of a module (globals, read-only data) has no code in which something could be computed: equal data
share their payload, a part of contiguous data becomes a view of the other's array, casts and transposes stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from irscope.analysis.per_graph import alias_db_of
from irscope.ir import Graph, Module, Node, Rewriter, TensorData, Value, make_value, new_id
from irscope.ir.module import graphs_of
from irscope.transforms.cleanup import constant_node
from irscope.transforms.cleanup.replaceability import EscapeInfo
from irscope.transforms.dedup.constants.following import Following, following
from irscope.transforms.dedup.constants.merging import merge_constants, parents_first
from irscope.transforms.dedup.constants.sharing import ConstantStep, Sharing, find_constants
from irscope.transforms.dedup.constants.stored import Stored

__all__ = ["merge_constants_of_all"]


def merge_constants_of_all(module: Module, *, frozen: bool, step: ConstantStep) -> tuple[Module, tuple[str, ...]]:
    """Returns the module with constants merged in each graph, then between graphs; and remarks as lines of text.

    >>> import numpy as np, irscope as irs
    >>> from irscope.ir import GraphBuilder, TensorType
    >>> def scaled(name):
    ...     b = GraphBuilder(name)
    ...     w = b.constant(TensorData.of(np.ones(4, np.float32)), TensorType("float32", (4,), (1,)), "w")
    ...     return b.finish([b.op("aten::mul", b.input("x"), w)])
    >>> after, told = merge_constants_of_all(irs.Module({"f": scaled("f"), "g": scaled("g")}), frozen=False, step="equal")
    >>> after.graphs["f"].node("w").attrs["value"] is after.graphs["g"].node("w").attrs["value"], told
    (True, ('passed [same-constant] %g::w: %f::w has the same elements; 16 bytes saved',))
    """
    graphs, remarks = {}, list[str]()
    for path, graph in graphs_of(module):
        record = merge_constants(graph, frozen=frozen, step=step)
        graphs[path] = record.after
        remarks += [f"{record.told(remark)} (in {path})" for remark in record.remarks]
    across = _Across(graphs)
    for found in parents_first(find_constants(_with(module, graphs, {}, "")).shared, step):
        across.consider(found)
    return _with(module, across.finish(), across.data, ""), (*remarks, *across.remarks)


class _Across:
    """The state of merging constants of several graphs into shared arrays."""

    def __init__(self, graphs: Mapping[str, Graph]) -> None:
        self.graphs = dict(graphs)
        self.data: dict[str, TensorData] = {}
        """New payloads of a module's data, by its path."""
        self.remarks: list[str] = []
        self._payload: dict[Stored, TensorData] = {}
        self._home = {value: path for path, graph in graphs.items() for value in graph.values()}
        self._rewriters: dict[str, Rewriter] = {}
        self._onlookers: dict[str, EscapeInfo] = {}

    def consider(self, found: Sharing) -> None:
        """Share one array between two constants, or add a remark that says why not."""
        one, other = found.constant, found.other
        if self._is_stored_once(found):
            return
        how = Following() if found.how == "equal" else self._following(found)
        rule, obstacle = (how.rule, how.obstacle) if how.obstacle else self._obstacle(one, other, found)
        prefix = f"[{rule or 'same-constant'}] %{one.name}: "
        if obstacle:
            self.remarks.append(f"missed {prefix}{str(found).partition(' ')[2]}, but {obstacle}")
            return
        payload = self._payload.get(other, other.data)
        if isinstance(one.where, Value):
            self._rewrite(one, payload, how, str(found))
        else:
            self.data[one.where] = payload if found.how == "equal" else _view(payload, one, found.offset)
        self._payload[one] = payload
        holds = f"%{other.name} has the same elements" if found.how == "equal" else str(found).partition(" ")[2]
        cost = f", and each run writes {how.copied:,}" if how.copied else ""
        self.remarks.append(f"passed {prefix}{holds}; {found.bytes_saved} bytes saved{cost}")

    def _is_stored_once(self, found: Sharing) -> bool:
        """Whether both share memory already, or are in one graph, where they were considered already."""
        home = self._path(found.constant)
        return found.how in ("tied", "view") or (home is not None and home == self._path(found.other))

    def _path(self, one: Stored) -> str | None:
        return self._home.get(one.where) if isinstance(one.where, Value) else None

    def _following(self, found: Sharing) -> Following:
        path = self._path(found.constant)
        if path is not None:
            return following(found, self.graphs[path])
        if found.how == "part" and _is_in_rows(found.other):
            return Following()
        return Following(rule="no-code", obstacle="the data of a module has no code in which it could be computed")

    def _obstacle(self, one: Stored, other: Stored, found: Sharing) -> tuple[str, str]:
        for each in (one, other):
            path = self._path(each)
            if path is None:
                continue
            if each.node is None:
                return "another-function", "it is an input of a function, which may change between two calls"
            assert isinstance(each.where, Value)
            db = alias_db_of(self.graphs[path])
            if db.is_written(each.where):
                return "written-memory", "one of them is written"
            onlookers = self._onlookers.setdefault(path, EscapeInfo(db))
            if onlookers.see(each.where):
                return "seen-memory", "a caller may get hold of one of them"
        if found.how == "equal" and (one.strides != other.strides or one.data.device != other.data.device):
            return "another-type", "their layouts or devices differ"
        if other in self._payload:
            whole = self._payload[other]
            if whole.dtype != other.data.dtype or whole.shape != other.data.shape:
                return "order", f"%{other.name} is itself computed from a constant of another function"
        return "", ""

    def _rewrite(self, one: Stored, payload: TensorData, how: Following, because: str) -> None:
        path = self._path(one)
        assert path is not None
        assert one.node is not None
        rewriter = self._rewriters.setdefault(path, Rewriter(self.graphs[path]))
        if not how.calls:
            rewriter.replace_node(one.node, [constant_node(one.node.output, payload, like=one.node)], reason=because)
            return
        kind = one.node.output.type.with_(dtype=payload.dtype, shape=payload.shape, strides=_strides(payload))  # type: ignore[attr-defined]
        whole = constant_node(make_value(new_id(), kind, ""), payload, like=one.node)
        nodes: list[Node] = [whole, *how.nodes(whole.output, one.node.output.type, one.node)]
        rewriter.replace_node(one.node, nodes, reason=because)
        rewriter.replace(one.node.output, nodes[-1].output, reason=because)

    def finish(self) -> dict[str, Graph]:
        """All graphs by their paths."""
        return self.graphs | {path: rewriter.finish() for path, rewriter in self._rewriters.items()}


def _with(module: Module, graphs: Mapping[str, Graph], data: Mapping[str, TensorData], path: str) -> Module:
    """The module, including inner modules, with graphs and data replaced by path."""
    return replace(
        module,
        graphs={name: graphs[path + name] for name in module.graphs},
        constants={name: data.get(path + name, payload) for name, payload in module.constants.items()},
        modules={name: _with(inner, graphs, data, f"{path}{name}::") for name, inner in module.modules.items()},
    )


def _view(whole: TensorData, one: Stored, start: int) -> TensorData:
    """The part of a payload that equals a constant, as a view of the same memory."""
    assert whole.array is not None
    shape = one.data.shape
    return TensorData(one.data.dtype, shape, whole.array.reshape(-1)[start : start + prod(shape)].reshape(shape), whole.device)


def _strides(payload: TensorData) -> tuple[int, ...]:
    assert payload.array is not None
    return tuple(step // payload.array.itemsize for step in payload.array.strides)


def _is_in_rows(one: Stored) -> bool:
    return one.data.array is not None and bool(one.data.array.flags.c_contiguous)
