from .builder import FunctionBuilder as FunctionBuilder, VectorBuilder as VectorBuilder
from .convolution import ConvolutionText as ConvolutionText, emit_convolution as emit_convolution
from .emit import GENERIC as GENERIC, emit_llvm as emit_llvm, least_rows as least_rows, vector_width as vector_width
from .kernel_base import Target as Target
