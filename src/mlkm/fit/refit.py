"""Other rows with the first layer of a fit: its kernels or features are held; variances, noise and penalty, which are
chosen by the rows, are chosen anew. There is no search."""

from dataclasses import replace

from ..data import Block
from ..model.prior import Prior
from ..search.kernel_features import features_of
from ..search.kernel_search import LearnedKernel, weighed
from ..search.plan import Plan
from ..solve import Problem
from .train import Fitted, by_kernels, one_layer


def train_again(rows: Block, plan: Plan, first: LearnedKernel | Prior) -> Fitted:
    """Kernels on as many rows as these are solved on, features for more, which stand for the kernels where these were
    learned."""
    once = replace(plan, policy=replace(plan.policy, draws=1, hidden_rows=0))  # variances begin at what they were
    if isinstance(first, LearnedKernel):
        kernels, most = once.policy.kernel_rows
        if len(rows) <= kernels:
            return by_kernels(rows.take(slice(0, most)), once, first)
        first = features_of(weighed(first, rows, once), rows, once)
    return one_layer(Problem(rows, (), None, plan.penalty, seed=plan.seed), once, first)
