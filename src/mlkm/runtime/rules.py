"""Numbers that decide something of a model, a band or a report in rooms below `mlkm.search.policy`, each with its unit.

`Policy` has the numbers that "auto" decides by, and an ablation replaces its fields. Reading a table, encoding levels,
solving and calibrating know no policy: what they decide by is here, the same for every fit, and `Policy.rules` shows
it. Numbers by which the same result is computed in another way are in `mlkm.runtime.sizes`.

>>> RULES.level_folds
5
"""

from dataclasses import dataclass
from math import log


@dataclass(frozen=True)
class Rules:
    """The decisions of reading, encoding, solving and calibrating."""

    # --- numbers and texts in the levels of a category
    numeral_places: int = 3  # numbers of a level that are read; more inputs where names have more
    numeral_share: float = 0.5  # share of the levels that must say the same before a number for it to be read
    numeral_values: int = 3  # different numbers that a place must have: two are told apart as levels
    text_levels: int = 20  # levels up to which they say enough by themselves, and their texts are not looked at
    text_runs: int = 4000  # runs of letters that are counted, at most; more see rarer words and take more memory
    text_directions: int = 50  # directions of texts that become inputs, at most

    # --- levels as numbers, where there are no kernels of levels
    few_levels: int = 8  # levels up to which each gets an indicator; of more, the mean target stands for each
    level_folds: int = 5  # folds, each of which is encoded by the targets of the others

    # --- how far inputs and predictions go; `python -m benchmarks.far_out` compares rules
    winsorised_rows: int = 4  # rows from which on an extreme value is winsorised
    believed_ranges: float = 10.0  # ranges of the other values within which an extreme one is believed
    clipped_ranges: float = 1.0  # ranges beyond the training values to which later ones are clipped
    overshoot: float = 0.5  # ranges by which predictions may exceed the targets where no input is beyond its range

    # --- rows of files and clusters that a search looks at
    sample_entries: int = 20_000_000  # numbers of the sample, 160 MB: fewer rows where there are many columns
    sample_rows: tuple[int, int] = (6000, 20_000)  # rows of it at least and at most: as many as kernels are solved on

    # --- kernels and transforms
    rank_knots: int = 256  # knots of the map of an input to its ranks, linear in between
    back_transform_knots: int = 400  # knots of the table of a back-transformed mean, linear in between
    back_transform_errors: int = 31  # quantiles of the errors over which a back-transformed mean is averaged
    least_log_amplitude: float = -8.0  # logarithm of the least amplitude of a kernel, y having 1, which stands for none
    largest_log: float = 4.0  # logarithm of the largest amplitude or scale of a kernel
    factor_logs: tuple[float, float] = (-9.0, 5.0)  # bounds on logarithms of factors of kernels' variances
    noise_variances: tuple[float, float] = (1e-9, 10.0)  # bounds on the noise variance, y having 1
    unseen_share: float = 1e-3  # share of the noise variance: an input that moves a kernel by less is not looked at
    least_level_variance: float = 1e-6  # variance of the effect of a level, y having 1, below which it is none
    lost_texts: float = 0.01  # share of the exponent of a product kernel that dropped directions of texts may have

    # --- penalties, errors and variances
    # powers of ten of the candidates, relative to the largest eigenvalue of the average product
    penalty_decades: tuple[int, int] = (-14, 2)
    penalties_per_decade: int = 4  # candidates per power of ten; a parabola through three of them gives the minimum
    penalty_tie: float = 1e-4 / log(10)  # fall of the log error that a penalty lower by a factor of e must bring
    loo_rows: int = 1000  # rows, the last ones, at which leave-one-out errors of fits to many rows are computed
    posterior_rows: int = 4000  # rows of the posterior of fits to many rows: a prediction takes their square
    usual_rows: int = 1000  # the first of these, at which the usual variance of f is taken
    least_degrees: float = 1.0  # degrees of freedom left for the noise where a fit interpolates

    # --- effects and relevances
    effect_rows: int = 2000  # rows of a fit to many that are stored, for effects to be averaged over
    relevance_entries: int = 4_000_000  # features times rows at which the gradient of a fit is evaluated
    relevance_rows: tuple[int, int] = (100, 1000)  # rows of them, at least and at most

    # --- bands
    quantile_decades: tuple[int, int] = (0, -6)  # powers of ten of the penalties of a quantile fit, without the last
    quantile_steps: int = 60  # steps of L-BFGS of a quantile fit at each penalty, at most
    judging_folds: int = 5  # parts of the calibration rows, each judged by the band of the others, on the command line


RULES = Rules()
