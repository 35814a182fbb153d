"""What many models have in common, as a page or a cell: classes, models × classes, near misses, and ops that never fuse.

The page has no script: pictures link to rows, and each class unfolds to its members and its text. A cell has the pictures as
images, which survive a notebook's sanitizer.
"""

from collections.abc import Sequence
from typing import Final, TypedDict

from irscope._base.words import byte_count, in_markup, plural
from irscope.display.html import plain_page
from irscope.display.svg import WIDTH, cut, embedded_svg, picture, rect, text


class SurveyedClass(TypedDict):
    """A class of equal groups."""

    number: int
    members: int
    models: int
    ops: str
    before: int
    after: int
    saved_s: float
    text: str
    where: list[str]  # A line for each listed member, and one with the number of the others.


class SurveyView(TypedDict):
    """The data of the page."""

    title: str
    summary: str
    classes: list[SurveyedClass]
    rest: int  # The number of classes not listed.
    models: list[str]  # The rows of the matrix.
    columns: list[int]  # Its columns: numbers of classes.
    cells: list[list[int]]  # The number of members of each class in each model.
    tables: list[tuple[str, list[str], list[list[str]]]]  # Heading, column names and formatted rows.


_ROW: Final = 18
_MOST: Final = 20


def survey_html(view: SurveyView) -> str:
    body = [f"<h1>{in_markup(view['title'])}</h1><p>{in_markup(view['summary'])}</p>"]
    if view["classes"]:
        body += ["<h2>Classes by members, and the bytes they move</h2>", _classes_svg(view, linked=True)]
        body += ["<h2>Models × classes</h2>", _matrix_svg(view, linked=True)]
    body += [f"<h2>{in_markup(heading)}</h2>{_table(names, rows)}" for heading, names, rows in view["tables"]]
    if view["classes"]:
        body += ["<h2>Each class</h2>", *map(_class_details, view["classes"])]
        if view["rest"]:
            body.append(f"<p>and {plural(view['rest'], 'class', 'classes')} more: <code>survey.classes</code> has all</p>")
    return plain_page(view["title"], "survey", "\n".join(body))


def survey_cell(view: SurveyView) -> str:
    """The same for a notebook's cell."""
    parts = [f"<p><b>{in_markup(view['title'])}</b> · {in_markup(view['summary'])}</p>"]
    if view["classes"]:
        parts.append(embedded_svg(_classes_svg(view), "classes by members and bytes"))
        matrix = embedded_svg(_matrix_svg(view), "models and classes")
        parts.append(f"<details><summary>Models × classes</summary>{matrix}</details>")
    for heading, names, rows in view["tables"]:
        parts.append(f"<details><summary>{in_markup(heading)}</summary>{_table(names, rows[:20])}</details>")
    return "".join(parts)


def _classes_svg(view: SurveyView, *, linked: bool = False) -> str:
    """The classes with the most members, with the bytes they move op by op (grey) and fused."""
    shown = view["classes"][:_MOST]
    members = max(each["members"] for each in shown)
    moved = max(max(each["before"] for each in shown), 1)
    parts = [text(24, 13, "class and its ops", "q"), text(330, 13, "members, and in how many models", "q"),
             text(600, 13, "bytes op by op (grey) and fused", "q")]  # fmt: skip
    for place, each in enumerate(shown):
        y = 22 + place * _ROW
        label = f"class {each['number']}: {plural(each['members'], 'member')} in {plural(each['models'], 'model')}: {each['ops']}"
        row = [text(20, y + 12, str(each["number"]), "q", "end"), text(26, y + 12, cut(each["ops"], 296), "m")]
        row.append(rect(330, y + 3, 170 * each["members"] / members, _ROW - 6, "b", label))
        row.append(text(336 + 170 * each["members"] / members, y + 12, f"{each['members']:,} in {each['models']:,}", "q"))
        for kind, amount, inset in (("e", each["before"], 3), ("a", each["after"], 6)):
            row.append(rect(600, y + inset, 160 * amount / moved, _ROW - 2 * inset, kind, f"{byte_count(amount)}"))
        row.append(text(606 + 160 * each["before"] / moved, y + 12, byte_count(each["before"] - each["after"]) + " less", "q"))
        parts.append(_link("".join(row), f"#class-{each['number']}") if linked else "".join(row))
    return picture(28 + len(shown) * _ROW, parts, "classes by members and bytes")


def _matrix_svg(view: SurveyView, *, linked: bool = False) -> str:
    """A cell for each model and class, darker for more members."""
    left, top, row = 230.0, 24.0, 13.0
    size = min(22.0, (WIDTH - left) / max(len(view["columns"]), 1))
    parts = [text(4, 12, f"{plural(len(view['models']), 'model')} × {plural(len(view['columns']), 'class', 'classes')}", "q")]
    for x, number in enumerate(view["columns"]):
        if size > 12 or x % 5 == 0:
            head = text(left + size * (x + 0.5), 18, str(number), "q", "middle")
            parts.append(_link(head, f"#class-{number}") if linked else head)
    for y, (model, cells) in enumerate(zip(view["models"], view["cells"], strict=True)):
        parts.append(text(left - 6, top + row * y + 10, cut(model, left - 12), "", "end"))
        for x, count in enumerate(cells):
            if count:
                title = f"{model}: {plural(count, 'member')} of class {view['columns'][x]}"
                shade = min(1.0, 0.35 + 0.13 * count.bit_length())
                parts.append(f'<g opacity="{shade:.2f}">{rect(left + size * x, top + row * y, size - 1, row - 1, "b", title)}</g>')
    return picture(top + row * len(view["models"]) + 6, parts, "models and classes")


def _link(inside: str, target: str) -> str:
    return f'<a href="{target}">{inside}</a>'


def _class_details(each: SurveyedClass) -> str:
    where = "".join(f"<li>{in_markup(line)}</li>" for line in each["where"])
    program = f"<pre>{in_markup(each['text'])}</pre>" if each["text"] else ""
    told = f"{plural(each['members'], 'member')} in {plural(each['models'], 'model')}"
    if each["saved_s"]:
        told += f", saves {each['saved_s']:.2g} s of compiling"
    return (
        f'<details id="class-{each["number"]}"><summary>class {each["number"]}: {in_markup(each["ops"])} · {told}</summary>'
        f"<ul>{where}</ul>{program}</details>"
    )


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return "<p>none</p>"
    head = "".join(f"<th>{in_markup(name)}</th>" for name in names)
    body = "".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _cell(words: str) -> str:
    kind = ' class="n"' if words.replace(",", "").replace(".", "").removesuffix(" s").isdigit() else ""
    return f"<td{kind}>{in_markup(words)}</td>"
