"""Damaged programs and files end in an error of irscope's own, or work; those that once did not, cut down to the lines that matter."""

import contextlib
import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import irscope as irs
from tests.oracles.counts import Counts
from tests.oracles.damaged_files import KINDS as FILES
from tests.oracles.damaged_files import whole, zipped
from tests.oracles.everything import trouble
from tests.oracles.files_run import PROGRAMS, survey
from tests.oracles.mutations import mutated
from tests.programs import ir, parsed

SEEDS = dict.fromkeys(FILES, (4, 2000, 100)) | dict.fromkeys(PROGRAMS, (120, 20_000, 500))
"""How many are tried in the suite and in the long run, and how many in one test of that."""
NEEDED = {"pt": "torch", "pt2": "torch", "onnx": "onnx", "mlir": "jax", "mlirbc": "jax"}
RUNS = [(kind, 0, few) for kind, (few, _, _) in SEEDS.items()]
LONG = [(kind, first, min(each, most - first)) for kind, (few, most, each) in SEEDS.items() for first in range(few, most, each)]


@pytest.mark.parametrize(("kind", "first", "count"), [*RUNS, *(pytest.param(*run, marks=pytest.mark.long) for run in LONG)])
def test_damage(kind: str, first: int, count: int, tell: Callable[[Counts], None]) -> None:
    pytest.importorskip(NEEDED.get(kind, "numpy"))
    found = Counts("files" if kind in FILES else kind)
    for ended in survey(kind, first, count):
        found.add(ended.way, ended.said, ended.program)
    tell(found)
    found.assert_sound()


def test_most_damage_is_seen_and_much_is_harmless() -> None:
    """The mutations reach past the reader: a fair part of the programs still load."""
    loaded = 0
    for seed in range(120):
        with contextlib.suppress(irs.IrscopeError):
            irs.load(mutated(seed))
            loaded += 1
    assert 120 * 0.12 < loaded < 120 * 0.9


GROUPED = ir("x | a = relu x; b = tanh a; s = cumsum b one none; c = exp s; d = neg c | d", "Float(2, 3)").replace(
    "  %s", "  %one : int = prim::Constant[value=1]()\n  %none : NoneType = prim::Constant()\n  %s"
)


@pytest.mark.parametrize("view_groups", [False, True])
def test_a_program_that_has_groups_is_shown_fused_again_and_compiled(view_groups: bool) -> None:
    once = irs.fuse(irs.parse(GROUPED), view_groups=view_groups)
    assert len(once.groups) == 2
    for graph in (once.graph, irs.parse(str(once.graph))):
        assert trouble(str(graph), compiled=True) == ""
        again = irs.fuse(graph, view_groups=view_groups)
        assert again.groups == () and str(again.graph) == str(graph)
        inside = again.why_not("a", "b.1")
        assert inside and "%b" in inside.because
        apart = again.obstacle("a", "s")
        assert apart is not None and apart.rule == "given-group" and "already" in apart.because
        assert again.why_alone("a") and again.group_of("a") is graph.node("b")


def test_a_loop_in_a_group_stays_as_it_is() -> None:
    """Groups are not made inside of groups, nor inside of unknown ops."""
    body = """
      %i : Float(2, 3) = prim::If(%c)
        block0():
          %p : Float(2, 3) = aten::relu(%y)
          %q : Float(2, 3) = aten::tanh(%p)
          -> (%q)
        block1():
          -> (%y)
      -> (%i)"""
    for op in ("prim::FusionGroup", "my::region"):
        text = f"graph(%x : Float(2, 3), %c.1 : bool):\n  %z : Float(2, 3) = {op}(%x, %c.1)\n"
        text += f"    block0(%y : Float(2, 3), %c : bool):{body}\n  return (%z)"
        fusion = irs.fuse(irs.parse(text))
        assert fusion.groups == ()
        assert fusion.obstacle("p", "q").rule == "given-group" if op == "my::region" else fusion.why_not("p", "q")
        assert trouble(text) == ""


@pytest.mark.parametrize(("given", "columns"), [("", 6), ("axis", 6), ("axis two", 4), ("axis none two", 2)])
def test_a_range_is_replaced_with_operands_left_out(given: str, columns: int) -> None:
    rows = 4
    graph = parsed(
        f"x part:Float({rows}, {columns}) | axis = 1; two = 2; none = None; a = neg x; p = slice_scatter x part {given}; r = mul p a | r",
        f"Float({rows}, 6)",
    )
    pick = np.random.default_rng(0)
    args = [pick.normal(size=size).astype(np.float32) for size in ((rows, 6), (rows, columns))]
    expected = irs.compile(graph, device="reference")(*args)
    np.testing.assert_array_equal(irs.compile(irs.fuse(graph))(*args), expected)


@pytest.mark.parametrize("parts", [1, 3])
def test_a_list_that_is_unpacked_as_one_of_another_length(parts: int) -> None:
    """The group has no kernel, and its nodes say at their place what is wrong."""
    text = ir(
        f"x:Float(2, 6, strides=[6, 1]) | one = 1; parts = {parts}; g:Float(2, 6) = neg x; l:Tensor[] = chunk g parts one; "
        "a:Float(2, 3, strides=[6, 1]) b:Float(2, 3, strides=[6, 1]) = ListUnpack l; s = sigmoid a; t = tanh b; r = mul s t | r",
        "Float(2, 3)",
    )
    assert trouble(text, compiled=True) == ""
    with pytest.raises(irs.IrscopeError, match=f"unpack {parts} values? into 2"):
        irs.compile(irs.fuse(irs.parse(text)))(np.zeros((2, 6), np.float32))


@pytest.mark.parametrize(("record", "part", "other", "told"), [
    ("models/model.json", b"aten.relu.default", b"aten.nope.default", "aten.nope"),
    ("models/model.json", b'"as_tensor": {"name": "x"}', b'"as_tensor": {"name": "z"}', "KeyError: 'z'"),
    ("models/model.json", b'"graph_module"', b'"graph_modul"', "graph_module"),
    ("models/model.json", b'"schema_version": {"major": 8', b'"schema_version": {"major": 80', "80"),
    ("data/weights/model_weights_config.json", b"}", b"", "model_weights_config.json is damaged"),
    ("data/weights/model_weights_config.json", b'"as_int": 4', b'"as_int": 400', "out of bounds"),
])  # fmt: skip
def test_a_damaged_program_of_torch_export_is_reported_in_a_few_lines(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], record: str, part: bytes, other: bytes, told: str
) -> None:
    """What torch says of it holds the program, its own stack and, in its log, both once more."""
    pytest.importorskip("torch")
    with zipfile.ZipFile(io.BytesIO(whole("pt2")[0])) as archive:
        records = [(name, archive.read(name)) for name in archive.namelist()]
    assert any(name.endswith(record) and part in held for name, held in records)
    damaged = [(name, held.replace(part, other) if name.endswith(record) else held) for name, held in records]
    path = tmp_path / "damaged.pt2"
    path.write_bytes(zipped(damaged))
    with pytest.raises(irs.IrscopeError) as caught:
        irs.load(path)
    said = str(caught.value)
    assert told in said
    assert "Traceback" not in said and "Original exception" not in said and len(said) < 1500
    printed = capfd.readouterr()
    assert printed.out + printed.err == ""


def test_bytecode_with_a_name_that_is_not_text(tmp_path: Path) -> None:
    pytest.importorskip("jaxlib")
    content = next(found for found in whole("mlirbc") if b"main" in found)
    path = tmp_path / "damaged.mlirbc"
    path.write_bytes(content.replace(b"main", b"m\xff\xfen"))
    with pytest.raises(irs.IrscopeError):
        irs.load(path)
