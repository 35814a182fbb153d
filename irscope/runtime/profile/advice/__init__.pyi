from .evidence import Remark

__all__ = ["Remark"]
