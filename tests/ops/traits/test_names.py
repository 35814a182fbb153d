"""A trait is of ops that there are: a name with a slip in it would be asked for by nobody."""

from __future__ import annotations

import pytest

from irscope.ops import traits
from irscope.ops.registry import known_names, overloads

SETS = {name: found for name in traits.__all__ if isinstance(found := getattr(traits, name), frozenset)}


@pytest.mark.parametrize("trait", sorted(SETS))
def test_every_name_is_one_of_an_op(trait: str) -> None:
    pytest.importorskip("torch", reason="rare ops have schemas in torch alone")
    known = set(known_names())
    assert not sorted(name for name in SETS[trait] if name.startswith("aten::") and name not in known and not overloads(name))
