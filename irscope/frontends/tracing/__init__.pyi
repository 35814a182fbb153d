from .source import trace as trace
