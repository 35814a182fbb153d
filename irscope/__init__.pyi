from . import corpus
from .analysis.alias import AliasDb
from .analysis.memory_plan import MemoryPlan, memory_plan
from .analysis.views import ViewAliases
from .compilers import Decisions, decisions
from .errors import IrscopeError
from .frontends.text import parse
from .frontends.tracing import trace
from .ir import Block, Graph, GraphBuilder, Module, Node, Value
from .ir.structural import same_structure
from .ops.accuracy import error_bound
from .ops.node_check import verify
from .report.program_diff import ProgramDiff, diff
from .runtime.device import devices
from .session import cache, compare, compile, explore, load, profile, timeline, write_report
from .teaching import quiz, story
from .transforms.autodiff import AutodiffSubgraphs, autodiff_subgraphs
from .transforms.dedup import Dedup, dedup
from .transforms.functionalize import functionalize
from .transforms.fusion import Fusion, fuse
from .transforms.pipeline import Pipeline, Pipelined

__all__ = [
    "AliasDb",
    "AutodiffSubgraphs",
    "Block",
    "Decisions",
    "Dedup",
    "Fusion",
    "Graph",
    "GraphBuilder",
    "IrscopeError",
    "MemoryPlan",
    "Module",
    "Node",
    "Pipeline",
    "Pipelined",
    "ProgramDiff",
    "Value",
    "ViewAliases",
    "autodiff_subgraphs",
    "cache",
    "compare",
    "compile",
    "corpus",
    "decisions",
    "dedup",
    "devices",
    "diff",
    "error_bound",
    "explore",
    "functionalize",
    "fuse",
    "load",
    "memory_plan",
    "parse",
    "profile",
    "quiz",
    "same_structure",
    "story",
    "timeline",
    "trace",
    "verify",
    "write_report",
]

__version__: str

def load_ipython_extension(shell: object) -> None: ...
