"""The commands of `mlkm`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Multi-Layer Kernel Machines.")


@app.callback()
def _mlkm() -> None:
    """Multi-Layer Kernel Machines: regression that needs no tuning."""


@app.command()
def demo(
    picture: Annotated[Path, typer.Option(help="Where to save the picture of the fitted components.")] = Path(
        "mlkm-demo.png"
    ),
    n: Annotated[int, typer.Option(min=50, help="Training rows.")] = 2000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of data and models.")] = 0,
) -> None:
    """Fit kernel ridge, random features, MLKM and RKM to Example 1 of the paper (d = 8) and compare them."""
    from .demo import competitors, draw_data, fit_and_score

    console = Console()
    data = draw_data(n, seed)
    results = []
    with Progress(
        SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=console, transient=True
    ) as progress:
        for name, model in competitors(seed):
            task = progress.add_task(f"fitting {name}", total=None)
            results.append(fit_and_score(name, model, data))
            progress.remove_task(task)
    table = Table(
        title=(
            f"Example 1, d = 8: {n} training rows, {n} for calibration, {len(data.y_test)} test rows, noise variance 1"
        )
    )
    for heading in ("model", "test MSE", "excess over noise", "95 % band: coverage", "length", "fit seconds"):
        table.add_column(heading, justify="left" if heading == "model" else "right")
    for r in results:
        table.add_row(
            r.name,
            f"{r.mse:.3f}",
            f"{r.excess:.3f}",
            f"{100 * r.coverage:.1f} %",
            f"{r.length:.2f}",
            f"{r.seconds:.2f}",
        )
    console.print(table)
    console.print("With noise of variance 1, the shortest band that covers 95 % has length 3.92.")
    try:
        from ..plotting import plot_components, plot_demo_band
    except ModuleNotFoundError as missing:
        console.print(f"No picture: it needs the package {missing.name!r} (pip install 'mlkm[plot]').")
        return
    plot_components(results, data).savefig(picture, dpi=120)
    band_picture = picture.with_name(f"{picture.stem}-band{picture.suffix}")
    plot_demo_band(results[-1], data).savefig(band_picture, dpi=120)
    console.print(f"The fitted components are in {picture}, and the band of {results[-1].name} in {band_picture}.")
