"""What is the JSON that every display draws? Text, SVG, standalone HTML and the widgets read these records and nothing else.

Records of a graph (values, nodes, blocks) go by their ids, which are unique over all three and never reused, so that a
selection is a list of ids in every view. Boxes that stand for no record (modules of the user's model) have negative ids.
The TypeScript side's `schema.d.ts` is generated from the files of this folder.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
