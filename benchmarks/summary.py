"""From the file of results to the numbers of the page."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from .models import OURS, PEERS
from .suites import ALL_MODELS

CLIP = (0.5, 2.0)  # of ratios in a geometric mean: no single set decides it


def read(path: Path, threads: int | None = None) -> pd.DataFrame:
    """The last result of every cell, for one number of threads in each suite: the one given where it has any, or its
    most frequent one."""
    table = pd.read_csv(path)
    table = table[table["model"].isin(ALL_MODELS)]
    most = table.groupby("suite")["threads"].agg(lambda used: threads if threads in set(used) else used.mode().iloc[0])
    table = table[table["threads"] == table["suite"].map(most)]
    return table.drop_duplicates(["suite", "dataset", "repetition", "model"], keep="last").reset_index(drop=True)


def wide(table: pd.DataFrame, suite: str, value: str) -> pd.DataFrame:
    """One row per set and repetition, one column per model, in the order of the file."""
    part = table[(table["suite"] == suite) & (table["status"] == "ok")]
    rows = part.pivot(index=["dataset", "repetition"], columns="model", values=value)
    return rows[list(dict.fromkeys(part["model"]))].reindex(part.set_index(["dataset", "repetition"]).index.unique())


def geometric_mean(ratios: pd.Series) -> float:
    """Geometric mean of the ratios that exist, each clipped to [0.5, 2]."""
    ratios = ratios.dropna()
    return float(np.exp(np.log(ratios.clip(*CLIP)).mean())) if len(ratios) else np.nan


def best_peer(errors: pd.DataFrame) -> pd.Series:
    """The smallest error of any peer on each set and repetition."""
    return errors[[model for model in errors.columns if model in PEERS]].min(axis=1)


def best_of_file(path: Path, index: pd.MultiIndex) -> pd.Series:
    """The smallest RMSE of any method in a file with columns dataset, split, method, rmse, for the given sets and
    splits."""
    best = pd.read_csv(path).groupby(["dataset", "split"])["rmse"].min()
    return best.reindex(index)


@dataclass(frozen=True)
class RealSummary:
    """Errors and fit times on real data, by set and split, and what they are compared with."""

    errors: pd.DataFrame
    seconds: pd.DataFrame
    memory: pd.DataFrame
    references: dict[str, pd.Series]

    @classmethod
    def of(cls, table: pd.DataFrame, peers: Path | None) -> "RealSummary":
        errors, seconds, memory = (wide(table, "real", value) for value in ("error", "fit_seconds", "peak_mb"))
        references = {}
        if "catboost" in errors:
            references["CatBoost"] = errors["catboost"]
        if any(model in PEERS for model in errors):
            references["best peer"] = best_peer(errors)
        if peers is not None:
            references[f"best peer in {peers.name}"] = best_of_file(peers, errors.index)
        return cls(errors, seconds, memory, references)

    @property
    def strictest(self) -> str:
        """The reference that goals speak of: the file of peers where there is one."""
        return list(self.references)[-1]

    def ratio(self, model: str, reference: str) -> pd.Series:
        return self.errors[model] / self.references[reference]

    def by_set(self, model: str, reference: str) -> pd.Series:
        """Ratio on each set: the geometric mean over its splits."""
        return np.exp(np.log(self.ratio(model, reference)).groupby(level="dataset", sort=False).mean())

    def time_ratio(self, model: str) -> float:
        """Median over sets and splits of the fit time over CatBoost's."""
        return (
            float((self.seconds[model] / self.seconds["catboost"]).median()) if "catboost" in self.seconds else np.nan
        )

    def ratio_of_medians(self, model: str) -> float:
        """Median fit time over CatBoost's median fit time, on sets and splits where both ran."""
        if "catboost" not in self.seconds:
            return np.nan
        both = self.seconds[[model, "catboost"]].dropna()
        return float(both[model].median() / both["catboost"].median())


def simulated(table: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Mean error, its standard error, and mean fit seconds, by example and model."""
    errors, seconds = wide(table, "simulations", "error"), wide(table, "simulations", "fit_seconds")
    groups = errors.groupby(level="dataset", sort=False)
    return groups.mean(), groups.sem(), seconds.groupby(level="dataset", sort=False).mean()


def ablation(table: pd.DataFrame) -> pd.DataFrame:
    """RMSE without a lever over RMSE of the default, by set (mean squared errors averaged over seeds) and lever."""
    errors = wide(table, "ablation", "error").groupby(level="dataset", sort=False).mean()
    return (
        np.sqrt(errors.div(errors["default"], axis=0)).drop(columns="default")
        if "default" in errors
        else errors.iloc[:, :0]
    )


def is_ours(model: str) -> bool:
    return model in OURS
