"""Programs in HLO against JAX, which compiled them; dumps of other back ends; damaged dumps."""

import random
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.errors import IrscopeError, LoadError, MissingExtra, RunError
from irscope.frontends import hlo
from irscope.ir import Graph, Node

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

from tests.frontends.jax.functions import FUNCTIONS  # noqa: E402

DUMPS = Path(__file__).parent / "dumps"
NEEDS_JAX = {"stablehlo::reduce", "stablehlo::reduce_window", "stablehlo::sort"}
"""Ops with regions in a form of XLA's own, which JAX runs."""


def groups_of(graph: Graph) -> list[Node]:
    return [node for node in graph.nodes() if node.op == "prim::FusionGroup"]


def compiled(function: Any, *args: Any) -> Any:
    return jax.jit(function, keep_unused=True).lower(*args).compile()


def layer(x: Any, w: Any) -> Any:
    y = jax.nn.gelu(x @ w)
    return jax.lax.fori_loop(0, 3, lambda i, h: jnp.tanh(h) * i + y, y), jax.nn.softmax(y)


def test_optimized_text_is_a_program_with_xlas_fusions_and_names() -> None:
    x, w = (np.random.default_rng(0).normal(size=size).astype(np.float32) for size in ((8, 16), (16, 16)))
    made = compiled(layer, x, w)
    graph = irs.load(made.as_text())
    inside = [each for c in made.runtime_executable().hlo_modules()[0].computations() for each in c.instructions()]
    fusions = [each.name for each in inside if "fusion" in str(each.opcode).lower()]
    assert {re.sub(r"\W", "_", node.outputs[0].name) for node in groups_of(graph)} == {re.sub(r"\W", "_", name) for name in fusions}
    assert graph.functional == "StableHLO" and str(graph.inputs[0].type) == "Float(8, 16)"
    assert {Path(node.location.file).name for node in groups_of(graph) if node.location} == {Path(__file__).name}
    assert str(irs.parse(str(graph))) == str(graph)
    for found, want in zip(irs.compile(graph, device="reference")(x, w), made(x, w), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)


def test_unoptimized_text_is_the_program_that_jax_lowered() -> None:
    lowered = jax.jit(layer).lower(jnp.ones((8, 16)), jnp.ones((16, 16)))
    graph = irs.load(lowered.as_text("hlo"))
    assert not groups_of(graph) and graph.functional == "StableHLO"
    assert sum(node.op == "aten::tanh" for node in graph.nodes()) == 2


@pytest.mark.parametrize("dump", ["gpu", "tpu"])
def test_dumps_of_other_back_ends(dump: str) -> None:
    graph = irs.load(DUMPS / f"{dump}_after_optimizations.txt")
    kinds = {node.outputs[0].name: node.attrs["kind"] for node in groups_of(graph)}
    names = {"gpu": {"loop_add_fusion": "loop", "triton_softmax": "custom"}, "tpu": {"fusion.1": "output", "fusion.2": "input"}}
    assert kinds == names[dump]
    assert all(node.location is not None for node in groups_of(graph))


def test_a_dump_of_a_tpu_runs() -> None:
    graph = irs.load(DUMPS / "tpu_after_optimizations.txt")
    assert {node.op.partition("::")[0] for node in graph.nodes()} <= {"aten", "prim", "prims"}
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(8, 128)).astype(np.float32), jnp.asarray(rng.normal(size=(128, 128)), jnp.bfloat16)
    y, total = irs.compile(graph, device="reference")(jnp.asarray(x), w)
    want = x @ np.asarray(w).astype(np.float32)
    np.testing.assert_allclose(np.asarray(y), np.tanh(want), atol=1e-4)
    np.testing.assert_allclose(float(total), want.sum(), rtol=1e-3)


def test_a_dump_of_a_gpu_runs_its_products() -> None:
    text = (DUMPS / "gpu_after_optimizations.txt").read_text()
    one_device = re.sub(r"  %all-reduce.*\n", "", text).replace("%all-reduce-done", "%loop_add_fusion")
    rng = np.random.default_rng(0)
    x, w, b = (rng.normal(size=size).astype(np.float32) / 8 for size in ((64, 128), (128, 256), (256,)))
    want = np.tanh(x @ w + b).sum(-1)
    np.testing.assert_allclose(irs.compile(irs.load(one_device), device="reference")(x, w, b), want, rtol=1e-4, atol=1e-4)
    for old, new in (('"beta":0', '"beta":0.5'), ('"alpha_real":1', '"alpha_real":2'), ('"epilogue":"DEFAULT"', '"epilogue":"RELU"')):
        kept = irs.load(one_device.replace(old, new))
        assert any(node.op == "stablehlo::custom_call" for node in kept.nodes())


def test_a_product_that_is_added_to_something() -> None:
    config = ('{"gemm_backend_config":{"alpha_real":1,"beta":1,"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],'
              '"rhs_contracting_dimensions":["2"],"lhs_batch_dimensions":["0"],"rhs_batch_dimensions":["0"]}}}')  # fmt: skip
    text = f"""HloModule m
ENTRY %e (x: f32[2,4,3], w: f32[2,5,4], c: f32[2,3,5]) -> f32[2,3,5] {{
  %x = f32[2,4,3]{{2,1,0}} parameter(0)
  %w = f32[2,5,4]{{2,1,0}} parameter(1)
  %c = f32[2,3,5]{{2,1,0}} parameter(2)
  ROOT %y = f32[2,3,5]{{2,1,0}} custom-call(%x, %w, %c), custom_call_target="__cublas$gemm", backend_config={config}
}}"""
    x, w, c = (np.random.default_rng(0).normal(size=size).astype(np.float32) for size in ((2, 4, 3), (2, 5, 4), (2, 3, 5)))
    found = irs.compile(irs.load(text), device="reference")(x, w, c)
    np.testing.assert_allclose(found, np.einsum("bki,bjk->bij", x, w) + c, rtol=1e-5, atol=1e-5)


def test_constants_that_the_text_leaves_out_are_shown_and_never_run() -> None:
    w = jnp.asarray(np.random.default_rng(0).normal(size=(16, 16)), jnp.float32)
    text = compiled(lambda x: jnp.tanh(x @ w), jnp.ones((4, 16))).as_text()
    assert "constant({...})" in text
    graph = irs.load(text)
    (constant,) = (node for node in graph.nodes() if node.op == "prim::Constant" and "(16, 16)" in str(node.output.type))
    assert constant.attrs["value"].array is None
    for device in ("cpu", "reference"):
        with pytest.raises(RunError, match="elements"):
            irs.compile(graph, device=device)(np.ones((4, 16), np.float32))


def test_a_bitcast_between_two_layouts_is_made_of_views() -> None:
    text = """HloModule m
ENTRY %e (x: f32[2,3,4]) -> f32[4,6] {
  %x = f32[2,3,4]{1,0,2} parameter(0)
  ROOT %y = f32[4,6]{1,0} bitcast(%x)
}"""
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    np.testing.assert_array_equal(irs.compile(irs.load(text))(x), x.transpose(2, 0, 1).reshape(4, 6))


def test_without_jaxlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jaxlib.version", None)
    with pytest.raises(MissingExtra, match="jaxlib") as caught:
        irs.load(DUMPS / "gpu_after_optimizations.txt")
    assert "irscope[jax]" in caught.value.hint


def test_a_jaxlib_with_other_internals_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jaxlib._hlo", type(sys)("jaxlib._hlo"))
    with pytest.raises(LoadError, match=r"jaxlib \d[\d.]* has no way from HLO") as caught:
        irs.load(DUMPS / "gpu_after_optimizations.txt")
    assert hlo.NEEDS in caught.value.hint


def test_a_crash_of_xlas_parser_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    monkeypatch.setattr(hlo.Converter, "proto_of", lambda self, text: os.abort())
    with pytest.raises(LoadError, match="crashes with signal 6"):
        irs.load(DUMPS / "gpu_after_optimizations.txt")


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(6, 200))])
def test_damaged_dumps_are_programs_or_errors_of_ours(seed: int) -> None:
    rng = random.Random(seed)
    text = (DUMPS / f"{rng.choice(('gpu', 'tpu'))}_after_optimizations.txt").read_text()
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(text))
        cut = rng.choice((0, 1, 1, 5, 40))
        new = rng.choice(("", rng.choice('(){}[],=%"\\\0é9x'), text[(start := rng.randrange(len(text))) : start + 30]))
        text = text[:at] + new + text[at + cut :]
    try:
        irs.load(text if text.lstrip().startswith("HloModule ") else f"HloModule m\n{text}")
    except IrscopeError as error:
        assert str(error)


@pytest.mark.long
@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_jax_compiled_gives_what_jax_computes(name: str) -> None:
    function, arguments = FUNCTIONS[name]
    made = compiled(function, *arguments)
    module = hlo.parse_hlo(made.as_text())
    held = made.runtime_executable().hlo_modules()[0]
    graph = hlo.graph_of_proto(hlo.Converter(), held.as_serialized_hlo_module_proto(), module)
    assert {node.op for b in [graph.body] for node in b.nodes if node.op.partition("::")[0] not in ("aten", "prim", "prims")} <= NEEDS_JAX
    found = irs.compile(graph)(*jax.tree_util.tree_leaves(arguments))
    wanted = jax.tree_util.tree_leaves(made(*arguments))
    for one, want in zip(found if isinstance(found, list | tuple) else (found,), wanted, strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(want), rtol=3e-5, atol=3e-5)


def test_a_serialised_module_is_the_program_of_its_text_with_all_constants(tmp_path: Path) -> None:
    """XLA's own dump holds the module and its buffers; a module alone is read as well."""
    w, x = np.random.default_rng(0).normal(size=(2, 16, 16)).astype(np.float32)
    lowered = jax.jit(lambda x: jnp.tanh(x @ w) * 2).lower(x)
    options = {"xla_dump_to": str(tmp_path), "xla_dump_hlo_as_proto": True}
    want = lowered.compile(compiler_options=options)(x)
    (dump,) = tmp_path.glob("*after_optimizations.hlo.pb")
    (tmp_path / "alone.hlo.pb").write_bytes(next(content for number, _, content in hlo._fields(dump.read_bytes()) if number == 1))
    for path in (dump, tmp_path / "alone.hlo.pb"):
        np.testing.assert_allclose(irs.compile(irs.load(path), device="reference")(x), want, rtol=1e-5)
    d = irs.decisions(dump)
    assert [kernel.name for kernel in d.kernels] == [kernel.name for kernel in irs.decisions(lowered.compile()).kernels]
    np.testing.assert_allclose(irs.compile(d.fusion, device="reference")(x), want, rtol=1e-5)
    content = dump.read_bytes()
    for damaged in (b"", b"graph", content[: len(content) // 2], b"\x0a\xff" * 9, content[:40] + content[50:]):
        (tmp_path / "damaged.hlo.pb").write_bytes(damaged)
        with pytest.raises(LoadError, match="damaged"):
            irs.load(tmp_path / "damaged.hlo.pb")


def test_constants_that_a_text_leaves_out_are_inputs_if_asked_for() -> None:
    w, x = np.random.default_rng(0).normal(size=(2, 16, 16)).astype(np.float32)

    def function(x: Any) -> Any:
        return jax.lax.fori_loop(0, 2, lambda _, y: jnp.tanh(y @ w), x) + w

    made = compiled(function, x)
    graph = irs.load(made.as_text(), missing_weights="inputs")
    assert len(graph.free_inputs) > 1 and "<Tensor>" not in str(graph)
    given = [x, *[w] * (len(graph.free_inputs) - 1)]
    np.testing.assert_allclose(irs.compile(graph, device="reference")(*given), made(x), rtol=1e-4)
    with pytest.raises(RunError, match="elements"):
        irs.compile(irs.load(made.as_text()), device="reference")(x)
