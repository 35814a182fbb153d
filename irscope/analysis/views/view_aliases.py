"""Queries about views: which tensors share a buffer, at which bytes, and why a copy is necessary.

**Why "no overlap" is sound.** Two values are proved disjoint in one of three ways.

1. *Different buffers.* One is in a buffer that a node of this graph allocated (`made`), and the other in one that another node
   allocated or that existed before the run (`given`). An allocation returns memory that nothing else has.
   Two given buffers are distinguished only if the graph promises that its inputs are distinct.
2. *No byte in common.* Both are in one buffer at places that are known before the run, and the two sets of bytes are disjoint
   (`ByteSet`). Inside a loop this holds across rounds as well: a root that a round allocates is another buffer in
   the next one, a root from outside is the same with the same places, and if a root itself differs from round to round
   (`Placements.wanders`) nothing is concluded. With symbolic numbers nothing is concluded in programs with loops.
3. *No byte at all.* A tensor with an extent of 0 covers none.

Placements are computed by torch's own stride rules (`irscope.ops.type_rules`), step by step; an unknown placement is
open, and answers "maybe". A view is claimed only if each step is one for all sizes that the program can have.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from html import escape
from itertools import islice
from math import prod
from typing import TYPE_CHECKING, Any, Final

from irscope._base.results import Verdict, no, yes
from irscope._base.words import plural
from irscope.analysis.shapes import Shapes, infer
from irscope.analysis.views.assumed import Demand, Layouts, demands_of, with_strides_of
from irscope.analysis.views.facts import Kind, Placement, is_tensor
from irscope.analysis.views.placements import Placements
from irscope.analysis.views.recommend import Recommendation, failure_words, recommendations, stride_demands
from irscope.errors import ArgumentError, UnknownName, new_table, public
from irscope.ir import Graph, Value, graph_of
from irscope.ops.view_steps import ByteSet, Layout, SymbolicBytes, are_apart, are_disjoint, bytes_covered

if TYPE_CHECKING:
    import pandas as pd

_MOST_ROWS: Final = 50

_MOST_STEPS: Final = 12
"""The most views of a chain that are named."""


class ViewAliases:
    """The buffer and layout of every tensor of a graph, by torch's own rules. Values are given as values or by their names.

    `demands` are layouts that values must have, by name: the axes in memory order, `"rows"`, `"columns"`, `"channels_last"`, or a
    `Demand`; a view with another layout then becomes a copy. `layouts`, in the same form, assume other layouts of arguments:
    `graph` is then the program with the types that follow, and values of the given graph are mapped to its values. `rows` assumes that
    inputs of unknown strides are laid out row by row, as is always assumed for languages without memory (ONNX, StableHLO). `unmarked`
    says that no complex input is a conjugate, which torch marks on the tensor: results computed from a marked one have other layouts.

    >>> from irscope.ir.text.parser import parse
    >>> g = parse('''graph(%x : Float(4, 6, strides=[6, 1])):
    ...   %dim : int = prim::Constant[value=1]()
    ...   %from : int = prim::Constant[value=0]()
    ...   %to : int = prim::Constant[value=2]()
    ...   %end : int = prim::Constant[value=6]()
    ...   %left : Tensor = aten::slice(%x, %dim, %from, %to, %dim)
    ...   %right : Tensor = aten::slice(%x, %dim, %to, %end, %dim)
    ...   %all : int[] = prim::Constant[value=[-1]]()
    ...   %flat : Tensor = aten::reshape(%right, %all)
    ...   return (%left, %flat)''')
    >>> va = ViewAliases(g)
    >>> va.kind("right"), va.root("right"), va.kind("flat"), va.root("flat")
    ('view', %x, 'copy', %flat)
    >>> print(va.layout("right"), "|", va.bytes("right"))
    4×4, strides (6, 1), from byte 8 | 16 bytes every 24, 4 times, from byte 8
    >>> print(va.overlaps("left", "right"))
    no overlap: in the buffer of %x, %left covers 8 bytes every 24, 4 times, from byte 0 and %right 16 bytes every 24, 4 times, from byte 8
    >>> va.kind("flat"), ViewAliases(g, layouts={"x": (1, 0)}).layout("right").strides
    ('copy', (1, 4))
    """

    @public
    def __init__(
        self,
        graph: Graph,
        shapes: Shapes | None = None,
        *,
        demands: Layouts | None = None,
        layouts: Layouts | None = None,
        rows: bool = False,
        unmarked: bool = False,
    ) -> None:
        self.graph = graph = graph_of(graph, "ViewAliases")
        self.rows, self.unmarked = rows, unmarked
        self._shapes = shapes or infer(graph)
        self._now: Mapping[int, Value] = {}
        """Maps the ids of values of the given graph to the values of the graph with the assumed layouts."""
        assumed: Mapping[int, Demand] = {}
        if layouts:
            found = demands_of(graph, layouts, self._shapes)
            self.graph, self._shapes = with_strides_of(graph, found)
            assumed = {value.id: demand for value, demand in found.items()}
            self._now = {value.id: value for value in self.graph.values()}
        self.demands = demands_of(self.graph, {self._value(value): each for value, each in (demands or {}).items()}, self._shapes)
        self._placements = Placements(
            self.graph,
            self._shapes,
            demands=self.demands,
            rows=rows,
            unmarked=unmarked,
            assumed={self._now[id]: each for id, each in assumed.items()},
        )

    def placement(self, value: Value | str) -> Placement:
        """The placement of a value, as far as it is known. Raises UnknownName, and ArgumentError for a value that is not a tensor."""
        found = self._placements.of.get(value) if isinstance(value, Value) else None
        if found is not None:
            return found
        value = self._value(value)
        found = self._placements.of.get(value)
        if found is None:
            what = f"%{self.graph.names[value]} is not a tensor but {value.type}, and has no buffer"
            raise ArgumentError(what, hint="ask for the tensors that it holds")
        return found

    def tensors(self) -> Iterator[Value]:
        """All tensors of the graph, in textual order."""
        return (value for value in self.graph.values() if value in self._placements.of)

    def _value(self, value: Value | str) -> Value:
        if not isinstance(value, Value):
            return self.graph.value(value)
        value = self._now.get(value.id, value)
        if value not in self.graph.block_of:
            what = f"{value!r} is not a value of graph {self.graph.name!r}"
            raise UnknownName(what, hint="make ViewAliases of the graph it came from")
        return value

    def _name(self, value: Value) -> str:
        return f"%{self.graph.names[value]}"

    # One value

    @public
    def kind(self, value: Value | str) -> Kind:
        """`view`: it is in the buffer of another value. `copy`: it has a buffer of its own, as far as is known
        (`is_decided`). `input`: it existed before the run."""
        return self.placement(value).kind

    def is_decided(self, value: Value | str) -> bool:
        """Whether every run agrees with `kind`. Otherwise the placement is known only at run time: a
        `reshape` of unknown strides may be a copy, and an item of a container may be anything."""
        return self.placement(value).is_decided

    @public
    def root(self, value: Value | str) -> Value | None:
        """The value whose buffer it is in, itself if it has one of its own; None if that is known only at run time."""
        value = self._value(value)
        placement = self.placement(value)
        return None if placement.kind == "view" and placement.root is value else placement.root

    def decided_root(self, value: Value) -> Value | None:
        """The root of a value, if every run agrees on it; else None."""
        placement = self.placement(value)
        if not placement.is_decided or (placement.kind == "view" and placement.root is value):
            return None
        return placement.root

    @public
    def layout(self, value: Value | str) -> Layout | None:
        """The layout of a value in the buffer of its root; None if not even the number of axes is known."""
        return self.placement(value).layout

    @public
    def bytes(self, value: Value | str) -> ByteSet | SymbolicBytes | None:
        """The bytes that it covers, counted from the first one of its root; symbolic if extents or strides are symbolic, and
        None if the strides or the offset are not known at all.

        >>> from irscope.ir.text.parser import parse
        >>> g = parse('''graph(%x : Float(n, 6)):
        ...   %dim : int = prim::Constant[value=1]()
        ...   %from : int = prim::Constant[value=2]()
        ...   %end : int = prim::Constant[value=6]()
        ...   %right : Tensor = aten::slice(%x, %dim, %from, %end, %dim)
        ...   return (%right)''')
        >>> print(ViewAliases(g, rows=True).bytes("right"))
        16 bytes every 24, n times, from byte 8
        """
        return self._covered(self.placement(value).layout)

    @public
    def bytes_together(self, values: Collection[Value]) -> int | None:
        """How many bytes of one buffer are in at least one of several values; None if that is not known, or too much to count."""
        roots, places = {self.decided_root(value) for value in values}, [self.bytes(value) for value in values]
        known = [place for place in places if isinstance(place, ByteSet)]
        return bytes_covered(known) if len(roots) == 1 and None not in roots and len(known) == len(places) else None

    @staticmethod
    def _covered(layout: Layout | None) -> ByteSet | SymbolicBytes | None:
        if layout is None:
            return None
        known = layout.bytes
        return layout.symbolic_bytes if known is None else known

    def chain(self, value: Value | str) -> tuple[Value, ...]:
        """The views from its root to the value, both included.

        >>> from irscope.ir.text.parser import parse
        >>> g = parse('''graph(%x : Float(2, 3, strides=[3, 1])):
        ...   %a : Tensor = aten::t(%x)
        ...   %b : Tensor = aten::t(%a)
        ...   return (%b)''')
        >>> ViewAliases(g).chain("b")
        (%x, %a, %b)
        """
        here: Value | None = self._value(value)
        found: list[Value] = []
        while here is not None:
            found.append(here)
            placement = self.placement(here)
            here = placement.source if placement.kind == "view" else None
        return tuple(reversed(found))

    def _last_steps(self, value: Value) -> tuple[Value, ...]:
        """The chain, shortened to the root and the last views, so that explaining every value stays linear."""
        found: list[Value] = [value]
        while len(found) < _MOST_STEPS:
            placement = self.placement(found[-1])
            if placement.kind != "view" or placement.source is None:
                return tuple(reversed(found))
            found.append(placement.source)
        root = self.root(value)
        return tuple(reversed(found if root is None or root is found[-1] else [*found, root]))

    def static_kind(self, value: Value | str) -> Kind:
        """The kind that stays true when sizes change: only the memory order of an input's axes and a flag for each are
        trusted, as in nvFuser's analysis; `copy` if that leaves it open. `explain` says why it differs from `kind`."""
        value = self._value(value)
        self.placement(value)
        found = self._by_flags.of[value]
        return found.kind if found.is_decided else "copy"

    @cached_property
    def _by_flags(self) -> Placements:
        return Placements(
            self.graph, self._shapes, demands=self.demands, rows=self.rows, by_flags=True, assumed=self._placements.assumed,
            unmarked=self.unmarked,
        )  # fmt: skip

    @public
    def explain(self, value: Value | str) -> Verdict:
        """Whether a value is in the buffer of another value, and why; for a copy, which step failed and the least change that
        would make it a view. The witness of a view is its chain; that of a copy, its operand and each stride that would have to differ.

        >>> from irscope.ir.text.parser import parse
        >>> g = parse('''graph(%x : Float(3, 4, strides=[5, 1])):
        ...   %all : int[] = prim::Constant[value=[-1]]()
        ...   %y : Tensor = aten::reshape(%x, %all)
        ...   return (%y)''')
        >>> print(ViewAliases(g).explain("y"))
        a copy: aten::reshape puts axes 0 and 1 of %x together, which lie apart in memory: stride(0) is 5 and would have to be 4
        """
        value = self._value(value)
        placement = self.placement(value)
        if placement.kind == "input":
            return Verdict(False, f"{self._name(value)} existed before the run", (value,), "an input")
        words = self._view_words(value, placement) if placement.kind == "view" else self._copy_words(value, placement)
        if self.static_kind(value) != placement.kind and placement.is_decided:
            words += self._difference_words(value)
        if placement.kind == "view":
            return Verdict(True, words, self._last_steps(value), "a view" if placement.is_decided else "a view or a copy")
        if self._is_passed_on(value, placement):
            return Verdict(False, words, (placement.source,), "another name")
        demands = stride_demands(placement.failure) if placement.failure else ()
        answer = "computed" if placement.source is None else "a copy" if placement.is_decided else "a copy or a view"
        return Verdict(False, words, (*([] if placement.source is None else [placement.source]), *demands), answer)

    def _op(self, value: Value) -> str:
        """The op that makes a value, or has the block whose parameter it is."""
        return (self.graph.producer.get(value) or self.graph.owner[self.graph.block_of[value]]).op

    def _is_passed_on(self, value: Value, placement: Placement) -> bool:
        """Whether an op with a block passes on what was computed elsewhere: the value is a name for it, inside or after the op."""
        return placement.kind == "copy" and placement.source is not None and placement.root is not value

    def _view_words(self, value: Value, placement: Placement) -> str:
        root = self.root(value)
        if placement.in_place and placement.source is not None:
            return f"{self._op(value)} writes {self._name(placement.source)} and returns it"
        if root is None:
            op, source = self._op(value), placement.source
            if source is not None:
                return f"whether {op} returns {self._name(source)} itself, a view of it or a copy is known only at run time"
            gets = "carries from turn to turn" if op == "prim::Loop" else "gets"
            return f"which buffer {op} {'returns' if value in self.graph.producer else gets} is known only at run time"
        steps = self._last_steps(value)
        names = " → ".join(map(self._name, steps))
        if len(steps) > _MOST_STEPS:
            names = names.replace(" → ", " → … → ", 1)
        words = f"it lies in the buffer of {self._name(root)} ({names})"
        return words if placement.is_decided else f"{words}, unless one of these steps copies at run time"

    def _copy_words(self, value: Value, placement: Placement) -> str:
        op, source = self._op(value), placement.source
        if source is not None and self._is_passed_on(value, placement):
            maker = self.graph.producer.get(value)
            if maker is None:
                return f"{self._name(value)} stands for {self._name(source)} in {op}"
            is_inside = self.graph.owner.get(self.graph.block_of[source]) is maker
            return f"{self._name(value)} is {self._name(source)}{f', a result of {op}' if is_inside else f' after {op}'}"
        if value in self.demands and source is not None:
            return f"{self._name(value)} must have the memory order {self.demands[value].order}, and {self._name(source)} does not"
        if placement.failure is not None and source is not None:
            words = failure_words(placement.failure, self._name(source), op)
            return words if placement.is_decided else f"whether {op} copies is known only at run time: {words}"
        could = self._could_be_view(value)
        return could.because if could else f"{op} allocates new memory"

    def _difference_words(self, value: Value) -> str:
        placement, found = self.placement(value), self._by_flags.of[value]
        here: Value | None = value
        while here is not None and found.failure is None and found.kind == "view":  # find the earlier step that made the difference
            here = found.source
            found = self._by_flags.of[here] if here is not None else found
        if found.failure is None or placement.failure is not None:
            return ""
        needs = "; ".join(map(str, stride_demands(found.failure)))
        return f"; by the flags alone it would be a copy, because they do not promise this ({needs})"

    def could_be_view(self, value: Value | str) -> Verdict:
        """Whether a value that torch copies could have been a view of the same elements: a negative padding, or a concatenation
        of parts that are adjacent already.

        >>> from irscope.ir.text.parser import parse
        >>> g = parse('''graph(%x : Float(4, 6, strides=[6, 1])):
        ...   %pad : int[] = prim::Constant[value=[-1, -2]]()
        ...   %y : Tensor = aten::constant_pad_nd(%x, %pad)
        ...   return (%y)''')
        >>> print(ViewAliases(g).could_be_view("y"))
        could be a view: torch copies in aten::constant_pad_nd, and a view of %x would do: 4×3, strides (6, 1), from byte 4
        """
        return self._could_be_view(self._value(value)).in_words("could be a view", "could not be a view")

    def _could_be_view(self, value: Value) -> Verdict:
        placement = self.placement(value)
        if placement.kind != "copy" or self._is_passed_on(value, placement):
            return no(f"{self._name(value)} is not a copy", value)
        found = self._placements.view_ops.possible_view(value)
        if found is None:
            return no(f"{self._op(value)} computes new elements, or puts them in another order", value)
        source, layout = found
        return yes(f"torch copies in {self._op(value)}, and a view of {self._name(source)} would do: {layout}", source, layout)

    # Two values

    @public
    def overlaps(self, a: Value | str, b: Value | str) -> Verdict:
        """Whether two values may share a byte, by their placements; "no" is certain. The witness has both values and, if they are
        in one buffer, the bytes of each."""
        return self._overlaps(self._value(a), self._value(b)).in_words("may overlap", "no overlap")

    def _overlaps(self, a: Value, b: Value) -> Verdict:
        one, other = self.placement(a), self.placement(b)
        for value, placement in ((a, one), (b, other)):
            if placement.layout is not None and 0 in placement.layout.shape:
                return no(f"{self._name(value)} has no element", a, b)
        if one.root is other.root:
            return self._in_one_buffer(a, b, one, other)
        if "open" in (one.origin, other.origin):
            value = a if one.origin == "open" else b
            return yes(f"which buffer {self._name(value)} lies in is known only at run time", a, b)
        if one.origin == "given" == other.origin and not (self.graph.distinct_inputs or self.graph.functional):
            assert one.root is not None and other.root is not None
            return yes(f"{self._name(one.root)} and {self._name(other.root)} existed before the run, and may share memory", a, b)
        return no(f"they lie in two buffers: {self._whose(a, one)}, {self._whose(b, other)}", a, b)

    def _in_one_buffer(self, a: Value, b: Value, one: Placement, other: Placement) -> Verdict:
        root = one.root
        assert root is not None
        if a is b:
            return yes(f"both are {self._name(a)}", a, b)
        first, second = self._covered(one.layout), self._covered(other.layout)
        where = f"in the buffer of {self._name(root)}"
        if first is None or second is None or root in self._placements.wanders:
            return yes(f"both lie {where}, at bytes that are known only at run time", a, b)
        if isinstance(first, ByteSet) and isinstance(second, ByteSet):
            disjoint = are_disjoint(first, second)
        elif self._placements.has_loops:  # a name may be another number in each round
            return yes(f"both lie {where}, at bytes that may change from round to round", a, b)
        else:
            disjoint = are_apart(first, second)
        words = f"{where}, {self._name(a)} covers {first} and {self._name(b)} {second}"
        if disjoint:
            return no(words, a, b, first, second)
        if disjoint is None:
            words += ", and whether these have a byte in common takes too long to find out"
        return yes(words, a, b, first, second)

    def _whose(self, value: Value, placement: Placement) -> str:
        assert placement.root is not None
        root = self._name(placement.root)
        if placement.origin == "given":
            what = f"{root}, which existed before the run"
        else:
            what = f"the one that {self.graph.producer[placement.root].op} allocates"
        return f"{self._name(value)} in {what}" + ("" if placement.root is value or placement.origin == "given" else f" for {root}")

    # Layouts that would be better

    def recommend(self) -> list[Recommendation]:
        """For each buffer that the program allocates, the order of its axes that turns the most copied bytes into views, if it
        is better than the current one; the most bytes first. Demands are always kept. The pass `recommend-layouts` applies
        recommendations for which torch has an op.

        >>> from irscope.ir.text.parser import parse
        >>> g = parse('''graph(%x : Float(2, 8, 4, 4, strides=[128, 16, 4, 1])):
        ...   %a : Tensor = aten::exp(%x)
        ...   %nhwc : int[] = prim::Constant[value=[0, 2, 3, 1]]()
        ...   %b : Tensor = aten::permute(%a, %nhwc)
        ...   %rows : int[] = prim::Constant[value=[32, 8]]()
        ...   %c : Tensor = aten::reshape(%b, %rows)
        ...   return (%c)''')
        >>> [(each.value, each.order, each.saves, each.views) for each in ViewAliases(g).recommend()]
        [(%a, (0, 2, 3, 1), 1024, (%c,))]
        """
        return recommendations(self._placements, self.demands)

    @property
    def copied_bytes(self) -> int:
        """The number of bytes that view ops, casts and clones copy, for tensors of known size."""
        total = 0
        for placement in self._placements.of.values():
            layout = placement.layout
            if placement.kind == "copy" and placement.source is not None and layout is not None and layout.item_size:
                sizes = [size for size in layout.shape if isinstance(size, int)]
                total += prod(sizes) * layout.item_size if len(sizes) == len(layout.shape) else 0
        return total

    # All values

    @public
    def table(self, values: Iterable[Value | str] | None = None) -> "pd.DataFrame":
        """One row per tensor: value, kind, root, shape, strides, flags, and the bytes of the root that it covers."""
        wanted = self.graph.values() if values is None else map(self._value, values)
        rows = [self._row(value) for value in wanted if is_tensor(value.type) and value in self._placements.of]
        return new_table(rows, columns=["value", "op", "kind", "root", "shape", "strides", "flags", "bytes of root"])

    def _row(self, value: Value) -> dict[str, Any]:
        placement = self.placement(value)
        layout, root = placement.layout, self.root(value)
        producer = self.graph.producer.get(value)
        return {
            "value": self._name(value),
            "op": "" if producer is None else producer.op,
            "kind": placement.kind if placement.is_decided else f"{placement.kind}?",
            "root": "?" if root is None else self._name(root),
            "shape": "?" if layout is None else "×".join(map(str, layout.shape)) or "()",
            "strides": "?" if layout is None or layout.strides is None else ", ".join(map(str, layout.strides)),
            "flags": "" if layout is None else " ".join(layout.flags),
            "bytes of root": str(self._covered(layout) or "?"),
        }

    def _repr_html_(self) -> str:
        """The first rows of the table, for a notebook; with `%load_ext irscope` pictures are shown instead."""
        shown = self.table(list(islice(self.tensors(), _MOST_ROWS)))
        return f"<p>{escape(repr(self))}</p>{shown.to_html(index=False)}"

    def __repr__(self) -> str:
        placed = self._placements.of.values()
        kinds = Counter("result" if each.kind == "copy" and each.source is None else each.kind for each in placed)
        counts = [plural(kinds["input"], "input"), plural(kinds["view"], "view"), plural(kinds["copy"], "copy", "copies")]
        counts.append(plural(kinds["result"], "computed tensor"))
        return f"<ViewAliases of {self.graph.name!r}: {', '.join(counts)}>"
