from .evidence import Remark as Remark
