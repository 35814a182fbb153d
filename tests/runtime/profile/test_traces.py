"""Traces for other tools, and those of other tools: read by torch's own profiler's format, and by json alone."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.errors import ArgumentError, LoadError
from irscope.runtime.profile.profile_result import chrome_trace

torch = pytest.importorskip("torch")


class Model(torch.nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)

    def forward(self, x: Any) -> Any:
        h = torch.relu(self.first(x))
        return torch.softmax(self.second(h), -1) + h


X = torch.ones(32, 64)


@pytest.fixture(scope="module")
def profile() -> Any:
    return irs.profile(Model(), X, seconds=0.05)


def test_a_chrome_trace_has_every_node_in_order_and_the_memory(profile: Any, tmp_path: Path) -> None:
    told = json.loads(profile.save(tmp_path / "x.json").read_text())
    for process, (label, way) in enumerate(profile.ways.items(), 1):
        events = [e for e in told["traceEvents"] if e["pid"] == process]
        ops = [e for e in events if e["ph"] == "X" and e["cat"] != "call"]
        assert [e["name"] for e in ops] == [node.op for node in way.nodes], label
        starts, ends = [e["ts"] for e in ops], [e["ts"] + e["dur"] for e in ops]
        assert all(start >= end - 1e-3 for start, end in zip(starts[1:], ends, strict=False))
        assert max(e["args"]["bytes"] for e in events if e["ph"] == "C") <= way.counter.peak_bytes
        assert all(e["dur"] >= 0 for e in ops)


def test_a_speedscope_file_keeps_its_schema(profile: Any, tmp_path: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema_file = Path(__file__).parents[3] / "widgets/node_modules/speedscope/dist/release/file-format-schema.json"
    told = profile.to_speedscope(tmp_path / "x.speedscope.json")
    assert json.loads((tmp_path / "x.speedscope.json").read_text()) == told
    if schema_file.exists():
        schema = json.loads(schema_file.read_text())
        jsonschema.validate(told, schema)
    for each in told["profiles"]:
        depth, last = [], 0.0
        for event in each["events"]:
            assert event["at"] >= last
            last = event["at"]
            if event["type"] == "O":
                depth.append(event["frame"])
            else:
                assert depth.pop() == event["frame"]
        assert not depth and last <= each["endValue"]


def torch_trace(path: Path, model: Any, *args: Any, runs: int = 2, **options: Any) -> Path:
    from torch.profiler import ProfilerActivity, profile

    with torch.no_grad(), profile(activities=[ProfilerActivity.CPU], **options) as measured:
        for _ in range(runs):
            model(*args)
    measured.export_chrome_trace(str(path))
    return path


@pytest.mark.parametrize("options", [{}, {"with_stack": True}, {"with_modules": True}], ids=["plain", "stacks", "modules"])
def test_a_trace_of_torchs_profiler_lies_over_the_graph(options: Any, tmp_path: Path) -> None:
    model = Model()
    reading = irs.profile.read(torch_trace(tmp_path / "t.json", model, X, **options), irs.load(model, X))
    table = reading.table()
    assert table["op"].tolist() == ["aten::linear", "aten::relu", "aten::linear", "aten::softmax", "aten::add"]
    assert table["calls"].tolist() == [1] * 5 and reading.way().runs == 2 and (table["ms"] > 0).all()
    assert table["module"].tolist() == ["first", "", "second", "", ""]
    assert not reading.unmatched


def test_a_trace_is_a_profile_like_any_other(tmp_path: Path) -> None:
    model = Model()
    graph = irs.load(model, X)
    reading, measured = irs.profile.read(torch_trace(tmp_path / "t.json", model, X, runs=9), graph), irs.profile(graph, X, seconds=0.2)
    same = ["node", "op", "type", "line", "module", "calls", "launches", "MFLOP"]
    assert reading.table()[same].equals(measured.table(way="op by op")[same])
    moved = measured.table(way="op by op")["MB"]
    assert reading.table()["MB"].tolist() == pytest.approx(moved.tolist()), "what the types declare is what moves"
    for by in ("op", "module", "line", "class", "group"):
        assert reading.table(by).columns.tolist() == measured.table(by).columns.tolist()
    assert repr(reading) and reading.remarks is not None and len(reading.top(3)) == 3 and "trace" in reading.verdict()
    assert reading.parts is not None and reading.diff(measured, way="op by op").classes
    assert json.loads(reading.save(tmp_path / "x.json").read_text())["traceEvents"] and reading.to_speedscope()["profiles"]
    explorer = irs.explore(graph)
    explorer.profile = reading
    assert explorer.measured and irs.explore(reading).profile is reading
    assert "of ops in a run of the trace" in irs.write_report(reading, output=tmp_path / "x.html").read_text()
    with pytest.raises(ArgumentError, match="a trace has no arguments"):
        reading.try_(0)


def test_a_loop_of_a_trace_counts_its_calls(tmp_path: Path) -> None:
    script = torch.jit.script(_three_times)
    reading = irs.profile.read({"traceEvents": [
        {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": 10.0 * k, "dur": 1.0}
        for k, name in enumerate(["aten::relu", "aten::tanh", "aten::tanh", "aten::tanh"] * 2)
    ]}, irs.load(script, X))  # fmt: skip
    table = reading.table().set_index("op")
    assert table.loc["aten::tanh", "calls"] == 3 and table.loc["aten::tanh", "ms"] == pytest.approx(0.003)


def _three_times(x: torch.Tensor) -> torch.Tensor:
    x = torch.relu(x)
    for _ in range(3):
        x = torch.tanh(x)
    return x


def test_a_list_of_views_moves_nothing() -> None:
    def rows(x: torch.Tensor) -> torch.Tensor:
        first, second = x.unbind(0)
        return torch.relu(first) + second

    reading = irs.profile.read({"traceEvents": [_event("aten::unbind"), _event(ts=5.0)]}, irs.load(rows, torch.rand(2, 3)))
    table = reading.table().set_index("op")
    assert table.loc["aten::unbind", "calls"] == table.loc["aten::relu", "calls"] == 1


def _event(name: str = "aten::relu", **others: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": 1.0, "dur": 1.0, **others}


@pytest.mark.parametrize("event", [
    _event(pid=[1]), _event(tid={"a": 1}), _event(ts=10**400), _event(dur=10**400), _event(ts=float("nan")), _event(ts="3"),
    _event(args={"External id": []}), _event(cat="kernel", args={"External id": {}}), _event(dur=-1.0), _event(name=None),
    _event(f"f({'1' * 5000}): g", cat="python_function"), _event(cat=["cpu_op"]), _event(ph={}), _event(args=[1]), {}, {"ph": "X"},
])  # fmt: skip
def test_a_hostile_event_is_left_out_or_harmless(event: Any) -> None:
    reading = irs.profile.read({"traceEvents": [event, _event(ts=5.0)]}, irs.load(Model(), X))
    assert repr(reading) and reading.table() is not None


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "t.json")
    with pytest.raises(LoadError, match="regular file"):
        irs.profile.read(tmp_path / "t.json", irs.load(Model(), X))


def test_deep_stacks_are_read_in_linear_time() -> None:
    """Frames nested 20,000 deep around 2,000 ops: 40 million steps, one by one, would take seconds."""
    frames = [_event("f(1): g", cat="python_function", ts=k, dur=1e6 - 2 * k) for k in range(20_000)]
    ops = [_event(ts=3e4 + k, dur=0.5) for k in range(2_000)]
    steps = 0

    def count(_frame: Any, event: str, _arg: Any) -> Any:
        nonlocal steps
        steps += event == "line"
        return count

    from irscope.runtime.profile.trace_reading import map_trace

    graph = irs.load(Model(), X)
    sys.settrace(count)
    try:
        times, _, _ = map_trace({"traceEvents": frames + ops}, graph)
    finally:
        sys.settrace(None)
    assert sum(map(len, times.values())) == 2_000 and steps < 100 * 22_000


def test_ops_of_one_name_get_their_own_times(tmp_path: Path) -> None:
    events = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::linear", "pid": 1, "tid": 1, "ts": 10.0 * i, "dur": 1.0 + i % 2} for i in range(6)
    ]
    inner = {"ph": "X", "cat": "cpu_op", "name": "aten::addmm", "pid": 1, "tid": 1, "ts": 0.1, "dur": 0.5}
    reading = irs.profile.read({"traceEvents": [*events, inner]}, irs.load(Model(), X))
    assert reading.table()["ms"].tolist() == pytest.approx([0.001, 0.002])
    assert "aten::addmm" not in dict(reading.unmatched), "it is inside of another op"


def test_events_that_the_graph_does_not_have_are_reported(tmp_path: Path) -> None:
    path = torch_trace(tmp_path / "t.json", lambda x: torch.sort(x)[0].cumsum(0), X)
    reading = irs.profile.read(path, irs.load(Model(), X))
    assert dict(reading.unmatched)["aten::sort"] == 2 and "aten::sort" in repr(reading)


@pytest.mark.parametrize("text", [
    "", "[1, 2]", '{"traceEvents": 3}', "\x00", "[" * 100_000, '{"traceEvents": ' + "[" * 100_000, '{"traceEvents": [' + "1" * 5000 + "]}",
])  # fmt: skip
def test_what_is_not_a_trace_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(text)
    with pytest.raises(LoadError, match="trace"):
        irs.profile.read(path, irs.load(Model(), X))


def test_two_profiles_are_matched_by_what_is_computed_not_by_names() -> None:
    def first(x: Any) -> Any:
        a = torch.exp(x)
        return a @ x

    def second(x: Any) -> Any:
        before = torch.sort(x, -1)[0]
        other = torch.exp(x)
        return other @ x + before

    p, q = (irs.profile(f, torch.ones(64, 64), seconds=0.05) for f in (first, second))
    difference = p.diff(q, way="op by op")
    verdicts = {row["op"]: row["verdict"] for _, row in difference.table().iterrows()}
    assert verdicts["aten::sort"] == "new" and verdicts["aten::exp"] not in ("new", "gone")
    assert verdicts["aten::matmul"] not in ("new", "gone")
    assert "new" in repr(difference)


def test_nothing_is_slower_than_itself_by_more_than_the_spread() -> None:
    p = irs.profile(lambda x: torch.exp(x) @ x, torch.ones(64, 64), seconds=0.05)
    table = p.diff(p).table()
    assert not set(table["verdict"]) & {"faster", "slower"} and np.allclose(table["change ms"], 0.0)


def test_the_same_op_on_other_sizes_and_strides_is_matched() -> None:
    p = irs.profile(lambda x: torch.exp(x) @ x, torch.ones(64, 64), seconds=0.05)
    q = irs.profile(lambda x: torch.exp(x) @ x, torch.ones(32, 32), seconds=0.05)
    assert not set(p.diff(q, way="op by op").table()["verdict"]) & {"new", "gone"}


def test_threads_of_a_kernel_have_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over how many it is shared out, the plan says; so does the trace, and the run that a page draws."""
    from irscope.report.panes import profile_view
    from irscope.runtime.cpu import CpuDevice

    if not CpuDevice().availability():
        pytest.skip("there is no compiler for the processor")
    monkeypatch.setattr(CpuDevice, "threads", 3)
    p = irs.profile(lambda x: torch.tanh(x) * 2.0 + x, torch.ones(2048, 2048), seconds=2, threads=3)
    assert max(step.threads for step in p.ways["fused"].timeline()) == 3
    names = [event["args"]["name"] for event in chrome_trace(p)["traceEvents"] if event["name"] == "thread_name"]
    assert "thread 3 of kernels" in names and "thread 4 of kernels" not in names
    fused = profile_view(p)["ways"][-1]
    assert {"thread 2", "thread 3"} <= {span["lane"] for span in fused["spans"]}
    assert "up to 3 threads" in p.caption()
