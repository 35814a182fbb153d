"""What comes in with a JAX function: names, lines, nested arguments, errors."""

from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.errors import ArgumentError, CaptureError
from irscope.ir.text import parse_module

jax = pytest.importorskip("jax")
jnp = jax.numpy


def _layer(params: dict[str, Any], x: Any) -> Any:
    hidden = jnp.tanh(x @ params["w"] + params["b"])
    return {"out": hidden.sum(), "hidden": hidden}


PARAMS = {"w": jnp.ones((3, 4)), "b": jnp.arange(4.0)}
X = jnp.arange(6.0).reshape(2, 3)


def test_nested_arguments_keep_the_order_of_python() -> None:
    graph = irs.load(_layer, PARAMS, X)
    assert [graph.names[value] for value in graph.inputs] == ["params.w", "params.b", "x"]
    found = irs.compile(graph)(PARAMS, X)
    for one, want in zip(found, jax.tree_util.tree_leaves(_layer(PARAMS, X)), strict=True):
        np.testing.assert_allclose(one, want, rtol=1e-6)


def test_nodes_have_jax_s_names_and_lines() -> None:
    graph = irs.load(_layer, PARAMS, X)
    node = graph.node("tanh")
    assert node.op == "aten::tanh" and node.location is not None and node.location.file == __file__ and node.location.live
    assert node.location.line == _layer.__code__.co_firstlineno + 1


def test_the_ops_of_a_gradient_are_in_the_scopes_of_those_that_they_are_of() -> None:
    """Also those of a jitted function, which has a name of its own for its gradient, and of an optimized program, in a loop, too."""

    @jax.jit
    def layer(x: Any, w: Any) -> Any:
        with jax.named_scope("layer"):
            return jax.lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, w)[0]

    def loss(x: Any, w: Any) -> Any:
        with jax.named_scope("model"):
            return layer(x, w).sum() ** 2

    args = jnp.ones((3, 4)), jnp.ones((2, 4, 4))
    graph = irs.load(jax.jit(jax.vmap(jax.grad(loss), (0, None))), *args)
    assert {node.scope for node in graph.nodes() if node.op in ("aten::mm", "aten::bmm", "aten::tanh")} <= {
        f"loss.model.layer.layer.while.body.closed_call{end}" for end in ("", ".closed_call")
    }
    d = irs.decisions(jax.jit(jax.grad(loss)), *args)
    scopes = {node.scope for node in d.graph.nodes() if node.op in ("aten::mm", "aten::tanh")}
    assert scopes == {"model.layer.layer.while.body.closed_call"}


def test_lowered_and_jitted_functions_load() -> None:
    jitted = jax.jit(_layer)
    by_function, by_lowered = irs.load(jitted, PARAMS, X), irs.load(jitted.lower(PARAMS, X))
    assert [node.op for node in by_function.nodes()] == [node.op for node in by_lowered.nodes()]
    assert by_lowered.functional == "StableHLO"


def test_arguments_are_static_unused_wide_or_distinct_as_the_function_says() -> None:
    jitted = jax.jit(lambda x, n: x * n, static_argnums=1)
    graph = irs.load(jitted, X, 3)
    np.testing.assert_allclose(irs.compile(graph)(X), X * 3)
    graph = irs.load(lambda x, y: x + 1, X, X)
    assert len(graph.inputs) == 2
    with jax.enable_x64(True):
        graph = irs.load(jnp.sin, jnp.zeros(3, jnp.float64))
    assert str(graph.inputs[0].type) == "Double(3)"
    db = irs.AliasDb(irs.load(lambda x, y: (x + y, x.T), X, X))
    assert not db.may_alias("x", "y") and "StableHLO" in db.may_alias("x", "y").because


def test_control_flow_becomes_loops_and_ifs_as_deep_as_a_program_says_with_known_rounds() -> None:
    def steps(x: Any) -> Any:
        return jax.lax.scan(lambda c, a: (jax.lax.cond(a[0] > 0, jnp.sin, jnp.cos, c + a), c), jnp.zeros(3), x)

    ops = {node.op for node in irs.load(steps, X).nodes()}
    assert {"prim::Loop", "prim::If"} <= ops

    def nested(x: Any, depth: int) -> Any:
        return jax.lax.fori_loop(0, 2, lambda i, c: nested(c, depth - 1), x) if depth else x + 1

    graph = irs.load(lambda x: nested(x, 8), jnp.zeros(()))
    assert float(irs.compile(graph)(jnp.zeros(()))) == 256
    graph = irs.load(lambda x: jax.lax.fori_loop(2, 7, lambda i, c: c * 2 + i, x), jnp.float32(1))
    rounds = graph.node("prim::Loop").inputs[0]
    assert graph.producer[rounds].attrs["value"] == 5
    open_ended = irs.load(lambda x: jax.lax.while_loop(lambda c: c < 9, lambda c: c + 1, x), jnp.int32(3))
    assert open_ended.producer[open_ended.node("prim::Loop").inputs[0]].attrs["value"] == (1 << 63) - 1
    assert int(irs.compile(open_ended)(jnp.int32(3))) == 9
    by_twos = irs.load(lambda x: jax.lax.while_loop(lambda c: c[0] < 9, lambda c: (c[0] + 2, c[1] + 1), (0, x)), jnp.int32(3))
    assert [int(v) for v in irs.compile(by_twos)(jnp.int32(3))] == [10, 8]


def test_unused_arguments_are_still_passed() -> None:
    """`lower` leaves them out of the program, and the caller has them."""

    def partly(unread: jax.Array, parts: dict[str, jax.Array], x: jax.Array) -> jax.Array:
        return jnp.tanh(parts["w"]) * x

    given = (jnp.zeros((2, 3), jnp.float16), {"b": jnp.zeros(5, int), "w": jnp.arange(4.0)}, jnp.ones(4))
    lowered = jax.jit(partly).lower(*given)
    for graph in (irs.load(lowered), irs.load(lowered, *given)):
        assert [str(value.type) for value in graph.inputs][:2] == ["Half(2, 3)", "Int(5)"]
        np.testing.assert_allclose(irs.compile(graph)(*given), partly(*given), rtol=1e-6)
    static = jax.jit(lambda n, unread, x: x * n, static_argnums=0)
    graph = irs.load(static, 3, given[0], given[2])
    np.testing.assert_allclose(irs.compile(graph)(given[0], given[2]), 3 * given[2])


def test_a_function_that_jax_cannot_lower_is_an_error_with_its_reason() -> None:
    with pytest.raises(CaptureError, match="cannot lower branchy") as error:
        irs.load(_branchy, X)
    assert "hint" in str(error.value)
    with pytest.raises(ArgumentError):
        irs.load(jax.jit(_layer).lower(PARAMS, X), X)


def _branchy(x: Any) -> Any:
    return x if x.sum() > 0 else -x


_branchy.__name__ = "branchy"


def test_calls_of_functions_whose_names_mlir_quotes() -> None:
    x = jnp.arange(3.0)
    graph = irs.load(lambda x: jax.jit(lambda y: y * 2 + 1)(x), x)
    assert graph.functional == "StableHLO" and irs.same_structure(irs.parse(str(graph)), graph)
    np.testing.assert_array_equal(irs.compile(irs.fuse(graph))(x), [1.0, 3.0, 5.0])
    text = r"""func.func private @"a \22ö\22 \\"(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.add %x, %x : tensor<3xf32>
  return %0 : tensor<3xf32>
}
func.func private @"b b"(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = call @"a \22ö\22 \\"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
func.func private @c(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = call @"a \22ö\22 \\"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = call @"b b"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %1 = call @c(%0) : (tensor<3xf32>) -> tensor<3xf32>
  return %1 : tensor<3xf32>
}"""
    module = irs.load(text)
    made = irs.dedup(module, relation="alpha").apply()  # `b b` and `c` are one
    for program in (module, parse_module(str(module)), made):
        np.testing.assert_array_equal(irs.compile(irs.fuse(program))(np.asarray(x)), [0.0, 4.0, 8.0])


def test_random_bfloat16_through_torch_which_has_few_ops_of_wide_unsigned_numbers() -> None:
    torch, key = pytest.importorskip("torch"), jax.random.PRNGKey(0)
    run = irs.compile(irs.load(lambda key: jax.random.uniform(key, (5,), jnp.bfloat16), key))
    want = jax.random.uniform(key, (5,), jnp.bfloat16)
    np.testing.assert_array_equal(run(key), want)
    np.testing.assert_array_equal(run(torch.from_numpy(np.array(key))).float(), want.astype(jnp.float32))


def test_typed_keys_are_arguments_like_their_numbers() -> None:
    def drawn(params: dict[str, Any], key: Any, old: Any) -> Any:
        rows = jax.vmap(lambda one: jax.random.uniform(one, (2,)))(params["keys"])
        return rows + jax.random.uniform(key, (2,)) + jax.random.uniform(old, (2,))

    key = jax.random.key(7)
    args = ({"keys": jax.random.split(key, 3)}, key, jax.random.PRNGKey(7))
    graph = irs.load(drawn, *args)
    assert [str(value.type) for value in graph.inputs] == ["UInt32(3, 2)", "UInt32(2)", "UInt32(2)"]
    run = irs.compile(irs.fuse(graph))
    for _ in range(3):  # the first call compiles what later ones take
        np.testing.assert_allclose(run(*args), drawn(*args), rtol=1e-6)
    one = irs.compile(irs.load(lambda key: jax.random.bits(key, (3,)), key))
    for _ in range(3):
        np.testing.assert_array_equal(one(key), jax.random.bits(key, (3,)))
