"""Inductor's output code: the Python module that it generates, with the text of each kernel and the calls in their order.

It is parsed, never run. A kernel is a string handed to `async_compile`, and the function `call` runs the kernels and library calls one
after the other. Comments say what a call computes: `[Provenance debug handles] name:3` for each call if provenance is tracked, and above
the text of a Triton kernel its graph fragment, which names the FX nodes, those that it reads (as placeholders) and those that it stores.
"""

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import groupby, takewhile
from typing import Any, Final

from irscope._base.frozen import EMPTY
from irscope._base.nested import grouped, reached
from irscope._base.words import listed
from irscope.analysis.memory_plan import Allocation, OwnMemory
from irscope.codegen.kernel import NO_NODE, SourceText
from irscope.compilers.record import Kernel
from irscope.errors import LoadError
from irscope.frontends.torch.fx_text import FxText, dotted
from irscope.ir import ITEM_SIZE, Node
from irscope.ops.registry import category_of

_HINT: Final = "the output code may be cut off or changed: write the log again"
_LANGUAGES: Final = {"triton": "triton", "cpp": "c++", "cpp_pybinding": "c++", "cuda": "cuda", "halide": "halide", "metal": "metal"}
_HANDLE: Final = re.compile(r"#\s*\[Provenance debug handles\]\s*(\S+?):(\d+)\s*$")
_RUN: Final = re.compile(r"^(?:call|partition_\d+)$")


@dataclass(frozen=True, slots=True)
class Generated:
    """A kernel whose text Inductor generated."""

    name: str
    language: str
    text: str
    fragment: "Fragment | None"
    """What it computes, if a comment says so."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """The part of the graph that a kernel computes, by names of FX nodes."""

    reads: tuple[str, ...]
    nodes: tuple[str, ...]
    stores: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a kernel or of a library."""

    name: str
    """The kernel's name, or the library's entry as the code writes it: `extern_kernels.mm`."""
    is_library: bool
    handle: int | None
    """The number of the call that the provenance mapping speaks of."""
    line: int


@dataclass(frozen=True, slots=True)
class OutputCode:
    """What a module of output code holds."""

    kernels: Mapping[str, Generated]
    calls: tuple[Call, ...]
    memory: OwnMemory | None = None
    """What it allocates around its calls; None where these are in several functions, or under a condition."""


def read_output_code(text: str, sizes: Mapping[str, int] = EMPTY) -> OutputCode:
    """Returns the kernels and calls of a module that Inductor generated, and its memory: the code does not say the bytes of what libraries
    allocate, which are `sizes` by name. Raises LoadError if it is no Python.

    >>> code = read_output_code('''
    ... cpp_fused_relu_0 = async_compile.cpp_pybinding(['float*'], r"void kernel(float* p) {}")
    ... def call(args):
    ...     arg0_1, = args
    ...     buf0 = empty_strided_cpu((2, ), (1, ), torch.float32)
    ...     # [Provenance debug handles] cpp_fused_relu_0:1
    ...     cpp_fused_relu_0(arg0_1, buf0)
    ...     extern_kernels.mm(buf0, arg0_1, out=buf1)
    ...     return (buf0, )''')
    >>> [(call.name, call.is_library, call.handle) for call in code.calls], code.kernels["cpp_fused_relu_0"].language
    ([('cpp_fused_relu_0', False, 1), ('extern_kernels.mm', True, None)], 'c++')
    >>> code.memory.peak, [(each.name, each.how, each.first, each.last) for each in code.memory.allocations]
    (8, [('buf0', 'allocated', 0, 1)])
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        said = error.msg if isinstance(error, SyntaxError) else str(error) or type(error).__name__
        raise LoadError(f"Inductor's output code in the log is no Python: {said}", hint=_HINT) from None
    lines = text.replace("\r", "\n").split("\n")
    kernels = {made.name: made for statement in tree.body if (made := _generated(statement, lines)) is not None}
    calls = [call for function in _running(tree) for call in _calls(function, kernels, lines)]
    running = list(_running(tree))
    memory = _memory(running[0], kernels, sizes) if len(running) == 1 else None
    return OutputCode(kernels, tuple(calls), memory)


def _generated(statement: ast.stmt, lines: Sequence[str]) -> Generated | None:
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name) or not isinstance(statement.value, ast.Call):
        return None
    compile = statement.value.func
    if not (isinstance(compile, ast.Attribute) and isinstance(compile.value, ast.Name) and compile.value.id == "async_compile"):
        return None
    given = (*statement.value.args, *(each.value for each in statement.value.keywords))
    texts = [each.value for each in given if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    if not texts:
        return None
    name, source = statement.targets[0].id, max(texts, key=len)
    above = takewhile(lambda line: not line.strip() or line.lstrip().startswith("#"), reversed(lines[: statement.lineno - 1]))
    fragment = _fragment([line.strip() for line in above][::-1])
    return Generated(name, _LANGUAGES.get(compile.attr, compile.attr), source.strip("\n") + "\n", fragment)


_NODE: Final = re.compile(r"^#\s+%(\S+) : .*= (PlaceHolder\[target=|call_function\[|call_method\[|get_attr\[)")


def _fragment(comments: Sequence[str]) -> Fragment | None:
    start = next((at for at, text in enumerate(comments) if text.startswith("# Graph fragment:")), None)
    if start is None:
        return None
    reads, nodes, stores = dict[str, None](), dict[str, None](), dict[str, None]()
    for text in comments[start + 1 :]:
        if found := _NODE.match(text):
            (reads if found[2].startswith("PlaceHolder") else nodes)[found[1]] = None
        elif text.startswith("#   return "):
            stores.update(dict.fromkeys(name.strip().lstrip("%") for name in text.removeprefix("#   return ").split(",") if name.strip()))
    return Fragment(tuple(reads), tuple(nodes), tuple(stores))


def _running(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """Yields the functions that run the kernels, in the order in which the text has them: parts stand before what calls them."""
    for outer in tree.body:
        for statement in (outer, *(outer.body if isinstance(outer, ast.ClassDef) else ())):
            if isinstance(statement, ast.FunctionDef) and _RUN.match(statement.name):
                yield statement


def _calls(function: ast.FunctionDef, kernels: Mapping[str, Generated], lines: Sequence[str]) -> Iterator[Call]:
    seen = function.lineno
    for statement in _statements(function.body):
        expression = getattr(statement, "value", None)
        if not isinstance(expression, ast.Call):
            continue
        name = dotted(expression.func)
        generated = name.removesuffix(".run")
        if generated not in kernels and (not _computes(name)):
            continue
        handle = None
        for text in lines[seen : statement.lineno - 1]:
            if (found := _HANDLE.search(text)) and len(found[2]) < 10:
                handle = int(found[2])
        seen = statement.lineno
        yield Call(generated if generated in kernels else name, generated not in kernels, handle, statement.lineno)


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    todo = list(reversed(body))
    while todo:
        statement = todo.pop()
        yield statement
        if isinstance(statement, ast.With | ast.If | ast.For | ast.While):
            todo.extend(reversed([*statement.body, *getattr(statement, "orelse", ())]))


def _computes(name: str) -> bool:
    """Checks whether a call is one of a library: the rest of the code allocates memory, and checks and names it."""
    return name.startswith(("extern_kernels.", "torch.ops.", "aten.")) and not name.startswith("torch.ops.inductor._alloc")


# Memory
#
# `buf0 = empty_strided_cpu(size, stride, dtype)` allocates, `del buf0` gives the memory back, unless another name has it: `buf1 = buf0`
# and `reinterpret_tensor(buf0, …)` are the same memory, which is reused, or written in place. A library's call allocates its result.


_ALIASES: Final = frozenset({"reinterpret_tensor", "alloc_from_pool", "_alloc_from_pool", "as_strided"})


def _memory(function: ast.FunctionDef, kernels: Mapping[str, Generated], sizes: Mapping[str, int]) -> OwnMemory | None:
    statements = list(_statements(function.body))
    if any(isinstance(each, ast.If | ast.For | ast.While) for each in statements):
        return None
    calls, found, blocks = list[str](), list[Allocation](), 0
    held: dict[str, Allocation] = {}
    for statement in statements:
        value = getattr(statement, "value", None)
        called = value if isinstance(value, ast.Call) else None
        name = dotted(called.func).removesuffix(".run") if called is not None else ""
        if name in kernels or _computes(name):
            calls.append(name)
        for target in statement.targets if isinstance(statement, ast.Assign | ast.Delete) else ():
            if not isinstance(target, ast.Name):
                continue
            if isinstance(statement, ast.Delete):
                gone = held.pop(target.id, None)
                found += [replace(gone, last=len(calls) - 1)] if gone is not None else []
            elif value is not None and (made := _held(target.id, value, held, sizes, len(calls))) is not None:
                held[target.id] = made if made.block else replace(made, block=(blocks := blocks + 1))
    found += [replace(each, last=len(calls) - 1) for each in held.values()]
    return OwnMemory("the code that Inductor generated around its kernels", tuple(calls), tuple(sorted(found, key=lambda each: each.first)))


def _held(name: str, value: ast.expr, held: Mapping[str, Allocation], sizes: Mapping[str, int], at: int) -> Allocation | None:
    """Returns the memory that a name gets before call number `at`, or by the call before; None if it is none of the program's."""
    called = dotted(value.func) if isinstance(value, ast.Call) else ""
    source = value if isinstance(value, ast.Name) else value.args[0] if isinstance(value, ast.Call) and value.args else None
    if called.startswith("empty_strided"):
        return Allocation(name, _bytes_of(value), at, at)
    if isinstance(value, ast.Name) or called in _ALIASES:
        old = held.get(source.id) if isinstance(source, ast.Name) else None
        if old is not None and old.bytes is None and name in sizes:  # `buf1 = buf0`: the only result of a library call
            return replace(old, name=name, bytes=sizes[name])
        return replace(old, name=name, first=at, how=f"in the memory of {old.name}") if old is not None else None
    if name in sizes or _computes(called):
        return Allocation(name, sizes.get(name), max(at - 1, 0), at, "by the library")
    return None


def _bytes_of(value: ast.expr) -> int | None:
    """Returns the bytes of `empty_strided_cpu(size, stride, dtype)`; None where an extent is a symbol."""
    try:
        size, stride, kind = value.args  # type: ignore[attr-defined]
        extents, strides = ast.literal_eval(size), ast.literal_eval(stride)
        item = ITEM_SIZE[kind.attr]
        return item * (1 + sum((n - 1) * step for n, step in zip(extents, strides, strict=True))) if 0 not in extents else 0
    except (ValueError, TypeError, AttributeError, KeyError):
        return None


# Kernels


def kernels_of(read: FxText, code: OutputCode, mapping: Mapping[str, tuple[str, ...]]) -> tuple[list[Kernel], list[str]]:
    """Returns the kernels in the order in which they are called, with their nodes as far as the code and the provenance mapping say, and
    notes about what they do not say."""
    linking = _Linking(read, {name.rpartition(":")[2]: nodes for name, nodes in mapping.items() if ":" in name})
    linked = [linking.link(call, code.kernels.get(call.name)) for call in code.calls]
    linking.add_library_calls(code.calls, linked)
    linking.keep_in_one_kernel(code.calls, linked)
    linking.add_the_rest(code.calls, linked)
    return linked, linking.notes(linked)


class _Linking:
    """The search for the nodes of each call of one program."""

    def __init__(self, read: FxText, by_handle: Mapping[str, tuple[str, ...]]) -> None:
        self.graph = read.graph
        self.made = read.nodes
        self.by_handle = by_handle
        self.elsewhere: dict[Node, bool] = {}
        """Nodes that a list has and that are not in its kernel, and whether they are in another."""

    def named(self, names: Iterable[str]) -> list[Node]:
        """The nodes of FX names, in program order."""
        found = {node for name in names for node in self.made.get(name, ())}
        return sorted(found, key=self.graph.position.__getitem__)

    def link(self, call: Call, generated: Generated | None) -> Kernel:
        source, silent = None, "the log does not say what it computes"
        if generated is not None:
            source = SourceText(generated.text, generated.language, (NO_NODE,) * generated.text.count("\n"), generated.name)
        made = Kernel(call.name, (), call.is_library, source, certainty="guessed", because=silent)
        fragment = generated.fragment if generated is not None else None
        if fragment is not None and fragment.nodes:
            return self.by_fragment(made, fragment)
        nodes = self.named(self.by_handle.get(str(call.handle), ()))
        if call.is_library:  # the list also has what its operands were made of
            op = _op_of(call.name)
            nodes = [node for node in nodes if node.op == op][-1:] or nodes
        return replace(made, nodes=tuple(nodes), certainty="matched", because="the log lists what went into it") if nodes else made

    def by_fragment(self, made: Kernel, fragment: Fragment) -> Kernel:
        """What a kernel stores and reads is known where each has the name of a node; then its nodes lie between the two."""
        known = all(name in self.made for name in fragment.stores) and bool(fragment.stores)
        if not known:
            return replace(made, nodes=tuple(self.named(fragment.nodes)), certainty="matched", because="the log lists what went into it")
        allowed, read = set(self.named(fragment.nodes)), set(self.named(fragment.reads))
        stores = self.named(fragment.stores)

        def before(node: Node) -> list[Node]:
            makers = (self.graph.producer.get(value) for value in node.inputs)
            return [maker for maker in makers if maker in allowed and maker not in read]

        found = reached([node for node in stores if node in allowed], before)
        nodes = tuple(sorted(found, key=self.graph.position.__getitem__))
        return replace(made, nodes=nodes, stores=frozenset(stores) & found.keys(), certainty="exact", because="") if found else made

    def add_library_calls(self, calls: Sequence[Call], linked: list[Kernel]) -> None:
        """Library calls of which nothing is said: by op, if the graph has as many nodes of it as there are calls."""
        each = enumerate(zip(calls, linked, strict=True))
        by_op = grouped((_op_of(call.name), index) for index, (call, link) in each if call.is_library and not link.nodes)
        taken = {node for link in linked for node in link.nodes}
        for op, indexes in by_op.items():
            nodes = [node for node in self.graph.nodes() if node.op == op and node not in taken]
            if len(nodes) == len(indexes):
                alone = len(nodes) == 1
                because = f"it is the only {op} left" if alone else f"the calls of {op} are taken in the order of the graph"
                for index, node in zip(indexes, nodes, strict=True):
                    linked[index] = replace(linked[index], nodes=(node,), certainty="matched" if alone else "guessed", because=because)

    def keep_in_one_kernel(self, calls: Sequence[Call], linked: list[Kernel]) -> None:
        """Keeps a node that several lists have in one kernel: the first that is called after what the node needs, and before what needs it.

        A list has what went into a kernel, and does not say whether the kernel computes a node again or reads it. Taken like this, what is
        in a kernel needs only kernels that were called before, so that there is an order in which they run. A kernel whose nodes all
        went elsewhere computes a part of them: another layout, the places of a `cat`.
        """
        lists: dict[Node, list[int]] = {}
        fixed: dict[Node, int] = {}
        for index, (call, link) in enumerate(zip(calls, linked, strict=True)):
            for node in link.nodes:
                if call.is_library or link.certainty == "exact":
                    fixed.setdefault(node, index)
                else:
                    lists.setdefault(node, []).append(index)
        nodes = list(self.graph.nodes())
        latest: dict[Node, int] = {}
        for node in reversed(nodes):
            needed = [latest[user] for user in self.users(node) if user in latest]
            latest[node] = fixed.get(node, min(needed, default=len(calls)))
        chosen, earliest = dict(fixed), dict[Node, int]()
        for node in nodes:
            makers = [self.graph.producer.get(value) for value in node.inputs]
            least = max((earliest[maker] for maker in makers if maker in earliest), default=-1)
            fitting = [index for index in lists.get(node, ()) if least <= index <= latest[node]]
            if node not in fixed and fitting:
                chosen[node] = fitting[0]
            earliest[node] = max(chosen.get(node, -1), least)
        for index, link in enumerate(linked):
            listed_here = [node for node in link.nodes if index in lists.get(node, ())]
            if listed_here:
                mine = self.completed([node for node in listed_here if chosen.get(node) == index], chosen)
                others = [node for node in listed_here if chosen.get(node) != index and category_of(node) != "view"]
                self.elsewhere.update((node, node in chosen) for node in others)
                linked[index] = replace(link, nodes=mine, part_of=() if mine else tuple(listed_here))

    def completed(self, nodes: Sequence[Node], chosen: Mapping[Node, int]) -> tuple[Node, ...]:
        """Leaves out views that others read, too, since they run nowhere, and adds what no list has and lies between a kernel's nodes."""
        kept = set(nodes)
        for node in reversed(nodes):
            if category_of(node) == "view" and not self.users(node) <= kept:
                kept.discard(node)
        if not kept:
            return ()
        places = self.graph.position
        span = [places[node] for node in kept]
        between = [node for node in self.graph.nodes() if min(span) < places[node] < max(span) and node not in kept]
        free = [node for node in between if node not in chosen or node in nodes]
        after = set(kept)
        for node in free:
            if any(self.graph.producer.get(value) in after for value in node.inputs):
                after.add(node)
        for node in reversed(free):
            if node in after and not kept.isdisjoint(self.users(node)):
                kept.add(node)
        return tuple(sorted(kept, key=places.__getitem__))

    def names(self, nodes: Iterable[Node]) -> str:
        return listed([f"%{self.graph.names[value]}" for node in nodes for value in node.outputs[:1]])

    def users(self, node: Node) -> set[Any]:
        return {use.user for value in node.outputs for use in self.graph.users.get(value, ())}

    def add_the_rest(self, calls: Sequence[Call], linked: list[Kernel]) -> None:
        """The only kernel of which nothing is said computes what no other does."""
        silent = [index for index, link in enumerate(linked) if not link.nodes and not link.part_of]
        if len(silent) != 1 or calls[silent[0]].is_library:
            return
        taken = {node for link in linked for node in link.nodes}
        rest = [node for name in self.made for node in self.made[name] if node not in taken and category_of(node) != "view"]
        if rest:
            rest.sort(key=self.graph.position.__getitem__)
            linked[silent[0]] = replace(
                linked[silent[0]], nodes=tuple(rest), part_of=(), certainty="matched", because="no other kernel computes these"
            )

    def notes(self, kernels: Sequence[Kernel]) -> list[str]:
        found = []
        silent = [kernel.name for kernel in kernels if not kernel.nodes and not kernel.part_of]
        if silent:
            how = "INDUCTOR_PROVENANCE=1 makes torch 2.7 and newer say so, on a CPU for forward graphs"
            found.append(f"the log does not say which nodes {listed(silent)} {'compute' if len(silent) > 1 else 'computes'}: {how}")
        names = {placed: self.names(node for node, held in self.elsewhere.items() if held is placed) for placed in (True, False)}
        if names[True]:
            found.append(f"the log lists {names[True]} in other kernels, too: it does not say whether those compute it again or read it")
        if names[False]:
            found.append(f"{names[False]} is shown in no kernel: those in which the log lists it run before what it needs")
        return found


def _op_of(call: str) -> str:
    """Returns the op that a library call is of: `extern_kernels.mm` and `torch.ops.aten.mm.default` are `aten::mm`."""
    space, _, rest = call.removeprefix("torch.ops.").removeprefix("extern_kernels.").partition(".")
    return f"{space}::{rest.partition('.')[0]}" if rest else f"aten::{space}"


def with_times(kernels: Sequence[Kernel], times: Mapping[str, list[float]]) -> tuple[list[Kernel], list[str]]:
    """The kernels with their milliseconds, and a sentence for each function that holds several: these have one time."""
    called_by = (_op_of(kernel.name) if kernel.is_library else kernel.function for kernel in kernels)
    made, together = list(kernels), []
    for called, mine in grouped((called, place) for place, called in enumerate(called_by)).items():
        taken = times.get(called, [])
        if len(taken) == len(mine):
            for place, ms in zip(mine, taken, strict=True):
                made[place] = replace(kernels[place], ms=ms)
        elif taken and len(mine) % len(taken) == 0 and not kernels[mine[0]].is_library:
            each = ", ".join(f"{ms:.3g}" for ms in taken)
            together.append(f"{called} holds {len(mine) // len(taken)} kernels, which take {each} ms together")
    return made, together


# Lines of kernels, and the ops that they were written for.


def bare_line(line: str) -> str:
    """Returns a line without indentation, and without what Triton's caches are told, which is written last."""
    return re.sub(r", eviction_policy='[^']*'", "", line).strip()


def ops_of_lines(
    text: str, written: Mapping[str, Set[tuple[str, tuple[Any, ...]]]], together: Set[str], last: Callable[[str, Any], Any]
) -> list[Any]:  # fmt: skip
    """Returns the op that each line was written for; None where this is not certain, and for a line that is of no op.

    `written` has the buffers, and what went into the op, of each line as `bare_line` has it; `last` gives the op of a buffer. `together`
    are the buffers of the text. Several loops of a function may have a line with the same text. Of these, a line between two braces is
    written for what the other lines there are written for, among which each result of the loop has one that stores it.
    """
    found: list[Any] = []
    for _, lines in groupby(text.splitlines(), lambda line: re.search(r"\w", line) is not None):
        said = [written.get(bare_line(line), ()) if re.search("tmp|ptr", line) else () for line in lines]  # not an index
        rows = [{(buffer, last(buffer, origins)) for buffer, origins in row if buffer in together} for row in said]
        here = {buffer for row in rows if len({buffer for buffer, _ in row}) == 1 for buffer, _ in row}
        for row in rows:
            ops = {op for _, op in row}
            ops = ops if len(ops) == 1 else {op for buffer, op in row if buffer in here}
            found.append(next(iter(ops)) if len(ops) == 1 else None)
    return found
