"""Ops that do something that no schema tells, by what it is."""

from __future__ import annotations

from typing import Final

__all__ = ["CHANGES_RANDOM_STATE", "KNOWN_SIDE_EFFECTS", "RUNS_UNSEEN_CODE", "STOPS"]

_TELLS: Final = frozenset({
    "aten::save", "aten::warn", "prim::Print", "prim::AddStatValue", "prim::TimePoint",
})  # fmt: skip
"""Somebody outside is told."""

STOPS: Final = frozenset({
    "prim::RaiseException", "aten::_assert_async", "aten::_assert_scalar", "aten::_assert_tensor_metadata",
    "aten::_functional_assert_async", "aten::_functional_assert_scalar", "aten::_functional_sym_constrain_range",
    "aten::_functional_sym_constrain_range_for_size", "aten::_linalg_check_errors", "aten::sym_constrain_range",
    "aten::sym_constrain_range_for_size",
})  # fmt: skip
"""They may end the program: nothing may move from after to before them, and what then nobody can reach does not matter."""

CHANGES_RANDOM_STATE: Final = frozenset({"aten::manual_seed", "aten::seed"})

_CHANGES_STATE: Final = CHANGES_RANDOM_STATE | {
    "aten::set_grad_enabled", "aten::set_data", "aten::retain_grad", "prim::SetAttr",
}  # fmt: skip
"""The state of the machine, or an object as a whole, is another afterwards."""

KNOWN_SIDE_EFFECTS: Final = _TELLS | STOPS | _CHANGES_STATE
"""They have an effect on the world, and do to memory what their schema says and no more."""

RUNS_UNSEEN_CODE: Final = frozenset({
    "aten::_backward", "aten::wait", "prim::BailOut", "prim::BailoutTemplate", "prim::CallFunction", "prim::CallMethod",
    "prim::Enter", "prim::Exit", "prim::IgnoredPythonOp", "prim::PythonOp", "prim::awaitable", "prim::awaitable_nowait",
    "prim::awaitable_wait", "prim::fork", "prim::forkClosure", "prim::rpc_async", "prim::rpc_remote", "prim::rpc_sync",
})  # fmt: skip
"""They run code that is not in the graph, or at another time: it may do anything to what it is given."""
