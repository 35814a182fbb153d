"""What Dynamo says in this process: breaks, guards, recompiles; and that the user's compiled code stays as it was."""

import functools
import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from irscope.compilers.inductor.dynamo import Compile, breaks_and_compiles, guard_words, listening, original_of, read_break, with_own_code
from irscope.compilers.record import Break

torch = pytest.importorskip("torch")
SCALE = 3


def _branches(x: torch.Tensor, flag: bool = True) -> torch.Tensor:
    y = torch.relu(x) * SCALE
    if flag:
        y = y + 1
    if y.sum() > 0:
        y = y * 2
    torch._dynamo.graph_break()
    return y.cos()


class _Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x).relu()


def _line(text: str, function: Callable[..., Any] = _branches) -> int:
    import inspect

    lines, start = inspect.getsourcelines(function)
    return start + next(at for at, line in enumerate(lines) if text in line)


def _observed(function: Any, *calls: Sequence[Any]) -> tuple[tuple[Break, ...], tuple[Compile, ...]]:
    def backend(module: Any, examples: Any) -> Any:
        return module.forward

    seen = torch.compile(with_own_code(function), backend=backend)
    with listening(torch) as records, torch.no_grad():
        for args in calls:
            seen(*args)
    return breaks_and_compiles(records)


def _entries(function: Any) -> int:
    return len(torch._dynamo.eval_frame._debug_get_cache_entry_list(function.__code__))


def test_breaks_have_their_reason_line_and_hints_and_are_merged() -> None:
    breaks, compiles = _observed(_branches, (torch.ones(2, 4),), (torch.ones(3, 4),))
    places = {each.frames[-1][1]: each for each in breaks}
    assert set(places) == {_line("if y.sum()"), _line("graph_break()")}
    branch = places[_line("if y.sum()")]
    assert branch.times >= 2 and branch.frames[-1][2] == "_branches" and branch.frames[-1][0] == __file__
    assert "ata-dependent" in branch.reason and not any("irscope/compilers" in file for file, _, _ in branch.frames)
    first, again = (each for each in compiles if each.function == "_branches")
    assert first.recompiled_because == () and again.recompiled_because == ("tensor 'x' size mismatch at index 0. expected 2, actual 3",)
    assert {each.function for each in compiles if each.id.endswith("/0")} >= {f"_branches from line {_line('if y.sum()')}"}


def test_guards_are_in_words_about_the_users_values() -> None:
    _, compiles = _observed(_branches, (torch.ones(2, 4),), (torch.ones(2, 4), False))
    first, other = (each for each in compiles if each.function == "_branches")
    words = first.guards
    assert "x is a float32 tensor of (2, 4), strides (4, 1), on the CPU, without gradient" in words
    assert "flag == True" in words and "SCALE == 3" in words
    assert not [each for each in words if "_dynamo" in each or "torch." in each]
    assert other.recompiled_because == ("flag == True no longer holds",)
    assert words.count("flag == True") == 1


def test_the_users_compiled_code_stays() -> None:
    model = _Model()
    compiled, function = torch.compile(model, backend="eager"), torch.compile(_branches, backend="eager")
    compiled(torch.ones(2, 4)), function(torch.ones(2, 4))
    before = _entries(_Model.forward), _entries(_branches)
    assert before[0] > 0
    for each in (compiled, function):
        _observed(original_of(each), (torch.ones(5, 4),), (torch.ones(6, 4),))
    assert (_entries(_Model.forward), _entries(_branches)) == before
    assert not [handler for handler in logging.getLogger("torch.__trace").handlers if type(handler).__name__ == "Listener"]


def test_sizes_that_were_seen_while_observing_are_forgotten() -> None:

    def doubled(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    first, again = (_observed(doubled, (torch.ones(rows, 4),))[1][0] for rows in (11, 12))
    assert [each.guards[0].partition(" tensor of ")[2][:7] for each in (first, again)] == ["(11, 4)", "(12, 4)"]


def test_a_module_is_the_same_with_its_own_code() -> None:
    model = _Model()
    other = with_own_code(model)
    assert other.fc is model.fc and other.forward.__func__.__code__ is not _Model.forward.__code__
    model.forward = lambda x: x + 1  # type: ignore[method-assign]
    assert float(with_own_code(model)(torch.zeros(()))) == 1
    partial = functools.partial(_branches, flag=False)
    assert with_own_code(partial) is partial and with_own_code(torch.relu) is torch.relu
    assert with_own_code(_Model().forward).__func__.__code__ is not _Model.forward.__code__


def test_a_users_own_trace_log_hears_nothing_of_it() -> None:
    heard: list[Any] = []

    class Users(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard.append(getattr(record, "metadata", {}))

    def doubled(x: torch.Tensor) -> torch.Tensor:
        torch._dynamo.graph_break()
        return x * 2

    handler, log = Users(logging.DEBUG), logging.getLogger("torch.__trace")
    log.addHandler(handler)
    try:
        breaks, _ = _observed(doubled, (torch.ones(7, 4),))
        assert breaks and not [each for each in heard if "str" not in each and "dump_file" not in each]
        torch.compile(with_own_code(doubled), backend="eager")(torch.ones(8, 4))
        assert [each for each in heard if "compilation_metrics" in each]
    finally:
        log.removeHandler(handler)


@pytest.mark.parametrize(("text", "reason", "place"), [
    (
        'Graph break in user code at m.py:3\nReason: Data-dependent jump\nUser code traceback:\n  File "m.py", line 3, in f\n',
        "Data-dependent jump", 3,
    ),
    (
        "Graph break in user code at m.py:3\nGraph Break Reason: Encountered graph break when attempting to trace CALL: a call:\n\n"
        "Failed to trace it\n  Explanation: it\n    prints.\n\nUser code traceback:\n"
        '  File "/x/torch/_dynamo/y.py", line 1, in z\n  File "m.py", line 4, '
        "in torch_dynamo_resume_in_f_at_3\n    g()\n\nTraceback (most recent call last):\nValueError: no\n", "Failed to trace it", 4,
    ),
    (
        "Graph break: torch.compile cannot properly resume from this graph break, which results in a skip.\n"
        'The graph break occurred in the following user code:\n  File "m.py", line 5, in f\n    g()\n\n'
        'Traceback (most recent call last):\n  File "y.py", line 1, in z\n    '
        "raise\ntorch._dynamo.exc.Unsupported: Call of a C function\n  Explanation: no\n", "Call of a C function", 5,
    ),
    (
        "Graph break in user code at /x/torch/_dynamo/polyfills/y.py:1\nGraph Break Reason: Failed to handle graph break gracefully. "
        "Skipping the function and falling back to eager. Graph break encountered:\n\nUnsupported method call\n\nUser code traceback:\n"
        '  File "m.py", line 6, in f\n    g()\n  File "/x/torch/_dynamo/polyfills/y.py", line 1, in z\n', "Unsupported method call", 6,
    ),
    ("", "torch does not say why", 0),
])  # fmt: skip
def test_messages_of_all_kinds_are_read(text: str, reason: str, place: int) -> None:
    made = read_break(text)
    assert made.reason == reason
    assert [frame[1] for frame in made.frames[-1:]] == [place][: bool(place)] and all(frame[2] == "f" for frame in made.frames)


def test_checks_without_words_are_shown_as_they_are() -> None:
    assert guard_words("L['self']._modules['a']._parameters['w'].size()[0] % 8 == 0") == "self.a.w.size()[0] % 8 == 0"
    assert guard_words("check_tensor(L['x'], odd") == "check_tensor(x, odd"
