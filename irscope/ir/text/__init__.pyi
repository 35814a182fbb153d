from .constant_text import (
    typed,
)
from .parser import (
    parse,
)
from .printer import (
    assign_names,
    keeps_given_names,
    print_graph,
    print_node,
)
from .type_text import (
    parse_type,
)

__all__ = [
    "assign_names",
    "keeps_given_names",
    "parse",
    "parse_type",
    "print_graph",
    "print_node",
    "typed",
]
