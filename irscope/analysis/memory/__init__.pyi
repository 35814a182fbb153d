from .live_ranges import Buffer, Offers
from .placement import Block, Place, stacked
from .plan import MemoryPlan, memory_plan

__all__ = ["Block", "Buffer", "MemoryPlan", "Offers", "Place", "memory_plan", "stacked"]
