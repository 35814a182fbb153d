"""Modules: finding the entry graph, verifying, inlining calls, and what a user passes as what a graph takes.

A call by name (`func::call[callee="@f"]`, quoted as in MLIR where the name is not a plain word: `@"<lambda>"`) refers to a
graph of the same module. `inlined` replaces calls by their callees, for passes and runtimes that do not support calls.
"""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, Final

from irscope._base.nested import Call, leaves, leaves_by_path, run
from irscope._base.words import plural
from irscope.errors import ArgumentError, VerifyError
from irscope.ir.core import Block, Graph, Module, Node, Value, make_block, make_node, make_value, new_id
from irscope.ir.invariants import verify

MAX_INLINED: Final = 1_000_000
"""Nodes; a program that would become larger is refused, because nested calls can double it at every step."""

_CALLS: Final = ("func::call", "util::call")
_WORD: Final = re.compile(r"[A-Za-z_][\w$.-]*", re.ASCII)
_QUOTED: Final = re.compile(rb'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_ESCAPED: Final = re.compile(rb"\\([0-9A-Fa-f]{2}|.)", re.DOTALL)


def symbol_name(reference: str) -> str:
    """Returns the name in a reference to a symbol, which MLIR quotes where it is not a plain word.

    >>> symbol_name("@f"), symbol_name('@"<lambda>"'), symbol_name(r'@"a \\22b\\22"')
    ('f', '<lambda>', 'a "b"')
    """
    text = reference.removeprefix("@")
    quoted = _QUOTED.fullmatch(text.encode("utf-8", "surrogatepass"))
    if quoted is None:
        return text
    return _ESCAPED.sub(lambda found: _unescaped(found[1]), quoted[1]).decode("utf-8", "replace")


def _unescaped(letters: bytes) -> bytes:
    return bytes.fromhex(letters.decode()) if len(letters) == 2 else {b"n": b"\n", b"t": b"\t"}.get(letters, letters)


def reference_to(name: str) -> str:
    """Returns the reference to a symbol, as `symbol_name` reads it.

    >>> reference_to("f"), reference_to("<lambda>"), symbol_name(reference_to('ö "x" \\\\'))
    ('@f', '@"<lambda>"', 'ö "x" \\\\')
    """
    if _WORD.fullmatch(name):
        return f"@{name}"
    return '@"' + re.sub(r'["\\\x00-\x1f]', lambda found: f"\\{ord(found[0]):02X}", name) + '"'


def entry(module: Module) -> str:
    """The name of the only public graph. Raises ArgumentError if there are several or none."""
    public = public_graphs(module)
    if len(public) != 1:
        names = ", ".join((public or [path for path, _ in graphs_of(module)])[:8])
        what = f"module {module.name!r} has {len(public) or 'no'} public graph{'s' * (len(public) != 1)}"
        hint = f"choose one of {names}: irs.load(source, graph=NAME), or --graph NAME in a terminal" if names else "it has no graphs at all"
        raise ArgumentError(what, hint=hint)
    return public[0]


def public_graphs(module: Module) -> list[str]:
    """The names of the graphs at the top of a module that others may call."""
    private = {symbol.name for symbol in module.symbols if symbol.visibility != "public" and symbol.body is None}
    return [name for name in module.graphs if name not in private]


def graphs_of(module: Module) -> Iterator[tuple[str, Graph]]:
    """All graphs of a module and of its nested modules, by their paths: `ex_0::F`."""
    todo = [("", module)]
    while todo:
        path, here = todo.pop()
        yield from ((f"{path}{name}", graph) for name, graph in here.graphs.items())
        todo.extend((f"{path}{name}::", inner) for name, inner in reversed(list(here.modules.items())))


def verify_module(module: Module) -> None:
    """Raises VerifyError at the first broken invariant: each graph's own, and that a call fits the graph that it names
    (`call-fits`)."""
    todo = [module]
    while todo:
        here = todo.pop()
        bodies = [symbol.body for symbol in here.symbols if symbol.body is not None]
        for graph in [*here.graphs.values(), *bodies]:
            verify(graph)
            for node in graph.nodes():
                callee = _callee(node, here.graphs)
                if callee is not None and (len(callee.inputs), len(callee.outputs)) != (len(node.inputs), len(node.outputs)):
                    what = f"{node!r} in {graph.name!r} passes {len(node.inputs)} operands for {len(node.outputs)} results"
                    raise VerifyError(what, rule="call-fits", hint=f"the callee is {callee!r}")
        todo.extend(here.modules.values())


def inlined(module: Module, name: str = "", *, absolute: bool = False) -> Graph:
    """One graph of a module, named as in `graphs_of`, with its calls replaced by the callees' bodies. With `absolute` the scopes of
    their nodes are whole paths already; otherwise they are in that of the call.

    Calls of graphs that the module does not have stay. Raises ArgumentError for unknown names, recursive programs, and
    programs that would become larger than `MAX_INLINED` nodes.
    """
    module, name = _found(module, name or entry(module))
    graph = module.graphs[name]
    size = run(_size(graph, module.graphs, {}, []))
    if size > MAX_INLINED:
        raise ArgumentError(f"inlined, the program has {size} nodes, and the limit is {MAX_INLINED}", hint="load it as a Module")
    inliner = _Inliner(module.graphs, absolute=absolute)
    body = run(inliner.block(graph.body, {}, "", fresh=False))
    languages = [graph.functional, *inliner.languages]
    return replace(graph, body=body, functional=max(languages) if all(languages) else "")


def _found(module: Module, path: str) -> tuple[Module, str]:
    """The module that holds a graph, which may be nested, and the graph's name there. Raises ArgumentError."""
    here, name = module, path
    while name not in here.graphs:
        head = next((inner for inner in here.modules if name.startswith(f"{inner}::")), None)
        if head is None:
            paths = [each for each, _ in graphs_of(module)]
            near = get_close_matches(path, paths, n=3) or paths[:8]
            raise ArgumentError(f"module {module.name!r} has no graph {path!r}", hint=f"it has {', '.join(near) or 'none'}")
        here, name = here.modules[head], name[len(head) + 2 :]
    return here, name


def _size(graph: Graph, graphs: Mapping[str, Graph], known: dict[str, int], opened: list[str]) -> Call:
    """The number of nodes of a graph with all calls inlined. Raises ArgumentError for a recursive graph."""
    total = 0
    for node in graph.nodes():
        callee = _callee(node, graphs)
        if callee is None:
            total += 1
            continue
        name = _callee_name(node)
        if name in opened:
            circle = " → ".join([*opened[opened.index(name) :], name])
            raise ArgumentError(f"{name!r} calls itself ({circle}), so it cannot be inlined", hint="load it as a Module")
        if name not in known:
            opened.append(name)
            known[name] = yield _size(callee, graphs, known, opened)
            opened.pop()
        total += known[name]
    return total


def renamed_body(body: Block, renamed: Mapping[Value, Value]) -> Block:
    """A body with some of its values replaced, such as inputs under other names."""
    made: Block = run(_Inliner({}).block(body, dict(renamed), "", fresh=False))
    return made


class _Inliner:
    """Copies bodies, with each call replaced by its callee's nodes."""

    def __init__(self, graphs: Mapping[str, Graph], *, absolute: bool = False) -> None:
        self.graphs, self.absolute = graphs, absolute
        self.languages: list[str] = []
        """The languages of the inlined callees; if one of them has memory, the program is not functional."""

    def nodes(self, block: Block, env: dict[Value, Value], scope: str, *, fresh: bool) -> Call:
        """The nodes of a block with calls inlined; `env` maps values of the source to those of the copy."""
        made: list[Node] = []
        for node in block.nodes:
            callee = _callee(node, self.graphs)
            if callee is not None:
                made.extend((yield self.opened(node, callee, env, scope)))
                continue
            blocks = []
            for inner in node.blocks:
                blocks += [(yield self.block(inner, env, scope, fresh=fresh))]
            made.append(_copied(node, env, tuple(blocks), scope, fresh=fresh))
        return tuple(made)

    def block(self, block: Block, env: dict[Value, Value], scope: str, *, fresh: bool) -> Call:
        if fresh:
            env.update((value, make_value(new_id(), value.type, value.name)) for value in block.params)
        params = tuple([env.get(value, value) for value in block.params])
        nodes = yield self.nodes(block, env, scope, fresh=fresh)
        returns = tuple(env.get(value, value) for value in block.returns)
        return make_block(new_id() if fresh else block.id, params, nodes, returns)

    def opened(self, node: Node, callee: Graph, env: dict[Value, Value], scope: str) -> Call:
        """The callee's nodes; maps the call's results to the values that the callee returns."""
        name = _callee_name(node)
        self.languages.append(callee.functional)
        operands = [env.get(value, value) for value in node.inputs]
        own = dict(zip(callee.inputs, operands, strict=True))
        title = scope_of_call(name, node.outputs[0].name if node.outputs else "")
        path = "" if self.absolute else ".".join(part for part in (scope, node.scope, title) if part)
        nodes = yield self.nodes(callee.body, own, path, fresh=True)
        returned = [own.get(value, value) for value in callee.outputs]
        env.update(zip(node.outputs, returned, strict=True))
        return nodes


def scope_of_call(callee: str, label: str) -> str:
    """The name of a function as a scope: JAX numbers functions of one name, and its calls have the name without.

    >>> scope_of_call("layer_3", "layer"), scope_of_call("layer_3", "x")
    ('layer', 'layer_3')
    """
    return label if label and re.fullmatch(rf"{re.escape(label)}_\d+", callee) else callee


def _callee_name(node: Node) -> str:
    return symbol_name(str(node.attrs.get("callee", "")))


def _callee(node: Node, graphs: Mapping[str, Graph]) -> Graph | None:
    return graphs.get(_callee_name(node)) if node.op in _CALLS else None


def _copied(node: Node, env: dict[Value, Value], blocks: tuple[Block, ...], scope: str, *, fresh: bool) -> Node:
    inputs = tuple([env.get(value, value) for value in node.inputs])
    if not fresh:
        same = inputs == node.inputs and all(
            a.nodes == b.nodes and a.returns == b.returns for a, b in zip(blocks, node.blocks, strict=True)
        )
        return node if same else make_node(node.id, node.op, inputs, node.outputs, node.attrs, blocks, node.location, node.scope)
    outputs = tuple([make_value(new_id(), value.type, value.name) for value in node.outputs])
    env.update(zip(node.outputs, outputs, strict=True))
    path = ".".join(part for part in (scope, node.scope) if part)
    return make_node(new_id(), node.op, inputs, outputs, node.attrs, blocks, node.location, path)


# Converts what a user passes to what a graph takes: a program to its graph, and nested arguments to one per input.

_MOST_SHOWN: Final = 12


def graph_of(program: Any, verb: str) -> Graph:
    """The graph of a program: a Graph itself, that of a Fusion, or a Module's one public graph with the calls inlined.
    `verb` names the caller in the error.

    Raises ArgumentError for anything else.
    """
    if isinstance(program, Module):
        return inlined(program)
    decided = getattr(program, "fusion", None)  # by another compiler: the program with its groups
    if decided is not None and isinstance(getattr(decided, "graph", None), Graph):  # a model may have a layer of this name
        program = decided
    graph = program if isinstance(program, Graph) else getattr(program, "graph", None)
    if not isinstance(graph, Graph):
        what = f"{verb} works on a Graph, a Module or the result of fuse, not on {type(program).__name__}"
        hint = "irs.load(program, *example_arguments) makes a Graph of a model or a file"
        if callable(program):
            name = getattr(program, "__name__", "model")
            takes = verb in ("profile", "compare", "compile")
            hint = f"give its arguments too: irs.{verb}({name}, x)" if takes else f"irs.load({name}, x), with its arguments, makes a Graph"
        raise ArgumentError(what, hint=hint)
    return graph


def flatten_arguments(arguments: Sequence[Any], graph: Graph) -> tuple[Any, ...]:
    """The arguments, one per free input, taken out of lists, tuples and dictionaries.

    If a graph knows the paths to its inputs (`Graph.argument_paths`), each is found by its path, so that the order of a
    dictionary's keys does not matter. Otherwise the leaves are taken in order; if their number does not fit either, the
    arguments are returned as they are.

    Raises ArgumentError for arguments that are nested differently from those the program was loaded with, and
    for dictionaries if no keys are known.
    """
    if any(isinstance(argument, list | tuple | dict) for argument in arguments):  # rarely: else each call would inspect the graph's inputs
        arguments = _flattened(arguments, graph)
    return tuple(  # of a typed key of JAX's (`jax.random.key`), its unsigned integers
        [sys.modules["jax"].random.key_data(argument) if type(argument).__name__ == "PRNGKeyArray" else argument for argument in arguments]
    )


def _flattened(arguments: Sequence[Any], graph: Graph) -> tuple[Any, ...]:
    wanted = len(graph.free_inputs)
    paths = graph.argument_paths
    if len(paths) == wanted:
        return _by_path(arguments, paths)
    if len(arguments) == wanted:
        return tuple(arguments)
    parts = tuple(leaves(arguments))
    if len(parts) != wanted:
        return tuple(arguments)
    if any(isinstance(argument, dict) for argument in arguments):
        raise ArgumentError(
            f"{graph.name} does not know the keys of its arguments", where=_shown_inputs(graph),
            hint="pass the values of the dictionary, one argument per input, in this order",
        )  # fmt: skip
    return parts


def check_count(graph: Graph, arguments: Sequence[Any], what: str = "argument") -> None:
    """Raises ArgumentError unless there is one argument for each free input."""
    wanted = len(graph.free_inputs)
    if len(arguments) != wanted:
        raise ArgumentError(
            f"{graph.name} takes {plural(wanted, what)} and got {len(arguments)}", where=_shown_inputs(graph),
            hint="pass one argument per input that is not a parameter, in order",
        )  # fmt: skip


def _shown_inputs(graph: Graph) -> str:
    """The first inputs that a caller passes, with their types, as text."""
    free = graph.free_inputs
    names = ", ".join(f"%{graph.names[value]} : {value.type}" for value in free[:_MOST_SHOWN]) or "none"
    return f"inputs: {names}" + (f", and {len(free) - _MOST_SHOWN} more" if len(free) > _MOST_SHOWN else "")


def nested_paths(arguments: Sequence[Any], wanted: int) -> tuple[tuple[Any, ...], ...]:
    """The paths to the leaves of nested example arguments, for `Graph.argument_paths`; empty if no argument is nested or
    the number of leaves is not that of the inputs.

    >>> nested_paths([1, {"w": 2, "b": 3}], 3), nested_paths([1, 2], 2), nested_paths([[1]], 4)
    (((0,), (1, 'w'), (1, 'b')), (), ())
    """
    paths = tuple(path for path, _ in leaves_by_path(arguments))
    return paths if len(paths) == wanted and any(len(path) > 1 for path in paths) else ()


def _by_path(arguments: Sequence[Any], paths: tuple[tuple[Any, ...], ...]) -> tuple[Any, ...]:
    given = dict(leaves_by_path(arguments))
    known = frozenset(paths)
    missing = [path for path in paths if path not in given]
    wrong = [path for path, leaf in given.items() if path not in known and leaf is not None]
    if missing or wrong:
        parts = [f"{_path_text(path)} is missing" for path in missing[:3]] + [f"{_path_text(path)} is new" for path in wrong[:3]]
        raise ArgumentError(
            "the arguments are nested differently from those the program was loaded with", where="; ".join(parts),
            hint="load it again with arguments like these",
        )  # fmt: skip
    return tuple(given[path] for path in paths)


def _path_text(path: tuple[Any, ...]) -> str:
    """`argument 1['w']`."""
    return f"argument {path[0]}" + "".join(f"[{key!r}]" for key in path[1:])
