from .slice_pass import (
    AutodiffSubgraphs,
    autodiff_subgraphs,
)

__all__ = [
    "AutodiffSubgraphs",
    "autodiff_subgraphs",
]
