"""Takes the README's picture from the real thing: `python docs/site/explorer_picture.py`. It needs torch, and a Chromium for playwright."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import torch
from playwright.sync_api import sync_playwright

import irscope as irs

ROOT: Final = Path(__file__).resolve().parents[2]
PICTURE: Final = ROOT / "notebooks" / "images" / "explorer.png"
BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def main() -> None:
    """YOLOv3, fused, a view that is asked about, and the classes of equal groups."""
    sys.path.insert(0, str(ROOT))
    from examples.networks.yolov3 import yolov3

    model, x = torch.jit.script(yolov3()), torch.rand(1, 3, 160, 160, generator=torch.Generator().manual_seed(1))
    fusion = irs.fuse(irs.load(model, x, name="YOLOv3"))
    shared = fusion.graph.node("aten::view#0").outputs[0]
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        report = irs.write_report(fusion, output=Path(folder) / "yolov3.html")
        browser = playwright.chromium.launch(executable_path=next(filter(None, map(shutil.which, BROWSERS)), None), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1500, "height": 900})
        page.goto(report.as_uri())
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
        page.screenshot(path=PICTURE)
        browser.close()


if __name__ == "__main__":
    main()
