"""`%load_ext irscope`: IR text in a cell, and a look at a function.

%%ir g                 parse the cell as IR text, bind it to g and show it
%%ir --edit g          the same in an explorer whose text can be edited; g follows the last edit
%irscope f x y         explore f with example arguments x and y
%irscope f(x, y)       profile the call: how long, where it goes, what fuses, what would help
%irscope torch.compile(f)(x)   explore what the compiler decided about the call
%%irscope              run the cell, and profile the call in its last line
"""

import ast
from typing import Any

from irscope.compilers import decisions
from irscope.display.ipython import register
from irscope.errors import ArgumentError, MissingExtra
from irscope.session import explore, is_compiled, profile


def load(shell: Any) -> None:
    """Register the magics and the rich display with an IPython shell."""
    register(shell)

    def ir(line: str, cell: str) -> Any:
        return _ir(shell, line, cell)

    def irscope(line: str, cell: str | None = None) -> Any:
        return _look(shell, line, cell)

    ir.__doc__ = irscope.__doc__ = (__doc__ or "").partition("\n\n")[2]  # what `%irscope?` shows
    shell.register_magic_function(ir, magic_kind="cell", magic_name="ir")
    shell.register_magic_function(irscope, magic_kind="line_cell", magic_name="irscope")


def show_histories(shell: Any) -> None:
    """Register the timeline as the display of a History in an IPython shell."""
    shell.display_formatter.ipython_display_formatter.for_type_by_name("irscope.transforms.base", "History", _history)


def _history(history: Any) -> None:
    """Display the timeline of a history, or its picture and text without widgets."""
    from IPython.display import display

    try:
        from irscope.widgets.explorer import Timeline
    except MissingExtra:
        from irscope.display.html import static_html
        from irscope.display.text import overview
        from irscope.report.pages.parts import history_view

        view = history_view(history)
        display({"text/html": static_html(view), "text/plain": overview(view)}, raw=True)
    else:
        display(Timeline(history))


def _ir(shell: Any, line: str, cell: str) -> Any:
    """Parse a cell of IR text and bind it to the variable named after `%%ir`, which with `--edit` follows each edit of the text."""
    from irscope.ir.text import parse

    words = line.split()
    edits = "--edit" in words
    name = " ".join(word for word in words if word != "--edit")
    if name and not name.isidentifier():
        raise ArgumentError(f"{name!r} is not a variable name", hint="write %%ir g, or %%ir --edit g")
    graph = parse(cell, file="<cell>")
    if name:
        shell.user_ns[name] = graph
    if not edits:
        return graph
    explorer = explore(graph)
    explorer.edits_into((lambda written: shell.user_ns.__setitem__(name, written)) if name else None)
    return explorer


def _look(shell: Any, line: str, cell: str | None) -> Any:
    """Profile a call, or explore a program with its arguments."""
    if cell is not None:
        return _profile_cell(shell, line, cell)
    return _explore(shell, line) if _call(line) is None else _profile(shell, line)


def _call(text: str) -> ast.Call | None:
    """Return a text's syntax tree if the text is one call; None for anything else."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return None
    return tree if isinstance(tree, ast.Call) else None


def _profile_cell(shell: Any, line: str, cell: str) -> Any:
    """Run all but the last line of a cell, and profile the call in that last line."""
    if line.strip():
        raise ArgumentError("%%irscope takes nothing in its line", hint="write the call as the last line of the cell")
    try:
        body = ast.parse(cell).body
    except SyntaxError as error:
        raise ArgumentError(f"the cell cannot be read: {error}", hint="write Python, with a call in the last line") from None
    last = body[-1] if body else None
    if not (isinstance(last, ast.Expr) and isinstance(last.value, ast.Call)):
        raise ArgumentError("the last line of the cell is not a call", hint="%%irscope profiles it: model(x)")
    lines = cell.splitlines(keepends=True)
    before = "".join(lines[: last.lineno - 1]) + lines[last.lineno - 1][: last.col_offset]
    if before.strip(" \n;"):
        shell.run_cell(before.rstrip(" ;")).raise_error()
    return _profile(shell, ast.unparse(last))


def _profile(shell: Any, line: str) -> Any:
    """Profile a call `f(x, y)`."""
    call = _call(line)
    assert call is not None, "callers check that it is a call"
    function = _evaluate(shell, ast.unparse(call.func))
    if any(isinstance(argument, ast.Starred) for argument in call.args) or any(not named.arg for named in call.keywords):
        raise ArgumentError("%irscope takes no * or ** in a call", hint="name the arguments: %irscope f(x, y)")
    args = [_evaluate(shell, ast.unparse(argument)) for argument in call.args]
    named = {str(each.arg): _evaluate(shell, ast.unparse(each.value)) for each in call.keywords}
    program = function
    if named:

        def program(*given: Any) -> Any:
            return function(*given, **named)

    return explore(decisions(function, *args)) if is_compiled(function) and not named else profile(program, *args)


def _explore(shell: Any, line: str) -> Any:
    """Explore the first expression with the others as example arguments."""
    words = line.split()
    if not words:
        raise ArgumentError("%irscope needs the name of a function or model", hint="%irscope f x y")
    return explore(*(_evaluate(shell, word) for word in words))


def _evaluate(shell: Any, word: str) -> Any:
    try:
        return shell.ev(word)
    except Exception as error:
        what = f"{word!r} cannot be evaluated: {type(error).__name__}: {error}"
    raise ArgumentError(what, hint="%irscope takes words without spaces, such as names: %irscope f x y; or a call: %irscope f(x, y)")
