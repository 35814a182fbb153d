"""Generated kernels as pieces: specs are compared as graphs, and different ones may have the same machine code."""

import pytest

import irscope as irs
from irscope.errors import ArgumentError, UnknownName
from irscope.ir.invariants import verify
from irscope.ops.expr import COMMUTATIVE
from irscope.ops.traits import COMMUTES
from irscope.runtime.program.executable import Executable
from tests.programs import ir

pytest.importorskip("llvmlite")


PROGRAM = ir(
    "a:Char(33, 33) b:Byte(33, 33) x | one = 1; half = 0.5; quarter = 0.25; c:Char(33, 33) = add a a one; d:Char(33, 33) = mul c a; "
    "e:Byte(33, 33) = add b b one; f:Byte(33, 33) = mul e b; g = neg x; h = mul g half; i = mm h x; j = neg i; k = mul j quarter | d f h k",
    "Float(33, 33)",
)
"""Four kernels: two that differ in a constant, two in a type that the processor adds and multiplies alike."""


@pytest.fixture(scope="module")
def compiled() -> Executable:
    return irs.compile(irs.fuse(irs.parse(PROGRAM)))


def test_kernels_have_the_ladder_of_all_pieces(compiled: Executable) -> None:
    d = irs.dedup(compiled, relation="constants")
    assert {len(cls) for cls in d.classes} == {1, 2}
    pair = d.classes[0]
    holes = d.holes(pair)
    assert holes["varies"].tolist().count("parameter 0") == 1 and {0.5, 0.25} <= set(holes.iloc[0][2:4])
    ladder = d.ladder()
    steps = ladder.loc["text":"dtype", "classes"].tolist()  # type: ignore[misc]  # rows by name
    assert steps == sorted(steps, reverse=True)
    assert (ladder["time is"] == "measured").all()  # what they took to compile is known


def test_different_specs_may_have_the_same_machine_code(compiled: Executable) -> None:
    d = irs.dedup(compiled)
    by_type = {kernel.spec.outputs[0].dtype: kernel for kernel in compiled.kernels}
    told = d.why_not(by_type["int8"].name, by_type["uint8"].name)
    assert not told and told.witness[0] == "dtype"
    assert told.because.endswith("yet their machine code is the same, so one serves for both")
    assert [len(names) for names in d.kernels.codes] == [2, *[1] * (len(compiled.kernels) - 2)]
    assert by_type["int8"].machine_code == by_type["uint8"].machine_code
    assert d.ladder().loc["machine code", "classes"] == len(compiled.kernels) - 1


def test_different_machine_code_is_reported_as_different(compiled: Executable) -> None:
    d = irs.dedup(compiled, relation="constants")
    first, second = d.classes[0].members
    told = irs.dedup(compiled).difference(first, second)
    assert not told and "machine code" not in told.because
    assert d.table().loc[0, "machine codes"] == 2  # the constants are written into the instructions


def test_kernels_are_found_by_name_number_group_and_object(compiled: Executable) -> None:
    d = irs.dedup(compiled, unit="kernels")
    kernel = compiled.kernels[1]
    assert d.class_of(1) is d.class_of(kernel.name) is d.class_of(kernel.groups[0])  # type: ignore[arg-type]  # a number
    with pytest.raises(UnknownName, match="no kernel 'other'"):
        d.class_of("other")


def test_graphs_of_kernel_specs_verify(compiled: Executable) -> None:
    for kernel in compiled.kernels:
        verify(kernel.graph)
        assert str(irs.parse(str(kernel.graph))) == str(kernel.graph)


def test_groups_of_a_compiled_program_are_pieces(compiled: Executable) -> None:
    assert irs.dedup(compiled, unit="groups").source is compiled.graph


def test_kernels_need_a_compiled_program_and_cannot_be_merged(compiled: Executable) -> None:
    with pytest.raises(ArgumentError, match=r"irs.compile\(program\)"):
        irs.dedup(compiled.graph, unit="kernels")
    with pytest.raises(ArgumentError, match="groups that they come from"):
        irs.dedup(compiled).apply()


def test_commutative_instructions_are_commutative_ops() -> None:
    assert {f"kernel::{op}" for op in COMMUTATIVE} == {op for op in COMMUTES if op.startswith("kernel::")}
