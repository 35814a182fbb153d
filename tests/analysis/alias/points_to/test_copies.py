"""What copies by its types is memory of its own, against the storages of eager torch; and nothing else is."""

from itertools import combinations
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import irscope as irs  # noqa: E402
from irscope.analysis.shapes import infer, refined  # noqa: E402
from irscope.ir import Graph, TensorType, Value  # noqa: E402
from irscope.ops.traits import MAY_COPY  # noqa: E402
from tests.analysis.alias.eager import run  # noqa: E402
from tests.random_programs.view_chains import chains, storage_of  # noqa: E402
from tests.work import long  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*(of dimension other than 2|0-D tensors)")


def check_chains(seed: int, count: int) -> tuple[int, int]:
    """Compare random chains of views, as they are written and with all types declared: how many results of ops that may copy
    are copies in torch, and how many of those the alias db knew."""
    p = chains(seed, count)
    copies = told = 0
    bare = irs.parse(p.text)
    for graph in (bare, refined(bare, infer(bare))[0]):
        db = irs.AliasDb(graph, distinct_inputs=True)
        by_storage: dict[int, list[str]] = {}
        for name, tensor in p.tensors.items():
            by_storage.setdefault(storage_of(tensor), []).append(name)
        for names in by_storage.values():
            for a, b in combinations(names, 2):
                assert db.may_alias(a, b), f"%{a} and %{b} have one storage in\n{graph}"
        for node in graph.nodes():
            if node.op not in MAY_COPY:
                continue
            operand, result = (graph.names[value] for value in (node.inputs[0], node.output))
            same = storage_of(p.tensors[operand]) == storage_of(p.tensors[result])
            assert same or not db.must_alias(operand, result), f"%{result} is a copy in\n{graph}"
            copies, told = copies + (not same), told + (not db.may_alias(operand, result))
            views = db.views
            if views.kind(result) == "copy" and views.is_decided(result):
                assert not db.may_alias(operand, result), f"%{result} is a copy to ViewAliases in\n{graph}"
            elif views.is_decided(result):
                assert db.must_alias(operand, result), f"%{result} is a view to ViewAliases in\n{graph}"
    return copies, told


@pytest.mark.parametrize("seeds", [range(30), *long([range(1_000, 3_000)])], ids=str)
def test_random_chains(seeds: range) -> None:
    found = [check_chains(seed, 12 if seed < 1000 else 25) for seed in seeds]
    copies, told = map(sum, zip(*found, strict=True))
    assert copies > 100
    assert told == copies or seeds.start


CASTS: dict[str, Any] = {
    "to": lambda x: x.to(torch.float64) + 1,
    "double": lambda x: x.double() + 1,
    "half": lambda x: x.half() + 1,
    "long": lambda x: x.long() + 1,
    "type": lambda x: x.type(torch.float64) + 1,
    "type_as": lambda x: x.type_as(torch.ones(1, dtype=torch.int8)) + 1,
    "to of another": lambda x: x.to(torch.ones(1, dtype=torch.int8)) + 1,
    "with copy": lambda x: x.to(torch.float16, copy=True) + 1,
    "of one type, with copy": lambda x: x.to(torch.float32, copy=True) + 1,
    "to what it is": lambda x: x.to(torch.float32) + 1,
    "float of a float": lambda x: x.float() + 1,
    "another format": lambda x: x.to(memory_format=torch.channels_last) + 1,
    "contiguous": lambda x: x.transpose(1, 2).contiguous() + 1,
    "contiguous already": lambda x: x.contiguous() + 1,
    "flatten": lambda x: x.transpose(1, 2).flatten(1) + 1,
    "ravel": lambda x: x[:, ::2].ravel() + 1,
}


@pytest.mark.parametrize("name", CASTS)
def test_a_cast_of_an_argument(name: str) -> None:
    """Its result and every other value share memory where they do in torch, and only there."""
    x = torch.randn(2, 3, 4, 5)
    graph = irs.load(CASTS[name], x)
    trace = run(graph, [*map(graph.bound.get, graph.inputs[:-1]), x], trace=True)
    db = irs.AliasDb(graph)
    for a, b in combinations([value for value in graph.values() if isinstance(value.type, TensorType) and value not in graph.bound], 2):
        same = bool(trace.memories[a] & trace.memories[b])
        assert bool(db.may_alias(a, b)) == same, db.may_alias(a, b)
        assert bool(db.must_alias(a, b)) == same, db.must_alias(a, b)


@pytest.mark.parametrize(
    "cast",
    [lambda x, s: x.to(torch.float32) * s, lambda x, s: x.float() * s, lambda x, s: x.type_as(s) * s, lambda x, s: x.to(s) * s],
    ids=["to", "float", "type_as", "to of another"],
)
def test_a_cast_at_the_edge_of_a_group(cast: Any) -> None:
    x, s = torch.randint(-9, 9, (64, 64), dtype=torch.int8), torch.rand(64, 1)
    f = irs.fuse(irs.load(cast, x, s))
    assert len(f.groups) == 1 and torch.equal(irs.compile(f)(x, s), cast(x, s))


def test_casts_in_the_middle_keep_no_operand() -> None:
    def casts(x: Any) -> Any:
        return ((x * 2).half() * 3).float() + 1

    x = torch.rand(64, 64)
    f = irs.fuse(irs.load(casts, x))
    (group,) = f.groups
    assert len(group.outputs) == 1
    assert torch.equal(irs.compile(f, exact="torch")(x), casts(x))


def written(type: str, last: str) -> Graph:
    made = "3, 2, strides=[2, 1]" if "aten::t_" in last else "2, 3, strides=[3, 1]"
    return irs.parse(f"""graph(%x : Float(2, 3, strides=[1, 2])):
      %0 : int = prim::Constant[value=0]()
      %1 : int = prim::Constant[value=1]()
      %a : Float(2, 3, strides=[1, 2]) = aten::neg(%x)
      %v : {type} = aten::detach(%a)
      {last}
      %c : Float({made}) = aten::contiguous(%v, %0)
      return (%c)""")


def test_a_type_that_a_write_changes_decides_nothing() -> None:
    """`t_` makes the operand contiguous, which its declared type does not say."""
    told = written("Float(2, 3, strides=[1, 2])", "")
    changed = written("Float(2, 3, strides=[1, 2])", "%t : Float(3, 2, strides=[2, 1]) = aten::t_(%v)")
    assert not irs.AliasDb(told).may_alias("v", "c")
    assert irs.AliasDb(changed).may_alias("v", "c")
    unseen = written("Float(2, 3, strides=[1, 2])", "%t : Tensor = nobody::knows(%v)")
    assert irs.AliasDb(unseen).may_alias("v", "c")
    other = written("Float(2, 3, strides=[1, 2])", "%t : Tensor = nobody::knows(%0)")
    assert not irs.AliasDb(other).may_alias("v", "c")


def test_following_edits_decides_as_a_build() -> None:
    """After every pass of a fusion, of programs whose types are all declared, some, or none."""
    compared = 0
    for seed in range(12):
        bare = irs.parse(chains(seed, 4).text)
        for graph in (bare, refined(bare, infer(bare))[0]):
            f = irs.fuse(graph)
            db = irs.AliasDb(graph)
            for record in f.history.records:
                db, built = db.follow(record), irs.AliasDb(record.after)
                values: list[Value] = [value for value in record.after.values() if db.is_memory(value)]
                for a, b in combinations(values[:60], 2):
                    compared += 1
                    assert bool(db.may_alias(a, b)) == bool(built.may_alias(a, b)), (seed, record.name, a, b)
    assert compared > 3_000
