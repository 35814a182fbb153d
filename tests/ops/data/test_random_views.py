"""Every view op on random layouts, against torch: extents, strides, elements, and what is refused.

Where less is known of the operand and the arguments, less is said of the result, and nothing that is wrong.
"""

import random
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from irscope.errors import ArgumentError
from irscope.ir import INT, TensorType
from irscope.ops.registry import overloads
from irscope.ops.traits import INVERSES, LIKE_ANOTHER, MAY_COPY, PUTS_BACK
from irscope.ops.type_rules import Unknown
from irscope.ops.view_steps import KINDS, SCHEMAS, lower

from irscope.ops.view_steps.steps import (  # isort: skip
    Cut, Dense, Diagonal, Drop, Expand, Insert, Joined, Paired, Permute, Pick, Place, Regroup, Retyped, Window,
)  # fmt: skip
from tests.ops.oracle import the_op

torch = pytest.importorskip("torch")

from tests.random_programs.view_chains import call_torch, random_call, random_tensor  # noqa: E402

Arguments = dict[str, Any]


def drawn(name: str, rng: random.Random) -> tuple[Any, str, list[Any], Arguments]:
    """A tensor, an overload of an op, and arguments, also by name; at times one of their numbers is another, which may not fit."""
    while True:
        like = random_tensor(rng)
        made = random_call(name.partition("::")[2], like, rng)
        if made is None or like.numel() > 1000:
            continue
        overload, given = made
        numbers = [place for place, each in enumerate(given) if each.__class__ is int and name != "aten::contiguous"]
        if numbers and rng.random() < 0.15:
            given[rng.choice(numbers)] += rng.choice([-1, 1])
        names = next(schema.arguments[1:] for schema in overloads(name) if schema.overload == overload)
        reach = sum((size - 1) * step for size, step in zip(like.shape, like.stride(), strict=True) if size)
        x = torch.arange(reach + 100.0).as_strided(like.shape, like.stride())
        return x, overload, given, {argument.name: each for argument, each in zip(names, given, strict=False)}


def torch_result(op: str, overload: str, x: Any, given: list[Any]) -> list[Any] | None:
    """What torch's op gives, None where it refuses."""
    try:
        found = call_torch(op, overload, x, given)
    except (RuntimeError, IndexError, ValueError, TypeError):
        return None
    return list(found) if isinstance(found, list | tuple) else [found]


def typed(value: Any) -> Any:
    return TensorType("float32", tuple(value.shape)) if isinstance(value, torch.Tensor) else value


ELSEWHERE = {"imag", "view_as_real", "view_as_complex", "detach_"}
"""Ops of complex numbers, and one that torch refuses on views."""


def array(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return (torch.empty(value.shape) if value.device.type == "meta" else value).numpy()


@pytest.mark.filterwarnings("ignore:.*(0-D tensors|dimension other than 2)")
@pytest.mark.parametrize("name", sorted(name for name in SCHEMAS if name.partition("::")[2] not in ELSEWHERE))
def test_a_view_has_the_layout_that_torch_gives_it(name: str) -> None:
    rng, rule, op = random.Random(name), the_op(name), name.partition("::")[2]
    taken = refused = 0
    for _ in range(250):
        x, overload, positional, given = drawn(name, rng)
        shape, strides = tuple(x.shape), x.stride()
        wanted = torch_result(op, overload, x, positional)
        known = {key: typed(value) for key, value in given.items()}
        told = f"{name} of {shape} {strides}: {given}"
        try:
            found = rule.type_rule(self=TensorType("float32", shape, strides), **known)
        except ArgumentError:
            assert wanted is None, told
            refused += 1
            continue
        assert wanted is not None, told
        pieces = found if isinstance(found, list) else [found]
        assert [(it.shape, it.strides) for it in pieces] == [(tuple(it.shape), it.stride()) for it in wanted or ()], told
        taken += 1
        if 0 not in shape:  # NumPy knows no memory behind an array without elements
            memory = np.arange(x.untyped_storage().nbytes() // 4, dtype=np.float32)
            own = as_strided(memory, shape, [4 * step for step in strides])
            arrays = rule.reference(self=own, **{key: array(value) for key, value in given.items()})
            for seen, its in zip(arrays if isinstance(arrays, list) else [arrays], wanted or (), strict=True):
                assert seen.shape == tuple(its.shape) and (seen == its.numpy()).all(), told
                is_view = its.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
                assert not seen.size or np.may_share_memory(seen, memory) == is_view, told
        with_less_known(rule.type_rule, rng, shape, known, pieces)
    assert taken > 20, f"{taken} taken, {refused} refused"


def with_less_known(rule: Any, rng: random.Random, shape: tuple[int, ...], given: Arguments, pieces: list[TensorType]) -> None:
    """What is said when some numbers are not known is true of these."""
    hidden = tuple(None if rng.random() < 0.4 else dim for dim in shape)
    fewer = {key: Unknown(INT) if value.__class__ is int and rng.random() < 0.3 else value for key, value in given.items()}
    for self in (TensorType("float32", hidden), TensorType("float32")):
        found = rule(self=self, **fewer)
        if isinstance(found, Unknown):
            continue
        for said, true in zip(found if isinstance(found, list) else [found], pieces, strict=True):
            assert said.shape is None or len(said.shape) == len(true.shape or ()), (self, fewer)
            assert all(a in (None, b) for a, b in zip(said.shape or (), true.shape or (), strict=False)), (self, fewer, said, true)
            assert said.strides in (None, true.strides), (self, fewer, said, true)


STEPS: dict[str, tuple[type, ...]] = {
    "same place": (Dense,), "unit axes": (Insert, Drop), "regroup": (Regroup, Dense), "stretch": (Expand,), "exchange": (Permute,),
    "part": (Pick, Cut), "diagonal": (Diagonal,), "cuts": (Pick, Cut), "window": (Place, Window), "placed": (Place,),
    "another type": (Permute, Paired, Joined, Retyped),
}  # fmt: skip


@pytest.mark.parametrize("kind", STEPS)
def test_the_kind_of_a_view_is_that_of_its_steps(kind: str) -> None:
    rng, seen = random.Random(kind), set[type]()
    for name in sorted(name for name in KINDS if KINDS[name] == kind):
        may_copy = False
        for _ in range(60):
            x, _, _, given = drawn(name, rng)
            found = lower(name, tuple(x.shape), rng.choice(["float32", "complex64"]), "cpu", given)
            steps = [step for each in found or () if not isinstance(each, str) for step in each]
            assert {step.__class__ for step in steps} <= set(STEPS[kind]), (name, x.shape, given)
            seen.update(step.__class__ for step in steps)
            may_copy |= any(isinstance(step, Dense) or (isinstance(step, Regroup) and step.may_copy) for step in steps)
        assert may_copy == (name in MAY_COPY), name
    assert seen == set(STEPS[kind]) - {Retyped}


@pytest.mark.parametrize("name", sorted(INVERSES | PUTS_BACK))
def test_an_inverse_leads_back(name: str) -> None:
    rng, op = random.Random(name), name.partition("::")[2]
    view, inverse = (getattr(torch.ops.aten, its.partition("::")[2]) for its in (name, (INVERSES | PUTS_BACK)[name]))
    tried = 0
    for _ in range(250):
        x, overload, given, _ = drawn(name, rng)
        found = torch_result(op, overload, x, given)
        if found is None:
            continue
        tried += 1
        if name in PUTS_BACK:
            back = inverse(x, torch.full_like(found[0], -7), *given)
            assert (view(back, *given) == -7).all() and (back == -7).sum() == found[0].numel()
            assert back.shape == x.shape and (back[back != -7] == x[back != -7]).all()
        else:
            back = inverse(found[0], *([x] if INVERSES[name] in LIKE_ANOTHER else given))
            assert back.shape == x.shape and torch.equal(back, x) and back.data_ptr() == x.data_ptr()
    assert tried > 50


@pytest.mark.parametrize("name", ["real", "imag", "view_as_real", "view_as_complex"])
def test_the_element_type_of_a_view_of_unknown_rank(name: str) -> None:
    x = torch.rand(2, 2) if name == "view_as_complex" else torch.rand(2, dtype=torch.complex64)
    op = the_op(f"aten::{name}")
    claimed = op.type_rule(self=TensorType(str(x.dtype).removeprefix("torch.")))
    assert f"torch.{claimed.dtype}" == str(getattr(torch, name)(x).dtype) and claimed.shape is None


def test_an_extent_that_may_be_one_may_grow() -> None:
    op = the_op("aten::expand")
    assert op.type_rule(self=TensorType("float32", ("N",)), size=[Unknown(INT)]).shape == (None,)
    assert op.type_rule(self=TensorType("float32", (3,)), size=[Unknown(INT)]).shape == (3,)


NEW_OPS = """
from irscope.ops.view_steps.rules import product, slice_length, view
from irscope.ops.view_steps.steps import Cut, Permute, Regroup

@view("aten::every_other(Tensor(a) self, int dim=0) -> Tensor(a)", kind="part")
def every_other(self):
    axis = self.own_axis("dim")
    return (Cut(axis, 0, slice_length(0, self.shape[axis], 2), 2),)

@view("aten::turned(Tensor(a) self) -> Tensor(a)", kind="exchange", inverse="itself")
def turned(self):
    return (Permute(tuple(range(self.rank))[::-1]),)

@view("aten::in_a_row(Tensor(a) self) -> Tensor(a)", kind="regroup", returns="a view or a copy")
def in_a_row(self):
    return (Regroup((product(self.shape),), True),)

import numpy as np
import irscope as irs

g = irs.parse('''graph(%x : Float(4, 6, strides=[6, 1])):
  %one : int = prim::Constant[value=1]()
  %part : Float(4, 3) = aten::every_other(%x, %one)
  %sin : Float(4, 3) = aten::sin(%part)
  %back : Float(3, 4) = aten::turned(%sin)
  %exp : Float(3, 4) = aten::exp(%back)
  %none : NoneType = prim::Constant()
  %own : Float(4, 6, strides=[6, 1]) = aten::clone(%x, %none)
  %across : Float(6, 4, strides=[1, 6]) = aten::turned(%own)
  %written : Float(6, 4) = aten::sin_(%across)
  %copy : Float(24) = aten::in_a_row(%across)
  %same : Float(24) = aten::in_a_row(%own)
  return (%part, %exp, %own, %copy, %same)
''')
db = irs.AliasDb(g)
said = [bool(db.may_alias(a, b)) for a, b in (("part", "x"), ("exp", "x"), ("copy", "own"), ("same", "own"))]
assert said == [True, False, False, True], said
views = irs.ViewAliases(g)
assert [views.layout(name).strides for name in ("part", "across", "copy")] == [(6, 2), (1, 6), (1,)]
assert "aten::sin_" not in str(irs.functionalize(g).after)
fusion = irs.fuse(g)
assert fusion.group_of("sin") is fusion.group_of("exp") is not None
x = np.arange(24, dtype=np.float32).reshape(4, 6)
part, exp, own, copy, same = irs.compile(g)(x)
assert (part == x[:, ::2]).all() and np.allclose(exp, np.exp(np.sin(x[:, ::2])).T)
assert np.allclose(own, np.sin(x)) and (copy == own.T.reshape(-1)).all() and (same == own.reshape(-1)).all()
"""


def test_a_view_op_is_one_function() -> None:
    """New ops have types, aliases, functional writes and kernels by their rules alone: in a process of its own, as tables
    of ops are made once."""
    subprocess.run([sys.executable, "-c", NEW_OPS], check=True)
