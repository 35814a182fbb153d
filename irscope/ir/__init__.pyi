from .builder import GraphBuilder as GraphBuilder, payload_type as payload_type
from .core import CONTROL_FLOW as CONTROL_FLOW, GROUPS as GROUPS, ISOLATED as ISOLATED, Block as Block, Graph as Graph
from .core import Location as Location, Module as Module, Node as Node, Origin as Origin, Step as Step, Symbol as Symbol, Use as Use
from .core import Value as Value, count_uses as count_uses, has_kernel as has_kernel, make_block as make_block, make_node as make_node
from .core import make_value as make_value, nest_of as nest_of, new_id as new_id, nodes_called as nodes_called, steps as steps
from .core import reads_of as reads_of, with_inner as with_inner
from .module import check_count as check_count, flatten_arguments as flatten_arguments, graph_of as graph_of, nested_paths as nested_paths
from .payload import NOT_CONSTANT as NOT_CONSTANT, Opaque as Opaque, TensorData as TensorData, argument_type as argument_type
from .payload import constant_of as constant_of, constant_value as constant_value
from .rewriter import Created as Created, Edit as Edit, Erased as Erased, Merged as Merged, Moved as Moved, Replaced as Replaced
from .rewriter import Rewriter as Rewriter
from .types import ANY as ANY, BOOL as BOOL, COMPLEX as COMPLEX, DEVICE as DEVICE, DTYPES as DTYPES, FLOAT as FLOAT
from .types import GENERATOR as GENERATOR, INT as INT, ITEM_SIZE as ITEM_SIZE, NONE as NONE, NUMBER as NUMBER, STORED_SIZE as STORED_SIZE
from .types import STR as STR, TENSOR as TENSOR, AwaitType as AwaitType, ClassType as ClassType, DictType as DictType, Dim as Dim
from .types import FutureType as FutureType, ListType as ListType, OptionalType as OptionalType, PrimitiveType as PrimitiveType
from .types import RRefType as RRefType, TensorType as TensorType, TupleType as TupleType, Type as Type, UnionType as UnionType
from .types import contradiction as contradiction, erase_refinements as erase_refinements, is_subtype as is_subtype, parts as parts
from .types import walk as walk
from .types import REQUIRED as REQUIRED, AliasAnnotation as AliasAnnotation, Argument as Argument, OpSchema as OpSchema
