"""Reports: a fit judged by held-out rows, as one page that needs nothing else."""

import os
from typing import TYPE_CHECKING, Any

from sklearn.exceptions import NotFittedError
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from ..runtime.checks import file_path

if TYPE_CHECKING:  # the page is imported at its first use, since every fit would wait for it
    from ..fit.apply import Predictor
    from .facts import FitRecord
    from .page import Report

__all__ = ["Reporting"]


class Reporting:
    """A mixin for regressors and bands: a report on held-out rows, and the facts of the fit for notebooks.

    `fit_facts_` is what the caller of `fit` recorded, such as the name of the target.
    """

    fit_facts_: "FitRecord"

    def report(self: "Predictor", X: Any, y: Any, path: str | os.PathLike[str] | None = None) -> "Report":
        """Make a page on this fit, judged by rows that it has not seen.

        It shows accuracy beside simple models, the band's coverage, relevance and effects of columns, residuals, rows
        outside the training range, and what to watch out for. It needs plotly (`pip install "mlkm[report]"`). The
        result shows itself in a notebook, and `save(path)` writes one HTML file that needs nothing else.

        Parameters
        ----------
        X, y : held-out rows: neither of the fit nor of the calibration of a band
        path : where to write the page, if it is to be written at once

        Examples
        --------
        >>> from mlkm import RandomFeatureRidge
        >>> from mlkm.datasets import make_example1
        >>> X, y, f = make_example1(n=300, d=4, random_state=0)
        >>> model = RandomFeatureRidge(50, random_state=0).fit(X[:200], y[:200])
        >>> [score.name for score in model.report(X[200:], y[200:]).facts.scores]
        ['RandomFeatureRidge', 'gradient boosting', 'ridge regression', 'mean']
        """
        from .page import make_report

        target = None if path is None else file_path("path", path)
        report = make_report(self, X, y)
        if target is not None:
            report.save(target)
        return report

    def _html_repr(self) -> str:
        """Return scikit-learn's diagram, below the facts of the fit where there is one."""
        diagram = str(estimator_html_repr(self))
        try:
            check_is_fitted(self)
        except NotFittedError:
            return diagram
        from .page import summary_html

        return summary_html(self) + diagram

    # scikit-learn 1.6 does not ask for `_html_repr`, but makes its diagram in these two.
    def _repr_html_inner(self) -> str:
        return self._html_repr()

    def _repr_mimebundle_(self, **kwargs: object) -> dict[str, str]:
        shown: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        return shown | {"text/html": self._html_repr()} if "text/html" in shown else shown
