"""Small random programs for each kind of question, at difficulty 1, 2 or 3, written as text with the shape of every tensor known."""

import random
import re
import string
from collections.abc import Callable, Sequence

from irscope.ir import TensorType
from irscope.ops.type_rules import contiguous_strides

Shape = tuple[int, ...]
Named = tuple[str, Shape]
"""A tensor by its name, and its shape."""

_UNARY = ("relu", "tanh", "sigmoid", "neg", "abs")
_LETTERS = [letter for letter in string.ascii_lowercase if letter not in "flnotwxyz"]


class Draft:
    """A program under construction: its lines so far, and the tensors that the next line may use."""

    def __init__(self, rng: random.Random, *inputs: Named) -> None:
        self.rng = rng
        self.params = [f"%{name} : {TensorType('float32', shape, contiguous_strides(shape))}" for name, shape in inputs]
        self.tensors: list[Named] = [(f"%{name}", shape) for name, shape in inputs]
        self.lines: list[str] = []
        self._constants: dict[tuple[str, str], str] = {}
        self._made = 0
        self._writes = 0

    def name(self) -> str:
        """Returns the next unused letter; `%a1` after the last one."""
        around, letter = divmod(self._made, len(_LETTERS))
        self._made += 1
        return f"%{_LETTERS[letter]}{around or ''}"

    def constant(self, type: str, value: object) -> str:
        """Returns the name of a constant, which shows its value; the program has each constant once."""
        digits = "_".join(str(value).strip("[]").replace("-", "minus_").replace(".", "_").split(", "))
        name = {"bool": "%true", "NoneType": "%none", "int[]": f"%size_{digits}"}.get(type, f"%{type}{digits}")
        return self._constants.setdefault((type, str(value)), name)

    def number(self, value: int) -> str:
        return self.constant("int", value)

    def sizes(self, shape: Sequence[int]) -> str:
        return self.constant("int[]", list(shape))

    def tensor(self, call: str, shape: Shape, *, write: bool = False) -> Named:
        """Adds a line that computes a tensor; a write's result is called `%w`."""
        self._writes += write
        name = f"%w{self._writes}" if write else self.name()
        self.lines.append(f"  {name} : Tensor = {call}")
        self.tensors.append((name, shape))
        return self.tensors[-1]

    def pick(self, shape: Shape | None = None, *, rank: int = 0) -> Named:
        """Draws a tensor; later ones are more likely."""
        fit = [t for t in self.tensors if (shape is None or t[1] == shape) and len(t[1]) >= rank]
        return self.rng.choices(fit, [1 + k for k in range(len(fit))])[0]

    # Lines

    def unary(self, of: Named | None = None) -> Named:
        name, shape = of or self.pick()
        return self.tensor(f"aten::{self.rng.choice(_UNARY)}({name})", shape)

    def binary(self, of: Named | None = None) -> Named:
        name, shape = of or self.pick()
        other, _ = self.pick(shape)
        op = self.rng.choice([f"mul({name}, {other})", f"add({name}, {other}, {self.number(1)})"])
        return self.tensor(f"aten::{op}", shape)

    def view(self) -> Named:
        """Adds a transpose, a row, a half, or one more axis."""
        name, shape = self.pick(rank=1)
        kind = self.rng.randrange(4 if len(shape) > 1 else 2)
        if kind == 0 and len(shape) < 4:
            return self.unsqueezed((name, shape), 0)
        if kind == 1 or kind == 0:
            return self.first_half((name, shape), 0)
        if kind == 2:
            return self.transposed((name, shape))
        return self.tensor(f"aten::select({name}, {self.number(0)}, {self.number(0)})", shape[1:])

    def unsqueezed(self, of: Named, axis: int) -> Named:
        name, shape = of
        return self.tensor(f"aten::unsqueeze({name}, {self.number(axis)})", (*shape[:axis], 1, *shape[axis:]))

    def first_half(self, of: Named, axis: int) -> Named:
        name, shape = of
        half = max(1, shape[axis] // 2)
        start, step, end = self.number(0), self.number(1), self.number(half)
        call = f"aten::slice({name}, {self.number(axis)}, {start}, {end}, {step})"
        return self.tensor(call, (*shape[:axis], half, *shape[axis + 1 :]))

    def transposed(self, of: Named, first: int = 0, second: int = 1) -> Named:
        name, swapped = of[0], list(of[1])
        swapped[first], swapped[second] = swapped[second], swapped[first]
        return self.tensor(f"aten::transpose({name}, {self.number(first)}, {self.number(second)})", tuple(swapped))

    def write(self, of: Named | None = None) -> Named:
        """Adds an in-place op, which returns its operand."""
        name, shape = of or self.pick()
        op = self.rng.choice(["relu_", "tanh_", "neg_", "zero_"])
        return self.tensor(f"aten::{op}({name})", shape, write=True)

    def product(self, of: Named) -> Named:
        """Adds a product of square matrices, which runs through the array library."""
        name, shape = of
        other, _ = self.pick(shape)
        return self.tensor(f"aten::mm({name}, {other})", shape)

    def row_sums(self, of: Named) -> Named:
        """Adds the sums of rows, as a column that broadcasts."""
        axes, keep, none = self.sizes([1]), self.constant("bool", 1), self.constant("NoneType", None)
        return self.tensor(f"aten::sum({of[0]}, {axes}, {keep}, {none})", (of[1][0], 1))

    def branch(self) -> Named:
        """Adds an `if` of which one branch yields a new tensor, the other an existing one."""
        first, shape = self.pick()
        other, _ = self.pick(shape)
        inner, result = self.name(), self.name()
        self.lines += [
            f"  {result} : Tensor = prim::If(%flag)", "    block0():",
            f"      {inner} : Tensor = aten::{self.rng.choice(_UNARY)}({first})", f"      -> ({inner})",
            "    block1():", f"      -> ({other})",
        ]  # fmt: skip
        self.tensors.append((result, shape))
        return self.tensors[-1]

    def loop(self) -> Named:
        """Adds a loop that starts from one tensor; each iteration computes another or yields a view."""
        start, shape = self.pick()
        result, now, made = self.name(), self.name(), self.name()
        true = self.constant("bool", 1)
        self.lines += [
            f"  {result} : Tensor = prim::Loop(%n, {true}, {start})", f"    block0(%i{result[1:]} : int, {now} : Tensor):",
            f"      {made} : Tensor = aten::{self.rng.choice([*_UNARY, 'detach'])}({now})", f"      -> ({true}, {made})",
        ]  # fmt: skip
        self.tensors.append((result, shape))
        return self.tensors[-1]

    def listed(self) -> Named:
        """Packs two tensors into a list and takes one out."""
        first, shape = self.pick()
        other, _ = self.pick(shape)
        held = f"%list{len(self.lines)}"
        self.lines.append(f"  {held} : Tensor[] = prim::ListConstruct({first}, {other})")
        return self.tensor(f"aten::__getitem__({held}, {self.number(self.rng.randrange(2))})", shape)

    # The whole

    def unused(self) -> list[Named]:
        """Returns the computed tensors without users."""
        taken = set(re.findall(r"%\w+", " ".join(line.partition(" = ")[2] for line in self.lines)))
        return [tensor for tensor in self.tensors if tensor[0] not in taken and any(tensor[0] in line for line in self.lines)]

    def text(self, *results: Named) -> str:
        """Returns the program with these tensors, or the last one, as results, and with the flag and count its lines
        need as inputs."""
        body = "\n".join(self.lines)
        params = [*self.params, *(["%flag : bool"] if "prim::If" in body else []), *(["%n : int"] if "prim::Loop" in body else [])]
        constants = "".join(f"  {name} : {_constant(type, value)}\n" for (type, value), name in self._constants.items())
        names = ", ".join(name for name, _ in results or self.tensors[-1:])
        return f"graph({', '.join(params)}):\n{constants}{body}\n  return ({names})\n"


def _constant(type: str, value: str) -> str:
    return "NoneType = prim::Constant()" if type == "NoneType" else f"{type} = prim::Constant[value={value}]()"


def for_alias(rng: random.Random, difficulty: int) -> str:
    """1: one input, views and copies. 2: two inputs, which may be the same tensor, and writes. 3: lists, ifs and loops
    as well."""
    draft = Draft(rng, *(("x", (4, 6)), ("y", (4, 6)))[: min(2, difficulty)])
    choices = [draft.unary, draft.view, draft.view]
    choices += [draft.write, draft.binary] if difficulty > 1 else []
    special = rng.sample([draft.branch, draft.loop, draft.listed], 2) if difficulty > 2 else []
    order = [*special, *rng.choices(choices, k=3 + difficulty)]
    rng.shuffle(order)
    draft.unary()
    for add_line in order:
        add_line()
    return draft.text()


def for_moves(rng: random.Random, difficulty: int) -> str:
    """A write among lines that read the written memory, through views from difficulty 2, and a second write at 3."""
    draft = Draft(rng, ("x", (4, 6)))
    start = draft.unary()
    targets = [start] if difficulty < 2 else [start, draft.transposed(start)]
    draft.unary(rng.choice(targets))
    if difficulty > 1:
        draft.view()
    for _ in range(1 + (difficulty > 2)):
        draft.unary(rng.choice(draft.tensors))
        draft.write(rng.choice(targets))
    for _ in range(2 + (difficulty > 1)):
        draft.unary(rng.choice([*targets, *draft.tensors[:2]]))
    return draft.text(*draft.tensors[-2:], start)


def for_fusion(rng: random.Random, difficulty: int) -> str:
    """Chains of pointwise ops and what prevents fusion: a product of matrices; writes from 2; sums and transposes at
    3."""
    draft = Draft(rng, ("x", (64, 64)), ("y", (64, 64)))
    square = (64, 64)
    for _ in range(2):
        draft.unary(draft.pick(square))
    breakers: list[Callable[[], Named]] = [lambda: draft.product(draft.pick(square))]
    if difficulty > 1:
        breakers.append(lambda: draft.write(rng.choice(draft.tensors[2:4])))
    if difficulty > 2:
        breakers += [lambda: draft.transposed(draft.pick(square)), lambda: draft.row_sums(draft.pick(square))]
    order = [rng.choice(breakers) for _ in range(1 + difficulty // 2)]
    pointwise: list[Callable[[], Named]] = [lambda: draft.unary(draft.pick(square)), lambda: draft.binary(draft.pick(square))]
    order += rng.choices(pointwise, k=2 + difficulty)
    rng.shuffle(order)
    for add_line in order:
        add_line()
    last, before = draft.pick(square), draft.pick(square)
    draft.tensor(f"aten::mul({last[0]}, {before[0]})", square)
    return draft.text(*draft.unused())


def for_views(rng: random.Random, difficulty: int) -> str:
    """Rounds of views and then a `reshape` or `contiguous`: as many as the difficulty, each with up to as many views."""
    draft = Draft(rng, ("x", (4, 6, 8)))
    here = draft.tensors[0]
    for _ in range(difficulty):
        for _ in range(rng.randint(1, max(1, difficulty))):
            rank = len(here[1])
            if rank > 1 and rng.random() < 0.5:
                here = draft.transposed(here, *sorted(rng.sample(range(rank), 2)))
                continue
            axis = rng.randrange(rank)
            cuts = here[1][axis] > 1 and rng.random() < 0.6
            if cuts:
                draft.number(1), draft.number(axis)  # the order of the constants, which a seed keeps
            here = draft.first_half(here, axis) if cuts else draft.unsqueezed(here, axis)
        name, shape = here
        if len(shape) > 1 and rng.random() < 0.8:
            axis = rng.randrange(len(shape) - 1)
            joined = (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :])
            here = draft.tensor(f"aten::reshape({name}, {draft.sizes(joined)})", joined)
        else:
            here = draft.tensor(f"aten::contiguous({name}, {draft.number(0)})", shape)
    return draft.text()


def for_same(rng: random.Random, difficulty: int) -> str:
    """Chains between products of matrices, two of which are the same. The others differ in one op or number or, from
    difficulty 2, in the order of two ops."""
    draft = Draft(rng, ("x", (32, 32)), ("y", (32, 32)))
    kinds = ["relu", "tanh", "sigmoid", "neg", "abs", "exp"]
    recipe = [(op, 0.0) for op in rng.sample(kinds, 2 + difficulty // 2)] + [("mul", rng.choice([0.5, 2.0, 1.5]))]
    rng.shuffle(recipe)
    others: list[list[tuple[str, float]]] = []
    while len(others) < 1 + difficulty:
        other, place = list(recipe), rng.randrange(len(recipe))
        op, number = other[place]
        change = rng.randrange(3)
        if op == "mul":
            other[place] = ("mul", number + rng.choice([0.25, 1.0]))
        elif change == 0 or difficulty == 1:
            other[place] = (rng.choice([kind for kind in kinds if kind != op]), 0.0)
        else:
            next_one = (place + 1) % len(other)
            other[place], other[next_one] = other[next_one], other[place]
        if other != recipe and other not in others:
            others.append(other)
    chains = [recipe, recipe, *others]
    rng.shuffle(chains)
    results, here = [], draft.tensors[0]
    for chain in chains:
        here = draft.tensor(f"aten::mm({here[0]}, %y)", here[1])
        for op, number in chain:
            call = f"aten::mul({here[0]}, {draft.constant('float', number)})" if op == "mul" else f"aten::{op}({here[0]})"
            here = draft.tensor(call, here[1])
        results.append(here)
    return draft.text(*results)


def for_speed(rng: random.Random, difficulty: int) -> str:
    """A chain of pointwise ops over small or large tensors; from difficulty 2 some start with a product of matrices."""
    extent = rng.choice([64, 256, 512])
    draft = Draft(rng, ("x", (extent, extent)), ("y", (extent, extent)))
    here = draft.tensors[0]
    if difficulty > 1 and rng.random() < 0.5:
        here = draft.product(here)
    for _ in range(rng.randint(1, 3) * difficulty + 1):
        here = rng.choice([draft.unary, draft.binary])(here)
    return draft.text(*draft.unused())
