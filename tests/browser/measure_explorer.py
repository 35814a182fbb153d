"""How long the explorer takes, in a real JupyterLab: `python -m tests.browser.measure_explorer [sizes]` prints the table.

Programs: a chain with fusion without modules, the same in modules, one with views, loops and writes in place, and with `--llama`
(where transformers is installed) an exported Llama of 24 layers. `--only chain` leaves out the others. Each row is the median of
`--times` runs, each with an explorer of its own. `--pictures DIR` keeps a picture of each, light and dark, at 1280 x 800 and in 700
pixels; `--leaks` opens and closes 50 explorers and prints what is left of them. Clocks are the page's own (`performance.now`), from
the end of `explore` in Python to the painted picture; Python is processor time.
"""

import argparse
import contextlib
import json
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.browser.conftest import Lab, chromium, started_lab

PROGRAM = """
import irscope as irs, time
OPS = ["relu", "tanh", "sigmoid", "neg", "exp"]
def chain(n, modules):
    lines, last = ["graph(%x : Float(64, 64), %w : Float(64, 64)):"], "x"
    for i in range(n):
        k = i % 7
        text = f"aten::{OPS[k]}(%{last})" if k < 5 else f"aten::matmul(%{last}, %w)" if k == 5 else f"aten::mul(%{last}, %x)"
        scope = f", scope: model.layers.{i // 70}.part{i // 7 % 10}" if modules else ""
        lines.append(f"  %v{i} : Float(64, 64) = {text}{scope}")
        last = f"v{i}"
    return "\\n".join([*lines, f"  return (%{last})"])
def synthetic(n):
    lines = ["graph(%x : Float(64, 64), %n : int):", "  %yes : bool = prim::Constant[value=1]()"]
    lines += [f"  %c{k} : int = prim::Constant[value={k}]()" for k in (0, 1, 32)]
    last, full, half = "x", "Float(64, 64)", "Float(32, 64)"
    for i in range(n // 7):
        lines += [f"  %s{i} : {half} = aten::slice(%{last}, %c0, %c0, %c32, %c1)", f"  %t{i} : Float(64, 32) = aten::t(%s{i})",
                  f"  %e{i} : Float(64, 32) = aten::exp(%t{i})", f"  %u{i} : {half} = aten::relu_(%s{i})",
                  f"  %m{i} : {full} = aten::matmul(%e{i}, %u{i})", f"  %a{i} : {full} = aten::add_(%m{i}, %{last}, %c1)"]
        last = f"a{i}"
        if i % 5 == 0:
            lines += [f"  %l{i} : {full} = prim::Loop(%n, %yes, %{last})", f"    block0(%k{i} : int, %p{i} : {full}):",
                      f"      %q{i} : {full} = aten::tanh(%p{i})", f"      %r{i} : {full} = aten::mul_(%q{i}, %x)"]
            lines.append(f"      -> (%yes, %r{i})")
            last = f"l{i}"
    return "\\n".join([*lines, f"  return (%{last})"])
def llama(layers):
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=99, hidden_size=32, num_hidden_layers=layers, num_attention_heads=4, num_key_value_heads=2,
                         intermediate_size=48, max_position_embeddings=64)
    class Logits(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = LlamaForCausalLM(config).eval()
        def forward(self, x):
            return self.model(x, use_cache=False).logits
    with torch.no_grad():
        return irs.load(torch.export.export(Logits(), (torch.randint(3, 99, (2, 10)),)))
_ = irs.explore(irs.fuse(irs.parse(chain(20, False))))  # what is imported once
"""
SHOW = """
f = irs.fuse({program})
started = time.process_time()
e = irs.explore(f)
python = time.process_time() - started
done = time.time() * 1000
e
"""
WAIT = "() => document.querySelector('.irs-live .irs-svg .irs-box, .irs-live .irs-canvas:not([hidden])') ? Date.now() : 0"
CLOSED = ".irs-live .irs-box:not(.open) .irs-toggle"
FRAMES = """async ([x, y]) => { const times = []; let last = performance.now();
 const svg = document.querySelector('.irs-live .irs-svg'); svg.focus();
 const at = {clientX: x, clientY: y, ctrlKey: true, bubbles: true, cancelable: true};
 for (let k = 0; k < 60; k++) {
  svg.dispatchEvent(new WheelEvent('wheel', {deltaY: k % 20 < 10 ? -60 : 60, ...at}));
  await new Promise(requestAnimationFrame); const now = performance.now(); times.push(now - last); last = now; }
 times.sort((a, b) => a - b); return times[Math.floor(times.length * 0.95)]; }"""


@contextlib.contextmanager
def opened_lab() -> Iterator[Lab]:
    """A private JupyterLab in a headless Chromium."""
    with tempfile.TemporaryDirectory() as folder, chromium() as browser, started_lab(browser, Path(folder), 1280, 800) as lab:
        lab.page.set_default_timeout(120_000)
        lab.page.on("console", lambda told: lab.errors.append(told.text) if told.type == "error" and "404" not in told.text else None)
        lab.page.evaluate("() => window.jupyterapp.shell.collapseLeft()")
        yield lab


def timed(lab: Lab, action: str, until: str) -> float:
    """Milliseconds in the page from an action until a condition holds, seen frame by frame."""
    return float(lab.page.evaluate(
        f"""async () => {{ const start = performance.now(); {action};
        while (!({until})) {{ if (performance.now() - start > 60000) break; await new Promise(requestAnimationFrame); }}
        return performance.now() - start; }}"""
    ))  # fmt: skip


SCRUB = """async () => { const root = document.querySelector('.irs-live .irs'); const times = []; let last = performance.now();
 for (let k = 0; k < 60; k++) {
  root.dispatchEvent(new KeyboardEvent('keydown', {key: k % 40 < 20 ? ',' : '.', bubbles: true}));
  await new Promise(requestAnimationFrame); const now = performance.now(); times.push(now - last); last = now; }
 times.sort((a, b) => a - b); return times[Math.floor(times.length * 0.95)]; }"""


def measured(lab: Lab, name: str, program: str, times: int, pictures: Path | None) -> dict[str, Any]:
    """One row of the table, the medians of several runs."""
    rows = []
    for turn in range(times):
        rows.append(_run(lab, f"{name}-{turn}", program))
        if pictures is not None and not turn:
            keep_pictures(lab, name, pictures)
        lab.close()
    known = list(dict.fromkeys(key for row in rows for key in row))
    middle = {key: statistics.median([row[key] for row in rows if key in row]) for key in known}
    return {"program": name} | {key: int(value) if value == int(value) else round(value, 2) for key, value in middle.items()}


def _run(lab: Lab, name: str, program: str) -> dict[str, float]:
    lab.open(f"{name}.ipynb", PROGRAM, SHOW.format(program=program))
    page = lab.page
    lab.run_all()
    page.wait_for_function(WAIT, timeout=600_000)
    drawn = float(page.evaluate(WAIT))
    python, done = json.loads(lab.python("import json; print(json.dumps([python, done]))"))
    row: dict[str, float] = {"Python s": python, "painted s": (drawn - done) / 1000}
    page.wait_for_timeout(1500)
    page.evaluate("() => document.querySelector('.irs-live').scrollIntoView()")
    place = page.locator(".irs-live .irs-stage").bounding_box()
    row["zoom p95 ms"] = page.evaluate(FRAMES, [place["x"] + 100, place["y"] + 100])
    page.locator(".irs-live .irs-bar button", has_text="fit").click()
    page.wait_for_timeout(300)
    count = "document.querySelectorAll('.irs-live .irs-box').length"
    times = []
    while len(times) < 3 and page.locator(CLOSED).count():
        before = page.evaluate(f"() => {count}")
        down = "new PointerEvent('pointerdown', {button: 0, bubbles: true, cancelable: true, clientX: 1, clientY: 1})"
        up = "new PointerEvent('pointerup', {bubbles: true})"
        act = f"const t = document.querySelector('{CLOSED}'); t.dispatchEvent({down}); t.dispatchEvent({up})"
        times.append(timed(lab, act, f"{count} !== {before}"))
    if times:
        row["open ms"] = statistics.median(times)
    act = "[...document.querySelectorAll('.irs-live .irs-line')].filter((line) => line.textContent.includes('aten::')).at(-1).click()"
    marked = (".irs-inspector h3", ".irs-line.selected", ".irs-stage :is(.selected, .holding)")
    row["select ms"] = timed(lab, act, " && ".join(f"document.querySelector('.irs-live {mark}')" for mark in marked))
    page.wait_for_timeout(500)  # nobody types so soon after a click; the panes are still drawing what was selected
    act = "const i = document.querySelector('.irs-live .irs-search input'); i.value = 'op:matmul & bytes>1';"
    act += "i.dispatchEvent(new Event('input'))"
    row["search ms"] = timed(lab, act, "document.querySelector('.irs-live .irs-found:not([hidden])')?.children.length > 0")
    page.locator(".irs-live .irs-search input").fill("")
    lab.save()
    row["notebook kB"] = (lab.root / f"{name}.ipynb").stat().st_size / 1000
    offer = page.locator(".irs-live .irs-step-offer button", has_text="step by step")
    if offer.count():
        offer.click()
        page.locator(".irs-live [role=slider]").wait_for(timeout=120_000)
        page.wait_for_timeout(500)
    if page.locator(".irs-live [role=slider]").count():
        row["scrub p95 ms"] = page.evaluate(SCRUB)
    row["errors"] = len(lab.errors)
    if lab.errors:
        print(lab.errors[-1][:400])
    return row


LEFT = """
import gc, ipywidgets as w
gc.collect()
print(len(w.Widget._instances if hasattr(w.Widget, "_instances") else w.widgets.widget._instances))
"""


MADE = {"explorer": ("irs.explore(f)", WAIT), "slider": ("w.IntSlider()", "() => document.querySelector('.widget-slider')")}
"""What is opened and closed: ours, and ipywidgets' own, which tells what Lab itself keeps."""


def leaks(lab: Lab, what: str, times: int = 50) -> dict[str, Any]:
    """What is left in the page and in the kernel of widgets that were opened and closed: listeners, elements, megabytes, widgets."""
    program = "f = irs.fuse(irs.parse(chain(1000, False)))"
    lab.open(f"leaks-{what}.ipynb", PROGRAM, program, "import ipywidgets as w\nholder = w.VBox()\nholder")
    lab.run_all()
    devtools = lab.page.context.new_cdp_session(lab.page)
    devtools.send("Performance.enable")

    def left() -> dict[str, float]:
        for _ in range(2):
            devtools.send("HeapProfiler.collectGarbage")
            lab.page.wait_for_timeout(300)
        found = {metric["name"]: metric["value"] for metric in devtools.send("Performance.getMetrics")["metrics"]}
        heap = devtools.send("Runtime.getHeapUsage")
        return {"listeners": found["JSEventListeners"], "elements": found["Nodes"], "MB": heap["usedSize"] / 1e6,
                "MB of bytes": heap["backingStorageSize"] / 1e6, "widgets": float(lab.python(LEFT).split()[-1])}  # fmt: skip

    for _ in range(3):
        _once(lab, *MADE[what])
    before = left()
    for _ in range(times):
        _once(lab, *MADE[what])
    after = left()
    lab.close()
    return {"opened and closed": f"{times} × {what}"} | {key: round(after[key] - before[key], 1) for key in before}


def _once(lab: Lab, made: str, drawn: str) -> None:
    """Show a widget, wait until it is drawn, and take it away again."""
    lab.python(f"e = {made}; holder.children = [e]")
    lab.page.wait_for_function(drawn, timeout=60_000)
    lab.python("holder.children = []; e.close(); del e")


def keep_pictures(lab: Lab, name: str, folder: Path) -> None:
    """The view light and dark, at 1280 pixels and in 700."""
    page = lab.page
    page.locator(".irs-live .irs-bar button", has_text="fit").click()
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        lab.theme(theme)
        for width in (1280, 760):
            page.set_viewport_size({"width": width, "height": 800})
            page.wait_for_timeout(500)
            page.evaluate("() => document.querySelector('.irs-live').scrollIntoView()")
            page.wait_for_timeout(300)
            page.screenshot(path=str(folder / f"{name}-{theme.split()[1].lower()}-{width}.png"))
    lab.theme("JupyterLab Light")
    page.set_viewport_size({"width": 1280, "height": 800})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", type=int, default=[1000, 20_000, 100_000])
    parser.add_argument("--pictures", type=Path)
    parser.add_argument("--llama", action="store_true")
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--only", choices=["chain", "modules", "synthetic"])
    parser.add_argument("--leaks", action="store_true")
    options = parser.parse_args()
    rows = []
    with opened_lab() as lab:
        programs = {f"chain-{size}": f"irs.parse(chain({size}, False))" for size in options.sizes}
        programs |= {f"modules-{size}": f"irs.parse(chain({size}, True))" for size in options.sizes}
        programs |= {f"synthetic-{size}": f"irs.parse(synthetic({size}))" for size in options.sizes}
        programs = {name: program for name, program in programs.items() if not options.only or name.startswith(options.only)}
        if options.leaks:
            for what in MADE:
                print(leaks(lab, what))
            programs = {}
        if options.llama:
            programs["llama-24"] = "llama(24)"
        for name, program in programs.items():
            rows.append(measured(lab, name, program, options.times, options.pictures))
            print(rows[-1], flush=True)
    heads = list(dict.fromkeys(key for row in rows for key in row))
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    for row in rows:
        print("| " + " | ".join(str(row.get(head, "")) for head in heads) + " |")


if __name__ == "__main__":
    main()
