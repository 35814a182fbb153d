"""What explores, runs, compares and sorts programs takes what another compiler decided."""

import numpy as np

import irscope as irs
from irscope.compilers.record import Decisions, Kernel, program_of
from irscope.report.pages import Branches
from irscope.runtime.reference import run_reference
from irscope.session import exploration
from irscope.transforms.fusion import GivenGroup, given_fusion
from tests.programs import ir

TEXT = ir("x | a = relu x; b = tanh a; c = exp a | b c", "Float(1000)")


def test_the_verbs_see_the_program_with_that_compilers_groups() -> None:
    """They ignore its names for kernels."""
    g = irs.parse(TEXT)
    a, b, c = g.nodes()
    d = Decisions("other", (program_of(g, [Kernel("k0", (a, b)), Kernel("k1", (a, c))], compiler="other"),))
    x = np.linspace(-2, 2, 1000, dtype=np.float32)
    for got, want in zip(irs.compile(d)(x), run_reference(g, x), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)
    assert len(irs.fuse(d).groups) == 1, "irscope's own, of the same program"
    assert len(irs.dedup(d).classes) == 2 and irs.memory_plan(d).peak > 0
    assert list(irs.compare(d, x, repeats=1).table().index)[-1] == "other's groups"
    shown = exploration(d, (), measure="never")
    assert shown.fusion is d.fusion and Branches(shown).code(0) == "f = irs.decisions(…).fusion"
    one, other = (given_fusion(g, [GivenGroup(name, (a, b))], compiler=name) for name in ("one", "other"))
    assert not len(irs.diff(one, other).table()) and repr(one) == "<Fusion of 'graph': 2 nodes in 1 group>"
