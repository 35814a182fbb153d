"""What is said of a kernel that had to be compiled: which one is nearest, and by what it differs."""

import subprocess
import sys
from pathlib import Path

import pytest

import irscope as irs
from irscope.errors import ArgumentError
from irscope.runtime.device import MissLog, ObjectStore
from irscope.runtime.program import compile_graph
from tests.programs import ir

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
    assert repr(MissLog(store)) == "<cache of 2 kernels: loaded 1 time, 2 times not found>"  # and the code that calls them is none
    table = MissLog(store).table()
    assert table["kernel"].tolist() == [first.kernel, second.kernel] and (table["compile ms"] > 0).all()


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
    with (store.directory / "compiled").open("ab") as file:
        file.write(b'{"kernel": 1}\nnot a line\n[1]\n\xff\n')
    assert len(MissLog(store).misses()) == 1
    store.clear()
    assert not MissLog(store).misses()


ORDERS = """
import sys
from pathlib import Path
import irscope as irs
from irscope.runtime.device import MissLog, ObjectStore
from irscope.runtime.program import compile_graph

store = ObjectStore(Path(sys.argv[1]))
made = compile_graph(irs.fuse(irs.parse(sys.argv[2])), store=store)
print([kernel.from_disk for kernel in made.kernels], [miss.differs for miss in MissLog(store).misses()][1:])
"""
ONE_MODEL = ir("x y n:Double(64) | k = 0.5; one = 1; a = mul x k; b = tanh y; c = add a b one; d:Double(64) = mul c n | d", "Float(64)")
ANOTHER = ir(
    "wide:Double(64) left right | one = 1; t = tanh left; half = 0.5; u = mul right half; v = add t u one; w:Double(64) = mul wide v | w",
    "Float(64)",
)


def test_a_later_process_finds_what_another_model_computes_in_another_order(tmp_path: Path) -> None:
    """Names, operands of commutative ops, independent ops and inputs stand otherwise; then a number differs, which is said."""

    def run(program: str) -> str:
        command = [sys.executable, "-c", ORDERS, str(tmp_path / "objects"), program]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    assert run(ONE_MODEL) == "[False] []" and run(ANOTHER) == "[True] []"
    assert run(ANOTHER.replace("0.5", "0.25")) == "[False] ['same but for 0.5 → 0.25 at mul#0']"


def test_what_was_compiled_before_is_not_read_to_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of thousands of kernels makes none slower."""
    store = ObjectStore(tmp_path / "objects")
    compiled(store, program(0.5))
    monkeypatch.setattr(ObjectStore, "read_note", lambda *_: pytest.fail("the notes are read"))
    monkeypatch.setattr(ObjectStore, "_files", lambda *_: pytest.fail("the folder is read"))
    compiled(store, program(0.25))


def test_the_users_cache_is_a_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    irs.compile(program(0.5), device="reference")  # which compiles nothing
    assert irs.cache().table().empty and repr(irs.cache()) == "<cache of 0 kernels: loaded 0 times, 0 times not found>"
    with pytest.raises(ArgumentError, match="keeps no kernels"):
        irs.cache("reference")  # type: ignore[arg-type]  # a device that compiles nothing
