"""The commands of `mlkm`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from . import fit, models, report  # noqa: F401  (they add their commands)
from .app import app as app
from .console import talking
from .opening import Json
from .outputs import check_out

if TYPE_CHECKING:
    from .demo import DemoData, Result


@app.command()
def demo(
    picture: Annotated[Path, typer.Option(help="Where to save the picture of the fitted components.")] = Path(
        "mlkm-demo.png"
    ),
    n: Annotated[int, typer.Option(min=50, help="Training rows.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of data and models.")] = 0,
    smooth: Annotated[bool, typer.Option("--smooth", help="Leave the staircase out of the data.")] = False,
    as_json: Json = False,
) -> None:
    """From kernel ridge to MLKM one step at a time, and the published machines, on Example 2 of the paper with a
    staircase added.

    \b
    Examples:
      mlkm demo
      mlkm demo --smooth --picture smooth.png
    """
    with talking(as_json) as talk:
        missing = _check_picture(picture)
        from .demo import draw_data, fit_and_score, published_machines, steps_to_mlkm

        data, steps, published = draw_data(n, seed, stairs=not smooth), steps_to_mlkm(seed), published_machines(seed)
        results = []
        for name, model in [*steps, *published]:
            with talk.working(f"fitting {name}"):
                results.append(fit_and_score(name, model, data))
        saved = [] if missing is not None else _draw(picture, results, len(steps), data)
        if as_json:
            talk.result({"results": [_as_data(r) for r in results], "pictures": list(map(str, saved))})
            return
        staircase = "" if smooth else " and a staircase"
        title = f"Example 2, d = 10{staircase}: {n} training rows, {n} for calibration, {len(data.y_test)} test rows"
        talk.console.print(_table(title, results, len(steps)))
        talk.console.print(_reading(smooth))
        if missing is not None:
            talk.console.print(f"No picture: it needs the package {missing!r} (pip install 'mlkm[plot]').")
        else:
            talk.console.print(f"The fitted components are in {saved[0]}, and the band of MLKM in {saved[1]}.")


def _draw(picture: Path, results: "Sequence[Result]", n_steps: int, data: "DemoData") -> list[Path]:
    """Both pictures."""
    from .pictures import plot_components, plot_demo_band, save_picture

    best = results[n_steps - 1]
    shown = {
        "kernel ridge": results[0],
        "smooth random features with relevances": results[n_steps - 2],
        "MLKM as published": results[n_steps],
        "MLKM": best,
    }
    band_picture = picture.with_name(f"{picture.stem}-band{picture.suffix}")
    save_picture(plot_components(shown, data), picture)
    save_picture(plot_demo_band(best, data), band_picture)
    return [picture, band_picture]


def _as_data(result: "Result") -> dict[str, Any]:
    names = ("name", "mse", "excess", "coverage", "length", "seconds")
    return {name: getattr(result, name) for name in names}


def _check_picture(picture: Path) -> str | None:
    """Return the package that is missing for pictures, or None; raise an error if a picture could not be saved."""
    try:
        from .pictures import kinds
    except ModuleNotFoundError as missing:
        return missing.name
    check_out(picture, "picture", kinds())
    return None


def _table(title: str, results: "Sequence[Result]", n_steps: int) -> Table:
    table = Table(title=title)
    for heading in ("model", "test MSE", "excess over noise", "95 % band: coverage", "length", "fit seconds"):
        table.add_column(heading, justify="left" if heading == "model" else "right")
    for number, r in enumerate(results, 1):
        table.add_row(
            r.name,
            f"{r.mse:.3f}",
            f"{r.excess:.3f}",
            f"{100 * r.coverage:.1f} %",
            f"{r.length:.2f}",
            f"{r.seconds:.2f}",
            style="bold" if number == n_steps else None,
            end_section=number == n_steps,
        )
    return table


def _reading(smooth: bool) -> str:
    """How to read the table."""
    last = (
        "Without the staircase there is nothing rough to find."
        if smooth
        else "The last step follows the staircase; with --smooth there is none."
    )
    return (
        "The noise has variance 1: excess is what a fit adds to it, and the shortest band that covers 95 % has length"
        " 3.92. Random features at one scale stand in for kernel ridge's kernel, at a cost linear in n; each + is"
        f" the row above and one thing more. {last}"
    )
