"""`irs.story`: a story of any program that `explore` takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from irscope.files import read_text
from irscope.teaching.stories.recorded import Story

__all__ = ["story"]


class _StoryVerb:
    """Record a walk through a program, and replay it.

    Takes anything that `irs.explore` takes. The result shows the explorer with a bar: "add this view" records the
    selection, the step, the open boxes, the colour, the pane and a sentence in Markdown; steps can be reordered, edited
    and played with `n` and `p`. `s.add(text, selection=...)` does the same in Python. `s.save("x.html")` writes one
    page that plays from disk with no kernel, `s.save("x.ipynb")` a notebook, `s.save("x.json")` the steps, which
    `irs.story.read("x.json", program)` applies to the current program; `s.check()` lists names that it no longer has.

    >>> import irscope as irs
    >>> g = irs.parse("graph(%x : Tensor):\\n  %y : Tensor = aten::relu(%x)\\n  return (%y)")
    >>> s = irs.story(g)
    >>> s.add("It all begins with **%x**.", selection="x")
    >>> print(s)
    graph
    1. It all begins with **%x**.   [%x]
    """

    def __call__(
        self, source: Any, *example_args: Any, title: str = "", measure: bool = False, **options: Any
    ) -> Story:
        from irscope.session import exploration

        found = exploration(source, example_args, measure="at once" if measure else "never", **options)
        return Story(found, title or found.graph.name)

    def read(self, path: str | Path, source: Any, *example_args: Any, **options: Any) -> Story:
        """Apply a saved story to a program, which may have changed: `check()` lists names in the steps that it no longer has.

        Raises LoadError for a file that cannot be read or is not a story.
        """
        text = read_text(path, hint="give what s.save('x.json') wrote", kind="a story")
        return self(source, *example_args, **options).load(text)

    def __repr__(self) -> str:
        return "irs.story: a recorded walk through a program"


story = _StoryVerb()
