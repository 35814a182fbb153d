"""ONNX's own node tests, from the onnx package: each case is a model of one op (or of the function that defines it), with
inputs and the outputs that every implementation must give, within the tolerances of the case.

`python -m tests.frontends.onnx.node_tests [PART_OF_A_NAME] [--device cpu|reference] [--arrays numpy|torch]` runs all of them
and prints the counts: loaded; opaque, with an op that stayed `onnx::`; run, all ops `aten::`; passed. The opaque ones are
run as well, by ONNX's reference implementation, and counted apart.
"""

import argparse
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

import irscope as irs
from irscope.errors import IrscopeError
from irscope.ir.core import Graph


@dataclass(frozen=True)
class Case:
    """One model with its data."""

    name: str
    model: Any
    data: Sequence[tuple[Sequence[Any], Sequence[Any]]]
    rtol: float
    atol: float


@lru_cache(maxsize=1)
def cases() -> tuple[Case, ...]:
    """All node cases of the installed onnx."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests

        found = load_model_tests(kind="node")
    return tuple(Case(c.name, c.model, c.data_sets, c.rtol, c.atol) for c in found)


def frozen(case: Case) -> Case | None:
    """The case with all inputs but the first as weights, so that builders know axes, scales and pads; None without any."""
    from onnx import TensorProto, numpy_helper

    ((inputs, outputs), *others) = case.data
    names = [info.name for info in case.model.graph.input]
    rest = [(name, item) for name, item in zip(names, inputs, strict=False)][1:]
    if others or not rest or any(isinstance(item, list) or item is None for _, item in rest):
        return None
    model = type(case.model)()
    model.CopyFrom(case.model)
    for name, item in rest:
        held = item if isinstance(item, TensorProto) else numpy_helper.from_array(np.asarray(item), name)
        made = model.graph.initializer.add()
        made.CopyFrom(held)
        made.name = name
    return Case(f"{case.name}_frozen", model, [(inputs[:1], outputs)], case.rtol, case.atol)


def is_opaque(graph: Graph) -> bool:
    return any(node.op.startswith("onnx::") for node in graph.nodes())


def check(case: Case, graph: Graph, device: str, arrays: str) -> None:
    """Raises AssertionError or an error of irscope's unless the graph gives what the case wants."""
    for inputs, outputs in case.data:
        given = [_argument(_array(item), arrays) for item in inputs]
        found = irs.compile(irs.fuse(graph), device=device)(*given)
        results = found if isinstance(found, tuple) and len(graph.outputs) != 1 else (found,)
        assert len(results) == len(outputs)
        for result, wanted in zip(results, outputs, strict=True):
            _same(result, _array(wanted), case, widened=device == "reference")


def _array(item: Any) -> Any:
    """Element types that NumPy lacks come as protos."""
    from onnx import TensorProto, numpy_helper

    if isinstance(item, list):
        return [_array(part) for part in item]
    return numpy_helper.to_array(item) if isinstance(item, TensorProto) else item


def _argument(item: Any, arrays: str) -> Any:
    """An array of NumPy's or `ml_dtypes`', or a tensor of torch's."""
    if isinstance(item, list):
        return [_argument(part, arrays) for part in item]
    if not isinstance(item, np.ndarray):
        return np.asarray(item) if isinstance(item, np.generic) else item
    if arrays != "torch":
        return item.copy()
    import torch

    if str(item.dtype) == "bfloat16":
        return torch.from_numpy(item.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(item.copy()) if item.dtype.kind in "biuf" and item.dtype.isbuiltin == 1 else item.copy()


def _same(result: Any, wanted: Any, case: Case, *, widened: bool) -> None:
    """`widened`: whether bfloat16 may come as float32."""
    if isinstance(wanted, list):
        assert len(result) == len(wanted)
        for part, other in zip(result, wanted, strict=True):
            _same(part, other, case, widened=widened)
        return
    if hasattr(result, "detach"):
        dtype = str(result.dtype).removeprefix("torch.")
        result = (result.float() if dtype.startswith(("bfloat", "float8")) else result).numpy()
    else:
        result = np.asarray(result)
        dtype = str(result.dtype)
    if wanted is None:
        assert result is None or result.item() is None
        return
    wanted = np.asarray(wanted)
    is_wide = widened and (dtype, str(wanted.dtype)) == ("float32", "bfloat16")
    assert dtype == str(wanted.dtype) or is_wide, (dtype, wanted.dtype)
    assert result.shape == wanted.shape, (result.shape, wanted.shape)
    if wanted.dtype.kind in "OUS":
        assert result.astype(str).tolist() == wanted.astype(str).tolist()
        return
    rtol = max(case.rtol, 2**-6) if str(wanted.dtype) == "bfloat16" else case.rtol  # as ONNX's own runner has it
    if wanted.dtype.isbuiltin != 1:
        result, wanted = result.astype(np.float32), wanted.astype(np.float32)
    np.testing.assert_allclose(result, wanted, rtol=rtol, atol=case.atol)


def results(part: str, device: str, arrays: str, freeze: bool = False) -> Iterator[tuple[str, str, str]]:
    """Name, outcome and reason of each case: `passed`, `failed`, `opaque passed`, `opaque failed`, `not loaded`."""
    for plain in cases():
        case = frozen(plain) if freeze else plain
        if part not in plain.name or case is None:
            continue
        try:
            graph = irs.load(case.model)
        except Exception as error:
            yield case.name, "not loaded", f"{type(error).__name__}: {error}"
            continue
        kind = "opaque " if is_opaque(graph) else ""
        try:
            check(case, graph, device, arrays)
            yield case.name, f"{kind}passed", ""
        except (AssertionError, IrscopeError, RuntimeError, TypeError, ValueError) as error:
            yield case.name, f"{kind}failed", f"{type(error).__name__}: {error}"


def main() -> None:
    parser = argparse.ArgumentParser(description="run ONNX's node tests through irscope, and count")
    parser.add_argument("part", nargs="?", default="", help="only cases whose names have this in them")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda", "reference"])
    parser.add_argument("--arrays", default="numpy", choices=["numpy", "torch"])
    parser.add_argument("--frozen", action="store_true", help="with all inputs but the first as weights")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    counts: Counter[str] = Counter()
    reasons: dict[str, list[str]] = defaultdict(list)
    for name, outcome, reason in results(options.part, options.device, options.arrays, options.frozen):
        counts[outcome] += 1
        if reason:
            reasons[f"{outcome}: {' '.join(reason.split())[:150]}"].append(name)
    for why, names in sorted(reasons.items(), key=lambda item: -len(item[1])):
        print(f"{len(names):4} {why}\n       {' '.join(names[:4])}")
    opaque = counts["opaque passed"] + counts["opaque failed"]
    run = counts["passed"] + counts["failed"]
    print(
        f"{options.device}, {options.arrays} arrays: {run + opaque} of {run + opaque + counts['not loaded']} loaded; "
        f"{run} run as aten:: ops, {counts['passed']} passed; {opaque} opaque, {counts['opaque passed']} of them run by "
        "ONNX's reference"
    )


if __name__ == "__main__":
    main()
