"""Where values lie, against the storages of eager torch: random chains of all views, from tensors that lie in any way."""

from __future__ import annotations

import pytest

import irscope as irs
from irscope.analysis.views import Layout
from irscope.ops.view_steps import Extent
from tests.analysis.views.random_chains import Program, addresses, chains, storage_of

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:.*(of dimension other than 2|0-D tensors)")]


def roots(p: Program) -> dict[str, str]:
    """For each name the first one with the same storage."""
    first: dict[int, str] = {}
    return {name: first.setdefault(storage_of(tensor), name) for name, tensor in p.tensors.items()}


def check(p: Program) -> tuple[int, list[str]]:
    """How many values were compared, and what was not known of them; fails if anything that is claimed is wrong."""
    va = irs.ViewAliases(irs.parse(p.text))
    missed: list[str] = []
    for name, root in roots(p).items():
        tensor, layout = p.tensors[name], va.layout(name)
        if not va.is_decided(name):
            missed.append(f"{name} is not decided")
            continue
        assert va.kind(name) == ("input" if name[0] == "x" else "copy" if root == name else "view"), name
        assert va.root(name) is va.graph.value(root), name
        if layout is None or any(isinstance(size, Extent) for size in layout.shape):
            missed.append(f"the shape of {name}")
            continue
        assert layout.shape == tuple(tensor.shape), name
        if layout.strides is None:
            missed.append(f"the strides of {name}")
            continue
        assert layout.strides == tensor.stride(), name
        found = bytes_of(va, name, p)
        if found is None:
            missed.append(f"the bytes of {name}")
        else:
            assert found == addresses(tensor, p.tensors[root]), name
    return len(p.tensors), missed


def bytes_of(va: irs.ViewAliases, name: str, p: Program) -> frozenset[int] | None:
    """Every byte that is claimed; an offset that counts from where an input lies in its storage is told that place."""
    layout = va.layout(name)
    covered = va.bytes(name)
    if covered is None and layout is not None and isinstance(layout.offset, Extent):
        (first,) = layout.offset.names
        tensor = p.tensors[first.removeprefix("first_byte(%").removesuffix(")")]
        start = layout.offset + Extent.of(first) - tensor.storage_offset() * tensor.element_size()
        covered = Layout(layout.shape, layout.strides, start, layout.dtype).bytes
    return None if covered is None else frozenset(byte for run in covered.runs() for byte in range(*run))


def test_two_thousand_chains_lie_where_torch_puts_them() -> None:
    values = 0
    for seed in range(20):
        count, missed = check(chains(seed, 100))
        assert len(missed) < count / 10
        values += count
    assert values > 8_000
