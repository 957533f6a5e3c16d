"""Solvers for the weights. A solver is a small object of settings, which says what it can train.

>>> from mlkm import MLKMRegressor
>>> from mlkm.solvers import GradientDescent
>>> model = MLKMRegressor(widths=(32, 8), solver=GradientDescent(learning_rate=1e-2))
>>> model.set_params(solver__patience=20).solver
GradientDescent(learning_rate=0.01, patience=20)
"""

from .solve import BY_NAME, GradientDescent, Kernels, Problem, Ridge, Solution, Solver, VariableProjection

__all__ = ["BY_NAME", "GradientDescent", "Kernels", "Problem", "Ridge", "Solution", "Solver", "VariableProjection"]
