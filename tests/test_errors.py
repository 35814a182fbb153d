"""Errors say what, where, why and what now; a notebook shows the message and no traceback of ours."""

import inspect

import pytest

from irscope import errors


def test_every_error_is_an_irscope_error_and_is_in_the_tree() -> None:
    defined = {name: thing for name, thing in vars(errors).items() if getattr(thing, "__module__", "") == errors.__name__}
    classes = {name: thing for name, thing in defined.items() if inspect.isclass(thing)}
    for name, error in classes.items():
        assert issubclass(error, errors.IrscopeError)
        assert name in (errors.__doc__ or "")


def test_a_notebook_shows_one_message() -> None:
    pytest.importorskip("IPython")
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output

    shell = InteractiveShell()
    with capture_output() as shown:
        shell.run_cell("import irscope as irs\nirs.parse('graph(%x : Tensor):\\n  %y : Tensor = aten::relu(%x')")
    text = shown.stdout + shown.stderr
    assert "ParseError" in text and "^" in text and "parser.py" not in text
    assert "Traceback" not in text


@pytest.mark.parametrize(("raised", "said"), [
    (ModuleNotFoundError("No module named 'resvg_py'", name="resvg_py"), "and it is not installed"),
    (ModuleNotFoundError("No module named 'resvg_py.core'", name="resvg_py.core"), "and it is not installed"),
    (ImportError("resvg_py.so: failed to map segment from shared object\nmore"), "cannot be loaded: resvg_py.so: failed to map segment"),
    (ModuleNotFoundError("No module named 'numpy'", name="numpy"), "cannot be loaded: No module named 'numpy'"),
], ids=["missing", "a part is missing", "no memory", "what it needs is missing"])  # fmt: skip
def test_a_package_that_cannot_be_loaded_is_not_called_missing(raised: ImportError, said: str) -> None:
    try:
        raise raised
    except ImportError:
        told = errors.MissingExtra("resvg-py", extra="lab", purpose="to draw a PNG")
    assert said in str(told) and "more" not in told.what
    assert ("pip install 'irscope[lab]'" in told.hint) == said.endswith("not installed")
