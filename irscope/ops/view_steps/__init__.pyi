from .extents import Extent as Extent, Num as Num, byte_words as byte_words, formula as formula, is_at_least as is_at_least
from .extents import is_unknown as is_unknown, product as product, quotient as quotient, tensor_bytes as tensor_bytes, typical as typical
from .layout import ByteSet as ByteSet, Layout as Layout, SymbolicBytes as SymbolicBytes, are_apart as are_apart
from .layout import are_disjoint as are_disjoint, byte_set as byte_set, bytes_covered as bytes_covered, make_layout as make_layout
from .rules import INVERSES as INVERSES, KINDS as KINDS, RETURNS as RETURNS, RULES as RULES, SCHEMAS as SCHEMAS
from .rules import Lowered as Lowered, lower as lower
from .steps import FRESH as FRESH, Cut as Cut, Dense as Dense, Expand as Expand, Joined as Joined, Kind as Kind, NotKnown as NotKnown
from .steps import Operand as Operand, Paired as Paired, Pick as Pick, Place as Place, Regroup as Regroup, Retyped as Retyped
from .steps import Returned as Returned, Step as Step, Steps as Steps, Window as Window
from .strided_steps import ANY_STRIDE as ANY_STRIDE, Copied as Copied, Failed as Failed, Outcome as Outcome, Undecided as Undecided
from .strided_steps import apply as apply, gap_between as gap_between, groups_of as groups_of
from .strided_steps import loose as loose, memory_order as memory_order, row_major as row_major
