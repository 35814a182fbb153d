"""Where values lie, against the storages of eager torch: random chains of all views, from tensors that lie in any way."""

import math
import random
import re
from collections import Counter
from typing import Any

import pytest
import torch

import irscope as irs
from irscope.ir import TensorType, Value
from irscope.ops.view_steps import Extent, Layout, Num, SymbolicBytes, byte_set
from tests.programs import parsed
from tests.random_programs.view_chains import Program, addresses, chains, storage_of
from tests.work import long

pytestmark = pytest.mark.filterwarnings("ignore:.*(of dimension other than 2|0-D tensors)")


# What a layout with names says of one run: its numbers, with the names replaced by what they stand for there.

_CALLED = re.compile(r"~?\b(size|stride|first_byte)\(%(\w+)")


def wrong_about(layout: Layout, tensor: torch.Tensor, root: torch.Tensor, names: dict[str, Any]) -> str:
    """Which claim of a layout is false of a tensor; nothing if all hold.

    No claim is made of the strides and the place of a tensor without elements, nor of the strides of axes of one index.
    """
    if [number_in(size, names) for size in layout.shape] != list(tensor.shape):
        return f"extents {tuple(tensor.shape)}, not {layout}"
    if not tensor.numel():
        return ""
    for axis, stride in enumerate(layout.strides or ()):
        if tensor.shape[axis] > 1 and number_in(stride, names) != tensor.stride(axis):
            return f"strides {tensor.stride()}, not {layout}"
    first = tensor.storage_offset() * tensor.element_size() - root.storage_offset() * root.element_size()
    if layout.offset is not None and number_in(layout.offset, names) != first:
        return f"byte {first}, not {layout}"
    return ""


def number_in(number: Num, names: dict[str, Any]) -> int:
    """What a number stands for."""
    if isinstance(number, int):
        return number
    return sum(factor * math.prod(_named(name, names) for name in product) for product, factor in number.terms.items())


def _named(name: str, names: dict[str, Any]) -> int:
    if name in names:
        return int(names[name])
    found = int(eval(_CALLED.sub(r"\1('\2'", name.removeprefix("~")), {"__builtins__": {}}, names))
    names[name] = found
    return found


def names_of(inputs: tuple[Value, ...], tensors: dict[str, torch.Tensor]) -> dict[str, Any]:
    """What the names that begin with inputs stand for, and the functions that are in names."""
    found: dict[str, Any] = {
        "size": lambda name, axis: tensors[name].shape[axis],
        "stride": lambda name, axis: tensors[name].stride(axis),
        "first_byte": lambda name: tensors[name].storage_offset() * tensors[name].element_size(),
        "diagonal": lambda rows, columns, by: max(min(rows, columns - by) if by >= 0 else min(rows + by, columns), 0),
        "min": min, "max": max, "ceil": math.ceil,
    }  # fmt: skip
    for value in inputs:
        if isinstance(value.type, TensorType) and value.type.shape is not None:
            sizes = zip(value.type.shape, tensors[value.name].shape, strict=True)
            found.update({dim: size for dim, size in sizes if isinstance(dim, str)})
    return found


# Where values lie.


def roots(p: Program) -> dict[str, str]:
    """For each name the first one with the same storage."""
    first: dict[int, str] = {}
    return {name: first.setdefault(storage_of(tensor), name) for name, tensor in p.tensors.items()}


def check(p: Program, text: str = "", *, unmarked: bool = False) -> Counter[str]:
    """What was not known of how many values; fails if anything that is claimed is wrong."""
    va = irs.ViewAliases(irs.parse(text or p.text), unmarked=unmarked)
    missed: Counter[str] = Counter()
    names = names_of(va.graph.inputs, p.tensors)
    for name, root in roots(p).items():
        tensor, layout = p.tensors[name], va.layout(name)
        missed["values"] += 1
        if not va.is_decided(name):
            missed[f"undecided: {_op(va, name)}"] += 1
            continue
        assert va.kind(name) == ("input" if name[0] == "x" else "copy" if root == name else "view"), name
        assert va.root(name) is va.graph.value(root), name
        if layout is None or _is_vague(layout):
            missed["may be marked" if not unmarked and _may_be_marked(va, name, p) else f"extents and strides: {_op(va, name)}"] += 1
            assert layout is None or not wrong_about(layout, tensor, p.tensors[root], names), name
            covered = va.bytes(name)
            missed["bytes with names"] += isinstance(covered, SymbolicBytes)
            if isinstance(covered, SymbolicBytes) and tensor.numel():  # without elements no number of it is claimed
                assert told_bytes(covered, names) == addresses(tensor, p.tensors[root]), name
            continue
        assert layout.shape == tuple(tensor.shape), name
        assert layout.strides == tensor.stride(), name
        found = bytes_of(layout, p)
        if found is None:
            missed[f"offset: {_op(va, name)}"] += 1
        else:
            assert found == addresses(tensor, p.tensors[root]), name
    return missed


def _is_vague(layout: Layout) -> bool:
    return layout.strides is None or any(isinstance(n, Extent) for n in (*layout.shape, *layout.strides))


def _op(va: irs.ViewAliases, name: str) -> str:
    producer = va.graph.producer.get(va.graph.value(name))
    return "input" if producer is None else producer.op


def _may_be_marked(va: irs.ViewAliases, name: str, p: Program) -> bool:
    value: Value | None = va.graph.value(name)
    while value is not None:
        tensor = p.tensors.get(va.graph.names[value])
        if tensor is not None and (tensor.is_complex() or tensor.is_neg()):
            return True
        producer = va.graph.producer.get(value)
        value = producer.inputs[0] if producer is not None and producer.inputs else None
    return False


def bytes_of(layout: Layout, p: Program) -> frozenset[int] | None:
    """Every byte that is claimed; an offset that counts from where an input lies in its storage is given that place."""
    covered = layout.bytes
    if covered is None and isinstance(layout.offset, Extent):
        (first, *others) = layout.offset.names
        if others or not first.startswith("first_byte"):
            return None
        tensor = p.tensors[first.removeprefix("first_byte(%").removesuffix(")")]
        start = layout.offset + Extent.of(first) - tensor.storage_offset() * tensor.element_size()
        covered = Layout(layout.shape, layout.strides, start, layout.dtype).bytes
    return None if covered is None else frozenset(byte for run in covered.runs() for byte in range(*run))


def told_bytes(covered: SymbolicBytes, names: dict[str, Any]) -> frozenset[int]:
    """What a set with names in it is in one run."""
    counts = [number_in(count, names) for count in covered.counts]
    taken = zip(counts, covered.steps, strict=True)
    steps = [number_in(step, names) if count > 1 else 0 for count, step in taken]  # that of one index may be any
    found = byte_set(number_in(covered.start, names), number_in(covered.width, names), counts, steps)
    return frozenset(byte for run in found.runs() for byte in range(*run))


@pytest.mark.parametrize("seeds", [range(20), *long([range(10_000, 11_000)])], ids=str)
def test_chains_lie_where_torch_puts_them(seeds: range) -> None:
    """Every value is known in full: kind, root, extents, strides, bytes.

    Of complex numbers that takes that the inputs are not marked as conjugates, which types do not say and these here are not. Without
    it strides of axes of one index behind them are, and now and then what follows from these."""
    missed, without = Counter[str](), Counter[str]()
    for seed in seeds:
        p = chains(seed, 100)
        missed += check(p, unmarked=True)
        assert set(missed) == {"values"}, (seed, missed)
        without += check(p)
    print(missed, without)
    assert sum(count for what, count in without.items() if what != "values") <= without["values"] / 1000


@pytest.mark.parametrize("seeds", [range(1000, 1008), *long([range(20_000, 20_334)])], ids=str)
def test_nothing_is_claimed_of_unknown_sizes_that_may_be_false(seeds: range) -> None:
    """The same with extents and strides taken away: what is claimed then must still be true."""
    missed: Counter[str] = Counter()
    for seed in seeds:
        p = chains(seed, 60)
        missed += check(p, without_numbers(p.text, random.Random(seed)))
    print(missed)


def without_numbers(text: str, rng: random.Random) -> str:
    """The program with strides taken out of the types of its inputs, and extents made unknown or given a name."""

    def vague(found: re.Match[str]) -> str:
        sizes = [size for size in found[1].split(", ") if size]
        some = [rng.choice([size, size, "*", f"s{index}_{rng.randrange(10**9)}"]) for index, size in enumerate(sizes)]
        return f"({', '.join([*some, 'device=cpu'])})"

    head, _, rest = text.partition("\n")
    return re.sub(r"\(((?:\d+, )*)(?:strides=\[[\d, ]*\], )?device=cpu\)", vague, head) + "\n" + rest


def test_a_conjugate_is_not_decided() -> None:
    """Torch marks a conjugate, and computes it before an op that declares no view: then the parts are not the operand's."""
    x = torch.zeros(4, dtype=torch.complex64)
    assert storage_of(torch.unsafe_chunk(x, 2)[0]) == storage_of(x)
    assert storage_of(torch.unsafe_chunk(x.conj(), 2)[0]) != storage_of(x)
    va = irs.ViewAliases(
        parsed("x:ComplexFloat(4, strides=[1]) | two = 2; zero = 0; parts:Tensor[] = unsafe_chunk x two zero; a b = ListUnpack parts | a b")
    )
    assert not va.is_decided("a") and va.overlaps("a", "x")


def test_a_marked_tensor_is_computed_before_it_is_negated() -> None:
    x = torch.zeros(16, dtype=torch.complex64).as_strided((2, 1, 2), (1, 4, 0))
    assert torch.neg(x).stride() != torch.neg(x.conj()).stride()
    va = irs.ViewAliases(parsed("x | y:Tensor = neg x | y", "ComplexFloat(2, 1, 2, strides=[1, 4, 0])"))
    assert str(va.layout("y")) == "2×1×2, strides (2, ~any, 1)"


def test_marks_are_followed_where_no_input_has_one() -> None:
    x = torch.zeros(16, dtype=torch.complex64).as_strided((2, 1, 2), (1, 4, 0))
    graph = parsed(
        "x:ComplexFloat(2, 1, 2, strides=[1, 4, 0]) | 0 = 0; 1 = 1; plain = neg x; turned = transpose x 0 1; again = neg turned; "
        "c = conj x; marked = neg c; imag = imag c; negated = neg imag; both = adjoint x; copied = neg both | "
        "plain again marked negated copied"
    )
    va = irs.ViewAliases(graph, unmarked=True)
    assert va.layout("plain").strides == torch.neg(x).stride()
    assert va.layout("again").strides == torch.neg(x.transpose(0, 1)).stride()
    marked = {"marked": x.conj(), "negated": x.conj().imag, "copied": x.adjoint()}
    for name, tensor in marked.items():
        told = va.layout(name)
        assert told.strides == torch.neg(tensor).stride() or (name == "negated" and "~any" in str(told)), name


@pytest.mark.parametrize("seeds", [range(3000, 3004), *long([range(30_000, 30_210)])], ids=str)
def test_disjoint_bytes_are_disjoint(seeds: range) -> None:
    """ "No overlap" against the addresses of all elements, for pairs of values of each chain."""
    answers: Counter[str] = Counter()
    for seed in seeds:
        p, rng = chains(seed, 60), random.Random(seed)
        names = list(p.tensors)
        first = roots(p)
        families: dict[str, list[str]] = {}
        for name in names:
            families.setdefault(first[name], []).append(name)
        for vague in (False, True):
            va = irs.ViewAliases(irs.parse(without_numbers(p.text, rng) if vague else p.text))
            for _ in range(240):
                a = rng.choice(names)
                b = rng.choice(families[first[a]] if rng.random() < 0.9 else names)
                verdict = va.overlaps(a, b)
                meet = storage_of(p.tensors[a]) == storage_of(p.tensors[b]) and bool(
                    addresses(p.tensors[a], p.tensors[first[a]]) & addresses(p.tensors[b], p.tensors[first[a]])
                )
                if meet:
                    assert verdict, (seed, a, b)
                answers[f"{'vague' if vague else 'known'}: {'yes' if verdict else 'no'} and {'yes' if meet else 'no'}"] += 1
    assert answers["known: no and no"] > 2 * answers["known: yes and no"], answers
