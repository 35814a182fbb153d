from .recording import Story, story

__all__ = ["Story", "story"]
