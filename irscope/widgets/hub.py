"""What the views of a notebook share: the selection and the front end's code, in widgets that are never displayed."""

from __future__ import annotations

from typing import ClassVar

from irscope.display.front_end import front_end
from irscope.errors import MissingExtra

try:
    import anywidget
    import traitlets
except ImportError as error:
    raise MissingExtra(error.name or "anywidget", extra="lab", purpose="to show linked views in a notebook") from None

__all__ = ["STUB", "Hub", "Runtime"]

_HEADLESS = "export default {}"

STUB = """
export default { async render(props) {
  if (!props.host) throw new Error("irscope needs anywidget 0.11 or newer: pip install --upgrade anywidget, and reload");
  const runtime = await props.host.getModel(props.model.get("runtime"));
  const bundles = (globalThis.irscopeBundles ??= {});
  const load = () => import(URL.createObjectURL(new Blob([runtime.get("code")], { type: "text/javascript" })));
  const bundle = await (bundles[runtime.get("digest")] ??= load());
  return bundle.default.render(props);
} };
"""
"""The code that a view carries itself: it fetches the bundle from the runtime, once a page."""


class Hub(anywidget.AnyWidget):  # type: ignore[misc]
    """The selection and the step that all views of one program share, in the browser and in Python."""

    _esm = _HEADLESS
    selection = traitlets.List(traitlets.Int()).tag(sync=True)
    """Ids of the selected values and nodes, in the order in which they were picked."""
    step = traitlets.Int(0).tag(sync=True)
    """Which state of the program is shown."""


class Runtime(anywidget.AnyWidget):  # type: ignore[misc]
    """The front end's code. Code is part of a widget's state: without this, ten views would carry it ten times."""

    _esm = _HEADLESS
    code = traitlets.Unicode().tag(sync=True)
    digest = traitlets.Unicode().tag(sync=True)
    _shared: ClassVar[Runtime | None] = None

    @classmethod
    def shared(cls) -> Runtime:
        """The one runtime of this kernel; made anew after its widget was closed or the bundle rebuilt."""
        bundle = front_end()
        known = cls._shared
        if known is None or known.comm is None or known.digest != bundle.digest:
            known = cls._shared = cls(code=bundle.script, digest=bundle.digest)
        return known
