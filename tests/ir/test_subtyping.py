"""Which type may stand where another is wanted."""

from __future__ import annotations

import pytest

from irscope.ir.text.type_text import parse_type
from irscope.ir.types import is_subtype


@pytest.mark.parametrize(
    ("have", "want", "answer"),
    [
        ("Float(2)", "Tensor", True),
        ("Tensor", "Float(2)", True),
        ("Tensor", "int", False),
        ("int", "Tensor", False),
        ("int", "float", False),
        ("int", "Scalar", True),
        ("str", "Scalar", False),
        ("Tensor", "Scalar", False),
        ("NoneType", "int?", True),
        ("int?", "int?", True),
        ("int", "int?", True),
        ("str", "int?", False),
        ("int?", "int", False),
        ("int", "Union(int, str)", True),
        ("float", "Union(int, str)", False),
        ("Union(int, str)", "Union(str, int, float)", True),
        ("int?", "Union(int, NoneType)", True),
        ("int[]", "int[]", True),
        ("int[]", "float[]", False),
        ("int[]", "int", False),
        ("(int, str)", "(int, str)", True),
        ("(int, str)", "(int)", False),
        ("Dict(str, int)", "Dict(str, str)", False),
        ("Future[int]", "Future[str]", False),
        ("__torch__.M", "int", True),
        ("Tensor", "InterfaceType<I>", True),
        ("Any", "int", True),
        ("int", "Any", True),
        ("t", "int", True),
        ("int", "t[]", False),
        ("Generator", "Generator", True),
    ],
)
def test_fits(have, want, answer):
    assert is_subtype(parse_type(have), parse_type(want)) is answer
