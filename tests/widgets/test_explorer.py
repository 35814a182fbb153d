"""The explorer's Python side, without a browser: selection, questions, and what is displayed."""

import asyncio
import gc
import json
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping
from typing import Any

import pytest

import irscope as irs
from irscope.errors import ArgumentError, ParseError, UnknownName

pytest.importorskip("anywidget", reason="anywidget is not installed: pip install 'irscope[lab]'")


from irscope.report.pages import Exploration
from irscope.widgets.explorer import Explorer
from irscope.widgets.hub import Runtime
from tests.programs import ir
from tests.widgets.conftest import asked

CHAIN = ir("x | a = relu x; b = tanh a; c = neg b | c", "Float(8)")


def explorer(**answers: Any) -> Explorer:
    e = Explorer(Exploration(irs.fuse(irs.parse(CHAIN))))
    e._page.answers.update(answers)
    return e


def test_selection_is_the_hub_s_selection_both_ways_and_observers_hear_it_once() -> None:
    e = explorer()
    a, b = (e._page.exploration.graph.value(name).id for name in "ab")
    seen: list[list[int]] = []
    e.observe(lambda change: seen.append(change["new"]), "selection")
    e.selection = [a, b]
    assert e.hub.selection == [a, b]
    e.hub.selection = [b]
    e.selection = [b]
    assert e.selection == [b] and seen == [[a, b], [b]]
    e.step = 1
    assert e.hub.step == 1


def test_numbers_of_nodes_are_colours() -> None:
    pandas = pytest.importorskip("pandas")
    e = explorer()
    program = e._page.exploration.graph
    group, a, c = program.value("c"), program.value("a"), program.node("a")

    def painted() -> Any:
        return json.loads(bytes(e.measured))["paint"]

    e.paint({"a": 1.0, group: 4.0}, "cost")
    shown = painted()
    assert (shown["name"], shown["least"], shown["most"]) == ("cost", 1.0, 4.0)
    assert shown["values"][str(a.id)] == shown["values"][str(c.id)] == 1.0, "its box, and not more than those inside"
    e.paint(pandas.Series({"a": 2, "b": float("nan"), "c": float("inf")}, name="error"))
    assert painted()["name"] == "error" and set(painted()["values"].values()) == {2.0}
    e.paint(None)
    assert painted() is None
    for wrong, words in ((3, "not int"), ({"a": "much"}, "not a number"), ({}, "nothing to paint")):
        with pytest.raises(ArgumentError, match=words):
            e.paint(wrong)
    with pytest.raises(UnknownName):
        e.paint({"nobody": 1})


def test_selection_takes_records_and_names_one_or_several_and_an_unknown_name_changes_nothing() -> None:
    e, graph = explorer(), irs.parse(CHAIN)
    shown = e._page.exploration.graph
    for given, wanted in (("%a", "a"), (["b", "%c", shown.value("a")], "bca"), (shown.node("aten::relu#0"), None)):
        e.selection = given
        assert e.selection == ([shown.value(name).id for name in wanted] if wanted else [given.id])
    before = e.selection
    for stranger in (["%nothing"], graph.value("a")):
        with pytest.raises(UnknownName):
            e.selection = stranger
    assert e.selection == before and "<img" in e.static().data


def test_questions_are_answered_with_their_token() -> None:
    e = explorer()
    a, b = (e._page.exploration.graph.value(name).id for name in "ab")
    one = asked(e, {"kind": "inspect", "ids": [a], "token": 1})[-1]
    assert (one["kind"], one["token"], one["detail"]["title"]) == ("detail", 1, "%a : f32[8]")
    two = asked(e, {"kind": "inspect", "ids": [a, b], "token": 2})[-1]
    assert (two["kind"], two["token"], two["pair"]["alias"]["holds"]) == ("pair", 2, False)


@pytest.mark.parametrize("message", [
    {"kind": "inspect", "ids": [10**6], "token": 9},
    {"kind": "inspect", "token": 9},
    {"kind": "inspect", "ids": ["x"], "token": 9},
])  # fmt: skip
def test_a_question_that_fails_is_answered_with_the_error(message: Any) -> None:
    (answer,) = asked(explorer(), message)
    assert (answer["kind"], answer["token"]) == ("error", 9) and answer["message"]


def test_a_kernel_is_asked_for_by_language_and_a_timeline_has_none() -> None:
    e = explorer()
    ask = {"kind": "kernel", "id": e._page.exploration.fusion.groups[0].id, "language": "assembly", "token": 4}
    answer = asked(e, ask)[-1]
    assert (answer["kind"], answer["token"], answer["kernel"]["language"]) == ("kernel", 4, "assembly") and answer["kernel"]["source"]
    del e._page.answers["kernel"]
    assert "this explorer answers no 'kernel'" in asked(e, ask)[-1]["message"]


def test_an_answer_that_is_not_json_becomes_an_error() -> None:
    e = explorer(inspect=lambda ask: {"title": object()})
    assert "not JSON serializable" in asked(e, {"kind": "inspect", "ids": [1], "token": 1})[-1]["message"]


def test_other_messages_are_not_answered() -> None:
    assert asked(explorer(), {"kind": "anywidget-command"}, "no message") == []


def test_a_pane_shares_its_explorer_and_an_unknown_one_is_refused() -> None:
    e = explorer()
    pane = e.pane("graph")
    assert (pane.explorer, pane.runtime) == (e, e.runtime)
    with pytest.raises(UnknownName, match="text"):
        e.pane("texts")


def test_code_is_carried_once_for_all_explorers() -> None:
    first, second = explorer(), explorer()
    assert first.runtime is second.runtime and first.hub is not second.hub
    assert len(first._esm) < 1000 < len(first.runtime.code)
    first.runtime.close()
    assert explorer().runtime is not first.runtime
    assert Runtime.shared() is explorer().runtime


def test_the_picture_is_displayed_before_the_live_views(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Mapping[str, Any]] = []
    monkeypatch.setattr("IPython.display.display", lambda data, **_: shown.append(data))
    e = explorer()
    e._ipython_display_()
    assert shown[0]["text/html"].startswith('<div class="irs-static"><img ')
    assert "run this cell" in shown[0]["text/html"]
    assert shown[0]["text/plain"] == repr(e) and repr(e).startswith("Explorer(graph · 3 nodes · 1 fusion group · 1 equivalence class · ")
    assert "application/vnd.jupyter.widget-view+json" in shown[1]
    assert sum("text/plain" in data for data in shown) == 1, "a terminal prints it once"


def test_a_box_displays_the_pictures_of_the_explorers_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import ipywidgets

    from irscope.widgets.explorer import _display_box

    shown: list[Mapping[str, Any]] = []
    monkeypatch.setattr("IPython.display.display", lambda data, **_: shown.append(data))
    _display_box(ipywidgets.Tab([ipywidgets.HBox([explorer(), ipywidgets.IntSlider()])]))
    assert ["text/html" in data for data in shown] == [True, False]
    assert "application/vnd.jupyter.widget-view+json" in shown[1] and "text/plain" not in shown[1]
    shown.clear()
    _display_box(ipywidgets.HBox([ipywidgets.IntSlider()]))
    assert "text/plain" in shown[0], "other boxes are as they were"


def test_without_anywidget_the_error_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['anywidget'] = None\n"
        "try:\n    import irscope.widgets.explorer\n"
        "except ImportError as error:\n    print(type(error).__name__, error)"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.startswith("MissingExtra the package 'anywidget' is needed")
    assert "pip install 'irscope[lab]'" in printed


def test_the_step_starts_at_the_end_counts_from_either_and_stays_inside_the_history() -> None:
    e = irs.explore(irs.parse(CHAIN))
    assert (e.step, e.hub.step) == (2, 2)
    e.step = -2
    assert (e.step, e.hub.step) == (1, 1)
    e.hub.step = 0
    assert e.step == 0
    for outside in (3, -4):
        with pytest.raises(ArgumentError, match="there is no step"):
            e.step = outside
    assert e.step == 0


def test_a_question_may_be_about_a_state_of_the_history() -> None:
    g = irs.parse(CHAIN)
    t = irs.timeline(g)
    ask = t._page.answers["inspect"]
    answers = {state: ask({"ids": [g.value("c").id], "state": state})["detail"]["alias"]["summary"] for state in (0, 2)}
    assert answers[0] == "%c shares memory with no other value. Nothing writes it."
    assert answers[2].startswith("%c may share memory with %c.1, because %c is %c.1, a result of")


def test_a_timeline_is_made_of_whatever_has_a_history_and_prints_its_steps() -> None:
    g = irs.parse(CHAIN)
    f = irs.fuse(g)
    for source in (g, f, f.history, CHAIN):
        t = irs.timeline(source)
        assert t.step == 2 and "merged %b and %c into group 0" in t._text()
    assert repr(t).startswith("Timeline(graph · 3 → ")
    with pytest.raises(UnknownName):
        t.selection = "%nothing"


def test_one_that_could_not_begin_ends_quietly() -> None:
    """Python closes an explorer whose front end was not there, too: no second error beside the first."""
    Explorer.__new__(Explorer).close()


def test_fifty_that_were_closed_leave_nothing_behind() -> None:
    """Neither themselves nor what they show, nor widgets of their own; a closed one may be closed again."""
    from ipywidgets.widgets.widget import _instances as alive

    Runtime.shared()
    before = len(alive)
    gone: list[weakref.ref[Any]] = []
    for _ in range(50):
        open_one = irs.explore(irs.parse("graph(%x : Float(3)):\n  %y : Float(3) = aten::relu(%x)\n  return (%y)\n"))
        pane = open_one.pane("graph")
        open_one.selection = ["y"]
        gone += [weakref.ref(held) for held in (open_one, open_one.hub, pane)]
        open_one.close()
        open_one.close()
    del open_one, pane
    gc.collect()
    assert len(alive) == before
    assert not [held() for held in gone if held() is not None]


def test_what_a_page_says_and_the_program_does_not_have_changes_nothing() -> None:
    e = irs.explore(irs.parse(CHAIN))
    hub, runtime, view = e.hub, e.runtime, e.view
    known = e.branches[0].graph.value("a").id
    with pytest.raises(UnknownName, match="has the id 0"):
        e.selection = [0, 1]
    bad = [("step", 99), ("step", -9), ("step", "x"), ("step", None), ("selection", 3), ("selection", [None])]
    for name, value in bad:
        hub.set_state({name: value})
        assert (e.step, hub.step, e.selection, hub.selection) == (2, 2, [], [])
    hub.set_state({"step": 1, "selection": [known], "nobody": 3})
    assert (e.step, hub.step, e.selection, hub.selection) == (1, 1, [known], [known])
    pane = e.pane("text")
    for widget, names in ((e, ("hub", "runtime", "view")), (pane, ("explorer", "runtime", "pane"))):
        for name in names:
            widget.set_state({name: None})
            widget.set_state({name: "IPY_MODEL_nobody"})
    assert (e.hub, e.runtime, e.view) == (hub, runtime, view)
    assert (pane.explorer, pane.runtime, pane.pane) == (e, runtime, "text")
    with pytest.raises(Exception, match="there is no step"):
        hub.step = 99
    assert e.step == hub.step == 1
    e.close()
    assert e.comm is None


def test_groups_that_were_given_are_counted_apart() -> None:
    from irscope.report.pages.parts import explorer_view

    given = irs.parse(str(irs.fuse(irs.parse(CHAIN)).graph))
    told = {count["label"]: count["value"] for count in explorer_view(Exploration(irs.fuse(given)))["headline"]}
    assert (told["fusion groups"], told["given group"]) == ("0", "1")


def test_the_kernels_shown_are_those_of_an_exact_fusion() -> None:
    from irscope.report.pages.details import Inspection
    from irscope.report.pages.exploration import Exploration

    text = "graph(%x : Half(8)):\n  %a : Half(8) = aten::mul(%x, %x)\n  %b : Half(8) = aten::mul(%a, %x)\n  return (%b)"
    for exact in (None, "torch"):
        fusion = irs.fuse(irs.parse(text), exact=exact)
        kernels = Inspection(Exploration(fusion)).kernels
        specs = [spec for group in fusion.groups for spec in kernels.specs(group)]
        assert fusion.exact == (exact is not None)
        assert [spec.exact for spec in specs] == [fusion.exact] * len(fusion.groups) != []


LONG = "graph(%x : Float(8)):\n" + "".join(
    f"  %v{i} : Float(8) = aten::relu(%{f'v{i - 1}' if i else 'x'})\n" for i in range(3000)
) + "  return (%v2999)"  # fmt: skip


def test_an_explorer_of_a_large_program_sends_what_it_shows_and_answers_for_the_rest() -> None:
    fusion = irs.fuse(irs.parse(LONG))
    e = Explorer(Exploration(fusion))
    assert len(e.view) < 150_000
    view = json.loads(e.view)
    assert view["text"]["total"] > 3000 > len(view["text"]["lines"])
    answer = asked(e, {"kind": "lines", "first": 2990, "count": 5, "token": 1})[-1]
    assert len(answer["text"]["lines"]) == 5
    found = asked(e, {"kind": "find", "query": "name:/^v2998$/", "token": 2})[-1]["found"]
    (place,) = asked(e, {"kind": "places", "ids": found["ids"], "token": 3})[-1]["places"]
    levels = asked(e, {"kind": "levels", "boxes": place["path"][:-1], "token": 4})[-1]["levels"]
    assert place["path"][-1] in {box["id"] for level in levels for box in level["boxes"]}
    assert "classes" in asked(e, {"kind": "part", "name": "numbers", "token": 5})[-1]["part"]
    relus = [asked(e, {"kind": "find", "query": "op:relu", "all": whole, "token": 7})[-1]["found"] for whole in (False, True)]
    assert [(found["count"], len(found["ids"])) for found in relus] == [(3000, 2000), (3000, 3000)]
    examples = asked(e, {"kind": "examples", "token": 8})[-1]["examples"]
    assert len(examples) >= 3 and all(asked(e, {"kind": "find", "query": query, "token": 9})[-1]["found"]["count"] for query, _ in examples)
    assert asked(e, {"kind": "nonsense", "token": 6})[-1]["kind"] == "error"
    e.step = 0
    assert e.step == 0
    with pytest.raises(ArgumentError):
        e.step = 10**6


def test_what_is_selected_can_be_asked_about() -> None:
    text = "graph(%x : Float(8)):\n  %a : Float(8) = aten::relu_(%x)\n  %b : Float(8) = aten::cumsum(%a, %k, %n)\n  return (%b)"
    fusion = irs.fuse(irs.parse(text.replace("graph(%x : Float(8))", "graph(%x : Float(8), %k : int, %n : NoneType)")))
    e = irs.explore(fusion)
    e.selection = ["x", "b"]
    assert [value.name for value in e.selected] == ["x", "b"]
    assert irs.AliasDb(fusion.graph).may_alias(*e.selected).holds is False
    assert e.select("op:cumsum") == e.selected == [fusion.graph.node("b")]
    assert e.selection == [fusion.graph.node("b").id]
    with pytest.raises(ArgumentError):
        e.select("fruit:apple")
    assert e.selection == [fusion.graph.node("b").id]
    assert e.select("writes %x") == e.selected == [fusion.history.initial.node("a")], "a pass removed it"


def test_a_long_answer_is_sent_as_text_beside_its_message() -> None:
    sent: list[tuple[Any, Any]] = []
    e = explorer(lines=lambda message: {"text": "%</script>" * message["count"]})
    e.send = lambda content, buffers=None: sent.append((content, buffers))  # type: ignore[method-assign]
    for count, token in ((1, "short"), (9000, "long")):
        e._handle_custom_msg({"kind": "lines", "count": count, "token": token}, [])
    (short, none), (long, (text,)) = sent
    assert (short["kind"], short["text"], none) == ("lines", "%</script>", None)
    assert long == {"token": "long"}
    assert b"</script" not in text
    assert json.loads(text) == {"token": "long", "kind": "lines", "text": "%</script>" * 9000}


def test_a_short_question_is_answered_while_a_long_part_is_worked_out() -> None:
    begun, may_end, usual = threading.Event(), threading.Event(), sys.getswitchinterval()

    def part(message: Mapping[str, Any]) -> Mapping[str, Any]:
        begun.set()
        may_end.wait(10)
        return {"part": {"title": message["name"], "turn": sys.getswitchinterval()}}

    async def page() -> list[Mapping[str, Any]]:
        e = explorer(part=part, find=lambda message: {"found": message["query"]})
        questions = {"kind": "part", "name": "numbers", "token": "long"}, {"kind": "find", "query": "relu", "token": "short"}
        sent = asked(e, *questions)
        assert begun.wait(10)
        may_end.set()
        while len(sent) < 2:
            await asyncio.sleep(0.01)
        return sent

    short, long = asyncio.run(page())
    assert (short["token"], short["found"]) == ("short", "relu")
    assert (long["token"], long["part"]["title"]) == ("long", "numbers")
    assert long["part"]["turn"] < usual == sys.getswitchinterval(), "other threads wait for a short turn, as long as it lasts"


# Branches: Python and page see the same, what is selected stays, and errors leave everything as it was.


TEXT = ir("x y | a = relu x; b = tanh a; c = mul b y | c", "Float(1000)")


def answer(e: Any, kind: str, **message: Any) -> Any:
    return asked(e, {"token": "1", "kind": kind, **message})[-1]


def shown(e: Any) -> list[str]:
    return json.loads(e.view)["text"]["lines"]


def test_a_branch_is_shown_and_gone_back_from() -> None:
    e = irs.explore(irs.parse(TEXT))
    first, e.selection = shown(e), "b"
    branch = e.what_if(forbid=[("a", "b")])
    assert e.branch == 1 and shown(e) != first and e.selected[0].name == "b"
    assert e.step == branch.fusion.history.count == 1
    assert [each["name"] for each in json.loads(e.branches_view)["branches"]] == ["greedy", "a | b apart"]
    assert irs.diff(*e.branches).counts["changed"] + irs.diff(*e.branches).counts["new"] > 0
    e.branch = e.branches[0]
    assert e.branch == 0 and shown(e) == first
    with pytest.raises(ArgumentError):
        e.branch = 5
    assert e.branch == 0


def test_the_page_asks_by_ids_and_learns_why_not() -> None:
    e = irs.explore(irs.parse(TEXT))
    g = e.branches[0].fusion.original
    ids = [g.value(name).id for name in "ab"]
    assert answer(e, kind="what_if", change={"forbid": [ids], "step": 0})["refused"] == []
    assert json.loads(e.branches_view)["branches"][1]["code"] == 'f = irs.fuse(g)\nf1 = f.what_if(step=0, forbid=[("a", "b")])'
    assert answer(e, kind="branch_diff", first=0, second=1)["diff"]["lines"]
    assert answer(e, kind="what_if", change={"policy": "nonsense"})["kind"] == "error"
    assert answer(e, kind="branch", index=0)["kind"] == "branch" and e.branch == 0
    assert "no arguments are known" in answer(e, kind="measure_branches")["message"]


def test_an_edit_follows_and_a_wrong_text_changes_nothing() -> None:
    e = irs.explore(irs.parse(TEXT))
    e.selection = "b"
    seen: list[Any] = []
    e._bound_to = seen.append
    text = answer(e, kind="written")["text"]
    assert answer(e, kind="edit", text=text.replace("relu", "exp"))["trouble"] is None
    assert e.branch == 1 and e.selected[0].name == "b" and seen[-1].node("aten::exp#0")
    before = bytes(e.view)
    trouble = answer(e, kind="edit", text=text.replace("%a)", "%nope)"))["trouble"]
    line, column = next((k, line.index("%a)") + 1) for k, line in enumerate(text.splitlines(), 1) if "%a)" in line)
    assert (trouble["line"], trouble["column"]) == (line, column) and trouble["hint"]
    assert e.view == before
    with pytest.raises(ParseError):
        e.edit("graph(")
    assert len(e.branches) == 2
