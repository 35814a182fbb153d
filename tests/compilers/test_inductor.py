"""What Inductor decided, observed without a trace: eager torch says whether the program with its groups is right."""

import re
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest

import irscope as irs
from irscope.codegen.kernel import NO_NODE
from irscope.compilers import Decisions
from irscope.display.ipython import names_for
from irscope.errors import ArgumentError, CaptureError, LoadError, UnknownName
from irscope.ops.node_check import verify
from irscope.ops.view_steps import Extent
from irscope.report.pages import Exploration
from irscope.report.pages.headline import quick_headline
from irscope.report.pages.side_by_side import Correspondence
from irscope.report.panes import decided_view
from irscope.session import is_compiled

torch = pytest.importorskip("torch")
F = torch.nn.functional


def ask(model: Any, *args: Any, **options: Any) -> Decisions:
    """Observe a compilation, and compare the program with its groups, run by irscope, with eager torch."""
    d = irs.decisions(torch.compile(model, **options), *args)
    with torch.no_grad():
        want = model(*[arg.clone() for arg in args])
        got = irs.compile(d.fusion)(*[arg.clone() for arg in args])
    for one, other in zip(got if isinstance(got, tuple) else (got,), want if isinstance(want, tuple) else (want,), strict=True):
        torch.testing.assert_close(one, other)
    for program in d.programs:
        verify(program.fusion.graph)
    return d


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = torch.nn.LayerNorm(8), torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)

    def forward(self, x: Any) -> Any:
        return x + self.down(F.gelu(self.up(self.norm(x))))


def broken(x: Any) -> Any:
    y = torch.relu(x) * 2
    torch._dynamo.graph_break()
    return y.sin() + 1


def test_a_block_has_its_kernels_library_calls_lines_and_modules() -> None:
    torch.manual_seed(0)
    model, x = Block().eval(), torch.randn(4, 8)
    d = ask(model, x)
    assert (d.compiler, d.version) == ("inductor", torch.__version__)
    assert [kernel.is_library for kernel in d.kernels] == [False, True, False, True, False]
    assert [len(kernel.nodes) for kernel in d.kernels] == [7, 1, 5, 1, 1]
    assert all(kernel.certainty == "exact" for kernel in d.kernels)
    assert [d.graph.names[value] for value in d.graph.free_inputs] == ["x"]
    assert {d.graph.names[value] for value in d.graph.bound} == {name for name, _ in model.named_parameters()}
    gelu = d.kernels[2]
    assert gelu.source is not None and gelu.source.language == "c++" and gelu.function in gelu.source.text
    assert "erf" in gelu.source.text and gelu.bytes == 2 * 4 * 16 * 4
    assert {node.location.file for kernel in d.kernels for node in kernel.nodes} == {__file__}
    assert d.kernels[1].nodes[0].scope == "up"
    assert "compiled for inference" in d.notes[0]


def test_reasons_are_those_of_inductor_by_ops_and_else_those_of_irscope() -> None:
    d = ask(Block().eval(), torch.randn(4, 8))
    told = d.why_not("add_1", "add_3")
    assert told.because == "inductor says: intermediate nodes between %add_1 & %add_3"
    assert d.fusion.reasons[0].said.startswith("cannot fuse op")
    assert "inductor never tried it; by irscope's rules, aten::addmm" in d.why_not("addmm", "mul_4").because
    assert d.why_not("mul_2", "mul_4")


def test_what_is_written_in_place_and_computed_again() -> None:
    def slices(x: Any, y: Any) -> Any:
        x[:, :4] = y[:, :4].sin()
        z = x * 2
        x.add_(1)
        return z.sum(-1), x[:, 2:6].relu()

    d = ask(slices, torch.randn(8, 8), torch.randn(8, 8))
    again = {each.node.op for kernel in d.kernels for each in kernel.recomputed}
    assert "aten::sin" in again and "aten::sum" not in again
    assert {change.kind for change in d.program.changes} == {"added", "vanished"}
    sin = next(each for kernel in d.kernels for each in kernel.recomputed if each.node.op == "aten::sin")
    assert sin.bytes == 8 * 4 * 4 and sin.operations >= 8 * 4
    assert len(d.fusion.groups_of(sin.node)) == 2


def test_an_op_that_two_kernels_compute_together_is_a_region() -> None:
    class Conv(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.bn = torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.BatchNorm2d(16)

        def forward(self, x: Any) -> Any:
            return F.max_pool2d(F.relu(self.bn(self.conv(x))), 2).mean((2, 3))

    d = ask(Conv().eval(), torch.randn(2, 3, 16, 16))
    assert [kernel.is_library for kernel in d.kernels].count(True) == 1
    (region,) = [each for each in d.program.regions if any(node.op == "aten::mean" for node in each.nodes)]
    assert region.kernels == d.kernels[-2:] and [node.op for node in d.kernels[-1].nodes] == ["aten::mean"]
    assert d.kernels[-2].ops == "max_pool2d_with_indices, a part of mean", "the sum is there, and the division by its length is apart"
    assert d.kernels[-2].part_of[0].op == "aten::mean" and d.kernels[-2].certainty == "matched"
    told = d.why_not("max_pool2d_with_indices", "mean").because
    assert " and a part of mean %mean in " in told and told.endswith(f" in {d.kernels[-2].name}, and the rest apart")
    assert d.program.kernel(d.kernels[-1].name) in d.kernels


def test_a_copy_of_what_a_library_gives_back_is_not_the_call() -> None:
    """A convolution of one point writes channels last; the caller gets it as torch lays it out."""
    weight = torch.randn(3, 8, 1, 1)
    d = ask(lambda x: F.conv2d(x.relu(), weight), torch.randn(2, 8, 6, 6))
    assert [(kernel.is_library, [node.op for node in kernel.nodes], [node.op for node in kernel.part_of]) for kernel in d.kernels] == [
        (False, ["aten::relu"], []), (True, ["aten::convolution"], []), (False, [], ["aten::convolution"]),
    ]  # fmt: skip
    assert all(kernel.certainty == "exact" for kernel in d.kernels) and not d.program.regions
    assert [row[-1] for row in decided_view(d, 0)["kernels"]["rows"]] == ["buf0", "buf1", "buf2"], "each loop nest writes its own"


def test_library_calls_of_another_overload_and_calls_without_results_have_their_nodes() -> None:
    """Inductor calls `sort.stable` for `sort`, and a token keeps the check that a matrix is positive definite in its place."""

    def f(x: Any) -> Any:
        values, index = torch.linalg.cholesky(x @ x.T + 4).sort(-1)
        return values.cumsum(0) * 2, index + 1

    d = ask(f, torch.eye(4))
    calls = {kernel.name.split(".")[-2]: kernel for kernel in d.program.library_calls if kernel.name.startswith("torch.ops")}
    assert {name: [node.op for node in kernel.nodes] for name, kernel in calls.items()} == {
        "linalg_cholesky_ex": ["aten::linalg_cholesky_ex"], "_linalg_check_errors": ["aten::_linalg_check_errors"],
        "sort": ["aten::sort"], "cumsum": ["aten::cumsum"],
    }  # fmt: skip
    assert all(kernel.certainty == "exact" for kernel in calls.values()) and not d.program.notes


def test_what_a_partial_sum_is_made_from_is_in_its_kernel_though_it_is_stored_nowhere() -> None:
    d = ask(lambda x: F.smooth_l1_loss(x.sum(0), x.mean(0)), torch.randn(6, 2, 5))
    first, second = d.kernels
    assert [node.op.partition("::")[2] for node in first.nodes] == [*"sum mean sub abs lt pow mul div sub where".split()]
    assert [node.op for node in first.part_of] == ["aten::mean"] and first.part_of == second.nodes
    assert first.certainty == "matched" and not d.program.notes


def test_a_view_that_changes_nothing_does_not_end_what_a_kernel_computes() -> None:
    """Inductor names `expand` to the same extents in no origins."""
    d = ask(lambda x: torch.stack([x.sin().unsqueeze(1).expand(4, 1, 3) * 2, x.cos().unsqueeze(1)]).sum(0), torch.randn(4, 3))
    assert {node.op for kernel in d.kernels for node in kernel.nodes} >= {"aten::sin", "aten::mul"}
    each = ask(torch.func.vmap(torch.func.grad(lambda x, w: torch.tanh(x @ w).pow(2).sum()), (0, None)), torch.randn(5, 4), torch.eye(4))
    assert not [change for change in each.program.changes if "in another form" in change.because]


def test_what_vanished_is_found_by_what_the_user_called_it_and_by_its_line() -> None:
    def attend(q: Any, k: Any, v: Any) -> Any:
        return torch.softmax(q @ k.transpose(-1, -2) / 4, -1) @ v

    d = ask(attend, *(torch.randn(2, 4, 8, 16) for _ in range(3)))
    made = next(iter(d.program.library_calls[0].nodes)).outputs[0]
    told = f"inductor has no kernel for aten.amax.default %amax, a part of softmax (rewritten: %{d.graph.names[made]} computes it"
    assert d.why_not("softmax", "permute").because == f"{told}, with what read it)"
    assert d.why_not(f"test_inductor.py:{attend.__code__.co_firstlineno + 1}", "exp").because.startswith("inductor has no kernel for aten.")


def test_an_unused_view_does_not_keep_a_kernel_from_its_nodes() -> None:
    def f(x: Any, y: Any) -> Any:
        x[1:3].mul_(2)
        x[:, 0].copy_(y[:, 0])
        return x[1:3]

    d = ask(f, torch.randn(4, 4), torch.randn(4, 4))
    (kernel,) = d.kernels
    assert kernel.nodes[-1].op == "aten::copy_" and kernel.group is not None and not d.program.notes


def test_a_graph_break_makes_several_programs() -> None:
    d = irs.decisions(torch.compile(broken), torch.randn(8))
    assert len(d.programs) == 2 and [len(program.kernels) for program in d.programs] == [1, 1]
    assert [(each.frames[-1][0], each.frames[-1][2]) for each in d.breaks] == [(__file__, "broken")]
    assert any("x" in guard for guard in d.programs[0].guards)
    with pytest.raises(ArgumentError, match="compiled 2 programs here"):
        d.kernels  # noqa: B018


def test_a_result_that_is_kept_and_not_returned_is_not_compared() -> None:
    kept: dict[str, Any] = {}

    def cached(x: Any) -> Any:
        kept["table"] = x * 2
        return kept["table"].sum(0), x, 3, (same := x.cos()), same

    d = irs.decisions(torch.compile(cached), torch.randn(3, 4))
    assert d.program.notes == ("computed and not among what the call returns: %mul, kept in Python, as in a cache in a dictionary",)
    found = irs.compare(d, torch.randn(3, 4), repeats=1)
    assert [row.label for row in found.rows if row.error < 1e-6] == ["fused", "eager", "inductor", "inductor's groups"]
    assert "%mul is not compared for eager and inductor, whose calls do not return it." in found.warnings


def test_a_call_that_returns_other_results_by_now_has_no_error() -> None:
    kept: list[Any] = []

    def fills(x: Any) -> Any:
        kept.append(x * 2)
        return tuple(kept)

    d = irs.decisions(torch.compile(fills), torch.randn(3, 4))
    found = irs.compare(d, torch.randn(3, 4), repeats=1)
    assert {row.label: row.error for row in found.rows if row.error != 0} == {"eager": None, "inductor": None}
    said = [each.partition(",")[0] for each in found.warnings if " now gives other results than " in each]
    assert [each.partition(" (")[2] for each in said] == ["2 results instead of 1)", "3 results instead of 1)"]


def test_options_of_the_users_torch_compile_are_carried_over() -> None:
    def chain(x: Any) -> Any:
        return (x.sin() + 1).cos().sum(-1)

    x = torch.randn(16, 16)
    assert len(ask(chain, x, options={"max_fusion_size": 1}).kernels) >= len(ask(chain, x).kernels)
    symbolic = ask(chain, torch.randn(5, 7), dynamic=True)
    assert not symbolic.graph.value("sin").type.is_static and [symbolic.graph.names[v] for v in symbolic.graph.free_inputs] == ["x"]
    torch.testing.assert_close(irs.compile(symbolic.fusion)(x), chain(x))
    with pytest.raises(CaptureError, match="fails on this program"):
        irs.decisions(torch.compile(lambda x: torch._dynamo.graph_break() or x, fullgraph=True), x)


def test_nothing_of_the_users_is_changed() -> None:
    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bn = torch.nn.BatchNorm1d(4)

        def forward(self, x: Any, w: Any) -> Any:
            w.mul_(2)
            return F.dropout(self.bn(x)) @ w

    model = Counting().train()
    x, w = torch.randn(3, 4), torch.randn(4, 4)
    before = [tensor.clone() for tensor in (x, w, *model.state_dict().values())]
    entries = torch._dynamo.eval_frame._debug_get_cache_entry_list
    state, counters = torch.get_rng_state(), {key: dict(held) for key, held in torch._dynamo.utils.counters.items()}
    irs.decisions(torch.compile(model), x, w)
    for tensor, old in zip((x, w, *model.state_dict().values()), before, strict=True):
        assert torch.equal(tensor, old)
    assert torch.equal(torch.get_rng_state(), state)
    assert {key: dict(held) for key, held in torch._dynamo.utils.counters.items() if held} == {k: v for k, v in counters.items() if v}
    assert entries(Counting.forward.__code__) == []
    assert not torch._inductor.config.is_fbcode() and torch._inductor.config.fx_graph_cache is not None


def test_a_program_without_a_graph_and_one_with_branches_say_so() -> None:
    d = irs.decisions(torch.compile(lambda x: x), torch.randn(4))
    assert d.programs == () and "nothing was compiled" in d.notes[0]
    with pytest.raises(ArgumentError, match="compiled no program here"):
        d.kernels  # noqa: B018

    def branches(x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda x: x.sin() + 1, lambda x: x.cos(), (x,))

    with pytest.raises(CaptureError, match="%cond runs graphs of its own"):
        irs.decisions(torch.compile(branches), torch.randn(4))

    flex = torch.nn.attention.flex_attention.flex_attention
    with pytest.raises(CaptureError, match="write it as scaled_dot_product_attention"):
        irs.decisions(torch.compile(lambda x: flex(x, x, x)), torch.randn(1, 2, 32, 16))


def test_several_calls_say_why_each_was_compiled_again() -> None:
    compiled, x = torch.compile(lambda x, n: x.relu() * n), torch.randn(4, 8)
    before = torch._dynamo.utils.counters["stats"].get("unique_graphs", 0)  # of tests that compiled in this process
    d = irs.decisions(compiled, x, 2, calls=[(x, 2), (torch.randn(5, 8), 2), (x.double(), 2)])
    assert [program.recompiled_because for program in d.programs] == [
        "", "tensor 'x' size mismatch at index 0. expected 4, actual 5", "tensor 'x' dtype mismatch. expected Float, actual Double",
    ]  # fmt: skip
    assert d.notes[0].startswith("3 compiles, 2 of them again") and "dtype mismatch" in d.notes[2]
    shown = decided_view(d, 2)["notes"]
    assert sum("dtype mismatch" in note for note in shown) == 1, "a page says it once"
    assert shown[-1] != (alone := decided_view(Decisions("inductor", d.programs[2:]), 0)["notes"])[-1] and "dtype mismatch" in alone[-1]
    for program, given in zip(d.programs, [x, torch.randn(5, 8), x.double()], strict=True):
        assert program.graph.value("x").type.dtype == str(given.dtype).removeprefix("torch.")
    assert torch._dynamo.utils.counters["stats"].get("unique_graphs", 0) == before, "the user's own code is as it was"


def test_a_copy_of_an_argument_is_the_same_to_dynamo() -> None:
    x, y, wide = torch.randn(4, 4), torch.randn(4, 4), torch.randn(4, 8)
    given = [(x.clone().requires_grad_(), y), (wide[:, ::2], y), (torch.nn.Parameter(x), y), (x, x)]
    d = irs.decisions(torch.compile(lambda x, y: x * 2 + y), x, y, calls=given)
    said = [
        "tensor 'x' requires_grad mismatch. expected requires_grad=0", "tensor 'x' stride mismatch at index 0. expected 4, actual 8",
        "but found <class 'torch.nn.parameter.Parameter'>", 'Duplicate tensors found: ["x", "y"]',
    ]  # fmt: skip
    for program, words in zip(d.programs[1:], said, strict=True):
        assert words in program.recompiled_because
    alone = irs.decisions(torch.compile(lambda x: x * 2), wide[:, ::2])
    assert alone.graph.value("x").type.strides == (8, 2)


def test_arguments_that_share_memory_are_compiled_as_such() -> None:
    def shifted(x: Any, y: Any) -> Any:
        x.add_(1)
        return y * 2

    made, other = ((held[:3], held[1:]) for held in (torch.randn(4, 5), torch.randn(4, 5)))
    d = irs.decisions(torch.compile(shifted), *made)
    other[0].copy_(made[0])
    other[1].copy_(made[1])
    torch.testing.assert_close(irs.compile(d.fusion)(*made), shifted(*other))


def test_an_operand_of_a_cat_is_written_once_more_where_it_is_kept_or_is_a_view() -> None:
    def joined(x: Any, y: Any) -> Any:
        kept = x.relu()
        return torch.cat([kept, y.tanh(), y]), kept

    d = ask(joined, torch.randn(8, 4), torch.randn(8, 4))
    assert [[node.op for node in (*kernel.nodes, *kernel.part_of)] for kernel in d.kernels] == [
        ["aten::relu", "aten::cat"], ["aten::tanh", "aten::cat"],
    ]  # fmt: skip
    one = 8 * 4 * 4
    assert [kernel.bytes for kernel in d.kernels] == [one + 2 * one, one + 2 * one], "each reads one tensor, and writes two"
    assert sum(row["bytes after"] for _, row in d.fusion.table().iterrows()) == d.fusion.cost().bytes == 6 * one
    assert all(kernel.certainty == "exact" for kernel in d.kernels) and not d.program.notes


def test_halves_of_a_rotated_tensor_are_what_their_kernels_read() -> None:
    def rotated(x: Any, w: Any, c: Any) -> Any:
        q = (x @ w).view(1, 8, 4, 8).transpose(1, 2)
        return torch.cat([-q[..., 4:], q[..., :4]], -1) + q * c

    d = ask(rotated, torch.randn(8, 32), torch.randn(32, 32), torch.randn(8, 8))
    half = 8 * 32 * 4 // 2
    assert [kernel.bytes for kernel in d.kernels[1:3]] == [2 * half, 2 * half], "views that others read, too, move nothing"
    assert [kernel.ops for kernel in d.kernels[1:3]] == ["reshape, permute, slice, neg", "cat"]


def test_an_indexed_write_is_what_the_kernel_of_the_scatter_computes() -> None:
    place, row = torch.tensor([1, 3]), torch.randn(2, 4)

    def write(x: Any) -> Any:
        y = x + 1
        y[place] = row
        return y * 2

    assert "index_put_" in {node.op.partition("::")[2] for kernel in ask(write, torch.randn(5, 4)).kernels for node in kernel.nodes}
    d = ask(lambda x: (x * 2).scatter(0, torch.zeros(1, 4, dtype=torch.long), 7.0), torch.randn(5, 4))
    assert [[node.op for node in kernel.nodes] for kernel in d.kernels] == [["aten::mul"], ["aten::full", "aten::scatter"]]


def test_what_a_training_step_saves_is_stored_by_its_kernel_and_not_computed_beside_it() -> None:
    """The mean of a norm over what a kernel computes has no origin in Inductor: it is known as a result."""
    model = torch.nn.Sequential(torch.nn.GELU(), torch.nn.LayerNorm(32))
    forward, _ = irs.decisions(torch.compile(model), torch.randn(8, 32, requires_grad=True), backward=True).programs
    (kernel,) = forward.kernels
    assert [node.op for node in forward.fusion.graph.body.nodes if node.op != "prim::Constant"] == ["prim::FusionGroup"]
    assert kernel.bytes == 4 * (8 * 32 + 2 * 32 + 8 * 32 + 2 * 8) and kernel.certainty == "exact"  # mean and deviation, too


def test_ops_on_lists_are_an_op_for_each_tensor_which_its_kernel_computes() -> None:
    d = ask(lambda *given: tuple(torch._foreach_add(given[:2], torch._foreach_mul(given[2:], 0.1))), *map(torch.randn, (64, 9, 64, 9)))
    assert [kernel.bytes for kernel in d.kernels] == [4 * 3 * 64, 4 * 3 * 9]
    assert {kernel.ops for kernel in d.kernels} == {"mul, add"} and not any(kernel.recomputed for kernel in d.kernels)
    assert all(kernel.certainty == "exact" for kernel in d.kernels) and len(d.vanished()) == 0


@pytest.mark.parametrize("options", [{"foreach": True}, {"foreach": False}, {"fused": True}], ids=lambda options: next(iter(options)))
def test_an_optimizers_step_is_read_and_not_taken(options: dict[str, bool]) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Linear(4, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1, **options)
    model(torch.randn(3, 6)).square().sum().backward()
    before, gradients = [each.detach().clone() for each in model.parameters()], [each.grad for each in model.parameters()]
    d = irs.decisions(torch.compile(optimizer.step))
    assert all(map(torch.equal, model.parameters(), before)) and not optimizer.state
    assert all(each.grad is one for each, one in zip(model.parameters(), gradients, strict=True))
    if "fused" in options:  # one call of the library, which Dynamo does not compile
        assert not d.programs and "nothing was compiled" in d.notes[0]
        return
    names = {d.graph.names[value] for value in d.graph.inputs}
    assert names == {f"param{index}{each}" for index in range(4) for each in ("", ".grad", ".exp_avg", ".exp_avg_sq", ".step")}
    assert len(d.kernels) == 8 and all(kernel.nodes and kernel.certainty == "exact" for kernel in d.kernels)
    irs.compile(d.fusion)()
    made = [each.detach().clone() for each in model.parameters()]
    for each, old in zip(model.parameters(), before, strict=True):
        each.data.copy_(old)
    optimizer.step()
    torch.testing.assert_close(made, [each.detach() for each in model.parameters()])


def test_what_prepares_an_operand_is_a_part_of_the_op_that_reads_it() -> None:
    """A weight in another layout has an input of the program as its origin; with `freezing`, a product has that of its order in memory."""
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(288, 8)).eval()
    x = torch.randn(2, 3, 8, 8)
    forward = irs.decisions(torch.compile(model), x, backward=True).programs[0]
    copies = [kernel for kernel in forward.kernels if not kernel.nodes]
    assert [(kernel.ops, kernel.bytes) for kernel in copies[:2]] == [("convolution", 2 * 864), ("convolution", 2 * 1536)]
    product = ask(model, x, options={"freezing": True}).kernels[-1]
    assert (product.ops, product.bytes) == ("addmm", 4 * (8 + 2 * 288 + 288 * 8 + 2 * 8))


@pytest.mark.filterwarnings("ignore:Torchinductor does not support code generation for complex")
def test_a_copy_into_a_complex_tensor_which_has_no_layout_is_the_cast() -> None:
    d = ask(lambda x: torch.fft.fftn(x + 1, dim=(1, 2)).real * 2, torch.randn(2, 4, 8))
    made = [(kernel.name, kernel.ops, kernel.certainty) for kernel in d.kernels if kernel.is_library]
    assert made[0] == ("aten.copy_", "to", "exact") and made[1][1] == "_fft_c2c"
    assert d.kernels[1].bytes == 3 * 2 * 4 * 8 * 4


def test_of_two_scatters_into_one_copy_each_has_its_own() -> None:
    place = torch.tensor([1, 3, 5])

    def write(x: Any, rows: Any) -> Any:
        y = x.clone()
        y[place] = rows
        return y.index_add_(0, place, rows)

    d = ask(write, torch.randn(6, 4), torch.randn(3, 4))
    assert [(kernel.ops, bool(kernel.nodes), kernel.certainty == "guessed") for kernel in d.kernels] == [
        ("index_put", False, False), ("index_put", True, False), ("index_put_", True, False),
    ]  # fmt: skip


def test_a_slice_that_is_written_in_place_moves_what_is_read_and_written() -> None:
    """As the generated C++ does: it loads 1,024 numbers, and stores them into a half of the buffer."""

    class Cached(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("kept", torch.zeros(2, 32, 32))

        def forward(self, x: Any) -> Any:
            self.kept[:, :16] = x
            return self.kept * 2

    d = irs.decisions(torch.compile(Cached()), torch.randn(2, 16, 32))
    assert [(kernel.nodes[-1].op, kernel.bytes) for kernel in d.kernels] == [("aten::copy_", 2 * 4096), ("aten::mul", 2 * 8192)]
    assert d.fusion.cost().bytes == 2 * 4096 + 2 * 8192


@pytest.mark.parametrize(
    ("model", "given", "moved"),
    [
        (lambda x: F.layer_norm(x.transpose(1, 2), (8,)), [torch.randn(2, 8, 5)], [4 * 90, 4 * 20, 4 * 170]),
        (lambda x: x[:, None].expand(3, 4, 5).reshape(12, 5) * 2, [torch.randn(3, 5)], [4 * 75]),
        (lambda ids, w: F.layer_norm(F.embedding(ids, w), (8,)), [torch.arange(6), torch.randn(50, 8)], [6 * 8 + 4 * 96]),
        (lambda x, y: torch.cat([x.sin(), y.cos()], -1), [torch.randn(4, 8), torch.randn(4, 5)], [4 * 64, 4 * 40]),
        (F.binary_cross_entropy_with_logits, [torch.randn(16, 10), torch.rand(16, 10)], [4 * 321, 4 * 2]),
    ],
)  # fmt: skip
def test_each_byte_of_others_memory_that_a_kernel_touches_counts_once(model: Any, given: list[Any], moved: list[int]) -> None:
    """As the generated C++ does, counted with pointers that remember: three loops over a row read it once."""
    d = irs.decisions(torch.compile(model), *given)
    assert [kernel.bytes for kernel in d.kernels] == moved and d.fusion.cost().bytes == sum(moved)
    assert all(kernel.certainty != "guessed" for kernel in d.kernels)


def test_a_row_that_is_written_into_a_cache_moves_bytes_of_rows() -> None:
    at, row = torch.tensor([5]), torch.randn(2, 1, 8)
    d = ask(lambda cache: (cache.index_copy_(1, at, row) * 2).sum(-1), torch.randn(2, 512, 8))
    assert d.kernels[0].nodes and d.kernels[0].bytes <= 8 + 3 * 4 * 2 * 8 and d.kernels[1].bytes > 4 * 2 * 512 * 8


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # Dynamo's, of the loss
def test_a_step_that_asks_for_gradients_itself_is_compiled_as_it_trains() -> None:
    layer, x = torch.nn.Linear(8, 4), torch.randn(3, 8)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = layer(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    before = layer.weight.detach().clone()
    d = irs.decisions(torch.compile(step), x)
    assert [each.name for each in d.programs] == ["step_0 forward", "step_1 backward", "step_2"]
    assert d.notes[0] == "it asks for gradients itself, so it is compiled as it trains"
    assert torch.equal(layer.weight, before) and layer.weight.grad is None
    named = [{program.graph.names[value] for value in program.graph.inputs} for program in d.programs]
    assert named[0] == {"x", "layer.weight", "layer.bias"}
    assert named[2] == {"x", *(f"layer.{each}{which}" for each in ("weight", "bias") for which in ("", ".grad"))}
    assert irs.decisions(torch.compile(lambda x: layer(x).sum()), x, backward=True).programs[1].notes[0].endswith("layer.bias")


def test_what_another_part_makes_is_an_argument_of_a_program() -> None:
    apart = torch.compiler.disable(lambda x: x + 5)
    d = irs.decisions(torch.compile(lambda x: apart(x) * 2), torch.ones(4))
    torch.testing.assert_close(irs.compile(d)(torch.zeros(4)), torch.zeros(4))
    with pytest.raises(ArgumentError, match="in parts"):
        irs.compare(d, torch.ones(4))


def test_what_is_kept_apart_from_the_compiler_is_not_compiled() -> None:
    model = torch.nn.ReLU()
    model.compile()
    compiled = [torch.compile(torch.relu), torch.compile(torch.nn.ReLU()), model]
    others = [torch.compiler.disable(torch.relu), mock.MagicMock(), torch.nn.ReLU(), 3]
    assert all(map(is_compiled, compiled)) and not any(map(is_compiled, others))
    with pytest.warns(UserWarning, match="read as the program before it"):
        g = irs.load(torch.compile(torch.nn.Sequential(torch.nn.ReLU())), torch.ones(2))
    assert g.name == "Sequential" and [node.scope for node in g.nodes()] == ["0"]
    with pytest.raises(LoadError, match="no reader takes"):
        irs.decisions(others[0], torch.ones(2))
    with pytest.raises(ArgumentError, match="without an option 'level'"):
        irs.decisions(torch.compile(torch.relu), torch.ones(2), level="all")


WORDS = {"erf": r"erf\(", "exp": r"exp\(", "rsqrt": r"sqrt\(", "add": r"\+", "mul": r"\*", "sub": "-", "div": "/", "amax": "max"}
"""How a line of C++ or Triton that makes a value of one of these ops is known."""


@pytest.mark.parametrize("back_end", ["cpp", "triton"])
def test_lines_of_a_kernels_text_know_their_ops(back_end: str) -> None:
    """Triton's text is made here without Triton, and without a GPU."""
    d = irs.decisions(torch.compile(Block().eval(), options={"cpu_backend": back_end}), torch.randn(4, 8))
    seen = set()
    for kernel in d.kernels:
        if kernel.source is None:
            continue
        assert kernel.group is not None and "Placeholder" not in kernel.source.text
        inside = kernel.group.blocks[0].nodes
        lines = [line.strip() for line in kernel.source.text.splitlines()]
        of = [None if node == NO_NODE else inside[node].op.partition("::")[2] for node in kernel.source.line_nodes]
        computing = [op for line, op in zip(lines, of, strict=True) if re.match(r"(auto )?tmp\d+ = |tmp\d+.store|tl.store", line)]
        assert computing and None not in computing
        for op in {*of} & {*WORDS}:
            assert any(re.search(WORDS[op], line) for line, made_for in zip(lines, of, strict=True) if made_for == op), op
        seen |= {*of}
    assert {"erf", "add", "mul", "var_mean", "rsqrt"} <= seen


def test_equal_lines_of_two_loops_are_of_their_own_ops() -> None:
    def two(x: Any) -> Any:
        return x.sin().sum(0), x.cos().sum(1), (x.t() * 2).contiguous()

    d = irs.decisions(torch.compile(two), torch.randn(40, 24))
    for kernel in d.kernels:
        assert kernel.source is not None and kernel.group is not None
        inside = kernel.group.blocks[0].nodes
        lines = zip(kernel.source.text.splitlines(), kernel.source.line_nodes, strict=True)
        linked = [(line, inside[node].op) for line, node in lines if node != NO_NODE]
        assert linked and all(op == f"aten::{word}" for line, op in linked for word in ("sin", "cos") if f"{word}(" in line)


def test_a_training_step_is_two_programs_whose_gradients_are_eagers() -> None:
    torch.manual_seed(0)
    model, x = Block(), torch.randn(4, 8, requires_grad=True)
    d = irs.decisions(torch.compile(model), x, backward=True)
    forward, backward = d.programs
    assert [each.name for each in d.programs] == ["Block forward", "Block backward"] and x.grad is None
    assert backward.notes[0] == "the results are the gradients of norm.weight, norm.bias, x, up.weight, up.bias, down.weight, down.bias"
    made = irs.compile(forward.fusion)(x.detach())
    want = model(x)
    torch.testing.assert_close(made[0], want.detach())
    weight = torch.randn(4, 8)
    by_name = {forward.graph.names[value]: tensor for value, tensor in forward.graph.bound.items()}
    by_name |= {"x": x.detach(), "tangents_1": weight}
    saved = dict(zip((forward.graph.names[value] for value in forward.graph.outputs), made, strict=True))
    saved["getitem_1"] = saved.get("var_mean.1")
    given = [(by_name | saved)[backward.graph.names[value]] for value in backward.graph.free_inputs]
    parameters = dict(model.named_parameters())
    named = backward.notes[0].partition("of ")[2].split(", ")
    gradients = torch.autograd.grad(want, [x if name == "x" else parameters[name] for name in named], weight)
    for one, other in zip(irs.compile(backward.fusion)(*given), gradients, strict=True):
        torch.testing.assert_close(one, other)
    of_erf = {node.op for node, made_for in backward.gradient_of.items() for each in made_for if each.op == "aten::erf"}
    assert "aten::exp" in of_erf and all(node.location is not None for node in backward.gradient_of)
    assert any(note.startswith("computed again here") and "%erf" in note for note in backward.notes)
    assert d.why_not("tangents_1", "erf") is not None
    with pytest.raises(ArgumentError, match="requires a gradient"):
        irs.decisions(torch.compile(torch.sin), torch.randn(3), backward=True)


def test_bytes_of_sizes_that_are_marked_as_dynamic_are_formulas() -> None:
    def chain(x: Any) -> Any:
        return torch.softmax(x * 2, -1)

    x = torch.randn(40, 24)
    torch._dynamo.mark_dynamic(x, 0)
    d = irs.decisions(torch.compile(chain), x)
    assert d.graph.inputs[0].type.shape != (40, 24) and all(isinstance(kernel.bytes, Extent) for kernel in d.kernels)
    assert isinstance(d.fusion.cost().bytes, Extent)
    extent = next(node for node in d.graph.nodes() if node.op == "aten::size")
    assert d.graph.names[extent.output] == str(d.graph.inputs[0].type.shape[0]), "an extent is called as the types call it"
    torch.testing.assert_close(irs.compile(d.fusion)(torch.ones(3, 24)), chain(torch.ones(3, 24)))


def test_a_question_takes_results_ops_kernels_and_lines() -> None:
    d = irs.decisions(torch.compile(Block().eval()), torch.randn(4, 8))
    gelu, last = (kernel for kernel in d.kernels[2:] if not kernel.is_library)
    line = gelu.nodes[0].location
    assert line is not None
    told = d.why_not(gelu.name, last.name)
    assert not told and "(asked of " in told.because and "inductor" in told.because
    assert d.why_not("erf", gelu.name).because.startswith(f"inductor computes both in {gelu.name}")
    assert d.why_not("gelu", "mul_4") and not d.why_not("layer_norm", "gelu") and not d.why_not("norm", "gelu")
    assert d.why_not("aten::erf", "%mul_4")
    assert d.why_not(f"{line.file}:{line.line}", "erf") and d.why_not(f"{line.file.rpartition('/')[2]}:{line.line}", last)
    assert not d.why_not("addmm", "x") and "input" in d.why_not("addmm", "x").because
    shown = Exploration(d.fusion, decisions=d)
    call = d.kernels[1].nodes[0]
    buffer = next(name for name, nodes in d.program.buffers.items() if nodes == (call,) and name.startswith("buf"))
    assert d.why_not(buffer, "buf0").because.endswith(f"({buffer} belongs to addmm %addmm, buf0 belongs to var_mean %var_mean.0)")
    assert shown.resolve(buffer) == call.id and call in shown.queries(buffer)
    assert [buffer] == names_for(f'd.why_not("{buffer}', {"d": d}) and gelu.name in names_for('d.why_not("cpp', {"d": d})
    calls = {count["label"]: (count["value"], count["selects"]) for count in quick_headline(shown)}
    assert calls["kernels of inductor"][0] == "3" and calls["library calls"] == ("2", [d.kernels[k].nodes[0].id for k in (1, 3)])
    with pytest.raises(UnknownName, match="nothing called 'gleu'") as error:
        d.why_not("gleu", "erf")
    assert "gelu" in error.value.hint and "model.py:12" in error.value.hint

    d = irs.decisions(torch.compile(broken), torch.randn(8))
    told = d.why_not("relu", "sin")
    assert not told and "compiled them apart" in told.because and f"{__file__}:" in told.because
    assert d.why_not("sin", "add")
    with pytest.raises(UnknownName, match="no program has cos"):
        d.why_not("cos", "sin")


def test_another_backend_is_refused_and_a_plain_model_is_compiled_when_asked() -> None:
    x = torch.randn(4)
    with pytest.raises(ArgumentError, match="whose decisions irscope does not read"):
        irs.decisions(torch.compile(torch.sin, backend="eager"), x)
    assert len(irs.decisions(lambda x: x.sin() + 1, x, compiler="inductor").kernels) == 1
    with pytest.raises(ArgumentError, match=r"torch\.compile\(Block\) needs example arguments"):
        irs.decisions(torch.compile(Block()))


@pytest.mark.parametrize(
    ("where", "said"), [("torch._inductor.scheduler.Scheduler.codegen", "there is no Scheduler.codegen"), ("", "has no attribute")]
)
def test_changed_internals_are_an_error_that_names_the_version(where: str, said: str) -> None:
    import torch._inductor.scheduler as scheduler

    function: Callable[..., Any] = torch.compile(lambda x: x.sin() + 1)
    if where:
        old = scheduler.Scheduler.codegen
        del scheduler.Scheduler.codegen
        try:
            with pytest.raises(CaptureError, match=said) as error:
                irs.decisions(function, torch.randn(4))
        finally:
            scheduler.Scheduler.codegen = old
    else:
        changed = mock.patch("irscope.compilers.inductor.watch._take_nodes", lambda nodes, seen: nodes.no_such_thing)
        with changed, pytest.raises(CaptureError, match=said) as error:
            irs.decisions(function, torch.randn(4))
    assert torch.__version__ in str(error.value) and "2.13" in error.value.hint


def test_a_name_that_torch_changed_is_reported_as_a_change_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch._inductor.scheduler as scheduler

    monkeypatch.setattr(scheduler.WhyNoFuse, "__init__", lambda reason, one, other: None)
    monkeypatch.setattr(scheduler.WhyNoFuse, "__call__", lambda reason, said, *given: None)
    with pytest.raises(CaptureError, match=f"torch {re.escape(torch.__version__)} does not let irscope see.*name1"):
        irs.decisions(torch.compile(lambda x: (x.sum(0), (x + 1).softmax(-1))), torch.randn(64, 32))


def test_what_vanished_says_into_what_as_far_as_inductor_s_own_graphs_do() -> None:
    def rewritten(x: Any, w: Any) -> Any:
        twice = torch.ones(8, 8) * 2
        turned = x.to(torch.float64).to(torch.float32)
        return x @ w + twice, turned, (torch.relu(x) + 0).clone() * 3, x.reshape(4, 16).t() + 1

    d = ask(rewritten, torch.randn(8, 8), torch.randn(8, 8))
    found = {row.name: (row.became, row.because) for row in d.program.vanished().itertuples()}
    assert found["mm"] == ("addmm %addmm_default", "rewritten: %addmm_default computes it, with what read it")
    assert found["mul"] == ("", "it depends on no input: its result is a constant")
    assert found["convert_element_type_1"][0].startswith("to %convert_element_type")
    assert found["clone"][1].startswith("what read it reads %")
    gone = {change.name: change for change in d.program.changes if change.at}
    assert all("a view" in change.because and not any(d.program.kernels_of(node) for node in change.at) for change in gone.values())


def test_memory_is_what_inductor_s_own_code_allocates() -> None:
    """Judged by torch's own count of the bytes of what the code makes."""
    d = ask(Block().eval(), torch.randn(4, 8))
    memory = d.program.memory
    assert memory is not None and memory.unknown == 0
    assert list(memory.moments) == [kernel.function or kernel.name for kernel in d.kernels]
    of = {each.name: each for each in memory.allocations}
    assert of["buf3"].bytes == 4 * 8 * 4 and [node.op for node in of["buf4"].nodes] == ["aten::addmm"]
    assert memory.peak == max(memory.curve) == 4 * 16 * 4 + 4 * 8 * 4 and "in the memory of buf4" in {each.how for each in of.values()}


def test_two_compilers_over_one_model_are_matched_by_its_lines() -> None:
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    inductor, ort = irs.decisions(Block().eval(), torch.randn(4, 8), compiler=("inductor", "onnxruntime"))
    match = Correspondence(inductor.graph, ort.graph)
    assert not match.left_out and not match.left_out_there and "structure" not in str(match)
    gelu = match.images[inductor.graph.node("erf")]
    assert [node.op for node in gelu] == ["aten::gelu"]
