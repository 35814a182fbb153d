"""What is asked of groups is answered through their members, and never says that a group is gone."""

from __future__ import annotations

import irscope as irs

T = "Float(4, 4)"
TEXT = f"""graph(%x : {T}):
  %a : {T} = aten::relu(%x)
  %b : {T} = aten::tanh(%a)
  %m : {T} = aten::matmul(%b, %b)
  %c : {T} = aten::relu(%m)
  %d : {T} = aten::tanh(%c)
  return (%d)"""


def test_two_groups_are_kept_apart_by_what_keeps_their_members_apart() -> None:
    f = irs.fuse(irs.parse(TEXT))
    first, second = f.groups
    verdict = f.why_not(first, second)
    assert not verdict
    assert verdict.because == f.why_not("b", "c").because
    assert f.obstacle(first, second).rule == f.obstacle("b", "c").rule  # type: ignore[union-attr]
    assert f.why_not(second, first).because == f.why_not("c", "b").because


def test_a_group_and_a_node_beside_it() -> None:
    f = irs.fuse(irs.parse(TEXT))
    first, second = f.groups
    assert f.why_not(first, "m").because == f.why_not("b", "m").because
    assert f.why_not("m", second).because == f.why_not("m", "c").because


def test_a_group_is_together_with_itself_and_its_members() -> None:
    f = irs.fuse(irs.parse(TEXT))
    for group in f.groups:
        assert f.why_not(group, group)
        for inner in group.blocks[0].nodes:
            assert f.why_not(group, inner)
        assert "gone" not in f.why_alone(group).because
