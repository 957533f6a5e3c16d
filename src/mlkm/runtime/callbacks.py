"""Callbacks of scikit-learn (`model.set_callbacks(ProgressBar())`), from version 1.9 on, and other listeners.

A fit is a task and every stage of it (`mlkm.runtime.progress`) is a task inside. A callback cannot stop a fit, since a
stage has no result before it is over.

Progress is also reported to a function or to stderr (`verbose`), with bars of rich in a terminal and one line per stage
elsewhere, or where rich is not installed. No bar is drawn in the first second, so that a short fit leaves no flicker,
and the remaining time is shown for stages of more than five seconds.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from numbers import Integral
from time import perf_counter
from typing import Any, TextIO, TypeVar, cast

from .checks import brief
from .progress import Event, Listener, telling
from .sizes import ANNOUNCED_SECONDS, QUIET_SECONDS

F = TypeVar("F", bound=Callable[..., object])

try:
    from sklearn.callback import CallbackSupportMixin
    from sklearn.callback import with_callbacks as _managed
except ImportError:  # before 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """A class without methods, for versions of scikit-learn that have no callbacks."""

    def _managed(method: F) -> F:
        return method


__all__ = ["CallbackSupportMixin", "Tasks", "reported", "with_callbacks"]


def with_callbacks(method: F) -> F:
    """Return a method after which scikit-learn tears callbacks down, however it ends."""
    return cast(F, _managed(method))


class Tasks(Listener):
    """The stages of a fit as tasks of scikit-learn's callbacks. The fit begins when this is made, and ends with
    `finish`."""

    def __init__(self, model: CallbackSupportMixin, X: object, y: object, sample_weight: object) -> None:
        metadata = None if sample_weight is None else {"sample_weight": sample_weight}
        self.model, self.data = model, {"X": X, "y": y, "metadata": metadata}
        self.fit = model._init_callback_context(max_subtasks=None)
        self.fit.call_on_fit_task_begin(estimator=model, **self.data)
        self.open: dict[str, Any] = {}

    def tell(self, event: Event) -> None:
        """Begin a task at the first event of a stage, and end it at the last."""
        if event.left == 0:
            self._end(event.stage)
        elif event.stage not in self.open:
            # None: it has steps, how many is not known, and a bar of its own
            task = self.open[event.stage] = self.fit.subcontext(task_name=event.stage, max_subtasks=None)
            task.call_on_fit_task_begin(estimator=self.model)

    def close(self) -> None:
        """End all open tasks."""
        for name in list(self.open):
            self._end(name)

    def finish(self) -> None:
        """Tell callbacks that the fit is over; the model is fitted, so that they may ask it to predict."""
        self.fit.call_on_fit_task_end(estimator=self.model, reconstruction_attributes={}, **self.data)

    def _end(self, name: str) -> None:
        task = self.open.pop(name, None)
        if task is not None:
            task.call_on_fit_task_end(estimator=self.model)


@contextmanager
def reported(
    model: CallbackSupportMixin, X: object, y: object, sample_weight: object, verbose: object
) -> Iterator[None]:
    """Report the progress of the fit inside as `verbose` asks for, and to the callbacks of the model, if it has any."""
    tasks = Tasks(model, X, y, sample_weight) if getattr(model, "_skl_callbacks", None) else None
    with listening(verbose, tasks):
        yield
    if tasks is not None:
        tasks.finish()


def listening(verbose: object, tasks: Tasks | None = None) -> AbstractContextManager[None]:
    """Report the progress of the work inside as `verbose` asks for: not at all (0), as stages on stderr (1), or as
    events that a function gets; and as tasks, if there are callbacks."""
    return telling(_listener(verbose), tasks)


def _listener(verbose: object) -> Listener | None:
    """Return the listener that `verbose` asks for, or None."""
    if callable(verbose) and not isinstance(verbose, type):
        return Called(verbose)
    if not isinstance(verbose, Integral) or int(verbose) < 0:
        raise ValueError(f"verbose must be 0, 1 or a function of events; got {brief(verbose)}.")
    return _on_stderr() if verbose else None


@dataclass(frozen=True)
class Called(Listener):
    """A function that gets every event."""

    function: Callable[[Event], object]

    def tell(self, event: Event) -> None:
        """Call the function; a StopIteration would end an optimisation as if it had converged."""
        try:
            self.function(event)
        except StopIteration as stop:  # which would end a climb as if it were done
            raise RuntimeError("The function given as verbose raised StopIteration.") from stop

    def say(self, line: str, event: Event) -> None:
        """Pass the event on."""
        self.tell(event)


def _on_stderr() -> Listener:
    """Return the listener that suits stderr: bars of rich in a terminal, lines elsewhere and without rich."""
    out = sys.stderr
    if hasattr(out, "isatty") and out.isatty():
        with suppress(ImportError):
            return RichBars()
    return Lines(out)


def words_of(event: Event) -> str:
    """Describe a stage in words.

    >>> words_of(Event("search", 5, 20, 4.0, 12.0))
    'search: 5 of 20, 4.0 s, about 12 s left'
    >>> words_of(Event("search", 20, 20, 16.0, 0.0))
    'search: 16.0 s'
    """
    if event.left == 0:
        return f"{event.stage}: {event.seconds:.1f} s"
    of = "" if event.total is None else f" of {event.total}"
    rest = f", {left_in_words(event)}" if left_in_words(event) else ""
    return f"{event.stage}: {event.done}{of}, {event.seconds:.1f} s{rest}"


def left_in_words(event: Event) -> str:
    """Return the time that is left of a stage in words; nothing for a short stage."""
    worth = event.left is not None and event.seconds + event.left >= ANNOUNCED_SECONDS
    return f"about {event.left:.0f} s left" if worth else ""


class Lines(Listener):
    """One line for every stage that is over, as logs have it."""

    def __init__(self, out: TextIO) -> None:
        self.out = out

    def tell(self, event: Event) -> None:
        """Write a line when a stage is over."""
        if event.left == 0:
            self.say(words_of(event), event)

    def say(self, line: str, event: Event) -> None:
        """Write the line."""
        self.out.write(f"mlkm: {line}\n")
        self.out.flush()


class RichBars(Listener):
    """Progress bars of rich, from the first second on; the bar of a long stage stays."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

        columns = (
            TextColumn("{task.description:<10}"),
            BarColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
        )
        self.begin, self.started = perf_counter(), False
        self.tasks: dict[str, TaskID] = {}
        self.progress = Progress(*columns, console=Console(stderr=True), transient=False)

    def tell(self, event: Event) -> None:
        """Update the bar of a stage, which appears after the first second."""
        if not self.started:
            if perf_counter() - self.begin < QUIET_SECONDS or event.left == 0:
                return
            self.progress.start()
            self.started = True
        task = self.tasks.get(event.stage)
        if task is None:
            task = self.tasks[event.stage] = self.progress.add_task(event.stage, total=event.total, left="")
        done = event.done or 1 if event.left == 0 else event.done
        total = done if event.left == 0 else event.total
        self.progress.update(task, completed=done, total=total, left=left_in_words(event) if event.left else "")
        if event.left == 0:
            self.progress.stop_task(self.tasks.pop(event.stage))

    def say(self, line: str, event: Event) -> None:
        """Print the line above the bars."""
        self.progress.console.print(f"mlkm: {line}", highlight=False)

    def close(self) -> None:
        """Stop drawing."""
        if self.started:
            self.progress.stop()
