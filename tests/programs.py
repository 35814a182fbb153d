"""Programs in a line: graphs without the types that repeat, the signs that say nothing, and a line for each op."""

import re
from collections.abc import Iterator

import irscope as irs

_LITERAL = re.compile(r"""[-\d"'\[{]|(True|False|None|inf|nan)$""")


def parsed(program: str, type: str = "Tensor") -> irs.Graph:
    """The graph of `ir`."""
    return irs.parse(ir(program, type))


def ir(program: str, type: str = "Tensor") -> str:
    """The text of a graph from `inputs | ops | results`: every value has the type, but for those that are `name:Type`.

    An op is `names = op operands`, without names where it has no result: of `aten` where it says no other, of `prim` with a capital. Its
    blocks follow in braces, each written as the graph is, then `@ scope`. A constant is `name = 1`, of the type that Python gives it.

    >>> print(ir("x c:bool | k = 0.5; a = mul x k; r = If c { | b = neg a | b} { | | x} | r", "Float(2, 4)"))
    graph(%x : Float(2, 4), %c : bool):
      %k : float = prim::Constant[value=0.5]()
      %a : Float(2, 4) = aten::mul(%x, %k)
      %r : Float(2, 4) = prim::If(%c)
        block0():
          %b : Float(2, 4) = aten::neg(%a)
          -> (%b)
        block1():
          -> (%x)
      return (%r)
    """
    inputs, ops, results = _split(program, "|")
    return "\n".join([f"graph({_values(inputs, type)}):", *_lines(ops, type), f"  return ({_names(_split(results))})"])


def _lines(ops: str, type: str) -> Iterator[str]:
    for op in filter(None, _split(ops, ";")):
        names, _, said = op.partition(" = ") if " = " in op.partition("{")[0] else ("", "", op)
        if _LITERAL.match(said) or not said:
            kind, value = _constant(said or op)
            yield f"  {_values(names, kind)} = prim::Constant{value}()"
            continue
        said, _, scope = said.partition(" @ ")
        words = _split(said)
        name, *operands = (word for word in words if word[0] != "{")
        name = name if "::" in name else f"prim::{name}" if name[0].isupper() else f"aten::{name}"
        yield f"  {_values(names, type)}{' = ' if names else ''}{name}({_names(operands)}){f', scope: {scope}' if scope else ''}"
        for place, block in enumerate(word[1:-1] for word in words if word[0] == "{"):
            inputs, inner, results = _split(block, "|")
            yield f"    block{place}({_values(inputs, type)}):"
            yield from (f"    {line}" for line in _lines(inner, type))
            yield f"      -> ({_names(_split(results))})"


def _constant(said: str) -> tuple[str, str]:
    """The type of a constant, and the attribute that holds it."""
    if said == "None":
        return "NoneType", ""
    if said in ("True", "False"):
        return "bool", f"[value={int(said == 'True')}]"
    kind = "str" if said[0] == '"' else "float" if re.search(r"\.|\de|inf|nan", said) else "int"
    return kind + "[]" * (said[0] == "["), f"[value={said}]"


def _split(text: str, by: str = " ") -> list[str]:
    """The parts of a text between separators that no bracket or quote encloses."""
    parts, depth, quoted = [""], 0, False
    for sign in text:
        quoted ^= sign == '"'
        depth += 0 if quoted else (sign in "([{") - (sign in ")]}")
        if sign == by and not depth and not quoted:
            parts.append("")
        else:
            parts[-1] += sign
    return [part for part in map(str.strip, parts) if part or by == "|"]


def _values(text: str, type: str) -> str:
    return ", ".join(f"%{name} : {own or type}" for name, _, own in (word.partition(":") for word in _split(text)))


def _names(words: list[str]) -> str:
    return ", ".join(f"%{name}" for name in words)
