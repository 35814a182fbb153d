"""What the site holds beside docs/: the files of the repository that are read, the notebooks with their pictures, the reference, and
every error by its message.

Links are written for people who read the repository. Here those to pages of the site lead there, and those to source files, which the
site has not, become the file's name. `mkdocs build --strict` fails at any that leads nowhere.
"""

from __future__ import annotations

import ast
import hashlib
import os
import posixpath
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from mkdocs.structure.files import File, Files

ROOT: Final = Path(__file__).resolve().parents[2]
MADE: Final = ROOT / "build" / "notebooks"
"""Notebooks that were run, by a digest of what they are."""
PAGES: Final = {
    "index.md": "README.md",
    "measurements.md": "tests/benchmarks/README.md",
    "tests.md": "tests/README.md",
    "front-end.md": "widgets/README.md",
    "contributing.md": "CONTRIBUTING.md",
    "security.md": "SECURITY.md",
    "changelog.md": "CHANGELOG.md",
}
"""Pages of the site that are files of the repository."""
_NEEDS_A_KERNEL: Final = "application/vnd.jupyter.widget-view+json"
_LINK: Final = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?:|mailto:|data:|#)([^)\s#]+)(#[^)\s]*)?\)")


def on_config(config: Any) -> Any:
    """The navigation: what is known by name, then whatever else lies in docs/ and notebooks/."""
    docs = sorted(path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md"))
    named = ["sessions.md", "concepts.md", "howto.md", "corpus.md", "profile.md", "peers.md"]
    coverage = [page for page in docs if page.startswith("coverage/")]
    config["nav"] = [
        {"Start": "index.md"},
        *({"Short sessions": page} for page in docs if page == "sessions.md"),
        *({"Concepts": page} for page in docs if page == "concepts.md"),
        *({"How to": page} for page in docs if page == "howto.md"),
        {"Notebooks": [f"notebooks/{path.stem}.md" for path in _notebooks()]},
        *(page for page in docs if page not in named and page not in coverage),
        {"Findings": [*(page for page in docs if page == "corpus.md"), "measurements.md"]},
        {"Beside other tools": [page for page in docs if page in ("peers.md", "profile.md")]},
        {"Reference": ["reference.md", "errors.md", *coverage]},
        {"Project": ["changelog.md", "contributing.md", "security.md", "tests.md", "front-end.md"]},
    ]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add what is not in docs/."""
    for page, source in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    for path in _notebooks():
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=_as_page(_run(path))))
    for path in sorted((ROOT / "notebooks" / "images").glob("*.*")):
        files.append(File.generated(config, f"notebooks/images/{path.name}", abs_src_path=str(path)))
    files.append(File.generated(config, "reference.md", content=_reference()))
    files.append(File.generated(config, "errors.md", content=_errors()))
    files.append(File.generated(config, "style.css", abs_src_path=str(Path(__file__).with_name("style.css"))))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Turn the links of a repository's file into those of the site."""
    here = page.file.src_uri
    source = PAGES.get(here, here if here.startswith("notebooks/") else f"docs/{here}")
    return _LINK.sub(lambda found: _linked(found, here, source, files), markdown)


def _linked(found: re.Match[str], here: str, source: str, files: Files) -> str:
    picture, words, target, anchor = found[1], found[2], found[3], found[4] or ""
    wanted = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    at_home = {path: page for page, path in PAGES.items()}
    at_home |= {f"notebooks/{each.name}": f"notebooks/{each.stem}.md" for each in _notebooks()}
    page = at_home.get(wanted) or (wanted.removeprefix("docs/") if wanted.startswith("docs/") else wanted)
    if files.get_file_from_path(page) is not None:
        relative = posixpath.relpath(page, posixpath.dirname(here) or ".")
        return f"{picture}[{words}]({relative}{anchor})"
    if (ROOT / wanted).exists() and not picture:
        return words if words.startswith("`") else f"`{words}`"
    return found[0]


def _notebooks() -> list[Path]:
    return sorted((ROOT / "notebooks").glob("*.ipynb"))


def _run(path: Path) -> Any:
    """The notebook with its outputs, kept in `build/` until it or the package changes. With DOCS_RUN=0 one that was not run stays as it
    is, which is quick."""
    import nbformat

    stored = path.read_bytes()
    made = MADE / f"{path.stem}-{hashlib.sha256(stored + _version()).hexdigest()[:16]}.ipynb"
    if not made.exists() and os.environ.get("DOCS_RUN") == "0":
        made = path
    elif not made.exists():
        from nbclient import NotebookClient
        from traitlets.config import Config

        print(f"running {path.name}", file=sys.stderr)
        notebook = nbformat.reads(stored.decode(), as_version=4)
        where = {"metadata": {"path": str(path.parent)}}
        with TemporaryDirectory() as folder:
            # over TCP a kernel warns that it is not encrypted; a socket without a folder is sought in two: the kernel works elsewhere
            local = Config({"KernelManager": {"transport": "ipc", "ip": str(Path(folder) / "kernel")}})
            client = NotebookClient(notebook, timeout=900, startup_timeout=300, kernel_name="python3", resources=where, config=local)
            client.execute()
        MADE.mkdir(parents=True, exist_ok=True)
        made.write_text(nbformat.writes(notebook), encoding="utf-8")
    return nbformat.read(made, as_version=4)


def _as_page(notebook: Any) -> str:
    """A notebook as Markdown: of what needs a kernel, the picture that is stored beside it."""
    from nbconvert import MarkdownExporter
    from traitlets.config import Config

    for cell in notebook.cells:
        outputs = cell.get("outputs", [])
        for output in outputs:
            data = output.get("data", {})
            data.pop(_NEEDS_A_KERNEL, None)
            if "text/html" in data:
                data["text/html"] = f'<div class="output">{data["text/html"]}</div>'
        if outputs:  # a bar that showed how far something was leaves nothing
            cell["outputs"] = [output for output in outputs if output.get("data", True)]
    exporter = MarkdownExporter(config=Config({"ExtractOutputPreprocessor": {"enabled": False}}))  # pictures stay in the page
    return str(exporter.from_notebook_node(notebook)[0])


@cache
def _version() -> bytes:
    """A digest of the package: another one may print something else."""
    digest = hashlib.sha256()
    for path in sorted((ROOT / "irscope").rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.digest()


def _reference() -> str:
    """One section for each public name, from its docstrings."""
    sys.path.insert(0, str(ROOT))
    import irscope

    lines = ["# Reference", "", "Everything that `import irscope as irs` gives. Names are imported when they are first used.", ""]
    for name in sorted(irscope.__all__, key=lambda name: (not name[0].islower(), name)):
        thing = getattr(irscope, name)
        kind = thing if hasattr(thing, "__qualname__") else type(thing)
        if name == "corpus":
            lines += ["::: irscope.corpus.run.survey", "", "::: irscope.corpus.findings.Survey", ""]
        elif hasattr(thing, "__qualname__"):
            lines += [f"::: {kind.__module__}.{kind.__qualname__}", ""]
        elif not isinstance(thing, type(sys)):
            said = (kind.__doc__ or "").strip()
            lines += [f"## `{name}`", "", *_as_markdown(said), ""]
    return "\n".join(lines)


def _as_markdown(said: str) -> Iterator[str]:
    import inspect

    yield from inspect.cleandoc(said).splitlines()


def _errors() -> str:
    """Each error class with the messages that the source raises, what varies in braces, and the hint that comes with it."""
    import inspect

    import irscope.errors as errors

    classes = inspect.getmembers(errors, lambda thing: inspect.isclass(thing) and thing.__module__ == errors.__name__)
    found: dict[str, list[tuple[str, str, str]]] = {name: [] for name, _ in classes}
    for path in sorted((ROOT / "irscope").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assigned = {
            target.id: node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in found and node.args:
                what = _words(node.args[0], assigned)
                hint = next((_words(each.value, assigned) for each in node.keywords if each.arg == "hint"), "")
                if what:
                    found[node.func.id].append((what, hint, path.relative_to(ROOT).as_posix()))
    lines = ["# Errors by their message", ""]
    lines += ["What varies stands in braces. Each error says where in the program it is, and what to do now.", ""]
    for name, messages in found.items():
        lines += [f"## {name}", "", (getattr(errors, name).__doc__ or "").split("\n")[0], ""]
        for what, hint, _ in sorted(set(messages)):
            lines.append(f"* {_escaped(what)}" + (f"<br>*{_escaped(hint)}*" if hint else ""))
        lines.append("")
    return "\n".join(lines)


def _words(node: ast.expr, assigned: dict[str, ast.expr]) -> str:
    """A message as it stands in the source."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(str(part.value) if isinstance(part, ast.Constant) else "{…}" for part in values)
        case ast.Name(id=name) if name in assigned and not isinstance(assigned[name], ast.Name):
            return _words(assigned[name], assigned)
        case ast.IfExp(body=body):
            return _words(body, assigned)
    return ""


def _escaped(text: str) -> str:
    return re.sub(r"([\\`*_<>\[\]|#])", r"\\\1", " ".join(text.split()))
