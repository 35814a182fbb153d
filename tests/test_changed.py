"""`make check` runs the tests of what changed."""

from tests.changed import ROOT, selection_of


def test_each_file_leads_to_its_tests() -> None:
    changed = ["irscope/ir/core.py", "tests/ir/test_rewriter.py", "README.md", "tests/random_programs/graphs.py", "widgets/src/index.ts"]
    wanted = {
        "irscope/ir/core.py", "tests/ir", "tests/ir/test_rewriter.py", "tests/test_readme.py", "tests/random_programs/test_graphs.py",
        "tests/widgets",
    }  # fmt: skip
    assert set(selection_of(changed)) == wanted
    assert all((ROOT / path).exists() for path in wanted)


def test_a_case_file_is_its_own_test() -> None:
    case = next((ROOT / "tests" / "cases").rglob("*.ir")).relative_to(ROOT).as_posix()
    assert list(selection_of([case])) == [case]
