"""What the tables say of writes and side effects is what schemas and torch's tags say, of ops that there are."""

from typing import Any

import pytest

import irscope as irs
from irscope.ops import traits
from irscope.ops.op import has_side_effects
from irscope.ops.registry import known_names, overloads, reads_on_host

from irscope.ops.traits import (  # isort: skip
    CHANGES_RANDOM_STATE, KNOWN_SIDE_EFFECTS, MOVES_STATISTICS, OBJECT_WRITERS, REBINDS_STORAGE, RUNS_UNSEEN_CODE, SHAPE_READERS,
    SHAPE_WRITERS, STOPS, STORAGE_WRITERS,
)  # fmt: skip


def test_each_kind_of_writer_is_one_of_the_next() -> None:
    assert REBINDS_STORAGE < STORAGE_WRITERS < SHAPE_WRITERS < OBJECT_WRITERS


@pytest.mark.parametrize("name", sorted(OBJECT_WRITERS))
def test_a_writer_writes_its_first_operand(name: str) -> None:
    found = [schema.arguments[0] for schema in overloads(name)]
    if not found:
        pytest.importorskip("torch", reason="rare ops have schemas in torch alone")
    assert found and all(first.alias is not None and first.alias.is_write for first in found)


@pytest.mark.parametrize("name", sorted(SHAPE_READERS))
def test_what_reads_a_shape_gives_a_number(name: str) -> None:
    assert not any(str(result.type).startswith("Tensor") for schema in overloads(name) for result in schema.returns)


def test_what_torch_calls_an_inplace_view_is_a_writer_of_the_object(torch: Any) -> None:
    tagged = set()
    for full in torch._C._dispatch_get_all_op_names():
        name, _, overload = full.removeprefix("aten::").partition(".")
        packet = getattr(torch.ops.aten, name, None) if full.startswith("aten::") else None
        op = getattr(packet, overload or "default", None)
        if op is not None and torch.Tag.inplace_view in op.tags:
            tagged.add(f"aten::{name}")
    assert len(tagged) > 8 and tagged <= OBJECT_WRITERS


SETS = {name: found for name, found in vars(traits).items() if name.isupper() and isinstance(found, frozenset)}


@pytest.mark.parametrize("trait", sorted(SETS))
def test_every_name_is_one_of_an_op(trait: str) -> None:
    pytest.importorskip("torch", reason="rare ops have schemas in torch alone")
    known = set(known_names())
    assert not sorted(name for name in SETS[trait] if name.startswith("aten::") and name not in known and not overloads(name))


def test_an_op_is_of_one_kind() -> None:
    assert not KNOWN_SIDE_EFFECTS & RUNS_UNSEEN_CODE
    assert STOPS < KNOWN_SIDE_EFFECTS and CHANGES_RANDOM_STATE < KNOWN_SIDE_EFFECTS and not STOPS & CHANGES_RANDOM_STATE
    assert all(map(has_side_effects, KNOWN_SIDE_EFFECTS | RUNS_UNSEEN_CODE))


@pytest.mark.parametrize("name", sorted(MOVES_STATISTICS))
def test_running_statistics_are_where_they_are_looked_for(name: str) -> None:
    for schema in overloads(name):
        names = [argument.name for argument in schema.arguments]
        assert names[3:5] == ["running_mean", "running_var"] and names[5] == MOVES_STATISTICS[name]


def test_a_range_that_is_not_kept_ends_the_program(torch: Any) -> None:
    for name in ("sym_constrain_range", "sym_constrain_range_for_size"):
        assert f"aten::{name}" in STOPS
        with pytest.raises(RuntimeError):
            getattr(torch.ops.aten, name)(7, min=2, max=5)
    with pytest.raises(RuntimeError):
        torch.ops.aten._functional_sym_constrain_range(7, 2, 5, torch.tensor(1.0))


def test_what_torch_calls_shaped_by_elements_is_read_on_the_host(torch: Any) -> None:
    tagged = set()
    for full in torch._C._dispatch_get_all_op_names():
        name, _, overload = full.partition(".")
        tags = torch._C._get_operation_overload(name, overload)[2] if name.startswith("aten::") and "out" not in overload else ()
        if torch.Tag.dynamic_output_shape in tags or torch.Tag.data_dependent_output in tags:
            tagged.add(name)
    assert len(tagged) > 15
    assert tagged <= traits.GIVES_TO_HOST | traits.SHAPED_BY_ELEMENTS | traits.INDEXED | {"aten::repeat_interleave"}


@pytest.mark.parametrize(("call", "waits"), [
    ("aten::histc(%x, %ten, %none_, %none_)", True), ("aten::histc(%x, %ten, %none_, %ten)", False),
    ("aten::to(%x, %there, %ten, %false, %false, %none)", True), ("aten::to(%x, %ten, %false, %false, %none)", False),
    ("aten::_pack_padded_sequence(%x, %x, %false)", True), ("aten::cov(%x, %ten, %none, %none)", True),
    ("aten::tensor_split(%x, %x, %none_)", True), ("aten::tensor_split(%x, %ten, %none_)", False),
    ("aten::narrow(%x, %none_, %size, %ten)", False), ("aten::narrow(%x, %none_, %x, %ten)", True),
    ("aten::index_fill(%x, %none_, %x, %x)", True), ("aten::index_fill(%x, %none_, %x, %ten)", False),
    ("aten::Int(%x)", True), ("aten::Int(%size)", False), ("aten::combinations(%x, %ten, %false)", True),
])  # fmt: skip
def test_what_the_host_reads_may_depend_on_arguments(call: str, waits: bool) -> None:
    text = f"""graph(%x : Tensor):
      %ten : int = prim::Constant[value=10]()
      %none_ : int = prim::Constant[value=0]()
      %false : bool = prim::Constant[value=0]()
      %there : Device = prim::Constant[value="cpu"]()
      %none : NoneType = prim::Constant()
      %size : Tensor = prim::NumToTensor(%ten)
      %y : {"int" if "Int" in call else "Tensor[]" if "split" in call else "Tensor"}{", %z : Tensor" if "pack" in call else ""} = {call}
      return (%y)"""
    graph = irs.parse(text)
    assert reads_on_host(graph, graph.node("y")) is waits
