"""Logs of TORCH_TRACE: two that torch 2.13 and 2.6 wrote for one job, damaged ones, and ones made to harm.

The job, of which the recorded logs keep the records that are read (paths and process ids are replaced, includes left out):

    def f(x, w):                                                    # line 4
        y = torch.softmax(torch.nn.functional.gelu(x @ w), -1)
        if y.sum() > 0:
            y = y + 1
        return (y.cos() + x[:, :1]).relu()

    g = torch.compile(f)   # called with 32 rows, then with 48
"""

import hashlib
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.errors import ArgumentError, IrscopeError, LoadError

LOGS = Path(__file__).parent / "logs"
BOTH = pytest.mark.parametrize("version", ["2.13", "2.6"])


def _record(kind: dict[str, object], payload: str | None = None, frame: int = 0) -> str:
    fields = {**kind, "frame_id": frame, "frame_compile_id": 0, "attempt": 0}
    if payload is None:
        return f"V1126 07:28:11.000000 1 torch/x.py:1] {json.dumps(fields)}\n"
    fields["has_payload"] = hashlib.md5(payload.encode(), usedforsecurity=False).hexdigest()
    lines = "".join(f"\t{line}\n" for line in payload.split("\n"))
    return f"V1126 07:28:11.000000 1 torch/x.py:1] {json.dumps(fields)}\n{lines}"


def _graph(body: str, inputs: str = 'x: "f32[4][1]cpu"') -> str:
    return f"class <lambda>(torch.nn.Module):\n    def forward(self, {inputs}):\n{body}\n"


RELU = _graph('        relu: "f32[4][1]cpu" = torch.ops.aten.relu.default(x);  x = None\n        return (relu,)')
CODE = "cpp_fused_relu_0 = async_compile.cpp_pybinding([], '''void kernel() {}''')\ndef call(args):\n    cpp_fused_relu_0(arg0_1, buf0)\n"


def _log(folder: Path, *records: str, name: str = "dedicated_log_torch_trace_a.log") -> Path:
    path = folder / name
    path.write_text("".join(records), encoding="utf-8")
    return path


@BOTH
def test_programs_kernels_and_breaks_of_a_job(version: str) -> None:
    d = irs.decisions(LOGS / f"torch-{version}.log")
    assert d.compiler == "inductor"
    assert [program.name for program in d.programs] == ["[0/0] inference", "[1/0] inference", "[0/1] inference", "[1/1] inference"]
    first = d.programs[0]
    assert [(kernel.name, kernel.is_library) for kernel in first.kernels] == [
        ("extern_kernels.mm", True), ("cpp_fused__softmax_gelu_gt_sum_0", False),
    ]  # fmt: skip
    assert [node.op for node in first.kernels[0].nodes] == ["aten::mm"]
    inside = {node for node in first.graph.nodes() if node.op != "prim::Constant"} - set(first.kernels[0].nodes)
    assert set(first.kernels[1].nodes) == inside  # everything but the product is in one kernel
    source = first.kernels[1].source
    assert source is not None and source.language == "c++" and "kernel(" in source.text
    assert [(each.frames[-1][:2], each.times) for each in d.breaks] == [(("job.py", 6), 2)]
    assert first.recompiled_because == "" and first.seconds is not None
    assert d.programs[2].recompiled_because == "tensor 'x' size mismatch at index 0. expected 32, actual 48"
    assert any("x is a float32 tensor of (32, 64)" in guard for guard in first.guards)
    lines = {node.op: node.location.line for node in first.graph.nodes() if node.location is not None}
    assert lines["aten::mm"] == 5 and lines["aten::gt"] == 6


@BOTH
def test_programs_of_a_log_have_the_results_of_the_job(version: str, torch: Any) -> None:
    first, rest = irs.decisions(LOGS / f"torch-{version}.log").programs[:2]
    x, w = np.random.default_rng(0).standard_normal((2, 64, 64), dtype=np.float32)
    x = x[:32]
    y = torch.softmax(torch.nn.functional.gelu(torch.tensor(x) @ torch.tensor(w)), -1)
    found = {np.asarray(each).ndim: np.asarray(each) for each in irs.compile(first.fusion)(x, w)}
    np.testing.assert_allclose(found[2], y.numpy(), rtol=1e-5, atol=1e-6)
    assert bool(found[0]) == bool(y.sum() > 0)
    last = irs.compile(rest.fusion)(y.numpy(), x)
    np.testing.assert_allclose(np.asarray(last), ((y + 1).cos() + torch.tensor(x)[:, :1]).relu().numpy(), rtol=1e-5, atol=1e-6)


def test_a_log_is_read_without_torch() -> None:
    code = f"import irscope as irs, sys; d = irs.decisions({str(LOGS)!r}); print(len(d.programs), 'torch' in sys.modules)"
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert made.stdout == "8 False\n"


def test_a_log_that_went_through_windows_is_the_same(tmp_path: Path) -> None:
    log = LOGS / "torch-2.13.log"
    (path := tmp_path / log.name).write_bytes(log.read_bytes().replace(b"\n", b"\r\n"))
    assert repr(irs.decisions(path)) == repr(irs.decisions(log)) and irs.decisions(path).table().equals(irs.decisions(log).table())


def test_each_process_of_a_folder_has_its_own_programs(tmp_path: Path) -> None:
    for rank in (0, 1):
        graph = _record({"inductor_post_grad_graph": {}, "rank": rank}, RELU)
        _log(tmp_path, graph, _record({"inductor_output_code": {}}, CODE), name=f"dedicated_log_torch_trace_rank_{rank}_x.log")
    d = irs.decisions(tmp_path)
    assert [program.name for program in d.programs] == ["rank 0 [0/0]", "rank 1 [0/0]"]
    assert [len(program.kernels) for program in d.programs] == [1, 1]


def test_forward_and_backward_are_two_programs(tmp_path: Path) -> None:
    announced = [_record({f"aot_{each}_graph": {}}, "graph") for each in ("forward", "backward")]
    compiled = [_record({"artifact": {"name": "inductor_post_grad_graph"}}, RELU), _record({"inductor_output_code": {}}, CODE)]
    d = irs.decisions(_log(tmp_path, *announced, *compiled, *compiled))
    assert [program.name for program in d.programs] == ["[0/0] forward", "[0/0] backward"]


def test_a_triton_kernel_is_what_its_graph_fragment_says(tmp_path: Path) -> None:
    """Its comment also lists the product: it went into what the kernel reads, and is not computed again."""
    graph = _graph(
        '        mm: "f32[4, 4][4, 1]cuda:0" = torch.ops.aten.mm.default(x, x)\n'
        '        relu: "f32[4, 4][4, 1]cuda:0" = torch.ops.aten.relu.default(mm)\n'
        '        exp: "f32[4, 4][4, 1]cuda:0" = torch.ops.aten.exp.default(relu)\n        return (exp,)',
        'x: "f32[4, 4][4, 1]cuda:0"',
    )
    code = (
        "# Source node to ATen node mapping:\n#   y => relu\n# Graph fragment:\n"
        '#   %mm : Tensor "f32[4, 4][4, 1]cuda:0" = PlaceHolder[target=mm]\n'
        "#   %mm : [num_users=1] = call_function[target=torch.ops.aten.mm.default](args = (%x, %x), kwargs = {})\n"
        "#   %relu : [num_users=1] = call_function[target=torch.ops.aten.relu.default](args = (%mm,), kwargs = {})\n"
        "#   %exp : [num_users=1] = call_function[target=torch.ops.aten.exp.default](args = (%relu,), kwargs = {})\n"
        "#   return %exp\n"
        "triton_poi_fused_exp_relu_0 = async_compile.triton("
        "'triton_poi_fused_exp_relu_0', '''@triton.jit\ndef k(): pass\n''', device_str='cuda')\n"
        "class Runner:\n    def call(self, args):\n        with torch.cuda._DeviceGuard(0):\n"
        "            extern_kernels.mm(x, x, out=buf0)\n            triton_poi_fused_exp_relu_0.run(buf0, buf1, 16, stream=stream0)\n"
    )
    d = irs.decisions(_log(tmp_path, _record({"inductor_post_grad_graph": {}}, graph), _record({"inductor_output_code": {}}, code)))
    library, kernel = d.kernels
    assert ([node.op for node in library.nodes], library.is_library) == (["aten::mm"], True)
    assert ([node.op for node in kernel.nodes], kernel.certainty) == (["aten::relu", "aten::exp"], "exact")
    assert kernel.source is not None and kernel.source.language == "triton" and not kernel.recomputed


def test_kernels_of_which_the_log_says_nothing_have_no_nodes_and_a_note(tmp_path: Path) -> None:
    graph = _graph(
        '        a: "f32[4]" = torch.ops.aten.relu.default(x)\n        b: "f32[4]" = torch.ops.aten.exp.default(a)\n        return (b,)'
    )
    code = (
        "".join(f"k{i} = async_compile.cpp_pybinding([], 'void kernel() {{}}')\n" for i in (0, 1))
        + "def call(args):\n    k0(a)\n    k1(b)\n"
    )
    d = irs.decisions(_log(tmp_path, _record({"inductor_post_grad_graph": {}}, graph), _record({"inductor_output_code": {}}, code)))
    assert [kernel.nodes for kernel in d.kernels] == [(), ()]
    assert "the log does not say which nodes k0, k1 compute: INDUCTOR_PROVENANCE=1" in d.program.notes[0]


def _mapped(folder: Path, body: str, calls: dict[str, list[str]], libraries: tuple[str, ...] = ()) -> irs.Decisions:
    """A program whose kernels are called in this order, with the nodes that a provenance mapping lists for each."""
    graph = _record({"inductor_post_grad_graph": {}}, _graph(body))
    code = "".join(f"{name} = async_compile.cpp_pybinding([], 'void kernel() {{}}')\n" for name in calls if name not in libraries)
    code += "def call(args):\n"
    for handle, name in enumerate(calls):
        code += f"    # [Provenance debug handles] {name}:{handle}\n    {name}(a)\n"
    mapping = json.dumps({"cppCodeToPost": {f"{name}:{handle}": nodes for handle, (name, nodes) in enumerate(calls.items())}})
    artifact = {"artifact": {"name": "inductor_provenance_tracking_node_mappings"}}
    return irs.decisions(_log(folder, graph, _record({"inductor_output_code": {}}, code), _record(artifact, mapping)))


def _chain(*ops: tuple[str, str, str], returned: str) -> str:
    lines = [f'        {name}: "f32[4][1]cpu" = torch.ops.aten.{op}({operands})\n' for name, op, operands in ops]
    return "".join(lines) + f"        return ({returned},)"


def _inside(d: irs.Decisions) -> list[list[str]]:
    return [[node.op.partition("::")[2] for node in kernel.nodes] for kernel in d.kernels]


def test_a_node_is_in_no_kernel_that_runs_before_what_it_needs(tmp_path: Path) -> None:
    """A damaged mapping may say what no order of kernels does: each of two would need the other."""
    body = _chain(("a", "relu.default", "x"), ("b", "exp.default", "a"), ("c", "tanh.default", "b"), returned="c")
    d = _mapped(tmp_path, body, {"k0": ["a", "c"], "k1": ["b"]})
    assert _inside(d) == [["relu"], ["exp"]]
    assert d.program.notes == ("%c is shown in no kernel: those in which the log lists it run before what it needs",)


def test_a_node_in_several_lists_is_in_the_first_kernel_and_in_a_library_call_of_its_op(tmp_path: Path) -> None:
    body = _chain(
        ("g", "relu.default", "x"), ("v", "view.default", "g, [4]"), ("m", "dot.default", "v, v"), ("e", "exp.default", "g"),
        ("s", "mul.Tensor", "e, m"), returned="s",
    )  # fmt: skip
    lists = {"k0": ["g"], "extern_kernels.dot": ["m", "v", "g"], "layout": ["m"], "k1": ["g", "v", "e", "s", "m"]}
    d = _mapped(tmp_path, body, lists, ("extern_kernels.dot",))
    assert _inside(d) == [["relu"], ["dot"], [], ["exp", "mul"]] and [node.op for node in d.kernels[2].part_of] == ["aten::dot"]
    assert not [kernel for kernel in d.kernels if kernel.recomputed]
    assert d.program.notes[0].startswith("the log lists %m, %g in other kernels, too")


def test_what_lies_between_the_nodes_of_a_kernel_is_in_it(tmp_path: Path) -> None:
    body = _chain(
        ("a", "relu.default", "x"), ("v", "view.default", "a, [4]"), ("b", "exp.default", "v"), ("c", "tanh.default", "v"),
        ("d", "add.Tensor", "b, c"), returned="d",
    )  # fmt: skip
    d = _mapped(tmp_path, body, {"k0": ["a", "b"], "k1": ["c", "d"]})
    assert _inside(d) == [["relu", "view", "exp"], ["tanh", "add"]] and not d.program.notes


HOSTILE = {
    "code": _graph("        __import__('os').system('touch ran')\n        return (x,)"),
    "default": _graph("        return (x,)", "x=__import__('os').system('touch ran')"),
    "call": _graph("        a = torch.ops.aten.relu.default(__import__('os').system('touch ran'))\n        return (a,)"),
    "deep": _graph(f"        a = torch.ops.aten.relu.default({'-' * 5000}1)\n        return (a,)"),
    "undefined": _graph("        a = torch.ops.aten.relu.default(y)\n        return (a,)"),
    "loop": _graph("        while True: pass\n        return (x,)"),
    "power": _graph("        a = torch.ops.aten.add.Tensor(x, 9 ** 9 ** 9 ** 9)\n        return (a,)"),
    "missing argument": _graph("        a = torch.ops.aten.mm.default(x)\n        return (a,)"),
    "item": _graph("        a = (x, x)[99999999999999999999]\n        return (a,)"),
    "several results": _graph("        a = torch.ops.my.op.default(x)\n        b = a[999999999]\n        return (b,)"),
    "no graph": "print('hello')",
    "null": _graph("        return (x,\0)"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_graph_is_an_error_and_runs_nothing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    log = _log(tmp_path, _record({"inductor_post_grad_graph": {}}, HOSTILE[name]), _record({"inductor_output_code": {}}, CODE))
    with pytest.raises(LoadError, match=r"the graph of .* cannot be read"):
        irs.decisions(log)
    assert not (tmp_path / "ran").exists()


def test_hostile_output_code_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = CODE + "    extern_kernels.relu(open('ran', 'w'))\nopen('ran', 'w')\n"
    d = irs.decisions(_log(tmp_path, _record({"inductor_post_grad_graph": {}}, RELU), _record({"inductor_output_code": {}}, code)))
    assert len(d.kernels) == 2 and not (tmp_path / "ran").exists()
    broken = _log(tmp_path, _record({"inductor_post_grad_graph": {}}, RELU), _record({"inductor_output_code": {}}, "def call(:"))
    d = irs.decisions(broken)
    assert not d.kernels and "no Python" in d.notes[0] and d.graph.node("aten::relu")


def test_damaged_records_are_left_out_with_a_note(tmp_path: Path) -> None:
    whole = _record({"inductor_post_grad_graph": {}}, RELU) + _record({"inductor_output_code": {}}, CODE)
    changed = _record({"inductor_post_grad_graph": {}}, RELU, frame=1).replace("aten.relu", "aten.tanh")
    nested = "V1126 07:28:11.000000 1 torch/x.py:1] {" + '"a":{' * 100_000 + "\n"
    d = irs.decisions(_log(tmp_path, nested, "V1126 07:28:11.000000 1 torch/x.py:1] {not json\n", changed, whole, "\tstray\n"))
    assert [program.name for program in d.programs] == ["[0/0]"]
    assert "the inductor_post_grad_graph of [1/0] is not as it was written: it is left out" in d.notes
    assert "2 records cannot be read and are left out" in d.notes


@BOTH
def test_a_truncated_or_changed_log_is_read_or_refused(version: str, tmp_path: Path) -> None:
    content = (LOGS / f"torch-{version}.log").read_bytes()
    draw = random.Random(0)
    for _ in range(12):
        cut = bytearray(content[: draw.randrange(200, len(content))])
        for _ in range(draw.randrange(20)):
            cut[draw.randrange(len(cut))] = draw.randrange(256)
        path = tmp_path / "dedicated_log_torch_trace_b.log"
        path.write_bytes(cut)
        try:
            for program in irs.decisions(path).programs:
                irs.verify(program.graph)
        except IrscopeError as error:
            assert str(error)


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="no reader takes"):
        irs.decisions(tmp_path)
    with pytest.raises(LoadError, match="holds no compile"):
        irs.decisions(_log(tmp_path, _record({"dynamo_start": {}})))
    with pytest.raises(ArgumentError, match="takes no arguments"):
        irs.decisions(LOGS, np.zeros(3))


@pytest.mark.long
def test_a_log_says_what_the_compile_did(tmp_path: Path) -> None:
    """A job is traced here; that its graphs compute what it computed is torch's word."""
    job = tmp_path / "job.py"
    job.write_text(
        "import torch\n"
        "model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2),"
        " torch.nn.Flatten(), torch.nn.LazyLinear(16), torch.nn.LayerNorm(16), torch.nn.GELU())\n"
        "x = torch.randn(2, 3, 16, 16)\nmodel(x)\n"
        "torch.compile(model)(x).sum().backward()\n"
        "with torch.no_grad():\n    torch.compile(model.eval())(x)\n"
    )
    env = {
        **os.environ,
        "TORCH_TRACE": str(tmp_path / "trace"),
        "INDUCTOR_PROVENANCE": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache"),
    }
    subprocess.run([sys.executable, str(job)], env=env, check=True, capture_output=True)
    d = irs.decisions(tmp_path / "trace")
    assert [program.name for program in d.programs] == ["[0/0] forward", "[0/0] backward", "[0/1] inference"]
    for program in d.programs:
        irs.verify(program.graph)
        assert {kernel.is_library for kernel in program.kernels} == {True, False}
    last = d.programs[-1]  # torch lists no nodes of backward graphs on a CPU
    assert all(kernel.nodes or kernel.part_of for kernel in last.kernels), last.table()
