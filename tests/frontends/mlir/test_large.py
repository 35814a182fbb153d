"""Large files come in in time that is linear in their size."""

import time

import pytest

import irscope as irs
from irscope.frontends.mlir.source import installed

needs_iree = pytest.mark.skipif("iree" not in installed(), reason="the pretty form of IREE's dialects")
TYPE = "tensor<64xf32>"


def _executables(count: int) -> str:
    """As many executables of nine ops, distinguished by a constant, and a function that dispatches them."""
    parts, calls = [], []
    for i in range(count):
        body = "\n".join(f"      %v{k} = arith.{op} {f'%v{k - 1}' if k else '%a'}, %b : {TYPE}"
                         for k, op in enumerate(["addf", "subf", "mulf", "divf"] * 2))  # fmt: skip
        parts.append(f"""flow.executable private @ex_{i} {{
  flow.executable.export public @entry_{i}
  builtin.module {{
    func.func @entry_{i}(%a: {TYPE}, %b: {TYPE}) -> {TYPE} {{
{body}
      %c = arith.constant dense<{i}.5> : {TYPE}
      %r = arith.addf %v7, %c : {TYPE}
      return %r : {TYPE}
    }}
  }}
}}""")
        calls.append(f"  %r{i} = flow.dispatch @ex_{i}::@entry_{i}[%n](%x, %x) : ({TYPE}, {TYPE}) -> {TYPE}")
    joined = "\n".join(calls)
    return "\n".join(parts) + f"\nutil.func public @main(%n: index, %x: {TYPE}) {{\n{joined}\n  util.return\n}}\n"


def _seconds(text: str) -> float:
    started = time.process_time()
    module = irs.load(text)
    assert len(module.modules) == text.count("flow.executable private")
    return time.process_time() - started


@needs_iree
@pytest.mark.long
def test_ten_thousand_executables_in_ten_seconds() -> None:
    few = _seconds(_executables(1000))
    many = _seconds(_executables(10_000))
    assert many < 10
    assert many < 20 * few


@pytest.mark.long
def test_a_chain_of_a_hundred_thousand_ops() -> None:
    chain = "".join(f"  %{i + 1} = stablehlo.tanh %{i} : {TYPE}\n" for i in range(100_000))
    text = f"func.func @f(%x: {TYPE}) -> {TYPE} {{\n  %0 = stablehlo.abs %x : {TYPE}\n{chain}  return %100000 : {TYPE}\n}}\n"
    started = time.process_time()
    assert len(irs.load(text).position) == 100_001
    assert time.process_time() - started < 20
