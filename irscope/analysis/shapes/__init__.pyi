from .inference import Shapes, infer, infer_after, refine, refined, retyped
from .transfer import CallerVisible, NodeSignature, reshaped_objects

__all__ = ["NodeSignature", "CallerVisible", "Shapes", "infer", "infer_after", "refine", "refined", "retyped", "reshaped_objects"]
