"""A report as an object: its facts, its page, and how it is kept."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

from .._types import Array
from ..runtime.atomic import atomic_write
from .facts import Facts, gather
from .page import page


@dataclass(frozen=True)
class Report:
    """What `model.report(X, y)` gives: `facts` is what it says as plain data, `html` the page."""

    facts: Facts
    title: str | None = None

    @cached_property
    def html(self) -> str:
        return page(self.facts, plotly_script(), self.title)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page to a file, which has its name only when it is complete."""
        target, text = Path(path), self.html
        with atomic_write(target) as file:
            file.write(text.encode())
        return target

    def _repr_html_(self) -> str:
        """The page in a frame of its own, for notebooks."""
        return (
            '<iframe title="Report" style="width:100%;height:44rem;border:1px solid #8886" sandbox="allow-scripts"'
            f' srcdoc="{escape(self.html)}"></iframe>'
        )


def make_report(
    model: Any,
    X: Any,
    y: Any,
    *,
    interval: Array | None = None,
    title: str | None = None,
    said: Mapping[str, Any] | None = None,
) -> Report:
    """A report on a fitted regressor or band by held-out rows; see `mlkm.report.facts.gather`."""
    plotly_script()  # before any work: what is missing is said at once
    return Report(gather(model, X, y, interval, said), title)


def plotly_script() -> str:
    """plotly's script, from its package."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise ImportError('A report needs the package plotly: pip install "mlkm[report]".') from None
    return str(get_plotlyjs())
