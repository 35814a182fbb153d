from .alias_db import AliasDb as AliasDb, MemoryOf as MemoryOf
from .explainer import LazyVerdict as LazyVerdict
from .paths import Step as Step
