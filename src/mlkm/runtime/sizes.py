"""Sizes of blocks, tolerances of rounding, and what estimates of memory and time count with, each with its unit.

They trade memory and time, or keep arithmetic within floating point, and decide nothing of a model beyond rounding.
Numbers that decide something are fields of `mlkm.search.policy.Policy`.
"""

# --- memory
MATRICES_HELD = 6  # matrices of features, or of their products, that a fit holds at the same time, about
ROW_COPIES = 4  # copies of the rows that a fit in memory holds at the same time, about
LIBRARY_BYTES = 250e6  # bytes of the imported libraries
MATRIX_ALONE = 20_000  # rows above which a kernel matrix, of 2 n^2 bytes, is the only one in memory

# --- blocks of work
EXCHANGED_COLUMNS = 20  # columns whose values are exchanged in one call of predict, for relevances
RELEVANCE_ENTRIES = 4_000_000  # features times rows at which the gradient of a fit is evaluated, for relevances
RELEVANCE_ROWS = (100, 1000)  # rows of them, at least and at most
BLOCK_ENTRIES = 2**20  # numbers in a block of features of layer 1 in training: 8 MB in float64
EPOCHS_AHEAD = 50  # epochs at most that a rotation in a process of its own runs ahead of the stopping rule
WEIGHTS_AHEAD = 2**22  # weights that it returns of them, at most
INDICATOR_LEVELS = 32  # levels of a column up to which ONNX compares levels by a product of indicators
EXPORTED_SIDE = 2000  # rows or features of a factor that an ONNX model stores, at most: 32 MB
BAND_ENTRIES = 2**22  # numbers in a block of new rows by training rows, for bands of method="cross": 32 MB
PRODUCT_TASKS = 64  # tasks of a cluster per product with a kernel matrix

# --- tolerances
LARGEST_ANGLE = 1e100  # inputs times scale: cosines lose all digits far below (1e16), squares overflow above (1e154)
EXPORT_ERROR = 1e-4  # bound on the error of an ONNX model in float32, y having variance 1; signs leave much less
LARGEST_FACTOR = 1e300  # factor of simulated noise and inputs, at most: a few times this number is still finite
WEIGHT_ROUNDING = 1e-12  # relative error of a sum of weights, by which it may miss a level that it reaches
NEGLIGIBLE_UNIT = 1e-12  # share of the largest unit of a score that a unit of zero counts as
WEAK_MOMENT = 1e-2  # share of the least penalty below which second moments are dropped from a quantile fit
QUANTILE_STEPS = 60  # steps of L-BFGS of a quantile fit at each penalty, at most
PRECISE_NOISE = 1e-3  # noise variance, y having 1, below which sums over many rows are in float64
LANDMARK_FLOORS = (1e-4, 1e-7)  # shares of the mean variance added to landmarks' kernel matrices, float32 and float64
SEARCH_GRID = 2.0**20  # steps per standard deviation to which the rows of a search are rounded
UNIT_SUM_PENALTY = 1e3  # weight of the equation by which stacking weights sum to one, relative to the largest entry
FACTOR_LOGS = (-9.0, 5.0)  # bounds on logarithms of factors of kernels' variances
NOISE_VARIANCES = (1e-9, 10.0)  # bounds on the noise variance, y having 1
LINK_KNOTS = 400  # knots of the table of a back-transformed mean, linear in between
LINK_ERRORS = 31  # quantiles of the errors over which a back-transformed mean is averaged

# --- estimates of time
SEARCH_TERMS = 4  # terms of the kernel of one search
INPUTS_LEFT = 20  # inputs of many that are left after a search, about
STEP_EVALUATIONS = 1.2  # evaluations of the evidence per step of a climb
SOLVES_PER_FIT = 1.4  # solves per fit, as some targets are solved on two scales
EFFORT_STEPS = 8  # sizes that are tried between two efforts
