"""Which order a block must keep, by which reason, and which order is free. Random orders are run in `alias/test_execution.py`."""

from irscope.analysis.dependence import Dependences, dependences
from irscope.ir.text.parser import parse
from tests.programs import parsed
from tests.work import calls_made


def kinds(ties: Dependences, later: str) -> dict[str, str]:
    found = ties.predecessors[ties.graph.node(later)]
    return {ties.graph.names[tie.node.outputs[0]] if tie.node.outputs else tie.node.op: tie.kind for tie in found}


def test_data_and_memory_tie() -> None:
    ties = dependences(parsed("x y | a = neg x; b = neg a; w = relu_ a; d = neg a; e = neg y |"))
    assert kinds(ties, "b") == {"a": "data"} and kinds(ties, "w") == {"a": "data", "b": "memory"}
    assert kinds(ties, "d") == {"a": "data", "w": "memory"} and kinds(ties, "e") == {}
    tie = next(tie for tie in ties.predecessors[ties.graph.node("d")] if tie.kind == "memory")
    assert tie.because == "aten::relu_ (%w) writes %a and aten::neg (%d) reads %a afterwards"


def test_what_follows_from_other_ties_is_left_out() -> None:
    ties = dependences(parsed("x | a = neg x; b = neg a; w = relu_ a; v = neg_ a |"))
    assert kinds(ties, "v") == {"a": "data", "w": "memory"}


def test_many_ifs_over_one_value_stay_near_linear() -> None:
    def work(count: int) -> int:
        lines = []
        last = "x"
        for i in range(count):
            lines.append(
                f"  %r{i} : Tensor = prim::If(%c)\n    block0():\n      %f{i} : Tensor = aten::neg(%x)\n      -> (%f{i})\n"
                f"    block1():\n      -> (%{last})\n  %w{i} : Tensor = aten::relu_(%r{i})"
            )
            last = f"r{i}"
        graph = parse("graph(%x : Tensor, %c : bool):\n" + "\n".join(lines) + "\n  return ()")
        ties = dependences(graph)
        assert sum(map(len, ties.predecessors.values())) <= 6 * count
        return calls_made(lambda: dependences(graph))

    work(100)
    assert work(2000) < 15 * work(200)
