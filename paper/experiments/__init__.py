"""One module per table or figure; `EXPERIMENTS` holds them by name, in the order of the paper."""

from . import (
    appendix,
    bias,
    coverage,
    descent,
    deviations,
    figure3,
    figure5,
    rates,
    table1,
    table2,
    table4,
    table5,
    table7,
    table8,
    table9,
    table10,
)

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        table1.EXPERIMENT,
        table2.TABLE2,
        table2.TABLE3,
        figure3.FIGURE3,
        figure3.FIGURE4,
        table4.EXPERIMENT,
        figure5.EXPERIMENT,
        table5.TABLE5,
        table5.TABLE6,
        table7.EXPERIMENT,
        table8.EXPERIMENT,
        table9.EXPERIMENT,
        table10.EXPERIMENT,
        deviations.EXPERIMENT,
        appendix.EXPERIMENT,
        rates.EXPERIMENT,
        descent.EXPERIMENT,
        coverage.EXPERIMENT,
        bias.EXPERIMENT,
    )
}
