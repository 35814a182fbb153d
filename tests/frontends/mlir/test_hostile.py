"""A parser that crashes, cannot start, or has few resources: an error of ours."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import irscope as irs
from irscope.errors import LoadError
from irscope.frontends.mlir import source
from irscope.frontends.mlir.source import installed

if not installed():
    pytest.skip("neither jaxlib nor iree-base-compiler is installed", allow_module_level=True)

SAMPLES = sorted((Path(__file__).parent / "samples").glob("*.stablehlo.mlir"))


def _loaded_with(limit: str, amount: int) -> str:
    """What a process with a hard limit says of a sound file."""
    code = f"import resource; resource.setrlimit(resource.{limit}, ({amount}, {amount}))\n"
    code += f"import irscope as irs\ntry: print(irs.load({str(SAMPLES[0])!r}))\nexcept irs.errors.LoadError as error: print(error)"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such limits")
@pytest.mark.parametrize(("limit", "amount"), [("RLIMIT_AS", 2_900_000_000), ("RLIMIT_CPU", 9)])
def test_a_file_is_read_under_sufficient_resource_limits(limit: str, amount: int) -> None:
    assert _loaded_with(limit, amount).startswith(("graph(", "module "))


def test_a_parser_that_cannot_start_is_reported_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str = "") -> None:
        raise ImportError(f"no {name}")

    monkeypatch.setattr(source, "required", missing)
    with pytest.raises(LoadError, match=r"parser cannot be started.*ImportError: no"):
        irs.load(SAMPLES[0])


def test_a_crash_of_the_parser_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "new_context", lambda bindings: os.abort())
    with pytest.raises(LoadError, match=r"parser fail: it crashes with signal 6"):
        irs.load(SAMPLES[0])


def test_bindings_that_are_too_old_are_passed_over_and_named_where_they_are_the_only_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"iree-base-compiler": "3.11.0rc20260401", "jaxlib": "0.10.10"}
    monkeypatch.setattr(source, "version", versions.get)
    assert "iree" not in installed() and ("jaxlib" in installed()) == (importlib.util.find_spec("jaxlib") is not None)
    versions["jaxlib"] = "0.10.0"
    with pytest.raises(LoadError, match=r"iree-base-compiler 3\.11\.0rc20260401 is too old") as caught:
        irs.load(SAMPLES[0])
    assert caught.value.hint == "pip install 'iree-base-compiler>=3.12'"
    with pytest.raises(LoadError, match=r"jaxlib 0\.10\.0 is too old"):
        source.required("jaxlib")
