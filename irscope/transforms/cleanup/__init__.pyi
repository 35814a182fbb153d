from .batch_norm import Followed as Followed, Hasher as Hasher, Made as Made, fold_batch_norm as fold_batch_norm
from .exported import restore_exported as restore_exported
from .fold import constant_node as constant_node, fold_constants as fold_constants, fold_tensors as fold_tensors
from .fold import fold_weights as fold_weights, remove_dead_nodes as remove_dead_nodes
from .loop_lists import tables_of_lists as tables_of_lists
from .loop_products import expand_loop_products as expand_loop_products, expand_recurrent as expand_recurrent, moves_on as moves_on
from .loop_products import ops_of_turn as ops_of_turn
from .onednn import split_linears as split_linears, use_onednn as use_onednn
