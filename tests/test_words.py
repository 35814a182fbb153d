"""Errors, remarks, verdicts and the titles of tests use the field's words: each pattern here was replaced by what stands beside it."""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1] / "irscope"

INSTEAD = {
    r"\bnobody\b": "say what is not observable, unused, or unknown", r"\bsomebody\b": "say who: the caller, a user, another node",
    r"\banew\b": "again, or from scratch", r"(?<!there )\bis no [a-z]": "is not a …, or has no …", r"\bare no [a-z]": "are not …",
    r"\bcomputes what\b": "functional variant", r"\btaken in\b": "accumulated", r"\b(whoever|whosoever)\b": "name the caller or the user",
    r"\bat hand\b": "available, or installed", r"\bturned reads?\b": "transposed reads", r"\bmakers?\b": "producer",
    r"\breaders? of\b": "users of", r"\btwins?\b": "functional variant", r"\bcalm\b": "reorderable", r"\bdear\b": "expensive",
    r"\bat the run\b": "at run time", r"\b(is|are) computed$": "is known only at run time", r"\bcut off\b": "truncated",
    r"\btalks? to\b": "communicates with", r"\bnothing ties\b": "no dependence joins",
    r"\bbits of its own\b": "say that it rounds otherwise",
}  # fmt: skip

IN_TESTS = {**INSTEAD, r"\btold\b": "reported, given, distinguished"}

SAID = {
    *("Created", "Erased", "Replaced", "Merged", "Remark", "Refusal", "yes", "no", "Verdict", "PassError"),
    *("Failed", "Undecided", "refuse", "refused", "unstructured", "wrong"),
}


def sentences() -> Iterator[tuple[str, str]]:
    """What users read, with where it is written: arguments of errors, remarks, refusals and verdicts."""
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                call = node.exc
            elif isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) in SAID:
                call = node
            else:
                continue
            for argument in [*call.args, *(keyword.value for keyword in call.keywords)]:
                for part in ast.walk(argument):
                    if isinstance(part, ast.Constant) and isinstance(part.value, str) and " " in part.value:
                        yield f"{path.relative_to(ROOT)}:{part.lineno}", part.value


def titles() -> Iterator[tuple[str, str]]:
    """The names of tests as words, and all docstrings, of all tests."""
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield f"{path.name}:{node.lineno}", node.name.replace("_", " ")
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module) and ast.get_docstring(node):
                yield f"{path.name}:{getattr(node, 'lineno', 1)}", str(ast.get_docstring(node))


def of_a_fresh_process() -> dict[str, list[tuple[str, str]]]:
    """Python 3.11 counts the depth of its parser wrongly in a process in which an interrupt came into it."""
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True, check=True)
    found: dict[str, list[tuple[str, str]]] = json.loads(done.stdout)
    return found


def test_what_users_read_is_in_the_fields_words() -> None:
    found = of_a_fresh_process()["sentences"]
    assert len(found) > 500, "the sentences were found"
    wrong = [f"{where}: {text!r} ({better})" for where, text in found for pattern, better in INSTEAD.items() if re.search(pattern, text)]
    assert not wrong, "\n".join(wrong)


def test_titles_and_docstrings_of_tests_are_in_the_fields_words() -> None:
    found = of_a_fresh_process()["titles"]
    assert len(found) > 1000, "the titles were found"
    wrong = [(where, text[:120], better) for where, text in found for pattern, better in IN_TESTS.items() if re.search(pattern, text)]
    assert not wrong, "\n".join(map(str, wrong))


if __name__ == "__main__":
    print(json.dumps({"sentences": list(sentences()), "titles": list(titles())}))
