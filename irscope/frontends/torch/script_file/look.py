"""Checks all records of a saved TorchScript program with torch's own reader: another reader might see different
content."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from irscope.frontends.torch.script_file.code import acts_when_loaded
from irscope.frontends.torch.script_file.pickles import check_storages, is_source_table

__all__ = ["reason_to_distrust"]

_HELD: Final = {"data.pkl": "data/", "constants.pkl": "constants/"}
"""Pickles, and the folders of their tensors' records."""
_TABLES: Final = ".debug_pkl"


def reason_to_distrust(reader: Any) -> str:
    """Returns why a file may do more than load data, from its records in a `torch._C.PyTorchFileReader`; empty if it is only data.

    Raises ValueError, or an error of torch or `pickle`, for a damaged file.
    """
    names = set(reader.get_all_records())
    if "model.json" in names:
        return "it is in the format before torch 1.2"
    for name in sorted(names):
        if name.startswith("code/") and name.endswith(".py"):
            why = acts_when_loaded(reader.get_record(name))
            if why:
                return why
        elif name.endswith(_TABLES):
            if not is_source_table(reader.get_record(name)):
                raise ValueError(f"{name} refers to source texts that are not in it")
        elif name in _HELD:
            check_storages(reader.get_record(name), partial(_size_of, reader, names, _HELD[name]), _item_of)
    return ""


def _size_of(reader: Any, names: set[str], folder: str, key: str) -> int:
    return int(reader.get_record_size(folder + key)) if folder + key in names else 0


def _item_of(storage: str) -> int:
    """Returns the bytes per element of a storage type."""
    if storage not in _BYTES:
        raise ValueError(f"it has a tensor in a {storage}, which torch does not write")
    return _BYTES[storage]


_BYTES: Final = {
    f"{kind}Storage": size
    for size, kinds in {
        1: "Bool Byte Char QInt8 QUInt8 QUInt4x2 QUInt2x4 Float8_e5m2 Float8_e5m2fnuz Float8_e4m3fn Float8_e4m3fnuz Float8_e8m0fnu "
        "Float4_e2m1fn_x2 Bits1x8 Bits2x4 Bits4x2 Bits8",
        2: "BFloat16 Half Short UInt16 Bits16", 4: "Float Int UInt32 QInt32 ComplexHalf",
        8: "ComplexFloat Double Long UInt64", 16: "ComplexDouble",
    }.items()
    for kind in kinds.split()
}  # fmt: skip
