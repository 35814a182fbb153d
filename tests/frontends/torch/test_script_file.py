"""Saved TorchScript that says what is not so, or that torch's own reader crashes on: an error, in a process that lives on."""

import io
import pickle
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

import irscope as irs
from irscope.errors import LoadError
from irscope.frontends.torch.script_source import is_source_table

torch = pytest.importorskip("torch")

from tests.oracles.damaged_files import zipped  # noqa: E402

FOUR = b"K\x04"
LARGE = b"J\x00\x00\x00\x40"


class Net(torch.nn.Module):
    def __init__(self, scale: Any = None) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(4) if scale is None else scale)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x * 2, self.scale


def records(model: Any) -> dict[str, bytes]:
    held = io.BytesIO()
    torch.jit.save(torch.jit.script(model), held)
    with zipfile.ZipFile(held) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture
def good() -> dict[str, bytes]:
    return records(Net())


def load(path: Path, found: dict[str, bytes], **options: Any) -> Any:
    path.write_bytes(zipped(list(found.items())))
    return irs.load(path, **options)


def test_a_tensor_that_is_longer_than_its_record(tmp_path: Path, good: dict[str, bytes]) -> None:
    """Torch reads on in other memory of the process; a page could then show it."""
    data = good["archive/data.pkl"]
    place = data.index(b"cpu") + 5
    assert data[place : place + 2] == FOUR  # how many elements the storage has
    longer = data[:place] + LARGE + data[place + 2 :].replace(FOUR, LARGE, 1)
    for content, has in ((longer, 4 << 30), (data.replace(b"FloatStorage", b"ComplexDoubleStorage"), 64)):
        with pytest.raises(LoadError, match=f"has {has} bytes, of which 16 are in the file"):
            load(tmp_path / "m.pt", {**good, "archive/data.pkl": content})
    with pytest.raises(LoadError, match="0 are in the file"):
        load(tmp_path / "m.pt", {name: record for name, record in good.items() if name != "archive/data/0"})
    shorter = {**good, "archive/data/0": good["archive/data/0"][:-1]}
    with pytest.raises(LoadError, match="of which 15 are"):
        load(tmp_path / "m.pt", shorter)


@pytest.mark.parametrize("change", [
    (b"ctorch\nFloatStorage\n", b"K\x06"), (b"ctorch\nFloatStorage\n", b"ctorch\nStorage\n"), (FOUR, b"\x88"),
    (b"X\x01\x00\x00\x000", b"K\x00"),
])  # fmt: skip
def test_storages_in_other_pickle_forms(tmp_path: Path, good: dict[str, bytes], change: tuple[bytes, bytes]) -> None:
    data = good["archive/data.pkl"]
    assert change[0] in data
    with pytest.raises(LoadError):
        load(tmp_path / "m.pt", {**good, "archive/data.pkl": data.replace(*change, 1)})


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.parametrize("name", ["uint16", "float8_e5m2", "float8_e8m0fnu", "complex32", "bool", "bfloat16", "int64", "complex128"])
def test_every_element_type_is_loaded(tmp_path: Path, name: str) -> None:
    graph = load(tmp_path / "m.pt", records(Net(torch.zeros(3).to(getattr(torch, name)))))
    assert [value.dtype for value in graph.bound.values()] == [getattr(torch, name)]


def test_odd_tensors_are_loaded(tmp_path: Path) -> None:
    eye = torch.eye(3)
    for tensor in (eye.to_sparse(), torch.ones(9)[3:5], torch.zeros(0), torch.ones(1).expand(5), eye.t()):
        (found,) = load(tmp_path / "m.pt", records(Net(tensor))).bound.values()
        assert torch.equal(found.to_dense() if found.is_sparse else found, tensor.to_dense() if tensor.is_sparse else tensor)


@pytest.mark.skipif(sys.platform != "linux", reason="tried where processes are forked and limited")
@pytest.mark.parametrize(
    "pickled",
    [b"\x80\x02" + b"(" * 600_000 + b"t" * 600_000 + b".", b"\x80\x02)" + b"\x85" * 600_000 + b"."],
    ids=["marks", "tuples"],
)  # fmt: skip
def test_files_that_crash_torch_s_own_loader_are_refused(tmp_path: Path, good: dict[str, bytes], pickled: bytes) -> None:
    with pytest.raises(LoadError, match=r"(?s)torch's reader crashes with signal.*trust=True"):
        load(tmp_path / "m.pt", {**good, "archive/constants.pkl": pickled})


@pytest.mark.parametrize("found", [(), ((),), 1, ((1, 2, 3),), ("FORMAT_WITH_STRING_TABLE", ("a",), ((0, (([1], 0, 0), 0, 0)),))])
def test_invalid_source_locations_are_refused(tmp_path: Path, good: dict[str, bytes], found: Any) -> None:
    name = next(name for name in good if name.endswith(".debug_pkl"))
    with pytest.raises(LoadError, match="source texts that are not in it"):
        load(tmp_path / "m.pt", {**good, name: pickle.dumps(found, protocol=2)})


def test_source_locations_in_both_formats() -> None:
    table = ("FORMAT_WITH_STRING_TABLE", ("", "a.py", "x = 1"), ((0, (([2], 1, 3), 0, 5), 7),))
    old = ((0, (("x = 1", None, 3), 0, 5), 7), (1, (("x = 1", "a.py", 3), 0, 5)))
    assert is_source_table(pickle.dumps(table, protocol=2)) and is_source_table(pickle.dumps(old, protocol=2))
    for pieces, file in (([3], 1), ([-1], 1), ([True], 1), ([2], 3), ([2], -1)):
        wrong = (*table[:2], ((0, ((pieces, file, 3), 0, 5), 7),))
        assert not is_source_table(pickle.dumps(wrong, protocol=2))


def test_the_format_before_there_was_code(tmp_path: Path, good: dict[str, bytes]) -> None:
    with pytest.raises(LoadError, match=r"not trusted: it is in the format before torch 1\.2"):
        load(tmp_path / "m.pt", {**good, "archive/model.json": b"{}"})
