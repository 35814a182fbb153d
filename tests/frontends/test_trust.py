"""Files of strangers: loading one runs nothing of theirs, in whatever place it says so, unless the caller trusts it.

`CANARY` is a program text that makes a folder; no test may find it.
"""

import io
import json
import os
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import irscope as irs
from irscope import cli
from irscope.errors import LoadError
from irscope.frontends.torch.export_source import reason_to_distrust

torch = pytest.importorskip("torch")

needs_posix = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")


class Bomb:
    """What makes a folder when it is unpickled."""

    def __init__(self, place: Path, result: Any = ()) -> None:
        self.place, self.result = str(place), result

    def __reduce__(self) -> Any:
        return eval, (f"(__import__('os').mkdir({self.place!r}), {self.result!r})[1]",)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Linear(3, 4)

    def forward(self, x: Any) -> Any:
        return {"out": self.body(x) * 2 + x.shape[0]}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pt2") / "net.pt2"
    rows = torch.export.Dim("rows", min=2, max=64)
    torch.export.save(torch.export.export(Net(), (torch.rand(2, 3),), dynamic_shapes=({0: rows},)), path)
    return path


def altered(good: Path, path: Path, record: str, change: Callable[[bytes], bytes], **more: bytes) -> Path:
    """A copy with one record changed, and others added."""
    with zipfile.ZipFile(good) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as new:
        root = old.namelist()[0].partition("/")[0]
        for name in old.namelist():
            data = old.read(name)
            new.writestr(name.replace(f"{root}/", f"{path.stem}/", 1), change(data) if name.endswith(record) else data)
        for name, data in more.items():
            new.writestr(f"{path.stem}/{name}", data)
    return path


def refused(path: Path, words: str = "not trusted") -> str:
    with pytest.raises(LoadError, match=words) as caught:
        irs.load(path)
    assert "trust=True" in str(caught.value) and "SECURITY.md" in str(caught.value)
    return str(caught.value)


def pickled(thing: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(thing, buffer)
    return buffer.getvalue()


def in_json(change: Callable[[Any], None]) -> Callable[[bytes], bytes]:
    def changed(data: bytes) -> bytes:
        tree = json.loads(data)
        change(tree)
        return json.dumps(tree).encode()

    return changed


def test_a_program_that_is_only_data_is_loaded_as_before(good: Path, tmp_path: Path) -> None:
    trusted, careful = irs.load(good, trust=True), irs.load(good)
    assert irs.same_structure(trusted, careful)
    torch.testing.assert_close(next(iter(careful.bound.values())), next(iter(trusted.bound.values())))
    same = altered(good, tmp_path / "same.pt2", "model.json", lambda data: data)
    assert irs.same_structure(irs.load(same), careful)


def test_a_pickle_as_example_inputs_does_not_run(good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    canary = tmp_path / "canary"
    path = altered(good, tmp_path / "m.pt2", "sample_inputs/model.pt", lambda _: pickled(Bomb(canary, ((), {}))))
    assert "sample_inputs" in refused(path)
    for command in (["show"], ["report", "-o", str(tmp_path / "r.html")], ["opt", "-p", "dce"]):
        assert cli.main([command[0], str(path), *command[1:]]) == 2
        said = capsys.readouterr().err
        assert "--trust" in said and "Traceback" not in said
    assert not canary.exists()
    assert irs.load(path, trust=True).free_inputs
    assert canary.exists(), "the file does what it says when it is trusted: the test would have seen it"
    canary.rmdir()
    assert cli.main(["show", str(path), "--trust"]) == 0
    assert canary.exists()


def _pickled_weight(good: Path, path: Path, bomb: bytes) -> Path:
    change = in_json(lambda tree: tree["config"]["body.weight"].update(use_pickle=True))
    return altered(altered(good, path.with_name("a.pt2"), "weights_config.json", change), path, "weights/weight_0", lambda _: bomb)


def _pickled_object(name: str) -> Callable[[Path, Path, bytes], Path]:
    held = {"path_name": name, "is_param": False, "use_pickle": True, "tensor_meta": None}
    change = in_json(lambda tree: tree["config"].update(thing=held))
    return lambda good, path, bomb: altered(good, path, "constants_config.json", change, **{f"data/constants/{name}": bomb})


def _before_2_8(good: Path, path: Path, bomb: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("version", "8.20")
        archive.writestr("serialized_exported_program.json", "{}")
        for part in ("state_dict", "constants", "example_inputs"):
            archive.writestr(f"serialized_{part}.pt", bomb)
    return path


def _with(record: str) -> Callable[[Path, Path, bytes], Path]:
    return lambda good, path, bomb: altered(good, path, "none", bytes, **{record: bomb})


@pytest.mark.parametrize(("make", "told"), [
    (_with("data/weights/model.pt"), "pickle"), (_with("data/constants/model.pt"), "pickle"), (_pickled_weight, "pickle"),
    (_pickled_object("opaque_obj_0"), "pickle"), (_pickled_object("custom_obj_0"), "pickle"), (_before_2_8, "before torch 2.8"),
    (_with("data/aotinductor/model/x.wrapper.so"), "compiled libraries"),
], ids=["weights", "constants", "a weight", "an object", "an object of its own", "older format", "libraries"])  # fmt: skip
def test_pickles_and_libraries_of_a_program_do_not_run(
    good: Path, tmp_path: Path, make: Callable[[Path, Path, bytes], Path], told: str
) -> None:
    canary = tmp_path / "canary"
    assert told in refused(make(good, tmp_path / "m.pt2", pickled(Bomb(canary, {}))))
    assert not canary.exists()


def _each_size(tree: Any, text: str) -> None:
    values = tree["graph_module"]["graph"]["tensor_values"]["x"]["sizes"]
    values[0]["as_expr"]["expr_str"] = text


@pytest.mark.parametrize("text", [
    "__import__('os').mkdir({!r})", "[].__class__.__base__", "sympify('__import__(\"os\").mkdir({!r})')", "(lambda: 0)()",
    "Symbol('s0').func.__globals__", "Pow(Integer(10), Integer(10**9))", "10**10**10", "s0 if s0 else s1", "preview(s0)",
    "Symbol(**{{}})", "eval('1')", "f'{{1}}'", "Integer(1) << Integer(10**12)", "9" * 5000,
], ids=lambda text: text[:20])  # fmt: skip
def test_a_size_is_not_evaluated(good: Path, tmp_path: Path, text: str) -> None:
    canary = tmp_path / "canary"
    filled = text.format(str(canary)) if "{" in text else text
    path = altered(good, tmp_path / "m.pt2", "model.json", in_json(lambda tree: _each_size(tree, filled)))
    refused(path)
    assert not canary.exists()


def _rename(tree: Any, name: str) -> None:
    text = json.dumps(tree["graph_module"]).replace('"name": "x"', f'"name": {json.dumps(name)}')
    tree["graph_module"] = json.loads(text)
    values = tree["graph_module"]["graph"]["tensor_values"]
    values[name] = values.pop("x")


@pytest.mark.parametrize("change", [
    lambda tree: _rename(tree, "x=__import__('os').mkdir('CANARY')"),
    lambda tree: _rename(tree, "x):\n    import os\n    os.mkdir('CANARY')\n    return (x"),
    lambda tree: tree["graph_module"]["graph"]["nodes"][0].update(target="torch.os.mkdir"),
    lambda tree: tree["graph_module"]["graph"]["nodes"][0].update(target="#ext:os.mkdir"),
    lambda tree: tree["range_constraints"].update({"__import__('os').mkdir('CANARY')": {"min_val": 2, "max_val": 3}}),
    lambda tree: tree["graph_module"]["module_call_graph"][0]["signature"].update(
        in_spec='[1, {"type": "builtins.list", "context": "{\\"__enum__\\": true, \\"fqn\\": \\"evil:X\\", \\"name\\": \\"A\\"}", '
        '"children_spec": []}]'
    ),
    lambda tree: tree["graph_module"]["module_call_graph"][0]["signature"].update(
        out_spec='[1, {"type": "collections.defaultdict", "context": {"default_factory_module": "evil", '
        '"default_factory_name": "X", "dict_context": []}, "children_spec": []}]'
    ),
], ids=["default argument", "line of code", "target", "extension", "range", "enum", "defaultdict"])  # fmt: skip
def test_names_are_names(good: Path, tmp_path: Path, change: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil.py").write_text("import os\nos.mkdir('CANARY')\nclass X: pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    refused(altered(good, tmp_path / "m.pt2", "model.json", in_json(change)))
    assert not (tmp_path / "CANARY").exists()
    assert "evil" not in sys.modules


def test_programs_of_many_kinds_are_data() -> None:
    """The look refuses none of torch.export's own files: symbols, branches, strings, containers, buffers, and states."""
    from torch.export import Dim, export

    class Branch(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.cond(x.sum() > 0, lambda y: (y * 2,), lambda y: (y - 1,), (x,))

    class Odd(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = torch.nn.ModuleDict({"a-b c": torch.nn.Linear(4, 4)})
            self.register_buffer("seen", torch.zeros(()))

        def forward(self, x: list[Any], d: dict[str, Any]) -> Any:
            self.seen.add_(1)
            y = self.parts["a-b c"](x[0]).reshape(-1, 2)
            return [torch.nn.functional.gelu(y, approximate="tanh"), (d["k"][: x[0].shape[0] // 2], y.shape[0] * 2)]

    rows = Dim("rows", min=4, max=18)
    programs = [
        export(Branch(), (torch.rand(3),)),
        export(Odd(), ([torch.rand(8, 4)], {"k": torch.rand(9)}), dynamic_shapes=([{0: rows}], {"k": None})),
        export(torch.nn.Sequential(torch.nn.Conv2d(3, 4, 1), torch.nn.BatchNorm2d(4)), (torch.rand(2, 3, 5, 5),)),
    ]
    for program in programs:
        buffer = io.BytesIO()
        torch.export.save(program, buffer)
        buffer.seek(0)
        reader = torch._C.PyTorchFileReader(buffer)
        assert reason_to_distrust({name: reader.get_record(name) for name in reader.get_all_records()}) == ""


def test_torchscript_that_runs_code_on_loading_is_refused(tmp_path: Path) -> None:
    class Stateful(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.training = True

        @torch.jit.export
        def __getstate__(self) -> tuple[int, bool]:
            return (1, self.training)

        @torch.jit.export
        def __setstate__(self, state: tuple[int, bool]) -> None:
            self.training = state[1]

        def forward(self, x: torch.Tensor, n: int = 3) -> torch.Tensor:
            return x + n

    path = tmp_path / "m.pt"
    torch.jit.script(Stateful()).save(str(path))
    assert "__setstate__" in refused(path)
    assert irs.load(path, trust=True).free_inputs


@pytest.mark.parametrize("default", ["torch.save(1, 'f')", "ops.aten.save(1, 'f')", "[torch.rand(1)]"])
def test_a_default_of_torchscript_is_not_evaluated(tmp_path: Path, default: str) -> None:
    class Adds(torch.nn.Module):
        def forward(self, x: torch.Tensor, n: int = 3) -> torch.Tensor:
            return x + n

    path = tmp_path / "good.pt"
    torch.jit.script(Adds()).save(str(path))
    assert irs.load(path).free_inputs
    changed = altered(path, tmp_path / "m.pt", ".py", lambda code: code.replace(b"=3", f"={default}".encode()))
    assert "evaluates" in refused(changed)


@needs_posix
@pytest.mark.parametrize("suffix", [".pt", ".pt2", ".ir", ".txt"])
def test_a_pipe_or_a_device_is_not_a_program(tmp_path: Path, suffix: str) -> None:
    pipe = tmp_path / f"pipe{suffix}"
    os.mkfifo(pipe)
    endless = tmp_path / f"endless{suffix}"
    endless.symlink_to("/dev/zero")
    for path in (pipe, endless):
        with pytest.raises(LoadError, match="not a regular file"):
            irs.load(path)
        with pytest.raises(LoadError):
            irs.load(path, trust=True)


def test_a_missing_user_in_a_path() -> None:
    with pytest.raises(LoadError, match="no user"):
        irs.load("~nobody-here/x.ir")
    assert cli.main(["show", "~nobody-here/x.ir"]) == 2
