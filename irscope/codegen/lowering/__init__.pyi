from .lower import spec_of_group

__all__ = ["spec_of_group"]
