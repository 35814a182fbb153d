"""The title of a branch and the Python that recreates it, with names that identify the same nodes again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from irscope.errors import IrscopeError
from irscope.ir import Node, Value
from irscope.transforms.fusion import POLICIES, Fusion

__all__ = ["ORIGIN", "called", "changes_of", "named", "policy_code", "quoted"]

ORIGIN = "\0"
"""Placeholder, in the code of a branch, for its parent branch."""


def named(fusion: Fusion, changes: Mapping[str, Any]) -> str:
    """The title of a branch: what it changes."""
    told = []
    if changes.get("policy") is not None:
        policy = changes["policy"]
        told.append(policy if isinstance(policy, str) else getattr(policy, "__name__", "a policy"))
    for what, joined, end in (("forbid", " | ", "apart"), ("force", " + ", "together")):
        told += [f"{joined.join(_short(fusion, each) for each in _listed(several))} {end}" for several in changes.get(what) or ()]
    opaque = changes.get("opaque") or ()
    told += [f"{_short(fusion, each)} opaque" for each in _listed(opaque)]
    distinct = changes.get("distinct")
    if distinct is not None:
        names = "inputs" if isinstance(distinct, bool) else ", ".join(_short(fusion, each) for each in _listed(distinct))
        told.append(f"{names} {'possibly the same' if distinct is False else 'distinct'}")
    told += [f"{_short(fusion, each)} channels-last" for each in _listed(changes.get("channels_last") or ())]
    return "; ".join(told) or "the same"


def _listed(several: Any) -> list[Any]:
    return [several] if isinstance(several, str | Value | Node) else list(several)


def _short(fusion: Fusion, record: Any) -> str:
    if isinstance(record, str):
        return record.lstrip("%")
    value = record if isinstance(record, Value) else next(iter(record.outputs), None)
    if value is None:
        return str(record.op)
    return next((graph.names[value] for graph in (fusion.graph, fusion.original) if value in graph.names), value.name)


def called(fusion: Fusion, changes: Mapping[str, Any]) -> str:
    """The call of `what_if` as code to paste."""
    written = []
    for name, given in changes.items():
        if given is None or (not given and given is not False and name != "step"):
            continue
        if name in ("forbid", "force"):
            written.append(f"{name}=[{', '.join(_entry(fusion, several) for several in given)}]")
        elif name == "policy":
            written.append(f"policy={policy_code(given)}")
        elif name == "step" or isinstance(given, bool):
            written.append(f"{name}={given}")
        else:
            nodes = name == "opaque"
            entries = (_spelled(fusion, one) if nodes else _python(_short(fusion, one)) for one in _listed(given))
            written.append(f"{name}=[{', '.join(entries)}]")
    return f".what_if({', '.join(written)})"


def _entry(fusion: Fusion, several: Any) -> str:
    """The nodes of one entry of `forbid` or `force`: a tuple of names, or a group."""
    if isinstance(several, Node):
        return _spelled(fusion, several)
    names = [_spelled(fusion, one) for one in several]
    return names[0] if len(names) == 1 else f"({', '.join(names)})"


def _spelled(fusion: Fusion, record: Any) -> str:
    """A Python expression that names a record."""
    if isinstance(record, str):
        return _python(record)
    members = fusion._inside(record) if isinstance(record, Node) else None
    if members:
        place = next(index for index, group in enumerate(fusion.groups) if group is record)
        return f"{ORIGIN}.groups[{place}]"
    meant = fusion._find(record)
    value = record if isinstance(record, Value) else next(iter(record.outputs), None)
    for graph in (fusion.original, fusion._plans.rules.graph, fusion.graph):
        name = graph.names.get(value) if value is not None else None
        try:
            if name is not None and fusion._find(name) is meant:
                return _python(name)
        except IrscopeError:
            continue
    return _python(_short(fusion, record))


def _python(name: str) -> str:
    return repr(name) if '"' in name or "\\" in name else f'"{name}"'


def policy_code(policy: Any) -> str:
    name = policy if isinstance(policy, str) else getattr(policy, "__name__", "policy")
    return f'"{name}"' if name in POLICIES else name


def quoted(text: str) -> str:
    """A text as a Python string literal."""
    return f"'''{text}'''" if "'''" not in text and "\\" not in text and not text.endswith("'") else repr(text)


def changes_of(message: Mapping[str, Any], records: Callable[[Iterable[int]], list[Value | Node]]) -> dict[str, Any]:
    """The changes that a page asks for, with ids resolved to records."""
    changes: dict[str, Any] = {}
    for name in ("forbid", "force"):
        if message.get(name):
            changes[name] = [records([int(id) for id in several]) for several in message[name]]
    if message.get("opaque"):
        changes["opaque"] = records([int(id) for id in message["opaque"]])
    for name, kind in (("policy", str), ("step", int)):
        if message.get(name) is not None:
            changes[name] = kind(message[name])
    for name in ("distinct", "channels_last"):
        given = message.get(name)
        if given is not None:
            changes[name] = given if isinstance(given, bool) else [str(one) for one in given]
    return changes
