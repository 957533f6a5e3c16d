"""The file of records: for every setting its outputs, its predictions with a search, and the decisions of that search.

All arrays of a setting stand one after the other in one array, whose layout is told in JSON: thousands of small files
in one archive would take more room than what they hold.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .decisions import Decided, Decisions

FILE = Path(__file__).parents[1] / "files" / "characterisation" / "records.npz"


@dataclass(frozen=True)
class Record:
    """What is stored of a setting: outputs with the decisions given, and predictions of test rows with a search."""

    outputs: dict[str, np.ndarray]
    searched: np.ndarray
    decisions: Decisions


def read(names: list[str]) -> dict[str, Record]:
    """Return the records of these settings."""
    with np.load(FILE) as archive:
        return {name: _unpacked(str(archive[f"{name}.layout"]), archive[f"{name}.values"]) for name in names}


def write(records: dict[str, Record]) -> None:
    """Replace the file."""
    FILE.parent.mkdir(parents=True, exist_ok=True)
    members: dict[str, Any] = {}
    for name, record in records.items():
        layout, values = _packed(record)
        members |= {f"{name}.layout": np.array(layout), f"{name}.values": values}
    np.savez_compressed(FILE, **members)


def names() -> list[str]:
    """Return the names of the settings that have a record."""
    with np.load(FILE) as archive:
        return [name.removesuffix(".layout") for name in archive.files if name.endswith(".layout")]


def _packed(record: Record) -> tuple[str, np.ndarray]:
    layout: dict[str, Any] = {
        "outputs": {name: array.shape for name, array in record.outputs.items()},
        "searched": record.searched.shape,
        "decisions": [
            [decided.kind, len(decided.moments), {name: array.shape for name, array in decided.arrays.items()}]
            for decided in record.decisions.made
        ],
    }
    arrays = [*record.outputs.values(), record.searched]
    for decided in record.decisions.made:
        arrays += [decided.moments, *decided.arrays.values()]
    return json.dumps(layout), np.concatenate([np.ravel(array).astype(np.float64) for array in arrays])


def _unpacked(layout: str, values: np.ndarray) -> Record:
    told, parts = json.loads(layout), _Parts(values)
    outputs = {name: parts.next(shape) for name, shape in told["outputs"].items()}
    searched = parts.next(told["searched"])
    made = []
    for kind, n, shapes in told["decisions"]:
        moments = parts.next([n])
        made.append(Decided(kind, moments, {name: parts.next(shape) for name, shape in shapes.items()}))
    return Record(outputs, searched, Decisions(made))


class _Parts:
    """Arrays that stand one after the other."""

    def __init__(self, values: np.ndarray) -> None:
        self.values, self.at = values, 0

    def next(self, shape: list[int]) -> np.ndarray:
        """Return the next array, of this shape."""
        size = int(np.prod(shape))
        self.at += size
        return self.values[self.at - size : self.at].reshape(shape)
