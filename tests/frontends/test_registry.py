"""Which frontend reads a source, and what is said of a source that none of them reads."""

import subprocess
import sys
import warnings
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from runpy import run_path

import numpy as np
import pytest

import irscope as irs
from irscope.errors import ArgumentError, CaptureError, LoadError, ParseError
from irscope.frontends import load, registry
from irscope.frontends.mlir.source import is_mlir_text
from irscope.ir.structural import same_structure

TEXT = "graph(%x : Tensor, %k : int):\n  %y : Tensor = aten::mul(%x, %k)\n  return (%y)\n"


def test_a_graph_is_given_back():
    graph = load(TEXT)
    assert load(graph) is graph


@pytest.mark.parametrize("suffix", [".ir", ".txt"])
def test_text_files_are_read(tmp_path: Path, suffix: str):
    path = tmp_path / f"net{suffix}"
    path.write_text(TEXT)
    assert same_structure(load(path), load(TEXT)) and same_structure(load(str(path)), load(TEXT))


def test_a_name_renames_the_graph():
    assert load(TEXT, name="doubled").name == "doubled"


FILES = {"yolo.ir": TEXT.encode(), "net.docx": f"Dear reader, this is a program:\n{TEXT}".encode(), "binary.ir": b"\xff\xfe\x00"}


@pytest.mark.parametrize(("source", "args", "error", "what", "more"), [
    ("yolov.ir", (), LoadError, r"there is no file .*yolov\.ir", "yolo.ir"), ("absent/net.ir", (), LoadError, "no file", "no folder"),
    (".", (), LoadError, "is a folder", "file"), ("net.docx", (), LoadError, r"'\.docx'", ".ir"), ("net.docx", (), LoadError, "no", ".pt2"),
    ("binary.ir", (), LoadError, "not UTF-8", ""), (TEXT, (1,), ArgumentError, "1 example argument for 2 inputs", "%x : Tensor, %k : int"),
    ({"a": 1}, (), LoadError, r"builtins\.dict", "torch.export"), (3, (), LoadError, r"builtins\.int", "ONNX"),
    (lambda x: x * 2, (), LoadError, "'<lambda>'", "np.zeros"), (lambda x=1: x, (), LoadError, "needs example arguments", ""),
    (partial(max), (), LoadError, "needs example arguments", ""), (len, ([1, 2],), LoadError, r"'len' called with builtins\.list", "NumPy"),
    (lambda: 1 / 0, (), CaptureError, "ZeroDivisionError when it is called, without arguments: division by zero", "must run"),
    (lambda: None, (), LoadError, "a function without parameters, returns no array", "return what"),
    ("\nHloModule jit_f, entry_computation_layout={()->f32[]}\n", (), ParseError, "ends before the computation", "damaged"),
])  # fmt: skip
def test_sources_that_are_not_read(source: object, args: tuple[object, ...], error: type[Exception], what: str, more: str, tmp_path: Path):
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    is_file = isinstance(source, str) and "\n" not in source
    with pytest.raises(error, match=what) as caught:
        load(tmp_path / source if is_file else source, *args)
    assert more in f"{caught.value.where} {caught.value.hint}"


@pytest.mark.parametrize("text", ["", "  \n \n", TEXT[:60], "graph(%x : Tensor):\n  return (%z)\n"])
def test_empty_and_truncated_text_has_a_place(text: str):
    with pytest.raises(ParseError) as caught:
        load(text)
    assert caught.value.line >= 1


@pytest.mark.parametrize("suffix", [".pt", ".pt2"])
def test_without_torch_the_extra_is_named(tmp_path: Path, suffix: str):
    path = tmp_path / f"net{suffix}"
    path.write_bytes(b"PK")
    script = (
        "import sys; sys.modules['torch'] = None\n"
        "from irscope.errors import MissingExtra\n"
        "from irscope.frontends import load\n"
        f"try: load({str(path)!r})\n"
        "except MissingExtra as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "pip install 'irscope[torch]'" in done.stdout


def test_text_needs_no_torch():
    script = f"import sys; sys.modules['torch'] = None\nfrom irscope.frontends import load\nprint(repr(load({TEXT!r})))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "1 node," in done.stdout


def test_a_function_without_parameters_goes_by_what_it_returns():
    kept = np.arange(3.0)
    assert irs.compile(load(lambda: kept * 2))().tolist() == [0, 2, 4]
    torch = pytest.importorskip("torch")

    class Holder:
        def step(self):
            x = torch.arange(6.0).reshape(2, 3)
            flat = x.as_strided_((3, 2), (1, 3))
            x.t_().add_(1)
            return flat * 2, x.unsqueeze_(0)

    graph = load(Holder().step)
    in_place = [node.op.removeprefix("aten::") for node in graph.nodes() if node.op.endswith("_")]
    assert in_place == ["as_strided_", "t_", "add_", "unsqueeze_"]
    for result, wanted in zip(irs.compile(irs.fuse(graph))(), Holder().step(), strict=True):
        assert torch.equal(torch.as_tensor(result), wanted)


@pytest.mark.parametrize(("name", "content", "hint"), [
    ("net.caffe", b"\x0a\0\0\0CAFFE", "convert it"), ("net.safetensors", b"\x08\0\0\0\0\0\0\0{}", "holds weights and no program"),
    ("net.dump", b"a text of another kind", "give the file that suffix, or pass the text"),
])  # fmt: skip
def test_renaming_is_suggested_for_texts_only(tmp_path: Path, name: str, content: bytes, hint: str):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(LoadError, match="no frontend reads") as caught:
        load(path)
    assert hint in caught.value.hint


CONTENTS = {
    "TorchScript": lambda path: saved_script(path),
    "torch.export program": lambda path: saved_program(path),
    "ONNX model": lambda path: saved_onnx(path),
    "MLIR, as text or bytecode": lambda path: path.write_text("// of a test\nfunc.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {\n"
                                                              "  return %x : tensor<2xf32>\n}\n"),
    "HLO, as text or .hlo.pb": lambda path: path.write_text(
        "HloModule m\nENTRY %e (x: f32[]) -> f32[] {\n  ROOT %x = f32[] parameter(0)\n}\n"
    ),
    "IR text": lambda path: path.write_text(f"# of a test\n{TEXT}"),
}  # fmt: skip


def saved_script(path: Path) -> None:
    torch = pytest.importorskip("torch")
    torch.jit.script(torch.nn.ReLU()).save(str(path))


def saved_program(path: Path) -> None:
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(torch.export.export(torch.nn.ReLU(), (torch.rand(3),)), str(path.with_suffix(".pt2")))
    path.with_suffix(".pt2").rename(path)


def saved_onnx(path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    from onnx import helper

    info = [helper.make_tensor_value_info(name, 1, [3]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", info[:1], info[1:])
    path.write_bytes(helper.make_model(graph, producer_name="test", opset_imports=[helper.make_opsetid("", 14)]).SerializeToString())
    assert onnx


@pytest.mark.parametrize("kind", CONTENTS)
@pytest.mark.parametrize("suffix", ["", ".jit", ".model", ".onnx", ".pt", ".pt2", ".mlir", ".txt"])
def test_the_content_of_a_file_decides_and_not_its_name(kind: str, suffix: str, tmp_path: Path):
    path = tmp_path / f"program{suffix}"
    CONTENTS[kind](path)
    found = registry.frontend_of(path, ())
    assert found.name == kind
    if suffix in (".jit", "") and (not kind.startswith(("MLIR", "HLO")) or find_spec("jaxlib")):
        assert load(path).outputs


@pytest.mark.parametrize("suffix", [".pt", ".pt2", ".onnx", ".mlir", ".ir", ".bin", ""])
@pytest.mark.parametrize(("content", "what", "hint"), [
    (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS's note", "git lfs pull"),
    (b"GGUF\x03\0\0\0", "holds weights", "its own library"),
    (b"\x40\0\0\0\0\0\0\0{\"a\":{\"dtype\":\"F32\"", "holds weights", "its own library"),
    (b"\x1c\0\0\0TFL3", "TensorFlow Lite", "ONNX"),
    (b"\x1f\x8b\x08\0", "compressed", "unpack"),
], ids=["lfs", "gguf", "safetensors", "tflite", "gzip"])  # fmt: skip
def test_a_foreign_file_is_recognised_by_its_content(content: bytes, what: str, hint: str, suffix: str, tmp_path: Path):
    path = tmp_path / f"file{suffix}"
    path.write_bytes(content)
    with pytest.raises(LoadError, match=what) as caught:
        load(path)
    assert hint in caught.value.hint


@pytest.mark.parametrize("content", [b"", b"\x08", b"\x08\x08", b"\x3a\x05abc", b":\n", b"PK\x03\x04",
    b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"])  # fmt: skip
def test_files_that_only_begin_like_programs_are_refused(content: bytes, tmp_path: Path):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(LoadError, match="could be anything"):
        load(tmp_path / "file")


def test_files_of_torch_without_a_program_say_what_they_are(tmp_path: Path):
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch.package")
    for suffix in (".pt", ".ckpt"):
        for is_new in (False, True):
            torch.save(torch.nn.Linear(2, 2).state_dict(), tmp_path / f"w{suffix}", _use_new_zipfile_serialization=is_new)
            for trust in (False, True):
                with pytest.raises(LoadError, match="holds tensors or a pickled object, not a program"):
                    load(tmp_path / f"w{suffix}", trust=trust)
    path = tmp_path / "packed.pt2"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.package.PackageExporter(str(path)) as package:
            package.extern("torch.**")
            package.save_pickle("models.small", "net.pkl", torch.nn.Sequential(torch.nn.ReLU()))
        for trust in (False, True):
            with pytest.raises(LoadError, match=r"is an archive of torch\.package") as caught:
                load(path, trust=trust)
        _, _, advice = caught.value.hint.partition(": ")
        assert eval(advice, {"irs": irs, "torch": torch, "x": torch.rand(3)}).outputs, "the hint works"


@pytest.mark.parametrize("line", [
    "util.initializer {", "util.initializer attributes {a} {", 'torch.global_slot "private" @x : !torch.int {', "torch.class_type @c {",
    "util.global private mutable @x : i32", "%0 = torch.constant.int 1", '%0:2 = "a.b"() : () -> ()', "func.func @f() {", "module {",
])  # fmt: skip
def test_mlir_is_recognized_behind_comments(line: str) -> None:
    assert is_mlir_text(f"// RUN: opt %s\n\n  // CHECK\n{line}\n")


@pytest.mark.parametrize("text", [
    "graph(%x : Tensor):", 'module "m" = module::attributes():', 'graph "f":', "model.onnx", "import torch.nn as nn\nx = (",
    "see a.b for what was said in the other report (and more)", "x.y = foo(bar)",
])  # fmt: skip
def test_other_texts_are_not_mlir(text: str) -> None:
    assert not is_mlir_text(text)


def test_long_comments_before_a_text_take_linear_time(tmp_path: Path) -> None:
    """A hundred signs of a comment ended never; a graph in a comment is none."""
    for text in ("#" * 100 + "\nnothing\n", "\n" * 1000 + "nothing\n", "# graph(%x : Tensor): of a comment\nnothing\n"):
        (tmp_path / "notes.md").write_text(text)
        with pytest.raises(LoadError):
            irs.load(tmp_path / "notes.md")


@pytest.mark.parametrize(("name", "needs"), [("mlir", "jaxlib"), ("onnx", "onnx")])
def test_the_pages_of_coverage_are_those_that_the_code_writes(name: str, needs: str) -> None:
    version = pytest.importorskip(needs).__version__
    page = (Path(__file__).parents[2] / "docs" / "coverage" / f"{name}.md").read_text(encoding="utf-8")
    if name == "onnx" and f"for onnx {version}:" not in page:
        pytest.skip("written for another onnx")
    table = run_path(str(Path(__file__).parents[2] / "docs" / "site" / "coverage_pages.py"))["TABLES"][name]()
    assert page == table, f"python docs/site/coverage_pages.py {name} > docs/coverage/{name}.md"
