"""Constants that are stored twice: by memory and to the bit; their classes, and which of them are merged."""

from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.errors import ArgumentError, UnknownName, UnknownNumber
from irscope.ir import Graph, GraphBuilder, Module, TensorData, TensorType, Value
from irscope.ir.invariants import verify
from irscope.ir.module import verify_module
from irscope.transforms.dedup import find_constants, merge_constants

F4 = TensorType("float32", (4,), (1,))


def found(**constants: Any) -> dict[str, tuple[str, str, int]]:
    """For each constant that is stored twice: how, in which other one, and from where on."""
    shared = find_constants(Module({}, constants=constants)).shared
    return {one.constant.name: (one.how, one.other.name, one.offset) for one in shared}


def f32(*numbers: float) -> np.ndarray[Any, Any]:
    return np.array(numbers, np.float32)


def test_equal_means_equal_bits() -> None:
    assert found(a=f32(1, 2), b=f32(1, 2)) == {"b": ("equal", "a", 0)}
    assert found(a=f32(0.0, 1), b=f32(-0.0, 1)) == {}
    assert found(a=f32(np.nan, 1), b=f32(np.nan, 1)) == {"b": ("equal", "a", 0)}
    quiet, other = np.array([0x7FC00000, 0x7FC00001], np.uint32).view(np.float32).reshape(2, 1)
    assert found(a=quiet, b=other) == {} and found(a=f32(1, 2), b=f32(1, 2).reshape(2, 1)) == {}
    assert found(a=np.zeros(2, np.float32), b=np.zeros(2, np.int32)) == {}


def test_elements_are_compared_in_logical_order() -> None:
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert found(a=a, b=np.asfortranarray(a)) == {"b": ("equal", "a", 0)}
    assert found(a=a, b=np.ascontiguousarray(a.T)) == {}


def test_constants_in_one_memory_are_tied_or_views_unless_they_interleave() -> None:
    a = np.arange(64, dtype=np.float32)
    assert found(a=a, b=a[:]) == {"b": ("tied", "a", 0)} and found(a=a, b=a[8:24]) == {"b": ("view", "a", 32)}
    assert found(a=a, b=a.reshape(8, 8).T) == {"b": ("view", "a", 0)}
    assert not [one.bytes_saved for one in find_constants(Module({}, constants={"a": a, "b": a[8:24]})).shared if one.bytes_saved]
    whole = np.arange(80, dtype=np.float32).reshape(40, 2)
    assert "view" not in {how for how, *_ in found(a=whole[:, 0], b=whole[1:9, 1]).values()}


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


def test_constants_that_a_caller_may_change_are_not_merged() -> None:
    ones = np.ones(4, np.float32)
    assert merged(bound(ones, ones.copy())) == "may-change"
    assert merged(bound(ones, ones.copy()), frozen=True) == "merged"
    assert merged(bound(ones, ones.copy(), write="a"), frozen=True) == "written-memory"
    assert merged(bound(ones, ones.copy(), write="b"), frozen=True) == "written-memory"
    assert merged(bound(ones, ones.copy(), returned=True), frozen=True) == "seen-memory"
    assert merged(bound(ones, ones)) == "merged"


def test_trained_parameters_are_merged_only_if_tied(torch: Any) -> None:
    a, b = (torch.nn.Parameter(torch.ones(4)) for _ in range(2))
    assert merged(bound(a, b)) == "trained" and merged(bound(a, b), frozen=True) == "trained"
    record = merge_constants(bound(a, a))
    assert len(record.after.bound) == 1
    frozen = [torch.nn.Parameter(torch.ones(4), requires_grad=False) for _ in range(2)]
    assert merged(bound(*frozen)) == "may-change"


def test_constants_with_other_strides_are_not_merged() -> None:
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


def test_literals_are_merged_unless_written_or_returned() -> None:
    assert [remark.kind for remark in merge_constants(literals(False, 0)).remarks] == ["passed"]
    assert [remark.rule for remark in merge_constants(literals(False, 1)).remarks] == ["seen-memory"]
    assert [remark.rule for remark in merge_constants(literals(False, 2)).remarks] == ["seen-memory"]
    assert [remark.rule for remark in merge_constants(literals(True, 0)).remarks] == ["written-memory"]


def test_equal_running_means_of_a_new_network_are_not_merged(torch: Any) -> None:
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(4), torch.nn.BatchNorm1d(4)).eval()
    graph = irs.load(model, torch.rand(2, 4))
    constants = find_constants(graph)
    assert {one.how for one in constants.shared} == {"equal"}
    assert sum(one.bytes_saved for one in constants.shared) > 0
    assert not merge_constants(graph).edits


def test_tied_weights_of_a_model_are_found(torch: Any) -> None:
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
def test_the_tied_head_of_a_language_model_is_found_however_it_is_loaded(way: str) -> None:
    """The program has one input for both; torch keeps the other name in the model's state."""
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


def test_constants_are_those_of_programs() -> None:
    with pytest.raises(ArgumentError, match="Graph, a Fusion or a Module"):
        find_constants(np.zeros(3))


# --- the classes of a `Dedup` -------------------------------------------------------------------------------------------

W = np.random.default_rng(7).standard_normal((6, 8)).astype(np.float32)


def data(**more: Any) -> Module:
    return Module({}, constants={"w": W, "copy": W.copy(), "other": W + np.float32(1), "half": W.astype(np.float16), **more})


def test_classes_are_those_of_the_arrays() -> None:
    d = irs.dedup(data(), unit="constants")
    assert [(cls.members, cls.representative, cls.bytes_saved) for cls in d.classes] == [
        (("w", "copy"), "w", W.nbytes), (("other",), "other", 0), (("half",), "half", 0),
    ]  # fmt: skip
    assert d.class_of("copy") is d.class_of("%w") and len(d) == 3
    assert d.ladder()["bytes saved"].tolist() == [0, W.nbytes] and d.ladder()["classes"].tolist() == [4, 3]
    assert d.table()["how"].tolist() == ["equal", "", ""] and d.holes(0).loc["of"].tolist() == ["", "w"]
    assert d.classes[0].fingerprint == irs.dedup(data(), unit="constants").classes[0].fingerprint
    assert "6, 8" in d.to_svg() and "4 constants, 3 classes, 192 bytes saved" in repr(d)


def test_a_difference_names_the_elements() -> None:
    near = W.copy()
    near[3, 5] = 9.0
    d = irs.dedup(data(near=near), unit="constants")
    assert f"1 of 48 elements, the first at [3, 5]: {W[3, 5]!s} against 9.0" in d.difference("w", "near").because
    assert "the element type: float32 against float16" in d.difference("w", "half").because
    assert str(d.difference("w", "copy")) == "the same: %copy equals %w"
    verdict = irs.dedup(data(), unit="constants", relation="tied").why_not("copy", "w")
    assert not verdict and verdict.witness[0] == "equal" and "only from step 'equal' on" in verdict.because


def test_tied_weights_and_views_save_nothing(torch: Any) -> None:
    weight = torch.rand(4, 4)
    b = GraphBuilder()
    x = b.input("x", TensorType("float32", (4, 4)))
    matrix, row = TensorType("float32", (4, 4), (4, 1)), TensorType("float32", (4,), (1,))
    bound = [b.input("w", matrix), b.input("tied", matrix), b.input("view", row)]
    y = b.op("aten::mm", b.op("aten::mm", x, bound[0]), bound[1])
    g = b.finish([b.op("aten::mul", y, bound[2])], bound=dict(zip(bound, (weight, weight, weight[1]), strict=True)))
    d = irs.dedup(g, unit="constants", relation="tied")
    assert [(cls.members, cls.bytes_saved) for cls in d.classes] == [(("w", "tied", "view"), 0)]
    assert d.table().loc[0, "how"] == "tied, view"
    after = d.apply()
    assert isinstance(after, Graph) and [value.name for value in after.inputs] == ["x", "w", "view"]
    assert after.tied == {"w": ("tied",)}
    assert str(irs.dedup(after, unit="constants").difference("tied", "w").because) == "%tied is tied to %w"


def test_unknown_names_steps_and_questions_are_refused() -> None:
    d = irs.dedup(data(), unit="constants")
    with pytest.raises(UnknownName, match="no constant 'x'"):
        d.class_of("x")
    with pytest.raises(UnknownNumber):
        d.holes(99)
    for ask in (lambda: irs.dedup(data(), unit="constants", relation="alpha"), lambda: merge_constants(literals(False, 0), step="part")):  # type: ignore[arg-type]
        with pytest.raises(ArgumentError, match="choose one of tied"):
            ask()
    for refused in (d.recommend, lambda: d.inside(0), lambda: d.class_holes(0), lambda: irs.explore(d)):
        with pytest.raises(ArgumentError, match="constants"):
            refused()


def program(name: str, arrays: dict[str, np.ndarray[Any, Any]], *, write: str = "") -> Graph:
    """A program with each array as a literal, and a result for each."""
    b = GraphBuilder(name)
    held = {key: b.constant(TensorData.of(array), typed(array), key) for key, array in arrays.items()}
    x = b.input("x")
    if write:
        b.op("aten::relu_", held[write], type=held[write].type)
    return b.finish([b.op("aten::mul", value, x) for value in held.values()])


def typed(array: np.ndarray[Any, Any]) -> TensorType:
    return TensorType(str(array.dtype), array.shape, tuple(step // array.itemsize for step in array.strides))


def bits(graph: Graph) -> list[bytes]:
    results = irs.compile(graph, device="reference")(np.array([1.5], np.float32))
    return [np.asarray(each).tobytes() for each in (results if isinstance(results, tuple) else (results,))]


def test_functions_of_a_module_share_one_array() -> None:
    b = GraphBuilder("gives")
    held = b.constant(TensorData.of(W.copy()), typed(W), "v")
    b.input("x")
    graphs = {
        "f": program("f", {"w": W}), "g": program("g", {"copy": W.copy(), "turned": np.asfortranarray(W)}),
        "gives": b.finish([held]), "writes": program("writes", {"v": W.copy()}, write="v"),
    }  # fmt: skip
    inside = Module({"f": program("f", {"again": W.copy()})}, name="inside")
    module = Module(graphs, constants={"rodata": W.copy(), "half": W.astype(np.float16)}, modules={"inside": inside})
    applied = irs.dedup(module, unit="constants").applied()
    after = applied.program
    assert isinstance(after, Module)
    verify_module(after)
    assert all(bits(graph) == bits(after.graphs[name]) for name, graph in graphs.items())
    missed = [line.split("]")[0] for line in applied.remarks if line.startswith("missed")]
    assert missed == ["missed [another-type", "missed [another-type", "missed [seen-memory", "missed [written-memory"]
    left = find_constants(after)
    stored = sum(one.nbytes for one in left.all) - sum(found.constant.nbytes for found in left.shared if found.how != "equal")
    assert stored == 4 * W.nbytes + W.nbytes // 2  # of all functions, `turned`, `gives`, `writes`, and the halves
    assert not [line for line in irs.dedup(after, unit="constants").applied().remarks if line.startswith("passed")]


@pytest.mark.parametrize("passes", ["dedup-constants", "dedup-constants{step=tied}", "pool-constants", "cse"])
def test_a_write_into_a_returned_constant_changes_no_other(passes: str, torch: Any) -> None:
    """The program's constants are one memory for all calls."""
    b = GraphBuilder()
    x = b.input("x", typed(W))
    given, own = (b.constant(TensorData.of(W.copy()), typed(W), name) for name in ("given", "own"))
    run = irs.compile(irs.Pipeline(passes)(b.finish([given, b.op("aten::mul", x, own, type=typed(W))])).graph)
    ones = torch.ones(W.shape)
    run(ones)[0].fill_(7.0)
    assert np.array_equal(np.asarray(run(ones)[1]), W)
