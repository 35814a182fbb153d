"""What is the JSON that every display draws? Text, SVG, standalone HTML and the widgets read only these records.

Records of a graph (values, nodes, blocks) are identified by ids, which are unique across all three and never reused, so a
selection is a list of ids in every view. Boxes that do not represent a record (modules of the user's model) have negative ids.
The TypeScript side's `schema.d.ts` is generated from the files of this folder.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
