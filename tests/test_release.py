"""What is handed out: one version, a wheel and a source distribution with the front end inside, which install where there is no Node."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

import irscope

ROOT = Path(__file__).parents[1]
PROGRAM = "graph(%x : Float(4)):\n  %a : Float(4) = aten::relu(%x)\n  %b : Float(4) = aten::tanh(%a)\n  return (%b)\n"


def test_the_version_stands_in_one_place() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"]["path"] == "irscope/__init__.py"
    says = re.compile(rf'(?i)version\w*["\s]*[:=]+\s*"?{re.escape(irscope.__version__)}\b')
    files = [path for path in (*ROOT.glob("*.*"), *(ROOT / "irscope").glob("*.py")) if path.is_file()]
    found = [path.relative_to(ROOT).as_posix() for path in files if says.search(path.read_text(errors="replace"))]
    assert found == ["irscope/__init__.py"]


def test_extras_that_the_code_names_are_there() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {
        extra for path in (ROOT / "irscope").rglob("*.py") for extra in re.findall(r'\bextra="([\w-]+)"', path.read_text(encoding="utf-8"))
    }
    assert named and named <= extras.keys()


def run(*command: str | Path, cwd: Path | None = None, **environment: str) -> str:
    done = subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True, check=False, env=os.environ | environment)
    assert not done.returncode, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.long
def test_wheel_and_source_install_in_a_clean_environment_without_node(tmp_path: Path) -> None:
    dist, tools, home = tmp_path / "dist", tmp_path / "tools", tmp_path / "clean"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
    run(*pip, "wheel", "--no-deps", "--wheel-dir", dist, ROOT)
    run(*pip, "install", "--target", tools, "hatchling")
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", dist, cwd=ROOT, PYTHONPATH=str(tools))
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        inside = set(archive.namelist())
    with tarfile.open(sdist) as archive:
        source = {name.partition("/")[2] for name in archive.getnames()}
    for name in ("irscope/py.typed", "irscope/__init__.pyi", "irscope/widgets/static/irscope.js"):
        assert name in inside and name in source, name
    assert "irscope/share/notebooks/00_tour.ipynb" in inside
    assert {"CITATION.cff", "SECURITY.md", "CONTRIBUTING.md", "docs/concepts.md", "tests/test_release.py"} <= source
    assert not [name for name in inside | source if "node_modules" in name]

    venv.create(home, with_pip=True)
    nowhere = {"PATH": str(home / "bin"), "PYTHONPATH": "", "VIRTUAL_ENV": str(home)}
    run(home / "bin" / "python", "-m", "pip", "install", "--quiet", wheel, cwd=tmp_path, **nowhere)
    (tmp_path / "program.ir").write_text(PROGRAM)
    irscope_here = home / "bin" / "irscope"
    assert run(irscope_here, "--version", cwd=tmp_path, **nowhere).split() == ["irscope", irscope.__version__]
    assert "1 fusion group" in run(irscope_here, "show", "program.ir", cwd=tmp_path, **nowhere)
    assert "wrote report.html" in run(irscope_here, "report", "program.ir", cwd=tmp_path, **nowhere)
    assert "data-irscope" in (tmp_path / "report.html").read_text(encoding="utf-8")
    code = "import irscope as irs, numpy as np; print(len(irs.fuse(irs.trace(lambda x: np.tanh(np.exp(x)), (4, 8))).groups))"
    assert run(home / "bin" / "python", "-c", code, cwd=tmp_path, **nowhere).strip() == "1"


@pytest.mark.long
def test_extras_resolve_with_the_lowest_versions_and_with_the_newest() -> None:
    pytest.importorskip("uv")
    print(run(sys.executable, ROOT / "tests" / "extras.py"))
