"""What must hold before a program may run: the types of its arguments, where they lie, and for calls like earlier ones both at once.

An argument is checked against the type of its input, in full once for each layout.

Addresses matter where a program writes. The alias db distinguishes the parameters that `irs.load` bound from each other and from
arguments (`Graph.storages`), and passes reorder by what it says; a program that does not write outside memory is never checked.
In one that does, an argument must not be in a storage that the program writes, nor, if the argument itself is written, in any;
and since `p.data = ...` gives a parameter other memory, those that have moved are numbered again. A call pays one address for
each parameter, and a search among their ranges for each argument.

Torch's own op on a thousand elements takes little more than a microsecond, including checks and memory for the result.
Flattening and checking arguments, choosing a library and converting them take several more, and their outcome depends only on
the arguments' types and layouts. So one function is generated for each signature: each fact about each argument is one
comparison. A program that is exactly one group then calls its kernel; any other starts from slots that are filled in.
"""

import struct
from bisect import bisect_right
from collections.abc import Callable, Hashable, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any, Final, NamedTuple

import numpy as np

from irscope._base.nested import address_range, by_storage, leaves
from irscope.analysis.per_graph import alias_db_of
from irscope.errors import ArgumentError
from irscope.ir import BOOL, FLOAT, INT, NONE, STR, Graph, Node, TensorType, Type, Value, argument_type
from irscope.ir.payload import element_name
from irscope.ops.registry import schema_of
from irscope.runtime.arrays import Memory, compiled_text
from irscope.runtime.program.groups import GroupKernels

Answer = Callable[[Sequence[Any]], Any]
"""Returns the program's results."""
Call = Callable[[Sequence[Any], Answer], Any]
"""The same for arguments of one signature; others, for which nothing has run, go to the second operand."""

_ERRORS: Final = (AttributeError, MemoryError, OverflowError, RuntimeError, ValueError, struct.error)
"""Raised when arguments lack an attribute or memory, are too few, too many or too large, or when memory for results runs out:
what is asked next reports the error."""

_COMPARED: Final = ("dtype", "shape", "stride()", "strides", "device")
"""Facts that may be equal without being the same object: NumPy's element types after pickling, too."""

_PLAIN: Final = (bool, float, int, str, type(None))
"""Types for which the checks never look at the value."""

_MOST: Final = 256
"""Signatures kept; when there are more, all are dropped and learned again."""

_KINDS: Final[Mapping[Type, tuple[Any, ...]]] = {INT: (int,), FLOAT: (float, int), BOOL: (bool,), STR: (str,), NONE: (type(None),)}
Check = Callable[[Any, dict[str, int]], None]


def check_of(value: Value, name: str) -> Check | None:
    """Returns the check of an argument: for a tensor all that its type says. The dictionary maps symbols to extents."""
    type = value.type
    if isinstance(type, TensorType):
        return _tensor_check(type, name)
    wanted = _KINDS.get(type)
    if wanted is None:
        return None

    def check(argument: Any, symbols: dict[str, int]) -> None:
        if not isinstance(argument, wanted) or (type == INT and isinstance(argument, bool)):
            raise _wrong(name, type, argument)

    return check


def _tensor_check(type: TensorType, name: str) -> Check:
    """Returns the check of one tensor, which remembers the layouts it has accepted: a full check takes microseconds."""
    if not type.is_static:
        return lambda argument, symbols: _check_tensor(type, name, argument, symbols)
    accepted: set[Hashable] = set()

    def check(argument: Any, symbols: dict[str, int]) -> None:
        seen = _layout(argument)
        if seen is None or seen not in accepted:
            _check_tensor(type, name, argument, symbols)
            if seen is not None:
                accepted.add(seen)

    return check


def _layout(argument: Any) -> Hashable:
    """Returns all that a check looks at; None for an argument that is not a tensor, or has no strides."""
    step = getattr(argument, "stride", None)
    try:
        if step is not None:
            return (argument.dtype, argument.shape, step())
    except RuntimeError:  # a sparse tensor, or a nested one
        return None
    if not isinstance(argument, np.ndarray):
        return None
    return (argument.dtype, argument.shape, argument.strides, argument.__class__)


def _check_tensor(type: TensorType, name: str, argument: Any, symbols: dict[str, int]) -> None:
    if not _is_tensor(argument):
        raise _wrong(name, type, argument)
    dtype = element_name(argument)
    _check_storage(name, argument, dtype)
    if type.dtype is not None and dtype != type.dtype:
        raise _wrong(name, type, argument)
    if type.shape is None:
        return
    given_type = argument_type(np.asarray(argument) if isinstance(argument, np.generic) else argument)  # some are floats, too
    if not isinstance(given_type, TensorType) or given_type.shape is None or len(given_type.shape) != len(type.shape):
        raise _wrong(name, type, argument)
    shape = tuple(argument.shape)
    for wanted, given in zip(type.shape, shape, strict=True):
        if wanted is not None and given != (symbols.setdefault(wanted, given) if isinstance(wanted, str) else wanted):
            raise _wrong(name, type, argument, f", and {wanted} is {symbols[wanted]} here" if isinstance(wanted, str) else "")
    if type.strides is not None:
        steps = zip(shape, type.strides, given_type.strides or type.strides, strict=True)
        if any(size > 1 and wanted != given for size, wanted, given in steps) and 0 not in shape:
            raise _wrong(name, type, argument)


def _check_storage(name: str, argument: Any, dtype: str) -> None:
    """Refuses tensors whose elements are not laid out by strides, are quantized, or are masked."""
    layout = str(getattr(argument, "layout", ""))
    if layout.startswith("torch.") and layout != "torch.strided":
        way = "x.to_dense()"
        what = f"laid out as {layout}, not by strides"
    elif dtype in _QUANTIZED:
        way = "x.dequantize()"
        what = f"quantized to {dtype}"
    elif isinstance(argument, np.ma.MaskedArray):
        way = "x.filled(number), or x.data"
        what = "with a mask"
    elif hasattr(argument, "to_numpy") and not hasattr(argument, "__dlpack__"):  # of pandas
        way = "x.to_numpy()"
        what = f"of type {type(argument).__name__}"
    else:
        return
    raise ArgumentError(
        f"the argument for %{name} is a tensor {what}, and programs run on dense tensors of plain numbers",
        rule="argument-storage",
        hint=f"pass {way}",
    )


_QUANTIZED: Final = frozenset({"quint8", "qint8", "qint32", "quint4x2", "quint2x4"})


def _is_tensor(argument: Any) -> bool:
    """Checks whether an argument has an element type and a shape: a nested tensor has none."""
    try:
        return hasattr(argument, "dtype") and hasattr(argument, "shape")
    except RuntimeError:
        return False


def _wrong(name: str, type: Type, argument: Any, why: str = "") -> ArgumentError:
    return ArgumentError(
        f"the argument for %{name} is {argument_type(argument)}, and the program was loaded for {type}{why}",
        hint="load it again with example arguments like these",
    )


def may_write(graph: Graph) -> bool:
    """Checks whether any node of a program may write memory that it receives."""
    return any(not node.op.startswith("prim::") if (schema := schema_of(node)) is None else schema.is_mutable for node in graph.nodes())


def storage_check(graph: Graph) -> "StorageCheck | None":
    """Returns the check of the addresses of a program's arguments and parameters; None where they make no difference."""
    if not graph.storages or not may_write(graph):
        return None
    db = alias_db_of(graph)
    written = frozenset(value for value in graph.inputs if db.has_writers(value))
    return StorageCheck(graph, written) if written else None


class StorageCheck:
    """The memory that one program assumes distinct, and the check of it.

    >>> import irscope as irs, numpy as np
    >>> from dataclasses import replace
    >>> g = irs.parse("graph(%x : Tensor, %w : Tensor):\\n  %y : Tensor = aten::add_(%x, %w)\\n  return (%y)")
    >>> w = np.zeros(3, np.float32)
    >>> g = replace(g, bound={g.value("w"): w}, storages={g.value("w"): 0})
    >>> check = storage_check(g)
    >>> check([np.ones(3, np.float32)])
    >>> check([w[1:]])
    Traceback (most recent call last):
    irscope.errors.ArgumentError: the argument for %x lies in the memory of the parameter %w, and the program writes it...
    """

    def __init__(self, graph: Graph, written: frozenset[Value]) -> None:
        self.graph = graph
        self.written = written
        self._numbers = {graph.storages[value] for value in written if value in graph.storages}
        bound = {value: graph.bound[value] for value in graph.storages if value in graph.bound}
        self._movable = [tensor for tensor in bound.values() if hasattr(tensor, "data_ptr")]
        self._bound = bound
        self._addresses: list[int] = []
        self._look()

    def __call__(self, arguments: Sequence[Any]) -> None:
        """Raises ArgumentError where memory is not laid out as assumed."""
        if [tensor.data_ptr() for tensor in self._movable] != self._addresses:
            self._look()
        for value, argument in zip(self.graph.free_inputs, arguments, strict=False):
            for leaf in leaves(argument):
                if hasattr(leaf, "shape"):
                    self._check(value, leaf)

    def _look(self) -> None:
        """Finds the addresses of the parameters. Raises ArgumentError if two that were distinct share memory now."""
        assumed, first = self.graph.storages, dict[int, Value]()
        for value, number in by_storage(self._bound).items():
            other = first.setdefault(number, value)
            if assumed[other] != assumed[value]:
                names = self.graph.names
                raise ArgumentError(
                    f"the parameters %{names[other]} and %{names[value]} share memory now, and did not when the program was loaded",
                    rule="storages",
                    hint="load the model again, as it is now",
                )
        ranges = [(*found, value) for value, tensor in self._bound.items() if (found := address_range(tensor))]
        self._ranges = _merged(ranges)
        self._written_ranges = _merged([at for at in ranges if assumed[at[2]] in self._numbers])
        self._addresses = [tensor.data_ptr() for tensor in self._movable]

    def _check(self, value: Value, leaf: Any) -> None:
        given = address_range(leaf)
        ranges = self._ranges if value in self.written else self._written_ranges
        if given is None or given[0] >= given[1]:
            return
        index = bisect_right(ranges, given[0], key=itemgetter(1))  # the first that ends after the start
        if index < len(ranges) and ranges[index][0] < given[1]:
            names, other = self.graph.names, ranges[index][2]
            raise ArgumentError(
                f"the argument for %{names[value]} lies in the memory of the parameter %{names[other]}, and the program writes it",
                rule="storages",
                hint="it was compiled for arguments outside of the parameters: pass a copy of this one",
            )


def _merged(ranges: Sequence[tuple[int, int, Value]]) -> list[tuple[int, int, Value]]:
    """Returns ranges of addresses in order, those that overlap as one."""
    found: list[tuple[int, int, Value]] = []
    for start, end, value in sorted(ranges, key=itemgetter(0, 1)):
        if found and start < found[-1][1]:
            first, last, known = found[-1]
            found[-1] = first, max(last, end), known
        elif start < end:
            found.append((start, end, value))
    return found


class OnlyGroup(NamedTuple):
    """The single group of a program that has nothing else."""

    group: GroupKernels
    reads: tuple[int, ...]
    """The argument behind each operand of the group."""
    gives: tuple[int, ...]
    """The group's result behind each of the program's."""


def only_group(graph: Graph, groups: Mapping[Node, GroupKernels]) -> OnlyGroup | None:
    """Returns the group if a program is one group of its inputs and returns only the group's results, else None."""
    nodes = [node for node in graph.body.nodes if node.op != "prim::Constant"]
    if len(nodes) != 1 or nodes[0] not in groups or graph.bound:
        return None
    (node,) = nodes
    places = {value: index for index, value in enumerate(graph.inputs)}
    results = {value: index for index, value in enumerate(node.outputs)}
    if not places.keys() >= set(node.inputs) or not results.keys() >= set(graph.body.returns):
        return None
    if len(graph.body.returns) == 1 and len(node.outputs) != 1:
        return None
    reads, gives = tuple(places[value] for value in node.inputs), tuple(results[value] for value in graph.body.returns)
    return OnlyGroup(groups[node], reads, gives)


class KnownCalls:
    """The functions generated for the signatures of earlier calls; thread-safe.

    A signature gets its function when it comes for the second time: where tensors grow, each call has a new one."""

    def __init__(self) -> None:
        self.last: Call = _ask_next
        """The function that was generated last."""
        self._memories: list[Memory] = []
        """Those that compute the keys of signatures."""
        self._known: dict[Hashable, Call] = {}

    def like(self, arguments: Sequence[Any]) -> Call:
        """Returns the function for arguments of this signature, or one that asks the next."""
        for memory in self._memories:
            try:
                found = self._known.get(memory.key(arguments), _ask_next)
            except _ERRORS:
                continue
            if found is not _ask_next:
                return found
        return _ask_next

    def key(self, arguments: Sequence[Any], memory: Memory) -> Hashable:
        """Returns the key of a signature that came before; None the first time, and for arguments that have none."""
        try:
            key = memory.key(arguments)
        except _ERRORS:
            return None
        if key in self._known:
            return key
        if len(self._known) >= _MOST:
            self._known = {}
        self._known[key] = _ask_next
        if memory not in self._memories:
            self._memories.append(memory)
        return None

    def keep(self, key: Hashable, call: Call) -> None:
        """Stores the function that was generated for arguments of this key."""
        self._known[key] = self.last = call


def _ask_next(arguments: Sequence[Any], otherwise: Answer) -> Any:
    return otherwise(arguments)


def kernel_call(arguments: Sequence[Any], only: OnlyGroup, memory: Memory) -> Call | None:
    """Returns the function of a one-group program for arguments like these, which have passed the checks; None if no kernel
    takes them, or no guard can tell them from others."""
    names: dict[str, Any] = {}
    condition = _guard(arguments, memory, names)
    ready = None if condition is None else only.group.ready([arguments[index] for index in only.reads], memory)
    if condition is None or ready is None:
        return None
    numbers = {f"x{place}" for place, argument in enumerate(arguments) if not memory.owns(argument)}
    xs, ys = [f"x{place}" for place in only.reads], [f"y{place}" for place in only.gives]
    makes, launch = ready.make_text(xs, names), ready.launch_text(xs, numbers, memory, names)
    given = ys[0] if len(ys) == 1 else f"({', '.join(ys)})"
    return _written(len(arguments), condition, names, [*makes, *launch], [f"return {given}"])


def program_call(
    arguments: Sequence[Any], memory: Memory, run: Callable[..., Sequence[Any]], template: list[Any],
    slots: Sequence[int], check: Callable[[Sequence[Any]], object] | None, *, gives_one: bool,
    enter: Sequence[Callable[[Any], Any] | None] = (),
) -> Call | None:  # fmt: skip
    """Returns a function that runs a program from its slots, for arguments like these, which have passed the checks; None if
    no guard can tell them from others.

    `slots`: the slot of each argument; `check` runs on them at each call. With `enter`, slots get what it makes of the arguments,
    and `run` gets the arguments too."""
    names: dict[str, Any] = {"template": template, "run": run, "check": check}
    condition = _guard(arguments, memory, names)
    if condition is None:
        return None
    names |= {f"enter{place}": function for place, function in enumerate(enter) if function is not None}
    entered = [f"enter{place}(x{place})" if f"enter{place}" in names else f"x{place}" for place in range(len(slots))]
    body = [
        *(["check(arguments)"] if check is not None else []),
        "slots = template.copy()",
        *[f"slots[{slot}] = {text}" for slot, text in zip(slots, entered, strict=True)],
        f"return run(slots{', arguments' if enter else ''}){'[0]' if gives_one else ''}",
    ]
    return _written(len(arguments), condition, names, [], body)


def _written(count: int, condition: str, names: dict[str, Any], first: Sequence[str], body: Sequence[str]) -> Call:
    """Generates a function of `count` arguments: if they fulfil the condition, it runs `first`, whose failure loses nothing, and
    then `body`."""
    names["errors"] = _ERRORS
    text = "\n".join([
        "def call(arguments, otherwise):",
        "    try:",
        f"        {''.join(f'x{place}, ' for place in range(count)) or '()'} = arguments",
        f"        fits = {condition}",
        *(["        if fits:"] if first else []),
        *[f"            {line}" for line in first],
        "    except errors:",
        "        fits = False",
        "    if not fits:",
        "        return otherwise(arguments)",
        *[f"    {line}" for line in body],
    ])  # fmt: skip
    exec(compiled_text(text), names)  # only counts and a memory's own facts
    made: Call = names["call"]
    return made


def _guard(arguments: Sequence[Any], memory: Memory, names: dict[str, Any]) -> str | None:
    """Returns a condition for whether the variables `x0`, … are like these arguments: by type for numbers, by all `facts` for
    the memory's own; None if an argument is neither, or if torch must see the ops. Adds what the condition needs to `names`."""
    owned = [place for place, argument in enumerate(arguments) if memory.owns(argument)]
    if not memory.is_plain([arguments[place] for place in owned]):
        return None
    tests = []
    for place, argument in enumerate(arguments):
        if memory.owns(argument):
            continue
        if type(argument) not in _PLAIN:
            return None
        names[f"type{place}"] = type(argument)
        tests.append(f"x{place}.__class__ is type{place}")
    if owned:
        try:
            tests.append(f"({_facts(arguments, owned, memory, names)})")
        except _ERRORS:
            return None
    elif memory.unguarded(names):
        tests.append("is_plain()")
    return " and ".join(tests) or "True"


def _facts(arguments: Sequence[Any], owned: Sequence[int], memory: Memory, names: dict[str, Any]) -> str:
    """Returns the memory's part of the condition, surroundings included: one combined guard if possible, else fact by fact."""
    xs = [f"x{place}" for place in owned]
    tests = []
    for place in owned:
        for number, fact in enumerate(memory.facts):
            name = f"fact{place}_{number}"
            value = attrgetter(fact.removesuffix("()"))(arguments[place])
            names[name] = value() if fact.endswith("()") else value
            tests.append(f"x{place}.{fact} {'==' if fact in _COMPARED else 'is'} {name}")
    unguarded = memory.unguarded(names)
    asks = [f"is_plain({', '.join(xs)})"] if unguarded else []
    facts = " and ".join([*tests, *asks])
    quick = memory.quick_test(xs, [arguments[place] for place in owned], names)
    first = f"{unguarded} and " if unguarded else ""
    return f"{first}({quick} or {facts})" if quick else facts
