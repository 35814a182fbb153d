from .alias_db import AliasDb as AliasDb, MemoryOf as MemoryOf
from .explainer import SAME_OBJECT as SAME_OBJECT, LazyVerdict as LazyVerdict
from .paths import Step as Step
