"""How many features a layer has: while searching, and in the end."""

import numpy as np

from ..solvers.ridge import EXACT_ROWS
from .orders import Sizes
from .plan import Plan

NARROW, WIDE, WIDEST = 0, 1, 2


def search_sizes(d: int, n: int, plan: Plan, *, first: bool = False) -> Sizes:
    """Features while searching: fewer per input where there are many inputs, and few in all where there are few rows or
    in the first climb."""
    stage = 0 if n < plan.policy.tiny_rows else 1 if first else 2
    single, some = plan.policy.single_features[stage], plan.policy.order_features[stage]
    shared, least = plan.policy.shared_single
    return available_sizes(d, plan, int(np.clip(shared // d, least, single)), some, some)


def final_sizes(d: int, n: int, plan: Plan, width: int) -> Sizes:
    """Features of the final layer: narrow, wide or widest."""
    policy = plan.policy
    if plan.n_features is not None:
        return _shared(d, plan, plan.n_features)
    if n < policy.tiny_rows:
        return search_sizes(d, n, plan)
    wide = min(width, WIDE)
    single, (shared, least) = policy.wide_single[wide], policy.wide_shared
    full = policy.widest_full if width == WIDEST else share_of(n, policy.wide_full[wide])
    full = policy.exact_features if n <= EXACT_ROWS else full
    return available_sizes(d, plan, int(np.clip(shared * single // d, least, single)), policy.wide_pair[wide], full)


def share_of(n: int, share: tuple[int, int, int]) -> int:
    """One per so many rows, at least and at most so many."""
    every, least, most = share
    return int(np.clip(n // every, least, most))


def available_sizes(d: int, plan: Plan, single: int, pair: int, full: int) -> Sizes:
    """Sizes with the orders that are not wanted, or that coincide with the full one, left out."""
    has_full = plan.orders[-1] > 2 or (d > 1 and plan.orders[-1] == d)
    return Sizes(
        single if 1 in plan.orders else 0,
        pair if 2 in plan.orders and d > 2 else 0,
        full if has_full and d > 1 else 0,
    )


def _shared(d: int, plan: Plan, D: int) -> Sizes:
    """D features shared by the orders: up to a third for the single inputs, the rest between pairs and full."""
    there, (one_in, of_pairs) = available_sizes(d, plan, 1, 1, 1), plan.policy.given_shares
    orders = [there.single, there.pair, there.full]
    single = (D // d if sum(orders) == 1 else max(1, D // (one_in * d))) if there.single and d <= D else 0
    rest = D - single * d
    pair = 0 if not there.pair else (rest if not there.full else int(of_pairs * rest))
    return Sizes(single, pair, rest - pair if there.full or not (single or pair) else 0)
