from .form import LoopForm as LoopForm, loop_form as loop_form
from .loop_call import LoopCall as LoopCall
