"""What two compilers decided about one program, in a real Lab: one strip, the difference of two branches, and the names of kernels."""

from collections.abc import Iterator

import pytest

from tests.browser.conftest import ACTIVE, Lab, expect, prints

PROGRAM = '''
import irscope as irs
from irscope.compilers.record import Decisions, Kernel, program_of
TEXT = """graph(%x : Float(64, 64)):
  %a : Float(64, 64) = aten::relu(%x), scope: body # model.py:3:0
  %b : Float(64, 64) = aten::tanh(%a), scope: body # model.py:4:0
  %c : Float(64, 64) = aten::exp(%b), scope: head # model.py:5:0
  %d : Float(64, 64) = aten::sin(%c), scope: head # model.py:6:0
  return (%d)"""
def decided(compiler, *groups):
    g = irs.parse(TEXT)
    kernels = [Kernel(name, tuple(map(g.node, names))) for name, names in groups]
    return Decisions(compiler, (program_of(g, kernels, compiler=compiler),))
first = decided("first", ("relu_tanh_0", "ab"), ("exp_sin_1", "cd"))
second = decided("second", ("loop_fusion", "abc"), ("sine", "d"))
e = irs.explore(first, second)
e
'''
LIVE = f"{ACTIVE} .irs"
ROWS = f"{LIVE} .irs-branch"


@pytest.fixture(scope="module")
def views(lab: Lab) -> Iterator[Lab]:
    with lab.shown("compilers.ipynb", PROGRAM, until=".irs .irs-branches", seconds=90):
        yield lab


def test_two_compilers_stand_in_one_strip_with_the_names_of_their_kernels(views: Lab) -> None:
    page = views.page
    expect(page.locator(ROWS)).to_have_count(4)
    assert [name.partition(" ")[2] for name in page.locator(f"{ROWS} .irs-branch-name").all_inner_texts()] == [
        "first", "irscope greedy", "irscope min-bytes", "second",
    ]  # fmt: skip
    expect(page.locator(ROWS).nth(3)).to_contain_text("4 of 4 ops")
    expect(page.locator(f"{LIVE} .irs-graph .irs-label", has_text="relu_tanh_0")).to_have_count(1)
    kernels = page.locator(f"{LIVE} .irs-dock [data-row]")
    kernels.nth(0).click()
    kernels.nth(1).click(modifiers=["Shift"])
    expect(page.locator(f"{LIVE} .irs-dock .irs-row.selected")).to_have_count(2)
    expect(page.locator(f"{LIVE} .irs-inspector")).to_contain_text("first gave no reason")
    page.locator(ROWS).nth(3).get_by_role("button", name="compare branch 3").click()
    expect(page.locator(f"{LIVE} .irs-branch-diff")).to_contain_text("4 of 4 ops matched (4 by line and op)")
    page.locator(f"{ROWS} .irs-branch-name", has_text="second").click()
    page.locator(f"{ROWS}.shown", has_text="second").wait_for()
    expect(page.locator(f"{LIVE} .irs-graph .irs-label", has_text="loop_fusion")).to_have_count(1)
    prints(views, "(e.branch, e.branches[3].fusion.why_not('b', 'c').holds)", "(3, True)")
