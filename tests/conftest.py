"""Hypothesis draws the same examples in every run, and no example fails for being slow on a busy machine.

Tests run side by side, one process a core, and each has one BLAS thread unless the environment says otherwise: more
threads than cores wait for each other.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
