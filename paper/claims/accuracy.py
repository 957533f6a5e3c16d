"""Claims about who is ahead of whom, and about bands on data; None where the experiment has not been run."""

from dataclasses import replace

import numpy as np

from ..data import AVAILABLE, AVAILABLE_CODED, CODED, WRITTEN
from ..experiments.table7 import ROW as SML
from ..experiments.table8 import paired
from ..published import published
from .base import MACHINES, PART, TAIL, YES, All, Claim, ahead, count, mean, rounded, short, span, verdict

BOTH = ((WRITTEN, "text"), (CODED, "program"))


def _against(every: All, table: str, others: tuple[str, str], said: str) -> Claim | None:
    """In how many columns MLKM and RKM are ahead of both others, by the text and by the program."""
    parts, hits = [], []
    for version, what in BOTH:
        found = [list(ahead(every[table], version, name, others).values()) for name in MACHINES]
        if all(found):
            parts.append(f"{sum(found[0])} and {count(found[1])} columns ({what})")
            hits += found
    return Claim(said, verdict(*hits), "ahead in " + ", ".join(parts), (table,)) if hits else None


def example1(every: All) -> Claim | None:
    said = "Example 1: MLKM, RKM ahead of KRR, RF"
    return _against(every, "table2", ("KRR", "RF"), said)


def example2(every: All) -> Claim | None:
    said = "Example 2: MLKM, RKM ahead of KRR, RF"
    return _against(every, "table3", ("KRR", "RF"), said)


def _over_the_mean(every: All, tables: tuple[str, ...], rows: tuple[str, ...]) -> str:
    """The errors of MLKM and RKM, in units of that of predicting the mean."""
    ratios = [
        mean(every[table], version, row, name) / mean(every[table], version, row, "mean")
        for table in tables
        for version, _ in BOTH
        for row in rows
        for name in MACHINES
    ]
    known = [ratio for ratio in ratios if np.isfinite(ratio)]
    return f"; error over that of the mean {span(known, '{:.2f}'.format)}" if known else ""


def bold_at_the_end(every: All) -> Claim | None:
    tables, row = ("table2", "table3"), "d = 128"
    hits = [
        found[row]
        for table in tables
        for version, _ in BOTH
        for name in MACHINES
        if row in (found := ahead(every[table], version, name, ("KRR", "RF", "mean")))
    ]
    if not hits:
        return None
    figures = f"ahead of KRR, RF and the mean in {count(hits)} cells{_over_the_mean(every, tables, (row,))}"
    return Claim("Tables 2, 3: MLKM and RKM in bold at d = 128", verdict(hits), figures, tables)


def example3(every: All) -> Claim | None:
    results, others = every["table4"], ("NN", "ResNet")
    parts, hits = [], []
    for version, measure, what in (
        (WRITTEN, "test_mse", "text"),
        (CODED, "test_mse", "program"),
        (CODED, "fresh_mse", "program, test rows that are not training rows"),
    ):
        found = [list(ahead(results, version, name, others, measure).values()) for name in MACHINES]
        if all(found):
            parts.append(f"{sum(found[0])} and {count(found[1])} columns ({what})")
            hits += found
    if not hits:
        return None
    figures = "ahead in " + ", ".join(parts)
    return Claim("Example 3: MLKM, RKM ahead of NN, ResNet", verdict(*hits), figures, ("table4",))


def example4_few(every: All) -> Claim | None:
    said = "Example 4, few inputs: MLKM, RKM ahead of NN, ResNet"
    return _against(every, "table5", ("NN", "ResNet"), said)


def example4_many(every: All) -> Claim | None:
    said = "Example 4, many inputs: MLKM, RKM ahead of NN, ResNet"
    found = _against(every, "table6", ("NN", "ResNet"), said)
    if found is None:
        return None
    return replace(found, figures=f"{found.figures}{_over_the_mean(every, ('table6',), ('d = 100', 'd = 1000'))}")


def sml(every: All) -> Claim | None:
    results = every["table7"]
    found = {name: mean(results, CODED, SML, name) for name in ("RF", "NN", "ResNet", "MLKM", "RKM", "least squares")}
    if np.isnan(list(found.values())).any():
        return None
    hits = [found[name] < found[other] for name in MACHINES for other in ("RF", "NN", "ResNet")]
    figures = "program: " + ", ".join(f"{name} {value:.2f}" for name, value in found.items())
    said = "SML2010: MLKM, RKM ahead of RF, NN, ResNet"
    return Claim(said, verdict(hits), figures, ("table7",))


def sml_published(every: All) -> Claim | None:
    parts, shares = [], []
    for name in MACHINES:
        values, known = every["table7"].values(CODED, SML, name, "test_mse"), published("table7", SML, name, "test_mse")
        if len(values) > 2 and known is not None:
            below = values <= known
            shares.append(float(below.mean()))
            sd = values.std(ddof=1)
            parts.append(f"{name} {known:.2f}, ours {values.mean():.2f}, sd {sd:.2f}, {count(below)} draws at or below")
    if not parts:
        return None
    holds = TAIL if max(shares) <= 0.1 else YES if min(shares) > 0.1 and max(shares) < 0.9 else PART
    return Claim("SML2010: the published errors of MLKM and RKM", holds, "; ".join(parts), ("table7",))


def years(every: All) -> Claim | None:
    results, version = every["table8"], AVAILABLE_CODED
    gains = [
        paired(results, version, (other, "test_mse"), (name, "test_mse"))
        for name in MACHINES
        for other in ("NN", "ResNet")
    ]
    if not all(map(len, gains)):
        return None
    to_mean = [paired(results, version, ("mean", "test_mse"), (name, "test_mse")) for name in MACHINES]
    figures = (
        f"program, rows of a sample: on {sum(gains[0] > 0)} and {count(gains[2] > 0)} draws; ahead of the mean on"
        f" {sum(to_mean[0] > 0)} and {count(to_mean[1] > 0)}"
    )
    said = "YearPredictionMSD: MLKM, RKM ahead of NN, ResNet"
    return Claim(said, verdict(*(gain > 0 for gain in gains)), figures, ("table8",))


def cross_fitting(every: All) -> Claim | None:
    parts, hits = [], []
    for kind in MACHINES:
        gain = paired(every["table8"], AVAILABLE_CODED, (kind, "test_mse"), (f"{kind}+", "test_mse"))
        if len(gain):
            parts.append(f"Table 8, program: {kind} - {kind}+ = {rounded(gain)}, above 0 on {count(gain > 0)} draws")
            hits.append(gain > 0)
    for table, name in (("table2", "Table 2"), ("table3", "Table 3")):
        found = {kind: list(ahead(every[table], WRITTEN, f"{kind}+", (kind,)).values()) for kind in MACHINES}
        if all(found.values()):
            parts.append(f"{name}: in {sum(found['MLKM'])} and {count(found['RKM'])} columns (text)")
            hits += list(found.values())
    if not hits:
        return None
    return Claim("Cross-fitting lowers the error", verdict(*hits), "; ".join(parts), ("table8", "table2", "table3"))


def residual_blocks(every: All) -> Claim | None:
    parts, hits = [], []
    gain = paired(every["table8"], AVAILABLE_CODED, ("MLKM", "test_mse"), ("RKM", "test_mse"))
    if len(gain):
        parts.append(f"Table 8, program: MLKM - RKM = {rounded(gain)}, above 0 on {count(gain > 0)} draws")
        hits.append(gain > 0)
    for version, what in BOTH:
        found = [hit for k in range(2, 8) for hit in ahead(every[f"table{k}"], version, "RKM", ("MLKM",)).values()]
        if found:
            parts.append(f"Tables 2 to 7: in {count(found)} columns ({what})")
            hits.append(np.array(found))
    if not hits:
        return None
    return Claim(
        "Residual blocks (RKM) improve on MLKM", verdict(*hits), "; ".join(parts), ("table8", "table2", "table4")
    )


def bands(every: All) -> Claim | None:
    covered = [
        mean(every[table], version, row, name, "coverage")
        for table in ("table2", "table3")
        for version, _ in BOTH
        for row in ("d = 4", "d = 8")
        for name in MACHINES
    ]
    shifted = [mean(every["table7"], WRITTEN, SML, name, "coverage") for name in MACHINES]
    if np.isnan([*covered, *shifted]).any():
        return None
    figures = f"Tables 2, 3: {span(covered, _percent, ' %')}; SML2010, later weeks: {span(shifted, _percent, ' %')}"
    hits = np.abs(np.array([*covered, *shifted]) - 0.95) < 0.02
    return Claim("The 95 % bands cover 95 %", verdict(hits), figures, ("table2", "table3", "table7"))


def _percent(share: float) -> str:
    return f"{100 * share:.0f}"


def better_than_bootstrap(every: All) -> Claim | None:
    results = every["table9"]
    found = {
        row: [mean(results, AVAILABLE, row, name, "coverage") for name in MACHINES]
        for row in ("bootstrap", "split conformal", "conformal MLKM")
    }
    if np.isnan(list(found.values())).any():
        return None
    away = {row: np.abs(np.array(values) - 0.95) for row, values in found.items()}
    hits = [away["conformal MLKM"] < away[row] - 0.01 for row in ("bootstrap", "split conformal")]
    figures = ", ".join(f"{row} {span(values, _percent, ' %')}" for row, values in found.items())
    said = "Conformal MLKM covers better than other bands"
    return Claim(said, verdict(hits), f"text, rows of a sample: {figures}", ("table9",))


def large(every: All) -> Claim | None:
    results = every["table10"]
    hits = [ahead(results, AVAILABLE, name, ("NN", "ResNet")) for name in MACHINES]
    if not all(hits):
        return None
    names = ("NN", "ResNet", "MLKM", "RKM", "least squares")
    figures = ", ".join(f"{name} {short(mean(results, AVAILABLE, 'large', name))}" for name in names)
    said = "YearPredictionMSD, large: MLKM, RKM ahead of NN, ResNet"
    return Claim(
        said, verdict(*(list(hit.values()) for hit in hits)), f"text, a sample of the rows: {figures}", ("table10",)
    )


def smooth_first(every: All) -> Claim | None:
    results, row = every["appendix"], "2-D four bumps"
    found = {
        name: (mean(results, CODED, row, name), mean(results, CODED, row, f"{name}, scales reversed"))
        for name in MACHINES
    }
    if np.isnan(list(found.values())).any():
        return None
    figures = ", ".join(f"{name} {short(a)}, reversed {short(b)}" for name, (a, b) in found.items())
    return Claim(
        "Small scales belong into the first layers", verdict([a < b for a, b in found.values()]), figures, ("appendix",)
    )
