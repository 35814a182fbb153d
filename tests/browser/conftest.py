"""A private JupyterLab and one headless Chromium for all browser tests: own directories, own port, no network.

Starting them takes ten seconds, a kernel that has imported everything four, a notebook that shares it one. Where there is no
Chromium the tests are skipped, or fail if the environment says CI=true.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from irscope.display.html import front_end
from tests.conftest import BROWSERS

ROOT = Path(__file__).resolve().parents[2]
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
TOKEN = "irscope-test"
ACTIVE = ".jp-NotebookPanel:not(.lm-mod-hidden)"
PATIENCE_MS = 90_000
"""How long a page may take for what it usually does at once: other processes have the machine too."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder: `-m "not browser"` leaves them out."""
    for item in items:
        if item.nodeid.startswith("tests/browser/"):
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install 'irscope[dev]'")
    if not any(map(shutil.which, BROWSERS)):
        reason = f"none of {', '.join(BROWSERS)} is on PATH"
        if os.environ.get("CI") == "true":
            pytest.fail(f"{reason}, and CI=true asks for the browser tests")
        pytest.skip(reason)
    with chromium() as started:
        yield started


@contextlib.contextmanager
def chromium(*flags: str) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    executable = next(filter(None, map(shutil.which, BROWSERS)))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=[*FLAGS, *flags], headless=True)
        yield browser
        browser.close()


def expect(of: Any) -> Any:
    """Playwright's assertions about a page or a part of it, which wait until they hold."""
    from playwright.sync_api import expect

    expect.set_options(timeout=PATIENCE_MS)
    return expect(of)


def settled(page: Any) -> None:
    """Wait for what a page draws in its next frame."""
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def holds(page: Any, condition: str, *given: Any) -> None:
    """Wait until a function of the page, given these, is true."""
    page.wait_for_function(f"given => ({condition})(...given)", arg=list(given), timeout=PATIENCE_MS)


@dataclass
class Lab:
    """JupyterLab in one page; notebooks open in it one after the other."""

    page: Any
    root: Path
    outside: list[str] = field(default_factory=list)
    """Requests that left this machine."""
    errors: list[str] = field(default_factory=list)
    """Errors that no script caught."""
    kernel: str | None = None
    """A kernel that the last notebook of `shown` left: it has imported everything. A notebook takes it, so that no two have it."""

    def watch(self, url: str, its_own: str) -> None:
        """Note requests to elsewhere, and errors of the page but for one that is the program's own, and for two of a page that is slower
        than Python: anywidget's of two seconds that a model took, and the widget manager's of a model that is asked for when its
        widget was closed already. A test waits for what it wants to see."""
        local = (url, url.replace("http", "ws"), "data:", "blob:")
        self.page.on("request", lambda request: None if request.url.startswith(local) else self.outside.append(request.url))
        known = (its_own, "[anywidget] Failed to initialize model", "widget model not found")
        self.page.on(
            "pageerror", lambda error: any(map(error.message.__contains__, known)) or self.errors.append(f"{error.message}\n{error.stack}")
        )

    def write(self, name: str, *cells: str) -> None:
        code = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
        notebook = {
            "cells": [code | {"id": f"c{k}", "source": source} for k, source in enumerate(cells)], "nbformat": 4, "nbformat_minor": 5,
            "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
        }  # fmt: skip
        (self.root / name).write_text(json.dumps(notebook), encoding="utf-8")

    def open(self, name: str, *cells: str) -> None:
        """Write a notebook of these cells, open it, and wait for its kernel."""
        self.write(name, *cells)
        self.reopen(name)

    def reopen(self, name: str, kernel: str | None = None) -> None:
        """Open a notebook that is there, with this kernel or one of its own."""
        self.page.evaluate(
            """async ([path, id]) => { const lab = window.jupyterapp;
            const panel = await lab.commands.execute('docmanager:open', id ? {path, kernel: {id}} : {path});
            await panel.context.ready; await panel.sessionContext.ready; lab.shell.activateById(panel.id);
            const {kernel} = panel.sessionContext.session;
            while (kernel.connectionStatus !== 'connected') await new Promise(later => setTimeout(later, 20));
            if (!id) return;
            await kernel.requestKernelInfo();  // a kernel at rest says how it is only when it is asked
            const of = panel.content.rendermime.createRenderer('application/vnd.jupyter.widget-view+json', {});
            const manager = await of._manager.promise;
            while (!manager.restoredStatus) await new Promise(later => setTimeout(later, 20)); }""",
            # The manager asks for the kernel's widgets. One that is made meanwhile has two models, of which the one in sight hears nothing.
            [name, kernel],
        )
        self.page.wait_for_function(
            """path => { const panel = window.jupyterapp.shell.currentWidget; return panel.context?.path === path
            && panel.sessionContext.session?.kernel?.status === 'idle'; }""",
            arg=name, timeout=60_000,
        )  # fmt: skip

    def reload(self) -> None:
        """Load the page again, and open the notebook that was in front, with the kernel that it had. The address does not name it: Lab
        would open it by that, too, at a time that nothing tells, and then in front of another one."""
        path = self.page.evaluate("() => window.jupyterapp.shell.currentWidget.context.path")
        self.page.goto(self.page.url.partition("/lab")[0] + "/lab", wait_until="domcontentloaded")
        self.page.wait_for_function("() => window.jupyterapp?.started", timeout=60_000)
        self.page.evaluate(
            """async path => { const lab = window.jupyterapp; await lab.restored;
            const panel = await lab.commands.execute('docmanager:open', {path});
            await panel.context.ready; await panel.sessionContext.ready; lab.shell.activateById(panel.id);
            const {kernel} = panel.sessionContext.session;
            while (kernel.connectionStatus !== 'connected') await new Promise(later => setTimeout(later, 20));
            await kernel.requestKernelInfo(); }""",
            path,
        )

    def run_all(self) -> None:
        self.page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")

    def add_cell(self, source: str, *, wait: bool = True) -> None:
        """Run a further cell at the end; it is done when this returns, unless it is not to be waited for."""
        self.page.evaluate(
            """async ([source, wait]) => { const panel = window.jupyterapp.shell.currentWidget;
            panel.content.model.sharedModel.addCell({cell_type: 'code', source});
            panel.content.activeCellIndex = panel.content.widgets.length - 1;
            const run = window.jupyterapp.commands.execute('notebook:run-cell'); if (wait) await run; }""",
            [source, wait],
        )

    @contextlib.contextmanager
    def shown(self, name: str, *cells: str, until: str, seconds: int = 60) -> Iterator[Lab]:
        """A notebook of these cells, run until this is in sight; in the end it is closed, and nothing may have gone wrong."""
        self.write(name, *cells)
        kernel, self.kernel = self.kernel, None
        self.reopen(name, kernel)
        self.run_all()
        self.page.locator(f"{ACTIVE} {until}").first.wait_for(timeout=seconds * 1000)
        yield self
        self.python("import ipywidgets; ipywidgets.Widget.close_all()")
        self.save()
        self.kernel = self.page.evaluate(
            """() => { const panel = window.jupyterapp.shell.currentWidget, {id} = panel.sessionContext.session.kernel;
            panel.context.model.dirty = false;  // else Lab asks whether to save it again, and waits
            panel.close(); return id; }"""
        )
        assert self.errors == [] and self.outside == []

    def run_to_the_end(self, seconds: int) -> None:
        """Run the cells and wait until the last one is done; none may fail or write to stderr."""
        self.run_all()
        self.page.wait_for_function(
            """() => window.jupyterapp.shell.currentWidget.content.widgets
            .filter(cell => cell.model.type === 'code').every(cell => cell.model.executionCount)""",
            timeout=seconds * 1000,
        )
        wrong = self.page.evaluate(
            """() => window.jupyterapp.shell.currentWidget.content.model.toJSON().cells.flatMap(cell => cell.outputs ?? [])
            .filter(output => output.output_type === 'error' || output.name === 'stderr').map(output => JSON.stringify(output))"""
        )
        assert wrong == []

    def python(self, code: str) -> str:
        """Run code in the notebook's kernel, outside its cells; gives what it printed."""
        printed: str = self.page.evaluate(
            """async code => { const panel = window.jupyterapp.shell.currentWidget; let out = '';
            const run = panel.sessionContext.session.kernel.requestExecute({code, store_history: false});
            run.onIOPub = m => { if (m.content.name === 'stdout') out += m.content.text;
              if (m.header.msg_type === 'error') out += m.content.ename + ': ' + m.content.evalue; };
            await run.done; return out; }""",
            code,
        )
        return printed.strip()

    def save(self) -> None:
        self.page.evaluate("async () => { await window.jupyterapp.shell.currentWidget.context.save(); }")

    def close(self) -> None:
        """Close the notebook in front and end its kernel."""
        self.page.evaluate(
            """async () => { const panel = window.jupyterapp.shell.currentWidget;
            await panel.sessionContext.shutdown(); await panel.context.save(); panel.close(); }"""
        )

    def theme(self, name: str) -> None:
        light = "true" if name.endswith("Light") else "false"
        self.page.evaluate("theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme})", name)
        self.page.wait_for_function("light => document.body.dataset.jpThemeLight === light", arg=light)
        expect(self.page.locator("#jupyterlab-splash")).to_have_count(0)  # Lab takes it away later, and trips over a second change before


@pytest.fixture(scope="session")
def lab(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """JupyterLab with nothing of the user's in it."""
    pytest.importorskip("jupyterlab", reason="jupyterlab is not installed: pip install 'irscope[lab]'")
    front_end()  # a missing bundle is told here, not by a blank cell
    with started_lab(browser, tmp_path_factory.mktemp("lab"), 1440, 1000) as lab:
        yield lab


@contextlib.contextmanager
def started_lab(browser: Any, root: Path, width: int, height: int) -> Iterator[Lab]:
    """JupyterLab in a window of this size."""
    with _server(root) as url:
        context = browser.new_context(viewport={"width": width, "height": height})
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        lab = Lab(page, root)
        lab.watch(url, _LABS_OWN)
        page.goto(f"{url}/lab?token={TOKEN}&reset", wait_until="domcontentloaded")
        page.wait_for_function("() => window.jupyterapp && window.jupyterapp.started", timeout=90_000)
        page.evaluate("() => window.jupyterapp.started")
        yield lab
        context.close()


@contextlib.contextmanager
def _server(root: Path, module: str = "jupyterlab", app: str = "LabApp") -> Iterator[str]:
    """JupyterLab, or what else is built of it, with directories of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    command = [
        sys.executable, "-m", module, "--no-browser", "--ip=127.0.0.1", f"--port={port}", "--port-retries=0",
        f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={root}", f"--{app}.expose_app_in_browser=True",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate", "--ServerApp.allow_root=True",
    ]  # fmt: skip
    log = root / "lab.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=_environment(root), stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            _wait_for(url, process, log)
            yield url
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(3)  # its kernels end with it
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(10)


def _environment(root: Path) -> dict[str, str]:
    home = root / ".jupyter"
    names = (
        "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR",
        "JUPYTERLAB_SETTINGS_DIR", "JUPYTERLAB_WORKSPACES_DIR",
    )  # fmt: skip
    own = {name: str(home / name.lower()) for name in names}
    for place in own.values():
        Path(place).mkdir(parents=True)
    settings = {
        "@jupyterlab/apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
        "@jupyterlab/docmanager-extension/plugin": {"autosave": False},
        "@jupyterlab/notebook-extension/tracker": {"windowingMode": "none"},
    }
    for plugin, values in settings.items():
        file = Path(own["JUPYTERLAB_SETTINGS_DIR"]) / f"{plugin}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values), encoding="utf-8")
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return dict(os.environ, **own, JUPYTER_PLATFORM_DIRS="1", JUPYTER_NO_CONFIG="1", PYTHONPATH=path)


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(600):
        if process.poll() is not None:
            break
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/api?token={TOKEN}", timeout=2) as reply:
            reply.read()
            return
        time.sleep(0.1)
    raise RuntimeError(f"Jupyter did not start:\n{log.read_text()[-3000:]}")


def prints(lab: Lab, code: str, expected: str) -> None:
    """Wait until an expression has this value in Python: the page holds a message back while another is on its way."""
    got, end = "", time.monotonic() + PATIENCE_MS / 1000
    while got != expected and time.monotonic() < end:
        got = lab.python(f"print({code})")
    assert got == expected


_LABS_OWN = "Canceled future for"
"""What Lab says of its own request to a kernel that ends or begins anew before it has answered."""


@contextlib.contextmanager
def window(browser: Any, height: int = 900, *, ours: bool = True) -> Iterator[Any]:
    """An empty window; no error of what is opened in it may have come when it closes, nor a complaint of a page of ours."""
    context = browser.new_context(viewport={"width": 1400, "height": height})
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if ours and message.type == "error" else None)
    page.on("dialog", lambda dialog: errors.append(f"dialog {dialog.message}"))
    yield page
    context.close()
    assert errors == []


@contextlib.contextmanager
def opened(browser: Any, report: str, ready: str, *, ours: bool = True) -> Iterator[Any]:
    """A page from disk in a window of its own, once it shows this; no error of the page may have come when it closes."""
    with window(browser, ours=ours) as page:
        page.goto(report)
        page.locator(ready).first.wait_for()
        yield page
