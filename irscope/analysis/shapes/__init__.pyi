from .inference import Shapes as Shapes, infer as infer, infer_after as infer_after, refined as refined
from .inference import retyped as retyped
from .transfer import CallerVisible as CallerVisible, NodeSignature as NodeSignature, reshaped_objects as reshaped_objects
