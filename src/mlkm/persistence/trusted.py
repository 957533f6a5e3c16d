"""The types that a model file may hold. A file has no say in this: what is not here is not made.

Objects are made from plain numbers, words, arrays and each other. Beside these types skops trusts scikit-learn's
estimators and numpy's own types. A forged file may call any name here with arguments of its choice: nothing that runs,
imports, opens or evaluates its arguments belongs here. Constructors that assign do not, and neither do metrics.

Not here are scikit-learn's trees (`sklearn.tree._tree.Tree` and its like), which follow places in their arrays without
looking whether these exist: a forged file could end the process.
"""


def _of(module: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{module}.{name}" for name in names)


OWN = (
    *_of("mlkm.estimators", "MLKMRegressor", "RKMRegressor", "RandomFeatureRidge"),
    *_of("mlkm.random_features", "RandomFeatures"),
    *_of("mlkm.auto.kernels", "LearnedKernel"),
    *_of("mlkm.kernels", "Cauchy", "Gaussian", "Laplacian", "Matern"),
    *_of("mlkm.solvers.closed_form", "Kernels", "Ridge"),
    *_of("mlkm.solvers.gradient", "GradientDescent"),
    *_of("mlkm.solvers.projection", "VariableProjection"),
    *_of("mlkm.model.features", "FeatureMap", "JointMap", "LinearMap"),
    *_of("mlkm.model.gaussians", "GaussianMap"),
    *_of("mlkm.model.landmarks", "LandmarkMap"),
    *_of("mlkm.model.last", "LastInputs"),
    *_of("mlkm.model.levels", "LevelMap"),
    *_of("mlkm.model.link", "Link", "Power"),
    *_of("mlkm.model.machine", "Machine"),
    *_of("mlkm.model.prior", "Part", "Prior", "SumPart"),
    *_of("mlkm.model.scales", "Geometric"),
    *_of("mlkm.model.sum_kernel", "SumKernel", "Term"),
    *_of("mlkm.model.warp", "Warp"),
    *_of("mlkm.model.warped", "WarpedKernel"),
    *_of("mlkm.rows.distinct", "Rows"),
    *_of("mlkm.rows.fence", "Fence"),
    *_of("mlkm.rows.inputs", "Inputs"),
    *_of("mlkm.rows.scaling", "Standardiser"),
    *_of("mlkm.tables.columns", "CategoryColumn", "DateColumn", "NumberColumn"),
    *_of("mlkm.tables.encoder", "TableEncoder"),
    *_of("mlkm.tables.means", "LevelNumbers", "LevelValues"),
    *_of("mlkm.tables.reading", "Reader"),
    *_of("mlkm.tables.text", "TextBasis"),
    *_of("mlkm.variance.estimator", "FitSummary"),
    *_of("mlkm.variance.layers", "LayersSummary"),
    *_of("mlkm.variance.row_facts", "RowFacts"),
    *_of("mlkm.variance.stack", "StackSummary"),
    *_of("mlkm.variance.summed", "SumsSummary"),
    *_of("mlkm.solvers.sums", "Sums"),
    *_of("mlkm.conformal.elsewhere", "Selected"),
    *_of("mlkm.conformal.bootstrap", "Bootstrap"),
    *_of("mlkm.conformal.cross", "Cross", "RowScores"),
    *_of("mlkm.conformal.end", "End"),
    *_of("mlkm.conformal.kept", "Kept"),
    *_of("mlkm.conformal.leave_one_out", "LeaveOneOut"),
    *_of("mlkm.conformal.online", "OnlineConformal", "_Waiting"),
    *_of("mlkm.conformal.quantile", "QuantileBand"),
    *_of("mlkm.conformal.regressor", "ConformalRegressor"),
    *_of("mlkm.conformal.request", "Shift"),
    *_of("mlkm.conformal.scores", "Recipe", "Scored"),
    *_of("mlkm.conformal.split", "Split"),
)

OTHERS = (
    *_of("fractions", "Fraction"),
    *_of("numpy", "dtype"),
    *_of("scipy.sparse._csr", "csr_array", "csr_matrix"),
    *_of("scipy.sparse._dia", "dia_array", "dia_matrix"),
    *_of(
        "sklearn.gaussian_process.kernels",
        "CompoundKernel",
        "ConstantKernel",
        "DotProduct",
        "ExpSineSquared",
        "Exponentiation",
        "Hyperparameter",
        "Matern",
        "PairwiseKernel",
        "Product",
        "RBF",
        "RationalQuadratic",
        "Sum",
        "WhiteKernel",
    ),
    *_of("sklearn.metrics._scorer", "_PassthroughScorer", "_Scorer"),
    *_of(
        "sklearn.metrics._regression",
        "d2_absolute_error_score",
        "explained_variance_score",
        "max_error",
        "mean_absolute_error",
        "mean_absolute_percentage_error",
        "mean_squared_error",
        "median_absolute_error",
        "r2_score",
        "root_mean_squared_error",
    ),
    *_of(
        "sklearn.model_selection._split",
        "GroupKFold",
        "GroupShuffleSplit",
        "KFold",
        "LeaveOneGroupOut",
        "LeaveOneOut",
        "LeavePGroupsOut",
        "LeavePOut",
        "PredefinedSplit",
        "RepeatedKFold",
        "ShuffleSplit",
        "TimeSeriesSplit",
        "_CVIterableWrapper",
    ),
    *_of("sklearn.utils._bunch", "Bunch"),
)

TRUSTED = (*OWN, *OTHERS)
