"""Takes the README's pictures from the real thing: `python docs/site/explorer_picture.py [explorer] [profile] [same]`. It needs torch, and
a Chromium for playwright."""

from __future__ import annotations

import importlib
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import torch
from PIL import Image
from playwright.sync_api import sync_playwright

import irscope as irs
from irscope.display.html import plain_page
from irscope.display.profile_page import profile_cell

ROOT: Final = Path(__file__).resolve().parents[2]
IMAGES: Final = ROOT / "notebooks" / "images"
BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


NEIGHBOURS: Final = """import torch


class Neighbours(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.out = torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)
        self.register_buffer("prior", torch.zeros(384, 384, dtype=torch.float64))

    def forward(self, x):
        h = self.embed(x)
        difference = h[:, None, :] - h[None, :, :]
        distance = (difference * difference).sum(-1)
        weights = torch.softmax(self.prior - distance / 0.07, -1)
        return self.out((weights @ h.double()).float())
"""


class Scaled(torch.nn.Module):
    """Twelve layers with a number of their own each."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(64, 64) for _ in range(12))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for k, layer in enumerate(self.layers):
            x = torch.tanh(layer(x)) * (k + 1) + 1.0
        return x


def explorer(page: Any, folder: Path) -> None:
    """YOLOv3, fused, a view that is asked about, and the classes of equal groups."""
    sys.path.insert(0, str(ROOT))
    from examples.networks.yolov3 import yolov3

    model, x = torch.jit.script(yolov3()), torch.rand(1, 3, 160, 160, generator=torch.Generator().manual_seed(1))
    fusion = irs.fuse(irs.load(model, x, name="YOLOv3"))
    shared = fusion.graph.node("aten::view#0").outputs[0]
    page.goto(irs.write_report(fusion, output=folder / "yolov3.html").as_uri())
    page.locator(".irs-box").first.wait_for(timeout=60_000)
    page.keyboard.press("/")
    page.keyboard.type(f"%{fusion.graph.names[shared]}")
    page.locator(".irs-found [role=option]").first.wait_for()
    page.keyboard.press("Enter")
    page.locator(".irs-sentence", has_text="may share memory").wait_for()
    page.get_by_role("button", name="show in graph").click()
    page.locator(".irs-dock-bar [role=tab]", has_text="Classes").click()
    page.locator(".irs-rung", has_text="constants").click()
    page.locator(".irs-card").first.wait_for()
    page.wait_for_timeout(500)
    page.screenshot(path=IMAGES / "explorer.png")


def profile(page: Any, folder: Path) -> None:
    """A model with two slow lines, as its profile shows them in a notebook."""
    (folder / "neighbours.py").write_text(NEIGHBOURS)
    sys.path.insert(0, str(folder))
    model = importlib.import_module("neighbours").Neighbours().eval()
    body = profile_cell(irs.profile(model, torch.randn(384, 64), threads=1))
    (folder / "profile.html").write_text(plain_page("profile", "profile", body), encoding="utf-8")
    page.goto((folder / "profile.html").as_uri())
    page.set_viewport_size({"width": 980, "height": 1200})
    helps, lines = (page.locator(name).first.bounding_box() for name in ("h2", "details[open]"))
    high = lines["y"] + lines["height"] - helps["y"] + 20
    page.screenshot(path=IMAGES / "profile.png", clip={"x": 0, "y": helps["y"] - 10, "width": 980, "height": high})


def same(page: Any, folder: Path) -> None:
    """A class of twelve groups: what one body for them takes, and two members side by side."""
    fusion = irs.fuse(irs.load(Scaled().eval(), torch.randn(8, 64)))
    page.goto(irs.write_report(fusion, output=folder / "same.html", measure=False).as_uri())
    page.locator(".irs-dock-bar [role=tab]", has_text="Classes").click()
    page.locator(".irs-rung", has_text="constants").click()
    page.locator(".irs-card").first.click()
    page.locator(".irs-dock .irs-whole, .irs-dock-bar .irs-whole").first.click()
    page.locator(".irs-beside").wait_for()
    page.set_viewport_size({"width": 1600, "height": 640})
    page.wait_for_timeout(500)
    page.locator(".irs-same-detail").screenshot(path=IMAGES / "same.png")


def _in_few_colours(path: Path) -> None:
    """Make a file a third as large."""
    with Image.open(path) as picture:
        picture.convert("RGB").quantize(255, Image.Quantize.MAXCOVERAGE).save(path, optimize=True)


def main(*wanted: str) -> None:
    """Take the pictures of these names, or all."""
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=next(filter(None, map(shutil.which, BROWSERS)), None), args=["--no-sandbox"])
        for take in (explorer, profile, same):
            if not wanted or take.__name__ in wanted:
                page = browser.new_page(viewport={"width": 1500, "height": 900})
                take(page, Path(folder))
                page.close()
                _in_few_colours(IMAGES / f"{take.__name__}.png")
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
