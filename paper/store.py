"""Raw results: one CSV file per experiment, one line per cell, written as soon as the cell is done. A second run finds
it and goes on."""

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .data import Array

IDENTITY = ("version", "row", "system", "seed")


@dataclass(frozen=True, order=True)
class Cell:
    """One number or a few of one table: a version of an experiment, a row, a system and a seed."""

    version: str
    row: str
    system: str
    seed: int


class Unreadable(ValueError):
    """A file of results that has been damaged."""


class Store:
    """The file of one experiment: the identity of each cell, the package version, and the measures. Lists are kept as
    JSON."""

    def __init__(self, path: Path, measures: Sequence[str]) -> None:
        self.path = path
        self.columns = (*IDENTITY, "mlkm", *measures)

    def read(self) -> "Results":
        """All complete lines; a line cut off by an interruption is not one."""
        lines = csv.DictReader(io.StringIO(self._lines()[0].decode(), newline=""))
        if lines.fieldnames is None:
            return Results({})
        if not set(IDENTITY) <= set(lines.fieldnames):
            raise Unreadable(
                f"{self.path} is not a file of results: its first line lacks {', '.join(IDENTITY)}. Move it away"
                " and run again."
            )
        found: dict[Cell, dict[str, Any]] = {}
        for line in lines:
            if None in line.values() or None in line:
                continue
            try:
                cell = Cell(line["version"], line["row"], line["system"], int(line["seed"]))
                found[cell] = {
                    name: _parse(text) for name, text in line.items() if name not in (*IDENTITY, "mlkm") and text != ""
                }
            except ValueError as error:
                raise Unreadable(
                    f"{self.path}, line {lines.line_num}, cannot be read ({error}). Delete the line and run again."
                ) from None
        return Results(found)

    def _lines(self) -> tuple[bytes, bytes]:
        """The lines of the file, and what there is of a last one that was cut off."""
        content = self.path.read_bytes() if self.path.exists() else b""
        end = content.rfind(b"\n") + 1
        return content[:end], content[end:]

    def append(self, cell: Cell, mlkm_version: str, measures: dict[str, Any]) -> None:
        """Write a line at once, so that it is there or not; several runs may write to one file."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        unknown = set(measures) - set(self.columns)
        if unknown:
            raise ValueError(f"{self.path.name} has no columns {sorted(unknown)}; it has {self.columns}")
        text, (whole, cut) = io.StringIO(), self._lines()
        writer = csv.DictWriter(text, self.columns, restval="", lineterminator="\n")
        if not whole:
            writer.writeheader()
        values = {
            name: json.dumps(value) if isinstance(value, list) else f"{value:.8g}" for name, value in measures.items()
        }
        identity = {"version": cell.version, "row": cell.row, "system": cell.system, "seed": cell.seed}
        writer.writerow(identity | {"mlkm": mlkm_version} | values)
        with self.path.open("ab") as file:
            if cut:
                file.truncate(len(whole))
            file.write(text.getvalue().encode())


def _parse(text: str) -> Any:
    return json.loads(text) if text.startswith("[") else float(text)


class Results:
    """The cells of one experiment that are done."""

    def __init__(self, cells: dict[Cell, dict[str, Any]]) -> None:
        self.cells = cells

    def __contains__(self, cell: Cell) -> bool:
        return cell in self.cells

    def values(self, version: str, row: str, system: str, measure: str) -> Array:
        """The measure over seeds, in their order."""
        found = sorted(
            (cell.seed, value[measure]) for cell, value in self._at(version, row, system) if measure in value
        )
        return np.array([value for _, value in found], dtype=float)

    def lists(self, version: str, row: str, system: str, measure: str) -> list[list[float]]:
        """A measure that is a list, over seeds."""
        return [
            value[measure]
            for _, value in sorted(self._at(version, row, system), key=lambda item: item[0].seed)
            if measure in value
        ]

    def _at(self, version: str, row: str, system: str) -> Iterable[tuple[Cell, dict[str, Any]]]:
        return [
            (cell, value)
            for cell, value in self.cells.items()
            if (cell.version, cell.row, cell.system) == (version, row, system)
        ]

    def names(self, what: str, **given: str) -> list[str]:
        """The versions, rows or systems there are, in the order of their first cells, among those that have the given
        names."""
        chosen = (cell for cell in self.cells if all(getattr(cell, key) == value for key, value in given.items()))
        return list(dict.fromkeys(getattr(cell, what) for cell in chosen))
