"""How fast a long history scrubs: 2,000 merges in headless Chromium, one key event and one drawn frame at a time.

    python tests/benchmarks/bench_timeline.py [steps]

A chain cut into groups of 11 nodes, 10 merges each. The right arrow key is pressed on the slider as often as there are
steps; after each press the script waits for the next frame and asks the page which step its slider, its text and its
graph show. Presses go through the browser's input pipeline, not through a script of the page.
"""

import shutil
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from playwright.sync_api import Page, sync_playwright

import irscope as irs

SIZE = 11
OPS = ("relu", "tanh", "neg", "sigmoid")
FRAME = "() => new Promise(done => requestAnimationFrame(() => done(%s)))"
SHOWN = """[+document.querySelector('.irs-track').getAttribute('aria-valuenow'),
  document.querySelectorAll('.irs-line.t-now').length, document.querySelectorAll('.irs-box.t-now').length]"""


def chain(merges: int) -> str:
    """A chain of pointwise ops, cut by a product after every 11."""
    lines, last = ["graph(%x : Float(64, 64)):"], "x"
    for group in range(merges // (SIZE - 1)):
        for k in range(SIZE):
            lines.append(f"  %v{group}_{k} : Float(64, 64) = aten::{OPS[k % 4]}(%{last})")
            last = f"v{group}_{k}"
        lines.append(f"  %m{group} : Float(64, 64) = aten::matmul(%{last}, %x)")
        last = f"m{group}"
    return "\n".join([*lines, f"  return (%{last})"])


def scrub(page: Page, key: str, times: int) -> list[float]:
    """Seconds of each press up to the frame that shows it; checks that every pane followed."""
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        page.keyboard.press(key)
        shown = page.evaluate(FRAME % SHOWN)
        taken.append(time.perf_counter() - start)
        assert shown[0] == 0 or min(shown[1:]) > 0, f"a pane did not follow to step {shown[0]}"
    return taken


def main() -> None:
    merges = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    fusion = irs.fuse(irs.parse(chain(merges)))
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        report = irs.write_report(fusion.history, output=Path(folder) / "history.html")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1400, "height": 860})
        page.goto(report.as_uri())
        page.locator(".irs-box").first.wait_for()
        page.locator(".irs-track").focus()
        for state in ("groups closed", "groups open"):
            if state == "groups open":
                page.get_by_role("button", name="open all").click()
            page.locator(".irs-track").focus()
            page.keyboard.press("Home")
            taken = scrub(page, "ArrowRight", merges)
            assert page.locator(".irs-track").get_attribute("aria-valuenow") == str(merges)
            ordered = sorted(taken)
            print(
                f"{state}: {merges:,} steps in {sum(taken):.1f} s, {merges / sum(taken):.0f} steps/s; a step takes "
                f"{1e3 * median(taken):.0f} ms in the median, {1e3 * ordered[int(0.99 * merges)]:.0f} ms at the 99th percentile"
            )
        browser.close()


if __name__ == "__main__":
    main()
