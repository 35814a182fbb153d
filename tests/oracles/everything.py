"""Everything that irscope does with a program that was read, one after the other, for oracles that look for crashes and hangs."""

import contextlib
import itertools
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import irscope as irs
from irscope.errors import IrscopeError, ParseError

_PASSES = "fold-constants,functionalize,fold-tensors,canonicalize,cse,pool-constants,dce"


def verbs(graph: irs.Graph, *, compiled: bool) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Each verb with a call of it; a later one works on what the graph is, not on what an earlier one gave."""
    from irscope.display.html import standalone_html
    from irscope.display.svg import embedded_svg, graph_svg
    from irscope.report.pages.exploration import Exploration
    from irscope.report.panes.program_view import graph_view

    yield "print", lambda: irs.parse(str(graph))
    yield "alias", lambda: _asked(graph)
    yield "views", lambda: irs.ViewAliases(graph).table()
    yield "html", lambda: embedded_svg(graph_svg(graph_view(graph)), "")
    yield "functionalize", lambda: irs.functionalize(graph)
    yield "passes", lambda: irs.Pipeline(_PASSES)(graph, verify_each=True)
    yield "autodiff", lambda: irs.autodiff_subgraphs(graph)
    yield "dedup", lambda: irs.dedup(graph)
    yield "fuse", lambda: irs.fuse(graph)
    yield "fuse again", lambda: irs.fuse(irs.fuse(graph).graph)
    yield "report", lambda: standalone_html(Exploration(irs.fuse(graph)))
    yield "report of fused", lambda: standalone_html(Exploration(irs.fuse(irs.parse(str(irs.fuse(graph).graph)))))
    if compiled:
        yield "compile", lambda: irs.compile(irs.fuse(graph)).kernels
        yield "reference", lambda: irs.compile(graph, device="reference")


def _asked(graph: irs.Graph) -> None:
    db = irs.AliasDb(graph)
    values = list(itertools.islice(graph.values(), 12))
    for a, b in itertools.combinations(values, 2):
        db.explain(a, b)
        db.may_contain_alias(a, b)
        db.safe_to_change_aliasing(a, b)
    for value in values:
        db.has_writers(value)
        db.points_to(value)
    for node, point in itertools.pairwise(itertools.islice(graph.nodes(), 12)):
        db.has_writers(node)
        if graph.block_of[node] is graph.block_of[point]:
            db.can_move_after(node, point)
            db.can_move_before(point, node)


def trouble(text: str, *, compiled: bool = False) -> str:
    """What goes wrong with a text beyond errors of irscope's own: the verb, the exception and where it was raised; or nothing."""
    verb = "load"
    try:
        graph = irs.load(text)
        for name, run in verbs(graph, compiled=compiled):
            verb = name
            with contextlib.suppress(IrscopeError):
                run()
    except ParseError as error:
        inside = 1 <= error.line <= text.count("\n") + 2
        return "" if inside and (error.where or error.hint or "end of the text" in error.what) else f"load: nothing to go by: {error}"
    except IrscopeError:
        return ""
    except Exception as error:
        places = [f for f in traceback.extract_tb(error.__traceback__) if "/irscope/" in f.filename]
        place = places[-1] if places else traceback.extract_tb(error.__traceback__)[-1]
        return f"{verb}: {type(error).__name__} at {Path(place.filename).name}:{place.lineno} {place.name}: {str(error)[:120]}"
    return ""
