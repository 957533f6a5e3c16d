"""Tables as people have them: what their columns are, and their values as inputs of a model."""

from .encoder import TableEncoder

__all__ = ["TableEncoder"]
