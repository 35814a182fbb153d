"""Whatever TorchScript prints parses, prints as the same lines, and is the same program when read again."""

# No postponed and no modern annotations: TorchScript reads them when it compiles the functions below.
# ruff: noqa: RET508

import re
import warnings
from collections.abc import Iterator
from enum import Enum
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

import pytest

from irscope.ir.invariants import verify
from irscope.ir.structural import same_structure
from irscope.ir.text.parser import parse

torch = pytest.importorskip("torch", reason="the oracle is torch's own printer")
pytestmark = pytest.mark.filterwarnings("ignore")


class Color(Enum):
    RED = 1
    BLUE = 2


class Pair(NamedTuple):
    a: torch.Tensor
    b: int


@torch.jit.interface
class Goes(torch.nn.Module):
    def go(self, x: torch.Tensor) -> torch.Tensor:
        pass


class Scaled(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.tensor([1.0, 0.1, 1 / 3]))

    def go(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.w

    def forward(self, x):
        return self.go(x)


class Everything(torch.nn.Module):
    part: Goes

    def __init__(self) -> None:
        super().__init__()
        self.part = Scaled()
        self.linear = torch.nn.Linear(3, 3)
        self.numbers = [1.5, float("inf"), float("nan"), -0.0, 1e-30, 1e20]
        self.words = ["a", "b'\"", "\n\t\\\x01é"]
        self.table = {"a": 1, 'b"\n': 2}
        self.tuple = (1, 2.5, "x")
        self.nested = [[1, 2], [3]]
        self.flags = [True, False]
        self.tensors = [torch.ones(2), torch.tensor(3.5)]
        self.complex = 1.5 + 2j
        self.device = torch.device("cpu")
        self.half = torch.tensor([0.1, 7.0]).half()
        self.bfloat = torch.tensor([0.1, 7.0]).bfloat16()
        self.bools = torch.tensor([True, False])
        self.empty = torch.ones(0)
        self.cube = torch.arange(8.0).reshape(2, 2, 2) * 1e-7
        self.big = torch.ones(100)
        self.mixed = (torch.ones(2), [1], {"k": 1.5})

    def forward(
        self,
        x: torch.Tensor,
        color: Color,
        pair: Pair,
        number: Union[int, str, List[int]],
        later: torch.jit.Future[torch.Tensor],
        table: Dict[str, List[Optional[torch.Tensor]]],
    ):
        y = self.part.go(x)
        z = self.linear(y)
        if color == Color.RED:
            z = z + self.numbers[0]
        elif color == Color.BLUE:
            z = z + self.table["a"]
        i = 0
        while i < 3:
            z += 1
            i += 1
        for k in range(4):
            z = z + k
        forked = torch.jit.fork(torch.relu, z)
        print("hi", self.words, z.shape, "\x00\x7fü\u1234")
        assert i == 3, "no"
        found = torch.jit.annotate(List[int], [])
        found.append(3)
        made = Pair(torch.jit.wait(forked), 3)
        if isinstance(number, int):
            z = z + number
        item = table["a"][0]
        if item is not None:
            z = z + item
        z = z + self.half.sum() + self.bfloat.sum() + self.bools.sum() + self.empty.sum() + self.cube.sum() + self.big.sum()
        z = z + self.tensors[0].sum()
        return (
            z, found, made, made.a, float("inf"), float("nan"), 1e-30, 3.0, 1e16, 123456789.123, -1.5, 1j, self.device, self.words,
            self.flags, self.complex, (self.nested, self.table), x[1:2, ..., None], x.to(self.device, torch.float16), self.mixed,
            torch.zeros([2, 3]), self.numbers, self.tuple, later.wait(),
        )  # fmt: skip


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor: int, word: str):
        return x * factor

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2, None, None


class Convolutions(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU())

    def forward(self, x):
        return torch.nn.functional.interpolate(self.stem(x), scale_factor=2.0).sum((2, 3))


def pointwise(a, b, c):
    d = a * b + c
    return torch.tanh(d) * torch.sigmoid(a) + d


def control(x: torch.Tensor, n: int, names: List[str], table: Dict[int, Tuple[int, str]]) -> Tuple[torch.Tensor, Optional[int]]:
    found: Optional[int] = None
    for i, name in enumerate(names):
        if name == "stop":
            found = i
            break
        elif n in table:
            number, word = table[n]
            x = x[:number, ...].contiguous() if len(word) > 2 else x
        else:
            continue
        while bool(x.sum() > 0):
            x -= 1
    try_me = [x.size(0) for _ in range(n)]
    return x.reshape(try_me[0], -1), found


def graphs() -> Iterator[tuple[str, Any]]:
    """Names and graphs of torch, before and after its own passes."""
    model = torch.jit.script(Everything().eval())
    yield "scripted", model.graph
    yield "inlined", model.inlined_graph
    frozen = torch.jit.freeze(model)
    yield "frozen", frozen.graph
    folded = frozen.graph.copy()
    for run in (torch._C._jit_pass_constant_propagation, torch._C._jit_pass_constant_pooling, torch._C._jit_pass_lower_all_tuples):
        run(folded)
        yield run.__name__, folded.copy()
    yield "control", torch.jit.script(control).graph
    x = torch.ones(1, 3, 8, 8)
    traced = torch.jit.trace(Convolutions().eval(), x)
    yield "traced", traced.graph
    yield "traced-inlined", traced.inlined_graph
    shaped = traced.inlined_graph.copy()
    torch._C._jit_pass_erase_shape_information(shaped)
    yield "shapes-erased", shaped
    yield ("python-op", torch.jit.trace(lambda x: Doubled.apply(x, 2, "a b'(,") * x, (torch.ones(2),), check_trace=False).graph)
    yield from optimised()


def optimised() -> Iterator[tuple[str, Any]]:
    """What torch's own groups look like: the legacy fuser, autodiff subgraphs, profiling, the tensor-expression fuser."""
    arguments = [torch.ones(2, 3) for _ in range(3)]
    function = torch.jit.script(pointwise)
    graph = function.graph.copy()
    torch._C._jit_pass_inline(graph)
    torch._C._jit_pass_complete_shape_analysis(graph, tuple(arguments), False)
    yield "shape-analysis", graph.copy()
    torch._C._jit_pass_create_autodiff_subgraphs(graph, 1)
    yield "autodiff", graph.copy()
    legacy = torch.jit.script(pointwise).graph.copy()
    torch._C._jit_pass_complete_shape_analysis(legacy, tuple(arguments), False)
    before = torch._C._jit_can_fuse_on_cpu_legacy() if hasattr(torch._C, "_jit_can_fuse_on_cpu_legacy") else False
    torch._C._jit_override_can_fuse_on_cpu_legacy(True)
    try:
        torch._C._jit_pass_fuse(legacy, False)
    finally:
        torch._C._jit_override_can_fuse_on_cpu_legacy(before)
    yield "legacy-fuser", legacy
    with torch.enable_grad():
        arguments[0].requires_grad_()
        for _ in range(3):
            function(*arguments)
        yield "profiled", torch.jit.last_executed_optimized_graph()


@pytest.fixture(scope="module")
def corpus() -> dict[str, tuple[Any, str]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: (graph, str(graph)) for name, graph in graphs()}


NAMES = [
    "scripted", "inlined", "frozen", "_jit_pass_constant_propagation", "_jit_pass_constant_pooling", "_jit_pass_lower_all_tuples",
    "control", "traced", "traced-inlined", "shapes-erased", "python-op", "shape-analysis", "autodiff", "legacy-fuser", "profiled",
]  # fmt: skip


def test_every_graph_is_listed(corpus):
    assert list(corpus) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_torch_text_parses_with_all_nodes_and_round_trips(name, corpus):
    theirs, printed = corpus[name]
    graph = parse(printed)
    verify(graph)
    assert [re.sub(r"^prim::PythonOp$", "^Doubled", op) for op in _ops(theirs)] == [node.op for node in graph.nodes()]
    text = str(graph)
    assert text.partition("):\n")[0] == printed.partition("):\n")[0], "inputs are written as torch writes them"
    again = parse(text)
    assert str(again) == text
    assert same_structure(graph, again, elements=False)


def _ops(graph: Any) -> list[str]:
    """The ops of a torch graph in textual order, into blocks and subgraphs."""
    found: list[str] = []
    for node in graph.nodes():
        found.append(node.kind())
        if node.hasAttribute("Subgraph") and node.kind() != "prim::PythonOp":
            found += _ops(node.g("Subgraph"))
        for block in node.blocks():
            found += _ops(block)
    return found


@pytest.mark.parametrize("name", ["traced-inlined", "shape-analysis", "control"])
def test_lines_are_those_of_torch(name, corpus):
    """Where torch prints neither groups nor rounded numbers, ours differs in nothing but nodes without results."""
    text = re.sub(r"(?m)^( +) = ", r"\1", corpus[name][1])
    assert _with_short_numbers(str(parse(text))) == _with_short_numbers(text)


def _with_short_numbers(text: str) -> list[str]:
    """The lines, with `0.10000000000000001`, which torch prints, as `0.1`."""
    return [re.sub(r"value=(-?\d+\.\d[\de+-]*)\]", lambda found: f"value={float(found[1])}]", line) for line in text.splitlines()]
