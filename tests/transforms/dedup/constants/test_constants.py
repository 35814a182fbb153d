"""Constants that are stored twice: by memory, to the bit, in part and by cast; and what may become one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import irscope as irs
from irscope.errors import ArgumentError
from irscope.ir.builder import GraphBuilder
from irscope.ir.core import Graph, Module, Value
from irscope.ir.payload import TensorData
from irscope.ir.types import TensorType
from irscope.ir.verify import verify
from irscope.transforms.dedup.constants import find_constants, merge_constants

F4 = TensorType("float32", (4,), (1,))


def found(**constants: Any) -> dict[str, tuple[str, str, int]]:
    """What is told of each constant: how it is held, by which other one, and from where on."""
    shared = find_constants(Module({}, constants=constants)).shared
    return {one.constant.name: (one.how, one.other.name, one.offset) for one in shared}


def f32(*numbers: float) -> np.ndarray[Any, Any]:
    return np.array(numbers, np.float32)


def test_equal_is_to_the_bit() -> None:
    assert found(a=f32(1, 2), b=f32(1, 2)) == {"b": ("equal", "a", 0)}
    assert found(a=f32(0.0, 1), b=f32(-0.0, 1)) == {}
    assert found(a=f32(np.nan, 1), b=f32(np.nan, 1)) == {"b": ("equal", "a", 0)}
    quiet, other = np.array([0x7FC00000, 0x7FC00001], np.uint32).view(np.float32).reshape(2, 1)
    assert found(a=quiet, b=other) == {}
    assert found(a=f32(1, 2), b=f32(1, 2).reshape(2, 1)) == {}
    assert found(a=np.zeros(2, np.float32), b=np.zeros(2, np.int32)) == {"b": ("cast", "a", 0)}


def test_other_strides_hold_the_same_elements() -> None:
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert found(a=a, b=np.asfortranarray(a)) == {"b": ("equal", "a", 0)}
    assert found(a=a, b=np.ascontiguousarray(a.T)) == {"b": ("transposed", "a", 0)}


def test_one_memory_is_tied_or_a_view() -> None:
    a = np.arange(64, dtype=np.float32)
    assert found(a=a, b=a[:]) == {"b": ("tied", "a", 0)}
    assert found(a=a, b=a[8:24]) == {"b": ("view", "a", 32)}
    assert found(a=a, b=a.reshape(8, 8).T) == {"b": ("view", "a", 0)}
    assert find_constants(Module({}, constants={"a": a, "b": a[8:24]})).bytes_saved == 0


def test_columns_that_lie_between_one_another_are_no_views() -> None:
    whole = np.arange(80, dtype=np.float32).reshape(40, 2)
    assert "view" not in {how for how, *_ in found(a=whole[:, 0], b=whole[1:9, 1]).values()}


def test_a_part_is_found_wherever_it_is() -> None:
    a = np.random.default_rng(0).standard_normal(5000).astype(np.float32)
    assert found(a=a, b=a[4980:].copy(), c=a[:9].copy(), d=a[17:400].copy()) == {
        "b": ("part", "a", 4980), "c": ("part", "a", 0), "d": ("part", "a", 17),
    }  # fmt: skip
    assert found(a=a, b=np.append(a[7:300], f32(0.5))) == {}
    assert found(a=a, b=a[:3].copy()) == {}
    assert found(a=np.zeros(100, np.float32), b=np.zeros(50, np.float32)) == {}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 2), min_size=8, max_size=40), min_size=2, max_size=5))
def test_parts_agree_with_a_search_in_strings(arrays: list[list[int]]) -> None:
    from irscope.transforms.dedup.constants.parts import parts_of

    made = parts_of([np.array(array, np.uint32) for array in arrays])
    texts = ["".join(map(str, array)) for array in arrays]
    for place, (holder, offset) in made.items():
        assert texts[holder].startswith(texts[place], offset)
        assert len(texts[holder]) > len(texts[place])
    for place, text in enumerate(texts):
        held = any(text in other for other in texts if len(other) > len(text))
        assert (place in made) == (held and len(set(text[:8])) > 1)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int32"])
def test_casts_are_those_of_torch(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    numbers = torch.cat([torch.randn(3000) * 10.0**k for k in range(-8, 5)] + [torch.tensor([0.0, -0.0, 1e38, -65520.0])])
    if dtype == "int32":
        numbers = numbers.clamp(-1e9, 1e9)
    narrow = numbers.to(getattr(torch, dtype))
    g = without_parameters(numbers, narrow)
    (one,) = find_constants(g).shared
    assert one.how == "cast"
    assert {one.constant.name, one.other.name} == {"a", "b"}


def without_parameters(*tensors: Any) -> Graph:
    """A program with these as buffers."""
    b = GraphBuilder()
    values = [b.input(name) for name, _ in zip("abcdef", tensors, strict=False)]
    return b.finish([b.op("aten::neg", value) for value in values], bound=dict(zip(values, tensors, strict=True)))


def bound(a: Any, b: Any, *, write: str = "", returned: bool = False, type: TensorType = F4) -> Graph:
    """A program over two inputs that have values: a · x + b · x, in which one may be written, or returned."""
    builder = GraphBuilder()
    x, one, other = builder.input("x", F4), builder.input("a", type), builder.input("b", type)
    known = {"a": one, "b": other}
    results: list[Value] = []
    if write:
        builder.op("aten::relu_", known[write], type=type)
    results += [builder.op("aten::mul", x, one, type=F4), builder.op("aten::mul", x, other, type=F4)]
    return builder.finish([*results, other] if returned else results, bound={one: a, other: b})


def merged(graph: Graph, **options: bool) -> str:
    """The rule of the one remark, or `merged`."""
    record = merge_constants(graph, **options)
    verify(record.after)
    (remark,) = record.remarks
    if remark.kind == "passed":
        assert len(record.after.bound) == len(graph.bound) - 1
        x = np.arange(4, dtype=np.float32)
        before, after = (irs.compile(g, device="reference")(x) for g in (graph, record.after))
        assert all(np.array_equal(np.asarray(p), np.asarray(q)) for p, q in zip(before, after, strict=True))
        return "merged"
    assert record.after is graph
    return remark.rule


def test_what_somebody_may_change_alone_stays_apart() -> None:
    ones = np.ones(4, np.float32)
    assert merged(bound(ones, ones.copy())) == "may-change"
    assert merged(bound(ones, ones.copy()), frozen=True) == "merged"
    assert merged(bound(ones, ones.copy(), write="a"), frozen=True) == "written-memory"
    assert merged(bound(ones, ones.copy(), write="b"), frozen=True) == "written-memory"
    assert merged(bound(ones, ones.copy(), returned=True), frozen=True) == "seen-memory"
    assert merged(bound(ones, ones)) == "merged"


def test_parameters_that_are_trained_stay_apart_unless_they_are_tied() -> None:
    torch = pytest.importorskip("torch")
    a, b = (torch.nn.Parameter(torch.ones(4)) for _ in range(2))
    assert merged(bound(a, b)) == "trained"
    assert merged(bound(a, b), frozen=True) == "trained"
    record = merge_constants(bound(a, a))
    assert len(record.after.bound) == 1
    frozen = [torch.nn.Parameter(torch.ones(4), requires_grad=False) for _ in range(2)]
    assert merged(bound(*frozen)) == "may-change"


def test_other_strides_are_another_type() -> None:
    wide = np.ones((4, 2), np.float32)
    assert merged(bound(np.ones(4, np.float32), wide[:, 0]), frozen=True) == "another-type"


def literals(write: bool, returned: int) -> Graph:
    b = GraphBuilder()
    x = b.input("x", F4)
    first, second = (b.constant(TensorData.of(np.ones(4, np.float32)), F4, name) for name in ("first", "second"))
    if write:
        b.op("aten::relu_", second, type=F4)
    results = [b.op("aten::mul", x, first, type=F4), b.op("aten::mul", x, second, type=F4), first, second]
    return b.finish(results[: 2 + returned])


def test_literals_become_one_unless_they_are_written_or_seen() -> None:
    assert [remark.kind for remark in merge_constants(literals(False, 0)).remarks] == ["passed"]
    assert [remark.rule for remark in merge_constants(literals(False, 1)).remarks] == ["seen-memory"]
    assert [remark.rule for remark in merge_constants(literals(False, 2)).remarks] == ["seen-memory"]
    assert [remark.rule for remark in merge_constants(literals(True, 0)).remarks] == ["written-memory"]


def test_running_means_of_a_fresh_network_are_equal_and_stay_apart() -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(4), torch.nn.BatchNorm1d(4)).eval()
    graph = irs.load(model, torch.rand(2, 4))
    constants = find_constants(graph)
    assert {one.how for one in constants.shared} == {"equal"}
    assert constants.bytes_saved > 0
    assert not merge_constants(graph).edits
    assert constants.table().columns.tolist()[-1] == "bytes saved"


def test_tied_weights_are_shown_as_such() -> None:
    torch = pytest.importorskip("torch")

    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Embedding(5, 3)
            self.head = torch.nn.Linear(3, 5, bias=False)
            self.head.weight = self.table.weight
            self.scale = torch.nn.Parameter(self.table.weight.detach()[1])

        def forward(self, x: Any) -> Any:
            return self.head(self.table(x) * self.scale)

    model = Tied()
    graph = irs.load(model, torch.tensor([1, 2]))
    assert {str(one) for one in find_constants(graph).shared} == {
        "%head.weight is tied to %table.weight", "%scale is a view of %table.weight, 12 bytes in",
    }  # fmt: skip


@pytest.mark.filterwarnings("ignore")  # of transformers, and of what torch says of tracing it
@pytest.mark.parametrize("way", ["model", "exported", "traced", "joint"])
def test_the_tied_head_of_a_language_model_is_shown_however_it_is_loaded(way: str) -> None:
    """A program has one input for what the model holds twice; whose other names torch keeps in the model's state."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    sizes = {"n_layer": 1, "n_embd": 16, "n_head": 2, "vocab_size": 40, "n_positions": 8}
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, bos_token_id=1, eos_token_id=1, use_cache=False)).eval()
    ids = torch.arange(6).reshape(1, 6)
    if way == "joint":
        graph = irs.load(model, ids, backward=True)
    else:
        makers = {"model": lambda: (model, ids), "exported": lambda: (torch.export.export(model, (ids,), strict=False),)}
        graph = irs.load(*makers.get(way, lambda: (torch.jit.trace(model, ids, strict=False), ids))())
    d = irs.dedup(graph, unit="constants", relation="tied")
    held = model.state_dict(keep_vars=True)
    judged = {(a, b) for a in held for b in held if a < b and held[a] is held[b]}
    assert {tuple(sorted(cls.members)) for cls in d.classes if len(cls) > 1} == judged == {("lm_head.weight", "transformer.wte.weight")}
    assert d.why_not("lm_head.weight", "transformer.wte.weight") and not sum(cls.bytes_saved for cls in d.classes)
    assert d.apply() is graph  # it is one input already


def test_programs_only() -> None:
    with pytest.raises(ArgumentError, match="Graph, a Fusion or a Module"):
        find_constants(np.zeros(3))
