"""View models of invented programs, for tests of the front end that need no compiler: residual networks of any length.

A stage is a module of blocks; a block is a convolution, then a fusion group of normalisation, activation and a residual
sum that is written in place; equal blocks are of one class. Every seventh block also slices what it writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from irscope.report.view_models import (
    VIEW_VERSION,
    AliasDetail,
    Box,
    BoxKind,
    ClassView,
    Column,
    Count,
    Detail,
    Edge,
    ExplorerView,
    GraphView,
    KernelDetail,
    LadderStep,
    Measured,
    PairDetail,
    PointsToView,
    SameCard,
    SameStep,
    SameView,
    TableView,
    TextView,
    TimingView,
    VerdictView,
)

_BLOCKS_PER_STAGE = 6
KERNEL = """\
extern "C" __global__ void fused_norm_leaky_add(const float* x, const float* scale, float* out, long n) {
  for (long i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    float v1 = x[i] * scale[i % 64];
    float v2 = v1 > 0.0f ? v1 : 0.1f * v1;
    out[i] = out[i] + v2;
  }
}"""


@dataclass
class Network:
    """A view under construction; ids count up as they would in a graph."""

    last_id: int = 0
    lines: list[str] = field(default_factory=lambda: ["graph(%x : Float(1, 64, 52, 52, device=cpu)):"])
    nodes: list[int] = field(default_factory=lambda: [0])
    names: dict[str, int] = field(default_factory=dict)
    locations: dict[int, str] = field(default_factory=dict)
    boxes: list[Box] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    groups: dict[int, list[int]] = field(default_factory=lambda: {0: [], 1: []})
    made_by: dict[int, int] = field(default_factory=dict)
    rows: list[list[str | float | None]] = field(default_factory=list)
    selects: list[list[int]] = field(default_factory=list)
    kernel_nodes: dict[int, list[int]] = field(default_factory=dict)
    """For each group, the nodes of its kernel's lines."""

    def new_id(self) -> int:
        self.last_id += 1
        return self.last_id

    def box(
        self, id: int, parent: int, kind: BoxKind, label: str, category: str, values: list[int], *, detail: str = "",
        writes: bool = False, equivalence_class: int = -1, size: int = 1,
    ) -> int:  # fmt: skip
        self.boxes.append(Box(
            id=id, parent=parent, kind=kind, label=label, detail=detail, category=category, values=values,
            writes=writes,
            equivalence_class=equivalence_class, size=size,
        ))  # fmt: skip
        return id

    def op(self, parent: int, name: str, op: str, category: str, reads: list[str], *, indent: int = 2) -> str:
        """One op that makes the value `%name`; its line, box and edges."""
        value, node = self.new_id(), self.new_id()
        self.names[name] = value
        self.made_by[value] = node
        place = f"net.py:{10 + len(self.locations) % 40}:4"
        self.locations[node] = place
        arguments = ", ".join(f"%{read}" for read in reads)
        type_ = "Float(1, 64, 52, 52, device=cpu)"
        self.lines.append(f"{' ' * indent}%{name} : {type_} = {op}({arguments})  # {place}")
        self.nodes.append(node)
        writes = op.endswith("_")
        self.box(node, parent, "op", op.partition("::")[2], category, [value], detail="f32[1, 64, 52, 52]", writes=writes)
        for read in reads:
            self.edges.append(Edge(source=self.made_by[self.names[read]], target=node, value=self.names[read]))
        return name

    def text(self, line: str, node: int = 0) -> None:
        self.lines.append(line)
        self.nodes.append(node)

    def block(self, module: int, number: int, read: str) -> str:
        """A convolution and a fusion group; gives the name of the result."""
        conv = self.op(module, f"c{number}", "aten::conv2d", "convolution", [read])
        group, out = self.new_id(), self.new_id()
        sliced = number % 7 == 3
        kind = int(sliced)
        self.names[f"g{number}"] = out
        self.text(f"  %g{number} : Float(1, 64, 52, 52, device=cpu) = prim::FusionGroup[kind=pointwise](%{conv}, %{read})", group)
        self.text(f"    block0(%p{number} : Tensor, %q{number} : Tensor):")
        ops = 4 if sliced else 3
        self.box(
            group, module, "group", "batch_norm · leaky_relu · add_", "pointwise", [out],
            detail=f"{ops} ops → f32[1, 64, 52, 52]", equivalence_class=kind, size=ops,
        )  # fmt: skip
        self.groups[kind].append(group)
        for name, source in ((f"p{number}", conv), (f"q{number}", read)):
            self.names[name] = self.new_id()
            self.made_by[self.names[name]] = group
            self.edges.append(Edge(source=self.made_by[self.names[source]], target=group, value=self.names[source]))
        first = self.op(group, f"n{number}", "aten::batch_norm", "normalization", [f"p{number}"], indent=6)
        second = self.op(group, f"l{number}", "aten::leaky_relu", "pointwise", [first], indent=6)
        base = self.op(group, f"s{number}", "aten::slice", "view", [f"q{number}"], indent=6) if sliced else f"q{number}"
        third = self.op(group, f"a{number}", "aten::add_", "pointwise", [base, second], indent=6)
        self.text(f"      -> (%{third})")
        self.made_by[out] = group
        producers = [self.made_by[self.names[name]] for name in (first, second, third)]
        self.kernel_nodes[group] = [0, 0, *producers, 0, 0]
        self.rows.append(["passed", "fused", f"%g{number}", f"{ops} ops in one kernel, saves 1.4 MB of traffic"])
        self.selects.append([group])
        if number % 5 == 1:
            self.rows.append(["missed", "writes-between", f"%c{number}", f"%{read} is overwritten by %{third} in between"])
            self.selects.append([self.made_by[self.names[conv]], self.made_by[self.names[third]]])
        return f"g{number}"

    def inspect(self, ids: list[int]) -> Detail | PairDetail:
        """What the session would answer."""
        titles = {value: f"%{name}" for name, value in self.names.items()}
        if len(ids) == 2:
            first, second = (titles.get(record, f"#{record}") for record in ids)
            because = f"{second} is a slice of {first}'s buffer (rows 0–1)"
            return PairDetail(
                ids=ids, alias=VerdictView(holds=True, because=because, witness=ids),
                fusion=VerdictView(holds=False, because=f"{first} is overwritten in between", witness=ids[:1]),
                same=None,
            )  # fmt: skip
        (record,) = ids
        if record not in titles and record not in self.locations and record not in self.kernel_nodes:
            raise LookupError(f"no record {record}")
        values = [box["values"] for box in self.boxes if box["id"] == record]
        return self.detail(record, titles.get(record) or titles.get((values or [[0]])[0][0], f"#{record}"))

    def detail(self, record: int, title: str) -> Detail:
        """The details of one record, invented but of the right form."""
        name = title.lstrip("%")
        number = "".join(c for c in name if c.isdigit())
        partner = self.names.get(f"a{number}", 0)
        points = PointsToView(
            labels=[title, f"%a{number}", "memory of %x", "any Tensor"],
            kinds=["value", "value", "location", "wildcard"],
            records=[record, partner, 0, 0], edges=[[0, 2], [1, 2], [0, 3]], contains=[],
        )  # fmt: skip
        group = next((g for g in self.kernel_nodes if record == g or record in self.kernel_nodes[g]), 0)
        kernel = KernelDetail(
            name="fused_norm_leaky_add", language="CUDA C++", source=KERNEL, line_nodes=self.kernel_nodes[group],
            shared_by=len(self.groups[0]), launched="in this group it runs over 173,056 points",
        ) if group else None  # fmt: skip
        line = next((line for line, node in zip(self.lines, self.nodes, strict=True) if node == record), "")
        return Detail(
            id=record, kind="value" if record in self.names.values() else "node", title=title, text=line.strip(),
            location=self.locations.get(record, ""), scope="backbone.stage1",
            alias=AliasDetail(
                summary=f"{title} may alias %a{number}, because %a{number} writes its buffer in place",
                alias_set=[partner] if partner else [], writers=[self.made_by.get(partner, 0)] if partner else [],
                points_to=points,
            ),
            fusion=f"{title} is in a group with %n{number} and %l{number}, which saves 1.4 MB",
            same="", kernel=kernel, time="",
        )  # fmt: skip

    def view(self, title: str, *, with_details: bool = False) -> ExplorerView:
        """The finished view."""
        every = [*self.names.values(), *self.locations, *self.kernel_nodes] if with_details else []
        classes = [
            ClassView(
                index=kind, label=["norm · leaky · add_", "norm · leaky · slice · add_"][kind], members=members,
                representative=members[0], text=[line for line, _ in self.group_text(members[0])],
            )
            for kind, members in self.groups.items() if members
        ]  # fmt: skip
        groups = [group for members in self.groups.values() for group in members]
        columns = [
            Column(key="kind", label="kind", kind="text"), Column(key="rule", label="rule", kind="text"),
            Column(key="subject", label="of", kind="record"), Column(key="because", label="because", kind="text"),
        ]  # fmt: skip
        writes = [box["id"] for box in self.boxes if box["writes"]]
        return ExplorerView(
            version=VIEW_VERSION, title=title,
            headline=[
                Count(label="nodes", value=f"{len(self.locations):,}", selects=[], hint="ops in the graph"),
                Count(label="fusion groups", value=f"{len(groups):,}", selects=groups, hint=""),
                Count(label="kernels", value=str(len(classes)), selects=[c["members"][0] for c in classes], hint=""),
                Count(label="in-place writes", value=f"{len(writes):,}", selects=writes, hint=""),
            ],
            text=TextView(lines=self.lines, nodes=self.nodes, names=self.names, locations=self.locations),
            source={"net.py": [f"    y = layer{k}(y)" for k in range(60)]},
            graph=GraphView(boxes=self.boxes, edges=self.edges, closed=list(self.closed())),
            remarks=TableView(columns=columns, rows=self.rows, selects=self.selects), classes=classes,
            same=self.same(),
            timing=TimingView(
                bars=[
                    _bar("op by op", 41.2, 0, 0), _bar("fused", 23.9, len(groups), 310),
                    _bar("fused, shared kernels", 23.7, 2, 18),
                ],
                caption="CPU, 2 threads, median of 7 runs; error against float64", warnings=[],
            ),
            details={record: self._detail_of(record) for record in every},
        )  # fmt: skip

    def same(self) -> SameView:
        """The ladder of its groups, with the classes of one step and none in full."""
        kinds = [members for members in self.groups.values() if members]
        count = sum(map(len, kinds))
        cards = [
            SameCard(
                label=f"kind {k}", detail="→ f32[1, 64, 52, 52]", count=len(members), ops=3, cost=None,
                members=[f"%{member}" for member in members], selects=[[member] for member in members],
            )
            for k, members in enumerate(sorted(kinds, key=len, reverse=True))
        ]  # fmt: skip
        step = LadderStep(
            step="alpha", pieces=count, classes=len(kinds), largest=cards[0]["count"], ops=3 * (count - len(kinds)), bytes=0, seconds=0.1,
            measured=False, gives_up="names",
        )  # fmt: skip
        return SameView(step="alpha", note="groups", ladder=[step], steps={"alpha": SameStep(cards=cards, left_out=0)}, classes={})

    def _detail_of(self, record: int) -> Detail:
        detail = self.inspect([record])
        assert "title" in detail
        return detail

    def group_text(self, group: int) -> Iterator[tuple[str, int]]:
        """The lines that print a group."""
        start = self.nodes.index(group)
        for line, node in zip(self.lines[start:], self.nodes[start:], strict=True):
            yield line, node
            if "->" in line:
                return

    def closed(self) -> Iterator[int]:
        """Groups start closed; so do stages after the second."""
        modules = 0
        for box in self.boxes:
            modules += box["kind"] == "module" and box["parent"] == -1
            if box["kind"] == "group" or (box["kind"] == "module" and box["parent"] == -1 and modules > 2):
                yield box["id"]


def _bar(label: str, median: float, kernels: int, compile: float) -> Measured:
    error = "3.1e-06" if kernels else "–"
    return Measured(
        label=label, median=median, low=median * 0.96, high=median * 1.11, compile=compile, kernels=kernels, error=error, note=""
    )


def network(blocks: int) -> Network:
    """A network of this many blocks, six boxes each."""
    net = Network()
    x = net.new_id()
    net.names["x"] = x
    net.made_by[x] = net.box(x, 0, "input", "%x", "input", [x], detail="f32[1, 64, 52, 52]")
    net.box(-1, 0, "module", "backbone", "module", [], detail=f"{4 * blocks} ops", size=4 * blocks)
    name, module, previous = "x", -1, "x"
    for number in range(blocks):
        if number % _BLOCKS_PER_STAGE == 0:
            size = 4 * _BLOCKS_PER_STAGE
            module = net.box(
                -2 - number, -1, "module", f"stage{number // _BLOCKS_PER_STAGE}", "module", [], detail=f"{size} ops", size=size
            )
            if number:
                name = net.op(module, f"j{number}", "aten::cat", "memory", [name, previous])
            previous = name
        name = net.block(module, number, name)
    out = net.new_id()
    net.box(-(2**40) - out, 0, "output", "result", "output", [], detail=f"%{name}")
    net.edges.append(Edge(source=net.made_by[net.names[name]], target=-(2**40) - out, value=net.names[name]))
    net.text(f"  return (%{name})")
    return net
