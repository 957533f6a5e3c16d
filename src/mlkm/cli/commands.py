"""The commands of `mlkm`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

if TYPE_CHECKING:
    from .demo import Result

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Multi-Layer Kernel Machines.")


@app.callback()
def _mlkm() -> None:
    """Multi-Layer Kernel Machines: regression that needs no tuning."""


@app.command()
def demo(
    picture: Annotated[Path, typer.Option(help="Where to save the picture of the fitted components.")] = Path(
        "mlkm-demo.png"
    ),
    n: Annotated[int, typer.Option(min=50, help="Training rows.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of data and models.")] = 0,
    smooth: Annotated[bool, typer.Option("--smooth", help="Leave the staircase out of the data.")] = False,
) -> None:
    """From kernel ridge to MLKM one step at a time, and the published machines, on Example 2 of the paper with a
    staircase added."""
    console = Console()
    missing = _check_picture(picture)
    from .demo import draw_data, fit_and_score, published_machines, steps_to_mlkm

    data, steps, published = draw_data(n, seed, stairs=not smooth), steps_to_mlkm(seed), published_machines(seed)
    results = []
    with Progress(
        SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=console, transient=True
    ) as progress:
        for name, model in [*steps, *published]:
            task = progress.add_task(f"fitting {name}", total=None)
            results.append(fit_and_score(name, model, data))
            progress.remove_task(task)
    staircase = "" if smooth else " and a staircase"
    title = f"Example 2, d = 10{staircase}: {n} training rows, {n} for calibration, {len(data.y_test)} test rows"
    console.print(_table(title, results, len(steps)))
    console.print(_reading(smooth))
    if missing is not None:
        console.print(f"No picture: it needs the package {missing!r} (pip install 'mlkm[plot]').")
        return
    from .pictures import plot_components, plot_demo_band

    best = results[len(steps) - 1]
    shown = {
        "kernel ridge": results[0],
        "smooth random features with relevances": results[len(steps) - 2],
        "MLKM as published": results[len(steps)],
        "MLKM": best,
    }
    plot_components(shown, data).savefig(picture, dpi=120)
    band_picture = picture.with_name(f"{picture.stem}-band{picture.suffix}")
    plot_demo_band(best, data).savefig(band_picture, dpi=120)
    console.print(f"The fitted components are in {picture}, and the band of MLKM in {band_picture}.")


def _check_picture(picture: Path) -> str | None:
    """The package that is missing for pictures, if one is; the end where a picture could not be saved."""
    try:
        from .pictures import why_not
    except ModuleNotFoundError as missing:
        return missing.name
    reason = why_not(picture)
    if reason is not None:
        typer.echo(reason, err=True)
        raise typer.Exit(2)
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
