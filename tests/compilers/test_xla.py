"""XLA's decisions against what jaxlib's own module says, XLA's own cost analysis, and the numbers that JAX computes."""

import random
import re
from collections import Counter
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import irscope as irs
from irscope.compilers.xla import kernels_of, size_in_bytes
from irscope.errors import ArgumentError, CaptureError, IrscopeError, LoadError, RunError
from irscope.frontends.hlo_text import parse_hlo
from irscope.ir.invariants import verify

DUMPS = Path(__file__).parent.parent / "frontends" / "hlo" / "dumps"

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402

from tests.frontends.jax.functions import FUNCTIONS  # noqa: E402

_RNG = np.random.default_rng(0)


def floats(*shape: int) -> Any:
    return jnp.asarray(_RNG.standard_normal(shape), jnp.float32)


def attention(q: Any, k: Any, v: Any) -> Any:
    return jax.nn.softmax(q @ k.swapaxes(-1, -2) / 8) @ v


def mlp(x: Any, w: Any, u: Any) -> Any:
    y = (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)
    return jax.nn.gelu(y @ w) @ u + x


def loss(w: Any, x: Any, y: Any) -> Any:
    logits = jnp.tanh(x @ w)
    return -(jax.nn.log_softmax(logits) * jax.nn.one_hot(y, logits.shape[-1])).sum(-1).mean()


W = (floats(8, 5), floats(16, 8), jnp.arange(16) % 5)
MODELS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "attention": (attention, (floats(2, 16, 8), floats(2, 16, 8), floats(2, 16, 8))),
    "mlp": (mlp, (floats(32, 64), floats(64, 128), floats(128, 64))),
    "cross entropy": (loss, W),
    "its gradient": (jax.grad(loss), W),
}


def opcode(instruction: Any) -> str:
    """The op of one of jaxlib's instructions, as XLA prints it."""
    found = re.search(r"\s([a-z][\w-]*)\(", instruction.to_string().partition(" = ")[2])
    assert found is not None
    return found[1]


def check(function: Any, arguments: Any) -> irs.Decisions:
    """Kernels and ops are those of jaxlib's own module; the program, and its groups under irscope, give what JAX gives."""
    made = jax.jit(function, keep_unused=True).lower(*arguments).compile()
    d = irs.decisions(made)
    (held,) = made.runtime_executable().hlo_modules()
    inside = {each.name: each for each in held.computations()}
    module = parse_hlo(made.as_text())
    wanted = kernels_of(module)
    assert Counter(kernel.name for kernel in d.kernels) == Counter(each.name for each in wanted)
    for each in wanted:
        (theirs,) = (i for i in inside[each.computation].instructions() if i.name == each.name)
        assert opcode(theirs) == each.instruction.opcode
        if opcode(theirs) == "fusion":
            ops = inside[each.instruction.called[0]].instructions()
            assert Counter(map(opcode, ops)) == Counter(i.opcode for i in module.computations[each.instruction.called[0]])
    for graph in (d.graph, d.fusion.graph):
        verify(graph)
    flat = jax.tree_util.tree_leaves(arguments)
    wanted_results = d.program.run(*flat)
    for found, want in zip(_several(irs.compile(d.fusion)(*flat)), _several(wanted_results), strict=True):
        np.testing.assert_allclose(np.asarray(found), np.asarray(want), rtol=3e-5, atol=3e-5)
    return d


def _several(results: Any) -> Any:
    return results if isinstance(results, list | tuple) else (results,)


@pytest.mark.parametrize("name", [name if name == "attention" else pytest.param(name, marks=pytest.mark.long) for name in MODELS])
def test_models(name: str) -> None:
    d = check(*MODELS[name])
    assert all(kernel.nodes and kernel.source is not None for kernel in d.kernels)
    assert all(node.location is not None for kernel in d.kernels for node in kernel.nodes if kernel.name in ("attention", "mlp"))
    total = d.program.figures["bytes accessed"]
    assert total - 8 * len(d.graph.outputs) - 8 <= sum(kernel.bytes for kernel in d.kernels) <= total  # with the tuple of results


def test_weights_that_a_fusion_holds_are_bytes_that_it_reads() -> None:
    """As XLA counts them: they are constants of its computation, and no operands of it."""
    rng = np.random.default_rng(0)
    v, w, b = (jnp.asarray(rng.standard_normal(shape), "float32") for shape in ((1024, 256), (256, 1024), (256,)))
    layer = jax.jit(lambda x: jax.nn.softmax(x + jax.nn.gelu(x @ v.T, approximate=False) @ w.T + b))
    d = irs.decisions(layer.lower(jnp.ones((128, 256))).compile())
    assert sum(kernel.bytes for kernel in d.kernels) == d.program.figures["bytes accessed"]


@pytest.mark.long
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_jax(name: str) -> None:
    check(*FUNCTIONS[name])


def test_an_op_in_several_fusions_is_one_node_that_they_compute_again() -> None:
    d = irs.decisions(jax.jit(lambda x: jax.nn.log_softmax(jnp.tanh(x))), floats(3, 4))
    again = {kernel.name: [each.node for each in kernel.recomputed] for kernel in d.kernels if kernel.recomputed}
    assert len(again) == 2 and len({node for nodes in again.values() for node in nodes}) == 1
    (node,) = {node for nodes in again.values() for node in nodes}
    assert node.op == "aten::sub" and len(d.program.kernels_of(node)) == 2
    assert {kernel.source.language for kernel in d.kernels if kernel.kind == "loop"} == {"llvm"}
    d = irs.decisions(d.call)  # which has no dump
    assert d.kernels[0].source.language == "hlo" and "metadata" not in d.kernels[0].source.text
    assert d.version == f"JAX {jax.__version__}" and d.program.figures["argument bytes"] == 48
    lined = next(kernel for kernel in d.kernels if kernel.group is not None and "tanh" in kernel.source.text)
    line = next(number for number, text in enumerate(lined.source.text.splitlines()) if " tanh(" in text)
    assert lined.group.blocks[0].nodes[lined.source.node_of(line)].op == "aten::tanh"


def test_views_are_outside_of_a_fusion_where_what_irscope_does_not_know_reads_them_first() -> None:
    d = check(lambda x: jnp.unique(x, size=4), (floats(5, 6),))
    assert all(kernel.nodes for kernel in d.kernels)


def test_why_not_says_that_xla_gives_no_reasons_and_whose_answer_it_is() -> None:
    d = irs.decisions(DUMPS / "tpu_after_optimizations.txt")
    told = d.why_not(d.kernels[1], d.kernels[2])
    assert not told and told.because.startswith("xla gives no reasons; by irscope's rules")


OUT = 4 * 64 * 256


@pytest.mark.parametrize(("dump", "kernels"), [
    ("gpu", [("custom-call.1", "__cublas$gemm", 4 * (64 * 128 + 128 * 256) + OUT), ("loop_add_fusion", "", 2 * OUT + 4 * 256),
             ("all-reduce-start", "", 2 * OUT), ("triton_softmax", "", OUT + 4 * 64)]),
    ("tpu", [("copy-start", "", 2 * 32768), ("fusion.1", "", 32768 + 3 * 4096), ("fusion.2", "", 4096 + 4)]),
])  # fmt: skip
def test_dumps_of_other_back_ends(dump: str, kernels: list[tuple[str, str, int]]) -> None:
    d = irs.decisions(DUMPS / f"{dump}_after_optimizations.txt")
    assert [(kernel.name, kernel.function) for kernel in d.kernels] == [kernel[:2] for kernel in kernels]
    assert [kernel.is_library for kernel in d.kernels] == [kernel.name in ("custom-call.1", "all-reduce-start") for kernel in d.kernels]
    assert [kernel.bytes for kernel in d.kernels] == [moved for _, _, moved in kernels]
    if dump == "tpu":
        assert [(change.op, change.name) for change in d.program.changes] == [("copy-start", "copy-start")]
        assert [kernel.kind for kernel in d.kernels] == ["alone", "output", "input"]


SEVERAL_GPUS = """HloModule step, is_scheduled=true, num_partitions=2

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}

%scattered (p: f32[16]) -> f32[8] {
  %p = f32[16]{0} parameter(0)
  ROOT %reduce-scatter = f32[8]{0} reduce-scatter(%p), channel_id=2, replica_groups={{0,1}}, dimensions={0}, to_apply=%add
}

ENTRY %main (x: f32[2,8,8,4], w: f32[4,3,3,4], y: f32[16]) -> (f32[2,8,8,4], f32[8], s8[7]) {
  %x = f32[2,8,8,4]{3,2,1,0} parameter(0)
  %w = f32[4,3,3,4]{3,2,1,0} parameter(1)
  %y = f32[16]{0} parameter(2)
  %conv = (f32[2,8,8,4]{3,2,1,0}, u8[1024]{0}) custom-call(%x, %w), custom_call_target="__cudnn$convForward"
  %c = f32[2,8,8,4]{3,2,1,0} get-tuple-element(%conv), index=0
  %ar = (f32[2,8,8,4]{3,2,1,0}, f32[16]{0}) all-reduce-start(%c, %y), channel_id=1, replica_groups={{0,1}}, to_apply=%add
  %ard = (f32[2,8,8,4]{3,2,1,0}, f32[16]{0}) all-reduce-done(%ar)
  %r0 = f32[2,8,8,4]{3,2,1,0} get-tuple-element(%ard), index=0
  %r1 = f32[16]{0} get-tuple-element(%ard), index=1
  %rs = ((f32[16]{0}), f32[8]{0}) async-start(%r1), calls=%scattered
  %rsd = f32[8]{0} async-done(%rs)
  %mine = (f32[4]{0}, s8[7]{0}) custom-call(%rsd), custom_call_target="mine", api_version=API_VERSION_TYPED_FFI
  %m = s8[7]{0} get-tuple-element(%mine), index=1
  ROOT %t = (f32[2,8,8,4]{3,2,1,0}, f32[8]{0}, s8[7]{0}) tuple(%r0, %rsd, %m)
}
"""


def test_asynchronous_ops_are_one_kernel_each_and_the_workspace_of_a_library_does_not_count() -> None:
    """An all-reduce of several tensors, an op inside of an async computation; cuDNN's workspace, and a user's own result of bytes."""
    d, image = irs.decisions(SEVERAL_GPUS), 4 * 2 * 8 * 8 * 4
    assert {kernel.name: kernel.bytes for kernel in d.kernels} == {
        "conv": image + 4 * 4 * 3 * 3 * 4 + image, "ar": 2 * (image + 4 * 16), "reduce-scatter": 4 * 16 + 4 * 8, "mine": 4 * 8 + 4 * 4 + 7,
    }  # fmt: skip
    assert all(kernel.is_library and kernel.nodes for kernel in d.kernels)
    assert [node.op for node in d.program.kernel("ar").nodes] == ["stablehlo::all_reduce"]


BEGUN = """HloModule step, is_scheduled=true

%fused (p: f32[16]) -> f32[16] {
  %p = f32[16]{0} parameter(0)
  ROOT %e = f32[16]{0} exponential(%p)
}

ENTRY %main (x: f32[16], y: f32[8,8]) -> (f32[32], f32[4,4], f32[16], f32[16]) {
  %x = f32[16]{0:T(128)} parameter(0)
  %y = f32[8,8]{1,0:T(8,128)} parameter(1)
  %ag = (f32[16]{0:T(128)}, f32[32]{0:T(128)}) all-gather-start(%x), channel_id=2, replica_groups={{0,1}}, dimensions={0}
  %sl = ((f32[8,8]{1,0:T(8,128)}), f32[4,4]{1,0:T(8,128)S(1)}, u32[]{:S(2)}) slice-start(%y), slice={[0:4], [0:4]}
  %fu = ((f32[16]{0:T(128)}), f32[16]{0:T(128)}, u32[]{:S(2)}) fusion-start(%x), kind=kLoop, calls=%fused
  %agd = f32[32]{0:T(128)} all-gather-done(%ag)
  %sld = f32[4,4]{1,0:T(8,128)S(1)} slice-done(%sl)
  %fud = f32[16]{0:T(128)} fusion-done(%fu)
  %own = f32[16]{0:T(128)} custom-call(%x), custom_call_target="tpu_custom_call", operand_layout_constraints={f32[16]{0}}
  ROOT %t = (f32[32]{0:T(128)}, f32[4,4]{1,0:T(8,128)}, f32[16]{0:T(128)}, f32[16]{0:T(128)}) tuple(%agd, %sld, %fud, %own)
}
"""


def test_what_begins_under_its_own_name_is_one_kernel_and_a_call_on_tiles_is_read() -> None:
    d = irs.decisions(BEGUN)
    assert {kernel.name: (kernel.kind, kernel.bytes, kernel.ops) for kernel in d.kernels} == {
        "ag": ("communication", 4 * (16 + 32), "all_gather"), "sl": ("alone", 2 * 4 * 16, "slice, slice"),
        "fu": ("loop", 2 * 4 * 16, "exp"), "own": ("library", 2 * 4 * 16, "custom_call"),
    }  # fmt: skip


def test_donated_arguments_stay_and_typed_keys_are_run() -> None:
    function = jax.jit(lambda x, unread, key: x + jax.random.normal(key, x.shape), donate_argnums=0)
    args = jnp.ones((4, 4)), jax.random.key(1), jax.random.key(3)
    d = irs.decisions(function, *args, measure=True)
    found = irs.compare(d, *args, repeats=1)
    assert not args[0].is_deleted() and not found.missing and "donated" in d.notes[0]
    assert {"eager", "xla"} < {row.label for row in found.rows} and all(row.error < 1e-6 and not row.wrong for row in found.rows)


def test_constants_that_the_text_leaves_out_are_noted_and_never_run() -> None:
    w = floats(16, 16)
    text = jax.jit(lambda x: jnp.tanh(x @ w) * 2).lower(jnp.ones((4, 16))).compile().as_text()
    d = irs.decisions(text)
    assert any("leaves out the elements of 1 constant" in note for note in d.program.notes)
    with pytest.raises(RunError, match="elements"):
        irs.compile(d.fusion, device="reference")(np.ones((4, 16), np.float32))


def test_generated_code_beside_a_dump_is_the_source_of_its_kernel(tmp_path: Path) -> None:
    text = jax.jit(lambda x: jnp.tanh(x) * x).lower(jnp.ones(8)).compile().as_text()
    module, name = parse_hlo(text).name, kernels_of(parse_hlo(text))[0].name
    begin = f"module_0001.{module}."
    (path := tmp_path / f"{begin}cpu_after_optimizations.txt").write_text(text)
    for file, content in {
        f"{name}_kernel_module.ir-no-opt.ll": f"define ptr @{name}(ptr %0) {{\n}}\n",
        "ir-no-opt.ll": f"define void @other() {{\n}}\ndefine ptr @{name}(ptr %0) {{\n  ret\n}}\n",
        "ptx": f".visible .entry {name}(\n.param .u64 a\n)\n{{\n ret;\n}}\n",
    }.items():
        (tmp_path / f"{begin}{file}").write_text(content)
        (kernel,) = irs.decisions(tmp_path).kernels
        assert kernel.source.language == ("ptx" if file == "ptx" else "llvm")
        assert name in kernel.source.text and "other" not in kernel.source.text
        (tmp_path / f"{begin}{file}").unlink()
    (kernel,) = irs.decisions(path).kernels
    assert kernel.source.language == "hlo"


@pytest.mark.parametrize("keep", [0.5, 1.0])
def test_a_cut_text_of_the_program_before_xla_s_rewrites_is_a_note(keep: float, tmp_path: Path) -> None:
    lowered = jax.jit(lambda x: jnp.tanh(x) + x.reshape(4, 2).T.reshape(8)).lower(jnp.ones(8))
    after, before = lowered.compile().as_text(), lowered.as_text("hlo")
    begin = f"module_0001.{parse_hlo(after).name}."
    (tmp_path / f"{begin}cpu_after_optimizations.txt").write_text(after)
    (tmp_path / f"{begin}before_optimizations.txt").write_text(before[: int(len(before) * keep)])
    d = irs.decisions(tmp_path)
    assert d.kernels and any("before XLA's rewrites cannot be read" in note for note in d.program.notes) == (keep < 1)


def test_text_that_xla_has_not_optimized_and_functions_that_it_refuses_are_errors() -> None:
    f = jax.jit(jnp.tanh)
    with pytest.raises(LoadError, match="has not optimized"):
        irs.decisions(f.lower(jnp.ones(2)).as_text("hlo"))
    with pytest.raises(CaptureError, match="JAX cannot compile"):
        irs.decisions(jax.jit(lambda x: x @ x), jnp.ones((2, 3)))
    with pytest.raises(ArgumentError, match="no option 'mode'"):
        irs.decisions(f, jnp.ones(2), mode="fast")


def test_a_jax_with_other_internals_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    made = jax.jit(jnp.tanh).lower(jnp.ones(2)).compile()
    monkeypatch.setattr(type(made), "runtime_executable", lambda self: None)
    with pytest.raises(LoadError, match=rf"JAX {jax.__version__} does not show what it compiled"):
        irs.decisions(made)


def test_a_jaxlib_that_does_not_convert_a_program_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    import jaxlib._jax

    def refuse(proto: bytes) -> str:
        raise RuntimeError("no conversion")

    made = jax.jit(jnp.tanh).lower(jnp.ones(2)).compile()
    monkeypatch.setattr(jaxlib._jax.mlir, "hlo_to_stablehlo", refuse)
    with pytest.raises(LoadError, match="does not say in StableHLO what the ops of jit_tanh mean: RuntimeError: no conversion"):
        irs.decisions(made)


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3, 150))])
def test_damaged_dumps_are_decisions_or_errors_of_irscope(seed: int) -> None:
    rng = random.Random(seed)
    lines = (DUMPS / f"{rng.choice(('gpu', 'tpu'))}_after_optimizations.txt").read_text().split("\n")
    for _ in range(rng.choice((1, 1, 2, 4))):
        at, other = rng.randrange(1, len(lines)), rng.randrange(1, len(lines))
        numbers = [*re.finditer(r"\d+", lines[at])]
        if numbers and rng.random() < 0.7:
            found = rng.choice(numbers)
            lines[at] = f"{lines[at][: found.start()]}{rng.choice((0, 1, 7, 64, 999999999999))}{lines[at][found.end() :]}"
        else:
            lines[at], lines[other] = lines[other], lines[at]
    try:
        assert len(irs.decisions("\n".join(lines)).table()) > 0
    except IrscopeError as error:
        assert str(error)


def test_sizes_of_shapes() -> None:
    assert size_in_bytes("(f32[2,3]{1,0:T(8,128)}, s4[3], token[])") == 24 + 2
    assert size_in_bytes("opaque[]") is None


def test_a_torch_model_is_refused_with_what_to_give() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(LoadError, match="writes neither of a torch model") as error:
        irs.decisions(torch.nn.Linear(4, 4), torch.ones(2, 4), compiler="xla")
    assert "--xla_dump_to" in error.value.hint


def test_an_op_whose_name_is_on_nothing_vanished_and_that_is_all_that_xla_says() -> None:
    d = irs.decisions(lambda x: jnp.tanh(x) + x.reshape(4, 2).T.reshape(8), jnp.ones(8), compiler="xla")
    found = {row.name: row.because for row in d.program.vanished().itertuples()}
    assert found["reshape"] == "not seen in its program" and "tanh" not in found and "add" not in found
    assert not len(irs.decisions(jax.jit(jnp.tanh).lower(jnp.ones(8)).compile()).program.vanished()), "the program before it is not known"


def test_memory_is_that_of_xla_s_own_analysis_and_each_kernel_has_a_time() -> None:
    def steps(x: Any, w: Any) -> Any:
        y = jax.nn.softmax(jnp.tanh(x) @ w)
        return lax.fori_loop(0, 3, lambda _, h: jnp.sin(h) + y, y)

    x = jnp.ones((16, 16))
    d = irs.decisions(jax.jit(steps), x, x, measure=True)
    memory, said = d.program.memory, jax.jit(steps).lower(x, x).compile().memory_analysis()
    assert memory is not None and memory.total == said.temp_size_in_bytes + said.output_size_in_bytes
    assert 16 * 16 * 4 <= memory.peak <= memory.total and memory.curve[-1] >= 16 * 16 * 4
    assert any(each.nodes for each in memory.allocations) and len(memory.moments) == len(memory.curve)
    timed = [kernel for kernel in d.kernels if kernel.ms is not None]
    assert timed and all(kernel.ms >= 0 for kernel in timed if kernel.ms is not None)
    assert len(timed) == len(d.kernels) or any("has no times of" in note for note in d.program.notes)
    with mock.patch.object(jax, "block_until_ready", wraps=jax.block_until_ready) as waited:
        (d.own_call(x, x) or list)()
        d.rivals()["xla"](x, x)
    assert waited.call_count == 3, "JAX returns before it is done: a call that is timed waits for its results"
    with pytest.raises(ArgumentError, match="not run"):
        irs.decisions(jax.jit(steps).lower(x, x).compile().as_text(), measure=True)


def test_a_comparison_takes_the_arguments_of_the_call() -> None:
    """Dictionaries, numbers and arguments that nothing reads; every row has the results of the function as it is written."""

    def function(held: Any, unread: Any, factor: Any) -> Any:
        return {"sum": (held["x"] * factor).sum(0), "all": held["x"] @ held["w"]}

    held = {"x": np.linspace(-1, 1, 24, dtype=np.float32).reshape(4, 6), "w": np.ones((6, 2), np.float32)}
    args = held, np.zeros(3, np.float32), 2.0
    found = irs.compare(irs.decisions(jax.jit(function), *args), *args, repeats=1)
    assert [row.label for row in found.rows] == ["fused", "eager", "xla", "xla's groups"] and not found.missing
    assert all(row.error is not None and row.error < 1e-5 and not row.wrong for row in found.rows)
    with pytest.raises(ArgumentError, match="takes 3 arguments and got 1"):
        irs.compare(irs.decisions(jax.jit(function), *args), held["x"])
