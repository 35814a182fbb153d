"""The explorer in Notebook 7, which is built of JupyterLab's parts: drawn, linked with Python, saved, opened again."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.conftest import ACTIVE, PATIENCE_MS, TOKEN, Lab, _server, expect, prints

pytest.importorskip("notebook", reason="Notebook 7 is not installed: pip install 'irscope[dev]'")

_ITS_OWN = "Cannot read properties of undefined (reading 'schema')"
"""What Notebook 7.6 says of a setting of its own while it starts, with and without us."""
LIVE = f"{ACTIVE} .irs-live .irs"
CELLS = (
    "import irscope as irs\nfrom tests.browser.pages import program\nf = irs.fuse(program())\ne = irs.explore(f)\ne",
    'e.pane("inspector")',
)


@pytest.fixture(scope="module")
def notebook(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    root = tmp_path_factory.mktemp("notebook")
    with _server(root, "notebook", "JupyterNotebookApp") as url:
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        lab = Lab(page, root)
        lab.watch(url, _ITS_OWN)
        lab.write("seven.ipynb", *CELLS)
        page.goto(f"{url}/notebooks/seven.ipynb?token={TOKEN}", wait_until="domcontentloaded")
        page.wait_for_function(
            "() => window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'", timeout=90_000
        )
        lab.run_all()
        page.locator(f"{LIVE} .irs-box").first.wait_for(timeout=60_000)
        yield lab
        context.close()
    assert lab.errors == []
    assert lab.outside == []


def test_a_click_selects_in_python_and_in_the_pane_of_another_cell(notebook: Lab) -> None:
    page = notebook.page
    page.locator(f"{LIVE} .irs-line", has_text="aten::").last.click()
    page.locator(f"{ACTIVE} .irs-only-inspector h3").wait_for()
    prints(notebook, "len(e.selected)", "1")
    op = notebook.python("print(e.selected[0].op)").partition("::")[2]
    expect(page.locator(f"{ACTIVE} .irs-only-inspector h3")).to_contain_text(op)


def test_python_selects_and_steps_in_the_page(notebook: Lab) -> None:
    page = notebook.page
    notebook.python("e.selection = 'x'; e.step = 0")
    page.locator(f"{LIVE} .irs-inspector h3", has_text="%x").wait_for()
    page.locator(f"{LIVE} .irs-said", has_text="step 0").wait_for()
    page.locator(f"{LIVE} [role=slider]").focus()
    page.keyboard.press("End")
    prints(notebook, "e.step == f.history.count", "True")


def test_the_saved_notebook_shows_a_picture_without_its_kernel(notebook: Lab) -> None:
    page = notebook.page
    notebook.save()
    saved = json.loads((notebook.root / "seven.ipynb").read_text())
    shown = [output["data"] for output in saved["cells"][0]["outputs"] if "text/html" in output.get("data", {})]
    assert any("irs-static" in "".join(data["text/html"]) for data in shown)
    page.evaluate("async () => { await window.jupyterapp.shell.currentWidget.sessionContext.shutdown(); }")
    page.reload(wait_until="domcontentloaded")
    page.locator(".irs-static svg, .irs-static img").first.wait_for(timeout=60_000)
