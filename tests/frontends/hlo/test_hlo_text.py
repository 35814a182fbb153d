"""The text of HLO, read without JAX: dumps of a GPU and of a TPU, written by hand, and texts that are refused."""

from pathlib import Path

import pytest

from irscope.errors import ParseError
from irscope.frontends.hlo_text import Frame, Instruction, parse_hlo

DUMPS = Path(__file__).parent / "dumps"
HEAD, X = "HloModule m\n", "  %x = f32[2]{0} parameter(0)\n"


def named(dump: str, name: str) -> Instruction:
    module = parse_hlo((DUMPS / f"{dump}_after_optimizations.txt").read_text())
    return next(each for _, each in module.instructions() if each.name == name)


def test_computations_and_their_instructions_in_order() -> None:
    module = parse_hlo((DUMPS / "gpu_after_optimizations.txt").read_text())
    assert (module.name, module.entry, module.is_scheduled) == ("jit_layer", "main.9", True)
    assert [*module.computations] == ["region_0.1", "fused_add", "triton_softmax_computation", "main.9"]
    assert [each.opcode for each in module.computations["main.9"]][3:] == [
        "custom-call", "get-tuple-element", "fusion", "all-reduce-start", "all-reduce-done", "fusion",
    ]  # fmt: skip
    assert [each.name for _, each in module.instructions() if each.is_root] == ["add.1", "add.2", "reduce.1", "triton_softmax"]


def test_attributes_with_brackets_and_quotes_inside() -> None:
    call = named("gpu", "custom-call.1")
    assert call.shape == "(f32[64,256]{1,0}, s8[4194304]{0})"
    assert call.attrs["backend_config"].endswith('"selected_algorithm":"13"}}')
    assert named("gpu", "triton_softmax").called == ("triton_softmax_computation",)
    assert named("gpu", "reduce.1").called == ("region_0.1",)


def test_operands_after_their_types_and_tiled_layouts() -> None:
    done = named("tpu", "copy-done")
    assert (done.operands, done.shape) == (("copy-start",), "bf16[128,128]{1,0:T(8,128)(2,1)S(1)}")
    assert named("tpu", "fusion.1").operands == ("copy-done", "Arg_0.1")


def test_the_users_line_from_tables_and_from_the_older_form() -> None:
    module = parse_hlo((DUMPS / "gpu_after_optimizations.txt").read_text())
    said = module.provenance(named("gpu", "tanh.1"))
    assert said.op_name == "jit(layer)/tanh"
    assert said.frames == (Frame("/home/user/größe.py", 9, 11, "layer"), Frame("/home/user/layer.py", 20, 6, "main"))
    assert module.provenance(named("tpu", "tanh.2")).frames == (Frame("/home/user/step.py", 13, 0, ""),)
    assert module.provenance(named("gpu", "x.1")).frames == ()


@pytest.mark.parametrize("extra", [0, 1])
def test_the_parent_of_a_frame_as_it_should_be_and_one_too_large(extra: int) -> None:
    rows = "".join(f"{frame} {{file_location_id={frame} parent_frame_id={frame - 1 + extra}}}\n" for frame in (1, 2, 3))
    places = "".join(f"{place} {{file_name_id=1 function_name_id=1 line={place}}}\n" for place in (1, 2, 3))
    text = f'{HEAD}\nFileNames\n1 "f.py"\n\nFunctionNames\n1 "f"\n\nFileLocations\n{places}\nStackFrames\n{rows}\nENTRY %e () -> f32[] {{\n'
    module = parse_hlo(text + "  ROOT %c = f32[] constant(1), metadata={stack_frame_id=3}\n}")
    assert [frame.line for frame in module.provenance(module.computations["e"][0]).frames] == [3, 2, 1]


def test_a_constant_over_several_lines_and_one_without_its_elements() -> None:
    module = parse_hlo(f"{HEAD}ENTRY e {{\n  c = f32[2,1]{{1,0}} constant({{ /*row*/\n    {{1}},\n    {{2}}\n  }})\n"
                       "  ROOT d = f32[99]{0} constant({...})\n}\n")  # fmt: skip
    c, d = module.computations["e"]
    assert (c.attrs["value"].replace(" ", ""), c.is_elided, d.is_elided) == ("{{1},{2}}", False, True)


@pytest.mark.parametrize(("text", "line", "what"), [
    ("graph(%x : Tensor):\n", 1, "begins with HloModule"),
    (HEAD, 2, "ends before the computation that is the ENTRY"),
    (f"{HEAD}what is this\n", 2, "neither a computation nor a table"),
    (f"{HEAD}ENTRY %e (x: f32[2]) -> f32[2] {{\n{X}", 2, "%e has no end"),
    (f"{HEAD}ENTRY %e (x: f32[2]) -> f32[2] {{\n{X}}}", 2, "no ROOT"),
    (f"{HEAD}ENTRY %e (x: f32[2]) -> f32[2] {{\n{X}{X}}}", 4, "two instructions %x"),
    (f"{HEAD}ENTRY %e (x: f32[2]) -> f32[2] {{\n{X}  ROOT %y = f32[2] tanh(%z)\n}}", 4, "reads %z"),
    (f"{HEAD}ENTRY %e (x: f32[2]) -> f32[2] {{\n{X}  ROOT %y = f32[2] tanh(%x\n}}", 4, "not closed"),
    (f"{HEAD}ENTRY %e (x: f32[2]) -> f32[2] {{\n{X}  ROOT %y = f32[2] fusion(%x), calls=%f\n}}", 4, "computation %f"),
    (f"{HEAD}ENTRY %e (x: f32[2]) -> f32[2] {{\n{X}  ROOT %y = f32[2] fusion(%x), calls=%e\n}}", 4, "that it is a part of"),
    (f"{HEAD}ENTRY %e (x: f32[2]) -> f32[2] {{\n{X}  ROOT %y = f32[2]\n}}", 4, "no shape and op"),
    (f"{HEAD}%f (x: f32[2]) -> f32[2] {{\n{X}  ROOT %n = f32[2] tanh(%x)\n}}\nENTRY %e (x: f32[2]) -> f32[2] {{\n{X}"
     "  ROOT %y = f32[2] fusion(%x, %x), calls=%f\n}", 8, "2 operands for a computation of 1 parameter"),
    *((HEAD + "%f (p: f32[2]) -> f32[2] {\n  ROOT %p = f32[2] parameter(0)\n}\n%g (p: f32[2], q: f32[2]) -> f32[2] {\n"
       "  %p = f32[2] parameter(0)\n  ROOT %q = f32[2] parameter(1)\n}\nENTRY %e (x: f32[2]) -> f32[2] {\n" + X +
       f"  ROOT %y = f32[2] {op}\n}}", 11, what) for op, what in (
        ("while(%x, %x), condition=%f, body=%f", "2 operands for a loop, which takes one"),
        ("while(%x), condition=%f, body=%g", "%y runs computation %g, which has 2 parameters"),
        ("conditional(%x, %x), branch_computations={%f, %f}", "2 operands for 2 branches"),
        ("conditional(), true_computation=%f, false_computation=%f", "0 operands for 2 branches"),
        ("conditional(%x, %x), branch_computations={%g}", "%y runs computation %g, which has 2 parameters"),
        ("async-start(%x), calls=%g", "1 operand for a computation of 2 parameters"),
        ("while(%x), condition=%f, body=%f", "a condition that is not one truth value"),
        ("get-tuple-element(%x), index=1", "takes element 1 of 0 elements"),
        ("parameter(2)", "%y has a number that is not one of 2 parameters"),
        ('tanh(%x), metadata={op_name="' + r'\"' * 100_000, "a bracket of this instruction is not closed"),
        ("tanh(" + "/*" * 100_000, "a bracket of this instruction is not closed"),
    )),
    (f"{HEAD}ENTRY %e () -> f32[2] {{\n  ROOT %x = f32[-2] parameter(0)\n}}", 3, r"an extent that is no number: \[-2\]"),
    (f"{HEAD}ENTRY %e () -> f32[2] {{\n  ROOT %x = f32[2]{{1}} parameter(0)\n}}", 3, r"the layout \{1\}, and 1 dimension"),
])  # fmt: skip
def test_what_is_not_hlo_is_refused_with_its_line(text: str, line: int, what: str) -> None:
    with pytest.raises(ParseError, match=what) as caught:
        parse_hlo(text, file="dump.txt")
    assert caught.value.line == line and "dump.txt" in str(caught.value)


def test_computations_that_are_nested_too_deeply_are_refused() -> None:
    body = "{{\n  %x.{0} = f32[] parameter(0)\n  ROOT %y.{0} = f32[] call(%x.{0}), to_apply=%c{1}\n}}\n"
    chain = "".join(f"%c{n} (p: f32[]) -> f32[] {body.format(n, n - 1)}" for n in range(1, 5000))
    first = "%c0 (p: f32[]) -> f32[] {\n  ROOT %z = f32[] parameter(0)\n}\n"
    with pytest.raises(ParseError, match="deep"):
        parse_hlo(f"{HEAD}{first}{chain}ENTRY %e (p: f32[]) -> f32[] {body.format('e', 4999)}")
