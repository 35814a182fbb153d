"""The pickles of a saved TorchScript program: tensors that lie in their records, and source places that are in their table.

Torch's reader (2.13) believes two numbers of a file that it should not. A tensor's storage has as many elements as its pickle
says, however short the record is that holds them: what is read behind its end is other memory of the process. And texts of
source places are taken from a table at any number. Both are compared here with what is there.

Here Python's unpickler reads a pickle with nothing to call: every global is inert. Torch's has fewer opcodes, and each does to
the stack and the memo what Python's does; where torch pops what nobody pushed, or takes the number of a global for an integer,
Python raises, or finds no `int`. So the storages that torch makes are among those that are looked at here.
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
    """What a global of a pickle makes: nothing."""

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
    """Raises ValueError where a storage of a pickle is longer than its record, and what `pickle` raises for none.

    `size_of` is how many bytes the record of a key has, `item_of` how many an element of a storage type has.
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
    """Whether a record of source places is one, and each of its texts in its table.

    >>> is_source_table(pickle.dumps((), protocol=2)), is_source_table(pickle.dumps(((),), protocol=2))
    (False, False)
    """
    found = _Reader(content).load()
    match found:
        case (str() as told, tuple(texts), tuple(lines)) if told == _FORMAT:
            known = len(texts) if all(isinstance(text, str) for text in texts) else 0
        case tuple(lines) if lines:
            known = 0  # the form before the table: texts stand in the places
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
