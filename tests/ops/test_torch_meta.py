"""Ops without a rule: torch is asked for their types, and nothing of the program happens meanwhile."""

from pathlib import Path

import pytest

import irscope as irs
from irscope.analysis.shapes.inference import infer

torch = pytest.importorskip("torch")

CONSTANTS = """
  %none : NoneType = prim::Constant()
  %yes : bool = prim::Constant[value=1]()
  %n : int = prim::Constant[value=64]()
  %many : int = prim::Constant[value=1000000000000]()
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %tiny : float = prim::Constant[value=0.00001]()
  %odd : int = prim::Constant[value=-100]()
  %sizes : int[] = prim::Constant[value=[2, 3]]()
  %cpu : Device = prim::Constant[value="cpu"]()"""


def result_of(call: str, constants: str = CONSTANTS) -> object:
    graph = irs.parse(f"graph(%x : Float(2, 3, 4, 5)):{constants}\n  %r : Tensor = aten::{call}\n  return (%r)")
    return infer(graph).type(graph.value("r"))


def test_no_file_is_made_or_mapped(tmp_path: Path) -> None:
    path = tmp_path / "made"
    constants = CONSTANTS + f'\n  %path : str = prim::Constant[value="{path}"]()'
    for device in ("%none", "%cpu"):
        result_of(f"from_file(%path, %yes, %n, %none, %none, {device}, %none)", constants)
        assert not path.exists()


def test_no_random_number_is_drawn() -> None:
    before = torch.get_rng_state()
    result_of("randperm(%n, %none, %none, %none, %none)")
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("device", ["%none", "%cpu"])
def test_no_memory_is_filled(device: str) -> None:
    """A window of 4 TB, or as many random numbers, as the program says: on the processor."""
    found = result_of(f"blackman_window(%many, %none, %none, {device}, %none)")
    assert str(found).startswith("Float(1000000000000")
    found = result_of(f"kaiser_window(%many, %none, %none, {device}, %none)")
    assert str(found).startswith("Float(1000000000000")


@pytest.mark.parametrize("call", [
    "resize(%x, %sizes, %odd)", "resize(%x, %sizes, %n)", "resize_as(%x, %x, %odd)", "special_softmax(%x, %yes, %odd)",
    "randint_like(%x, %n, %odd, %none, %none, %none, %none)", "randint_like(%x, %n, %none, %odd, %none, %none, %none)",
    "hann_window(%n, %odd, %none, %none, %none)", "_remove_batch_dim(%x, %n, %n, %n)", "_ncf_unsqueeze(%x, %many)",
    "range(%zero, %n, %tiny, %one, %none, %none, %none)", "_nnpack_spatial_convolution(%x, %x, %x, %sizes, %sizes)",
])  # fmt: skip
def test_what_would_end_the_process_is_not_handed_to_torch(call: str) -> None:
    """A number that stands for nothing, where torch reads a table, and kernels that take for granted where they are called."""
    result_of(call)


def test_what_torch_knows_is_still_reported() -> None:
    assert str(result_of("channel_shuffle(%x, %yes)")).startswith("Float(2, 3, 4, 5")
    assert str(result_of("hann_window(%n, %none, %none, %none, %none)")).startswith("Float(64")
