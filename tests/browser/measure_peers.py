"""Model Explorer beside a report of ours, on the same graphs: `python -m tests.browser.measure_peers PATH/TO/model-explorer [sizes]`.

Model Explorer (`ai-edge-model-explorer` from PyPI, in an environment of its own) gets each chain of `measure_explorer` as its graph JSON,
with modules as layers and without; irscope writes its report. Times are seconds of the clock from the page's address to the first
picture, and milliseconds from a click on the outermost box until the picture is another one, each as often as `--times` says: medians.
What shows no picture after `--patience` seconds is reported as such, with what the page said.
"""

import argparse
import contextlib
import json
import statistics
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import irscope as irs
from tests.browser.conftest import chromium
from tests.browser.measure_explorer import PROGRAM

PORT = 8123
LAYER = (413, 481)
"""Where Model Explorer draws the button of the one layer of a chain, in a window of 1280 x 800."""
STAGE = {"x": 0, "y": 110, "width": 900, "height": 580}
DRAWN = "() => document.querySelectorAll('canvas').length > 2 && !document.body.innerText.includes('Processing')"


def model_explorer_graph(graph: irs.Graph) -> list[dict[str, Any]]:
    """A program without blocks in the JSON that Model Explorer reads."""
    maker = {output: node for node in graph.nodes() for output in node.outputs}
    inputs = [{"id": graph.names[value], "label": graph.names[value], "namespace": "", "incomingEdges": []} for value in graph.inputs]
    nodes = []
    for node in graph.nodes():
        edges = [
            {"sourceNodeId": graph.names[value], "sourceNodeOutputId": "0", "targetNodeInputId": str(place)}
            for place, value in enumerate(node.inputs) if value in maker or value in graph.inputs
        ]  # fmt: skip
        name = graph.names[node.outputs[0]]
        nodes.append({"id": name, "label": node.op, "namespace": node.scope.replace(".", "/"), "incomingEdges": edges})
    return [{"id": graph.name, "nodes": inputs + nodes}]


@contextlib.contextmanager
def served(command: str, folder: Path) -> Iterator[None]:
    with (folder / "log").open("w") as log:
        arguments = [command, "--no_open_in_browser", "--port", str(PORT), "--skip_health_check"]
        process = subprocess.Popen(arguments, stdout=log, stderr=subprocess.STDOUT)
        try:
            for _ in range(100):
                with contextlib.suppress(OSError), urllib.request.urlopen(f"http://localhost:{PORT}/check_health", timeout=2):
                    break
                time.sleep(0.2)
            yield
        finally:
            process.terminate()


def first_picture(page: Any, url: str, is_drawn: str, patience: float) -> float | str:
    """Seconds until a page shows something, or what went wrong."""
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error).splitlines()[0]))
    started = time.perf_counter()
    page.goto(url, wait_until="commit")
    try:
        page.wait_for_function(is_drawn, timeout=1000 * patience, polling="raf")
    except Exception as error:  # playwright's own, of a page that is blocked or waits for ever
        return f"none after {patience:.0f} s ({errors[-1] if errors else type(error).__name__})"
    return time.perf_counter() - started


def opening(page: Any, click: Callable[[], None]) -> float:
    """Milliseconds from a click until the picture is another one."""
    page.wait_for_timeout(1000)
    before = page.screenshot(clip=STAGE)
    started = time.perf_counter()
    click()
    while page.screenshot(clip=STAGE) == before:
        if time.perf_counter() - started > 60:
            break
    return 1000 * (time.perf_counter() - started)


def rows(browser: Any, folder: Path, sizes: list[int], times: int, patience: float) -> Iterator[tuple[str, ...]]:
    """A line of the table for each program."""
    made: dict[str, Any] = {}
    exec(PROGRAM, made)
    for size in sizes:
        for modules in (True, False):
            graph = irs.parse(made["chain"](size, modules))
            given = folder / "graph.json"
            given.write_text(json.dumps(model_explorer_graph(graph)), encoding="utf-8")
            report = irs.write_report(irs.fuse(graph), output=folder / "report.html")
            models = quote(json.dumps({"models": [{"url": str(given)}]}))
            theirs = f"http://localhost:{PORT}/?data={models}&renderer=webgl&show_open_in_new_tab=0"
            told = [f"{size:,}" + (" in modules" if modules else "")]
            for url, is_drawn in ((theirs, DRAWN), (report.as_uri(), "() => document.querySelector('.irs-svg .irs-box')")):
                pictures: list[float] = []
                opened: list[float] = []
                for _ in range(times):
                    page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
                    found = first_picture(page, url, is_drawn, patience)
                    if isinstance(found, str):
                        told += [found, ""]
                        page.context.close()
                        break
                    pictures.append(found)
                    box = page.locator(".irs-box:not(.open) .irs-toggle").first
                    if modules or url != theirs:  # without modules theirs has no box to open
                        opened.append(opening(page, (lambda p=page: p.mouse.click(*LAYER)) if url == theirs else box.click))
                    page.context.close()
                else:
                    told += [f"{statistics.median(pictures):.2f}", f"{statistics.median(opened):.0f}" if opened else "–"]
            yield tuple(told)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", help="the executable of Model Explorer")
    parser.add_argument("sizes", nargs="*", type=int, default=[1000, 20_000, 100_000])
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--patience", type=float, default=120)
    options = parser.parse_args()
    print("| nodes | Model Explorer: first picture s | a box ms | irscope's report: first picture s | a box ms |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name, served(options.command, Path(name)), chromium("--enable-unsafe-swiftshader") as browser:
        for row in rows(browser, Path(name), options.sizes, options.times, options.patience):
            print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
