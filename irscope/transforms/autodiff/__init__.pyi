from .slice_pass import AutodiffSubgraphs as AutodiffSubgraphs, autodiff_subgraphs as autodiff_subgraphs
