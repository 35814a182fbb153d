"""Which tensors have memory in common, beside NumPy's own answer."""

import random
from typing import Any

import numpy as np
import pytest

from irscope._base.nested import address_range, by_storage


def random_slice(memory: np.ndarray, draw: random.Random) -> np.ndarray:
    start = draw.randrange(memory.size)
    return memory[start : start + draw.randrange(6) : draw.choice((1, 2))][:: draw.choice((1, -1))]


@pytest.mark.parametrize("seed", range(20))
def test_equal_numbers_for_blocks_that_numpy_says_overlap(seed: int) -> None:
    draw = random.Random(seed)
    memory = bytearray(400)
    # arrays over one buffer that NumPy does not know to be one, so that each is a block of its own
    arrays = {name: np.frombuffer(memory, np.uint8, draw.choice((0, 1, 9, 30)), draw.randrange(300)) for name in range(12)}
    numbers = by_storage(arrays)
    assert numbers.keys() == arrays.keys()
    for a in arrays:
        for b in arrays:
            if a != b and np.may_share_memory(arrays[a], arrays[b]):
                assert numbers[a] == numbers[b]
    groups = {number: [arrays[name] for name in arrays if numbers[name] == number] for number in numbers.values()}
    for members in groups.values():  # no group falls into parts that lie apart
        reached, todo = [members[0]], members[1:]
        while fresh := [a for a in todo if any(np.may_share_memory(a, b) for b in reached)]:
            reached += fresh
            todo = [a for a in todo if not any(a is b for b in fresh)]
        assert not todo


@pytest.mark.parametrize("seed", range(5))
def test_slices_of_one_array_are_one_block(seed: int) -> None:
    draw = random.Random(seed)
    memory, other = np.zeros(50), np.zeros(50)
    slices = [random_slice(memory, draw) for _ in range(6)]
    assert {address_range(found) for found in slices} == {address_range(memory)}
    assert set(by_storage({**dict(enumerate(slices)), "other": other}).values()) == {0, 1}


def test_what_lies_nowhere_has_no_number(torch: Any) -> None:
    assert address_range(None) is None and address_range(torch.zeros(3, device="meta")) is None
    assert address_range(torch.eye(3).to_sparse()) is None
    x = torch.zeros(4, 4)
    assert by_storage({"x": x, "view": x.t()[1], "sparse": x.to_sparse(), "other": torch.zeros(2)}) == {"x": 0, "view": 0, "other": 1}
