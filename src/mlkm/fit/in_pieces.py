"""One layer in closed form on rows that are seen a piece at a time: layer 1 from a sample, sums over all rows, and the
penalty by leave-one-out at some of them."""

from dataclasses import dataclass

from .._progress import stage
from ..auto.plan import Plan
from ..model.prior import Prior
from ..rows import Rows
from ..rows.pieces import Piece, Pieces
from ..solvers.blocked import best_penalty, solved, summed
from ..solvers.closed_form import one_layer_solution, with_enough_digits
from ..solvers.sums import Sums
from .first_layer import first_layer, scale_of
from .train import Fitted, fitted_one

LEFT_OUT = 1000  # rows of the sample, its last ones, at which errors are measured


@dataclass(frozen=True)
class FittedInPieces:
    """The fit, its features, and the sums that it is made of."""

    fitted: Fitted
    prior: Prior
    sums: Sums


def train_in_pieces(sample: Rows, of_all: Piece, pieces: Pieces, plan: Plan) -> FittedInPieces:
    """Fit to all pieces; `sample` has weights of its own, `of_all` the same rows with theirs among all rows."""
    prior = with_enough_digits(first_layer(sample, plan), pieces.n_rows)
    at = slice(max(0, len(sample) - LEFT_OUT), None)
    left = Piece(of_all.X[at], of_all.Y[at], of_all.weights[at])
    products, sums = summed(prior, pieces, left)
    with stage("solve"):
        fit = best_penalty(products) if plan.penalty is None else solved(products, plan.penalty)
    solution = one_layer_solution(prior, [fit])
    widths = (solution.machines[0].maps[0].n_features,)
    return FittedInPieces(fitted_one(sample, solution, widths, (scale_of(prior),), prior), prior, sums)
