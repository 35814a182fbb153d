"""Widgets that are never displayed: the selection and the front end's code, shared by the views of a notebook."""

import asyncio
import sys
from collections.abc import Callable, Mapping
from contextvars import copy_context
from hashlib import sha256
from threading import Lock
from typing import Any, ClassVar, TypeVar

from irscope.display.html import front_end
from irscope.errors import IrscopeError, MissingExtra

try:
    import anywidget
    import traitlets
except ImportError as error:
    raise MissingExtra(error.name or "anywidget", extra="lab", purpose="to show linked views in a notebook") from None


_HEADLESS = "export default {}"

STUB = """
export default { async render(props) {
  if (!props.host) throw new Error("irscope needs anywidget 0.11 or newer: pip install --upgrade anywidget, and reload");
  const runtime = await props.host.getModel(props.model.get("runtime"));
  const bundles = (globalThis.irscopeBundles ??= {});
  const load = () => import(URL.createObjectURL(new Blob([runtime.get("code")], { type: "text/javascript" })));
  const bundle = await (bundles[runtime.get("digest")] ??= load());
  return bundle.default.render(props);
}, initialize: ({ model }) => () => {
  for (const empty of ["", " "])
    for (const name of ["view", "measured", "branches_view"]) model.set(name, empty, { silent: true });
} };
"""
"""The code in each view: it fetches the bundle from the runtime, once per page. A closed view is emptied, including earlier
values, because Lab's channel to the kernel keeps it alive."""


class _Widget(anywidget.AnyWidget):  # type: ignore[misc]
    """A widget that closes its layout with itself; ipywidgets would keep that widget in the kernel and in the page."""

    _own_layout: Any = None  # None if constructing the widget failed and Python closes it.

    def __init__(self, *args: Any, **traits: Any) -> None:
        super().__init__(*args, **traits)
        self._own_layout = None if "layout" in traits else self.layout

    def close(self) -> None:
        """Remove the widget from the page and from the kernel."""
        super().close()
        if self._own_layout is not None:
            self._own_layout.close()


class View(_Widget):
    """A widget drawn in a page. The page cannot replace the objects that Python gave it."""

    _esm = STUB
    runtime = anywidget.WidgetTrait().tag(sync=True)
    _given: ClassVar[tuple[str, ...]] = ("runtime",)  # Traits whose changes by the page are ignored.

    def set_state(self, sync_data: Mapping[str, Any]) -> None:
        """Called with what a page says."""
        super().set_state({name: value for name, value in sync_data.items() if name not in self._given})

    def display_live(self) -> None:
        """Display the live view alone; its text and picture are another output, which a saved notebook keeps."""
        display_live(self)


def display_live(widget: Any, *, text: bool = False) -> None:
    """Display a widget, by default without its text."""
    from IPython.display import display

    live = widget._repr_mimebundle_()
    if live is not None:
        data, metadata = live if isinstance(live, tuple) else (live, None)
        display({kind: content for kind, content in data.items() if text or kind != "text/plain"}, metadata=metadata, raw=True)


Check = Callable[[Any], Any]
"""Returns the resolved form of a value; raises an IrscopeError if it is invalid."""


class Hub(_Widget):
    """The selection and the step that all views of one program share, in the browser and in Python.

    `checks` validate what either is set to. An invalid value from the page is answered with the current one.
    """

    _esm = _HEADLESS

    def __init__(self, **traits: Any) -> None:
        self.checks: Mapping[str, Check] = {}
        super().__init__(**traits)

    @traitlets.validate("selection", "step")  # type: ignore[untyped-decorator]
    def _checked(self, proposal: Mapping[str, Any]) -> Any:
        """Raises TraitError, upon which traitlets changes nothing."""
        check = self.checks.get(proposal["trait"].name)
        try:
            return proposal["value"] if check is None else check(proposal["value"])
        except IrscopeError as error:
            raise traitlets.TraitError(str(error)) from None

    def set_state(self, sync_data: Mapping[str, Any]) -> None:
        """Called with what a page says."""
        for name, value in sync_data.items():
            try:
                super().set_state({name: value})
            except (traitlets.TraitError, TypeError, ValueError):
                self.send_state(name)

    selection = traitlets.List(traitlets.Int()).tag(sync=True)
    """Ids of the selected values and nodes, in the order of selection."""
    step = traitlets.Int(0).tag(sync=True)
    """The state of the program that is shown."""


class Runtime(anywidget.AnyWidget):  # type: ignore[misc]
    """The front end's code. Code is part of a widget's state: without this, ten views would hold ten copies."""

    _esm = _HEADLESS
    code = traitlets.Unicode().tag(sync=True)
    digest = traitlets.Unicode().tag(sync=True)
    _shared: "ClassVar[Runtime | None]" = None

    @classmethod
    def shared(cls) -> "Runtime":
        """The one runtime of this kernel; created again if its widget was closed or the bundle was rebuilt."""
        code, known = front_end(), cls._shared
        digest = sha256(code.encode()).hexdigest()[:16]
        if known is None or known.comm is None or known.digest != digest:
            known = cls._shared = cls(code=code, digest=digest)
        return known


# Computes slow answers beside the notebook's event loop, which meanwhile answers quick requests.

T = TypeVar("T")


def answer_beside(work: Callable[[], T], tell: Callable[[T], object]) -> None:
    """Call `tell` with the result of `work`. If an event loop is running, `work` runs on another thread and `tell` in the loop."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        tell(work())
        return
    loop.run_in_executor(None, copy_context().run, _yielding, work).add_done_callback(lambda done: tell(done.result()))


_TURN = 0.0005  # Seconds. A message passes through several threads of a kernel, each of which waits so long for work on another one.
_counting = Lock()
_at_work = 0
_usual_turn = 0.0


def _yielding(work: Callable[[], T]) -> T:
    """The result of work beside which the kernel answers: it lets other threads go on after a tenth of Python's usual 5 ms."""
    global _at_work, _usual_turn
    with _counting:
        _at_work += 1
        if _at_work == 1:
            _usual_turn = sys.getswitchinterval()
            sys.setswitchinterval(min(_TURN, _usual_turn))
    try:
        return work()
    finally:
        with _counting:
            _at_work -= 1
            if not _at_work:
                sys.setswitchinterval(_usual_turn)
