from .constant_text import typed as typed
from .module_text import is_module_text as is_module_text, parse_module as parse_module, print_module as print_module
from .parser import parse as parse
from .printer import assign_names as assign_names, copy_name as copy_name, keeps_given_names as keeps_given_names
from .printer import named_as as named_as, number_values as number_values
from .printer import print_first_lines as print_first_lines, print_graph as print_graph, print_node as print_node
from .type_text import parse_type as parse_type
