"""The search for relevances on a sample of the rows: which inputs, on which scale, with what interactions.

Every step is kept only if the evidence is for it: ranks instead of the inputs as they are, and a whole matrix of scales
in the full order (d^2 parameters) only if it also explains rows the search has not seen.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._seeds import Purpose, generator
from .._threads import side_by_side
from .._types import IntArray
from ..model.features import features
from ..model.warp import Warp, warped
from ..rows import Rows
from . import rough, smooth
from .factors import best_two_factors
from .orders import draw, feature_map
from .plan import Plan
from .policy import Policy
from .screen import missed, relevant, telling_pairs
from .sizes import search_sizes


def fresh_rows(n: int, policy: Policy) -> slice:
    """Rows that no search has seen, if there are enough; else the last rows."""
    m, least = policy.fresh_rows
    begin = max(0, min(n - m, policy.rows)) if n < policy.rows + least else policy.rows
    return slice(begin, min(begin + m, n))


@dataclass(frozen=True)
class FoundRough:
    """The rough part as far as it is learned: its parameters, whether they are on ranks, and the inputs they belong
    to."""

    part: rough.Rough
    on_ranks: bool
    kept: IntArray


class Search:
    """Searches on the inputs and on their ranks; `on_ranks` says which of the two the smooth part uses."""

    def __init__(self, rows: Rows, ranks: Warp, plan: Plan) -> None:
        self.rows, self.plan, self.policy = rows, plan, plan.policy
        sample = slice(0, fresh_rows(len(rows), plan.policy).stop)
        self.inputs = {False: rows.X[sample], True: warped(ranks, rows.X[sample])}
        self.on_ranks = False

    def learn(self, on_ranks: bool, kept: IntArray, m: int, *, first: bool = False, **options: Any) -> smooth.Smooth:
        """One climb of the smooth part's evidence on m rows."""
        X, Y, weights = self.inputs[on_ranks][:m, kept], self.rows.Y[:m], self.rows.weights[:m]
        sizes = search_sizes(len(kept), len(self.rows), self.plan, first=first)
        return smooth.learn(X, Y, weights, self.plan, sizes, **options)

    def begin(self, kept: IntArray) -> tuple[smooth.Smooth, IntArray, FoundRough | None]:
        """The better of inputs and ranks; of many inputs the relevant ones, after every input had its chance beside the
        most relevant. Where no input is dropped, the rough part begins at the same time."""

        policy = self.policy

        def first_climb(on_ranks: bool) -> smooth.Smooth:
            per_input, least, most = policy.first_rows
            rows = int(np.clip(per_input * len(kept), least, most))
            return self.learn(on_ranks, kept, rows, max_iter=policy.first_steps, first=True)

        plain, ranked = side_by_side(lambda: first_climb(False), lambda: first_climb(True))
        first = self._better(plain, ranked)
        many = len(kept) > policy.none_dropped
        telling = self._telling(first, kept) if many else []

        def go_on(on_ranks: bool, warm: smooth.Smooth) -> smooth.Smooth:
            warm = replace(warm, pairs=tuple(dict.fromkeys([*telling, *warm.pairs])))
            return self.learn(on_ranks, kept, policy.rows, max_iter=policy.steps, warm=warm)

        started = None
        little_noise, near = policy.undecided  # few rows say little about functions without noise
        if first.noise < little_noise and abs(plain.value - ranked.value) < near:
            best = self._better(*side_by_side(lambda: go_on(False, plain), lambda: go_on(True, ranked)))
        else:
            begin_rough = self.plan.rough and not many
            best, started = side_by_side(
                lambda: go_on(self.on_ranks, first), lambda: self.begin_rough(kept) if begin_rough else None
            )
        if not many:
            return best, kept, started
        found = relevant(best, telling[: policy.most_telling[1]], policy)
        chosen = np.union1d(found, self._missed(best, kept)[: policy.most_kept])
        if len(kept) <= policy.most_rotated and len(chosen) > policy.worth_dropping * len(kept):
            return best, kept, None
        return smooth.restricted(best, chosen, policy), kept[chosen], None

    def _telling(self, first: smooth.Smooth, kept: IntArray) -> list[tuple[int, int]]:
        """Pairs with one of the most relevant inputs that tell about y."""
        m, rows = self.policy.pair_rows, self.rows
        leaders = np.argsort(-smooth.relevance(first.parameters), kind="stable")[: self.policy.leaders]
        return telling_pairs(rows.X[:m, kept], rows.Y[:m], rows.weights[:m], leaders, self.policy)

    def _missed(self, best: smooth.Smooth, kept: IntArray) -> IntArray:
        """Inputs that tell about what the fit has left."""
        m, rows = len(best.residuals), self.rows
        leaders = np.argsort(-best.slopes, kind="stable")[: self.policy.residual_leaders]
        return missed(rows.X[:m, kept], best.residuals, rows.weights[:m], leaders, self.policy)

    def _better(self, plain: smooth.Smooth, ranked: smooth.Smooth) -> smooth.Smooth:
        self.on_ranks = ranked.value < plain.value - self.policy.worth_ranks[0]
        return ranked if self.on_ranks else plain

    def finish_smooth(self, begin: smooth.Smooth, kept: IntArray) -> smooth.Smooth:
        """A longer climb where inputs were dropped, then one with a matrix in the full order; in float64 where the
        noise is small."""
        best, d, policy = begin, self.rows.X.shape[1], self.policy
        if len(kept) < d:
            best = self.learn(self.on_ranks, kept, policy.rows, max_iter=policy.steps, warm=begin)
        if 2 * len(kept) < d or best.value > begin.value + policy.afresh:
            # What was learned among inputs that are gone may mislead: begin afresh, and on the inputs as they are.
            afresh = self.learn(False, kept, policy.rows, max_iter=policy.first_steps)
            if afresh.value < best.value:
                best, self.on_ranks = afresh, False
        if 1 < len(kept) <= policy.most_rotated and search_sizes(len(kept), len(self.rows), self.plan).full:
            turned = self.learn(self.on_ranks, kept, policy.rows, max_iter=policy.steps, warm=best, rotation=True)
            if self._explains_better(turned, best, kept):
                best = turned
        if best.noise < policy.precise_noise:
            # Begin where the system can be factorised; a climb that went astray is not taken.
            noise = np.maximum(best.parameters["noise"], policy.precise_start)
            begin = replace(best, parameters=best.parameters | {"noise": noise})
            fine = self.learn(
                self.on_ranks, kept, policy.rows, max_iter=policy.precise_steps,
                warm=begin, rotation="rotation" in best.parameters, precise=True,
            )  # fmt: skip
            best = fine if fine.value < best.value else best
        return best

    def _explains_better(self, turned: smooth.Smooth, straight: smooth.Smooth, kept: IntArray) -> bool:
        """On fresh rows, by the evidence; without fresh rows, if the gain exceeds a nat for every added parameter."""
        n, d, policy = len(self.rows), len(kept), self.policy
        if n < policy.rows + policy.fresh_rows[1]:
            return turned.value < straight.value - d * (d - 1) / min(n, policy.rows)
        at = fresh_rows(n, policy)
        X, weights = self.inputs[self.on_ranks][at][:, kept], self.rows.weights[at]
        Y = self.rows.Y[at] - weights @ self.rows.Y[at] / weights.sum()
        values = []
        for candidate in (turned, straight):
            sizes = replace(search_sizes(d, n, self.plan), full=policy.judged_features)
            pairs = smooth.strongest_pairs(candidate.parameters, policy)
            draws = draw(generator(self.plan.seed, Purpose.JUDGED), d, sizes, self.plan.kernel, pairs)
            F = features(feature_map(draws, candidate.parameters), X)
            if self.plan.linear:
                F = np.hstack([F, X * np.exp(candidate.parameters["linear"])])
            F -= weights @ F / weights.sum()
            values.append(best_two_factors(F @ F.T, Y, weights, candidate.noise)[0])
        return values[0] < values[1]

    def begin_rough(self, kept: IntArray) -> FoundRough:
        """Relevances of the Laplacian kernel on few rows, on the inputs or on their ranks."""
        m = self.policy.rough_rows[0]
        plain, ranked = self._learn_rough(False, kept, m), self._learn_rough(True, kept, m)
        on_ranks = ranked.value < plain.value - self.policy.worth_ranks[1]
        return FoundRough(ranked if on_ranks else plain, on_ranks, kept)

    def finish_rough(self, begin: smooth.Smooth, start: FoundRough) -> FoundRough | None:
        """The same on more rows; None where the kernel is far from explaining y as the smooth part does."""
        if start.part.value > begin.value + self.policy.rough_far:
            return None
        part = self._learn_rough(start.on_ranks, start.kept, self.policy.rough_rows[1], warm=start.part)
        return replace(start, part=part)

    def _learn_rough(self, on_ranks: bool, kept: IntArray, m: int, **options: Any) -> rough.Rough:
        X, Y, weights = self.inputs[on_ranks][:m, kept], self.rows.Y[:m], self.rows.weights[:m]
        return rough.learn(X, Y, weights, self.policy, **options)
