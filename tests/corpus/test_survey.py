"""What a survey counts, over programs of which the answer is known, and what interrupting and repeating it changes: nothing."""

import errno
import json
import os
import re
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("distributed")

import irscope as irs
from irscope import files
from irscope.cli import main
from irscope.corpus import Survey, examine, run
from irscope.corpus.tables import failure, record_path
from irscope.errors import ArgumentError, LoadError, UnknownName, UnknownNumber

from tests.corpus.programs import (  # isort: skip
    chain, closes_everything, crashes, hangs, hoards, is_killed, leaves, raises, raises_half_a_letter, repeated,
)  # fmt: skip
from tests.programs import ir

MODELS = {
    "a": chain("relu", "tanh"), "renamed": chain("relu", "tanh", name="input"), "wider": chain("relu", "tanh", size=8),
    "scaled": chain("relu", "tanh", scale=0.25), "other": chain("exp", "sin"),
}  # fmt: skip
SORTS = ir(
    "x:Float(64, 8, strides=[8, 1], device=cpu) | one = 1; no = False; a = relu x; b = tanh a; s i = sort b one no; c = exp s; d = neg c | "
    "d"
)
TIMED = ["seconds", "peak_bytes"]


@pytest.fixture(scope="module")
def dask() -> Iterator[Any]:
    """A cluster in this process, with one worker."""
    import distributed

    with distributed.Client(
        processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0", memory_limit=0, security=False
    ) as client:
        yield client


@pytest.fixture
def asked(dask: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the models that are examined from here on: one after the other in this process, without limits."""
    names: list[str] = []
    analyse = examine.analyse

    def noted(source: Any, settings: Any) -> Any:
        names.append(source.name)
        return analyse(source, settings)

    def here(source: Any, settings: Any, worker: int) -> Any:
        try:
            return noted(source, settings) | {"imported": []}
        except irs.IrscopeError as error:
            return failure(type(error).__name__, str(error)) | {"imported": []}

    monkeypatch.setattr(examine, "isolated", lambda work, **limits: work())
    monkeypatch.setattr(examine, "_answer", here)
    monkeypatch.setattr(run, "client_of", lambda *given: nullcontext(dask))
    return names


def survey(out: Path, models: Any = MODELS, **options: Any) -> Survey:
    return irs.corpus.survey(models, out=out, **options)


def tables(found: Survey) -> dict[str, pd.DataFrame]:
    """Everything that a survey found, but for how long it took."""
    names = ("classes", "kernels", "near", "models", "groups", "remarks", "ops", "failures")
    return {name: getattr(found, name).drop(columns=TIMED, errors="ignore") for name in names} | {"ladder": found.ladder()}


def same(one: dict[str, pd.DataFrame], other: dict[str, pd.DataFrame]) -> None:
    for name, frame in one.items():
        pd.testing.assert_frame_equal(frame, other[name])


def test_classes_and_near_misses_are_those_of_dedup_and_counted_over_models(tmp_path: Path, asked: list[str]) -> None:
    s = survey(tmp_path)
    assert s.classes[["members", "models"]].values.tolist() == [[2, 2], [1, 1], [1, 1], [1, 1]]
    assert s.classes["saved_s"].tolist() == [s.classes["compile_s"][0], 0, 0, 0], "compiled once instead of twice"
    of = dict(zip(s.groups["model"], s.groups["class"], strict=True))
    assert of["a"] == of["renamed"] and len(set(of.values())) == 4
    assert repr(s).startswith("<Survey of 5 models: 5 groups in 4 classes, ")
    # the classes of the corpus by every relation, beside dedup of all groups at once
    module = irs.Module({name: irs.fuse(irs.parse(text)).graph for name, text in MODELS.items()})
    whole = irs.dedup(module).ladder()["classes"]
    ours = s.ladder()["classes"]
    assert ours.to_dict() == whole[ours.index].to_dict()
    found = {(row.kind, row.hole): set(row.values.split(" | ")) for row in s.near.itertuples(index=False)}
    assert found[("constant", "'other' of aten::mul")] == {"0.5", "0.25"}
    assert {"4", "8"} in found.values(), "the width"
    assert all(len(classes) == 2 for classes in s.near["members of"]), "wider and scaled are two holes apart"


def test_a_kernel_that_takes_sizes_serves_several_classes(tmp_path: Path, asked: list[str]) -> None:
    s = survey(tmp_path)
    compiled = {kernel.name for text in MODELS.values() for kernel in irs.compile(irs.fuse(irs.parse(text))).kernels}
    assert s.kernels["groups"].sum() == 5 and len(s.kernels) == len(compiled) == 3 and s.kernels["classes"].max() == 2


def test_nothing_is_done_or_counted_twice(tmp_path: Path, asked: list[str]) -> None:
    first = tables(survey(tmp_path / "whole"))
    out = tmp_path / "in parts"
    survey(out, dict(list(MODELS.items())[:2]))
    asked.clear()
    again = tables(survey(out))
    assert sorted(asked) == ["other", "scaled", "wider"]
    same(first, again)
    asked.clear()
    same(first, tables(survey(out)))
    assert not asked


def test_what_is_interrupted_keeps_what_is_done(tmp_path: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    whole, out = tables(survey(tmp_path / "whole")), tmp_path / "interrupted"
    own = run._each

    def interrupted(*given: Any) -> Any:
        for number, done in enumerate(own(*given)):
            if number == 2:
                raise KeyboardInterrupt
            yield done

    with monkeypatch.context() as patch:
        patch.setattr(run, "_each", interrupted)
        with pytest.raises(KeyboardInterrupt):
            survey(out)
    with pytest.raises(LoadError, match="was interrupted before its tables"):
        Survey(out)
    done = len(list(out.glob("models/*/*.json")))
    asked.clear()
    same(whole, tables(survey(out)))
    assert done >= 2 and len(asked) <= 5 - 2


DAMAGES: dict[str, Any] = {
    "a list": [], "half a record": '{"digest": ', "bytes": "\x00", "nothing": "", "a pipe": "", "deep": "[" * 100_000,
    "another number": lambda found: {**found, "record": {**found["record"], "seconds": 1e9}},
    "another record": lambda found: {**found, "record": {"failure": {"kind": "x", "what": "y", "limits": None}}},
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_record_that_is_damaged_is_made_again(damage: str, tmp_path: Path, asked: list[str]) -> None:
    first = survey(tmp_path)
    key = first.models.set_index("model")["key"]["wider"]
    path, change = record_path(tmp_path, key), DAMAGES[damage]
    found = change(json.loads(path.read_text())) if callable(change) else change
    path.unlink()
    if damage == "a pipe":
        os.mkfifo(path)
    else:
        path.write_text(found if isinstance(found, str) else json.dumps(found))
    asked.clear()
    again = survey(tmp_path)
    assert asked == ["wider"]
    same(tables(first), tables(again))


def test_models_whose_records_vanish_are_left_out_with_a_reason(tmp_path: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    own = run._put_together

    def deleted(sources: Any, out: Path, *rest: Any) -> None:
        for source in sources[:2]:
            record_path(out, source.key).unlink()
        own(sources, out, *rest)

    monkeypatch.setattr(run, "_put_together", deleted)
    s = survey(tmp_path)
    assert s.failures[["model", "kind"]].values.tolist() == [["a", "vanished"], ["renamed", "vanished"]]
    assert len(s.models) == 3 and "its record is gone" in s.failures["what"][0]
    monkeypatch.setattr(run, "_put_together", own)
    assert len(survey(tmp_path).models) == 5


def test_letters_that_utf8_has_not_end_no_survey(tmp_path: Path, asked: list[str]) -> None:
    (tmp_path / "models").mkdir()
    named = os.fsdecode(os.fsencode(tmp_path / "models") + b"/caf\xe9.ir")
    Path(named).write_text(MODELS["a"])
    models = {"\ud800": MODELS["other"], "": tmp_path / "models", "good": MODELS["a"]}
    for _ in range(2):
        s = survey(tmp_path / "out", models)
        assert s.models["model"].tolist() == ["\\ud800", "caf\\udce9.ir", "good"]
        assert s.classes["members"].tolist() == [2, 1]
        assert "caf\\udce9.ir" in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert len(s.fusion("caf\\udce9.ir").groups) == 1


def test_a_full_disk_ends_a_survey_with_a_reason_and_keeps_what_is_done(
    tmp_path: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    own, room = files._replace, [3]

    def replace(path: Path, data: bytes) -> None:
        room[0] -= 1
        if room[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        own(path, data)

    monkeypatch.setattr(files, "_replace", replace)
    with pytest.raises(ArgumentError, match="No space left on device") as caught:
        survey(tmp_path)
    assert "make room" in caught.value.hint
    room[0] = 100
    asked.clear()
    assert len(survey(tmp_path).models) == 5
    assert len(asked) <= 5 - 2  # two were written; what a worker was at when the survey ended may have been written since


def test_a_file_that_changes_is_another(tmp_path: Path, asked: list[str]) -> None:
    folder = tmp_path / "models" / "inner"
    folder.mkdir(parents=True)
    (folder / "one.ir").write_text(chain("relu", "tanh"))
    (folder / "two.ir").write_text(chain("exp", "sin"))
    (folder / "notes.txt").write_text("no program")
    s = survey(tmp_path / "out", tmp_path / "models")
    assert s.models["model"].tolist() == ["inner/one.ir", "inner/two.ir"] and len(s.classes) == 2
    named = survey(tmp_path / "again", [folder / "one.ir", tmp_path / "models" / "inner" / ".." / "inner" / "two.ir"])
    assert named.models["model"].tolist() == ["one.ir", "two.ir"]
    other = tmp_path / "models" / "one.ir"
    other.write_text(chain("exp", "sin"))
    assert survey(tmp_path / "third", [folder / "one.ir", other]).models["model"].tolist() == ["inner/one.ir", "models/one.ir"]
    other.unlink()
    (folder / "two.ir").write_text(chain("relu", "tanh", name="other"))
    asked.clear()
    assert len(survey(tmp_path / "out", tmp_path / "models").classes) == 1
    assert asked == ["inner/two.ir"]


def test_functions_and_live_programs_are_surveyed(tmp_path: Path, asked: list[str]) -> None:
    def softmax(x: Any) -> Any:
        e = np.exp(x - x.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)

    built = partial(chain, "relu", "tanh")
    s = survey(tmp_path, [(softmax, np.zeros((4, 8))), irs.parse(chain("exp", "sin")), built, built])
    names = s.models["model"].tolist()
    assert names[2:] == ["chain('relu', 'tanh')", "chain('relu', 'tanh') #2"]
    assert s.classes["members"].tolist() == [2, 1, 1]


def test_what_is_never_fused_is_counted_with_the_reason(tmp_path: Path, asked: list[str]) -> None:
    text = ir("x | a = relu x; b = tanh a; s i:Long(4) = sort b | s", "Float(4)")
    s = survey(tmp_path, {"one": text, "two": text.replace("%x", "%y")})
    sort = s.ops.set_index("op").loc["aten::sort"]
    assert (sort["in_groups"], sort["alone"], sort["models"]) == (0, 2, 2) and "aten::sort" in sort["because"]
    passed = s.remarks[s.remarks["kind"] == "passed"]
    assert passed[["rule", "count", "models"]].values.tolist() == [["pointwise", 2, 2]]


def test_what_a_compiler_never_fuses_is_counted(tmp_path: Path, asked: list[str]) -> None:
    found = irs.corpus.survey({"a": chain("relu", "tanh"), "sorts": SORTS}, None, tmp_path, compiler="inductor")
    assert found.models.set_index("model")["groups"].to_dict() == {"a": 1, "sorts": 2}, found.failures
    ops = found.ops.groupby("op")[["in_groups", "alone"]].sum()
    assert ops.loc["aten::sort"].tolist() == [0, 1] and ops.loc["aten::relu"].tolist() == [2, 0]
    assert found.fusion("a").policy == "inductor"
    with pytest.raises(ArgumentError, match="cannot ask the compiler 'gcc'"):
        irs.corpus.survey({"a": chain("relu", "tanh")}, None, tmp_path, compiler="gcc")


def test_groups_that_hold_unknown_objects_are_not_merged_across_models(tmp_path: Path, asked: list[str]) -> None:
    """Of such an object only the identity is known: another model's may be another, whatever it prints."""
    text = """graph(%x : Float(4)):
  %b : Float(4) = prim::FusionGroup[kind="pointwise"](%x)
    block0(%i : Float(4)):
      %k : __torch__.M = prim::Constant[value=<__torch__.M object at 0x7f>]()
      %a : Float(4) = strange::call(%i, %k)
      -> (%a)
  return (%b)"""
    s = survey(tmp_path, {"one": text, "two": text.replace("%x", "%y")})
    assert s.groups["class"].nunique() == len(s.groups) == 2


def test_one_is_opened_in_its_model(tmp_path: Path, asked: list[str]) -> None:
    s = survey(tmp_path)
    assert len(s.fusion("scaled").groups) == 1
    again = irs.dedup(irs.Module({"class": s.program(0), "model": s.fusion("a").graph}))
    assert len(again.classes) == 1
    with pytest.raises(UnknownName, match="no model 'b'"):
        s.fusion("b")
    with pytest.raises(UnknownNumber, match="no class 9"):
        s.program(9)
    with pytest.raises(ArgumentError, match="was built by a function"):
        Survey(tmp_path).fusion("a")


@pytest.mark.parametrize(("models", "options", "words"), [
    ([], {}, "nothing to survey"),
    ("no/such/folder", {}, "no file or folder"),
    ({"a": "graph():\n  return ()"}, {"seconds": 0}, "too little"),
    ({"a": "graph():\n  return ()"}, {"client": 3}, "a client is a distributed.Client"),
])  # fmt: skip
def test_mistakes_are_reported_before_anything_is_done(tmp_path: Path, models: Any, options: Any, words: str) -> None:
    if "client" in options:
        pytest.importorskip("distributed")
    with pytest.raises(irs.IrscopeError, match=words):
        survey(tmp_path / "out", models, **options)
    assert not (tmp_path / "out").exists()


def test_modules_of_executables_are_surveyed_beside_graphs(tmp_path: Path, asked: list[str]) -> None:
    """IREE's, before it merges equal ones: each executable is a piece, and equal ones of two modules are one class."""
    resnet = Path(__file__).parents[1] / "transforms/dedup/samples/resnet18.flow.ir"
    s = survey(tmp_path, {"resnet": resnet, "again": resnet, "chain": MODELS["a"]})
    assert not len(s.failures)
    kinds = s.classes.set_index("kind")["models"]
    assert (kinds["executable"] == 2).all() and (s.classes["members"] >= s.classes["models"]).all()
    assert s.groups[s.groups["model"] == "resnet"]["class"].nunique() == len(irs.dedup(irs.load(resnet)).classes)


def test_what_may_take_long_is_begun_first(tmp_path: Path, asked: list[str]) -> None:
    """Of calls that with the largest numbers, of files the largest; those that a survey timed before go by that."""
    calls = {f"relu {count}": partial(repeated, "relu", count) for count in (2, 9, 4)}
    s = survey(tmp_path / "out", calls)
    assert asked == ["relu 9", "relu 4", "relu 2"]
    assert s.models["model"].tolist() == [*calls], "in the order that they were given in"
    asked.clear()
    took = dict(zip(s.models["model"], s.models["seconds"], strict=True))
    survey(tmp_path / "out", {**calls, "new": chain("exp")}, policy="bytes")
    assert asked[0] == "new" and asked[1:] == sorted(calls, key=lambda name: -took[name])


def test_a_bad_model_costs_itself(tmp_path: Path) -> None:
    """In their own processes: one that hangs, one that wants all memory, one that crashes, one that raises, one that is not a program."""
    pytest.importorskip("cloudpickle")
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"\x08\x07not a model" * 50)
    models = {"good": MODELS["a"], "hangs": hangs, "hoards": hoards, "crashes": crashes, "raises": raises, "broken": broken}
    models |= {"killed": is_killed, "leaves": leaves, "closes": closes_everything, "half": raises_half_a_letter}
    quick = {name: model for name, model in models.items() if model is not hangs}
    survey(tmp_path / "out", quick, processes=1, memory=1 << 30)
    s = survey(tmp_path / "out", models, processes=1, seconds=1, memory=1 << 30)  # examines the rest: only what hangs has one second
    assert s.models["model"].tolist() == ["good"]
    why = dict(zip(s.failures["model"], s.failures["what"], strict=True))
    assert why["hangs"] == "it takes over 1 s"
    assert "memory" in why["hoards"] and "run out of memory" in why["killed"]
    kinds = dict(zip(s.failures["model"], s.failures["kind"], strict=True))
    assert (kinds["hoards"], kinds["killed"], kinds["hangs"]) == ("memory", "memory", "limit")
    assert why["crashes"] == "it crashes with signal 6"
    assert why["leaves"] == "it ends its own process, with exit code 0, or closes files that it did not open"
    assert (kinds["leaves"], kinds["closes"], kinds["crashes"]) == ("exit", "exit", "limit")
    assert why["raises"] == "RuntimeError: this model is not finished"
    assert why["half"] == "ValueError: half \\ud800 of a pair" and "broken.onnx" in why["broken"]
    assert json.loads((tmp_path / "out" / "survey.json").read_text())["done"]


def test_the_command_surveys_folders_and_says_what_it_left_out(
    tmp_path: Path, asked: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    models = tmp_path / "models"
    models.mkdir()
    for name, text in MODELS.items():
        (models / f"{name}.ir").write_text(text)
    (models / "bad.ir").write_text("graph(%x")
    command = ["survey", str(models), "--out", str(tmp_path / "out")]
    assert main(command) == 0
    told = capsys.readouterr()
    assert "5 groups in 4 classes" in told.out and "relu, tanh, mul" in told.out
    assert told.err.startswith("left out: bad.ir: ") and "Traceback" not in told.err
    monkeypatch.setattr(run, "_each", interrupt)
    (models / "new.ir").write_text(MODELS["a"])
    assert main(command) == 130
    assert "the same command resumes from there" in capsys.readouterr().err
    assert main(["survey", str(tmp_path / "nothing"), "--out", str(tmp_path / "out")]) == 2


def interrupt(*given: Any) -> Any:
    raise KeyboardInterrupt


def test_the_page_links_pictures_to_classes_and_shows_strangers_text_as_text(tmp_path: Path, asked: list[str]) -> None:
    s = survey(tmp_path, {**MODELS, "<script>alert(1)</script>": MODELS["a"], "bad": "graph(%x"})
    page = (tmp_path / "index.html").read_text()
    links, places = set(re.findall(r'href="#([^"]*)"', page)), set(re.findall(r'id="([^"]*)"', page))
    assert links and links <= places
    assert "<script" not in page and "&lt;script&gt;" in page
    for said in ("6 models, 1 left out", "&#x27;other&#x27; of aten::mul", "aten::relu(%", "nothing is folded with them"):
        assert said in page or said.replace("&#x27;", "&#39;") in page or said.replace("&#x27;", "'") in page, said
    cell = s._repr_html_()
    assert cell.count("<img") == 2 and "<svg" not in cell
    with pytest.raises(ArgumentError, match="cannot be written"):
        s.write(tmp_path / "no" / "page.html")


def test_a_survey_without_groups_shows_itself(tmp_path: Path, asked: list[str]) -> None:
    s = survey(tmp_path, {"bad": "graph(%x"})
    assert repr(s).startswith("<Survey of 0 models, 1 left out: 0 groups in 0 classes, 0 kernels")
    assert "none" in (tmp_path / "index.html").read_text() and s._repr_html_()


def test_a_class_is_chosen_and_opened_in_a_cell(tmp_path: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ipywidgets")
    s = survey(tmp_path)
    box = irs.explore(s)
    _, cls, member, button, _ = box.children
    assert [name for name, _ in member.options] == ["a: group 0, %end", "renamed: group 0, %end"]
    cls.value = 1
    assert len(member.options) == 1
    opened: list[tuple[str, int]] = []
    monkeypatch.setattr(Survey, "explore", lambda self, *which: opened.append(which))
    button.click()
    assert opened == [member.value]
