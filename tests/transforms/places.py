"""Where each node came from, before and after a pass."""

from irscope.ir import GROUPS
from irscope.transforms.base import PassRecord


def with_places(text: str) -> str:
    """The same program, each node with a module and a line that it came from."""
    lines = enumerate(text.splitlines())
    return "\n".join(f"{line}, scope: m{at} # model.py:{at}:0" if " = " in line else line for at, line in lines)


def check_places(record: PassRecord) -> None:
    """A value of both graphs has a producer from the same place in the user's source and modules, or from that of a node before it
    that it has replaced as well, or a group, which is of many places."""
    producers = {value: node for node in record.before.nodes() for value in node.outputs}
    after = list(record.after.nodes())
    there = {value for node in after for value in node.outputs}
    for node in (node for node in after if node.op not in GROUPS):
        for old in {producers[value] for value in node.outputs if value in producers}:
            replaced = [old]
            for gone in replaced:
                replaced += [producers[value] for value in gone.inputs if value in producers and value not in there]
            kept = any(node.location == place.location and node.scope == place.scope for place in replaced)
            assert kept, f"{record.name} lost where {old!r} came from: make {node!r} with replace(old, id=new_id(), ...), or give its place"
