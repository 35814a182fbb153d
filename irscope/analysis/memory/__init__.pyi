from .live_ranges import Buffer as Buffer, Offers as Offers
from .placement import Block as Block, Place as Place, stacked as stacked
from .plan import MemoryPlan as MemoryPlan, memory_plan as memory_plan
