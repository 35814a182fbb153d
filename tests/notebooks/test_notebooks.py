"""Every notebook runs from top to bottom, quickly, and is stored without outputs."""

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
jupyter_client = pytest.importorskip("jupyter_client")
run_sync = pytest.importorskip("jupyter_core.utils").run_sync
pytest.importorskip("torch")
pytest.importorskip("anywidget")

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
IN_A_LAB = {
    "00_tour": "test_a_click_on_a_node_of_yolov3_arrives_in_python",
    "01_alias": "test_a_notebook_runs_in_a_real_lab[01_alias-3]",
    "06_reading_an_ir": "test_a_notebook_runs_in_a_real_lab[06_reading_an_ir-3]",
}
"""Those that a real Lab runs, by the test that does."""
LONG = {"11_your_compiler"}
"""Those that wait for compilers of others."""
SMALLER = {
    "02_fusion": (
        ("from yolov3 import yolov3", "from lstm import lstm"),
        ("torch.jit.script(yolov3()), torch.rand(1, 3, 160, 160)", "lstm(inputs=8, hidden=16), torch.randn(8, 2, 8)"),
    ),
    "03_kernels": (
        ("torch.rand(2048, 1024), torch.rand(2048, 1024)", "torch.rand(512, 512), torch.rand(512, 512)"),
        ("9_000_000", "900_000"),
    ),
    "07_fast_alias_analysis": (("2000, 4000, 8000, 16000", "2000"), ("400, 600", "300"), ("(3, 6, 12, 24)", "(3, 6, 9)")),
}
"""What the suite measures in place of large programs and arrays; a long run takes the notebooks as they are."""


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_outputs(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert not cell.outputs and cell.execution_count is None


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_asks_before_it_shows(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    told = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    asked = re.findall(r"before you |predict|which two of these", told, re.IGNORECASE)
    assert len(asked) >= 3, "a prediction before each reveal"
    assert "irs.quiz." in code, "some of them are checked"
    assert re.search("break (it|that)", told, re.IGNORECASE), "something is broken on purpose"
    assert "## Two exercises" in told


@pytest.fixture(scope="module")
def kernel() -> Iterator[Any]:
    """One for all, as it takes seconds to start and to import everything; each notebook begins without names and widgets."""
    manager = jupyter_client.AsyncKernelManager(kernel_name="python3")
    yield manager
    if manager.has_kernel:
        run_sync(manager.shutdown_kernel)(now=True)  # as nbclient calls it: a browser's loop may be running here


@pytest.mark.parametrize(
    "path", [pytest.param(path, marks=pytest.mark.long if path.stem in LONG else ()) for path in NOTEBOOKS], ids=lambda path: path.stem
)
def test_a_notebook_runs_from_top_to_bottom(path: Path, kernel: Any, unless_browsed: Callable[[str], None]) -> None:
    if path.stem in IN_A_LAB:
        unless_browsed(IN_A_LAB[path.stem])
    run(path, kernel, SMALLER.get(path.stem, ()))


@pytest.mark.long
@pytest.mark.parametrize("name", SMALLER)
def test_a_notebook_runs_in_its_own_size(name: str, kernel: Any) -> None:
    run(ROOT / "notebooks" / f"{name}.ipynb", kernel, ())


def run(path: Path, kernel: Any, smaller: Iterable[tuple[str, str]]) -> None:
    notebook = nbformat.read(path, as_version=4)
    for large, small in smaller:
        (cell,) = (cell for cell in notebook.cells if cell.cell_type == "code" and large in cell.source)
        cell.source = cell.source.replace(large, small)
    notebook.cells.insert(0, nbformat.v4.new_code_cell("import ipywidgets\nipywidgets.Widget.close_all()\n%reset -f"))
    client = nbclient.NotebookClient(
        notebook, km=kernel, timeout=240, store_widget_state=False, resources={"metadata": {"path": str(path.parent)}}
    )
    try:
        client.execute()
    finally:
        if client.kc is not None:
            client.kc.stop_channels()
    shown = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert not [output for output in shown if output.output_type == "error" or output.get("name") == "stderr"]
