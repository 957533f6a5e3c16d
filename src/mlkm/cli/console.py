"""Everything that commands share: they read model files and check outputs here, write results to standard output, notes
and progress to standard error, and end with an exit code.

Exit codes: 0 fine, 1 the work failed, 2 the command was wrong, 130 interrupted, 143 terminated.
"""

import json
import os
import signal
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console as RichConsole
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from ..data.table_files import is_hidden
from ..files import load
from ..runtime.atomic import check_writable, interrupted_by_sigterm
from ..runtime.callbacks import left_in_words
from ..runtime.confidence import exact_level
from ..runtime.progress import Event, Listener, telling

FAILED, USAGE = 1, 2
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


class UsageError(Exception):
    """An error of the caller of a command, with a sentence that says what is wrong."""


class Console:
    """The output of a command; with `as_json` its result is one JSON object, with all notes in it."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self.notes: list[str] = []
        self.output, self.errors = RichConsole(highlight=False), RichConsole(stderr=True, highlight=False)

    def note(self, text: str) -> None:
        """Write something worth knowing that is no result, once."""
        if text not in self.notes:
            self.notes.append(text)
            if not self.as_json:
                typer.echo(f"Note: {text}", err=True)

    @contextmanager
    def working(self, what: str) -> Iterator[None]:
        """Show what is being done, with a bar for the stage that a fit is in; on a terminal only."""
        if self.as_json or not self.errors.is_terminal:
            yield
            return
        columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(20), TimeElapsedColumn()
        progress = Progress(*columns, console=self.errors, transient=True)
        task = progress.add_task(_plain(what), total=None)
        with progress, telling(_Stages(progress, task, _plain(what))):
            yield

    def result(self, data: dict[str, Any], rows: Sequence[tuple[str, str]] = (), last: str = "") -> None:
        """Write the result, as data or as a list of names and values with a closing sentence."""
        if self.as_json:
            typer.echo(json.dumps({**data, "notes": self.notes}, indent=2, allow_nan=False))
            return
        if self.output.is_terminal:
            grid = Table.grid(padding=(0, 2))
            for name, value in rows:
                grid.add_row(f"[bold]{_plain(name)}[/bold]", _plain(value))
            self.output.print(grid)
        else:
            width = max((len(name) for name, _ in rows), default=0)
            for name, value in rows:
                typer.echo(f"{name:<{width}}  {value}")
        if last:
            typer.echo(last)


@dataclass(frozen=True)
class _Stages(Listener):
    """A listener that moves the bar of one piece of work by the stages of the fits in it."""

    progress: Progress
    task: TaskID
    what: str

    def tell(self, event: Event) -> None:
        """Show the stage of a fit."""
        left = left_in_words(event)
        description = f"{self.what}: {event.stage}" + (f", {left}" if left else "")
        self.progress.update(self.task, description=description, completed=event.done, total=event.total)
        if event.done == 0:  # a stage is shown once at least, however quickly it is over
            self.progress.refresh()

    def say(self, line: str, event: Event) -> None:
        """Ignore lines on how long a fit will take, since commands say that themselves."""

    def close(self) -> None:
        """Do nothing, since the bar ends with the work."""


def _plain(text: str) -> str:
    """Return text in which rich sees no markup."""
    return text.replace("[", "\\[")


@contextmanager
def console_of(as_json: bool = False) -> Iterator[Console]:
    """Run a command: errors inside become one sentence and an exit code, and warnings become notes.

    With the environment variable MLKM_DEBUG set, errors are raised with their traceback instead.
    """
    console = Console(as_json)
    try:
        with interrupted_by_sigterm(), warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = lambda message, *_, **__: console.note(" ".join(str(message).split()))
            yield console
    except KeyboardInterrupt as stop:
        by = stop.args[0] if stop.args else signal.SIGINT
        _end(console, "Stopped: outputs that were not complete were not written.", 128 + by)
    except UsageError as problem:
        _end(console, str(problem), USAGE)
    except (typer.Exit, typer.Abort):
        raise
    except Exception as problem:
        if os.environ.get("MLKM_DEBUG"):
            raise
        _end(console, sentence(problem), FAILED)


def _end(console: Console, text: str, code: int) -> None:
    """Write an error and leave the command with an exit code."""
    if console.as_json:
        typer.echo(json.dumps({"error": text, "notes": console.notes}, indent=2))
    typer.echo(text, err=True)
    raise typer.Exit(code)


def sentence(problem: Exception) -> str:
    """Return an error as one sentence."""
    if isinstance(problem, MemoryError) and not str(problem):
        return "There is not enough memory for this."
    if isinstance(problem, OSError) and problem.strerror and problem.filename is not None:
        return f"{str(problem.filename)!r}: {problem.strerror}."
    text = " ".join(str(problem).split())
    known = isinstance(problem, (ValueError, TypeError, OSError, ImportError, MemoryError))
    return text if known and text else f"{type(problem).__name__}: {text or 'no more is known'}."


def load_model(path: Path) -> Any:
    """Return the model in a file."""
    if not path.exists():
        raise UsageError(f"There is no file {str(path)!r}.")
    if path.is_dir():
        raise UsageError(f"A model is a file; got {str(path)!r}, which is a folder.")
    return load(path)


def check_level(level: float) -> None:
    """Refuse a confidence level that is not between 0 and 1."""
    try:
        exact_level(level)
    except (TypeError, ValueError) as problem:
        raise UsageError(f"--confidence-level: {problem}") from None


def check_output(path: Path, what: str, kinds: Sequence[str] = (), inputs: Sequence[Path] = ()) -> None:
    """Refuse an output before any work is done for it.

    Parameters
    ----------
    path : the file to be written
    what : what it is called in messages
    kinds : the endings that its name may have
    inputs : files and folders that are read: the output may not be one of these files, nor in one of these folders,
        where the next run would read it
    """
    try:
        check_writable(path)
    except OSError as problem:
        raise UsageError(sentence(problem)) from None
    if kinds and path.suffix.lower() not in kinds:
        raise UsageError(f"The name of the {what} must end in {' or '.join(kinds)}; got {path.name!r}.")
    place = path.resolve()
    for source in (source.resolve() for source in inputs):
        if place == source:
            raise UsageError(f"The {what} would overwrite {str(path)!r}, which is read; give it another name.")
        if source.is_dir() and place.is_relative_to(source) and not is_hidden(place, source):
            raise UsageError(
                f"The {what} would be in {str(source)!r}, whose files are read; put it into another folder."
            )
