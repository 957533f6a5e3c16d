"""Hypothesis draws the same examples in every run, and no example fails for being slow on a busy machine."""

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
