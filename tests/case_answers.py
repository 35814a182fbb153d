"""The answers to case files: one function for each folder of `tests/cases`, which gives the sections that follow the input.

`alias` asks a program questions; `fusion` fuses it; `passes` runs a pipeline over it; `shapes` infers its types; `refused` reads what must
be refused; `damaged` does everything with a program that once ended in an exception of our own. Where torch is installed and all inputs
are tensors of known shape, programs are run before and after, and the caller must not see a difference.

In all but `alias` and `fusion`, a section `lines` has one variant a line, which stands for LINE in the input, with `;` for a new line;
its answer is added after an arrow.
"""

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

import irscope as irs
from irscope._base.results import Verdict
from irscope.analysis.alias import AliasDb
from irscope.analysis.shapes import Shapes, infer
from irscope.errors import IrscopeError
from irscope.ir import BOOL, NOT_CONSTANT, Graph, Node, TensorType, Value
from irscope.ir.text import parse_type
from irscope.ops.node_check import verify
from irscope.ops.registry import op_of
from irscope.runtime.reference import run_reference
from irscope.transforms.base import check_types
from irscope.transforms.fusion import Fusion, fuse
from irscope.transforms.pipeline import Pipelined
from tests.transforms.places import check_places, with_places

Sections = Mapping[str, str]

# -- aliasing ----------------------------------------------------------------------------------------------------------


def alias(sections: Sections) -> dict[str, str]:
    """`questions`: one `question a, b` a line, to which the answer is added after a colon. Where torch.jit.script runs the program
    wrongly, `python` is the same one as a function `f`, and `arguments` are what to call it with (`tests.analysis.alias.test_miscompiles`);
    what torch does with others is in `tests.analysis.alias.test_torch`."""
    graph = irs.parse(sections["input"])
    db = AliasDb(graph)
    asked = [(f"{question} {', '.join(names)}", ask(db, question, names)) for question, names in questions(sections["questions"])]
    return {"questions": "\n".join(f"{line}:  {answer}" for line, answer in asked)}


def questions(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each line's question and the names it asks about."""
    for line in text.splitlines():
        question, _, names = line.partition(":  ")[0].partition(" ")
        yield question, names.split(", ")


def ask(db: AliasDb, question: str, names: list[str]) -> Verdict | str:
    """The verdict; of a question that is not of yes and no, the names of what was found. `a|b` are several values at once."""
    found: Any = getattr(db, question)(*(name.split("|") if "|" in name else name for name in names))
    if isinstance(found, Verdict):
        return found
    told = [db.node_words(each) if isinstance(each, Node) else f"%{db.graph.names[each]}" for each in found]
    return ", ".join(told) or "none"


# -- passes ------------------------------------------------------------------------------------------------------------


def passes(sections: Sections) -> dict[str, str]:
    """`pipeline`: the text of a pipeline. Of several lines, the ops that are left."""

    def run(text: str) -> Pipelined:
        graph = irs.parse(text)
        done = irs.Pipeline(sections["pipeline"])(graph, verify_each=True)
        for arguments in _arguments(graph) if find_spec("torch") is not None and "fuse" not in sections["pipeline"] else ():
            from tests.transforms.same_meaning import observed

            assert observed(graph, deepcopy(arguments)) == observed(done.graph, deepcopy(arguments))
        for record in irs.Pipeline(sections["pipeline"])(irs.parse(with_places(text))).records:
            check_places(record)
        return done

    def left(text: str) -> str:
        ops = [node.op for node in run(text).graph.nodes()]
        return ", ".join(op for op in ops if op not in ("prim::Constant", "prim::ListConstruct")) or "nothing"

    if "lines" in sections:
        return _answered(sections, "", left)
    done = run(sections["input"])
    remarks = [str(remark) for record in done.records for remark in record.remarks]
    return {"output": str(done.graph), "remarks": "\n".join(remarks)}


def fusion(sections: Sections) -> dict[str, str]:
    """`options` (may be missing): keyword arguments of `fuse`; `why`: one question `a, b` a line, to which the answer is added."""
    graph = irs.parse(sections["input"])
    fused = fuse(graph, **_options(sections.get("options", "")))
    verify(fused.graph)
    for record in fused.history.records:
        check_types(record)
    runs = all(node.blocks or node.op == "prim::Constant" or _has_reference(node) for node in graph.nodes())
    for arguments in _arguments(graph) if runs else ():
        given = [np.abs(x) if np.ndim(x) == 1 else x for x in arguments]  # a variance is positive
        results = [run_reference(each, *deepcopy(given)) for each in (graph, fused.graph)]
        for x, y in zip(*results, strict=True):
            np.testing.assert_array_equal(np.asarray(x), np.asarray(y))
    found = {"output": str(fused.graph), "remarks": "\n".join(_remark_line(fused, remark) for remark in fused.remarks)}
    if "why" in sections:
        asked = [line.partition(":  ")[0].strip() for line in sections["why"].splitlines()]
        found["why"] = "\n".join(f"{line}:  {fused.why_not(*map(str.strip, line.split(',')))}" for line in asked)
    return found


def _options(text: str) -> dict[str, Any]:
    pairs = (part.partition("=") for part in text.split())
    return {key: given == "True" if given in ("True", "False") else int(given) if given.isdigit() else given for key, _, given in pairs}


def _remark_line(fusion: Fusion, remark: Any) -> str:
    subject = remark.subject
    planned = next(record.before for record in fusion.history.records if record.name == "fuse-groups")
    if isinstance(subject, Node):
        graph = fusion.graph if remark.kind == "passed" else planned
        told = ", ".join(f"%{graph.names[value]}" for value in subject.outputs) or subject.op
    else:
        told = f"%{planned.names[subject]}"
    return f"{remark.kind} [{remark.rule}] {told}: {remark.because}"


def _has_reference(node: Node) -> bool:
    op = op_of(node)
    return op is not None and op.reference is not None


def _arguments(graph: Graph) -> Iterator[list[Any]]:
    """Random arguments, with each bool on and off; none if an input is not a bool or a tensor of known shape."""
    types = [value.type for value in graph.inputs]
    if all(type == BOOL or (isinstance(type, TensorType) and type.is_static) for type in types):
        for flag in (True, False) if BOOL in types else (True,):
            rng = np.random.default_rng(0)
            yield [flag if type == BOOL else (rng.standard_normal(type.shape) * 4).astype(np.dtype(type.dtype)) for type in types]  # type: ignore[union-attr]


# -- one program, or one of several lines ------------------------------------------------------------------------------


def _answered(sections: Sections, name: str, answer: Callable[[str], str]) -> dict[str, str]:
    """The answer of this name to one program, or an answer to each of several lines."""
    if "lines" not in sections:
        return {name: answer(sections["input"])}
    lines = [line.partition("  →  ")[0] for line in sections["lines"].splitlines()]
    return {"lines": "\n".join(f"{line}  →  {answer(sections['input'].replace('LINE', line.replace('; ', chr(10))))}" for line in lines)}


def shapes(sections: Sections) -> dict[str, str]:
    """`given` (may be missing): the types of the inputs. Of one program, what is known of each value; of several, of the results."""

    def answer(text: str) -> str:
        graph = irs.parse(text)
        types = [parse_type(type) for type in sections.get("given", "").splitlines()]
        found = infer(graph, dict(zip(graph.inputs, types, strict=False)))
        if "lines" in sections:
            return ", ".join(_known(found, value) for value in graph.outputs)
        never = {value for block in found.unreached for node in block.nodes for value in node.outputs}
        made = [value for node in graph.nodes() if node.op != "prim::Constant" for value in node.outputs]
        return "\n".join(_known(found, value) + " (is never made)" * (value in never) for value in made)

    return _answered(sections, "known", answer)


def _known(shapes: Shapes, value: Value) -> str:
    known = shapes.known(value)
    is_known = "" if known is NOT_CONSTANT else f" = {list(known) if isinstance(known, tuple) else known}"
    return f"%{shapes.graph.names[value]} : {shapes.type(value)}{is_known}"


def refused(sections: Sections) -> dict[str, str]:
    """The error that a user sees, of several lines its first line, or that the program is read. `texts` instead of `input` are several
    programs with empty lines between."""

    def answer(text: str) -> str:
        try:
            irs.load(text)
        except IrscopeError as error:
            return f"{type(error).__name__}: {str(error).splitlines()[0] if 'lines' in sections else error}"
        return "is read"

    if "texts" in sections:
        return {"errors": "\n\n".join(answer(text).strip("\n") for text in sections["texts"].split("\n\n"))}
    return _answered(sections, "error", answer)


def damaged(sections: Sections) -> dict[str, str]:
    """What goes wrong in anything that irscope does with the program; `compiled` (may be missing) if it is compiled, too."""
    from tests.oracles.everything import trouble

    return _answered(sections, "trouble", lambda text: trouble(text, compiled="compiled" in sections) or "none")


ANSWERS: Final[Mapping[str, Callable[[Sections], dict[str, str]]]] = {
    "alias": alias, "fusion": fusion, "passes": passes, "shapes": shapes, "refused": refused, "damaged": damaged,
}  # fmt: skip
