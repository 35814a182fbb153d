"""Constants that a program stores more than once: which are the same, the bytes to save, and merging them.

Constants are parameters and buffers bound to inputs, tensors in the program (*literals*), and a module's data, with their present
contents. They have a ladder of two relations:

    tied    one memory, as a whole or a view of it: stored once already
    equal   the same element type, shape and elements, bit by bit (so 0.0 and -0.0 differ, and a NaN equals the same NaN)

Elements are hashed to select what to compare, and compared exactly; they are read once for their digest, and only where another
constant has as many of the same type. Linear in the nodes, and in the bytes of the constants.

*Literals* belong to the program alone. Two become one if they have one type, strides included, and the same bits, neither is
written, and no caller gets hold of either (`EscapeInfo` of `cleanup.cse`): a caller could write it, and a constant is one memory for
all calls.

*Parameters and buffers* belong to the caller: a training step, `load_state_dict` or a line of Python may change one of them
between two calls, and a compiled program reads the memory that it was given. Two tied ones, one memory with one shape and
strides, always stay the same, and always become one value. Two that merely have the same elements (a fresh network's running
means are all zeros) become one only where the caller says that they are frozen, and never if they require a gradient.

*Between the functions of a module* a node cannot replace another function's, so the payload is shared instead, and both have one
array in memory; so do equal data of the module itself (globals, read-only data).

Each declined merge is a remark.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import numpy as np

from irscope._base.nested import grouped
from irscope._base.results import Verdict, no, yes
from irscope.analysis.per_graph import alias_db_of
from irscope.errors import ArgumentError, UnknownName, new_table
from irscope.ir import Graph, Module, Node, Rewriter, TensorData, Value
from irscope.ir.module import graphs_of
from irscope.transforms.base import PassRecord, Remark, timed
from irscope.transforms.cleanup import constant_node
from irscope.transforms.cleanup.cse import EscapeInfo
from irscope.transforms.dedup.piece import GIVES_UP, Hole, format_holes

if TYPE_CHECKING:
    import pandas as pd

ConstantStep = Literal["tied", "equal"]
CONSTANT_STEPS: Final[tuple[ConstantStep, ...]] = get_args(ConstantStep)
"""The relations, from the finer to the coarser."""
Kind = Literal["parameter", "buffer", "literal", "module data"]
Array = np.ndarray[Any, Any]
_BITS: Final[Mapping[int, type]] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def known_step(step: Any) -> ConstantStep:
    """Returns a relation of constants. Raises ArgumentError for anything else."""
    if step not in CONSTANT_STEPS:
        raise ArgumentError(f"there is no relation {step!r} of constants", hint=f"choose one of {', '.join(CONSTANT_STEPS)}")
    return step  # type: ignore[no-any-return]


# --- the constants of a program ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Stored:
    """One constant tensor."""

    name: str
    """The printed name of its value, or another name of it in the model, or its name in the module; in a module of several graphs
    prefixed with its graph's name."""
    kind: Kind
    data: TensorData
    where: Value | str
    """The input or the result of the `prim::Constant`; the name of module data."""
    node: Node | None = None
    """The `prim::Constant` of a literal."""

    @property
    def nbytes(self) -> int:
        """The bytes of its elements, each counted once."""
        return 0 if self.data.array is None else self.data.array.nbytes

    @property
    def is_trained(self) -> bool:
        """Whether a training step may change it."""
        return bool(getattr(self.data.original, "requires_grad", False))

    @cached_property
    def rows(self) -> Array:
        """The bits of the elements as unsigned integers of their size, in logical order, whatever the strides."""
        assert self.data.array is not None
        flat: Array = np.ascontiguousarray(self.data.array).reshape(-1)
        return flat.view(_BITS.get(flat.dtype.itemsize, np.uint8))

    @cached_property
    def digest(self) -> bytes:
        """A digest of sixteen bytes of the elements, which selects what to compare."""
        return blake2b(np.ascontiguousarray(self.rows).data, digest_size=16).digest()

    def equals(self, other: "Stored") -> bool:
        """Whether both have the same elements in the same logical order, bit by bit."""
        return self is other or bool(np.array_equal(self.rows, other.rows))

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """The strides in bytes; 0 for dimensions with one element, where they mean nothing."""
        assert self.data.array is not None
        steps = zip(self.data.array.strides, self.data.array.shape, strict=True)
        return tuple([step if extent > 1 else 0 for step, extent in steps])

    @cached_property
    def memory(self) -> tuple[int, int, int] | None:
        """The address of the first element, and the start and end of the bytes that it occupies; None where unknown."""
        array, original = self.data.array, self.data.original
        if array is None or not array.size or (original is not None and self.data.device != "cpu"):
            return None
        address = int(array.__array_interface__["data"][0])
        if original is not None and hasattr(original, "data_ptr") and original.data_ptr() != address:
            return None  # the array is a copy
        low = high = address
        for step, extent in zip(array.strides, array.shape, strict=True):
            low, high = low + min(0, step * (extent - 1)), high + max(0, step * (extent - 1))
        return address, low, high + array.itemsize


def _stored_in(program: Graph | Module) -> Iterator[Stored]:
    """Yields all constant tensors whose elements are known, in program order."""
    if isinstance(program, Graph):
        yield from _of_graph(program, "")
        return
    for path, graph in graphs_of(program):
        yield from _of_graph(graph, f"{path}::")
    todo = [("", program)]
    for path, module in todo:
        todo += [(f"{path}{name}::", inner) for name, inner in module.modules.items()]
        for name, payload in module.constants.items():
            data = _tensor_data(payload)
            if data is not None:
                yield Stored(path + name, "module data", data, path + name)


def _of_graph(graph: Graph, path: str) -> Iterator[Stored]:
    names = graph.names
    for value, thing in graph.bound.items():
        data = _tensor_data(thing)
        if data is not None:
            kind: Kind = "parameter" if type(thing).__name__ == "Parameter" or getattr(thing, "requires_grad", False) else "buffer"
            yield Stored(path + names[value], kind, data, value)
            for name in graph.tied.get(value.name or "", ()):
                yield Stored(path + name, kind, data, value)
    for node in graph.nodes():
        data = _tensor_data(node.attrs.get("value")) if node.op == "prim::Constant" else None
        if data is not None:
            yield Stored(path + names[node.output], "literal", data, node.output, node)


def _tensor_data(thing: Any) -> TensorData | None:
    """A tensor of any library with its elements; None for anything else, or if NumPy cannot hold its elements."""
    if isinstance(thing, TensorData):
        data = thing
    elif isinstance(thing, np.ndarray):
        data = TensorData.of(thing)
    elif hasattr(thing, "untyped_storage"):
        from irscope.frontends.torch.types import tensor_data

        data = tensor_data(thing)
    elif hasattr(thing, "__array__") and hasattr(thing, "dtype") and hasattr(thing, "shape"):
        data = TensorData(str(thing.dtype), tuple(thing.shape), np.asarray(thing), original=thing)
    else:
        return None
    return None if data.array is None or data.array.dtype.hasobject else data


# --- which are the same -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sharing:
    """A constant whose elements another constant contains, too."""

    constant: Stored
    how: Literal["tied", "view", "equal"]
    """`tied` is the same memory with the same shape and strides, `view` is memory inside the other's: both are stored once."""
    other: Stored
    offset: int = 0
    """The start of a view in the other, in bytes."""

    @property
    def bytes_saved(self) -> int:
        """The bytes that need not be stored; 0 for memory that is shared already."""
        return self.constant.nbytes if self.how == "equal" else 0

    def __str__(self) -> str:
        verb = {"tied": "is tied to", "view": "is a view of", "equal": "equals"}[self.how]
        where = f", {self.offset} bytes in" if self.how == "view" else ""
        return f"%{self.constant.name} {verb} %{self.other.name}{where}"


@dataclass(frozen=True)
class Constants:
    """The constants of a program, and which of them are stored twice."""

    all: tuple[Stored, ...]
    shared: tuple[Sharing, ...]
    """The sharings in program order of the constant; the other is the earlier of two, or the larger."""

    @cached_property
    def named(self) -> dict[str, Stored]:
        return {one.name: one for one in self.all}

    @cached_property
    def sharing_of(self) -> dict[Stored, Sharing]:
        return {found.constant: found for found in self.shared}

    def name_of(self, constant: Any) -> str:
        """The name of a constant that is given by its name or its value. Raises UnknownName."""
        if isinstance(constant, str):
            found = self.named.get(constant.removeprefix("%"))
        else:
            found = next((one for one in self.all if one.where is constant), None)
        if found is None:
            some = ", ".join(f"%{name}" for name in list(self.named)[:5])
            raise UnknownName(f"there is no constant {constant!r} with elements", hint=f"the constants are {some}" if some else "")
        return found.name

    def chain(self, one: Stored, step: ConstantStep) -> list[Sharing]:
        """The sharings from a constant to the one that it finally follows from."""
        path: list[Sharing] = []
        while (found := self.sharing_of.get(one)) is not None and (step == "equal" or found.how != "equal"):
            path.append(found)
            one = found.other
        return path

    def kept(self, name: str, step: ConstantStep) -> str:
        """The constant to keep of a constant's class."""
        path = self.chain(self.named[name], step)
        return path[-1].other.name if path else name

    def classes(self, step: ConstantStep) -> list[tuple[str, ...]]:
        """The names in each class, in program order of the first."""
        found = grouped((self.kept(one.name, step), one.name) for one in self.all)
        return list(map(tuple, found.values()))

    def saved_by(self, members: Sequence[str], step: ConstantStep) -> int:
        """The bytes that need not be stored if a class is stored once."""
        return sum(path[0].bytes_saved for name in members if (path := self.chain(self.named[name], step)))

    def fingerprint(self, name: str) -> bytes:
        """A digest of a constant's type and elements."""
        one = self.named[name]
        return blake2b(f"{one.data.dtype}{tuple(one.data.shape)}".encode() + one.digest, digest_size=16).digest()

    def between(self, a: str, b: str, step: ConstantStep) -> list[Sharing] | None:
        """How one follows from the other, or both from a third; None where they are in different classes."""
        if self.kept(a, step) != self.kept(b, step):
            return None
        ours, theirs = (self.chain(self.named[name], step) for name in (a, b))
        while ours and theirs and ours[-1] is theirs[-1]:
            ours.pop()
            theirs.pop()
        return [*ours, *theirs]

    # -- what a `Dedup` says of them

    def difference(self, a: str, b: str, step: ConstantStep) -> Verdict:
        """Whether two constants are the same by a step and how one follows from the other; if not, where they differ."""
        chain = self.between(a, b, step)
        if chain is not None:
            return yes("; ".join(map(str, chain)) or f"%{a} is one constant", *chain).in_words("the same", "")
        holes = _holes(self.named[a], self.named[b])
        return no(f"%{a} and %{b} differ in {format_holes(holes)}", *holes).in_words("", "not the same")

    def why_not(self, a: str, b: str, step: ConstantStep) -> Verdict:
        """Whether two constants are the same by a step; if not, by which they are, and what that step gives up."""
        for coarser in CONSTANT_STEPS[CONSTANT_STEPS.index(step) + 1 :] if self.between(a, b, step) is None else ():
            chain = self.between(a, b, coarser)
            if chain is not None:
                cost = f"which gives up {GIVES_UP[coarser]}: {'; '.join(map(str, chain))}"
                return no(f"%{a} and %{b} are the same only from step {coarser!r} on, {cost}", coarser, *chain).in_words("", "not the same")
        return self.difference(a, b, step)

    def ladder(self) -> "pd.DataFrame":
        """One row for each step: the number of classes, the bytes saved by storing one constant for each, and what it gives up."""
        rows = []
        for step in CONSTANT_STEPS:
            classes = self.classes(step)
            saved = sum(self.saved_by(members, step) for members in classes)
            rows.append([step, len(self.all), len(classes), max(map(len, classes), default=0), saved, GIVES_UP[step]])
        return new_table(rows, columns=["relation", "pieces", "classes", "largest", "bytes saved", "gives up"]).set_index("relation")

    def table(self, classes: Iterable[Any]) -> "pd.DataFrame":
        """One row for each `EquivalenceClass`: the type of its constant, and how others follow from it."""
        rows = []
        for cls in classes:
            kept = self.named[cls.representative]
            how = dict.fromkeys(self.sharing_of[self.named[name]].how for name in cls.members if name != kept.name)
            about = (kept.name, kept.kind, kept.data.dtype, tuple(kept.data.shape))
            rows.append([cls.index, len(cls), *about, ", ".join(how), cls.bytes_saved])
        columns = ["class", "members", "representative", "kind", "type", "shape", "how", "bytes saved"]
        return new_table(rows, columns=columns).set_index("class")

    def holes(self, cls: Any) -> "pd.DataFrame":
        """The differences between the members of a class: type, shape, and how each follows from which other."""
        stored = [self.named[name] for name in cls.members]
        sharings = [self.sharing_of.get(one) if one.name != cls.representative else None for one in stored]
        rows = {
            "type": [one.data.dtype for one in stored],
            "shape": [tuple(one.data.shape) for one in stored],
            "how": ["kept" if found is None else found.how for found in sharings],
            "of": ["" if found is None else found.other.name for found in sharings],
            "from": [0 if found is None else found.offset for found in sharings],
        }
        return new_table(rows.values(), index=list(rows), columns=list(cls.members))


def _holes(left: Stored, right: Stored) -> list[Hole]:
    """The differences of two constants: type and shape, or the number of different elements and the first of them."""
    ours, theirs = left.data, right.data
    holes = [Hole("dtype", "the element type", ours.dtype, theirs.dtype)] if ours.dtype != theirs.dtype else []
    if tuple(ours.shape) != tuple(theirs.shape):
        holes.append(Hole("extent", "the shape", str(tuple(ours.shape)), str(tuple(theirs.shape))))
    if holes or ours.array is None or theirs.array is None:
        return holes
    unlike = np.flatnonzero(left.rows != right.rows)
    if not len(unlike):
        return [Hole("attribute", "the memory", f"%{left.name}", f"%{right.name}")]
    first = tuple(int(place) for place in np.unravel_index(int(unlike[0]), ours.array.shape))
    where = f"{len(unlike)} of {left.rows.size} elements, the first at {list(first)}"
    return [Hole("constant", where, str(ours.array[first]), str(theirs.array[first]))]


def find_constants(program: Graph | Module | Any) -> Constants:
    """Returns the constants of a program, and those that are the same as others."""
    if not isinstance(program, Graph | Module):
        program = getattr(program, "graph", program)
    if not isinstance(program, Graph | Module):
        raise ArgumentError(
            f"constants are those of a Graph, a Fusion or a Module, not of {type(program).__name__}",
            hint="irs.load(program, *example_arguments) makes a Graph of a model or a file",
        )
    every = tuple(one for one in _stored_in(program) if one.data.array is not None and one.data.array.size)
    known = {found.constant: found for found in _by_memory(every)}
    known |= {found.constant: found for found in _by_content([one for one in every if one not in known])}
    return Constants(every, tuple(known[one] for one in every if one in known))


def _by_memory(constants: Sequence[Stored]) -> Iterator[Sharing]:
    """Yields tied constants and views, by a sweep over their address ranges; only constants without gaps contain views."""
    inputs: dict[object, Stored] = {}
    for one in constants:
        if inputs.setdefault(one.where, one) is not one:  # another name of the same input
            yield Sharing(one, "tied", inputs[one.where])
    placed = [(one.memory, number, one) for number, one in enumerate(constants) if one.memory is not None and inputs[one.where] is one]
    placed.sort(key=lambda entry: (entry[0][1], -entry[0][2], entry[1]))
    holder: tuple[int, int, Stored] | None = None
    same: dict[object, Stored] = {}
    for (first, low, high), _, one in placed:
        key = (first, one.data.dtype, tuple(one.data.shape), one.strides)
        tied = same.setdefault(key, one)
        if tied is not one:
            yield Sharing(one, "tied", tied)
        elif holder is not None and high <= holder[1]:
            yield Sharing(one, "view", holder[2], first - holder[0])
        elif high - low == one.nbytes and (holder is None or high > holder[1]):
            holder = (low, high, one)


def _by_content(constants: Sequence[Stored]) -> Iterator[Sharing]:
    """Yields constants with the same elements as an earlier one."""
    groups = grouped(((one.data.dtype, tuple(one.data.shape)), one) for one in constants)
    for group in groups.values():
        leaders: dict[bytes, list[Stored]] = {}
        for one in group if len(group) > 1 else ():
            found = leaders.setdefault(one.digest, [])
            first = next((other for other in found if other.equals(one)), None)
            if first is not None:
                yield Sharing(one, "equal", first)
            else:
                found.append(one)


# --- merging them -------------------------------------------------------------------------------------------------------


@timed
def merge_constants(graph: Graph, *, frozen: bool = False, step: ConstantStep = "equal") -> PassRecord:
    """Keep one of the constants that are the same by a step; `frozen` promises that parameters and buffers never change again.
    Raises ArgumentError for an unknown step.
    """
    known_step(step)
    merge = _Merge(graph, frozen)
    for found in find_constants(graph).shared:
        if found.how == "tied" or found.how == step:
            merge.consider(found)
    after = merge.finish()
    remarks = sorted(merge.remarks, key=lambda remark: remark.kind != "passed")
    return PassRecord("dedup-constants", graph, after, tuple(merge.rewriter.edits), tuple(remarks))


class _Merge:
    """The merges of constants in one graph: first each is decided, then all are carried out."""

    def __init__(self, graph: Graph, frozen: bool) -> None:
        self.rewriter = Rewriter(graph)
        self.remarks: list[Remark] = []
        self._graph = graph
        self._frozen = frozen
        self._leader: dict[Value, Value] = {}
        """The constant that replaces another."""
        self._tied: dict[str, tuple[str, ...]] = {}
        self._onlookers: EscapeInfo | None = None

    def consider(self, found: Sharing) -> None:
        """Decide whether one constant replaces another, or add a remark that says why not."""
        value, other = found.constant.where, found.other.where
        assert isinstance(value, Value)
        assert isinstance(other, Value)
        if value is other:
            return  # two names of one input
        rule, obstacle = self._obstacle(found, value, other)
        because = f"%{self._graph.names[other]} has the same elements"
        if obstacle:
            self.remarks.append(Remark("missed", rule, value, f"{because}, but {obstacle}", (other,)))
            return
        if found.how == "tied" and not found.constant.node:
            because = f"%{self._graph.names[other]} is the same memory"
            self._tied[other.name or ""] = (*self._tied.get(other.name or "", ()), value.name or "")
        self._leader[value] = self._leader.get(other, other)
        self.remarks.append(Remark("passed", "same-constant", value, f"{because}; {found.bytes_saved} bytes saved", (other,)))

    def _obstacle(self, found: Sharing, value: Value, other: Value) -> tuple[str, str]:
        """The rule that keeps two apart, and its reason; empty if there is none."""
        if value.type != other.type or found.constant.strides != found.other.strides:
            return "another-type", f"their types differ: {value.type} and {other.type}"
        if found.constant.data.device != found.other.data.device:
            return "another-type", "they are on different devices"
        if self._graph.block_of[value] is not self._graph.body or self._graph.block_of[other] is not self._graph.body:
            return "nested", "one of them is in a nested block"
        bound = [one for one in (found.constant, found.other) if one.node is None]
        if found.how == "tied" and len(bound) == 2:
            return "", ""
        if any(one.is_trained for one in bound):
            return "trained", "a training step may change one of them"
        if bound and not self._frozen:
            return "may-change", "one of them may be changed between two calls (`frozen=True` promises that they are not)"
        db = alias_db_of(self._graph)
        if db.is_written(value) or db.is_written(other):
            return "written-memory", "one of them is written"
        if bound:
            is_seen = any(db.may_contain_alias(out, one) for out in self._graph.outputs for one in (value, other))
        else:
            if self._onlookers is None:
                self._onlookers = EscapeInfo(db)
            is_seen = bool(self._onlookers.obstacle(value, other, lasting=True))
            if not is_seen:
                self._onlookers.become_one(value, other)
        return ("seen-memory", "a caller may get hold of one of them") if is_seen else ("", "")

    def finish(self) -> Graph:
        """Carry out the merges and return the next graph, without the inputs that became unused."""
        gone, graph = self._leader, self._graph
        reasons = {remark.subject: remark.because for remark in self.remarks if remark.kind == "passed"}
        for value, leader in gone.items():
            self.rewriter.replace(value, leader, reason=reasons[value])
        for value in (value for value in gone if value in graph.producer):
            self.rewriter.erase(graph.producer[value], reason=reasons[value])
        after = self.rewriter.finish()
        if gone.keys().isdisjoint(graph.bound):
            return after
        params = tuple(value for value in after.body.params if value not in gone)
        bound = {value: thing for value, thing in after.bound.items() if value not in gone}
        storages = {value: number for value, number in after.storages.items() if value not in gone}
        tied = {name: (*after.tied.get(name, ()), *self._tied.get(name, ())) for name in (*after.tied, *self._tied)}
        return replace(after, body=replace(after.body, params=params), bound=bound, storages=storages, tied=tied)


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
        remarks += [f"{remark} (in {path})" for remark in record.remarks]
    home: dict[Value | str, str] = {value: path for path, graph in graphs.items() for value in graph.values()}
    rewriters = {path: Rewriter(graph) for path, graph in graphs.items()}
    data: dict[str, TensorData] = {}
    known: dict[str, EscapeInfo] = {}

    def escapes(value: Value) -> tuple[bool, bool]:
        """Whether a constant is written, and whether a caller may get hold of it."""
        path = home[value]
        db = alias_db_of(graphs[path])
        if path not in known:
            known[path] = EscapeInfo(db)
        return db.is_written(value), known[path].see(value)

    for found in find_constants(_with(module, graphs, {}, "")).shared:
        one, other = found.constant, found.other
        at = home.get(one.where)
        if not found.how == step == "equal" or (at is not None and at == home.get(other.where)):
            continue  # considered with the graph
        rule, obstacle = _why_not_shared(one, other, escapes)
        if obstacle:
            remarks.append(f"missed [{rule}] %{one.name}: equals %{other.name}, but {obstacle}")
            continue
        if one.node is None or at is None:
            data[str(one.where)] = other.data
        else:
            rewriters[at].replace_node(one.node, [constant_node(one.node.output, other.data, like=one.node)], reason=str(found))
        remarks.append(f"passed [same-constant] %{one.name}: %{other.name} has the same elements; {found.bytes_saved} bytes saved")
    return _with(module, {path: rewriter.finish() for path, rewriter in rewriters.items()}, data, ""), tuple(remarks)


def _why_not_shared(one: Stored, other: Stored, escapes: Callable[[Value], tuple[bool, bool]]) -> tuple[str, str]:
    """The rule that keeps constants of different graphs apart, and its reason: they share memory from then on."""
    for constant in (one, other):
        if not isinstance(constant.where, Value):
            continue
        if constant.node is None:
            return "another-function", "it is an input of a function, which may change between two calls"
        is_written, is_seen = escapes(constant.where)
        if is_written:
            return "written-memory", "one of them is written"
        if is_seen:
            return "seen-memory", "a caller may get hold of one of them"
    if one.strides != other.strides or one.data.device != other.data.device:
        return "another-type", "their layouts or devices differ"
    return "", ""


def _with(module: Module, graphs: Mapping[str, Graph], data: Mapping[str, TensorData], path: str) -> Module:
    """The module, including inner modules, with graphs and data replaced by path."""
    return replace(
        module,
        graphs={name: graphs[path + name] for name in module.graphs},
        constants={name: data.get(path + name, payload) for name, payload in module.constants.items()},
        modules={name: _with(inner, graphs, data, f"{path}{name}::") for name, inner in module.modules.items()},
    )
