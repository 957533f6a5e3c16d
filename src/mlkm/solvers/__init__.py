"""How weights are found. A solver is a small object of its own settings, which says what it can train.

>>> from mlkm import MLKMRegressor
>>> from mlkm.solvers import GradientDescent
>>> model = MLKMRegressor(widths=(32, 8), solver=GradientDescent(learning_rate=1e-2))
>>> model.set_params(solver__patience=20).solver
GradientDescent(learning_rate=0.01, patience=20)
"""

from .base import Problem, Solution, Solver
from .closed_form import Kernels, Ridge
from .gradient import GradientDescent
from .projection import VariableProjection

BY_NAME = {"ridge": Ridge, "projection": VariableProjection, "gradient": GradientDescent, "kernels": Kernels}

__all__ = ["BY_NAME", "GradientDescent", "Kernels", "Problem", "Ridge", "Solution", "Solver", "VariableProjection"]
