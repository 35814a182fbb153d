"""Checks the pickles of a saved TorchScript program: tensors must fit their records, and source locations their table.

Torch's reader (2.13) trusts two numbers of a file that it should not. A tensor's storage has as many elements as its
pickle says, even if the record that holds them is shorter: reads past its end return other memory of the process. And
texts of source locations are taken from a table at any index. Here both are compared with the actual sizes.

Python's unpickler reads the pickle here with nothing to call: every global is inert. Torch's unpickler has fewer
opcodes, and each does to the stack and the memo what Python's does; where torch pops from an empty stack, or reads the
index of a global as an integer, Python raises, or finds no `int`. So every storage that torch would create is among
those checked here.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import Any, Final

__all__ = ["check_storages", "is_source_table"]

_LISTS: Final = "torch.jit._pickle"
_FORMAT: Final = "FORMAT_WITH_STRING_TABLE"


class _Inert:
    """Replaces every global of a pickle, and does nothing."""

    def __new__(cls, *_: object) -> _Inert:
        return super().__new__(cls)

    def __setstate__(self, state: object) -> None:
        pass


class _Reader(pickle.Unpickler):
    def __init__(self, content: bytes) -> None:
        super().__init__(io.BytesIO(content))
        self.storages: list[Any] = []

    def find_class(self, module: str, name: str) -> Any:
        if module == _LISTS:
            return lambda *args: args[0] if args else None  # a list of elements of one type
        return type(name, (_Inert,), {}) if name.endswith("Storage") else _Inert

    def persistent_load(self, pid: Any) -> Any:
        self.storages.append(pid)
        return _Inert()


def check_storages(content: bytes, size_of: Callable[[str], int], item_of: Callable[[str], int]) -> None:
    """Raises ValueError if a storage of a pickle is longer than its record, and an error of `pickle` for an invalid
    pickle.

    `size_of` returns the bytes of a key's record, `item_of` the bytes per element of a storage type.
    """
    reader = _Reader(content)
    reader.load()
    for pid in reader.storages:
        match pid:
            case ("storage", type() as kind, str() as key, str(), count, *_) if type(count) is int:
                wanted, there = count * item_of(kind.__name__), size_of(key)
                if not 0 <= wanted <= there:
                    raise ValueError(f"its tensor {key!r} has {wanted} bytes, of which {there} are in the file")
            case _:
                raise ValueError("it has a tensor without a storage")


def is_source_table(content: bytes) -> bool:
    """Checks whether a record is a valid list of source locations, with every text in its table.

    >>> is_source_table(pickle.dumps((), protocol=2)), is_source_table(pickle.dumps(((),), protocol=2))
    (False, False)
    """
    found = _Reader(content).load()
    match found:
        case (str() as version, tuple(texts), tuple(lines)) if version == _FORMAT:
            known = len(texts) if all(isinstance(text, str) for text in texts) else 0
        case tuple(lines) if lines:
            known = 0  # the format without a table: the locations hold their texts
        case _:
            return False
    return all(_is_place(line, known) for line in lines)


def _is_place(line: object, known: int) -> bool:
    match line:
        case (int(), (source, int(), int()), *_):
            pass
        case _:
            return False
    match source:
        case (list(pieces), int() as file, int()) if known:
            return 0 <= file < known and all(type(piece) is int and 0 <= piece < known for piece in pieces)
        case (str(), str() | None, int()):
            return not known
    return False
