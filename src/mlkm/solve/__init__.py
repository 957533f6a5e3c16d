"""Solvers for the weights: ridge regression from sums or from kernels, descent, variable projection."""

from .closed_form import Kernels, Ridge
from .gradient import GradientDescent
from .projection import VariableProjection
from .solver import Problem, Solution, Solver

BY_NAME = {"ridge": Ridge, "projection": VariableProjection, "gradient": GradientDescent, "kernels": Kernels}

__all__ = ["BY_NAME", "GradientDescent", "Kernels", "Problem", "Ridge", "Solution", "Solver", "VariableProjection"]
