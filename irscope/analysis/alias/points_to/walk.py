"""Walks a program, and before it all its callees, once, and adds each node to a points-to graph."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from irscope.analysis.alias.points_to.builder import PointsToBuilder
from irscope.analysis.alias.points_to.callee_summary import NO_CALLEES, Summaries, Summary, summarize
from irscope.analysis.alias.points_to.elements import TENSOR, Elements, Structure, Structures
from irscope.analysis.alias.points_to.graph import Effects, PointsTo, Write, collapse_cycles
from irscope.analysis.alias.points_to.mod_ref import TASKS, WAITS, may_draw
from irscope.analysis.alias.points_to.node_rules import LIST_RULES, RULES, STATISTICS, Copies, NodeRules, Rule
from irscope.analysis.effects import OBJECT, MemorySignature, Signatures, callee_of, calls_in, fits, operands_of
from irscope.errors import ArgumentError
from irscope.ir import GROUPS, Block, Graph, Module, Node, TensorType, Value
from irscope.ops.op import has_side_effects
from irscope.ops.registry import functional_source, overloads
from irscope.ops.traits import MAY_COPY, REBINDS_STORAGE, STOPS

# Walks a program once, in textual order and with an explicit stack, and adds each node to a points-to graph.
#
# Control flow and groups are handled here, everything else by `irscope.analysis.alias.points_to.node_rules`. Most nodes need no rule call:
# the plan for an op with a given number of operands is made at the first such node, and looked up from then on.

_FRESH: Final = frozenset(
    f"prim::{name}"
    for name in """
    CreateObject AutogradZero MMTreeReduce MMBatchSide BroadcastSizes ChunkSizes
    ReductionSizes EmptyListLiteral tolist isinstance EnumName EnumValue NumToTensor device dtype
    TensorExprDynamicGuard AutogradAnyNonZero AutogradAllNonZero AutogradAllZero StringIndex VarConcat VarStack Print""".split()
)


def _nothing(rules: NodeRules, node: Node) -> None:
    """The plan for nodes that share nothing and write nothing."""


NOTHING: Final = _nothing

Plan = Rule | tuple[int, bool, bool]
"""A rule to call, or: the operand that all results share, whether it is written, whether its shape may be."""


def build(graph: Graph, structures: Structures, *, distinct_inputs: bool = False, callees: Summaries = NO_CALLEES) -> PointsTo:
    """The points-to graph of a program; `distinct_inputs` promises that inputs share no memory, except for bound
    inputs that are known to.

    `callees` has the summaries of the programs that it calls, in terms of the same `structures`.
    """
    copies = Copies(graph)
    built = _built(graph, structures, distinct_inputs, callees, copies)
    places = (built.element_of.get(node.inputs[0]) for node in copies.made)
    if not any(place is not None and built.is_reshaped[built.class_of[place]] for place in places):
        return built
    return _built(graph, structures, distinct_inputs, callees, None)  # a write may change the shape or the type of what is copied


def _built(graph: Graph, structures: Structures, distinct_inputs: bool, callees: Summaries, copies: Copies | None) -> PointsTo:
    """The points-to graph with these decisions about copies; without any, whatever may share memory does."""
    builder = PointsToBuilder(Elements(structures))
    elements, outside = builder.elements, builder.outside
    known = graph.storages
    for value in sorted(graph.inputs, key=lambda value: value not in known) if known else graph.inputs:
        structure = structures.of(value.type)
        if structure is not None:
            shared = value in known or not distinct_inputs or structure.kind in ("mixed", "object")
            given = outside.given(value, structure, known.get(value)) if shared else elements.fresh(structure, value)
            elements.element_of[value] = given
    rules = NodeRules(graph, builder, Signatures(), callees)
    if copies is not None:
        rules.copies = copies
    Walk(rules).visit(graph)
    return builder.seal(has_inferred=copies is not None and copies.has_inferred)


class Walk:
    """Walks a program node by node and applies rules."""

    def __init__(self, rules: NodeRules) -> None:
        self.rules, self.elements = rules, rules.elements

    def visit(self, graph: Graph) -> None:
        """Visit every node once, and enter and leave structured nodes around their blocks.

        The three plans of `Plan` are inlined here: nearly all nodes have one, and a call would cost more than the
        work.
        """
        plans: dict[tuple[str, int], Any] = {}  # of Plan | dict[type, Plan]: the checker cannot follow `__class__ is`
        known, rules = plans.get, self.rules
        element_of, labels, writes = self.elements.element_of, self.elements.labels, self.rules.builder.writes
        stack: list[Iterator[Node]] = [iter(graph.body.nodes)]
        open_nodes: list[tuple[Node, Iterator[Block]]] = []
        while stack:
            for node in stack[-1]:
                inputs = node.inputs
                key = (node.op, len(inputs))
                plan: Any = known(key)
                if plan is None:
                    plan = plans[key] = self.plan(node)
                if plan.__class__ is dict:  # the first operand's type decides
                    kind = inputs[0].type.__class__
                    chosen = plan.get(kind)
                    if chosen is None:
                        chosen = plan[kind] = self.plan(node, kind)
                    plan = chosen
                if plan is NOTHING:
                    continue
                if plan.__class__ is tuple:
                    index, does_write, to_shape = plan
                    shared = inputs[index]
                    element = element_of.get(shared)
                    if element is None:
                        if shared.type.__class__ is not TensorType:  # the op turns another type into a tensor
                            rules.by_signature(node)
                            continue
                        element = element_of[shared] = len(labels)
                        labels.append(shared)
                    if does_write:
                        writes.append(Write(node, element, to_shape))
                    for value in node.outputs:
                        element_of[value] = element
                elif node.blocks:
                    self.enter(node)
                    blocks = iter(node.blocks)
                    open_nodes.append((node, blocks))
                    stack.append(iter(next(blocks).nodes))
                    break
                else:
                    plan(rules, node)
            else:
                stack.pop()
                if open_nodes:
                    following = next(open_nodes[-1][1], None)
                    if following is not None:
                        stack.append(iter(following.nodes))
                    else:
                        self.leave(open_nodes.pop()[0])

    def plan(self, node: Node, first: type | None = None) -> Plan | dict[type, Plan]:
        """The plan for all nodes of this op and number of operands (and class of the first operand's type)."""
        op, count = node.op, len(node.inputs)
        if op in _FRESH:
            return NOTHING
        if op in RULES or (op, count) in LIST_RULES:
            return RULES.get(op) or LIST_RULES[op, count]
        candidates = () if op in STATISTICS else self.rules.signatures.candidates(op, count, first)
        if functional_source(op):  # shares no memory, but may have blocks to visit
            return NodeRules.by_signature
        if candidates and all(signature.is_pure for signature in candidates):
            return NOTHING
        if op in MAY_COPY:
            return NodeRules.unless_copied
        if len(candidates) > 1 and first is None and count:
            return {}
        tensors = count and node.outputs and all(value.type.__class__ is TensorType for value in node.outputs)
        simple = _simple(candidates[0]) if len(candidates) == 1 and tensors and op not in REBINDS_STORAGE else None
        if simple is None:
            return NodeRules.by_signature
        taking = [schema for schema in overloads(op) if fits(schema, count, first) and simple[0] < len(schema.arguments)]
        takes_tensor = bool(taking) and all(isinstance(schema.arguments[simple[0]].type, TensorType) for schema in taking)
        return simple if takes_tensor else NodeRules.by_signature

    # Nodes with blocks

    def enter(self, node: Node) -> None:
        """Bind the parameters of a node's blocks."""
        elements = self.elements
        if node.op == "prim::Loop":
            body = node.blocks[0]
            for param, start, end in zip(body.params[1:], node.inputs[2:], body.returns[1:], strict=False):
                structure = elements.structures.of(param.type)
                if structure is None:
                    continue
                start_element = elements.element(start)
                if end is param:  # carried unchanged
                    elements.bind(param, start_element)
                elif structure is TENSOR and start_element is not None:
                    elements.carry_tensor(param, start_element)
                else:
                    element = elements.element_of[param] = elements.fresh(structure, param)
                    if start_element is not None:
                        elements.flow(element, start_element, node)
        elif is_inlined(node):
            for param, operand in zip(node.blocks[0].params, node.inputs, strict=True):
                elements.share(param, operand, node)
        elif not _is_understood(node):
            for block in node.blocks:
                for param in block.params:
                    self.rules.bind_unknown(param)

    def leave(self, node: Node) -> None:
        """Bind the outputs of a node whose blocks have been visited."""
        elements, rules = self.elements, self.rules
        if node.op == "prim::If" or node.op == "prim::GradOf":
            for index, value in enumerate(node.outputs):
                found = [elements.element(block.returns[index]) for block in node.blocks]
                one, other = found if len(found) == 2 else (None, None)
                if value.type.__class__ is TensorType and one is not None and other is not None:
                    elements.merge_tensors(value, one, other)
                else:
                    elements.bind_any(value, found, node)
        elif node.op == "prim::Loop":
            self.leave_loop(node)
        elif is_inlined(node):
            self.leave_group(node)
        elif functional_source(node.op):  # what its blocks do was visited, and what it returns is new
            rules.by_signature(node)
        else:
            rules.hand_out(node) if node.op == "prim::Closure" else rules.opaque(node)
            for value in _in_reach(node):
                rules.escape(value, node)

    def leave_loop(self, node: Node) -> None:
        elements, body = self.elements, node.blocks[0]
        for value, param, end in zip(node.outputs, body.params[1:], body.returns[1:], strict=False):
            element, end_element = elements.element(param), elements.element(end)
            if element is None or elements.structures.of(value.type) is None:
                continue
            if end is not param and end_element is not None:
                elements.flow(element, end_element, node)
            if value.type.__class__ is TensorType:
                elements.element_of[value] = element
            else:
                elements.bind_any(value, [element], node)

    def leave_group(self, node: Node) -> None:
        elements, returns = self.elements, node.blocks[0].returns
        if node.op == "prim::fork":
            returned = [elements.element(value) for value in returns]
            for value in node.outputs:
                future = elements.element(value)
                if future is not None:
                    elements.hold(future, [element for element in returned if element is not None], node)
            return
        for value, result in zip(node.outputs, returns, strict=True):
            elements.share(value, result, node)


def is_inlined(node: Node) -> bool:
    """Whether a node's block is analysed as if it were inlined."""
    known = node.op in GROUPS or node.op == "prim::fork"
    return known and len(node.blocks) == 1 and len(node.blocks[0].params) == len(node.inputs)


def _is_understood(node: Node) -> bool:
    """Whether it is known when a node runs its blocks, and where their results go."""
    return node.op in ("prim::If", "prim::Loop", "prim::GradOf") or is_inlined(node)


def _in_reach(node: Node) -> dict[Value, None]:
    """The values that unseen code gets by running a node's blocks: their results, and the outer values they use.

    Blocks of unseen code inside these blocks are left out: they were handled before, so that the total work is linear.
    """
    used, own = dict[Value, None](), set[Value]()
    blocks = list(node.blocks)
    for block in blocks:  # grows
        own.update(block.params)
        used.update(dict.fromkeys(block.returns))
        for inner in block.nodes:
            own.update(inner.outputs)
            used.update(dict.fromkeys(inner.inputs))
            blocks.extend(inner.blocks if _is_understood(inner) else ())
    results = dict.fromkeys(value for block in node.blocks for value in block.returns)
    return results | {value: None for value in used if value not in own}


def _simple(signature: MemorySignature) -> tuple[int, bool, bool] | None:
    """The operand that all results share and whether it is written, if an op has no other effect."""
    shared = set(signature.results)
    if signature.is_container or signature.is_opaque or signature.stores or any(signature.held) or len(shared) != 1:
        return None
    (sources,) = shared
    if len(sources) != 1 or sources[0][1] != OBJECT or signature.writes not in ((), sources):
        return None
    return sources[0][0], bool(signature.writes), signature.writes_shape


# Summarises the callees of a program, each walked once, callees before callers.
#
# Mutually recursive programs are walked together, with one element for each parameter and result, shared by all
# their own calls: as with a loop, what one round passes to the next becomes an edge, and cycles collapse. A
# call from outside the cycle enters by elements of its own, so that two such calls are still distinguished.


def callees_of(given: Any) -> Mapping[str, Graph]:
    """The callees that a user passed as a Module or a mapping, by name. Raises ArgumentError for anything else."""
    found = given.graphs if isinstance(given, Module) else {} if given is None else given
    if not isinstance(found, Mapping) or not all(isinstance(graph, Graph) for graph in found.values()):
        hint = "pass a Module, or a dict such as {'helper': irs.parse(text)}"
        raise ArgumentError(f"callees are graphs by their names, not {type(given).__name__}", hint=hint)
    return found


def summaries(graph: Graph, callees: Mapping[str, Graph], structures: Structures) -> Summaries:
    """The summary of each program that `graph` calls, directly or through others.

    Raises ArgumentError for a call that does not fit its callee.
    """
    if not callees:
        return NO_CALLEES
    names: dict[str, int] = {}
    edges: dict[int, list[int]] = {}
    todo = list(_note_calls(graph, callees, names))
    for name in todo:  # grows
        numbered = len(names)
        called = _note_calls(callees[name], callees, names)
        todo.extend(other for other in called if names[other] >= numbered)
        if called:
            edges[names[name]] = [names[other] for other in called]
    class_of, _ = collapse_cycles(len(names), edges)
    circles: dict[int, dict[str, Graph]] = {}
    for name, index in names.items():
        circles.setdefault(class_of[index], {})[name] = callees[name]
    found: dict[str, Summary] = {}
    for circle in sorted(circles):
        members = circles[circle]
        found.update(_Circle(members, found, structures).summaries())
    return found


def _note_calls(graph: Graph, callees: Mapping[str, Graph], names: dict[str, int]) -> dict[str, None]:
    """The known callees of one program; each gets a number at its first call."""
    found: dict[str, None] = {}
    for node, name in calls_in(graph):
        callee = callees.get(name)
        if callee is None:
            continue
        given, wanted = (len(operands_of(node)), len(node.outputs)), (len(callee.free_inputs), len(callee.outputs))
        if given != wanted:
            what = f"{node!r} passes {given[0]} operands to {name!r} for {given[1]} results"
            raise ArgumentError(f"{what}; {name!r} takes {wanted[0]} and returns {wanted[1]}", hint="check callees")
        names.setdefault(name, len(names))
        found[name] = None
    return found


class _Circle:
    """Mutually recursive programs (usually a single program), walked with one builder."""

    def __init__(self, members: Mapping[str, Graph], callees: Summaries, structures: Structures) -> None:
        first = next(iter(members.values()))
        self.builder = PointsToBuilder(Elements(structures))
        self.elements, self.outside = self.builder.elements, self.builder.outside
        self._rules = NodeRules(first, self.builder, Signatures(), callees)
        self._rules.calls_back = self._call_back
        self._members = members
        self._calls: list[tuple[Node, str]] = []
        self._entered: dict[str, list[tuple[int, Structure] | None]] = {}
        self._called: dict[str, list[int | None]] = {}

    def summaries(self) -> dict[str, Summary]:
        """Walk the members, and reduce each of them to its summary."""
        for name, graph in self._members.items():
            self._enter_program(name, graph)
        walk = Walk(self._rules)
        for graph in self._members.values():
            self._rules.graph = graph
            walk.visit(graph)
        for node, name in self._calls:
            for value, result in zip(node.outputs, self._members[name].outputs, strict=True):
                self._flow(self.elements.element(value), self.elements.element(result), node)
        effects = self._effects()
        constants = [v for g in self._members.values() for n in g.nodes() if n.op == "prim::Constant" for v in n.outputs]
        return {
            name: summarize(self.builder, name, self._entered[name], graph.outputs, constants, effects)
            for name, graph in self._members.items()
        }

    def _enter_program(self, name: str, graph: Graph) -> None:
        """Create elements for the parameters: as an outside caller passes them, and as the program sees them."""
        elements = self.elements
        is_recursive = any(called in self._members for _, called in calls_in(graph)) or len(self._members) > 1
        entered, called = self._entered.setdefault(name, []), self._called.setdefault(name, [])
        for value in graph.inputs:
            structure = elements.structures.of(value.type)
            element = None
            if structure is not None and value in graph.bound:
                elements.element_of[value] = self.outside.of("input", structure)
            elif structure is not None:
                passed = element = elements.fresh(structure, value)
                if is_recursive:
                    element = elements.fresh(structure, value)
                    elements.flow(element, passed)
                elements.element_of[value] = element
                entered.append((passed, structure))
            if value not in graph.bound:
                called.append(element)
                if structure is None:
                    entered.append(None)

    def _call_back(self, node: Node) -> bool:
        """Handle a call of a member; returns whether it is one."""
        name = callee_of(self._rules.graph, node)
        if name is None or name not in self._members:
            return False
        for operand, param in zip(operands_of(node), self._called[name], strict=True):
            self._flow(param, self.elements.element(operand), node)
        for value in node.outputs:
            structure = self.elements.structures.of(value.type)
            if structure is not None:
                self.elements.element_of[value] = self.elements.fresh(structure, value)
        self._calls.append((node, name))
        return True

    def _flow(self, source: int | None, target: int | None, node: Node) -> None:
        if source is not None and target is not None:
            self.elements.flow(source, target, node)

    def _effects(self) -> Effects:
        """The members' effects other than on memory; each member has those of all."""
        unseen = {write.node for write in self.builder.writes if write.element == self.outside.opaque_element}
        found = {Effects()}
        for graph in self._members.values():
            for node in graph.nodes():
                called = self.builder.calls.get(node.id)
                if called is not None:
                    found.add(called.effects)
                    continue
                is_unseen, is_own = node in unseen, callee_of(graph, node) in self._members
                effect = is_unseen or (has_side_effects(node.op) and not is_own)
                random = not is_own and may_draw(graph, node, is_unseen)
                found.add(Effects(effect, random, node.op in STOPS, node.op in WAITS, node.op in TASKS, is_unseen))
        return Effects(*map(any, zip(*found, strict=True)))
