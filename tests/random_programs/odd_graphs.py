"""Random programs of the odd kind, for alias analysis alone: what `tests.random_programs.graphs` leaves out because kernels never see it.

Nested containers, dictionaries of lists, lists of tuples, values of any type, optionals, objects with attributes, tasks,
`out=` arguments, lists that are written through (`_foreach_*`), lists that change in place, storages that are exchanged
(`set_`, `set_data`), ops whose schemas are wrong, and ops that give a view or a copy as they like. Every tensor is float32 and
2 × 2, so that everything fits everything.
"""

import random
import re
from typing import Final

_TYPES: Final = {
    "T": "Tensor", "L": "Tensor[]", "LL": "Tensor[][]", "D": "Dict(str, Tensor)", "DL": "Dict(str, Tensor[])",
    "TU": "(Tensor, Tensor)", "TL": "(Tensor[], Tensor)", "LT": "(Tensor, Tensor)[]", "A": "Any", "LA": "Any[]", "OPT": "Tensor?",
    "LO": "Tensor?[]", "C": "__torch__.C", "F": "Future(Tensor)", "B": "bool", "I": "int",
}  # fmt: skip
INPUTS: Final = tuple(_TYPES[word] for word in ("T", "T", "L", "D", "LL", "TU", "B", "I"))
_CONSTANTS: Final = {
    "0": "int 0", "1": "int 1", "2": "int 2", "1.5": "float 1.5", "0.5": "float 0.5", "'k'": 'str "k"', "'o'": 'str "o"',
    "no": "bool 0", "yes": "bool 1", "none": "NoneType",
}  # fmt: skip

_STATEMENTS: Final[dict[str, tuple[int, str]]] = {
    "pure": (3, "T = aten::{neg|relu|clone|tanh|exp}(T)"),
    "view": (6, """T = aten::dropout(T, 0.5, no)
        T = aten::type_as(T, T)
        T = aten::expand_as(T, T)
        T = aten::reshape_as(T, T)
        T = aten::transpose(T, 0, 1)
        L = aten::chunk(T, 1, 0)
        a:L = prim::ListConstruct(T, T); L = aten::{broadcast_tensors|atleast_2d}(a)
        T = aten::{t|alias|detach|contiguous|conj|positive|resolve_conj|atleast_1d|squeeze|adjoint|flipud}(T)
        T = aten::{t|alias|detach|contiguous|conj|positive|resolve_conj|atleast_1d|squeeze|adjoint|flipud}(T)"""),
    "write": (3, """T = aten::{relu_|neg_|zero_|t_|tanh_|detach_}(T)
        T = aten::{relu_|neg_|zero_|t_|tanh_|detach_}(T)
        _a:T = aten::clone(T, none); T = aten::copy_(T, _a, no)
        T = aten::add_(T, 1.5, 1)"""),
    "out": (2, """a:T = aten::clone(T, none); b:T = aten::alias(a); T = aten::neg(T, {a|b})
        a:T = aten::clone(T, none); b:T = aten::alias(a); T = aten::mul(T, T, {a|b})
        a:T = aten::clone(T, none); T = aten::neg(T, a)
        a:T = aten::clone(T, none); T = aten::mul(T, T, a)"""),
    "lists": (4, """L = prim::ListConstruct(T, T)
        T = aten::__getitem__(L, 0)
        L = aten::add(L, L)
        L = aten::slice(L, 0, 2, 1)
        L = aten::{list|copy}(L)
        L = aten::mul(L, 2)
        _a:L = aten::copy(L); aten::clear(_a)
        a:L = prim::ListConstruct(T); L = aten::add_(L, a)
        T = aten::select(L, 0)"""),
    "growing lists": (3, """L = aten::append(L, T)
        aten::insert(L, 0, T)
        a:L = prim::ListConstruct(T); aten::extend(L, a)
        L = aten::_set_item(L, 0, T)
        a=L; aten::insert(a, 0, T); T = aten::pop(a, 0)
        aten::reverse(L)"""),
    "nested": (2, """LL = prim::ListConstruct(L, L)
        LL = aten::append(LL, L)
        a:LT = prim::ListConstruct(TU); LT = aten::append(a, TU); TU = aten::__getitem__(LT, 0)
        L = aten::__getitem__(LL, 0)
        L = aten::__getitem__(LL, 0)"""),
    "dicts": (3, """D = prim::DictConstruct('k', T)
        T = aten::__getitem__(D, 'k')
        aten::_set_item(D, {'k'|'o'}, T)
        T = aten::setdefault(D, 'o', T)
        aten::update(D, D)
        L = aten::values(D)
        D = aten::copy(D)
        a:DL = prim::DictConstruct('k', L); L = aten::__getitem__(DL, 'k')
        a:DL = prim::DictConstruct('k', L); aten::_set_item(a, 'k', L); L = aten::__getitem__(DL, 'k')
        T = aten::get(D, 'k', T)"""),
    "tuples": (2, """TU = prim::TupleConstruct(T, T)
        T, T = prim::TupleUnpack(TU)
        a:TL = prim::TupleConstruct(L, T); L, T = prim::TupleUnpack(a)
        T = prim::TupleIndex(TU, {0|1})"""),
    "anything": (2, "\n".join(
        f"_a:LA = prim::ListConstruct({word}); _b:LA = aten::append(_a, {{T|L}}); b:A = aten::__getitem__(_a, 0);"
        f"{word} = prim::unchecked_cast(b)"
        for word in ("T", "L", "LL", "D", "TU", "C")
    )),
    "objects": (3, "\n".join(
        f"{new}{use}"
        for new in ("", 'a:C = prim::CreateObject(); prim::SetAttr[name="a"](a, T); prim::SetAttr[name="l"](a, L); ')
        for use in ('T = prim::GetAttr[name="a"](C)', 'L = prim::GetAttr[name="l"](C)', 'prim::SetAttr[name="a"](C, T)',
                    'prim::SetAttr[name="l"](C, L)')
    )),
    "foreach": (2, """aten::_foreach_{add_|mul_}(L, 1.5)
        aten::_foreach_{add_|mul_}(L, 1.5)
        aten::_foreach_{neg_|zero_}(L)
        L = aten::_foreach_neg(L)"""),
    "rebind": (2, """T = aten::set_(T, T)
        aten::set_data(T, T)"""),
    # of memory that nothing else in the op overlaps: torch would read and write it at once, in two threads
    "norm": (1, """a:T = aten::clone(T, none); _a:T = aten::select(a, 0, 0); b:T = aten::clone(T, none); _b:T = aten::select(b, 0, 0);
        _c:T = aten::clone(T, none); T = aten::batch_norm(_c, none, none, _a, _b, {no|yes}, 1.5, 1.5, no)""".replace(";\n", ";")),
    "optional": (2, ""), "task": (1, ""), "branch": (2, ""), "loop": (2, ""),
}  # fmt: skip
"""The weight of a kind, and its statements: a letter is any value of that type, `a:` a new value that later parts name, `_a:` one that
nothing else sees, `a=` one that is there, `{|}` one of several words. Those without text are written by the method of their name."""
_PARSED: Final = {
    kind: [[part.strip() for part in line.split(";")] for line in text.splitlines()] for kind, (_, text) in _STATEMENTS.items()
}

Env = dict[str, list[str]]
"""Names by the word of their type."""


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
        words = {type: word for word, type in _TYPES.items()}
        params = [f"%{self.added(env, words[type])} : {type}" for type in INPUTS]
        self.constants = {word: self.name() for word in _CONSTANTS}
        for word, name in self.constants.items():
            type, _, value = _CONSTANTS[word].partition(" ")
            self.emit(f"%{name} : {type} = prim::Constant{f'[value={value}]' if value else ''}()")
        for _ in range(size):
            self.statement(env)
        kept = [n for word in ("T", "L", "D", "TU") for n in self.rng.sample(env[word], min(2, len(env[word])))]
        body = "\n".join(self.lines)
        return f"graph({', '.join(params)}):\n{body}\n  return ({', '.join(f'%{n}' for n in kept)})"

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def added(self, env: Env, word: str) -> str:
        name = self.name()
        env.setdefault(word, []).append(name)
        return name

    def emit(self, line: str) -> None:
        self.lines.append("  " * self.depth + line)

    def statement(self, env: Env) -> None:
        (kind,) = self.rng.choices(list(_STATEMENTS), [weight for weight, _ in _STATEMENTS.values()])
        if not _PARSED[kind]:
            getattr(self, kind)(env)
            return
        parts = self.rng.choice(_PARSED[kind])
        wanted = {word for part in parts for word in re.findall(r"\b[A-Z]+\b", part.rpartition("(")[2])}
        if all(env.get(word) or any(f":{word} " in part for part in parts) for word in wanted):
            names: dict[str, str] = {}
            for part in parts:
                self.written(part, env, names)

    def written(self, part: str, env: Env, names: dict[str, str]) -> None:
        """One part of a statement."""
        if found := re.fullmatch(r"(\w)=(\w+)", part):
            names[found[1]] = self.rng.choice(env[found[2]])
            return
        part = re.sub(r"\{([^}]*)\}", lambda found: self.rng.choice(found[1].split("|")), part)
        head, _, call = part.rpartition(" = ")
        op, _, given = call.removesuffix(")").partition("(")
        operands = [names.get(word) or self.constants.get(word) or self.rng.choice(env[word]) for word in filter(None, given.split(", "))]
        results = []
        for word in filter(None, head.split(", ")):
            bound, _, type = word.rpartition(":")
            name = self.name() if bound.startswith("_") else self.added(env, type)
            results.append(f"%{name} : {_TYPES[type]}")
            if bound:
                names[bound] = name
        self.emit(f"{', '.join(results)}{' = ' * bool(results)}{op}({', '.join(f'%{each}' for each in operands)})")

    # -- what has blocks -----------------------------------------------------------------------------------------------

    def optional(self, env: Env) -> None:
        a, b = self.rng.choice(env["T"]), self.rng.choice(env["T"])
        self.emit(f"%{self.added(env, 'OPT')} : Tensor? = prim::If(%{self.rng.choice(env['B'])})")
        for index, value in enumerate((a, self.constants["none"] if self.rng.random() < 0.3 else b)):
            self.emit(f"  block{index}():")
            self.emit(f"    -> (%{value})")
        names: dict[str, str] = {}
        self.written("_a:LO = prim::ListConstruct(T, OPT)", env, names)
        self.written("b:OPT = aten::__getitem__(_a, 0)", env, names)
        self.written("T = {aten::_unwrap_optional|prim::unchecked_unwrap_optional}(b)", env, names)

    def task(self, env: Env) -> None:
        param, result, names = self.name(), self.name(), dict[str, str]()
        self.written("_a:F = prim::fork(T)", env, names)
        self.emit(f"  block0(%{param} : Tensor):")
        self.emit(f"    %{result} : Tensor = aten::{self.rng.choice(['neg', 't', 'relu_', 'alias'])}(%{param})")
        self.emit(f"    -> (%{result})")
        self.written("T = aten::wait(_a)", env, names)

    def branch(self, env: Env) -> None:
        if self.depth > 5:
            return
        words = self.rng.sample(["T", "L", "TU", "D"], self.rng.randint(0, 2))
        results = self.opened(f"prim::If(%{self.rng.choice(env['B'])})", words)
        for index in range(2):
            self.emit(f"  block{index}():")
            self.block(env, words)
        self.closed(env, words, results)

    def loop(self, env: Env) -> None:
        if self.depth > 5:
            return
        words = self.rng.sample(["T", "T", "L", "TU", "D"], self.rng.randint(0, 3))
        starts = [self.rng.choice(env["I"]), self.constants["yes"], *(self.rng.choice(env[word]) for word in words)]
        results = self.opened(f"prim::Loop({', '.join(f'%{name}' for name in starts)})", words)
        params = [self.name() for _ in words]
        declared = [f"%{self.name()} : int", *(f"%{name} : {_TYPES[word]}" for name, word in zip(params, words, strict=True))]
        self.emit(f"  block0({', '.join(declared)}):")
        inner = {word: list(names) for word, names in env.items()}
        for name, word in zip(params, words, strict=True):
            inner[word] += [name] * 3
        self.block(inner, words, [self.constants["yes"]], params)
        self.closed(env, words, results)

    def opened(self, call: str, words: list[str]) -> list[str]:
        results = [self.name() for _ in words]
        head = ", ".join(f"%{name} : {_TYPES[word]}" for name, word in zip(results, words, strict=True))
        self.emit(f"{head}{' = ' * bool(words)}{call}")
        return results

    def closed(self, env: Env, words: list[str], results: list[str]) -> None:
        for word, name in zip(words, results, strict=True):
            env[word].append(name)

    def block(self, env: Env, words: list[str], first: list[str] | None = None, swap: list[str] | None = None) -> None:
        inner = {word: list(names) for word, names in env.items()}
        self.depth += 2
        for _ in range(self.rng.randint(0, 3)):
            self.statement(inner)
        given = [self.rng.choice(inner[word]) for word in words]
        if swap and words.count("T") == 2 and self.rng.random() < 0.5:  # two names change places
            a, b = (index for index, word in enumerate(words) if word == "T")
            given[a], given[b] = swap[b], swap[a]
        self.emit(f"-> ({', '.join(f'%{name}' for name in [*(first or []), *given])})")
        self.depth -= 2
