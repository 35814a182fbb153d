"""`irs.decisions` finds the reading of a source, and says what can be read where there is none."""

from pathlib import Path

import pytest

import irscope as irs
from irscope.analysis.memory_plan import Allocation, OwnMemory
from irscope.compilers.record import Change, Decisions, Kernel, likely, program_of
from irscope.errors import ArgumentError, LoadError, UnknownName
from irscope.transforms.fusion import Cost
from tests.programs import ir

TEXT = ir("x | a = relu x; b = tanh a; c = exp a | b c", "Float(1000)")


def made() -> tuple[irs.Graph, Decisions]:
    g = irs.parse(TEXT)
    a, b, c = g.nodes()
    kernels = [Kernel("k0", (a, b)), Kernel("k1", (a, c)), Kernel("layout", part_of=(c,), certainty="guessed", bytes=8000)]
    return g, Decisions("other", (program_of(g, kernels, compiler="other", notes=("seen",)),))


def test_a_program_of_kernels_has_their_groups_bytes_and_what_is_recomputed() -> None:
    g, d = made()
    assert [kernel.bytes for kernel in d.kernels] == [8000, 8000, 8000]
    assert [[each.node for each in kernel.recomputed] for kernel in d.kernels] == [[g.node("a")], [g.node("a")], []]
    assert d.kernels[0].recomputed[0].bytes == 4000 and d.kernels[0].recomputed[0].operations >= 1000
    assert [kernel.group for kernel in d.kernels] == [*d.fusion.groups, None]
    assert d.program.kernels_of("a") == d.kernels[:2] and d.program.kernels_of("c") == d.kernels[1:]
    assert d.fusion.cost() == Cost(kernels=3, calls=0, bytes=24000), "also of the kernel that is no group"
    assert repr(d) == "<Decisions of other: 3 kernels, 0 library calls>"
    assert repr(d.kernels[2]) == "<kernel layout: a part of exp, 8 kB (guessed)>"
    assert list(d.table()["recomputed"]) == [1, 1, 0]
    assert not d.why_not(d.kernels[0], d.kernels[1]) and d.why_not("a", "c")
    with pytest.raises(ArgumentError, match="computes no op"):
        d.why_not("a", Kernel("nothing"))
    with pytest.raises(UnknownName, match="made no kernel 'k9'"):
        d.program.kernel("k9")


PLACES = """graph(%x : Float(8, 8)):
  %add : Float(8, 8) = aten::neg(%x), scope: blocks.0.norm # model.py:3:0
  %t : Float(8, 8) = aten::t(%add), scope: blocks.0 # model.py:4:0
  %a : Float(8, 8) = aten::exp(%t), scope: blocks.0.mlp.0 # model.py:5:0
  %b : Float(8, 8) = aten::tanh(%a), scope: blocks.0.mlp.1 # model.py:5:0
  %c : Float(8, 8) = aten::exp(%b), scope: blocks.1.mlp.0 # model.py:5:0
  %d : Float(8, 8) = aten::tanh(%c), scope: blocks.1.mlp.1 # model.py:5:0
  return (%d)
"""


def test_a_question_is_asked_in_the_words_of_the_model() -> None:
    g = irs.parse(PLACES)
    neg, t, *ops = g.nodes()
    gone = [
        Change("vanished", "aten.dropout.default", "drop", because="nothing read it"),
        Change("vanished", "aten.t.default", "t", at=(t,)),
    ]
    kernels = [Kernel("k0", (neg,)), Kernel("k1", (*ops[:2],)), Kernel("k2", (ops[2],)), Kernel("k3", (ops[3],))]
    called = {"add": (neg,), "act": (ops[1], ops[3]), "c": (ops[0],)}
    program = program_of(g, kernels, compiler="other", changes=tuple(gone), called=called)
    asked = {
        name: program.named(name) for name in ("blocks.0", "self.blocks.0.mlp", "mlp.1", "model.py:4", "F.act", "aten::exp", "k1", "%add")
    }
    assert asked["blocks.0"] == (neg, *ops[:2]) and asked["self.blocks.0.mlp"] == tuple(ops[:2]) and asked["mlp.1"] == (ops[1], ops[3])
    assert asked["model.py:4"] == (t,) and asked["F.act"] == (ops[1], ops[3]) and asked["aten::exp"] == (ops[0], ops[2])
    assert asked["k1"] == tuple(ops[:2]) and asked["%add"] == (g.value("add"),)
    assert program.named("c") == (g.value("c"),), "the name that is printed, not that of torch's own graph"
    told = program.why_not("exp", "tanh")
    assert told and told.because == "other computes both in k1 (asked of exp %a, tanh %b; apart: exp %c and tanh %d, exp %c and tanh %b)"
    assert program.why_not(program.kernels[1], program.kernels[1]).because == "both are k1"
    assert str(program.why_not("aten::dropout", "exp")) == "not fused: other has no kernel for aten.dropout.default %drop (nothing read it)"
    assert "no kernel for aten.t.default %t" in program.why_not("t", "exp").because
    assert "k0 (%add, model.py:3)" in program.why_not("neg", "%d").because
    for number in (5, "5"):
        with pytest.raises(ArgumentError, match="the number 5 names no op") as error:
            program.why_not(number, "exp")
        assert '"model.py:5", a kernel d.kernels[5]' in error.value.hint
    with pytest.raises(UnknownName) as lost:
        program.why_not("model.py:7", "exp")
    assert "model.py:5" in lost.value.hint


def test_where_all_links_cannot_be_so_the_surer_ones_are_shown_with_a_note() -> None:
    g = irs.parse(TEXT.replace("%c : Float(1000) = aten::exp(%a)", "%c : Float(1000) = aten::exp(%b)"))
    a, b, c = g.nodes()
    circle = [Kernel("around", (a, c), certainty="guessed"), Kernel("between", (b,))]
    program = likely(g, circle, compiler="other", notes=("seen",))
    assert [kernel.nodes for kernel in program.kernels] == [(), (b,)] and program.kernels[0].part_of == (a, c)
    assert program.notes[0] == "seen" and "cannot run one after the other" in program.notes[1]
    assert likely(g, [Kernel("k0", (a, b, c))], compiler="other").notes == ()


def test_memory_under_several_names_counts_once() -> None:
    held = [Allocation("a", 8, 0, 0, block=1), Allocation("b", 8, 1, 1, "in the memory of a", 1), Allocation("c", None, 1, 2, block=2)]
    memory = OwnMemory("a log", ("k0", "k1", "k2"), (*held, Allocation("d", 4, 1, 1, block=3)))
    assert (memory.curve, memory.peak, memory.unknown) == ([8, 12, 0], 12, 1)


def test_every_picture_has_the_kernels() -> None:
    _, d = made()
    for thing in (d, d.program):
        assert (thing.to_svg(), thing.to_dot()) == (d.fusion.to_svg(), d.fusion.to_dot()) and "cluster" in thing.to_dot()


def test_several_programs_must_be_named() -> None:
    _, d = made()
    both = Decisions("other", d.programs * 2)
    assert list(both.table()["program"]) == [0, 0, 0, 1, 1, 1] and list(Decisions("other", ()).table()) == list(both.table())
    with pytest.raises(ArgumentError, match="compiled 2 programs here"):
        both.graph  # noqa: B018


def test_an_unknown_source_is_an_error_that_says_what_can_be_read(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="no reader takes an object of type builtins"):
        irs.decisions(3)
    with pytest.raises(ArgumentError, match="no reader for the compiler 'gcc'"):
        irs.decisions(3, compiler="gcc")
    with pytest.raises(ArgumentError, match="no reader for the compiler 'onnxrutime'") as error:
        irs.decisions(print, compiler=("inductor", "onnxrutime"))  # before Inductor is asked
    assert error.value.hint.startswith("did you mean 'onnxruntime'? there are inductor, ")
    with pytest.raises(ArgumentError, match="no compiler is named"):
        irs.decisions(3, compiler=())
    with pytest.raises(LoadError, match="there is no file or folder"):
        irs.decisions(tmp_path / "no.hlo")
    (tmp_path / "a.what").write_text("?")
    with pytest.raises(LoadError, match=r"no reader takes .*a\.what"):
        irs.decisions(str(tmp_path / "a.what"))
    (tmp_path / "rank0.log.gz").write_bytes(b"\x1f\x8b")
    for packed in (tmp_path, tmp_path / "rank0.log.gz"):
        with pytest.raises(LoadError, match="unpack it with gunzip"):
            irs.decisions(packed)
