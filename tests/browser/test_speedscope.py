"""Traces of a profile open in speedscope, an independent reader: both its own format and Chrome's.

speedscope is a development dependency of `widgets/`; its page is served from the disk, and opens the trace as a file.
"""

from pathlib import Path
from typing import Any

import pytest

import irscope as irs
from tests.browser.conftest import PATIENCE_MS

torch = pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]
SPEEDSCOPE = ROOT / "widgets" / "node_modules" / "speedscope" / "dist" / "release" / "index.html"

HOST = "http://speedscope.test/"

pytestmark = pytest.mark.skipif(not SPEEDSCOPE.exists(), reason="speedscope is not installed: npm ci in widgets/")


class Model(torch.nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(64, 64)

    def forward(self, x: Any) -> Any:
        return torch.softmax(self.first(x), -1).t().contiguous()


def served(route: Any) -> None:
    """A file of speedscope's, in place of the network."""
    name = route.request.url.partition(HOST)[2].partition("?")[0].partition("#")[0] or "index.html"
    path = SPEEDSCOPE.parent / name
    route.fulfill(path=path) if path.is_file() else route.abort()


def opened(browser: Any, trace: Path) -> str:
    """The text of speedscope's page with a trace in it; asserts that nothing went wrong."""
    page = browser.new_page()
    page.set_default_timeout(PATIENCE_MS)
    said: list[str] = []
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    page.route(f"{HOST}**", served)
    page.goto(HOST)
    page.locator("input[type=file]").set_input_files(trace)
    page.get_by_text("Sandwich").click()
    page.get_by_text("aten::linear").first.wait_for()
    text: str = page.locator("body").inner_text()
    page.close()
    assert not said, said
    return text


@pytest.mark.parametrize("kind", ["speedscope", "chrome"])
def test_a_trace_opens_in_speedscope(browser: Any, tmp_path: Path, kind: str) -> None:
    p = irs.profile(Model(), torch.ones(32, 64), seconds=0.05)
    path = tmp_path / "x.json"
    p.to_speedscope(path) if kind == "speedscope" else p.save(path)
    text = opened(browser, path)
    assert "aten::linear" in text and "aten::softmax" in text
