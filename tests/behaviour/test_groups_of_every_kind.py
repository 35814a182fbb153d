"""A group is a group for everyone: whichever of the names torch's fusers have for it stands there, it is verified,
followed, cleaned up, compared and run like any other."""

import numpy as np
import pytest

import irscope as irs
from irscope.errors import VerifyError
from irscope.ir import GROUPS, Graph
from irscope.ir.invariants import verify
from irscope.transforms.cleanup import remove_dead_nodes

TEXT = """graph(%x : Tensor):
  %c : float = prim::Constant[value=2.]()
  %m : Tensor = aten::mul(%x, %c)
  %a : Tensor = GROUP_0(%x)
  %b : Tensor = GROUP_1(%m)
  return (%a, %m)
with GROUP_0 = graph(%p : Tensor):
  %d : float = prim::Constant[value=2.]()
  %q : Tensor = aten::mul(%p, %d)
  %r : Tensor = aten::exp(%q)
  return (%r)
with GROUP_1 = graph(%p : Tensor):
  %e : float = prim::Constant[value=2.]()
  %q : Tensor = aten::mul(%p, %e)
  %r : Tensor = aten::exp(%q)
  return (%r)
"""

groups = pytest.mark.parametrize("group", sorted(GROUPS))


def program(group: str) -> Graph:
    return irs.parse(TEXT.replace("GROUP", group))


@groups
def test_a_group_runs_what_is_in_it(group: str) -> None:
    given = np.arange(3, dtype=np.float32)
    for device in ("cpu", "reference"):
        found, doubled = irs.compile(program(group), device=device)(given)
        np.testing.assert_allclose(found, np.exp(2 * given), rtol=1e-6)
        np.testing.assert_array_equal(doubled, 2 * given)


@groups
def test_a_group_without_users_goes(group: str) -> None:
    after = remove_dead_nodes(program(group)).after
    assert [node.op for node in after.body.nodes] == ["prim::Constant", "aten::mul", group]


@groups
def test_groups_are_the_pieces_that_are_compared(group: str) -> None:
    (found,) = irs.dedup(program(group)).classes
    assert [getattr(member, "op", member) for member in found.members] == [group, group]


@groups
def test_nothing_from_outside_comes_into_a_group(group: str) -> None:
    given = program(group)
    after = irs.Pipeline("cse,pool-constants")(given).graph
    verify(after)
    inside = [node.op for node in after.nodes() if node not in after.body.nodes]
    assert inside == ["prim::Constant", "aten::mul", "aten::exp"] * 2
    leaking = str(given).replace("aten::exp(%q)", "aten::mul(%q, %m)", 1)
    with pytest.raises(VerifyError) as caught:
        verify(irs.parse(leaking))
    assert caught.value.rule == "group-isolated"


@groups
def test_a_group_shares_what_its_block_shares(group: str) -> None:
    text = f"graph(%x : Tensor):\n  %v : Tensor = {group}_0(%x)\n  return (%v)\n"
    text += f"with {group}_0 = graph(%p : Tensor):\n  %q : Tensor = aten::t(%p)\n  return (%q)\n"
    assert irs.AliasDb(irs.parse(text)).must_alias("v", "x")
