"""Functionalization: replaces in-place ops by their functional variants where the difference is not observable.

A program that writes only memory of its own, all of whose names are known, is equivalent to a program without writes: `a`
before the write and `a` after it are two values. This pass gives them two names, so that the ops can fuse.

**Soundness.** Let `b` be a fresh tensor, the result of an op that returns new memory, or of an if each branch of which
creates one and passes it on nowhere else (`alias_families`). Until the first *capture*, every name of its memory is a member
of its family, so every read and every write of the memory is through a member, at a place of the program that we see. Each
read looks up the member as of that place (`versions`): the elements are those that the memory would have. By induction over
the run:

1. A write that becomes its functional variant computes, from the elements before, the elements after, at the strides before
   (`pure_ops`). They are the next version of the base, directly, or put into a copy of the whole where the member is a part.
   Views are taken again of the new version, at the same strides, and so have the elements they would have.
2. An op that stays in place writes the memory of the version current at that point, through a name that shares this memory;
   the version stays, so all later reads see it. The result of a functional variant for a part is read instead of the part only
   until then, and only by ops whose result keeps its layout.
3. A capture passes out the memory of the version current at that point. No write that becomes functional can run later, on any
   path from there, in the text or in another iteration of a loop around both (`alias_families`): the version, and with it the
   memory, is the one that all later names denote. So writes through unseen names are seen, and unseen names see all writes.
4. Ifs and loops with writes pass the version on as an additional result. Its memory is that of the version of the branch
   taken, or of the last iteration.

Inputs, constants, parameters of blocks and results of unknown origin have no family, so writes to them stay: the caller
finds its arguments written as before. Two names that were one memory are one memory afterwards.

**Limits.** An error is lost: torch refuses `x.add_(y)` where the sum is of a higher kind than `x` (a float into whole
numbers); where the types do not show this, the functional variant converts. Not handled are tensors that loops carry
(captures), and writes through `expand` and similar views, and through `detach`, which autograd must not see. Memory grows: an
in-place write becomes a new tensor. And a write of a part copies the whole, which pays only if the copy is fused or the part
is most of it: `scatter=False` leaves those in place.

**Unknown layouts** (types without strides): `aten::copy(x, f(x))` replaces `f_(x)`. In a fusion group that copy costs
nothing, and `canonicalize` removes it when the types are known.

Source of the idea: PyTorch's functionalization (2021), which works by tracing; here it is decided on the program.
"""

from collections.abc import Container

from irscope._base.nested import grouped
from irscope._base.words import plural
from irscope.errors import public
from irscope.ir import Graph, Node, Value, graph_of
from irscope.ops.registry import effect_of
from irscope.transforms.base import PassRecord, Remark, timed
from irscope.transforms.functionalize.alias_families import Escape, Families, Write
from irscope.transforms.functionalize.rewrite import renamed
from irscope.transforms.grouping import Refusal


@public
@timed
def functionalize(graph: Graph, *, scatter: bool | Container[Value] = True) -> PassRecord:
    """Replace in-place ops by their functional variants where only the names of values change; linear.

    Writes to inputs stay. One `missed` remark per obstacle says what stays in place, and why. With `scatter` a write
    through `select` or `slice` becomes a copy of the whole with the part replaced; given a set of values, only for base
    tensors in that set. A second run finds nothing more.

    >>> import irscope as irs
    >>> g = irs.parse('''graph(%x : Float(4)):
    ...   %a : Float(4) = aten::neg(%x)
    ...   %b : Float(4) = aten::relu_(%a)
    ...   %c : Float(4) = aten::mul(%a, %x)
    ...   return (%c)''')
    >>> print(functionalize(g).after)
    graph(%x : Float(4)):
      %a : Float(4) = aten::neg(%x)
      %b : Float(4) = aten::relu(%a)
      %c : Float(4) = aten::mul(%b, %x)
      return (%c)
    """
    graph = graph_of(graph, "functionalize")
    if not any(effect_of(node) == "in-place" for node in graph.nodes()):
        return PassRecord("functionalize", graph, graph)
    families = Families(graph, scatter=scatter)
    kept = sorted((write for family in families.all for write in family.writes), key=lambda write: write.time)
    after, edits = renamed(families, kept) if kept else (graph, [])
    remarks = (*map(_passed, kept), *_missed(families))
    return PassRecord("functionalize", graph, after, tuple(edits), remarks)


def why_in_place(graph: Graph) -> dict[Node, str]:
    """Says of each write that stays in place what keeps it there, where that is known."""
    families = Families(graph, scatter=True)
    found = {node: refusal.because for node, refusal in families.refusals}
    whole = {write.node for family in Families(graph, scatter=False).all for write in family.writes}
    part = "it writes a part, and a copy of the whole pays only where one kernel computes all of it; irs.functionalize makes that copy"
    for family in families.all:
        found.update({write.node: _captured(graph, capture).because for capture, write in family.late})
        for write in family.writes:
            found[write.node] = "functionalize, which did not run, changes this" if write.node in whole else part
    return found


def _passed(write: Write) -> Remark:
    subject = write.node.outputs[0] if write.node.outputs else write.node
    return Remark("passed", "pure-twin", subject, f"{write.node.op} became its functional variant {write.twin.op}", (write.node,))


def _missed(families: Families) -> list[Remark]:
    """Returns one remark for each obstacle, at the first write that it keeps in place."""
    alike = grouped(((refusal.rule, *(refusal.evidence or (node.op,))), (node, refusal)) for node, refusal in families.refusals)
    found = [(*refusals[0], len(refusals)) for refusals in alike.values()]
    late = grouped(sorted((pair for family in families.all for pair in family.late), key=lambda pair: pair[1].time))
    for capture, writes in late.items():
        found.append((writes[0].node, _captured(families.graph, capture), len(writes)))
    found.sort(key=lambda item: families.graph.position[item[0]])
    return [_remark(*item) for item in found]


def _captured(graph: Graph, capture: Escape) -> Refusal:
    value = capture.member.value
    name = f"%{graph.names[value]}"
    if capture.node is None:
        owner = graph.owner.get(capture.block)
        whose = f"a result of a block of {owner.op}" if owner else "a result of the graph"
        return Refusal("captured", f"{name} is {whose}, and may be written under another name or in another iteration", (value,))
    outputs = "".join(f" (%{graph.names[output]})" for output in capture.node.outputs[:1])
    because = f"{capture.node.op}{outputs} may keep {name}, and it is written later; it could keep a clone()"
    return Refusal("captured", because, (value, capture.node))


def _remark(node: Node, refusal: Refusal, count: int) -> Remark:
    more = f" ({plural(count, 'write')})" if count > 1 else ""
    subject = node.outputs[0] if node.outputs else node
    return Remark("missed", refusal.rule, subject, f"{refusal.because}{more}", (node, *refusal.evidence))
