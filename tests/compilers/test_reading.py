"""`irs.decisions` finds the reading of a source, and says what can be read where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

import irscope as irs
from irscope.compilers.record import Allocation, Decisions, Kernel, OwnMemory, likely, program_of
from irscope.errors import ArgumentError, LoadError, UnknownName
from irscope.transforms.fusion import Cost

TEXT = """graph(%x : Float(1000)):
  %a : Float(1000) = aten::relu(%x)
  %b : Float(1000) = aten::tanh(%a)
  %c : Float(1000) = aten::exp(%a)
  return (%b, %c)
"""


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


def test_several_programs_must_be_named() -> None:
    _, d = made()
    both = Decisions("other", d.programs * 2)
    assert list(both.table()["program"]) == [0, 0, 0, 1, 1, 1]
    with pytest.raises(ArgumentError, match="compiled 2 programs here"):
        both.graph  # noqa: B018


def test_an_unknown_source_is_an_error_that_says_what_can_be_read(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="no reader takes an object of type builtins"):
        irs.decisions(3)
    with pytest.raises(ArgumentError, match="no reader for the compiler 'gcc'"):
        irs.decisions(3, compiler="gcc")
    with pytest.raises(LoadError, match="there is no file or folder"):
        irs.decisions(tmp_path / "no.hlo")
    (tmp_path / "a.what").write_text("?")
    with pytest.raises(LoadError, match=r"no reader takes .*a\.what"):
        irs.decisions(str(tmp_path / "a.what"))
