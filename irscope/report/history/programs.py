"""The programs of a history by the names users know: as written, pure, fused."""

from __future__ import annotations

from irscope.report.view_models import ProgramStop
from irscope.transforms.history import History

__all__ = ["program_name", "program_stops"]

_WORDS = {"functionalize": "pure", "fuse-groups": "fused", "autodiff-slice": "sliced"}
"""The name of the program after a pass; otherwise the name of the pass."""
_MOST_STOPS = 6


def program_stops(history: History) -> list[ProgramStop]:
    """The program as written and after each of the last few passes that changed it; empty if none did.

    >>> import irscope as irs
    >>> f = irs.fuse(irs.parse('''graph(%x : Float(8)):
    ...   %a : Float(8) = aten::exp(%x)
    ...   %b : Float(8) = aten::relu_(%a)
    ...   return (%b)'''))
    >>> [(stop["label"], stop["state"]) for stop in program_stops(f.history)]
    [('as written', 0), ('pure', 1), ('fused', 2)]
    """
    stops = [
        ProgramStop(label=_WORDS.get(record.name, record.name), state=last, hint=f"the program after {record.name}")
        for record, first, last in zip(history.records, history.ends, history.ends[1:], strict=False)
        if last > first
    ]
    return [ProgramStop(label="as written", state=0, hint="the program as it was loaded"), *stops[-_MOST_STOPS:]] if stops else []


def program_name(history: History, state: int) -> str:
    """The name of the program of a state, for use in a sentence."""
    said = [stop["label"] for stop in program_stops(history) if stop["state"] <= state]
    return f"the program {said[-1]}" if len(said) == 1 else f"the {said[-1]} program" if said else "the program"
