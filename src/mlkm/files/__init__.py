"""Models as files: what is written, what is believed, and how."""

from .store import load, save

__all__ = ["load", "save"]
