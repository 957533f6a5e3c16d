"""Sizes of blocks, tolerances of rounding, and what estimates of memory and time count with, each with its unit.

They trade memory and time, or keep arithmetic within floating point. Numbers that decide something of a model are
fields of `mlkm.search.policy.Policy`, or of `mlkm.runtime.rules.Rules` for the rooms below.
"""

# --- memory
MATRICES_HELD = 6  # matrices of features, or of their products, that a fit holds at the same time, about
ROW_COPIES = 4  # copies of the rows that a fit in memory holds at the same time, about
LIBRARY_BYTES = 250e6  # bytes of the imported libraries
MATRIX_ALONE = 20_000  # rows above which a kernel matrix, of 2 n^2 bytes, is the only one in memory
MEMORY_SHARE = 0.5  # share of the free memory that is taken where nothing is said
UNKNOWN_MEMORY = 2 * 10**9  # bytes that are taken where the system does not say what is free
NUMBER_BYTES, WORD_BYTES = 8, 64  # bytes of a cell of a table in memory, about
MOST_SCORES = 2_000_000  # rows out of memory whose scores of a band are all stored; of more, quantiles are

# --- blocks of work
BLOCK = 2048  # rows whose products are taken in one go, in the precision of their features
FAN = 8  # results that are added one after the other before they count as one
TREE_LEVELS = 16  # levels of a tree of such sums: 8^16 results at most
PART_ENTRIES = 2**22  # numbers of a part of all rows that is read at once: 32 MB
PART_ROWS = 8 * BLOCK  # rows of it at most
PART_THREADS = 8  # threads at most that work on parts at the same time
PART_BYTES, LARGEST_PART_BYTES = 2**20, 2**31 - 1  # bytes of a text file that are read at once, at first and at most
READ_BYTES = 2**20  # bytes of a model file that are read at a time
TASK_RETRIES = 3  # repetitions of a task of a cluster that fails, as by a file that could not be read just then
SCORE_BITS = 20  # bits of a score that give its bin: sign, exponent and eight bits of its digits
EXCHANGED_COLUMNS = 20  # columns whose values are exchanged in one call of predict, for relevances
BLOCK_ENTRIES = 2**20  # numbers in a block of features of layer 1 in training: 8 MB in float64
EPOCHS_AHEAD = 50  # epochs at most that a rotation in a process of its own runs ahead of the stopping rule
WEIGHTS_AHEAD = 2**22  # weights that it returns of them, at most
EXPORTED_INDICATOR_LEVELS = 32  # levels of a column up to which ONNX compares levels by a product of indicators
EXPORTED_SIDE = 2000  # rows or features of a factor that an ONNX model stores, at most: 32 MB
BAND_ENTRIES = 2**22  # numbers in a block of new rows by training rows, for bands of method="cross": 32 MB
PRODUCT_TASKS = 64  # tasks of a cluster per product with a kernel matrix

TEMPORARY_ENTRIES = 2**23  # numbers of a temporary array: 64 MB in float64
PARALLEL_ENTRIES = 2**23  # features times rows from which two machines predict at the same time
CACHE_ENTRIES = 2**18  # numbers of a kernel matrix that stay in a processor's cache
PIECE_ROWS, PIECE_COLUMNS = 128, 2048  # rows and columns of a piece of a kernel matrix, which stays in that cache
PAIR_ROWS = 1024  # rows of a block of a kernel matrix that is not stored
PRODUCT_ROWS = 512  # rows of a kernel matrix that are converted to float64 at a time, for a product

# --- sizes from which on another way to compute the same takes less time or memory
EXACT_ROWS = 1500  # rows up to which one decomposition in float64 is cheap; above, features are summed over blocks
PATH_FEATURES = 1500  # features up to which one eigendecomposition costs less than a search by factorisations
FLOAT64_ROWS = 1000  # rows up to which a kernel matrix in float64 costs next to nothing
FLOAT64_FACTOR_ROWS = 8000  # rows of a Cholesky factor in float64 at most; n^3/3 products
FACTOR_ROWS = 20_000  # rows of any factor at most, 8 n^2 bytes; with more rows conjugate gradients end where they are
DIRECT_ROWS = 4000  # rows up to which a factor in float32 takes less time than conjugate gradients
STORED_BYTES = 4e9  # bytes of a kernel matrix in memory at most; 2 n^2 for the whole of it, up to 44,700 rows
FLOAT64_WORK = 5e10  # products of features and rows (n D^2) up to which they are in float64: a second or two
FLOAT32_FEATURES = 512  # features from which leverages are computed in float32, where that is precise enough
FACTOR_SIDE = 4096  # features or rows of the factor of a tangent model at most
STORED_SUM_FEATURES = 500  # features whose sums are stored in place of rows: 2 MB
INDICATOR_LEVELS = 8  # levels of a category up to which a product of indicators takes less time than comparisons
PRECONDITIONER_LANDMARKS = 1000  # landmarks of the preconditioner at least; n M^2 products
ROWS_PER_LANDMARK = 20  # rows that bring one landmark more: steps are dearer the more rows there are
# numbers of its eigenvectors at most, a gigabyte: 3660 landmarks for 73,000 rows, 2684 for 100,000, 268 for a million
PRECONDITIONER_ENTRIES = 2**28
CONJUGATE_STEPS = 100  # steps of conjugate gradients at most: a factor takes less time than more of them

# --- samples of rows and grids from which an estimate is computed: more take longer and are more precise
SHIFT_ROWS = 1000  # rows whose mean feature is subtracted before sums of products are formed

# --- tolerances
LARGEST_NUMBER = 1e300  # magnitude of inputs and targets up to which differences, limits and intervals do not overflow
FURTHEST_INPUT = 1e100  # standard deviations up to which sums of squares of inputs do not overflow
FURTHEST_TARGET = 1e100  # standard deviations of y beyond which targets are measured in larger units
ROUNDING = 64 * 2.0**-52  # variation of a column, relative to its largest magnitude, that is rounding error
LEAST_WEIGHT, LARGEST_WEIGHT = 1e-100, 2.0**53  # largest weight of a row, outside which all are divided by it
LOST_WEIGHT = 2.0**-100  # share of the largest weight below which a row changes no sum, nor is a number in float32
RANK_TIE = 1e-9  # mean absolute deviations within which values of a column have the same rank
CIRCLE_DIGITS = 9  # digits of a place on a circle: later ones tell the same hour of two days apart, and ranks would
LARGEST_LOSS = 1e6  # largest ratio of the earlier sums of squares to those after rows are taken away
SAME_FEATURES = 1e-6  # difference of the features of two models that are the same
LONGEST_FREQUENCY = 1e30  # a longer one has a random phase at any two points, as this has, and overflows in float32
LEAST_ORDER = 1e-300  # order of a Matern kernel: of smaller ones SciPy's Bessel functions differ by version
MOST_STEPS = 10**9  # steps of a solver: at a tenth of a millisecond each, about the least of a pass, more than a day
LARGEST_ANGLE = 1e100  # inputs times scale: cosines lose all digits far below (1e16), squares overflow above (1e154)
EXPORT_ERROR = 1e-4  # bound on the error of an ONNX model in float32, y having variance 1; signs leave much less
LARGEST_FACTOR = 1e300  # factor of simulated noise and inputs, at most: a few times this number is still finite
WEIGHT_ROUNDING = 1e-12  # relative error of a sum of weights, by which it may miss a level that it reaches
NEGLIGIBLE_UNIT = 1e-12  # share of the largest unit of a score that a unit of zero counts as
WEAK_MOMENT = 1e-2  # share of the least penalty below which second moments are dropped from a quantile fit
PRECISE_NOISE = 1e-3  # noise variance, y having 1, below which sums over many rows are in float64
LANDMARK_FLOORS = (1e-4, 1e-7)  # shares of the mean variance added to landmarks' kernel matrices, float32 and float64
SEARCH_GRID = 2.0**20  # steps per standard deviation to which the rows of a search are rounded
UNIT_SUM_PENALTY = 1e3  # weight of the equation by which stacking weights sum to one, relative to the largest entry
LEAST_PENALTY = 1e-14  # penalty on standardised rows below which the ridge is lost in rounding
DAMPED_PENALTY = 1e-8  # penalty from which more features than rows are no trouble to the primal
FLOAT32_NOISE = 1e-4  # noise variance, relative to the kernel's, from which float32 is precise enough
FLOAT32_LEVERAGE_ERROR = 1e-4  # largest relative error of a leverage + 1 that float32 may cause
CONJUGATE_TOLERANCE = 0.02  # length of the remaining residual relative to that of the residuals of the fit
LOST_EIGENVALUES = 1e-6  # eigenvalues, relative to the largest, that are lost in the rounding of float32
GRAM_ROUNDING = 1e-5  # error of products of orthonormal columns in float32
SUM_ROUNDING = 4 * 2.0**-52  # error of a sum of squares in float64, relative to its largest value so far
LOST_RESIDUALS = 1e-5  # share of the variance of y that is lost in the rounding of float32
LEAST_NOISE = 1e-8  # noise variance, y having 1, with which a kernel matrix can be factorised in float64
FAILED_VALUE = 1e3  # objective of a climb where a factorisation fails, in nats per row: the line search turns back
RANK_SHIFT = 1e-9  # share of all rows by which knots lie below ranks: far above rounding, far below a row's weight
CONSTANT_TARGETS = 1e-12  # standard deviation relative to the mean below which targets have hardly a digit left
# standard deviations of targets that descent takes in their units: products of as many weights as layers grow with them
TARGET_SDS = (1e-30, 1e30)

# --- estimates of time
SEARCH_TERMS = 4  # terms of the kernel of one search
INPUTS_LEFT = 20  # inputs of many that are left after a search, about
STEP_EVALUATIONS = 1.2  # evaluations of the evidence per step of a climb
SOLVES_PER_FIT = 1.4  # solves per fit, as some targets are solved on two scales

# --- what is shown
QUIET_SECONDS = 1.0  # seconds before progress is drawn
ANNOUNCED_SECONDS = 5.0  # seconds of a stage from which on it is said what is left
SHOWN_LETTERS = 40  # letters of a cell in a message
