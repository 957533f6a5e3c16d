"""The published numbers, from one file: published.csv."""

import csv
from functools import cache
from pathlib import Path


@cache
def _numbers() -> dict[tuple[str, str, str, str], tuple[float, str]]:
    with (Path(__file__).parent / "published.csv").open(newline="", encoding="utf-8") as file:
        return {
            (r["experiment"], r["row"], r["system"], r["measure"]): (float(r["value"]), r["source"])
            for r in csv.DictReader(file)
        }


def published(experiment: str, row: str, system: str, measure: str) -> float | None:
    """The published number, or None where the paper has none. Numbers of the published notebooks that the paper left
    out count too."""
    found = _numbers().get((experiment, row, system, measure))
    return None if found is None else found[0]


def omitted(experiment: str, row: str, system: str, measure: str) -> bool:
    """Whether the number is in the published notebooks but not in the paper."""
    return _numbers().get((experiment, row, system, measure), (0.0, ""))[1] == "notebook"
