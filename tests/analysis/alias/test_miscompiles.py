"""The programs in `tests/cases/alias`: torch.jit.script runs them wrongly because of its alias db, and we run them right.

A new torch that runs one of them right fails here: its case then says something of the past.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, List  # noqa: UP035  # TorchScript wants typing's names

import pytest

torch = pytest.importorskip("torch")

import irscope as irs  # noqa: E402
from tests.analysis.alias.judge import same_in_torch  # noqa: E402
from tests.case_answers import ask, questions  # noqa: E402
from tests.conftest import Sections, read_sections  # noqa: E402

FILES = sorted((Path(__file__).parents[2] / "cases/alias").glob("*.ir"))
CASES = [path for path in FILES if "\n--- python\n" in path.read_text(encoding="utf-8")]
RUNS = 3
"""TorchScript looks on for two runs before it optimizes."""

Program = Callable[..., Any]


@pytest.fixture(params=CASES, ids=lambda path: path.stem)
def case(request: pytest.FixtureRequest) -> Sections:
    return read_sections(request.param.read_text(encoding="utf-8"))


def flat(result: Any) -> list[Any]:
    if isinstance(result, list | tuple):
        return [part for item in result for part in flat(item)]
    return [result.tolist() if isinstance(result, torch.Tensor) else result]


def outcome(program: Program, case: Sections, runs: int = 1) -> list[Any]:
    """The last of some runs, each on new arguments."""
    results = [flat(program(*eval(case["arguments"], {"torch": torch}))) for _ in range(runs)]
    return results[-1]


def eager(case: Sections) -> list[Any]:
    names: dict[str, Any] = {"torch": torch, "Tensor": torch.Tensor, "List": List, "Any": Any}  # noqa: UP006
    exec(case["python"], names)
    return outcome(names["f"], case)


def test_there_are_cases_of_every_kind() -> None:
    assert len(CASES) >= 16


def test_torch_runs_it_wrongly(case: Sections) -> None:
    scripted = torch.jit.CompilationUnit(case["python"] + "\n").f
    assert outcome(scripted, case, RUNS) != eager(case)


def test_torch_runs_the_graph_wrongly(case: Sections) -> None:
    graph = torch._C.parse_ir(case["input"])
    assert outcome(torch._C._create_function_from_graph("f", graph), case, RUNS) != eager(case)


def test_torchs_db_denies_what_happens(case: Sections) -> None:
    graph, torch_graph = irs.parse(case["input"]), torch._C.parse_ir(case["input"])
    db, torch_db = irs.AliasDb(graph), torch_graph.alias_db()
    other = same_in_torch(graph, torch_graph)
    answers = [
        (bool(ask(db, question, names)), theirs_to(question)(torch_db, *(other[graph.value(name)] for name in names)))
        for question, names in questions(case["questions"])
        if not question.startswith("can_move")
    ]
    assert (True, False) in answers


def theirs_to(question: str) -> Program:
    return {"may_alias": lambda db, a, b: db.may_contain_alias(a, b), "has_writers": lambda db, a: db.has_writers(a)}[question]


def test_we_run_it_right(case: Sections) -> None:
    graph = irs.parse(case["input"])
    assert outcome(irs.compile(irs.fuse(graph)), case, RUNS) == eager(case)


def test_we_let_no_read_cross_the_write(case: Sections) -> None:
    db = irs.AliasDb(irs.parse(case["input"]))
    moves = [names for question, names in questions(case["questions"]) if question == "can_move_before"]
    assert moves
    assert not any(db.can_move_before(*names) for names in moves)
