from .constant_text import typed
from .module_text import is_module_text, parse_module, print_module
from .parser import parse
from .printer import assign_names, keeps_given_names, print_first_lines, print_graph, print_node
from .type_text import parse_type

__all__ = [
    "assign_names",
    "is_module_text",
    "keeps_given_names",
    "parse",
    "parse_module",
    "parse_type",
    "print_first_lines",
    "print_graph",
    "print_module",
    "print_node",
    "typed",
]
