"""What sigma_y(x) needs to know of the rows of a fit beside their inputs."""

from dataclasses import dataclass

import numpy as np

from .._types import Array
from ..data import Rows


@dataclass(frozen=True)
class RowFacts:
    """How many distinct rows there are, how many with their copies, and half the range of every target."""

    n: int
    count: float
    reach: Array


def facts_of(rows: Rows) -> RowFacts:
    return RowFacts(len(rows), float(rows.counts.sum()), np.ptp(rows.Y, axis=0) / 2)
