from .comparing import spec_attributes as spec_attributes, spec_graph as spec_graph
from .launches import SplitReduction as SplitReduction, canonical_launch as canonical_launch, with_tiled_reads as with_tiled_reads
from .loops import EXPONENTIALS as EXPONENTIALS, GATHERING as GATHERING, Pass as Pass, ReductionNest as ReductionNest
from .loops import accumulated_dtype as accumulated_dtype, accumulators as accumulators, arrange_loops as arrange_loops
from .loops import operations_per_point as operations_per_point, reduction_nest as reduction_nest
from .loops import traffic_of as traffic_of, use_online_softmax as use_online_softmax
from .source_text import NO_LINE as NO_LINE, NO_NODE as NO_NODE, Lines as Lines, SourceText as SourceText
from .spec import BROADCAST as BROADCAST, ITEM_SIZE as ITEM_SIZE, STRIDED as STRIDED, TILE_ROWS as TILE_ROWS, UNIT as UNIT
from .spec import Instruction as Instruction, KernelSpec as KernelSpec, Launch as Launch, LaunchPlan as LaunchPlan, Operand as Operand
from .spec import Result as Result, constant_bits as constant_bits
from .spec import is_float as is_float, may_overwrite as may_overwrite
from .spec import overwriting as overwriting, stride_classes as stride_classes, trimmed as trimmed
