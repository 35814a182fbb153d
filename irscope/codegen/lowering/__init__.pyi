from .lower import spec_of_group as spec_of_group
