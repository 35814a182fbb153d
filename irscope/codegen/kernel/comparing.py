"""Two kernels compared: a spec as a graph, and the difference between specs that are the same but for numbers, strides or types."""

import re
from hashlib import blake2b
from typing import Any, Final

from irscope._base.frozen import FrozenDict
from irscope.codegen.kernel.spec import KernelSpec
from irscope.ir import Graph, TensorType, Value
from irscope.ir.builder import GraphBuilder

# A kernel's spec as a graph, so that tools that compare programs can compare kernels.
#
# Each instruction is a node `kernel::…`. An operand is a parameter that a `kernel::read` turns into elements; how it steps along
# the loops is an attribute of that node (`stride_classes`, one for each loop). Properties of the kernel as a whole are returned
# separately (`spec_attributes`). Only the node of the program that an instruction came from is left out.

_SPACE: Final = "kernel::"


def spec_graph(spec: KernelSpec) -> Graph:
    """Return the instructions of a kernel as nodes of a graph."""
    build = GraphBuilder(spec.name)
    params = [build.input(f"x{place}", TensorType(operand.dtype)) for place, operand in enumerate(spec.inputs)]
    made: list[Value] = []
    for place, step in enumerate(spec.instructions):
        name, type = f"t{place}", TensorType(step.dtype)
        if step.op == "const":
            made.append(build.constant(step.number, type, name))
        elif step.op == "input":
            operand = spec.inputs[step.operand]
            attrs: FrozenDict[str, Any] = FrozenDict(kind=operand.kind, stride_classes=operand.pattern)
            made.append(build.op(f"{_SPACE}read", params[step.operand], type=type, name=name, attrs=attrs))
        else:
            operands = [made[arg] for arg in step.args]
            made.append(build.op(f"{_SPACE}{step.op}", *operands, type=type, name=name))
    results = [
        build.op(
            f"{_SPACE}write", made[result.instruction], type=TensorType(result.dtype), name=f"y{place}",
            attrs=FrozenDict(stride_classes=result.pattern),
        )
        for place, result in enumerate(spec.outputs)
    ]  # fmt: skip
    return build.finish(results)


def spec_attributes(spec: KernelSpec) -> dict[str, Any]:
    """Return the properties of a kernel as a whole: loops, row limit, reduced loops and flags."""
    found: dict[str, Any] = {"loops": spec.rank, "static_row_limit": spec.row_limit}
    found |= {"reduced": spec.reduced} if spec.reduced else {}
    return found | {name: True for name in ("nontemporal", "exact", "in_place") if getattr(spec, name)}


# The difference between two kernels that are the same but for numbers, strides of operands, or element types.
#
#     same but for 0.5 → 0.25 at mul#3
#
# Works on the text of a spec (`str(spec)`), so that it can also compare a spec that another process wrote to a file.

LEVELS: Final = ("numbers", "steps", "types")
"""What a skeleton leaves out, each level in addition to those before: numbers; strides of operands and row limits; element types."""
_NUMBER = re.compile(r"^(t\d+ : \w+ = )(-?(?:\d|inf|nan)\S*|True|False)$")
_STEPS = re.compile(r"\[[a-z, ]+\]")
_ROWS = re.compile(r", rows of at most \d+")
_READ = re.compile(r"\bt(\d+)\b")


def skeleton(text: str, level: str) -> str:
    """Return a digest of a spec's text that is equal for specs that differ only in what the level leaves out.

    >>> a = "1 loop\\nt0 : float32 = x0[unit]\\nt1 : float32 = 0.5\\nt2 : float32 = mul(t0, t1)\\ny0[unit] : float32 = t2"
    >>> skeleton(a, "numbers") == skeleton(a.replace("0.5", "0.25"), "numbers")
    True
    """
    lines = [_NUMBER.sub(r"\1#", line) for line in text.split("\n")]
    if level != "numbers":
        lines = [_ROWS.sub("", _STEPS.sub("[]", line)) for line in lines]
    if level == "types":
        lines = [re.sub(r" : \w+ = ", " : T = ", line) for line in lines]
    return blake2b("\n".join(lines).encode(), digest_size=8).hexdigest()


def spec_difference(new: str, old: str) -> str:
    """Describe the changes from an old spec to a new one with the same skeleton.

    >>> a = "1 loop\\nt0 : float32 = x0[unit]\\nt1 : float32 = 0.5\\nt2 : float32 = mul(t0, t1)\\ny0[unit] : float32 = t2"
    >>> spec_difference(a.replace("0.5", "0.25"), a)
    'same but for 0.5 → 0.25 at mul#0'
    """
    lines, before = new.split("\n"), old.split("\n")
    if len(lines) != len(before):
        return "built differently"
    changes = []
    for place, (line, other) in enumerate(zip(lines, before, strict=True)):
        if line == other:
            continue
        ours, theirs = _NUMBER.match(line), _NUMBER.match(other)
        if ours and theirs and ours.group(2) != theirs.group(2):
            changes.append(f"{theirs.group(2)} → {ours.group(2)} at {_first_user(lines, place)}")
        elif ours or theirs or place:
            changes.append(f"`{other}` → `{line}`")
        else:
            changes.append(f"{other} → {line}")
    if not changes:
        return "the same"
    more = f" and in {len(changes) - 3} more places" if len(changes) > 3 else ""
    return f"same but for {', '.join(changes[:3])}{more}"


def _first_user(lines: list[str], place: int) -> str:
    """Return the first user of a constant, with its number among the instructions of its kind."""
    own = lines[place].split(" ", 1)[0]
    counts: dict[str, int] = {}
    for line in lines[1:]:
        found = re.match(r"t\d+ : \w+ = (\w+)\((.*)\)$", line)
        if found is None:
            continue
        number = counts.get(found.group(1), 0)
        counts[found.group(1)] = number + 1
        if own in {f"t{arg}" for arg in _READ.findall(found.group(2))}:
            return f"{found.group(1)}#{number}"
    return "a result"
