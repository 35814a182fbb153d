"""Live ranges of the memories that a program allocates, and the results that can be written in place of an operand."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from irscope._base.nested import grouped
from irscope.analysis.alias import AliasDb
from irscope.analysis.alias.points_to import closure
from irscope.analysis.loop_rows import is_functional, rows_in_place
from irscope.analysis.per_graph import alias_db_of, shapes_of, views_of
from irscope.ir import GROUPS, ISOLATED, Block, Graph, Node, TensorType, Value, constant_value, has_kernel
from irscope.ops.registry import effect_of
from irscope.ops.traits import ALWAYS_SHARES

# Live ranges of the memories that a program allocates.
#
# **Claim.** If at some moment of a run a memory that the program allocated may still be read, written or returned to the
# caller, then that moment is in the memory's live range. Two memories whose live ranges do not meet may therefore share a place.
#
# **Time** is the textual order of nodes. A node with blocks begins at one moment and ends at a later one, with its blocks in
# between; a kernel of a fusion group is one moment, and values defined inside it have no memory. A live range is closed on both
# sides: the operands of a node and its results are live together.
#
# **Memories** are the locations of the points-to graph (`irscope.analysis.alias.points_to.builder`) that nodes of the program
# create. A name may be one of several memories, and a list holds others: a use of the name needs all that it may be and
# all that it holds. So the last use of a class of names propagates down all edges, cells and fields, latest first, and each class
# is visited once. The same search from results, and from what unseen code and the caller can reach, finds the memories that
# outlive the program.
#
# **Loops.** For two rounds only the textual order is known. A memory created outside a loop and used inside is live to the
# loop's end. One created inside is live within its round, if no name reaches it that is bound outside the body or
# carried from one round to the next. Otherwise it may outlive its round: then it has no place of its own in a plan
# (`is_carried`), and counts twice, as the memory of this round and that of the previous round; memories put into a list that
# is older than the loop count for each round, if the number of rounds is known. A table of which each round returns a copy with
# other rows is copied once, before the first round, where rows may be written in place (`irscope.analysis.loop_rows`).
#
# **Copies.** By the alias db the result of a `reshape` or `contiguous` may be its operand. If the layouts that the graph
# declares imply a copy (`irscope.analysis.views`), the result is a memory of its own, and each memory of such a class is
# live only as long as its own names are used. This relies on layouts, which a library may choose differently; a caller that
# allocates by the plan asks for live ranges that do not rely on them (`is_told`). Of a class with a value whose root the run decides, a
# result that is certainly a copy is a memory that lives as long as any name of the class; one that may be a copy is named as `unknown`.
#
# **Cost.** One pass over the nodes, one search over the points-to graph for each of four questions, and sorting. The walk
# from a use up to its enclosing loops takes as many steps as loops are nested.

_NEVER: Final = -1
_FOREVER: Final = 1 << 62
_TASKS: Final = ISOLATED - GROUPS
"""Ops whose blocks run at some later time: their operands are live to the end, and memories created inside are not counted."""


@dataclass(frozen=True, slots=True, eq=False)
class Buffer:
    """One memory that the program allocates, named by the first value in it."""

    value: Value
    maker: Node
    bytes: int
    birth: int
    """The moment at which it is created."""
    death: int
    """The last moment at which it is live; the end of the program if it outlives it."""
    is_result: bool
    """Whether the caller, or code outside the graph, may have it afterwards."""
    is_carried: bool
    """Whether a round of a loop may pass it to a later one."""
    by_layout: bool = False
    """Whether it is a separate memory only by the layouts that the graph declares."""


@dataclass(frozen=True, eq=False)
class Lifetimes:
    """The memories of one program."""

    graph: Graph
    buffers: tuple[Buffer, ...]
    """In the order of their creation."""
    unknown: tuple[Value, ...]
    """Values whose memory has an unknown size, or of which the run decides whether they have one of their own; nothing else counts them."""
    moments: Sequence[Node]
    """The node that runs at each moment; one with blocks begins at one and ends at another."""
    _place: Callable[[Value], int | None]
    _buffer_at: Mapping[int, Buffer]
    _of_value: Mapping[Value, Buffer]

    def buffer_of(self, value: Value) -> Buffer | None:
        """The memory of a value, if the program allocates it and the value can be in no other."""
        if value in self._of_value:
            return self._of_value[value]
        place = self._place(value)
        return self._own.get(value) if place is None else self._buffer_at.get(place)

    def with_joined(self, now: Mapping[Buffer, Buffer], of_value: Mapping[Value, Buffer]) -> "Lifetimes":
        """The same with some memories joined: `now` maps each to its joined one, `of_value` first values to theirs."""
        buffers = dict.fromkeys(now.get(buffer, buffer) for buffer in self.buffers)
        places = {place: now.get(buffer, buffer) for place, buffer in self._buffer_at.items()}
        values = {value: now.get(buffer, buffer) for value, buffer in self._of_value.items()} | dict(of_value)
        return replace(self, buffers=tuple(buffers), _buffer_at=places, _of_value=values)

    @cached_property
    def _own(self) -> Mapping[Value, Buffer]:
        return {buffer.value: buffer for buffer in self.buffers}


def lifetimes(graph: Graph, *, is_told: Callable[[Node], bool] | None = None) -> Lifetimes:
    """The live ranges of all memories that a program allocates, in linear time.

    Results of nodes for which `is_told` holds are live as long as any value that may alias them by the alias db is used.
    """
    db = alias_db_of(graph)
    return _Walk(graph, db, _roots_of_copies(graph, db), is_told or (lambda node: False)).found()


def _roots_of_copies(graph: Graph, db: AliasDb) -> Mapping[Value, Value]:
    """The root of each value, for classes in which the layouts decide the roots of all values and there are several."""
    if not any(effect_of(node) == "view" and node.op not in ALWAYS_SHARES for node in graph.nodes()):
        return {}
    views, sealed = views_of(graph), db.sealed
    members = grouped((sealed.class_of[element], value) for value, element in sealed.element_of.items())
    found, here = dict[Value, Value](), graph.block_of
    for values in members.values():
        if len(values) > 1 and all(value.type.__class__ is TensorType and value in here for value in values):
            decided = {value: root for value in values if (root := views.decided_root(value)) is not None}
            if len(decided) == len(values) and len(set(decided.values())) > 1:
                found.update(decided)
    return found


class _Walk:
    """Numbers the moments of a graph, and records definitions and uses."""

    def __init__(self, graph: Graph, db: AliasDb, roots: Mapping[Value, Value], is_told: Callable[[Node], bool]) -> None:
        self.graph, self.roots, self.is_told = graph, roots, is_told
        self.sealed, self.inside = db.sealed, db.reach.inside
        class_of = self.sealed.class_of
        self.place_of = {value: class_of[element] for value, element in self.sealed.element_of.items()}
        """The class of memories of each name."""
        self.moments: list[Node] = []
        self.made_at: dict[Value, int] = {}
        """The moment at which each value is bound, whether it has its own memory or is a name for others."""
        self.used_at: dict[Value, int] = {}
        self.loop_of: list[int] = []
        """For each moment, the number of the loop around it."""
        self.loops: list[tuple[int, int, int, Node]] = []
        """For each loop, its first and last moment, the loop around it, and its node."""
        self.rows: dict[Node, bool] = {}
        """The nodes that write rows in place, and whether each is the last one of its table."""
        self._number_moments()
        if self.loops and is_functional(graph.body):
            for _, _, _, loop in self.loops:
                places = rows_in_place(loop)
                self.rows |= {node: loop.blocks[0].returns[place + 1] is node.output for node, place in places.items()}

    # Time

    def _number_moments(self) -> None:
        self._bind(self.graph.inputs, _NEVER)
        stack: list[tuple[Node | None, Iterator[Block], Iterator[Node]]] = [(None, iter(()), iter(self.graph.body.nodes))]
        loop = _NEVER
        while stack:
            owner, blocks, nodes = stack[-1]
            node = next(nodes, None)
            if node is not None:
                now = self._moment(node, loop)
                self._use(node.inputs, now if node.op not in _TASKS else _FOREVER)
                if not node.blocks or has_kernel(node) or node.op in _TASKS:
                    self._bind(node.outputs, now)
                    continue
                if node.op == "prim::Loop":
                    self.loops.append((now, _NEVER, loop, node))
                    loop = len(self.loops) - 1
                inner = iter(node.blocks)
                stack.append((node, inner, self._entered(next(inner), now)))
                continue
            following = next(blocks, None)
            if following is not None:
                assert owner is not None
                stack[-1] = (owner, blocks, self._entered(following, len(self.moments)))
                continue
            stack.pop()
            if owner is None:
                self._use(self.graph.outputs, len(self.moments))
                continue
            end = self._moment(owner, loop)
            for block in owner.blocks:
                self._use(block.returns, end)
            self._bind(owner.outputs, end)
            if owner.op == "prim::Loop":
                start, _, around, _ = self.loops[loop]
                self.loops[loop] = (start, end, around, owner)
                loop = around

    def _moment(self, node: Node, loop: int) -> int:
        self.moments.append(node)
        self.loop_of.append(loop)
        return len(self.moments) - 1

    def _entered(self, block: Block, now: int) -> Iterator[Node]:
        self._bind(block.params, now)
        return iter(block.nodes)

    def _bind(self, values: Iterable[Value], now: int) -> None:
        for value in values:
            self.made_at[value] = now

    def _use(self, values: Iterable[Value], now: int) -> None:
        used_at = self.used_at
        for value in values:
            if used_at.get(value, _NEVER) < now:
                used_at[value] = now

    # Memories of names

    def found(self) -> Lifetimes:
        """The memories with their live ranges."""
        sealed, end = self.sealed, len(self.moments)
        used, first, last = dict[int, int](), dict[int, int](), dict[int, int]()
        used_as, roots, place_of, used_at = dict[Value, int](), self.roots, self.place_of, self.used_at
        for value, made in self.made_at.items():
            place = place_of.get(value)
            if place is None:
                continue
            use = used_at.get(value, made)
            if place not in used:  # most memories have one name
                used[place], first[place], last[place] = use, made, made
            else:
                used[place], first[place], last[place] = max(used[place], use), min(first[place], made), max(last[place], made)
            if value in roots:
                used_as[roots[value]] = max(used_as.get(roots[value], _NEVER), use)
        from_above = self._spread(used, latest=True, with_own=False)
        first_below, last_below = dict[int, int](), dict[int, int]()
        if self.loops:  # needed for loops only
            first_below = self._spread(first, latest=False, with_own=True)
            last_below = self._spread(last, latest=True, with_own=True)
        given_back = [place for value in self.graph.outputs if (place := place_of.get(value)) is not None]
        below = [there for place in given_back for graph in (sealed.targets, self.inside) for there in graph.get(place, ())]
        kept_anyway = closure([*below, *sealed.outside], sealed.targets, self.inside)
        kept = kept_anyway.union(given_back)
        results = frozenset(self.graph.outputs)
        root_results = {roots[value] for value in self.graph.outputs if value in roots}
        found, unknown, buffer_at = list[Buffer](), list[Value](), dict[int, Buffer]()
        of_root: dict[Value, Buffer] = {}
        for value, place, is_shared in self._owners():
            size = None if is_shared and not self._is_copy(value) else self._size(value)
            if not self.rows.get(self.graph.producer[value], True):
                continue  # one memory with the last
            if size is None:
                unknown += [value] if shapes_of(self.graph).is_made(value) else []
                continue
            birth, maker = self.made_at[value], self.graph.producer[value]
            is_alone = value in used_as and not self.is_told(maker)
            if place is None:
                death, is_result = self.used_at.get(value, birth), value in results
            else:
                use = used_as[value] if is_alone else used.get(place, birth)
                death = max(birth, use, from_above.get(place, birth))
                is_result = place in kept_anyway or value in root_results if is_alone else place in kept
            loop, rounds = self.loop_of[birth], 1
            while loop != _NEVER and place is not None:
                start, stop, around, node = self.loops[loop]
                if first_below.get(place, birth) > start and last_below.get(place, birth) < stop:
                    break
                is_table = maker in self.rows and self.graph.owner.get(self.graph.block_of[maker]) is node  # whose rows it writes in place
                birth, loop, rounds = start, around, rounds * (1 if is_table else self._rounds(place, node))
            death = end if is_result else min(self._extended(birth, death), end)
            by_layout = is_shared or value in roots
            found.append(Buffer(value, maker, size * rounds, birth, death, is_result, rounds > 1 or maker in self.rows, by_layout))
            if value in used_as:
                of_root[value] = found[-1]
            elif place is not None and not is_shared:
                buffer_at[place] = found[-1]
        found.sort(key=lambda buffer: buffer.birth)
        of_value = {value: of_root[root] for value, root in roots.items() if root in of_root}
        return Lifetimes(self.graph, tuple(found), tuple(unknown), self.moments, place_of.get, buffer_at, of_value)

    def _owners(self) -> list[tuple[Value, int | None, bool]]:
        """The first value in each memory that nodes create, the class of that memory, None if it has no other name, and whether
        the value may be in another memory of that class all the same."""
        targets, owned, found = self.sealed.targets, set[int](), list[tuple[Value, int | None, bool]]()
        constants = (value for node in self.moments if node.op == "prim::Constant" for value in node.outputs)
        for value in (*self.graph.inputs, *constants):  # memory from outside is not owned by the program
            place = self.place_of.get(value)
            if place is not None:
                owned.add(place)
        producer_of, place_of = self.graph.producer, self.place_of
        for value in self.made_at:
            producer = producer_of.get(value)
            if value.type.__class__ is not TensorType or producer is None or producer.op == "prim::Constant":
                continue
            place, is_shared = place_of.get(value), False
            if value in self.roots:
                if self.roots[value] is not value:
                    continue
            elif place is not None:
                is_shared = place in owned or place in targets
                if is_shared and not self._may_allocate(producer, value):
                    continue
                owned.add(place)
            found.append((value, place, is_shared))
        return found

    def _may_allocate(self, node: Node, value: Value) -> bool:
        """Whether a result that may be in the memory of an operand may be in memory of its own, too."""
        is_either = effect_of(node) == "view" and node.op not in ALWAYS_SHARES
        return is_either and views_of(self.graph).decided_root(value) in (None, value)

    def _is_copy(self, value: Value) -> bool:
        return views_of(self.graph).decided_root(value) is value

    def _size(self, value: Value) -> int | None:
        assert isinstance(value.type, TensorType)
        size = value.type.nbytes
        if size is None:
            known = shapes_of(self.graph).type(value)
            size = known.nbytes if isinstance(known, TensorType) else None
        return size

    def _spread(self, starts: dict[int, int], *, latest: bool, with_own: bool) -> dict[int, int]:
        """For each class, the latest, or earliest, of the moments of all other classes that reach it, and of its own."""
        targets, inside, found = self.sealed.targets, self.inside, dict[int, int]()
        for place in sorted(starts, key=starts.__getitem__, reverse=latest):
            if place in found:  # and so is all that it reaches
                continue
            moment = starts[place]
            if with_own:
                found[place] = moment
            todo = [place] if place in targets or place in inside else []
            while todo:
                here = todo.pop()
                for there in (*targets.get(here, ()), *inside.get(here, ())):
                    if there not in found:
                        found[there] = moment
                        todo.append(there)
        return found

    # Loops

    def _extended(self, birth: int, death: int) -> int:
        """The last moment of the outermost loop that contains the last use but not the creation; else the last use."""
        if death >= len(self.loop_of):
            return death
        loop = self.loop_of[death]
        while loop != _NEVER:
            start, stop, around, _ = self.loops[loop]
            if start < birth <= stop:
                break
            death, loop = max(death, stop), around
        return death

    def _rounds(self, place: int, loop: Node) -> int:
        """The number of these memories that may be live at once: two if carried, or one per round if held in a list."""
        body = loop.blocks[0]
        carried = {found for value in (*body.params, *loop.outputs) if (found := self.place_of.get(value)) is not None}
        if place in closure(carried, self.sealed.targets):  # without what these hold
            return 2
        limit = self.graph.producer.get(loop.inputs[0])
        count = constant_value(limit) if limit is not None and limit.op == "prim::Constant" else None
        return count if isinstance(count, int) and 2 <= count < 1 << 40 else 2


# Finds the results that can be written in place of an operand, so that two memories become one.
#
# `offers` says whether a kernel *can* write a result over an operand. This module checks whether it *may*: the memory
# of the operand must be known (one that a node of the program allocates, by the alias db and not only by declared layouts), the
# kernel must be its last use, neither the caller nor a later round of a loop may hold it, it must be
# as large as the result, and no other operand of the kernel may be in it. Then the reuse is unobservable: the live range of the one
# memory ends where that of the other begins, at the kernel, which reads each element before it writes it.
#
# "In place of" is a relation of its own, beside "is a view of" and "same place by plan": it merges two live ranges.

Offers = Callable[[Node, int], Sequence[int]]
"""Maps a node and the position of a result to the positions of the operands over which the node can write that result."""


def written_in_place(lives: Lifetimes, offers: Offers) -> tuple[Lifetimes, Mapping[Value, Value]]:
    """The live ranges with merged memories joined, and the operand of each result written in place; one pass."""
    db = alias_db_of(lives.graph)
    joined: dict[Buffer, Buffer] = {}
    """Each joined memory as it is now, by the first memory in it."""
    heads: dict[Buffer, Buffer] = {}
    """For each later memory of a joined one, the first memory in it."""
    found: dict[Value, Value] = {}
    for made in sorted(lives.buffers, key=lambda buffer: buffer.birth):
        node = made.maker
        if made.is_result or made.is_carried or made.birth >= len(lives.moments) or lives.moments[made.birth] is not node:
            continue
        taken_by_others = {found[value] for value in node.outputs if value in found}
        for position in offers(node, node.outputs.index(made.value)):
            operand = node.inputs[position]
            first = lives.buffer_of(operand)
            if first is None or operand in taken_by_others:
                continue
            head = heads.get(first, first)
            held = joined.get(head, head)
            if not _is_free(held, made) or any(
                other is not operand and isinstance(other.type, TensorType) and db.may_alias(other, operand) for other in node.inputs
            ):
                continue
            joined[head] = replace(held, death=made.death)
            heads[made] = head
            found[made.value] = operand
            break
    if not found:
        return lives, {}
    now = {buffer: joined[heads.get(buffer, buffer)] for buffer in lives.buffers if buffer in heads or buffer in joined}
    return lives.with_joined(now, {buffer.value: now[buffer] for buffer in heads}), found


def _is_free(held: Buffer, made: Buffer) -> bool:
    """Whether a memory is last used where the other is created, and not visible elsewhere afterwards."""
    return held.death == made.birth > held.birth and held.bytes == made.bytes and not (held.is_result or held.is_carried or held.by_layout)
