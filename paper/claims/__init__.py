"""The first screen: what the paper says, whether it holds here, and where to look.

Verdicts and figures come from the results; a claim whose experiment has not been run is left out.
"""

from ..experiment import Block
from . import accuracy, theory
from .base import All, as_blocks

TITLE = "What the paper claims, and what holds here"
CLAIMS = (
    theory.minimax_rate,
    theory.convergence,
    theory.coverage_bounds,
    theory.time_per_pass,
    theory.storage,
    theory.cheaper,
    accuracy.example1,
    accuracy.example2,
    accuracy.bold_at_the_end,
    accuracy.example3,
    accuracy.example4_few,
    accuracy.example4_many,
    accuracy.sml,
    accuracy.sml_published,
    accuracy.years,
    accuracy.large,
    accuracy.cross_fitting,
    theory.bias,
    accuracy.residual_blocks,
    accuracy.smooth_first,
    accuracy.bands,
    accuracy.better_than_bootstrap,
)


def blocks(every: All) -> list[Block]:
    """The table of claims from the results of every experiment, or nothing."""
    return as_blocks([claim for make in CLAIMS if (claim := make(every)) is not None])
