"""The command line does what it says, and a mistake prints one message without a traceback."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

import irscope.compilers
from irscope.cli import main
from irscope.errors import ArgumentError
from tests.programs import ir

PROGRAM = ir("x | y = relu x; z = tanh y | z")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.ir"
    path.write_text(PROGRAM)
    return path


def test_show_prints_the_program_its_groups_and_whether_two_values_alias(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(program)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(PROGRAM) and "1 fusion group" in printed
    assert main(["show", str(program), "--alias", "x", "y"]) == 0
    assert capsys.readouterr().out.startswith("no alias: ")
    assert main(["show", "--fused", str(program), "--input", "float32[2,3]"]) == 0
    printed = capsys.readouterr().out
    assert "prim::FusionGroup" in printed
    fused = program.with_name("fused.ir")
    fused.write_text(printed)
    assert main(["report", str(fused), "-o", str(fused.with_suffix(".html"))]) == 0


def test_diff_says_what_differs_and_whether_anything_does(program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other, page = tmp_path / "other.ir", tmp_path / "diff.html"
    other.write_text(PROGRAM.replace("aten::tanh", "aten::exp"))
    assert main(["diff", str(program), str(other), "--html", str(page)]) == 1
    printed = capsys.readouterr().out
    assert "+   %z : Tensor = aten::exp(%y)" in printed and "# 1 kept" in printed
    assert page.read_text(encoding="utf-8").startswith("<!")
    assert main(["diff", "--fused", str(program), str(program)]) == 0


def test_a_program_is_named_by_its_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.py").write_text("import torch\n\ndef net():\n    return torch.nn.ReLU(), torch.ones(2)\n")
    assert main(["show", "small.py:net"]) == 0
    assert "aten::relu(%" in capsys.readouterr().out
    assert main(["show", "small.py:net", "--graph", "forward"]) == 2
    assert "are for files" in capsys.readouterr().err
    assert main(["show", "small.py"]) == 2
    assert "write small.py:NAME" in capsys.readouterr().err


def test_arguments_of_a_torch_model_are_tensors_if_only_its_module_imports_torch(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "small.py").write_text("import torch\n\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        return x.relu()\n")
    command = [sys.executable, "-m", "irscope", "show", "small.py:Net", "--args", "float32[2,3]"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert "aten::relu(%" in done.stdout, done.stderr


def test_profile_makes_arguments_of_the_types_in_a_file(tmp_path: Path, program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "typed.ir").write_text(PROGRAM.replace("%x : Tensor", "%x : Float(2, 3)"))
    assert main(["profile", str(tmp_path / "typed.ir"), "--seconds", "0.05"]) == 0
    assert "random arguments: --args 'float32[2,3]'" in capsys.readouterr().err
    assert main(["profile", str(program)]) == 2
    assert "the types of %x are not known" in capsys.readouterr().err


def test_decisions_names_each_compiler_that_is_read(program: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["decisions", str(program), "--compiler", "gcc"]) == 2
    assert "no reader for the compiler 'gcc'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["decisions", "--help"])
    printed = capsys.readouterr().out
    assert all(name in printed for name in irscope.compilers.READERS.values())
    (tmp_path / "f.py").write_text("def f(x):\n    return x + 1\n")
    assert main(["decisions", f"{tmp_path / 'f.py'}:f", "--input", "float32[2]"]) != 0
    assert "--compiler xla" in capsys.readouterr().err


def test_decisions_of_several_compilers_are_written_on_one_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    nodes = [onnx.helper.make_node("Relu", ["x"], ["a"], name="r"), onnx.helper.make_node("Tanh", ["a"], ["b"], name="t")]
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4]) for name in ("x", "b")]
    graph = onnx.helper.make_graph(nodes, "g", ends[:1], ends[1:])
    model = tmp_path / "g.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), model)
    both = ["--compiler", "onnxruntime", "--compiler", "onnxruntime"]
    assert main(["decisions", str(model), *both, "--html", str(tmp_path / "out.html")]) == 0
    assert capsys.readouterr().out.count("<Decisions of onnxruntime: 0 kernels, 2 library calls>") == 2
    assert '"matching":"2 of 2 ops matched (2 by name)"' in (tmp_path / "out.html").read_text()
    assert main(["decisions", str(model), "--compiler", "onnxruntime,onnxruntime", "--why-not", "Relu", "Tanh"]) == 0
    assert capsys.readouterr().out.startswith("onnxruntime: not fused: it is legal by irscope's rules")


def test_decisions_of_a_torch_model_are_inductor_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")

    def told(_: object, *args: object, compiler: object = None) -> None:
        raise ArgumentError(f"{compiler} with {type(args[0]).__name__}")

    monkeypatch.setattr(irscope.compilers, "decisions", told)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "torchs.py").write_text("import torch\n\ndef f(x):\n    return x.relu()\n")
    (tmp_path / "numpys.py").write_text("def f(x):\n    return x + 1\n")
    for name, wanted in (("torchs.py:f", "['inductor'] with Tensor"), ("numpys.py:f", "None with ndarray")):
        assert main(["decisions", name, "--args", "float32[2]"]) == 2
        assert wanted in capsys.readouterr().err


def test_cache_shows_and_clears_the_compiled_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from irscope.runtime.device.kernel_cache import user_stores

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    store = user_stores()["cpu"]
    for key in ("a", "b"):
        store.save(key, bytes(1_000_000))
    store.load("a")
    store.load("c")
    assert main(["cache", "info"]) == 0
    printed = capsys.readouterr().out
    assert f"cpu: 2 kernels, 2 MB of 268 MB, in {tmp_path}" in printed
    assert "loaded 1 times, 1 times not found" in printed and "cuda: 0 kernels" in printed
    assert main(["cache", "clear", "--device", "cpu"]) == 0
    assert "cpu: 2 kernels deleted, 2 MB" in capsys.readouterr().out
    assert store.load("a") is None


def test_cache_says_why_it_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    (tmp_path / "file").write_text("not a directory")
    assert main(["cache", "info"]) == 0
    assert "not used: it cannot be written" in capsys.readouterr().out
    assert main(["cache", "clear"]) == 0


def test_report_writes_a_page_that_asks_for_nothing(program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "out.html"
    assert main(["report", str(program), "--input", "float32[2,3]", "-o", str(output)]) == 0
    assert str(output) in capsys.readouterr().out
    page = output.read_text()
    assert "aten::tanh" in page and "<link" not in page and ' src="http' not in page


MISTAKES = [
    (["show", "no_such_file.ir"], "no_such_file.ir"),
    (["show", "README.unknown"], "README.unknown"),
    (["report", "missing.pt", "-o", "x.html"], "missing.pt"),
    (["show", "CUT"], "cut.ir:3:10"),
    (["show", "LITERAL"], "%c = prim::Constant[value=1]()"),
    *((["show", "PROGRAM", "--input", text], "float32[1,3,416,416]") for text in ("float32", "float32[a]", "nonsense[2]")),
    (["opt", "PROGRAM", "-p", "functonalize"], "did you mean functionalize"),
    (["opt", "PROGRAM", "-p", "cse", "--print-after", "dce"], "the pipeline has no such pass"),
    (["opt", "PROGRAM", "-p", "cse", "-o", "/no/such/folder/x.ir"], "cannot be written"),
    *((["profile", name], name.partition(":")[0]) for name in ("no_such_module:f", "json:no_such", "math:pi", "nothing.py:f")),
    (["profile", "math:sqrt", "--graph", "one"], "are for files"),
]


@pytest.mark.parametrize(("arguments", "says"), MISTAKES, ids=lambda given: " ".join(given) if isinstance(given, list) else "")
def test_a_mistake_is_one_clear_message(arguments: list[str], says: str, program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cut = program.with_name("cut.ir")
    cut.write_text(PROGRAM[:60])
    literal = program.with_name("literal.ir")
    literal.write_text(PROGRAM.replace("relu(%x)", "add(%x, %x, 1)"))
    assert main([{"PROGRAM": str(program), "CUT": str(cut), "LITERAL": str(literal)}.get(given, given) for given in arguments]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("irscope: ") and says in printed.err and "Traceback" not in printed.err
    assert printed.out == ""


def test_lab_serves_the_tour(tmp_path: Path) -> None:
    pytest.importorskip("jupyterlab", reason="jupyterlab is not installed: pip install 'irscope[lab]'")
    home = {name: str(tmp_path / name) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")}
    command = [sys.executable, "-m", "irscope.cli", "lab", "--no-browser", "--IdentityProvider.token=tour"]
    terminal, stdin = os.openpty()  # without one, Jupyter has no handler of Ctrl-C
    started = subprocess.Popen(
        command, env=os.environ | home, start_new_session=True, stdin=stdin, stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # what runs in the background of a shell ignores it
    )  # fmt: skip
    try:
        server = _server(tmp_path / "JUPYTER_RUNTIME_DIR")
        contents = urllib.request.urlopen(f"{server['url']}api/contents/notebooks/00_tour.ipynb?token=tour", timeout=120)
        assert json.load(contents)["type"] == "notebook"
        os.killpg(started.pid, signal.SIGINT)  # Ctrl-C, once
        assert started.wait(120) == 0
    finally:
        if started.poll() is None:
            os.killpg(started.pid, signal.SIGKILL)
            started.wait(30)
        os.close(terminal)
        os.close(stdin)


@pytest.mark.parametrize(("given", "notebook", "further"), [
    (["--port", "8977", "--no-browser"], "00_tour.ipynb", ["--port", "8977", "--no-browser"]),
    (["--port", "8977", "02_fusion.ipynb", "--no-browser"], "02_fusion.ipynb", ["--port", "8977", "--no-browser"]),
])  # fmt: skip
def test_lab_hands_on_options(given: list[str], notebook: str, further: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jupyterlab", reason="jupyterlab is not installed: pip install 'irscope[lab]'")
    commands: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda path, command: commands.append(command))
    main(["lab", *given])
    assert commands[0][-len(further) :] == further
    assert any(part.endswith(notebook) for part in commands[0])


def test_lab_says_which_notebooks_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("jupyterlab", reason="jupyterlab is not installed: pip install 'irscope[lab]'")
    for given in (["fusion"], ["fusion", "--no-browser"], [""]):
        assert main(["lab", *given]) == 2
        assert "02_fusion.ipynb" in capsys.readouterr().err


def _server(folder: Path) -> dict[str, str]:
    """What a JupyterLab that has just started says of itself."""
    for _ in range(600):
        for file in folder.glob("jpserver-*.json"):
            try:
                server: dict[str, str] = json.loads(file.read_text())
                urllib.request.urlopen(f"{server['url']}api", timeout=5)
            except (OSError, ValueError):  # half of it is written, or nobody listens yet
                continue
            return server
        time.sleep(0.2)
    raise AssertionError("JupyterLab did not start")


IN_PLACE = ir("x | a = neg x; b = relu_ a; c = neg x; d = mul a c | d", "Float(4)")


@pytest.fixture
def in_place(tmp_path: Path) -> Path:
    path = tmp_path / "in_place.ir"
    path.write_text(IN_PLACE)
    return path


def test_opt_prints_a_program_that_reads_back(in_place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import irscope as irs

    arguments = ["opt", str(in_place), "-p", "functionalize,cse,dce", "--remarks", "--time", "--verify-each"]
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[:2] == [
        "# functionalize: passed [pure-twin] %b: aten::relu_ became its functional variant aten::relu",
        "# cse: passed [same-value] %c: %a is the same",
    ]
    wanted = irs.Pipeline("functionalize,cse,dce")(irs.parse(IN_PLACE)).graph
    assert "\n".join(lines[2:]) == str(wanted)
    assert irs.same_structure(irs.parse(out), wanted)
    assert "seconds" in err


def test_opt_prints_the_program_after_a_pass(in_place: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    output = tmp_path / "out.ir"
    arguments = ["opt", str(in_place), "-p", "functionalize,cse", "--print-after", "functionalize", "-o", str(output)]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("# after functionalize\ngraph(")
    assert "aten::relu(%a)" in printed
    assert output.read_text().count("aten::neg") == 1


def test_opt_help_lists_the_passes(capsys: pytest.CaptureFixture[str]) -> None:
    from irscope.transforms.pipeline import PASSES

    with pytest.raises(SystemExit) as caught:
        main(["opt", "--help"])
    assert caught.value.code == 0
    printed = capsys.readouterr().out
    assert all(f"  {name} " in printed for name in PASSES)


def test_a_standard_output_that_is_closed_is_harmless(program: Path) -> None:
    command = f'exec "{sys.executable}" -m irscope show "{program}" >&-'
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_the_terminal_cannot_write_is_written_as_numbers(program: Path) -> None:
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    run = [sys.executable, "-m", "irscope", "show", str(program)]
    done = subprocess.run(run, capture_output=True, env=environment)
    assert done.returncode == 0, done.stderr.decode()
    assert b"\\xb7 0 missed fusions" in done.stdout
    wrong = subprocess.run([*run, "--alias", "é", "nothing"], capture_output=True, env=environment)
    assert wrong.returncode == 2 and b"Traceback" not in wrong.stderr


SEVERAL = """module "m" = module::attributes():
symbol "help" = func::func[visibility="private"]()
graph "help":
graph(%x : Float(3)):
  %y : Float(3) = aten::exp(%x)
  return (%y)
graph "one":
graph(%x : Float(3)):
  %y : Float(3) = func::call[callee="@help"](%x)
  %z : Float(3) = aten::tanh(%y)
  return (%z)
graph "two":
graph(%x : Float(3)):
  %y : Float(3) = aten::relu(%x)
  return (%y)
end
"""


def test_programs_of_several_functions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, page = tmp_path / "m.ir", tmp_path / "page.html"
    path.write_text(SEVERAL)
    assert main(["show", str(path)]) == 0
    printed = capsys.readouterr().out
    assert [line for line in printed.splitlines() if line in ("# one", "# two", "# help")] == ["# one", "# two"]
    assert "aten::exp" in printed and "func::call" not in printed
    commands = [["report", str(path), "-o", str(page)], ["opt", str(path), "-p", "cse"], ["show", str(path), "--alias", "x", "z"]]
    commands.append(["profile", str(path), "--args", "float32[3]", "--seconds", "0.1"])
    for command in commands:
        assert main(command) == 2
        assert "choose one of one, two: irs.load(source, graph=NAME), or --graph NAME in a terminal" in capsys.readouterr().err
        assert main([*command, "--graph", "one"]) == 0
        capsys.readouterr()
    assert main(["show", str(path), "--graph", "tow"]) == 2
    assert "hint: it has two" in capsys.readouterr().err
    assert main(["survey", str(path), "--out", str(tmp_path / "survey"), "--processes", "1"]) == 0
    assert "left out" not in capsys.readouterr().err
