"""What an experiment is: cells to compute, how to compute one, and how to show them all."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlkm.runtime.atomic import atomic_write

from .store import Cell, Results


@dataclass(frozen=True)
class Options:
    """How much to compute: number of seeds, the quick sizes instead of the paper's, and where the real data are."""

    seeds: int = 5
    quick: bool = False
    data_home: str | None = None

    @property
    def effort(self) -> float:
        """The share of the paper's epochs and replicates that is run."""
        return 0.05 if self.quick else 1.0


@dataclass(frozen=True)
class Text:
    """A paragraph in Markdown without links or lists."""

    text: str


@dataclass(frozen=True)
class Entry:
    """One entry of a table: our number, the published one, whether ours is the best of its column, and the experiments
    that it points to, each as (words, name)."""

    ours: str
    published: str = ""
    best: bool = False
    links: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Table:
    """Lines of entries under a header; a table of words has lines that break."""

    title: str
    header: Sequence[str]
    lines: Sequence[tuple[str, Sequence[Entry]]]
    words: bool = False


@dataclass(frozen=True)
class Figure:
    title: str
    path: Path


@dataclass(frozen=True)
class Details:
    """Tables for those who look for them, with words about them, folded away under their title."""

    title: str
    parts: Sequence[Table | Text]


Block = Text | Table | Figure | Details


def save_figure(canvas: Any, path: Path) -> None:
    """Write a figure of matplotlib to a PNG file."""
    with atomic_write(path) as file:
        canvas.savefig(file, format="png", dpi=110)


@dataclass(frozen=True)
class Experiment:
    """`cells` lists what there is to compute under the options, `run` computes one, `report` shows what is there;
    figures go to the given folder. `needs` says what is missing where there are no cells."""

    name: str
    title: str
    measures: tuple[str, ...]
    cells: Callable[[Options], list[Cell]]
    run: Callable[[Cell, Options], dict[str, Any]]
    report: Callable[[Results, Path], list[Block]]
    needs: str = ""
