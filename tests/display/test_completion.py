"""The Tab key inside a string, in an IPython shell of its own."""

from __future__ import annotations

import pytest

import irscope as irs
from irscope.display.ipython import register_completion

TEXT = "graph(%x : Tensor):\n  %conv : Tensor = aten::relu(%x)\n  %cost : Tensor = aten::tanh(%conv)\n  return (%cost)"


def test_names_of_values_are_offered_where_a_method_is_asked() -> None:
    shells = pytest.importorskip("IPython.core.interactiveshell")
    completers = pytest.importorskip("IPython.core.completer")
    shell = shells.InteractiveShell()
    g = irs.parse(TEXT)
    shell.user_ns.update(g=g, f=irs.fuse(g), db=irs.AliasDb(g), other="co")
    for _ in range(2):
        register_completion(shell)
    def applied(line: str) -> list[str]:
        with completers.provisionalcompleter():
            found = shell.Completer.completions(line, len(line))
            return [line[: each.start] + each.text + line[each.end :] for each in found]

    for line, wanted in (
        ('f.why_not("co', ['f.why_not("conv', 'f.why_not("cost']),
        ('f.why_not("x", "cos', ['f.why_not("x", "cost']),
        ("db.may_alias('co", ["db.may_alias('conv", "db.may_alias('cost"]),
        ('f.graph.value("con', ['f.graph.value("conv']),
    ):
        assert set(wanted) <= set(applied(line)), line
    for line in ('other.count("co', 'nobody.f("co', 'irs.parse("co'):
        assert not [found for found in applied(line) if "conv" in found or "cost" in found], line
