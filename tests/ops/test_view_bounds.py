"""Views over NumPy's arrays stay within them: what torch refuses is refused, and nothing beside the memory is read or written."""

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.errors import ArgumentError, RunError
from irscope.ops.numpy_layout import address_of, memory_of, view_at
from tests.programs import parsed

torch = pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]
LAYOUTS = {
    "rows": lambda a: a, "columns": lambda a: a.T, "a part": lambda a: a[1:, 1:], "every second": lambda a: a[::2, ::3],
    "no elements": lambda a: a[:0], "a row": lambda a: a[2], "no dimensions": lambda a: a[1, 1, ...],
    "repeated": lambda a: np.broadcast_to(a[0], (3, 6)),
}  # fmt: skip


def program(op: str, arguments: list[Any]) -> str:
    lines, names = [], []
    for index, argument in enumerate(arguments):
        kind = "int[]" if isinstance(argument, list) else "NoneType" if argument is None else "int"
        told = "" if argument is None else f"[value={argument}]"
        lines.append(f"  %c{index} : {kind} = prim::Constant{told}()")
        names.append(f", %c{index}")
    several = op.split("::")[1] in ("chunk", "split", "split_with_sizes", "unbind", "tensor_split")
    lines.append(f"  %y : {'Tensor[]' if several else 'Tensor'} = {op}(%x{''.join(names)})")
    return "graph(%x : Tensor):\n" + "\n".join(lines) + "\n  return (%y)"


HOSTILE = (-(2**62), -9, -3, -2, -1, 0, 1, 2, 3, 4, 5, 9, 2**31, 2**62)


def arguments(op: str, chance: random.Random) -> list[Any]:
    """Mostly near what fits, at times far off."""

    def number() -> int:
        return chance.choice(HOSTILE if chance.random() < 0.3 else (-2, -1, 0, 1, 2, 3, 4))

    def several(least: int = 0) -> list[int]:
        return [number() for _ in range(chance.randint(least, 3))]

    match op:
        case "as_strided":
            sizes = several()
            strides = several() if chance.random() < 0.1 else [number() for _ in sizes]
            return [sizes, strides, chance.choice([None, number()])]
        case "split_with_sizes":
            return [several(), number()]
        case "slice":
            return [number(), chance.choice([None, number()]), chance.choice([None, number()]), number()]
        case "narrow" | "unfold" | "diagonal":
            return [number(), number(), number()]
        case "select" | "chunk" | "split" | "tensor_split" | "transpose":
            return [number(), number()]
        case "unbind" | "unsqueeze" | "squeeze":
            return [number()]
        case _:
            return [several()]


OPS = (
    "as_strided select slice narrow unfold diagonal chunk split split_with_sizes unbind tensor_split transpose unsqueeze squeeze "
    "view reshape expand permute"
).split()


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_what_torch_refuses_is_refused(op: str, device: str) -> None:
    chance = random.Random(f"{op}")
    for _ in range(60):
        given = arguments(op, chance)
        layout = chance.choice(list(LAYOUTS))
        array = LAYOUTS[layout](np.arange(24, dtype=np.float32).reshape(4, 6))
        told = f"{op}{given} of {layout}"
        tensor = torch.from_numpy(np.arange(24, dtype=np.float32).reshape(4, 6))
        function = getattr(torch.ops.aten, op)
        try:
            wanted = function(_as_torch(layout, tensor), *given)
        except (RuntimeError, IndexError, ValueError, TypeError):
            wanted = None
        if isinstance(wanted, torch.Tensor) and min(wanted.shape, default=0) < 0:
            wanted = None  # torch makes tensors of negative extents if they have no elements
        graph = irs.parse(program(f"aten::{op}", given))
        try:
            found = irs.compile(graph, device=device)(array)
        except (RunError, ArgumentError):
            assert wanted is None, told
            continue
        assert wanted is not None, f"{told} is taken, and gives {found}"
        pairs = zip(found, wanted, strict=True) if isinstance(wanted, list | tuple) else [(found, wanted)]
        for mine, its in pairs:
            np.testing.assert_array_equal(np.asarray(mine), its.numpy(), told)


def _as_torch(layout: str, tensor: Any) -> Any:
    """The same view of the same memory."""
    return tensor[0].expand(3, 6) if layout == "repeated" else LAYOUTS[layout](tensor)


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_writes_through_a_view_stay_within(device: str) -> None:
    for size, stride, offset in ((20000, 1, 0), (2, 15, 2), (16, 1, 1), (4, -1, 3), (1, 1, 16), (1, 1, -1), (3, 2**60, 0)):
        numbers = f"size = [{size}]; stride = [{stride}]; offset = {offset}; half = 0.5"
        graph = parsed(f"x | {numbers}; v = as_strided x size stride offset; w = fill_ v half | x")
        memory = np.full(16 + 400, 7, np.float32)
        with pytest.raises((RunError, ArgumentError), match="as_strided"):
            irs.compile(irs.fuse(graph), device=device)(memory[:16].copy().reshape(4, 4))
        assert (memory == 7).all()


def seen(array: np.ndarray, shape: tuple[int, ...], strides: tuple[int, ...], offset: int | None = None) -> np.ndarray:
    start = address_of(array) if offset is None else memory_of(array)[1] + offset
    return view_at(array, shape, strides, start, op="as_strided")


def test_the_memory_of_views_of_views() -> None:
    whole = np.arange(24.0).reshape(4, 6)
    part = seen(whole[1:, 2:], (2, 2), (48, 16))
    for view in (whole, whole[2:], whole.T[1:], part, part[1:], seen(part, (3,), (8,), 40)):
        found, first, last = memory_of(view)
        assert (found.size, last - first) == (24, 192)
    assert seen(part, (3,), (8,), 40).tolist() == [5.0, 6.0, 7.0]
    seen(part, (3,), (8,), 40)[...] = -1
    assert whole.reshape(-1)[4:9].tolist() == [4.0, -1.0, -1.0, -1.0, 8.0]
    with pytest.raises(ArgumentError, match="184 to 200 of memory that has 192"):
        seen(part, (2,), (8,), 184)
    frozen = whole[:]
    frozen.flags.writeable = False
    assert not seen(frozen, (2,), (8,), 8).flags.writeable


def test_arrays_whose_elements_are_not_whole_steps_apart() -> None:
    records = np.zeros(5, dtype=[("a", "f4"), ("b", "i2")])
    records["a"] = np.arange(5)
    written = irs.parse("graph(%x : Tensor):\n  %y : Tensor = aten::relu_(%x)\n  return (%y)")
    with pytest.raises(ArgumentError, match="whole number of elements"):
        irs.compile(written)(records["a"])
    for op, given in (("t", []), ("unsqueeze", [0]), ("slice", [0, 1, 4, 1]), ("view", [[5, 1]]), ("expand", [[2, 5]])):
        graph = irs.parse(program(f"aten::{op}", given))
        wanted = getattr(torch.ops.aten, op)(torch.arange(5.0), *given)
        for device in ("cpu", "reference"):
            np.testing.assert_array_equal(np.asarray(irs.compile(graph, device=device)(records["a"])), wanted.numpy())


GUARDED = ["tests/ops/test_view_bounds.py", "tests/runtime/test_reference.py"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="pages are guarded as Linux does it")
@pytest.mark.parametrize("files", [
    GUARDED, pytest.param(["tests/ops", "tests/runtime/arrays/test_library.py", "tests/codegen"], marks=pytest.mark.long),
])  # fmt: skip
def test_with_a_page_that_is_protected_after_each_array(files: list[str]) -> None:
    """A read or write past an array's end ends the process."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "tests.guard_pages", "-p", "no:cacheprovider", *files]
    done = subprocess.run([*command, "-k", "not with_a_page and not jax"], cwd=ROOT, capture_output=True, text=True, timeout=560)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert "guarded" in done.stdout


@pytest.mark.parametrize("layout", list(LAYOUTS))
def test_an_alias_of_another_shape_stays_within_too(layout: str) -> None:
    """Torch makes `_reshape_alias` beyond the memory without asking: `as_strided`, which asks, is the judge."""
    chance = random.Random(layout)
    for _ in range(40):
        sizes, strides, _ = arguments("as_strided", chance)
        array = LAYOUTS[layout](np.arange(24, dtype=np.float32).reshape(4, 6))
        tensor = _as_torch(layout, torch.arange(24, dtype=torch.float32).reshape(4, 6))
        try:
            wanted = tensor.as_strided(sizes, strides)
        except (RuntimeError, IndexError, ValueError, TypeError):
            wanted = None
        graph = irs.parse(program("aten::_reshape_alias", [sizes, strides]))
        runs = [(irs.compile(graph), tensor), (irs.compile(graph), array), (irs.compile(graph, device="reference"), array)]
        for executable, given in runs:
            if wanted is not None and (min(wanted.shape, default=0) < 0 or wanted.numel() > 1000):
                continue  # torch makes tensors of negative extents if they have no elements; and few can be looked at
            if wanted is None:
                with pytest.raises((RunError, ArgumentError)):
                    executable(given)
            else:
                np.testing.assert_array_equal(np.asarray(executable(given)), wanted.numpy())
