from .classes import Ladder as Ladder, pieces_of as pieces_of
from .constants import find_constants as find_constants, merge_constants as merge_constants
from .form import fingerprint as fingerprint, has_stable_fingerprint as has_stable_fingerprint
from .matching import Match as Match, match as match, meeting as meeting
from .pairing import same_bits as same_bits
from .piece import GIVES_UP as GIVES_UP, RANK as RANK, RELATIONS as RELATIONS, Piece as Piece, Relation as Relation, SlotPair as SlotPair
from .piece import format_payload as format_payload, operand_name as operand_name
from .result import Dedup as Dedup, dedup as dedup
