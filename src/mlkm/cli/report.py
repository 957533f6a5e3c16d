"""`mlkm report`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ..fit.apply import later_rows, names_of
from ..report.document import make_report, plotly_script
from ..report.words import number, percent
from .app import app
from .console import UsageError, talking
from .opening import Json, loaded
from .outputs import check_out
from .reading import left_out, matched, opened, with_target


@app.command()
def report(
    model: Annotated[Path, typer.Argument(help="A model that mlkm fit or mlkm.save wrote.")],
    table: Annotated[Path, typer.Argument(help="Rows that the fit has not seen, with their target.")],
    out: Annotated[Path, typer.Option(help="Where to write the report.")] = Path("report.html"),
    target: Annotated[str | None, typer.Option(help="The target; by default that of mlkm fit.")] = None,
    as_json: Json = False,
) -> None:
    """Judge a model by rows that it has not seen, as a page that opens without a network.

    \b
    Examples:
      mlkm report model.mlkm later.csv --out report.html
      mlkm report model.mlkm later.parquet --target price --json
    """
    with talking(as_json) as talk:
        check_out(out, "report", (".html", ".htm"), [model, table])
        plotly_script()
        with talk.working(f"reading {model} and {table}"):
            band = loaded(model)
            source = opened(table)
        target = target or getattr(band, "fit_facts_", {}).get("target")
        if target is None:
            raise UsageError("The model does not say what its target is; name it with --target.")
        names = names_of(band)
        if names is not None:
            extra = [name for name in matched(table, source, names) if name != target]
            if extra:
                talk.note(f"Columns that the model does not use: {', '.join(map(repr, extra))}.")
        with talk.working(f"reading {table}"):
            rows = with_target(table, later_rows(source, band), target, names)
        if rows.left_out:
            talk.note(left_out(rows, target))
        with talk.working("writing the report"):
            page = make_report(band, rows.inputs, rows.y, title=f"Report on {target}", said={"judged": table.name})
            page.save(out)
        facts = page.facts
        own = facts.scores[0]
        data: dict[str, Any] = {
            "report": str(out),
            "rows": len(rows),
            "left_out": rows.left_out,
            "scores": [
                {"model": s.name, "rmse": s.rmse, "mae": s.mae, "r2": s.r2 if s.r2 == s.r2 else None}
                for s in facts.scores
            ],
            "coverage": None if facts.band is None else facts.band.overall.share,
        }
        lines = [("rows", f"{len(rows):,}"), ("error", f"{number(own.rmse)} (root mean square), R² {own.r2:.3f}")]
        if facts.band is not None:
            inside = f"{percent(facts.band.overall.share)} of outcomes; asked for: {percent(facts.band.level)}"
            lines.append(("inside the band", inside))
        talk.result(data, lines, f"The report is in {out}.")
