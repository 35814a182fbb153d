"""A profile in a cell, on a page, in a terminal, and through the magics."""

import json
import re
from base64 import b64decode
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import irscope as irs
from irscope.cli import main
from irscope.display.profile_page import profile_cell
from irscope.display.text import profile_text
from irscope.errors import ArgumentError
from irscope.magics import load
from irscope.report.pages import Exploration, Inspection
from irscope.report.pages.parts import Cost, ProgramPage, explorer_view
from irscope.report.panes import profile_view

X = np.linspace(-1, 1, 64 * 64, dtype=np.float32).reshape(64, 64)


def program(x: Any) -> Any:
    """Computes all twice but one product, which a remark says whatever the noise."""
    hot = np.exp(x) * 2 + np.tanh(x)
    return np.sort(hot) @ x @ (np.sort(hot) @ x)


@pytest.fixture(scope="module")
def profile() -> Any:
    return irs.profile(program, X, seconds=1)


def test_the_view_is_plain_json_and_its_boxes_lie_inside_of_each_other(profile: Any) -> None:
    view = json.loads(json.dumps(profile_view(profile)))
    for way in view["ways"]:
        assert sum(node["share"] for node in way["nodes"]) == pytest.approx(1.0)
        top = [box for box in way["icicle"] if box["depth"] == 0]
        assert len(top) == 1 and top[0]["share"] == pytest.approx(1.0)
        for box in way["icicle"]:
            assert box["start"] >= 0 and box["start"] + box["share"] <= 1 + 1e-9
        assert len(way["spans"]) == len(profile.ways[way["label"]].timeline())


def test_source_lines_are_those_of_the_program_with_their_times(profile: Any) -> None:
    lines = profile_view(profile)["lines"]
    hot = {line["text"].strip() for line in lines if line["share"] > 0}
    assert hot == {"hot = np.exp(x) * 2 + np.tanh(x)", "return np.sort(hot) @ x @ (np.sort(hot) @ x)"}
    assert sum(line["share"] for line in lines) == pytest.approx(1.0)


def test_a_cell_has_images_only_and_they_are_xml(profile: Any) -> None:
    cell = profile_cell(profile)
    assert "<svg" not in cell and "<script" not in cell and "What would help" in cell
    assert not re.search(r'(src|href)="(?!data:)', cell) and len(cell) < 400_000
    pictures = re.findall(r'data:image/svg\+xml;base64,([^"]*)"', cell)
    assert len(pictures) >= 6
    for picture in pictures:
        text = b64decode(picture).decode()
        ElementTree.fromstring(text)
        assert "prefers-color-scheme:dark" in text


def test_the_terminal_says_what_fuses_and_what_does_not(profile: Any) -> None:
    text = profile_text(profile)
    assert "what fuses: 1 group" in text and "what does not fuse" in text and "%" in text


def test_a_report_of_a_profile_is_its_explorer_and_has_its_pictures_for_readers_without_scripts(profile: Any, tmp_path: Path) -> None:
    page = irs.write_report(profile, output=tmp_path / "p.html").read_text()
    static = page[page.index('data-irscope="explorer"') : page.index('<script type="application/json"')]
    assert "What would help" in static and static.count("data:image/svg+xml") >= 7 and '"opens":"Time"' in page.replace(": ", ":")


# -- the command line ------------------------------------------------------------------------------------------------


def test_a_function_is_profiled_from_a_shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "slow_program.py"
    source.write_text("import numpy as np\ndef f(x):\n    return np.tanh(np.exp(x)) @ x\n")
    out = tmp_path / "o.html"
    asked = ["profile", f"{source}:f", "--args", "float32[32,32]", "--seconds", "0.05", "--by", "line", "--html", str(out),
             "--trace", str(tmp_path / "t.json"), "--speedscope", str(tmp_path / "s.json")]  # fmt: skip
    assert main(asked) == 0
    printed = capsys.readouterr().out
    assert "slow_program.py:3" in printed and "what fuses" in printed
    assert out.stat().st_size > 1000 and json.loads((tmp_path / "t.json").read_text())["traceEvents"]


def test_a_programs_file_is_profiled_from_a_shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.ir"
    path.write_text("graph(%x : Tensor):\n  %y : Tensor = aten::relu(%x)\n  %z : Tensor = aten::tanh(%y)\n  return (%z)\n")
    assert main(["profile", str(path), "--args", "float32[32,32]", "--seconds", "0.05"]) == 0
    assert "a call op by op" in capsys.readouterr().out


def test_what_builds_a_model_is_profiled_as_the_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A function that needs nothing and gives a model, or a model and its arguments."""
    pytest.importorskip("torch")
    source = tmp_path / "built_model.py"
    source.write_text("import torch\ndef net(width=8):\n    return torch.nn.Tanh()\ndef both():\n    return net(), torch.ones(4, 8)\n")
    assert main(["profile", f"{source}:net", "--args", "float32[4,8]", "--seconds", "0.02"]) == 0
    assert main(["profile", f"{source}:both", "--seconds", "0.02"]) == 0
    assert capsys.readouterr().out.count("aten::tanh") >= 2
    assert main(["profile", f"{source}:net"]) == 2 and main(["profile", f"{source}:nett"]) == 2
    said = capsys.readouterr().err
    assert "comes without example arguments" in said and "--args" in said and "there is net, both" in said


# -- magics ----------------------------------------------------------------------------------------------------------


class Shell(SimpleNamespace):
    def __init__(self, **names: Any) -> None:
        super().__init__(user_ns=dict(names), magics={})
        formatter = SimpleNamespace(for_type_by_name=lambda *given: None)
        self.display_formatter = SimpleNamespace(formatters=dict.fromkeys(("text/html", "image/png", "image/svg+xml"), formatter))
        load(self)

    def register_magic_function(self, function: Any, magic_kind: str, magic_name: str) -> None:
        self.magics[magic_name] = function

    def ev(self, text: str) -> Any:
        return eval(text, self.user_ns)

    def run_cell(self, text: str) -> Any:
        exec(text, self.user_ns)
        return SimpleNamespace(raise_error=lambda: None)


def test_a_call_in_the_line_is_profiled() -> None:
    shell = Shell(f=program, x=X)
    assert set(shell.magics["irscope"]("f(x)").table("op", way="op by op")["op"]) >= {"aten::exp", "aten::matmul"}


def test_keyword_arguments_are_part_of_the_program() -> None:
    shell = Shell(f=lambda x, scale: np.exp(x) * scale, x=X)
    assert "aten::mul" in set(shell.magics["irscope"]("f(x, scale=3.0)").table("op", way="op by op")["op"])


def test_the_last_line_of_a_cell_is_profiled_and_the_others_run() -> None:
    shell = Shell(f=program, x=X)
    p = shell.magics["irscope"]("", "y = x + 1\nf(y)\n")
    assert p.name and shell.user_ns["y"].shape == X.shape


@pytest.mark.parametrize(("line", "cell", "told"), [
    ("", "x = 1\n", "not a call"), ("", "x = (\n", "cannot be read"), ("f x", "f(x)", "takes nothing"),
    ("f(*x)", None, r"no \* or"), ("f(no_such)", None, "cannot be evaluated"),
])  # fmt: skip
def test_mistakes_in_magics_are_reported(line: str, cell: str | None, told: str) -> None:
    shell = Shell(f=program, x=X)
    with pytest.raises(ArgumentError, match=told):
        shell.magics["irscope"](line, cell)


# -- in the explorer -------------------------------------------------------------------------------------------------


def test_boxes_have_the_heat_of_all_inside(profile: Any) -> None:
    exploration = Exploration(profile.measured.fusion, profile=profile)
    view = explorer_view(exploration)
    heat = json.loads(json.dumps(view["profile"]["heat"]))
    time = {box["id"]: heat.get(str(box["id"]), [0.0])[0] for box in view["graph"]["boxes"]}
    around = {box["id"]: box["parent"] for box in view["graph"]["boxes"]}
    assert sum(share for id, share in time.items() if around[id] == 0) == pytest.approx(1.0, abs=1e-4)
    group = profile.measured.fusion.groups[0]
    assert sum(share for id, share in time.items() if around[id] == group.id) == pytest.approx(time[group.id], abs=1e-4)
    assert heat[str(group.id)][1] == profile.row_of(group.id).cost.bytes
    lines = view["profile"]["source_heat"][__file__]
    assert sum(line[0] for line in lines.values()) == pytest.approx(1.0, abs=1e-4) and view["opens"] == "Time"
    assert "of the run" in Inspection(exploration).detail(group.id)["time"]
    assert any(count["label"] == "a call" for count in view["headline"])
    assert "profile" not in explorer_view(Exploration(profile.measured.fusion))


def test_what_is_clicked_is_in_the_program_that_is_shown(profile: Any) -> None:
    exploration = Exploration(profile.measured.fusion, profile=profile)
    view = explorer_view(exploration)["profile"]
    for way in view["ways"]:
        ids = [*(node["id"] for node in way["nodes"]), *(span["id"] for span in way["spans"]), *(mark["id"] for mark in way["marks"])]
        chosen = {id for box in way["icicle"] for id in box["selects"]} | {id for id in ids if id}
        assert chosen and chosen <= set(exploration.records)


def test_a_page_that_holds_a_part_asks_for_the_heat_of_what_it_shows(profile: Any) -> None:
    exploration = Exploration(profile.measured.fusion, profile=profile)
    page = ProgramPage(exploration, Cost.EACH_GROUP)
    view = page.view
    assert view["profile"]["heat"] == {}
    answered = page.answers["heat"]({"ids": [box["id"] for box in view["graph"]["boxes"]]})["heat"]
    whole = explorer_view(exploration)["profile"]["heat"]
    assert answered and all(whole[id] == values for id, values in answered.items())
    assert ProgramPage(Exploration(profile.measured.fusion)).answers["heat"]({"ids": list(answered)}) == {"heat": {}}


def test_a_profile_may_come_later_and_must_be_of_the_program(profile: Any) -> None:
    pytest.importorskip("anywidget")
    from irscope.widgets.explorer import Explorer

    e = Explorer(Exploration(profile.measured.fusion))
    assert e.profile is None and e.measured == b""
    e.profile = profile
    part = json.loads(e.measured)
    assert part["opens"] == "Time" and part["profile"]["heat"]
    group = profile.measured.fusion.groups[0].id
    assert "of the run" in e._page.inspection.detail(group)["time"]
    for wrong, told in ((irs.profile(lambda x: np.exp(x) + 1, X, seconds=0.02), "not those of the program"), ("p", "not str")):
        with pytest.raises(ArgumentError, match=told):
            e.profile = wrong
        assert e.profile is profile and json.loads(e.measured) == part
    e.set_state({"measured": "{}"})
    assert json.loads(e.measured) == part
    e.profile = None
    assert e.measured == b"" and Explorer(Exploration(profile.measured.fusion, profile=profile)).profile is profile
