"""Ops with side effects that no schema declares, by the kind of effect."""

from __future__ import annotations

from typing import Final

__all__ = ["CHANGES_RANDOM_STATE", "KNOWN_SIDE_EFFECTS", "RUNS_UNSEEN_CODE", "STOPS"]

_TELLS: Final = frozenset({
    "aten::save", "aten::warn", "prim::Print", "prim::AddStatValue", "prim::TimePoint",
})  # fmt: skip
"""They produce output that is visible outside the program."""

STOPS: Final = frozenset({
    "prim::RaiseException", "aten::_assert_async", "aten::_assert_scalar", "aten::_assert_tensor_metadata",
    "aten::_functional_assert_async", "aten::_functional_assert_scalar", "aten::_functional_sym_constrain_range",
    "aten::_functional_sym_constrain_range_for_size", "aten::_linalg_check_errors", "aten::sym_constrain_range",
    "aten::sym_constrain_range_for_size",
})  # fmt: skip
"""They may end the program: nothing may move from after to before them, and from then on only memory that the caller can reach
matters."""

CHANGES_RANDOM_STATE: Final = frozenset({"aten::manual_seed", "aten::seed"})

_CHANGES_STATE: Final = CHANGES_RANDOM_STATE | {
    "aten::set_grad_enabled", "aten::set_data", "aten::retain_grad", "prim::SetAttr",
}  # fmt: skip
"""They change global state, or an object as a whole."""

KNOWN_SIDE_EFFECTS: Final = _TELLS | STOPS | _CHANGES_STATE
"""They have a side effect outside memory; in memory they do only what their schema says."""

RUNS_UNSEEN_CODE: Final = frozenset({
    "aten::_backward", "aten::wait", "prim::BailOut", "prim::BailoutTemplate", "prim::CallFunction", "prim::CallMethod",
    "prim::Enter", "prim::Exit", "prim::IgnoredPythonOp", "prim::PythonOp", "prim::awaitable", "prim::awaitable_nowait",
    "prim::awaitable_wait", "prim::fork", "prim::forkClosure", "prim::rpc_async", "prim::rpc_remote", "prim::rpc_sync",
})  # fmt: skip
"""They run code that is not in the graph, or at another time, which may do anything to their operands."""
