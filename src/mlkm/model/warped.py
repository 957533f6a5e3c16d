"""A sum of kernels for targets on another scale, beside one for the targets as they are."""

from dataclasses import dataclass

from .link import Link, Power
from .sum_kernel import SumKernel


@dataclass(frozen=True)
class WarpedKernel:
    """The kernel, the noise variance of its solve, the way there and back, its share of the fit, and the share of the
    noise that has one size on that scale rather than on that of the targets."""

    kernel: SumKernel
    noise: float
    power: Power
    link: Link
    share: float
    noise_share: float
