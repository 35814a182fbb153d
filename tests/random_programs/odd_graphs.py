"""Random programs of the odd kind, for alias analysis alone: what `tests.random_programs.graphs` leaves out because kernels never see it.

Nested containers, dictionaries of lists, lists of tuples, values of any type, optionals, objects with attributes, tasks,
`out=` arguments, lists that are written through (`_foreach_*`), lists that change in place, storages that are exchanged
(`set_`, `set_data`), ops whose schemas lie, and ops that give a view or a copy as they like. Every tensor is float32 and
2 × 2, so that everything fits everything.
"""

from __future__ import annotations

import random
from collections.abc import Callable

__all__ = ["odd_program"]

T, L, LL, D, DL, TU, LT, A, OPT, C, F = (
    "Tensor", "Tensor[]", "Tensor[][]", "Dict(str, Tensor)", "Dict(str, Tensor[])", "(Tensor, Tensor)", "(Tensor, Tensor)[]",
    "Any", "Tensor?", "__torch__.C", "Future(Tensor)",
)  # fmt: skip
TL = "(Tensor[], Tensor)"
INPUTS = (T, T, L, D, LL, TU, "bool", "int")
VIEWS = (
    "t",
    "alias",
    "detach",
    "contiguous",
    "conj",
    "positive",
    "resolve_conj",
    "atleast_1d",
    "squeeze",
    "adjoint",
    "flipud",
)
PURE = ("neg", "relu", "clone", "tanh", "exp")
WRITES = ("relu_", "neg_", "zero_", "t_", "tanh_", "detach_")

Env = dict[str, list[str]]
"""Names by type."""


def odd_program(seed: int, size: int) -> str:
    """The text of the program of this seed; its inputs are `INPUTS`."""
    return _Generator(random.Random(seed)).program(size)


class _Generator:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.count = 0
        self.lines: list[str] = []
        self.depth = 1

    def program(self, size: int) -> str:
        env: Env = {}
        names = []
        for type in INPUTS:
            name = self.name()
            names.append(f"%{name} : {type}")
            env.setdefault(type, []).append(name)
        self.zero, self.one, self.alpha, self.two = (self.constant(v) for v in (0, 1, 1.5, 2))
        self.key, self.other = self.constant('"k"', "str"), self.constant('"o"', "str")
        self.no, self.none = self.constant(0, "bool"), self.name()
        self.true = self.constant(1, "bool")
        self.emit(f"%{self.none} : NoneType = prim::Constant()")
        for _ in range(size):
            self.statement(env)
        kept = [n for type in (T, L, D, TU) for n in self.rng.sample(env.get(type, []), min(2, len(env.get(type, []))))]
        body = "\n".join(self.lines)
        return f"graph({', '.join(names)}):\n{body}\n  return ({', '.join(f'%{n}' for n in kept)})"

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def emit(self, line: str) -> None:
        self.lines.append("  " * self.depth + line)

    def constant(self, payload: object, type: str = "") -> str:
        name = self.name()
        kind = type or ("int" if isinstance(payload, int) else "float")
        self.emit(f"%{name} : {kind} = prim::Constant[value={payload}]()")
        return name

    def made(self, env: Env, type: str, op: str, *operands: str) -> str:
        name = self.name()
        self.emit(f"%{name} : {type} = {op}({', '.join(f'%{o}' for o in operands)})")
        env.setdefault(type, []).append(name)
        return name

    def done(self, op: str, *operands: str) -> None:
        self.emit(f"{op}({', '.join(f'%{o}' for o in operands)})")

    def pick(self, env: Env, type: str) -> str | None:
        found = env.get(type)
        return self.rng.choice(found) if found else None

    def statement(self, env: Env) -> None:
        kinds: list[tuple[int, Callable[[Env], None]]] = [
            (3, self.pure), (6, self.view), (3, self.write), (2, self.out), (3, self.lists), (3, self.grow), (2, self.nested),
            (3, self.dicts), (2, self.tuples), (2, self.anything), (2, self.optional), (3, self.objects), (1, self.task),
            (2, self.foreach), (2, self.rebind), (2, self.branch), (2, self.loop), (1, self.norm),
        ]  # fmt: skip
        self.rng.choices([kind for _, kind in kinds], [weight for weight, _ in kinds])[0](env)

    def tensor(self, env: Env) -> str:
        return self.rng.choice(env[T])

    def pure(self, env: Env) -> None:
        self.made(env, T, f"aten::{self.rng.choice(PURE)}", self.tensor(env))

    def view(self, env: Env) -> None:
        a = self.tensor(env)
        match self.rng.randrange(9):
            case 0:
                self.made(env, T, "aten::dropout", a, self.alpha_half(), self.no)
            case 1:
                self.made(env, T, "aten::type_as", a, self.tensor(env))
            case 2:
                self.made(env, T, "aten::expand_as", a, self.tensor(env))
            case 3:
                self.made(env, T, "aten::transpose", a, self.zero, self.one)
            case 4:
                self.made(env, T, "aten::reshape_as", a, self.tensor(env))
            case 5:
                self.made(env, L, "aten::chunk", a, self.one, self.zero)
            case 6:
                both = self.made(env, L, "prim::ListConstruct", a, self.tensor(env))
                self.made(env, L, self.rng.choice(["aten::broadcast_tensors", "aten::atleast_2d"]), both)
            case _:
                self.made(env, T, f"aten::{self.rng.choice(VIEWS)}", a)

    def alpha_half(self) -> str:
        return self.constant(0.5)

    def write(self, env: Env) -> None:
        a = self.tensor(env)
        if self.rng.random() < 0.5:
            self.made(env, T, f"aten::{self.rng.choice(WRITES)}", a)
        elif self.rng.random() < 0.5:
            b = self.made({}, T, "aten::clone", self.tensor(env), self.none)
            self.made(env, T, "aten::copy_", a, b, self.no)
        else:
            self.made(env, T, "aten::add_", a, self.alpha, self.one)

    def out(self, env: Env) -> None:
        target = self.made(env, T, "aten::clone", self.tensor(env), self.none)
        if self.rng.random() < 0.7:
            view = self.made(env, T, "aten::alias", target)
            target = self.rng.choice([target, view])
        if self.rng.random() < 0.5:
            self.made(env, T, "aten::neg", self.tensor(env), target)
        else:
            self.made(env, T, "aten::mul", self.tensor(env), self.tensor(env), target)

    def lists(self, env: Env) -> None:
        some = self.pick(env, L)
        assert some is not None
        match self.rng.randrange(9):
            case 0:
                self.made(env, L, "prim::ListConstruct", self.tensor(env), self.tensor(env))
            case 1:
                self.made(env, T, "aten::__getitem__", some, self.zero)
            case 2:
                self.made(env, L, "aten::add", some, self.rng.choice(env[L]))
            case 3:
                self.made(env, L, "aten::slice", some, self.zero, self.two, self.one)
            case 4:
                self.made(env, L, self.rng.choice(["aten::list", "aten::copy"]), some)
            case 5:
                self.made(env, L, "aten::mul", some, self.two)
            case 6:
                self.done("aten::clear", self.made({}, L, "aten::copy", some))
            case 7:
                self.made(env, L, "aten::add_", some, self.made(env, L, "prim::ListConstruct", self.tensor(env)))
            case _:
                self.made(env, T, "aten::select", some, self.zero)

    def grow(self, env: Env) -> None:
        some = self.pick(env, L)
        assert some is not None
        match self.rng.randrange(6):
            case 0:
                self.made(env, L, "aten::append", some, self.tensor(env))
            case 1:
                self.done("aten::insert", some, self.zero, self.tensor(env))
            case 2:
                self.done("aten::extend", some, self.made(env, L, "prim::ListConstruct", self.tensor(env)))
            case 3:
                self.made(env, L, "aten::_set_item", some, self.zero, self.tensor(env))
            case 4:
                self.done("aten::insert", some, self.zero, self.tensor(env))
                self.made(env, T, "aten::pop", some, self.zero)
            case _:
                self.done("aten::reverse", some)

    def nested(self, env: Env) -> None:
        some = self.pick(env, LL)
        match self.rng.randrange(6):
            case 0:
                self.made(env, LL, "prim::ListConstruct", self.rng.choice(env[L]), self.rng.choice(env[L]))
            case 1 if some:
                self.made(env, LL, "aten::append", some, self.rng.choice(env[L]))
            case 2:
                box = self.made(env, LT, "prim::ListConstruct", self.rng.choice(env[TU]))
                self.made(env, LT, "aten::append", box, self.rng.choice(env[TU]))
                self.made(env, TU, "aten::__getitem__", self.rng.choice(env[LT]), self.zero)
            case _ if some:
                self.made(env, L, "aten::__getitem__", some, self.zero)
            case _:
                self.lists(env)

    def dicts(self, env: Env) -> None:
        some = self.pick(env, D)
        assert some is not None
        match self.rng.randrange(9):
            case 0:
                self.made(env, D, "prim::DictConstruct", self.key, self.tensor(env))
            case 1:
                self.made(env, T, "aten::__getitem__", some, self.key)
            case 2:
                self.done("aten::_set_item", some, self.rng.choice([self.key, self.other]), self.tensor(env))
            case 3:
                self.made(env, T, "aten::setdefault", some, self.other, self.tensor(env))
            case 4:
                self.done("aten::update", some, self.rng.choice(env[D]))
            case 5:
                self.made(env, L, "aten::values", some)
            case 6:
                self.made(env, D, "aten::copy", some)
            case 7:
                box = self.made(env, DL, "prim::DictConstruct", self.key, self.rng.choice(env[L]))
                if self.rng.random() < 0.5:
                    self.done("aten::_set_item", box, self.key, self.rng.choice(env[L]))
                self.made(env, L, "aten::__getitem__", self.rng.choice(env[DL]), self.key)
            case _:
                self.made(env, T, "aten::get", some, self.key, self.tensor(env))

    def tuples(self, env: Env) -> None:
        match self.rng.randrange(4):
            case 0:
                self.made(env, TU, "prim::TupleConstruct", self.tensor(env), self.tensor(env))
            case 1:
                a, b = self.name(), self.name()
                self.emit(f"%{a} : Tensor, %{b} : Tensor = prim::TupleUnpack(%{self.rng.choice(env[TU])})")
                env[T] += [a, b]
            case 2:
                both = self.made(env, TL, "prim::TupleConstruct", self.rng.choice(env[L]), self.tensor(env))
                a, b = self.name(), self.name()
                self.emit(f"%{a} : Tensor[], %{b} : Tensor = prim::TupleUnpack(%{both})")
                env[L].append(a)
                env[T].append(b)
            case _:
                self.made(env, T, "prim::TupleIndex", self.rng.choice(env[TU]), self.rng.choice([self.zero, self.one]))

    def anything(self, env: Env) -> None:
        type = self.rng.choice([type for type in (T, L, LL, D, TU, C) if env.get(type)])
        held = self.rng.choice(env[type])
        box = self.made({}, "Any[]", "prim::ListConstruct", held)
        more = self.rng.choice(env[self.rng.choice([T, L])])
        self.made({}, "Any[]", "aten::append", box, more)
        value = self.made(env, A, "aten::__getitem__", box, self.zero)
        self.made(env, type, "prim::unchecked_cast", value)

    def optional(self, env: Env) -> None:
        condition = self.rng.choice(env["bool"])
        name, a, b = self.name(), self.tensor(env), self.tensor(env)
        self.emit(f"%{name} : Tensor? = prim::If(%{condition})")
        for value in (a, self.none if self.rng.random() < 0.3 else b):
            self.emit("  block0():" if value is a else "  block1():")
            self.emit(f"    -> (%{value})")
        env.setdefault(OPT, []).append(name)
        box = self.made({}, "Tensor?[]", "prim::ListConstruct", a, self.rng.choice(env[OPT]))
        first = self.made(env, OPT, "aten::__getitem__", box, self.zero)
        self.made(env, T, self.rng.choice(["aten::_unwrap_optional", "prim::unchecked_unwrap_optional"]), first)

    def objects(self, env: Env) -> None:
        some = self.pick(env, C)
        if some is None or self.rng.random() < 0.3:
            some = self.name()
            self.emit(f"%{some} : {C} = prim::CreateObject()")
            self.emit(f'prim::SetAttr[name="a"](%{some}, %{self.tensor(env)})')
            self.emit(f'prim::SetAttr[name="l"](%{some}, %{self.rng.choice(env[L])})')
            env.setdefault(C, []).append(some)
        attribute, type = self.rng.choice([("a", T), ("l", L)])
        if self.rng.random() < 0.5:
            self.made(env, type, f'prim::GetAttr[name="{attribute}"]', some)
        else:
            self.emit(f'prim::SetAttr[name="{attribute}"](%{some}, %{self.rng.choice(env[type])})')

    def task(self, env: Env) -> None:
        given, param, result, future = self.tensor(env), self.name(), self.name(), self.name()
        op = self.rng.choice(["neg", "t", "relu_", "alias"])
        self.emit(f"%{future} : {F} = prim::fork(%{given})")
        self.emit(f"  block0(%{param} : Tensor):")
        self.emit(f"    %{result} : Tensor = aten::{op}(%{param})")
        self.emit(f"    -> (%{result})")
        self.made(env, T, "aten::wait", future)

    def foreach(self, env: Env) -> None:
        some = self.rng.choice(env[L])
        if self.rng.random() < 0.6:
            self.done(self.rng.choice(["aten::_foreach_add_", "aten::_foreach_mul_"]), some, self.alpha)
        elif self.rng.random() < 0.5:
            self.done(self.rng.choice(["aten::_foreach_neg_", "aten::_foreach_zero_"]), some)
        else:
            self.made(env, L, "aten::_foreach_neg", some)

    def rebind(self, env: Env) -> None:
        a, b = self.tensor(env), self.tensor(env)
        if self.rng.random() < 0.5:
            self.made(env, T, "aten::set_", a, b)
        else:
            self.done("aten::set_data", a, b)

    def norm(self, env: Env) -> None:
        """Of memory that nothing else in the op overlaps: torch would read and write it at once, in two threads."""
        statistics = []
        for _ in range(2):
            memory = self.made({}, T, "aten::clone", self.tensor(env), self.none)
            env[T].append(memory)
            statistics.append(self.made({}, T, "aten::select", memory, self.zero, self.zero))
        given = self.made({}, T, "aten::clone", self.tensor(env), self.none)
        flag = self.rng.choice([self.no, self.true])
        numbers = (flag, self.alpha, self.alpha, self.no)
        self.made(env, T, "aten::batch_norm", given, self.none, self.none, *statistics, *numbers)

    def copied(self, env: Env) -> Env:
        return {type: list(names) for type, names in env.items()}

    def branch(self, env: Env) -> None:
        if self.depth > 5:
            return
        types = self.rng.sample([T, L, TU, D], self.rng.randint(0, 2))
        results = [self.name() for _ in types]
        head = ", ".join(f"%{name} : {type}" for name, type in zip(results, types, strict=True))
        self.emit(
            f"{head} = prim::If(%{self.rng.choice(env['bool'])})"
            if types
            else f"prim::If(%{self.rng.choice(env['bool'])})"
        )
        for index in range(2):
            self.emit(f"  block{index}():")
            self.block(env, types)
        for name, type in zip(results, types, strict=True):
            env[type].append(name)

    def loop(self, env: Env) -> None:
        if self.depth > 5:
            return
        types = self.rng.sample([T, T, L, TU, D], self.rng.randint(0, 3))
        results, params = [self.name() for _ in types], [self.name() for _ in types]
        starts = [self.rng.choice(env[type]) for type in types]
        head = ", ".join(f"%{name} : {type}" for name, type in zip(results, types, strict=True))
        operands = ", ".join(f"%{name}" for name in (self.rng.choice(env["int"]), self.true, *starts))
        self.emit(f"{head} = prim::Loop({operands})" if types else f"prim::Loop({operands})")
        declared = ", ".join(
            f"%{name} : {type}" for name, type in zip([self.name(), *params], ["int", *types], strict=True)
        )
        self.emit(f"  block0({declared}):")
        inner = self.copied(env)
        for name, type in zip(params, types, strict=True):
            inner[type] += [name] * 3
        self.block(inner, types, first=[self.true], swap=params)
        for name, type in zip(results, types, strict=True):
            env[type].append(name)

    def block(self, env: Env, types: list[str], first: list[str] | None = None, swap: list[str] | None = None) -> None:
        inner = self.copied(env)
        self.depth += 2
        for _ in range(self.rng.randint(0, 3)):
            self.statement(inner)
        given = [self.rng.choice(inner[type]) for type in types]
        if swap and types.count(T) == 2 and self.rng.random() < 0.5:  # two names change places
            a, b = (index for index, type in enumerate(types) if type == T)
            given[a], given[b] = swap[b], swap[a]
        self.emit(f"-> ({', '.join(f'%{name}' for name in [*(first or []), *given])})")
        self.depth -= 2
