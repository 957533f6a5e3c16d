"""Tables as people have them: what their columns are, and their values as inputs of a model."""

from .reading import TableEncoder

__all__ = ["TableEncoder"]
