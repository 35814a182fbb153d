"""The case files themselves: written as `--bless` writes them, each with a claim, and one "does not" for each "does"."""

from pathlib import Path

import pytest

from tests.case_answers import ANSWERS
from tests.conftest import read_sections, write_sections

CASES = Path(__file__).parent.parent / "cases"


@pytest.mark.parametrize("folder", sorted(ANSWERS))
def test_case_files_are_as_bless_writes_them(folder: str) -> None:
    paths = sorted((CASES / folder).glob("*.ir"))
    negative = [path for path in paths if path.stem.startswith("not-")]
    if folder in ("fusion", "passes"):  # a case of aliasing asks what holds and what does not in one file
        assert len(negative) >= len(paths) - len(negative) > 0
    for path in paths:
        text = path.read_text(encoding="utf-8")
        sections = read_sections(text)
        assert sections["claim"].endswith("."), path
        assert {"input", "texts"} & sections.keys(), path
        assert write_sections(sections) == text, path
