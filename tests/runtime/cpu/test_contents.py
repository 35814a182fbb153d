"""The hash of memory beside the same sum in Python, and its answer to every kind of small write."""

import numpy as np
import pytest

from irscope.runtime.cpu.compiler import CpuCompiler
from irscope.runtime.cpu.contents import Hash
from irscope.runtime.program.executable import shared_device

SIZES = [0, 1, 3, 4, 63, 64, 255, 256, 257, 1000, 4096, 4099]


def plainly(held: list[bytes]) -> int:
    """Returns the hash, computed as the module says."""
    found, lanes = 0, [0] * 64
    for each in held:
        words = each[: len(each) // 4 * 4]
        filled = words + bytes(-len(each) // 256 * -256 - len(words))
        for at in range(0, len(filled), 4):
            lane = at // 4 % 64
            made = (lanes[lane] + int.from_bytes(filled[at : at + 4], "little")) * 0x9E3779B1 % 2**32
            lanes[lane] = made ^ made >> 15
        for number in each[len(words) :]:
            found = (found + number) * 0x100000001B3 % 2**64
    for number in lanes:
        found = (found + number) * 0x100000001B3 % 2**64
    return found


def contents(arrays: list[np.ndarray]):
    return Hash(CpuCompiler(shared_device("cpu").store)).of([(array.ctypes.data, array.nbytes) for array in arrays])


def test_it_is_the_sum_that_the_module_describes() -> None:
    rng = np.random.default_rng(0)
    for start in range(len(SIZES)):
        arrays = [rng.integers(0, 256, size + 3, np.uint8)[3:] for size in SIZES[start:]]  # of any alignment
        assert contents(arrays)() == plainly([array.tobytes() for array in arrays])


@pytest.mark.parametrize("size", SIZES[1:])
def test_a_write_of_any_byte_and_an_exchange_of_any_two_words_are_seen(size: int) -> None:
    rng = np.random.default_rng(size)
    held = rng.integers(0, 256, size, np.uint8)
    seen = contents([held])
    before = seen()
    for at in rng.integers(0, size, 50):
        held[at] ^= np.uint8(1 << rng.integers(0, 8))
        assert seen() != before
        before = seen()
    words = held[: size // 4 * 4].view(np.uint32)
    for a, b in rng.integers(0, max(len(words), 1), (50, 2)):
        if len(words) and words[a] != words[b]:
            words[[a, b]] = words[[b, a]]
            assert seen() != before
            before = seen()


@pytest.mark.parametrize("size", [1 << 8, 1 << 12, 1 << 16, 1 << 20])
def test_floats_that_differ_by_powers_of_two_have_different_hashes(size: int) -> None:
    held = np.zeros(size, np.float32)
    places = [at for at in (0, 1, 64, 4032, size // 2) if at < size - 1]
    seen, known = contents([held]), []
    for number in (0, 1, 2, 4, 0.5, -1, -2, np.inf):
        held[:] = number
        known.append(seen())
        for at in places:
            for pair in ((8, -8), (-8, 8)):
                held[[at, -1]] = pair
                known.append(seen())
            held[[at, -1]] = number
    assert len(set(known)) == len(known) == 8 * (1 + 2 * len(places))
