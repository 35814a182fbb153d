from .registry import load as load
