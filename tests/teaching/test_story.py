"""Stories: recorded, edited, saved, read again, and checked against a program that changed."""

import json
from pathlib import Path
from typing import Any

import pytest

import irscope as irs
from irscope.errors import ArgumentError, LoadError, UnknownName
from irscope.teaching.stories import Story
from tests.programs import ir

PROGRAM = ir("x:Float(8, 8, strides=[8, 1]) | zero = 0; one = 1; p.1 = transpose x zero one; w = relu_ p.1; c = tanh x; d = sigmoid c | d")


def made() -> Story:
    s = irs.story(irs.parse(PROGRAM), title="A write through a view")
    s.add("`%p.1` is another view of `%x`.", selection=["x", "p.1"])
    s.add("These become **one kernel**.", selection="node %d", state=-1, colour="equal", pane="graph")
    return s


def test_steps_keep_names_the_view_has_ids_and_a_colour_has_a_meaning() -> None:
    s = made()
    assert s.steps[0].selection == ("%x", "%p.1")
    graph = s.exploration.graph
    view = s.view()
    assert view["steps"][0]["selection"] == [graph.value("x").id, graph.value("p.1").id]
    assert view["steps"][1]["step"] == s.exploration.fusion.history.count
    assert (view["at"], view["problems"]) == (1, [])
    with pytest.raises(ArgumentError, match="colour cannot mean 'group'\n  hint: it means one of kind, equal"):
        s.add("x", colour="group")
    with pytest.raises(ArgumentError, match="colour cannot mean 'group'"):
        s.edit(0, colour="group")
    with pytest.raises(ArgumentError, match="a story is told about a program"):
        irs.story()
    assert len(s) == 2


def test_steps_are_edited_moved_and_removed() -> None:
    s, heard = made(), []
    s.on_change.append(lambda: heard.append(len(s)))
    s.edit(0, text="It begins here.")
    s.move(1, 0)
    assert [step.text for step in s.steps] == ["These become **one kernel**.", "It begins here."]
    s.add("in between", at=1)
    s.remove(0)
    assert [step.text for step in s.steps] == ["in between", "It begins here."]
    s.go(-1)
    assert s.at == 1
    assert heard == [2, 2, 3, 2, 2]


def test_a_saved_story_is_read_over_the_same_program_in_a_new_graph(tmp_path: Path) -> None:
    s = made()
    again = irs.story.read(s.save(tmp_path / "s.json"), irs.parse(PROGRAM))
    assert (again.title, again.steps, again.check()) == (s.title, s.steps, [])
    assert again.view()["steps"][0]["selection"] != [] != s.view()["steps"][0]["selection"]


def test_what_a_changed_program_lacks_is_reported_step_by_step(tmp_path: Path) -> None:
    path = made().save(tmp_path / "s.json")
    changed = PROGRAM.replace("%p.1", "%q").replace("aten::tanh(%x)", "aten::mm(%x, %x)").replace("sigmoid", "sum")
    again = irs.story.read(path, irs.parse(changed))
    told = again.check()
    assert "step 1 selected %p.1, which is gone" in told
    assert any(line.startswith("step 2 showed state") for line in told)
    assert again.view()["steps"][0]["selection"] == [again.exploration.graph.value("x").id]
    assert "which is gone" in str(again)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"irscope story": 1, "title": "t", "steps": [3]}', '{"irscope story": 1, "title": "t", "steps": [{"text": 1}]}',
     '{"irscope story": 1, "title": "t", "steps": [{"text": "a", "more": 1}]}', '{"irscope story": 2, "title": "t", "steps": []}'],
)  # fmt: skip
def test_a_file_that_is_not_a_story_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "s.json"
    path.write_text(text)
    with pytest.raises(LoadError, match="story"):
        irs.story.read(path, irs.parse(PROGRAM))


def test_mistakes_are_reported_in_the_users_terms(tmp_path: Path) -> None:
    s = made()
    with pytest.raises(UnknownName):
        s.add("x", selection="nothing")
    for wrong in (
        lambda: s.add("x", state=99), lambda: s.add("x", pane="kitchen"), lambda: s.move(0, 9), lambda: s.edit(0, selection=[]),
        lambda: s.save(tmp_path / "s.pdf"), lambda: s.save(tmp_path / "nowhere" / "s.html"),
    ):  # fmt: skip
        with pytest.raises(ArgumentError):
            wrong()
    with pytest.raises(LoadError, match="cannot be read"):
        irs.story.read(tmp_path / "none.json", irs.parse(PROGRAM))


def test_the_page_holds_the_story_and_asks_for_nothing(tmp_path: Path) -> None:
    text = made().save(tmp_path / "s.html").read_text()
    assert "default-src 'none'" in text
    data = text.split('data-irscope="view">')[1].split("</script>")[0]
    story = json.loads(data)["story"]
    assert (story["at"], len(story["steps"]), story["title"]) == (0, 2, "A write through a view")


def test_the_notebook_of_a_story_runs(tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("anywidget")
    notebook = nbformat.reads(json.dumps(made().to_notebook()), as_version=4)
    nbformat.validate(notebook)
    space: dict[str, object] = {}
    for cell in notebook.cells:
        if cell.cell_type == "code":
            exec(cell.source, space)
    assert [record.id for record in space["e"].selected] == [space["e"].selection[0]]
    assert "one kernel" in "".join(cell.source for cell in notebook.cells)


def test_the_bar_changes_the_story_and_a_bad_message_is_answered() -> None:
    pytest.importorskip("anywidget")
    from irscope.widgets.explorer import Explorer
    from irscope.widgets.lessons import StoryWidget
    from tests.widgets.conftest import asked

    s = made()
    view = StoryWidget(s, Explorer(s.exploration))
    s.on_change.append(view.refresh)
    group = s.exploration.fusion.groups[0]
    message = {"kind": "add", "text": "third", "selection": [group.id], "state": None, "open": [group.id], "colour": "kind", "pane": ""}
    asked(view, message)
    assert s.steps[2].selection == s.steps[2].open == ("node %d",)
    assert json.loads(view.story)["at"] == 2
    asked(
        view, {"kind": "edit", "number": 2, "text": "3rd"}, {"kind": "move", "number": 2, "to": 0}, {"kind": "remove", "number": 1},
        {"kind": "go", "number": 1},
    )  # fmt: skip
    assert [step.text for step in s.steps] == ["3rd", "These become **one kernel**."]
    assert "no step 77" in asked(view, {"kind": "go", "number": 77})[-1]["message"]


def test_boxes_of_modules_are_named_by_their_path(torch: Any) -> None:
    inner = lambda: torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4))  # noqa: E731
    s = irs.story(irs.load(torch.nn.Sequential(inner(), inner(), torch.nn.Tanh()).eval(), torch.ones(2, 4)))
    boxes = [name for name in s.names._ids if name.startswith("box ")]
    assert boxes
    s.add("modules", open=boxes)
    assert s.steps[0].open == tuple(boxes) and s.check() == []


def test_a_story_is_shown_from_its_first_step(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("anywidget")
    monkeypatch.setattr("IPython.display.display", lambda *_, **__: None)
    s = made()
    assert s.at == 1, "the step that was added last"
    s._ipython_display_()
    assert s.at == 0
    s.remove(0)
    assert (s.at, len(s)) == (0, 1)
