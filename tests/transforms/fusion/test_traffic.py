"""The bytes that ops and kernels move, against the storages of eager torch, whose elements are followed one by one."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import pytest
import torch

import irscope as irs
from irscope.transforms.fusion.eligibility import Eligibility
from irscope.transforms.fusion.explain import memory_of
from tests.programs import parsed
from tests.random_programs.view_chains import Program, addresses, call_torch, chains, storage_of

pytestmark = pytest.mark.filterwarnings("ignore:.*(of dimension other than 2|0-D tensors)")


@pytest.mark.parametrize("seed", range(12))
def test_tensor_occupies_the_bytes_that_it_has_in_torch(seed: int) -> None:
    """Also a view, in the memory of the tensor that it is a view of."""
    p = chains(seed, 3, length=6)
    g = irs.parse(p.text)
    rules = Eligibility(g)
    for name, tensor in p.tensors.items():
        type = rules.tensor_type(g.value(name))
        if type is not None and type.is_static and type.dtype is not None:  # of items of a list, some are not known
            assert memory_of(rules)._part(g.value(name)).bytes == len(addresses(tensor, tensor)), (name, p.text)


# Random programs of pointwise ops, reductions and views, each line run by torch. All elements have 4 bytes.

_VIEWS: Final[dict[str, Callable[[random.Random, torch.Tensor], list[Any]]]] = {
    "slice.Tensor": lambda rng, t: [axis := rng.randrange(t.dim()), rng.randrange(t.shape[axis]), t.shape[axis], rng.choice([1, 1, 2])],
    "transpose.int": lambda rng, t: [rng.randrange(t.dim()), rng.randrange(t.dim())],
    "select.int": lambda rng, t: [0, rng.randrange(t.shape[0])],
    "chunk.": lambda rng, t: [2, rng.randrange(t.dim())],
    "unsqueeze.": lambda rng, t: [rng.randrange(t.dim() + 1)],
    "expand.": lambda rng, t: [[rng.randrange(1, 4), *t.shape]],
    "reshape.": lambda rng, t: [[-1]],
    "contiguous.": lambda rng, t: [0],
}  # fmt: skip


@dataclass
class Recorded(Program):
    """A random program that keeps what each of its tensors was made by."""

    made_by: dict[str, tuple[str, str, tuple[Any, ...]]] = field(default_factory=dict)

    def grow(self) -> None:
        rng = self.rng
        name = rng.choice(list(self.tensors)[-5:])
        t, roll, before = self.tensors[name], rng.random(), len(self.tensors)
        if roll < 0.25 or not t.dim():
            call: tuple[Any, ...] = (rng.choice(["relu.", "tanh."]), name)
        elif roll < 0.5:
            call = ("mul.Tensor", name, rng.choice([other for other, x in self.tensors.items() if x.shape in (t.shape, t.shape[-1:])]))
        elif roll < 0.6:
            call = ("sum.dim_IntList", name, [rng.randrange(t.dim())], rng.random() < 0.5)
        else:
            kind = rng.choice(list(_VIEWS))
            call = (kind, name, *_VIEWS[kind](rng, t))
        op, _, overload = call[0].partition(".")
        if op == "sum":
            self.made(op, name, [*call[2:], None], t.sum(*call[2:]))
        else:
            self.call(op, overload, name, *call[2:])
        self.made_by.update(dict.fromkeys(list(self.tensors)[before:], (op, overload, call[1:])))


def random_program(seed: int) -> Recorded:
    p = Recorded(random.Random(seed))
    for shape in p.rng.sample([(4, 6), (6,), (6, 1), (3, 4, 6), (1,), (4, 6)], 3):
        p.input(torch.rand(shape).mT.contiguous().mT if len(shape) == 2 and p.rng.random() < 0.4 else torch.rand(shape))
    while len(p.tensors) < 14:
        p.grow()
    return p


def shares(p: Recorded, name: str) -> bool:
    return storage_of(p.tensors[name]) == storage_of(p.tensors[p.made_by[name][2][0]])


def places_in(p: Recorded, name: str) -> set[tuple[int, int]]:
    t = p.tensors[name]
    return {(storage_of(t), 4 * t.storage_offset() + byte) for byte in addresses(t, t)}


def bytes_alone(p: Recorded, name: str) -> int:
    """What the op of a tensor reads and writes by itself."""
    if shares(p, name):
        return 0
    operands = [each for each in p.made_by[name][2] if isinstance(each, str)]
    return len(set().union(*(places_in(p, each) for each in operands))) + len(places_in(p, name))


def bytes_together(p: Recorded, members: list[str], results: list[str]) -> int:
    """What a kernel of these tensors' ops reads of other memory, element by element from its results back, and writes."""
    places: dict[str, tuple[Any, torch.Tensor]] = {}
    """The tensor that has its elements, or the storage of one from outside, and which of these it shows."""

    def located(name: str) -> tuple[Any, torch.Tensor]:
        if name not in places:
            t = p.tensors[name]
            op, overload, (source, *given) = p.made_by.get(name, ("", "", ("",)))
            if name not in members:
                count = t.untyped_storage().nbytes() // 4
                places[name] = storage_of(t), torch.arange(count).as_strided(t.shape, t.stride(), t.storage_offset())
            elif f"{op}.{overload}" in _VIEWS:
                owner, shown = located(source)
                seen = call_torch(op, overload, shown, given)
                siblings = [other for other in p.tensors if p.made_by.get(other) is p.made_by[name]]
                places[name] = owner, seen if isinstance(seen, torch.Tensor) else seen[siblings.index(name)]
            else:
                places[name] = name, torch.arange(t.numel()).reshape(t.shape)
        return places[name]

    needed: dict[Any, set[int]] = {}
    for name in results:
        owner, shown = located(name)
        needed.setdefault(owner, set()).update(shown.flatten().tolist())
    for name in reversed(members):
        op, overload, (source, *given) = p.made_by[name]
        if f"{op}.{overload}" in _VIEWS:
            continue
        wanted = torch.zeros(p.tensors[name].numel(), dtype=torch.bool)
        wanted[list(needed.get(name, ()))] = True
        wanted = wanted.reshape(p.tensors[name].shape)
        if op == "sum":
            axis, keeps = given
            wanted = (wanted if keeps else wanted.unsqueeze(axis[0])).expand(p.tensors[source].shape)
        for operand in (source, *(each for each in given if isinstance(each, str))):
            owner, shown = located(operand)
            needed.setdefault(owner, set()).update(shown.expand(wanted.shape)[wanted].tolist())
    read: int = sum(len(each) for owner, each in needed.items() if isinstance(owner, int))
    return 4 * (read + sum(int(p.tensors[name].numel()) for name in results))


def program_of_windows(seed: int) -> Recorded:
    """Products of parts of equal size, cut at random from an input, from its transpose, or from what is computed of it."""
    p = Recorded(random.Random(seed))
    rng = p.rng
    p.input(torch.rand(6, 6))
    while len(p.tensors) < 24:
        whole = [name for name, t in p.tensors.items() if t.shape == (6, 6)]
        parts = [name for name, t in p.tensors.items() if t.shape == (3, 4)]
        name = rng.choice(whole)
        if rng.random() < 0.2:
            calls: list[tuple[Any, ...]] = [rng.choice([("transpose.int", name, 0, 1), ("relu.", name)])]
        elif rng.random() < 0.4 or not parts:
            row, column, step = rng.randrange(4), rng.randrange(3), rng.choice([1, 1, 2])
            row = row % 2 if step == 2 else row
            calls = [("slice.Tensor", name, 0, row, row + 2 * step + 1, step), ("slice.Tensor", "", 1, column, column + 4, 1)]
        else:
            calls = [("mul.Tensor", rng.choice(parts), rng.choice(parts))]
        for op, source, *given in calls:
            source, before = source or list(p.tensors)[-1], len(p.tensors)
            p.call(*op.split("."), source, *given)
            p.made_by.update(dict.fromkeys(list(p.tensors)[before:], (*op.split("."), (source, *given))))
    return p


@pytest.mark.parametrize("make", [random_program, program_of_windows])
@pytest.mark.parametrize("seed", range(60))
def test_traffic_of_a_group_is_that_of_its_elements(seed: int, make: Callable[[int], Recorded]) -> None:
    """Of an operand that is broadcast to a tensor of which views leave out a part, the bytes are only a bound."""
    p = make(seed)
    f = irs.fuse(irs.parse(p.text), policy="min-bytes" if seed % 2 else "greedy")
    for group in f.groups:
        members = [value.name for node in f._members[group] for value in node.outputs if value.name in p.tensors]
        before, after = f.traffic(group)
        true = bytes_together(p, members, [value.name for value in group.outputs])
        assert before == sum(bytes_alone(p, name) for name in members), p.text
        cut = any(p.made_by[name][0] in ("slice", "select", "chunk") and p.made_by[name][2][0] in members for name in members)
        assert after == true or (cut and isinstance(after, int) and after > true), p.text


def test_views_count_as_what_they_show() -> None:
    """Two slices of an input, its transpose, and an expanded row: all are read from memory, inside the group or not."""
    x = torch.ones(4, 8)

    def halves(x: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        left, right = x.relu().chunk(2, 1)
        return left * right + row.expand(4, 4) + x[:, :4]

    f = irs.fuse(irs.load(halves, x, torch.ones(1, 4)))
    assert [f.traffic(group) for group in f.groups] == [(784, 208)]


def test_library_calls_read_lists_tables_and_copies() -> None:
    def calls(table: torch.Tensor, index: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> object:
        return table[index], torch.cat([x, y]), x.t().contiguous() @ y, x.t().to(torch.float16)

    f = irs.fuse(irs.load(calls, torch.ones(1000, 8), torch.tensor([3, 5]), torch.ones(4, 6), torch.ones(4, 6)))
    looked_up, joined, copied, product, halved = 64 + 16 + 64, 96 + 96 + 192, 96 + 96, 96 + 96 + 144, 96 + 48
    assert f.cost() == (0, 5, looked_up + joined + copied + product + halved)


def test_one_kernel_reads_the_rows_that_it_looks_up_and_writes_in_place() -> None:
    """As another compiler groups them: irscope leaves lookups to the library, and its groups write nothing in place."""

    def looked_up(index: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        return torch.relu(table[index]) * 2

    graph = irs.load(looked_up, torch.tensor([3, 5, 3]), torch.ones(1000, 8))
    nodes = [node for node in graph.nodes() if node.op not in ("prim::Constant", "prim::ListConstruct")]
    assert memory_of(Eligibility(graph)).together(nodes, nodes[-1].outputs) == 24 + 96 + 96

    graph = parsed("x y | one = 1; a = add_ x y one; b = mul a a | b", "Float(8, 8)")  # fmt: skip
    nodes = [node for node in graph.nodes() if node.op != "prim::Constant"]
    assert memory_of(Eligibility(graph)).together(nodes, nodes[-1].outputs) == 4 * 256


def test_the_same_cut_of_two_layouts_shows_other_bytes() -> None:
    def rows(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x[0] * x.t()[0])

    f = irs.fuse(irs.load(rows, torch.ones(8, 8)))
    assert [f.traffic(group) for group in f.groups] == [(156, 92)]  # the first row and the first column share an element


def moved(p: Recorded, graph: irs.Graph) -> int:
    """The bytes that the kernels of a graph move, and its other ops, each by itself."""
    total = 0
    for node in graph.body.nodes:
        inner = node.blocks[0].nodes if node.blocks else [node]
        made = [name for each in inner for value in each.outputs if (name := value.name) in p.made_by]
        results = [value.name for value in node.outputs if value.name]
        total += bytes_together(p, made, results) if node.blocks else sum(bytes_alone(p, name) for name in made)
    return total


@pytest.mark.parametrize("seed", range(60))
def test_a_merge_saves_what_its_groups_no_longer_move(seed: int) -> None:
    """After each step, element by element; where views of a kernel leave a part out, only all steps together are those of the table."""
    p = random_program(seed)
    f = irs.fuse(irs.parse(p.text), policy="min-bytes" if seed % 2 else "greedy")
    steps = [(k, step) for k, step in enumerate(f.history.steps) if step.pass_name == "fuse-groups"]
    assert sum(step.bytes_saved for _, step in steps) == sum(f.table()["bytes saved"])
    for k, step in steps:
        before, after = (moved(p, f.history.graph_after(state)) for state in (k, k + 1))
        grown = f._group_of[step.nodes[1]]
        names = {value.name for node in f._members[grown] for value in node.outputs}
        cut = any(p.made_by[name][0] in ("slice", "select", "chunk") and p.made_by[name][2][0] in names for name in names & {*p.made_by})
        assert cut or step.bytes_saved == before - after, (step.because, p.text)


def test_a_gradient_that_no_one_wants_takes_no_memory() -> None:
    model, x = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU()), torch.rand(2, 3, 6, 6)
    g = irs.load(model, x, backward=True, loss=torch.sum)
    (node,) = (node for node in g.nodes() if node.op == "aten::convolution_backward")
    given = [torch.rand(2, 8, 4, 4), x, model[0].weight.detach()]
    made = torch.ops.aten.convolution_backward(*given, [8], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [False, True, True])
    moved = sum(tensor.untyped_storage().nbytes() for tensor in (*given, *made) if tensor is not None)
    assert irs.fuse(g).traffic(node) == (moved, moved) and not irs.memory_plan(g).unknown


def test_a_step_saves_what_the_program_fused_up_to_it_moves_less() -> None:
    """Also of a result without a reader, and of an op that reads an extent alone."""
    head = "no = False; zero = 0; one = 1; none = None; a = add x one one; m:Float(3) i:Long(3) = max a zero no; c = exp a;"
    fusion = irs.fuse(parsed(f"x | {head} z = zeros_like a none none none none none; s = add z c one | s i", "Float(2, 3)"))
    steps = fusion.history.steps
    first = next(place for place, step in enumerate(steps) if step.pass_name == "fuse-groups")
    bare = [fusion.what_if(step=step, policy=lambda candidate: None).cost().bytes for step in range(first, len(steps) + 1)]
    assert [before - after for before, after in pairwise(bare)] == [step.bytes_saved for step in steps[first:]]
    assert len(steps) - first >= 3 and sum(fusion.table()["bytes saved"]) == bare[0] - bare[-1]


def test_a_write_by_indices_moves_what_they_name_by_types_as_in_a_run() -> None:
    def write(x: Any, cache: Any, rows: Any, mask: Any) -> Any:
        cache.index_copy_(0, rows, x)
        cache.index_add_(0, rows, x)
        cache[rows] = x
        cache[:, rows] = x[0, 0]
        cache[mask] = x[0, 0]
        cache.index_put_([rows], x, accumulate=True)
        return cache.scatter_(0, rows[:, None].expand(2, 64), x)

    args = torch.rand(2, 64), torch.ones(100, 64), torch.tensor([3, 5]), torch.zeros(100, dtype=torch.bool)
    g = irs.load(torch.jit.trace(write, args, check_trace=False), *args)
    moved = irs.profile(g, *args).table("node", way="op by op").set_index("node")["MB"] * 1e6
    memory, writes = memory_of(Eligibility(g)), [node for node in g.nodes() if node.op.endswith("_")]
    row, index = 256, 16
    true = [4 * row, 6 * row, 4 * row, 804, 100 * row + 104 - index, 6 * row, 4 * row]
    assert [memory.alone(node) - index for node in writes] == true
    assert [moved[f"%{g.names[node.output]}"] - index for node in writes] == pytest.approx(true)
