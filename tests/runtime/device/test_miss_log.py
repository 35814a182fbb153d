"""What is said of a kernel that had to be compiled: which one is nearest, and by what it differs."""

from __future__ import annotations

from pathlib import Path

import pytest

import irscope as irs
from irscope.runtime.device import MissLog, ObjectStore
from irscope.runtime.program import compile_graph

pytest.importorskip("llvmlite")


def program(number: float, dtype: str = "Float", op: str = "tanh") -> irs.Graph:
    typed = f"{dtype}(64, strides=[1])"
    return irs.fuse(
        irs.parse(f"""graph(%x : {typed}):
  %k : float = prim::Constant[value={number}]()
  %a : {typed} = aten::mul(%x, %k)
  %b : {typed} = aten::{op}(%a)
  return (%b)""")
    ).graph


def compiled(store: ObjectStore, *graphs: irs.Graph) -> None:
    for graph in graphs:
        compile_graph(graph, store=store)


def test_a_miss_names_the_nearest_kernel_and_the_number(tmp_path: Path) -> None:
    store = ObjectStore(tmp_path / "objects")
    compiled(store, program(0.5))
    compiled(store, program(0.25))  # another device object, as in a later process
    compiled(store, program(0.25))
    first, second = MissLog(store).misses()
    assert (first.nearest, first.differs) == ("", "nothing like it was compiled before")
    assert second.nearest == first.kernel
    assert second.differs == "same but for 0.5 → 0.25 at mul#0"
    table = MissLog(store).table()
    assert table["kernel"].tolist() == [first.kernel, second.kernel]
    assert (table["compile ms"] > 0).all()


def test_a_miss_says_what_else_differs(tmp_path: Path) -> None:
    store = ObjectStore(tmp_path / "objects")
    compiled(store, program(0.5), program(0.5, "Double"), program(0.5, op="exp"))
    _, double, other = MissLog(store).misses()
    assert "float64" in double.differs
    assert other.differs == "nothing like it was compiled before"


def test_clearing_forgets_and_damage_is_passed_over(tmp_path: Path) -> None:
    store = ObjectStore(tmp_path / "objects")
    compiled(store, program(0.5))
    assert store.directory is not None
    with (store.directory / "missed").open("ab") as file:
        file.write(b'{"kernel": 1}\nnot a line\n[1]\n\xff\n')
    assert len(MissLog(store).misses()) == 1
    store.clear()
    assert not MissLog(store).misses()
