"""The suites by name."""

from . import ablation, models, real, scale, simulations, sml2010, tables
from .models import MODELS, Model
from .problem import Suite

_ALL = [*models.OURS, *models.PEERS]
SUITES = {
    suite.name: suite
    for suite in (
        Suite("real", "rmse", real.SETS, lambda name: _ALL, real.load, by_split=True),
        Suite("simulations", "mse", list(simulations.BY_NAME), lambda name: _ALL, simulations.load),
        Suite("scale", "mse", scale.SETS, lambda name: scale.MODELS[name], scale.load),
        Suite("sml2010", "mse", sml2010.SETS, lambda name: sml2010.MODELS, sml2010.load),
        Suite("tables", "rmse", tables.SETS, lambda name: list(tables.MODELS), tables.load, by_split=True),
        Suite("ablation", "mse", ablation.SETS, lambda name: list(ablation.LEVERS), ablation.load),
    )
}
ALL_MODELS: dict[str, Model] = {**MODELS, **tables.MODELS, **ablation.LEVERS}
