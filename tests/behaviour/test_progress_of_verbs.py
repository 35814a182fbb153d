"""Work that may take more than a second shows how far it is, and may be interrupted at a step of it: what is asked next is answered."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import irscope as irs
from irscope._base import running
from tests._base.test_progress import Bar
from tests.programs import ir

tqdm = pytest.importorskip("tqdm")
pytest.importorskip("llvmlite")

PROGRAM = ir("x w | a = relu x; b = tanh_ a; c = matmul b w; d = sigmoid c; e = neg d | e", "Float(8, 8, strides=[8, 1])")

VERBS: dict[str, tuple[Callable[[Any, Path], object], set[str]]] = {
    "fuse": (lambda graph, _: irs.fuse(graph), {"fusing"}),
    "dedup": (lambda graph, _: irs.dedup(irs.fuse(graph)).ladder(), {"comparing pieces", "classes by extents"}),
    "compile": (lambda graph, _: len(irs.compile(irs.fuse(graph), share_kernels=False).kernels), {"compiling kernels"}),
    "explore": (lambda graph, _: irs.explore(graph), {"fusing", "drawing"}),
    "report": (lambda graph, place: irs.write_report(graph, output=place / "r.html"), {"answers for the page", "kernels for the page"}),
    "pipeline": (lambda graph, _: irs.Pipeline("cse,fuse")(graph), {"passes", "fusing"}),
}


class Told(Bar):
    """A bar whose label is known, and at one of whose steps Ctrl-C may be pressed."""

    labels: list[str]
    hit: int
    drawn: int

    def __init__(self, total: int, initial: int, desc: str, **given: Any) -> None:
        super().__init__(total, initial)
        self.labels.append(desc)

    def refresh(self) -> None:
        Told.drawn += 1
        if Told.drawn == Told.hit:
            raise KeyboardInterrupt

    def update(self, count: int) -> None:
        super().update(count)
        self.refresh()


@pytest.fixture
def bars(monkeypatch: pytest.MonkeyPatch) -> type[Told]:
    Bar.made, Told.labels, Told.hit, Told.drawn = [], [], 0, 0
    monkeypatch.setattr(tqdm, "tqdm", Told)
    monkeypatch.setattr(running, "_QUIET_SECONDS", 0.0)
    return Told


@pytest.mark.parametrize("name", VERBS)
def test_it_says_what_it_does_and_is_done_in_the_end(name: str, bars: type[Told], tmp_path: Path) -> None:
    verb, labels = VERBS[name]
    verb(irs.parse(PROGRAM), tmp_path)
    assert labels <= set(bars.labels)
    assert all(bar.is_closed and 0 < bar.n <= bar.total for bar in bars.made), [(bar.n, bar.total) for bar in bars.made]


def test_a_capture_says_how_many_ops_it_has_seen(bars: type[Told]) -> None:
    torch = pytest.importorskip("torch")
    g = irs.load(torch.nn.Sequential(*[torch.nn.Tanh() for _ in range(20)]), torch.ones(2))
    assert bars.labels == ["capturing with torch.export"] and bars.made[0].is_closed
    assert bars.made[0].n >= len(list(g.nodes())) == 20


@pytest.mark.parametrize("name", ["fuse", "dedup", "report"])
def test_interrupted_at_a_step_it_does_all_when_asked_again(name: str, bars: type[Told], tmp_path: Path) -> None:
    verb, _ = VERBS[name]
    expected = repr(verb(irs.parse(PROGRAM), tmp_path))
    for hit in {1, bars.drawn // 2, bars.drawn}:
        graph, bars.hit, bars.drawn = irs.parse(PROGRAM), hit, 0
        with pytest.raises(KeyboardInterrupt):
            verb(graph, tmp_path)
        bars.hit = 0
        assert repr(verb(graph, tmp_path)) == expected
