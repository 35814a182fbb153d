"""From what was seen of one compilation of Inductor to a `Program`: which nodes each kernel computes, and how sure that is.

*What a kernel computes.* Inductor's `origins` say what went into a buffer, not what runs: those of a library call have what its operands
were made of. So a library call is its `origin_node`, the FX node whose value the buffer is, or for a `FallbackKernel` the origin that calls
its op. A generated kernel is the way back from what it stores, within the origins, down to values that it reads from memory. An op that is
met from several kernels is computed in each.

*Which value a buffer is.* `origin_node` where there is one: exact. Without it, the operand of a library call that reads the buffer, by
position, or the only reduction of its kind and size that went into it: matched. Else the last of the origins that has its size and type,
and that no other buffer is: guessed, and marked so. If none has, the buffer is a part of an op (a partial sum, an operand in another
layout), and reading it counts as reading what it was made from.
"""

import inspect
import operator
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, Final

from irscope._base.frozen import FrozenDict
from irscope._base.nested import reached
from irscope.analysis.memory_plan import OwnMemory
from irscope.codegen.kernel import NO_NODE, SourceText
from irscope.compilers.inductor.dynamo import Compile, Rewrites, forward_ops, users_ops
from irscope.compilers.inductor.output_code import ops_of_lines, read_output_code, with_times
from irscope.compilers.record import Certainty, Change, Kernel, Program, Region, likely
from irscope.frontends.torch.export_importer import call_target, import_traced
from irscope.frontends.torch.types import require_torch, tensor_type
from irscope.ir import INT, Graph, Node, Value, make_block, make_node, make_value, nested_paths, new_id, payload_type
from irscope.transforms.cleanup import remove_dead_nodes
from irscope.transforms.fusion import Reason

_PURPOSE: Final = "to read what Inductor decided"


@dataclass
class SeenNode:
    """One node of the scheduler after fusion, with what is asked of it before the scheduler goes away."""

    name: str
    is_library: bool
    parts: list[tuple[str, list[str], Any]]
    """For each buffer computation in it: its name, the buffers that it stores, and Inductor's IR of it."""
    reads: set[str]
    """The buffers that it reads."""
    bytes: int | None
    """The bytes that its loops read of others' memory and write for others, each byte once; None where extents are symbols."""
    function: str = ""
    together: frozenset[str] = frozenset()
    """The computations that the function was defined for; another with an equal text is the same function."""


@dataclass
class SeenGraph:
    """What was seen of the compilation of one graph."""

    module: Any
    """The FX graph that was scheduled, after all rewrites."""
    rewrites: Any = None
    """What Inductor's `Rewrites` made of the calls before them."""
    pieces: dict[Any, list[Any]] = field(default_factory=dict)
    """For each op on lists that is computed one by one, the ops on tensors that stand for it; for what takes a result, its op."""
    nodes: list[SeenNode] = field(default_factory=list)
    results: dict[str, Any] = field(default_factory=dict)
    """Buffers that only name a result of a library call, with their IR."""
    joins: list[Any] = field(default_factory=list)
    """Inductor's IR of each `cat` whose operands others write into its memory."""
    returned: dict[str, Any] = field(default_factory=dict)
    """The FX nodes of buffers that are results of the graph."""
    texts: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Language and text of each generated function."""
    lines: dict[str, set[tuple[str, tuple[Any, ...]]]] = field(default_factory=dict)
    """For lines of these texts, the buffers that they were written for, and the FX nodes that went into the op behind each."""
    pairs: dict[tuple[str, str], str] = field(default_factory=dict)
    """What was said of each pair that was tried; empty where nothing was."""
    removed: frozenset[str] = frozenset()
    """Buffers that are not stored after all."""
    output: str = ""
    """The code that Inductor generated around the kernels; empty if it was not seen."""
    written: list[int] = field(default_factory=list)
    """The positions of the arguments that it writes to."""
    inputs: list[Any] = field(default_factory=list)
    """The arguments of its first run, in the order of its placeholders."""
    leaves: list[Any] = field(default_factory=list)
    """The copies of the user's arguments that the program was called with."""
    shape: Any = None
    """How they are nested, as torch's pytree says it."""
    given_back: tuple[int | None, ...] | None = None
    """Which of its results each leaf of what the call returns is; None if they are the same, or not known."""
    is_seen_through: bool = True
    """Whether no leaf of what the call returns is an object that may hold further results."""
    names: Mapping[int, str] = field(default_factory=dict)
    """What the user calls the tensors that it is compiled for, by identity."""
    held: Mapping[int, str] = field(default_factory=dict)
    """The names of the tensors that the program holds, by identity."""
    is_whole: bool = True
    """Whether it is all that was compiled of the program, so that no other part makes what it reads."""
    is_backward: bool = False
    """Whether it is the second of the two programs of a training step."""
    nodes_of: Mapping[Any, tuple[Node, ...]] = field(default_factory=dict)
    """The nodes of the program that each FX node became, once it was read."""
    compile_id: str = ""
    """The compile of Dynamo's that it belongs to."""


def program_seen(
    seen: SeenGraph, forward: SeenGraph, original: Any, title: str, compiled: Compile | None, times: Mapping[str, list[float]]
) -> Program:  # fmt: skip
    """The program of one graph, whose inputs are the user's arguments and the bound parameters. The inputs of a backward program are what
    `forward` saved, and the gradients of its results.

    Raises CaptureError for an op that the IR cannot hold, and what Python raises where Inductor's objects are not what they were."""
    called, inputs = title.replace(" ", "_"), _Inputs(forward, original)
    graph, nodes_of = import_traced(seen.module, called if called.isidentifier() else "compiled", inputs.names)
    graph = remove_dead_nodes(graph).after  # an unused view would be one more reader of what a kernel keeps
    nodes_of = {fx: tuple(filter(graph.position.__contains__, nodes)) for fx, nodes in nodes_of.items()}
    nodes_of |= {fx: _nodes(pieces, nodes_of) for fx, pieces in seen.pieces.items()}
    graph = inputs.put_into(graph) if seen is forward else replace(graph, distinct_inputs=True)
    links, seen.nodes_of = _Links(seen), nodes_of
    bodies = {node.name: links.body_of(node) for node in seen.nodes}
    kernels = [_kernel(node, seen, links, bodies[node.name], nodes_of) for node in seen.nodes]
    kernels, together = with_times(kernels, times)
    made = likely(
        graph, kernels, compiler="inductor", name=title, reasons=tuple(_reasons(seen, links, kernels, nodes_of)), silence="never tried it",
        notes=(*together, *_training_notes(seen, forward, inputs)),
        changes=tuple(_changes(seen, nodes_of, {each for body in bodies.values() for each in body}, inputs.names, links.joined)),
        guards=compiled.guards if compiled is not None else (),
        recompiled_because="; ".join(compiled.recompiled_because) if compiled is not None else "",
        called=FrozenDict(users_ops(nodes_of)), buffers=FrozenDict(_buffers(links, nodes_of)),
        gradient_of=FrozenDict(forward_ops(nodes_of, forward.nodes_of) if seen.is_backward else ()),
    )  # fmt: skip
    kernels = [_with_lines(kernel, node, seen, links, nodes_of) for kernel, node in zip(made.kernels, seen.nodes, strict=True)]
    made = replace(made, kernels=tuple(kernels))
    return replace(made, regions=tuple(_regions(seen, links, made.kernels)), memory=_memory(seen, links, nodes_of))


class _Inputs:
    """Whose tensor each placeholder is: an argument of the user's, by its place, or one that the program holds.

    Each is found by identity in the first run. Where one is not found, the inputs stay as Inductor has them.
    """

    def __init__(self, seen: SeenGraph, original: Any) -> None:
        torch = require_torch(_PURPOSE)
        self.seen = seen
        self.names: dict[str, str] = {}
        """The name of each placeholder's input."""
        self.given: dict[int, int] = {}
        """For the place of an argument of the user's, the place of the placeholder."""
        self.held: dict[int, Any] = {}
        """The tensors that the program holds, by the places of their placeholders."""
        self.extents: dict[int, tuple[int, int]] = {}
        """For the place of a placeholder that is an extent: the place of a tensor that has it, and its dimension."""
        nodes = [node for node in seen.module.graph.nodes if node.op == "placeholder"]
        placeholders = [node.name for node in nodes]
        may_be_extents = not any(type(leaf) in (int, float) for leaf in seen.leaves)  # a number may have the symbol of an equal extent
        extent_of = {
            str(size): (place, dim)
            for place, node in enumerate(nodes)
            for dim, size in enumerate(getattr(node.meta.get("val"), "shape", ()))
            if str(size).isidentifier()
        }
        path_of = seen.held
        place_of = {id(leaf): place for place, leaf in enumerate(seen.leaves) if isinstance(leaf, torch.Tensor)}
        self.called = _names_of_leaves(original, seen)
        for place, (name, tensor) in enumerate(zip(placeholders, seen.inputs, strict=False)):
            if id(tensor) in place_of:
                self.given[place_of[id(tensor)]] = place
                self.names[name] = self.called[place_of[id(tensor)]]
            elif isinstance(tensor, torch.Tensor) and (seen.is_whole or id(tensor) in path_of):
                self.held[place] = tensor.detach()
                self.names[name] = path_of.get(id(tensor)) or seen.names.get(id(tensor), name)
            elif may_be_extents and str(nodes[place].meta.get("val")) in extent_of:
                symbol = str(nodes[place].meta["val"])
                self.extents[place], self.names[name] = extent_of[symbol], symbol  # as the types of tensors have it
            elif id(tensor) in seen.names:  # what another part of the program makes
                self.names[name] = seen.names[id(tensor)]
        self.are_known = len(self.given) + len(self.held) + len(self.extents) == len(placeholders)

    def put_into(self, graph: Graph) -> Graph:
        """The graph with the user's arguments as inputs, in their order, and the tensors that the program holds bound.

        What is written overlaps no other input, since AOTAutograd replaces arguments that do.
        """
        if not self.are_known:
            return replace(graph, distinct_inputs=True)
        torch = require_torch(_PURPOSE)
        params = []
        for place, (name, leaf) in enumerate(zip(self.called, self.seen.leaves, strict=True)):
            type = tensor_type(leaf) if isinstance(leaf, torch.Tensor) else payload_type(leaf)
            params.append(graph.inputs[self.given[place]] if place in self.given else make_value(new_id(), type, name))
        bound = {graph.inputs[place]: tensor for place, tensor in self.held.items()}
        inputs = graph.inputs
        sizes = [node for place, (tensor, dim) in self.extents.items() for node in _size(inputs[place], inputs[tensor], dim)]
        body = make_block(graph.body.id, (*params, *bound), (*sizes, *graph.body.nodes), graph.outputs)
        numbers = torch.utils._pytree.tree_unflatten(list(range(len(params))), self.seen.shape)
        writes = bool(self.seen.written)
        return replace(graph, body=body, bound=bound, distinct_inputs=writes, argument_paths=nested_paths(numbers, len(params)))


def _size(extent: Value, tensor: Value, dim: int) -> tuple[Node, Node]:
    """The nodes that make the extent of a tensor, which is an argument of Inductor's program of its own."""
    which = make_value(new_id(), INT, "")
    constant = make_node(new_id(), "prim::Constant", (), (which,), FrozenDict(value=dim), (), None, "")
    return constant, make_node(new_id(), "aten::size", (tensor, which), (extent,), FrozenDict(), (), None, "")


def _names_of_leaves(original: Any, seen: SeenGraph) -> list[str]:
    """A name for each tensor and number in the user's arguments: that of the parameter, with a number where it holds several."""
    torch = require_torch(_PURPOSE)
    try:
        known = list(inspect.signature(getattr(original, "forward", original)).parameters)
    except (TypeError, ValueError):
        known = []
    names = []
    for place, argument in enumerate(torch.utils._pytree.tree_unflatten(list(range(len(seen.leaves))), seen.shape)):
        inside = torch.utils._pytree.tree_leaves(argument)
        name = known[place] if place < len(known) else f"arg{place}"
        names += [name] if inside == [argument] else [f"{name}_{index}" for index in range(len(inside))]
    return names


# Which FX node a buffer is, and which FX nodes a kernel computes.


class _Links:
    """The links of one graph between buffers and FX nodes."""

    def __init__(self, seen: SeenGraph) -> None:
        self.seen = seen
        self.order = {node: place for place, node in enumerate(seen.module.graph.nodes)}
        self.pieces = seen.pieces
        self.stored: dict[str, tuple[Any, Certainty]] = {}
        """The FX node whose value a buffer is, and how sure that is."""
        self.op_of: dict[str, list[Any]] = {}
        """The FX nodes that a name of the scheduler stands for: of a buffer, of one computation, of one that was fused."""
        self.copied: dict[str, Any] = {}
        """The `cat` into whose memory a buffer is a copy, or a part, of an operand that has memory of its own, or is a view; or the
        call of a library whose result it is, in another layout."""
        self.joined: set[Any] = set()
        """The `cat`s that no kernel computes."""
        self.traced: dict[str, set[Any]] = {}
        """For each buffer, the FX nodes whose closures ran while its body was traced: torch 2.6 names few of them in its origins."""
        for buffer, origins in set[tuple[str, tuple[Any, ...]]]().union(*seen.lines.values()):
            self.traced.setdefault(buffer, set()).update(self._calls(origins))
        self.created = {each for each in self.order if each.op == "call_function" and not each.all_input_nodes}
        self.exact: dict[str, Any] = {}
        """The FX node whose value Inductor says a buffer is."""
        self._link()

    def _link(self) -> None:
        exact, called = self.exact, dict[str, Any]()
        for node in self.seen.nodes:
            for name, buffers, ir in node.parts:
                made, mine = self._exact(ir) or self._returned(buffers, ir), self._origins(ir)
                targets = ir.get_mutation_names() if hasattr(ir, "get_mutation_names") else ()
                for target in targets:
                    if target in exact and exact[target] in ir.origins and made in (None, exact[target]):
                        made = exact.pop(target)  # a scatter's: Inductor names it on the copy that the scatter is written into
                held = ir.inputs[0] if type(ir).__name__ == "InplaceCopyFallback" else ir  # which has no size of its own
                if made is None and targets and mine and _fits(held, mine[-1]):
                    made = mine[-1]  # of several scatters into one copy, that has the name of the last
                self.op_of[name] = [made] if made is not None else mine
                is_copy = made is not None and not node.is_library and made in [called.get(read) for read in ir.get_read_names()]
                for buffer in buffers:
                    self.op_of[buffer] = self.op_of[name]
                    if made is not None:
                        (self.copied if is_copy else exact)[buffer] = made
                        called |= {buffer: made} if node.is_library else {}
        for buffer, ir in self.seen.results.items():
            made = self._exact(ir)
            if made is not None:
                exact[buffer] = made
        self._join(exact)
        self.stored = {buffer: (made, "exact") for buffer, made in exact.items()}
        taken = {*exact.values()}
        operands = self._operands()
        for node in self.seen.nodes:
            for _, buffers, ir in node.parts:
                for buffer in buffers:
                    if buffer not in {*exact, *self.copied, *self.seen.removed} and not node.is_library:
                        self._guess(buffer, ir, operands.get(buffer), taken)

    def _join(self, exact: dict[str, Any]) -> None:
        """Finds the operands of each `cat` that are copied into its memory: what is not made there. One that has no other memory is what
        its copy stores."""
        for ir in self.seen.joins:
            made = self._exact(ir)
            if made is None:
                continue
            parts, operands = ir.inputs, made.args[0] if isinstance(made.args[0], list | tuple) else ()
            operands = operands if len(operands) == len(parts) else [None] * len(parts)  # those without elements are left out
            before = {*exact.values()}
            for part, operand in zip(parts, operands, strict=True):
                while operand is not None and _is_view(operand):
                    operand = operand.args[0]
                if part.get_name() not in exact and self._exact(part) is None:  # else a scatter is written into it
                    self.copied[part.get_name()] = made
                    if operand in {*part.origins, *self.traced.get(part.get_name(), ())} and operand not in before:
                        exact[part.get_name()] = operand
            exact[ir.get_name()] = made
            self.joined.add(made)

    def _exact(self, ir: Any) -> Any:
        """The FX node whose value Inductor says a buffer is; None if it does not say."""
        found: Any = None
        if type(ir).__name__ in ("FallbackKernel", "EffectfulKernel"):
            found = self._called(ir)
        elif type(getattr(ir, "layout", None)).__name__.startswith("MutationLayout"):
            found = next((node for node in ir.origins if getattr(getattr(node.target, "_schema", None), "is_mutable", False)), None)
        if found is None:
            found = getattr(ir, "origin_node", None)
        if found is None and hasattr(ir, "get_origin_node"):
            found = ir.get_origin_node()
        if found is None and getattr(ir, "op_overload", None) is not None:  # its origin is a copy of it in another layout
            found = self._called(ir)
        if found in self.pieces:
            found = self._piece(ir, self.pieces[found])
        if "force_stride_order" in str(getattr(found, "target", "")) and found.args[0] in ir.origins:
            found = found.args[0]  # which has that order already
        return found if found in self.order and found.op == "call_function" else None

    def _called(self, ir: Any) -> Any:
        """The FX node whose op a library call computes; None if none of its origins does."""
        packet = getattr(ir.op_overload, "overloadpacket", ir.op_overload)  # `sort.stable` where the program has `sort.default`
        same = [each for each in ir.origins if packet in (call_target(each), getattr(call_target(each), "overloadpacket", None))]
        return max(same, key=lambda node: (call_target(node) is ir.op_overload, self.order.get(node, -1)), default=None)

    def _returned(self, buffers: Sequence[str], ir: Any) -> Any:
        """The FX node that a buffer is as a result of the graph, but for views of it; None if there is none."""
        found: Any = next((self.seen.returned[each] for each in buffers if each in self.seen.returned), None)
        made = _source(found) if found is not None and found.op == "call_function" else None
        if made not in ir.origins or type(ir).__name__ != "ComputedBuffer" or _is_view(made):
            return None
        return found if list(map(str, ir.get_size())) == list(map(str, found.meta["val"].shape)) else None

    def _piece(self, ir: Any, pieces: Sequence[Any]) -> Any:
        """Of the ops on tensors that stand for one on lists, the one that reads what a buffer is made from, or written into."""
        asked, inside = {*ir.get_read_names(), *ir.get_mutation_names()}, self._calls(ir.origins)
        held = {made: buffer for buffer, made in self.exact.items()}

        def reads(piece: Any) -> int:
            found = reached(piece.all_input_nodes, lambda each: each.all_input_nodes if each in inside and each not in held else ())
            return len({held.get(each, each.name) for each in found} & asked)

        return max([piece for piece in pieces if piece not in held and _fits(ir, piece)] or pieces, key=reads)

    def last(self, buffer: str, origins: Iterable[Any]) -> Any:
        """The last of some FX nodes: where these went into an op of a buffer, that which it was made for. None if none is of this graph."""
        known = [each for each in (*origins, *self._calls(origins)) if each in self.order]
        found: Any = max(known, key=self.order.__getitem__, default=None)
        pieces = next((self.pieces[each] for each in origins if found in self.pieces.get(each, ())), ())
        return next(iter(self._made_of(buffer).keys() & {*pieces}), None) if pieces else found

    def _made_of(self, buffer: str) -> Mapping[Any, None]:
        """What a buffer's value is made of, and it itself."""
        return reached([self.stored[buffer][0]] if buffer in self.stored else [], attrgetter("all_input_nodes"))

    def _origins(self, ir: Any) -> list[Any]:
        return sorted(self._calls(ir.origins), key=self.order.__getitem__)

    def _calls(self, origins: Iterable[Any]) -> set[Any]:
        """The calls among some FX nodes, with the ops on tensors for one on lists."""
        whole = {each for node in origins for each in self.pieces.get(node, (node,))}
        return {node for node in whole if node in self.order and node.op == "call_function"}

    def _operands(self) -> dict[str, Any]:
        """The FX argument that a library call reads each buffer as, where it has as many operands as the FX node."""
        torch = require_torch(_PURPOSE)
        found: dict[str, Any] = {}
        for node in self.seen.nodes:
            for _, _, ir in node.parts if node.is_library else ():
                made = self._exact(ir)
                leaves = torch.utils._pytree.tree_leaves((made.args, made.kwargs)) if made is not None else []
                arguments = [leaf for leaf in leaves if isinstance(leaf, torch.fx.Node)]
                buffers = [each.get_name() for each in getattr(ir, "inputs", ()) if hasattr(each, "get_name")]
                if len(buffers) == len(arguments):
                    found.update(zip(buffers, arguments, strict=True))
        return found

    def _guess(self, buffer: str, ir: Any, asked: Any, taken: set[Any]) -> None:
        mine = [node for node in self._origins(ir) if node not in taken]
        while asked is not None and asked not in mine and len(asked.all_input_nodes) == 1:
            asked = asked.all_input_nodes[0]  # through views of it
        if asked in mine and _fits(ir, asked):
            self.stored[buffer] = asked, "matched"
        else:
            kind = getattr(getattr(ir, "data", None), "reduction_type", None)
            found = [node for node in mine if _fits(ir, node) and (kind is None or _source(node).all_input_nodes)]  # no `full` is a sum
            if not found:
                return
            pieces = next((made for made in self.pieces.values() if found[-1] in made), [])
            kinds = _REDUCTIONS.get(str(kind), ())
            reduced = [node for node in found if node.target.__name__.partition(".")[0] in kinds]
            if pieces:
                self.stored[buffer] = self._piece(ir, [each for each in found if each in pieces]), "matched"
            else:
                self.stored[buffer] = (reduced[0], "matched") if len(reduced) == 1 else (found[-1], "guessed")
        taken.add(self.stored[buffer][0])

    def body_of(self, node: SeenNode) -> list[Any]:
        """The FX nodes that a kernel computes, in program order; empty if it computes only a part of a node."""
        mine = {buffer for _, buffers, _ in node.parts for buffer in buffers}
        kept = node.is_library or bool(self.unknown(node))  # a call without results, and what a part is made from in registers
        roots = [self.stored[buffer][0] for buffer in mine if buffer in self.stored and (kept or buffer not in self.seen.removed)]
        allowed = {each for _, _, ir in node.parts for each in self._origins(ir)} | {*roots}
        if node.is_library:
            return sorted(map(_source, roots), key=self.order.__getitem__)
        read = {_source(self.stored[buffer][0]) for buffer in self._memory(node, mine) if buffer in self.stored}
        for other in self.parts_read(node):  # what it reads nothing of, it cannot compute again
            read |= {*self.body_of(other)} if other.reads.isdisjoint(node.reads) else set()
        allowed.update(self.created - read, *(self.traced.get(buffer, ()) for buffer in mine))
        sums = [ir for ir in self.unknown(node) if hasattr(getattr(ir, "data", None), "reduction_type")]
        summed = [before for ir in sums for made in self._origins(ir)[-1:] for before in made.all_input_nodes]
        found, views, waiting = set[Any](), set[Any](), [*roots, *(each for each in summed if not _is_view(each))]
        while waiting:
            each = _source(waiting.pop())
            if each not in found and each not in views and (each in allowed or _is_view(each)):  # one that changes nothing is no origin
                (found if each in allowed else views).add(each)
                waiting += [before for before in each.all_input_nodes if _source(before) not in read]
        for each in sorted(views, key=self.order.__getitem__):
            found.update({each} if any(_source(before) in found for before in each.all_input_nodes) else ())
        return sorted(found, key=self.order.__getitem__)

    def unknown(self, node: SeenNode) -> list[Any]:
        """Inductor's IR of what a generated kernel makes for others to read, and what is the value of no FX node."""
        read = set[str]().union(*(other.reads for other in self.seen.nodes if other is not node)) - self.stored.keys()
        return [] if node.is_library else [ir for _, buffers, ir in node.parts if not read.isdisjoint(buffers)]

    def _memory(self, node: SeenNode, mine: set[str]) -> set[str]:
        """The buffers that a kernel reads; one that is a part of an op counts as what that part was made from."""
        makers = {buffer: other for other in self.seen.nodes for _, buffers, _ in other.parts for buffer in buffers}

        def before(buffer: str) -> set[str]:
            return makers[buffer].reads - mine if buffer not in self.stored and buffer in makers else set()

        return {*reached(node.reads - mine, before)}

    def parts_read(self, node: SeenNode) -> list[SeenNode]:
        """The kernels that make the parts of ops that a kernel reads: it finishes what they began."""
        unknown = {buffer for buffer in node.reads if buffer not in self.stored and buffer not in self.copied}
        return [other for other in self.seen.nodes if other is not node and any(unknown & {*buffers} for _, buffers, _ in other.parts)]

    def readers(self, node: SeenNode) -> list[Any]:
        """The FX nodes for which a kernel prepares operands: those that the kernels that read its buffers are made for."""
        mine = {buffer for _, buffers, _ in node.parts for buffer in buffers}
        return [each for other in self.seen.nodes if mine & other.reads for name, _, _ in other.parts for each in self.op_of[name][-1:]]

    def stores(self, node: SeenNode) -> Iterable[tuple[Any, Certainty]]:
        """The FX nodes whose values a kernel writes to memory."""
        for _, buffers, _ in node.parts:
            for buffer in buffers:
                if buffer in self.stored and buffer not in self.seen.removed:
                    made, certainty = self.stored[buffer]
                    yield _source(made), certainty


_REDUCTIONS: Final = {
    "sum": ("sum", "mean"), "welford_reduce": ("var",), "max": ("amax", "max"), "min": ("amin", "min"), "prod": ("prod",), "any": ("any",),
}  # fmt: skip
"""The ops that Inductor makes of each of its kinds of reductions."""


def _is_getitem(node: Any) -> bool:
    """Whether an FX node takes one result of a call."""
    return node.op == "call_function" and node.target is operator.getitem


def _source(node: Any) -> Any:
    """The call that makes a node's value: what a `getitem` takes one result of."""
    return node.args[0] if _is_getitem(node) else node


def _fits(ir: Any, node: Any) -> bool:
    """Whether a buffer can be the value of an FX node: a partial result has another size."""
    value = node.meta.get("val")
    try:
        return bool(int(ir.get_numel()) == value.numel() and ir.get_dtype() == value.dtype)
    except (AttributeError, NotImplementedError, TypeError, ValueError):  # several values or none, and extents that are symbols
        return False


# The records.


def _kernel(node: SeenNode, seen: SeenGraph, links: _Links, body: Sequence[Any], nodes_of: Mapping[Any, tuple[Node, ...]]) -> Kernel:
    stored = list(links.stores(node))
    least: Certainty = next((each for each in ("guessed", "matched") if any(sure == each for _, sure in stored)), "exact")
    because = {
        "guessed": "Inductor does not say which value it stores: the last of that size that no other kernel stores",
        "matched": "Inductor does not say which value it stores: a library call reads it at that place, or it is the only reduction of "
        "its kind that went into it (of a mean, the sum)",
    }.get(least, "")
    function = node.function
    name = function or getattr(node.parts[0][2], "python_kernel_name", None) or type(node.parts[0][2]).__name__
    language, text = seen.texts.get(function, ("", ""))
    source = SourceText(text, language, (NO_NODE,) * text.count("\n"), function) if text else None
    joined = [links.copied[buffer] for _, buffers, _ in node.parts for buffer in buffers if buffer in links.copied]
    unknown = links.unknown(node) if body else [ir for _, _, ir in node.parts] if not joined else []
    parts = [*(each for ir in unknown for each in links._origins(ir)[-1:] or links.readers(node)), *joined]
    made = _nodes(body, nodes_of)
    if unknown:
        least = "guessed" if least == "guessed" else "matched"
        because = "Inductor does not say which value it stores, and none has that size: it is a part of one"
    elif links.parts_read(node) and not node.is_library:
        least, because = ("matched" if least == "exact" else least), because or "it reads what another kernel made a part of: see regions"
    moved = None if node.is_library and body else node.bytes
    stores = frozenset(_nodes([each for each, _ in stored], nodes_of))
    kept = [buffer for _, buffers, _ in node.parts for buffer in buffers if buffer not in seen.removed]
    kept += [name for name, ir in seen.results.items() if any(each.get_name() in kept for each in ir.inputs)]
    return Kernel(name, made, node.is_library, source, function, _nodes(parts, nodes_of), stores, least, because, moved, writes=tuple(kept))


def _with_lines(kernel: Kernel, node: SeenNode, seen: SeenGraph, links: _Links, nodes_of: Mapping[Any, tuple[Node, ...]]) -> Kernel:
    """The kernel, whose lines of text know the nodes in its group that they were written for."""
    if kernel.source is None or kernel.group is None or not kernel.group.blocks:
        return kernel
    inside = kernel.group.blocks[0].nodes
    place = {value.name: index for index, each in enumerate(inside) for value in each.outputs if value.name}
    together = {buffer for other in seen.nodes if other.together == node.together for _, buffers, _ in other.parts for buffer in buffers}
    ops = ops_of_lines(kernel.source.text, seen.lines, together, links.last)
    made = [nodes_of[fx][-1] if fx is not None and nodes_of.get(fx) else None for fx in ops]
    found = tuple(place.get(each.outputs[0].name or "", NO_NODE) if each is not None and each.outputs else NO_NODE for each in made)
    return replace(kernel, source=replace(kernel.source, line_nodes=found))


def _buffers(links: _Links, nodes_of: Mapping[Any, tuple[Node, ...]]) -> Iterable[tuple[str, tuple[Node, ...]]]:
    """What each buffer and each computation of the scheduler holds, by its name: the op whose value it is, or that it is a part of."""
    held = {name: origins[-1] for name, origins in links.op_of.items() if origins}
    held.update((name, made) for name, (made, _) in links.stored.items())
    for name, made in held.items():
        if nodes := nodes_of.get(made) or nodes_of.get(_source(made)):
            yield name, nodes[-1:]


def _regions(seen: SeenGraph, links: _Links, kernels: Sequence[Kernel]) -> Iterable[Region]:
    """Kernels that compute an op together: one made a part of it that another reads, and the nodes are those of both."""
    for node, kernel in zip(seen.nodes, kernels, strict=True):
        before = [each for other, each in zip(seen.nodes, kernels, strict=True) if other in links.parts_read(node)]
        if before:
            together = (*before, kernel)
            yield Region(together, tuple(dict.fromkeys(node for each in together for node in (*each.nodes, *each.part_of))))


def _nodes(fx: Iterable[Any], nodes_of: Mapping[Any, tuple[Node, ...]]) -> tuple[Node, ...]:
    return tuple(dict.fromkeys(node for each in fx for node in nodes_of.get(each, ())))


def _reasons(seen: SeenGraph, links: _Links, kernels: Sequence[Kernel], nodes_of: Mapping[Any, tuple[Node, ...]]) -> Iterable[Reason]:
    """One reason for each pair that was tried: what was said, with ops in place of buffers."""
    for (one, other), said in seen.pairs.items():
        a, b = (frozenset(_nodes(_meant(name, links), nodes_of)) for name in (one, other))
        if not a or not b or a == b or any(a | b <= {*kernel.nodes} for kernel in kernels):
            continue
        words = re.sub(r"\b(?:buf|op)\d+\b", lambda found: _words(found[0], links), said)
        words = words.replace("node1", _words(one, links)).replace("node2", _words(other, links))
        yield Reason(a, b, words or "it tried the pair, and gave no reason", f"cannot fuse {one} with {other}: {said}" if said else "")


def _meant(name: str, links: _Links) -> list[Any]:
    """The FX nodes behind a name of the scheduler, which joins the names of what it fused."""
    return [each for part in re.findall(r"(?:op|buf)\d+", name) for each in links.op_of.get(part, ())]


def _words(name: str, links: _Links) -> str:
    """What a name of the scheduler means, in FX nodes: the last two of many."""
    found = list(dict.fromkeys(_meant(name, links)))
    return ("… " if len(found) > 2 else "") + ", ".join(f"%{node.name}" for node in found[-2:]) if found else name


def _is_view(node: Any) -> bool:
    arguments = getattr(getattr(node.target, "_schema", None), "arguments", ())
    return any(argument.alias_info is not None and not argument.alias_info.is_write for argument in arguments)


def _training_notes(seen: SeenGraph, forward: SeenGraph, inputs: _Inputs) -> Iterable[str]:
    """What a backward program computes, and what it has to compute again, since it was not saved."""
    if not seen.is_backward:
        return
    given = [node.name for node in forward.module.graph.nodes if node.op == "placeholder"]
    returned = next(node for node in seen.module.graph.nodes if node.op == "output").args[0]
    if names := [inputs.names.get(name, name) for name, made in zip(given, returned, strict=False) if made is not None]:
        yield f"the results are the gradients of {', '.join(names)}"
    again = [node for node in seen.module.graph.nodes if node.op == "call_function" and node.meta.get("partitioner_tag") == "is_forward"]
    if names := [f"%{node.name}" for node in again if not _is_view(node) and not _is_getitem(node)]:
        yield f"computed again here instead of being saved by the forward program: {', '.join(names)}"


def _memory(seen: SeenGraph, links: _Links, nodes_of: Mapping[Any, tuple[Node, ...]]) -> OwnMemory | None:
    """What the code around the kernels allocates; the sizes of what libraries allocate are those of Inductor's IR."""
    results = [(buffer, ir) for node in seen.nodes if node.is_library for _, buffers, ir in node.parts for buffer in buffers]
    sizes = {buffer: size for buffer, ir in (*results, *seen.results.items()) if (size := _held_bytes(ir)) is not None}
    found = read_output_code(seen.output, sizes).memory if seen.output else None
    if found is None:
        return None
    held = [(each, links.stored.get(each.name)) for each in found.allocations]
    return replace(found, allocations=tuple([replace(each, nodes=nodes_of.get(made[0], ()) if made else ()) for each, made in held]))


def _held_bytes(ir: Any) -> int | None:
    """The bytes of a buffer; None where its extents are symbols, or it is none."""
    try:
        return int(ir.get_layout().storage_size()) * int(ir.get_dtype().itemsize)
    except Exception:
        return None


# What was taken out before the scheduler saw it.


def _changes(
    seen: SeenGraph, nodes_of: Mapping[Any, tuple[Node, ...]], inside: Set[Any], called: Mapping[str, str], joined: Set[Any]
) -> Iterable[Change]:  # fmt: skip
    """What Inductor's rewrites took out of the graph that AOTAutograd gave it, the views that no kernel computes, and what was added."""
    found: Rewrites = seen.rewrites
    for op in found.before.values():
        if not found.is_kept(op) and "getitem" not in op.name:
            because = found.because(op, called)
            names = () if op.name in found.constant and op.name not in found.twins else found.into[op.name]
            became = _nodes([found.after[name] for name in names if name in found.after], nodes_of)
            yield Change("vanished", op.target, op.name, became, because, op.location, op.scope, "matched", called=op.called)
    whole = {piece: node for node, pieces in seen.pieces.items() for piece in pieces}
    for node in seen.module.graph.nodes:
        made = nodes_of.get(node, ())
        if node.op != "call_function" or not made:
            continue
        if whole.get(node, node).name not in found.before:
            yield Change("added", str(node.target), node.name, made, location=made[-1].location, scope=made[-1].scope)
        elif node not in inside and not _is_getitem(node):
            view = "a view: no kernel computes it, and those that read it index its memory"
            because = view if _is_view(node) else "no kernel computes it: what reads it knows it, or has it in another form"
            if node in joined:
                because = "the kernels of its operands write into its memory: none is left to compute it"
            yield Change("vanished", str(node.target), node.name, (), because, made[-1].location, made[-1].scope, at=made)
