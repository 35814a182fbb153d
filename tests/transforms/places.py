"""Where each node came from, before and after a pass."""

from __future__ import annotations

from irscope.ir import GROUPS
from irscope.transforms.base import PassRecord


def with_places(text: str) -> str:
    """The same program, each node with a module and a line that it came from."""
    lines = enumerate(text.splitlines())
    return "\n".join(f"{line}, scope: m{at} # model.py:{at}:0" if " = " in line else line for at, line in lines)


def check_places(record: PassRecord) -> None:
    """A value of both graphs has a producer from the same place in the user's source and modules, or a group, which is of many places."""
    producers = {value: node for node in record.before.nodes() for value in node.outputs}
    for node in (node for node in record.after.nodes() if node.op not in GROUPS):
        for old in {producers[value] for value in node.outputs if value in producers}:
            kept = node.location == old.location and node.scope == old.scope
            assert kept, f"{record.name} lost where {old!r} came from: make {node!r} with replace(old, id=new_id(), ...), or give its place"
