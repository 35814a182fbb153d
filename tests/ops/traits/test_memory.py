"""What the tables say of writes is what schemas and torch's tags say, and each set is a part of the next."""

from __future__ import annotations

import pytest

from irscope.ops.registry import overloads
from irscope.ops.traits import OBJECT_WRITERS, REBINDS_STORAGE, SHAPE_READERS, SHAPE_WRITERS, STORAGE_WRITERS


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


def test_what_torch_calls_an_inplace_view_is_a_writer_of_the_object() -> None:
    torch = pytest.importorskip("torch")
    tagged = set()
    for full in torch._C._dispatch_get_all_op_names():
        name, _, overload = full.removeprefix("aten::").partition(".")
        packet = getattr(torch.ops.aten, name, None) if full.startswith("aten::") else None
        op = getattr(packet, overload or "default", None)
        if op is not None and torch.Tag.inplace_view in op.tags:
            tagged.add(f"aten::{name}")
    assert len(tagged) > 8 and tagged <= OBJECT_WRITERS
