"""Models as files: what is written, what is believed, and how."""

from .files import load, save

__all__ = ["load", "save"]
